//! What the caller says about a registry. Plain data; [`Registry::open`](crate::Registry::open)
//! checks it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::layout::Layout;
use crate::memory::MemoryHub;

/// Which registry, and how to reach it.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one per registry, at start")]
pub enum RegistryConfig {
    /// Inside this process: everybody who holds a clone of the hub sees the same services.
    Memory(MemoryHub),
    /// A TOML file that is watched; see [`crate::file`].
    File {
        /// The file. It may appear later.
        path: PathBuf,
    },
    /// etcd v3; see [`crate::etcd`].
    Etcd(EtcdConfig),
}

impl RegistryConfig {
    /// The name of its kind, as configuration files have it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::File { .. } => "file",
            Self::Etcd(_) => "etcd",
        }
    }

    /// Whether both say the same. All registries in memory count as the same: they have no
    /// settings.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Memory(_), Self::Memory(_)) => true,
            (Self::File { path }, Self::File { path: other }) => path == other,
            (Self::Etcd(config), Self::Etcd(other)) => config == other,
            _ => false,
        }
    }
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
    pub password: Option<String>,
    /// Needed for https.
    pub tls: Option<EtcdTls>,
    /// How long a registration outlives an agent that dies. Whole seconds count.
    pub lease_ttl: Duration,
    /// For a connection to one member, with TLS and authentication.
    pub connect_timeout: Duration,
    /// For each request.
    pub request_timeout: Duration,
    /// How long endpoints known before are kept when etcd comes back without its history.
    pub grace: Duration,
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

/// The files, in PEM, for etcd over TLS.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct EtcdTls {
    /// Authority of the server's certificate.
    pub ca_file: Option<PathBuf>,
    /// Our certificate, if etcd asks for one.
    pub cert_file: Option<PathBuf>,
    /// The key of our certificate.
    pub key_file: Option<PathBuf>,
    /// The name in the server's certificate, if it is not the host of the URL.
    pub server_name: Option<String>,
}
