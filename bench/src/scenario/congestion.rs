//! The study of Dubbo under many callers with long replies: the plain Java client beside Dubmesh,
//! both towards a Java provider, by the number of connections and the length of socket buffers.
//!
//! The network between them has a round trip of 1 ms and carries 1 Gbit/s ([`Network`]). A call
//! sends 20,000 characters, is worked on for 0 to 300 ms, and is answered with twice as many. The
//! loops are closed: 200 callers that never wait for each other make 1,333 calls a second, at
//! 150 ms. (The study had 800 callers and shorter messages; the bytes a second are as many, and
//! two cores can carry it.) Dubmesh calls straight, and by links to an agent beside the provider.

use std::process::Command;

use interop_harness::network::{Network, NetworkSide};
use interop_harness::{Child, peer_command};
use serde_json::{Value, json};

use super::study::{GRACE, JAVA, LINK_PORT, PORT, SERVICE, start_agent, start_java, start_network};
use crate::error::BenchError;
use crate::measure::median;
use crate::picture::{self, Curve, Labels, with_origin};
use crate::plan::Plan;
use crate::target::Target;

const NAME: &str = "congestion";
const CALLERS: &str = "200";
const REQUEST_LEN: &str = "20000";
/// The longest that a call is worked on, in milliseconds.
const WORK_MS: &str = "300";

const BUFFERS: [Option<usize>; 5] =
    [Some(32 << 10), Some(64 << 10), Some(1 << 20), Some(4 << 20), None];
const CONNECTIONS: [&str; 5] = ["1", "2", "4", "6", "8"];
const AUTO: &str = "auto";
/// Lengths of buffers to measure, such as `32k,kernel`. The rows of others stay as they are.
const BUFFERS_VARIABLE: &str = "BENCH_BUFFERS";

/// Who calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Program {
    Java,
    /// Ours, straight to the provider.
    Dubmesh,
    /// Ours, by links to an agent beside it.
    Link,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Java => "java",
            Self::Dubmesh => "dubmesh",
            Self::Link => "link",
        }
    }
}

/// One row.
struct CongestionRow {
    program: Program,
    buffer_len: Option<usize>,
    connections: &'static str,
    rounds: Vec<CongestionRound>,
}

#[derive(Clone, Copy)]
struct CongestionRound {
    calls_per_s: f64,
    mean_ms: f64,
    p99_ms: f64,
    errors: u64,
}

impl CongestionRow {
    fn median(&self, figure: impl Fn(&CongestionRound) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    fn buffers(&self) -> String {
        buffers(self.buffer_len)
    }
}

fn buffers(len: Option<usize>) -> String {
    len.map_or_else(|| "kernel".to_owned(), |len| format!("{}k", len >> 10))
}

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let network = start_network()?;
    let _provider = start_java(&network, WORK_MS)?;
    let mut rows = rows(plan);
    for n_round in 1..=plan.n_rounds {
        for row in &mut rows {
            let outcome = measure(plan, &network, row)?;
            eprintln!(
                "{NAME} {n_round}/{}: {}, {} connections, buffers {}: mean {:.1} ms, {} errors",
                plan.n_rounds,
                row.program.name(),
                row.connections,
                row.buffers(),
                outcome.mean_ms,
                outcome.errors
            );
            row.rounds.push(outcome);
        }
    }
    report(plan, &rows)
}

/// A quick run has the study's worst case, and ours.
fn rows(plan: &Plan) -> Vec<CongestionRow> {
    let wanted = std::env::var(BUFFERS_VARIABLE).ok();
    let is_wanted = |len: &Option<usize>| match &wanted {
        Some(wanted) => wanted.split(',').any(|name| name == buffers(*len)),
        None => !plan.is_quick || *len == BUFFERS[0],
    };
    let mut rows = Vec::new();
    for buffer_len in BUFFERS.into_iter().filter(is_wanted) {
        for program in [Program::Java, Program::Dubmesh, Program::Link] {
            for connections in CONNECTIONS.into_iter().chain([AUTO]) {
                let is_left_alone = connections == AUTO;
                if !plan.wants(program.name())
                    || is_left_alone && program == Program::Java
                    || plan.is_quick
                        && (program == Program::Java || !["1", AUTO].contains(&connections))
                {
                    continue;
                }
                rows.push(CongestionRow { program, buffer_len, connections, rounds: Vec::new() });
            }
        }
    }
    rows
}

fn measure(
    plan: &Plan,
    network: &Network,
    row: &CongestionRow,
) -> Result<CongestionRound, BenchError> {
    for side in [NetworkSide::Caller, NetworkSide::Provider] {
        network.set_buffers(side, row.buffer_len)?;
    }
    let (scheme, port) = match row.program {
        Program::Java | Program::Dubmesh => ("dubbo", PORT),
        Program::Link => ("link", LINK_PORT),
    };
    let address = format!("{scheme}://{}:{port}", Network::address(NetworkSide::Provider));
    // Its connections are made with the buffers of now.
    let _agent = match row.program {
        Program::Java | Program::Dubmesh => None,
        Program::Link => Some(start_agent(plan, network, &[(SERVICE, PORT)])?),
    };
    // Both need a while: Java to compile its methods, Dubmesh to find out how many connections.
    let longest = if plan.is_quick { 5 } else { 6 };
    let warm_up = plan.warm_up(true).as_secs().min(longest);
    let (warm_up, seconds) = (warm_up.to_string(), plan.seconds.as_secs().to_string());
    let command = match row.program {
        Program::Java => peer_command(
            JAVA,
            &["-XX:TieredStopAtLevel=4", "-Xmx1g"].map(Into::into),
            &[
                &["--consume", &address, "--load", "--request-bytes", REQUEST_LEN][..],
                &["--in-flight", CALLERS, "--connections", row.connections],
                &["--warm-up-seconds", &warm_up, "--seconds", &seconds],
            ]
            .concat(),
        )?,
        Program::Dubmesh | Program::Link => {
            let mut command = Command::new(&plan.dubmesh);
            command
                .args(["bench", NAME, "--connect", &address, "--service", SERVICE, "--json"])
                .args(["--callers", CALLERS, "--request-bytes", REQUEST_LEN])
                .args(["--connections", row.connections, "--warmup", &format!("{warm_up}s")])
                .args(["--duration", &format!("{seconds}s")]);
            command
        }
    };
    let mut load = Child::spawn(row.program.name(), &network.on(NetworkSide::Caller, &command))?;
    let printed = load.finish(plan.seconds + GRACE)?;
    outcome(&printed).ok_or(BenchError::NoResult { output: printed })
}

fn outcome(printed: &str) -> Option<CongestionRound> {
    let line = printed.lines().find(|line| line.starts_with(['{', '[']))?;
    let value: Value = serde_json::from_str(line).ok()?;
    let value = value.get(0).unwrap_or(&value);
    Some(CongestionRound {
        calls_per_s: value["calls_per_s"].as_f64()?,
        mean_ms: value["mean_ms"].as_f64()?,
        p99_ms: value["p99_ms"].as_f64()?,
        errors: value["errors"].as_u64()?,
    })
}

/// Ours, untuned, against the best row of the same way that was tuned by hand with the same
/// buffers.
fn goals(rows: &[CongestionRow], auto: &CongestionRow) -> Vec<Target> {
    let by_hand = || {
        let is_same =
            |row: &&CongestionRow| row.buffer_len == auto.buffer_len && row.connections != AUTO;
        rows.iter().filter(|row| row.program == auto.program).filter(is_same)
    };
    let best = |figure: fn(&CongestionRound) -> f64| {
        by_hand().map(|it| it.median(figure)).reduce(f64::min)
    };
    let of = |name: &'static str, figure: fn(&CongestionRound) -> f64| {
        Some(Target::at_most(name, auto.median(figure) / best(figure)?, 1.01, " x"))
    };
    let mean = of("mean against the best by hand", |it| it.mean_ms);
    let p99 = of("p99 against the best by hand", |it| it.p99_ms);
    mean.into_iter().chain(p99).collect()
}

fn report(plan: &Plan, rows: &[CongestionRow]) -> Result<(), BenchError> {
    println!(
        "\n{NAME}: {CALLERS} callers, {REQUEST_LEN} bytes and twice as many back, 0 to {WORK_MS} ms \
         of work; 1 ms, 1 Gbit/s; closed loop, {} x {} s, medians",
        plan.n_rounds,
        plan.seconds.as_secs()
    );
    println!(
        "{:<8} {:>8} {:>11} {:>9} {:>9} {:>9} {:>7}",
        "program", "buffers", "connections", "calls/s", "mean ms", "p99 ms", "errors"
    );
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    for row in rows {
        let errors = row.rounds.iter().map(|round| round.errors).sum::<u64>();
        println!(
            "{:<8} {:>8} {:>11} {:>9.0} {:>9.1} {:>9.1} {errors:>7}",
            row.program.name(),
            row.buffers(),
            row.connections,
            row.median(|it| it.calls_per_s),
            row.median(|it| it.mean_ms),
            row.median(|it| it.p99_ms),
        );
        let goals = if row.connections == AUTO { goals(rows, row) } else { Vec::new() };
        let what = format!("{}, buffers {}", row.program.name(), row.buffers());
        lines.extend(goals.iter().map(|goal| format!("{what}: {}", goal.line())));
        values.push(to_json(plan, row, &goals));
    }
    println!("\n{}", lines.join("\n"));
    let values = among_others(plan, values);
    let labels = Labels::by_connections("200 callers of a Java provider, 1 ms and 1 Gbit/s away");
    let curves = curves(&values);
    picture::write(plan, NAME, values, labels, &curves)
}

/// The rows beside those of other buffers that were measured before.
fn among_others(plan: &Plan, rows: Vec<Value>) -> Vec<Value> {
    let path = plan.results.join(format!("{NAME}.json"));
    let before = std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let mut all: Vec<Value> = before.unwrap_or_default();
    all.retain(|old| rows.iter().all(|row| row["buffer_bytes"] != old["buffer_bytes"]));
    all.extend(rows);
    // Those of the kernel's own length come last.
    all.sort_by_key(|row| row["buffer_bytes"].as_u64().unwrap_or(u64::MAX));
    all
}

fn curves(rows: &[Value]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows {
        let len = row["buffer_bytes"].as_u64().and_then(|len| usize::try_from(len).ok());
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let name = format!("{}, buffers {}", text("program"), buffers(len));
        let Some(ms) = row["mean_ms"].as_f64() else { continue };
        let curve = picture::curve(&mut curves, name);
        match text("connections").parse() {
            Ok(n) => curve.points.push((n, ms)),
            Err(_) => curve.level = Some(ms),
        }
    }
    curves
}

fn to_json(plan: &Plan, row: &CongestionRow, targets: &[Target]) -> Value {
    with_origin(json!({
        "scenario": NAME,
        "program": row.program.name(),
        "connections": row.connections,
        "buffer_bytes": row.buffer_len,
        "callers": 200,
        "request_bytes": 20_000,
        "codec": "hessian2",
        "loop": "closed",
        "seconds": plan.seconds.as_secs_f64(),
        "calls_per_s": row.median(|it| it.calls_per_s),
        "mean_ms": row.median(|it| it.mean_ms),
        "p99_ms": row.median(|it| it.p99_ms),
        "errors": row.rounds.iter().map(|round| round.errors).sum::<u64>(),
        "rounds_mean_ms": row.rounds.iter().map(|round| round.mean_ms).collect::<Vec<_>>(),
        "is_quick": plan.is_quick,
        "targets": targets.iter().map(Target::json).collect::<Vec<_>>(),
    }))
}
