//! Opens, accepts and tunes TCP sockets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::TcpStream;

/// Connections that the kernel may complete before they are accepted.
pub(crate) const BACKLOG: i32 = 4096;
/// A silent peer is probed by the kernel after this time, then three times at this distance.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Binds a listening socket that is ready for use on any runtime.
///
/// # Errors
/// What the operating system says, such as that the address is in use.
pub fn listen(addr: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Bytes that the kernel takes for a peer beyond those that are on their way to it. Without a limit
/// it takes megabytes for a peer that reads nothing: memory that no budget knows, and a queue in
/// which short messages wait.
const MAX_UNSENT_LEN: u32 = 256 * 1024;

/// Connects to `host:port` within `timeout`, name resolution included.
///
/// # Errors
/// What the operating system says, or [`io::ErrorKind::TimedOut`].
pub async fn connect(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let stream = tokio::time::timeout(timeout, TcpStream::connect((host, port)))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "connecting timed out"))??;
    tune(&SockRef::from(&stream))?;
    Ok(stream)
}

/// Settings of every connection that carries calls: no waiting for full segments, no long queue in
/// the kernel, and it notices when the other machine is gone. Connections that a listening socket
/// accepts have the settings of that socket, which saves six system calls for each of them.
///
/// # Errors
/// What the operating system says.
pub(crate) fn tune(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    // Some sandboxes do not know it, and do without.
    let _ = socket.set_tcp_notsent_lowat(MAX_UNSENT_LEN);
    socket.set_tcp_keepalive(
        &TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(3),
    )
}
