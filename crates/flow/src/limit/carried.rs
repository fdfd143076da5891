//! What an app has taken and rejected lately, and how many calls it has taken at a time.
//!
//! A call that is not rejected has found room. A rejection comes back soon. So of the calls that
//! were in flight a while ago, all have found room but for as many as were rejected since.

use std::time::{Duration, Instant};

use super::Sample;
use crate::windowed_min::WindowedMin;

/// A rejection has come back by then, even on a busy machine.
const PERIOD: Duration = Duration::from_millis(50);

/// The most calls that an app had at a time and did not reject.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    window: Duration,
    /// One divided by the calls, in seconds.
    least: WindowedMin,
    period_ends: Instant,
    last: PeriodCounts,
    current: PeriodCounts,
}

#[derive(Clone, Copy, Debug, Default)]
struct PeriodCounts {
    max_in_flight: u32,
    n_rejected: u32,
}

impl Carried {
    /// The most of the last `window`.
    pub(super) fn new(window: Duration, now: Instant) -> Self {
        let (last, current) = Default::default();
        let least = WindowedMin::new(window, now);
        Self { window, least, period_ends: now + PERIOD, last, current }
    }

    /// Takes in what was seen since the last time.
    pub(super) fn take_in(&mut self, now: Instant, max_in_flight: u32, n_rejected: u32) {
        self.current.max_in_flight = self.current.max_in_flight.max(max_in_flight);
        self.current.n_rejected = self.current.n_rejected.saturating_add(n_rejected);
        if now < self.period_ends {
            return;
        }
        let PeriodCounts { max_in_flight, n_rejected } = self.last;
        let n_rejected = n_rejected.saturating_add(self.current.n_rejected);
        let n = max_in_flight.saturating_sub(n_rejected);
        let each = Duration::from_secs(1).checked_div(n).unwrap_or(Duration::MAX);
        self.least.take_in(now, each);
        self.last = std::mem::take(&mut self.current);
        self.period_ends = now + PERIOD;
    }

    /// The most calls at a time; 0 if there were none.
    pub(super) fn most(&self) -> f64 {
        self.least.least().map_or(0.0, |each| each.as_secs_f64().recip())
    }

    /// What was carried before says nothing any more.
    pub(super) fn forget(&mut self, now: Instant) {
        *self = Self::new(self.window, now);
    }
}

/// What an app took and rejected of late.
#[derive(Clone, Debug)]
pub(super) struct Lately {
    pub(super) carried: Carried,
    /// A few rejections until then say nothing new: the limit was lowered just now.
    pub(super) settles_until: Instant,
    /// Answers and rejections since the app rejected something, and until the limit falls.
    pub(super) n_answers: u32,
    pub(super) n_rejected: u32,
    counts_until: Instant,
}

impl Lately {
    pub(super) fn new(window: Duration, now: Instant) -> Self {
        let carried = Carried::new(window, now);
        Self { carried, settles_until: now, n_answers: 0, n_rejected: 0, counts_until: now }
    }

    /// Takes in what was seen since the last time. It counts for so long if it is a rejection.
    pub(super) fn take_in(&mut self, now: Instant, sample: &Sample, counting: Duration) {
        self.carried.take_in(now, sample.max_in_flight, sample.n_rejected);
        if 0 < sample.n_rejected && self.counts_until <= now {
            self.counts_until = now + counting;
            (self.n_answers, self.n_rejected) = (0, 0);
        }
        self.n_answers = self.n_answers.saturating_add(sample.n_answers);
        self.n_rejected = self.n_rejected.saturating_add(sample.n_rejected);
    }

    /// The limit fell, and it takes so long until that shows.
    pub(super) fn fell(&mut self, now: Instant, settling: Duration, rejects_most: bool) {
        self.settles_until = now + settling;
        (self.n_answers, self.n_rejected) = (0, 0);
        if rejects_most {
            self.carried.forget(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_rejected_was_carried() {
        let start = crate::test_start();
        let mut carried = Carried::new(Duration::from_secs(8), start);
        for (period, max_in_flight, n_rejected, most, why) in [
            (1, 30, 0, 0.0, "they may all be rejected yet"),
            (2, 64, 0, 30.0, "they were not"),
            (3, 5, 10, 54.0, "all but ten"),
            (4, 5, 0, 54.0, "it is remembered"),
            (170, 5, 0, 5.0, "and forgotten"),
        ] {
            carried.take_in(start + PERIOD * period, max_in_flight, n_rejected);
            assert!((carried.most() - most).abs() < 0.1, "{why}: {}", carried.most());
        }
        // Many short samples, and each rejection in one of its own.
        (0..40).for_each(|n| {
            carried.take_in(start + PERIOD * 200 + Duration::from_millis(n), 64, 1);
        });
        assert!(carried.most() < 30.0, "{}", carried.most());
        carried.forget(start + PERIOD * 202);
        assert!(carried.most() < 0.1);
    }
}
