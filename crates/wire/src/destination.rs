//! Where this process connects to, and how.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
#[cfg(feature = "tls")]
use std::time::Instant;

use tokio::net::UnixStream;

use crate::connection::Connection;
#[cfg(feature = "tls")]
use crate::connection::tls::ClientTls;
use crate::socket::{self, SocketOptions};

/// Where a connection goes to.
#[derive(Clone, Debug)]
pub enum Destination {
    /// A program that is reached by TCP.
    Tcp {
        /// Its name or address; IPv6 without brackets.
        host: String,
        /// Its port.
        port: u16,
        /// How the kernel carries it.
        options: SocketOptions,
        /// TLS, if that is spoken there.
        #[cfg(feature = "tls")]
        tls: Option<ClientTls>,
    },
    /// A program of this machine, by a socket in the file system.
    Unix(PathBuf),
}

impl Destination {
    /// Connects, with all handshakes, within `timeout`. `carries` is what will be spoken.
    ///
    /// # Errors
    /// What the operating system or TLS says, or [`io::ErrorKind::TimedOut`].
    pub async fn connect(
        &self,
        carries: &'static str,
        timeout: Duration,
    ) -> io::Result<Connection> {
        match self {
            #[cfg(feature = "tls")]
            Self::Tcp { host, port, options, tls: Some(tls) } => {
                let began = Instant::now();
                let stream = socket::connect_with(host, *port, options, timeout).await?;
                let connection = Connection::outgoing(stream, carries)?;
                let shaking = tls.connect(host, connection);
                let left = timeout.saturating_sub(began.elapsed());
                tokio::time::timeout(left, shaking).await.unwrap_or_else(|_| {
                    Err(late("the server did not finish the TLS handshake in time"))
                })
            }
            Self::Tcp { host, port, options, .. } => {
                let stream = socket::connect_with(host, *port, options, timeout).await?;
                Connection::outgoing(stream, carries)
            }
            Self::Unix(path) => {
                let connected = tokio::time::timeout(timeout, UnixStream::connect(path)).await;
                let stream = connected.map_err(|_| late("connecting timed out"))??;
                Ok(Connection::outgoing_unix(stream, carries))
            }
        }
    }
}

fn late(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// `host:port`, or `unix:` and a path.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } => f.write_str(&crate::address::join(host, *port)),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
