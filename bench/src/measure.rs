//! From rounds to rows.
//!
//! Rounds of the cases of a scenario alternate, so that what changes on the machine while it runs
//! touches all of them. A row holds the median of each figure over its rounds.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::check::Check;
use crate::error::BenchError;
use crate::estate::{CONSUMER_AGENT, PROVIDER_AGENTS, PROVIDERS, Subject};
use crate::load::{Shot, Wrk, WrkFigures};
use crate::machine;
use crate::plan::Plan;
use crate::usage::{self, PeakRss, Process};

/// Both kinds of agents together.
pub(crate) const AGENTS: &str = "agents";
/// wrk, in the CPU figures.
const WRK: &str = "wrk";
/// Calls that are compared, one by one, before anything is measured.
const N_CHECKED: usize = 1100;
/// Connections that make them.
const N_CHECKERS: usize = 32;
/// Calls that are compared under full load, and the connections that make them: few enough that
/// they and the load together fit into the providers' thread pools.
const N_CHECKED_LOADED: usize = 300;
const N_CHECKERS_LOADED: usize = 8;
/// Java providers are warm once no step of the last three cost less than this share of the best
/// one before. Three, because one may have been disturbed.
const WARM_RATIO: f64 = 0.93;
const N_STALE_STEPS: usize = 3;
const WARM_UP_STEP: Duration = Duration::from_secs(6);
/// A minute and a half: on a machine that is so busy no figure is worth more waiting.
const MAX_WARM_UP_STEPS: usize = 15;

/// A subject under so many connections.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) n_connections: u32,
}

/// What one measurement showed.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) outcome: WrkFigures,
    /// CPU microseconds per call, by process and wrk.
    pub(crate) cpu_us: BTreeMap<String, f64>,
    /// The same, added up by group.
    pub(crate) group_cpu_us: BTreeMap<String, f64>,
    pub(crate) rss_mb: BTreeMap<String, f64>,
    /// Cores that were busy with what does not belong to the benchmark, on average.
    pub(crate) foreign_cores: f64,
    /// Cores that the host has taken away, on average.
    pub(crate) stolen_cores: f64,
}

/// All rounds of one case.
pub(crate) struct Row<'a> {
    pub(crate) scenario: &'static str,
    pub(crate) case: Case<'a>,
    pub(crate) rounds: Vec<Round>,
}

/// Checks and warms up each subject, then measures all cases, round by round.
pub(crate) fn measure<'a>(
    plan: &Plan,
    scenario: &'static str,
    cases: &[Case<'a>],
) -> Result<Vec<Row<'a>>, BenchError> {
    let wrk = Wrk::new()?;
    let mut warm: Vec<&Subject> = Vec::new();
    for case in cases {
        if !warm.iter().any(|subject| std::ptr::eq(*subject, case.subject)) {
            warm_up(plan, &wrk, case)?;
            warm.push(case.subject);
        }
    }
    let mut rows: Vec<Row<'a>> =
        cases.iter().map(|case| Row { scenario, case: *case, rounds: Vec::new() }).collect();
    for n_round in 1..=plan.n_rounds {
        for row in &mut rows {
            let round = row.case.round(plan, &wrk, scenario, n_round)?;
            eprintln!(
                "{scenario} {n_round}/{}: {}, {} connections: {:.0}/s, p99 {:.2} ms, {} errors",
                plan.n_rounds,
                row.case.subject.program,
                row.case.n_connections,
                round.outcome.calls_per_s,
                round.outcome.p99_ms,
                round.outcome.errors
            );
            row.rounds.push(round);
        }
    }
    Ok(rows)
}

/// Compares answers, first without other load and then under it, while everything gets warm.
fn warm_up(plan: &Plan, wrk: &Wrk, case: &Case<'_>) -> Result<(), BenchError> {
    let Subject { program, addr, style, is_checked, has_java, .. } = *case.subject;
    let (n_calls, n_connections) = (N_CHECKED, N_CHECKERS);
    let alone = Check { program, addr, style, n_calls, n_connections, may_refuse: false };
    let (n_calls, n_connections) = (N_CHECKED_LOADED, N_CHECKERS_LOADED);
    let loaded = Check { n_calls, n_connections, may_refuse: true, ..alone };
    if is_checked {
        alone.run()?;
        eprintln!("{program}: {N_CHECKED} answers were right");
    }
    let (duration, n_connections) = (plan.warm_up(has_java), case.n_connections);
    let shot = Shot { addr, style, n_connections, duration, raw: None };
    thread::scope(|scope| {
        let checks = is_checked.then(|| {
            scope.spawn(|| {
                // By then all connections are up, and nothing is quite cold any more.
                thread::sleep(duration / 2);
                loaded.run()
            })
        });
        wrk.run(&shot, || ())?;
        checks.map_or(Ok(()), |checks| checks.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    if has_java && !plan.is_quick { warm_up_java(wrk, case) } else { Ok(()) }
}

/// Loads Java providers until their calls get no cheaper: how long the compilers need depends on
/// what else the machine does.
fn warm_up_java(wrk: &Wrk, case: &Case<'_>) -> Result<(), BenchError> {
    let Subject { addr, style, program, processes, .. } = case.subject;
    let (duration, n_connections) = (WARM_UP_STEP, case.n_connections);
    let shot = Shot { addr: *addr, style: *style, n_connections, duration, raw: None };
    let (mut best_us, mut n_stale) = (f64::INFINITY, 0);
    for _ in 0..MAX_WARM_UP_STEPS {
        let round = observe(wrk, &shot, processes)?;
        let cpu_us = round.group_cpu_us.get(PROVIDERS).copied().unwrap_or_default();
        eprintln!("{program}: warming up, {cpu_us:.1} us per call in the providers");
        n_stale = if best_us * WARM_RATIO < cpu_us { n_stale + 1 } else { 0 };
        best_us = best_us.min(cpu_us);
        if n_stale == N_STALE_STEPS {
            break;
        }
    }
    Ok(())
}

/// Loads a server and looks at what its processes use meanwhile.
fn observe(wrk: &Wrk, shot: &Shot<'_>, processes: &[Process]) -> Result<Round, BenchError> {
    let mut rss = PeakRss::default();
    let before = Reading::take(processes);
    let outcome = wrk.run(shot, || rss.sample(processes))?;
    let after = Reading::take(processes);
    Ok(Round::new(processes, outcome, rss, &before, &after))
}

impl Case<'_> {
    fn round(
        &self,
        plan: &Plan,
        wrk: &Wrk,
        scenario: &str,
        n_round: u64,
    ) -> Result<Round, BenchError> {
        let Subject { addr, style, processes, program, .. } = self.subject;
        let n_connections = self.n_connections;
        let name = program.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let raw = format!("raw/{scenario}-{name}-{n_connections}-{n_round}.txt");
        let raw = plan.results.join(raw);
        let shot = Shot {
            addr: *addr,
            style: *style,
            n_connections,
            duration: plan.seconds,
            raw: Some(&raw),
        };
        observe(wrk, &shot, processes)
    }
}

/// CPU clocks at one moment.
struct Reading {
    at: Instant,
    seconds: Vec<f64>,
    machine: f64,
    stolen: f64,
}

impl Reading {
    fn take(processes: &[Process]) -> Self {
        let seconds = processes.iter().map(|process| usage::cpu(process.pid).as_secs_f64());
        let usage::MachineCpu { used: machine, stolen } = usage::machine_cpu();
        Self {
            at: Instant::now(),
            seconds: seconds.collect(),
            machine: machine.as_secs_f64(),
            stolen: stolen.as_secs_f64(),
        }
    }
}

impl Round {
    fn new(
        processes: &[Process],
        outcome: WrkFigures,
        rss: PeakRss,
        before: &Reading,
        after: &Reading,
    ) -> Self {
        let us_per_call = 1e6 / outcome.n_calls.max(1.0);
        let mut cpu_us = BTreeMap::new();
        let mut group_cpu_us = BTreeMap::new();
        let mut ours = outcome.cpu.as_secs_f64();
        let used = before.seconds.iter().zip(&after.seconds).map(|(before, after)| after - before);
        for (process, used) in processes.iter().zip(used) {
            ours += used;
            cpu_us.insert(process.name.clone(), used * us_per_call);
            let is_agent = [CONSUMER_AGENT, PROVIDER_AGENTS].contains(&process.group);
            for group in [Some(process.group), is_agent.then_some(AGENTS)].into_iter().flatten() {
                *group_cpu_us.entry(group.to_owned()).or_default() += used * us_per_call;
            }
        }
        for cpu_us in [&mut cpu_us, &mut group_cpu_us] {
            cpu_us.insert(WRK.to_owned(), outcome.cpu.as_secs_f64() * us_per_call);
        }
        let elapsed = (after.at - before.at).as_secs_f64();
        let foreign_cores = ((after.machine - before.machine - ours) / elapsed).max(0.0);
        let stolen_cores = (after.stolen - before.stolen) / elapsed;
        Self { outcome, cpu_us, group_cpu_us, rss_mb: rss.0, foreign_cores, stolen_cores }
    }

    fn json(&self) -> Value {
        let WrkFigures { n_calls, calls_per_s, p50_ms, p99_ms, p999_ms, .. } = self.outcome;
        json!({
            "calls": n_calls, "calls_per_s": rounded(calls_per_s), "p50_ms": p50_ms,
            "p99_ms": p99_ms, "p999_ms": p999_ms, "max_ms": self.outcome.max_ms,
            "errors": self.outcome.errors, "answer_len": rounded(self.outcome.answer_len),
            "cpu_us_per_call": object(&self.cpu_us), "rss_mb": object(&self.rss_mb),
            "foreign_cores": rounded(self.foreign_cores),
            "stolen_cores": rounded(self.stolen_cores),
        })
    }
}

impl Row<'_> {
    /// The median of a figure over the rounds.
    pub(crate) fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    /// Errors of all rounds together.
    pub(crate) fn errors(&self) -> u64 {
        self.rounds.iter().map(|round| round.outcome.errors).sum()
    }

    /// Median CPU microseconds per call of a group, zero if there is none.
    pub(crate) fn group_cpu_us(&self, group: &str) -> f64 {
        self.median(|round| round.group_cpu_us.get(group).copied().unwrap_or_default())
    }

    fn medians(&self, figures: impl Fn(&Round) -> &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
        let names = self.rounds.first().map(|round| figures(round).keys()).into_iter().flatten();
        let of = |name: &String| {
            self.median(|round| figures(round).get(name).copied().unwrap_or_default())
        };
        names.map(|name| (name.clone(), of(name))).collect()
    }

    /// The row in the common format of all scenarios.
    pub(crate) fn json(&self, plan: &Plan) -> Map<String, Value> {
        let Subject { program, codec, .. } = self.case.subject;
        let median = |figure: fn(&Round) -> f64| rounded(self.median(figure));
        let mut row = json!({
            "scenario": self.scenario, "program": program, "codec": codec,
            "connections": self.case.n_connections, "callers": self.case.n_connections,
            "loop": "closed", "seconds": plan.seconds.as_secs(),
            "calls_per_s": median(|round| round.outcome.calls_per_s),
            "p50_ms": median(|round| round.outcome.p50_ms),
            "p99_ms": median(|round| round.outcome.p99_ms),
            "p999_ms": median(|round| round.outcome.p999_ms),
            "errors": self.errors(),
            "cpu_us_per_call": object(&self.medians(|round| &round.cpu_us)),
            "cpu_us_per_call_by_group": object(&self.medians(|round| &round.group_cpu_us)),
            "rss_mb": object(&self.medians(|round| &round.rss_mb)),
            "foreign_cores": median(|round| round.foreign_cores),
            "rounds": self.rounds.iter().map(Round::json).collect::<Vec<_>>(),
        });
        let mut fields = row.as_object_mut().map(std::mem::take).unwrap_or_default();
        if let Value::Object(origin) = machine::origin() {
            fields.extend(origin);
        }
        fields
    }
}

/// The middle one; of an even number the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// To three digits behind the point: more would only be noise.
#[must_use]
pub fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn object(figures: &BTreeMap<String, f64>) -> Value {
    figures.iter().map(|(name, value)| (name.clone(), Value::from(rounded(*value)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0]), 2.5);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
