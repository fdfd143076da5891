//! All rounds of one program in one setting, as a row for the table and for JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::program::{PAYLOAD_LEN, Program, Programs, Setting};
use super::round::{Round, Shot, counting_time};
use crate::error::BenchError;
use crate::machine;
use crate::measure::median;
use crate::plan::Plan;
use crate::target::Target;

/// Connections are up and memory is warm by then; none of the programs compiles as it runs.
const WARM_UP: Duration = Duration::from_secs(1);
const QUICK_WARM_UP: Duration = Duration::from_millis(300);

/// All rounds of one program in one setting.
#[derive(Debug)]
pub(crate) struct RpcRow {
    pub(crate) program: Program,
    pub(crate) setting: Setting,
    pub(crate) rounds: Vec<Round>,
    /// By process; nothing if they could not be counted.
    pub(crate) syscalls: Option<BTreeMap<String, f64>>,
}

impl RpcRow {
    pub(crate) fn new(program: Program, setting: Setting) -> Self {
        Self { program, setting, rounds: Vec::new(), syscalls: None }
    }

    /// Measures once more.
    pub(crate) fn add_round(&mut self, plan: &Plan, programs: &Programs) -> Result<(), BenchError> {
        let round = self.shot(plan, programs, plan.seconds).run()?;
        let n_round = self.rounds.len() + 1;
        eprintln!(
            "rpc {n_round}/{}: {}, {}: {:.0}/s, p99 {:.3} ms, {} errors",
            plan.n_rounds,
            self.program.name(),
            self.setting,
            round.outcome.calls_per_s,
            round.outcome.p99_ms,
            round.outcome.errors
        );
        self.rounds.push(round);
        Ok(())
    }

    /// What the clients printed, with a line before each that says of which round it is.
    pub(crate) fn raw(&self) -> String {
        let head = format!("{}, {}, {}", self.program.name(), self.program.codec(), self.setting);
        let rounds = self.rounds.iter().enumerate();
        rounds.fold(String::new(), |text, (index, round)| {
            text + &format!("# {head}, round {}\n{}\n", index + 1, round.printed.trim())
        })
    }

    /// Counts system calls in a run of its own, since counting slows them down.
    pub(crate) fn count_syscalls(
        &mut self,
        plan: &Plan,
        programs: &Programs,
    ) -> Result<(), BenchError> {
        self.syscalls = self.shot(plan, programs, counting_time()).count_syscalls()?;
        Ok(())
    }

    fn shot<'a>(&self, plan: &Plan, programs: &'a Programs, duration: Duration) -> Shot<'a> {
        let warm_up = if plan.is_quick { QUICK_WARM_UP } else { WARM_UP };
        Shot { programs, program: self.program, setting: self.setting, warm_up, duration }
    }

    /// The median of a figure over the rounds.
    pub(crate) fn median(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure).collect())
    }

    pub(crate) fn calls_per_s(&self) -> f64 {
        self.median(|round| round.outcome.calls_per_s)
    }

    pub(crate) fn p50_ms(&self) -> f64 {
        self.median(|round| round.outcome.p50_ms)
    }

    /// Errors of all rounds together.
    pub(crate) fn errors(&self) -> u64 {
        self.rounds.iter().map(|round| round.outcome.errors).sum()
    }

    /// The median of a process's figure.
    pub(crate) fn median_of(
        &self,
        process: &str,
        figures: impl Fn(&Round) -> &BTreeMap<String, f64>,
    ) -> f64 {
        self.median(|round| figures(round).get(process).copied().unwrap_or_default())
    }

    /// The row in the common format of all scenarios.
    pub(crate) fn json(&self, plan: &Plan, ratios: Ratios, targets: &[Target]) -> Value {
        let figure = |figure: fn(&Round) -> f64| significant(self.median(figure));
        let both = |figures: fn(&Round) -> &BTreeMap<String, f64>| {
            let names = self.rounds.first().map(|round| figures(round).keys()).into_iter();
            let of = |name: &String| (name.clone(), self.median_of(name, figures));
            object(&names.flatten().map(of).collect())
        };
        let mut row = json!({
            "scenario": "rpc", "program": self.program.name(), "codec": self.program.codec(),
            "connections": self.setting.n_connections, "callers": self.setting.n_callers,
            "loop": "closed", "request_bytes": PAYLOAD_LEN, "response_bytes": PAYLOAD_LEN,
            "pinned": plan.is_pinned, "seconds": plan.seconds.as_secs(),
            "calls_per_s": figure(|round| round.outcome.calls_per_s),
            "p50_ms": figure(|round| round.outcome.p50_ms),
            "p99_ms": figure(|round| round.outcome.p99_ms),
            "p999_ms": figure(|round| round.outcome.p999_ms),
            "errors": self.errors(),
            "cpu_us_per_call": both(|round| &round.cpu_us),
            "rss_mb": both(|round| &round.rss_mb),
            "syscalls_per_call": self.syscalls.as_ref().map(object),
            "of_ceiling": ratios.of_ceiling.map(significant),
            "of_better_peer": ratios.of_better_peer.map(significant),
            "foreign_cores": figure(|round| round.foreign_cores),
            "targets": targets.iter().map(Target::json).collect::<Vec<_>>(),
            "rounds": self.rounds.iter().map(Round::json).collect::<Vec<_>>(),
        });
        let mut fields: Map<String, Value> =
            row.as_object_mut().map(std::mem::take).unwrap_or_default();
        if let Value::Object(origin) = machine::origin() {
            fields.extend(origin);
        }
        fields.into()
    }
}

/// Calls per second beside those of others in the same setting and run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratios {
    /// Bare sockets.
    pub(crate) of_ceiling: Option<f64>,
    /// The better one of tonic and tarpc.
    pub(crate) of_better_peer: Option<f64>,
}

/// To four significant digits: figures here reach from hundredths of a microsecond to millions of
/// calls.
pub(crate) fn significant(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

pub(crate) fn object(figures: &BTreeMap<String, f64>) -> Value {
    figures.iter().map(|(name, value)| (name.clone(), Value::from(significant(*value)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_stay() {
        assert_eq!(significant(0.056_789), 0.056_79);
        assert_eq!(significant(1_234_567.0), 1_235_000.0);
        assert_eq!(significant(0.0), 0.0);
    }
}
