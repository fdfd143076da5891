//! The checked configuration of a Nacos registry.

use std::fmt;
use std::time::Duration;

use dubbo_proto::without_credentials;
use nacos_proto::Secret;
use wire::file::FileWork;
use wire::{Destination, SocketOptions};

use crate::application_config::ApplicationConfig;
use crate::config::{NacosConfig, RegistryTls};
use crate::error::RegistryError;
use crate::registry_secret::RegistrySecret;
use crate::registry_tls::RenewedTls;

/// What [`NacosSettings::new`] has checked.
pub(super) struct NacosSettings {
    /// At least one.
    pub(super) servers: Vec<NacosServer>,
    pub(super) grpc_port_offset: u16,
    pub(super) tls: Option<RenewedTls>,
    pub(super) namespace: String,
    pub(super) group: String,
    pub(super) cluster: String,
    pub(super) clusters: Vec<String>,
    pub(super) login: Option<LoginSettings>,
    access_key: Option<(String, RegistrySecret)>,
    /// Reads secrets.
    pub(super) files: FileWork,
    pub(super) connect_timeout: Duration,
    pub(super) request_timeout: Duration,
    pub(super) ask_again_every: Duration,
    pub(super) keep_every: Duration,
    pub(super) grace: Duration,
    pub(super) max_message_len: usize,
    pub(super) applications: ApplicationConfig,
}

/// Who logs in, and how.
pub(super) struct LoginSettings {
    pub(super) user: String,
    pub(super) password: RegistrySecret,
    /// With a slash in front, without one at its end; or empty.
    pub(super) context_path: String,
    pub(super) tls: Option<RenewedTls>,
}

/// A server, at its port of HTTP.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct NacosServer {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for NacosServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&wire::address::join(&self.host, self.port))
    }
}

impl fmt::Debug for NacosSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NacosSettings").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl NacosSettings {
    pub(super) fn new(config: NacosConfig) -> Result<Self, RegistryError> {
        if config.servers.is_empty() {
            return Err(RegistryError::NoNacosServer);
        }
        let servers = config.servers.iter().map(|server| {
            let bad = || RegistryError::BadNacosServer { server: without_credentials(server) };
            let (host, port) = wire::address::split(server).map_err(|_| bad())?;
            if port.checked_add(config.grpc_port_offset).is_none() {
                return Err(bad());
            }
            Ok(NacosServer { host: host.to_owned(), port })
        });
        let servers = servers.collect::<Result<_, _>>()?;
        let tls = |protocols| {
            let tls = config.tls.as_ref();
            tls.map(|tls| tls.load(protocols)).transpose()
        };
        let login = match (config.user, config.password) {
            (Some(user), Some(password)) => {
                let tls = match config.is_login_https {
                    true => Some(match tls(&[b"http/1.1"])? {
                        Some(tls) => tls,
                        None => RegistryTls::default().load(&[b"http/1.1"])?,
                    }),
                    false => None,
                };
                let tls = tls.map(|tls| RenewedTls::new(tls, "Nacos' login"));
                let path = config.context_path.trim_matches('/');
                let context_path = if path.is_empty() { String::new() } else { format!("/{path}") };
                Some(LoginSettings { user, password, context_path, tls })
            }
            (None, None) => None,
            _ => return Err(RegistryError::HalfCredentials),
        };
        let access_key = match (config.access_key, config.secret_key) {
            (Some(key), Some(secret)) => Some((key, secret)),
            (None, None) => None,
            _ => return Err(RegistryError::HalfCredentials),
        };
        let namespace = match config.namespace.as_str() {
            "public" => String::new(),
            namespace => namespace.to_owned(),
        };
        Ok(Self {
            servers,
            grpc_port_offset: config.grpc_port_offset,
            tls: tls(&[b"h2"])?.map(|tls| RenewedTls::new(tls, "Nacos")),
            namespace,
            group: config.group,
            cluster: config.cluster,
            clusters: config.clusters,
            login,
            access_key,
            files: FileWork::default(),
            connect_timeout: config.connect_timeout,
            request_timeout: config.request_timeout,
            ask_again_every: config.ask_again_every,
            keep_every: config.keep_every,
            grace: config.grace,
            max_message_len: config.max_message_len,
            applications: config.applications,
        })
    }

    /// The access key for a new connection. Its secret is read again each time.
    pub(super) async fn access_key(&self) -> Result<Option<(String, Secret)>, RegistryError> {
        let Some((key, secret)) = &self.access_key else { return Ok(None) };
        let secret = secret.read_by(&self.files, self.connect_timeout).await?;
        Ok(Some((key.clone(), Secret(secret))))
    }

    /// Where a server speaks gRPC.
    pub(super) fn grpc(&self, server: &NacosServer) -> Destination {
        let port = server.port.saturating_add(self.grpc_port_offset);
        destination(&server.host, port, self.tls.as_ref())
    }

    /// What to check, if a server has not answered while it was connected to.
    pub(super) fn no_answer(&self, server: &NacosServer) -> String {
        let (grpc, after) = (self.grpc(server), self.connect_timeout);
        format!(
            "no answer within {after:?} while connecting; check that a firewall lets both ports \
             pass: {server}, and {grpc} for gRPC (grpc_port_offset)"
        )
    }

    /// What to do, if the port for gRPC cannot be connected to.
    pub(super) fn grpc_is_closed(&self, server: &NacosServer, why: &str) -> String {
        let (grpc, offset) = (self.grpc(server), self.grpc_port_offset);
        format!(
            "cannot connect to {grpc}, its port for gRPC: {why}; open that port, or correct \
             grpc_port_offset, which is {offset}"
        )
    }
}

pub(super) fn destination(host: &str, port: u16, tls: Option<&RenewedTls>) -> Destination {
    let (host, options) = (host.to_owned(), SocketOptions::default());
    Destination::Tcp { host, port, options, tls: tls.map(|tls| tls.client.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_not_reached_is_named() {
        let settings = NacosSettings::new(NacosConfig::new(["10.0.0.7:8848"])).unwrap();
        let server = &settings.servers[0];
        let closed = settings.grpc_is_closed(server, "Connection refused");
        assert!(closed.starts_with("cannot connect to 10.0.0.7:9848, its port for gRPC: Conn"));
        assert!(closed.ends_with("correct grpc_port_offset, which is 1000"), "{closed}");
        let silent = settings.no_answer(server);
        assert!(silent.contains("10.0.0.7:8848, and 10.0.0.7:9848 for gRPC"), "{silent}");
    }

    #[test]
    fn refuses_what_cannot_work_and_says_what_would() {
        let error = |change: fn(&mut NacosConfig)| {
            let mut config = NacosConfig::new(["127.0.0.1:8848"]);
            change(&mut config);
            NacosSettings::new(config).map(|_| ()).unwrap_err().to_string()
        };
        assert!(error(|config| config.servers.clear()).contains("add at least one"));
        assert!(error(|config| config.servers = vec!["h".into()]).contains("HOST:PORT"));
        assert!(error(|config| config.servers = vec!["h:65000".into()]).contains("HOST:PORT"));
        assert!(error(|config| config.user = Some("u".into())).contains("both"));
        assert!(error(|config| config.access_key = Some("u".into())).contains("both"));
    }

    #[test]
    fn the_namespace_public_has_no_name() {
        let mut config = NacosConfig::new(["h:1"]);
        config.namespace = "public".into();
        assert_eq!(NacosSettings::new(config).unwrap().namespace, "");
    }

    #[test]
    fn secrets_are_not_printed() {
        let mut config = NacosConfig::new(["127.0.0.1:8848"]);
        (config.user, config.password) = (Some("u".into()), Some("hush".into()));
        (config.access_key, config.secret_key) = (Some("k".into()), Some("hush".into()));
        assert!(!format!("{config:?}").contains("hush"));
        assert!(!format!("{:?}", NacosSettings::new(config).unwrap()).contains("hush"));
    }
}
