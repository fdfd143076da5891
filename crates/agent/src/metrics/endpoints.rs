//! What is told of endpoints, beside the calls that they get.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::ejections::EjectionCounts;
use super::render::{counter, gauge};
use super::{Hub, ServiceFigures};

/// Endpoints whose connections are shown, at most.
const MAX_ENDPOINTS: usize = 1000;

/// A service that several registries offer is shown once.
pub(super) fn services(
    out: &mut DescriptorEncoder<'_>,
    services: &[ServiceFigures],
) -> fmt::Result {
    let mut by_name: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for service in services {
        let ServiceFigures { service, n_ready, n_not_ready, n_waiting } = service;
        let sums = by_name.entry(service).or_default();
        for (sum, n) in sums.iter_mut().zip([n_ready, n_not_ready, n_waiting]) {
            *sum += n;
        }
    }
    let help = "Endpoints of a service that is called, by whether a worker is connected to them";
    let mut metric = out.encode_descriptor("dubmesh_endpoints", help, None, MetricType::Gauge)?;
    for (service, [n_ready, n_others, _]) in &by_name {
        for (state, n) in [("ready", n_ready), ("not_ready", n_others)] {
            let labels = [("service", *service), ("state", state)];
            metric.encode_family(&labels)?.encode_gauge(&gauge(*n))?;
        }
    }
    let help = "Calls that wait because all endpoints work on as many as they can take";
    let name = "dubmesh_upstream_waiting";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (service, [.., n_waiting]) in &by_name {
        metric.encode_family(&[("service", *service)])?.encode_gauge(&gauge(*n_waiting))?;
    }
    Ok(())
}

pub(super) fn upstream_connections(out: &mut DescriptorEncoder<'_>, hub: &Hub) -> fmt::Result {
    let help = "Connections to an endpoint that are open now, of all workers";
    let name = "dubmesh_upstream_connections";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (endpoint, n_open) in hub.n_upstream_connections().iter().take(MAX_ENDPOINTS) {
        metric.encode_family(&[("endpoint", endpoint.as_str())])?.encode_gauge(n_open)?;
    }
    Ok(())
}

pub(super) fn holds(out: &mut DescriptorEncoder<'_>, hub: &Hub) -> fmt::Result {
    let help = "Endpoints in use although the registry no longer lists them";
    let name = "dubmesh_endpoints_held";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (service, n_held) in hub.0.holds.counts() {
        metric.encode_family(&[("service", service.as_str())])?.encode_gauge(&n_held)?;
    }
    Ok(())
}

pub(super) fn ejections(out: &mut DescriptorEncoder<'_>, hub: &Hub) -> fmt::Result {
    let services = hub.0.ejections.counts();
    let help = "Endpoints that take no calls because of how their calls ended";
    let name = "dubmesh_endpoints_ejected";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for EjectionCounts { service, n_out, .. } in &services {
        metric.encode_family(&[("service", service.as_str())])?.encode_gauge(n_out)?;
    }
    let help = "How often a worker ejected an endpoint";
    let name = "dubmesh_endpoint_ejections";
    let mut metric = out.encode_descriptor(name, help, None, MetricType::Counter)?;
    for EjectionCounts { service, by_reason, .. } in &services {
        for (reason, count) in by_reason {
            let labels = vec![("service", service.as_str()), ("reason", reason.name())];
            counter(&mut metric, &labels, *count)?;
        }
    }
    Ok(())
}
