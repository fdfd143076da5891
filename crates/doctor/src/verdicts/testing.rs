//! Pages of an agent, for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::inspect::snapshot::{
    CallsSnapshot, ConnectionSnapshot, EndpointSnapshot, MethodSnapshot, ServiceSnapshot,
    TcpSnapshot,
};

use super::Finding;
use super::agent_pages::{self, AgentLook};

/// What an agent's pages show where no socket is seen.
pub(super) fn of_agent(looks: &[AgentLook]) -> Vec<Finding> {
    agent_pages::of_agent(looks, &[])
}

/// An endpoint that has answered so many calls, each in so many milliseconds.
pub(super) fn endpoint(ok: u64, each_ms: f64, failed: &[(&str, u64)]) -> EndpointSnapshot {
    let mut calls = CallsSnapshot::default();
    calls.in_flight = 3;
    calls.ok = ok;
    calls.failed = failed.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    calls.average_ms = Some(each_ms);
    calls.ok_total_ms = Some(ok as f64 * each_ms);
    EndpointSnapshot {
        service: "com.acme.Orders".to_owned(),
        registry: "r".to_owned(),
        address: "10.0.0.7:20880".to_owned(),
        protocol: "dubbo".to_owned(),
        standing: [("ready".to_owned(), 2)].into(),
        weight: 100,
        calls,
        ..EndpointSnapshot::default()
    }
}

/// A method of the service that was answered so often, each time in so many milliseconds.
pub(super) fn method(name: &str, ok: u64, each_ms: f64) -> MethodSnapshot {
    let mut calls = CallsSnapshot::default();
    calls.ok = ok;
    calls.ok_total_ms = Some(ok as f64 * each_ms);
    MethodSnapshot { service: "com.acme.Orders".to_owned(), method: name.to_owned(), calls }
}

/// A service with one endpoint, of which so many calls have failed before it was chosen.
pub(super) fn service(failed_without_endpoint: BTreeMap<String, u64>) -> ServiceSnapshot {
    ServiceSnapshot {
        service: "com.acme.Orders".to_owned(),
        registry: "r".to_owned(),
        freshness: "current".to_owned(),
        workers: 1,
        endpoints: 1,
        ready: 1,
        in_flight: 2,
        failed_without_endpoint,
        ..ServiceSnapshot::default()
    }
}

fn connection(rtt_us: u32) -> ConnectionSnapshot {
    ConnectionSnapshot {
        id: 1,
        worker: 0,
        direction: "upstream".to_owned(),
        protocol: "dubbo".to_owned(),
        peer: "10.0.0.7:20880".to_owned(),
        age_ms: 1,
        doing: "serving".to_owned(),
        in_flight: 3,
        in_message_ms: Some(0),
        tcp: Some(TcpSnapshot { rtt_us: Some(rtt_us), ..TcpSnapshot::default() }),
        ..ConnectionSnapshot::default()
    }
}

/// A look at an agent that has one endpoint and one connection to it.
pub(super) fn look(endpoint: EndpointSnapshot, rtt_us: u32) -> AgentLook {
    let (endpoints, connections) = (vec![endpoint], vec![connection(rtt_us)]);
    AgentLook { endpoints, connections, ..AgentLook::default() }
}

/// Looks half a second apart.
pub(super) fn looks(n: u64, look: impl Fn(u64) -> AgentLook) -> Vec<AgentLook> {
    let at = |nth| AgentLook { at: Duration::from_millis(500 * nth), ..look(nth) };
    (0..n).map(at).collect()
}
