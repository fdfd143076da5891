//! A cluster: all endpoints of one service, as one worker sees them. How it offers calls to them
//! is in `offering`, and how it sends them in `sending`.
//!
//! Invariants:
//! - A call is offered to another endpoint only if none has begun it.
//! - What the balancer knows is what the registry lists, and what is held although it does not.
//! - What the balancer counts as in flight is given back however a call ends.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use balance::{Balancer, EndpointSpec};
use dubbo_proto::ServiceKey;
use flow::RetryBudget;
use registry::{Endpoint, Freshness, Snapshot};
use tokio::sync::Notify;

use crate::config::{CallMode, ClusterPolicy};
use crate::error::{CallError, Code};
use crate::facts::CallFacts;
use crate::map_form::{self, MapForm};
use crate::metrics::{CallStats, Hub, MAX_METHOD_LABELS, ServiceEvents};
use crate::rule_documents::{RegistryRules, RuleName};
use crate::timeout::CallTimeout;
use crate::upstream::{Standing, UpstreamPool};

mod allowed;
mod attempt;
mod circuits;
mod describe;
mod distrust;
mod doubt;
mod ejections;
mod elsewhere;
mod explain;
mod failback;
mod holding;
mod known;
mod lines;
mod member;
mod methods;
mod modes;
mod no_endpoint;
mod offering;
mod pauses;
mod preference;
mod registered;
mod repeating;
mod ruled;
mod rules;
mod sending;
mod splits;
mod stuck;
mod variants;

pub use self::allowed::Allowed;
pub use self::attempt::Attempt;
use self::circuits::Circuits;
pub use self::describe::describe_unoffered;
pub use self::doubt::Doubt;
use self::ejections::ClusterEjections;
pub use self::ejections::EjectedInfo;
use self::failback::Failback;
use self::holding::Holding;
use self::known::KnownMembers;
use self::lines::ClusterLines;
pub use self::member::{Member, TLS};
use self::member::{MemberState, PATH};
use self::methods::MethodRules;
pub use self::methods::{CopyPlace, MethodRule};
pub use self::offering::too_late;
use self::pauses::Pauses;
use self::preference::Preference;
use self::registered::{RegisteredTimeouts, Timeouts};
use self::rules::Rules;
use self::splits::CallDraw;
pub use self::variants::request_for;

/// All endpoints of one service.
pub struct Cluster {
    /// What is called.
    pub service: ServiceKey,
    /// The same as text, as links know it.
    service_name: Rc<str>,
    registry_name: Box<str>,
    pool: Rc<UpstreamPool>,
    hub: Hub,
    policy: RefCell<Rc<ClusterPolicy>>,
    balancer: RefCell<Balancer<Member>>,
    holding: RefCell<Holding>,
    ejections: RefCell<ClusterEjections>,
    rules: Rules,
    preference: Preference,
    budget: RefCell<RetryBudget>,
    /// What the registry says, before rules have changed anything.
    listed: RefCell<Snapshot>,
    /// Other rules of the registry may have to be asked for.
    routing_changed: Rc<Notify>,
    status: Cell<Freshness>,
    registered_timeouts: RegisteredTimeouts,
    registered_mode: Cell<Option<CallMode>>,
    had_endpoints: Cell<bool>,
    is_forgotten: Cell<bool>,
    last_call: Cell<Instant>,
    changed: Notify,
    /// Calls that wait for room.
    lines: ClusterLines,
    /// Counts the calls for which no endpoint was chosen, once there was one.
    without_endpoint: RefCell<Option<Arc<CallStats>>>,
    /// By method. They outlast its routes, so that nothing is forgotten that was counted.
    method_stats: RefCell<HashMap<Box<str>, Arc<CallStats>>>,
    /// What holds for some of its methods.
    methods: MethodRules,
    /// The breakers of its methods.
    circuits: Circuits,
    /// Its calls that are made again later.
    failback: Failback,
    /// Whether calls may be copied, or go to another version or group.
    is_diverted: Cell<bool>,
    /// Whether nobody hears from some of the endpoints.
    has_silent: Cell<bool>,
    pauses: Pauses,
    /// As which generic call calls can go, once somebody asked.
    map_form: Cell<Option<Option<MapForm>>>,
    /// Counts what is rare.
    events: RefCell<Option<Arc<ServiceEvents>>>,
}

/// The parameter of callers and providers that names their application.
const APPLICATION: &str = "application";
/// Dubbo's parameter of providers that say how their calls are spread.
const CLUSTER: &str = "cluster";

impl Cluster {
    /// A cluster that knows no endpoint yet.
    pub fn new(
        service: ServiceKey,
        registry_name: &str,
        policy: &ClusterPolicy,
        pool: Rc<UpstreamPool>,
        hub: Hub,
    ) -> Self {
        let service_name: Rc<str> = service.to_string().into();
        let mut balancer = Balancer::new(policy.balance);
        balancer.set_outlier(policy.outlier);
        let methods = MethodRules::default();
        methods.set(&service_name, &policy.methods, None, &hub);
        Self {
            methods,
            holding: Holding::new(&service_name, registry_name, policy, hub.clone()).into(),
            ejections: ClusterEjections::new(&service_name, hub.clone()).into(),
            rules: Rules::new(&service, &policy.routing),
            preference: Preference::new(policy),
            budget: RetryBudget::new(policy.routing.retry_percent).into(),
            listed: RefCell::default(),
            routing_changed: Rc::default(),
            service_name,
            service,
            registry_name: registry_name.into(),
            pool,
            hub,
            balancer: RefCell::new(balancer),
            policy: RefCell::new(Rc::new(policy.clone())),
            status: Cell::new(Freshness::Pending),
            registered_timeouts: RegisteredTimeouts::default(),
            registered_mode: Cell::new(None),
            had_endpoints: Cell::new(false),
            is_forgotten: Cell::new(false),
            last_call: Cell::new(Instant::now()),
            changed: Notify::new(),
            lines: ClusterLines::default(),
            without_endpoint: RefCell::default(),
            method_stats: RefCell::default(),
            circuits: Circuits::default(),
            failback: Failback::default(),
            is_diverted: Cell::new(diverts(policy)),
            has_silent: Cell::default(),
            pauses: Pauses::default(),
            map_form: Cell::default(),
            events: RefCell::default(),
        }
    }

    /// Takes what the registry now says. Endpoints that stay keep connections and statistics.
    pub fn update(&self, snapshot: &Snapshot) {
        *self.listed.borrow_mut() = snapshot.clone();
        self.apply(snapshot);
        if !snapshot.endpoints.is_empty() && !self.had_endpoints.replace(true) {
            // A known service always has a label of its own.
            self.without_endpoint.take();
            self.events.take();
        }
        self.status.set(snapshot.status);
        self.changed.notify_waiters();
    }

    /// Takes endpoints with what rules make of them.
    fn apply(&self, snapshot: &Snapshot) {
        self.map_form.set(None);
        let (policy, now) = (Rc::clone(&self.policy.borrow()), Instant::now());
        let (mut balancer, mut holding) = (self.balancer.borrow_mut(), self.holding.borrow_mut());
        debug_assert!(snapshot.endpoints.is_sorted_by_key(Endpoint::key), "in the order of keys");
        let leaving = balancer.stats().filter(|stats| stats.leaving).map(|stats| stats.key);
        let mut known = KnownMembers::new(holding.listed(), leaving.chain(holding.kept()));
        let mut placed = Vec::with_capacity(snapshot.endpoints.len());
        let (mut timeouts, mut mode) = (Timeouts::default(), None);
        for endpoint in &*snapshot.endpoints {
            let endpoint = self.rules.configured(endpoint);
            let member = known.find(&endpoint);
            timeouts.add(&endpoint);
            let registered = endpoint.params.get(CLUSTER);
            mode = mode.or_else(|| CallMode::registered(registered?));
            let member = member.unwrap_or_else(|| self.member(&endpoint, &policy));
            self.set_member(&member, endpoint.threads, &policy);
            placed.push((member, endpoint.into_owned()));
        }
        let specs = placed.iter().map(|(member, endpoint)| EndpointSpec {
            key: member.clone(),
            weight: endpoint.weight,
            warm_up: endpoint.warm_up.and_then(warm_up),
        });
        let specs = holding.update(now, specs.collect(), &snapshot.unused);
        for spec in specs.iter().skip(placed.len()) {
            placed.push((spec.key.clone(), spec.key.0.endpoint.clone()));
        }
        self.rules.set_endpoints(placed.into_iter());
        balancer.update(now, specs);
        self.preference.update(&policy, &balancer);
        self.registered_timeouts.set(timeouts);
        if self.registered_mode.replace(mode) != mode {
            self.methods.set(&self.service_name, &policy.methods, mode, &self.hub);
        }
    }

    /// Takes what the rules in the registry's configuration say from now on: with the list that
    /// comes next.
    pub fn set_rules(&self, rules: RegistryRules) {
        self.rules.set_registry(rules);
    }

    /// The rules of the registry that count here if it lists these endpoints.
    pub fn rule_names(&self, endpoints: &[Endpoint]) -> Vec<RuleName> {
        let policy = self.policy.borrow();
        if !policy.routing.from_registry {
            return Vec::new();
        }
        let caller = policy.routing.caller.params.get(APPLICATION);
        let provider = endpoints.iter().find_map(|endpoint| endpoint.params.get(APPLICATION));
        RuleName::all(&self.service, caller, provider)
    }

    /// Tells when [`rule_names`](Self::rule_names) may have changed with the configuration.
    pub fn routing_changed(&self) -> Rc<Notify> {
        Rc::clone(&self.routing_changed)
    }

    /// The endpoints that a call may go to by the rules; `None` means all of them.
    #[inline]
    fn allowed(&self, call: &dyn CallFacts, draw: CallDraw) -> Option<Rc<Allowed>> {
        if self.rules.is_drawn() {
            self.tell_rules_of_ejected();
        }
        self.rules.allowed(call, draw)
    }

    /// The endpoints that this worker has ejected, in no order.
    pub fn ejected(&self) -> Vec<EjectedInfo> {
        let balancer = self.balancer.borrow();
        let info = |stats: balance::EndpointStats<'_, Member>| {
            let address = stats.key.0.upstream.address();
            Some(EjectedInfo { address: (**address).into(), ejection: stats.ejection? })
        };
        balancer.stats().filter_map(info).collect()
    }

    /// Looks again at endpoints that have vanished from the registry: whether they still answer,
    /// and whether their time is over. Shows what was ejected meanwhile. To be called every
    /// fraction of a second.
    pub fn check_endpoints(&self, now: Instant) {
        self.balancer.borrow_mut().look_at_silence(now, &mut rand::rng());
        self.ejections.borrow_mut().show(now, &mut self.balancer.borrow_mut());
        self.look_at_pauses(now);
        self.note_silence(now);
        let mut holding = self.holding.borrow_mut();
        if let Some(specs) = holding.check(now) {
            let mut balancer = self.balancer.borrow_mut();
            balancer.update(now, specs);
            self.preference.update(&self.policy.borrow(), &balancer);
        }
    }

    /// An endpoint shows that it does not serve the service. If it has vanished from the registry,
    /// the registry was right, whatever else its connection answers. Returns whether it has.
    fn stop_holding(&self, member: &Member, now: Instant) -> bool {
        let mut holding = self.holding.borrow_mut();
        if let Some(specs) = holding.stop(now, member) {
            let mut balancer = self.balancer.borrow_mut();
            balancer.update(now, specs);
            self.preference.update(&self.policy.borrow(), &balancer);
        }
        holding.listed().iter().all(|spec| spec.key != *member)
    }

    /// Calls are made by `policy` from now on.
    pub fn set_policy(&self, policy: &ClusterPolicy) {
        self.map_form.set(None);
        for stats in self.balancer.borrow().stats() {
            self.set_member(stats.key, stats.key.0.endpoint.threads, policy);
        }
        let mut balancer = self.balancer.borrow_mut();
        balancer.set_policy(policy.balance);
        balancer.set_outlier(policy.outlier);
        self.preference.update(policy, &balancer);
        drop(balancer);
        self.holding.borrow_mut().set_policy(policy);
        if self.policy.borrow().methods != policy.methods {
            let registered = self.registered_mode.get();
            self.methods.set(&self.service_name, &policy.methods, registered, &self.hub);
        }
        self.is_diverted.set(diverts(policy));
        let percent = policy.routing.retry_percent;
        if self.budget.borrow().percent() != percent {
            *self.budget.borrow_mut() = RetryBudget::new(percent);
        }
        if self.rules.set_routing(&policy.routing) {
            *self.policy.borrow_mut() = Rc::new(policy.clone());
            let listed = self.listed.borrow().clone();
            self.apply(&listed);
            self.routing_changed.notify_one();
        }
        *self.policy.borrow_mut() = Rc::new(policy.clone());
    }

    /// Whether its calls may be copied, or go to another version or group.
    #[inline]
    pub fn is_diverted(&self) -> bool {
        self.is_diverted.get()
    }

    /// The service that a call goes to instead of this one.
    #[cold]
    pub fn detour(&self, facts: &dyn CallFacts) -> Option<ServiceKey> {
        self.rules.detour(facts)
    }

    /// How long a call of a method may take whose caller asks for `wanted`.
    pub fn timeout(&self, method: &str, wanted: Option<Duration>) -> Duration {
        CallTimeout::time(&self.policy.borrow(), wanted, self.registered_timeouts.of(Some(method)))
    }

    /// The same, and who says so.
    #[cold]
    pub fn limit(&self, method: &str, wanted: Option<Duration>) -> CallTimeout {
        CallTimeout::new(&self.policy.borrow(), wanted, self.registered_timeouts.of(Some(method)))
    }

    /// Whether nothing is known of the service and nobody has asked for it since `since`.
    pub fn is_idle(&self, since: Instant) -> bool {
        self.balancer.borrow().is_empty() && self.last_call.get() < since
    }

    /// Whether no endpoint is known.
    pub fn is_without_endpoints(&self) -> bool {
        self.balancer.borrow().is_empty()
    }

    /// The longest that a call may take whose caller asks for `wanted`, or does not say.
    pub fn longest(&self, wanted: Option<Duration>) -> Duration {
        let max = self.policy.borrow().max_timeout;
        wanted.map_or(max, |wanted| wanted.min(max))
    }

    /// No registry tells this cluster anything any more: routes to it are void.
    pub fn forget(&self) {
        self.is_forgotten.set(true);
    }

    /// Whether another cluster has to be asked for.
    pub fn is_forgotten(&self) -> bool {
        self.is_forgotten.get()
    }

    /// As which generic call calls can go whose objects nobody knows, and which of them have to;
    /// nothing if none has to.
    pub(crate) fn map_form(&self) -> Option<MapForm> {
        if let Some(known) = self.map_form.get() {
            return known;
        }
        let balancer = self.balancer.borrow();
        let staying: Vec<_> = balancer.stats().filter(|stats| !stats.leaving).collect();
        let endpoints = staying.iter().map(|stats| &stats.key.0.endpoint);
        let form = map_form::form_for(&endpoints, self.policy.borrow().serialization);
        self.map_form.set(Some(form));
        form
    }

    /// The endpoints that are known now, in no order.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let balancer = self.balancer.borrow();
        let staying = balancer.stats().filter(|stats| !stats.leaving);
        staying.map(|stats| stats.key.0.endpoint.clone()).collect()
    }

    /// Waits for the registry's first word on this service.
    ///
    /// # Errors
    /// [`Code::RegistryUnavailable`] if there is none before the deadline.
    pub async fn wait_for_endpoints(&self, deadline: Instant) -> Result<(), CallError> {
        loop {
            let changed = self.changed.notified();
            if self.status.get() != Freshness::Pending {
                return Ok(());
            }
            if tokio::time::timeout_at(deadline.into(), changed).await.is_err() {
                return Err(self.registry_silent());
            }
        }
    }

    fn events(&self, count: impl FnOnce(&ServiceEvents)) {
        let mut events = self.events.borrow_mut();
        let had_endpoints = self.had_endpoints.get();
        count(events.get_or_insert_with(|| self.hub.events(&self.service_name, had_endpoints)));
    }

    /// Counts a call that came at `started` and failed before an endpoint was chosen for it.
    #[cold]
    pub fn count_without_endpoint(&self, started: Instant, code: Code) {
        let mut stats = self.without_endpoint.borrow_mut();
        let stats = stats.get_or_insert_with(|| {
            self.hub.without_endpoint(&self.service.to_string(), self.had_endpoints.get())
        });
        stats.started();
        stats.finished(started.elapsed(), Some(code as u8));
    }

    /// Where the calls of one of its methods are counted; without a method, those of which it is
    /// not known whether the service has theirs. `None` while no registry has offered the service.
    #[cold]
    pub fn method_stats(&self, method: Option<&str>) -> Option<Arc<CallStats>> {
        if !self.had_endpoints.get() {
            return None;
        }
        let new = || self.hub.method(&self.service_name, method);
        let Some(method) = method else { return Some(new()) };
        let mut known = self.method_stats.borrow_mut();
        if let Some(stats) = known.get(method) {
            return Some(Arc::clone(stats));
        }
        let stats = new();
        if known.len() < MAX_METHOD_LABELS {
            known.insert(method.into(), Arc::clone(&stats));
        }
        Some(stats)
    }
}

/// Whether calls are copied, or led to another version or group.
fn diverts(policy: &ClusterPolicy) -> bool {
    splits::has_detour(&policy.routing.splits)
        || policy.methods.iter().any(|method| method.mirror.is_some())
}

/// The registry tells when an endpoint started by the wall clock; the balancer has none.
fn warm_up(known: registry::WarmUp) -> Option<balance::WarmUp> {
    balance::WarmUp::new(Instant::now(), known.uptime(SystemTime::now()), known.period)
}

#[cfg(test)]
mod tests;
