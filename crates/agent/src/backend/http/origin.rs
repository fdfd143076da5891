//! Where an HTTP app is, and how it is connected to: by TCP, with TLS or without, or by a socket in the
//! file system.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use link::socket;
use link::tls::ClientTls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

use crate::config::TlsFiles;

/// What is offered by ALPN: requests are written as HTTP/1.1.
pub const ALPN: &[u8] = b"http/1.1";

/// An app's place, and the beginning of all its paths.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Origin {
    /// How it is connected to.
    pub way: Way,
    /// Stands before every path; without a slash at its end.
    pub base: Box<str>,
}

/// How an app is connected to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Way {
    /// By TCP.
    Tcp {
        /// Host of the app.
        host: String,
        /// Its port.
        port: u16,
        /// TLS, if it speaks that.
        tls: Option<AppTls>,
    },
    /// By a socket in the file system.
    Unix(PathBuf),
}

/// TLS towards an app.
#[derive(Clone, Debug)]
pub struct AppTls {
    /// What was configured.
    pub files: TlsFiles,
    /// The same, loaded.
    pub client: ClientTls,
}

impl Eq for AppTls {}

impl PartialEq for AppTls {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

/// A connection of any kind.
pub trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

impl Origin {
    /// What messages call the app: `host:port`, or `unix:` and a path.
    pub fn address(&self) -> String {
        match &self.way {
            Way::Tcp { host, port, .. } => wire::address::join(host, *port),
            Way::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// What the header `host` says.
    pub fn host(&self) -> String {
        match &self.way {
            Way::Tcp { .. } => self.address(),
            Way::Unix(_) => "localhost".to_owned(),
        }
    }

    /// Connects, with all handshakes, within `timeout`.
    ///
    /// # Errors
    /// What the operating system or TLS says, or that it took too long.
    pub async fn connect(&self, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        Ok(match &self.way {
            Way::Tcp { host, port, tls: None } => {
                Box::new(socket::connect(host, *port, timeout).await?)
            }
            Way::Tcp { host, port, tls: Some(tls) } => {
                Box::new(socket::connect_tls(host, *port, &tls.client, timeout).await?)
            }
            Way::Unix(path) => {
                let connected = tokio::time::timeout(timeout, UnixStream::connect(path)).await;
                let late = || io::Error::new(io::ErrorKind::TimedOut, "connecting timed out");
                Box::new(connected.map_err(|_| late())??)
            }
        })
    }

    /// Uses the certificates that `new` has read from the same files.
    pub fn renew(&self, new: &Self) {
        if let (Way::Tcp { tls: Some(own), .. }, Way::Tcp { tls: Some(new), .. }) =
            (&self.way, &new.way)
            && own == new
        {
            own.client.replace(&new.client);
        }
    }
}
