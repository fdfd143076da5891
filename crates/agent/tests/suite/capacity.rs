//! More calls than an app can take: the agent in front of it lets in what the app has threads for.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support;
use crate::support::dubbo::DubboConsumer;
use crate::support::pool::PoolProvider;
use crate::support::{
    Behaviour, FakeProvider, Http, PATIENCE, SERVICE, STRING, block_on, call, consumer, exporting,
    exporting_with_admin, metric, register_with, start, wait_until,
};
use agent::Agent;
use agent::inspect::snapshot::{AppSnapshot, Page};
use dubbo_proto::Status;
use registry::MemoryHub;

const MS: Duration = Duration::from_millis(1);

/// An agent of several workers before `app`, for Dubbo's own consumers.
fn agent_before(app: &PoolProvider, n_workers: usize, lines: &str) -> Agent {
    let text = support::dubbo_exports(&format!(
        "interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n{lines}",
        app.addr
    ));
    let text = text.replace("workers = 1", &format!("workers = {n_workers}"));
    start(&text, &MemoryHub::new())
}

/// What became of the calls of a crowd.
#[derive(Debug)]
#[expect(dead_code, reason = "it is printed")]
struct Crowd {
    n_ok: usize,
    n_shed: usize,
}

/// Consumers that call one call after the other, until so many were answered.
fn crowd(agent: &Agent, n_consumers: usize, n_wanted: usize) -> Crowd {
    let (n_ok, n_shed, is_over) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let addr = agent.addresses().dubbo_exports.unwrap();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..n_consumers {
            scope.spawn(|| {
                let mut consumer = DubboConsumer::connect(addr);
                while !is_over.load(SeqCst) {
                    assert!(started.elapsed() < PATIENCE, "{n_ok:?} of {n_wanted} were answered");
                    let answer = consumer.call("echo", "a", &[]);
                    match answer.status {
                        Status::Ok => n_ok.fetch_add(1, SeqCst),
                        Status::ServerThreadpoolExhausted => {
                            assert!(answer.text().contains("overloaded"), "{}", answer.text());
                            n_shed.fetch_add(1, SeqCst)
                        }
                        other => panic!("{other:?}: {}", answer.text()),
                    };
                    if n_wanted <= n_ok.load(SeqCst) {
                        is_over.store(true, SeqCst);
                    }
                }
            });
        }
    });
    Crowd { n_ok: n_ok.into_inner(), n_shed: n_shed.into_inner() }
}

#[test]
fn a_pool_that_rejects_never_has_to() {
    for (threads, n_workers) in [(4, 1), (4, 4), (2, 4)] {
        let app = PoolProvider::start(threads, 10 * MS, false);
        let agent = agent_before(&app, n_workers, &format!("capacity = {threads}"));
        let crowd = crowd(&agent, 4 * threads, 150);
        println!("{threads} threads, {n_workers} workers: {crowd:?}");
        assert_eq!(app.n_rejected(), 0, "{threads} threads, {n_workers} workers, {crowd:?}");
        block_on(agent.drain());
    }
}

#[test]
fn an_app_that_queues_never_has_a_queue() {
    for n_workers in [1, 4] {
        let app = PoolProvider::start(4, 10 * MS, true);
        let agent = agent_before(&app, n_workers, "capacity = 4");
        let crowd = crowd(&agent, 16, 150);
        assert_eq!(app.most_waiting(), 0, "{n_workers} workers, {crowd:?}");
        block_on(agent.drain());
    }
}

/// Nobody says how many threads there are: rejections do.
#[test]
fn a_capacity_that_nobody_knows_is_found() {
    let app = PoolProvider::start(4, 10 * MS, false);
    let agent = agent_before(&app, 2, "capacity = \"auto\"");
    crowd_that_may_be_rejected(&agent, &app);
    block_on(agent.drain());
}

/// Rejections of the app itself reach the consumers as they are.
fn crowd_that_may_be_rejected(agent: &Agent, app: &PoolProvider) {
    let addr = agent.addresses().dubbo_exports.unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut consumer = DubboConsumer::connect(addr);
                while !is_over.load(SeqCst) {
                    consumer.call("echo", "a", &[]);
                }
            });
        }
        wait_until("the app answers", || (400 <= app.n_answered()).then_some(()));
        is_over.store(true, SeqCst);
    });
    let (n_answered, n_rejected) = (app.n_answered(), app.n_rejected());
    println!("{n_answered} answered, {n_rejected} rejected");
    assert!(n_rejected < n_answered, "{n_rejected} rejected, {n_answered} answered");
}

/// The threads that the app has registered count, if nothing is configured.
#[test]
fn what_the_app_has_registered_counts() {
    let hub = MemoryHub::new();
    let app = PoolProvider::start(3, 10 * MS, false);
    let _registered = register_with(&hub, app.addr, &[("threads", "3")]);
    let agent = exporting_with_admin(
        &hub,
        &format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n", app.addr),
    );
    let found = wait_until("the agent knows the threads", || {
        let found = apps(&agent).items.remove(0);
        (found.source == "registered").then_some(found)
    });
    assert_eq!((found.capacity, found.app), (3, app.addr.to_string()));
    assert_eq!(found.services, [SERVICE]);
    assert_eq!(metric(&agent, &format!("dubmesh_app_capacity{{app=\"{}\"}}", app.addr)), 3);
    block_on(agent.drain());
}

/// The agent is listed in place of its app, and the app's own entry still counts.
#[test]
fn what_the_app_registers_later_counts_beside_the_agents_entry() {
    let hub = MemoryHub::new();
    let app = PoolProvider::start(3, 10 * MS, false);
    let register = |threads| register_with(&hub, app.addr, &[("threads", threads)]);
    let first = register("3");
    let agent = exporting_with_admin(
        &hub,
        &format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n", app.addr),
    );
    let caller = consumer(&hub, "");
    let passed = format!("dubmesh_export_calls_total{{service=\"{SERVICE}\",code=\"ok\"}}");
    wait_until("a call by the agent", || {
        let _ = call(&caller, "echo", &[STRING], "[\"a\"]");
        (metric(&agent, &passed) != 0).then_some(())
    });
    let is_registered = |capacity| {
        let found = apps(&agent).items.remove(0);
        found.source == "registered" && found.capacity == capacity
    };
    wait_until("the first number", || is_registered(3).then_some(()));
    drop(first);
    for (text, threads) in [("2", 2), ("9", 9)] {
        let later = register(text);
        wait_until("the number of now", || is_registered(threads).then_some(()));
        drop(later);
        assert!(is_registered(threads), "the last word holds while the app is gone");
    }
    block_on(agent.drain());
}

fn apps(agent: &Agent) -> Page<AppSnapshot> {
    let mut http = Http::connect(agent.addresses().admin.unwrap());
    http.send("GET /apps HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    serde_json::from_str(&http.read().body).unwrap()
}

/// A call over a link that the app has no room for is shed, and its caller told when to come back.
/// The app never sees it.
#[test]
fn what_has_not_begun_by_its_deadline_is_dropped() {
    let hub = MemoryHub::new();
    let app = FakeProvider::start(Behaviour::Hang);
    let provider = exporting_with_admin(
        &hub,
        &format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\ncapacity = 1\n", app.addr),
    );
    let agent = consumer(&hub, "");
    let first = call(&agent, "echo", &[STRING, "x-dubbo-timeout-ms: 300"], "[\"a\"]");
    assert_eq!((first.status, &*first.code()), (504, "timeout"));
    // The app goes on with the first one, as far as anybody knows.
    for _ in 0..3 {
        let other = call(&agent, "echo", &[STRING, "x-dubbo-timeout-ms: 100"], "[\"a\"]");
        assert!(matches!(other.status, 503 | 504), "{other:?}");
        if other.status == 503 {
            assert!(other.head.contains("retry-after"), "{other:?}");
        }
    }
    assert_eq!(app.n_requests(), 1);
    let found = wait_until("nobody waits any more", || {
        let found = apps(&provider).items.remove(0);
        (found.waiting == 0).then_some(found)
    });
    assert_eq!((found.capacity, &*found.source), (1, "configured"));
    block_on(agent.drain());
}

/// Nobody knows how long calls take when a burst comes. Once somebody does, those who cannot be
/// answered in time hear that none has begun them, and the app is spared them.
#[test]
fn a_first_burst_is_judged_again_once_calls_are_answered() {
    let hub = MemoryHub::new();
    let app = PoolProvider::start(2, 400 * MS, false);
    let provider = exporting(
        &hub,
        &format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\ncapacity = 2\n", app.addr),
    );
    let agent = consumer(&hub, "");
    let headers = [STRING, "x-dubbo-timeout-ms: 2000"];
    let answers: Vec<_> = std::thread::scope(|scope| {
        let calls: Vec<_> =
            (0..24).map(|_| scope.spawn(|| call(&agent, "echo", &headers, "[\"a\"]"))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let (ok, others): (Vec<_>, Vec<_>) = answers.iter().partition(|it| it.status == 200);
    for other in others {
        assert_eq!((other.status, &*other.code()), (503, "overloaded"), "{other:?}");
        assert!(other.head.contains("retry-after"), "{other:?}");
    }
    assert!(4 <= ok.len(), "{} were answered", ok.len());
    assert_eq!((app.n_answered(), app.n_rejected()), (ok.len(), 0));
    block_on(agent.drain());
    block_on(provider.drain());
}

/// What waits when its caller goes away never begins.
#[test]
fn what_its_caller_gives_up_is_dropped() {
    let hub = MemoryHub::new();
    let app = FakeProvider::start(Behaviour::Hang);
    let provider = exporting(
        &hub,
        &format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\ncapacity = 1\n", app.addr),
    );
    let agent = consumer(&hub, "");
    let path = format!("/{SERVICE}/echo");
    let mut first = Http::to(&agent);
    first.send(support::request(&path, &[STRING, "x-dubbo-timeout-ms: 20000"], "[\"a\"]"));
    wait_until("the first call is in the app", || (app.n_requests() == 1).then_some(()));
    let mut second = Http::to(&agent);
    second.send(support::request(&path, &[STRING, "x-dubbo-timeout-ms: 20000"], "[\"a\"]"));
    drop(second);
    // It ends with the connection to its app, which is when the gate would let in who waits.
    app.kill();
    assert_eq!(first.read().status, 502);
    assert_eq!(app.n_requests(), 1);
    block_on(agent.drain());
    block_on(provider.drain());
}
