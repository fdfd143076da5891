//! Which endpoints take no calls for a while because of how their last calls ended.
//!
//! An [`Outlier`] watches one endpoint. It is *ejected* after several failures in a row, when too
//! large a share of its calls fail, when it has calls in flight and answers none, or when it
//! refuses a call. After a time that doubles with each ejection it gets one call as a trial. If
//! that is answered, its share of the calls grows step by step. If not, it is ejected again.
//!
//! A refusal ("the app behind me has gone") is the mildest case: nothing was begun, so the rest is
//! short and one answer ends it. An endpoint that was ejected because it was silent comes back
//! with its first answer, too.
//!
//! How many may be out at a time is not decided here but by the balancer, which sees them all.
//!
//! Invariants:
//! - No ejection is longer than the configured maximum and a quarter.
//! - At most one trial begins per ejection, or per its length if the trial is not answered.
//! - What ended in one moment counts once: calls begun before an ejection never prolong it.

use std::fmt;
use std::time::{Duration, Instant};

use rand::Rng;

use crate::warm_up::WarmUp;

/// The first rest after a refusal: long enough for the other side to say that it is leaving, or to
/// come back.
const FIRST_REST: Duration = Duration::from_millis(200);

/// The longest rest after refusals: what an endpoint that is back may wait for its first call
/// while others work.
const MAX_REST: Duration = Duration::from_secs(2);

/// How long an endpoint takes from its trial to its full share.
const RAMP: Duration = Duration::from_secs(5);

/// An endpoint that answered within this time is full rather than broken when it says it is full.
const FULL_GRACE: Duration = Duration::from_secs(1);

/// Failures within this time count as one of those in a row.
const MOMENT: Duration = Duration::from_millis(1);

/// Fewer calls in flight than this say nothing by their silence: each may simply take long.
const MIN_SILENT: u32 = 3;

/// When endpoints are ejected, and for how long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OutlierPolicy {
    /// So many failures in a row eject an endpoint; 0 turns this off.
    pub failures: u32,
    /// An endpoint is ejected if at least so many percent of its calls in a window fail, 1 to 100;
    /// 0 turns this off.
    pub error_percent: u8,
    /// Fewer calls than this in a window are not judged by their percentage.
    pub min_calls: u32,
    /// The length of a window: calls of the last one to two halves of it count.
    pub window: Duration,
    /// An endpoint with several calls in flight that has answered none for so long, and for twice
    /// as long as calls usually take, is ejected until it answers; zero turns this off.
    pub silence: Duration,
    /// The first ejection; each further one is twice as long.
    pub time: Duration,
    /// The longest ejection.
    pub max_time: Duration,
    /// At most so many percent of the endpoints, rounded up, are out for these reasons at a time.
    /// It is never all of them, whatever the percentage. 0 turns all of this off.
    pub max_percent: u8,
    /// Exceptions that the service throws count as failures.
    pub exceptions: bool,
}

impl Default for OutlierPolicy {
    fn default() -> Self {
        Self {
            failures: 5,
            error_percent: 50,
            min_calls: 20,
            window: Duration::from_secs(10),
            silence: Duration::from_millis(100),
            time: Duration::from_secs(1),
            max_time: Duration::from_secs(30),
            max_percent: 50,
            exceptions: false,
        }
    }
}

impl OutlierPolicy {
    /// How many of `n` endpoints may be ejected at a time.
    #[must_use]
    pub fn max_ejected(&self, n: usize) -> usize {
        let share = n.saturating_mul(usize::from(self.max_percent)).div_ceil(100);
        share.min(n.saturating_sub(1))
    }

    /// Whether nothing is ejected for this reason.
    fn ignores(&self, reason: EjectReason) -> bool {
        let reasons = [
            (EjectReason::Failures, self.failures == 0),
            (EjectReason::ErrorRate, self.error_percent == 0),
            (EjectReason::Silent, self.silence.is_zero()),
        ];
        match reason {
            EjectReason::Refused => false,
            _ if self.max_percent == 0 => true,
            EjectReason::Trial => reasons.iter().all(|(_, is_off)| *is_off),
            _ => reasons.contains(&(reason, true)),
        }
    }
}

/// How a call ended, as far as its endpoint is concerned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// The endpoint answered.
    Answered,
    /// The service threw an exception: a healthy endpoint's answer, but no measure of its speed.
    Threw,
    /// The endpoint failed.
    Failed,
    /// The endpoint did not answer in time. That says nothing if it had less than twice as long as
    /// answers usually take: callers choose their timeouts.
    TimedOut,
    /// The endpoint has as many calls as it can take. Nobody has begun this one.
    Full,
    /// The endpoint is there and serves nobody now. Nobody has begun the call.
    Refused,
}

/// Why an endpoint was ejected.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum EjectReason {
    /// It refused a call before it began.
    Refused,
    /// Several failures came in a row.
    Failures,
    /// Too large a share of its calls failed.
    ErrorRate,
    /// It had calls in flight and answered none.
    Silent,
    /// The call after an ejection failed, or one of those soon after it.
    Trial,
}

impl EjectReason {
    /// All reasons, in the order in which documentation lists them.
    pub const ALL: [Self; 5] =
        [Self::Refused, Self::Failures, Self::ErrorRate, Self::Silent, Self::Trial];

    /// The name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Failures => "failures",
            Self::ErrorRate => "error-rate",
            Self::Silent => "silent",
            Self::Trial => "trial",
        }
    }
}

impl fmt::Display for EjectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "it refused a call",
            Self::Failures => "several calls in a row failed",
            Self::ErrorRate => "too many of its calls failed",
            Self::Silent => "it has calls in flight and answers none",
            Self::Trial => "a call after its last ejection failed",
        })
    }
}

/// Why an endpoint takes no calls, and until when.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ejection {
    /// Why.
    pub reason: EjectReason,
    /// Since when.
    pub since: Instant,
    /// When the next trial may begin.
    pub until: Instant,
    /// A trial is under way.
    pub has_trial: bool,
}

/// Calls of one half of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    answered: u32,
    failed: u32,
}

/// What is known about the failures of one endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outlier {
    out: Option<Ejection>,
    /// The length of the last ejection, before jitter.
    step: Duration,
    /// When the endpoint came back from its last ejection.
    back_at: Option<Instant>,
    in_a_row: u32,
    answered_at: Option<Instant>,
    failed_at: Option<Instant>,
    /// The half of the window that is counted now.
    half: Option<HalfWindow>,
    halves: [Counts; 2],
}

#[derive(Clone, Copy, Debug)]
struct HalfWindow {
    begin: Instant,
    end: Instant,
}

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedCall {
    pub(crate) verdict: Verdict,
    /// Whether its endpoint was out when it began.
    pub(crate) began_out: bool,
}

/// What one event changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EjectionChange {
    None,
    /// The endpoint is ejected, or longer than before.
    Out,
    /// The endpoint takes calls again.
    Back,
}

impl Outlier {
    pub(crate) fn ejection(&self) -> Option<&Ejection> {
        self.out.as_ref()
    }

    pub(crate) fn is_out(&self) -> bool {
        self.out.is_some()
    }

    /// Whether an answer changes anything.
    #[inline]
    pub(crate) fn is_touched(&self, policy: &OutlierPolicy) -> bool {
        policy.error_percent != 0 || self.in_a_row != 0 || self.out.is_some()
    }

    /// Whether the endpoint counts toward the share that may be out. One that refuses does not: it
    /// has said itself that it can serve nobody.
    pub(crate) fn is_counted(&self) -> bool {
        self.out.is_some_and(|out| out.reason != EjectReason::Refused)
    }

    /// Whether a call may go to the endpoint: it is not out, or a trial is due.
    pub(crate) fn allows(&self, now: Instant) -> bool {
        self.out.is_none_or(|out| out.until <= now)
    }

    /// The growth of the endpoint's share after an ejection; `None` if nothing is to grow.
    pub(crate) fn ramp(&self, now: Instant) -> Option<WarmUp> {
        let back_for = now.saturating_duration_since(self.back_at?);
        // A tenth to begin with, so that it is asked at all.
        WarmUp::new(now, back_for + RAMP / 10, RAMP)
    }

    /// Takes the endpoint back if it would not be ejected by `policy` for what it is out for.
    pub(crate) fn set_policy(&mut self, policy: &OutlierPolicy) -> EjectionChange {
        if !self.out.is_some_and(|out| policy.ignores(out.reason)) {
            return EjectionChange::None;
        }
        *self = Self::default();
        EjectionChange::Back
    }

    /// A call begins at `now`; true if the endpoint is out, so that its end decides.
    #[inline]
    pub(crate) fn begun(&mut self, policy: &OutlierPolicy, now: Instant) -> bool {
        let Some(out) = &mut self.out else { return false };
        if out.until <= now {
            if out.reason == EjectReason::Refused {
                out.until = now + MAX_REST;
            } else {
                if out.has_trial {
                    // The last trial is still unanswered.
                    self.step = (self.step * 2).min(policy.max_time.max(policy.time));
                }
                out.until = now + self.step;
            }
            out.has_trial = true;
        }
        true
    }

    /// A call ended at `now`. `may_eject` says whether one more endpoint may be out.
    pub(crate) fn ended<R: Rng>(
        &mut self,
        policy: &OutlierPolicy,
        now: Instant,
        call: EndedCall,
        may_eject: bool,
        rng: impl FnOnce() -> R,
    ) -> EjectionChange {
        let EndedCall { verdict, began_out } = call;
        match verdict {
            Verdict::Threw if policy.exceptions => {}
            Verdict::Answered | Verdict::Threw => return self.answered(policy, now, began_out),
            Verdict::Refused => return self.refused(policy, now, rng),
            Verdict::Failed | Verdict::TimedOut | Verdict::Full => {}
        }
        if let Some(out) = &self.out {
            // Calls that were begun before say nothing new.
            if !began_out || !(out.has_trial || out.until <= now) {
                return EjectionChange::None;
            }
            self.eject(policy, now, EjectReason::Trial, rng);
            return EjectionChange::Out;
        }
        let answers = |at: Instant| now.saturating_duration_since(at) < FULL_GRACE;
        if verdict == Verdict::Full && self.answered_at.is_none_or(answers) {
            // A full endpoint works as much as it can. None of its capacity is to be lost.
            self.answered_at.get_or_insert(now);
            return EjectionChange::None;
        }
        // What breaks many calls in one moment, such as the end of a connection, is one failure.
        if self.failed_at.is_none_or(|at| MOMENT <= now.saturating_duration_since(at)) {
            self.in_a_row = self.in_a_row.saturating_add(1);
            self.failed_at = Some(now);
        }
        self.count(policy, now, |counts| counts.failed += 1);
        match self.judge(policy, now) {
            Some(reason) if may_eject => {
                self.eject(policy, now, reason, rng);
                EjectionChange::Out
            }
            _ => EjectionChange::None,
        }
    }

    /// Looks whether an endpoint with `in_flight` calls, of which none has ended for `silent`, has
    /// gone silent. Calls usually take `usual`.
    pub(crate) fn is_silent(
        policy: &OutlierPolicy,
        in_flight: u32,
        silent: Duration,
        usual: Duration,
    ) -> bool {
        let patience = policy.silence.max(usual * 2);
        MIN_SILENT <= in_flight && !policy.silence.is_zero() && patience <= silent
    }

    /// Takes the endpoint out because it is silent.
    pub(crate) fn silenced<R: Rng>(
        &mut self,
        policy: &OutlierPolicy,
        now: Instant,
        rng: impl FnOnce() -> R,
    ) {
        self.eject(policy, now, EjectReason::Silent, rng);
    }

    fn answered(
        &mut self,
        policy: &OutlierPolicy,
        now: Instant,
        began_out: bool,
    ) -> EjectionChange {
        self.in_a_row = 0;
        self.answered_at = Some(now);
        if policy.error_percent != 0 {
            self.count(policy, now, |counts| counts.answered += 1);
        }
        let Some(out) = self.out else { return EjectionChange::None };
        match out.reason {
            EjectReason::Refused => self.back_at = None,
            // It was a pause.
            EjectReason::Silent if !began_out => self.back_at = None,
            _ if !began_out => return EjectionChange::None,
            _ => self.back_at = Some(now),
        }
        self.out = None;
        self.halves = Default::default();
        if out.reason == EjectReason::Refused {
            self.step = Duration::ZERO;
        }
        EjectionChange::Back
    }

    fn refused<R: Rng>(
        &mut self,
        policy: &OutlierPolicy,
        now: Instant,
        rng: impl FnOnce() -> R,
    ) -> EjectionChange {
        if self.out.is_some_and(|out| !out.has_trial && now < out.until) {
            return EjectionChange::None;
        }
        self.eject(policy, now, EjectReason::Refused, rng);
        EjectionChange::Out
    }

    /// Why the endpoint is to be ejected by what is counted.
    fn judge(&self, policy: &OutlierPolicy, now: Instant) -> Option<EjectReason> {
        let ramps =
            self.back_at.is_some_and(|back_at| now.saturating_duration_since(back_at) < RAMP);
        if policy.failures != 0 && ramps {
            return Some(EjectReason::Trial);
        }
        if policy.failures != 0 && policy.failures <= self.in_a_row {
            return Some(EjectReason::Failures);
        }
        let failed: u64 = self.halves.iter().map(|half| u64::from(half.failed)).sum();
        let all = failed + self.halves.iter().map(|half| u64::from(half.answered)).sum::<u64>();
        let is_over = policy.error_percent != 0
            && u64::from(policy.min_calls) <= all
            && all * u64::from(policy.error_percent) <= failed * 100;
        is_over.then_some(EjectReason::ErrorRate)
    }

    fn count(&mut self, policy: &OutlierPolicy, now: Instant, add: impl FnOnce(&mut Counts)) {
        if self.half.is_none_or(|half| half.end <= now) {
            self.next_half(policy, now);
        }
        let [current, _] = &mut self.halves;
        add(current);
    }

    #[cold]
    fn next_half(&mut self, policy: &OutlierPolicy, now: Instant) {
        let next = Some(HalfWindow { begin: now, end: now + policy.window / 2 });
        let Some(HalfWindow { begin, .. }) = std::mem::replace(&mut self.half, next) else {
            return;
        };
        let [current, _] = self.halves;
        // After a whole window even the half before has gone out of date.
        let is_old = policy.window <= now.saturating_duration_since(begin);
        self.halves = [Counts::default(), if is_old { Counts::default() } else { current }];
    }

    fn eject<R: Rng>(
        &mut self,
        policy: &OutlierPolicy,
        now: Instant,
        reason: EjectReason,
        rng: impl FnOnce() -> R,
    ) {
        let (first, max) = match reason {
            EjectReason::Refused => (FIRST_REST, MAX_REST),
            _ => (policy.time, policy.max_time.max(policy.time)),
        };
        // Who has worked for much longer than it was out begins again.
        let is_forgiven = self.out.is_none()
            && self.back_at.is_none_or(|at| self.step * 4 < now.saturating_duration_since(at));
        self.step = if is_forgiven { first } else { (self.step * 2).clamp(first, max) };
        // Callers that left in the same moment must not come back in the same moment.
        let length = self.step.mul_f64(rng().random_range(0.75..1.25));
        let since = self.out.map_or(now, |out| out.since);
        self.out = Some(Ejection { reason, since, until: now + length, has_trial: false });
        (self.in_a_row, self.halves) = (0, Default::default());
    }
}

#[cfg(test)]
mod tests;
