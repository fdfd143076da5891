//! TLS below the link, by rustls: both sides may show certificates.
//!
//! A server shows its certificate chain; a client checks it against authorities of its own, since
//! services seldom have certificates of public ones. A server may ask its clients for certificates
//! in turn: handlers then see who calls by [`Peer::identity`](crate::Peer::identity).
//!
//! ```no_run
//! use link::tls::{Certificate, ClientTls, ClientTlsConfig, Clients, Pem, ServerTls, ServerTlsConfig};
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
//! - Sessions are not resumed: connections live long, and a certificate or authority that was taken
//!   away counts from the next connection on.

mod client;
mod error;
mod identity;
mod pem;
mod server;

use std::sync::Arc;

use tokio::io::BufReader;
use tokio_rustls::rustls::SupportedProtocolVersion;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use wire::Connection;

pub use client::{ClientTls, ClientTlsConfig};
pub use error::{TlsError, words};
pub use identity::Identity;
pub use pem::{Certificate, Pem};
pub use server::{Clients, ServerTls, ServerTlsConfig};
/// The rustls that ready-made configurations are of.
pub use tokio_rustls::rustls;

pub(crate) use error::explain;

/// What both sides say by ALPN that they want to speak; see "TLS" in `docs/link-protocol.md`.
pub const ALPN: &[u8] = b"dubmesh-link/1";

/// Room for nearly two of the longest records. Rustls by itself reads 4 KiB at a time, which was 1.7
/// times as many system calls under load.
const READ_LEN: usize = 32 * 1024;

/// The socket below TLS, read in larger pieces than rustls asks for.
pub(crate) type TlsSocket = BufReader<Connection>;

fn buffered(stream: Connection) -> TlsSocket {
    BufReader::with_capacity(READ_LEN, stream)
}

/// Versions of TLS that are spoken, the best first.
const VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// The cryptography that is used, whatever else the program has set up for its process.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
