//! The best throughput seen lately.

use std::time::{Duration, Instant};

use crate::windowed_min::WindowedMin;

/// Answers may come in bunches. So their rate is a mean of about this time.
const SMOOTHED_OVER: f64 = 0.5;

/// How many answers an app gave in a second when it gave the most.
#[derive(Clone, Debug)]
pub(crate) struct BestThroughput {
    /// The mean rate of late, per second.
    rate: f64,
    taken_in: Instant,
    /// The time for one answer at this rate.
    least_time: WindowedMin,
}

impl BestThroughput {
    /// The best of the last `window`.
    pub(crate) fn new(window: Duration, now: Instant) -> Self {
        Self { rate: 0.0, taken_in: now, least_time: WindowedMin::new(window, now) }
    }

    /// Takes in the answers that have come since the last time.
    pub(crate) fn take_in(&mut self, now: Instant, n_answers: u32) {
        let time = now.saturating_duration_since(self.taken_in).as_secs_f64();
        if time == 0.0 {
            return;
        }
        self.taken_in = now;
        let weight = (time / SMOOTHED_OVER).min(1.0);
        self.rate += (f64::from(n_answers) / time - self.rate) * weight;
        let each = Duration::try_from_secs_f64(self.rate.recip()).unwrap_or(Duration::MAX);
        self.least_time.take_in(now, each);
    }

    /// The best rate per second, once anything was taken in.
    pub(crate) fn per_second(&self) -> Option<f64> {
        let each = self.least_time.least()?.max(Duration::from_nanos(1));
        Some(each.as_secs_f64().recip())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_late_counts_and_a_bunch_hardly() {
        let start = crate::test_start();
        let at = |n: u32| start + Duration::from_millis(100) * n;
        let mut best = BestThroughput::new(Duration::from_secs(8), start);
        assert_eq!(best.per_second(), None);
        best.take_in(start, 5);
        assert_eq!(best.per_second(), None, "in no time");
        (1..=60).for_each(|n| best.take_in(at(n), 40));
        let steady = best.per_second().unwrap();
        assert!((399.0..401.0).contains(&steady), "{steady}");
        best.take_in(at(61), 80);
        assert!(best.per_second().unwrap() < 490.0);
        (62..=120).for_each(|n| best.take_in(at(n), 10));
        assert!(400.0 < best.per_second().unwrap());
        (121..=220).for_each(|n| best.take_in(at(n), 10));
        let slow = best.per_second().unwrap();
        assert!((99.0..101.0).contains(&slow), "{slow}");
        best.take_in(at(100_000), 0);
        assert!(best.per_second().unwrap() < 1e-6);
    }
}
