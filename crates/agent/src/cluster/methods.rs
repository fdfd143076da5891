//! What holds for some methods of a service, as one worker goes by it.
//!
//! A service without such sections costs its calls one look at an `Option`.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use flow::latencies::Latencies;
use flow::rate_limit::OverRate;
use tracing::warn;
use wire::Hold;

use super::{Allowed, Cluster};
use crate::config::{BreakerSettings, CallMode, CallerKey, MethodPolicy, MirrorPolicy, calls};
use crate::error::{CallError, Code};
use crate::facts::CallFacts;
use crate::invocation::CallOrigin;
use crate::metrics::{Hub, MethodEvent, SharedLimiter};

/// The attachments in which Dubbo consumers name their application.
const APPLICATIONS: [&str; 2] = ["remote.application", "application"];
/// Stands for callers who do not say who they are.
const NOBODY: &str = "";

/// What holds for the methods of one service, by the order of the configuration.
#[derive(Default)]
pub(super) struct MethodRules(RefCell<Option<Rc<[Rc<MethodRule>]>>>);

/// What holds for some methods.
pub struct MethodRule {
    policy: Arc<MethodPolicy>,
    /// Shared by all workers.
    limiter: Option<Arc<SharedLimiter>>,
    latencies: RefCell<Latencies>,
    /// Copies of calls that are in flight, and their bytes.
    copies: Cell<(u32, usize)>,
}

/// The place of a copy among those in flight. It is given back when it is dropped.
pub struct CopyPlace {
    cluster: Rc<Cluster>,
    rule: Rc<MethodRule>,
    len: usize,
    _hold: Hold,
}

impl CopyPlace {
    /// Counts what became of the copy.
    pub fn count(&self, event: MethodEvent) {
        self.cluster.count_event(event);
    }
}

impl Drop for CopyPlace {
    fn drop(&mut self) {
        let (n_copies, len) = self.rule.copies.get();
        self.rule.copies.set((n_copies - 1, len - self.len));
    }
}

impl MethodRule {
    /// Which of its calls are copied.
    pub fn mirror(&self) -> Option<&MirrorPolicy> {
        self.policy.mirror.as_ref()
    }

    /// What the configuration says.
    pub(super) fn policy(&self) -> &MethodPolicy {
        &self.policy
    }

    /// Whether more than the choice of an endpoint depends on it, so that a task has to make such
    /// calls.
    pub fn is_involved(&self) -> bool {
        let MethodPolicy { mode, mock, fault, .. } = &*self.policy;
        *mode != CallMode::Failover || mock.is_some() || fault.is_some()
    }

    /// How long its calls take.
    pub(super) fn latencies(&self) -> &RefCell<Latencies> {
        &self.latencies
    }

    /// When its breakers open.
    pub(super) fn breaker(&self) -> Option<BreakerSettings> {
        self.policy.breaker
    }
}

impl MethodRules {
    /// Goes by these policies from now on. What limiters have counted stays, if a section is for
    /// the same methods as before.
    /// `registered` is what holds for the others.
    pub(super) fn set(
        &self,
        service: &str,
        policies: &[Arc<MethodPolicy>],
        registered: Option<CallMode>,
        hub: &Hub,
    ) {
        let rule = |policy: &Arc<MethodPolicy>| {
            let limits = policy.limits;
            let is_limited = limits.total.is_some() || limits.per_caller.is_some();
            let name = || format!("{service} {}", policy.names.join(" "));
            let limiter = is_limited.then(|| hub.limiter(&name(), limits));
            if policy.fault.is_some() {
                let (names, faults) = (policy.names.join(", "), policy.words().join("; "));
                warn!(service, names, faults, "FAULTS ARE INJECTED into calls");
            }
            let (latencies, copies) = Default::default();
            Rc::new(MethodRule { policy: Arc::clone(policy), limiter, latencies, copies })
        };
        let registered = registered.map(|mode| Arc::new(MethodPolicy::registered(mode)));
        let is_any = !policies.is_empty() || registered.is_some();
        let rules = is_any.then(|| policies.iter().chain(&registered).map(rule).collect());
        // The old limiters are let go only now, so that those that stay are found.
        let _old = self.0.replace(rules);
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.0.borrow().is_none()
    }

    #[cold]
    fn of(&self, method: &str) -> Option<Rc<MethodRule>> {
        self.0.borrow().as_ref()?.iter().find(|rule| rule.policy.is_for(method)).cloned()
    }
}

impl Cluster {
    /// What holds for the method of a call, if anything does.
    #[inline]
    pub fn method_rule(&self, facts: &dyn CallFacts) -> Option<Rc<MethodRule>> {
        if self.methods.is_empty() { None } else { self.methods.of(&facts.method()) }
    }

    /// What a call may go to by the rules, together with the breakers of its method.
    #[inline]
    pub(super) fn with_circuits(
        &self,
        allowed: Option<Rc<Allowed>>,
        facts: &dyn CallFacts,
    ) -> Option<Rc<Allowed>> {
        if self.methods.is_empty() { allowed } else { self.narrowed(allowed, &facts.method()) }
    }

    #[cold]
    pub(super) fn narrowed(
        &self,
        allowed: Option<Rc<Allowed>>,
        method: &str,
    ) -> Option<Rc<Allowed>> {
        match self.methods.of(method) {
            Some(rule) => self.narrow(&rule, method, allowed),
            None => allowed,
        }
    }

    /// The settings of the breakers of a method, if it has any.
    pub(super) fn breaker_of(&self, method: &str) -> Option<BreakerSettings> {
        self.methods.of(method)?.breaker()
    }

    /// Whether calls of a method that fail at one endpoint go to another one.
    pub(super) fn fails_over(&self, method: &str) -> bool {
        self.methods.of(method).is_none_or(|rule| rule.policy.mode == CallMode::Failover)
    }

    /// What holds for a method, in words.
    pub fn method_words(&self, method: &str) -> Vec<String> {
        self.methods.of(method).map(|rule| rule.policy.words()).unwrap_or_default()
    }

    /// What holds for methods, in words, and for which: calls that are passed on unread are of
    /// any.
    pub fn all_method_words(&self) -> Vec<String> {
        let rules = self.methods.0.borrow().clone();
        let words = |rule: &Rc<MethodRule>| {
            let names = rule.policy.names.join(", ");
            let words = rule.policy.words().into_iter();
            words.map(|words| format!("{names}: {words}")).collect::<Vec<_>>()
        };
        rules.iter().flat_map(|rules| rules.iter()).flat_map(words).collect()
    }

    /// Counts something that happened to a call because of what holds for its method.
    #[cold]
    pub(super) fn count_event(&self, event: MethodEvent) {
        self.events(|events| events.count(event));
    }

    /// Counts a further attempt, after a failure of this code.
    #[cold]
    pub(super) fn count_retry(&self, code: Code) {
        self.events(|events| events.count_retry(code as usize));
    }

    /// A place for a copy of so many bytes, as far as there is room. What is dropped is counted.
    pub fn place_for_copy(
        self: &Rc<Self>,
        rule: &Rc<MethodRule>,
        len: usize,
        max_len: usize,
    ) -> Option<CopyPlace> {
        let (n_copies, held_len) = rule.copies.get();
        let has_room = rule.mirror().is_some_and(|mirror| n_copies < mirror.max_in_flight)
            && held_len.saturating_add(len) <= max_len;
        let hold = has_room.then(|| self.pool.account().take(len).ok()).flatten();
        let Some(hold) = hold else {
            self.count_event(MethodEvent::MirrorDropped);
            return None;
        };
        rule.copies.set((n_copies + 1, held_len + len));
        self.count_event(MethodEvent::Mirrored);
        Some(CopyPlace { cluster: Rc::clone(self), rule: Rc::clone(rule), len, _hold: hold })
    }

    /// Whether a call may pass at `now`.
    ///
    /// # Errors
    /// [`Code::RateLimited`].
    pub fn check_rate(
        &self,
        rule: &MethodRule,
        now: Instant,
        facts: &dyn CallFacts,
        origin: CallOrigin<'_>,
    ) -> Result<(), CallError> {
        let Some(limiter) = &rule.limiter else { return Ok(()) };
        let key = &rule.policy.caller;
        let is_asked = rule.policy.limits.per_caller.is_some();
        let caller = if is_asked { caller(key, facts, origin) } else { NOBODY.into() };
        let Err(over) = limiter.take(now, &caller) else { return Ok(()) };
        self.count_event(match over.is_of_caller {
            true => MethodEvent::CallerRateLimited,
            false => MethodEvent::RateLimited,
        });
        let error = self.over_rate(&over, key, &caller, &facts.method());
        self.count_without_endpoint(now, error.code);
        Err(error)
    }

    #[cold]
    fn over_rate(&self, over: &OverRate, key: &CallerKey, caller: &str, method: &str) -> CallError {
        let OverRate { is_of_caller, rate, wait } = *over;
        let (name, whose) = match is_of_caller {
            true => {
                let caller = crate::error::clip(caller);
                ("caller_rate_limit", format!(" of caller {caller:?} (by {key})"))
            }
            false => ("rate_limit", String::new()),
        };
        let service = &self.service;
        let message = format!(
            "{name} of {service}, method {method}: this agent lets {} a second through{whose}; \
             try again in {} ms",
            calls(rate.per_second),
            wait.as_millis().saturating_add(1)
        );
        CallError { retry_after: Some(wait), ..CallError::new(Code::RateLimited, message) }
    }
}

/// Who makes a call.
fn caller<'a>(key: &CallerKey, facts: &'a dyn CallFacts, origin: CallOrigin<'a>) -> Cow<'a, str> {
    let caller = match key {
        CallerKey::Address => origin.address.map(|address| address.to_string().into()),
        CallerKey::Application => APPLICATIONS.iter().find_map(|name| facts.attachment(name)),
        CallerKey::Attachment(name) => facts.attachment(name),
        CallerKey::Header(name) => {
            let value = origin.headers.and_then(|headers| headers.get(name));
            value.map(|value| String::from_utf8_lossy(value.as_bytes()))
        }
    };
    caller.unwrap_or(Cow::Borrowed(NOBODY))
}
