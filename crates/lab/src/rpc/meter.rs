//! What is measured: calls that end within a window, how long they took, and what both sides used
//! meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use link::{Traffic, TrafficTotals};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wire::ProcessUsage;

use super::plan::RpcPlan;
use crate::latencies::SharedHistogram;

/// Counts what all callers see.
pub(super) struct Meter {
    plan: RpcPlan,
    pub(super) begin: Instant,
    pub(super) end: Instant,
    latencies: SharedHistogram,
    n_errors: AtomicU64,
}

impl Meter {
    /// The warm-up begins now.
    pub(super) fn new(plan: RpcPlan) -> Self {
        let begin = Instant::now() + plan.warmup;
        let (end, latencies) = (begin + plan.duration, SharedHistogram::default());
        Self { plan, begin, end, latencies, n_errors: AtomicU64::new(0) }
    }

    /// Counts a call; whether there is to be another one.
    #[inline]
    pub(super) fn record(&self, start: Instant, end: Instant, is_good: bool) -> bool {
        if self.begin <= end && end < self.end {
            if is_good {
                self.latencies.add(end - start);
            } else {
                self.n_errors.fetch_add(1, Ordering::Relaxed);
            }
        }
        end < self.end
    }

    /// The result.
    pub(super) fn finish(&self, client: Usage, server: Usage, n_connections: usize) -> Measured {
        let summary = self.latencies.summary([0.5, 0.99, 0.999]);
        let (n_calls, [p50, p99, p999]) = (summary.n, summary.percentiles);
        let seconds = (self.end - self.begin).as_secs_f64();
        let n_errors = self.n_errors.load(Ordering::Relaxed);
        Measured {
            plan: self.plan,
            n_calls,
            n_errors,
            seconds,
            p50,
            p99,
            p999,
            client,
            server,
            n_connections,
        }
    }
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    plan: RpcPlan,
    n_calls: u64,
    n_errors: u64,
    seconds: f64,
    p50: Duration,
    p99: Duration,
    p999: Duration,
    client: Usage,
    server: Usage,
    n_connections: usize,
}

impl Measured {
    fn calls_per_s(&self) -> f64 {
        self.n_calls as f64 / self.seconds
    }

    fn cpu_us_per_call(&self, usage: Usage) -> f64 {
        usage.cpu_us as f64 / self.n_calls.max(1) as f64
    }

    /// Reads that gave something and writes, by the library's own count.
    fn socket_calls_per_call(&self, usage: Usage) -> f64 {
        (usage.n_writes + usage.n_reads) as f64 / self.n_calls.max(1) as f64
    }

    /// The row as benchmarks keep it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let plan = &self.plan;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        json!({
            "scenario": "rpc",
            "program": if plan.blocking { "link-blocking" } else { "link" },
            "connections": self.n_connections,
            "callers": plan.concurrency,
            "codec": plan.codec.name(),
            "threads": plan.threads,
            "request_bytes": plan.request_bytes,
            "response_bytes": plan.response_bytes,
            "seconds": self.seconds,
            "calls": self.n_calls,
            "calls_per_s": self.calls_per_s(),
            "p50_ms": ms(self.p50),
            "p99_ms": ms(self.p99),
            "p999_ms": ms(self.p999),
            "errors": self.n_errors,
            "cpu_us_per_call": {
                "client": self.cpu_us_per_call(self.client),
                "server": self.cpu_us_per_call(self.server),
            },
            "socket_calls_per_call": {
                "client": self.socket_calls_per_call(self.client),
                "server": self.socket_calls_per_call(self.server),
            },
            "rss_mb": { "client": self.client.rss_mb, "server": self.server.rss_mb },
        })
    }

    /// The row for people, on several lines.
    pub fn to_text(&self) -> String {
        let plan = &self.plan;
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let Self { n_connections, seconds, n_errors, client, server, .. } = self;
        let mut lines = vec![format!(
            "{} callers on {n_connections} connection(s), {}, {} bytes out, {} bytes back, \
             {seconds:.1} s, closed loop",
            plan.concurrency,
            plan.codec.name(),
            plan.request_bytes,
            plan.response_bytes,
        )];
        lines.push(format!("  calls      {:>12.0} /s   {n_errors} errors", self.calls_per_s()));
        lines.push(format!(
            "  latency    {:>12.1} us p50, {:.1} us p99, {:.1} us p99.9",
            us(self.p50),
            us(self.p99),
            us(self.p999)
        ));
        lines.push(format!(
            "  CPU        {:>12.2} us a call in the client, {:.2} us in the server",
            self.cpu_us_per_call(*client),
            self.cpu_us_per_call(*server)
        ));
        lines.push(format!(
            "  sockets    {:>12.3} reads and writes a call in the client, {:.3} in the server",
            self.socket_calls_per_call(*client),
            self.socket_calls_per_call(*server)
        ));
        lines.push(format!(
            "  memory     {:>12.1} MB in the client, {:.1} MB in the server",
            client.rss_mb, server.rss_mb
        ));
        lines.join("\n") + "\n"
    }
}

/// What a process has used.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct Usage {
    /// CPU time, of user and system together.
    pub(super) cpu_us: u64,
    /// Memory in RAM, in MB (10^6 bytes).
    pub(super) rss_mb: f64,
    /// Writes to sockets.
    pub(super) n_writes: u64,
    /// Reads from sockets that gave something.
    pub(super) n_reads: u64,
}

impl Usage {
    /// Of this process. All zero where the operating system does not tell it as Linux does.
    pub(super) fn now(traffic: &Traffic) -> Self {
        let usage = ProcessUsage::own();
        let TrafficTotals { n_writes, n_reads, .. } = traffic.totals();
        Self {
            cpu_us: u64::try_from(usage.cpu.unwrap_or_default().as_micros()).unwrap_or(u64::MAX),
            rss_mb: usage.resident_mb(),
            n_writes,
            n_reads,
        }
    }

    /// What was used since `before`, and the memory now.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            cpu_us: self.cpu_us.saturating_sub(before.cpu_us),
            rss_mb: self.rss_mb,
            n_writes: self.n_writes.saturating_sub(before.n_writes),
            n_reads: self.n_reads.saturating_sub(before.n_reads),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory() {
        assert!(Usage::now(&Traffic::default()).rss_mb > 0.1);
    }
}
