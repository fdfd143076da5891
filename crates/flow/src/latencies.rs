//! How long most calls take, of late: a quantile of latencies without keeping them.
//!
//! Latencies are counted in buckets that each reach a fifth further than the one before. When
//! enough were counted all counts are halved, so that what was long ago fades.

use std::time::Duration;

/// Enough for latencies of up to an hour.
const N_BUCKETS: usize = 128;
/// The first bucket reaches so far, in microseconds.
const FIRST_US: f64 = 10.0;
const GROWTH: f64 = 1.2;
/// Counts are halved when there are so many: a minute of a service with a few calls a second.
const MAX_COUNT: u32 = 1000;
/// With fewer nothing is said.
const MIN_COUNT: u32 = 20;

/// Latencies of late.
#[derive(Clone, Debug)]
pub struct Latencies {
    counts: [u32; N_BUCKETS],
    n: u32,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: [0; N_BUCKETS], n: 0 }
    }
}

impl Latencies {
    /// Counts a call that took so long, or at least so long.
    pub fn note(&mut self, latency: Duration) {
        if let Some(count) = self.counts.get_mut(bucket(latency)) {
            *count += 1;
            self.n += 1;
        }
        if MAX_COUNT <= self.n {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.n = self.counts.iter().sum();
        }
    }

    /// The time within which so many percent of the calls have ended, to a fifth; `None` while too
    /// few were counted.
    #[must_use]
    pub fn quantile(&self, percent: u32) -> Option<Duration> {
        if self.n < MIN_COUNT {
            return None;
        }
        let wanted = (u64::from(self.n) * u64::from(percent.min(100))).div_ceil(100);
        let mut n = 0_u64;
        let at = self.counts.iter().position(|count| {
            n += u64::from(*count);
            wanted <= n
        });
        Some(reach(at.unwrap_or(N_BUCKETS - 1)))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the logarithm of a time is small, and a negative one becomes 0"
)]
fn bucket(latency: Duration) -> usize {
    let steps = (latency.as_secs_f64() * 1e6 / FIRST_US).ln() / GROWTH.ln();
    (steps.ceil() as usize).min(N_BUCKETS - 1)
}

fn reach(bucket: usize) -> Duration {
    let steps = i32::try_from(bucket).unwrap_or(i32::MAX);
    Duration::from_secs_f64(FIRST_US * GROWTH.powi(steps) / 1e6)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The answer is no less than the true one, and at most a fifth more.
        #[test]
        fn it_is_right_to_a_fifth(mut all in vec(11..60_000_000_u64, 20..900), percent in 1..=100_u32) {
            let mut latencies = Latencies::default();
            all.iter().for_each(|us| latencies.note(Duration::from_micros(*us)));
            all.sort_unstable();
            let nth = (all.len() * percent as usize).div_ceil(100) - 1;
            let (truth, told) = (all[nth] as f64, latencies.quantile(percent).unwrap());
            let ratio = told.as_secs_f64() * 1e6 / truth;
            prop_assert!((0.999..1.21).contains(&ratio), "{told:?} of {truth} us");
        }
    }

    #[test]
    fn few_calls_say_nothing_and_old_ones_fade() {
        let mut latencies = Latencies::default();
        (1..MIN_COUNT).for_each(|_| latencies.note(Duration::from_millis(1)));
        assert_eq!(latencies.quantile(95), None);
        latencies.note(Duration::ZERO);
        assert!(latencies.quantile(95).is_some_and(|it| it < Duration::from_millis(2)));
        (0..5000).for_each(|_| latencies.note(Duration::from_secs(7200)));
        assert!(Duration::from_secs(3600) < latencies.quantile(5).unwrap());
    }
}
