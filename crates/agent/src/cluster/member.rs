//! One endpoint of a cluster: how calls get there, and what this worker knows of it.

use std::cell::{Cell, OnceCell, RefCell};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::{Serialization, ServiceKey};
use flow::pause::Pause;
use registry::listing::listed_variant;
use registry::{Endpoint, Protocol};
use tokio::sync::Notify;
use tracing::warn;

use super::Cluster;
use super::distrust::Distrust;
use super::preference::ZONE;
use crate::config::{AppCapacity, ClusterPolicy, TlsEndpoints};
use crate::gate::AppGate;
use crate::metrics::CallStats;
use crate::refused_serializations::RefusedSerializations;
use crate::upstream::{AnyUpstream, EndpointAddress, LinkPurse, Setup, SetupShare, Standing};

/// An endpoint of a cluster. Two are the same if a call would go the same way.
#[derive(Clone)]
pub struct Member(pub(super) Rc<MemberState>);

/// Parameters of a provider's URL: the token that its callers have to send, and its path.
pub(super) const TOKEN: &str = "token";
pub(super) const PATH: &str = "path";
/// Dubbo's parameters of the longest body that a provider takes.
const PAYLOAD: [&str; 2] = ["payload", "default.payload"];
/// Dubbo's parameter of providers that speak TLS.
pub const TLS: &str = "ssl-enabled";

pub(super) struct MemberState {
    pub(super) endpoint: Endpoint,
    pub(super) upstream: AnyUpstream,
    /// With which version and group it is listed, if the cluster's service leaves them open: its
    /// calls name those.
    pub(super) variant: Option<ServiceKey>,
    /// The service as its links know it.
    pub(super) service_name: Rc<str>,
    /// How the cluster wants the connections there to be.
    setup: SetupShare,
    /// From its first call on: of thousands of endpoints a worker may call few.
    stats: OnceCell<Arc<CallStats>>,
    /// What each call has to have attached: the token without which the provider takes none, and
    /// its path behind an agent.
    pub(super) attachments: Vec<(&'static str, String)>,
    /// What a request of a Dubbo consumer has to have attached at a provider: its token and its
    /// path, if that is not the interface.
    pub(super) whole_attachments: Vec<(&'static str, String)>,
    /// The longest body of a request that it takes, if it is a provider. An agent tells its links.
    pub(super) payload_limit: usize,
    /// What keeps us from sending it more calls than it can take, once it may get one. A
    /// provider's agent does that itself.
    pub(super) gate: RefCell<Option<Rc<AppGate>>>,
    /// What the gate is to be, if there is to be one.
    gate_plan: Cell<Option<GatePlan>>,
    /// The gate is not made yet.
    pub(super) is_gate_due: Cell<bool>,
    /// Forgotten with the member, when the endpoint registers others.
    pub(super) refused_serializations: RefusedSerializations,
    /// Whether its replies are read whole before they count.
    pub(super) distrust: Distrust,
    /// While it has calls and gives no sign of life.
    pub(super) pause: Cell<Option<Pause>>,
    /// While nobody hears from the endpoint: how long a call is left there.
    pub(super) silence: Cell<Option<Duration>>,
    /// Has the calls look that are there, every now and then while it is silent.
    pub(super) looks: Notify,
}

/// What limits the calls of an endpoint.
#[derive(Clone, Copy, Eq, PartialEq)]
struct GatePlan {
    capacity: AppCapacity,
    /// Those that the endpoint has registered.
    threads: Option<u32>,
}

impl Member {
    /// What tells it from all others that there are now.
    pub(super) fn id(&self) -> *const () {
        Rc::as_ptr(&self.0).cast()
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0.is_same_way(&other.0.endpoint)
    }
}

impl Eq for Member {}

/// By where it is. Few endpoints differ in nothing but the rest.
impl Hash for Member {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Endpoint { protocol, host, port, .. } = &self.0.endpoint;
        (protocol, host, port).hash(state);
    }
}

impl MemberState {
    /// What is counted of its calls, if it had any.
    pub(super) fn known_stats(&self) -> Option<&CallStats> {
        self.stats.get().map(|stats| &**stats)
    }

    pub(super) fn is_same_way(&self, other: &Endpoint) -> bool {
        let own = &self.endpoint;
        (own.protocol, own.port, &own.host, &own.serializations)
            == (other.protocol, other.port, &other.host, &other.serializations)
            && (own.params.is_shared_with(&other.params)
                || self.compared().all(|name| own.params.get(name) == other.params.get(name)))
    }

    /// The parameters in which an endpoint that is the same way does not differ.
    fn compared(&self) -> impl Iterator<Item = &'static str> {
        let of_variant = ["version", "group"].into_iter().filter(|_| self.variant.is_some());
        [TOKEN, PATH, TLS, ZONE].into_iter().chain(PAYLOAD).chain(of_variant)
    }

    /// Its state toward the calls of its service.
    #[inline]
    pub(super) fn standing(&self) -> Standing {
        self.upstream.standing(&self.service_name)
    }

    /// What its calls need credits from; empty while they need none.
    pub(super) fn purses(&self) -> impl Iterator<Item = Rc<LinkPurse>> + use<> {
        self.upstream.purses(&self.service_name)
    }

    /// The path of the provider's URL where it is another than the interface.
    pub(super) fn path(&self, interface: &str) -> Option<&str> {
        self.endpoint.params.get(PATH).filter(|path| *path != interface)
    }

    /// The first serialization that the endpoint prefers and we write.
    pub(super) fn serialization(&self, otherwise: Serialization) -> Serialization {
        self.refused_serializations.choose(&self.endpoint.serializations, otherwise)
    }
}

impl Cluster {
    /// An endpoint that was not known before.
    pub(super) fn member(&self, endpoint: &Endpoint, policy: &ClusterPolicy) -> Member {
        let is_offering = endpoint.params.get(TLS);
        let is_offering = is_offering.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let tls =
            policy.tls.as_ref().filter(|tls| is_offering || tls.endpoints == TlsEndpoints::All);
        let tls = tls.map(|tls| match endpoint.protocol {
            Protocol::Link => &tls.link,
            Protocol::Dubbo => &tls.dubbo,
        });
        if is_offering && tls.is_none() {
            let (service, endpoint) = (&self.service_name, &endpoint.host);
            warn!(
                %service, %endpoint,
                "the endpoint is registered with ssl-enabled=true, but is called without TLS; add \
                 [defaults.tls] or [cluster.tls]"
            );
        }
        let at = EndpointAddress { host: &endpoint.host, port: endpoint.port, tls };
        if endpoint.protocol == Protocol::Dubbo {
            let (service, registry) = (&self.service_name, &self.registry_name);
            self.pool.own_ingresses.tell_loop(service, registry, &endpoint.host, endpoint.port);
        }
        let (upstream, setup) =
            self.pool.upstream(endpoint.protocol, at, Setup::of_cluster(policy));
        let (endpoint, refused_serializations) =
            (endpoint.clone(), RefusedSerializations::default());
        let token = endpoint.params.get(TOKEN).filter(|token| !token.is_empty());
        let token = token.map(|token| (TOKEN, token.to_owned()));
        let variant = listed_variant(&self.service, &endpoint);
        let service_name = match &variant {
            Some(listed) => listed.to_string().into(),
            None => Rc::clone(&self.service_name),
        };
        let payload_limit = match endpoint.protocol {
            Protocol::Link => usize::MAX,
            Protocol::Dubbo => endpoint.payload_limit(),
        };
        let mut state = MemberState {
            endpoint,
            upstream,
            variant,
            service_name,
            setup,
            stats: OnceCell::new(),
            attachments: Vec::new(),
            whole_attachments: Vec::new(),
            payload_limit,
            gate: RefCell::default(),
            gate_plan: Cell::default(),
            is_gate_due: Cell::default(),
            refused_serializations,
            distrust: Distrust::default(),
            pause: Cell::default(),
            silence: Cell::default(),
            looks: Notify::new(),
        };
        let path = state.path(&self.service.interface).map(|path| (PATH, path.to_owned()));
        state.attachments.extend(token.clone());
        match state.endpoint.protocol {
            // A provider's agent knows no other way to its app's path.
            Protocol::Link => state.attachments.extend(path),
            Protocol::Dubbo => state.whole_attachments.extend(token.into_iter().chain(path)),
        }
        Member(Rc::new(state))
    }

    /// Limits the calls that an endpoint gets, as `policy` says, and sets up its connections that
    /// are made from now on. It has registered so many threads.
    pub(super) fn set_member(&self, member: &Member, threads: Option<u32>, policy: &ClusterPolicy) {
        member.0.setup.set(Setup::of_cluster(policy));
        let plan = match (&member.0.upstream, policy.endpoint_capacity) {
            (AnyUpstream::Dubbo(_), Some(capacity)) => Some(GatePlan { capacity, threads }),
            _ => None,
        };
        let MemberState { gate, gate_plan, is_gate_due, .. } = &*member.0;
        if gate_plan.replace(plan) == plan {
            return;
        }
        // One that is there is told at once; another one is made when it is needed.
        let had_gate = gate.borrow().is_some();
        is_gate_due.set(plan.is_some());
        if plan.is_none() {
            *gate.borrow_mut() = None;
        } else if had_gate {
            self.make_gate(member);
        }
    }

    /// Makes the gate before an endpoint, if it is due, or tells the one that is there.
    #[cold]
    pub(super) fn make_gate(&self, member: &Member) {
        let MemberState { upstream, gate, gate_plan, is_gate_due, .. } = &*member.0;
        if let (AnyUpstream::Dubbo(lanes), Some(plan), true) =
            (upstream, gate_plan.get(), is_gate_due.replace(false))
        {
            let made = self.pool.gate(lanes, plan.capacity, plan.threads);
            *gate.borrow_mut() = Some(made);
        }
    }

    /// Where the calls to an endpoint are counted.
    #[inline]
    pub(super) fn stats<'m>(&self, member: &'m Member) -> &'m Arc<CallStats> {
        let MemberState { stats, upstream, .. } = &*member.0;
        stats.get_or_init(|| self.hub.upstream(&self.service_name, upstream.address()))
    }
}
