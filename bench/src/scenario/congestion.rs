//! The study of Dubbo under many callers with long replies: the plain Java client beside Dubmesh,
//! both towards a Java provider, by the number of connections and the length of socket buffers.
//!
//! The network between them has a round trip of 1 ms and carries 1 Gbit/s ([`Network`]). A call
//! sends 20,000 characters, is worked on for 0 to 300 ms, and is answered with twice as many. The
//! loops are closed: 200 callers that never wait for each other make 1,333 calls a second, at
//! 150 ms. (The study had 800 callers and shorter messages; the bytes a second are as many, and
//! two cores can carry it.)

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use interop_harness::{Child, DubboVersion, peer_command};
use lab::congestion::{Curve, Labels, draw};
use serde_json::{Value, json};

use crate::error::BenchError;
use crate::machine;
use crate::measure::median;
use crate::network::{Network, Shape, Side};
use crate::plan::Plan;
use crate::target::Target;

const NAME: &str = "congestion";
pub(super) const SHAPE: Shape =
    Shape { round_trip: Duration::from_millis(1), bytes_per_s: 125_000_000 };
const JAVA: DubboVersion = DubboVersion::V3_3;
pub(super) const SERVICE: &str = "org.dubmesh.interop.StudyService";
pub(super) const PORT: &str = "20880";
const CALLERS: &str = "200";
const REQUEST_LEN: &str = "20000";
/// The longest that a call is worked on, in milliseconds.
const WORK_MS: &str = "300";
const START_TIMEOUT: Duration = Duration::from_secs(60);
pub(super) const GRACE: Duration = Duration::from_secs(60);

const BUFFERS: [Option<usize>; 5] =
    [Some(32 << 10), Some(64 << 10), Some(1 << 20), Some(4 << 20), None];
const CONNECTIONS: [&str; 5] = ["1", "2", "4", "6", "8"];
const AUTO: &str = "auto";

/// Who calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Program {
    Java,
    Dubmesh,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Self::Java => "java",
            Self::Dubmesh => "dubmesh",
        }
    }
}

/// One row.
struct Row {
    program: Program,
    buffer_len: Option<usize>,
    connections: &'static str,
    rounds: Vec<Outcome>,
}

#[derive(Clone, Copy)]
struct Outcome {
    calls_per_s: f64,
    mean_ms: f64,
    p99_ms: f64,
    errors: u64,
}

impl Row {
    fn median(&self, figure: impl Fn(&Outcome) -> f64) -> f64 {
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
    let network = Network::start(SHAPE)?;
    let _provider = start_provider(&network, WORK_MS)?;
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
fn rows(plan: &Plan) -> Vec<Row> {
    let mut rows = Vec::new();
    for buffer_len in BUFFERS {
        for (program, connections) in
            CONNECTIONS.map(|n| [(Program::Java, n), (Program::Dubmesh, n)]).as_flattened()
        {
            rows.push((*program, *connections, buffer_len));
        }
        rows.push((Program::Dubmesh, AUTO, buffer_len));
    }
    let is_wanted = |row: &(Program, &str, Option<usize>)| {
        let (program, connections, buffer_len) = *row;
        let is_ours = program == Program::Dubmesh && ["1", AUTO].contains(&connections);
        !plan.is_quick || is_ours && buffer_len == BUFFERS[0]
    };
    rows.into_iter()
        .filter(is_wanted)
        .map(|(program, connections, buffer_len)| Row {
            program,
            buffer_len,
            connections,
            rounds: Vec::new(),
        })
        .collect()
}

fn jvm_args() -> Vec<OsString> {
    let bind = format!("-DDUBBO_IP_TO_BIND={}", Network::address(Side::Provider));
    ["-XX:TieredStopAtLevel=4", "-Xmx1g", &bind].map(Into::into).to_vec()
}

/// A Java provider that works on each call for `longest_ms` at most.
pub(super) fn start_provider(network: &Network, longest_ms: &str) -> Result<Child, BenchError> {
    let args = ["--port", PORT, "--threads", "1000", "--study-ms", longest_ms];
    let command = peer_command(JAVA, &jvm_args(), &args)?;
    let command = network.on(Side::Provider, &command);
    let mut provider = Child::spawn("the Java provider of the study", &command)?;
    provider.wait_for_line("READY ", START_TIMEOUT)?;
    Ok(provider)
}

fn measure(plan: &Plan, network: &Network, row: &Row) -> Result<Outcome, BenchError> {
    for side in [Side::Caller, Side::Provider] {
        network.set_buffers(side, row.buffer_len)?;
    }
    let address = format!("dubbo://{}:{PORT}", Network::address(Side::Provider));
    // Both need a while: Java to compile its methods, Dubmesh to find out how many connections.
    let longest = if plan.is_quick { 3 } else { 8 };
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
        Program::Dubmesh => {
            let mut command = Command::new(&plan.dubmesh);
            command
                .args(["bench", NAME, "--connect", &address, "--service", SERVICE, "--json"])
                .args(["--callers", CALLERS, "--request-bytes", REQUEST_LEN])
                .args(["--connections", row.connections, "--warmup", &format!("{warm_up}s")])
                .args(["--duration", &format!("{seconds}s")]);
            command
        }
    };
    let mut load = Child::spawn(row.program.name(), &network.on(Side::Caller, &command))?;
    let printed = load.finish(plan.seconds + GRACE)?;
    outcome(&printed).ok_or(BenchError::NoResult { output: printed })
}

fn outcome(printed: &str) -> Option<Outcome> {
    let line = printed.lines().find(|line| line.starts_with(['{', '[']))?;
    let value: Value = serde_json::from_str(line).ok()?;
    let value = value.get(0).unwrap_or(&value);
    Some(Outcome {
        calls_per_s: value["calls_per_s"].as_f64()?,
        mean_ms: value["mean_ms"].as_f64()?,
        p99_ms: value["p99_ms"].as_f64()?,
        errors: value["errors"].as_u64()?,
    })
}

/// Ours, untuned, against the best row of Dubmesh that was tuned by hand with the same buffers.
fn goals(rows: &[Row], auto: &Row) -> Vec<Target> {
    let by_hand = || {
        let is_same = |row: &&Row| row.buffer_len == auto.buffer_len && row.connections != AUTO;
        rows.iter().filter(|row| row.program == Program::Dubmesh).filter(is_same)
    };
    let best = |figure: fn(&Outcome) -> f64| by_hand().map(|it| it.median(figure)).reduce(f64::min);
    let of = |name: &'static str, figure: fn(&Outcome) -> f64| {
        Some(Target::at_most(name, auto.median(figure) / best(figure)?, 1.01, " x"))
    };
    let mean = of("mean against the best by hand", |it| it.mean_ms);
    let p99 = of("p99 against the best by hand", |it| it.p99_ms);
    mean.into_iter().chain(p99).collect()
}

fn report(plan: &Plan, rows: &[Row]) -> Result<(), BenchError> {
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
        lines
            .extend(goals.iter().map(|goal| format!("buffers {}: {}", row.buffers(), goal.line())));
        values.push(to_json(plan, row, &goals));
    }
    println!("\n{}", lines.join("\n"));
    let path = plan.results.join(format!("{NAME}.json"));
    let text = format!("{:#}\n", Value::from(values));
    std::fs::write(&path, text).map_err(BenchError::file(&path))?;
    let picture = plan.results.join(format!("{NAME}.svg"));
    let failed = |error: lab::congestion::CongestionError| std::io::Error::other(error.to_string());
    let title = "200 callers of a Java provider, 1 ms and 1 Gbit/s away";
    draw(&picture, Labels::by_connections(title), &curves(rows))
        .map_err(failed)
        .map_err(BenchError::file(&picture))?;
    println!("\nwritten: {} and {}", path.display(), picture.display());
    Ok(())
}

fn curves(rows: &[Row]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows {
        let name = format!("{}, buffers {}", row.program.name(), row.buffers());
        let ms = row.median(|it| it.mean_ms);
        let at = curves.iter().position(|curve| curve.name == name).unwrap_or_else(|| {
            curves.push(Curve { name, points: Vec::new(), level: None });
            curves.len() - 1
        });
        match row.connections.parse() {
            Ok(n) => curves[at].points.push((n, ms)),
            Err(_) => curves[at].level = Some(ms),
        }
    }
    curves
}

fn to_json(plan: &Plan, row: &Row, targets: &[Target]) -> Value {
    let mut value = json!({
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
    });
    if let (Value::Object(fields), Value::Object(origin)) = (&mut value, machine::origin()) {
        fields.extend(origin);
    }
    value
}
