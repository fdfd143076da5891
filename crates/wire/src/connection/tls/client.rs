//! The client's side: which servers it trusts, and what it shows them.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, RootCertStore};

use super::error::{TlsError, explain};
use super::pem::{Certificate, Pem};
use super::{Protocols, names};
use crate::connection::Connection;
use crate::connection::stream::buffered;
use crate::file::FileWork;

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
pub struct ClientTls {
    loaded: Arc<ArcSwap<LoadedClientTls>>,
    reload: FileWork,
}

struct LoadedClientTls {
    rustls: Arc<rustls::ClientConfig>,
    server_name: Option<ServerName<'static>>,
    chain: Arc<[CertificateDer<'static>]>,
    authorities: Arc<RootCertStore>,
    /// Where it was loaded from, and what is spoken over it.
    source: Option<(ClientTlsConfig, Protocols)>,
}

impl ClientTls {
    /// Reads and checks settings. Files are read by blocking calls. `protocols` go out by ALPN.
    ///
    /// # Errors
    /// What is wrong, and in which file.
    pub fn new(config: ClientTlsConfig, protocols: Protocols) -> Result<Self, TlsError> {
        Ok(Self::of(load(config, protocols)?))
    }

    /// Takes a ready-made configuration as it is. The server's certificate must be for the host of
    /// the address.
    pub fn from_rustls(config: Arc<rustls::ClientConfig>) -> Self {
        let (chain, authorities) = (Arc::default(), RootCertStore::empty().into());
        Self::of(LoadedClientTls {
            rustls: config,
            server_name: None,
            chain,
            authorities,
            source: None,
        })
    }

    fn of(loaded: LoadedClientTls) -> Self {
        Self { loaded: Arc::new(ArcSwap::from_pointee(loaded)), reload: FileWork::default() }
    }

    /// Reads the files again. If anything is wrong, all stays as it was.
    ///
    /// # Errors
    /// As of [`ClientTls::new`], or there are no files.
    pub fn reload(&self) -> Result<(), TlsError> {
        let source = self.loaded.load().source.clone();
        let (config, protocols) = source.ok_or(TlsError::NotReloadable)?;
        self.loaded.store(Arc::new(load(config, protocols)?));
        Ok(())
    }

    /// The same on a thread of its own, which is waited for until the time is over. What it reads
    /// later is taken over then.
    ///
    /// # Errors
    /// As of [`reload`](Self::reload), or the files were not read in time.
    pub async fn reload_within(&self, timeout: Duration) -> Result<(), TlsError> {
        let this = self.clone();
        let read = self.reload.run(timeout, move || this.reload()).await;
        read.unwrap_or_else(|source| Err(TlsError::NotRead(source)))
    }

    /// Takes over the settings that `other` has now.
    pub fn replace(&self, other: &Self) {
        self.loaded.store(other.loaded.load_full());
    }

    /// The certificates that servers are shown now if they ask, the client's own first. A
    /// ready-made configuration does not say.
    pub fn chain(&self) -> Arc<[CertificateDer<'static>]> {
        Arc::clone(&self.loaded.load().chain)
    }

    /// The authorities that servers' certificates must come from now. A ready-made configuration
    /// does not say.
    pub fn authorities(&self) -> Arc<RootCertStore> {
        Arc::clone(&self.loaded.load().authorities)
    }

    /// The name that the certificate of the server at `host` must be for.
    ///
    /// # Errors
    /// No certificate can be for that host.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        match &self.loaded.load().server_name {
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
        let connector = TlsConnector::from(Arc::clone(&self.loaded.load().rustls));
        match connector.connect(name, buffered(socket)).await {
            Ok(stream) => Ok(Connection::with_tls(parts, stream.into())),
            Err(error) => Err(explain(error, "server")),
        }
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.loaded.load().source {
            Some((config, _)) => f.debug_tuple("ClientTls").field(config).finish(),
            None => f.write_str("ClientTls(ready-made)"),
        }
    }
}

fn parse_name(name: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| TlsError::ServerName(name.to_owned()))
}

fn load(config: ClientTlsConfig, protocols: Protocols) -> Result<LoadedClientTls, TlsError> {
    let server_name = config.server_name.as_deref().map(parse_name).transpose()?;
    let authorities = config.ca.roots()?;
    let builder = rustls::ClientConfig::builder_with_provider(super::provider())
        .with_protocol_versions(super::VERSIONS)
        .map_err(TlsError::Provider)?
        .with_root_certificates(Arc::clone(&authorities));
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
    Ok(LoadedClientTls { rustls, server_name, chain: chain.into(), authorities, source })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::super::{VERSIONS, provider};
    use super::*;

    #[tokio::test]
    async fn a_file_system_that_hangs_is_not_waited_for() {
        let config = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(VERSIONS)
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let tls = ClientTls::from_rustls(Arc::new(config));
        let (soon, (go_on, wait)) = (Duration::from_millis(1), channel::<()>());
        assert!(tls.clone().reload.run(soon, move || wait.recv()).await.is_err());
        let late = tls.reload_within(soon).await.unwrap_err();
        assert!(late.to_string().contains("did not answer within 1ms"), "{late}");
        drop(go_on);
        assert!(matches!(tls.reload_within(Duration::MAX).await, Err(TlsError::NotReloadable)));
    }
}
