//! The contest of 2018: form, consumer's agent, provider's agent, Dubbo 2.7 with fastjson and a
//! sleep of 50 ms; etcd; three providers of 200 threads.

use std::time::Duration;

use crate::error::BenchError;
use crate::estate::{Providers, two_agents};
use crate::measure::{AGENTS, Case, Row, measure};
use crate::plan::Plan;
use crate::report::{ReportedRow, report};
use crate::target::Target;

const NAME: &str = "contest";
const SLEEP: Duration = Duration::from_millis(50);

/// Connections, least calls per second, longest 99th percentile in ms. 512 is the first, so that
/// the warm-up is made with it.
const STEPS: [(u32, f64, f64); 3] =
    [(512, 10_100.0, 54.0), (256, 5_070.0, 52.0), (128, 2_535.0, 52.0)];
/// CPU of all four agents together at 512 connections.
const MAX_AGENTS_US: f64 = 22.0;

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let subject = two_agents(plan, "dubmesh, java providers 50 ms", Providers::Java(SLEEP))?;
    let cases = STEPS.map(|(n_connections, ..)| Case { subject: &subject, n_connections });
    let rows = measure(plan, NAME, &cases)?;
    let entries = rows.into_iter().zip(STEPS).rev();
    let entries = entries.map(|(row, (n_connections, calls_per_s, p99_ms))| {
        let mut targets = targets(&row, calls_per_s, p99_ms);
        if n_connections == 512 {
            let cpu_us = row.group_cpu_us(AGENTS);
            targets.push(Target::at_most("CPU of the agents", cpu_us, MAX_AGENTS_US, " us"));
        }
        ReportedRow::new(row, targets)
    });
    report(plan, NAME, &entries.collect::<Vec<_>>())
}

fn targets(row: &Row<'_>, calls_per_s: f64, p99_ms: f64) -> Vec<Target> {
    let rate = row.median(|round| round.outcome.calls_per_s);
    let p99 = row.median(|round| round.outcome.p99_ms);
    // Exact: a count of errors is small.
    let errors = row.median(|_| f64::from(u32::try_from(row.errors()).unwrap_or(u32::MAX)));
    vec![
        Target::at_least("calls", rate, calls_per_s, "/s"),
        Target::at_most("p99", p99, p99_ms, " ms"),
        Target::at_most("errors", errors, 0.0, ""),
    ]
}
