//! The checked configuration of a ZooKeeper registry.

use std::fmt;
use std::time::Duration;

use dubbo_proto::without_credentials;
use wire::file::FileWork;
use wire::tls::ClientTls;
use wire::{Destination, SocketOptions};
use zookeeper_proto::{Acl, Identity};

use crate::application_config::ApplicationConfig;
use crate::config::{ZooKeeperAcl, ZooKeeperConfig};
use crate::error::RegistryError;
use crate::layout::Layout;
use crate::registry_secret::RegistrySecret;
use crate::registry_tls::RenewedTls;

/// Shorter sessions would be lost by a pause of a second.
const MIN_SESSION: Duration = Duration::from_secs(1);

/// A dead agent that stays listed for more than an hour helps nobody.
const MAX_SESSION: Duration = Duration::from_secs(3600);

/// What [`ZooKeeperSettings::new`] has checked.
pub(super) struct ZooKeeperSettings {
    /// One per server.
    pub(super) servers: Vec<Destination>,
    pub(super) tls: Option<RenewedTls>,
    /// With a slash in front, or empty.
    pub(super) chroot: String,
    /// Dubbo's, with the chroot before its root.
    pub(super) layout: Layout,
    user: Option<(String, RegistrySecret)>,
    files: FileWork,
    pub(super) acl: Acl,
    pub(super) session_timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) request_timeout: Duration,
    pub(super) grace: Duration,
    pub(super) max_frame_len: usize,
    pub(super) compare_every: Duration,
    pub(super) applications: ApplicationConfig,
}

impl fmt::Debug for ZooKeeperSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperSettings").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl ZooKeeperSettings {
    pub(super) fn new(config: ZooKeeperConfig) -> Result<Self, RegistryError> {
        if config.servers.is_empty() {
            return Err(RegistryError::NoZooKeeperServer);
        }
        if !(MIN_SESSION..=MAX_SESSION).contains(&config.session_timeout) {
            let (found, min, max) = (config.session_timeout, MIN_SESSION, MAX_SESSION);
            return Err(RegistryError::LeaseTtl { found, min, max });
        }
        let user = match (config.user, config.password) {
            (Some(user), Some(password)) => Some((user, password)),
            (None, None) => None,
            _ => return Err(RegistryError::HalfCredentials),
        };
        let acl = match (config.acl, user.is_none()) {
            (None, true) | (Some(ZooKeeperAcl::Open), _) => Acl::Open,
            (Some(_), true) => return Err(RegistryError::AclWithoutUser),
            (None | Some(ZooKeeperAcl::Creator), false) => Acl::Creator,
            (Some(ZooKeeperAcl::CreatorAndReaders), false) => Acl::CreatorAndReaders,
        };
        let tls = config.tls.as_ref().map(|tls| tls.load(&[])).transpose()?;
        let servers = config.servers.iter().map(|server| destination(server, tls.as_ref()));
        let servers = servers.collect::<Result<_, _>>()?;
        let (chroot, root) = match config.chroot.as_str() {
            "" => (String::new(), config.root),
            chroot => (format!("/{chroot}"), format!("{chroot}/{}", config.root)),
        };
        Ok(Self {
            servers,
            tls: tls.map(|tls| RenewedTls::new(tls, "ZooKeeper")),
            chroot,
            layout: Layout::Dubbo { root },
            user,
            files: FileWork::default(),
            acl,
            session_timeout: config.session_timeout,
            connect_timeout: config.connect_timeout,
            request_timeout: config.request_timeout,
            grace: config.grace,
            max_frame_len: config.max_message_len,
            compare_every: config.compare_every,
            applications: config.applications,
        })
    }

    /// Whom we are for a new connection. The password is read again each time.
    pub(super) async fn identities(&self) -> Result<Vec<Identity>, RegistryError> {
        let Some((user, password)) = &self.user else { return Ok(Vec::new()) };
        let password = password.read_by(&self.files, self.connect_timeout).await?;
        Ok(vec![digest(user, &password)])
    }
}

fn digest(user: &str, password: &str) -> Identity {
    let secret = format!("{user}:{password}").into_bytes();
    Identity { scheme: "digest".to_owned(), secret }
}

fn destination(server: &str, tls: Option<&ClientTls>) -> Result<Destination, RegistryError> {
    let bad = |_| RegistryError::BadZooKeeperServer { server: without_credentials(server) };
    let (host, port) = wire::address::split(server).map_err(bad)?;
    Ok(Destination::Tcp {
        host: host.to_owned(),
        port,
        options: SocketOptions::default(),
        tls: tls.cloned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RegistryTls;

    fn error(change: impl FnOnce(&mut ZooKeeperConfig)) -> String {
        let mut config = ZooKeeperConfig::new(["127.0.0.1:2181"]);
        change(&mut config);
        ZooKeeperSettings::new(config).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_password_is_not_printed() {
        let mut config = ZooKeeperConfig::new(["127.0.0.1:2181"]);
        (config.user, config.password) = (Some("u".into()), Some("hush".into()));
        assert!(!format!("{config:?}").contains("hush"));
        assert!(!format!("{:?}", ZooKeeperSettings::new(config).unwrap()).contains("hush"));
    }

    #[tokio::test]
    async fn a_password_file_is_read_for_each_connection() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, "one").unwrap();
        let mut config = ZooKeeperConfig::new(["h:1"]);
        (config.user, config.password) = (Some("u".into()), Some(RegistrySecret::of_file(&path)));
        let settings = ZooKeeperSettings::new(config).unwrap();
        assert!(settings.identities().await.unwrap() == [digest("u", "one")]);
        std::fs::write(&path, "two").unwrap();
        assert!(settings.identities().await.unwrap() == [digest("u", "two")]);
        std::fs::remove_file(&path).unwrap();
        let error = settings.identities().await.err().unwrap().to_string();
        assert!(error.contains("password: No such file"), "{error}");
    }

    #[test]
    fn a_user_owns_what_it_makes_unless_told_otherwise() {
        let acl = |user: Option<&str>, acl| {
            let password = user.map(RegistrySecret::from);
            let user = user.map(str::to_owned);
            let config = ZooKeeperConfig { user, password, acl, ..ZooKeeperConfig::new(["h:1"]) };
            ZooKeeperSettings::new(config).unwrap().acl
        };
        assert_eq!(acl(None, None), Acl::Open);
        assert_eq!(acl(Some("u"), None), Acl::Creator);
        assert_eq!(acl(Some("u"), Some(ZooKeeperAcl::Open)), Acl::Open);
        let readers = Some(ZooKeeperAcl::CreatorAndReaders);
        assert_eq!(acl(Some("u"), readers), Acl::CreatorAndReaders);
    }

    #[test]
    fn the_chroot_comes_before_the_root() {
        let config = ZooKeeperConfig { chroot: "a/b".into(), ..ZooKeeperConfig::new(["h:1"]) };
        let settings = ZooKeeperSettings::new(config).unwrap();
        assert_eq!(settings.layout, Layout::Dubbo { root: "a/b/dubbo".into() });
    }

    #[test]
    fn refuses_what_cannot_work_and_says_what_would() {
        assert!(error(|config| config.servers.clear()).contains("add at least one"));
        for server in ["127.0.0.1", "zookeeper://h:1", "h:x", ""] {
            let text = error(|config| config.servers = vec![server.into()]);
            assert!(text.contains("HOST:PORT"), "{text}");
        }
        assert!(error(|config| config.user = Some("u".into())).contains("both"));
        assert!(error(|config| config.session_timeout = Duration::ZERO).contains("out of range"));
        let text = error(|config| config.acl = Some(ZooKeeperAcl::Creator));
        assert!(text.contains("needs a user"), "{text}");
        let tls = RegistryTls { ca_file: Some("/no/such/ca.pem".into()), ..RegistryTls::default() };
        assert!(error(|config| config.tls = Some(tls)).contains("/no/such/ca.pem"));
    }
}
