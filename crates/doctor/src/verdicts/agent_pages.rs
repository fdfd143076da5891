//! What an agent's pages mean.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::inspect::snapshot::{
    AppSnapshot, ConnectionSnapshot, EndpointSnapshot, ListenerSnapshot, MethodSnapshot,
    ProcessSnapshot, ServiceSnapshot, StagesSnapshot,
};

use super::{
    Cause, Finding, OFTEN, WatchedConnection, counted, failing, grouping, hanging, out, percent,
    processor, recurs, share_of, slow, slow_method, sockets, stages, unfound,
};

/// The name of an error on the pages.
const POOL_EXHAUSTED: &str = "thread_pool_exhausted";
/// An agent's pages at one moment.
#[derive(Clone, Debug, Default)]
pub struct AgentLook {
    /// How long after the first look this one was.
    pub at: Duration,
    /// `/services`.
    pub services: Vec<ServiceSnapshot>,
    /// `/endpoints`.
    pub endpoints: Vec<EndpointSnapshot>,
    /// `/apps`.
    pub apps: Vec<AppSnapshot>,
    /// `/connections`.
    pub connections: Vec<ConnectionSnapshot>,
    /// `/stages`.
    pub stages: Vec<StagesSnapshot>,
    /// `/methods`. An older agent has no such page, nor those that follow.
    pub methods: Vec<MethodSnapshot>,
    /// `/listeners`.
    pub listeners: Vec<ListenerSnapshot>,
    /// `/process`.
    pub process: Option<ProcessSnapshot>,
    /// How late the event loops of its workers were of late, at worst, in milliseconds.
    pub lag_ms: Option<f64>,
    /// How late they were at some time in most of the last seconds. An older agent does not say.
    pub usual_lag_ms: Option<f64>,
}

/// What an agent knows to be wrong; oldest look first. `connections` are those that were watched
/// meanwhile: what [`super::of_sockets`] finds there is not blamed on a provider.
#[must_use]
pub fn of_agent(looks: &[AgentLook], connections: &[WatchedConnection]) -> Vec<Finding> {
    let [first, .., last] = looks else { return Vec::new() };
    let mut findings = full_pools(looks, first, last);
    let mut of_endpoints = Vec::new();
    let held_up = sockets::held_up(connections);
    for endpoint in &last.endpoints {
        let seen = EndpointLooks::of(looks, endpoint);
        let found = rejects(&seen).into_iter().chain(slow::of_endpoint(looks, &seen, &held_up));
        of_endpoints
            .extend(found.chain(out::of_endpoint(looks, &seen)).map(|finding| (endpoint, finding)));
    }
    findings.extend(grouping::grouped(of_endpoints));
    findings.extend(stages::of_stages(looks));
    findings.extend(hanging::of_apps(looks));
    findings.extend(unfound::of_services(looks));
    findings.extend(processor::of_process(looks));
    findings.extend(failing::of_faults(looks));
    findings.extend(failing::of_limits(looks));
    // These are told only if nothing else says why.
    findings.extend(failing::of_services(looks, &findings));
    findings.extend(slow_method::of_methods(looks, &findings));
    findings
}

/// An endpoint at each look, oldest first; nothing where it was not there.
pub(super) struct EndpointLooks<'a> {
    looks: Vec<Option<&'a EndpointSnapshot>>,
    pub(super) last: &'a EndpointSnapshot,
}

impl<'a> EndpointLooks<'a> {
    pub(super) fn of(looks: &'a [AgentLook], last: &'a EndpointSnapshot) -> Self {
        let at = |look: &'a AgentLook| look.endpoints.iter().find(|it| is_same(it, last));
        Self { looks: looks.iter().map(at).collect(), last }
    }

    /// What it was when it was there.
    pub(super) fn each(&self) -> impl Iterator<Item = &'a EndpointSnapshot> {
        self.looks.iter().copied().flatten()
    }

    /// From look to look, as long as it was there: how it was before, if it was, and after.
    pub(super) fn steps(
        &self,
    ) -> impl Iterator<Item = (Option<&'a EndpointSnapshot>, &'a EndpointSnapshot)> {
        self.looks.windows(2).filter_map(|pair| match pair {
            [before, after] => Some((*before, (*after)?)),
            _ => None,
        })
    }

    /// From the first look to the last.
    pub(super) fn whole(&self) -> (Option<&'a EndpointSnapshot>, &'a EndpointSnapshot) {
        (self.looks.first().copied().flatten(), self.last)
    }

    pub(super) fn subject(&self) -> String {
        format!("{} at {}", self.last.service, self.last.address)
    }
}

fn is_same(a: &EndpointSnapshot, b: &EndpointSnapshot) -> bool {
    (&a.service, &a.registry, &a.address, &a.protocol)
        == (&b.service, &b.registry, &b.address, &b.protocol)
}

fn full_pools(looks: &[AgentLook], first: &AgentLook, last: &AgentLook) -> Vec<Finding> {
    let finding = |app: &AppSnapshot| {
        let at = |look: &AgentLook| look.apps.iter().find(|it| it.app == app.app).cloned();
        let seen: Vec<AppSnapshot> = looks.iter().filter_map(at).collect();
        let is_full = |it: &AppSnapshot| u64::from(it.capacity) <= it.in_flight;
        let share = share_of(&seen, is_full).filter(|share| OFTEN <= *share)?;
        let shed = app.shed.saturating_sub(at(first).map_or(app.shed, |it| it.shed));
        let most = |of: fn(&AppSnapshot) -> u64| seen.iter().map(of).max().unwrap_or(0);
        // The workers' parts are a few milliseconds apart, so that they may add up to more.
        let in_flight = most(|it| it.in_flight).min(app.capacity.into());
        let waiting = most(|it| it.waiting);
        let capacity = app.capacity;
        Some(Finding {
            cause: Cause::PoolFull,
            subject: format!("app {}", app.app),
            verdict: format!(
                "the provider's thread pool is full: {in_flight} of {capacity} in use, {} of the \
                 time",
                percent(share)
            ),
            evidence: vec![
                format!(
                    "the capacity of {} is {}",
                    counted(capacity.into(), "call", "calls"),
                    app.source
                ),
                at_gate(waiting, shed),
            ],
            remedy: "add providers or threads, or find out what its calls wait for (a database, \
                     a lock); more connections or larger buffers change nothing"
                .to_owned(),
        })
    };
    last.apps.iter().filter_map(finding).collect()
}

/// What was seen of an app's gate. Looks are rare beside how long calls wait there.
fn at_gate(waiting: u64, shed: u64) -> String {
    match (waiting, shed) {
        (0, 0) => "no call was seen waiting at its gate, and none was shed".to_owned(),
        (0, _) => {
            let shed = counted(shed, "call was", "calls were");
            format!("{shed} shed at its gate, at once or between two looks")
        }
        _ => format!("up to {waiting} were seen waiting at its gate; {shed} were shed meanwhile"),
    }
}

/// Calls that failed in a way while the agent was watched.
pub(super) fn n_failed(
    (before, after): (Option<&EndpointSnapshot>, &EndpointSnapshot),
    name: &str,
) -> u64 {
    let of = |failed: &BTreeMap<String, u64>| failed.get(name).copied().unwrap_or(0);
    // An endpoint that was not there before has failed since.
    of(&after.calls.failed).saturating_sub(before.map_or(0, |it| of(&it.calls.failed)))
}

fn rejects(seen: &EndpointLooks<'_>) -> Option<Finding> {
    if !recurs(seen.steps().map(|step| n_failed(step, POOL_EXHAUSTED) != 0)) {
        return None;
    }
    let n = n_failed(seen.whole(), POOL_EXHAUSTED);
    let most = seen.each().map(|it| it.calls.in_flight).max().unwrap_or(0);
    Some(Finding {
        cause: Cause::PoolRejects,
        subject: seen.subject(),
        verdict: "the provider's thread pool rejects calls".to_owned(),
        evidence: vec![
            format!("{n} calls were answered by \"Threadpool is exhausted\" meanwhile"),
            format!("at most {} in flight to it", counted(most, "call was", "calls were")),
        ],
        remedy:
            "put an agent beside the provider, with its threads as capacity, so that calls wait \
                 for a moment in place of failing; or add providers or threads"
                .to_owned(),
    })
}

#[cfg(test)]
mod tests;
