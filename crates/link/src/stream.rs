//! Where a client connects to, and the byte stream that it gets.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::Connection;

use crate::client::ClientConfig;
use crate::error::SetupError;
use crate::socket;
#[cfg(feature = "tls")]
use crate::tls::ClientTls;
use crate::traffic::Traffic;

/// A server's address as the user gives it: `HOST:PORT`, an IPv6 address in brackets. It is read,
/// and the host's name resolved, when a client connects.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Address(String);

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<&String> for Address {
    fn from(text: &String) -> Self {
        Self(text.clone())
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self(address.to_string())
    }
}

/// Where a client connects to, and how.
pub(crate) struct Target {
    host: String,
    port: u16,
    traffic: Option<Arc<Traffic>>,
    #[cfg(feature = "tls")]
    tls: Option<ClientTls>,
}

impl Target {
    /// Reads an address.
    ///
    /// # Errors
    /// It is not `HOST:PORT`, or no certificate can be for that host.
    pub(crate) fn new(
        Address(address): &Address,
        config: &ClientConfig,
    ) -> Result<Self, SetupError> {
        let wrong = || SetupError::Address(address.clone());
        let (host, port) = wire::address::split(address).map_err(|_| wrong())?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &config.tls {
            tls.0.server_name(host)?;
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            traffic: config.traffic.clone(),
            #[cfg(feature = "tls")]
            tls: config.tls.clone(),
        })
    }

    /// Connects, with all handshakes that come before the link's own.
    ///
    /// # Errors
    /// What the operating system or TLS says, or that it took too long.
    pub(crate) async fn connect(&self, timeout: Duration) -> io::Result<Stream> {
        #[cfg(feature = "tls")]
        let deadline = tokio::time::Instant::now() + timeout;
        let stream = socket::connect(&self.host, self.port, timeout).await?;
        let stream = Connection::outgoing(stream, "link")?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let shaking = tls.0.connect(&self.host, stream);
            return match tokio::time::timeout_at(deadline, shaking).await {
                Ok(shaken) => Ok(Stream::new(shaken?, self.traffic.clone())),
                Err(_) => {
                    let text = "the server did not finish the TLS handshake in time";
                    Err(io::Error::new(io::ErrorKind::TimedOut, text))
                }
            };
        }
        Ok(Stream::new(stream, self.traffic.clone()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&wire::address::join(&self.host, self.port))
    }
}

/// The byte stream below a link.
pub(crate) struct Stream {
    connection: Connection,
    /// Nothing has come yet.
    is_fresh: bool,
    /// What is counted of it; of plain TCP alone.
    traffic: Option<Arc<Traffic>>,
}

impl Stream {
    pub(crate) fn new(connection: Connection, traffic: Option<Arc<Traffic>>) -> Self {
        let traffic = traffic.filter(|_| !connection.is_tls());
        Self { connection, is_fresh: true, traffic }
    }

    /// How reading ends where TLS was cut off without a word: as TCP does. The link's frames say
    /// what is cut off, so nothing is lost by that.
    fn end_of_tls(&self, error: io::Error) -> io::Result<()> {
        if error.kind() == io::ErrorKind::UnexpectedEof && self.connection.is_tls() {
            return Ok(());
        }
        Err(error)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(traffic) = &self.traffic {
            traffic.count_segments(self.connection.tcp_info());
        }
    }
}

/// Whether a peer's first bytes are a record of TLS. No link begins so: its first frame would be
/// longer than any may be.
fn is_tls(first: &[u8]) -> bool {
    matches!(first, [0x14..=0x17, 3, ..])
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let start = buf.filled().len();
        if let Err(error) = ready!(Pin::new(&mut this.connection).poll_read(cx, buf)) {
            return Poll::Ready(this.end_of_tls(error));
        }
        if let Some(traffic) = &this.traffic {
            traffic.count_read(buf.filled().len() - start);
        }
        if !std::mem::take(&mut this.is_fresh) || this.connection.is_tls() {
            return Poll::Ready(Ok(()));
        }
        if buf.filled().get(start..).is_some_and(is_tls) {
            let text = "the peer speaks TLS, which is not set up on this side";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.connection).poll_write(cx, buf))?;
        if let Some(traffic) = &this.traffic {
            traffic.count_write(written);
        }
        Poll::Ready(Ok(written))
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().connection).poll_shutdown(cx)
    }
}
