//! Rows as a table for people, and as JSON for everything else.

use std::fs;

use serde_json::{Value, json};

use crate::error::BenchError;
use crate::measure::{AGENTS, Row};
use crate::plan::Plan;
use crate::target::Target;

/// So many cores busy with other programs spoil a measurement on a small machine.
pub const QUIET: f64 = 0.1;

/// A row with its targets and what else it says.
pub(crate) struct ReportedRow<'a> {
    pub(crate) row: Row<'a>,
    pub(crate) targets: Vec<Target>,
    /// Fields beyond the common ones.
    pub(crate) extra: Value,
}

impl<'a> ReportedRow<'a> {
    pub(crate) fn new(row: Row<'a>, targets: Vec<Target>) -> Self {
        Self { row, targets, extra: json!({}) }
    }
}

/// Prints the table and writes `results/NAME.json`.
pub(crate) fn report(
    plan: &Plan,
    scenario: &str,
    entries: &[ReportedRow<'_>],
) -> Result<(), BenchError> {
    print_table(plan, scenario, entries);
    let rows: Vec<Value> = entries.iter().map(|entry| json_row(plan, entry)).collect();
    let path = plan.results.join(format!("{scenario}.json"));
    let text = format!("{:#}\n", Value::from(rows));
    fs::write(&path, text).map_err(BenchError::file(&path))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}

fn print_table(plan: &Plan, scenario: &str, entries: &[ReportedRow<'_>]) {
    let (seconds, n_rounds) = (plan.seconds.as_secs(), plan.n_rounds);
    println!("\n{scenario}: closed loop (wrk), {n_rounds} x {seconds} s, medians");
    println!(
        "{:<34} {:>5} {:>9} {:>8} {:>8} {:>8} {:>6}  CPU us per call",
        "program", "conns", "calls/s", "p50 ms", "p99 ms", "p99.9 ms", "errors"
    );
    for ReportedRow { row, .. } in entries {
        println!(
            "{:<34} {:>5} {:>9.0} {:>8.3} {:>8.3} {:>8.3} {:>6}  {}",
            row.case.subject.program,
            row.case.n_connections,
            row.median(|round| round.outcome.calls_per_s),
            row.median(|round| round.outcome.p50_ms),
            row.median(|round| round.outcome.p99_ms),
            row.median(|round| round.outcome.p999_ms),
            row.errors(),
            cpu_column(row)
        );
    }
    println!();
    for ReportedRow { row, targets, .. } in entries {
        for target in targets {
            let (program, n_connections) = (row.case.subject.program, row.case.n_connections);
            println!("{program}, {n_connections} connections: {}", target.line());
        }
    }
    let noise = entries.iter().map(|entry| entry.row.median(|round| round.foreign_cores));
    let noise = noise.fold(0.0, f64::max);
    if QUIET < noise {
        println!(
            "\nNOT QUIET: other programs kept up to {noise:.2} cores busy. Do not quote this."
        );
    }
}

fn cpu_column(row: &Row<'_>) -> String {
    let groups = row.rounds.first().map(|round| round.group_cpu_us.keys());
    let mut groups: Vec<&String> = groups.into_iter().flatten().collect();
    groups.sort_by_key(|group| *group != AGENTS);
    let columns = groups.iter().map(|group| format!("{group} {:.1}", row.group_cpu_us(group)));
    columns.collect::<Vec<_>>().join(", ")
}

fn json_row(plan: &Plan, entry: &ReportedRow<'_>) -> Value {
    let mut fields = entry.row.json(plan);
    let targets: Vec<Value> = entry.targets.iter().map(Target::json).collect();
    fields.insert("targets".to_owned(), targets.into());
    if let Value::Object(extra) = &entry.extra {
        fields.extend(extra.clone());
    }
    fields.into()
}
