//! A latency average that rises at once and falls slowly ("peak EWMA"), as in Finagle.
//!
//! Invariants:
//! - The cost is finite, at least 0, and at most [`MAX_S`].
//! - An idle endpoint's cost decays, so that it is tried again however slow it once was.
//! - A busy endpoint's cost never decays: one that hangs becomes more expensive, not cheaper.

use std::time::{Duration, Instant};

use crate::outlier::Verdict;

/// After this time without a call an old measurement counts for 1/e of itself. Long enough to
/// remember a slow endpoint, short enough to forgive one pause of a garbage collector.
const DECAY_S: f64 = 5.0;

/// No single call is worth more than this, so that an endpoint comes back within about a minute.
const MAX_S: f64 = 10.0;

/// A failed call costs at least this much, or refusing quickly would attract calls.
const FAILURE_S: f64 = 0.001;

/// Average latency of one endpoint, in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeakEwma {
    cost_s: f64,
    measured_at: Option<Instant>,
}

impl PeakEwma {
    /// Takes one call into account. An exception counts as no faster than answers `usual`ly are.
    pub(crate) fn take_in(
        &mut self,
        now: Instant,
        latency: Duration,
        usual: Duration,
        verdict: Verdict,
    ) {
        match verdict {
            Verdict::Answered => self.record(now, latency, true),
            Verdict::Threw => self.record(now, latency.max(usual), true),
            Verdict::Failed | Verdict::TimedOut | Verdict::Full | Verdict::Refused => {
                self.record(now, latency, false);
            }
        }
    }

    /// Takes one finished call into account. A failure counts as at least twice the cost so far.
    fn record(&mut self, now: Instant, latency: Duration, ok: bool) {
        let mut sample_s = latency.as_secs_f64().min(MAX_S);
        if !ok {
            sample_s = sample_s.max(self.cost_s * 2.0).clamp(FAILURE_S, MAX_S);
        }
        let keep = self.measured_at.map_or(0.0, |at| decay(now.saturating_duration_since(at)));
        self.cost_s = if sample_s >= self.cost_s {
            sample_s
        } else {
            self.cost_s * keep + sample_s * (1.0 - keep)
        };
        self.measured_at = Some(now);
    }

    /// The average, `None` before the first call has finished.
    #[cfg(test)]
    fn average(&self) -> Option<Duration> {
        self.measured_at.map(|_| Duration::from_secs_f64(self.cost_s))
    }

    /// Expected latency in seconds of one more call at an idle endpoint; 0 before the first one.
    pub(crate) fn idle_cost_s(&self, now: Instant) -> f64 {
        self.measured_at.map_or(0.0, |at| self.cost_s * decay(now.saturating_duration_since(at)))
    }

    /// Expected latency in seconds at an endpoint that has calls in flight and has finished none
    /// for `silent`; `None` while nothing is known.
    pub(crate) fn busy_cost_s(&self, silent: Duration) -> Option<f64> {
        self.measured_at.map(|_| self.cost_s.max(silent.as_secs_f64().min(MAX_S)))
    }
}

fn decay(elapsed: Duration) -> f64 {
    (-elapsed.as_secs_f64() / DECAY_S).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn rises_at_once_and_falls_slowly() {
        let start = crate::test_start();
        let mut ewma = PeakEwma::default();
        assert_eq!(ewma.average(), None);
        ewma.record(start, 10 * MS, true);
        ewma.record(start + MS, 100 * MS, true);
        assert_eq!(ewma.average(), Some(100 * MS));
        ewma.record(start + 2 * MS, 10 * MS, true);
        assert!(ewma.average() > Some(99 * MS));
        ewma.record(start + Duration::from_secs(60), 10 * MS, true);
        assert!(ewma.average() < Some(11 * MS));
    }

    #[test]
    fn quick_failures_are_not_quick() {
        let start = crate::test_start();
        let mut ewma = PeakEwma::default();
        ewma.record(start, 10 * MS, true);
        ewma.record(start, MS, false);
        assert_eq!(ewma.average(), Some(20 * MS));
        for _ in 0..100 {
            ewma.record(start, MS, false);
        }
        assert_eq!(ewma.average(), Some(Duration::from_secs_f64(MAX_S)));
    }

    #[test]
    fn idle_decays_and_busy_grows() {
        let start = crate::test_start();
        let mut ewma = PeakEwma::default();
        assert_eq!(ewma.idle_cost_s(start), 0.0);
        assert_eq!(ewma.busy_cost_s(MS), None);
        ewma.record(start, 1000 * MS, true);
        assert!(ewma.idle_cost_s(start + Duration::from_secs(30)) < 0.01);
        assert_eq!(ewma.busy_cost_s(Duration::from_secs(2)), Some(2.0));
        assert_eq!(ewma.busy_cost_s(Duration::ZERO), Some(1.0));
    }
}
