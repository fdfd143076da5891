//! What the load has seen: calls, errors by code, latencies.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::latencies::Histogram;

/// What came of the calls of some time.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) n_good: u64,
    /// How often by code.
    pub(super) errors: BTreeMap<String, u64>,
    latencies: Histogram,
}

impl Tally {
    /// Counts a call that took `latency` and failed with a code, or did not.
    pub(super) fn record(&mut self, latency: Duration, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => {
                self.n_good += 1;
                self.latencies.add(latency);
            }
            Err(code) => *self.errors.entry(code).or_default() += 1,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.n_good += other.n_good;
        for (code, n) in &other.errors {
            *self.errors.entry(code.clone()).or_default() += n;
        }
        self.latencies.merge(&other.latencies);
    }

    pub(super) fn n_errors(&self) -> u64 {
        self.errors.values().sum()
    }

    /// The latency that the given share of good calls did not exceed; 0 if there were none.
    pub(super) fn percentile_ms(&self, share: f64) -> f64 {
        self.latencies.percentile(share).as_secs_f64() * 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
