//! The checked configuration of an etcd registry.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use dubbo_proto::without_credentials;
use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};

use crate::application_config::ApplicationConfig;
use crate::config::{EtcdConfig, RegistryTls};
use crate::error::RegistryError;
use crate::layout::Layout;
use crate::registry_secret::RegistrySecret;

/// Shorter leases would be lost by a pause of a second; etcd itself does not go lower either.
const MIN_LEASE: Duration = Duration::from_secs(1);

/// A dead agent that stays listed for more than an hour helps nobody.
const MAX_LEASE: Duration = Duration::from_secs(3600);

/// What [`EtcdSettings::new`] has checked.
pub(super) struct EtcdSettings {
    pub(super) urls: Vec<String>,
    pub(super) layout: Layout,
    user: Option<(String, RegistrySecret)>,
    tls: Option<RegistryTls>,
    /// Whole seconds, as etcd counts.
    pub(super) lease_ttl_s: i64,
    pub(super) connect_timeout: Duration,
    pub(super) request_timeout: Duration,
    pub(super) grace: Duration,
    pub(super) applications: ApplicationConfig,
}

impl fmt::Debug for EtcdSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdSettings").field("urls", &self.urls).finish_non_exhaustive()
    }
}

impl EtcdSettings {
    pub(super) fn new(config: EtcdConfig) -> Result<Self, RegistryError> {
        if config.endpoints.is_empty() {
            return Err(RegistryError::NoEtcdEndpoint);
        }
        for url in &config.endpoints {
            check_url(url, config.tls.as_ref())?;
        }
        if !(MIN_LEASE..=MAX_LEASE).contains(&config.lease_ttl) {
            let (found, min, max) = (config.lease_ttl, MIN_LEASE, MAX_LEASE);
            return Err(RegistryError::LeaseTtl { found, min, max });
        }
        let user = match (config.user, config.password) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            _ => return Err(RegistryError::HalfCredentials),
        };
        let settings = Self {
            urls: config.endpoints,
            layout: config.layout,
            user,
            tls: config.tls,
            lease_ttl_s: i64::try_from(config.lease_ttl.as_secs()).unwrap_or(i64::MAX),
            connect_timeout: config.connect_timeout,
            request_timeout: config.request_timeout,
            grace: config.grace,
            applications: config.applications,
        };
        // A wrong path shows now, not in the log an hour later.
        settings.connect_options()?;
        Ok(settings)
    }

    /// Whether TLS is spoken, and servers that ask for a certificate get none.
    pub(super) fn shows_nothing(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.cert_file.is_none())
    }

    /// Options for a new connection. The files are read again each time: certificates are renewed,
    /// and so are passwords.
    pub(super) fn connect_options(&self) -> Result<ConnectOptions, RegistryError> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(self.connect_timeout)
            .with_auto_token_refresh(true);
        if let Some((user, password)) = &self.user {
            options = options.with_user(user, password.read()?);
        }
        if let Some(tls) = &self.tls {
            options = options.with_tls(tls_options(tls)?);
        }
        Ok(options)
    }
}

fn check_url(url: &str, tls: Option<&RegistryTls>) -> Result<(), RegistryError> {
    let bad = || RegistryError::BadEtcdUrl { url: without_credentials(url) };
    let (scheme, rest) = url.split_once("://").ok_or_else(bad)?;
    let address = rest.strip_suffix('/').unwrap_or(rest);
    wire::address::split(address).map_err(|_| bad())?;
    match (scheme, tls) {
        ("http", None) => Ok(()),
        ("http", Some(_)) => Err(RegistryError::TlsForPlainUrl { url: without_credentials(url) }),
        ("https", Some(tls)) if tls.ca_file.is_some() => Ok(()),
        ("https", _) => Err(RegistryError::NoCa { url: without_credentials(url) }),
        _ => Err(bad()),
    }
}

fn tls_options(tls: &RegistryTls) -> Result<TlsOptions, RegistryError> {
    // The client of etcd does not say which file is wrong, and passes over what it cannot read.
    tls.load(&[])?;
    let mut options = TlsOptions::new();
    if let Some(ca_file) = &tls.ca_file {
        options = options.ca_certificate(Certificate::from_pem(read(ca_file)?));
    }
    match (&tls.cert_file, &tls.key_file) {
        (Some(cert_file), Some(key_file)) => {
            options = options.identity(Identity::from_pem(read(cert_file)?, read(key_file)?));
        }
        (None, None) => {}
        _ => return Err(RegistryError::HalfIdentity),
    }
    if let Some(server_name) = &tls.server_name {
        options = options.domain_name(server_name);
    }
    Ok(options)
}

fn read(path: &Path) -> Result<Vec<u8>, RegistryError> {
    wire::tls::read_file(path)
        .map_err(|source| RegistryError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    fn error(change: impl FnOnce(&mut EtcdConfig)) -> String {
        let mut config = EtcdConfig::new(["http://127.0.0.1:2379"], Layout::contest());
        change(&mut config);
        EtcdSettings::new(config).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_password_is_not_printed() {
        let mut config = EtcdConfig::new(["http://127.0.0.1:2379"], Layout::contest());
        (config.user, config.password) = (Some("u".into()), Some("hush".into()));
        assert!(!format!("{config:?}").contains("hush"));
        assert!(!format!("{:?}", EtcdSettings::new(config).unwrap()).contains("hush"));
    }

    #[test]
    fn refuses_what_cannot_work_and_says_what_would() {
        let tls =
            || RegistryTls { ca_file: Some("/no/such/ca.pem".into()), ..RegistryTls::default() };
        assert!(error(|config| config.endpoints.clear()).contains("add at least one"));
        for url in
            ["127.0.0.1:2379", "http://", "ftp://h:1", "http://h", "http://h:x", "http://h:1/x"]
        {
            let text = error(|config| config.endpoints = vec![url.into()]);
            assert!(text.contains("http://HOST:PORT"), "{text}");
        }
        let text = error(|config| config.endpoints = vec!["https://h:1".into()]);
        assert!(text.contains("set the CA file"), "{text}");
        assert!(error(|config| config.tls = Some(tls())).contains("write https://"));
        let text = error(|config| {
            config.endpoints = vec!["https://h:1".into()];
            config.tls = Some(tls());
        });
        assert!(text.contains("/no/such/ca.pem"), "{text}");
        assert!(error(|config| config.user = Some("u".into())).contains("both"));
        assert!(error(|config| config.lease_ttl = Duration::ZERO).contains("out of range"));
    }
}
