//! The server's side: what it shows, and which clients it takes.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::server::TlsStream;
use wire::Connection;

use super::error::{TlsError, explain};
use super::identity::Identity;
use super::pem::{Certificate, Pem};
use super::{TlsSocket, buffered};

/// A refused client gets so long to read why.
const LINGER: Duration = Duration::from_secs(1);
/// And may send so many bytes meanwhile.
const MAX_LINGER_BYTES: u64 = 64 * 1024;

/// How a server uses TLS; see [`ServerTls::new`].
#[derive(Clone, Debug)]
pub struct ServerTlsConfig {
    /// What the server shows.
    pub certificate: Certificate,
    /// What it asks of its clients.
    pub clients: Clients,
}

/// What a server asks of its clients.
#[derive(Clone, Debug)]
pub enum Clients {
    /// Nothing: anyone may call, and nobody has an identity.
    Unknown,
    /// A client may show a certificate, which must then come from these authorities. Handlers see
    /// by [`Peer::identity`](crate::Peer::identity) whether it did.
    Allow {
        /// The authorities.
        ca: Pem,
    },
    /// Only clients with a certificate from these authorities are served.
    Require {
        /// The authorities.
        ca: Pem,
    },
}

/// Checked settings of a server. Cheap to clone; a change is seen by all clones, and by the servers
/// that have one, with the next connection.
#[derive(Clone)]
pub struct ServerTls(Arc<ArcSwap<Loaded>>);

struct Loaded {
    rustls: Arc<rustls::ServerConfig>,
    /// Where it was loaded from.
    config: Option<ServerTlsConfig>,
}

impl ServerTls {
    /// Reads and checks settings. Files are read by blocking calls.
    ///
    /// # Errors
    /// What is wrong, and in which file.
    pub fn new(config: ServerTlsConfig) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(ArcSwap::from_pointee(load(config)?))))
    }

    /// Takes a ready-made configuration as it is; it should know [`ALPN`](super::ALPN), or nothing,
    /// by ALPN. Clients whose certificates it takes have identities.
    pub fn from_rustls(config: Arc<rustls::ServerConfig>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(Loaded { rustls: config, config: None })))
    }

    /// Reads the files again. If anything is wrong, all stays as it was.
    ///
    /// # Errors
    /// As of [`ServerTls::new`], or there are no files.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = self.0.load().config.clone().ok_or(TlsError::NotReloadable)?;
        self.0.store(Arc::new(load(config)?));
        Ok(())
    }

    /// Takes over the settings that `other` has now.
    pub fn replace(&self, other: &Self) {
        self.0.store(other.0.load_full());
    }

    /// Shakes hands with a client, and learns who it is. The caller limits the time.
    pub(crate) async fn accept(
        &self,
        stream: Connection,
    ) -> Result<(TlsStream<TlsSocket>, Option<Identity>), Refused> {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.0.load().rustls));
        match acceptor.accept(buffered(stream)).into_fallible().await {
            Ok(stream) => {
                let identity = stream.get_ref().1.peer_certificates().and_then(Identity::of);
                Ok((stream, identity))
            }
            Err((error, stream)) => Err(Refused { reason: explain(error, "client"), stream }),
        }
    }
}

/// A client that was refused.
pub(crate) struct Refused {
    pub reason: io::Error,
    stream: TlsSocket,
}

impl Refused {
    /// Lets the client read why: closing while its bytes are still on their way would reset the
    /// connection, and the alert would be lost.
    pub(crate) async fn linger(mut self) {
        let _ = self.stream.shutdown().await;
        let mut rest = self.stream.take(MAX_LINGER_BYTES);
        let mut nowhere = tokio::io::sink();
        let drained = tokio::io::copy(&mut rest, &mut nowhere);
        let _ = tokio::time::timeout(LINGER, drained).await;
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.load().config {
            Some(config) => f.debug_tuple("ServerTls").field(config).finish(),
            None => f.write_str("ServerTls(ready-made)"),
        }
    }
}

fn load(config: ServerTlsConfig) -> Result<Loaded, TlsError> {
    let builder = rustls::ServerConfig::builder_with_provider(super::provider())
        .with_protocol_versions(super::VERSIONS)
        .map_err(TlsError::Provider)?;
    let builder = match &config.clients {
        Clients::Unknown => builder.with_no_client_auth(),
        Clients::Allow { ca } => builder.with_client_cert_verifier(verifier(ca, false)?),
        Clients::Require { ca } => builder.with_client_cert_verifier(verifier(ca, true)?),
    };
    let mut rustls = config.certificate.load(|chain, key| builder.with_single_cert(chain, key))?;
    rustls.alpn_protocols = vec![super::ALPN.to_vec()];
    rustls.session_storage = Arc::new(NoServerSessionStorage {});
    rustls.send_tls13_tickets = 0;
    Ok(Loaded { rustls: Arc::new(rustls), config: Some(config) })
}

fn verifier(ca: &Pem, is_required: bool) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let builder = WebPkiClientVerifier::builder_with_provider(ca.roots()?, super::provider());
    let builder = if is_required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|source| TlsError::Verifier { place: ca.to_string(), source })
}
