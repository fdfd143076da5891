//! Whether an agent gets the processor time that it needs. One that does not is late with all that
//! it does, and its clocks then count what it waits for as work.

use agent::inspect::snapshot::ProcessSnapshot;

use super::agent_pages::AgentLook;
use super::{Cause, Finding, OFTEN, percent, share_of, time};

/// Event loops that are less late hold nobody up to speak of, in milliseconds: on a machine that
/// is busy, but has enough for all, they are late by some tens of milliseconds now and then.
const MIN_LAG_MS: f64 = 50.0;
/// Those that are late by so much may make calls look slow.
const SOME_LAG_MS: f64 = 20.0;
/// Threads that wait for a processor for less of the time get what they need.
const MIN_WAIT_SHARE: f64 = 0.2;
/// Or a control group that is throttled in less of its periods.
const MIN_THROTTLED: f64 = 0.5;
/// A call passes the event loop several times: to be read, to be sent, when its reply comes and
/// when that is written.
const TURNS: f64 = 5.0;
/// CPU time is counted in steps, and other work counts, too: so much of what a stage took is
/// enough to take it for work.
const MIN_WORK_SHARE: f64 = 0.5;

/// What an agent waited for a processor from one look to the next.
struct ProcessorWait {
    /// How long its threads waited, together, as a share of the time.
    run_queue: Option<f64>,
    /// In which part of its periods its control group was throttled.
    throttled: Option<f64>,
    usual_lag_ms: f64,
}

impl ProcessorWait {
    fn between(before: &AgentLook, after: &AgentLook) -> Option<Self> {
        let (was, is) = (before.process.as_ref()?, after.process.as_ref()?);
        let time_ms = after.at.saturating_sub(before.at).as_secs_f64() * 1e3;
        let run_queue = is.run_queue_ms.zip(was.run_queue_ms);
        // Threads that have ended count no more.
        let run_queue = run_queue.map(|(is, was)| (is - was).max(0.0) / time_ms);
        Some(Self {
            run_queue: run_queue.filter(|share| share.is_finite()),
            throttled: throttled(was, is),
            usual_lag_ms: is.usual_lag_ms?,
        })
    }

    fn is_short(&self) -> bool {
        let waits = self.run_queue.is_some_and(|share| MIN_WAIT_SHARE <= share);
        let is_throttled = self.throttled.is_some_and(|share| MIN_THROTTLED <= share);
        MIN_LAG_MS <= self.usual_lag_ms && (waits || is_throttled)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn throttled(before: &ProcessSnapshot, after: &ProcessSnapshot) -> Option<f64> {
    let (was, is) = (before.cpu_throttling?, after.cpu_throttling?);
    let n_periods = is.periods.checked_sub(was.periods).filter(|n| *n != 0)?;
    Some(is.throttled.saturating_sub(was.throttled) as f64 / n_periods as f64)
}

/// Whether event loops are late by so much that calls that take `call_ms` may take that long
/// because of it.
pub(super) fn explains(looks: &[AgentLook], call_ms: f64) -> bool {
    let lags = looks.iter().filter_map(|look| look.usual_lag_ms);
    let is_late = |lag_ms: f64| SOME_LAG_MS <= lag_ms && call_ms <= TURNS * lag_ms;
    share_of(lags, is_late).is_some_and(|share| OFTEN <= share)
}

/// Whether the process has used so much processor time that `work_ms` of its calls' time may have
/// been work. `None` if nobody says.
pub(super) fn is_work(looks: &[AgentLook], work_ms: f64) -> Option<bool> {
    let [first, .., last] = looks else { return None };
    let cpu_ms = |look: &AgentLook| look.process.as_ref()?.cpu_ms;
    Some(work_ms * MIN_WORK_SHARE <= cpu_ms(last)? - cpu_ms(first)?)
}

/// An agent that has calls, and waits for a processor most of the time.
pub(super) fn of_process(looks: &[AgentLook]) -> Option<Finding> {
    let [first, .., last] = looks else { return None };
    let has_calls = |look: &AgentLook| {
        look.endpoints.iter().any(|it| it.calls.in_flight != 0)
            || look.apps.iter().any(|it| it.in_flight != 0)
            || n_ended(look) != n_ended(first)
    };
    let steps = || looks.windows(2).filter_map(|pair| ProcessorWait::between(&pair[0], &pair[1]));
    share_of(steps(), |step| step.is_short()).filter(|share| OFTEN <= *share)?;
    if !looks.iter().any(has_calls) {
        return None;
    }
    let whole = ProcessorWait::between(first, last)?;
    let mut evidence = vec![format!(
        "its event loops are late by {} in most seconds, and by {} at worst \
         (dubmesh_worker_lag_seconds)",
        time(whole.usual_lag_ms * 1e3),
        time(last.lag_ms.unwrap_or_default() * 1e3)
    )];
    evidence.extend(whole.run_queue.map(|share| {
        format!("its threads waited for a processor {} of the time, together", percent(share))
    }));
    evidence.extend(whole.throttled.filter(|share| *share != 0.0).map(|share| {
        format!("its control group had used up its quota in {} of the periods", percent(share))
    }));
    let cpu_ms = |look: &AgentLook| look.process.as_ref()?.cpu_ms;
    let took_ms = last.at.saturating_sub(first.at).as_secs_f64() * 1e3;
    evidence.extend(cpu_ms(last).zip(cpu_ms(first)).map(|(is, was)| {
        format!("it used {} of one processor meanwhile", percent((is - was) / took_ms))
    }));
    Some(Finding {
        cause: Cause::NoProcessor,
        subject: "this agent".to_owned(),
        verdict: "it does not get the processor time that it needs, so that all calls wait for it"
            .to_owned(),
        evidence,
        remedy: "raise its share or its quota (nice, CPUWeight, cpu.max, the limits of the \
                 container), or take other programs off the machine (top); what its clocks say of \
                 stages and providers counts for little until then"
            .to_owned(),
    })
}

/// Calls that have ended, of all endpoints and apps.
fn n_ended(look: &AgentLook) -> u64 {
    look.endpoints.iter().map(|it| it.calls.ok).sum::<u64>()
        + look.apps.iter().map(|it| it.ok).sum::<u64>()
}

#[cfg(test)]
mod tests;
