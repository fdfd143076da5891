//! Opens, accepts and tunes TCP sockets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpSocket, TcpStream};

/// Probes of a silent peer that may stay unanswered.
const N_PROBES: u32 = 3;

/// How the kernel carries a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SocketOptions {
    /// Bytes that the kernel keeps until the peer has confirmed them (`SO_SNDBUF`); `None` lets it
    /// find out what the network needs.
    pub send_buffer_len: Option<usize>,
    /// Bytes that the kernel keeps until this process reads them (`SO_RCVBUF`), and so what the
    /// peer may send in one round trip; `None` lets it find out what the network needs.
    pub receive_buffer_len: Option<usize>,
    /// Bytes that the kernel takes for a peer beyond those that are on their way to it
    /// (`TCP_NOTSENT_LOWAT`).
    pub max_unsent_len: u32,
    /// Whether short messages leave at once, instead of waiting for what was sent before them to
    /// be confirmed (`TCP_NODELAY`).
    pub nodelay: bool,
    /// A silent peer is probed after this time, and again at this distance; `None` never probes.
    pub keepalive: Option<Duration>,
    /// The connection ends when what was sent is not confirmed for so long
    /// (`TCP_USER_TIMEOUT`); `None` leaves that to the kernel, which takes about 15 minutes.
    pub user_timeout: Option<Duration>,
}

impl Default for SocketOptions {
    /// No waiting for full segments, no long queue in the kernel, and it notices when the other
    /// machine is gone.
    fn default() -> Self {
        Self {
            send_buffer_len: None,
            receive_buffer_len: None,
            // Without a limit the kernel takes megabytes for a peer that reads nothing: memory
            // that no budget knows, and a queue in which short messages wait.
            max_unsent_len: 256 * 1024,
            nodelay: true,
            keepalive: Some(Duration::from_secs(30)),
            user_timeout: None,
        }
    }
}

impl SocketOptions {
    /// What has to be known before the first handshake: the buffers.
    fn set_buffers(&self, socket: &Socket) -> io::Result<()> {
        if let Some(len) = self.send_buffer_len {
            socket.set_send_buffer_size(len)?;
        }
        if let Some(len) = self.receive_buffer_len {
            socket.set_recv_buffer_size(len)?;
        }
        Ok(())
    }

    fn set_rest(&self, socket: &Socket) -> io::Result<()> {
        socket.set_tcp_nodelay(self.nodelay)?;
        // Some sandboxes do not know it, and do without.
        let _ = socket.set_tcp_notsent_lowat(self.max_unsent_len);
        if let Some(time) = self.keepalive {
            let probes = TcpKeepalive::new().with_time(time).with_interval(time);
            socket.set_tcp_keepalive(&probes.with_retries(N_PROBES))?;
        }
        match self.user_timeout {
            Some(time) => socket.set_tcp_user_timeout(Some(time)),
            None => Ok(()),
        }
    }

    /// How long the buffers are that the kernel of this machine gives to who asks for these: for
    /// sending, and for receiving. It cuts what is over `net.core.wmem_max` and
    /// `net.core.rmem_max`.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn granted_buffers(&self) -> io::Result<(usize, usize)> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        self.set_buffers(&socket)?;
        // Linux says how much memory it takes for them: twice as much.
        let times = if cfg!(target_os = "linux") { 2 } else { 1 };
        Ok((socket.send_buffer_size()? / times, socket.recv_buffer_size()? / times))
    }
}

/// How a listening socket is opened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ListenOptions {
    /// What its connections have. They inherit it from the listening socket, which saves six
    /// system calls for each of them.
    pub socket: SocketOptions,
    /// Connections that the kernel may complete before they are accepted. It takes no more than
    /// `net.core.somaxconn` says.
    pub backlog: u16,
}

impl Default for ListenOptions {
    fn default() -> Self {
        Self { socket: SocketOptions::default(), backlog: 4096 }
    }
}

/// Binds a listening socket that is ready for use on any runtime.
///
/// # Errors
/// What the operating system says, such as that the address is in use.
pub fn listen(addr: SocketAddr) -> io::Result<std::net::TcpListener> {
    listen_with(addr, &ListenOptions::default())
}

/// The same with other options.
///
/// # Errors
/// As [`listen`].
pub fn listen_with(addr: SocketAddr, options: &ListenOptions) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    options.socket.set_buffers(&socket)?;
    socket.bind(&addr.into())?;
    options.socket.set_rest(&socket)?;
    socket.listen(options.backlog.into())?;
    Ok(socket.into())
}

/// Connects to `host:port` within `timeout`, name resolution included.
///
/// # Errors
/// What the operating system says, or [`io::ErrorKind::TimedOut`].
pub async fn connect(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    connect_with(host, port, &SocketOptions::default(), timeout).await
}

/// The same with other options.
///
/// # Errors
/// As [`connect`].
pub async fn connect_with(
    host: &str,
    port: u16,
    options: &SocketOptions,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let stream = tokio::time::timeout(timeout, connect_to_any(host, port, options))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "connecting timed out"))??;
    options.set_rest(&SockRef::from(&stream))?;
    Ok(stream)
}

/// Connects to the first address of a host that takes it.
async fn connect_to_any(host: &str, port: u16, options: &SocketOptions) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
    for address in tokio::net::lookup_host((host, port)).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        options.set_buffers(&SockRef::from(&socket))?;
        match socket.connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn options() -> SocketOptions {
        SocketOptions {
            send_buffer_len: Some(40_000),
            receive_buffer_len: Some(50_000),
            max_unsent_len: 70_000,
            nodelay: false,
            keepalive: Some(Duration::from_secs(7)),
            user_timeout: Some(Duration::from_secs(9)),
        }
    }

    /// What the kernel says of a socket.
    fn of(socket: &Socket) -> SocketOptions {
        let times = if cfg!(target_os = "linux") { 2 } else { 1 };
        SocketOptions {
            send_buffer_len: Some(socket.send_buffer_size().unwrap() / times),
            receive_buffer_len: Some(socket.recv_buffer_size().unwrap() / times),
            max_unsent_len: socket.tcp_notsent_lowat().unwrap(),
            nodelay: socket.tcp_nodelay().unwrap(),
            keepalive: Some(socket.tcp_keepalive_time().unwrap()),
            user_timeout: socket.tcp_user_timeout().unwrap(),
        }
    }

    #[tokio::test]
    async fn both_ends_have_what_was_asked_for() {
        let listening = ListenOptions { socket: options(), backlog: 3 };
        let listener = listen_with("127.0.0.1:0".parse().unwrap(), &listening).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = SocketOptions { send_buffer_len: Some(60_000), ..options() };
        let near = connect_with("127.0.0.1", port, &asked, PATIENCE).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        assert_eq!(of(&SockRef::from(&near)), asked);
        assert_eq!(of(&SockRef::from(&far)), options());
    }

    #[test]
    fn the_kernel_says_what_it_gives() {
        let granted = options().granted_buffers().unwrap();
        assert_eq!(granted, (40_000, 50_000));
        let absurd = SocketOptions { send_buffer_len: Some(1 << 30), ..options() };
        assert!(absurd.granted_buffers().unwrap().0 < 1 << 30);
    }
}
