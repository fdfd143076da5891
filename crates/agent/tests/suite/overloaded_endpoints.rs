//! More calls than Dubbo providers can take that have no agent: the caller's agent sends each as
//! many as it can work on; the others wait, or are shed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::support;
use crate::support::dubbo::DubboConsumer;
use crate::support::pool::PoolProvider;
use crate::support::{
    Behaviour, FakeProvider, Http, PATIENCE, SERVICE, STRING, block_on, call,
    consumer_with_metrics, dubbo_consumer, metric, register_with, wait_until,
};
use agent::Agent;
use agent::inspect::snapshot::{EndpointSnapshot, Page, ServiceSnapshot};
use dubbo_proto::Status;
use registry::MemoryHub;

const MS: Duration = Duration::from_millis(1);

/// Callers that call one call after the other, until the providers have answered so many.
/// Returns how many calls were answered well, and how many were not.
fn crowd(agent: &Agent, n_callers: usize, timeout_ms: u64, n_wanted: usize) -> [usize; 2] {
    let (n_ok, n_failed, is_over) =
        (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let started = Instant::now();
    let timeout = format!("x-dubbo-timeout-ms: {timeout_ms}");
    let path = format!("/{SERVICE}/echo");
    std::thread::scope(|scope| {
        for _ in 0..n_callers {
            scope.spawn(|| {
                let mut http = Http::to(agent);
                while !is_over.load(SeqCst) {
                    assert!(started.elapsed() < PATIENCE, "{n_ok:?} of {n_wanted} were answered");
                    let answer = http.post(&path, &[STRING, &timeout], "[\"a\"]");
                    match answer.status {
                        200 => n_ok.fetch_add(1, SeqCst),
                        _ => n_failed.fetch_add(1, SeqCst),
                    };
                    if n_wanted <= n_ok.load(SeqCst) {
                        is_over.store(true, SeqCst);
                    }
                }
            });
        }
    });
    [n_ok.into_inner(), n_failed.into_inner()]
}

fn page<T: serde::de::DeserializeOwned>(agent: &Agent, path: &str) -> Page<T> {
    let mut http = Http::connect(agent.addresses().admin.unwrap());
    http.send(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
    serde_json::from_str(&http.read().body).unwrap()
}

/// Two workers share what each provider can take, and no provider has to reject a call.
#[test]
fn registered_threads_are_never_exceeded() {
    let hub = MemoryHub::new();
    let apps = [4, 2].map(|threads| PoolProvider::start(threads, 10 * MS, false));
    let _registered: Vec<_> = apps
        .iter()
        .zip(["4", "2"])
        .map(|(app, threads)| register_with(&hub, app.addr, &[("threads", threads)]))
        .collect();
    let agent = consumer_with_metrics(&hub, "");
    let [n_ok, n_failed] = crowd(&agent, 24, 10_000, 400);
    let n_rejected: usize = apps.iter().map(PoolProvider::n_rejected).sum();
    println!("{n_ok} answered, {n_failed} failed");
    assert_eq!(n_rejected, 0);
    let endpoints: Page<EndpointSnapshot> = page(&agent, "/endpoints");
    let mut shown: Vec<_> =
        endpoints.items.iter().map(|it| (it.capacity, it.capacity_source.as_deref())).collect();
    shown.sort();
    assert_eq!(shown, [(Some(2), Some("registered")), (Some(4), Some("registered"))]);
    let name = format!("dubmesh_endpoint_capacity{{endpoint=\"{}\"}}", apps[0].addr);
    assert_eq!(metric(&agent, &name), 4);
    block_on(agent.drain());
}

/// Nobody says how many threads a provider has that lets calls wait without end. What it answers
/// is answered in time, and so the agent never sends it much more than it can work on.
#[test]
fn a_provider_that_queues_is_not_buried() {
    let hub = MemoryHub::new();
    let app = PoolProvider::start(4, 20 * MS, true);
    let _registered = register_with(&hub, app.addr, &[]);
    let agent = consumer_with_metrics(&hub, "[defaults]\nendpoint_capacity = \"auto\"");
    // All of them together would wait for 1.6 seconds.
    let [n_ok, n_failed] = crowd(&agent, 320, 1000, 1000);
    let n_answered = app.n_answered();
    println!("{n_ok} answered in time of {n_answered}, {n_failed} failed");
    assert!(n_answered < n_ok * 2, "{n_ok} of {n_answered} answers came in time");
    block_on(agent.drain());
}

/// A provider that rejects calls shows by that how many it can take.
#[test]
fn the_capacity_of_a_provider_that_rejects_is_found() {
    let hub = MemoryHub::new();
    let app = PoolProvider::start(4, 10 * MS, false);
    let _registered = register_with(&hub, app.addr, &[]);
    let agent = consumer_with_metrics(&hub, "");
    let [n_ok, _] = crowd(&agent, 32, 10_000, 400);
    let n_rejected = app.n_rejected();
    println!("{n_ok} answered, {n_rejected} rejected");
    assert!(n_rejected < n_ok, "{n_rejected} rejected, {n_ok} answered");
    block_on(agent.drain());
}

/// Nobody hears when a one-way call ends. It counts for as long as calls usually take.
#[test]
fn one_way_calls_by_http_count_as_well() {
    let hub = MemoryHub::new();
    let app = PoolProvider::start(4, 50 * MS, false);
    let _registered = register_with(&hub, app.addr, &[("threads", "4")]);
    let agent = consumer_with_metrics(&hub, "");
    let path = format!("/{SERVICE}/echo");
    let mut http = Http::to(&agent);
    let answers = (0..8).map(|_| http.post(&path, &[STRING], "[\"a\"]").status);
    assert!(answers.eq([200; 8]));
    let (one_way, n_sent) = ("x-dubbo-attachment-return: false", AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let mut http = Http::to(&agent);
                while n_sent.load(SeqCst) < 60 {
                    let answer = http.post(&path, &[STRING, one_way], "[\"a\"]");
                    if answer.status == 200 {
                        n_sent.fetch_add(1, SeqCst);
                    } else {
                        assert_eq!(answer.code(), "overloaded", "{answer:?}");
                    }
                }
            });
        }
    });
    let n_sent = n_sent.into_inner();
    wait_until("all", || (app.n_answered() + app.n_rejected() == 8 + n_sent).then_some(()));
    assert!(app.n_rejected() * 4 < n_sent, "{} of {n_sent} were rejected", app.n_rejected());
    let endpoints: Page<EndpointSnapshot> = page(&agent, "/endpoints");
    let calls = &endpoints.items[0].calls;
    assert!(calls.average_ms.is_some_and(|mean| 49.0 < mean), "{calls:?}");
    block_on(agent.drain());
}

/// A call that waits in line leaves it when its caller hangs up, and one that has begun ends.
#[test]
fn callers_that_hang_up_leave_the_line() {
    let hub = MemoryHub::new();
    let app = FakeProvider::start(Behaviour::Hang);
    let _registered = register_with(&hub, app.addr, &[]);
    let agent = consumer_with_metrics(&hub, "[defaults]\nendpoint_capacity = 1");
    let request = support::request(
        &format!("/{SERVICE}/echo"),
        &[STRING, "x-dubbo-timeout-ms: 20000"],
        "[\"a\"]",
    );
    let count = |n_in_flight: u64, n_waiting: usize| {
        let services: Page<ServiceSnapshot> = page(&agent, "/services");
        let (in_flight, waiting) =
            services.items.iter().fold((0, 0), |(in_flight, waiting), it| {
                (in_flight + it.in_flight, waiting + it.waiting)
            });
        ((in_flight, waiting) == (n_in_flight, n_waiting)).then_some(())
    };
    let mut first = Http::to(&agent);
    first.send(&request);
    wait_until("the first call is at the provider", || (app.n_requests() == 1).then_some(()));
    let mut second = Http::to(&agent);
    second.send(&request);
    wait_until("the second one waits", || count(1, 1));
    drop(second);
    wait_until("it waits no longer", || count(1, 0));
    drop(first);
    wait_until("the first one has ended", || count(0, 0));
    assert_eq!(app.n_requests(), 1);
    app.kill();
    block_on(agent.drain());
}

/// A call that waits in line leaves it when its time is over, and never begins.
#[test]
fn calls_wait_in_line_for_an_endpoint() {
    let hub = MemoryHub::new();
    let app = FakeProvider::start(Behaviour::Hang);
    let _registered = register_with(&hub, app.addr, &[]);
    let agent = consumer_with_metrics(&hub, "[defaults]\nendpoint_capacity = 1");
    let path = format!("/{SERVICE}/echo");
    let request = support::request(&path, &[STRING, "x-dubbo-timeout-ms: 20000"], "[\"a\"]");
    let mut first = Http::to(&agent);
    first.send(&request);
    wait_until("the first call is at the provider", || (app.n_requests() == 1).then_some(()));
    let waiting = |n: usize| {
        let services: Page<ServiceSnapshot> = page(&agent, "/services");
        let n_waiting: usize = services.items.iter().map(|it| it.waiting).sum();
        (n_waiting == n).then_some(())
    };
    let mut second = Http::to(&agent);
    second.send(support::request(&path, &[STRING, "x-dubbo-timeout-ms: 1000"], "[\"a\"]"));
    wait_until("the second one waits", || waiting(1));
    assert!(matches!(second.read().status, 503 | 504));
    wait_until("it waits no longer", || waiting(0));
    let late = call(&agent, "echo", &[STRING, "x-dubbo-timeout-ms: 50"], "[\"a\"]");
    assert!(matches!(late.status, 503 | 504), "{late:?}");
    if late.status == 503 {
        assert!(late.head.contains("retry-after"), "{late:?}");
    }
    assert_eq!(app.n_requests(), 1);
    app.kill();
    block_on(agent.drain());
}

/// Calls of several classes to a provider with one thread, which a first call keeps busy. The
/// classes in the order of their answers; `None` if they came too late to wait together.
fn order_of_classes() -> Option<Vec<&'static str>> {
    let (hub, app) = (MemoryHub::new(), PoolProvider::start(1, 300 * MS, false));
    let _registered = register_with(&hub, app.addr, &[]);
    // Each worker has a line of its own.
    let agent = one_worker(&hub, "[defaults]\nendpoint_capacity = 1\npriority = \"low\"");
    let order = Mutex::new(Vec::new());
    let are_waiting = |n: usize| {
        let services: Page<ServiceSnapshot> = page(&agent, "/services");
        let n_waiting: usize = services.items.iter().map(|it| it.waiting).sum();
        let is_over = 0 < app.n_answered();
        (is_over || n_waiting == n).then_some(!is_over)
    };
    let wrong = call(&agent, "echo", &[STRING, "x-dubbo-priority: urgent"], "[\"a\"]");
    assert_eq!((wrong.status, &*wrong.code()), (400, "bad_request"), "{wrong:?}");
    let waited_together = std::thread::scope(|scope| {
        let ask = |priority: &'static str| {
            let (agent, order) = (&agent, &order);
            scope.spawn(move || {
                let header = format!("x-dubbo-priority: {priority}");
                let mut headers = vec![STRING, "x-dubbo-timeout-ms: 20000"];
                headers.extend((!priority.is_empty()).then_some(&*header));
                if call(agent, "echo", &headers, "[\"a\"]").status == 200 {
                    order.lock().unwrap().push(priority);
                }
            });
        };
        ask("normal");
        let endpoint = || -> Page<EndpointSnapshot> { page(&agent, "/endpoints") };
        wait_until("a first call at the provider", || {
            let is_busy = endpoint().items.iter().any(|it| it.calls.in_flight == 1);
            (is_busy || 0 < app.n_answered()).then_some(())
        });
        // The one that names no class has that of the section.
        ask("low");
        ask("");
        let two = wait_until("two wait", || are_waiting(2));
        ask("high");
        two && wait_until("three wait", || are_waiting(3))
    });
    waited_together.then(|| order.into_inner().unwrap())
}

/// Among those who wait, the better class goes first, whoever came first.
#[test]
fn a_call_that_matters_more_goes_first() {
    let order = wait_until("an undisturbed try", order_of_classes);
    assert_eq!(order[..2], ["normal", "high"], "{order:?}");
}

/// An agent with one worker, which shows what it does.
fn one_worker(hub: &MemoryHub, extra: &str) -> Agent {
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 1\n[[registry]]\nname = \
         \"main\"\nkind = \"file\"\npath = \"x\"\n[[ingress]]\nprotocol = \"http\"\nlisten = \
         \"127.0.0.1:0\"\n{extra}\n"
    );
    support::start(&text, hub)
}

/// Consumers of Dubbo's own get the status that they know.
#[test]
fn dubbo_consumers_are_told_that_the_pool_is_full() {
    let hub = MemoryHub::new();
    let app = PoolProvider::start(1, 20 * MS, false);
    let _registered = register_with(&hub, app.addr, &[("threads", "1")]);
    let agent = dubbo_consumer(&hub, "");
    let (n_ok, n_shed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                let mut consumer = DubboConsumer::connect(agent.addresses().dubbo[0]);
                while n_shed.load(SeqCst) == 0 || n_ok.load(SeqCst) < 20 {
                    assert!(started.elapsed() < PATIENCE, "{n_ok:?} answered, {n_shed:?} shed");
                    let answer = consumer.call("echo", "a", &[]);
                    match answer.status {
                        Status::Ok => n_ok.fetch_add(1, SeqCst),
                        Status::ServerThreadpoolExhausted => {
                            assert!(answer.text().contains("overloaded"), "{}", answer.text());
                            n_shed.fetch_add(1, SeqCst)
                        }
                        other => panic!("{other:?}: {}", answer.text()),
                    };
                }
            });
        }
    });
    assert_eq!(app.n_rejected(), 0);
    block_on(agent.drain());
}

/// Without a limit nothing waits: the provider's pool rejects.
#[test]
fn the_limit_can_be_switched_off() {
    let hub = MemoryHub::new();
    let app = FakeProvider::start(Behaviour::Hang);
    let _registered = register_with(&hub, app.addr, &[("threads", "1")]);
    let agent = consumer_with_metrics(&hub, "[defaults]\nendpoint_capacity = 0");
    let path = format!("/{SERVICE}/echo");
    let request = support::request(&path, &[STRING, "x-dubbo-timeout-ms: 20000"], "[\"a\"]");
    let mut callers: Vec<Http> = (0..3).map(|_| Http::to(&agent)).collect();
    callers.iter_mut().for_each(|caller| caller.send(&request));
    wait_until("all calls are at the provider", || (app.n_requests() == 3).then_some(()));
    let endpoints: Page<EndpointSnapshot> = page(&agent, "/endpoints");
    assert_eq!(endpoints.items[0].capacity, None);
    app.kill();
    block_on(agent.drain());
}
