//! What pages mean, and what they do not.

use agent::inspect::snapshot::{CallsSnapshot, TcpSnapshot};

use super::*;

fn endpoint(ok: u64, average_ms: f64, failed: &[(&str, u64)]) -> EndpointSnapshot {
    let mut calls = CallsSnapshot::default();
    calls.in_flight = 3;
    calls.ok = ok;
    calls.failed = failed.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
    calls.average_ms = Some(average_ms);
    EndpointSnapshot {
        service: "com.acme.Orders".to_owned(),
        registry: "r".to_owned(),
        listed_by: None,
        address: "10.0.0.7:20880".to_owned(),
        protocol: "dubbo".to_owned(),
        standing: [("ready".to_owned(), 2)].into(),
        why: Vec::new(),
        held: false,
        weight: 100,
        capacity: None,
        capacity_source: None,
        calls,
    }
}

fn connection(rtt_us: u32) -> ConnectionSnapshot {
    ConnectionSnapshot {
        id: 1,
        worker: 0,
        direction: "upstream".to_owned(),
        protocol: "dubbo".to_owned(),
        peer: "10.0.0.7:20880".to_owned(),
        peer_name: None,
        age_ms: 1,
        doing: "serving".to_owned(),
        in_flight: 3,
        held_bytes: 0,
        bytes_read: 0,
        bytes_written: 0,
        tcp: Some(TcpSnapshot { rtt_us: Some(rtt_us), ..TcpSnapshot::default() }),
    }
}

fn app(in_flight: u64, shed: u64) -> AppSnapshot {
    AppSnapshot {
        app: "127.0.0.1:20880".to_owned(),
        services: vec!["com.acme.Orders".to_owned()],
        capacity: 200,
        source: "configured".to_owned(),
        in_flight,
        waiting: 17,
        shed,
    }
}

fn look(endpoint: EndpointSnapshot, rtt_us: u32) -> AgentLook {
    let (endpoints, connections) = (vec![endpoint], vec![connection(rtt_us)]);
    AgentLook { endpoints, connections, ..AgentLook::default() }
}

#[test]
fn a_healthy_agent_has_no_verdict() {
    let looks = [look(endpoint(0, 3.0, &[]), 200), look(endpoint(1000, 3.0, &[]), 200)];
    assert_eq!(of_agent(&looks), []);
    // What failed before it was watched is over.
    let failed = &[("timeout", 7), ("thread_pool_exhausted", 9)];
    let looks = [look(endpoint(10, 3.0, failed), 200), look(endpoint(20, 3.0, failed), 200)];
    assert_eq!(of_agent(&looks), []);
    // Slow calls of an hour ago.
    let looks = [look(endpoint(10, 900.0, &[]), 200), look(endpoint(10, 900.0, &[]), 200)];
    assert_eq!(of_agent(&looks), []);
    assert_eq!(of_agent(&looks[..1]), []);
    assert_eq!(of_agent(&[]), []);
}

#[test]
fn a_slow_provider_is_told_from_a_slow_network() {
    let looks =
        |rtt_us| [look(endpoint(0, 500.0, &[]), rtt_us), look(endpoint(9, 500.0, &[]), rtt_us)];
    let [finding] = of_agent(&looks(15_000)).try_into().unwrap();
    assert_eq!(finding.cause, Cause::SlowProvider);
    assert_eq!(finding.verdict, "the network is fine: 97% of the time is the provider's own work");
    assert_eq!(of_agent(&looks(400_000)), []);
}

#[test]
fn a_provider_that_does_not_answer_is_named() {
    let mut looks =
        [look(endpoint(0, 0.0, &[]), 200), look(endpoint(0, 0.0, &[("timeout", 5)]), 200)];
    let [finding] = of_agent(&looks).try_into().unwrap();
    assert_eq!(finding.verdict, "the network is fine; the provider does not answer");
    assert_eq!(finding.evidence[1], "5 calls were not answered in time meanwhile");
    // Without a round trip, nothing is said of the network.
    looks[1].connections.clear();
    assert_eq!(of_agent(&looks), []);
}

#[test]
fn a_full_pool_is_named_and_one_that_is_full_now_and_then_is_not() {
    let looks = |in_flight: [u64; 5]| {
        in_flight.map(|n| AgentLook { apps: vec![app(n, 2 * n)], ..AgentLook::default() })
    };
    let [finding] = of_agent(&looks([150, 200, 200, 200, 200])).try_into().unwrap();
    assert_eq!(finding.cause, Cause::PoolFull);
    assert_eq!(
        finding.verdict,
        "the provider's thread pool is full: 200 of 200 in use, 80% of the time"
    );
    assert_eq!(finding.evidence[1], "17 calls wait at its gate now; 100 were shed meanwhile");
    assert_eq!(of_agent(&looks([20, 200, 20, 200, 199])), []);
}

#[test]
fn rejections_and_endpoints_that_are_out_are_named() {
    let mut after = endpoint(5, 1.0, &[("thread_pool_exhausted", 12)]);
    let before = endpoint(0, 1.0, &[("thread_pool_exhausted", 2)]);
    let causes = |after: &EndpointSnapshot| -> Vec<Cause> {
        let looks = [look(before.clone(), 100), look(after.clone(), 100)];
        of_agent(&looks).into_iter().map(|finding| finding.cause).collect()
    };
    assert_eq!(causes(&after), [Cause::PoolRejects]);
    after.standing = [("ejected".to_owned(), 1), ("down".to_owned(), 1)].into();
    assert_eq!(causes(&after), [Cause::PoolRejects, Cause::EndpointOut]);
    // One worker of two still has it.
    after.standing = [("ejected".to_owned(), 1), ("ready".to_owned(), 1)].into();
    assert_eq!(causes(&after), [Cause::PoolRejects]);
}

/// A provider that stands still for 2 s, once, answers late then, or not in time.
#[test]
fn a_pause_of_the_provider_is_neither_its_work_nor_the_network() {
    let looks: Vec<AgentLook> = (0..20)
        .map(|nth| {
            let (average, n_timeouts) = match nth {
                0..8 => (3.0, 0),
                8..12 => (900.0, 40),
                _ => (5.0, 40),
            };
            look(endpoint(100 * nth, average, &[("timeout", n_timeouts)]), 200)
        })
        .collect();
    assert_eq!(of_agent(&looks), []);
}
