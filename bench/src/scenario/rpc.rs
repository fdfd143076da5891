//! The RPC library beside bare sockets, tonic, tarpc and volo: the same echo, the same callers.
//!
//! Each measurement starts a server and a client as two processes; the client is the load, a
//! closed loop per caller. Programs alternate within a round, so that what changes on the machine
//! touches all of them; ratios are those of the same run.

mod program;
mod round;
mod row;
mod table;

use std::fs;

use serde_json::Value;

use self::program::{Program, Programs, Setting};
use self::row::{Ratios, RpcRow};
use crate::error::BenchError;
use crate::plan::{Plan, build_rpc_peers};
use crate::target::Target;

const NAME: &str = "rpc";

/// Callers and connections. One caller uses one connection, however many there are.
const SETTINGS: [(usize, usize); 7] =
    [(1, 1), (10, 1), (100, 1), (1000, 1), (10, 4), (100, 4), (1000, 4)];
/// Where the targets are, and the only setting of a quick run.
const MAIN_SETTING: Setting = Setting { n_callers: 100, n_connections: 1 };

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let programs = Programs::new(plan, build_rpc_peers()?);
    let mut rows = rows(plan);
    for _ in 0..plan.n_rounds {
        for row in &mut rows {
            row.add_round(plan, &programs)?;
        }
    }
    eprintln!("rpc: counting system calls");
    for row in &mut rows {
        row.count_syscalls(plan, &programs)?;
    }
    if rows.iter().any(|row| row.syscalls.is_none()) {
        eprintln!("rpc: system calls were not counted: `perf stat` does not run here");
    }
    report(plan, &rows)
}

/// What is measured, in this order in each round.
fn rows(plan: &Plan) -> Vec<RpcRow> {
    let settings = SETTINGS.map(|(n_callers, n_connections)| Setting { n_callers, n_connections });
    let mut rows = Vec::new();
    for setting in settings {
        if plan.is_quick && setting != MAIN_SETTING {
            continue;
        }
        let programs = [Program::Raw, Program::Link, Program::Tonic, Program::Tarpc, Program::Volo];
        rows.extend(programs.map(|program| RpcRow::new(program, setting)));
        if setting == MAIN_SETTING {
            let programs = [Program::LinkProtobuf, Program::RawThreads, Program::LinkBlocking];
            rows.extend(programs.map(|program| RpcRow::new(program, setting)));
        }
    }
    rows.retain(|row| !plan.is_without_link || !row.program.is_link());
    rows
}

/// Prints the table and writes the rows.
fn report(plan: &Plan, rows: &[RpcRow]) -> Result<(), BenchError> {
    let with_targets = |row| {
        let ratios = ratios(row, rows);
        (row, ratios, targets(row, ratios, rows))
    };
    let entries: Vec<_> = rows.iter().map(with_targets).collect();
    table::print(plan, &entries);
    let values = entries.iter().map(|(row, ratios, targets)| row.json(plan, *ratios, targets));
    let path = plan.results.join(format!("{NAME}.json"));
    let text = format!("{:#}\n", values.collect::<Value>());
    fs::write(&path, text).map_err(BenchError::file(&path))?;
    let raw = plan.results.join(format!("raw/{NAME}.txt"));
    fs::write(&raw, rows.iter().map(RpcRow::raw).collect::<String>())
        .map_err(BenchError::file(&raw))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}

/// The row of another program in the same setting.
fn beside<'a>(row: &RpcRow, program: Program, rows: &'a [RpcRow]) -> Option<&'a RpcRow> {
    rows.iter().find(|other| other.program == program && other.setting == row.setting)
}

fn ratios(row: &RpcRow, rows: &[RpcRow]) -> Ratios {
    let against = |other: &RpcRow| {
        (other.program != row.program).then(|| row.calls_per_s() / other.calls_per_s())
    };
    let peers = [Program::Tonic, Program::Tarpc].map(|peer| beside(row, peer, rows));
    let better_peer = peers
        .into_iter()
        .flatten()
        .max_by(|one, other| one.calls_per_s().total_cmp(&other.calls_per_s()));
    Ratios {
        of_ceiling: beside(row, row.program.ceiling(), rows).and_then(against),
        of_better_peer: better_peer.and_then(against),
    }
}

/// What the link should reach; the others have none.
fn targets(row: &RpcRow, ratios: Ratios, rows: &[RpcRow]) -> Vec<Target> {
    if !row.program.is_link() {
        return Vec::new();
    }
    let calls_per_s = row.calls_per_s();
    let at_least = |bound| Target::at_least("calls", calls_per_s, bound, "/s");
    let mut targets = Vec::new();
    match (row.program, row.setting.n_callers, row.setting.n_connections) {
        (Program::Link, 1, 1) => {
            if let Some(raw) = beside(row, Program::Raw, rows) {
                let ratio = row.p50_ms() / raw.p50_ms();
                targets.push(Target::at_most("p50 against bare sockets", ratio, 1.25, " x"));
            }
        }
        (Program::Link, 100, 1) => {
            targets.push(at_least(1_050_000.0));
            let ratio = ratios.of_ceiling.unwrap_or_default() * 100.0;
            targets.push(Target::at_least("calls against bare sockets", ratio, 60.0, "%"));
            let ratio = ratios.of_better_peer.unwrap_or_default();
            let what = "calls against the better one of tonic and tarpc";
            targets.push(Target::at_least(what, ratio, 4.0, " x"));
        }
        (Program::Link, 1000, 1) => targets.push(at_least(2_500_000.0)),
        (Program::LinkBlocking, ..) => targets.push(at_least(200_000.0)),
        (Program::LinkProtobuf, ..) => targets.push(at_least(800_000.0)),
        _ => {}
    }
    // Exact: a count of errors is small.
    let errors = f64::from(u32::try_from(row.errors()).unwrap_or(u32::MAX));
    targets.push(Target::at_most("errors", errors, 0.0, ""));
    targets
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::round::{ClientFigures, Round};
    use super::*;

    fn row(program: Program, calls_per_s: f64, p50_ms: f64, n_callers: usize) -> RpcRow {
        let setting = Setting { n_callers, n_connections: 1 };
        let outcome = ClientFigures { calls_per_s, p50_ms, p99_ms: 1.0, p999_ms: 2.0, errors: 0 };
        let round = Round {
            outcome,
            cpu_us: BTreeMap::new(),
            rss_mb: BTreeMap::new(),
            foreign_cores: 0.0,
            stolen_cores: 0.0,
            printed: String::new(),
        };
        RpcRow { rounds: vec![round], ..RpcRow::new(program, setting) }
    }

    #[test]
    fn ratios_are_those_of_the_same_setting() {
        let rows = [
            row(Program::Raw, 1000.0, 1.0, 100),
            row(Program::Raw, 10.0, 1.0, 1),
            row(Program::Tonic, 50.0, 1.0, 100),
            row(Program::Tarpc, 100.0, 1.0, 100),
            row(Program::Link, 500.0, 1.0, 100),
        ];
        let found = ratios(&rows[4], &rows);
        assert_eq!((found.of_ceiling, found.of_better_peer), (Some(0.5), Some(5.0)));
        let found = ratios(&rows[3], &rows);
        assert_eq!((found.of_ceiling, found.of_better_peer), (Some(0.1), None));
        assert_eq!(ratios(&rows[0], &rows).of_ceiling, None);
    }

    #[test]
    fn one_caller_is_compared_by_its_latency() {
        let rows = [row(Program::Raw, 10.0, 0.1, 1), row(Program::Link, 10.0, 0.12, 1)];
        let targets = targets(&rows[1], ratios(&rows[1], &rows), &rows);
        assert!(targets.iter().all(Target::is_met), "{targets:?}");
        assert_eq!(targets.len(), 2);
    }
}
