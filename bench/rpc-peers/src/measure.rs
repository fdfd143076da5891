//! What all programs measure alike: calls that end within a window, their latencies, and CPU time.
//!
//! A call costs one look at the clock and one count: a caller is a closed loop, so the end of
//! one call is the beginning of the next. Latencies are counted in buckets that are at most 1/64
//! of their value wide.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde_json::{Value, json};

use crate::options::ClientOptions;

/// Buckets per power of two.
const N_SUB_BUCKETS: u64 = 1 << SUB_BITS;
const SUB_BITS: u32 = 6;
/// The last one holds all that takes over 18 minutes.
const N_BUCKETS: usize = 2240;
/// Enough to see what goes wrong, whatever the number of failures.
const N_ERRORS_SHOWN: u64 = 3;

/// When calls count: after the warm-up, until the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    begin: Instant,
    end: Instant,
}

impl Window {
    /// The warm-up begins now.
    pub(crate) fn start(options: &ClientOptions) -> Self {
        let begin = Instant::now() + options.warmup;
        Self { begin, end: begin + options.duration }
    }

    /// Reads this process's CPU time at both ends of the window.
    fn sample_cpu(self) -> JoinHandle<Duration> {
        thread::spawn(move || {
            thread::sleep(self.begin.saturating_duration_since(Instant::now()));
            let before = cpu();
            thread::sleep(self.end.saturating_duration_since(Instant::now()));
            cpu().saturating_sub(before)
        })
    }
}

/// User and system time of this process.
fn cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("getrusage of oneself never fails");
    duration(usage.user_time()) + duration(usage.system_time())
}

fn duration(time: TimeVal) -> Duration {
    let micros = time.tv_sec() * 1_000_000 + time.tv_usec();
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

/// Counts what all callers together see. Shared by their threads.
#[derive(Debug)]
pub(crate) struct Tally {
    window: Window,
    buckets: Box<[AtomicU64]>,
    errors: AtomicU64,
    longest_ns: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    cpu: JoinHandle<Duration>,
}

impl Tally {
    /// Starts the warm-up.
    pub(crate) fn start(options: &ClientOptions) -> Self {
        let window = Window::start(options);
        Self {
            window,
            buckets: (0..N_BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            errors: AtomicU64::new(0),
            longest_ns: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            cpu: window.sample_cpu(),
        }
    }

    /// Counts a call that was answered rightly. False when it is time to stop.
    pub(crate) fn record(&self, started: Instant, ended: Instant) -> bool {
        if self.is_within(ended) {
            let ns = u64::try_from((ended - started).as_nanos()).unwrap_or(u64::MAX);
            self.buckets[bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
            if self.longest_ns.load(Ordering::Relaxed) < ns {
                self.longest_ns.fetch_max(ns, Ordering::Relaxed);
            }
        }
        self.goes_on(ended)
    }

    /// Whether calls are still to be made.
    pub(crate) fn goes_on(&self, now: Instant) -> bool {
        now < self.window.end
    }

    /// Counts a call that failed or was answered wrongly, at whatever time.
    pub(crate) fn record_error(&self, error: impl Display) {
        if self.errors.fetch_add(1, Ordering::Relaxed) < N_ERRORS_SHOWN {
            eprintln!("a call failed: {error}");
        }
    }

    /// Counts calls of `read` and `write`, where the program makes them itself.
    pub(crate) fn record_io(&self, now: Instant, n_reads: u64, n_writes: u64) {
        if self.is_within(now) {
            self.reads.fetch_add(n_reads, Ordering::Relaxed);
            self.writes.fetch_add(n_writes, Ordering::Relaxed);
        }
    }

    fn is_within(&self, now: Instant) -> bool {
        self.window.begin <= now && now < self.window.end
    }

    /// The result, once all callers have stopped.
    pub(crate) fn finish(self, program: &str, options: &ClientOptions) -> Value {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts: Vec<u64> = self.buckets.iter().map(load).collect();
        let n_calls: u64 = counts.iter().sum();
        let seconds = (self.window.end - self.window.begin).as_secs_f64();
        let cpu = self.cpu.join().unwrap_or_default();
        let mut result = json!({
            "program": program,
            "callers": options.concurrency,
            "connections": options.connections,
            "threads": options.threads,
            "request_bytes": options.request_bytes,
            "response_bytes": options.response_bytes,
            "calls": n_calls,
            "seconds": seconds,
            "calls_per_s": ratio(n_calls, seconds),
            "p50_ms": percentile_ms(&counts, n_calls, 500),
            "p99_ms": percentile_ms(&counts, n_calls, 990),
            "p999_ms": percentile_ms(&counts, n_calls, 999),
            "max_ms": ratio(load(&self.longest_ns), 1e6),
            "errors": load(&self.errors),
            "cpu_us_per_call": cpu.as_secs_f64() * 1e6 / ratio(n_calls.max(1), 1.0),
        });
        for (name, counter) in [("reads", &self.reads), ("writes", &self.writes)] {
            if load(counter) != 0 {
                result[name] = load(counter).into();
            }
        }
        result
    }
}

#[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^53")]
fn ratio(count: u64, divisor: f64) -> f64 {
    count as f64 / divisor
}

/// Values below 64 have a bucket each; from there on 64 buckets share each power of two.
fn bucket_of(ns: u64) -> usize {
    let shift = (u64::BITS - SUB_BITS - 1).saturating_sub(ns.leading_zeros());
    let index = u64::from(shift) * N_SUB_BUCKETS + (ns >> shift);
    usize::try_from(index).map_or(N_BUCKETS - 1, |index| index.min(N_BUCKETS - 1))
}

/// The middle of a bucket.
fn value_of(bucket: usize) -> f64 {
    let bucket = u64::try_from(bucket).unwrap_or(u64::MAX);
    let shift = (bucket / N_SUB_BUCKETS).saturating_sub(1);
    let low = (bucket - shift * N_SUB_BUCKETS) << shift;
    ratio(low, 1.0) + ratio((1 << shift) - 1, 2.0)
}

/// The latency that `per_mille` of the calls do not exceed.
fn percentile_ms(counts: &[u64], n_calls: u64, per_mille: u64) -> f64 {
    let wanted = (n_calls * per_mille).div_ceil(1000).max(1);
    let mut n_seen = 0;
    let bucket = counts.iter().position(|count| {
        n_seen += count;
        wanted <= n_seen
    });
    bucket.map_or(0.0, value_of) / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut last = 0;
        for ns in (0..5000).chain((5000..1_000_000_000).step_by(99_991)) {
            let bucket = bucket_of(ns);
            assert!(last <= bucket, "{ns}");
            last = bucket;
            let error = (value_of(bucket) - ratio(ns, 1.0)).abs();
            assert!(error <= ratio(ns, 64.0), "{ns} is counted as {}", value_of(bucket));
        }
        assert_eq!(bucket_of(u64::MAX), N_BUCKETS - 1);
    }

    #[test]
    fn percentiles() {
        let mut counts = vec![0; N_BUCKETS];
        counts[10] = 990;
        counts[20] = 9;
        counts[30] = 1;
        assert_eq!(percentile_ms(&counts, 1000, 500), 10e-6);
        assert_eq!(percentile_ms(&counts, 1000, 990), 10e-6);
        assert_eq!(percentile_ms(&counts, 1000, 999), 20e-6);
        assert_eq!(percentile_ms(&[0; 4], 0, 500), 0.0);
    }
}
