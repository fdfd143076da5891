//! How calls to services are made: what `[defaults]` and `[[cluster]]` come to.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use balance::{HoldPolicy, OutlierPolicy, Policy};
use dubbo_proto::Serialization;
use flow::queue::Priority;
use wire::SocketOptions;

use super::{AppCapacity, MethodPolicy, RoutingPolicy, UpstreamTls};

/// How calls to a service are made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClusterPolicy {
    /// How an endpoint is chosen.
    pub balance: Policy,
    /// Deadline of a call that does not bring its own; `None` takes the provider's registered
    /// timeout, or Dubbo's default of one second.
    pub timeout: Option<Duration>,
    /// The section that says so, for messages.
    pub timeout_section: Arc<str>,
    /// Longest deadline that a caller may ask for.
    pub max_timeout: Duration,
    /// The section that says so, for messages.
    pub max_timeout_section: Arc<str>,
    /// Longest wait for a connection to an endpoint.
    pub connect_timeout: Duration,
    /// An endpoint that is silent for so long is asked for a sign of life, and its connection ends
    /// after three times as long; `None` for what its protocol has.
    pub heartbeat: Option<Duration>,
    /// Serialization for endpoints whose registration does not tell; hessian2 unless configured.
    pub serialization: Serialization,
    /// How many endpoints one call may be offered to; only a call that no provider has begun is
    /// offered again. At least 1.
    pub max_attempts: u32,
    /// Calls in flight towards one endpoint from one worker thread; further ones are refused.
    pub max_in_flight: u32,
    /// How many calls an endpoint can take at once that is called without an agent there, from all
    /// workers together; `None` for no limit.
    pub endpoint_capacity: Option<AppCapacity>,
    /// Longest body of a reply, in bytes; the call of a longer one fails.
    pub max_reply_len: usize,
    /// Requests and replies of so many bytes go over a connection of their own to a Dubbo
    /// provider.
    pub long_len: usize,
    /// How many connections each worker has to one endpoint, for short messages and for long
    /// ones.
    pub connections: ConnectionLimit,
    /// Whether providers are told how much time a call has left, in the attachment `_TO`.
    pub tells_time_left: bool,
    /// The class of calls that name none, while they wait for room.
    pub priority: Priority,
    /// How the kernel carries connections to endpoints.
    pub socket: SocketOptions,
    /// When endpoints stay in use that the registry no longer lists.
    pub hold: HoldPolicy,
    /// When endpoints take no calls for a while because of how their calls ended.
    pub outlier: OutlierPolicy,
    /// By which rules calls find their endpoints.
    pub routing: Arc<RoutingPolicy>,
    /// What holds for some methods; the first that fits counts.
    pub methods: Arc<[Arc<MethodPolicy>]>,
    /// How endpoints are called that speak TLS.
    pub tls: Option<Arc<UpstreamTls>>,
}

/// How many connections there are to one endpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConnectionLimit {
    /// So many.
    Fixed(NonZeroUsize),
    /// As many as its calls need.
    Auto {
        /// And no more than so many.
        max: NonZeroUsize,
    },
}

/// Policies by service, the first match wins.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClusterRules {
    /// For services that no rule matches.
    pub default: ClusterPolicy,
    /// Patterns of interface names, in the order of the file.
    pub rules: Vec<ClusterRule>,
}

/// One policy and the services it is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClusterRule {
    /// An interface name; a trailing `*` matches any ending.
    pub interface: String,
    /// The policy of those services.
    pub policy: ClusterPolicy,
}

impl ClusterRules {
    /// The policy for calls to `interface`.
    pub fn policy(&self, interface: &str) -> &ClusterPolicy {
        self.rules
            .iter()
            .find(|rule| match rule.interface.strip_suffix('*') {
                Some(prefix) => interface.starts_with(prefix),
                None => interface == rule.interface,
            })
            .map_or(&self.default, |rule| &rule.policy)
    }
}

impl ClusterRules {
    /// Keeps the TLS of `old` where it is of the same files, with what was read from them now:
    /// those who use it see new certificates when they connect the next time.
    pub(super) fn keep_tls(&mut self, old: &Self) {
        keep_tls(&mut self.default, &old.default);
        for rule in &mut self.rules {
            if let Some(old) = old.rules.iter().find(|old| old.interface == rule.interface) {
                keep_tls(&mut rule.policy, &old.policy);
            }
        }
    }
}

fn keep_tls(new: &mut ClusterPolicy, old: &ClusterPolicy) {
    if let (Some(new), Some(old)) = (&mut new.tls, &old.tls)
        && new == old
    {
        old.renew(new);
        *new = Arc::clone(old);
    }
}
