//! The contest without its sleep: what a call costs, measured beside a server that only answers.

use std::time::Duration;

use serde_json::json;

use crate::error::BenchError;
use crate::estate::{CONSUMER_AGENT, Providers, bare_epoll, one_agent, two_agents};
use crate::load::Style;
use crate::measure::{AGENTS, Case, Row, measure, rounded};
use crate::plan::Plan;
use crate::report::{ReportedRow, report};
use crate::target::Target;

const NAME: &str = "saturation";
const N_CONNECTIONS: u32 = 512;

/// What the best agents of the contest reach with real Java providers on the machine that the
/// targets were set on.
const CONTEST_CALLS_PER_S: f64 = 36_500.0;

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let bare = bare_epoll("bare epoll, no call", Style::Form)?;
    let embedded = two_agents(plan, "dubmesh, embedded providers", Providers::Embedded)?;
    let direct = one_agent(plan, "dubmesh, JSON to Dubbo direct")?;
    let java = Providers::Java(Duration::ZERO);
    let java = two_agents(plan, "dubmesh, java providers 0 ms", java)?;
    let cases = [
        (&bare, N_CONNECTIONS),
        (&embedded, N_CONNECTIONS),
        (&direct, N_CONNECTIONS),
        (&java, N_CONNECTIONS),
        (&bare, 1),
        (&embedded, 1),
        (&direct, 1),
    ];
    let cases = cases.map(|(subject, n_connections)| Case { subject, n_connections });
    let rows = measure(plan, NAME, &cases)?;
    let Ok([bare, embedded, direct, java, bare_1, embedded_1, direct_1]) =
        <[Row<'_>; 7]>::try_from(rows)
    else {
        unreachable!("one row per case");
    };
    let rate = |row: &Row<'_>| row.median(|round| round.outcome.calls_per_s);
    let share = rate(&embedded) / rate(&bare);
    let added_us = Added::between(&bare_1, &embedded_1);
    let embedded_targets = embedded_targets(&embedded, share);
    let direct_targets = direct_targets(&direct);
    let java_targets = java_targets(&java, rate(&java));
    let entries = [
        ReportedRow::new(bare, Vec::new()),
        ReportedRow {
            extra: json!({ "share_of_bare_epoll": rounded(share) }),
            ..ReportedRow::new(embedded, embedded_targets)
        },
        ReportedRow::new(direct, direct_targets),
        ReportedRow::new(java, java_targets),
        ReportedRow::new(bare_1, Vec::new()),
        ReportedRow {
            extra: json!({ "added_p50_us": added_us.p50, "added_p99_us": added_us.p99 }),
            ..ReportedRow::new(embedded_1, added_us.targets())
        },
        ReportedRow::new(direct_1, Vec::new()),
    ];
    report(plan, NAME, &entries)
}

fn embedded_targets(row: &Row<'_>, share: f64) -> Vec<Target> {
    let consumer_us = row.group_cpu_us(CONSUMER_AGENT);
    vec![
        Target::at_least("calls against bare epoll", share * 100.0, 65.0, "%"),
        Target::at_most("CPU of the agents", row.group_cpu_us(AGENTS), 10.0, " us"),
        Target::at_most("CPU of the consumer's agent", consumer_us, 10.0, " us"),
    ]
}

fn direct_targets(row: &Row<'_>) -> Vec<Target> {
    let gateway_us = row.group_cpu_us(CONSUMER_AGENT);
    vec![Target::at_most("CPU of the gateway", gateway_us, 12.0, " us")]
}

fn java_targets(row: &Row<'_>, calls_per_s: f64) -> Vec<Target> {
    vec![
        Target::at_least("calls", calls_per_s, 1.3 * CONTEST_CALLS_PER_S, "/s"),
        Target::at_most("CPU of the agents", row.group_cpu_us(AGENTS), 10.0, " us"),
    ]
}

/// What both agents and the provider add to the latency of one call, in microseconds. The
/// provider's own hop is in it, so that the agents alone add less.
struct Added {
    p50: f64,
    p99: f64,
}

impl Added {
    fn between(floor: &Row<'_>, row: &Row<'_>) -> Self {
        let median = |row: &Row<'_>| {
            let p50 = row.median(|round| round.outcome.p50_ms);
            (p50, row.median(|round| round.outcome.p99_ms))
        };
        let ((floor_p50, floor_p99), (p50, p99)) = (median(floor), median(row));
        Self { p50: rounded((p50 - floor_p50) * 1e3), p99: rounded((p99 - floor_p99) * 1e3) }
    }

    fn targets(&self) -> Vec<Target> {
        vec![
            Target::at_most("p50 beyond bare epoll", self.p50, 120.0, " us"),
            Target::at_most("p99 beyond bare epoll", self.p99, 300.0, " us"),
        ]
    }
}
