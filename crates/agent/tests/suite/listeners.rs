//! What a listener takes: how many connections, which worker serves them, and how they count.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::support::{
    Behaviour, FakeProvider, Http, PATIENCE, SERVICE, STRING, block_on, register, request,
    wait_until,
};
use agent::{Agent, config};
use registry::{MemoryHub, RegistryConfig};

/// An agent with all kinds of listeners, each for at most `max_connections`.
fn agent_with(max_connections: usize, workers: usize, drain_ms: u32, hub: &MemoryHub) -> Agent {
    let listen = format!("listen = \"127.0.0.1:0\"\nmax_connections = {max_connections}\n");
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = {workers}\ndrain_ms = {drain_ms}\n\
         [[registry]]\nname = \"main\"\nkind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n\
         [[ingress]]\nprotocol = \"http\"\n{listen}[[ingress]]\nprotocol = \"dubbo\"\n{listen}\
         [link]\n{listen}[dubbo]\n{listen}\
         [[export]]\ninterface = \"com.acme.Exported\"\napp = \"dubbo://127.0.0.1:1\"\n"
    );
    let mut config = config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    for registry in &mut config.registries {
        registry.config = RegistryConfig::Memory(hub.clone());
    }
    Agent::start(config).unwrap()
}

/// All metrics, by name and labels.
fn metrics(agent: &Agent) -> BTreeMap<String, f64> {
    let mut stream = TcpStream::connect(agent.addresses().admin.unwrap()).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let samples = text.lines().filter_map(|line| line.rsplit_once(' '));
    samples.filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?))).collect()
}

fn of_listener(agent: &Agent, name: &str, listener: SocketAddr) -> f64 {
    let start = format!("{name}{{listener=\"{listener}\"");
    metrics(agent).iter().filter(|(key, _)| key.starts_with(&start)).map(|(_, value)| value).sum()
}

fn n_open(agent: &Agent, listener: SocketAddr) -> f64 {
    of_listener(agent, "dubmesh_connections_open", listener)
}

fn of_workers(agent: &Agent) -> Vec<f64> {
    let all = metrics(agent);
    let of_worker = |(key, value): (&String, &f64)| {
        key.starts_with("dubmesh_worker_connections{").then_some(*value)
    };
    all.iter().filter_map(of_worker).collect()
}

/// Whether the other side closes the connection before it has sent a byte.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    matches!({ stream }.read(&mut [0]), Ok(0))
        || stream.take_error().is_ok_and(|error| error.is_some())
}

#[test]
fn no_listener_takes_more_connections_than_it_may() {
    let hub = MemoryHub::new();
    let agent = agent_with(3, 2, 100, &hub);
    let addresses = agent.addresses().clone();
    let listeners = [
        addresses.http[0],
        addresses.dubbo[0],
        addresses.link.unwrap(),
        addresses.dubbo_exports.unwrap(),
    ];
    for listener in listeners {
        let mut held: Vec<_> = (0..3).map(|_| TcpStream::connect(listener).unwrap()).collect();
        wait_until("three are open", || (n_open(&agent, listener) == 3.0).then_some(()));
        for _ in 0..4 {
            let over = TcpStream::connect(listener).unwrap();
            assert!(is_closed(&over), "{listener}");
        }
        let n_refused = of_listener(&agent, "dubmesh_connections_refused_total", listener);
        assert_eq!((n_open(&agent, listener), n_refused), (3.0, 4.0), "{listener}");
        held.pop();
        wait_until("a place is free", || (n_open(&agent, listener) == 2.0).then_some(()));
        held.push(TcpStream::connect(listener).unwrap());
        wait_until("it is taken", || (n_open(&agent, listener) == 3.0).then_some(()));
        drop(held);
        wait_until("all have gone", || (n_open(&agent, listener) == 0.0).then_some(()));
    }
    assert_eq!(of_workers(&agent), [0.0, 0.0]);
}

#[test]
fn connections_are_spread_over_workers() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = agent_with(100, 4, 100, &hub);
    let mut clients = Vec::new();
    for _ in 0..16 {
        // Answered before the next one comes.
        let mut http = Http::to(&agent);
        assert_eq!(http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]").status, 200);
        clients.push(http);
    }
    assert_eq!(of_workers(&agent), [4.0; 4]);
    clients.truncate(8);
    let link = agent.addresses().link.unwrap();
    wait_until("eight have gone", || (of_workers(&agent).iter().sum::<f64>() == 8.0).then_some(()));
    drop(clients);
    wait_until("all have gone", || (of_workers(&agent) == [0.0; 4]).then_some(()));
    let links: Vec<_> = (1..=4)
        .map(|n_open| {
            let link = TcpStream::connect(link).unwrap();
            wait_until("it is served", || {
                (of_workers(&agent).iter().sum::<f64>() == f64::from(n_open)).then_some(())
            });
            link
        })
        .collect();
    assert_eq!(of_workers(&agent), [1.0; 4], "a second link goes to another worker");
    drop(links);
}

#[test]
fn a_drain_says_how_many_connections_it_cut_off() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Hang);
    let _registered = register(&hub, provider.addr);
    let agent = agent_with(100, 2, 100, &hub);
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let mut http = Http::to(&agent);
            let headers = [STRING, "x-dubbo-timeout-ms: 60000"];
            http.send(request(&format!("/{SERVICE}/echo"), &headers, "[\"a\"]"));
            http
        })
        .collect();
    let _idle = Http::to(&agent);
    wait_until("the calls are there", || (provider.n_requests() == 3).then_some(()));
    let summary = block_on(agent.drain()).unwrap();
    assert_eq!((summary.complete, summary.cut_off), (false, 3), "{summary:?}");
    drop(calls);
}

#[test]
fn a_drain_is_over_when_its_last_connection_is() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = agent_with(100, 2, 20_000, &hub);
    let mut http = Http::to(&agent);
    assert_eq!(http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]").status, 200);
    // Accepted just before the drain, and perhaps not yet begun.
    let _silent: Vec<_> = (0..20).map(|_| Http::to(&agent)).collect();
    let summary = block_on(agent.drain()).unwrap();
    assert_eq!((summary.complete, summary.cut_off), (true, 0), "{summary:?}");
}

#[test]
fn an_address_that_cannot_be_used_is_told_by_its_key() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|address| (taken, address));
    let (_taken, address) = taken.unwrap();
    let base = "[[registry]]\nkind = \"file\"\npath = \"x\"\n";
    let ingress =
        |address: &str| format!("[[ingress]]\nprotocol = \"http\"\nlisten = \"{address}\"\n");
    let (free, taken) = (ingress("127.0.0.1:0"), ingress(&address.to_string()));
    let no_admin = "[admin]\nenabled = false\n";
    let admin = format!("[admin]\nlisten = \"{address}\"\n");
    for (text, key) in [
        (format!("{no_admin}{base}{taken}"), "ingress.listen"),
        (format!("{admin}{base}{free}"), "admin.listen"),
    ] {
        let config = config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
        let error = Agent::start(config).err().expect("the address is taken").to_string();
        assert!(error.contains(&format!("cannot listen on {address} ({key})")), "{error}");
        assert!(error.contains(&format!("give {key} another port")), "{error}");
    }
}

#[test]
fn a_reserve_that_leaves_nothing_is_refused() {
    let text = "[admin]\nenabled = false\n[agent]\nreserved_files = 1073741824\n\
                [[registry]]\nkind = \"file\"\npath = \"x\"\n\
                [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n";
    let config = config::parse(text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    let error = Agent::start(config).err().expect("nothing is left").to_string();
    assert!(error.contains("agent.reserved_files = 1073741824 leaves no"), "{error}");
}
