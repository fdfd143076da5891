//! How a cluster offers calls to its endpoints.
//!
//! [`flow`] decides where a call goes next, and whether it goes anywhere. Here it is told how
//! endpoints stand, and what it decides is done.

use std::rc::Rc;
use std::time::Instant;

use balance::Slot;
use flow::{AttemptLimits, Attempts, GiveUp, Next, Retry, Rewrites, Standing};
use registry::Freshness;
use tracing::info;

use super::{Allowed, Attempt, Cluster, Member};
use crate::call::{Call, Outcome, RoutedCall, Times};
use crate::error::{CallError, Code};
use crate::facts::CallFacts;
use crate::upstream::DubboForm;

/// What a call says about where it goes.
#[derive(Default)]
pub(super) struct Choice {
    /// The endpoints that rules allow; `None` means all.
    pub(super) allowed: Option<Rc<Allowed>>,
    /// Its point on the ring, if it has a key that counts.
    pub(super) point: Option<u32>,
}

impl Cluster {
    /// Whether a call that an endpoint refuses could be offered to another one.
    pub fn has_choice(&self) -> bool {
        flow::has_choice(self.policy.borrow().max_attempts, self.balancer.borrow().len())
    }

    /// A call that was not offered yet, and whose caller gives up at `deadline`.
    pub fn attempts(&self, deadline: Instant) -> Attempts<Member> {
        Attempts::new(AttemptLimits { max_attempts: self.policy.borrow().max_attempts, deadline })
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
        facts: &dyn CallFacts,
    ) -> Result<Attempts<Member>, GiveUp> {
        let mut attempts = self.attempts(times.deadline);
        attempts.failed(attempt.member.clone(), self.retry_of(error, facts));
        match self.next(&attempts, times.now, &self.choice(facts)) {
            Next::Offer(_) | Next::Wait if !self.budget.borrow_mut().take() => {
                Err(GiveUp::LastFailure)
            }
            Next::Offer(_) | Next::Wait => Ok(attempts),
            Next::GiveUp(reason) => Err(reason),
        }
    }

    /// Begins a call on an endpoint that is connected; `None` if there is none just now.
    pub fn begin(self: &Rc<Self>, now: Instant, facts: &dyn CallFacts) -> Option<Attempt> {
        self.last_call.set(now);
        self.budget.borrow_mut().call();
        let Choice { allowed, point } = self.choice(facts);
        let slot = {
            let mut balancer = self.balancer.borrow_mut();
            let standing = |member: &Member| self.standing_for(member, allowed.as_deref());
            let is_ready = |member: &Member| standing(member) == Standing::Ready;
            self.preference.pick(&mut balancer, now, point, is_ready)?
        };
        self.attempt(slot, now)
    }

    /// Makes a call, on another endpoint if one refuses it before it has begun.
    pub async fn call(self: &Rc<Self>, call: RoutedCall<'_>) -> Outcome {
        let otherwise = self.policy.borrow().serialization;
        let Times { now, deadline } = call.times;
        self.offer(now, self.attempts(deadline), &call, async |attempt, now| {
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
            let form =
                DubboForm { serialization: used, path: member.path(&self.service.interface) };
            let call = Call { attachments, times: Times { now, deadline }, ..call };
            let outcome = attempt.upstream().call(&call, form).await;
            // Nobody has read it yet.
            if call.one_way {
                return outcome;
            }
            let Some(other) = member.refused_serializations.take_in(used, &outcome) else {
                return outcome;
            };
            let now = Instant::now();
            let is_allowed =
                |error: &CallError| Rewrites::new(deadline, 1).allow(now, error.retry());
            if !outcome.as_ref().is_err_and(is_allowed) {
                return outcome;
            }
            let call = Call { times: Times { now, deadline }, ..call };
            let form = DubboForm { serialization: other, ..form };
            let outcome = attempt.upstream().call(&call, form).await;
            if member.refused_serializations.take_in_again(used, other, &outcome) {
                info!(endpoint = %member.upstream.address(), %used, instead = %other, "serialization refused");
            }
            outcome
        })
        .await
    }

    /// Offers a call that goes on `now` to one endpoint after the other, until one takes it or
    /// nothing is left to try.
    pub async fn offer(
        self: &Rc<Self>,
        mut now: Instant,
        mut attempts: Attempts<Member>,
        facts: &dyn CallFacts,
        mut make: impl AsyncFnMut(&Attempt, Instant) -> Outcome,
    ) -> Outcome {
        self.last_call.set(now);
        if attempts.is_first() {
            self.budget.borrow_mut().call();
        }
        let mut choice = self.choice(facts);
        let mut next = self.next(&attempts, now, &choice);
        loop {
            let attempt = match next {
                Next::Offer(slot) => self.attempt(slot, now),
                Next::Wait => {
                    // If none came, the next decision says so.
                    let _ = self.wait_for_endpoints(attempts.limits().deadline).await;
                    now = Instant::now();
                    choice = self.choice(facts);
                    next = self.next(&attempts, now, &choice);
                    continue;
                }
                Next::GiveUp(reason) => {
                    return Err(self.nobody(&attempts, now, reason, choice.allowed.as_deref()));
                }
            };
            let Some(attempt) = attempt else { return Err(self.no_endpoint(None)) };
            let outcome = make(&attempt, now).await;
            now = Instant::now();
            let error = match outcome {
                Ok(reply) => {
                    attempt.answered(now, reply.serialization, &reply.body);
                    return Ok(reply);
                }
                Err(error) => error,
            };
            attempts.failed(attempt.member.clone(), self.retry_of(&error, facts));
            attempt.failed(now, &error);
            // Endpoints and rules may be others by now.
            choice = self.choice(facts);
            next = self.next(&attempts, now, &choice);
            match next {
                Next::GiveUp(GiveUp::TooLate) => return Err(too_late(&error)),
                Next::GiveUp(_) => return Err(error),
                Next::Offer(_) | Next::Wait if !self.budget.borrow_mut().take() => {
                    return Err(error);
                }
                Next::Offer(_) | Next::Wait => {}
            }
        }
    }

    /// What a failure says about another try of this call.
    #[cold]
    fn retry_of(&self, error: &CallError, facts: &dyn CallFacts) -> Retry {
        let retry = error.retry();
        let may_repeat = retry == Retry::IfIdempotent
            && self.policy.borrow().routing.is_idempotent(&facts.method());
        if may_repeat { retry.of_idempotent() } else { retry }
    }

    /// What a call says about where it goes.
    #[inline]
    pub(super) fn choice(&self, facts: &dyn CallFacts) -> Choice {
        Choice { allowed: self.allowed(facts), point: self.preference.point(facts) }
    }

    /// Decides where a call goes next.
    pub(super) fn next(&self, attempts: &Attempts<Member>, now: Instant, choice: &Choice) -> Next {
        let is_known = self.status.get() != Freshness::Pending;
        let mut balancer = self.balancer.borrow_mut();
        let standing = |member: &Member| self.standing_for(member, choice.allowed.as_deref());
        attempts.next_by(now, is_known, standing, |usable| {
            self.preference.pick(&mut balancer, now, choice.point, usable)
        })
    }

    /// The failure of a call that nobody was there for.
    #[cold]
    fn nobody(
        &self,
        attempts: &Attempts<Member>,
        now: Instant,
        reason: GiveUp,
        allowed: Option<&Allowed>,
    ) -> CallError {
        let error = match reason {
            GiveUp::NothingKnown => self.registry_silent(),
            GiveUp::NoEndpoint | GiveUp::LastFailure => self.no_endpoint(allowed),
            GiveUp::TooLate => CallError::new(Code::Timeout, "the deadline has passed"),
        };
        // Whom it was offered to before has counted it.
        if attempts.is_first() {
            self.count_without_endpoint(now, error.code);
        }
        error
    }

    /// How an endpoint stands toward a call. One that rules forbid takes none.
    #[inline]
    pub(super) fn standing_for(&self, member: &Member, allowed: Option<&Allowed>) -> Standing {
        match allowed {
            Some(allowed) if !allowed.has(member) => Standing::Down,
            _ => self.standing(member),
        }
    }

    pub(super) fn standing(&self, member: &Member) -> Standing {
        member.0.upstream.standing(&self.service_name)
    }

    pub(super) fn attempt(self: &Rc<Self>, slot: Slot, now: Instant) -> Option<Attempt> {
        let mut balancer = self.balancer.borrow_mut();
        let member = balancer.key(slot)?.clone();
        let ticket = Some(balancer.begin(slot));
        member.0.stats.started();
        Some(Attempt { cluster: Rc::clone(self), member, ticket, started: now })
    }
}

/// The failure of a call that could be offered to another endpoint, if there were time.
#[cold]
pub fn too_late(last: &CallError) -> CallError {
    let message = format!("no time was left to try another endpoint; the last one failed: {last}");
    CallError::new(Code::Timeout, message)
}
