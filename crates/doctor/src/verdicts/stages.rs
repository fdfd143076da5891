//! In which stages the time of calls goes, as an agent's clocks show it.

use agent::inspect::snapshot::{EndpointSnapshot, StagesSnapshot};
use agent::stages::Stage;

use super::agent_pages::AgentLook;
use super::{Cause, Finding, OFTEN, percent, share_of, time};

/// Waiting that takes less of a call is no cause.
const MIN_WAIT_SHARE: f64 = 0.2;
/// Nor is waiting that takes less time, in milliseconds.
const MIN_WAIT_MS: f64 = 20.0;
/// Whoever decodes for so long holds up all other calls of his thread, in milliseconds.
const LONG_CODING_MS: f64 = 10.0;

/// What the calls of a service did between two looks, on average.
#[derive(Clone, Copy, Debug)]
pub(super) struct Means {
    /// How many calls they are of.
    pub(super) n_calls: u64,
    ms: [f64; agent::stages::N_STAGES],
}

impl Means {
    /// `None` if no call of the service was timed between the looks.
    fn between(before: &AgentLook, after: &AgentLook, service: &str) -> Option<Self> {
        let of = |look: &AgentLook| find(look, service).cloned();
        let after = of(after)?;
        let before = of(before).filter(|it| it.calls <= after.calls).unwrap_or_default();
        let n_calls = after.calls - before.calls;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let n = n_calls as f64;
        let total = |it: &StagesSnapshot, name| it.total_ms.get(name).copied().unwrap_or(0.0);
        let mean = |stage: Stage| {
            (total(&after, stage.name()) - total(&before, stage.name())).max(0.0) / n
        };
        (n_calls != 0).then(|| Self { n_calls, ms: Stage::ALL.map(mean) })
    }

    /// How long calls are in a stage, in milliseconds.
    pub(super) fn ms(&self, stage: Stage) -> f64 {
        self.ms[stage as usize]
    }

    /// The part of a call's time in a stage, without what its own caller takes.
    pub(super) fn share(&self, stage: Stage) -> f64 {
        let own = [Stage::Read, Stage::Answer];
        let all = Stage::ALL.into_iter().filter(|it| !own.contains(it));
        let all: f64 = all.map(|stage| self.ms(stage)).sum();
        if all == 0.0 { 0.0 } else { self.ms(stage) / all }
    }

    fn coding_ms(&self) -> f64 {
        self.ms(Stage::Encode).max(self.ms(Stage::Decode))
    }
}

/// What is said of the calls that local programs make to a service.
fn find<'a>(look: &'a AgentLook, service: &str) -> Option<&'a StagesSnapshot> {
    look.stages.iter().find(|it| it.place == "ingress" && it.service == service)
}

/// All of a service's calls that were timed while it was watched.
pub(super) fn means(looks: &[AgentLook], service: &str) -> Option<Means> {
    let [first, .., last] = looks else { return None };
    Means::between(first, last, service)
}

/// What stages show besides what is known of endpoints.
pub(super) fn of_stages(looks: &[AgentLook]) -> Vec<Finding> {
    let Some(last) = looks.last() else { return Vec::new() };
    let ingress = last.stages.iter().filter(|it| it.place == "ingress");
    ingress
        .flat_map(|it| [waits(looks, &it.service), starves(looks, &it.service)])
        .flatten()
        .collect()
}

/// Whether something is true between most of the looks. One pause makes no verdict.
fn is_usual(looks: &[AgentLook], service: &str, is_true: impl Fn(&Means) -> bool) -> bool {
    let pairs = looks.windows(2).filter_map(|pair| match pair {
        [before, after] => Means::between(before, after, service),
        _ => None,
    });
    share_of(pairs, |means| is_true(&means)).is_some_and(|share| OFTEN <= share)
}

fn waits(looks: &[AgentLook], service: &str) -> Option<Finding> {
    let does_wait = |means: &Means| {
        MIN_WAIT_MS <= means.ms(Stage::Wait) && MIN_WAIT_SHARE <= means.share(Stage::Wait)
    };
    let (all, last) = (means(looks, service)?, looks.last()?);
    if !does_wait(&all) || !is_usual(looks, service, does_wait) {
        return None;
    }
    let is_full = |it: &&EndpointSnapshot| {
        let limit = it.capacity.map(u64::from);
        it.service == service && limit.is_some_and(|limit| limit <= it.calls.in_flight)
    };
    let full: Vec<&EndpointSnapshot> = last.endpoints.iter().filter(is_full).collect();
    let waited = time(all.ms(Stage::Wait) * 1e3);
    let (why, remedy) = match full.is_empty() {
        false => (
            "for a credit, because the capacity is used up",
            "add providers or threads, or find out what its calls wait for; a larger capacity \
             helps only if the app has room",
        ),
        true => (
            "before they are sent",
            "see dubmesh list --admin and the log: endpoints that are not connected, routes that \
             are not settled, or rules that delay calls",
        ),
    };
    let mut evidence = vec![format!(
        "that is {} of the time of {} calls that were timed",
        percent(all.share(Stage::Wait)),
        all.n_calls
    )];
    evidence.extend(full.iter().map(|it| {
        let limit = it.capacity.unwrap_or_default();
        format!("{} has {} of {limit} calls in flight", it.address, it.calls.in_flight)
    }));
    Some(Finding {
        cause: Cause::CallsWait,
        subject: service.to_owned(),
        verdict: format!("calls wait {waited} {why}"),
        evidence,
        remedy: remedy.to_owned(),
    })
}

fn starves(looks: &[AgentLook], service: &str) -> Option<Finding> {
    let is_long = |means: &Means| LONG_CODING_MS <= means.coding_ms();
    let all = means(looks, service)?;
    if !is_long(&all) || !is_usual(looks, service, is_long) {
        return None;
    }
    let decodes = all.ms(Stage::Encode) <= all.ms(Stage::Decode);
    let what = if decodes { "decoding its replies" } else { "encoding its arguments" };
    Some(Finding {
        cause: Cause::EventLoop,
        subject: service.to_owned(),
        verdict: format!("the event loop is starved by {what}"),
        evidence: vec![
            format!(
                "that takes {} for each of {} calls that were timed",
                time(all.coding_ms() * 1e3),
                all.n_calls
            ),
            "all other calls of the same worker wait meanwhile".to_owned(),
        ],
        remedy: "ask for less in one call (pages of a list), have the caller speak Dubbo, whose \
                 replies the agent passes on unread, or add workers"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests;
