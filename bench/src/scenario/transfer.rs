//! A file's lines over the link, one request a line, beside the same by bare sockets and beside a
//! program without a network.
//!
//! Each measurement is one whole transfer into a new file by a fresh server and client, without
//! waiting for the disk. Every output is compared with the local program's, byte by byte. Programs
//! alternate within a round; ratios are those of the same run.

mod run;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use self::run::{Files, Program, RunFigures};
use crate::error::BenchError;
use crate::machine;
use crate::measure::median;
use crate::plan::{self, Plan};
use crate::report::QUIET;
use crate::target::Target;

const NAME: &str = "transfer";
const BYTES: u64 = 1 << 30;
const QUICK_BYTES: u64 = 64 << 20;
const SEED: &str = "7";
/// What either side may take, in MB (10^6 bytes): 64 MiB.
const MAX_RSS_MB: f64 = 67.1;

/// What is measured, in this order in each round. The first one's output is what others are
/// compared with.
const PROGRAMS: [Program; 5] = [
    Program::Local,
    Program::Raw,
    Program::Dubmesh { process_at: "server", callers: None },
    Program::Dubmesh { process_at: "client", callers: None },
    Program::Dubmesh { process_at: "server", callers: Some(1000) },
];

/// All rounds of one program.
struct TransferRow {
    program: Program,
    rounds: Vec<RunFigures>,
}

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let len = plan::setting("BENCH_BYTES", if plan.is_quick { QUICK_BYTES } else { BYTES })?;
    let files = Files::new(plan)?;
    generate(plan, &files.source, len)?;
    // One round that does not count: code, the source and the page cache are warm after it.
    for program in PROGRAMS {
        program.run(plan, &files)?;
    }
    let mut rows = PROGRAMS.map(|program| TransferRow { program, rounds: Vec::new() });
    for n_round in 1..=plan.n_rounds {
        for row in &mut rows {
            let outcome = row.program.run(plan, &files)?;
            eprintln!(
                "transfer {n_round}/{}: {}: {:.2} s, {:.0} rows/s",
                plan.n_rounds,
                row.program.name(),
                outcome.seconds,
                outcome.rows_per_s()
            );
            row.rounds.push(outcome);
        }
    }
    report(plan, len, &rows)
}

fn generate(plan: &Plan, path: &Path, len: u64) -> Result<(), BenchError> {
    let mut command = Command::new(&plan.dubmesh);
    command.args(["transfer", "generate", "--seed", SEED, "--bytes", &len.to_string()]).arg(path);
    let output = command.output().map_err(BenchError::io("dubmesh transfer generate"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let output = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(BenchError::NoResult { output })
        }
    }
}

impl TransferRow {
    fn median(&self, figure: impl Fn(&RunFigures) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    fn seconds(&self) -> f64 {
        self.median(|round| round.seconds)
    }
}

fn report(plan: &Plan, len: u64, rows: &[TransferRow]) -> Result<(), BenchError> {
    let n_rounds = plan.n_rounds;
    println!("\ntransfer: {len} bytes of lines, contest's step, {n_rounds} rounds, medians");
    println!(
        "{:<32} {:>8} {:>12} {:>7} {:>8} {:>17} {:>15} {:>20}",
        "program",
        "seconds",
        "rows/s",
        "x raw",
        "x local",
        "CPU us/row (c, s)",
        "peak MB (c, s)",
        "bytes/write (out, in)"
    );
    let [local, raw] = [Program::Local, Program::Raw].map(|program| {
        rows.iter().find(|row| row.program == program).map_or(f64::NAN, TransferRow::seconds)
    });
    let mut values = Vec::new();
    let mut targets = Vec::new();
    for row in rows {
        let (of_raw, of_local) = (row.seconds() / raw, row.seconds() / local);
        println!(
            "{:<32} {:>8.2} {:>12.0} {:>7.2} {:>8.2} {:>17} {:>15} {:>20}",
            row.program.name(),
            row.seconds(),
            row.median(RunFigures::rows_per_s),
            of_raw,
            of_local,
            pair(row, RunFigures::cpu_us_per_row, 3),
            pair(row, |round| round.peak_rss_mb, 1),
            row.rounds.first().map_or_else(String::new, |round| {
                ["bytes_per_write", "bytes_per_read"]
                    .map(|name| {
                        round.wire[name].as_f64().map_or("-".to_owned(), |n| format!("{n:.0}"))
                    })
                    .join(", ")
            }),
        );
        let goals = if row.program.is_main() { goals(row, raw) } else { Vec::new() };
        values.push(to_json(plan, len, row, [of_raw, of_local], &goals));
        targets.extend(goals);
    }
    println!();
    for target in &targets {
        println!("dubmesh: {}", target.line());
    }
    let noise = rows.iter().map(|row| row.median(|round| round.foreign_cores)).fold(0.0, f64::max);
    if QUIET < noise {
        println!(
            "\nNOT QUIET: other programs kept up to {noise:.2} cores busy. Do not quote this."
        );
    }
    let path = plan.results.join(format!("{NAME}.json"));
    let text = format!("{:#}\n", Value::from(values));
    fs::write(&path, text).map_err(BenchError::file(&path))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}

/// A figure of client and server.
fn pair(row: &TransferRow, figures: impl Fn(&RunFigures) -> [f64; 2], digits: usize) -> String {
    let of = |at: usize| row.median(|round| figures(round)[at]);
    match row.program {
        Program::Local => format!("{:.digits$}", of(0)),
        _ => format!("{:.digits$}, {:.digits$}", of(0), of(1)),
    }
}

fn goals(row: &TransferRow, raw: f64) -> Vec<Target> {
    let memory = |at: usize| row.median(|round| round.peak_rss_mb[at]);
    vec![
        Target::at_most("time against bare sockets", row.seconds() / raw, 2.0, " x"),
        Target::at_least("rows", row.median(RunFigures::rows_per_s), 6_500_000.0, "/s"),
        Target::at_most("memory of the client", memory(0), MAX_RSS_MB, " MB"),
        Target::at_most("memory of the server", memory(1), MAX_RSS_MB, " MB"),
    ]
}

fn to_json(
    plan: &Plan,
    len: u64,
    row: &TransferRow,
    ratios: [f64; 2],
    targets: &[Target],
) -> Value {
    let both = |figures: fn(&RunFigures) -> [f64; 2]| {
        let of = |at: usize| row.median(|round| figures(round)[at]);
        json!({ "client": of(0), "server": of(1) })
    };
    let mut value = json!({
        "scenario": NAME,
        "program": row.program.name(),
        "connections": row.program.shape().0,
        "callers": row.program.shape().1,
        "codec": "raw",
        "loop": "closed, one request a caller",
        "source_bytes": len,
        "rows": row.rounds.first().map(|round| round.rows),
        "seconds": row.seconds(),
        "calls_per_s": row.median(RunFigures::rows_per_s),
        "errors": 0,
        "cpu_us_per_call": both(RunFigures::cpu_us_per_row),
        "rss_mb": both(|round| round.peak_rss_mb),
        "of_raw": ratios[0],
        "of_local": ratios[1],
        "wire": row.rounds.first().map(|round| round.wire.clone()),
        "foreign_cores": row.median(|round| round.foreign_cores),
        "is_quick": plan.is_quick,
        "targets": targets.iter().map(Target::json).collect::<Vec<_>>(),
        "rounds": row.rounds.iter().map(|round| round.seconds).collect::<Vec<_>>(),
    });
    if let (Value::Object(fields), Value::Object(origin)) = (&mut value, machine::origin()) {
        fields.extend(origin);
    }
    value
}

/// A transfer takes at most this long, or it hangs.
const TIMEOUT: Duration = Duration::from_secs(900);
