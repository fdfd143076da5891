//! How long calls took: buckets that are narrow at every scale. A [`Histogram`] has one owner, any
//! thread may fill [`SharedHistogram`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets per power of two: a latency is kept to about 1.6%.
const N_STEPS: u64 = 64;
const STEP_BITS: u32 = N_STEPS.ilog2();
/// The last bucket begins beyond a quarter of an hour, in nanoseconds.
const N_BUCKETS: usize = 36 * (1 << STEP_BITS);

/// Durations, by bucket.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Box<[u64]>,
    n: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; N_BUCKETS].into(), n: 0 }
    }
}

impl Histogram {
    /// Adds one.
    pub(crate) fn add(&mut self, latency: Duration) {
        if let Some(count) = self.counts.get_mut(bucket_of(nanoseconds(latency))) {
            *count += 1;
            self.n += 1;
        }
    }

    /// Adds those of another one.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.n += other.n;
    }

    /// The latency that the given share of calls did not exceed: the middle of its bucket. Zero if
    /// there were none.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank")]
        let rank = ((self.n as f64 * share).ceil() as u64).max(1);
        let mut n_seen = 0;
        for (bucket, count) in (0_u64..).zip(&self.counts) {
            n_seen += count;
            if rank <= n_seen {
                let shift = (bucket / N_STEPS).saturating_sub(1);
                let low = (bucket - shift * N_STEPS) << shift;
                return Duration::from_nanos(low + (1 << shift) / 2);
            }
        }
        Duration::ZERO
    }
}

/// The same for several threads, and the mean.
pub(crate) struct SharedHistogram {
    buckets: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
}

impl Default for SharedHistogram {
    fn default() -> Self {
        let buckets = (0..N_BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Self { buckets, sum_ns: AtomicU64::new(0) }
    }
}

impl SharedHistogram {
    /// Adds one.
    #[inline]
    pub(crate) fn add(&self, latency: Duration) {
        let ns = nanoseconds(latency);
        if let Some(bucket) = self.buckets.get(bucket_of(ns)) {
            bucket.fetch_add(1, Ordering::Relaxed);
            self.sum_ns.fetch_add(ns, Ordering::Relaxed);
        }
    }

    /// What was added so far.
    pub(crate) fn summary<const N: usize>(&self, shares: [f64; N]) -> Summary<N> {
        let counts: Box<[u64]> =
            self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let n = counts.iter().sum();
        let histogram = Histogram { counts, n };
        Summary {
            n,
            mean: Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed) / u64::max(n, 1)),
            percentiles: shares.map(|share| histogram.percentile(share)),
        }
    }
}

/// How many durations there were, and how long they were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Summary<const N: usize> {
    pub(crate) n: u64,
    pub(crate) mean: Duration,
    /// What the given shares of them did not exceed.
    pub(crate) percentiles: [Duration; N],
}

fn nanoseconds(latency: Duration) -> u64 {
    u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds below the first power of two with steps have a bucket each.
fn bucket_of(ns: u64) -> usize {
    let shift = ns.checked_ilog2().unwrap_or(0).saturating_sub(STEP_BITS);
    let bucket = u64::from(shift) * N_STEPS + (ns >> shift);
    usize::try_from(bucket).unwrap_or(N_BUCKETS).min(N_BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_are_narrow() {
        let mut last = 0;
        for ns in (0..100_000).chain((100_000..3_000_000_000_u64).step_by(99_991)) {
            let bucket = bucket_of(ns);
            assert!(last <= bucket, "{ns}");
            last = bucket;
            let mut one = Histogram::default();
            one.add(Duration::from_nanos(ns));
            let middle = one.percentile(0.5).as_nanos() as f64;
            let off = (middle - ns as f64).abs();
            assert!(off <= 0.5 + ns as f64 / 64.0, "{ns} is shown as {middle}");
        }
        assert_eq!(bucket_of(u64::MAX), N_BUCKETS - 1);
    }

    #[test]
    fn a_summary_has_the_mean_and_the_percentiles() {
        let latencies = SharedHistogram::default();
        (1..=100).for_each(|ms| latencies.add(Duration::from_millis(ms)));
        let summary = latencies.summary([0.5, 0.99]);
        assert_eq!((summary.n, summary.mean), (100, Duration::from_micros(50_500)));
        for (percentile, ms) in summary.percentiles.into_iter().zip([50.0, 99.0]) {
            assert!((percentile.as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.02, "{percentile:?}");
        }
    }
}
