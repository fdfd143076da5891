//! Peers that vanish without a word: the network holds both ends of a connection open, and nothing
//! comes through. Each side finds out by itself, and within the time that is configured.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use agent::Agent;
use agent::inspect::snapshot::{ConnectionSnapshot, EndpointSnapshot, Page};
use dubbo_proto::{Serialization, Status};
use registry::MemoryHub;
use serde::de::DeserializeOwned;

use crate::support::dubbo::{DubboConsumer, body};
use crate::support::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2};
use crate::support::network::Network;
use crate::support::{
    Behaviour, FakeProvider, Http, Registered, SERVICE, STRING, call, metric, register,
    register_link, request, start, wait_until,
};

/// How long a peer may be silent before it is asked for a sign of life.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// What a busy machine may take beyond the time that is configured.
const SLACK: Duration = Duration::from_secs(6);

const ADMIN: &str = "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 1\ndrain_ms = 1000\n";

fn heartbeat() -> String {
    format!("heartbeat_ms = {}\n", HEARTBEAT.as_millis())
}

/// Further keys of listeners.
#[derive(Default)]
struct Keys<'a> {
    http: &'a str,
    dubbo: &'a str,
}

/// An agent that takes calls by HTTP and by Dubbo TCP.
fn consumers(hub: &MemoryHub, Keys { http, dubbo }: &Keys<'_>) -> Agent {
    let text = format!(
        "{ADMIN}[[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n{http}\
         [[ingress]]\nprotocol = \"dubbo\"\nlisten = \"127.0.0.1:0\"\n{dubbo}\
         [defaults]\ntimeout_ms = 30000\n{}",
        heartbeat()
    );
    start(&text, hub)
}

fn exports(hub: &MemoryHub, app: SocketAddr) -> Agent {
    let text = format!(
        "{ADMIN}[[registry]]\nname = \"main\"\nkind = \"etcd\"\n\
         endpoints = [\"http://127.0.0.1:1\"]\n[link]\nlisten = \"127.0.0.1:0\"\n{}\
         [[export]]\ninterface = \"{SERVICE}\"\napp = \"dubbo://{app}\"\n",
        heartbeat()
    );
    start(&text, hub)
}

fn page<T: DeserializeOwned>(agent: &Agent, page: &str) -> Vec<T> {
    let mut http = Http::connect(agent.addresses().admin.unwrap());
    http.send(format!("GET {page} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
    serde_json::from_str::<Page<T>>(&http.read().body).unwrap().items
}

/// The one endpoint.
fn endpoint(agent: &Agent) -> EndpointSnapshot {
    page(agent, "/endpoints").pop().expect("an endpoint")
}

fn is_down(agent: &Agent) -> bool {
    endpoint(agent).standing.contains_key("down")
}

fn downstream(agent: &Agent, protocol: &str) -> Vec<ConnectionSnapshot> {
    let mut all: Vec<ConnectionSnapshot> = page(agent, "/connections");
    all.retain(|it| it.direction == "downstream" && it.protocol == protocol);
    all
}

fn echo(agent: &Agent) -> u16 {
    call(agent, "echo", &[STRING], "[\"x\"]").status
}

/// Waits for what follows from the silence of a peer, and not much longer than it may take.
fn expect_within(time: Duration, what: &str, mut has_happened: impl FnMut() -> bool) {
    let since = Instant::now();
    wait_until(what, || has_happened().then_some(()));
    assert!(since.elapsed() < time + SLACK, "{what} took {:?}", since.elapsed());
}

/// Some heartbeats were answered: bytes came although nobody called.
fn wait_for_heartbeats(network: &Network) {
    let before = network.n_returned();
    wait_until("heartbeats", || (before + 40 < network.n_returned()).then_some(()));
}

/// The endpoint goes down while nothing comes through, says why, and stays down; a call then is
/// refused at once.
fn expect_down(agent: &Agent, network: &Network, why: &str) {
    network.hold();
    expect_within(3 * HEARTBEAT, "it to be down", || is_down(agent));
    let shown = endpoint(agent).why;
    assert!(shown.iter().any(|it| it.contains(why)), "{shown:?}");
    // What takes connections in its place does not make it ready.
    let n_made = network.n_made();
    wait_until("a further attempt", || {
        assert!(is_down(agent), "{:?}", endpoint(agent));
        (n_made < network.n_made()).then_some(())
    });
    let since = Instant::now();
    assert_eq!(echo(agent), 503);
    assert!(since.elapsed() < SLACK);
    assert!(is_down(agent));
}

fn expect_back(agent: &Agent, network: &Network) {
    network.release();
    wait_until("it to be back", || (echo(agent) == 200).then_some(()));
    assert!(endpoint(agent).standing.contains_key("ready"));
}

#[test]
fn both_sides_of_an_idle_link_notice_that_the_other_is_gone() {
    let (near, far) = (MemoryHub::new(), MemoryHub::new());
    let provider = FakeProvider::start(Behaviour::Good);
    let exports = exports(&far, provider.addr);
    let network = Network::start(exports.addresses().link.unwrap());
    let _registered = register_link(&near, network.address);
    let consumers = consumers(&near, &Keys::default());
    assert_eq!(echo(&consumers), 200);
    wait_for_heartbeats(&network);
    assert_eq!(downstream(&exports, "link").len(), 1, "PINGs keep it");

    expect_down(&consumers, &network, "the peer is silent");
    expect_within(3 * HEARTBEAT, "the end of the link", || downstream(&exports, "link").is_empty());
    assert_eq!(metric(&exports, "dubmesh_memory_used_bytes"), 0);
    expect_back(&consumers, &network);
}

#[test]
fn an_idle_connection_to_a_provider_that_is_gone_ends() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let network = Network::start(provider.addr);
    let _registered = register(&hub, network.address);
    let consumers = consumers(&hub, &Keys::default());
    assert_eq!(echo(&consumers), 200);
    wait_for_heartbeats(&network);
    assert_eq!(network.n_made(), 1, "heartbeats keep it");

    expect_down(&consumers, &network, "the peer sent nothing for");
    expect_back(&consumers, &network);
}

/// Has somebody's caller connect through a network, and call a provider that answers or does not;
/// then nothing comes through any more.
struct Vanishing {
    provider: FakeProvider,
    consumers: Agent,
    _registered: Registered,
}

impl Vanishing {
    fn new(is_calling: bool, keys: &Keys<'_>) -> Self {
        let hub = MemoryHub::new();
        let behaviour = if is_calling { Behaviour::Hang } else { Behaviour::Good };
        let provider = FakeProvider::start(behaviour);
        let registered = register(&hub, provider.addr);
        Self { provider, consumers: consumers(&hub, keys), _registered: registered }
    }

    /// Its call is at the provider.
    fn wait_for_call(&self) {
        wait_until("its call", || (self.provider.n_requests() == 1).then_some(()));
        wait_until("the call to be counted", || {
            (endpoint(&self.consumers).calls.in_flight == 1).then_some(())
        });
    }

    /// Its connection goes, with its memory and its call.
    fn expect_gone(&self, within: Duration, protocol: &str) {
        let agent = &self.consumers;
        expect_within(within, "its end", || downstream(agent, protocol).is_empty());
        wait_until("the memory", || {
            (metric(agent, "dubmesh_memory_used_bytes") == 0).then_some(())
        });
        let in_flight = format!("dubmesh_ingress_in_flight{{listener=\"{protocol}\"}}");
        assert_eq!(metric(agent, &in_flight), 0);
        assert_eq!(endpoint(agent).calls.in_flight, 0);
    }
}

#[test]
fn a_consumer_that_is_gone_leaves_nothing_behind() {
    for is_calling in [false, true] {
        let it = Vanishing::new(is_calling, &Keys { dubbo: &heartbeat(), ..Keys::default() });
        let network = Network::start(it.consumers.addresses().dubbo[0]);
        let mut consumer = DubboConsumer::connect(network.address);
        match is_calling {
            true => {
                // So long that it counts as memory.
                let body = body(SERVICE, "echo", &"x".repeat(1 << 20), &[]);
                consumer.send(Serialization::Hessian2, &body, 1);
                it.wait_for_call();
            }
            false => assert_eq!(consumer.call("echo", "x", &[]).status, Status::Ok),
        }
        network.hold();
        it.expect_gone(3 * HEARTBEAT, "dubbo");
    }
}

/// HTTP/1 has no heartbeat: its calls end at their deadlines, and then its time to be idle runs.
#[test]
fn an_http1_caller_that_is_gone_is_kept_until_its_call_and_its_idle_time_end() {
    const IDLE: Duration = Duration::from_millis(500);
    const TIMEOUT: Duration = Duration::from_millis(700);
    for is_calling in [false, true] {
        let idle = format!("idle_timeout_ms = {}\n", IDLE.as_millis());
        let it = Vanishing::new(is_calling, &Keys { http: &idle, ..Keys::default() });
        let network = Network::start(it.consumers.addresses().http[0]);
        let mut http = Http::connect(network.address);
        let path = format!("/{SERVICE}/echo");
        match is_calling {
            true => {
                let timeout = format!("x-dubbo-timeout-ms: {}", TIMEOUT.as_millis());
                http.send(request(&path, &[STRING, &timeout], "[\"x\"]"));
                it.wait_for_call();
            }
            false => assert_eq!(http.post(&path, &[STRING], "[\"x\"]").status, 200),
        }
        network.hold();
        it.expect_gone(TIMEOUT + IDLE, "http");
    }
}

#[test]
fn an_http2_caller_that_is_gone_is_found_out_by_pings() {
    for is_calling in [false, true] {
        let it = Vanishing::new(is_calling, &Keys { http: &heartbeat(), ..Keys::default() });
        let network = Network::start(it.consumers.addresses().http[0]);
        let mut http2 = Http2::connect(network.address, 1 << 20);
        let head = Http2::head(0, &format!("/{SERVICE}/echo"));
        http2.frame(HEADERS, END_HEADERS, 1, &head);
        http2.frame(DATA, END_STREAM, 1, b"[\"x\"]");
        match is_calling {
            true => it.wait_for_call(),
            false => assert_eq!(http2.next(DATA).0, 1),
        }
        network.hold();
        it.expect_gone(3 * HEARTBEAT, "http");
    }
}
