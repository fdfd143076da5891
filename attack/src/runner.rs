//! One attack after the other: a fresh estate, the callers undisturbed, the callers beside the
//! attack, the verdict.

use std::env;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use bench::target::Target;
use bench::usage;
use interop_harness::Child;
use serde_json::{Map, Value};

use crate::attacks::{Attack, Incident};
use crate::callers::{self, Call, Caller, Kind, Signals};
use crate::error::AttackError;
use crate::estate::{Estate, Outage};
use crate::peer::count;
use crate::plan::Plan;

/// The limits that hold for every attack.
const MAX_RSS_MB: f64 = 256.0;
/// What may be left some seconds after the last hostile connection has gone.
const MAX_RSS_AFTER_MB: f64 = 100.0;
const MAX_P99_RATIO: f64 = 10.0;
const MAX_LOG_MB_PER_MINUTE: f64 = 1.0;

const FIRST_ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// The first calls, which look up and connect, are not judged.
const WARM_UP: Duration = Duration::from_millis(500);
/// How long callers are watched undisturbed.
const MAX_UNDISTURBED: Duration = Duration::from_secs(5);
const MIN_UNDISTURBED: Duration = Duration::from_secs(2);
/// Callers are watched so long beyond the attack's end: to drop all that was held takes time, too.
const AFTERMATH: Duration = Duration::from_secs(1);
/// Memory is looked at again so long after the aftermath.
const SETTLE_TIME: Duration = Duration::from_secs(4);
/// The hostile peer ends by itself; this is for one that hangs.
const PEER_GRACE: Duration = Duration::from_secs(20);
/// Calls that fail while the provider is away, and until it is called again, are not the agent's
/// failures; after this time they are.
const MAX_OUTAGE_AFTER_START: Duration = Duration::from_secs(2);
/// The hostile peer gives way to the others: in earnest it would have machines of its own.
const NICENESS: &str = "10";
/// So many failures are told in full.
const N_TOLD: usize = 3;

/// What was seen of an attack.
pub(crate) struct Seen {
    pub(crate) rss_before_mb: f64,
    pub(crate) rss_peak_mb: f64,
    pub(crate) rss_after_mb: f64,
    /// Cores that the agent kept busy during the attack, on average.
    pub(crate) cores: f64,
    pub(crate) log_len: u64,
    /// From the attack's start until memory was looked at last.
    pub(crate) log_time: Duration,
    /// By kind of caller.
    pub(crate) calls: Vec<Calls>,
    /// What they would have noticed of a server that echoes, on this machine at this time.
    pub(crate) floor: Calls,
    /// What the hostile peer says that it did.
    pub(crate) tally: Map<String, Value>,
    /// Connections that callers keep to the attacked listener.
    pub(crate) n_caller_connections: f64,
    /// From the provider's return until the first call that succeeded.
    pub(crate) recovery_s: Option<f64>,
    /// Whether the agent's process has ended.
    pub(crate) has_ended: bool,
    /// Cores that other programs kept busy before the attack, on average.
    pub(crate) foreign_cores: f64,
}

/// What callers of one kind noticed.
pub(crate) struct Calls {
    pub(crate) kind: Kind,
    pub(crate) n_calls: usize,
    pub(crate) n_failed: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
    pub(crate) undisturbed_p99_ms: f64,
    /// The first failures.
    pub(crate) problems: Vec<String>,
}

/// One attack with its verdict.
pub(crate) struct Row {
    pub(crate) attack: &'static Attack,
    pub(crate) seen: Seen,
    pub(crate) targets: Vec<Target>,
}

impl Seen {
    /// How often the peer says it did something.
    pub(crate) fn count(&self, name: &str) -> f64 {
        self.tally.get(name).and_then(Value::as_f64).unwrap_or_default()
    }

    pub(crate) fn log_mb_per_minute(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let mb = self.log_len as f64 / 1e6;
        mb / self.log_time.as_secs_f64() * 60.0
    }
}

impl Calls {
    /// Those of a kind that began in the given time.
    fn of<'a>(kind: Kind, before: &[&Call], calls: impl Iterator<Item = &'a Call>) -> Self {
        let calls: Vec<&Call> = calls.filter(|call| call.kind == kind).collect();
        let problems = || calls.iter().filter_map(|call| call.problem.as_ref());
        let before: Vec<&Call> = before.iter().copied().filter(|call| call.kind == kind).collect();
        let latency = latency_ms(&calls);
        Self {
            kind,
            n_calls: calls.len(),
            n_failed: problems().count(),
            p50_ms: latency(0.5),
            p99_ms: latency(0.99),
            max_ms: latency(1.0),
            undisturbed_p99_ms: latency_ms(&before)(0.99),
            problems: problems().take(N_TOLD).cloned().collect(),
        }
    }

    /// How many times as long as undisturbed; a first call has nothing to compare with.
    pub(crate) fn p99_ratio(&self) -> Option<f64> {
        (self.undisturbed_p99_ms != 0.0).then(|| self.p99_ms / self.undisturbed_p99_ms)
    }
}

/// The latency below which a share of the calls is; those that failed count with the time they
/// took.
fn latency_ms(calls: &[&Call]) -> impl Fn(f64) -> f64 {
    let mut sorted: Vec<f64> = calls.iter().map(|call| call.latency.as_secs_f64() * 1e3).collect();
    sorted.sort_by(f64::total_cmp);
    move |share| {
        #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "thousands")]
        #[expect(clippy::cast_possible_truncation, reason = "thousands")]
        let nth = (sorted.len() as f64 * share).ceil() as usize;
        sorted.get(nth.saturating_sub(1)).copied().unwrap_or_default()
    }
}

impl Row {
    pub(crate) fn is_good(&self) -> bool {
        self.targets.iter().all(Target::is_met)
    }
}

/// What came of all attacks.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) made: Vec<Row>,
    /// How many could not be made. The reasons were told.
    pub(crate) n_not_made: usize,
}

/// Makes all attacks of the plan. One that cannot be made does not keep the others from being
/// told.
pub(crate) fn run(plan: &Plan) -> Rows {
    let mut rows = Rows::default();
    for attack in &plan.attacks {
        eprintln!("{}: {}", attack.name, attack.about);
        let seen = match Stage::start(plan, attack).and_then(Stage::run) {
            Ok(seen) => seen,
            Err(error) => {
                eprintln!("    not made: {error}");
                rows.n_not_made += 1;
                continue;
            }
        };
        let targets = targets(attack, &seen);
        for target in targets.iter().filter(|target| !target.is_met()) {
            eprintln!("    {}", target.line());
        }
        rows.made.push(Row { attack, seen, targets });
    }
    rows
}

fn targets(attack: &Attack, seen: &Seen) -> Vec<Target> {
    let mut targets = vec![
        Target::at_most("memory", seen.rss_peak_mb, MAX_RSS_MB, " MB"),
        Target::at_most("memory afterwards", seen.rss_after_mb, MAX_RSS_AFTER_MB, " MB"),
        Target::at_most("log", seen.log_mb_per_minute(), MAX_LOG_MB_PER_MINUTE, " MB a minute"),
        Target::at_most("ended agents", f64::from(u8::from(seen.has_ended)), 0.0, ""),
    ];
    for calls in &seen.calls {
        let name = calls.kind.name();
        if let Some(ratio) = calls.p99_ratio() {
            let what = format!("p99 against undisturbed, {name}");
            targets.push(Target::at_most(&what, ratio, MAX_P99_RATIO, " x"));
        }
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        let n_failed = calls.n_failed as f64;
        targets.push(Target::at_most(&format!("failed calls, {name}"), n_failed, 0.0, ""));
    }
    targets.extend((attack.goals)(seen));
    targets
}

/// An attack that is being made.
struct Stage<'a> {
    plan: &'a Plan,
    attack: &'static Attack,
    estate: Estate,
}

/// Moments of a run.
struct Times {
    undisturbed: Instant,
    attack: Instant,
    end: Instant,
    /// When the provider was not there.
    outage: Option<Outage>,
}

impl<'a> Stage<'a> {
    fn start(plan: &'a Plan, attack: &'static Attack) -> Result<Self, AttackError> {
        let estate = Estate::start(&plan.dubmesh, &attack.scene)?;
        callers::wait_until_answered(attack.callers, estate.addresses(), FIRST_ANSWER_TIMEOUT)
            .map_err(|problem| AttackError::NoAnswer { attack: attack.name, problem })?;
        Ok(Self { plan, attack, estate })
    }

    fn run(mut self) -> Result<Seen, AttackError> {
        let (signals, addresses) = (Signals::default(), self.estate.addresses());
        let pid = self.estate.attacked.child.pid();
        let before = (usage::rss_mb(pid), self.estate.attacked.child.output_len());
        let (beside, calls) = thread::scope(|scope| {
            let callers = [self.attack.callers, &[Caller::FLOOR]].concat();
            let threads = callers::start(scope, &callers, addresses, &signals);
            let beside = self.make(&signals);
            signals.stop.store(true, Ordering::Relaxed);
            let calls = threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default());
            (beside, calls.collect::<Vec<Call>>())
        });
        let Beside { times, tally, cores, foreign_cores } = beside?;
        if tally.get(count::CONNECTIONS).is_none_or(|n| *n == 0) {
            return Err(AttackError::NotReached { attack: self.attack.name });
        }
        thread::sleep(SETTLE_TIME);
        let attacked = &mut self.estate.attacked.child;
        let (rss_peak_mb, rss_after_mb) = (usage::peak_rss_mb(pid), usage::rss_mb(pid));
        let door = self.attack.door;
        let own = self.attack.callers.iter().filter(|caller| caller.kind.door() == Some(door));
        Ok(Seen {
            rss_before_mb: before.0,
            rss_peak_mb,
            rss_after_mb,
            cores,
            log_len: attacked.output_len() - before.1,
            log_time: times.attack.elapsed(),
            calls: self
                .attack
                .callers
                .iter()
                .map(|caller| times.judge(caller.kind, &calls))
                .collect(),
            floor: times.judge(Kind::Floor, &calls),
            tally,
            n_caller_connections: own.map(|caller| f64::from(caller.n_threads)).sum(),
            recovery_s: times.recovery_s(&calls),
            has_ended: attacked.try_wait().is_some(),
            foreign_cores,
        })
    }

    /// Lets the callers run undisturbed, then makes the attack beside them.
    fn make(&mut self, signals: &Signals) -> Result<Beside, AttackError> {
        thread::sleep(WARM_UP);
        let (undisturbed, others) = (Instant::now(), self.foreign_cpu());
        thread::sleep((self.plan.time / 2).clamp(MIN_UNDISTURBED, MAX_UNDISTURBED));
        let foreign_cores =
            (self.foreign_cpu() - others).max(0.0) / undisturbed.elapsed().as_secs_f64();
        let pid = self.estate.attacked.child.pid();
        let (cpu, attack) = (usage::cpu(pid), Instant::now());
        let mut peer = self.start_peer()?;
        let outage = match self.attack.incident {
            None => None,
            Some(Incident::ProviderRestart) => {
                thread::sleep(self.plan.time / 4);
                Some(self.estate.restart_provider(&self.plan.dubmesh)?)
            }
        };
        thread::sleep((attack + self.plan.time / 2).saturating_duration_since(Instant::now()));
        signals.is_late.store(true, Ordering::Relaxed);
        let printed = peer.finish(self.plan.time + PEER_GRACE)?;
        let cores =
            (usage::cpu(pid).saturating_sub(cpu)).as_secs_f64() / attack.elapsed().as_secs_f64();
        let tally = serde_json::from_str(printed.trim())
            .map_err(|_| AttackError::NoTally { attack: self.attack.name, output: printed })?;
        thread::sleep(AFTERMATH);
        let times = Times { undisturbed, attack, end: Instant::now(), outage };
        Ok(Beside { times, tally, cores, foreign_cores })
    }

    /// CPU seconds of all programs of the machine that are not ours.
    fn foreign_cpu(&self) -> f64 {
        let ours = self.estate.pids().into_iter().chain([std::process::id()]);
        let ours: Duration = ours.map(usage::cpu).sum();
        usage::machine_cpu().used.as_secs_f64() - ours.as_secs_f64()
    }

    fn start_peer(&self) -> Result<Child, AttackError> {
        let this = env::current_exe().map_err(AttackError::io("the path of this program"))?;
        let mut command = Command::new("nice");
        command.args(["-n", NICENESS]).arg(this).args([
            "peer",
            self.attack.name,
            &self.estate.door(self.attack.door).to_string(),
        ]);
        command.arg(self.plan.time.as_secs().to_string()).arg(self.plan.origin.to_string());
        Ok(Child::spawn("the hostile peer", &command)?)
    }
}

/// What happened beside the callers.
struct Beside {
    times: Times,
    tally: Map<String, Value>,
    cores: f64,
    foreign_cores: f64,
}

impl Times {
    /// What callers of a kind noticed; what is due to the provider's absence is left out.
    fn judge(&self, kind: Kind, calls: &[Call]) -> Calls {
        let before =
            calls.iter().filter(|call| (self.undisturbed..self.attack).contains(&call.start));
        let is_excused = |call: &Call| {
            self.outage.is_some_and(|Outage { killed, back }| {
                killed <= call.start + call.latency && call.start <= back + MAX_OUTAGE_AFTER_START
            })
        };
        let beside = calls.iter().filter(|call| (self.attack..self.end).contains(&call.start));
        Calls::of(kind, &before.collect::<Vec<_>>(), beside.filter(|call| !is_excused(call)))
    }

    fn recovery_s(&self, calls: &[Call]) -> Option<f64> {
        let Outage { back, .. } = self.outage?;
        let answered = calls.iter().filter(|call| call.problem.is_none());
        let first = answered.map(|call| call.start + call.latency).filter(|end| back < *end).min();
        first.map(|end| (end - back).as_secs_f64())
    }
}
