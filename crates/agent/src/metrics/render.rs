//! All counts as OpenMetrics text, which Prometheus reads.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use super::calls::{BOUNDS_US, CallTotals, LatencyTotals};
use super::certificates::{CertificateExpiry, certificates};
use super::endpoints::{ejections, holds, services, upstream_connections};
use super::family::Family;
use super::gauges::unix_seconds;
use super::process::Process;
use super::{Hub, ServiceFigures};
use crate::gate::GateFigures;
use crate::stages::{ServiceStages, Stage};

/// The media type of [`Hub::render`]'s text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The label `code` of a call that went well, and the label `outcome` of its latency.
const OK: &str = "ok";
/// The label `outcome` of the latency of a call that failed.
const FAILED: &str = "failed";

/// Names and words of one family of calls.
pub(super) struct Words {
    pub(super) labels: &'static [&'static str],
    calls: (&'static str, &'static str),
    /// `None` if calls are counted when they end.
    in_flight: Option<(&'static str, &'static str)>,
    latency: (&'static str, &'static str),
}

pub(super) const UPSTREAM: Words = Words {
    labels: &["service", "endpoint"],
    calls: ("dubmesh_upstream_calls", "Ended calls to an endpoint, by outcome"),
    in_flight: Some((
        "dubmesh_upstream_in_flight",
        "Calls sent to an endpoint and not answered yet",
    )),
    latency: ("dubmesh_upstream_latency", "Time from the pick of an endpoint to its answer"),
};

pub(super) const INGRESS: Words = Words {
    labels: &["listener"],
    calls: ("dubmesh_ingress_calls", "Ended calls of a listener, by outcome"),
    in_flight: Some(("dubmesh_ingress_in_flight", "Calls of a listener that are not answered yet")),
    latency: ("dubmesh_ingress_latency", "Time from a whole request to its answer"),
};

pub(super) const EXPORT: Words = Words {
    labels: &["service"],
    calls: ("dubmesh_export_calls", "Ended calls of other agents to the local app, by outcome"),
    in_flight: Some((
        "dubmesh_export_in_flight",
        "Calls passed to the local app and not answered yet",
    )),
    latency: ("dubmesh_export_latency", "Time from a call of another agent to the app's answer"),
};

pub(super) const METHOD: Words = Words {
    labels: &["service", "method"],
    calls: ("dubmesh_method_calls", "Ended calls of a method, by outcome"),
    in_flight: None,
    latency: ("dubmesh_method_latency", "Time from a whole request to the answer of its call"),
};

type LabelPairs<'a> = Vec<(&'a str, &'a str)>;

/// What is shown at one moment.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) hub: Hub,
    /// What the workers say of the services that they call.
    pub(super) services: Vec<ServiceFigures>,
    pub(super) certificates: Vec<CertificateExpiry>,
    pub(super) process: Process,
}

pub(super) fn render(shown: Shown) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(shown));
    let mut out = String::new();
    // A `String` takes all that is written, and our own code below returns no error.
    let written = text::encode(&mut out, &registry);
    debug_assert!(written.is_ok());
    out
}

impl Collector for Shown {
    fn encode(&self, mut out: DescriptorEncoder<'_>) -> fmt::Result {
        let hub = &self.hub;
        let names = hub.0.error_names;
        family(&mut out, &UPSTREAM, &hub.0.upstream, names)?;
        family(&mut out, &INGRESS, &hub.0.ingress, names)?;
        family(&mut out, &EXPORT, &hub.0.export, names)?;
        family(&mut out, &METHOD, &hub.0.methods, names)?;
        connections(&mut out, hub)?;
        lags(&mut out, hub)?;
        memory(&mut out, hub)?;
        gates(&mut out, hub)?;
        registries(&mut out, hub)?;
        services(&mut out, &self.services)?;
        upstream_connections(&mut out, hub)?;
        holds(&mut out, hub)?;
        ejections(&mut out, hub)?;
        events(&mut out, hub)?;
        stages(&mut out, hub)?;
        access_log(&mut out, hub)?;
        certificates(&mut out, &self.certificates)?;
        process(&mut out, hub, &self.process)
    }
}

fn family(
    out: &mut DescriptorEncoder<'_>,
    words: &Words,
    family: &Family,
    error_names: &'static [&'static str],
) -> fmt::Result {
    let sets = family.totals();
    let sets: Vec<(LabelPairs<'_>, &CallTotals)> =
        sets.iter().map(|(values, totals)| (label(words, values), totals)).collect();

    let (name, help) = words.calls;
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, totals) in &sets {
        let codes = [OK].iter().chain(error_names);
        for (index, (code, count)) in codes.zip(&totals.codes).enumerate() {
            // An outcome that never was would be a line per code, label set and scrape; `ok` is
            // always there, so that a rate can be taken from the start.
            if *count == 0 && index != 0 {
                continue;
            }
            let mut labels = labels.clone();
            labels.push(("code", code));
            counter(&mut metric, &labels, *count)?;
        }
    }

    if let Some((name, help)) = words.in_flight {
        let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, totals) in &sets {
            metric.encode_family(labels)?.encode_gauge(&totals.in_flight)?;
        }
    }

    let (name, help) = words.latency;
    let unit = Some(&Unit::Seconds);
    let mut metric = out.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    for (labels, totals) in &sets {
        let [ok, failed] = &totals.latency;
        let mut labels = labels.clone();
        labels.push(("outcome", OK));
        histogram(metric.encode_family(&labels)?, ok)?;
        // 27 lines that most endpoints never need.
        if failed.n_calls() != 0 {
            labels.pop();
            labels.push(("outcome", FAILED));
            histogram(metric.encode_family(&labels)?, failed)?;
        }
    }
    Ok(())
}

fn label<'a>(words: &Words, values: &'a [String]) -> LabelPairs<'a> {
    words.labels.iter().copied().zip(values.iter().map(String::as_str)).collect()
}

pub(super) fn counter(
    metric: &mut MetricEncoder<'_>,
    labels: &LabelPairs<'_>,
    value: u64,
) -> fmt::Result {
    metric.encode_family(labels)?.encode_counter::<NoLabelSet, u64, f64>(&value, None)
}

fn histogram(mut metric: MetricEncoder<'_>, totals: &LatencyTotals) -> fmt::Result {
    let bounds = BOUNDS_US.iter().map(|us| seconds(*us)).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(totals.buckets).collect();
    let count = totals.n_calls();
    metric.encode_histogram::<NoLabelSet>(seconds(totals.sum_us), count, &buckets, None)
}

#[expect(clippy::cast_precision_loss, reason = "a sum of 285 years is exact to the microsecond")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn connections(out: &mut DescriptorEncoder<'_>, hub: &Hub) -> fmt::Result {
    let all = hub.0.connections.all();
    let help = "Open connections of a listener";
    let name = "dubmesh_connections_open";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (listener, stats) in &all {
        let labels = [("listener", listener.as_str())];
        metric.encode_family(&labels)?.encode_gauge(&stats.n_open())?;
    }
    let help = "Connections that a listener accepted";
    let name = "dubmesh_connections_accepted";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (listener, stats) in &all {
        counter(&mut metric, &vec![("listener", listener)], stats.n_accepted())?;
    }
    let help =
        "Connections that a listener closed at once, by the reason: it was full, or files ran out";
    let name = "dubmesh_connections_refused";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (listener, stats) in &all {
        let by_reason =
            [("full", stats.n_refused_full()), ("no_files", stats.n_refused_no_files())];
        for (reason, count) in by_reason {
            counter(&mut metric, &vec![("listener", listener), ("reason", reason)], count)?;
        }
    }
    let help = "Open connections of a worker thread, of all listeners for calls";
    let name = "dubmesh_worker_connections";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    let loads = hub.0.loads.get().map(wire::Loads::n_connections).unwrap_or_default();
    for (worker, n_connections) in loads.into_iter().enumerate() {
        let worker = worker.to_string();
        let labels = [("worker", worker.as_str())];
        metric.encode_family(&labels)?.encode_gauge(&n_connections)?;
    }
    Ok(())
}

fn lags(out: &mut DescriptorEncoder<'_>, hub: &Hub) -> fmt::Result {
    let help = "Longest delay of a worker's event loop in the last ten seconds";
    let unit = Some(&Unit::Seconds);
    let mut metric = out.encode_descriptor("dubmesh_worker_lag", help, unit, MetricType::Gauge)?;
    let all = hub.0.lags.all();
    for (worker, lag) in &all {
        let labels = [("worker", worker.as_str())];
        metric.encode_family(&labels)?.encode_gauge(&seconds(lag.worst_us.load(Relaxed)))?;
    }
    let (name, help) =
        ("dubmesh_worker_usual_lag", "Delay that a worker's event loop reached in most seconds");
    let mut metric = out.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    for (worker, lag) in &all {
        let labels = [("worker", worker.as_str())];
        metric.encode_family(&labels)?.encode_gauge(&seconds(lag.usual_us.load(Relaxed)))?;
    }
    Ok(())
}

fn access_log(out: &mut DescriptorEncoder<'_>, hub: &Hub) -> fmt::Result {
    let Some(journal) = hub.0.journal.get() else { return Ok(()) };
    let help = "Lines of the access log, by whether they were written or lost";
    let name = "dubmesh_access_log_lines";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    let lines = journal.line_counts();
    for (result, count) in [("written", lines.written()), ("lost", lines.lost())] {
        counter(&mut metric, &vec![("result", result)], count)?;
    }
    Ok(())
}

fn memory(out: &mut DescriptorEncoder<'_>, hub: &Hub) -> fmt::Result {
    let Some(budget) = hub.0.memory.get() else { return Ok(()) };
    let help = "Bytes that this agent holds for connections";
    let name = "dubmesh_memory_used_bytes";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    metric.encode_gauge(&gauge(budget.used()))?;
    let help = "Limit of the bytes that this agent holds for connections";
    let name = "dubmesh_memory_limit_bytes";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    metric.encode_gauge(&gauge(budget.limit()))?;
    let help = "How often a connection was refused memory";
    let name = "dubmesh_memory_refused";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, u64, f64>(&budget.refused(), None)
}

fn gates(out: &mut DescriptorEncoder<'_>, hub: &Hub) -> fmt::Result {
    type Read = fn(&GateFigures) -> u64;
    let gauges: [(&str, &str, Read); 3] = [
        ("dubmesh_app_capacity", "Calls that an exported app can take at once", |gate| {
            gate.capacity.into()
        }),
        ("dubmesh_app_in_flight", "Calls that an exported app works on", |gate| gate.in_flight),
        ("dubmesh_app_waiting", "Calls that wait for room in an exported app", |gate| gate.waiting),
    ];
    let all = hub.gates();
    for (name, help, read) in gauges {
        let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for gate in &all {
            metric.encode_family(&[("app", gate.app.as_str())])?.encode_gauge(&read(gate))?;
        }
    }
    let direct = hub.direct_gates();
    let gauges: [(&str, &str, Read); 2] = [
        ("dubmesh_endpoint_capacity", "Calls that an endpoint without an agent can take", |gate| {
            gate.capacity.into()
        }),
        ("dubmesh_endpoint_in_flight", "Calls that such an endpoint works on", |gate| {
            gate.in_flight
        }),
    ];
    for (name, help, read) in gauges {
        let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for gate in &direct {
            metric.encode_family(&[("endpoint", gate.app.as_str())])?.encode_gauge(&read(gate))?;
        }
    }
    let help = "Calls that were shed, since an exported app could not answer them in time";
    let mut metric = out.encode_descriptor("dubmesh_app_shed", help, None, MetricType::Counter)?;
    for gate in &all {
        counter(&mut metric, &vec![("app", &gate.app)], gate.shed)?;
    }
    Ok(())
}

pub(super) fn gauge(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn registries(out: &mut DescriptorEncoder<'_>, hub: &Hub) -> fmt::Result {
    type Read = fn(&super::RegistryStats) -> u64;
    let gauges: [(&str, &str, Read); 6] = [
        ("dubmesh_registry_connected", "1 while the registry can be reached", |stats| {
            u64::from(stats.connected.load(Relaxed))
        }),
        ("dubmesh_registry_subscriptions", "Services that are watched in the registry", |stats| {
            stats.subscriptions.load(Relaxed)
        }),
        ("dubmesh_registry_registrations", "Services that this agent registered", |stats| {
            stats.registrations.load(Relaxed)
        }),
        (
            "dubmesh_registry_unused_entries",
            "Entries of watched services that cannot be used",
            |stats| stats.unused.load(Relaxed),
        ),
        (
            "dubmesh_registry_left_out_entries",
            "Entries of lists that are longer than an agent takes",
            |stats| stats.left_out.load(Relaxed),
        ),
        (
            "dubmesh_registry_last_change_timestamp_seconds",
            "When the endpoints of a service last changed; 0 if never",
            |stats| stats.last_change.load(Relaxed),
        ),
    ];
    let all = hub.0.registries.all();
    for (name, help, read) in gauges {
        let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (registry, stats) in &all {
            let labels = [("registry", registry.as_str())];
            metric.encode_family(&labels)?.encode_gauge(&read(stats))?;
        }
    }
    let counters: [(&str, &str, Read); 2] = [
        ("dubmesh_registry_changes", "Changes to the endpoints of services", |stats| {
            stats.changes.load(Relaxed)
        }),
        ("dubmesh_registry_refused_entries", "How often an entry could not be read", |stats| {
            stats.refused.load(Relaxed)
        }),
    ];
    for (name, help, read) in counters {
        let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (registry, stats) in &all {
            counter(&mut metric, &vec![("registry", registry)], read(stats))?;
        }
    }
    Ok(())
}

fn events(out: &mut DescriptorEncoder<'_>, hub: &Hub) -> fmt::Result {
    let services = hub.0.events.all();
    let help = "Further attempts of calls, by the failure before them";
    let name = "dubmesh_upstream_retries";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (service, events) in &services {
        for (code, count) in events.retries() {
            let Some(reason) = hub.0.error_names.get(code) else { continue };
            counter(&mut metric, &vec![("service", service), ("reason", reason)], count)?;
        }
    }
    let help = "Calls affected by the rules for their methods, by what happened";
    let name = "dubmesh_upstream_method_events";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (service, events) in &services {
        for (event, count) in events.events() {
            let labels = vec![("service", service.as_str()), ("event", event.name())];
            counter(&mut metric, &labels, count)?;
        }
    }
    Ok(())
}

fn stages(out: &mut DescriptorEncoder<'_>, hub: &Hub) -> fmt::Result {
    let all = hub.stages();
    let help = "Calls whose stages were timed";
    let name = "dubmesh_stage_calls";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    for ServiceStages { place, service, totals } in &all {
        let labels = vec![("place", place.name()), ("service", service.as_str())];
        counter(&mut metric, &labels, totals.n_calls)?;
    }
    let help = "Time that those calls spent in a stage, in total";
    let (name, unit) = ("dubmesh_stage_time", Some(&Unit::Seconds));
    let mut metric = out.encode_descriptor(name, help, unit, MetricType::Counter)?;
    for ServiceStages { place, service, totals } in &all {
        for (stage, time) in Stage::ALL.into_iter().zip(totals.spent) {
            let labels =
                [("place", place.name()), ("service", service.as_str()), ("stage", stage.name())];
            metric
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, f64, f64>(&time.as_secs_f64(), None)?;
        }
    }
    Ok(())
}

fn process(out: &mut DescriptorEncoder<'_>, hub: &Hub, process: &Process) -> fmt::Result {
    let help = "The version of this agent";
    let mut metric = out.encode_descriptor("dubmesh_build", help, None, MetricType::Info)?;
    metric.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
    let help = "When this process started";
    let name = "process_start_time_seconds";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    metric.encode_gauge(&unix_seconds(hub.0.start))?;
    if let Some(cpu) = process.cpu {
        let (help, unit) = ("User and system time of this process", Some(&Unit::Seconds));
        let mut metric = out.encode_descriptor("process_cpu", help, unit, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, f64, f64>(&cpu.as_secs_f64(), None)?;
    }
    let gauges = [
        ("process_resident_memory_bytes", "Resident memory", process.resident_bytes),
        ("process_open_fds", "Open file descriptors", process.open_files),
        ("process_max_fds", "Most file descriptors that may be open", process.max_files),
    ];
    for (name, help, value) in gauges {
        if let Some(value) = value {
            let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
            metric.encode_gauge(&value)?;
        }
    }
    Ok(())
}
