//! Where a client connects to, and how it gets a connection there.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::Connection;

use super::config::ClientConfig;
use crate::error::SetupError;
use crate::link_stream::LinkStream;
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

/// Makes the connections of one client: where to, and how.
pub(crate) struct Dialer {
    host: String,
    port: u16,
    traffic: Option<Arc<Traffic>>,
    #[cfg(feature = "tls")]
    tls: Option<ClientTls>,
}

impl Dialer {
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
    pub(crate) async fn connect(&self, timeout: Duration) -> io::Result<LinkStream> {
        #[cfg(feature = "tls")]
        let began = std::time::Instant::now();
        let stream = wire::socket::connect(&self.host, self.port, timeout).await?;
        let stream = Connection::outgoing(stream, "link")?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let shaking = tls.0.connect(&self.host, stream);
            let left = timeout.saturating_sub(began.elapsed());
            return match tokio::time::timeout(left, shaking).await {
                Ok(shaken) => Ok(LinkStream::new(shaken?, self.traffic.clone())),
                Err(_) => {
                    let text = "the server did not finish the TLS handshake in time";
                    Err(io::Error::new(io::ErrorKind::TimedOut, text))
                }
            };
        }
        Ok(LinkStream::new(stream, self.traffic.clone()))
    }
}

impl fmt::Display for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&wire::address::join(&self.host, self.port))
    }
}
