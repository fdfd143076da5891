//! TLS over a connection, by rustls: both sides may show certificates.
//!
//! A server shows its certificate chain; a client checks it against authorities of its own, since
//! services seldom have certificates of public ones. A server may ask its clients for certificates
//! in turn, and then knows who calls by [`Identity`].
//!
//! Invariants:
//! - A handshake runs in its connection's own task and ends within a time, so that a slow or
//!   silent peer holds up nobody.
//! - Sessions are not resumed: connections live long, and a certificate or authority that was
//!   taken away counts from the next connection on.

mod client;
mod error;
mod identity;
mod pem;
mod pem_items;
pub(super) mod records;
mod secured;
mod server;

use std::sync::Arc;

use tokio_rustls::rustls::SupportedProtocolVersion;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::version::{TLS12, TLS13};

pub use client::{ClientTls, ClientTlsConfig};
pub(crate) use error::explain;
pub use error::{TlsError, words, words_of_cause};
pub use identity::Identity;
pub use pem::{Certificate, Pem, read_file};
pub use pem_items::PemFault;
pub use secured::{SecureError, Secured};
pub use server::{Clients, RefusedHandshake, ServerTls, ServerTlsConfig};
/// The rustls that ready-made configurations are of.
pub use tokio_rustls::rustls;

/// What is said by ALPN: the protocols that are spoken, the best first. Empty: nothing is said.
pub type Protocols = &'static [&'static [u8]];

/// Versions of TLS that are spoken, the best first.
const VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// The cryptography that is used, whatever else the program has set up for its process.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn names(protocols: Protocols) -> Vec<Vec<u8>> {
    protocols.iter().map(|name| name.to_vec()).collect()
}

/// Whether a peer's first bytes are a record of TLS, as those who connect by TLS send first.
#[must_use]
pub fn is_handshake(first: &[u8]) -> bool {
    matches!(first, [0x14..=0x17, 3, ..])
}
