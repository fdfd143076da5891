//! How a cluster offers calls to its endpoints.
//!
//! [`flow`] decides where a call goes next, and whether it goes anywhere. Here it is told how
//! endpoints stand, and what it decides is done.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use balance::Slot;
use flow::line::Arrival;
use flow::queue::CallerId;
use flow::{AttemptLimits, Attempts, GiveUp, NextAction, Retry, Standing, has_to_queue};
use registry::Freshness;

use super::attempt::{Leave, Occupancy};
use super::splits::CallDraw;
use super::stuck::Moved;
use super::{Allowed, Attempt, Cluster, Doubt, Member};
use crate::call::{Outcome, RoutedCall, Times};
use crate::error::{CallError, Code};
use crate::facts::CallFacts;
use crate::priority;
use crate::upstream::Credit;

/// What a call says about where it goes.
#[derive(Default)]
pub(super) struct Choice {
    /// The endpoints that rules allow; `None` means all.
    pub(super) allowed: Option<Rc<Allowed>>,
    /// Its point on the ring, if it has a key that counts.
    pub(super) point: Option<u32>,
}

/// A call while it is offered to one endpoint after the other.
pub(super) struct Offering<'a> {
    /// What it has tried, and may try.
    pub(super) attempts: Attempts<Member>,
    /// Where it may go now.
    pub(super) choice: Choice,
    pub(super) facts: &'a dyn CallFacts,
    doubt: Doubt,
}

impl Cluster {
    /// Whether a call that an endpoint refuses could be offered to another one.
    pub fn has_choice(&self) -> bool {
        flow::has_choice(self.policy.borrow().max_attempts, self.balancer.borrow().len())
    }

    /// A call that was not offered yet, and whose caller gives up at `deadline`.
    pub fn attempts(&self, deadline: Instant) -> Attempts<Member> {
        let limits = AttemptLimits { max_attempts: self.policy.borrow().max_attempts, deadline };
        Attempts::new(limits).with_draw(self.rules.draw().0)
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
        let mut attempts = self.attempts(times.deadline).with_draw(attempt.draw.0);
        attempts.failed(attempt.member.clone(), self.retry_of(error, facts));
        match self.next(&attempts, times.now, &self.choice(facts, attempt.draw)) {
            NextAction::Offer(_) | NextAction::Wait | NextAction::Queue
                if !self.budget.borrow_mut().take() =>
            {
                Err(GiveUp::LastFailure)
            }
            NextAction::Offer(_) | NextAction::Wait | NextAction::Queue => {
                self.count_retry(error.code);
                Ok(attempts)
            }
            NextAction::GiveUp(reason) => Err(reason),
        }
    }

    /// Begins a call on an endpoint that is connected and has room; `None` if there is none now.
    pub fn begin(self: &Rc<Self>, now: Instant, facts: &dyn CallFacts) -> Option<Attempt> {
        self.last_call.set(now);
        let draw = self.rules.draw();
        let choice = self.choice(facts, draw);
        if self.lines.has_waiting(choice.allowed.as_ref()) {
            return None;
        }
        let mut attempt = self.begin_for(now, choice.allowed.as_deref(), choice.point)?;
        attempt.draw = draw;
        self.budget.borrow_mut().call();
        Some(attempt)
    }

    /// Begins a call that may go to these endpoints.
    #[inline]
    pub(super) fn begin_for(
        self: &Rc<Self>,
        now: Instant,
        allowed: Option<&Allowed>,
        point: Option<u32>,
    ) -> Option<Attempt> {
        self.look_at_circuits(allowed, now);
        self.look_at_pauses(now);
        let slot = {
            let mut balancer = self.balancer.borrow_mut();
            let standing = |member: &Member| self.standing_for(member, now, allowed);
            let is_ready = |member: &Member| standing(member) == Standing::Ready;
            let slot = self.pick(&mut balancer, now, point, is_ready)?;
            let chosen = Some(slot);
            if has_to_queue(&mut balancer, now, rand::rng, chosen, standing) {
                return None;
            }
            slot
        };
        self.attempt(slot, now, allowed)
    }

    /// Makes a call, on another endpoint if one refuses it before it has begun. Calls of the same
    /// `caller` take turns with those of others where they wait.
    pub async fn call(self: &Rc<Self>, call: &RoutedCall<'_>, caller: CallerId) -> Outcome {
        self.call_with(self.attempts_of(call), call, caller).await
    }

    /// Makes a call at one endpoint and no other.
    pub async fn call_once(self: &Rc<Self>, call: &RoutedCall<'_>, caller: CallerId) -> Outcome {
        let limits = AttemptLimits { max_attempts: 1, deadline: call.times.deadline };
        let attempts = Attempts::new(limits).with_draw(self.rules.draw().0);
        self.call_with(attempts, call, caller).await
    }

    /// The same as [`Cluster::call`], with what it may try.
    pub async fn call_with(
        self: &Rc<Self>,
        attempts: Attempts<Member>,
        call: &RoutedCall<'_>,
        caller: CallerId,
    ) -> Outcome {
        let offer = self.offer(call.times.now, attempts, caller, call, async |attempt, now| {
            self.send(attempt, call, now).await
        });
        offer.await
    }

    /// Offers a call that goes on `now` to one endpoint after the other, until one takes it or
    /// nothing is left to try.
    pub async fn offer(
        self: &Rc<Self>,
        mut now: Instant,
        attempts: Attempts<Member>,
        caller: CallerId,
        facts: &dyn CallFacts,
        mut make: impl AsyncFnMut(&Attempt, Instant) -> Outcome,
    ) -> Outcome {
        let draw = CallDraw(attempts.draw());
        let (choice, mut next) = self.begin_offer(now, &attempts, facts, draw);
        let mut offering = Offering { attempts, choice, facts, doubt: Doubt::default() };
        loop {
            let attempt = match next {
                NextAction::Queue => {
                    let deadline = offering.attempts.limits().deadline;
                    let choice = &offering.choice;
                    let queued = Box::pin(self.queue(now, caller, deadline, facts, choice));
                    let attempt = match queued.await {
                        Ok(attempt) => attempt,
                        Err(error) => return Err(offering.doubt.told(error)),
                    };
                    now = Instant::now();
                    Some(attempt)
                }
                NextAction::Offer(slot) => {
                    self.attempt(slot, now, offering.choice.allowed.as_deref())
                }
                NextAction::Wait => {
                    // If none came, the next decision says so.
                    let deadline = offering.attempts.limits().deadline;
                    let _ = Box::pin(self.wait_for_endpoints(deadline)).await;
                    now = Instant::now();
                    offering.choice = self.choice(facts, draw);
                    next = self.next(&offering.attempts, now, &offering.choice);
                    continue;
                }
                NextAction::GiveUp(reason) => {
                    let Offering { attempts, choice, doubt, .. } = offering;
                    let error = self.nobody(&attempts, now, reason, choice.allowed.as_deref());
                    return Err(doubt.told(error));
                }
            };
            let Some(mut attempt) = attempt else {
                return Err(offering.doubt.told(self.no_endpoint(None)));
            };
            let outcome = self.make(&mut attempt, &offering, now, &mut make).await;
            let error = match outcome {
                Ok(Ok(mut reply)) => {
                    // How long this task waited for its turn since is not the endpoint's doing.
                    let at = reply.came.map_or_else(Instant::now, |came| came.at);
                    attempt.replied(at, &mut reply);
                    return Ok(reply);
                }
                Ok(Err(error)) => error,
                Err(moved) => {
                    Moved { attempts: offering.attempts, choice: offering.choice, next } = moved;
                    now = Instant::now();
                    continue;
                }
            };
            now = Instant::now();
            let error = self.end_failed(attempt, &mut offering, now, error);
            // Endpoints and rules may be others by now.
            offering.choice = self.choice(facts, draw);
            next = self.next(&offering.attempts, now, &offering.choice);
            if let Err(error) = self.go_on(&next, error) {
                return Err(offering.doubt.told(error));
            }
        }
    }

    /// Where a call goes first, behind those who wait in line already.
    #[inline]
    fn begin_offer(
        &self,
        now: Instant,
        attempts: &Attempts<Member>,
        facts: &dyn CallFacts,
        draw: CallDraw,
    ) -> (Choice, NextAction) {
        self.last_call.set(now);
        if attempts.is_first() {
            self.budget.borrow_mut().call();
        }
        let choice = self.choice(facts, draw);
        let is_behind = attempts.is_first() && self.lines.has_waiting(choice.allowed.as_ref());
        let next = if is_behind { NextAction::Queue } else { self.next(attempts, now, &choice) };
        (choice, next)
    }

    /// Ends an attempt that has failed, and says what its caller is told of it.
    #[cold]
    fn end_failed(
        &self,
        attempt: Attempt,
        offering: &mut Offering<'_>,
        now: Instant,
        error: CallError,
    ) -> CallError {
        let Offering { attempts, facts, doubt, .. } = offering;
        attempts.failed(attempt.member.clone(), self.retry_of(&error, *facts));
        let left = attempt.left(now, &error);
        attempt.failed(now, &error);
        doubt.note(&error);
        left.unwrap_or(error)
    }

    /// Has a call wait in the line of its endpoints.
    pub(super) async fn queue(
        self: &Rc<Self>,
        now: Instant,
        caller: CallerId,
        deadline: Instant,
        facts: &dyn CallFacts,
        choice: &Choice,
    ) -> Result<Attempt, CallError> {
        let priority = priority::of(facts, self.policy.borrow().priority);
        let arrival = Arrival { caller, priority, deadline };
        let attempt = self.wait_in_line(now, arrival, choice.allowed.clone()).await;
        attempt.inspect_err(|error| self.count_without_endpoint(now, error.code))
    }

    /// Pays for a further try of a call that has failed with `error`.
    ///
    /// # Errors
    /// What its caller is told, if there is no further try.
    #[cold]
    fn go_on(&self, next: &NextAction, error: CallError) -> Result<(), CallError> {
        match next {
            NextAction::GiveUp(GiveUp::TooLate) => Err(too_late(&error)),
            NextAction::GiveUp(_) => Err(error),
            NextAction::Offer(_) | NextAction::Wait | NextAction::Queue
                if !self.budget.borrow_mut().take() =>
            {
                Err(error)
            }
            NextAction::Offer(_) | NextAction::Wait | NextAction::Queue => {
                self.count_retry(error.code);
                Ok(())
            }
        }
    }

    /// What a failure says about another try of this call.
    #[cold]
    pub(super) fn retry_of(&self, error: &CallError, facts: &dyn CallFacts) -> Retry {
        self.retry_of_method(error.retry(), &facts.method())
    }

    /// What it says of a method of this service.
    pub(super) fn retry_of_method(&self, retry: Retry, method: &str) -> Retry {
        retry.for_method(|| self.policy.borrow().routing.is_idempotent(method))
    }

    /// What a call says about where it goes.
    #[inline]
    pub(super) fn choice(&self, facts: &dyn CallFacts, draw: CallDraw) -> Choice {
        Choice {
            allowed: self.with_circuits(self.allowed(facts, draw), facts),
            point: self.preference.point(facts),
        }
    }

    /// Decides where a call goes next.
    pub(super) fn next(
        &self,
        attempts: &Attempts<Member>,
        now: Instant,
        choice: &Choice,
    ) -> NextAction {
        self.look_at_circuits(choice.allowed.as_deref(), now);
        self.look_at_pauses(now);
        let is_known = self.status.get() != Freshness::Pending;
        let mut balancer = self.balancer.borrow_mut();
        let standing = |member: &Member| self.standing_for(member, now, choice.allowed.as_deref());
        let next = attempts.next_by(now, is_known, standing, |usable| {
            self.pick(&mut balancer, now, choice.point, usable)
        });
        let chosen = match next {
            NextAction::Offer(slot) => Some(slot),
            NextAction::GiveUp(GiveUp::NoEndpoint) => None,
            _ => return next,
        };
        let waits =
            attempts.is_first() && has_to_queue(&mut balancer, now, rand::rng, chosen, standing);
        if waits { NextAction::Queue } else { next }
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
            GiveUp::NoEndpoint | GiveUp::LastFailure => self.no_endpoint_at(now, allowed),
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
    pub(super) fn standing_for(
        &self,
        member: &Member,
        now: Instant,
        allowed: Option<&Allowed>,
    ) -> Standing {
        if allowed.is_some_and(|allowed| !allowed.has(member)) {
            return Standing::Down;
        }
        let circuits = allowed.and_then(Allowed::circuits);
        if circuits.is_some_and(|circuits| !circuits.has(member, now)) {
            return Standing::Down;
        }
        let standing = self.standing(member);
        let may_be_called = matches!(standing, Standing::Ready | Standing::Connecting);
        if may_be_called && member.0.is_gate_due.get() {
            self.make_gate(member);
        }
        match (standing, &*member.0.gate.borrow()) {
            (Standing::Ready | Standing::Connecting, Some(gate)) if !gate.has_room(now) => {
                Standing::Full
            }
            (standing, _) => standing,
        }
    }

    pub(super) fn standing(&self, member: &Member) -> Standing {
        member.0.standing()
    }

    pub(super) fn attempt(
        self: &Rc<Self>,
        slot: Slot,
        now: Instant,
        allowed: Option<&Allowed>,
    ) -> Option<Attempt> {
        let mut balancer = self.balancer.borrow_mut();
        let member = balancer.key(slot)?.clone();
        let n_others = balancer.in_flight(slot);
        let max = self.policy.borrow().max_in_flight;
        let occupancy = Occupancy { n_others, max };
        let ticket = Some(balancer.begin(slot));
        self.note_trial(&member, now);
        // There is room, or it would not have been chosen.
        let leave = match &*member.0.gate.borrow() {
            // It will not be sent.
            _ if occupancy.is_full() => None,
            Some(gate) => gate.enter(now).map(Leave::Pass),
            None => self.credit(&member, now).map(Leave::Credit),
        };
        self.stats(&member).started();
        let circuits = allowed.and_then(Allowed::circuits);
        let circuit = circuits.map(|circuits| circuits.begin(&member, now));
        let (cluster, draw) = (Rc::clone(self), CallDraw::default());
        let has_left = Cell::default();
        Some(Attempt {
            cluster,
            member,
            ticket,
            leave,
            circuit,
            started: now,
            draw,
            occupancy,
            has_left,
        })
    }

    #[inline]
    fn credit(&self, member: &Member, now: Instant) -> Option<Credit> {
        member.0.upstream.credit(&member.0.service_name, now)
    }
}

/// The failure of a call that could be offered to another endpoint, if there were time.
#[cold]
pub fn too_late(last: &CallError) -> CallError {
    let message = format!("no time was left to try another endpoint; the last one failed: {last}");
    CallError::new(Code::Timeout, message)
}
