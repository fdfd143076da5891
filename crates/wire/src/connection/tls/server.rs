//! The server's side: what it shows, and which clients it takes.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{self, RootCertStore};

use super::error::{TlsError, explain};
use super::identity::Identity;
use super::pem::{Certificate, Pem};
use super::records::HandshakeInput;
use super::{Protocols, names};
use crate::connection::stream::{BufferedSocket, buffered};
use crate::connection::{Connection, ConnectionParts};

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
    /// A client may show a certificate, which must then come from these authorities. Its
    /// [`Identity`] shows whether it did.
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

/// Checked settings of a server. Cheap to clone; a change is seen by all clones, and by the
/// servers that have one, with the next connection.
#[derive(Clone)]
pub struct ServerTls(Arc<ArcSwap<LoadedServerTls>>);

struct LoadedServerTls {
    rustls: Arc<rustls::ServerConfig>,
    chain: Arc<[CertificateDer<'static>]>,
    authorities: Arc<RootCertStore>,
    /// Where it was loaded from, and what is spoken over it.
    source: Option<(ServerTlsConfig, Protocols)>,
}

impl ServerTls {
    /// Reads and checks settings. Files are read by blocking calls. A client that says by ALPN
    /// what it speaks must speak one of `protocols`.
    ///
    /// # Errors
    /// What is wrong, and in which file.
    pub fn new(config: ServerTlsConfig, protocols: Protocols) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(ArcSwap::from_pointee(load(config, protocols)?))))
    }

    /// Takes a ready-made configuration as it is. Clients whose certificates it takes have
    /// identities.
    pub fn from_rustls(config: Arc<rustls::ServerConfig>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(LoadedServerTls {
            rustls: config,
            chain: Arc::default(),
            authorities: RootCertStore::empty().into(),
            source: None,
        })))
    }

    /// Reads the files again. If anything is wrong, all stays as it was.
    ///
    /// # Errors
    /// As of [`ServerTls::new`], or there are no files.
    pub fn reload(&self) -> Result<(), TlsError> {
        let source = self.0.load().source.clone();
        let (config, protocols) = source.ok_or(TlsError::NotReloadable)?;
        self.0.store(Arc::new(load(config, protocols)?));
        Ok(())
    }

    /// Takes over the settings that `other` has now.
    pub fn replace(&self, other: &Self) {
        self.0.store(other.0.load_full());
    }

    /// The certificates that clients are shown now, the server's own first. A ready-made
    /// configuration does not say.
    pub fn chain(&self) -> Arc<[CertificateDer<'static>]> {
        Arc::clone(&self.0.load().chain)
    }

    /// The authorities that clients' certificates must come from now. A ready-made configuration
    /// does not say.
    pub fn authorities(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.0.load().authorities)
    }

    /// Shakes hands with a client over a connection that was just accepted, and learns who it is.
    /// The caller limits the time.
    ///
    /// # Errors
    /// Why the client is not served. It can be told by [`RefusedHandshake::linger`].
    pub async fn accept(
        &self,
        connection: Connection,
    ) -> Result<(Connection, Option<Identity>), RefusedHandshake> {
        self.accept_noting(connection, HandshakeInput::default()).await
    }

    /// The same; `input` says meanwhile what the handshake holds.
    pub(super) async fn accept_noting(
        &self,
        connection: Connection,
        input: HandshakeInput,
    ) -> Result<(Connection, Option<Identity>), RefusedHandshake> {
        let Some((socket, parts)) = connection.into_parts() else {
            return Err(RefusedHandshake {
                reason: io::Error::other("TLS is spoken already"),
                rest: None,
            });
        };
        let acceptor = TlsAcceptor::from(Arc::clone(&self.0.load().rustls));
        let mut socket = buffered(socket);
        socket.begin_handshake(input);
        match acceptor.accept(socket).into_fallible().await {
            Ok(mut stream) => {
                stream.get_mut().0.end_handshake();
                let identity = stream.get_ref().1.peer_certificates().and_then(Identity::of);
                Ok((Connection::with_tls(parts, stream.into()), identity))
            }
            Err((error, mut stream)) => {
                stream.end_handshake();
                let reason = explain(error, "client");
                Err(RefusedHandshake { reason, rest: Some((stream, parts)) })
            }
        }
    }
}

/// A client that was refused.
#[derive(Debug)]
pub struct RefusedHandshake {
    /// Why.
    pub reason: io::Error,
    /// The connection counts as open until the client has been told.
    rest: Option<(BufferedSocket, ConnectionParts)>,
}

impl RefusedHandshake {
    /// Lets the client read why: closing while its bytes are still on their way would reset the
    /// connection, and the alert would be lost. Gives back the reason.
    pub async fn linger(self) -> io::Error {
        let Self { reason, rest } = self;
        if let Some((mut stream, _parts)) = rest {
            let _ = stream.shutdown().await;
            let mut unread = stream.take(MAX_LINGER_BYTES);
            let mut nowhere = tokio::io::sink();
            let drained = tokio::io::copy(&mut unread, &mut nowhere);
            let _ = tokio::time::timeout(LINGER, drained).await;
        }
        reason
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.load().source {
            Some((config, _)) => f.debug_tuple("ServerTls").field(config).finish(),
            None => f.write_str("ServerTls(ready-made)"),
        }
    }
}

fn load(config: ServerTlsConfig, protocols: Protocols) -> Result<LoadedServerTls, TlsError> {
    let builder = rustls::ServerConfig::builder_with_provider(super::provider())
        .with_protocol_versions(super::VERSIONS)
        .map_err(TlsError::Provider)?;
    let mut authorities = Arc::new(RootCertStore::empty());
    let mut verifier = |ca: &Pem, is_required| {
        authorities = ca.roots()?;
        verifier(ca, Arc::clone(&authorities), is_required)
    };
    let builder = match &config.clients {
        Clients::Unknown => builder.with_no_client_auth(),
        Clients::Allow { ca } => builder.with_client_cert_verifier(verifier(ca, false)?),
        Clients::Require { ca } => builder.with_client_cert_verifier(verifier(ca, true)?),
    };
    let mut chain = Vec::new();
    let mut rustls = config.certificate.load(|read, key| {
        chain.clone_from(&read);
        builder.with_single_cert(read, key)
    })?;
    rustls.alpn_protocols = names(protocols);
    rustls.session_storage = Arc::new(NoServerSessionStorage {});
    rustls.send_tls13_tickets = 0;
    let source = Some((config, protocols));
    Ok(LoadedServerTls { rustls: Arc::new(rustls), chain: chain.into(), authorities, source })
}

fn verifier(
    ca: &Pem,
    authorities: Arc<RootCertStore>,
    is_required: bool,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let builder = WebPkiClientVerifier::builder_with_provider(authorities, super::provider());
    let builder = if is_required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|source| TlsError::Verifier { place: ca.to_string(), source })
}
