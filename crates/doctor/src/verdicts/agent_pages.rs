//! What an agent's pages mean.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agent::inspect::snapshot::{
    AppSnapshot, ConnectionSnapshot, EndpointSnapshot, ServiceSnapshot, StagesSnapshot,
};

use super::{
    Cause, Finding, OFTEN, WatchedConnection, counted, hanging, percent, recurs, share_of, slow,
    sockets, stages, unfound,
};

/// The name of an error on the pages.
const POOL_EXHAUSTED: &str = "thread_pool_exhausted";
/// Endpoints that get calls, and those whose last calls end.
const READY: &str = "ready";
const LEAVING: &str = "leaving";

/// As many services of one endpoint have findings of their own, and as many are named.
const MAX_NAMED: usize = 3;

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
        of_endpoints.extend(found.chain(out(&seen)).map(|finding| (endpoint, finding)));
    }
    findings.extend(by_address(of_endpoints));
    findings.extend(stages::of_stages(looks));
    findings.extend(hanging::of_apps(looks));
    findings.extend(unfound::of_services(looks));
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

/// What many services of one endpoint share is told once.
fn by_address(found: Vec<(&EndpointSnapshot, Finding)>) -> Vec<Finding> {
    type Group<'a> = Vec<(&'a EndpointSnapshot, Finding)>;
    let mut groups: BTreeMap<(Cause, &str), Group<'_>> = BTreeMap::new();
    for (endpoint, finding) in found {
        groups.entry((finding.cause, &endpoint.address)).or_default().push((endpoint, finding));
    }
    let told = |((_, address), group): ((Cause, &str), Group<'_>)| -> Vec<Finding> {
        let services: BTreeSet<&str> = group.iter().map(|(it, _)| &*it.service).collect();
        let mut findings: Vec<Finding> = group.into_iter().map(|(_, finding)| finding).collect();
        if MAX_NAMED < services.len() {
            findings.truncate(1);
            let more = services.len() - MAX_NAMED;
            let named: Vec<&str> = services.iter().take(MAX_NAMED).copied().collect();
            for finding in &mut findings {
                finding.subject = format!("{} services at {address}", services.len());
                let names = named.join(", ");
                finding.evidence.push(format!("this applies to {names}, and {more} more"));
            }
        }
        findings
    };
    groups.into_iter().flat_map(told).collect()
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

/// An endpoint that nobody calls most of the time. One that leaves is meant to go.
fn out(seen: &EndpointLooks<'_>) -> Option<Finding> {
    let is_in = |it: &EndpointSnapshot| {
        it.standing.is_empty()
            || it.standing.iter().any(|(standing, n)| standing == READY && *n != 0)
            || it.standing.keys().all(|standing| standing == LEAVING)
    };
    let is_out = |it: &EndpointSnapshot| !is_in(it);
    let share = share_of(seen.each(), is_out).filter(|share| OFTEN <= *share)?;
    // How it was when it was out last.
    let endpoint = seen.each().filter(|it| is_out(it)).last()?;
    let standing: Vec<&str> = endpoint.standing.keys().map(String::as_str).collect();
    let mut evidence = endpoint.why.clone();
    if is_in(seen.last) {
        evidence.push("it gets calls again now".to_owned());
    }
    Some(Finding {
        cause: Cause::EndpointOut,
        subject: seen.subject(),
        verdict: format!(
            "it gets no calls: {}, {} of the time",
            standing.join(", "),
            percent(share)
        ),
        evidence,
        remedy: "see whether the provider runs, and whether it can be reached and answers; the \
                 agent goes on trying, and uses it again by itself"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests;
