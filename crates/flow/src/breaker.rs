//! A circuit breaker: keeps the calls of one method from one endpoint while they fail there.
//!
//! Closed, it counts. Open, it lets nothing pass for a time. Half-open, it lets a few calls pass
//! to see how they end.
//!
//! Invariants:
//! - It opens only after so many failures in a row, or after enough calls of which enough failed.
//! - Half-open, at most [`BreakerPolicy::probes`] calls are under way.
//! - It is never open for longer than [`BreakerPolicy::max_time`].
//! - A call that began before the breaker opened says nothing about the endpoint of now.

use std::time::{Duration, Instant};

/// Parts of the window that are forgotten one at a time.
const N_PARTS: u32 = 10;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BreakerPolicy {
    /// Failures in a row that open it; 0 for never.
    pub failures: u32,
    /// Percent of the calls in the window whose failure opens it; 0 for never.
    pub error_percent: u32,
    /// Fewer calls in the window are not judged by their percentage.
    pub min_calls: u32,
    /// The length of the window.
    pub window: Duration,
    /// How long it is open at first; each further time is twice as long.
    pub time: Duration,
    /// The longest time that it is open.
    pub max_time: Duration,
    /// Calls at once that may pass when the time is over; as many successes in a row close it.
    pub probes: u32,
}

/// Leave to make a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BreakerPass {
    /// Of which phase it is.
    phase: u32,
    is_probe: bool,
}

/// How a call ended, as far as a breaker is concerned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BreakerEnd {
    /// The endpoint did what it was asked.
    Good,
    /// It did not.
    Bad,
    /// That is not known, or not its fault.
    Unknown,
}

/// What a call's end has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BreakerChange {
    /// It is open for so long.
    Opened(Duration),
    /// It is closed again.
    Closed,
}

/// The breaker of one method at one endpoint.
#[derive(Clone, Debug)]
pub struct Breaker {
    state: BreakerState,
    /// Goes up with every change of the state.
    phase: u32,
    /// How often it opened in a row, without a whole window of being closed between.
    n_opened: u32,
    closed_since: Option<Instant>,
}

#[derive(Clone, Debug)]
enum BreakerState {
    Closed { streak: u32, window: Window },
    Open { until: Instant },
    HalfOpen { n_under_way: u32, n_good: u32 },
}

/// Calls and failures of late.
#[derive(Clone, Debug, Default)]
struct Window {
    parts: [WindowPart; N_PARTS as usize],
    /// The part that counts now, and when it began.
    current: usize,
    since: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct WindowPart {
    n_calls: u32,
    n_failures: u32,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { state: BreakerState::closed(), phase: 0, n_opened: 0, closed_since: None }
    }
}

impl BreakerState {
    fn closed() -> Self {
        Self::Closed { streak: 0, window: Window::default() }
    }
}

impl Window {
    fn count(&mut self, now: Instant, policy: &BreakerPolicy, is_failure: bool) {
        self.turn(now, policy.window / N_PARTS);
        if let Some(part) = self.parts.get_mut(self.current) {
            part.n_calls = part.n_calls.saturating_add(1);
            part.n_failures = part.n_failures.saturating_add(u32::from(is_failure));
        }
    }

    /// Forgets the parts that are too old at `now`.
    fn turn(&mut self, now: Instant, length: Duration) {
        let length = length.max(Duration::from_nanos(1));
        let since = *self.since.get_or_insert(now);
        let n = now.saturating_duration_since(since).as_nanos() / length.as_nanos();
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        for _ in 0..n.min(N_PARTS) {
            self.current = (self.current + 1) % self.parts.len();
            self.parts[self.current] = WindowPart::default();
        }
        if n != 0 {
            self.since = Some(if n < N_PARTS { since + length * n } else { now });
        }
    }

    fn is_bad(&self, policy: &BreakerPolicy) -> bool {
        let sum =
            |read: fn(&WindowPart) -> u32| self.parts.iter().map(|it| u64::from(read(it))).sum();
        let (n_calls, n_failures): (u64, u64) = (sum(|it| it.n_calls), sum(|it| it.n_failures));
        policy.error_percent != 0
            && u64::from(policy.min_calls) <= n_calls
            && n_calls * u64::from(policy.error_percent) <= n_failures * 100
    }
}

impl Breaker {
    /// Whether a call may pass at `now`.
    #[must_use]
    pub fn lets_pass(&self, now: Instant, policy: &BreakerPolicy) -> bool {
        match self.state {
            BreakerState::Closed { .. } => true,
            BreakerState::Open { until } => until <= now,
            BreakerState::HalfOpen { n_under_way, .. } => n_under_way < policy.probes.max(1),
        }
    }

    /// When a call may pass again, if none may before.
    #[must_use]
    pub const fn open_until(&self) -> Option<Instant> {
        match self.state {
            BreakerState::Open { until } => Some(until),
            BreakerState::Closed { .. } | BreakerState::HalfOpen { .. } => None,
        }
    }

    /// Whether it is not closed.
    #[must_use]
    pub const fn is_broken(&self) -> bool {
        !matches!(self.state, BreakerState::Closed { .. })
    }

    /// `open`, `half-open` or `closed`, at `now`.
    #[must_use]
    pub fn name(&self, now: Instant) -> &'static str {
        match self.state {
            BreakerState::Closed { .. } => "closed",
            BreakerState::Open { until } if now < until => "open",
            BreakerState::Open { .. } | BreakerState::HalfOpen { .. } => "half-open",
        }
    }

    /// A call begins, whether it may pass or not; one that may not does not count.
    pub fn begin(&mut self, now: Instant, policy: &BreakerPolicy) -> BreakerPass {
        if self.open_until().is_some_and(|until| until <= now) {
            self.enter(BreakerState::HalfOpen { n_under_way: 0, n_good: 0 });
        }
        let mut is_probe = false;
        if let BreakerState::HalfOpen { n_under_way, .. } = &mut self.state
            && *n_under_way < policy.probes.max(1)
        {
            *n_under_way += 1;
            is_probe = true;
        }
        BreakerPass { phase: self.phase, is_probe }
    }

    /// A call has ended at `now`.
    pub fn end(
        &mut self,
        pass: BreakerPass,
        now: Instant,
        policy: &BreakerPolicy,
        end: BreakerEnd,
    ) -> Option<BreakerChange> {
        if pass.phase != self.phase {
            return None;
        }
        match (&mut self.state, end) {
            (BreakerState::Closed { streak, window }, BreakerEnd::Good) => {
                *streak = 0;
                window.count(now, policy, false);
                None
            }
            (BreakerState::Closed { streak, window }, BreakerEnd::Bad) => {
                *streak = streak.saturating_add(1);
                window.count(now, policy, true);
                let is_streak = policy.failures != 0 && policy.failures <= *streak;
                if !is_streak && !window.is_bad(policy) {
                    return None;
                }
                let is_clean =
                    |since: Instant| policy.window <= now.saturating_duration_since(since);
                if self.closed_since.is_none_or(is_clean) {
                    self.n_opened = 0;
                }
                Some(self.open(now, policy))
            }
            (BreakerState::HalfOpen { n_under_way, n_good }, end) if pass.is_probe => {
                *n_under_way = n_under_way.saturating_sub(1);
                match end {
                    BreakerEnd::Unknown => None,
                    BreakerEnd::Bad => Some(self.open(now, policy)),
                    BreakerEnd::Good => {
                        *n_good += 1;
                        if *n_good < policy.probes.max(1) {
                            return None;
                        }
                        self.enter(BreakerState::closed());
                        self.closed_since = Some(now);
                        Some(BreakerChange::Closed)
                    }
                }
            }
            _ => None,
        }
    }

    fn open(&mut self, now: Instant, policy: &BreakerPolicy) -> BreakerChange {
        let factor = 1_u32.checked_shl(self.n_opened).unwrap_or(u32::MAX);
        let time = policy.time.saturating_mul(factor).min(policy.max_time);
        self.n_opened = self.n_opened.saturating_add(1);
        self.enter(BreakerState::Open { until: now + time });
        BreakerChange::Opened(time)
    }

    fn enter(&mut self, state: BreakerState) {
        self.state = state;
        self.phase = self.phase.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests;
