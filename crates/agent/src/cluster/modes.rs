//! How calls are spread over endpoints where a method says so: once only, to several at a time, to
//! all, or once more when the first is slow.
//!
//! Invariants:
//! - A call goes to several endpoints only if its method is idempotent, or if it is a broadcast.
//! - No endpoint gets a call twice.
//! - A call that goes to a second endpoint because the first is slow costs a retry of the budget.
//! - When one endpoint has answered, the others' calls are cancelled.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use flow::queue::CallerId;
use flow::{AttemptLimits, Attempts, NextAction, Retry};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use super::methods::MethodRule;
use super::offering::Choice;
use super::splits::CallDraw;
use super::{Attempt, Cluster, Doubt, Member, Standing};
use crate::call::{Outcome, RoutedCall, Times};
use crate::config::{CallMode, HedgeDelay};
use crate::error::{CallError, Code};
use crate::facts::CallFacts;
use crate::metrics::MethodEvent;

/// Timers are kept to a millisecond.
const LEAST_DELAY: Duration = Duration::from_millis(1);

/// Attempts under way.
type Running<'a> = FuturesUnordered<Pin<Box<dyn Future<Output = Ended> + 'a>>>;

/// An attempt that has ended.
struct Ended {
    attempt: Attempt,
    outcome: Outcome,
    /// Whether it began because another one was slow.
    is_hedge: bool,
}

impl Cluster {
    /// Makes a call in one of these ways.
    pub(super) async fn call_by(
        self: &Rc<Self>,
        rule: &MethodRule,
        call: &RoutedCall<'_>,
        caller: CallerId,
    ) -> Outcome {
        let mode = rule.policy().mode;
        let all = self.attempts_of(call);
        // Nobody hears how a one-way call ends, so that there is nothing to choose.
        match mode {
            CallMode::Failfast => {
                let limits = AttemptLimits { max_attempts: 1, ..all.limits() };
                self.call_with(Attempts::new(limits).with_draw(all.draw()), call, caller).await
            }
            CallMode::Broadcast => self.broadcast(call, caller).await,
            CallMode::Forking(n) if !call.one_way && self.is_idempotent(call) => {
                self.race(rule, call, caller, n, Duration::MAX).await
            }
            CallMode::Hedging(delay) if !call.one_way && self.is_idempotent(call) => {
                let delay = hedge_delay(rule, delay);
                self.race(rule, call, caller, 1, delay).await
            }
            CallMode::Failover
            | CallMode::Failsafe
            | CallMode::Failback(_)
            | CallMode::Forking(_)
            | CallMode::Hedging(_) => self.call_with(all, call, caller).await,
        }
    }

    fn is_idempotent(&self, call: &RoutedCall<'_>) -> bool {
        self.policy.borrow().routing.is_idempotent(&call.method())
    }

    /// Makes a call at `n` endpoints at once, and at one more whenever `delay` has passed without
    /// an answer. The first one that succeeds counts.
    async fn race(
        self: &Rc<Self>,
        rule: &MethodRule,
        call: &RoutedCall<'_>,
        caller: CallerId,
        n: u32,
        mut delay: Duration,
    ) -> Outcome {
        let Times { mut now, deadline } = call.times;
        let all = self.attempts(deadline);
        let limits = AttemptLimits { max_attempts: n.max(all.limits().max_attempts), deadline };
        let mut attempts = Attempts::new(limits).with_draw(all.draw());
        let (mut running, mut doubt, draw) =
            (Running::default(), Doubt::default(), CallDraw(all.draw()));
        // Those who wait in line come first.
        let is_behind = self.lines.has_waiting(self.choice(call, draw).allowed.as_ref());
        while !is_behind
            && running.len() < n as usize
            && let Some(attempt) = self.begin_next(&mut attempts, now, call)
        {
            running.push(Box::pin(self.run(attempt, now, call, false)));
        }
        if running.is_empty() {
            return self.call_with(all, call, caller).await;
        }
        self.last_call.set(now);
        self.budget.borrow_mut().call();
        loop {
            let due = now.checked_add(delay).filter(|due| *due < deadline);
            let ended = until(&mut running, due).await;
            now = Instant::now();
            let failure = match ended {
                Some(Ended { attempt, outcome: Ok(mut reply), is_hedge }) => {
                    let own = attempt.replied(now, &mut reply);
                    // The first one took at least as long as all of it.
                    let took = if is_hedge { now - call.times.now } else { own };
                    self.note_first(rule, took, is_hedge);
                    self.end_answered(&mut running);
                    return Ok(reply);
                }
                Some(Ended { attempt, outcome: Err(error), .. }) => {
                    let left = attempt.left(now, &error);
                    attempt.failed(now, &error);
                    doubt.note(&error);
                    if !running.is_empty() {
                        continue;
                    }
                    if !self.retry_of(&error, call).allows_another_endpoint() {
                        return Err(doubt.told(error));
                    }
                    Some(left.unwrap_or(error))
                }
                None => None,
            };
            let attempt = self.begin_further(&mut attempts, now, call);
            match (attempt, failure) {
                (Some(attempt), Some(error)) => {
                    self.count_retry(error.code);
                    running.push(Box::pin(self.run(attempt, now, call, false)));
                }
                (Some(attempt), None) => {
                    self.count_event(MethodEvent::Hedged);
                    running.push(Box::pin(self.run(attempt, now, call, true)));
                }
                (None, Some(error)) => return Err(doubt.told(error)),
                // Nobody else may be asked; those under way may still answer.
                (None, None) => delay = Duration::MAX,
            }
        }
    }

    /// The first answer of a race came after so long.
    fn note_first(&self, rule: &MethodRule, took: Duration, is_hedge: bool) {
        rule.latencies().borrow_mut().note(took);
        if is_hedge {
            self.count_event(MethodEvent::HedgeWon);
        }
    }

    /// Ends the attempts whose outcomes have come together with the one that counts: those have
    /// nothing to cancel.
    fn end_answered(&self, running: &mut Running<'_>) {
        while let Some(Some(Ended { attempt, outcome, .. })) = running.next().now_or_never() {
            let _does_not_count = self.end(attempt, outcome);
        }
    }

    /// Ends an attempt.
    fn end(&self, attempt: Attempt, mut outcome: Outcome) -> Outcome {
        let now = Instant::now();
        match &mut outcome {
            Ok(reply) => drop(attempt.replied(now, reply)),
            Err(error) => {
                let left = attempt.left(now, error);
                attempt.failed(now, error);
                *error = left.unwrap_or_else(|| error.clone());
            }
        }
        outcome
    }

    /// A further attempt of a call that is under way, if there is anybody, and if the budget
    /// allows it.
    fn begin_further(
        self: &Rc<Self>,
        attempts: &mut Attempts<Member>,
        now: Instant,
        call: &RoutedCall<'_>,
    ) -> Option<Attempt> {
        let choice = self.choice(call, CallDraw(attempts.draw()));
        let is_anybody = matches!(self.next(attempts, now, &choice), NextAction::Offer(_));
        if !is_anybody || !self.budget.borrow_mut().take() {
            return None;
        }
        self.begin_next(attempts, now, call)
    }

    /// Begins a call at an endpoint that it has not been to.
    fn begin_next(
        self: &Rc<Self>,
        attempts: &mut Attempts<Member>,
        now: Instant,
        call: &RoutedCall<'_>,
    ) -> Option<Attempt> {
        let choice = self.choice(call, CallDraw(attempts.draw()));
        let NextAction::Offer(slot) = self.next(attempts, now, &choice) else { return None };
        let attempt = self.attempt(slot, now, choice.allowed.as_deref())?;
        // What counts is that it is not chosen again.
        attempts.failed(attempt.member.clone(), Retry::Safe);
        Some(attempt)
    }

    async fn run(
        self: &Rc<Self>,
        attempt: Attempt,
        now: Instant,
        call: &RoutedCall<'_>,
        is_hedge: bool,
    ) -> Ended {
        let outcome = self.send(&attempt, call, now).await;
        Ended { attempt, outcome, is_hedge }
    }

    /// Makes a call at all endpoints. The first failure is its outcome, or else the last answer.
    /// An exception that the method throws is a failure here, as in Dubbo's
    /// `BroadcastClusterInvoker`. A failure after which nobody would have begun the call is told
    /// as such only if nobody has.
    async fn broadcast(self: &Rc<Self>, call: &RoutedCall<'_>, caller: CallerId) -> Outcome {
        let deadline = call.times.deadline;
        self.budget.borrow_mut().call();
        // It may not be known yet who there is.
        self.wait_for_endpoints(deadline).await?;
        let now = Instant::now();
        self.last_call.set(now);
        let allowed = self.allowed(call, self.rules.draw());
        let is_allowed = |member: &Member| allowed.as_ref().is_none_or(|it| it.has(member));
        let members: Vec<_> = {
            let balancer = self.balancer.borrow();
            let stats =
                balancer.stats().filter(|it| !it.leaving && it.weight != 0 && is_allowed(it.key));
            stats.map(|stats| stats.key.clone()).collect()
        };
        let is_behind = self.lines.has_waiting(allowed.as_ref());
        let calls = members.iter().map(|it| self.call_at(it, is_behind, call, caller));
        let mut running: FuturesUnordered<_> = calls.collect();
        let (mut failure, mut last, mut doubt) = (None, None, Doubt::default());
        let (mut is_any_begun, mut is_answered) = (false, false);
        while let Some(begun) = running.next().await {
            is_any_begun |= begun.is_ok();
            let outcome = begun.unwrap_or_else(Err);
            is_answered |= outcome.is_ok();
            match outcome {
                Ok(reply) if reply.failure.is_none() => last = Some(reply),
                outcome => {
                    outcome.as_ref().err().into_iter().for_each(|error| doubt.note(error));
                    failure = failure.or(Some(outcome));
                }
            }
        }
        match (failure, last) {
            (Some(Err(error)), _) if !is_answered => {
                // What waited in vain was counted when its time was over.
                if !is_any_begun && error.code == Code::NoEndpoint {
                    self.count_without_endpoint(now, error.code);
                }
                Err(doubt.told(error))
            }
            (Some(Err(error)), _) if error.retry().is_unbegun() => Err(only_there(error)),
            (Some(outcome), _) => outcome,
            (None, Some(reply)) => Ok(reply),
            (None, None) => {
                let error = self.no_endpoint(allowed.as_deref());
                self.count_without_endpoint(now, error.code);
                Err(error)
            }
        }
    }

    /// Makes a call at this endpoint and no other, and waits for room there if need be.
    ///
    /// # Errors
    /// Why it was not begun.
    async fn call_at(
        self: &Rc<Self>,
        member: &Member,
        is_behind: bool,
        call: &RoutedCall<'_>,
        caller: CallerId,
    ) -> Result<Outcome, CallError> {
        let attempt = self.begin_alone(member, is_behind, call, caller).await;
        let attempt = attempt.map_err(|error| error.at(member.0.upstream.address()))?;
        let outcome = self.send(&attempt, call, attempt.started).await;
        Ok(self.end(attempt, outcome))
    }

    /// Begins a call at this endpoint, `is_behind` others that wait or not.
    async fn begin_alone(
        self: &Rc<Self>,
        member: &Member,
        is_behind: bool,
        call: &RoutedCall<'_>,
        caller: CallerId,
    ) -> Result<Attempt, CallError> {
        let now = Instant::now();
        let alone = self.lines.alone(member);
        let is_behind = is_behind || self.lines.has_waiting(Some(&alone));
        let begun = match self.standing_for(member, now, None) {
            Standing::Ready | Standing::Connecting if !is_behind => {
                let is_it = |it: &Member| it == member;
                let slot = self.balancer.borrow_mut().pick(now, &mut rand::rng(), is_it);
                slot.and_then(|slot| self.attempt(slot, now, None))
            }
            Standing::Ready | Standing::Connecting | Standing::Full => {
                let choice = Choice { allowed: Some(alone), point: None };
                return self.queue(now, caller, call.times.deadline, call, &choice).await;
            }
            Standing::Down => None,
        };
        begun.ok_or_else(|| {
            let service = &self.service;
            let trouble = member.0.upstream.trouble(&member.0.service_name);
            let why = trouble.map_or_else(|| "it takes no calls".into(), |error| error.message);
            let message = format!(
                "a call to all endpoints of {service} could not be sent to this one: {why}"
            );
            CallError::new(Code::NoEndpoint, message)
        })
    }
}

/// What a call to all endpoints ends with that one has not begun, while others have answered it.
fn only_there(error: CallError) -> CallError {
    let message = format!("some endpoints have answered the call, but one has not run it: {error}");
    let code = Code::ProviderError;
    CallError { endpoint: error.endpoint, ..CallError::new(code, message) }
}

/// After what time a second endpoint is asked; never, while too little is known.
fn hedge_delay(rule: &MethodRule, delay: HedgeDelay) -> Duration {
    match delay {
        HedgeDelay::Fixed(delay) => delay,
        HedgeDelay::Percentile(percent) => {
            let quantile = rule.latencies().borrow().quantile(percent);
            quantile.map_or(Duration::MAX, |it| it.max(LEAST_DELAY))
        }
    }
}

/// The next one that ends, unless that is after `due`.
async fn until(running: &mut Running<'_>, due: Option<Instant>) -> Option<Ended> {
    let Some(due) = due else { return running.next().await };
    let mut timer = pin!(tokio::time::sleep_until(due.into()));
    poll_fn(|cx| match running.poll_next_unpin(cx) {
        Poll::Ready(ended) => Poll::Ready(ended),
        Poll::Pending => timer.as_mut().poll(cx).map(|()| None),
    })
    .await
}
