//! The checked configuration of an agent: every value here is known to be good.
//!
//! A file is read by [`load()`] (or text by [`parse`]): TOML into plain structs, then one check
//! that builds these types and names file, line, key and remedy of whatever is wrong. Nobody
//! checks a value a second time.

mod access_log;
mod app;
mod certificates;
mod check;
mod cluster_policy;
mod clusters;
mod conflicts;
mod defaults;
mod error;
mod heartbeat;
pub mod http_app;
mod listeners;
mod load;
mod memory;
mod methods;
mod registries;
mod reload;
mod routing;
mod section;
mod shown;
mod socket;
mod splits;
#[cfg(test)]
mod tests;
mod tls;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::{Serialization, ServiceKey};
use registry::{DefinitionSources, RegistryConfig};
use wire::{Destination, ListenAddress, ListenOptions, SocketOptions};

pub use self::access_log::{AccessLogConfig, LineFormat, LoggedCalls};
pub use self::certificates::{CertificatesInUse, OutOfDate, ShownChain};
pub use self::check::check_log_filter;
pub use self::cluster_policy::{ClusterPolicy, ClusterRule, ClusterRules, ConnectionLimit};
pub use self::error::{ConfigError, ConfigErrors, KeyLine};
pub use self::http_app::HttpAppConfig;
pub use self::load::{load, parse};
pub(crate) use self::methods::calls;
pub use self::methods::{
    BreakerSettings, CallMode, CallerKey, FailbackPolicy, FaultSettings, HedgeDelay, MethodPolicy,
    MirrorPolicy, Mock, MockAnswer,
};
pub use self::reload::{ExportChange, ReloadPlan};
pub use self::routing::{Caller, HashKey, HashPolicy, RoutingPolicy, RuleFile};
pub(crate) use self::section::{advise_package, closest};
pub use self::splits::{CallPart, CallTest, OtherService, Split, SplitTarget};
pub use self::tls::{ListenerTls, TlsClient, TlsEndpoints, TlsFiles, UpstreamTls};

/// All that an agent is told to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who this agent is and how it runs.
    pub process: ProcessConfig,
    /// What is logged, and how.
    pub log: LogConfig,
    /// Which calls are written down.
    pub access_log: AccessLogConfig,
    /// Where metrics and health are served; `None` if switched off.
    pub admin: Option<AdminConfig>,
    /// Where endpoints are learnt and services registered, by name.
    pub registries: Vec<RegistryEntry>,
    /// Listeners for calls by HTTP.
    pub http: Vec<HttpIngressConfig>,
    /// Listeners for calls by Dubbo TCP.
    pub dubbo: Vec<DubboIngressConfig>,
    /// The listener for other agents. There is this one or the next if something is exported.
    pub link: Option<LinkListenerConfig>,
    /// The listener for Dubbo's own consumers of what is exported.
    pub dubbo_exports: Option<DubboListenerConfig>,
    /// Services of the local app that other agents may call.
    pub exports: Vec<ExportConfig>,
    /// How upstream services are called.
    pub clusters: ClusterRules,
    /// Where the file of the access log is named.
    pub access_log_place: KeyLine,
    /// What is not a mistake, but could be better.
    pub warnings: Vec<ConfigError>,
}

/// Identity and threads of the process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProcessConfig {
    /// The name that peers and registries see; the host name unless configured.
    pub name: String,
    /// Worker threads; one per core unless configured.
    pub workers: NonZeroUsize,
    /// How long calls in flight may take to finish after SIGTERM.
    pub drain_timeout: Duration,
    /// Bytes that all connections together may have this process hold for them.
    pub memory_len: usize,
    /// File descriptors that are kept from callers, for connections to endpoints, registries and
    /// files; a share of the process's limit unless configured.
    pub reserved_files: Option<u64>,
    /// One call in so many has the time of its stages stopped; none if 0.
    pub stage_sample: u32,
}

/// Logging.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogConfig {
    /// A `tracing` filter directive, such as `info` or `agent=debug`.
    pub filter: String,
    /// One line of text, or one JSON object, per event.
    pub format: LogFormat,
}

/// The shape of a log line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// The admin listener.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AdminConfig {
    /// Address to listen on; loopback unless the file says otherwise.
    pub listen: ListenAddress,
    /// Names by which it may be called, beside addresses and the names of this machine for itself.
    pub hosts: Vec<String>,
    /// The TLS that those speak who ask it.
    pub tls: Option<ListenerTls>,
    /// Whether it shows the arguments of calls to who taps them.
    pub shows_arguments: bool,
}

/// A registry and the name that the rest of the file uses for it.
#[derive(Clone, Debug)]
pub struct RegistryEntry {
    /// Unique name.
    pub name: String,
    /// What it is and how to reach it.
    pub config: RegistryConfig,
    /// Where definitions of its services are looked for.
    pub definitions: DefinitionSources,
    /// The file that keeps what it listed last, if any.
    pub snapshot: Option<PathBuf>,
    /// Where its file is named, or else the registry.
    pub place: KeyLine,
}

/// A listener for HTTP/1.1 and HTTP/2 calls.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HttpIngressConfig {
    /// Address to listen on.
    pub listen: ListenAddress,
    /// How the kernel carries its connections.
    pub socket: ListenOptions,
    /// Index into [`Config::registries`]: where the called services are looked up.
    pub registry: usize,
    /// Connections held at once; further ones are closed as they are accepted.
    pub max_connections: usize,
    /// Longest request body, in bytes; a longer one is answered with 413.
    pub max_body_len: usize,
    /// Longest request head, in bytes; a longer one is answered with 431.
    pub max_head_len: usize,
    /// Longest wait for a whole request head, from its first byte (or from the accept); then 408.
    pub head_timeout: Duration,
    /// Longest wait for a whole request body; then 408.
    pub body_timeout: Duration,
    /// How long an idle keep-alive connection is kept.
    pub idle_timeout: Duration,
    /// How long a peer may leave its answers unread.
    pub write_timeout: Duration,
    /// A peer of HTTP/2 that is silent for so long is asked for a sign of life, and its connection
    /// ends after three times as long.
    pub heartbeat: Duration,
    /// Names by which web pages may call, beside addresses and the names of this machine for
    /// itself.
    pub hosts: Vec<String>,
    /// Which web pages of other origins may call; none without it.
    pub cors: Option<Cors>,
    /// The TLS that callers speak.
    pub tls: Option<ListenerTls>,
}

/// Which web pages of other origins may call, and what they may send (CORS).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cors {
    /// Pages of every origin may call.
    pub is_for_all: bool,
    /// Origins as browsers write them, such as `https://shop.example`, or `null`.
    pub origins: Vec<String>,
    /// Headers that they may send, beside those of calls.
    pub headers: Vec<String>,
    /// How long browsers may remember what they were told.
    pub max_age: Duration,
    /// Whether they may send cookies and certificates.
    pub credentials: bool,
}

impl Cors {
    /// Whether pages of this origin may call.
    pub fn allows(&self, origin: &[u8]) -> bool {
        self.is_for_all || self.origins.iter().any(|known| known.as_bytes() == origin)
    }
}

/// A listener for calls by Dubbo TCP.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DubboIngressConfig {
    /// Address to listen on.
    pub listen: ListenAddress,
    /// How the kernel carries its connections.
    pub socket: ListenOptions,
    /// Index into [`Config::registries`]: where the called services are looked up.
    pub registry: usize,
    /// The service of requests that do not tell theirs in a way that is read here.
    pub default_service: Option<ServiceKey>,
    /// What a consumer may ask of us.
    pub limits: DubboLimits,
    /// The TLS that consumers speak.
    pub tls: Option<ListenerTls>,
}

/// What a listener of Dubbo TCP takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DubboLimits {
    /// Connections held at once; further ones are closed as they are accepted.
    pub max_connections: usize,
    /// Longest body of a request, in bytes; a longer one is answered with an error.
    pub max_body_len: usize,
    /// Longest time that one request may take to come.
    pub body_timeout: Duration,
    /// How long a peer may leave its answers unread.
    pub write_timeout: Duration,
    /// A consumer that is silent for so long is asked for a sign of life, and its connection ends
    /// after three times as long.
    pub heartbeat: Duration,
}

/// The listener for Dubbo's own consumers of exported services.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DubboListenerConfig {
    /// Address to listen on.
    pub listen: ListenAddress,
    /// How the kernel carries its connections.
    pub socket: ListenOptions,
    /// What is registered for others to connect to.
    pub advertise: Advertise,
    /// The application that is registered as the provider.
    pub application: String,
    /// What a consumer may ask of us.
    pub limits: DubboLimits,
    /// The TLS that consumers speak.
    pub tls: Option<ListenerTls>,
}

/// What others are told to connect to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Advertise {
    /// The listen address unless configured.
    pub host: Option<String>,
    /// The bound port unless configured.
    pub port: Option<u16>,
}

impl Advertise {
    /// The address to register for a listener that is bound to `bound` by TCP. One that is reached
    /// by a Unix socket alone is not registered, unless an address is configured.
    pub fn address(&self, bound: Option<SocketAddr>) -> Option<(String, u16)> {
        let bound_host = || bound.map(|bound| bound.ip().to_canonical().to_string());
        let host = self.host.clone().or_else(bound_host)?;
        Some((host, self.port.or_else(|| bound.map(|bound| bound.port()))?))
    }
}

/// The listener for links from other agents.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkListenerConfig {
    /// Address to listen on.
    pub listen: ListenAddress,
    /// How the kernel carries its connections.
    pub socket: ListenOptions,
    /// What is registered for others to connect to.
    pub advertise: Advertise,
    /// Connections held at once.
    pub max_connections: usize,
    /// Calls in flight that one link may have: its fixed window.
    pub window: u32,
    /// Longest request, in bytes: its arguments on the link, and all of its body for a Dubbo app.
    pub max_body_len: usize,
    /// Longest time that the parts of one request may take to come.
    pub body_timeout: Duration,
    /// How long a peer may leave its answers unread.
    pub write_timeout: Duration,
    /// An agent that is silent for so long is asked for a sign of life, and its link ends after
    /// three times as long.
    pub heartbeat: Duration,
    /// The TLS that other agents speak.
    pub tls: Option<ListenerTls>,
}

/// One service of the local app that is offered to other agents.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExportConfig {
    /// What is offered.
    pub service: ServiceKey,
    /// The app.
    pub app: AppConfig,
    /// Index into [`Config::registries`].
    pub registry: usize,
    /// Weight that is registered; at least 1.
    pub weight: u32,
    /// How many calls the app can take at once. Exports of one app have the same.
    pub capacity: AppCapacity,
}

/// How many calls an app can work on at once, as far as the configuration tells.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AppCapacity {
    /// So many, at least 1.
    Known(u32),
    /// It is found out by how the app answers.
    Adaptive,
    /// As many as the app has registered as its `threads`; if it has not, it is found out.
    #[default]
    Registered,
}

/// An app, by what it speaks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AppConfig {
    /// A Dubbo provider.
    Dubbo {
        /// Host of the app, or `unix:` and the path of its socket.
        host: String,
        /// Port of the app's Dubbo TCP listener. A Unix socket has none.
        port: u16,
        /// TLS, if it speaks that.
        tls: Option<TlsClient>,
        /// The serialization that the app speaks.
        serialization: Serialization,
    },
    /// A program with an HTTP endpoint.
    Http(Arc<HttpAppConfig>),
}

impl Config {
    /// How many calls the app at that address can take: what one of its exports says.
    #[must_use]
    pub fn capacity_of(&self, app: &str) -> AppCapacity {
        let of_app = self.exports.iter().filter(|export| export.app.address() == app);
        of_app
            .map(|export| export.capacity)
            .find(|it| *it != AppCapacity::Registered)
            .unwrap_or_default()
    }
}

impl AppConfig {
    /// How the app is connected to.
    #[must_use]
    pub fn destination(&self) -> Destination {
        match self {
            Self::Http(app) => app.origin.destination(),
            Self::Dubbo { host, port, tls, .. } => match wire::address::unix_path(host) {
                Some(path) => Destination::Unix(path.into()),
                None => Destination::Tcp {
                    host: host.clone(),
                    port: *port,
                    options: SocketOptions::default(),
                    tls: tls.as_ref().map(|tls| tls.client.clone()),
                },
            },
        }
    }

    /// Where the app is, as `host:port`, or `unix:` and the path of its socket.
    #[must_use]
    pub fn address(&self) -> String {
        match self {
            Self::Dubbo { host, port, .. } => wire::address::join(host, *port),
            Self::Http(app) => app.origin.address(),
        }
    }

    /// What callers may send, the preferred one first.
    #[must_use]
    pub fn serializations(&self) -> Vec<Serialization> {
        match self {
            Self::Dubbo { serialization, .. } => vec![*serialization],
            Self::Http(_) => HTTP_APP_SERIALIZATIONS.to_vec(),
        }
    }
}

impl Config {
    /// Takes over the certificates that `new` has read from the same files, for all listeners,
    /// apps and endpoints; `new` goes on with the settings that are in use.
    pub fn renew_tls(&self, new: &mut Self) {
        for own in self.listener_tls() {
            if let Some(new) = new.listener_tls().find(|new| *new == own) {
                own.renew(new);
            }
        }
        for own in &self.exports {
            let Some(new) = new.exports.iter().find(|new| new.service == own.service) else {
                continue;
            };
            match (&own.app, &new.app) {
                (AppConfig::Http(own), AppConfig::Http(new)) => own.origin.renew(&new.origin),
                (
                    AppConfig::Dubbo { tls: Some(own), .. },
                    AppConfig::Dubbo { tls: Some(new), .. },
                ) => {
                    own.renew(new);
                }
                _ => {}
            }
        }
        new.clusters.keep_tls(&self.clusters);
    }

    /// The TLS of all listeners that speak it.
    fn listener_tls(&self) -> impl Iterator<Item = &ListenerTls> {
        let http = self.http.iter().map(|it| &it.tls);
        let dubbo = self.dubbo.iter().map(|it| &it.tls);
        let link = self.link.iter().map(|it| &it.tls);
        let exports = self.dubbo_exports.iter().map(|it| &it.tls);
        let admin = self.admin.iter().map(|it| &it.tls);
        http.chain(dubbo).chain(link).chain(exports).chain(admin).flatten()
    }
}

/// What is translated for an app that speaks HTTP, the preferred one first.
pub const HTTP_APP_SERIALIZATIONS: [Serialization; Serialization::NAMED.len()] =
    Serialization::NAMED;
