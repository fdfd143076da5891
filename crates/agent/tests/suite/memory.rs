//! What peers make an agent hold is bounded, given back, and no trouble for others: by Dubbo and
//! by links.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support::dubbo::{DubboConsumer, ProviderAnswer, body, string};
use crate::support::http_app::{Does, TestApp};
use crate::support::{
    Behaviour, FakeProvider, SERVICE, dubbo_consumer, metric, register, wait_until,
};
use agent::Agent;
use agent::config;
use bytes::BytesMut;
use dubbo_proto::frame::Header;
use dubbo_proto::{Serialization, Status};
use link_proto::{Connection, Event, RequestOut, RouteDef};
use registry::{MemoryHub, RegistryConfig};

const MIB: usize = 1 << 20;
/// The budget of these agents.
const BUDGET: usize = 32 * MIB;
const N_WORKERS: usize = 2;

/// An agent with an ingress for Dubbo and an export by link; `limits` goes into both.
fn agent(hub: &MemoryHub, app: SocketAddr, limits: &str) -> Agent {
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = {N_WORKERS}\nmemory_bytes = {BUDGET}\n\
         [[registry]]\nname = \"main\"\nkind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n\
         [[ingress]]\nprotocol = \"dubbo\"\nlisten = \"127.0.0.1:0\"\n{limits}\n\
         [link]\nlisten = \"127.0.0.1:0\"\n{limits}\n\
         [[export]]\ninterface = \"{SERVICE}\"\napp = \"dubbo://{app}\"\n"
    );
    let mut config = config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    config.registries[0].config = RegistryConfig::Memory(hub.clone());
    Agent::start(config).unwrap()
}

fn used(agent: &Agent) -> usize {
    metric(agent, "dubmesh_memory_used_bytes").try_into().unwrap()
}

fn wait_until_free(agent: &Agent) {
    wait_until("the memory to be given back", || (used(agent) == 0).then_some(()));
}

/// Calls that must not fail, whatever others do.
fn expect_calls_pass(caller: &mut DubboConsumer) {
    for n in 0..50 {
        let answer = caller.call("echo", &n.to_string(), &[]);
        assert_eq!(answer.status, Status::Ok, "{}", answer.text());
    }
}

fn caller(agent: &Agent) -> DubboConsumer {
    let mut caller = DubboConsumer::to(agent);
    wait_until("the first endpoint", || {
        (caller.call("echo", "x", &[]).status == Status::Ok).then_some(())
    });
    caller
}

/// The header of a request with a body of that length.
fn head(body_len: usize) -> [u8; 16] {
    let header = Header {
        is_request: true,
        two_way: true,
        is_event: false,
        serialization: Serialization::Hessian2,
        status: 0,
        id: 7,
        body_len,
    };
    header.encode()
}

/// Whether the agent has closed the connection, whatever it said before.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// 100 silent partial bodies of 4 MiB each: 400 MiB in a budget of 32.
#[test]
fn partial_bodies_stay_within_the_budget_and_end() {
    let (provider, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let _registered = register(&hub, provider.addr);
    let agent = agent(&hub, provider.addr, "body_timeout_ms = 4000");
    let mut caller = caller(&agent);
    let part = vec![b'x'; 4 * MIB];
    let address = agent.addresses().dubbo[0];
    let mut attackers: Vec<TcpStream> = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&head(8 * MIB - 100)).unwrap();
        stream.write_all(&part).unwrap();
        attackers.push(stream);
        assert!(used(&agent) <= BUDGET, "{}", used(&agent));
    }
    expect_calls_pass(&mut caller);
    assert!(0 < metric(&agent, "dubmesh_memory_refused_total"));
    // Who was refused has been told, in Dubbo's words.
    let refused = attackers.iter_mut().filter_map(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut head = [0; 16];
        stream.read_exact(&mut head).ok().map(|()| Status::from_u8(head[3]))
    });
    let refused: Vec<Status> = refused.collect();
    assert!(80 < refused.len(), "{}", refused.len());
    assert!(refused.iter().all(|status| *status == Status::ServerThreadpoolExhausted));
    wait_until("the connections to be closed", || {
        attackers.iter_mut().all(is_closed).then_some(())
    });
    wait_until_free(&agent);
    expect_calls_pass(&mut caller);
}

#[test]
fn a_body_that_trickles_in_ends_its_connection() {
    let (provider, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let agent = agent(&hub, provider.addr, "body_timeout_ms = 700");
    let mut stream = TcpStream::connect(agent.addresses().dubbo[0]).unwrap();
    stream.write_all(&head(1000)).unwrap();
    let start = Instant::now();
    wait_until("the connection to be closed", || {
        let _ = stream.write_all(b"x");
        is_closed(&mut stream).then_some(())
    });
    assert!(Duration::from_millis(600) < start.elapsed(), "{:?}", start.elapsed());
}

/// One consumer has so many calls under way that another one would find no place.
#[test]
fn a_greedy_consumer_leaves_calls_for_others() {
    let (provider, hub) = (FakeProvider::start(Behaviour::Hang), MemoryHub::new());
    let _registered = register(&hub, provider.addr);
    // Nor does it wait in line: that is fair in its own way.
    let agent = dubbo_consumer(&hub, "[defaults]\nmax_in_flight = 90\nendpoint_capacity = 200");
    let request = body(SERVICE, "echo", "x", &[("timeout", "20000")]);
    let (mut greedy, mut modest) = (DubboConsumer::to(&agent), DubboConsumer::to(&agent));
    // The first call waits for the endpoint, and for its answer in vain.
    let first = modest.call("echo", "x", &[("timeout", "300")]);
    assert_eq!(first.status, Status::ServerTimeout, "{}", first.text());
    for token in 0..200 {
        greedy.send(Serialization::Hessian2, &request, token);
    }
    for _ in 85..200 {
        let (_, answer) = greedy.answer();
        assert_eq!(answer.status, Status::ServerThreadpoolExhausted, "{}", answer.text());
        assert!(
            answer.text().contains("the rest is kept for other connections"),
            "{}",
            answer.text()
        );
    }
    wait_until("the first calls", || (provider.n_requests() == 1 + 85).then_some(()));
    modest.send(Serialization::Hessian2, &request, 1);
    wait_until("the other's call", || (provider.n_requests() == 1 + 86).then_some(()));
}

/// One consumer fills what may wait for an endpoint that does not read.
#[test]
fn long_requests_that_wait_leave_room_for_short_ones() {
    let hub = MemoryHub::new();
    let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let _registered = register(&hub, deaf.local_addr().unwrap());
    // The agent would open further ones, each with room of its own.
    let agent = dubbo_consumer(&hub, "[defaults]\nconnections = 1");
    let long = body(SERVICE, "echo", &"x".repeat(64 << 10), &[("timeout", "20000")]);
    let (mut greedy, mut modest) = (DubboConsumer::to(&agent), DubboConsumer::to(&agent));
    let mut n_sent = 0;
    let refused = loop {
        greedy.send(Serialization::Hessian2, &long, n_sent);
        n_sent += 1;
        if !greedy.hears(Duration::from_millis(1)) {
            continue;
        }
        let refused = greedy.answer().1.text().to_owned();
        // As long as there is no connection yet, requests wait for that, and fewer of them: up to
        // a limit of their bytes, or up to the consumer's share of the memory.
        if !["wait for an endpoint", "no memory for"].iter().any(|why| refused.contains(why)) {
            break refused;
        }
    };
    assert!(refused.contains("wait to be written"), "{refused}");
    let answer = modest.call("echo", "x", &[("timeout", "300")]);
    assert_eq!(answer.status, Status::ServerTimeout, "{}", answer.text());
}

/// It asks for 1 MiB as soon as the call before is answered, and reads nothing.
#[test]
fn a_consumer_that_never_reads_is_left() {
    let (provider, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let _registered = register(&hub, provider.addr);
    let agent = agent(&hub, provider.addr, "write_timeout_ms = 700");
    let mut caller = caller(&agent);
    let open = format!("dubmesh_connections_open{{listener=\"{}\"}}", agent.addresses().dubbo[0]);
    let mut attacker = TcpStream::connect(agent.addresses().dubbo[0]).unwrap();
    let frame = long_request();
    for n in provider.n_requests().. {
        assert!(n < 100, "the agent goes on for a consumer that does not read");
        if attacker.write_all(&frame).is_err() {
            break;
        }
        let is_left = wait_until("the call, or the end", || {
            let is_left = metric(&agent, &open) < 2;
            (is_left || n < provider.n_requests()).then_some(is_left)
        });
        if is_left {
            break;
        }
    }
    wait_until_free(&agent);
    expect_calls_pass(&mut caller);
}

/// A request that has 1 MiB come back.
fn long_request() -> Vec<u8> {
    let request = body(SERVICE, "echo", &"x".repeat(MIB), &[("timeout", "5000")]);
    [&head(request.len())[..], &request].concat()
}

/// Six ask for 1 MiB, 24 times each. Some are left, and the others refused: none of them is
/// trouble for others.
#[test]
fn consumers_that_never_read_hold_little() {
    let (provider, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let _registered = register(&hub, provider.addr);
    let agent = agent(&hub, provider.addr, "write_timeout_ms = 1500");
    let mut caller = caller(&agent);
    let all = Arc::new(long_request().repeat(24));
    let start = |_| {
        let mut stream = TcpStream::connect(agent.addresses().dubbo[0]).unwrap();
        let all = Arc::clone(&all);
        // As much as is taken, at most until the agent closes the connection.
        std::thread::spawn(move || (stream.write_all(&all).is_err(), stream))
    };
    let attackers: Vec<_> = (0..6).map(start).collect();
    while !attackers.iter().all(JoinHandle::is_finished) {
        assert!(used(&agent) <= BUDGET + 2 * MIB, "{}", used(&agent));
        expect_calls_pass(&mut caller);
    }
    wait_until_free(&agent);
    expect_calls_pass(&mut caller);
}

/// What an HTTP app answers counts as it comes: 40 answers of which 3 MiB come, and then nothing.
#[test]
fn answers_of_http_apps_stay_within_the_budget() {
    let part =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n\"{}", 4 * MIB, "x".repeat(3 * MIB));
    let app = TestApp::start(move |_| Does::Bytes(part.clone().into_bytes()));
    let addr = app.addr;
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 1\nmemory_bytes = {BUDGET}\n\
         [[registry]]\nname = \"main\"\nkind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n\
         [dubbo]\nlisten = \"127.0.0.1:0\"\napplication = \"shop\"\n\
         [[export]]\ninterface = \"{SERVICE}\"\napp = \"http://{addr}\"\n"
    );
    let mut config = config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    config.registries[0].config = RegistryConfig::Memory(MemoryHub::new());
    let agent = Agent::start(config).unwrap();
    let mut consumer = DubboConsumer::connect(agent.addresses().dubbo_exports.unwrap());
    let request = body(SERVICE, "echo", "x", &[("timeout", "5000")]);
    for token in 0..40 {
        consumer.send(Serialization::Hessian2, &request, token);
    }
    let mut n_refused = 0;
    for _ in 0..40 {
        let (_, answer) = consumer.answer();
        assert_ne!(answer.status, Status::Ok);
        n_refused += usize::from(answer.text().contains("memory_bytes"));
        assert!(used(&agent) <= BUDGET, "{}", used(&agent));
    }
    assert!((20..40).contains(&n_refused), "{n_refused} were refused");
    wait_until_free(&agent);
}

/// A link of a test's own.
struct Link {
    stream: TcpStream,
    machine: Connection<u64>,
    input: BytesMut,
    /// Nothing more is sent.
    is_stuck: bool,
}

impl Link {
    fn to(agent: &Agent) -> Self {
        let stream = TcpStream::connect(agent.addresses().link.unwrap()).unwrap();
        let max_buffered_bytes = 64 * MIB;
        let config =
            link_proto::Config { features: 0, max_buffered_bytes, ..link_proto::Config::default() };
        let machine = Connection::client(config, Instant::now());
        let mut link = Self { stream, machine, input: BytesMut::new(), is_stuck: false };
        link.next(|event| matches!(event, Event::Ready(_)).then_some(()));
        link
    }

    fn flush(&mut self) {
        while !self.is_stuck && !self.machine.transmit().is_empty() {
            let bytes = self.machine.transmit().split();
            self.stream.write_all(&bytes).unwrap();
        }
    }

    /// The first event that `wanted` takes.
    fn next<R>(&mut self, mut wanted: impl FnMut(Event<u64>) -> Option<R>) -> R {
        self.stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            self.flush();
            while let Some(event) = self.machine.poll_event() {
                let refused = matches!(event, Event::RouteRefused { .. });
                assert!(!refused, "{event:?}");
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
            let len = self.stream.read(&mut buffer).unwrap();
            assert!(len != 0, "the agent closed the link");
            self.input.extend_from_slice(&buffer[..len]);
            self.machine.handle_bytes(Instant::now(), &mut self.input).unwrap();
        }
    }

    fn route(&mut self) -> link_proto::RouteId {
        let def = RouteDef {
            service: SERVICE.to_owned(),
            attachments: vec![("path".to_owned(), SERVICE.to_owned())],
            method: "echo".to_owned(),
            descriptor: "Ljava/lang/String;".to_owned(),
        };
        let route = self.machine.define(&def).unwrap();
        self.next(|event| matches!(event, Event::RouteAccepted { .. }).then_some(()));
        route
    }

    /// Begins requests of 4 MiB, and leaves out the last parts of all.
    fn begin_long(&mut self, route: link_proto::RouteId, n: u64) {
        for token in 0..n {
            let payload = vec![7; 4 * MIB].into();
            let request = RequestOut { payload, ..RequestOut::new(route) };
            self.machine.send_request(Instant::now(), request, token).unwrap();
        }
        // They take turns: all but the last of what there is leaves every one unfinished.
        self.is_stuck = true;
        let (n, mut n_sent) = (usize::try_from(n).unwrap(), 0);
        while n_sent < n * 3 * MIB {
            let bytes = self.machine.transmit().split();
            n_sent += bytes.len();
            if self.stream.write_all(&bytes).is_err() {
                return;
            }
        }
    }
}

/// Whoever asks for a long answer and for short ones gets the short ones meanwhile: they overtake
/// it, so that the agent has to go on reading what is asked.
#[test]
fn a_long_answer_that_waits_keeps_no_short_call_from_the_app() {
    let (provider, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let agent = agent(&hub, provider.addr, "");
    let mut link = Link::to(&agent);
    let route = link.route();
    let n_before = provider.n_requests();
    let mut ask = |text: &str, token| {
        let (payload, codec) = (string(text).into(), Serialization::Hessian2.link_number());
        let request = RequestOut { payload, codec, ..RequestOut::new(route) };
        link.machine.send_request(Instant::now(), request, token).unwrap();
        link.flush();
    };
    // More than the kernel's buffers of the link hold, which nobody reads.
    ask(&"x".repeat(7 * MIB), 1);
    wait_until("the long call", || (provider.n_requests() == n_before + 1).then_some(()));
    wait_until("the long answer", || (5 * MIB < used(&agent)).then_some(()));
    for token in 2..12 {
        ask("short", token);
        let n = usize::try_from(token).unwrap();
        let n_requests = || provider.n_requests() - n_before;
        wait_until("a short call", || (n_requests() == n).then_some(()));
    }
}

/// Eight links of eight requests that stay unfinished at 3 of 4 MiB: 192 MiB in a budget of 32.
#[test]
fn unfinished_long_requests_stay_within_the_budget_and_end() {
    let (provider, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let _registered = register(&hub, provider.addr);
    let agent = agent(&hub, provider.addr, "body_timeout_ms = 3000");
    let mut caller = caller(&agent);
    let mut links = Vec::new();
    for _ in 0..8 {
        let mut link = Link::to(&agent);
        let route = link.route();
        link.begin_long(route, 8);
        links.push(link);
        // On each worker one request more may be counted, for the moment in which it is refused.
        assert!(used(&agent) <= BUDGET + N_WORKERS * 4 * MIB, "{}", used(&agent));
    }
    wait_until("the budget to be kept", || (used(&agent) <= BUDGET).then_some(()));
    expect_calls_pass(&mut caller);
    // Some had no room; the others' time is over, though the links live.
    let mut statuses = Vec::new();
    links[0].next(|event| {
        if let Event::Response { status, .. } = event {
            statuses.push(status);
        }
        (statuses.len() == 8).then_some(())
    });
    let is_refusal = |status: &link_proto::Status| {
        [link_proto::Status::OVERLOADED, link_proto::Status::TIMEOUT].contains(status)
    };
    assert!(statuses.iter().all(is_refusal), "{statuses:?}");
    wait_until_free(&agent);
    expect_calls_pass(&mut caller);
}

/// The longest body of a single consumer passes, there and back.
#[test]
fn the_longest_body_of_one_caller_fits() {
    let (provider, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let _registered = register(&hub, provider.addr);
    let agent = agent(&hub, provider.addr, "");
    let mut caller = caller(&agent);
    let long = "x".repeat(7 * MIB);
    for _ in 0..5 {
        let answer: ProviderAnswer = caller.call("echo", &long, &[("timeout", "10000")]);
        assert_eq!(answer.status, Status::Ok, "{}", answer.text());
        assert_eq!(answer.value().len(), long.len() + 3 * answer.value().len().div_ceil(32771));
    }
    wait_until_free(&agent);
}
