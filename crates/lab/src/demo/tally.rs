//! What the load has seen: calls, errors by code, latencies.

use std::collections::BTreeMap;
use std::time::Duration;

/// Buckets of equal width in each power of two, so that a latency is kept to about 3%.
const N_STEPS: usize = 32;
const STEP_BITS: u32 = N_STEPS.ilog2();
/// The last bucket begins beyond an hour.
const N_BUCKETS: usize = 28 * N_STEPS;

/// What came of the calls of some time.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) n_good: u64,
    /// How often by code.
    pub(super) errors: BTreeMap<String, u64>,
    buckets: Vec<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self { n_good: 0, errors: BTreeMap::new(), buckets: vec![0; N_BUCKETS] }
    }
}

impl Tally {
    /// Counts a call that took `latency` and failed with a code, or did not.
    pub(super) fn record(&mut self, latency: Duration, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => {
                self.n_good += 1;
                let bucket = bucket_of(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
                if let Some(count) = self.buckets.get_mut(bucket) {
                    *count += 1;
                }
            }
            Err(code) => *self.errors.entry(code).or_default() += 1,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.n_good += other.n_good;
        for (code, n) in &other.errors {
            *self.errors.entry(code.clone()).or_default() += n;
        }
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(sum, count)| *sum += count);
    }

    pub(super) fn n_errors(&self) -> u64 {
        self.errors.values().sum()
    }

    /// The latency that the given share of good calls did not exceed; 0 if there were none.
    pub(super) fn percentile_ms(&self, share: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
        let rank = ((self.n_good as f64 * share).ceil() as u64).max(1);
        let mut n_seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            n_seen += count;
            if rank <= n_seen {
                return middle_us(bucket) / 1000.0;
            }
        }
        0.0
    }
}

/// Microseconds below the first power of two with steps have a bucket each.
fn bucket_of(us: u64) -> usize {
    let shift = us.checked_ilog2().unwrap_or(0).saturating_sub(STEP_BITS);
    let step = usize::try_from(us >> shift).unwrap_or(N_BUCKETS);
    (shift as usize * N_STEPS + step).min(N_BUCKETS - 1)
}

/// The middle of a bucket, in microseconds.
fn middle_us(bucket: usize) -> f64 {
    let shift = (bucket / N_STEPS).saturating_sub(1);
    let step = bucket - shift * N_STEPS;
    (step as f64 + 0.5) * (1_u64 << shift) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_are_narrow() {
        let mut last = 0;
        for us in 0..2_000_000_u64 {
            let bucket = bucket_of(us);
            assert!(bucket == last || bucket == last + 1, "{us}");
            last = bucket;
            let off = (middle_us(bucket) - us as f64).abs();
            assert!(off <= 0.5 + us as f64 * 0.03, "{us} is shown as {}", middle_us(bucket));
        }
        assert_eq!(bucket_of(u64::MAX), N_BUCKETS - 1);
    }

    #[test]
    fn percentiles_and_sums() {
        let mut half = Tally::default();
        for ms in 1..=50 {
            half.record(Duration::from_millis(ms), Ok(()));
        }
        half.record(Duration::from_secs(9), Err("timeout".to_owned()));
        let mut whole = half.clone();
        whole.add(&half);
        assert_eq!((whole.n_good, whole.n_errors()), (100, 2));
        assert!((whole.percentile_ms(0.5) - 25.0).abs() < 1.0);
        assert!((whole.percentile_ms(1.0) - 50.0).abs() < 2.0);
        assert!(Tally::default().percentile_ms(0.5).abs() < f64::EPSILON);
    }
}
