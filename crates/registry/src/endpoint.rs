//! Endpoints, and lists of them as a registry shows them.
//!
//! Invariant: a [`Snapshot`] lists each address once, ordered by [`EndpointKey`].

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dubbo_proto::{DubboUrl, Serialization, ServiceKey, without_credentials};
use parameters::Parameters;

/// The weight of an endpoint that says nothing about it, as in Dubbo.
pub const DEFAULT_WEIGHT: u32 = 100;

/// What is spoken at an endpoint.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Protocol {
    /// The link between two agents.
    Link,
    /// Dubbo TCP.
    Dubbo,
}

/// Where registries have endpoints of apps, as Dubbo does.
pub(crate) const PROVIDERS: &str = "providers";
/// Where they have those of agents.
pub(crate) const AGENTS: &str = "agents";

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Link, Self::Dubbo];

    /// Whether an agent speaks it in the place of its app. Otherwise an app speaks it itself.
    #[must_use]
    pub fn is_of_agents(self) -> bool {
        match self {
            Self::Link => true,
            Self::Dubbo => false,
        }
    }

    /// The folder, or the part of a name, that registries have its endpoints in.
    pub(crate) fn category(self) -> &'static str {
        if self.is_of_agents() { AGENTS } else { PROVIDERS }
    }

    /// The scheme in URLs.
    #[must_use]
    pub fn scheme(self) -> &'static str {
        match self {
            Self::Link => "link",
            Self::Dubbo => "dubbo",
        }
    }

    /// The protocol of a URL's scheme, if it is one that we speak.
    #[must_use]
    pub fn from_scheme(scheme: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.scheme() == scheme)
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheme())
    }
}

/// What makes two endpoints the same one.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EndpointKey {
    /// What is spoken there.
    pub protocol: Protocol,
    /// Name or address; IPv6 without brackets.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
}

impl EndpointKey {
    /// `host:port`, with brackets around an IPv6 address; or `unix:` and the path of a socket.
    #[must_use]
    pub fn address(&self) -> String {
        wire::address::join(&self.host, self.port)
    }
}

/// As a file of endpoints has it: `protocol://host:port`, or `protocol+unix:/path`.
impl fmt::Display for EndpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&written(self.protocol.scheme(), &self.address()))
    }
}

/// An address with what is spoken there, as a file of endpoints has it. The address may be `unix:`
/// and a path.
#[must_use]
pub fn written(protocol: &str, address: &str) -> String {
    match wire::address::unix_path(address) {
        Some(_) => format!("{protocol}+{address}"),
        None => format!("{protocol}://{address}"),
    }
}

/// One address that offers a service.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// What is spoken there.
    pub protocol: Protocol,
    /// Name or address, IPv6 without brackets; or `unix:` and the path of a socket.
    pub host: Arc<str>,
    /// TCP port. A Unix socket has none.
    pub port: u16,
    /// Share of the traffic; 0 means none.
    pub weight: u32,
    /// Set if the endpoint tells when it started: it gets its full weight only after some time.
    pub warm_up: Option<WarmUp>,
    /// What the provider reads, best first. Empty means unknown (a plain Dubbo provider that says
    /// nothing reads hessian2).
    pub serializations: Vec<Serialization>,
    /// How long the provider suggests to wait for an answer.
    pub timeout: Option<Duration>,
    /// How many calls the provider works on at once, if it says so.
    pub threads: Option<u32>,
    /// Everything that the registry knows, by Dubbo's parameter names; `path` is that of a
    /// provider's URL.
    pub params: Parameters,
    /// Which of several registries lists it, if it comes from several.
    pub registry: Option<Arc<str>>,
    /// It is in a list that an operator writes, where nothing has a lease: what is no longer there
    /// was taken off.
    pub is_written: bool,
}

/// When an endpoint started, and how long it takes to warm up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WarmUp {
    /// By the provider's wall clock.
    pub started_at: SystemTime,
    /// From a weight of about nothing to the full weight.
    pub period: Duration,
}

impl WarmUp {
    /// Time since the start; zero if the provider's clock is ahead of ours.
    #[must_use]
    pub fn uptime(&self, now: SystemTime) -> Duration {
        now.duration_since(self.started_at).unwrap_or_default()
    }
}

impl Endpoint {
    /// An endpoint with all that `params` say about it; what they leave out has Dubbo's default.
    pub(crate) fn of_params(protocol: Protocol, host: &str, port: u16, params: Parameters) -> Self {
        let url = DubboUrl { params, ..DubboUrl::default() };
        let timeout = url.param("timeout").and_then(|ms| ms.parse().ok()).filter(|ms| 0 < *ms);
        let started_at = url.timestamp_ms().map(Duration::from_millis);
        let started_at = started_at.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
        let period = url.warmup();
        let warm_up = started_at.filter(|_| !period.is_zero());
        let says = |name| url.param(name).is_some();
        let knows_serializations =
            !protocol.is_of_agents() || says("serialization") || says("prefer.serialization");
        Self {
            protocol,
            host: host.into(),
            port,
            weight: url.weight(),
            warm_up: warm_up.map(|started_at| WarmUp { started_at, period }),
            serializations: if knows_serializations { url.serializations() } else { Vec::new() },
            timeout: timeout.map(Duration::from_millis),
            threads: url.threads(),
            params: url.params,
            registry: None,
            is_written: false,
        }
    }

    /// An endpoint of default weight of which nothing else is known.
    #[must_use]
    pub fn new(protocol: Protocol, host: &str, port: u16) -> Self {
        Self {
            protocol,
            host: host.into(),
            port,
            weight: DEFAULT_WEIGHT,
            warm_up: None,
            serializations: Vec::new(),
            timeout: None,
            threads: None,
            params: Parameters::default(),
            registry: None,
            is_written: false,
        }
    }

    /// The same endpoint with other parameters. What these do not tell stays as it is.
    #[must_use]
    pub fn with_params(&self, params: Parameters) -> Self {
        let changed = Self::of_params(self.protocol, &self.host, self.port, params);
        let is_changed = |names: &[&str]| {
            names.iter().any(|name| self.params.get(name) != changed.params.get(name))
        };
        let mut same = self.clone();
        if is_changed(&["weight"]) {
            same.weight = changed.weight;
        }
        if is_changed(&["timeout", "default.timeout"]) {
            same.timeout = changed.timeout;
        }
        if is_changed(&["timestamp", "remote.timestamp", "warmup"]) {
            same.warm_up = changed.warm_up;
        }
        if is_changed(&["serialization", "prefer.serialization"]) {
            same.serializations.clone_from(&changed.serializations);
        }
        Self { params: changed.params, ..same }
    }

    /// Whether its parameters switch it off, as a rule can: `disabled=true` or `enabled=false`.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        let url = DubboUrl { params: self.params.clone(), ..DubboUrl::default() };
        !url.is_enabled()
    }

    /// The longest body of a request that a Dubbo provider there takes, by its parameter
    /// `payload`.
    #[must_use]
    pub fn payload_limit(&self) -> usize {
        DubboUrl { params: self.params.clone(), ..DubboUrl::default() }.payload()
    }

    /// Where the provider is: for an agent's endpoint `host:port` of the app behind it, if it
    /// says so.
    #[must_use]
    pub fn provider(&self) -> (&str, u16) {
        let app = self.params.get("for").and_then(|app| wire::address::split(app).ok());
        app.map_or((&self.host, self.port), |app| (app.0, app.1))
    }

    /// What makes it the same endpoint in the next snapshot.
    #[must_use]
    pub fn key(&self) -> EndpointKey {
        EndpointKey { protocol: self.protocol, host: Arc::clone(&self.host), port: self.port }
    }

    /// `host:port`, with brackets around an IPv6 address.
    #[must_use]
    pub fn address(&self) -> String {
        self.key().address()
    }
}

/// How far a [`Snapshot`] can be trusted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Freshness {
    /// Nothing has been read yet; the list is empty.
    #[default]
    Pending,
    /// The list is what the registry holds.
    Current,
    /// The registry is away or unreadable; the list is the last one known.
    Stale,
}

/// A service whose endpoints are told by the configuration.
#[derive(Clone, Eq, PartialEq)]
pub struct StaticService {
    /// The service.
    pub service: ServiceKey,
    /// Its endpoints, as in the file of a file registry.
    pub endpoints: Vec<String>,
}

/// Endpoints are URLs, which may have users and tokens.
impl fmt::Debug for StaticService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, endpoints } = self;
        let endpoints: Vec<_> = endpoints.iter().map(|url| without_credentials(url)).collect();
        let mut shown = f.debug_struct("StaticService");
        shown.field("service", service).field("endpoints", &endpoints).finish()
    }
}

/// The endpoints of one service at one moment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Snapshot {
    /// How far the list can be trusted.
    pub status: Freshness,
    /// Each address once, ordered by key.
    pub endpoints: Arc<[Endpoint]>,
    /// What else is registered for the service, in no order: at most [`MAX_UNUSED`]. If there is
    /// no endpoint, it tells which step of the search failed; see
    /// [`why_nobody`](crate::why_nobody).
    pub unused: Arc<[Unused]>,
}

/// More would tell nobody more.
pub const MAX_UNUSED: usize = 64;

/// Something that is registered for a service and cannot be called.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Unused {
    /// `protocol://host:port`, or as much as can be read of what was written.
    pub what: String,
    /// Its `host:port`, if it has one.
    pub address: Option<String>,
    /// Why it is not used.
    pub reason: NotUsed,
}

/// Where in a registry an endpoint is found.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// It is registered for this interface, as Dubbo 2 has it.
    #[default]
    Interface,
    /// An instance of its application is registered, whose metadata list its services, as Dubbo 3
    /// has it.
    Application,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interface => "interface",
            Self::Application => "application",
        })
    }
}

/// Why something that is registered is not used.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum NotUsed {
    /// We do not speak its protocol.
    Protocol,
    /// Its URL says `disabled=true` or `enabled=false`, or the registry says so.
    Disabled,
    /// The registry says that it is not well, and others are.
    Unhealthy,
    /// It cannot be read, for this reason.
    Unreadable(String),
    /// It is an application that the mapping names for the service, and no instance of it runs.
    NoInstance,
    /// It is an application that the mapping names for the service, and its instances have no
    /// revision: they say that they offer nothing.
    NoRevision,
    /// It is an application that the mapping names for the service, and its instances offer other
    /// services only.
    NoService,
    /// It is an instance of which nobody knows what it offers, for this reason.
    NoMetadata(String),
    /// It is the interface, and the mapping names no application for it.
    NoMapping,
    /// It is the same interface, offered with another version or group.
    OtherVariant,
    /// It is another interface, whose name is like this one.
    SimilarName,
}

impl Unused {
    /// Whether it says only what else there is, and so matters only while there is no endpoint.
    #[must_use]
    pub fn is_hint(&self) -> bool {
        let hints =
            [NotUsed::NoMapping, NotUsed::OtherVariant, NotUsed::NoService, NotUsed::SimilarName];
        hints.contains(&self.reason)
    }
}

/// What it is, and why it is not used.
impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.what;
        match &self.reason {
            NotUsed::Protocol => {
                let protocol = what.split("://").next().unwrap_or_default();
                write!(f, "{what} (protocol {protocol} is not supported, only dubbo and link)")
            }
            NotUsed::Disabled => write!(f, "{what} (disabled)"),
            NotUsed::Unhealthy => write!(f, "{what} (unhealthy, the registry says)"),
            NotUsed::Unreadable(error) => write!(f, "{what} ({error})"),
            NotUsed::NoInstance => {
                write!(f, "{what} (the mapping names it, but no instance of it is registered)")
            }
            NotUsed::NoRevision => {
                write!(f, "{what} (its instances have no revision yet: they offer nothing)")
            }
            NotUsed::NoService => {
                write!(f, "{what} (the mapping names it, but its instances do not offer it)")
            }
            NotUsed::NoMetadata(error) => write!(f, "{what} (its services are unknown: {error})"),
            NotUsed::NoMapping => write!(f, "{what} (no application is mapped to it)"),
            NotUsed::OtherVariant => write!(f, "{what} (offered with another version or group)"),
            NotUsed::SimilarName => write!(f, "{what} (a similar name)"),
        }
    }
}

/// What an agent tells the world: this service is offered at this endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Registration {
    /// The service.
    pub service: ServiceKey,
    /// Where it is offered.
    pub endpoint: Endpoint,
    /// Method names; may be empty.
    pub methods: Vec<String>,
    /// `host:port` of the app behind the agent, as the app itself registers it (or would): the
    /// agent's endpoint takes the place of the app's.
    pub app_address: Option<String>,
}

/// At which levels services are registered for Dubbo's own consumers. Links between agents are
/// always registered at interface level.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RegisterMode {
    /// At both. Consumers of Dubbo 3 then choose. A registration counts as established once it is
    /// there at interface level.
    #[default]
    All,
    /// At interface level.
    Interface,
    /// At application level. Consumers of Dubbo 2 do not find the service.
    Instance,
}
