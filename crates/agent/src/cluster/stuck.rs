//! Calls that are at an endpoint that has gone silent, or has paused for long: one that may run
//! twice is given up there, and made again at another endpoint.
//!
//! Invariants:
//! - Only calls of idempotent methods move, and each move costs a retry of the budget.
//! - A call moves only if there is an endpoint that takes it at once. Until then it stays: its
//!   endpoint may have paused only.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Instant;

use balance::EjectReason;
use flow::pause::Pause;
use flow::{Attempts, NextAction, Retry};

use super::offering::Choice;
use super::splits::CallDraw;
use super::{Attempt, Cluster, Member};
use crate::call::Outcome;
use crate::error::Code;
use crate::facts::CallFacts;

/// A call that has left its endpoint: what it has tried, and where it goes.
pub(super) struct Moved {
    pub(super) attempts: Attempts<Member>,
    pub(super) choice: Choice,
    pub(super) next: NextAction,
}

impl Attempt {
    /// Whether the endpoint has gone silent, and has had the call for long enough.
    #[inline]
    pub fn is_stuck(&self, now: Instant) -> bool {
        let silence = self.member.0.silence.get();
        silence.is_some_and(|patience| patience <= now.saturating_duration_since(self.started))
    }
}

impl Cluster {
    /// Takes note of the endpoints that are ejected because they are silent, or that have paused
    /// for as long as that takes, and has the calls look that are there.
    pub(super) fn note_silence(&self, now: Instant) {
        let balancer = self.balancer.borrow();
        if !balancer.has_ejected() && !self.has_pauses() && !self.has_silent.take() {
            return;
        }
        let patience = self.policy.borrow().outlier.silence;
        for stats in balancer.stats() {
            let member = &stats.key.0;
            let is_ejected = stats.ejection.is_some_and(|it| it.reason == EjectReason::Silent);
            let is_over = |pause: Pause| patience <= now.saturating_duration_since(pause.since);
            let is_silent =
                is_ejected || !patience.is_zero() && member.pause.get().is_some_and(is_over);
            member.silence.set(is_silent.then_some(patience));
            if is_silent {
                self.has_silent.set(true);
                member.looks.notify_waiters();
            }
        }
    }

    /// Whether any calls may move.
    #[inline]
    pub(super) fn has_movable(&self) -> bool {
        !self.policy.borrow().routing.idempotent.is_empty()
    }

    /// Waits for the outcome of an attempt.
    ///
    /// # Errors
    /// Where the call goes instead, if its endpoint is silent and it may move.
    pub(super) async fn unless_stuck(
        self: &Rc<Self>,
        attempt: &Attempt,
        attempts: &Attempts<Member>,
        facts: &dyn CallFacts,
        mut made: Pin<&mut impl Future<Output = Outcome>>,
    ) -> Result<Outcome, Moved> {
        loop {
            tokio::select! {
                biased;
                outcome = &mut made => return Ok(outcome),
                () = attempt.member.0.looks.notified() => {}
            }
            let now = Instant::now();
            if attempt.is_stuck(now)
                && let Some(moved) = self.moved(attempt, attempts.clone(), now, facts)
            {
                return Err(moved);
            }
        }
    }

    /// What a call may try that was sent at once and is stuck, if it may move. It has to be given
    /// up where it is.
    pub fn move_stuck(
        self: &Rc<Self>,
        attempt: &Attempt,
        deadline: Instant,
        now: Instant,
        facts: &dyn CallFacts,
    ) -> Option<Attempts<Member>> {
        let attempts = self.attempts(deadline).with_draw(attempt.draw.0);
        Some(self.moved(attempt, attempts, now, facts)?.attempts)
    }

    #[cold]
    fn moved(
        self: &Rc<Self>,
        attempt: &Attempt,
        mut attempts: Attempts<Member>,
        now: Instant,
        facts: &dyn CallFacts,
    ) -> Option<Moved> {
        let retry = self.retry_of_method(Retry::IfIdempotent, &facts.method());
        if !retry.allows_another_endpoint() {
            return None;
        }
        attempts.failed(attempt.member.clone(), retry);
        let choice = self.choice(facts, CallDraw(attempts.draw()));
        let next = self.next(&attempts, now, &choice);
        let goes = match next {
            NextAction::Offer(slot) => !self.balancer.borrow().is_last_choice(slot, now),
            NextAction::Wait | NextAction::Queue | NextAction::GiveUp(_) => false,
        };
        if !goes || !self.budget.borrow_mut().take() {
            return None;
        }
        self.count_retry(Code::Timeout);
        Some(Moved { attempts, choice, next })
    }
}
