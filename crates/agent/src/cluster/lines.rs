//! Calls that wait, because the endpoints that they may go to work on as many as they can take.
//!
//! A cluster has one line for all its calls. If routing rules tell some of its calls apart, those
//! that may go to the same endpoints have a line of their own: nobody waits behind a call that
//! must go elsewhere. Calls to all endpoints wait for each of them alone. A task serves the lines
//! while anybody waits.
//!
//! Invariants:
//! - While somebody waits, nobody overtakes who may go to the same endpoints.
//! - A call that waits gets an endpoint or an error, or its caller gives it up.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use flow::Standing;
use flow::gate::{Pace, Shed};
use flow::line::{Arrival, LinePolicy, WaitingLine};
use flow::queue::WaitKey;
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep_until;

use super::{Allowed, Attempt, Cluster, Member};
use crate::error::{CallError, Code};
use crate::gate::{self, AppGate, CapacitySource};
use crate::upstream::InLine;

/// How often endpoints are looked at while calls wait: one may have been connected, or gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// The timers of a worker are kept to this precision.
const TIMER_STEP: Duration = Duration::from_millis(1);

type AttemptOutcome = Result<Attempt, CallError>;

/// The lines of a cluster.
#[derive(Default)]
pub(super) struct ClusterLines {
    lines: RefCell<Vec<Rc<SharedLine>>>,
    /// Somebody may wait. The path of a call looks at nothing else.
    is_used: Cell<bool>,
    /// A task serves the lines.
    is_served: Cell<bool>,
    /// There is room at an endpoint, or somebody has come.
    wake: Rc<Notify>,
    /// Which line is served first the next time.
    turn: Cell<usize>,
}

/// Calls that may go to the same endpoints.
struct SharedLine {
    allowed: Option<Rc<Allowed>>,
    line: RefCell<WaitingLine<oneshot::Sender<AttemptOutcome>>>,
}

/// A call that waits. Dropped, it does not.
struct CallInLine {
    line: Rc<SharedLine>,
    key: WaitKey,
    outcome: oneshot::Receiver<AttemptOutcome>,
    _counted: InLine,
}

impl Drop for CallInLine {
    fn drop(&mut self) {
        // Without effect if it waits no longer.
        drop(self.line.line.borrow_mut().cancel(self.key));
        self.outcome.close();
        if let Ok(Ok(attempt)) = self.outcome.try_recv() {
            attempt.unused(Instant::now());
        }
    }
}

impl SharedLine {
    fn is_for(&self, allowed: Option<&Rc<Allowed>>) -> bool {
        match (&self.allowed, allowed) {
            (None, None) => true,
            (Some(own), Some(other)) => Rc::ptr_eq(own, other),
            _ => false,
        }
    }
}

impl ClusterLines {
    /// How many calls wait.
    pub(super) fn n_waiting(&self) -> usize {
        self.lines.borrow().iter().map(|line| line.line.borrow().len()).sum()
    }

    /// Whether calls wait that may go to the same endpoints.
    #[inline]
    pub(super) fn has_waiting(&self, allowed: Option<&Rc<Allowed>>) -> bool {
        self.is_used.get() && self.find(allowed).is_some_and(|it| !it.line.borrow().is_empty())
    }

    /// Stands for an endpoint alone. Those who wait for it alone are in one line.
    pub(super) fn alone(&self, member: &Member) -> Rc<Allowed> {
        let lines = self.lines.borrow();
        let mut known = lines.iter().filter_map(|line| line.allowed.as_ref());
        let alone = known.find(|it| it.is_only(member)).cloned();
        alone.unwrap_or_else(|| Rc::new(Allowed::new(vec![member.clone()], vec![], || None)))
    }

    fn find(&self, allowed: Option<&Rc<Allowed>>) -> Option<Rc<SharedLine>> {
        self.lines.borrow().iter().find(|line| line.is_for(allowed)).cloned()
    }

    fn line(&self, allowed: Option<Rc<Allowed>>, policy: LinePolicy) -> Rc<SharedLine> {
        let line = self.find(allowed.as_ref()).unwrap_or_else(|| {
            let line = Rc::new(SharedLine { allowed, line: WaitingLine::new(policy).into() });
            self.lines.borrow_mut().push(Rc::clone(&line));
            self.is_used.set(true);
            line
        });
        line.line.borrow_mut().set_policy(policy);
        line
    }
}

impl Cluster {
    /// Waits until an endpoint has room for a call.
    pub(super) async fn wait_in_line(
        self: &Rc<Self>,
        now: Instant,
        arrival: Arrival,
        allowed: Option<Rc<Allowed>>,
    ) -> AttemptOutcome {
        let (pace, policy) = self.pace(allowed.as_deref());
        let n_waiting = self.lines.n_waiting();
        let (task, outcome) = oneshot::channel();
        let line = self.lines.line(allowed, policy);
        // A line that is full by itself has a call give way that matters less, if there is one.
        if policy.max_waiting <= n_waiting && line.line.borrow().len() < n_waiting {
            return Err(self.shed(Shed::Full, &pace, line.allowed.as_deref()));
        }
        let waits = line.line.borrow_mut().wait(now, &pace, arrival, task);
        // A line in which nobody waits is removed by the task.
        match self.lines.is_served.replace(true) {
            true => self.lines.wake.notify_one(),
            false => drop(tokio::task::spawn_local(Rc::clone(self).serve_lines())),
        }
        let key = waits.map_err(|(shed, _)| self.shed(shed, &pace, line.allowed.as_deref()))?;
        let _counted = self.pool.stand_in_line();
        let mut waiting = CallInLine { line, key, outcome, _counted };
        let outcome = (&mut waiting.outcome).await;
        outcome.unwrap_or_else(|_| {
            let message = "a call in line was forgotten; please report this";
            Err(CallError::new(Code::Internal, message))
        })
    }

    /// Lets those go on who wait, until nobody does.
    async fn serve_lines(self: Rc<Self>) {
        loop {
            let now = Instant::now();
            self.poll_lines(now);
            let expiry = {
                let mut lines = self.lines.lines.borrow_mut();
                lines.retain(|line| !line.line.borrow().is_empty());
                lines.iter().filter_map(|line| line.line.borrow().poll_timeout()).min()
            };
            self.want_room(now);
            let Some(expiry) = expiry else { break };
            let due = (expiry + TIMER_STEP).min(now + LOOK_INTERVAL);
            tokio::select! {
                () = self.lines.wake.notified() => {}
                () = sleep_until(due.into()) => {}
            }
        }
        self.lines.is_used.set(false);
        self.lines.is_served.set(false);
    }

    fn poll_lines(self: &Rc<Self>, now: Instant) {
        let lines = self.lines.lines.borrow().clone();
        let turn = self.lines.turn.get();
        self.lines.turn.set(turn.wrapping_add(1));
        for nth in 0..lines.len() {
            self.poll_line(&lines[(turn.wrapping_add(nth)) % lines.len()], now);
        }
    }

    fn poll_line(self: &Rc<Self>, line: &SharedLine, now: Instant) {
        let allowed = line.allowed.as_deref();
        let (pace, _) = self.pace(allowed);
        loop {
            let shed = line.line.borrow_mut().poll_shed(now, &pace);
            if let Some((task, shed)) = shed {
                let _ = task.send(Err(self.shed(shed, &pace, allowed)));
                continue;
            }
            if line.line.borrow().is_empty() {
                return;
            }
            let attempt = self.begin_for(now, allowed, None);
            if attempt.is_none() && self.may_have_room(now, allowed) {
                return;
            }
            let task = line.line.borrow_mut().poll_next(now, &pace);
            match (task, attempt) {
                (Some(task), Some(attempt)) => {
                    if let Err(Ok(attempt)) = task.send(Ok(attempt)) {
                        attempt.unused(now);
                    }
                }
                (Some(task), None) => {
                    let _ = task.send(Err(self.no_endpoint_at(now, allowed)));
                }
                (None, attempt) => {
                    attempt.into_iter().for_each(|attempt| attempt.unused(now));
                    return;
                }
            }
        }
    }

    /// Whether any endpoint is only full, or is being connected.
    fn may_have_room(&self, now: Instant, allowed: Option<&Allowed>) -> bool {
        let is_worth_waiting = |member: &Member| {
            let standing = self.standing_for(member, now, allowed);
            matches!(standing, Standing::Full | Standing::Connecting)
        };
        self.balancer.borrow_mut().pick(now, &mut rand::rng(), is_worth_waiting).is_some()
    }

    /// Asks all endpoints that somebody waits for to say when they have room.
    fn want_room(&self, now: Instant) {
        let n_waiting = u32::try_from(self.lines.n_waiting()).unwrap_or(u32::MAX);
        self.want_credits(now, n_waiting);
        if n_waiting == 0 {
            return;
        }
        let lines = self.lines.lines.borrow();
        let is_wanted = |member: &Member| {
            lines.iter().any(|line| line.allowed.as_ref().is_none_or(|it| it.has(member)))
        };
        for stats in self.balancer.borrow().stats().filter(|stats| !stats.leaving) {
            if let Some(gate) = stats.key.gate().filter(|_| is_wanted(stats.key)) {
                gate.want(n_waiting, &self.lines.wake);
            }
        }
    }

    /// Tells the agents of providers how many calls wait for credits: all of them together.
    fn want_credits(&self, now: Instant, n_waiting: u32) {
        let lines = self.lines.lines.borrow();
        let is_wanted = |member: &Member| {
            lines.iter().any(|line| line.allowed.as_ref().is_none_or(|it| it.has(member)))
        };
        let balancer = self.balancer.borrow();
        let members = balancer.stats().filter(|stats| !stats.leaving).map(|stats| stats.key);
        let purses = members.flat_map(|member| {
            let is_wanted = is_wanted(member);
            member.0.purses().map(move |purse| (is_wanted, purse))
        });
        let purses: Vec<_> = purses.collect();
        let n_wanted = purses.iter().filter(|(is_wanted, _)| *is_wanted).count();
        let each = n_waiting.div_ceil(u32::try_from(n_wanted).unwrap_or(u32::MAX).max(1));
        for (is_wanted, purse) in purses {
            purse.want(now, if is_wanted { each } else { 0 }, &self.lines.wake);
        }
    }

    /// How fast calls go through the endpoints that they may go to, and how they wait for that.
    fn pace(&self, allowed: Option<&Allowed>) -> (Pace, LinePolicy) {
        let (mut pace, mut policy) = (Pace::default(), LinePolicy::default());
        for stats in self.balancer.borrow().stats().filter(|stats| !stats.leaving) {
            let is_allowed = allowed.is_none_or(|allowed| allowed.has(stats.key));
            if !is_allowed {
                continue;
            }
            let mut by_credits = Pace::default();
            for purse in stats.key.0.purses() {
                by_credits = by_credits.with(purse.pace());
                if purse.is_measured() {
                    policy = LinePolicy::PATIENT;
                }
            }
            if 0.0 < by_credits.reach {
                // Credits are few at first, while calls end that need none.
                by_credits.reach = by_credits.reach.max(f64::from(stats.in_flight));
                pace = pace.with(by_credits);
            }
            let Some(gate) = stats.key.gate() else { continue };
            pace = pace.with(gate.pace());
            if gate.shared().source() == CapacitySource::Found {
                policy = LinePolicy::PATIENT;
            }
        }
        (pace, policy)
    }

    /// The keys that say how many calls endpoints can take.
    fn limited_by(&self, allowed: Option<&Allowed>) -> String {
        let (mut by_gates, mut by_credits) = (false, false);
        for stats in self.balancer.borrow().stats().filter(|stats| !stats.leaving) {
            if allowed.is_none_or(|allowed| allowed.has(stats.key)) {
                by_gates |= stats.key.gate().is_some();
                by_credits |= stats.key.0.purses().next().is_some();
            }
        }
        limiting_keys(by_gates, by_credits)
    }

    #[cold]
    fn shed(&self, shed: Shed, pace: &Pace, allowed: Option<&Allowed>) -> CallError {
        let why = match shed {
            Shed::Late => "this one would not be answered before its deadline",
            Shed::Busy => "this one would wait too long",
            Shed::Full => "no more may wait",
        };
        let n_waiting = self.lines.n_waiting();
        let message = format!(
            "all endpoints of {} work on as many calls as they can take ({}), {n_waiting} more \
             wait on this worker, and {why}",
            self.service,
            self.limited_by(allowed)
        );
        let n_before = u32::try_from(n_waiting + 1).unwrap_or(u32::MAX);
        let retry_after = pace.usual.saturating_mul(n_before).div_f64(pace.reach.max(1.0));
        gate::overloaded(message, retry_after)
    }
}

/// The keys that limit the calls of endpoints, by whether there are some with a gate here, and
/// some behind agents that grant credits.
fn limiting_keys(by_gates: bool, by_credits: bool) -> String {
    const GATES: &str = "endpoint_capacity";
    const CREDITS: &str = "capacity of [[export]] at their agents";
    match (by_gates, by_credits) {
        (true, true) => format!("{GATES}, or {CREDITS}"),
        (false, true) => CREDITS.to_owned(),
        // Those that have granted credits may have gone meanwhile.
        (_, false) => GATES.to_owned(),
    }
}

impl Member {
    /// The gate before it, if its calls are limited here.
    pub(super) fn gate(&self) -> Option<Rc<AppGate>> {
        self.0.gate.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_shed_is_told_the_key_that_applies() {
        let keys = [(true, false), (false, true), (true, true)].map(|(a, b)| limiting_keys(a, b));
        let of_agents = "capacity of [[export]] at their agents";
        let both = format!("endpoint_capacity, or {of_agents}");
        assert_eq!(keys, ["endpoint_capacity".to_owned(), of_agents.to_owned(), both]);
    }
}
