//! Memory of an agent, idle and under load, and how soon after its exec it is ready.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use crate::error::BenchError;
use crate::estate::{Providers, file_registry_agent, two_agents, write_services};
use crate::measure::{Case, Row, measure, median, rounded};
use crate::plan::Plan;
use crate::report::{ReportedRow, report};
use crate::target::Target;
use crate::usage::rss_mb;

const NAME: &str = "footprint";
const N_STARTS: usize = 11;
/// What a start leaves to be done later is done by then.
const SETTLE_TIME: Duration = Duration::from_secs(1);

const MAX_IDLE_MB: f64 = 12.0;
const MAX_LOADED_MB: f64 = 30.0;
const MAX_START_MS: f64 = 50.0;

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let (start_ms, idle_mb) = starts(plan)?;
    let subject = two_agents(plan, "dubmesh, embedded providers", Providers::Embedded)?;
    let rows = measure(plan, NAME, &[Case { subject: &subject, n_connections: 512 }])?;
    let entries = rows.into_iter().map(|row| {
        let mut targets = vec![
            Target::at_most("start until ready", start_ms, MAX_START_MS, " ms"),
            Target::at_most("memory when idle", idle_mb, MAX_IDLE_MB, " MB"),
        ];
        targets.extend(loaded_mb(&row).into_iter().map(|(name, mb)| {
            Target::at_most(&format!("memory of {name}"), mb, MAX_LOADED_MB, " MB")
        }));
        let extra = json!({ "start_ms": rounded(start_ms), "rss_idle_mb": rounded(idle_mb) });
        ReportedRow { extra, ..ReportedRow::new(row, targets) }
    });
    report(plan, NAME, &entries.collect::<Vec<_>>())
}

/// Median time from exec until ready, and median memory a second later, of an agent that takes
/// HTTP calls and finds its providers in a file.
fn starts(plan: &Plan) -> Result<(f64, f64), BenchError> {
    let dir = TempDir::with_prefix("bench-").map_err(BenchError::io("a temporary folder"))?;
    let services = dir.path().join("services.toml");
    // Nobody listens on port 1; an idle agent does not connect.
    write_services(&services, "\"dubbo://127.0.0.1:1\"")?;
    let n_starts = if plan.is_quick { 3 } else { N_STARTS };
    let mut starts_ms = Vec::new();
    let mut idle_mb = Vec::new();
    for _ in 0..n_starts {
        let agent = file_registry_agent(plan, &services)?;
        starts_ms.push(agent.start_time.as_secs_f64() * 1e3);
        thread::sleep(SETTLE_TIME);
        idle_mb.push(rss_mb(agent.child.pid()));
    }
    Ok((median(starts_ms), median(idle_mb)))
}

/// Largest memory of each agent under load.
fn loaded_mb(row: &Row<'_>) -> BTreeMap<String, f64> {
    let peaks = row.rounds.iter().flat_map(|round| &round.rss_mb);
    peaks.filter(|(name, _)| name.contains("agent")).fold(
        BTreeMap::new(),
        |mut largest, (name, mb)| {
            let entry: &mut f64 = largest.entry(name.clone()).or_default();
            *entry = entry.max(*mb);
            largest
        },
    )
}
