//! What an agent's pages mean.

use std::collections::BTreeMap;

use agent::inspect::snapshot::{AppSnapshot, ConnectionSnapshot, EndpointSnapshot, StagesSnapshot};
use agent::stages::Stage;

use super::stages::{self, Means};
use super::{Cause, Finding, OFTEN, percent, share_of, time};

/// Names of errors on the pages.
const TIMEOUT: &str = "timeout";
const POOL_EXHAUSTED: &str = "thread_pool_exhausted";
/// Calls that take less are not slow, whatever they wait for, in milliseconds.
const SLOW_MS: f64 = 200.0;
/// The network is no cause if its round trip takes less than one part of so many of a call.
const ROUND_TRIP_PARTS: f64 = 10.0;
/// So much of the time in the app is the provider's own doing, whatever else there is.
const NEARLY_ALL: f64 = 0.8;
/// Endpoints that get calls.
const READY: &str = "ready";

/// An agent's pages at one moment.
#[derive(Clone, Debug, Default)]
pub struct AgentLook {
    /// `/endpoints`.
    pub endpoints: Vec<EndpointSnapshot>,
    /// `/apps`.
    pub apps: Vec<AppSnapshot>,
    /// `/connections`.
    pub connections: Vec<ConnectionSnapshot>,
    /// `/stages`.
    pub stages: Vec<StagesSnapshot>,
}

/// What an agent knows to be wrong; oldest look first.
#[must_use]
pub fn of_agent(looks: &[AgentLook]) -> Vec<Finding> {
    let [first, .., last] = looks else { return Vec::new() };
    let mut findings = full_pools(looks, first, last);
    for endpoint in &last.endpoints {
        let before = first.endpoints.iter().find(|it| is_same(it, endpoint));
        findings.extend(rejects(endpoint, before));
        if is_usually_slow(looks, endpoint) {
            let means = stages::means(looks, &endpoint.service);
            findings.extend(slow(endpoint, before, last, means));
        }
        findings.extend(out(endpoint));
    }
    findings.extend(stages::of_stages(looks));
    findings
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
        let (in_flight, capacity, waiting) = (app.in_flight, app.capacity, app.waiting);
        Some(Finding {
            cause: Cause::PoolFull,
            subject: format!("app {}", app.app),
            verdict: format!(
                "the provider's thread pool is full: {in_flight} of {capacity} in use, {} of the \
                 time",
                percent(share)
            ),
            evidence: vec![
                format!("the capacity of {capacity} calls is {}", app.source),
                format!("{waiting} calls wait at its gate now; {shed} were shed meanwhile"),
            ],
            remedy: "add providers or threads, or find out what its calls wait for (a database, \
                     a lock); more connections or larger buffers change nothing"
                .to_owned(),
        })
    };
    last.apps.iter().filter_map(finding).collect()
}

/// Calls that failed in a way while the agent was watched.
fn n_failed(now: &EndpointSnapshot, before: Option<&EndpointSnapshot>, name: &str) -> u64 {
    let of = |failed: &BTreeMap<String, u64>| failed.get(name).copied().unwrap_or(0);
    // An endpoint that was not there before has failed since.
    of(&now.calls.failed).saturating_sub(before.map_or(0, |it| of(&it.calls.failed)))
}

fn subject(endpoint: &EndpointSnapshot) -> String {
    format!("{} at {}", endpoint.service, endpoint.address)
}

fn rejects(endpoint: &EndpointSnapshot, before: Option<&EndpointSnapshot>) -> Option<Finding> {
    let n = n_failed(endpoint, before, POOL_EXHAUSTED);
    (n != 0).then(|| Finding {
        cause: Cause::PoolRejects,
        subject: subject(endpoint),
        verdict: "the provider's thread pool rejects calls".to_owned(),
        evidence: vec![
            format!("{n} calls were answered by \"Threadpool is exhausted\" meanwhile"),
            format!("{} calls are in flight to it", endpoint.calls.in_flight),
        ],
        remedy:
            "put an agent beside the provider, with its threads as capacity, so that calls wait \
                 for a moment in place of failing; or add providers or threads"
                .to_owned(),
    })
}

/// Whether calls were slow, or not answered in time, in most of the times in which any ended. A
/// pause, such as that of a garbage collector, makes no slow provider.
fn is_usually_slow(looks: &[AgentLook], endpoint: &EndpointSnapshot) -> bool {
    let at = |look: &AgentLook| look.endpoints.iter().find(|it| is_same(it, endpoint)).cloned();
    let (mut n_slow, mut n_active) = (0_u32, 0_u32);
    for (before, after) in looks.iter().zip(looks.iter().skip(1)) {
        let Some(after) = at(after) else { continue };
        let before = at(before);
        let n_timeouts = n_failed(&after, before.as_ref(), TIMEOUT);
        let n_ok = after.calls.ok.saturating_sub(before.map_or(0, |it| it.calls.ok));
        let is_slow = SLOW_MS <= after.calls.average_ms.unwrap_or(0.0);
        n_active += u32::from(n_timeouts != 0 || n_ok != 0);
        n_slow += u32::from(n_timeouts != 0 || n_ok != 0 && is_slow);
    }
    n_active != 0 && OFTEN <= f64::from(n_slow) / f64::from(n_active)
}

fn slow(
    endpoint: &EndpointSnapshot,
    before: Option<&EndpointSnapshot>,
    last: &AgentLook,
    means: Option<Means>,
) -> Option<Finding> {
    let n_timeouts = n_failed(endpoint, before, TIMEOUT);
    let n_ok = endpoint.calls.ok.saturating_sub(before.map_or(0, |it| it.calls.ok));
    let average_ms = endpoint.calls.average_ms.unwrap_or(0.0);
    if n_timeouts == 0 && (n_ok == 0 || average_ms < SLOW_MS) {
        return None;
    }
    let round_trips: Vec<f64> = last
        .connections
        .iter()
        .filter(|it| it.direction == "upstream" && it.peer == endpoint.address)
        .filter_map(|it| it.tcp.as_ref()?.rtt_us)
        .map(f64::from)
        .collect();
    let round_trip_us = round_trips.iter().copied().reduce(f64::max)?;
    let call_us = average_ms * 1_000.0;
    if n_timeouts == 0 && call_us < round_trip_us * ROUND_TRIP_PARTS {
        return None;
    }
    let mut evidence = vec![format!("the slowest round trip to it takes {}", time(round_trip_us))];
    if 0.0 < call_us {
        evidence.push(format!("good answers take {} on average", time(call_us)));
    }
    if n_timeouts != 0 {
        evidence.push(format!("{n_timeouts} calls were not answered in time meanwhile"));
    }
    // Where its agent says how long the app took, nothing has to be concluded.
    let app = means.filter(|means| means.ms(Stage::App) != 0.0);
    let own_work = |share| {
        format!("the network is fine: {} of the time is the provider's own work", percent(share))
    };
    if let Some(app) = app {
        let (took, n) = (time(app.ms(Stage::App) * 1e3), app.n_calls);
        evidence.push(format!("its agent says that the app took {took} for each of {n} calls"));
    }
    let verdict = match call_us {
        _ if app.is_some_and(|app| NEARLY_ALL <= app.share(Stage::App)) => {
            own_work(app.map_or(0.0, |app| app.share(Stage::App)))
        }
        us if us <= round_trip_us => "the network is fine; the provider does not answer".to_owned(),
        us => own_work(1.0 - round_trip_us / us),
    };
    Some(Finding {
        cause: Cause::SlowProvider,
        subject: subject(endpoint),
        verdict,
        evidence,
        remedy: "look at the provider: its threads (jstack), its garbage collector, and what its \
                 calls wait for"
            .to_owned(),
    })
}

fn out(endpoint: &EndpointSnapshot) -> Option<Finding> {
    let is_in = endpoint.standing.is_empty()
        || endpoint.standing.iter().any(|(standing, n)| standing == READY && *n != 0);
    (!is_in).then(|| {
        let standing: Vec<&str> = endpoint.standing.keys().map(String::as_str).collect();
        Finding {
            cause: Cause::EndpointOut,
            subject: subject(endpoint),
            verdict: format!("it gets no calls: {}", standing.join(", ")),
            evidence: endpoint.why.clone(),
            remedy: "see the reason above; the agent goes on trying, and uses it again by itself"
                .to_owned(),
        }
    })
}

#[cfg(test)]
mod tests;
