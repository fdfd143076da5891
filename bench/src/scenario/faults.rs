//! Faults under a steady load: what happens to calls when one of three providers, its agent, the
//! way to it, or the registry is hurt; and when all are restarted, one after the other.
//!
//! Two agents call, each 1,000 times a second in an open loop: one takes its methods as they are,
//! for the other one they are idempotent. A fault begins after a fifth of the time, and ends after
//! three fifths.

mod estate;
mod fault;

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::estate::{Estate, N_PROVIDERS, Peers, SLEEP, Way};
use self::fault::Fault;
use crate::error::BenchError;
use crate::load::Style;
use crate::measure::{median, rounded};
use crate::open_load::{self, End, OpenLoad, percentile_ms};
use crate::picture::{self, Curve, Labels, with_origin};
use crate::plan::Plan;
use crate::target::Target;

const NAME: &str = "faults";
const PER_S: u32 = 1000;
const DEADLINE: Duration = Duration::from_secs(1);
const WARM_UP: Duration = Duration::from_secs(2);
const JAVA_WARM_UP: Duration = Duration::from_secs(6);
/// A virtual machine is back 4 s after its start, and three of them take 16 s to stop and to start
/// again, one after the other.
const JAVA_FAULT: Duration = Duration::from_secs(15);
const JAVA_ROLLING: Duration = Duration::from_secs(40);
/// Calls of so long a time are a point in the picture.
const POINT: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Case {
    way: Way,
    peers: Peers,
    fault: Fault,
}

struct FaultsRow {
    case: Case,
    rounds: Vec<Measured>,
}

/// What one round saw.
struct Measured {
    begin: Duration,
    end: Duration,
    plain: Vec<End>,
    idempotent: Vec<End>,
}

impl Case {
    fn all(plan: &Plan) -> Vec<Self> {
        if plan.is_quick {
            let (way, peers, fault) = (Way::Agents, Peers::Embedded, Fault::ProviderStopped);
            return vec![Self { way, peers, fault }];
        }
        let java = [Fault::ProviderKilled, Fault::ProviderStopped, Fault::Rolling];
        let mut cases = Vec::new();
        for peers in [Peers::Embedded, Peers::Java] {
            for way in [Way::Agents, Way::Straight] {
                let faults = Fault::ALL.into_iter().filter(|it| it.happens(way));
                let faults = faults.filter(|it| peers == Peers::Embedded || java.contains(it));
                cases.extend(faults.map(|fault| Self { way, peers, fault }));
            }
        }
        cases.retain(|case| plan.wants(&format!("{}, {}", case.subject(), case.fault.name())));
        cases
    }

    fn subject(self) -> &'static str {
        match (self.way, self.peers) {
            (Way::Agents, Peers::Embedded) => "agents",
            (Way::Straight, Peers::Embedded) => "straight",
            (Way::Agents, Peers::Java) => "agents, Java",
            (Way::Straight, Peers::Java) => "straight, Java",
        }
    }

    fn measure(self, plan: &Plan) -> Result<Measured, BenchError> {
        let Self { way, peers, fault } = self;
        let mut estate = Estate::start(plan, way, peers, fault.is_of_network())?;
        let consumers: Vec<SocketAddr> = estate.consumers().collect();
        let warm_up = if peers == Peers::Java { JAVA_WARM_UP } else { WARM_UP };
        for addr in &consumers {
            load(*addr, warm_up)?;
        }
        let duration = plan.seconds.max(match (peers, fault) {
            (Peers::Java, Fault::Rolling) => JAVA_ROLLING,
            (Peers::Java, _) => JAVA_FAULT,
            (Peers::Embedded, _) => WARM_UP,
        });
        let started = Instant::now();
        let loads: Vec<_> =
            consumers.into_iter().map(|addr| thread::spawn(move || load(addr, duration))).collect();
        let wait = |until: Duration| thread::sleep(until.saturating_sub(started.elapsed()));
        wait(duration / 5);
        let begin = started.elapsed();
        fault.begin(&mut estate)?;
        wait(duration * 3 / 5);
        let end = started.elapsed();
        fault.end(&mut estate)?;
        if duration <= started.elapsed() {
            let output = format!("{} took longer than the load", fault.name());
            return Err(BenchError::NoResult { output });
        }
        let mut ends = loads.into_iter().map(|it| {
            it.join().unwrap_or_else(|_| Err(BenchError::NoResult { output: "a panic".into() }))
        });
        let mut next = || ends.next().unwrap_or_else(|| Ok(Vec::new()));
        Ok(Measured { begin, end, plain: next()?, idempotent: next()? })
    }
}

fn load(addr: SocketAddr, duration: Duration) -> Result<Vec<End>, BenchError> {
    let request = Style::Form.request("hello", DEADLINE);
    let (per_s, deadline) = (PER_S, DEADLINE);
    let load = OpenLoad { addr, request: &request, per_s, duration, deadline };
    Ok(open_load::run(&load)?.ends)
}

impl Measured {
    fn n_failed(ends: &[End]) -> f64 {
        ends.iter().filter(|it| !it.is_good).count() as f64
    }

    /// From the beginning of the fault until the last call was due that failed, before it ended.
    fn healthy_s(&self) -> f64 {
        let failed = self.plain.iter().filter(|it| !it.is_good && it.due < self.end);
        let last = failed.map(|it| it.due).max().unwrap_or_default();
        last.saturating_sub(self.begin).as_secs_f64()
    }

    /// Before, during and after the fault.
    fn phases(&self) -> [(Duration, Duration); 3] {
        let (begin, end) = (self.begin, self.end);
        [(Duration::ZERO, begin), (begin, end), (end, Duration::MAX)]
    }

    fn percentiles(&self, share: f64) -> [f64; 3] {
        self.phases().map(|(from, to)| {
            let good = self.plain.iter().filter(|it| it.is_good && from <= it.due && it.due < to);
            percentile_ms(&good.map(|it| it.time).collect::<Vec<_>>(), share)
        })
    }

    fn failed_by_status(&self) -> Value {
        let mut counts = json!({});
        for end in self.plain.iter().filter(|it| !it.is_good) {
            let count = &mut counts[end.status.to_string()];
            *count = json!(count.as_u64().unwrap_or(0) + 1);
        }
        counts
    }
}

impl FaultsRow {
    fn median(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    fn n_failed(&self) -> f64 {
        self.median(|it| Measured::n_failed(&it.plain))
    }

    fn n_failed_idempotent(&self) -> f64 {
        self.median(|it| Measured::n_failed(&it.idempotent))
    }

    fn percentiles(&self, share: f64) -> [f64; 3] {
        [0, 1, 2].map(|phase| self.median(|it| it.percentiles(share)[phase]))
    }

    fn targets(&self) -> Vec<Target> {
        let bounds = self.case.fault.bounds();
        let (most, most_idempotent) = (bounds.n_failed, bounds.n_failed_idempotent);
        let mut targets = vec![
            Target::at_most("failed", self.n_failed(), most, ""),
            Target::at_most("failed, idempotent", self.n_failed_idempotent(), most_idempotent, ""),
        ];
        if let Some(most) = bounds.healthy_s {
            let healthy_s = self.median(Measured::healthy_s);
            targets.push(Target::at_most("until no call fails", healthy_s, most, " s"));
        }
        if let Some(most) = bounds.p90_ms {
            targets.push(Target::at_most("p90 meanwhile", self.percentiles(0.9)[1], most, " ms"));
        }
        targets
    }
}

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let mut rows: Vec<FaultsRow> =
        Case::all(plan).into_iter().map(|case| FaultsRow { case, rounds: Vec::new() }).collect();
    for n_round in 1..=plan.n_rounds {
        for row in &mut rows {
            let measured = row.case.measure(plan)?;
            eprintln!(
                "{NAME} {n_round}/{}: {}, {}: {} failed, {} idempotent",
                plan.n_rounds,
                row.case.subject(),
                row.case.fault.name(),
                Measured::n_failed(&measured.plain),
                Measured::n_failed(&measured.idempotent)
            );
            row.rounds.push(measured);
        }
    }
    report(plan, &rows)
}

fn report(plan: &Plan, rows: &[FaultsRow]) -> Result<(), BenchError> {
    println!(
        "\n{NAME}: {N_PROVIDERS} providers x {} ms, 2 callers x {PER_S}/s, deadline {} ms; \
         open loop, {} x {} s, medians",
        SLEEP.as_millis(),
        DEADLINE.as_millis(),
        plan.n_rounds,
        plan.seconds.as_secs()
    );
    println!(
        "{:<15} {:<28} {:>7} {:>11} {:>10} {:>24}",
        "way", "fault of one", "failed", "idempotent", "healthy s", "p99 ms before/then/after"
    );
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    for row in rows {
        let (subject, fault) = (row.case.subject(), row.case.fault.name());
        let [before, meanwhile, after] = row.percentiles(0.99);
        println!(
            "{subject:<15} {fault:<28} {:>7.0} {:>11.0} {:>10.2} {:>8.1} {:>7.1} {:>7.1}",
            row.n_failed(),
            row.n_failed_idempotent(),
            row.median(Measured::healthy_s),
            before,
            meanwhile,
            after
        );
        let targets = row.targets();
        lines.extend(targets.iter().map(|it| format!("{subject}, {fault}: {}", it.line())));
        values.push(to_json(plan, row, &targets));
    }
    println!("\n{}", lines.join("\n"));
    let labels = Labels {
        title: "Calls that fail, of 100 in a tenth of a second; agents on both sides",
        x: "time, tenths of a second",
        y: "failed calls",
    };
    picture::write(plan, NAME, values, labels, &curves(rows))
}

/// The last round of each fault, where agents are on both sides of embedded providers.
fn curves(rows: &[FaultsRow]) -> Vec<Curve> {
    let is_drawn =
        |row: &&FaultsRow| (row.case.way, row.case.peers) == (Way::Agents, Peers::Embedded);
    let curve = |row: &FaultsRow| {
        let ends = row.rounds.last().map_or(&[][..], |it| &it.plain);
        let mut counts: Vec<f64> = Vec::new();
        for end in ends {
            let at = (end.due.as_millis() / POINT.as_millis()) as usize;
            counts.resize(counts.len().max(at + 1), 0.0);
            counts[at] += f64::from(u8::from(!end.is_good));
        }
        let name = row.case.fault.name().to_owned();
        Curve { name, points: (0..).zip(counts).collect(), level: None }
    };
    rows.iter().filter(is_drawn).map(curve).collect()
}

fn to_json(plan: &Plan, row: &FaultsRow, targets: &[Target]) -> Value {
    let phases = |share| {
        let [before, meanwhile, after] = row.percentiles(share).map(rounded);
        json!({ "before": before, "during": meanwhile, "after": after })
    };
    let seconds = |time: Duration| rounded(time.as_secs_f64());
    let rounds = row.rounds.iter().map(|it| {
        json!({
            "begin_s": seconds(it.begin),
            "end_s": seconds(it.end),
            "failed": Measured::n_failed(&it.plain),
            "failed_idempotent": Measured::n_failed(&it.idempotent),
            "healthy_s": rounded(it.healthy_s()),
            "failed_by_status": it.failed_by_status(),
        })
    });
    with_origin(json!({
        "scenario": NAME,
        "program": row.case.subject(),
        "fault": row.case.fault.name(),
        "codec": "hessian2",
        "loop": "open",
        "offered_per_s": 2 * PER_S,
        "seconds": plan.seconds.as_secs(),
        "failed": row.n_failed(),
        "failed_idempotent": row.n_failed_idempotent(),
        "healthy_s": rounded(row.median(Measured::healthy_s)),
        "p90_ms": phases(0.9),
        "p99_ms": phases(0.99),
        "rounds": rounds.collect::<Vec<_>>(),
        "is_quick": plan.is_quick,
        "targets": targets.iter().map(Target::json).collect::<Vec<_>>(),
    }))
}
