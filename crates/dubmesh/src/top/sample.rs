//! What an agent's pages say, and what has changed between two looks at them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use agent::inspect::snapshot::{
    CallsSnapshot, ConnectionSnapshot, EndpointSnapshot, ListenerSnapshot, Page, ServiceSnapshot,
    StagesSnapshot, VersionSnapshot,
};
use agent::stages::{N_STAGES, Stage};

use crate::admin_pages;

/// The name of the error of calls that were given up before their deadline.
const CANCELLED: &str = "cancelled";

/// The pages at one moment.
pub(super) struct Sample {
    at: Instant,
    version: VersionSnapshot,
    services: Vec<ServiceSnapshot>,
    endpoints: Vec<EndpointSnapshot>,
    connections: Vec<ConnectionSnapshot>,
    stages: Vec<StagesSnapshot>,
    /// An older agent does not say it.
    listeners: Option<Vec<ListenerSnapshot>>,
    missing: Missing,
}

/// What the pages do not show.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Missing {
    /// How many services, endpoints and connections are beyond the most that a page shows.
    pub(super) services: usize,
    pub(super) endpoints: usize,
    pub(super) connections: usize,
    /// Workers that have not answered in time.
    pub(super) workers: usize,
}

impl Missing {
    /// Takes the items of a page, and notes how many it leaves out.
    fn of<T>(&mut self, page: Page<T>, left_out: fn(&mut Self) -> &mut usize) -> Vec<T> {
        *left_out(self) = page.total.saturating_sub(page.items.len());
        self.workers = self.workers.max(page.silent_workers.len());
        page.items
    }
}

/// What an agent did between two looks.
#[derive(Clone, Debug, Default)]
pub(super) struct AgentFigures {
    /// What it calls itself.
    pub(super) agent: String,
    /// The version of its program.
    pub(super) version: String,
    /// Between the looks.
    pub(super) seconds: f64,
    /// Calls a second, however they ended: as their callers saw them, each once.
    pub(super) rate: f64,
    /// Those of them that failed.
    pub(super) errors: f64,
    /// Those of them that failed before an endpoint was chosen.
    pub(super) errors_without_endpoint: f64,
    pub(super) in_flight: u64,
    pub(super) services: Vec<ServiceView>,
    pub(super) endpoints: Vec<EndpointLine>,
    pub(super) connections: Vec<ConnectionLine>,
    pub(super) stages: Vec<Stages>,
    pub(super) missing: Missing,
}

/// How calls to something went.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallFigures {
    /// A second, however they ended.
    pub(super) rate: f64,
    /// A second, of those that failed.
    pub(super) errors: f64,
    /// Of all calls so far, in milliseconds.
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    /// Of the good answers between the looks, in milliseconds.
    pub(super) average: Option<f64>,
    pub(super) in_flight: u64,
}

/// A line of the view of services.
#[derive(Clone, Debug)]
pub(super) struct ServiceView {
    pub(super) name: String,
    pub(super) calls: CallFigures,
    pub(super) ready: usize,
    pub(super) endpoints: usize,
    pub(super) waiting: usize,
    /// What is wrong with its list, if anything is.
    pub(super) note: String,
}

/// A line of the view of endpoints.
#[derive(Clone, Debug)]
pub(super) struct EndpointLine {
    pub(super) address: String,
    pub(super) service: String,
    pub(super) calls: CallFigures,
    pub(super) limit: Option<u32>,
    /// Its state, and why.
    pub(super) state: String,
    pub(super) is_well: bool,
}

/// A line of the view of connections.
#[derive(Clone, Debug)]
pub(super) struct ConnectionLine {
    pub(super) peer: String,
    pub(super) what: String,
    /// Bytes a second.
    pub(super) read: f64,
    pub(super) written: f64,
    pub(super) in_flight: usize,
    /// In milliseconds.
    pub(super) round_trip: Option<f64>,
    pub(super) held_bytes: usize,
    pub(super) doing: String,
}

/// A line of the view of stages.
#[derive(Clone, Debug)]
pub(super) struct Stages {
    pub(super) service: String,
    /// `ingress` for calls that local programs make, `export` for those to the local app.
    pub(super) place: String,
    /// Calls that were timed so far.
    pub(super) n_calls: u64,
    /// How long they were in each stage, in milliseconds: on average since the last look, or of
    /// all if none ended since.
    pub(super) ms: [f64; N_STAGES],
}

impl Sample {
    /// Reads the pages.
    pub(super) async fn take(admin: &str) -> Result<Self, String> {
        let at = Instant::now();
        let version = admin_pages::version(admin).await?;
        let (services, endpoints, connections, stages, listeners) = tokio::join!(
            admin_pages::listed(admin, "services"),
            admin_pages::listed(admin, "endpoints"),
            admin_pages::listed(admin, "connections"),
            admin_pages::items(admin, "stages"),
            admin_pages::items(admin, "listeners"),
        );
        let mut missing = Missing::default();
        let services = missing.of(services?, |it| &mut it.services);
        let endpoints = missing.of(endpoints?, |it| &mut it.endpoints);
        let connections = missing.of(connections?, |it| &mut it.connections);
        // An older agent has no such page.
        let stages = stages.unwrap_or_default();
        let listeners = listeners.ok();
        Ok(Self { at, version, services, endpoints, connections, stages, listeners, missing })
    }

    /// Of an agent that does nothing.
    #[cfg(test)]
    pub(super) fn of_nothing() -> Self {
        Self {
            at: Instant::now(),
            version: tests::version(1, 60),
            services: Vec::new(),
            endpoints: Vec::new(),
            connections: Vec::new(),
            stages: Vec::new(),
            listeners: None,
            missing: Missing::default(),
        }
    }

    /// What has happened since `before`.
    pub(super) fn since(&self, before: &Self) -> AgentFigures {
        let is_same = is_same_process(&self.version, &before.version);
        let time = self.at.saturating_duration_since(before.at);
        let rates = Rates { seconds: time.max(Duration::from_millis(1)).as_secs_f64(), is_same };
        let endpoints = self.endpoints(before, &rates);
        let sum = |of: fn(&CallFigures) -> f64| total(endpoints.iter().map(|it| of(&it.calls)));
        let early = self.early_errors(before, &rates);
        let early_rate = total(early.values().map(|it| it.rate));
        // An older agent says only which attempts there were.
        let attempts = CallFigures {
            rate: sum(|calls| calls.rate) + early_rate,
            errors: sum(|calls| calls.errors) + early_rate,
            ..CallFigures::default()
        };
        let seen = self.seen_by_callers(before, &rates).unwrap_or(attempts);
        AgentFigures {
            agent: self.version.agent.clone(),
            version: self.version.version.clone(),
            seconds: time.as_secs_f64(),
            rate: seen.rate,
            errors: seen.errors,
            // Copies of calls, which nobody waits for, fail there, too.
            errors_without_endpoint: early_rate.min(seen.errors),
            in_flight: endpoints.iter().map(|it| it.calls.in_flight).sum(),
            services: self.services(before, &rates, &endpoints, &early),
            connections: self.connections(before, &rates),
            stages: self.stages(before, rates.is_same),
            endpoints,
            missing: self.missing.clone(),
        }
    }

    /// The calls of all listeners.
    fn seen_by_callers(&self, before: &Self, rates: &Rates) -> Option<CallFigures> {
        let known = before.listeners.as_ref()?;
        let known: HashMap<&str, _> =
            known.iter().filter_map(|it| Some((&*it.listener, it.calls.as_ref()?))).collect();
        let figures = |it: &ListenerSnapshot| {
            Some(rates.calls(it.calls.as_ref()?, known.get(&*it.listener).copied()))
        };
        let all: Vec<CallFigures> = self.listeners.as_ref()?.iter().filter_map(figures).collect();
        Some(sum_of(all.iter()))
    }

    fn endpoints(&self, before: &Self, rates: &Rates) -> Vec<EndpointLine> {
        let key = |it: &EndpointSnapshot| {
            (it.service.clone(), it.address.clone(), it.protocol.clone(), it.registry.clone())
        };
        let known: HashMap<_, _> = before.endpoints.iter().map(|it| (key(it), &it.calls)).collect();
        let line = |it: &EndpointSnapshot| EndpointLine {
            address: it.address.clone(),
            service: it.service.clone(),
            calls: rates.calls(&it.calls, known.get(&key(it)).copied()),
            limit: it.capacity,
            state: state(it),
            is_well: it.why.is_empty() && !it.held,
        };
        self.endpoints.iter().map(line).collect()
    }

    /// The calls of each service that failed before an endpoint was chosen. A service of two
    /// registries is on the page twice, with the same numbers.
    fn early_errors<'a>(
        &'a self,
        before: &Self,
        rates: &Rates,
    ) -> HashMap<&'a str, EarlyErrors<'a>> {
        let known: HashMap<&str, _> =
            before.services.iter().map(|it| (&*it.service, &it.failed_without_endpoint)).collect();
        let errors = |it: &'a ServiceSnapshot| {
            let known = known.get(&*it.service);
            let rate = |(name, n): (&'a String, &u64)| {
                (&**name, rates.of(*n, known.and_then(|known| known.get(name)).copied()))
            };
            let by_name = it.failed_without_endpoint.iter().map(rate);
            let most = by_name.clone().max_by(|(_, a), (_, b)| a.total_cmp(b));
            let most = most.filter(|(_, rate)| *rate != 0.0).map(|(name, _)| name);
            (&*it.service, EarlyErrors { rate: total(by_name.map(|(_, rate)| rate)), most })
        };
        self.services.iter().map(errors).collect()
    }

    fn services(
        &self,
        before: &Self,
        rates: &Rates,
        endpoints: &[EndpointLine],
        early: &HashMap<&str, EarlyErrors<'_>>,
    ) -> Vec<ServiceView> {
        let known: HashMap<_, _> = before
            .services
            .iter()
            .filter_map(|it| Some((&*it.service, it.calls.as_ref()?)))
            .collect();
        let line = |it: &ServiceSnapshot| {
            let sent = it.calls.as_ref();
            let sent = sent.map(|calls| rates.calls(calls, known.get(&*it.service).copied()));
            let own = || endpoints.iter().filter(|endpoint| endpoint.service == it.service);
            // An older agent says it of each endpoint only.
            let sent = sent.unwrap_or_else(|| sum_of(own().map(|endpoint| &endpoint.calls)));
            let early = early.get(&*it.service).copied().unwrap_or_default();
            let calls = CallFigures {
                rate: sent.rate + early.rate,
                errors: sent.errors + early.rate,
                in_flight: it.in_flight,
                ..sent
            };
            let failing = early.most.map(|name| format!("{name} without an endpoint"));
            let is_current = it.freshness == "current";
            let freshness = (!is_current).then(|| format!("list is {}", it.freshness));
            let weightless = match it.weightless {
                0 => None,
                n if n == it.endpoints => Some("no endpoint has a weight".to_owned()),
                n => Some(format!("{n} without weight")),
            };
            let held = (it.held != 0).then(|| format!("{} held", it.held));
            let unused = it.unused.iter().cloned();
            ServiceView {
                name: it.service.clone(),
                calls,
                ready: it.ready,
                endpoints: it.endpoints,
                waiting: it.waiting,
                note: failing
                    .into_iter()
                    .chain(freshness)
                    .chain(weightless)
                    .chain(held)
                    .chain(unused)
                    .collect::<Vec<_>>()
                    .join("; "),
            }
        };
        self.services.iter().map(line).collect()
    }

    fn connections(&self, before: &Self, rates: &Rates) -> Vec<ConnectionLine> {
        let known: HashMap<_, _> = before.connections.iter().map(|it| (it.id, it)).collect();
        let line = |it: &ConnectionSnapshot| {
            let known = known.get(&it.id);
            let rtt = it.tcp.as_ref().and_then(|tcp| tcp.rtt_us);
            ConnectionLine {
                peer: it
                    .peer_name
                    .clone()
                    .map_or_else(|| it.peer.clone(), |name| format!("{} ({name})", it.peer)),
                what: format!("{} {}", it.protocol, it.direction),
                read: rates.of(it.bytes_read, known.map(|it| it.bytes_read)),
                written: rates.of(it.bytes_written, known.map(|it| it.bytes_written)),
                in_flight: it.in_flight,
                round_trip: rtt.map(|us| f64::from(us) / 1e3),
                held_bytes: it.held_bytes,
                doing: it.doing.clone(),
            }
        };
        self.connections.iter().map(line).collect()
    }

    fn stages(&self, before: &Self, is_same: bool) -> Vec<Stages> {
        let line = |it: &StagesSnapshot| {
            let is_it = |other: &&StagesSnapshot| {
                (&other.place, &other.service) == (&it.place, &it.service)
            };
            let before = before.stages.iter().find(is_it).filter(|_| is_same);
            Stages {
                service: it.service.clone(),
                place: it.place.clone(),
                n_calls: it.calls,
                ms: stages_since(it, before),
            }
        };
        self.stages.iter().map(line).collect()
    }
}

/// The calls of a service that failed before an endpoint was chosen.
#[derive(Clone, Copy, Debug, Default)]
struct EarlyErrors<'a> {
    /// A second.
    rate: f64,
    /// The name of the error of most of them.
    most: Option<&'a str>,
}

/// Whether two looks were at the same process: another one has begun to count anew. In a
/// container, each has the same number.
fn is_same_process(now: &VersionSnapshot, before: &VersionSnapshot) -> bool {
    now.pid == before.pid && before.uptime_s <= now.uptime_s
}

/// The average times of calls that ended after `before`.
fn stages_since(now: &StagesSnapshot, before: Option<&StagesSnapshot>) -> [f64; N_STAGES] {
    let before = before.filter(|before| before.calls < now.calls);
    let n_calls = now.calls - before.map_or(0, |before| before.calls);
    Stage::ALL.map(|stage| {
        let of = |it: &StagesSnapshot| it.total_ms.get(stage.name()).copied().unwrap_or(0.0);
        (of(now) - before.map_or(0.0, of)).max(0.0) / n_calls.max(1) as f64
    })
}

/// Its states, with the number of workers where they differ, and the reasons.
fn state(endpoint: &EndpointSnapshot) -> String {
    let standing = &endpoint.standing;
    let states = standing.iter().map(|(name, n)| match standing.len() {
        1 => name.clone(),
        _ => format!("{name} {n}"),
    });
    let held = endpoint.held.then(|| "held".to_owned());
    let weightless = (endpoint.weight == 0).then(|| "weight 0".to_owned());
    let first = states.chain(held).chain(weightless).collect::<Vec<_>>().join(", ");
    std::iter::once(first).chain(endpoint.why.iter().cloned()).collect::<Vec<_>>().join(": ")
}

/// Turns counts into counts a second.
struct Rates {
    seconds: f64,
    /// Whether both looks were at the same process.
    is_same: bool,
}

impl Rates {
    /// Of something that may be new since then.
    fn of(&self, now: u64, before: Option<u64>) -> f64 {
        let before = if self.is_same { before.unwrap_or(0) } else { 0 };
        now.saturating_sub(before) as f64 / self.seconds
    }

    fn calls(&self, now: &CallsSnapshot, before: Option<&CallsSnapshot>) -> CallFigures {
        let ended = |calls: &CallsSnapshot| calls.failed.values().sum::<u64>();
        let all = |calls: &CallsSnapshot| calls.ok.saturating_add(ended(calls));
        // Another endpoint was faster, or the caller has gone: nothing went wrong.
        let given_up = |calls: &CallsSnapshot| calls.failed.get(CANCELLED).copied().unwrap_or(0);
        let failed = |calls: &CallsSnapshot| ended(calls) - given_up(calls);
        CallFigures {
            rate: self.of(all(now), before.map(all)),
            errors: self.of(failed(now), before.map(failed)),
            p50: now.p50_ms,
            p99: now.p99_ms,
            average: self.average_ms(now, before),
            in_flight: now.in_flight,
        }
    }

    /// The mean latency of the good answers between the looks. The page's own average is the
    /// highest of all workers, and that of a worker without calls is an old one.
    fn average_ms(&self, now: &CallsSnapshot, before: Option<&CallsSnapshot>) -> Option<f64> {
        let Some(total) = now.ok_total_ms else { return now.average_ms };
        let before = before.filter(|before| self.is_same && before.ok <= now.ok);
        let (n_before, total_before) =
            before.map_or((0, 0.0), |it| (it.n_answers(), it.ok_total_ms.unwrap_or_default()));
        let n_answers = now.n_answers().saturating_sub(n_before);
        (n_answers != 0).then(|| (total - total_before).max(0.0) / n_answers as f64)
    }
}

/// The sum. Rust's own of nothing is -0.
fn total(all: impl Iterator<Item = f64>) -> f64 {
    all.fold(0.0, |sum, next| sum + next)
}

/// The calls of all; how long they take is that of the slowest.
fn sum_of<'a>(all: impl Iterator<Item = &'a CallFigures>) -> CallFigures {
    let most = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
    all.fold(CallFigures::default(), |sum, next| CallFigures {
        rate: sum.rate + next.rate,
        errors: sum.errors + next.errors,
        p50: most(sum.p50, next.p50),
        p99: most(sum.p99, next.p99),
        average: most(sum.average, next.average),
        in_flight: sum.in_flight + next.in_flight,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn version(pid: u32, uptime_s: u64) -> VersionSnapshot {
        VersionSnapshot {
            program: "dubmesh".to_owned(),
            version: "1.0".to_owned(),
            agent: "shop".to_owned(),
            pid,
            uptime_s,
        }
    }

    #[test]
    fn averages_are_of_the_calls_between_the_looks() {
        let calls = |ok, total: Option<f64>| {
            let mut calls = CallsSnapshot::default();
            // What a worker keeps that has made no call for long.
            (calls.ok, calls.ok_total_ms, calls.average_ms) = (ok, total, Some(900.0));
            calls
        };
        let average = |is_same, now, before: Option<CallsSnapshot>| {
            Rates { seconds: 1.0, is_same }.calls(&now, before.as_ref()).average
        };
        let slow_once = || Some(calls(10, Some(9000.0)));
        assert_eq!(average(true, calls(14, Some(9008.0)), slow_once()), Some(2.0));
        assert_eq!(average(true, calls(10, Some(9000.0)), slow_once()), None, "none has ended");
        assert_eq!(average(true, calls(2, Some(6.0)), None), Some(3.0), "it is new");
        assert_eq!(average(false, calls(20, Some(40.0)), slow_once()), Some(2.0));
        assert_eq!(average(true, calls(2, Some(6.0)), slow_once()), Some(3.0), "it began anew");
        assert_eq!(average(true, calls(10, None), slow_once()), Some(900.0), "an older agent");
        let mut one_way = calls(714, Some(9008.0));
        one_way.one_way = 700;
        assert_eq!(average(true, one_way, slow_once()), Some(2.0), "no answers");
    }

    fn service(failed: &[(&str, u64)]) -> ServiceSnapshot {
        let failed: serde_json::Map<_, _> =
            failed.iter().map(|(name, n)| ((*name).to_owned(), (*n).into())).collect();
        serde_json::from_value(serde_json::json!({
            "service": "com.acme.Orders", "registry": "main", "freshness": "current",
            "workers": 1, "endpoints": 0, "ready": 0, "held": 0, "unused": [], "in_flight": 0,
            "failed_without_endpoint": failed,
            "policy": {
                "balance": "least-in-flight", "timeout_ms": null, "max_timeout_ms": 60000,
                "connect_timeout_ms": 1000, "serialization": "hessian2", "max_attempts": 3,
                "max_in_flight": 1000, "max_reply_bytes": 8388608, "hold_ms": 0,
                "hold_percent": 0,
            },
        }))
        .unwrap()
    }

    #[test]
    fn calls_that_find_no_endpoint_are_errors() {
        let (before, mut now) = (Sample::of_nothing(), Sample::of_nothing());
        let before = Sample {
            services: vec![service(&[("overloaded", 100), ("timeout", 9)])],
            at: now.at - Duration::from_secs(2),
            ..before
        };
        // The same service of another registry has the same numbers.
        let seen = || service(&[("no_endpoint", 2), ("overloaded", 500), ("timeout", 9)]);
        now.services = vec![seen(), ServiceSnapshot { registry: "other".to_owned(), ..seen() }];
        let figures = now.since(&before);
        assert_eq!((figures.errors, figures.errors_without_endpoint), (201.0, 201.0));
        let view = &figures.services[0];
        let noted = (view.calls.errors, &*view.note);
        assert_eq!(noted, (201.0, "overloaded without an endpoint"));
        let figures = now.since(&now);
        assert_eq!((figures.errors, &*figures.services[0].note), (0.0, ""));
    }

    /// A call may have several attempts, and copies.
    #[test]
    fn calls_are_those_that_callers_saw() {
        let calls = |ok: u64, failed: u64| {
            let mut calls = CallsSnapshot::default();
            calls.ok = ok;
            calls.failed = [("timeout".to_owned(), failed), (CANCELLED.to_owned(), ok)].into();
            Some(calls)
        };
        let listeners = |ok, failed| {
            let of = |name: &str, calls| ListenerSnapshot {
                listener: name.to_owned(),
                calls,
                ..ListenerSnapshot::default()
            };
            Some(vec![of("a:1", calls(ok, failed)), of("b:2", calls(ok, 0)), of("admin:3", None)])
        };
        let (before, mut now) = (Sample::of_nothing(), Sample::of_nothing());
        let at = now.at - Duration::from_secs(2);
        let services = vec![service(&[("overloaded", 100)])];
        let before = Sample { listeners: listeners(10, 1), at, services, ..before };
        now.listeners = listeners(50, 3);
        now.services = vec![service(&[("overloaded", 500)])];
        let figures = now.since(&before);
        assert_eq!(
            (figures.rate, figures.errors, figures.errors_without_endpoint),
            (81.0, 1.0, 1.0)
        );
        now.listeners = None;
        assert_eq!(now.since(&before).errors, 200.0, "an older agent");
        let nothing = Sample::of_nothing().since(&Sample::of_nothing());
        let figures = [nothing.rate, nothing.errors, nothing.errors_without_endpoint];
        assert!(figures.iter().all(|it| it.is_sign_positive()), "{figures:?}");
    }

    #[test]
    fn a_service_is_as_fast_as_its_calls_and_not_as_its_slowest_endpoint() {
        let calls = |ok: u64, total: f64| {
            let mut calls = CallsSnapshot::default();
            (calls.ok, calls.ok_total_ms) = (ok, Some(total));
            (calls.p50_ms, calls.p99_ms) = (Some(5.0), Some(10.0));
            calls
        };
        let with = |calls| ServiceSnapshot { calls: Some(calls), ..service(&[]) };
        let (before, mut now) = (Sample::of_nothing(), Sample::of_nothing());
        let at = now.at - Duration::from_secs(2);
        let before = Sample { services: vec![with(calls(100, 9000.0))], at, ..before };
        // 900 of 5 ms, and 2 of 50.
        now.services = vec![with(calls(1002, 13_600.0))];
        let CallFigures { rate, p50, p99, average, .. } = now.since(&before).services[0].calls;
        assert_eq!((rate, p50, p99), (451.0, Some(5.0), Some(10.0)));
        assert!(average.is_some_and(|ms| (5.0..5.2).contains(&ms)), "{average:?}");
    }

    #[test]
    fn times_of_stages_are_of_late_where_calls_have_ended() {
        let page = |calls, wait| StagesSnapshot {
            calls,
            total_ms: [("wait".to_owned(), wait)].into(),
            ..StagesSnapshot::default()
        };
        let wait = |now, before: Option<StagesSnapshot>| {
            stages_since(&now, before.as_ref())[Stage::Wait as usize]
        };
        assert_eq!(wait(page(4, 40.0), Some(page(2, 6.0))), 17.0);
        assert_eq!(wait(page(4, 40.0), Some(page(4, 40.0))), 10.0);
        assert_eq!(wait(page(4, 40.0), None), 10.0);
        assert_eq!(wait(page(0, 0.0), None), 0.0);
        assert_eq!(wait(page(1, 3.0), Some(page(9, 90.0))), 3.0, "it began anew");
    }

    #[test]
    fn a_new_process_may_have_the_number_of_the_old_one() {
        assert!(is_same_process(&version(1, 60), &version(1, 60)));
        assert!(!is_same_process(&version(2, 61), &version(1, 60)));
        assert!(!is_same_process(&version(1, 0), &version(1, 60)));
    }

    #[test]
    fn rates_are_differences_a_second_and_begin_anew_with_a_new_process() {
        let rates = Rates { seconds: 2.0, is_same: true };
        assert_eq!(rates.of(120, Some(100)), 10.0);
        assert_eq!(rates.of(120, None), 60.0, "it is new");
        assert_eq!(rates.of(120, Some(500)), 0.0, "it was forgotten, and is there again");
        let rates = Rates { is_same: false, ..rates };
        assert_eq!(rates.of(120, Some(100)), 60.0);
    }
}
