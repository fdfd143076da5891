//! Where a client connects to, and the byte stream that it gets.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
#[cfg(feature = "tls")]
use tokio_rustls::TlsStream;
use wire::Connection;

use crate::client::ClientConfig;
use crate::error::SetupError;
use crate::socket;
#[cfg(feature = "tls")]
use crate::tls::{ClientTls, TlsSocket, explain};
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
            tls.server_name(host)?;
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
            let shaking = tls.connect(&self.host, stream);
            return match tokio::time::timeout_at(deadline, shaking).await {
                Ok(shaken) => Ok(Stream::Tls(Box::new(shaken?.into()))),
                Err(_) => {
                    let text = "the server did not finish the TLS handshake in time";
                    Err(io::Error::new(io::ErrorKind::TimedOut, text))
                }
            };
        }
        Ok(Stream::plain(stream, self.traffic.clone()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&wire::address::join(&self.host, self.port))
    }
}

/// The byte stream below a link.
pub(crate) enum Stream {
    /// TCP. `is_fresh` until the first bytes have come.
    Plain { stream: Connection, is_fresh: bool, traffic: Option<Arc<Traffic>> },
    /// TLS over TCP.
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<TlsSocket>>),
}

impl Stream {
    pub(crate) fn plain(stream: Connection, traffic: Option<Arc<Traffic>>) -> Self {
        Self::Plain { stream, is_fresh: true, traffic }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Self::Plain { stream, traffic: Some(traffic), .. } = self {
            traffic.count_segments(stream.tcp());
        }
    }
}

/// Whether a peer's first bytes are a record of TLS. No link begins so: its first frame would be
/// longer than any may be.
fn is_tls(first: &[u8]) -> bool {
    matches!(first, [0x14..=0x17, 3, ..])
}

/// How reading from TLS ends: as TCP does, if the peer has gone without a word. The link's frames
/// tell what is cut off, so nothing is lost by that.
#[cfg(feature = "tls")]
fn end_of_tls(error: io::Error, stream: &TlsStream<TlsSocket>) -> io::Result<()> {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        return Ok(());
    }
    let peer = if matches!(stream, TlsStream::Client(_)) { "server" } else { "client" };
    Err(explain(error, peer))
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain { stream, is_fresh: false, traffic: None } => {
                Pin::new(stream).poll_read(cx, buf)
            }
            Self::Plain { stream, is_fresh, traffic } => {
                let start = buf.filled().len();
                ready!(Pin::new(stream).poll_read(cx, buf))?;
                if let Some(traffic) = traffic {
                    traffic.count_read(buf.filled().len() - start);
                }
                if !std::mem::take(is_fresh) {
                    return Poll::Ready(Ok(()));
                }
                if buf.filled().get(start..).is_some_and(is_tls) {
                    let text = "the peer speaks TLS, which is not set up on this side";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)));
                }
                Poll::Ready(Ok(()))
            }
            #[cfg(feature = "tls")]
            Self::Tls(stream) => match ready!(Pin::new(&mut **stream).poll_read(cx, buf)) {
                Ok(()) => Poll::Ready(Ok(())),
                Err(error) => Poll::Ready(end_of_tls(error, stream)),
            },
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain { stream, traffic, .. } => {
                let written = ready!(Pin::new(stream).poll_write(cx, buf))?;
                if let Some(traffic) = traffic {
                    traffic.count_write(written);
                }
                Poll::Ready(Ok(written))
            }
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain { stream, .. } => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain { stream, .. } => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}
