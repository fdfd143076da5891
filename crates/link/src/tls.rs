//! TLS below the link: that of [`wire::tls`], with the link's name by ALPN.
//!
//! A server shows its certificate chain; a client checks it against authorities of its own, since
//! services seldom have certificates of public ones. A server may ask its clients for certificates
//! in turn: handlers then see who calls by [`Peer::identity`](crate::Peer::identity).
//!
//! ```no_run
//! use link::tls::{Certificate, ClientTls, ClientTlsConfig, Clients};
//! use link::tls::{Pem, ServerTls, ServerTlsConfig};
//! use link::{Client, ClientConfig, Server, ServerConfig, Service};
//!
//! # async fn example(greeter: Service) -> Result<(), link::SetupError> {
//! let server_tls = ServerTls::new(ServerTlsConfig {
//!     certificate: Certificate { chain: Pem::file("server.pem"), key: Pem::file("server.key") },
//!     clients: Clients::Require { ca: Pem::file("ca.pem") },
//! })?;
//! let config = ServerConfig { tls: Some(server_tls.clone()), ..ServerConfig::default() };
//! let server = Server::with_config(config).offer(greeter).listen("0.0.0.0:7000").await?;
//!
//! let client_tls = ClientTls::new(ClientTlsConfig {
//!     certificate: Some(Certificate {
//!         chain: Pem::file("client.pem"),
//!         key: Pem::file("client.key"),
//!     }),
//!     ..ClientTlsConfig::with_ca(Pem::file("ca.pem"))
//! })?;
//! let config = ClientConfig { tls: Some(client_tls.clone()), ..ClientConfig::default() };
//! let client = Client::connect_with("greeter.internal:7000", config).await?;
//!
//! // Certificates have been renewed on disk: new connections use them.
//! server_tls.reload()?;
//! client_tls.reload()?;
//! # drop((server, client));
//! # Ok(())
//! # }
//! ```
//!
//! Invariants:
//! - A handshake runs in its connection's own task and ends within the time that connecting may
//!   take, so that a slow or silent peer holds up nobody.
//! - Sessions are not resumed: connections live long, and a certificate or authority that was
//!   taken away counts from the next connection on.

use std::sync::Arc;

pub use wire::tls::{
    Certificate, ClientTlsConfig, Clients, Identity, Pem, PemFault, ServerTlsConfig, TlsError,
    rustls, words,
};

/// What both sides say by ALPN that they want to speak; see "TLS" in `docs/link-protocol.md`.
pub const ALPN: &[u8] = b"dubmesh-link/1";

/// Checked settings of a client. Cheap to clone; a change is seen by all clones, and by the
/// clients that have one, when they connect the next time.
#[derive(Clone, Debug)]
pub struct ClientTls(pub(crate) wire::tls::ClientTls);

impl ClientTls {
    /// Reads and checks settings. Files are read by blocking calls.
    ///
    /// # Errors
    /// What is wrong, and in which file.
    pub fn new(config: ClientTlsConfig) -> Result<Self, TlsError> {
        wire::tls::ClientTls::new(config, &[ALPN]).map(Self)
    }

    /// Takes a ready-made configuration as it is; it should offer [`ALPN`], or nothing, by ALPN.
    /// The server's certificate must be for the host of the address.
    pub fn from_rustls(config: Arc<rustls::ClientConfig>) -> Self {
        Self(wire::tls::ClientTls::from_rustls(config))
    }

    /// Reads the files again. If anything is wrong, all stays as it was.
    ///
    /// # Errors
    /// As of [`ClientTls::new`], or there are no files.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.0.reload()
    }

    /// Takes over the settings that `other` has now.
    pub fn replace(&self, other: &Self) {
        self.0.replace(&other.0);
    }
}

/// Checked settings of a server. Cheap to clone; a change is seen by all clones, and by the
/// servers that have one, with the next connection.
#[derive(Clone, Debug)]
pub struct ServerTls(pub(crate) wire::tls::ServerTls);

impl ServerTls {
    /// Reads and checks settings. Files are read by blocking calls.
    ///
    /// # Errors
    /// What is wrong, and in which file.
    pub fn new(config: ServerTlsConfig) -> Result<Self, TlsError> {
        wire::tls::ServerTls::new(config, &[ALPN]).map(Self)
    }

    /// Takes a ready-made configuration as it is; it should know [`ALPN`], or nothing, by ALPN.
    /// Clients whose certificates it takes have identities.
    pub fn from_rustls(config: Arc<rustls::ServerConfig>) -> Self {
        Self(wire::tls::ServerTls::from_rustls(config))
    }

    /// Reads the files again. If anything is wrong, all stays as it was.
    ///
    /// # Errors
    /// As of [`ServerTls::new`], or there are no files.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.0.reload()
    }

    /// Takes over the settings that `other` has now.
    pub fn replace(&self, other: &Self) {
        self.0.replace(&other.0);
    }
}
