//! What a cluster tells about itself and its endpoints.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balance::{EjectReason, EndpointStats};
use dubbo_proto::Serialization;
use registry::{Endpoint, EndpointKey, Freshness};

use super::{Cluster, Member, MemberState, Standing};
use crate::config::{AppCapacity, ClusterPolicy};
use crate::error::CallError;
use crate::inspect::snapshot::{
    CallsSnapshot, EndpointSnapshot, GRANTED, PolicySnapshot, ServiceSnapshot,
};
use crate::inspect::{Filter, FirstFew};
use crate::upstream::AnyUpstream;

/// Why an endpoint gets no calls that takes them otherwise.
pub(super) const NO_WEIGHT: &str = "its weight is 0, so it gets no calls";
/// Endpoints that are asked in which serialization a route's calls are written.
const MAX_ASKED: usize = 16;
/// At most so many bytes of a reason are shown: it may have a peer's words in it.
const MAX_REASON_LEN: usize = 300;

impl Cluster {
    /// The service as text, and its registry.
    pub fn name(&self) -> (&str, &str) {
        (&self.service_name, &self.registry_name)
    }

    /// The service as it is now.
    pub fn describe(&self) -> ServiceSnapshot {
        let balancer = self.balancer.borrow();
        let freshness = match self.status.get() {
            Freshness::Pending => "pending",
            Freshness::Current => "current",
            Freshness::Stale => "stale",
        };
        let is_connected = |stats: &EndpointStats<'_, Member>| {
            let standing = stats.key.0.standing();
            !stats.leaving && standing == Standing::Ready
        };
        let connected = || balancer.stats().filter(is_connected);
        let holding = self.holding.borrow();
        ServiceSnapshot {
            service: self.service_name.to_string(),
            registry: self.registry_name.to_string(),
            freshness: freshness.to_owned(),
            workers: 1,
            endpoints: balancer.len(),
            ready: connected().filter(|stats| stats.ejection.is_none()).count(),
            connected: connected().count(),
            weightless: balancer.stats().filter(|it| !it.leaving && it.weight == 0).count(),
            held: holding.held().count(),
            unused: holding.unused_list().iter().map(ToString::to_string).collect(),
            waiting: self.lines.n_waiting(),
            in_flight: balancer.stats().map(|stats| u64::from(stats.in_flight)).sum(),
            // Counted for all workers in one place.
            failed_without_endpoint: BTreeMap::new(),
            method_events: BTreeMap::new(),
            retries: BTreeMap::new(),
            calls: None,
            policy: describe_policy(&self.policy.borrow()),
        }
    }

    /// How many of its endpoints a question is about.
    pub fn count_endpoints(&self, filter: &Filter) -> usize {
        let balancer = self.balancer.borrow();
        balancer.stats().filter(|stats| stats.key.0.is_wanted(filter)).count()
    }

    /// The first `limit` endpoints that a question is about.
    pub fn describe_endpoints(&self, filter: &Filter, limit: usize) -> Vec<EndpointSnapshot> {
        let balancer = self.balancer.borrow();
        let order = |a: &EndpointStats<'_, Member>, b: &EndpointStats<'_, Member>| {
            a.key.0.upstream.address().cmp(b.key.0.upstream.address())
        };
        let mut first = FirstFew::new(limit, order);
        balancer
            .stats()
            .filter(|stats| stats.key.0.is_wanted(filter))
            .for_each(|stats| first.push(stats));
        let holding = self.holding.borrow();
        let held: HashSet<*const MemberState> =
            holding.held().map(|member| Rc::as_ptr(&member.0)).collect();
        let (endpoints, _) = first.finish();
        let listed_by = self.listed_by();
        let describe = |stats: &EndpointStats<'_, Member>| {
            let mut endpoint =
                self.describe_endpoint(stats, held.contains(&Rc::as_ptr(&stats.key.0)));
            let registry = listed_by.get(&stats.key.0.endpoint.key());
            endpoint.listed_by = registry.map(ToString::to_string);
            endpoint
        };
        endpoints.iter().map(describe).collect()
    }

    /// Which of several registries lists each endpoint now; empty if the registry is only one.
    pub(super) fn listed_by(&self) -> HashMap<EndpointKey, Arc<str>> {
        let listed = self.listed.borrow();
        let of = |endpoint: &Endpoint| Some((endpoint.key(), endpoint.registry.clone()?));
        listed.endpoints.iter().filter_map(of).collect()
    }

    fn describe_endpoint(&self, stats: &EndpointStats<'_, Member>, held: bool) -> EndpointSnapshot {
        let member = &stats.key.0;
        let state = EndpointState {
            leaving: stats.leaving,
            standing: member.standing(),
            ejection: stats.ejection.map(|ejection| ejection.reason),
            weight: stats.weight,
        };
        let (standing, why) = state.explain(|| member.upstream.trouble(&member.service_name));
        let mut why: Vec<String> = why.into_iter().collect();
        // Of one that is down, the reason is said already.
        if state.standing != Standing::Down {
            why.extend(member.upstream.unwell(Instant::now()).explain());
        }
        why.extend(self.why_paused(stats.key));
        if held {
            let reason = "the registry no longer lists it, but it still answers";
            why.push(reason.to_owned());
        }
        why.extend(self.why_full(stats, Instant::now()));
        self.say_who_switched_off(stats.key, stats.weight, &mut why);
        for (method, state) in self.broken(stats.key, Instant::now()) {
            let circuit = format!("circuit of method {method}: {state}");
            why.push(circuit.chars().take(MAX_REASON_LEN).collect());
        }
        let mut calls = CallsSnapshot { average_ms: stats.latency.map(ms), ..Default::default() };
        if let Some(counted) = member.known_stats() {
            calls.totals.add(counted);
        }
        self.make_gate(stats.key);
        let gate = stats.key.gate();
        let shared = gate.as_ref().map(|gate| gate.shared());
        let purses = member.purses();
        let granted = purses.filter_map(|purse| purse.credits()).reduce(u32::saturating_add);
        let source = shared.map(|shared| shared.source().name()).or(granted.map(|_| GRANTED));
        let param = |name: &str| {
            let value = member.endpoint.params.get(name).filter(|value| !value.is_empty());
            value.map(str::to_owned)
        };
        EndpointSnapshot {
            service: self.service_name.to_string(),
            registry: self.registry_name.to_string(),
            listed_by: None,
            address: member.upstream.address().to_string(),
            protocol: member.endpoint.protocol.scheme().to_owned(),
            application: param("application"),
            release: param("release"),
            standing: BTreeMap::from([(standing.to_owned(), 1)]),
            why,
            held,
            weight: stats.weight,
            capacity: shared.map(|shared| shared.capacity()).or(granted),
            capacity_source: source.map(str::to_owned),
            calls,
        }
    }

    /// Why an endpoint that is up takes no more calls just now, if it does not.
    pub(super) fn why_full(
        &self,
        stats: &EndpointStats<'_, Member>,
        now: Instant,
    ) -> Option<String> {
        let (member, max) = (stats.key, self.policy.borrow().max_in_flight);
        if self.standing_for(member, now, None) == Standing::Full {
            let Some(gate) = member.gate() else {
                let why = "full: the provider's agent accepts no more calls from this agent now";
                return Some(why.to_owned());
            };
            let (capacity, source) = (gate.shared().capacity(), gate.shared().source());
            return Some(format!(
                "full: it takes {capacity} calls at once ({})",
                source.describe()
            ));
        }
        let is_full = max <= stats.in_flight;
        is_full.then(|| format!("at its limit: max_in_flight is {max}"))
    }

    /// The serializations in which calls of a route are written to its endpoints. `index` and
    /// `generation` are those of the route.
    pub fn serializations(&self, index: usize, generation: u64) -> Vec<String> {
        let otherwise = self.policy.borrow().serialization;
        let mut names: Vec<String> = Vec::new();
        for stats in self.balancer.borrow().stats().take(MAX_ASKED) {
            let used = stats.key.0.serialization_of(index, generation, otherwise);
            let name = used.map(|it| it.name().to_owned());
            names.extend(name.filter(|name| !names.contains(name)));
        }
        names
    }
}

/// What decides how an endpoint is shown.
#[derive(Clone, Copy)]
pub(super) struct EndpointState {
    /// No longer listed.
    pub(super) leaving: bool,
    pub(super) standing: Standing,
    pub(super) ejection: Option<EjectReason>,
    pub(super) weight: u32,
}

impl EndpointState {
    /// The endpoint's state in one word, and why it is not simply ready. `trouble` says why its
    /// connection is down.
    pub(super) fn explain(
        self,
        trouble: impl FnOnce() -> Option<CallError>,
    ) -> (&'static str, Option<String>) {
        if self.leaving {
            let why = "the registry no longer lists it; its last calls are in flight";
            return ("leaving", Some(why.to_owned()));
        }
        match (self.standing, self.ejection) {
            (Standing::Ready | Standing::Full, Some(reason)) => {
                let why = format!("{reason}; it gets a trial call now and then");
                ("ejected", Some(why))
            }
            (Standing::Ready | Standing::Full, None) if self.weight == 0 => {
                ("ready", Some(NO_WEIGHT.to_owned()))
            }
            (Standing::Ready | Standing::Full, None) => ("ready", None),
            (Standing::Connecting, _) => ("connecting", None),
            (Standing::Down, _) => ("down", trouble().map(|error| shortened(&error.message))),
        }
    }
}

/// The beginning of a reason, cut between characters.
fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_REASON_LEN)].to_owned()
}

impl MemberState {
    fn is_wanted(&self, filter: &Filter) -> bool {
        filter.has_address(self.upstream.address())
            && filter.has_protocol(self.endpoint.protocol.scheme())
    }

    /// `None` if nothing was agreed with the endpoint yet.
    fn serialization_of(
        &self,
        index: usize,
        generation: u64,
        otherwise: Serialization,
    ) -> Option<Serialization> {
        match &self.upstream {
            AnyUpstream::Dubbo(_) => Some(self.serialization(otherwise)),
            AnyUpstream::Link(lanes) => lanes.agreed(index, generation),
        }
    }
}

/// A service that is called, that nobody offers, and that is not looked up.
pub fn describe_unoffered(
    service: &str,
    registry: &str,
    policy: &ClusterPolicy,
) -> ServiceSnapshot {
    ServiceSnapshot {
        service: service.to_owned(),
        registry: registry.to_owned(),
        freshness: "current".to_owned(),
        workers: 1,
        endpoints: 0,
        ready: 0,
        connected: 0,
        weightless: 0,
        held: 0,
        unused: Vec::new(),
        waiting: 0,
        in_flight: 0,
        failed_without_endpoint: BTreeMap::new(),
        method_events: BTreeMap::new(),
        retries: BTreeMap::new(),
        calls: None,
        policy: describe_policy(policy),
    }
}

fn describe_policy(policy: &ClusterPolicy) -> PolicySnapshot {
    PolicySnapshot {
        balance: policy.balance.name().to_owned(),
        timeout_ms: policy.timeout.map(whole_ms),
        max_timeout_ms: whole_ms(policy.max_timeout),
        connect_timeout_ms: whole_ms(policy.connect_timeout),
        serialization: policy.serialization.name().to_owned(),
        max_attempts: policy.max_attempts,
        max_in_flight: policy.max_in_flight,
        endpoint_capacity: describe_capacity(policy.endpoint_capacity),
        max_reply_bytes: policy.max_reply_len,
        hold_ms: whole_ms(policy.hold.time),
        hold_percent: policy.hold.percent,
    }
}

/// As it is written in a configuration; nothing if that does not say it.
fn describe_capacity(capacity: Option<AppCapacity>) -> Option<String> {
    match capacity {
        None => Some("0".to_owned()),
        Some(AppCapacity::Known(capacity)) => Some(capacity.to_string()),
        Some(AppCapacity::Adaptive) => Some("auto".to_owned()),
        Some(AppCapacity::Registered) => None,
    }
}

fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    const READY: EndpointState =
        EndpointState { leaving: false, standing: Standing::Ready, ejection: None, weight: 1 };

    fn explain(state: EndpointState) -> (&'static str, Option<String>) {
        state.explain(|| Some(CallError::new(Code::Unreachable, "refused")))
    }

    #[test]
    fn what_matters_most_is_shown() {
        let ejected = EndpointState { ejection: Some(EjectReason::Failures), ..READY };
        let why = "several calls in a row failed; it gets a trial call now and then";
        assert_eq!(explain(ejected), ("ejected", Some(why.to_owned())));
        // An endpoint that cannot be reached gets no trial calls either.
        let down = EndpointState { standing: Standing::Down, ..ejected };
        assert_eq!(explain(down), ("down", Some("refused".to_owned())));
        let connecting = EndpointState { standing: Standing::Connecting, ..ejected };
        assert_eq!(explain(connecting), ("connecting", None));
        let leaving = EndpointState { leaving: true, ..down };
        let why = "the registry no longer lists it; its last calls are in flight";
        assert_eq!(explain(leaving), ("leaving", Some(why.to_owned())));
    }

    #[test]
    fn an_endpoint_without_weight_says_so() {
        assert_eq!(explain(READY), ("ready", None));
        let (standing, why) = explain(EndpointState { weight: 0, ..READY });
        assert_eq!(standing, "ready");
        assert_eq!(why.as_deref(), Some("its weight is 0, so it gets no calls"));
    }

    #[test]
    fn long_reasons_are_cut_between_characters() {
        let text = format!("{}\u{e9}", "x".repeat(MAX_REASON_LEN - 1));
        assert_eq!(shortened(&text).len(), MAX_REASON_LEN - 1);
        assert_eq!(shortened(&text[..MAX_REASON_LEN - 1]), text[..MAX_REASON_LEN - 1]);
        assert_eq!(shortened(&"x".repeat(MAX_REASON_LEN)).len(), MAX_REASON_LEN);
    }
}
