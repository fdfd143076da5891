//! What the caller says about a registry. Plain data; [`Registry::open`](crate::Registry::open)
//! checks it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use dubbo_proto::ServiceKey;

use crate::application_config::ApplicationConfig;
use crate::endpoint::StaticService;
use crate::layout::Layout;
use crate::memory::MemoryHub;
use crate::registry_secret::RegistrySecret;

/// Which registry, and how to reach it.
#[derive(Clone, Debug)]
pub enum RegistryConfig {
    /// Inside this process: everybody who holds a clone of the hub sees the same services.
    Memory(MemoryHub),
    /// A TOML file that is watched; see [`crate::file`].
    File {
        /// The file. It may appear later.
        path: PathBuf,
    },
    /// Endpoints that never change.
    Static(Vec<StaticService>),
    /// etcd v3; see [`crate::etcd`].
    Etcd(EtcdConfig),
    /// Kubernetes; see [`crate::kubernetes`].
    Kubernetes(KubernetesConfig),
    /// ZooKeeper 3.5 to 3.9; see [`crate::zookeeper`].
    ZooKeeper(ZooKeeperConfig),
    /// Nacos 2.x and 3.x; see [`crate::nacos`].
    Nacos(NacosConfig),
    /// Others as one; see [`several`](crate::several()), which opens it.
    Several(SeveralConfig),
}

impl RegistryConfig {
    /// The name of its kind, as configuration files have it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::File { .. } => "file",
            Self::Static(_) => "static",
            Self::Etcd(_) => "etcd",
            Self::Kubernetes(_) => "kubernetes",
            Self::ZooKeeper(_) => "zookeeper",
            Self::Nacos(_) => "nacos",
            Self::Several(_) => "several",
        }
    }

    /// The files for TLS, if it has any.
    #[must_use]
    pub fn tls(&self) -> Option<&RegistryTls> {
        match self {
            Self::Etcd(config) => config.tls.as_ref(),
            Self::ZooKeeper(config) => config.tls.as_ref(),
            Self::Nacos(config) => config.tls.as_ref(),
            Self::Kubernetes(config) => Some(&config.tls),
            Self::Memory(_) | Self::File { .. } | Self::Static(_) | Self::Several(_) => None,
        }
    }

    /// The settings of its application level, if it has one.
    #[must_use]
    pub fn applications(&self) -> Option<&ApplicationConfig> {
        match self {
            Self::Etcd(config) => Some(&config.applications),
            Self::ZooKeeper(config) => Some(&config.applications),
            Self::Nacos(config) => Some(&config.applications),
            Self::Memory(_)
            | Self::File { .. }
            | Self::Static(_)
            | Self::Kubernetes(_)
            | Self::Several(_) => None,
        }
    }

    /// Whether both say the same. All registries in memory count as the same: they have no
    /// settings.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Memory(_), Self::Memory(_)) => true,
            (Self::File { path }, Self::File { path: other }) => path == other,
            (Self::Static(services), Self::Static(other)) => services == other,
            (Self::Etcd(config), Self::Etcd(other)) => config == other,
            (Self::Kubernetes(config), Self::Kubernetes(other)) => config == other,
            (Self::ZooKeeper(config), Self::ZooKeeper(other)) => config == other,
            (Self::Nacos(config), Self::Nacos(other)) => config == other,
            (Self::Several(config), Self::Several(other)) => config == other,
            _ => false,
        }
    }

    /// Whether a registry that is open can take `other` over: it is the same, or another list.
    #[must_use]
    pub fn can_become(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Static(_), Self::Static(_))) || self.is_same(other)
    }
}

/// Several registries as one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SeveralConfig {
    /// The names of the others, the preferred one first.
    pub of: Vec<String>,
    /// Which of their endpoints count.
    pub mode: SeveralMode,
    /// How many calls the endpoints of a registry get together, in proportion to those of the
    /// others; [`DEFAULT_SHARE`] for one that is not named. Nothing: as the endpoints' weights
    /// say.
    pub shares: BTreeMap<String, u32>,
    /// The zones of registries: where endpoints are that do not say it.
    pub zones: BTreeMap<String, String>,
}

/// The share of a registry that none is given, as the weight of a registry in Dubbo.
pub const DEFAULT_SHARE: u32 = 100;

impl SeveralConfig {
    /// The share of a registry, if there are any shares.
    #[must_use]
    pub fn share(&self, name: &str) -> Option<u32> {
        let share = self.shares.get(name).copied().unwrap_or(DEFAULT_SHARE);
        (!self.shares.is_empty()).then_some(share)
    }
}

/// Which endpoints of several registries count for a service.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SeveralMode {
    /// Those of all of them. An endpoint that several list is one endpoint, as the first of them
    /// has it.
    #[default]
    Merged,
    /// Those of the first registry that has any for the service. `preferred` of Dubbo's
    /// `ZoneAwareClusterInvoker`, with an order instead of one flag.
    Failover,
}

/// How to reach etcd, and where the keys are. Its `Debug` form leaves the password out.
#[derive(Clone, Eq, PartialEq)]
pub struct EtcdConfig {
    /// `http://host:port` or `https://host:port`, one per member. Any that answers will do.
    pub endpoints: Vec<String>,
    /// How keys are named.
    pub layout: Layout,
    /// Name for etcd's authentication.
    pub user: Option<String>,
    /// Password for etcd's authentication.
    pub password: Option<RegistrySecret>,
    /// Needed for https.
    pub tls: Option<RegistryTls>,
    /// How long a registration outlives an agent that dies. Whole seconds count.
    pub lease_ttl: Duration,
    /// For a connection to one member, with TLS and authentication.
    pub connect_timeout: Duration,
    /// For each request.
    pub request_timeout: Duration,
    /// How long endpoints known before are kept when etcd comes back without its history.
    pub grace: Duration,
    /// The application level. The contest's layout has none.
    pub applications: ApplicationConfig,
}

impl EtcdConfig {
    /// The defaults: no TLS, no user, a lease of 10 seconds, timeouts of 3 seconds, 30
    /// seconds of grace.
    #[must_use]
    pub fn new(endpoints: impl IntoIterator<Item = impl Into<String>>, layout: Layout) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            layout,
            user: None,
            password: None,
            tls: None,
            lease_ttl: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(3),
            request_timeout: Duration::from_secs(3),
            grace: Duration::from_secs(30),
            applications: ApplicationConfig::default(),
        }
    }
}

impl fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdConfig")
            .field("endpoints", &self.endpoints)
            .field("layout", &self.layout)
            .field("user", &self.user)
            .field("tls", &self.tls)
            .field("lease_ttl", &self.lease_ttl)
            .finish_non_exhaustive()
    }
}

/// How to reach ZooKeeper, and where the nodes are. Its `Debug` form leaves the password out.
#[derive(Clone, Eq, PartialEq)]
pub struct ZooKeeperConfig {
    /// `host:port`, one per server. Any that answers will do.
    pub servers: Vec<String>,
    /// The node below which everything is, without slashes around it; empty for none.
    pub chroot: String,
    /// The first part of the paths of services, which Dubbo calls the registry's group.
    pub root: String,
    /// Name for the scheme `digest`.
    pub user: Option<String>,
    /// Password for the scheme `digest`.
    pub password: Option<RegistrySecret>,
    /// Who may do what with the nodes that we make. `None`: the creator alone if there is a user,
    /// as Dubbo does it; else everybody.
    pub acl: Option<ZooKeeperAcl>,
    /// TLS, if the servers speak it.
    pub tls: Option<RegistryTls>,
    /// How long a registration should outlive an agent that dies. The servers decide.
    pub session_timeout: Duration,
    /// For a connection to one server, with TLS.
    pub connect_timeout: Duration,
    /// For the session, and for each answer.
    pub request_timeout: Duration,
    /// How long endpoints known before are kept when ZooKeeper comes back without its history.
    pub grace: Duration,
    /// The longest answer that is read, in bytes.
    pub max_message_len: usize,
    /// How often lists are compared with ZooKeeper's: it tells no change of a folder to who may
    /// not read it at that moment.
    pub compare_every: Duration,
    /// The application level.
    pub applications: ApplicationConfig,
}

/// Who may do what with the nodes that we make.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ZooKeeperAcl {
    /// Everybody may do everything.
    Open,
    /// Only the user that made a node may do anything with it.
    Creator,
    /// The same, and everybody may read it.
    CreatorAndReaders,
}

impl ZooKeeperConfig {
    /// The defaults: Dubbo's root, no TLS, no user, a session of 30 seconds, timeouts of 3 and 10
    /// seconds, 30 seconds of grace, answers up to 64 MiB, lists compared every 3 minutes.
    #[must_use]
    pub fn new(servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            servers: servers.into_iter().map(Into::into).collect(),
            chroot: String::new(),
            root: "dubbo".to_owned(),
            user: None,
            password: None,
            acl: None,
            tls: None,
            session_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(3),
            request_timeout: Duration::from_secs(10),
            grace: Duration::from_secs(30),
            max_message_len: 64 << 20,
            compare_every: Duration::from_secs(180),
            applications: ApplicationConfig::default(),
        }
    }
}

impl ZooKeeperConfig {
    /// Where Dubbo's own consumers and providers have instances that have this root: a registry
    /// with a `group` has both levels below it.
    #[must_use]
    pub fn instances_root(&self) -> &str {
        match self.root.as_str() {
            "dubbo" => "services",
            group => group,
        }
    }
}

impl fmt::Debug for ZooKeeperConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperConfig")
            .field("servers", &self.servers)
            .field("chroot", &self.chroot)
            .field("root", &self.root)
            .field("user", &self.user)
            .field("tls", &self.tls)
            .field("session_timeout", &self.session_timeout)
            .finish_non_exhaustive()
    }
}

/// How to reach Nacos, and where services are in it. Its `Debug` form leaves secrets out.
#[derive(Clone, Eq, PartialEq)]
pub struct NacosConfig {
    /// `host:port` of HTTP, one per server, as Dubbo's configuration has them. Any that answers
    /// will do.
    pub servers: Vec<String>,
    /// How far the port of gRPC is above that of HTTP.
    pub grpc_port_offset: u16,
    /// The identifier of the namespace; empty for the one that is called `public`.
    pub namespace: String,
    /// The group of services. Dubbo's providers are in `DEFAULT_GROUP` unless told otherwise.
    pub group: String,
    /// The cluster that our own endpoints are registered in.
    pub cluster: String,
    /// The clusters whose endpoints are used; empty for all.
    pub clusters: Vec<String>,
    /// A user, for servers that want a login.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<RegistrySecret>,
    /// The path below which HTTP is, for the login.
    pub context_path: String,
    /// Whether the login goes by HTTPS.
    pub is_login_https: bool,
    /// An access key, as clouds give them out.
    pub access_key: Option<String>,
    /// The secret of the access key.
    pub secret_key: Option<RegistrySecret>,
    /// TLS of gRPC, and of a login by HTTPS.
    pub tls: Option<RegistryTls>,
    /// For a connection to one server, until it can be used.
    pub connect_timeout: Duration,
    /// For each answer.
    pub request_timeout: Duration,
    /// How often a list is asked for that nobody has pushed, at the latest; half of it at the
    /// earliest.
    pub ask_again_every: Duration,
    /// How often it is looked whether our own instances are still there.
    pub keep_every: Duration,
    /// How long endpoints known before are kept after a new connection that does not list them.
    pub grace: Duration,
    /// The longest message that is read, in bytes.
    pub max_message_len: usize,
    /// The application level. Its `instances_root` is the group of applications, its
    /// `metadata_root` that of service definitions.
    pub applications: ApplicationConfig,
}

impl NacosConfig {
    /// The defaults: the namespace `public`, Nacos' default group and cluster, no login, no TLS,
    /// timeouts of 5 and 5 seconds, lists asked for again after 60 and own instances after 10, 30
    /// seconds of grace, messages up to 16 MiB.
    #[must_use]
    pub fn new(servers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let group = "DEFAULT_GROUP".to_owned();
        let applications =
            ApplicationConfig { instances_root: group.clone(), ..ApplicationConfig::default() };
        Self {
            servers: servers.into_iter().map(Into::into).collect(),
            grpc_port_offset: nacos_proto::GRPC_PORT_OFFSET,
            namespace: String::new(),
            group,
            cluster: "DEFAULT".to_owned(),
            clusters: Vec::new(),
            user: None,
            password: None,
            context_path: "/nacos".to_owned(),
            is_login_https: false,
            access_key: None,
            secret_key: None,
            tls: None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(5),
            ask_again_every: Duration::from_secs(60),
            keep_every: Duration::from_secs(10),
            grace: Duration::from_secs(30),
            max_message_len: 16 << 20,
            applications,
        }
    }
}

/// How to reach the API server of Kubernetes, and what is read there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KubernetesConfig {
    /// `https://HOST:PORT`, or `http://` for a proxy on the same machine. `None`: that of the
    /// cluster in which we run, with the identity of our service account.
    pub server: Option<String>,
    /// Whose slices are read; `*` for all. `None`: our own, outside of a cluster `default`.
    pub namespace: Option<String>,
    /// A file with a token. It is read for each request.
    pub token_file: Option<PathBuf>,
    /// The authority of the API server, and our own certificate if it wants one.
    pub tls: RegistryTls,
    /// Which slices and Services are read, as `labelSelector` of Kubernetes.
    pub label_selector: Option<String>,
    /// Whether Services are read for their annotations.
    pub annotations: bool,
    /// Services that have no annotation.
    pub services: Vec<KubernetesService>,
    /// For each connection, with TLS.
    pub connect_timeout: Duration,
    /// For each page of a list, and for the beginning of each watch.
    pub request_timeout: Duration,
}

/// A Service of Kubernetes that offers a Dubbo service.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KubernetesService {
    /// The service of Dubbo.
    pub service: ServiceKey,
    /// The namespace of the Service, if it is not the one that is read.
    pub namespace: Option<String>,
    /// The name of the Service.
    pub name: String,
    /// The name or number of its port. `None`: the one named `dubbo`, or the only one.
    pub port: Option<String>,
}

impl KubernetesConfig {
    /// The defaults: the cluster in which we run, annotations, timeouts of 3 and 10 seconds.
    #[must_use]
    pub fn new() -> Self {
        Self {
            server: None,
            namespace: None,
            token_file: None,
            tls: RegistryTls::default(),
            label_selector: None,
            annotations: true,
            services: Vec::new(),
            connect_timeout: Duration::from_secs(3),
            request_timeout: Duration::from_secs(10),
        }
    }
}

impl fmt::Debug for NacosConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NacosConfig")
            .field("servers", &self.servers)
            .field("namespace", &self.namespace)
            .field("group", &self.group)
            .field("user", &self.user)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

impl Default for KubernetesConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// The files, in PEM, for a registry over TLS.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RegistryTls {
    /// Authority of the server's certificate. ZooKeeper takes those of the system without it.
    pub ca_file: Option<PathBuf>,
    /// Our certificate, if the registry asks for one.
    pub cert_file: Option<PathBuf>,
    /// The key of our certificate.
    pub key_file: Option<PathBuf>,
    /// The name in the server's certificate, if it is not the host of the URL.
    pub server_name: Option<String>,
}
