//! The circuit breakers of a service: one for each method at each endpoint.
//!
//! Invariants:
//! - At most [`MAX_METHODS`] methods of a service have breakers, and no endpoint that has gone.
//! - Breakers leave somebody to call, unless the configuration says that they may leave nobody.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use flow::AttemptEnd;
use flow::breaker::{Breaker, BreakerChange, BreakerEnd, BreakerPass};
use tracing::{debug, info, warn};

use super::methods::MethodRule;
use super::{Allowed, Cluster, Member, MemberState, Standing};
use crate::config::BreakerSettings;
use crate::error::{CallError, Code};
use crate::metrics::MethodEvent;

/// Methods of one service that have breakers. Callers make names up, and no interface has more.
/// The one that was used least lately makes room, of those whose breakers are all closed if there
/// are any.
pub(super) const MAX_METHODS: usize = 256;

/// The operator is told of one change at most in this time: a provider that dies breaks all of its
/// methods.
const TOLD_EVERY: Duration = Duration::from_secs(1);
const OPENED: &str = "circuit opened: calls of this method fail at this endpoint";
const CLOSED: &str = "circuit closed: calls of this method work at this endpoint again";

/// The breakers of a service.
#[derive(Default)]
pub(super) struct Circuits {
    by_method: RefCell<HashMap<Box<str>, Rc<MethodCircuits>>>,
    /// Goes up with each call, and tells which method was used last.
    turn: Cell<u64>,
    told: Cell<Option<Instant>>,
}

/// The breakers of one method, by endpoint.
pub(super) struct MethodCircuits {
    method: Box<str>,
    settings: BreakerSettings,
    breakers: RefCell<HashMap<*const MemberState, MemberBreaker>>,
    used: Cell<u64>,
    /// How many are not closed. While there are none, nobody looks at them.
    n_broken: Cell<usize>,
    /// Whether all that could be called are broken, as far as was last looked.
    is_all: Cell<bool>,
    /// The last endpoints by the rules, and what they are together with these breakers.
    known: RefCell<Option<Narrowed>>,
}

/// What rules leave, and what it is together with breakers. The latter knows these breakers, and
/// is kept by the calls that wait.
struct Narrowed {
    rules: Option<Rc<Allowed>>,
    narrowed: Weak<Allowed>,
}

/// A weak reference keeps the address from being used again.
struct MemberBreaker {
    member: Weak<MemberState>,
    breaker: Breaker,
}

/// A call's leave of a breaker.
pub(super) struct CircuitPass {
    circuits: Rc<MethodCircuits>,
    pass: BreakerPass,
}

impl Circuits {
    /// The breakers of a method.
    pub(super) fn of(&self, method: &str, settings: BreakerSettings) -> Rc<MethodCircuits> {
        let turn = self.turn.get() + 1;
        self.turn.set(turn);
        let mut all = self.by_method.borrow_mut();
        if let Some(known) = all.get(method).filter(|known| known.settings == settings) {
            known.used.set(turn);
            return Rc::clone(known);
        }
        if MAX_METHODS <= all.len() && !all.contains_key(method) {
            let order =
                |circuits: &MethodCircuits| (0 < circuits.n_broken.get(), circuits.used.get());
            let oldest = all.iter().min_by_key(|(_, it)| order(it)).map(|(name, _)| name.clone());
            oldest.map(|name| all.remove(&name));
        }
        let circuits = Rc::new(MethodCircuits {
            method: method.into(),
            settings,
            breakers: RefCell::default(),
            used: Cell::new(turn),
            n_broken: Cell::new(0),
            is_all: Cell::new(false),
            known: RefCell::default(),
        });
        all.insert(method.into(), Rc::clone(&circuits));
        circuits
    }

    /// Whether the operator is to be told of a change at `now`.
    fn is_to_be_told(&self, now: Instant) -> bool {
        let is_news =
            self.told.get().is_none_or(|at| TOLD_EVERY <= now.saturating_duration_since(at));
        if is_news {
            self.told.set(Some(now));
        }
        is_news
    }

    /// How the breakers of an endpoint stand that are not closed, by method. `in_force` tells the
    /// settings of a method: breakers with other ones were left behind by a reload.
    fn broken(
        &self,
        member: &Member,
        now: Instant,
        in_force: impl Fn(&str) -> Option<BreakerSettings>,
    ) -> Vec<(Box<str>, &'static str)> {
        let mut broken = Vec::new();
        for circuits in self.by_method.borrow().values().filter(|it| 0 < it.n_broken.get()) {
            if in_force(&circuits.method) != Some(circuits.settings) {
                continue;
            }
            let breakers = circuits.breakers.borrow();
            let Some(entry) = breakers.get(&Rc::as_ptr(&member.0)) else { continue };
            if entry.breaker.is_broken() {
                broken.push((circuits.method.clone(), entry.breaker.name(now)));
            }
        }
        broken.sort_unstable();
        broken
    }
}

impl MethodCircuits {
    /// What a call may go to by the rules, together with these breakers.
    pub(super) fn narrow(self: &Rc<Self>, allowed: Option<Rc<Allowed>>) -> Rc<Allowed> {
        let mut known = self.known.borrow_mut();
        if let Some(Narrowed { rules, narrowed }) = &*known {
            let is_same = match (rules, &allowed) {
                (None, None) => true,
                (Some(rules), Some(allowed)) => Rc::ptr_eq(rules, allowed),
                _ => false,
            };
            if let Some(narrowed) = narrowed.upgrade().filter(|_| is_same) {
                return narrowed;
            }
        }
        let narrowed = Rc::new(Allowed::with_circuits(allowed.as_deref(), Rc::clone(self)));
        *known = Some(Narrowed { rules: allowed, narrowed: Rc::downgrade(&narrowed) });
        narrowed
    }

    /// Whether a call may go there. When all are broken, any may be called, unless the
    /// configuration says otherwise.
    #[inline]
    pub(super) fn has(&self, member: &Member, now: Instant) -> bool {
        self.n_broken.get() == 0
            || self.is_all.get() && !self.settings.may_empty
            || self.lets_pass(member, now)
    }

    #[cold]
    fn lets_pass(&self, member: &Member, now: Instant) -> bool {
        let breakers = self.breakers.borrow();
        let entry = breakers.get(&Rc::as_ptr(&member.0));
        entry.is_none_or(|entry| entry.breaker.lets_pass(now, &self.settings.policy))
    }

    /// Whether no call may pass before some time, and how long that is.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        if !self.is_all.get() || !self.settings.may_empty {
            return None;
        }
        let breakers = self.breakers.borrow();
        let until = breakers.values().filter_map(|entry| entry.breaker.open_until()).min();
        Some(until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now)))
    }

    /// A call begins there.
    pub(super) fn begin(self: &Rc<Self>, member: &Member, now: Instant) -> CircuitPass {
        let mut breakers = self.breakers.borrow_mut();
        let at = Rc::as_ptr(&member.0);
        if !breakers.contains_key(&at) {
            breakers.retain(|_, entry| 0 < entry.member.strong_count());
            self.n_broken.set(breakers.values().filter(|it| it.breaker.is_broken()).count());
        }
        let entry = breakers.entry(at).or_insert_with(|| MemberBreaker {
            member: Rc::downgrade(&member.0),
            breaker: Breaker::default(),
        });
        let pass = entry.breaker.begin(now, &self.settings.policy);
        CircuitPass { circuits: Rc::clone(self), pass }
    }
}

impl CircuitPass {
    /// The call has ended.
    pub(super) fn end(
        self,
        cluster: &Cluster,
        member: &Member,
        now: Instant,
        ending: AttemptEnd,
        latency: Duration,
    ) {
        let Self { circuits, pass } = self;
        let settings = circuits.settings;
        let end = match ending {
            AttemptEnd::Answered => BreakerEnd::Good,
            AttemptEnd::Threw if settings.exceptions => BreakerEnd::Bad,
            AttemptEnd::Threw => BreakerEnd::Good,
            AttemptEnd::Failed | AttemptEnd::Refused => BreakerEnd::Bad,
            // A caller can choose a short time, and that is not the endpoint's fault.
            AttemptEnd::TimedOut if settings.min_timeout <= latency => BreakerEnd::Bad,
            AttemptEnd::TimedOut | AttemptEnd::Full | AttemptEnd::Unheard => BreakerEnd::Unknown,
        };
        let mut breakers = circuits.breakers.borrow_mut();
        let Some(entry) = breakers.get_mut(&Rc::as_ptr(&member.0)) else { return };
        let Some(change) = entry.breaker.end(pass, now, &settings.policy, end) else { return };
        circuits.n_broken.set(breakers.values().filter(|it| it.breaker.is_broken()).count());
        drop(breakers);
        let (service, method) = (&cluster.service, &*circuits.method);
        let endpoint = &**member.0.upstream.address();
        match change {
            BreakerChange::Opened(time) => {
                cluster.count_event(MethodEvent::CircuitOpened);
                let open_ms = time.as_millis();
                match cluster.circuits.is_to_be_told(now) {
                    true => warn!(%service, method, endpoint, open_ms, "{OPENED}"),
                    false => debug!(%service, method, endpoint, open_ms, "{OPENED}"),
                }
            }
            BreakerChange::Closed => {
                cluster.count_event(MethodEvent::CircuitClosed);
                match cluster.circuits.is_to_be_told(now) {
                    true => info!(%service, method, endpoint, "{CLOSED}"),
                    false => debug!(%service, method, endpoint, "{CLOSED}"),
                }
            }
        }
    }
}

impl Cluster {
    /// How the breakers of an endpoint stand that are in force and not closed, by method.
    pub(super) fn broken(&self, member: &Member, now: Instant) -> Vec<(Box<str>, &'static str)> {
        self.circuits.broken(member, now, |method| self.breaker_of(method))
    }

    /// What a call may go to by the rules, together with the breakers of its method.
    #[cold]
    pub(super) fn narrow(
        &self,
        rule: &MethodRule,
        method: &str,
        allowed: Option<Rc<Allowed>>,
    ) -> Option<Rc<Allowed>> {
        let Some(settings) = rule.breaker() else { return allowed };
        let circuits = self.circuits.of(method, settings);
        Some(circuits.narrow(allowed))
    }

    /// Looks whether breakers leave anybody to call. To be called before endpoints are chosen.
    #[inline]
    pub(super) fn look_at_circuits(&self, allowed: Option<&Allowed>, now: Instant) {
        if let Some(circuits) = allowed.and_then(Allowed::circuits)
            && (0 < circuits.n_broken.get() || circuits.is_all.get())
        {
            self.look_at_broken(allowed, circuits, now);
        }
    }

    #[cold]
    fn look_at_broken(&self, allowed: Option<&Allowed>, circuits: &MethodCircuits, now: Instant) {
        let balancer = self.balancer.borrow();
        let members = balancer.stats().filter(|stats| !stats.leaving).map(|stats| stats.key);
        let is_there = |member: &&Member| {
            allowed.is_none_or(|allowed| allowed.has(member))
                && self.standing(member) != Standing::Down
        };
        let mut members = members.filter(is_there).peekable();
        let is_all =
            members.peek().is_some() && members.all(|member| !circuits.lets_pass(member, now));
        if is_all && !circuits.is_all.get() && !circuits.settings.may_empty {
            self.count_event(MethodEvent::CircuitsIgnored);
        }
        circuits.is_all.set(is_all);
    }

    /// The failure of a call that the breakers of its method leave nobody for.
    #[cold]
    pub(super) fn circuit_open(&self, circuits: &MethodCircuits, wait: Duration) -> CallError {
        self.count_event(MethodEvent::CircuitOpen);
        let (service, method) = (&self.service, &circuits.method);
        let message = format!(
            "calls of {service}, method {method}, fail at every endpoint, so none is sent for {} \
             ms (breaker_may_empty); see the providers' logs",
            wait.as_millis()
        );
        CallError { retry_after: Some(wait), ..CallError::new(Code::CircuitOpen, message) }
    }
}

#[cfg(test)]
mod tests {
    use flow::breaker::BreakerPolicy;

    use super::*;

    fn settings() -> BreakerSettings {
        let second = Duration::from_secs(1);
        let policy = BreakerPolicy {
            failures: 3,
            error_percent: 50,
            min_calls: 10,
            window: second,
            time: second,
            max_time: second,
            probes: 1,
        };
        BreakerSettings { policy, min_timeout: second, exceptions: false, may_empty: false }
    }

    fn names(circuits: &Circuits) -> Vec<String> {
        let all = circuits.by_method.borrow();
        all.keys().map(ToString::to_string).collect()
    }

    /// Callers make names up. What is known of broken methods must not be lost for them.
    #[test]
    fn made_up_methods_push_out_no_broken_one() {
        let (circuits, settings) = (Circuits::default(), settings());
        let broken = circuits.of("broken", settings);
        broken.n_broken.set(1);
        let used = circuits.of("used", settings);
        for n in 0..3 * MAX_METHODS {
            circuits.of(&format!("made-up-{n}"), settings);
            assert!(Rc::ptr_eq(&used, &circuits.of("used", settings)), "after {n} others");
            assert!(names(&circuits).len() <= MAX_METHODS);
        }
        assert!(Rc::ptr_eq(&broken, &circuits.of("broken", settings)));
        // Where all are broken, the one that was used least lately gives way.
        circuits.by_method.borrow().values().for_each(|it| it.n_broken.set(1));
        circuits.of("one more", settings);
        assert_eq!(names(&circuits).len(), MAX_METHODS);
        assert!(names(&circuits).contains(&"broken".to_owned()));
    }

    /// With other settings, breakers begin anew.
    #[test]
    fn other_settings_are_other_breakers() {
        let (circuits, settings) = (Circuits::default(), settings());
        let before = circuits.of("a", settings);
        let other = BreakerSettings { may_empty: !settings.may_empty, ..settings };
        assert!(!Rc::ptr_eq(&before, &circuits.of("a", other)));
        assert_eq!(names(&circuits), ["a"]);
    }

    #[test]
    fn the_operator_is_told_of_one_change_in_a_while() {
        let (circuits, now) = (Circuits::default(), Instant::now());
        let told = |after: Duration| circuits.is_to_be_told(now + after);
        assert!(told(Duration::ZERO));
        assert!(!told(TOLD_EVERY / 2) && told(TOLD_EVERY) && !told(TOLD_EVERY));
    }
}
