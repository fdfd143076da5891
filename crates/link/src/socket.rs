//! Opens, accepts and tunes TCP sockets.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::client::ClientConfig;
use crate::stream::{Address, Target};

/// Connections that the kernel may complete before they are accepted.
const BACKLOG: i32 = 4096;
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

/// Connects to `host:port` within `timeout`, name resolution included.
///
/// # Errors
/// What the operating system says, or [`io::ErrorKind::TimedOut`].
pub async fn connect(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let stream = tokio::time::timeout(timeout, TcpStream::connect((host, port)))
        .await
        .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "connecting timed out"))??;
    tune(&stream)?;
    Ok(stream)
}

/// Like [`connect`], and shakes hands by TLS within the same time. Unlike a link's, such a connection that ends
/// without a word of TLS is an error to whoever reads from it: other protocols would take a cut for the end.
///
/// # Errors
/// What the operating system or TLS says, or [`io::ErrorKind::TimedOut`].
#[cfg(feature = "tls")]
pub async fn connect_tls(
    host: &str,
    port: u16,
    tls: &crate::tls::ClientTls,
    timeout: Duration,
) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + use<>> {
    let deadline = tokio::time::Instant::now() + timeout;
    let stream = connect(host, port, timeout).await?;
    tokio::time::timeout_at(deadline, tls.connect(host, stream)).await.map_err(|_| {
        let text = "the server did not finish the TLS handshake in time";
        io::Error::new(io::ErrorKind::TimedOut, text)
    })?
}

/// Connects to `address` as a [`Client`](crate::Client) of that configuration would: with its timeout and its
/// TLS, and counted in its traffic. For programs that [`drive`](crate::drive) a connection themselves.
///
/// # Errors
/// The address is none ([`io::ErrorKind::InvalidInput`]); what the operating system or TLS says; or that it
/// took too long.
pub async fn dial(
    address: &Address,
    config: &ClientConfig,
) -> io::Result<impl AsyncRead + AsyncWrite + Unpin + use<>> {
    let target = Target::new(address, config)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    target.connect(config.connect_timeout).await
}

/// Settings of every connection that carries calls: no waiting for full segments, and the kernel
/// notices when the other machine is gone.
///
/// # Errors
/// What the operating system says.
pub fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_keepalive(
        &TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(3),
    )
}
