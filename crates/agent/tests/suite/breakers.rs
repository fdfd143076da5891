//! Circuit breakers: one method at one endpoint is left out while its calls fail there.

use crate::support::dubbo::DubboConsumer;
use crate::support::{
    Behaviour, FakeProvider, Http, HttpResponse, SERVICE, STRING, consumer_with_metrics,
    dubbo_consumer, metric, register, reload, wait_until,
};
use agent::Agent;
use dubbo_proto::Status;
use registry::MemoryHub;

/// Nobody is ejected, and no call goes to a second endpoint.
const BASE: &str = "[defaults]\nbalance = \"round-robin\"\neject_max_percent = 0\nmax_attempts = 1\n\
                    [[defaults.method]]\nnames = [\"echo\"]\nbreaker = true\n\
                    breaker_failures = 3\nbreaker_max_open_ms = 600000\n";
const FOR_LONG: &str = "breaker_open_ms = 600000\n";

fn call(agent: &Agent, method: &str) -> HttpResponse {
    let (headers, body): (&[&str], _) =
        if method == "echo" { (&[STRING], "[\"a\"]") } else { (&[], "[]") };
    Http::to(agent).post(&format!("/{SERVICE}/{method}"), headers, body)
}

fn n_failed(agent: &Agent, method: &str, n_calls: usize) -> usize {
    (0..n_calls).filter(|_| call(agent, method).status != 200).count()
}

fn n_events(agent: &Agent, event: &str) -> u64 {
    let labels = format!("service=\"{SERVICE}\",event=\"{event}\"");
    metric(agent, &format!("dubmesh_upstream_method_events_total{{{labels}}}"))
}

fn explained(agent: &Agent, path: &str) -> String {
    let mut http = Http::connect(agent.addresses().admin.unwrap());
    http.send(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
    http.read().body
}

#[test]
fn one_method_is_kept_from_one_endpoint() {
    let hub = MemoryHub::new();
    let [bad, good] = [Behaviour::Fails, Behaviour::Good].map(FakeProvider::start);
    let _registered = [&bad, &good].map(|provider| register(&hub, provider.addr));
    let agent = consumer_with_metrics(&hub, &format!("{BASE}{FOR_LONG}"));
    // Each of the two workers finds out by itself, with three failures.
    wait_until("both circuits are open", || {
        let _ = call(&agent, "echo");
        (n_events(&agent, "circuit_opened") == 2).then_some(())
    });
    let n_requests = bad.n_requests();
    assert_eq!(n_failed(&agent, "echo", 40), 0);
    assert_eq!(bad.n_requests(), n_requests, "it is left out");
    let page = explained(&agent, &format!("/explain?service={SERVICE}&method=echo"));
    assert!(page.contains("circuit of method echo: open"), "{page}");
    assert!(explained(&agent, "/endpoints").contains("circuit of method echo: open"));
    let other = explained(&agent, &format!("/explain?service={SERVICE}&method=nothing"));
    assert!(!other.contains("circuit"), "of another method: {other}");
    // Other methods still go there.
    wait_until("the other method goes there", || {
        let _ = call(&agent, "nothing");
        (n_requests + 3 <= bad.n_requests()).then_some(())
    });
    // A reload takes the section away, and what it has found out.
    reload(&agent, &hub, "");
    wait_until("the circuit is shown no longer", || {
        let page = explained(&agent, &format!("/explain?service={SERVICE}&method=echo"));
        (!page.contains("circuit")).then_some(())
    });
    assert!(!explained(&agent, "/endpoints").contains("circuit of"));
}

#[test]
fn the_only_endpoint_is_called_unless_it_may_be_empty() {
    let hub = MemoryHub::new();
    let bad = FakeProvider::start(Behaviour::Fails);
    let _registered = register(&hub, bad.addr);
    let agent = consumer_with_metrics(&hub, &format!("{BASE}{FOR_LONG}"));
    assert_eq!(n_failed(&agent, "echo", 20), 20);
    assert_eq!(bad.n_requests(), 20, "there is nobody else");
    assert!(1 <= n_events(&agent, "circuits_ignored"));
    let keys = format!("{BASE}{FOR_LONG}breaker_may_empty = true\n");
    let agent = consumer_with_metrics(&hub, &keys);
    wait_until("both circuits are open", || {
        let _ = call(&agent, "echo");
        (n_events(&agent, "circuit_opened") == 2).then_some(())
    });
    let n_requests = bad.n_requests();
    let answer = call(&agent, "echo");
    assert_eq!((answer.status, answer.code()), (503, "circuit_open".to_owned()));
    assert!(answer.head.contains("retry-after: "), "{}", answer.head);
    assert_eq!(bad.n_requests(), n_requests, "nothing is sent");
    assert!(1 <= n_events(&agent, "circuit_open"));
}

#[test]
fn a_repaired_endpoint_is_called_again() {
    let hub = MemoryHub::new();
    let [bad, good] = [Behaviour::Fails, Behaviour::Good].map(FakeProvider::start);
    let _registered = [&bad, &good].map(|provider| register(&hub, provider.addr));
    let agent = consumer_with_metrics(&hub, &format!("{BASE}breaker_open_ms = 50\n"));
    wait_until("a circuit is open", || {
        let _ = call(&agent, "echo");
        (1 <= n_events(&agent, "circuit_opened")).then_some(())
    });
    let addr = bad.addr;
    drop(bad);
    drop(wait_until("the port is free", || std::net::TcpListener::bind(addr).ok()));
    let repaired = FakeProvider::start_at(addr, Behaviour::Good);
    wait_until("it is called again", || {
        let _ = call(&agent, "echo");
        (20 <= repaired.n_requests()).then_some(())
    });
    assert!(1 <= n_events(&agent, "circuit_closed"));
}

/// A caller that makes names up does not break what others call, and fills no memory.
#[test]
fn made_up_methods_change_nothing() {
    let hub = MemoryHub::new();
    let good = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, good.addr);
    let keys = BASE.replace("names = [\"echo\"]\n", "");
    let agent = consumer_with_metrics(&hub, &keys);
    let mut http = Http::to(&agent);
    for n in 0..1000 {
        let path = format!("/{SERVICE}/made{n}");
        assert_eq!(http.post(&path, &[STRING], "[\"a\"]").status, 200);
    }
    assert_eq!(n_failed(&agent, "echo", 20), 0);
}

#[test]
fn dubbo_consumers_calls_go_by_circuits_too() {
    let hub = MemoryHub::new();
    let [bad, good] = [Behaviour::Fails, Behaviour::Good].map(FakeProvider::start);
    let _registered = [&bad, &good].map(|provider| register(&hub, provider.addr));
    let agent = dubbo_consumer(&hub, &format!("{BASE}{FOR_LONG}"));
    let mut consumer = DubboConsumer::to(&agent);
    let mut call = |method| consumer.call(method, "a", &[]).status == Status::Ok;
    wait_until("the circuit is open", || {
        let before = bad.n_requests();
        ((0..10).all(|_| call("echo")) && bad.n_requests() == before).then_some(())
    });
    assert!(bad.n_requests() <= 5, "three failures are enough");
    wait_until("the other method goes there", || (!call("nothing")).then_some(()));
}
