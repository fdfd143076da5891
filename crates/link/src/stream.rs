//! Where a client connects to, and the byte stream that it gets.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::error::SetupError;
use crate::socket;

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
}

impl Target {
    /// Reads an address.
    ///
    /// # Errors
    /// It is not `HOST:PORT`.
    pub(crate) fn parse(Address(address): &Address) -> Result<Self, SetupError> {
        let wrong = || SetupError::Address(address.clone());
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        if host.is_empty() || bare.is_none() && host.contains(':') {
            return Err(wrong());
        }
        let port = port.parse().map_err(|_| wrong())?;
        Ok(Self { host: host.to_owned(), port })
    }

    /// Connects, with all handshakes that come before the link's own.
    ///
    /// # Errors
    /// What the operating system says, or that it took too long.
    pub(crate) async fn connect(&self, timeout: Duration) -> io::Result<Stream> {
        let stream = socket::connect(&self.host, self.port, timeout).await?;
        Ok(Stream::Plain(stream))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The byte stream below a link.
pub(crate) enum Stream {
    /// TCP.
    Plain(TcpStream),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
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
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
