//! Counts of calls, written by one worker without locks and read by the admin thread.
//!
//! Invariants:
//! - Each [`CallStats`] has one writer, so a plain load and store never loses a count and costs
//!   no lock prefix.
//! - A histogram's bounds are at least a factor of 1.5 apart, and no three of them lie within a
//!   factor of two: at most two comparisons find the bucket.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the latency buckets in microseconds: four to each decade, from below what a
/// call over loopback takes to the longest deadline.
pub(super) const BOUNDS_US: [u64; 24] = [
    100, 200, 300, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 30_000, 50_000, 100_000,
    200_000, 300_000, 500_000, 1_000_000, 2_000_000, 3_000_000, 5_000_000, 10_000_000, 20_000_000,
    30_000_000, 60_000_000,
];

/// One bucket per bound, and one for what is longer than the last.
pub(super) const N_BUCKETS: usize = BOUNDS_US.len() + 1;

/// For each bit length of a latency in microseconds: the first bucket that can hold it.
const FIRST_BUCKET: [u8; 65] = {
    let mut first = [0; 65];
    let mut n_bits = 1;
    while n_bits < first.len() {
        let shortest = 1_u64 << (n_bits - 1);
        let mut bucket = 0_u8;
        while (bucket as usize) < BOUNDS_US.len() && BOUNDS_US[bucket as usize] < shortest {
            bucket += 1;
        }
        first[n_bits] = bucket;
        n_bits += 1;
    }
    first
};

/// What one worker counts about the calls under one set of labels.
///
/// Only the worker that asked for it may call its methods; others lose counts, nothing else.
// Two cache lines, since the processor fetches them in pairs: no two workers write the same one.
#[repr(align(128))]
#[derive(Debug)]
pub struct CallStats {
    started: AtomicU64,
    /// Of the calls that went well, and of those that failed.
    latency: [Latency; 2],
    /// Finished calls: the good ones, then one number per error code.
    codes: Box<[AtomicU64]>,
    app: AppTimes,
}

/// How long the app took for those calls of which the provider's agent says it.
#[derive(Debug, Default)]
struct AppTimes {
    n_calls: AtomicU64,
    calls_us: AtomicU64,
    app_us: AtomicU64,
}

/// How long calls took. Those that failed have numbers of their own: most failures are fast, or
/// take exactly as long as a deadline, and would hide what the others took.
#[derive(Debug)]
struct Latency {
    sum_us: AtomicU64,
    buckets: [AtomicU64; N_BUCKETS],
}

impl Latency {
    fn new() -> Self {
        Self { sum_us: AtomicU64::new(0), buckets: [const { AtomicU64::new(0) }; N_BUCKETS] }
    }
}

impl CallStats {
    pub(super) fn new(n_codes: usize) -> Self {
        Self {
            started: AtomicU64::new(0),
            latency: [Latency::new(), Latency::new()],
            codes: (0..=n_codes).map(|_| AtomicU64::new(0)).collect(),
            app: AppTimes::default(),
        }
    }

    /// A call began. Each has to be [`finished`](Self::finished) once.
    #[inline]
    pub fn started(&self) {
        add(&self.started, 1);
    }

    /// A call ended: well (`None`) or with the error of this number in the table of names that
    /// the [`Hub`](super::Hub) was made with. A number beyond the table counts as its last.
    #[inline]
    pub fn finished(&self, latency: Duration, code: Option<u8>) {
        let index = code.map_or(0, |code| usize::from(code) + 1);
        debug_assert!(index < self.codes.len(), "error code {code:?} is not in the table");
        self.count(index);
        let (us, latencies) = (whole_us(latency), &self.latency[usize::from(code.is_some())]);
        add(&latencies.sum_us, us);
        add(&latencies.buckets[bucket(us)], 1);
    }

    /// A call was sent well that nobody wants an answer to. It has no latency: as one of no time
    /// it would hide what the answers took.
    #[inline]
    pub fn sent_one_way(&self) {
        self.count(0);
    }

    /// The provider's agent has said that its app took so long for a call that took `latency`.
    #[cold]
    pub fn app_took(&self, app: Duration, latency: Duration) {
        add(&self.app.n_calls, 1);
        add(&self.app.calls_us, whole_us(latency));
        // A provider's clock may say anything.
        add(&self.app.app_us, whole_us(app.min(latency)));
    }

    #[inline]
    fn count(&self, index: usize) {
        if let Some(count) = self.codes.get(index).or(self.codes.last()) {
            add(count, 1);
        }
    }
}

#[inline]
fn add(cell: &AtomicU64, n: u64) {
    // Sums of many years wrap around, as Prometheus expects of a counter.
    cell.store(cell.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Rounded to the nearest microsecond, so that a sum of many short latencies stays right.
#[inline]
fn whole_us(latency: Duration) -> u64 {
    let us = u64::from((latency.subsec_nanos() + 500) / 1_000);
    latency.as_secs().saturating_mul(1_000_000).saturating_add(us)
}

/// The bucket of a latency, without a loop.
#[inline]
fn bucket(us: u64) -> usize {
    let first = usize::from(FIRST_BUCKET[64 - us.leading_zeros() as usize]);
    let is_over = |index: usize| BOUNDS_US.get(index).is_some_and(|bound| *bound < us);
    first + usize::from(is_over(first)) + usize::from(is_over(first + 1))
}

/// The sum of some [`CallStats`], at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallTotals {
    /// Calls begun and not ended; only of writers that still exist.
    pub(super) in_flight: u64,
    /// Of the calls that went well, and of those that failed.
    pub(super) latency: [LatencyTotals; 2],
    /// As in [`CallStats`]; empty if nothing was added.
    pub(super) codes: Vec<u64>,
    app: AppTotals,
}

/// How long the app took for those calls of which the provider's agent says it, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AppTotals {
    /// How many calls these are.
    pub n_calls: u64,
    calls_us: u64,
    app_us: u64,
}

impl AppTotals {
    /// How long they took together, in milliseconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn calls_ms(&self) -> f64 {
        self.calls_us as f64 / 1e3
    }

    /// How long the app took for them, in milliseconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn app_ms(&self) -> f64 {
        self.app_us as f64 / 1e3
    }

    fn merge(&mut self, other: Self) {
        self.n_calls = self.n_calls.wrapping_add(other.n_calls);
        self.calls_us = self.calls_us.wrapping_add(other.calls_us);
        self.app_us = self.app_us.wrapping_add(other.app_us);
    }
}

/// How long the calls of some [`CallStats`] took.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LatencyTotals {
    pub(super) sum_us: u64,
    pub(super) buckets: [u64; N_BUCKETS],
}

impl LatencyTotals {
    /// How many calls these are. Taken from the buckets, as Prometheus demands that it equals the
    /// last one.
    pub(super) fn n_calls(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl CallTotals {
    /// Calls begun and not ended.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Calls that went well.
    pub fn n_ok(&self) -> u64 {
        self.codes.first().copied().unwrap_or_default()
    }

    /// Those of them that nobody wanted an answer to: they have no latency.
    pub fn n_one_way(&self) -> u64 {
        let [good, _] = &self.latency;
        self.n_ok().saturating_sub(good.n_calls())
    }

    /// How long the calls that were answered well took together, in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub fn ok_ms(&self) -> f64 {
        let [good, _] = &self.latency;
        good.sum_us as f64 / 1e3
    }

    /// Of those calls of which the provider's agent says how long its app took.
    pub fn app(&self) -> AppTotals {
        self.app
    }

    /// Calls that failed, by the name of their error: those that occurred. `names` are the errors'
    /// names, by number.
    pub fn failed<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = (String, u64)> + 'a {
        let counts = names.iter().zip(self.codes.iter().skip(1));
        counts.filter(|(_, count)| **count != 0).map(|(name, count)| ((*name).to_owned(), *count))
    }

    /// So many milliseconds at most took this part of the calls that went well, as exactly as the
    /// buckets tell; `None` if there was none. What is over the last bound is told as that bound.
    #[expect(clippy::cast_precision_loss, reason = "bounds and counts are far below 2^52")]
    pub fn quantile_ms(&self, part: f64) -> Option<f64> {
        let [good, _] = &self.latency;
        let wanted = good.n_calls() as f64 * part;
        let mut n_calls = 0;
        let bucket = good.buckets.iter().position(|count| {
            n_calls += count;
            n_calls != 0 && wanted <= n_calls as f64
        })?;
        let us = BOUNDS_US[bucket.min(BOUNDS_US.len() - 1)];
        Some(us as f64 / 1e3)
    }

    /// Adds what one writer has counted so far.
    pub fn add(&mut self, stats: &CallStats) {
        self.codes.resize(stats.codes.len(), 0);
        let mut n_finished = 0_u64;
        for (sum, count) in self.codes.iter_mut().zip(&stats.codes) {
            let count = count.load(Relaxed);
            *sum = sum.wrapping_add(count);
            n_finished = n_finished.wrapping_add(count);
        }
        for (totals, latency) in self.latency.iter_mut().zip(&stats.latency) {
            totals.sum_us = totals.sum_us.wrapping_add(latency.sum_us.load(Relaxed));
            for (sum, count) in totals.buckets.iter_mut().zip(&latency.buckets) {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
        }
        let AppTimes { n_calls, calls_us, app_us } = &stats.app;
        let load = |cell: &AtomicU64| cell.load(Relaxed);
        self.app.merge(AppTotals {
            n_calls: load(n_calls),
            calls_us: load(calls_us),
            app_us: load(app_us),
        });
        // The numbers may be of different moments, so the difference may be below zero.
        self.in_flight += stats.started.load(Relaxed).saturating_sub(n_finished);
    }

    /// Adds the counts of a writer that is gone. What it had in flight is gone, too.
    pub(super) fn retire(&mut self, stats: &CallStats) {
        let in_flight = self.in_flight;
        self.add(stats);
        self.in_flight = in_flight;
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.codes.resize(self.codes.len().max(other.codes.len()), 0);
        for (sum, count) in self.codes.iter_mut().zip(&other.codes) {
            *sum = sum.wrapping_add(*count);
        }
        for (totals, other) in self.latency.iter_mut().zip(&other.latency) {
            totals.sum_us = totals.sum_us.wrapping_add(other.sum_us);
            for (sum, count) in totals.buckets.iter_mut().zip(&other.buckets) {
                *sum = sum.wrapping_add(*count);
            }
        }
        self.app.merge(other.app);
        self.in_flight += other.in_flight;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_finds_the_bucket_that_a_search_finds() {
        let around = |us: u64| [us.saturating_sub(1), us, us.saturating_add(1)];
        let bounds = BOUNDS_US.into_iter().flat_map(around);
        let powers = (0..64).flat_map(|n| around(1 << n));
        for us in bounds.chain(powers).chain([0, u64::MAX]).chain(0..20_000) {
            let searched = BOUNDS_US.partition_point(|bound| *bound < us);
            assert_eq!(bucket(us), searched, "{us} us");
        }
    }

    #[test]
    fn durations_become_microseconds() {
        assert_eq!(whole_us(Duration::from_nanos(1_499)), 1);
        assert_eq!(whole_us(Duration::from_nanos(1_500)), 2);
        assert_eq!(whole_us(Duration::from_millis(2_050)), 2_050_000);
        assert_eq!(whole_us(Duration::MAX), u64::MAX);
    }

    #[test]
    fn quantiles_are_the_bounds_of_buckets() {
        let totals = |latencies_us: &[u64], is_ok: bool| {
            let (stats, mut totals) = (CallStats::new(1), CallTotals::default());
            for us in latencies_us {
                stats.started();
                stats.finished(Duration::from_micros(*us), (!is_ok).then_some(0));
            }
            totals.add(&stats);
            totals
        };
        let many: Vec<u64> = (0..98).map(|_| 150).chain([4_000, 90_000_000]).collect();
        let totals_of_many = totals(&many, true);
        assert_eq!(totals_of_many.quantile_ms(0.5), Some(0.2));
        assert_eq!(totals_of_many.quantile_ms(0.99), Some(5.0));
        assert_eq!(totals_of_many.quantile_ms(1.0), Some(60_000.0), "the last bound");
        assert_eq!(totals(&[150], true).quantile_ms(0.99), Some(0.2));
        assert_eq!(totals(&[150], false).quantile_ms(0.5), None, "failures do not count");
        let failed: Vec<_> = totals(&[150], false).failed(&["timeout"]).collect();
        assert_eq!(failed, [("timeout".to_owned(), 1)]);
    }

    #[test]
    fn what_nobody_wants_an_answer_to_has_no_latency() {
        let (stats, mut totals) = (CallStats::new(1), CallTotals::default());
        for _ in 0..5 {
            stats.started();
            stats.sent_one_way();
        }
        totals.add(&stats);
        assert_eq!((totals.n_ok(), totals.n_one_way(), totals.in_flight()), (5, 5, 0));
        assert_eq!((totals.quantile_ms(0.5), totals.ok_ms()), (None, 0.0));
        stats.started();
        stats.finished(Duration::from_millis(20), None);
        let mut totals = CallTotals::default();
        totals.add(&stats);
        assert_eq!((totals.n_ok(), totals.n_one_way()), (6, 5));
        assert_eq!((totals.quantile_ms(0.5), totals.ok_ms()), (Some(20.0), 20.0));
    }

    #[test]
    fn what_a_dropped_writer_had_in_flight_is_not_in_flight_for_ever() {
        let stats = CallStats::new(1);
        stats.started();
        stats.started();
        stats.finished(Duration::from_millis(50), Some(0));
        let mut totals = CallTotals::default();
        totals.add(&stats);
        assert_eq!((totals.in_flight, totals.codes.as_slice()), (1, &[0, 1][..]));
        let mut totals = CallTotals::default();
        totals.retire(&stats);
        assert_eq!((totals.in_flight, totals.codes.as_slice()), (0, &[0, 1][..]));
    }
}
