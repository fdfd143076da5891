//! One agent between Dubbo consumers and a Dubbo provider, beside the same without it.
//!
//! Consumer and provider are Java's, or programs on bare sockets that are so fast that the agent
//! is what is measured. All loads are closed loops. Direct and through the agent alternate within
//! a round, and what the agent adds is the difference of the two of the same round.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use interop_harness::{
    Child, ConsumerOptions, DubboVersion, JavaConsumer, JavaProvider, LoadOptions, ProviderOptions,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::agent::Agent;
use crate::error::BenchError;
use crate::estate::start_agent;
use crate::machine;
use crate::measure::median;
use crate::plan::Plan;
use crate::raw_dubbo;
use crate::report::QUIET;
use crate::target::Target;
use crate::usage;

const NAME: &str = "hop";
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Beyond the measured time: connecting, warming up, and the end.
const LOAD_GRACE: Duration = Duration::from_secs(60);
const AGENT: &str = "dubmesh";

/// How much is in flight, and on how many connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Shape {
    connections: u64,
    in_flight: u64,
}

/// Who calls whom.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Peers {
    /// Programs on bare sockets.
    Raw,
    /// Java's consumer and provider, both of this version.
    Java,
}

const JAVA: DubboVersion = DubboVersion::V3_3;
const JAVA_INTERFACE: &str = "org.dubmesh.interop.TypesService";
/// What is measured of Java is the middle of its load: it takes a moment to start, and to end.
const JAVA_MARGIN: Duration = Duration::from_secs(3);

const PAIRS: [(Peers, Shape); 4] = [
    (Peers::Raw, Shape { connections: 1, in_flight: 1 }),
    (Peers::Raw, Shape { connections: 4, in_flight: 64 }),
    (Peers::Raw, Shape { connections: 4, in_flight: 512 }),
    (Peers::Java, Shape { connections: 1, in_flight: 64 }),
];

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Case {
    peers: Peers,
    shape: Shape,
    has_agent: bool,
}

/// What one load showed.
struct HopRound {
    calls_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    errors: u64,
    agent_cpu_us: f64,
    agent_rss_mb: f64,
    foreign_cores: f64,
}

struct HopRow {
    case: Case,
    rounds: Vec<HopRound>,
}

/// What is running.
struct Estate {
    provider: Child,
    direct: SocketAddr,
    /// Not in a quick run.
    java: Option<JavaProvider>,
    agent: Agent,
    _folder: TempDir,
}

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let estate = Estate::start(plan)?;
    let mut rows: Vec<HopRow> = PAIRS
        .into_iter()
        // A quick run shows that it works, with the most in flight.
        .filter(|(peers, shape)| match plan.is_quick {
            true => *peers == Peers::Raw && shape.in_flight == 512,
            false => true,
        })
        .flat_map(|(peers, shape)| [false, true].map(|has_agent| Case { peers, shape, has_agent }))
        .map(|case| HopRow { case, rounds: Vec::new() })
        .collect();
    for n_round in 1..=plan.n_rounds {
        for row in &mut rows {
            let outcome = estate.load(plan, row.case)?;
            eprintln!(
                "{NAME} {n_round}/{}: {}: {:.0}/s, p50 {:.3} ms, {} errors",
                plan.n_rounds,
                row.case.name(),
                outcome.calls_per_s,
                outcome.p50_ms,
                outcome.errors
            );
            row.rounds.push(outcome);
        }
    }
    report(plan, &rows)
}

impl Estate {
    fn start(plan: &Plan) -> Result<Self, BenchError> {
        let this = std::env::current_exe().map_err(BenchError::io("the path of this program"))?;
        let mut command = Command::new(this);
        command.arg("raw-dubbo-provide");
        let mut provider = Child::spawn("the raw provider", &command)?;
        let line = provider.wait_for_line("READY ", START_TIMEOUT)?;
        let direct = line.trim_start_matches("READY ").trim().parse();
        let direct = direct.map_err(|_| BenchError::NoResult { output: line })?;
        let folder =
            TempDir::with_prefix("bench-").map_err(BenchError::io("a temporary folder"))?;
        let services = folder.path().join("services.toml");
        let java = if plan.is_quick { None } else { Some(start_java()?) };
        let service = |interface: &str, address: SocketAddr| {
            format!(
                "[[service]]\ninterface = \"{interface}\"\nendpoints = [\"dubbo://{address}\"]\n"
            )
        };
        let mut list = service(raw_dubbo::INTERFACE, direct);
        if let Some(java) = &java {
            list += &service(JAVA_INTERFACE, java.addr());
        }
        fs::write(&services, list).map_err(BenchError::file(&services))?;
        let agent = start_agent(plan, AGENT, |ports| {
            let (services, port) = (services.display(), ports.dubbo);
            format!(
                "[[registry]]\nkind = \"file\"\npath = \"{services}\"\n\
                 [[ingress]]\nprotocol = \"dubbo\"\nlisten = \"127.0.0.1:{port}\"\n"
            )
        })?;
        Ok(Self { provider, direct, java, agent, _folder: folder })
    }

    fn load(&self, plan: &Plan, case: Case) -> Result<HopRound, BenchError> {
        match (case.peers, &self.java) {
            (Peers::Java, Some(provider)) => self.load_java(plan, case, provider),
            _ => self.load_raw(plan, case),
        }
    }

    /// What the agent has used is measured while Java's load is at work and steady.
    fn load_java(
        &self,
        plan: &Plan,
        case: Case,
        provider: &JavaProvider,
    ) -> Result<HopRound, BenchError> {
        let address =
            if case.has_agent { self.agent.addr(self.agent.ports.dubbo) } else { provider.addr() };
        let Shape { connections, in_flight } = case.shape;
        let options = ConsumerOptions {
            connections: u32::try_from(connections).unwrap_or(1),
            jvm_args: jvm_args(),
            ..ConsumerOptions::new(&format!("dubbo://{address}"))
        };
        let load = LoadOptions {
            in_flight: u32::try_from(in_flight).unwrap_or(1),
            warm_up: plan.warm_up(true),
            time: plan.seconds + 2 * JAVA_MARGIN,
        };
        let consumer = JavaConsumer::start_load(JAVA, &options, &load)?;
        thread::sleep(load.warm_up + JAVA_MARGIN);
        let pid = self.agent.child.pid();
        let cpu = || usage::cpu(pid).as_secs_f64();
        let (before, start) = (cpu(), Instant::now());
        thread::sleep(plan.seconds);
        let (used, elapsed) = (cpu() - before, start.elapsed().as_secs_f64());
        let printed = consumer.report(load.time + LOAD_GRACE)?;
        let result = parse(&printed)?;
        let raw = plan.results.join(format!("raw/{NAME}-{}.json", case.file_name()));
        fs::write(&raw, &printed).map_err(BenchError::file(&raw))?;
        let calls = figure(&result, "calls_per_s") * elapsed;
        Ok(HopRound {
            calls_per_s: figure(&result, "calls_per_s"),
            p50_ms: figure(&result, "p50_ms"),
            p99_ms: figure(&result, "p99_ms"),
            p999_ms: figure(&result, "p999_ms"),
            errors: result["errors"].as_u64().unwrap_or(u64::MAX),
            agent_cpu_us: if case.has_agent { used * 1e6 / calls } else { 0.0 },
            agent_rss_mb: usage::peak_rss_mb(pid),
            // Java's own threads for compiling and collecting are not told apart from others.
            foreign_cores: 0.0,
        })
    }

    fn load_raw(&self, plan: &Plan, case: Case) -> Result<HopRound, BenchError> {
        let address =
            if case.has_agent { self.agent.addr(self.agent.ports.dubbo) } else { self.direct };
        let Shape { connections, in_flight } = case.shape;
        let this = std::env::current_exe().map_err(BenchError::io("the path of this program"))?;
        let mut command = Command::new(this);
        command.args(["raw-dubbo-load", &address.to_string()]);
        let [warm_up, measured] =
            [plan.warm_up(false), plan.seconds].map(|time| time.as_millis().to_string());
        command.args([connections.to_string(), in_flight.to_string(), warm_up, measured]);
        let pids = [self.agent.child.pid(), self.provider.pid()];
        let cpu = || pids.map(|pid| usage::cpu(pid).as_secs_f64());
        let (before, machine, start) = (cpu(), usage::machine_cpu().used, Instant::now());
        let mut load = Child::spawn("the raw consumer", &command)?;
        let printed = load.finish(plan.warm_up(false) + plan.seconds + LOAD_GRACE)?;
        let (after, machine, elapsed) =
            (cpu(), usage::machine_cpu().used - machine, start.elapsed().as_secs_f64());
        let result = parse(&printed)?;
        let figure = |name: &str| figure(&result, name);
        let raw = plan.results.join(format!("raw/{NAME}-{}.json", case.file_name()));
        fs::write(&raw, &printed).map_err(BenchError::file(&raw))?;
        let used = [after[0] - before[0], after[1] - before[1]];
        let own = figure("cpu_s");
        Ok(HopRound {
            calls_per_s: figure("calls_per_s"),
            p50_ms: figure("p50_ms"),
            p99_ms: figure("p99_ms"),
            p999_ms: figure("p999_ms"),
            errors: result["errors"].as_u64().unwrap_or(u64::MAX),
            agent_cpu_us: if case.has_agent { used[0] * 1e6 / figure("calls") } else { 0.0 },
            agent_rss_mb: usage::peak_rss_mb(self.agent.child.pid()),
            foreign_cores: ((machine.as_secs_f64() - used[0] - used[1] - own) / elapsed).max(0.0),
        })
    }
}

fn parse(printed: &str) -> Result<Value, BenchError> {
    serde_json::from_str(printed.trim())
        .map_err(|_| BenchError::NoResult { output: printed.to_owned() })
}

fn figure(result: &Value, name: &str) -> f64 {
    result[name].as_f64().unwrap_or(f64::NAN)
}

/// As the other scenarios' providers: they are to run fast, not to start fast.
fn jvm_args() -> Vec<OsString> {
    ["-XX:TieredStopAtLevel=4", "-Xms512m", "-Xmx512m", "-Xmn256m", "-XX:+AlwaysPreTouch"]
        .map(Into::into)
        .to_vec()
}

fn start_java() -> Result<JavaProvider, BenchError> {
    let options = ProviderOptions { jvm_args: jvm_args(), ..ProviderOptions::default() };
    Ok(JavaProvider::start(JAVA, options)?)
}

impl Case {
    fn program(self) -> &'static str {
        match (self.peers, self.has_agent) {
            (Peers::Raw, false) => "direct",
            (Peers::Raw, true) => "dubmesh",
            (Peers::Java, false) => "java direct",
            (Peers::Java, true) => "java, dubmesh",
        }
    }

    fn name(self) -> String {
        let Shape { connections, in_flight } = self.shape;
        format!("{}, {in_flight} in flight, {connections} connections", self.program())
    }

    fn file_name(self) -> String {
        let Shape { connections, in_flight } = self.shape;
        let program = self.program().replace(", ", "-").replace(' ', "-");
        format!("{program}-{in_flight}-{connections}")
    }
}

impl HopRow {
    fn median(&self, figure: impl Fn(&HopRound) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }
}

/// What the agent adds to a latency, in microseconds: the median over the rounds of what it added
/// in each.
fn added_us(direct: &HopRow, agent: &HopRow, latency: impl Fn(&HopRound) -> f64) -> f64 {
    let rounds = direct.rounds.iter().zip(&agent.rounds);
    median(rounds.map(|(direct, agent)| (latency(agent) - latency(direct)) * 1e3).collect())
}

fn goals(direct: &HopRow, agent: &HopRow) -> Vec<Target> {
    let rate = agent.median(|round| round.calls_per_s);
    let cpu = agent.median(|round| round.agent_cpu_us);
    let memory = Target::at_most("memory", agent.median(|round| round.agent_rss_mb), 20.0, " MB");
    let share = rate / direct.median(|round| round.calls_per_s);
    if agent.case.peers == Peers::Java {
        return vec![
            Target::at_most("CPU of the agent, Java", cpu, 5.0, " us"),
            Target::at_least("calls against direct, Java", share, 0.93, " x"),
        ];
    }
    match agent.case.shape.in_flight {
        1 => vec![
            Target::at_most(
                "added p50",
                added_us(direct, agent, |round| round.p50_ms),
                30.0,
                " us",
            ),
            Target::at_most(
                "added p99",
                added_us(direct, agent, |round| round.p99_ms),
                60.0,
                " us",
            ),
        ],
        64 => vec![Target::at_least("64 in flight", rate, 500_000.0, "/s")],
        _ => vec![
            Target::at_least("512 in flight", rate, 1_000_000.0, "/s"),
            Target::at_most("CPU of the agent, 512 in flight", cpu, 1.0, " us"),
            memory,
        ],
    }
}

fn report(plan: &Plan, rows: &[HopRow]) -> Result<(), BenchError> {
    println!(
        "\n{NAME}: hessian2 echo of a short text, {} rounds, medians, closed loop",
        plan.n_rounds
    );
    println!(
        "{:<44} {:>10} {:>9} {:>9} {:>9} {:>7} {:>14} {:>7}",
        "program", "calls/s", "p50 ms", "p99 ms", "p999 ms", "errors", "agent CPU us", "MB"
    );
    let (mut values, mut targets) = (Vec::new(), Vec::new());
    for pair in rows.chunks(2) {
        let [direct, agent] = pair else { continue };
        for row in pair {
            println!(
                "{:<44} {:>10.0} {:>9.3} {:>9.3} {:>9.3} {:>7} {:>14.2} {:>7.1}",
                row.case.name(),
                row.median(|round| round.calls_per_s),
                row.median(|round| round.p50_ms),
                row.median(|round| round.p99_ms),
                row.median(|round| round.p999_ms),
                row.rounds.iter().map(|round| round.errors).sum::<u64>(),
                row.median(|round| round.agent_cpu_us),
                row.median(|round| round.agent_rss_mb),
            );
            let goals = if row.case.has_agent { goals(direct, agent) } else { Vec::new() };
            values.push(to_json(plan, row, &goals));
            targets.extend(goals);
        }
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
    fs::write(&path, format!("{:#}\n", Value::from(values))).map_err(BenchError::file(&path))?;
    println!("\nwritten: {}", path.display());
    Ok(())
}

fn to_json(plan: &Plan, row: &HopRow, targets: &[Target]) -> Value {
    let mut value = json!({
        "scenario": NAME,
        "program": row.case.program(),
        "connections": row.case.shape.connections,
        "callers": row.case.shape.in_flight,
        "codec": "hessian2",
        "loop": "closed",
        "seconds": plan.seconds.as_secs_f64(),
        "calls_per_s": row.median(|round| round.calls_per_s),
        "p50_ms": row.median(|round| round.p50_ms),
        "p99_ms": row.median(|round| round.p99_ms),
        "p999_ms": row.median(|round| round.p999_ms),
        "errors": row.rounds.iter().map(|round| round.errors).sum::<u64>(),
        "cpu_us_per_call": { "agent": row.median(|round| round.agent_cpu_us) },
        "rss_mb": { "agent": row.median(|round| round.agent_rss_mb) },
        "foreign_cores": row.median(|round| round.foreign_cores),
        "is_quick": plan.is_quick,
        "targets": targets.iter().map(Target::json).collect::<Vec<_>>(),
        "rounds": row.rounds.iter().map(|round| round.calls_per_s).collect::<Vec<_>>(),
    });
    if let (Value::Object(fields), Value::Object(origin)) = (&mut value, machine::origin()) {
        fields.extend(origin);
    }
    value
}
