//! Where an HTTP app is, and how it is connected to: by TCP, with TLS or without, or by a socket
//! in the file system.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use wire::{Connection, Destination, SocketOptions};

use super::super::TlsClient;

/// An app's place, and the beginning of all its paths.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AppOrigin {
    /// How it is connected to.
    pub way: AppTransport,
    /// Stands before every path; without a slash at its end.
    pub base: Box<str>,
}

/// How an app is connected to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AppTransport {
    /// By TCP.
    Tcp {
        /// Host of the app.
        host: String,
        /// Its port.
        port: u16,
        /// TLS, if it speaks that.
        tls: Option<TlsClient>,
    },
    /// By a socket in the file system.
    Unix(PathBuf),
}

impl AppOrigin {
    /// Where that is.
    pub fn destination(&self) -> Destination {
        match &self.way {
            AppTransport::Tcp { host, port, tls } => Destination::Tcp {
                host: host.clone(),
                port: *port,
                options: SocketOptions::default(),
                tls: tls.as_ref().map(|tls| tls.client.clone()),
            },
            AppTransport::Unix(path) => Destination::Unix(path.clone()),
        }
    }

    /// What messages call the app: `host:port`, or `unix:` and a path.
    pub fn address(&self) -> String {
        self.destination().to_string()
    }

    /// Whether it is called by TLS.
    pub fn has_tls(&self) -> bool {
        matches!(&self.way, AppTransport::Tcp { tls: Some(_), .. })
    }

    /// What the header `host` says.
    pub fn host(&self) -> String {
        match &self.way {
            AppTransport::Tcp { .. } => self.address(),
            AppTransport::Unix(_) => "localhost".to_owned(),
        }
    }

    /// Connects, with all handshakes, within `timeout`.
    ///
    /// # Errors
    /// What the operating system or TLS says, or that it took too long.
    pub async fn connect(&self, timeout: Duration) -> io::Result<Connection> {
        self.destination().connect("http", timeout).await
    }

    /// Uses the certificates that `new` has read from the same files.
    pub fn renew(&self, new: &Self) {
        if let (
            AppTransport::Tcp { tls: Some(own), .. },
            AppTransport::Tcp { tls: Some(new), .. },
        ) = (&self.way, &new.way)
        {
            own.renew(new);
        }
    }
}
