//! One caller asks for everything, and another one for a call now and then: the other one gets
//! its turn, wherever calls wait, and whichever worker each of them is served by.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::support;
use crate::support::dubbo::{DubboConsumer, body};
use crate::support::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2};
use crate::support::pool::PoolProvider;
use crate::support::{
    Http, SERVICE, STRING, StopAtEnd, block_on, exporting, register_with, start, wait_until,
};
use agent::Agent;
use dubbo_proto::{Serialization, Status};
use registry::MemoryHub;

const WORK: Duration = Duration::from_millis(10);
/// Workers of the agent that the callers are at, and threads of the app.
const SIZES: [(usize, usize); 4] = [(1, 4), (4, 4), (1, 1), (4, 1)];
/// How many calls the greedy one has in flight at any time, over its single connection.
const GREED: u64 = 500;
/// How many calls the modest one makes, one after the other.
const N_CALLS: usize = 25;
/// What an agent lets a connection of HTTP/2 have.
const N_STREAMS: usize = 100;

/// What the greedy caller got for each answer of the modest one. The modest one uses one thread
/// at a time, and waits for its turn: with four threads, some five to ten are fair. In a line by
/// arrival it would be [`GREED`].
const MOST_FOR_EACH: usize = 16;

/// An agent with so many workers that finds its services in `hub`.
fn consumer(hub: &MemoryHub, protocol: &str, n_workers: usize) -> Agent {
    let text = format!(
        "[admin]\nenabled = false\n[agent]\nworkers = {n_workers}\ndrain_ms = 5000\n\
         [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
         [[ingress]]\nprotocol = \"{protocol}\"\nlisten = \"127.0.0.1:0\"\n"
    );
    start(&text, hub)
}

/// Keeps [`GREED`] calls in flight until it is over.
fn ask_for_everything(addr: SocketAddr, n_ok: &AtomicUsize, is_over: &AtomicBool) {
    let mut greedy = DubboConsumer::connect(addr);
    let body = body(SERVICE, "echo", "a", &[]);
    (0..GREED).for_each(|token| greedy.send(Serialization::Hessian2, &body, token));
    while !is_over.load(SeqCst) {
        let (token, answer) = greedy.answer();
        match answer.status {
            Status::Ok => drop(n_ok.fetch_add(1, SeqCst)),
            Status::ServerThreadpoolExhausted => {}
            other => panic!("{other:?}: {}", answer.text()),
        }
        greedy.send(Serialization::Hessian2, &body, token);
    }
}

/// The same over one connection of HTTP/2, with as many streams as it may have.
fn ask_by_http2(agent: &Agent, n_ok: &AtomicUsize, is_over: &AtomicBool) {
    let mut greedy = Http2::to(agent, 65_535);
    let head = Http2::head(0, &format!("/{SERVICE}/echo"));
    let ask = |greedy: &mut Http2, stream| {
        greedy.frame(HEADERS, END_HEADERS, stream, &head);
        greedy.frame(DATA, END_STREAM, stream, b"[\"a\"]");
    };
    let mut streams = (1..).step_by(2);
    streams.by_ref().take(N_STREAMS).for_each(|stream| ask(&mut greedy, stream));
    while !is_over.load(SeqCst) {
        let (_, head) = greedy.next(HEADERS);
        let is_ok = head.starts_with(b"\x88");
        n_ok.fetch_add(is_ok.into(), SeqCst);
        streams.by_ref().take(1).for_each(|stream| ask(&mut greedy, stream));
    }
}

/// The modest caller gets all its answers, and the greedy one not many more.
fn nobody_starves(at: &str, addr: SocketAddr) {
    let (n_ok, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut first = DubboConsumer::connect(addr);
    wait_until("the app is found", || {
        (first.call("echo", "a", &[]).status == Status::Ok).then_some(())
    });
    std::thread::scope(|scope| {
        let _over = StopAtEnd(&is_over);
        scope.spawn(|| ask_for_everything(addr, &n_ok, &is_over));
        wait_until("the app is busy", || (10 < n_ok.load(SeqCst)).then_some(()));
        let mut modest = DubboConsumer::connect(addr);
        let n_before = n_ok.load(SeqCst);
        for nth in 0..N_CALLS {
            let answer = modest.call("echo", "a", &[]);
            assert_eq!(answer.status, Status::Ok, "{at}, call {nth}: {}", answer.text());
        }
        let n_meanwhile = n_ok.load(SeqCst) - n_before;
        println!("{at}: {n_meanwhile} for the greedy one, {N_CALLS} for the modest one");
        assert!(n_meanwhile <= MOST_FOR_EACH * N_CALLS, "{at}: {n_meanwhile} for {N_CALLS}");
    });
}

/// Nobody starves, whichever size the agent and the app have. `start` gives the agents before the
/// app, of which the first is the one that is called, and where that is.
fn nobody_starves_of_any_size(
    place: &str,
    start: impl Fn(&MemoryHub, &PoolProvider, usize, usize) -> (Vec<Agent>, SocketAddr),
) {
    for (n_workers, threads) in SIZES {
        let (hub, app) = (MemoryHub::new(), PoolProvider::start(threads, WORK, false));
        let (agents, addr) = start(&hub, &app, n_workers, threads);
        let at = format!("{place}, {n_workers} workers, {threads} threads");
        nobody_starves(&at, addr);
        assert_eq!(app.n_rejected(), 0, "{at}");
        for agent in agents {
            block_on(agent.drain());
        }
    }
}

/// An `[[export]]` of the app.
fn export(app: &PoolProvider, threads: usize) -> String {
    format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\ncapacity = {threads}", app.addr)
}

#[test]
fn at_the_gate_of_an_app() {
    nobody_starves_of_any_size("gate", |hub, app, n_workers, threads| {
        let text = support::dubbo_exports(&export(app, threads));
        let agent = start(&text.replace("workers = 1", &format!("workers = {n_workers}")), hub);
        let addr = agent.addresses().dubbo_exports.unwrap();
        (vec![agent], addr)
    });
}

#[test]
fn in_line_for_a_provider_without_an_agent() {
    let registered = RefCell::new(Vec::new());
    nobody_starves_of_any_size("line", |hub, app, n_workers, threads| {
        let provider = register_with(hub, app.addr, &[("threads", &threads.to_string())]);
        registered.borrow_mut().push(provider);
        let agent = consumer(hub, "dubbo", n_workers);
        let addr = agent.addresses().dubbo[0];
        (vec![agent], addr)
    });
}

#[test]
fn in_line_for_credits() {
    nobody_starves_of_any_size("credits", |hub, app, n_workers, threads| {
        let provider = exporting(hub, &export(app, threads));
        let agent = consumer(hub, "dubbo", n_workers);
        let addr = agent.addresses().dubbo[0];
        (vec![agent, provider], addr)
    });
}

/// All streams of a connection are one caller.
#[test]
fn beside_a_connection_of_http2() {
    let hub = MemoryHub::new();
    let app = PoolProvider::start(1, WORK, false);
    let _registered = register_with(&hub, app.addr, &[("threads", "1")]);
    let agent = consumer(&hub, "http", 1);
    let (n_ok, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _over = StopAtEnd(&is_over);
        scope.spawn(|| ask_by_http2(&agent, &n_ok, &is_over));
        wait_until("the app is busy", || (10 < n_ok.load(SeqCst)).then_some(()));
        let mut modest = Http::to(&agent);
        for nth in 0..N_CALLS {
            let answer = modest.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]");
            assert_eq!(answer.status, 200, "call {nth}: {answer:?}");
        }
    });
    block_on(agent.drain());
}
