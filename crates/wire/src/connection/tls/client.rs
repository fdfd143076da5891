//! The client's side: which servers it trusts, and what it shows them.

use std::fmt;
use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};

use super::error::{TlsError, explain};
use super::pem::{Certificate, Pem};
use super::{Protocols, names};
use crate::connection::Connection;
use crate::connection::stream::buffered;

/// How a client uses TLS; see [`ClientTls::new`].
#[derive(Clone, Debug)]
pub struct ClientTlsConfig {
    /// The authorities that servers' certificates must come from.
    pub ca: Pem,
    /// What the client shows to servers that ask for it.
    pub certificate: Option<Certificate>,
    /// The name that the server's certificate must be for. `None`: the host of the address.
    pub server_name: Option<String>,
}

impl ClientTlsConfig {
    /// Trusts these authorities, and shows nothing.
    pub fn with_ca(ca: Pem) -> Self {
        Self { ca, certificate: None, server_name: None }
    }
}

/// Checked settings of a client. Cheap to clone; a change is seen by all clones, and by the
/// clients that have one, when they connect the next time.
#[derive(Clone)]
pub struct ClientTls(Arc<ArcSwap<Loaded>>);

struct Loaded {
    rustls: Arc<rustls::ClientConfig>,
    server_name: Option<ServerName<'static>>,
    chain: Arc<[CertificateDer<'static>]>,
    /// Where it was loaded from, and what is spoken over it.
    source: Option<(ClientTlsConfig, Protocols)>,
}

impl ClientTls {
    /// Reads and checks settings. Files are read by blocking calls. `protocols` go out by ALPN.
    ///
    /// # Errors
    /// What is wrong, and in which file.
    pub fn new(config: ClientTlsConfig, protocols: Protocols) -> Result<Self, TlsError> {
        Ok(Self(Arc::new(ArcSwap::from_pointee(load(config, protocols)?))))
    }

    /// Takes a ready-made configuration as it is. The server's certificate must be for the host of
    /// the address.
    pub fn from_rustls(config: Arc<rustls::ClientConfig>) -> Self {
        let loaded =
            Loaded { rustls: config, server_name: None, chain: Arc::default(), source: None };
        Self(Arc::new(ArcSwap::from_pointee(loaded)))
    }

    /// Reads the files again. If anything is wrong, all stays as it was.
    ///
    /// # Errors
    /// As of [`ClientTls::new`], or there are no files.
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

    /// The certificates that servers are shown now if they ask, the client's own first. A
    /// ready-made configuration does not say.
    pub fn chain(&self) -> Arc<[CertificateDer<'static>]> {
        Arc::clone(&self.0.load().chain)
    }

    /// The name that the certificate of the server at `host` must be for.
    ///
    /// # Errors
    /// No certificate can be for that host.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        match &self.0.load().server_name {
            Some(name) => Ok(name.clone()),
            None => parse_name(host),
        }
    }

    /// Shakes hands with the server at `host` over a connection that was just made. The caller
    /// limits the time.
    ///
    /// # Errors
    /// Why the server was not trusted, or does not trust us.
    pub async fn connect(&self, host: &str, connection: Connection) -> io::Result<Connection> {
        let name = self.server_name(host).map_err(io::Error::other)?;
        let Some((socket, parts)) = connection.into_parts() else {
            return Err(io::Error::other("TLS is spoken already"));
        };
        let connector = TlsConnector::from(Arc::clone(&self.0.load().rustls));
        match connector.connect(name, buffered(socket)).await {
            Ok(stream) => Ok(Connection::with_tls(parts, stream.into())),
            Err(error) => Err(explain(error, "server")),
        }
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.load().source {
            Some((config, _)) => f.debug_tuple("ClientTls").field(config).finish(),
            None => f.write_str("ClientTls(ready-made)"),
        }
    }
}

fn parse_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::ServerName(name.to_owned()))
}

fn load(config: ClientTlsConfig, protocols: Protocols) -> Result<Loaded, TlsError> {
    let server_name = config.server_name.as_deref().map(parse_name).transpose()?;
    let builder = rustls::ClientConfig::builder_with_provider(super::provider())
        .with_protocol_versions(super::VERSIONS)
        .map_err(TlsError::Provider)?
        .with_root_certificates(config.ca.roots()?);
    let mut chain = Vec::new();
    let mut rustls = match &config.certificate {
        None => builder.with_no_client_auth(),
        Some(certificate) => certificate.load(|read, key| {
            chain.clone_from(&read);
            builder.with_client_auth_cert(read, key)
        })?,
    };
    rustls.alpn_protocols = names(protocols);
    rustls.resumption = Resumption::disabled();
    let (rustls, source) = (Arc::new(rustls), Some((config, protocols)));
    Ok(Loaded { rustls, server_name, chain: chain.into(), source })
}
