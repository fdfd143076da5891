//! Opens and tunes sockets: those of [`wire`], and what a link's client adds to them.

use std::io;
#[cfg(feature = "tls")]
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
pub use wire::socket::{connect, listen, tune};

use crate::client::ClientConfig;
use crate::stream::{Address, Target};

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
    let stream = wire::Connection::outgoing(connect(host, port, timeout).await?, "tls")?;
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
