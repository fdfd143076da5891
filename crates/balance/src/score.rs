//! What calls in flight at one endpoint count for, as its answers have shown.
//!
//! A fast failure is not a fast answer. A call that failed, or that ended with an exception,
//! sooner than an answer usually comes goes on counting as in flight for the time that is left: an
//! endpoint that fails at once then looks as busy as one that works. Latencies are those of
//! answers alone.
//!
//! Invariants:
//! - A factor is at least [`ONE`] and at most [`MAX`].
//! - What still counts of failed calls is 0 once an answer's usual time has passed.

use std::time::{Duration, Instant};

/// The factor of an endpoint that answers as fast as usual: factors are in 16ths.
pub(crate) const ONE: u32 = 16;

/// The largest factor: such an endpoint gets a call now and then, and shows that it has recovered.
pub(crate) const MAX: u32 = 16 * ONE;

/// Below this factor an endpoint counts as usual. Means over a few calls differ that much by
/// chance, and calls in flight show small differences by themselves.
const DEAD_BAND: f64 = 1.25;

/// The mean of an endpoint is over about so many answers.
const MEAN_OVER: f64 = 16.0;

/// The mean of a cluster is over about so many answers.
const USUAL_OVER: f64 = 64.0;

/// The time in which an endpoint that is not asked is forgiven half of its slowness.
const FORGIVE: Duration = Duration::from_secs(2);

/// The window over which Dubbo's `shortestresponse` takes its mean.
const PERIOD: Duration = Duration::from_secs(30);

/// How long answers usually take, over all endpoints of a cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usual {
    mean_s: Option<f64>,
}

impl Usual {
    /// Takes in an answer of any endpoint.
    #[inline]
    pub(crate) fn answered(&mut self, latency: Duration) {
        let sample = latency.as_secs_f64();
        let mean = self.mean_s.get_or_insert(sample);
        *mean += (sample - *mean) / USUAL_OVER;
    }

    pub(crate) fn latency(self) -> Duration {
        Duration::from_secs_f64(self.mean_s.unwrap_or_default())
    }
}

/// Measurements of one endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Score {
    mean_s: Option<f64>,
    /// The share of calls that failed, 0 to 1.
    failing: f64,
    factor: u32,
    measured_at: Option<Instant>,
    /// Failed calls that still count as in flight, as of `ghosts_at`.
    ghosts: f64,
    ghosts_at: Option<Instant>,
    /// The time in which they fade away.
    fade_s: f64,
    period: Option<Period>,
}

/// The answers since a moment.
#[derive(Clone, Copy, Debug)]
struct Period {
    began: Instant,
    n: u32,
    sum: Duration,
}

impl Default for Score {
    fn default() -> Self {
        Self {
            mean_s: None,
            failing: 0.0,
            factor: ONE,
            measured_at: None,
            ghosts: 0.0,
            ghosts_at: None,
            fade_s: 0.0,
            period: None,
        }
    }
}

impl Score {
    /// Takes in an answer.
    pub(crate) fn answered(&mut self, now: Instant, latency: Duration, usual: Usual) {
        let sample = latency.as_secs_f64();
        let mean = self.mean_s.get_or_insert(sample);
        *mean += (sample - *mean) / MEAN_OVER;
        self.failing -= self.failing / MEAN_OVER;
        self.measure(now, usual);
    }

    /// Takes in an answer for Dubbo's mean over a window.
    pub(crate) fn count_period(&mut self, now: Instant, latency: Duration) {
        let fresh = Period { began: now, n: 0, sum: Duration::ZERO };
        let period = self.period.get_or_insert(fresh);
        if PERIOD <= now.saturating_duration_since(period.began) {
            *period = fresh;
        }
        period.n = period.n.saturating_add(1);
        period.sum = period.sum.saturating_add(latency);
    }

    /// Takes in a call that ended without an answer, or with an exception that says nothing about
    /// the endpoint's speed (`has_failed` false).
    pub(crate) fn failed(
        &mut self,
        now: Instant,
        latency: Duration,
        usual: Usual,
        has_failed: bool,
    ) {
        let (latency_s, usual_s) = (latency.as_secs_f64(), usual.mean_s.unwrap_or_default());
        if latency_s < usual_s {
            self.ghosts = self.ghosts_at(now) + 1.0;
            self.ghosts_at = Some(now);
            self.fade_s = usual_s - latency_s;
        }
        if has_failed {
            self.failing += (1.0 - self.failing) / MEAN_OVER;
            // It took at least so long.
            if let Some(mean) = &mut self.mean_s
                && *mean < latency_s
            {
                *mean += (latency_s - *mean) / MEAN_OVER;
            }
            self.measure(now, usual);
        }
    }

    fn measure(&mut self, now: Instant, usual: Usual) {
        self.measured_at = Some(now);
        let ratio = match (self.mean_s, usual.mean_s) {
            (Some(mean), Some(usual)) if 0.0 < usual => mean / usual,
            _ => 1.0,
        };
        self.set(ratio.max(1.0) / (1.0 - self.failing).max(1.0 / f64::from(MAX)));
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
    fn set(&mut self, ratio: f64) {
        let ratio = if ratio < DEAD_BAND { 1.0 } else { ratio };
        self.factor = ((ratio * f64::from(ONE)) as u32).clamp(ONE, MAX);
    }

    /// Forgives an endpoint that has not been asked for a while a part of its slowness.
    /// To be called every so often, `step` after the last time.
    pub(crate) fn forgive(&mut self, now: Instant, step: Duration, usual: Usual) {
        let is_idle =
            |at: Instant| FORGIVE / 2 <= now.saturating_duration_since(at) && ONE < self.factor;
        let Some(at) = self.measured_at.filter(|at| is_idle(*at)) else { return };
        let keep = 0.5_f64.powf(step.as_secs_f64() / FORGIVE.as_secs_f64());
        self.failing *= keep;
        if let (Some(mean), Some(usual)) = (&mut self.mean_s, usual.mean_s) {
            // What is beyond the largest factor says nothing more. Otherwise a pause of seconds
            // where answers take a millisecond would count for half a minute.
            let excess = (*mean - usual).min(usual * f64::from(MAX / ONE));
            *mean = usual + excess * keep;
        }
        self.measure(now, usual);
        self.measured_at = Some(at);
    }

    /// How many times a call here counts, in 16ths.
    pub(crate) fn factor(&self) -> u32 {
        self.factor
    }

    /// The mean latency of answers; `None` before the first.
    pub(crate) fn mean(&self) -> Option<Duration> {
        self.mean_s.map(Duration::from_secs_f64)
    }

    /// The mean latency of the answers of the last window, as Dubbo takes it; 0 if there are none.
    pub(crate) fn mean_of_period(&self) -> Duration {
        self.period.map_or(Duration::ZERO, |period| period.sum / period.n.max(1))
    }

    fn ghosts_at(&self, now: Instant) -> f64 {
        let Some(at) = self.ghosts_at else { return 0.0 };
        let age_s = now.saturating_duration_since(at).as_secs_f64();
        self.ghosts * (1.0 - age_s / self.fade_s.max(f64::MIN_POSITIVE)).max(0.0)
    }

    /// The calls that have failed and still count as in flight, rounded up.
    #[inline]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is small")]
    pub(crate) fn n_ghosts(&self, now: Instant) -> u32 {
        match self.ghosts_at {
            None => 0,
            Some(_) => self.ghosts_at(now).ceil() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_start;

    /// Answers take a millisecond; who has paused for seconds is asked again before long.
    #[test]
    fn a_long_pause_is_forgotten_as_soon_as_the_largest_slowness_that_counts() {
        let (now, mut usual) = (test_start(), Usual::default());
        usual.answered(Duration::from_millis(1));
        for pause in [20, 3000, 60_000] {
            let mut score = Score::default();
            for _ in 0..40 {
                score.answered(now, Duration::from_millis(pause), usual);
            }
            assert_eq!(score.factor(), MAX, "{pause} ms");
            let step = Duration::from_millis(100);
            let idle = (1..).find(|n| {
                score.forgive(now + step * *n, step, usual);
                score.factor() == ONE
            });
            let idle = idle.map(|n| step * n);
            assert!(idle <= Some(Duration::from_secs(14)), "{pause} ms: {idle:?}");
        }
    }
}
