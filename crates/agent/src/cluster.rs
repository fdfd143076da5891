//! A cluster: all endpoints of one service, as one worker sees them.
//!
//! Invariants:
//! - A call is offered to another endpoint only if none has begun it.
//! - What the balancer knows is what the registry lists, and what is held although it does not.
//! - What the balancer counts as in flight is given back however a call ends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use balance::{Balancer, EndpointSpec, Slot, Ticket};
use dubbo_proto::{Serialization, ServiceKey, Status};
use flow::{Attempts, Ending, GiveUp, Limits, Next, Rewrites};
use registry::{Endpoint, Freshness, Protocol, Snapshot};
use tokio::sync::Notify;
use tracing::info;

use crate::call::{Call, Outcome, RoutedCall, Times};
use crate::config::ClusterPolicy;
use crate::error::{CallError, Code};
use crate::learnt::Learnt;
use crate::metrics::{CallStats, Hub};
use crate::timeout::Limit;
use crate::upstream::{AnyUpstream, Dialect, Pool, Setup, Standing};

mod holding;

use holding::Holding;

/// All endpoints of one service.
pub struct Cluster {
    /// What is called.
    pub service: ServiceKey,
    /// The same as text, as links know it.
    service_name: Box<str>,
    registry_name: Box<str>,
    pool: Rc<Pool>,
    hub: Hub,
    policy: RefCell<Rc<ClusterPolicy>>,
    balancer: RefCell<Balancer<Member>>,
    holding: RefCell<Holding>,
    status: Cell<Freshness>,
    registered_timeout: Cell<Option<Duration>>,
    had_endpoints: Cell<bool>,
    is_forgotten: Cell<bool>,
    last_call: Cell<Instant>,
    changed: Notify,
    /// Counts the calls for which no endpoint was chosen, once there was one.
    without_endpoint: RefCell<Option<Arc<CallStats>>>,
}

/// An endpoint of a cluster. Two are the same if a call would go the same way.
#[derive(Clone)]
pub struct Member(Rc<MemberState>);

/// Parameters of a provider's URL: the token that its callers have to send, and its path.
const TOKEN: &str = "token";
const PATH: &str = "path";

struct MemberState {
    endpoint: Endpoint,
    upstream: AnyUpstream,
    stats: Arc<CallStats>,
    /// What each call has to have attached: the token without which the provider takes none, and its path behind an agent.
    attachments: Vec<(&'static str, String)>,
    /// Forgotten with the member, when the endpoint registers others.
    learnt: Learnt,
}

impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0.is_same_way(&other.0.endpoint)
    }
}

impl Eq for Member {}

impl MemberState {
    fn is_same_way(&self, other: &Endpoint) -> bool {
        let own = &self.endpoint;
        (own.protocol, own.port, &own.host, &own.serializations)
            == (other.protocol, other.port, &other.host, &other.serializations)
            && [TOKEN, PATH].iter().all(|name| own.params.get(*name) == other.params.get(*name))
    }

    /// The path of the provider's URL where it is another than the interface.
    fn path(&self, interface: &str) -> Option<&str> {
        self.endpoint.params.get(PATH).map(String::as_str).filter(|path| *path != interface)
    }

    /// The first serialization that the endpoint prefers and we write.
    fn serialization(&self, otherwise: Serialization) -> Serialization {
        self.learnt.choose(&self.endpoint.serializations, otherwise)
    }
}

impl Cluster {
    /// A cluster that knows no endpoint yet.
    pub fn new(
        service: ServiceKey,
        registry_name: &str,
        policy: &ClusterPolicy,
        pool: Rc<Pool>,
        hub: Hub,
    ) -> Self {
        let service_name: Box<str> = service.to_string().into();
        Self {
            holding: Holding::new(&service_name, registry_name, policy, hub.clone()).into(),
            service_name,
            service,
            registry_name: registry_name.into(),
            pool,
            hub,
            balancer: RefCell::new(Balancer::new(policy.balance)),
            policy: RefCell::new(Rc::new(policy.clone())),
            status: Cell::new(Freshness::Pending),
            registered_timeout: Cell::new(None),
            had_endpoints: Cell::new(false),
            is_forgotten: Cell::new(false),
            last_call: Cell::new(Instant::now()),
            changed: Notify::new(),
            without_endpoint: RefCell::default(),
        }
    }

    /// Takes what the registry now says. Endpoints that stay keep connections and statistics.
    pub fn update(&self, snapshot: &Snapshot) {
        let (policy, now) = (Rc::clone(&self.policy.borrow()), Instant::now());
        let (mut balancer, mut holding) = (self.balancer.borrow_mut(), self.holding.borrow_mut());
        let used = balancer.stats().map(|stats| stats.key);
        let known: Vec<Member> = used.chain(holding.kept()).cloned().collect();
        let specs = snapshot.endpoints.iter().map(|endpoint| {
            let member = known.iter().find(|member| member.0.is_same_way(endpoint));
            EndpointSpec {
                key: member.cloned().unwrap_or_else(|| self.member(endpoint, &policy)),
                weight: endpoint.weight,
                warm_up: endpoint.warm_up.and_then(warm_up),
            }
        });
        balancer.update(now, holding.update(now, specs.collect(), &snapshot.unused));
        self.registered_timeout.set(snapshot.endpoints.iter().find_map(|known| known.timeout));
        if !snapshot.endpoints.is_empty() && !self.had_endpoints.replace(true) {
            // A known service always has a label of its own.
            self.without_endpoint.take();
        }
        self.status.set(snapshot.status);
        self.changed.notify_waiters();
    }

    /// Looks again at endpoints that have vanished from the registry: whether they still answer, and
    /// whether their time is over. To be called every fraction of a second.
    pub fn check_held(&self, now: Instant) {
        let mut holding = self.holding.borrow_mut();
        if let Some(specs) = holding.check(now) {
            self.balancer.borrow_mut().update(now, specs);
        }
    }

    /// An endpoint shows that it does not serve the service. If it has vanished from the registry, the
    /// registry was right, whatever else its connection answers.
    fn stop_holding(&self, member: &Member, now: Instant) {
        let mut holding = self.holding.borrow_mut();
        if let Some(specs) = holding.stop(now, member) {
            self.balancer.borrow_mut().update(now, specs);
        }
    }

    fn member(&self, endpoint: &Endpoint, policy: &ClusterPolicy) -> Member {
        let setup = Setup::new(policy);
        let upstream = self.pool.upstream(endpoint.protocol, &endpoint.host, endpoint.port, setup);
        let stats = self.hub.upstream(&self.service_name, upstream.address());
        let (endpoint, learnt) = (endpoint.clone(), Learnt::default());
        let token = endpoint.params.get(TOKEN).filter(|token| !token.is_empty());
        let token = token.map(|token| (TOKEN, token.clone()));
        let mut state = MemberState { endpoint, upstream, stats, attachments: Vec::new(), learnt };
        state.attachments.extend(token);
        // A provider's agent knows no other way to its app's path.
        if let (Protocol::Link, Some(path)) =
            (state.endpoint.protocol, state.path(&self.service.interface).map(str::to_owned))
        {
            state.attachments.push((PATH, path));
        }
        Member(Rc::new(state))
    }

    /// Calls are made by `policy` from now on.
    pub fn set_policy(&self, policy: &ClusterPolicy) {
        self.balancer.borrow_mut().set_policy(policy.balance);
        self.holding.borrow_mut().set_policy(policy);
        *self.policy.borrow_mut() = Rc::new(policy.clone());
    }

    /// How long a call may take whose caller asks for `wanted`.
    pub fn timeout(&self, wanted: Option<Duration>) -> Duration {
        Limit::time(&self.policy.borrow(), wanted, self.registered_timeout.get())
    }

    /// The same, and who says so.
    #[cold]
    pub fn limit(&self, wanted: Option<Duration>) -> Limit {
        Limit::new(&self.policy.borrow(), wanted, self.registered_timeout.get())
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

    /// Whether a call that an endpoint refuses could be offered to another one.
    pub fn has_choice(&self) -> bool {
        flow::has_choice(self.policy.borrow().max_attempts, self.balancer.borrow().len())
    }

    /// A call that was not offered yet, and whose caller gives up at `deadline`.
    pub fn attempts(&self, deadline: Instant) -> Attempts<Member> {
        Attempts::new(Limits { max_attempts: self.policy.borrow().max_attempts, deadline })
    }

    /// What a call may still try that [`Cluster::begin`] has begun and that failed.
    ///
    /// # Errors
    /// Why it is offered no more.
    pub fn after_first(
        &self,
        attempt: &Attempt,
        times: Times,
        error: &CallError,
    ) -> Result<Attempts<Member>, GiveUp> {
        let mut attempts = self.attempts(times.deadline);
        attempts.failed(attempt.member.clone(), error.retry());
        match self.next(&attempts, times.now) {
            Next::Offer(_) | Next::Wait => Ok(attempts),
            Next::GiveUp(reason) => Err(reason),
        }
    }

    /// Begins a call on an endpoint that is connected; `None` if there is none just now.
    pub fn begin(self: &Rc<Self>, now: Instant) -> Option<Attempt> {
        self.last_call.set(now);
        let slot = {
            let mut balancer = self.balancer.borrow_mut();
            flow::pick_ready(&mut balancer, now, &mut rand::rng(), |member| self.standing(member))?
        };
        self.attempt(slot, now)
    }

    /// Makes a call, on another endpoint if one refuses it before it has begun.
    pub async fn call(self: &Rc<Self>, call: RoutedCall<'_>) -> Outcome {
        let otherwise = self.policy.borrow().serialization;
        let Times { now, deadline } = call.times;
        self.offer(now, self.attempts(deadline), async |attempt, now| {
            let member = &attempt.member.0;
            let used = member.serialization(otherwise);
            // What the caller attaches counts more than what the registry shows.
            let own = member.attachments.iter().map(|(name, value)| (*name, value.as_str()));
            let all: Vec<(&str, &str)>;
            let attachments = match member.attachments.is_empty() {
                true => call.attachments,
                false => {
                    all = own.chain(call.attachments.iter().copied()).collect();
                    &all
                }
            };
            let dialect =
                Dialect { serialization: used, path: member.path(&self.service.interface) };
            let call = Call { attachments, times: Times { now, deadline }, ..call };
            let outcome = attempt.upstream().call(&call, dialect).await;
            // Nobody has read it yet.
            if call.one_way {
                return outcome;
            }
            let Some(other) = member.learnt.take_in(used, &outcome) else {
                return outcome;
            };
            let now = Instant::now();
            let is_allowed =
                |error: &CallError| Rewrites::new(deadline, 1).allow(now, error.retry());
            if !outcome.as_ref().is_err_and(is_allowed) {
                return outcome;
            }
            let call = Call { times: Times { now, deadline }, ..call };
            let dialect = Dialect { serialization: other, ..dialect };
            let outcome = attempt.upstream().call(&call, dialect).await;
            if member.learnt.take_in_again(used, other, &outcome) {
                info!(endpoint = %member.upstream.address(), %used, instead = %other, "serialization refused");
            }
            outcome
        })
        .await
    }

    /// Offers a call that goes on `now` to one endpoint after the other, until one takes it or nothing
    /// is left to try.
    pub async fn offer(
        self: &Rc<Self>,
        mut now: Instant,
        mut attempts: Attempts<Member>,
        mut make: impl AsyncFnMut(&Attempt, Instant) -> Outcome,
    ) -> Outcome {
        self.last_call.set(now);
        let mut next = self.next(&attempts, now);
        loop {
            let attempt = match next {
                Next::Offer(slot) => self.attempt(slot, now),
                Next::Wait => {
                    // Who waits in vain is told so by the next decision.
                    let _ = self.wait_for_endpoints(attempts.limits().deadline).await;
                    now = Instant::now();
                    next = self.next(&attempts, now);
                    continue;
                }
                Next::GiveUp(reason) => return Err(self.nobody(&attempts, now, reason)),
            };
            let Some(attempt) = attempt else { return Err(self.no_endpoint()) };
            let outcome = make(&attempt, now).await;
            now = Instant::now();
            let Err(error) = outcome else {
                attempt.finish(now, None);
                return outcome;
            };
            attempts.failed(attempt.member.clone(), error.retry());
            attempt.finish(now, Some(&error));
            next = self.next(&attempts, now);
            match next {
                Next::GiveUp(GiveUp::TooLate) => return Err(too_late(&error)),
                Next::GiveUp(_) => return Err(error),
                Next::Offer(_) | Next::Wait => {}
            }
        }
    }

    /// Decides where a call goes next.
    fn next(&self, attempts: &Attempts<Member>, now: Instant) -> Next {
        let is_known = self.status.get() != Freshness::Pending;
        let mut balancer = self.balancer.borrow_mut();
        attempts
            .next(now, is_known, &mut balancer, &mut rand::rng(), |member| self.standing(member))
    }

    /// The failure of a call that nobody was there for.
    #[cold]
    fn nobody(&self, attempts: &Attempts<Member>, now: Instant, reason: GiveUp) -> CallError {
        let error = match reason {
            GiveUp::NothingKnown => self.registry_silent(),
            GiveUp::NoEndpoint | GiveUp::LastFailure => self.no_endpoint(),
            GiveUp::TooLate => CallError::new(Code::Timeout, "the deadline has passed"),
        };
        // Whom it was offered to before has counted it.
        if attempts.is_first() {
            self.count_without_endpoint(now, error.code);
        }
        error
    }

    fn standing(&self, member: &Member) -> Standing {
        member.0.upstream.standing(&self.service_name)
    }

    fn attempt(self: &Rc<Self>, slot: Slot, now: Instant) -> Option<Attempt> {
        let mut balancer = self.balancer.borrow_mut();
        let member = balancer.key(slot)?.clone();
        let ticket = Some(balancer.begin(slot));
        member.0.stats.started();
        Some(Attempt { cluster: Rc::clone(self), member, ticket, started: now })
    }

    /// No registry tells this cluster anything any more: routes to it are void.
    pub fn forget(&self) {
        self.is_forgotten.set(true);
    }

    /// Whether another cluster has to be asked for.
    pub fn is_forgotten(&self) -> bool {
        self.is_forgotten.get()
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

    fn registry_silent(&self) -> CallError {
        let name = &self.registry_name;
        let message = format!("registry {name:?} has not answered yet; is it running?");
        CallError::new(Code::RegistryUnavailable, message)
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

    fn no_endpoint(&self) -> CallError {
        let (service, registry) = (&self.service, &self.registry_name);
        let balancer = self.balancer.borrow();
        let down: Vec<String> = balancer
            .stats()
            .filter(|stats| !stats.leaving)
            .map(|stats| stats.key.0.trouble(&self.service_name))
            .collect();
        if !down.is_empty() {
            let list = down.join(", ");
            let message = format!("no endpoint of {service} can be reached; down: {list}");
            return CallError::new(Code::NoEndpoint, message);
        }
        let unused = self.holding.borrow().unused();
        match (self.had_endpoints.get(), self.status.get()) {
            (false, Freshness::Current) if unused.is_empty() => CallError::new(
                Code::ServiceNotFound,
                format!("nobody offers {service} in registry {registry:?}"),
            ),
            (false, Freshness::Current) => CallError::new(
                Code::ServiceNotFound,
                format!(
                    "nobody offers {service} in registry {registry:?} in a way that can be used{unused}"
                ),
            ),
            (_, Freshness::Current) => CallError::new(
                Code::NoEndpoint,
                format!("every endpoint of {service} has left registry {registry:?}{unused}"),
            ),
            _ => CallError::new(
                Code::RegistryUnavailable,
                format!("registry {registry:?} is away, and no endpoint of {service} is known"),
            ),
        }
    }
}

/// The failure of a call that could be offered to another endpoint, if there were time.
#[cold]
pub fn too_late(last: &CallError) -> CallError {
    let message = format!("no time is left to try another endpoint; the last one failed: {last}");
    CallError { endpoint: last.endpoint.clone(), ..CallError::new(Code::Timeout, message) }
}

/// The registry tells when an endpoint started by the wall clock; the balancer has none.
fn warm_up(known: registry::WarmUp) -> Option<balance::WarmUp> {
    balance::WarmUp::new(Instant::now(), known.uptime(SystemTime::now()), known.period)
}

impl MemberState {
    /// The address, and what is wrong with it.
    fn trouble(&self, service: &str) -> String {
        let address = self.upstream.address();
        match self.upstream.trouble(service) {
            Some(error) => format!("{address} ({})", error.message),
            None => address.to_string(),
        }
    }
}

/// Whether a call failed because its endpoint cannot serve any: it has no app, or not this service. A
/// Dubbo provider, or an agent in one's place, says so by its status SERVER_ERROR.
fn is_about_the_endpoint(error: &CallError) -> bool {
    matches!(error.code, Code::Unreachable | Code::ServiceNotFound)
        || error.provider_status == Some(Status::ServerError)
}

/// A call on its way to one endpoint.
pub struct Attempt {
    cluster: Rc<Cluster>,
    member: Member,
    ticket: Option<Ticket>,
    started: Instant,
}

impl Attempt {
    /// The endpoint's upstream.
    pub fn upstream(&self) -> &AnyUpstream {
        &self.member.0.upstream
    }

    /// The endpoint, not to be tried again.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// What a Dubbo consumer is told whose call got no answer within `took`. It does without the
    /// configuration's own timeouts: a consumer always brings one.
    #[cold]
    pub fn overdue(&self, took: Duration) -> String {
        let policy = self.cluster.policy.borrow();
        let limit = Limit::new(&policy, Some(took), None);
        limit.overdue(Some(self.upstream().address()), "the consumer's timeout")
    }

    /// The call has ended, at `now`, well or with an error.
    pub fn finish(mut self, now: Instant, error: Option<&CallError>) {
        let Some(ticket) = self.ticket.take() else { return };
        let latency = now.saturating_duration_since(self.started);
        self.member.0.stats.finished(latency, error.map(|error| error.code as u8));
        let ending = match error {
            None => Ending::Answered,
            Some(error) if self.is_refusal(error) => Ending::Refused,
            Some(_) => Ending::Failed,
        };
        self.give_back(ticket, ending, now, latency);
        if let Some(error) = error
            && is_about_the_endpoint(error)
        {
            self.cluster.stop_holding(&self.member, now);
        }
    }

    /// Whether the endpoint is there and would refuse the next call as well: the app behind it has
    /// gone, or offers the service no more. A connection that is down is no reason to rest: nothing
    /// is offered to it anyway, and it is to be used as soon as it is up again.
    fn is_refusal(&self, error: &CallError) -> bool {
        matches!(error.code, Code::Unreachable | Code::ServiceNotFound)
            && self.cluster.standing(&self.member) == Standing::Ready
    }

    fn give_back(&self, ticket: Ticket, ending: Ending, now: Instant, latency: Duration) {
        let mut balancer = self.cluster.balancer.borrow_mut();
        ending.give_back(&mut balancer, ticket, now, latency, rand::rng);
    }

    /// The call was sent, and nobody will hear how it ends.
    pub fn sent_one_way(mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        self.member.0.stats.finished(Duration::ZERO, None);
        self.give_back(ticket, Ending::Unheard, self.started, Duration::ZERO);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let latency = self.started.elapsed();
            self.member.0.stats.finished(latency, Some(Code::Cancelled as u8));
            self.give_back(ticket, Ending::Unheard, self.started, latency);
        }
    }
}

#[cfg(test)]
mod tests;
