//! What an agent counts, and how it is shown to Prometheus.
//!
//! A worker asks the [`Hub`] for a [`CallStats`] when it meets a listener, service or endpoint
//! for the first time, and then counts into it without locks; the admin thread adds the workers'
//! numbers up when it is asked for them. docs/metrics.md lists what there is.

mod calls;
mod certificates;
mod ejections;
mod endpoints;
mod events;
mod family;
mod gauges;
mod holds;
mod lag;
mod limiters;
mod process;
mod render;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use balance::EjectReason;
use flow::rate_limit::RateLimits;
use wire::{Budget, ConnectionCounts, Loads};

use self::ejections::ProcessEjections;
use self::events::EventsByService;
use self::family::{Family, OTHER};
use self::gauges::PerName;
use self::holds::Holds;
use self::limiters::Limiters;
use self::process::Process;
use crate::gate::{DirectGates, GateFigures, SharedGate};
use crate::journal::Journal;
use crate::stages::ServiceStages;
use crate::traffic::Traffic;

pub use self::calls::{CallStats, CallTotals};
pub use self::certificates::CertificateExpiry;
pub use self::ejections::EjectedEndpoint;
pub use self::events::{MethodEvent, ServiceEvents};
pub use self::gauges::RegistryStats;
pub use self::holds::HeldEndpoint;
pub use self::lag::LagMeter;
pub use self::limiters::SharedLimiter;
pub use self::render::CONTENT_TYPE;

/// The label `endpoint` of calls that failed before one was chosen.
const NO_ENDPOINT: &str = "none";
/// Unknown services with a label of their own: enough for an estate's typing errors, and for
/// providers that are not there yet.
const MAX_UNKNOWN: usize = 64;
/// Methods with labels of their own: those of a few dozen services.
pub const MAX_METHOD_LABELS: usize = 1000;

/// How the endpoints of a service stand, as the workers see it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServiceFigures {
    /// The service key.
    pub service: String,
    /// Endpoints that a worker is connected to.
    pub n_ready: usize,
    /// Endpoints that no worker is connected to.
    pub n_not_ready: usize,
    /// Calls that wait because all endpoints work on as many as they can take.
    pub n_waiting: usize,
}

/// The calls of a method over HTTP, as their callers saw them.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodCalls {
    /// The service key.
    pub service: String,
    /// The method, or `other` for those beyond the limit.
    pub method: String,
    /// Its calls.
    pub calls: CallTotals,
}

/// What happened to the calls of a service besides their attempts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceEventCounts {
    /// Because of rules for their methods, by the name of the event.
    pub by_event: BTreeMap<String, u64>,
    /// Further attempts, by the name of the error that they followed.
    pub retries: BTreeMap<String, u64>,
}

/// The connections and calls of a listener.
#[derive(Clone, Debug)]
pub struct ListenerFigures {
    /// Its address.
    pub listener: String,
    /// Its connections.
    pub connections: Arc<ConnectionCounts>,
    /// Its calls, as their callers saw them; nothing for one that takes none.
    pub calls: Option<CallTotals>,
}

/// What the process uses, and how late its event loops were of late.
#[derive(Clone, Debug, Default)]
pub struct ProcessFigures {
    /// User and system time since it began.
    pub cpu: Option<Duration>,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// File descriptors that are open.
    pub open_files: Option<u64>,
    /// Most file descriptors that may be open.
    pub max_files: Option<u64>,
    /// The longest lag of a worker's event loop.
    pub lag: Option<Duration>,
    /// The lag that one had at least once in most seconds.
    pub usual_lag: Option<Duration>,
    /// The budget of memory for connections.
    pub memory: Option<Budget>,
}

/// Where all counts of the process come together. A clone is another handle to the same.
#[derive(Clone, Debug)]
pub struct Hub(Arc<HubState>);

#[derive(Debug)]
struct HubState {
    error_names: &'static [&'static str],
    start: SystemTime,
    upstream: Family,
    /// Services with a label of their own that no registry has offered yet.
    unknown: Mutex<BTreeSet<String>>,
    ingress: Family,
    export: Family,
    methods: Family,
    connections: PerName<ConnectionCounts>,
    loads: OnceLock<Loads>,
    lags: PerName<lag::Lag>,
    memory: OnceLock<Budget>,
    gates: Mutex<Vec<Arc<SharedGate>>>,
    direct_gates: OnceLock<Arc<DirectGates>>,
    traffic: OnceLock<Traffic>,
    journal: OnceLock<Journal>,
    registries: PerName<RegistryStats>,
    holds: Holds,
    ejections: ProcessEjections,
    events: EventsByService,
    limiters: Limiters,
}

impl Hub {
    /// A hub without counts. `error_names` are what the numbers given to
    /// [`CallStats::finished`] mean.
    #[must_use]
    pub fn new(error_names: &'static [&'static str]) -> Self {
        let n_codes = error_names.len();
        Self(Arc::new(HubState {
            error_names,
            start: SystemTime::now(),
            upstream: Family::new(n_codes, render::UPSTREAM.labels.len()),
            unknown: Mutex::default(),
            ingress: Family::new(n_codes, render::INGRESS.labels.len()),
            export: Family::new(n_codes, render::EXPORT.labels.len()),
            methods: Family::limited(n_codes, render::METHOD.labels.len(), MAX_METHOD_LABELS),
            connections: PerName::default(),
            loads: OnceLock::new(),
            lags: PerName::default(),
            memory: OnceLock::new(),
            gates: Mutex::default(),
            direct_gates: OnceLock::new(),
            traffic: OnceLock::new(),
            journal: OnceLock::new(),
            registries: PerName::default(),
            holds: Holds::default(),
            ejections: ProcessEjections::default(),
            events: EventsByService::default(),
            limiters: Limiters::default(),
        }))
    }

    /// A new writer for the calls to `endpoint` of `service`. Keep it while the endpoint lasts.
    #[must_use]
    pub fn upstream(&self, service: &str, endpoint: &str) -> Arc<CallStats> {
        self.0.upstream.writer(&[service, endpoint])
    }

    /// A new writer for the calls of `service` that fail before an endpoint is chosen.
    ///
    /// Callers make names up. Services that no registry `is_known` to have offered get names of
    /// their own up to a limit; what comes beyond counts as `other`.
    #[must_use]
    pub fn without_endpoint(&self, service: &str, is_known: bool) -> Arc<CallStats> {
        let label = if is_known { service } else { self.label_of_unknown(service) };
        self.0.upstream.writer(&[label, NO_ENDPOINT])
    }

    /// The label of a service that no registry is known to have offered.
    #[must_use]
    pub fn label_of_unknown<'a>(&self, service: &'a str) -> &'a str {
        let mut unknown = self.0.unknown.lock().unwrap_or_else(PoisonError::into_inner);
        if unknown.len() < MAX_UNKNOWN {
            unknown.insert(service.to_owned());
        }
        if unknown.contains(service) { service } else { OTHER }
    }

    /// The calls that failed before an endpoint was chosen: by service, and by the name of the
    /// error.
    #[must_use]
    pub fn failed_without_endpoint(&self) -> BTreeMap<String, BTreeMap<String, u64>> {
        let is_wanted = |labels: &[String]| labels.last().is_some_and(|it| it == NO_ENDPOINT);
        let failed = |(labels, totals): (Vec<String>, CallTotals)| {
            Some((labels.into_iter().next()?, totals.failed(self.0.error_names).collect()))
        };
        self.0.upstream.totals_of(is_wanted).into_iter().filter_map(failed).collect()
    }

    /// The calls that were sent to endpoints, by service, of those services that are wanted.
    #[must_use]
    pub fn sent_to_endpoints(
        &self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> BTreeMap<String, CallTotals> {
        let is_sent = |labels: &[String]| match labels {
            [service, endpoint] => endpoint != NO_ENDPOINT && is_wanted(service),
            _ => false,
        };
        let mut sent: BTreeMap<String, CallTotals> = BTreeMap::new();
        for (labels, totals) in self.0.upstream.totals_of(is_sent) {
            if let Some(service) = labels.into_iter().next() {
                sent.entry(service).or_default().merge(&totals);
            }
        }
        sent
    }

    /// A new writer for the calls that `listener` takes.
    #[must_use]
    pub fn ingress(&self, listener: &str) -> Arc<CallStats> {
        self.0.ingress.writer(&[listener])
    }

    /// A new writer for the calls of other agents to `service` of the local app.
    #[must_use]
    pub fn export(&self, service: &str) -> Arc<CallStats> {
        self.0.export.writer(&[service])
    }

    /// The calls to services of the local app, by service.
    #[must_use]
    pub fn exported(&self) -> BTreeMap<String, CallTotals> {
        let by_service =
            |(labels, totals): (Vec<String>, _)| Some((labels.into_iter().next()?, totals));
        self.0.export.totals().into_iter().filter_map(by_service).collect()
    }

    /// A new writer for the calls of a method that `service` has; without a method, for those of
    /// which it is not known whether it has theirs.
    #[must_use]
    pub fn method(&self, service: &str, method: Option<&str>) -> Arc<CallStats> {
        self.0.methods.writer(&[service, method.unwrap_or(OTHER)])
    }

    /// The calls of methods over HTTP, as their callers saw them: of services that are wanted.
    #[must_use]
    pub fn methods(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<MethodCalls> {
        let is_wanted = |labels: &[String]| labels.first().is_some_and(|it| is_wanted(it));
        let of_method = |(labels, calls): (Vec<String>, CallTotals)| {
            let [service, method] = labels.try_into().ok()?;
            Some(MethodCalls { service, method, calls })
        };
        self.0.methods.totals_of(is_wanted).into_iter().filter_map(of_method).collect()
    }

    /// All listeners, in the order of their names.
    #[must_use]
    pub fn listeners(&self) -> Vec<ListenerFigures> {
        let mut calls: BTreeMap<String, CallTotals> = self
            .0
            .ingress
            .totals()
            .into_iter()
            .filter_map(|(labels, totals)| Some((labels.into_iter().next()?, totals)))
            .collect();
        let figures = |(listener, connections): (String, Arc<ConnectionCounts>)| ListenerFigures {
            calls: calls.remove(&listener),
            listener,
            connections,
        };
        self.0.connections.all().into_iter().map(figures).collect()
    }

    /// What happened to the calls of services besides their attempts: what has happened at all.
    #[must_use]
    pub fn service_events(&self) -> BTreeMap<String, ServiceEventCounts> {
        let event = |(event, n): (MethodEvent, u64)| (event.name().to_owned(), n);
        let retry =
            |(code, n): (usize, u64)| Some(((*self.0.error_names.get(code)?).to_owned(), n));
        let of_service = |(service, events): (String, Arc<ServiceEvents>)| {
            let retries = events.retries().into_iter().filter_map(retry).collect();
            let by_event = events.events().into_iter().map(event).collect();
            (service, ServiceEventCounts { by_event, retries })
        };
        self.0.events.all().into_iter().map(of_service).collect()
    }

    /// The process and its event loops.
    #[must_use]
    pub fn process(&self) -> ProcessFigures {
        let process = Process::now();
        let lags = self.0.lags.all();
        let worst = |of: fn(&lag::Lag) -> &AtomicU64| {
            lags.iter().map(|(_, lag)| of(lag).load(Relaxed)).max().map(Duration::from_micros)
        };
        ProcessFigures {
            cpu: process.cpu,
            resident_bytes: process.resident_bytes,
            open_files: process.open_files,
            max_files: process.max_files,
            lag: worst(|lag| &lag.worst_us),
            usual_lag: worst(|lag| &lag.usual_us),
            memory: self.0.memory.get().cloned(),
        }
    }

    /// The connections of `listener`, shared by all threads.
    #[must_use]
    pub fn connections(&self, listener: &str) -> Arc<ConnectionCounts> {
        self.0.connections.of(listener)
    }

    /// Shows the connections of each worker from now on. The first that are given stay.
    pub fn show_loads(&self, loads: Loads) {
        let _ = self.0.loads.set(loads);
    }

    /// Where a worker notes how late its event loop comes.
    #[must_use]
    pub fn lag_meter(&self, worker: usize) -> LagMeter {
        LagMeter::new(self.0.lags.of(&worker.to_string()), Instant::now())
    }

    /// Has the budget of memory shown.
    pub fn show_memory(&self, budget: Budget) {
        let _ = self.0.memory.set(budget);
    }

    /// Has the gates before exported apps shown.
    pub fn show_gates(&self, gates: Vec<Arc<SharedGate>>) {
        *self.0.gates.lock().unwrap_or_else(PoisonError::into_inner) = gates;
    }

    /// Has the gates before endpoints shown that are called without an agent there.
    pub fn show_direct_gates(&self, gates: &Arc<DirectGates>) {
        let _ = self.0.direct_gates.set(Arc::clone(gates));
    }

    /// Has the lines of the access log counted.
    pub fn show_journal(&self, journal: Journal) {
        let _ = self.0.journal.set(journal);
    }

    /// Where the time of calls went that had their stages' time stopped.
    #[must_use]
    pub fn stages(&self) -> Vec<ServiceStages> {
        self.0.journal.get().map(|journal| journal.stages().all()).unwrap_or_default()
    }

    /// How the gates before endpoints stand.
    #[must_use]
    pub fn direct_gates(&self) -> Vec<GateFigures> {
        self.0.direct_gates.get().map(|gates| gates.figures()).unwrap_or_default()
    }

    /// Shows how many connections to endpoints there are.
    pub fn show_traffic(&self, traffic: &Traffic) {
        let _ = self.0.traffic.set(traffic.clone());
    }

    /// How many connections to endpoints are open, by address.
    pub(super) fn n_upstream_connections(&self) -> BTreeMap<String, u64> {
        self.0.traffic.get().map(Traffic::n_open).unwrap_or_default()
    }

    /// How the gates before exported apps stand.
    #[must_use]
    pub fn gates(&self) -> Vec<GateFigures> {
        let gates = self.0.gates.lock().unwrap_or_else(PoisonError::into_inner).clone();
        gates.iter().map(|gate| gate.figures()).collect()
    }

    /// The state of the registry `name`, shared by all threads.
    #[must_use]
    pub fn registry(&self, name: &str) -> Arc<RegistryStats> {
        self.0.registries.of(name)
    }

    /// A worker has ejected an endpoint of `service`, until the result is dropped.
    #[must_use]
    pub fn ejected(&self, service: &str, address: &str) -> EjectedEndpoint {
        self.0.ejections.add(service, address)
    }

    /// Counts an endpoint of `service` that was ejected.
    pub fn count_ejection(&self, service: &str, reason: EjectReason) {
        self.0.ejections.count(service, reason);
    }

    /// Where what happens to the calls of `service` is counted. Services that no registry
    /// `is_known` to have offered share one place.
    #[must_use]
    pub fn events(&self, service: &str, is_known: bool) -> Arc<ServiceEvents> {
        self.0.events.of(if is_known { service } else { OTHER })
    }

    /// The limit of that name, which all workers share and which is `limits` from now on.
    #[must_use]
    pub fn limiter(&self, name: &str, limits: RateLimits) -> Arc<SharedLimiter> {
        self.0.limiters.of(name, Instant::now(), limits)
    }

    /// A worker holds an endpoint of `service` that no registry lists, until the result is
    /// dropped.
    #[must_use]
    pub fn held(&self, service: &str, address: &str) -> HeldEndpoint {
        self.0.holds.add(service, address)
    }

    /// Whether the operator is to be told now that endpoints of `service` are held: once for all
    /// workers.
    #[must_use]
    pub fn begin_hold(&self, service: &str) -> bool {
        self.0.holds.announce(service)
    }

    /// Whether the operator is to be told now that none is held any more.
    #[must_use]
    pub fn end_hold(&self, service: &str) -> bool {
        self.0.holds.end(service)
    }

    /// All that is counted, what the workers say of the services that they call, and when our
    /// certificates expire, as text of the type [`CONTENT_TYPE`].
    #[must_use]
    pub fn render(
        &self,
        services: &[ServiceFigures],
        certificates: &[CertificateExpiry],
    ) -> String {
        render::render(render::Shown {
            hub: self.clone(),
            services: services.to_vec(),
            certificates: certificates.to_vec(),
            process: Process::now(),
        })
    }
}
