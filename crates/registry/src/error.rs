//! Everything that can go wrong at the edge of a registry, with what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a registry could not be opened, read or written.
///
/// A registry that is merely away is not an error: it shows in
/// [`RegistryStatus`](crate::RegistryStatus), and we keep trying.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// There is no tokio runtime to run the watches on.
    #[error("a registry needs a tokio runtime: open it from inside one")]
    NoRuntime,
    /// An etcd registry without an address.
    #[error("no etcd endpoint is given: add at least one, such as http://127.0.0.1:2379")]
    NoEtcdEndpoint,
    /// An etcd address that is not a URL.
    #[error("etcd endpoint {url:?} is wrong: write http://HOST:PORT or https://HOST:PORT")]
    BadEtcdUrl {
        /// What was given.
        url: String,
    },
    /// TLS is configured for an address that says http.
    #[error("etcd endpoint {url:?} has TLS settings: write https:// or remove them")]
    TlsForPlainUrl {
        /// What was given.
        url: String,
    },
    /// An https address without a certificate authority.
    #[error("etcd endpoint {url:?} needs the authority of its certificate: set the CA file")]
    NoCa {
        /// What was given.
        url: String,
    },
    /// A ZooKeeper registry without an address.
    #[error("no ZooKeeper server is given: add at least one, such as 127.0.0.1:2181")]
    NoZooKeeperServer,
    /// An address of ZooKeeper that is none.
    #[error("ZooKeeper server {server:?} is wrong: write HOST:PORT")]
    BadZooKeeperServer {
        /// What was given.
        server: String,
    },
    /// A Nacos registry without an address.
    #[error("no Nacos server is given: add at least one, such as 127.0.0.1:8848")]
    NoNacosServer,
    /// An address of Nacos that is none.
    #[error("Nacos server {server:?} is wrong: write HOST:PORT, the port of HTTP")]
    BadNacosServer {
        /// What was given.
        server: String,
    },
    /// A registration that Nacos would not take.
    #[error(
        "cannot register {address}: Nacos takes {max} characters of metadata, and even without \
         what can be left out these are {found}"
    )]
    LongMetadata {
        /// What was given.
        address: String,
        /// Their length.
        found: usize,
        /// The longest.
        max: usize,
    },
    /// There is no cluster around this process.
    #[error(
        "this process is not in a cluster of Kubernetes (KUBERNETES_SERVICE_HOST and \
         KUBERNETES_SERVICE_PORT are not set): give the API server's URL"
    )]
    NotInCluster,
    /// An API server's address that is none.
    #[error("API server {server:?} is wrong: write https://HOST:PORT")]
    BadKubernetesServer {
        /// What was given.
        server: String,
    },
    /// A name that no namespace has.
    #[error("namespace {found:?} is wrong: write its name, or * for all")]
    BadNamespace {
        /// What was given.
        found: String,
    },
    /// A Service that could be in any namespace.
    #[error("Service {name} could be in any namespace: write NAMESPACE/{name}")]
    NoNamespace {
        /// The Service.
        name: String,
    },
    /// Somebody wants to register in Kubernetes.
    #[error(
        "services cannot be registered in Kubernetes, which does that itself: export into a \
         registry of kind \"memory\", and name the agent's port \"link\" in the Service"
    )]
    KubernetesRegisters,
    /// An access list that only a user can have.
    #[error("this ACL needs a user: set user and password, or acl = \"open\"")]
    AclWithoutUser,
    /// Certificates that cannot be used.
    #[error(transparent)]
    Tls(wire::tls::TlsError),
    /// A certificate without its key, or the other way round.
    #[error("a client certificate needs both files, the certificate and its key")]
    HalfIdentity,
    /// A name without a password, or the other way round.
    #[error("give both user and password, or neither")]
    HalfCredentials,
    /// A lease that cannot be kept.
    #[error("lease of {found:?} is out of range: take {min:?} to {max:?}")]
    LeaseTtl {
        /// What was given.
        found: Duration,
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// A key prefix that would not separate our keys from others.
    #[error("root {found:?} is wrong: give path segments without leading or trailing slash")]
    BadRoot {
        /// What was given.
        found: String,
    },
    /// A file that must be there to begin with.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The text of a file registry is wrong.
    #[error("{}:{line}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// Somebody wants to register in a file.
    #[error(
        "{} is a file registry, and services cannot register in a file: write the endpoint into \
         the file, or use a registry that takes registrations, such as etcd",
        path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// Services cannot be registered in a list that never changes.
    #[error(
        "this registry is a list in the configuration, and services cannot register in it: use \
         one that takes registrations, such as etcd"
    )]
    Fixed,
    /// A registry that is made of others was opened without them.
    #[error("this registry is made of others: open those, and make it of them")]
    NoMembers,
    /// No registry of several can hold registrations.
    #[error(
        "services can register in none of {members}: add one that is neither a file nor a list"
    )]
    NobodyRegisters {
        /// Their names.
        members: String,
    },
    /// An endpoint of such a list is wrong.
    #[error("{reason}")]
    BadEndpoint {
        /// What is wrong.
        reason: String,
    },
    /// An address that no other host can reach.
    #[error("cannot register {address}: give the host and port under which others reach it")]
    BadAddress {
        /// What was given.
        address: String,
    },
    /// A parameter that would break the URL apart.
    #[error(
        "cannot register {address}: its parameters hold one of the characters & = ? # or a space"
    )]
    BadParameter {
        /// The endpoint.
        address: String,
    },
    /// A Dubbo provider in a layout of link addresses.
    #[error(
        "cannot register {address}: the contest layout cannot hold dubbo endpoints; use the dubbo \
         layout"
    )]
    NoDubboInLayout {
        /// What was given.
        address: String,
    },
    /// The registry cannot be read now.
    #[error("the registry cannot be read: {reason}")]
    Unread {
        /// What it, or the way to it, says.
        reason: String,
    },
    /// The registry did not confirm in time.
    #[error("withdrawal of {address} was not confirmed within {after:?}: it ends with its lease")]
    WithdrawTimeout {
        /// The endpoint.
        address: String,
        /// How long we waited.
        after: Duration,
    },
}

impl RegistryError {
    /// Whether it says that the registry takes no registrations at all.
    pub(crate) fn refuses_all(&self) -> bool {
        matches!(self, Self::Fixed | Self::ReadOnly { .. } | Self::KubernetesRegisters)
    }
}
