//! Verdicts as a table for people, and as JSON for everything else.

use std::fs;

use bench::target::Target;
use bench::{BenchError, QUIET, machine, rounded};
use serde_json::{Value, json};

use crate::error::AttackError;
use crate::plan::Plan;
use crate::runner::{Calls, Row};

/// The name of these results, as the benchmarks have theirs.
const SCENARIO: &str = "attack";

/// Prints the table, and writes the rows if the plan says where.
pub(crate) fn report(plan: &Plan, rows: &[Row]) -> Result<(), AttackError> {
    let text = table(plan, rows);
    print!("{text}");
    let Some(path) = &plan.json else { return Ok(()) };
    let origin = machine::origin();
    let values: Vec<Value> = rows.iter().map(|row| json_row(plan, row, &origin)).collect();
    let json = format!("{:#}\n", Value::from(values));
    fs::write(path, json).map_err(BenchError::file(path))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}

fn table(plan: &Plan, rows: &[Row]) -> String {
    let seconds = plan.time.as_secs();
    let mut text = format!(
        "\n{SCENARIO}: {seconds} s each, from {}, beside well-behaved callers\n",
        plan.origin
    );
    text += &format!(
        "{:<20} {:>8} {:>8} {:>6} {:>10}  {:<8} {:>9} {:>9} {:>7} {:>9} {:>13}  verdict\n",
        "attack",
        "peak MB",
        "after MB",
        "cores",
        "log MB/min",
        "caller",
        "p99 ms",
        "before ms",
        "x",
        "floor ms",
        "failed"
    );
    for row in rows {
        let seen = &row.seen;
        for (nth, calls) in seen.calls.iter().enumerate() {
            if nth == 0 {
                text += &format!(
                    "{:<20} {:>8.1} {:>8.1} {:>6.2} {:>10.3}",
                    row.attack.name,
                    seen.rss_peak_mb,
                    seen.rss_after_mb,
                    seen.cores,
                    seen.log_mb_per_minute()
                );
            } else {
                text += &format!("{:<56}", "");
            }
            text += &caller_columns(calls, seen.floor.p99_ms);
            text += match (nth, row.is_good()) {
                (0, true) => "  good\n",
                (0, false) => "  BROKEN\n",
                _ => "\n",
            };
        }
    }
    for row in rows.iter().filter(|row| !row.is_good()) {
        text += &format!("\n{}: {}\n", row.attack.name, row.attack.about);
        text += &format!("    done: {}\n", Value::Object(row.seen.tally.clone()));
        for target in row.targets.iter().filter(|target| !target.is_met()) {
            text += &format!("    {}\n", target.line());
        }
        for problem in row.seen.calls.iter().flat_map(|calls| &calls.problems) {
            text += &format!("    a call failed: {problem}\n");
        }
        text += &format!("    again: make attack ATTACK_ARGS=\"--only {}\"\n", row.attack.name);
    }
    let noise = rows.iter().map(|row| row.seen.foreign_cores).fold(0.0, f64::max);
    if QUIET < noise {
        text += &format!(
            "\nNOT QUIET: other programs kept up to {noise:.2} cores busy. Do not judge p99 by this.\n"
        );
    }
    let n_good = rows.iter().filter(|row| row.is_good()).count();
    text + &format!("\n{n_good} of {} attacks broke no limit\n", rows.len())
}

fn caller_columns(calls: &Calls, floor_ms: f64) -> String {
    let Calls { n_calls, n_failed, p99_ms, undisturbed_p99_ms, .. } = calls;
    let ratio = calls.p99_ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.1}"));
    let failed = format!("{n_failed}/{n_calls}");
    let latencies = format!("{p99_ms:>9.2} {undisturbed_p99_ms:>9.2} {ratio:>7} {floor_ms:>9.2}");
    format!("  {:<8} {latencies} {failed:>13}", calls.kind.name())
}

fn json_row(plan: &Plan, row: &Row, origin: &Value) -> Value {
    let seen = &row.seen;
    let callers: Vec<Value> = seen.calls.iter().map(json_calls).collect();
    let mut value = json!({
        "scenario": SCENARIO,
        "program": row.attack.name,
        "about": row.attack.about,
        "loop": "open",
        "seconds": plan.time.as_secs(),
        "from": plan.origin.to_string(),
        "rss_before_mb": rounded(seen.rss_before_mb),
        "rss_mb": rounded(seen.rss_peak_mb),
        "rss_after_mb": rounded(seen.rss_after_mb),
        "cores": rounded(seen.cores),
        "log_bytes": seen.log_len,
        "log_mb_per_minute": rounded(seen.log_mb_per_minute()),
        "foreign_cores": rounded(seen.foreign_cores),
        "callers": callers,
        "floor": json_calls(&seen.floor),
        "done": seen.tally,
        "good": row.is_good(),
        "targets": row.targets.iter().map(Target::json).collect::<Vec<_>>(),
    });
    if let (Value::Object(fields), Value::Object(origin)) = (&mut value, origin) {
        fields.extend(origin.clone());
    }
    value
}

fn json_calls(calls: &Calls) -> Value {
    json!({
        "caller": calls.kind.name(),
        "calls": calls.n_calls,
        "failed": calls.n_failed,
        "p50_ms": rounded(calls.p50_ms),
        "p99_ms": rounded(calls.p99_ms),
        "max_ms": rounded(calls.max_ms),
        "undisturbed_p99_ms": rounded(calls.undisturbed_p99_ms),
        "first_failures": calls.problems,
    })
}
