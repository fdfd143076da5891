//! More calls than providers can take: three Java providers of 20 threads and 50 ms are worth
//! 1,200 calls a second, and are asked for up to five times as many, in an open loop.
//!
//! Pools that reject have no queue, pools that queue have one of 10,000. Both are called through
//! an agent beside each provider, and straight; with limits, and without.

use std::collections::BTreeMap;
use std::time::Duration;

use interop_harness::{DubboVersion, Etcd, JavaProvider, ProviderOptions};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::error::BenchError;
use crate::estate::start_agent;
use crate::floor::Floor;
use crate::http::Client;
use crate::load::{INTERFACE, Style};
use crate::measure::{median, rounded};
use crate::open_load::{OpenLoad, OpenLoadOutcome, percentile_ms};
use crate::picture::{self, Curve, Labels, with_origin};
use crate::plan::Plan;
use crate::target::Target;
use crate::usage;

const NAME: &str = "overload";
const JAVA: DubboVersion = DubboVersion::V3_3;
const N_PROVIDERS: u32 = 3;
const N_THREADS: u32 = 20;
const SLEEP: Duration = Duration::from_millis(50);
/// What the providers can do.
const CAPACITY_PER_S: u32 = 1200;
const LONG_QUEUE: u32 = 10_000;
const DEADLINE: Duration = Duration::from_secs(1);
/// Java's compiler takes cores away for some 20 s.
const WARM_UP: Duration = Duration::from_secs(20);
const WARM_UP_OFFER: u32 = 100;
/// The soak is so many times as long as another measurement.
const SOAK_TIMES: u32 = 6;
/// In percent of what they can do. Half of it comes first, to see how long calls take then, and
/// last, to see whether all is well again.
const OFFERS: [u32; 5] = [50, 120, 200, 500, 50];
const SOAK_OFFER: u32 = 200;

/// Who calls the providers, and what keeps them from too many calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// An agent beside each provider knows what it can take.
    Agents,
    /// The caller's agent alone, which knows it, too.
    Straight,
    /// The same, but it has to find that out.
    FoundOut,
    /// Nothing does.
    NoLimits,
    /// Nor does the balancer look at what providers do.
    RoundRobin,
}

impl Way {
    const ALL: [Self; 5] =
        [Self::Agents, Self::Straight, Self::FoundOut, Self::NoLimits, Self::RoundRobin];

    fn name(self) -> &'static str {
        match self {
            Self::Agents => "agents on both sides",
            Self::Straight => "straight, threads registered",
            Self::FoundOut => "straight, found out",
            Self::NoLimits => "straight, no limits",
            Self::RoundRobin => "straight, no limits, round robin",
        }
    }

    /// Of the caller's agent.
    fn defaults(self) -> &'static str {
        match self {
            Self::Agents | Self::Straight => "",
            Self::FoundOut => "endpoint_capacity = \"auto\"\n",
            Self::NoLimits => "endpoint_capacity = 0\n",
            Self::RoundRobin => "endpoint_capacity = 0\nbalance = \"round-robin\"\n",
        }
    }

    /// Which part of the capacity has to be answered, if any.
    fn least(self) -> Option<f64> {
        match self {
            Self::Agents => Some(0.95),
            Self::Straight | Self::FoundOut => Some(0.9),
            Self::NoLimits | Self::RoundRobin => None,
        }
    }
}

/// One row: what one way makes of one offer.
struct OverloadRow {
    way: Way,
    queues: u32,
    /// In percent of what the providers can do.
    offer: u32,
    /// Whether it came after an overload.
    is_after: bool,
    is_soak: bool,
    rounds: Vec<Measured>,
}

struct Measured {
    outcome: OpenLoadOutcome,
    /// What callers of a server saw meanwhile that refuses each call at once.
    floor: OpenLoadOutcome,
    n_rejected: f64,
    duration: Duration,
    rss_mb: BTreeMap<&'static str, [f64; 2]>,
}

impl Measured {
    fn goodput(&self) -> f64 {
        self.outcome.answered.len() as f64 / self.duration.as_secs_f64()
    }
}

impl OverloadRow {
    fn median(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    fn pools(&self) -> &'static str {
        verb(self.queues)
    }

    fn p99_ms(&self) -> f64 {
        self.median(|it| percentile_ms(&it.outcome.answered, 0.99))
    }

    fn shed_p99_ms(&self) -> f64 {
        self.median(|it| percentile_ms(&it.outcome.shed, 0.99))
    }

    fn floor_p99_ms(&self) -> f64 {
        self.median(|it| percentile_ms(&it.floor.shed, 0.99))
    }
}

pub(crate) fn run(plan: &Plan) -> Result<(), BenchError> {
    let mut rows: Vec<OverloadRow> = Vec::new();
    for n_round in 1..=plan.n_rounds {
        let mut at = 0;
        for (way, queues) in subjects(plan) {
            let estate = Estate::start(plan, way, queues)?;
            estate.measure(WARM_UP_OFFER, WARM_UP.min(plan.seconds * 3))?;
            for (nth, &(offer, is_soak)) in offers(plan, way).iter().enumerate() {
                let duration = if is_soak { plan.seconds * SOAK_TIMES } else { plan.seconds };
                let measured = estate.measure(offer, duration)?;
                if rows.len() == at {
                    let (is_after, rounds) = (nth == OFFERS.len() - 1, Vec::new());
                    rows.push(OverloadRow { way, queues, offer, is_after, is_soak, rounds });
                }
                let row = &mut rows[at];
                at += 1;
                eprintln!(
                    "{NAME} {n_round}/{}: {}, pools that {}, {offer}%: {:.0}/s",
                    plan.n_rounds,
                    way.name(),
                    row.pools(),
                    measured.goodput()
                );
                row.rounds.push(measured);
            }
        }
    }
    report(plan, &rows)
}

fn subjects(plan: &Plan) -> Vec<(Way, u32)> {
    if plan.is_quick {
        return vec![(Way::Agents, LONG_QUEUE)];
    }
    let all = Way::ALL.iter().flat_map(|way| [(*way, 0), (*way, LONG_QUEUE)]);
    all.filter(|(way, queues)| plan.wants(&subject_name(*way, *queues))).collect()
}

fn subject_name(way: Way, queues: u32) -> String {
    format!("{}, pools that {}", way.name(), verb(queues))
}

/// What pools with so long a queue do when all of their threads work.
fn verb(queues: u32) -> &'static str {
    if queues == 0 { "reject" } else { "queue" }
}

/// With whether it is the soak.
fn offers(plan: &Plan, way: Way) -> Vec<(u32, bool)> {
    if plan.is_quick {
        return vec![(50, false), (200, false)];
    }
    let soak = (way == Way::Agents).then_some((SOAK_OFFER, true));
    OFFERS.iter().map(|offer| (*offer, false)).chain(soak).collect()
}

/// The providers, and the agents that call them.
struct Estate {
    way: Way,
    consumer: Agent,
    provider_agents: Vec<Agent>,
    request: Vec<u8>,
    floor: Floor,
    _etcd: Etcd,
    _providers: Vec<JavaProvider>,
}

impl Estate {
    fn start(plan: &Plan, way: Way, queues: u32) -> Result<Self, BenchError> {
        let etcd = Etcd::start()?;
        let registry =
            format!("[[registry]]\nkind = \"etcd\"\nendpoints = [\"{}\"]\n", etcd.client_url());
        let jvm_args = ["-XX:TieredStopAtLevel=4", "-Xmx256m"].map(Into::into).to_vec();
        let (mut providers, mut provider_agents, mut urls) = (Vec::new(), Vec::new(), Vec::new());
        for number in 1..=N_PROVIDERS {
            let options = ProviderOptions {
                threads: N_THREADS,
                queues,
                hash_sleep: SLEEP,
                jvm_args: jvm_args.clone(),
                ..ProviderOptions::default()
            };
            let provider = JavaProvider::start(JAVA, options)?;
            if way == Way::Agents {
                provider_agents.push(start_agent(plan, &format!("provider-{number}"), |ports| {
                    format!(
                        "{registry}[link]\nlisten = \"127.0.0.1:{}\"\n[[export]]\n\
                         interface = \"{INTERFACE}\"\napp = \"dubbo://{}\"\n\
                         capacity = {N_THREADS}\n",
                        ports.link,
                        provider.addr()
                    )
                })?);
            }
            let threads = match way {
                Way::Straight => format!("?threads={N_THREADS}"),
                _ => String::new(),
            };
            urls.push(format!("\"dubbo://{}{threads}\"", provider.addr()));
            providers.push(provider);
        }
        let dir = tempfile::TempDir::with_prefix("bench-");
        let dir = dir.map_err(BenchError::io("a temporary folder"))?;
        let list = dir.path().join("services.toml");
        crate::estate::write_services(&list, &urls.join(", "))?;
        let file = format!("[[registry]]\nkind = \"file\"\npath = \"{}\"\n", list.display());
        let consumer = start_agent(plan, "consumer", |ports| {
            let registry = if way == Way::Agents { &registry } else { &file };
            format!(
                "{registry}[[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:{}\"\n\
                 [defaults]\n{}",
                ports.http,
                way.defaults()
            )
        })?;
        let estate = Self {
            way,
            request: Style::Form.request("hello", DEADLINE),
            floor: Floor::start()?,
            consumer,
            provider_agents,
            _etcd: etcd,
            _providers: providers,
        };
        estate.wait_for_first_answer()?;
        Ok(estate)
    }

    fn wait_for_first_answer(&self) -> Result<(), BenchError> {
        let addr = self.consumer.addr(self.consumer.ports.http);
        crate::estate::wait_for_first_answer(self.way.name(), addr, Style::Form)
    }

    fn measure(&self, offer: u32, duration: Duration) -> Result<Measured, BenchError> {
        let rejected_before = self.n_rejected()?;
        let memory_before = self.memory();
        let (outcome, floor) = self.floor.run_beside(&OpenLoad {
            addr: self.consumer.addr(self.consumer.ports.http),
            request: &self.request,
            per_s: per_s(offer),
            duration,
            deadline: DEADLINE,
        })?;
        let n_rejected = self.n_rejected()? - rejected_before;
        let memory = self.memory().into_iter();
        let rss_mb =
            memory.zip(memory_before).map(|((name, after), (_, before))| (name, [before, after]));
        Ok(Measured { outcome, floor, n_rejected, duration, rss_mb: rss_mb.collect() })
    }

    fn memory(&self) -> Vec<(&'static str, f64)> {
        let mut memory = vec![("consumer-agent", usage::rss_mb(self.consumer.child.pid()))];
        let agents = self.provider_agents.iter().map(|agent| usage::rss_mb(agent.child.pid()));
        memory.extend(agents.reduce(f64::max).map(|most| ("provider-agents", most)));
        memory
    }

    /// How many calls the providers' pools have rejected, as whoever called them counts it.
    fn n_rejected(&self) -> Result<f64, BenchError> {
        let mut n_rejected = 0.0;
        let callers = match self.provider_agents.as_slice() {
            [] => std::slice::from_ref(&self.consumer),
            agents => agents,
        };
        for agent in callers {
            let failed = BenchError::io("an agent's metrics");
            let answer = Client::connect(agent.addr(agent.ports.admin))
                .and_then(|mut admin| admin.request("GET /metrics HTTP/1.1", ""))
                .map_err(failed)?;
            let samples = answer.body.lines().filter(|line| {
                line.starts_with("dubmesh_upstream_calls_total{")
                    || line.starts_with("dubmesh_export_calls_total{")
            });
            n_rejected += samples
                .filter(|line| line.contains("code=\"thread_pool_exhausted\""))
                .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
                .sum::<f64>();
        }
        Ok(n_rejected)
    }
}

/// What so many percent are.
fn per_s(offer: u32) -> u32 {
    offer * CAPACITY_PER_S / 100
}

fn targets(rows: &[OverloadRow], row: &OverloadRow) -> Vec<Target> {
    let Some(least) = row.way.least() else { return Vec::new() };
    let mut targets = Vec::new();
    let offered = f64::from(per_s(row.offer));
    if row.is_after {
        let first = row.median(|it| it.outcome.good_by_second.get(&0).map_or(0.0, |n| *n as f64));
        targets.push(Target::at_least("in the first second", first, offered * 0.95, "/s"));
    }
    let wanted = least * offered.min(f64::from(CAPACITY_PER_S));
    targets.push(Target::at_least("goodput", row.median(Measured::goodput), wanted, "/s"));
    if row.way == Way::FoundOut {
        return targets;
    }
    let n_rejected = row.median(|it| it.n_rejected);
    targets.push(Target::at_most("rejections", n_rejected, 0.0, ""));
    let is_base =
        |it: &&OverloadRow| it.way == row.way && it.queues == row.queues && it.offer < 100;
    if let Some(base) = rows.iter().find(is_base)
        && 100 < row.offer
    {
        targets.push(Target::at_most("p99", row.p99_ms(), 2.0 * base.p99_ms(), " ms"));
        targets.push(Target::at_most("p99 of those shed", row.shed_p99_ms(), 1.0, " ms"));
    }
    targets
}

fn report(plan: &Plan, rows: &[OverloadRow]) -> Result<(), BenchError> {
    println!(
        "\n{NAME}: {N_PROVIDERS} Java providers x {N_THREADS} threads x {} ms = {CAPACITY_PER_S}/s, \
         deadline {} ms; open loop, {} x {} s, medians",
        SLEEP.as_millis(),
        DEADLINE.as_millis(),
        plan.n_rounds,
        plan.seconds.as_secs()
    );
    println!(
        "{:<33} {:<7} {:>9} {:>7} {:>8} {:>8} {:>7} {:>8} {:>7} {:>8} {:>8}",
        "way",
        "pools",
        "offered/s",
        "good/s",
        "p99 ms",
        "shed/s",
        "p99 ms",
        "floor ms",
        "failed",
        "rejected",
        "RSS MB"
    );
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    for row in rows {
        let shed = |it: &Measured| it.outcome.shed.len() as f64 / it.duration.as_secs_f64();
        let name = match (row.is_soak, row.is_after) {
            (true, _) => format!("{}, soak", row.way.name()),
            (_, true) => format!("{}, after", row.way.name()),
            _ => row.way.name().to_owned(),
        };
        println!(
            "{name:<33} {:<7} {:>9} {:>7.0} {:>8.1} {:>8.0} {:>7.2} {:>8.2} {:>7.0} {:>8.0} \
             {:>8.1}",
            row.pools(),
            per_s(row.offer),
            row.median(Measured::goodput),
            row.p99_ms(),
            row.median(shed),
            row.shed_p99_ms(),
            row.floor_p99_ms(),
            row.median(|it| it.outcome.n_failed() as f64),
            row.median(|it| it.n_rejected),
            row.median(|it| it.rss_mb.values().map(|[_, after]| *after).fold(0.0, f64::max)),
        );
        let targets = targets(rows, row);
        let label = format!("{name}, pools that {}, {}%", row.pools(), row.offer);
        lines.extend(targets.iter().map(|target| format!("{label}: {}", target.line())));
        values.push(to_json(plan, row, &targets));
    }
    println!("\n{}", lines.join("\n"));
    let labels = Labels {
        title: "What is answered in time of what is offered",
        x: "offered, calls/s (dashed: what the providers can do)",
        y: "answered, calls/s",
    };
    picture::write(plan, NAME, values, labels, &curves(rows))
}

fn curves(rows: &[OverloadRow]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows.iter().filter(|row| !row.is_after && !row.is_soak) {
        let name = format!("{}; {}", row.way.name(), row.pools());
        let point = (per_s(row.offer), row.median(Measured::goodput));
        picture::curve(&mut curves, name).points.push(point);
    }
    if let Some(first) = curves.first_mut() {
        first.level = Some(f64::from(CAPACITY_PER_S));
    }
    curves
}

fn to_json(plan: &Plan, row: &OverloadRow, targets: &[Target]) -> Value {
    let mut rss_mb = json!({});
    for round in &row.rounds {
        for (name, [before, after]) in &round.rss_mb {
            rss_mb[*name] = json!({ "before": rounded(*before), "after": rounded(*after) });
        }
    }
    let figure = |figure: fn(&Measured) -> f64| rounded(row.median(figure));
    with_origin(json!({
        "scenario": NAME,
        "program": row.way.name(),
        "pools": row.pools(),
        "queues": row.queues,
        "offered_per_s": per_s(row.offer),
        "is_after": row.is_after,
        "is_soak": row.is_soak,
        "codec": "hessian2",
        "loop": "open",
        "seconds": row.median(|it| it.duration.as_secs_f64()),
        "calls_per_s": figure(Measured::goodput),
        "p50_ms": figure(|it| percentile_ms(&it.outcome.answered, 0.5)),
        "p99_ms": rounded(row.p99_ms()),
        "p999_ms": figure(|it| percentile_ms(&it.outcome.answered, 0.999)),
        "shed": figure(|it| it.outcome.shed.len() as f64),
        "shed_p50_ms": figure(|it| percentile_ms(&it.outcome.shed, 0.5)),
        "shed_p99_ms": rounded(row.shed_p99_ms()),
        "floor_p99_ms": rounded(row.floor_p99_ms()),
        "errors": figure(|it| it.outcome.n_failed() as f64),
        "late": figure(|it| it.outcome.n_late as f64),
        "rejected": figure(|it| it.n_rejected),
        "good_by_second": row.rounds.iter().map(|it| &it.outcome.good_by_second).collect::<Vec<_>>(),
        "failed_by_status": row.rounds.iter().map(|it| &it.outcome.failed).collect::<Vec<_>>(),
        "rss_mb": rss_mb,
        "is_quick": plan.is_quick,
        "targets": targets.iter().map(Target::json).collect::<Vec<_>>(),
    }))
}
