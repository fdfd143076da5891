//! Endpoints that go: in order, by accident, or only from the registry's list.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support;
use crate::support::load::BackgroundLoad;
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, call, consumer_with_metrics, metric, n_calls,
    provider_agent, register, register_link, wait_until,
};
use agent::Agent;
use bytes::BytesMut;
use link_proto::{Connection, Event, Reply, Status};
use registry::MemoryHub;

fn held(agent: &Agent) -> u64 {
    metric(agent, &format!("dubmesh_endpoints_held{{service=\"{SERVICE}\"}}"))
}

/// Has both workers call, and so look the service up: connections are spread evenly over them.
fn warm_up(agent: &Agent) {
    let load = BackgroundLoad::start(agent, 4);
    load.wait_for(40);
    assert_eq!(load.stop(), Vec::<String>::new());
}

/// Waits until calls have gone to all of these endpoints, by both workers.
fn wait_for_calls_at(agent: &Agent, load: &BackgroundLoad, endpoints: &[SocketAddr]) {
    for endpoint in endpoints {
        let goal = n_calls(agent, *endpoint, "ok") + 20;
        wait_until("calls at every endpoint", || {
            (goal <= n_calls(agent, *endpoint, "ok")).then_some(())
        });
    }
    load.wait_for(200);
}

/// The registry loses its writers: the list is emptied while every process and every link is
/// alive.
#[test]
fn a_list_that_is_emptied_fails_no_call_while_links_answer() {
    let (elsewhere, hub) = (MemoryHub::new(), MemoryHub::new());
    let providers = [(); 3].map(|()| FakeProvider::start(Behaviour::Good));
    let agents = providers.each_ref().map(|it| provider_agent(&elsewhere, it.addr));
    let links = agents.each_ref().map(|agent| agent.addresses().link.unwrap());
    let mut registered = Vec::from(links.map(|link| register_link(&hub, link)));
    let consumer = consumer_with_metrics(&hub, "");
    let load = BackgroundLoad::start(&consumer, 8);
    wait_for_calls_at(&consumer, &load, &links);

    // One after the other, as leases end.
    while let Some(one) = registered.pop() {
        drop(one);
        load.wait_for(50);
    }
    wait_for_calls_at(&consumer, &load, &links);
    wait_until("all to be held", || (held(&consumer) == 3).then_some(()));

    // One of them leaves in order, though the registry has nothing to say about it.
    let [first, second, third] = agents;
    assert!(support::block_on(first.drain()).unwrap().complete);
    wait_until("its end", || (held(&consumer) == 2).then_some(()));
    load.wait_for(200);

    // The registry is back: what it lists is not held any more.
    let _registered = [&second, &third].map(|it| register_link(&hub, it.addresses().link.unwrap()));
    wait_until("the end of all", || (held(&consumer) == 0).then_some(()));
    load.wait_for(200);
    assert_eq!(load.stop(), Vec::<String>::new());
}

#[test]
fn providers_are_held_as_agents_are() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let registered = register(&hub, provider.addr);
    let consumer = consumer_with_metrics(&hub, "");
    let load = BackgroundLoad::start(&consumer, 4);
    load.wait_for(200);
    drop(registered);
    wait_until("it to be held", || (held(&consumer) == 1).then_some(()));
    load.wait_for(200);
    assert_eq!(load.stop(), Vec::<String>::new());

    // It says that it takes no more calls: it goes at once.
    provider.say_readonly();
    wait_until("its end", || (held(&consumer) == 0).then_some(()));
    let answer = call(&consumer, "echo", &[STRING], "[\"x\"]");
    assert_eq!((answer.status, &*answer.code()), (503, "no_endpoint"), "{answer:?}");
    assert!(answer.body.contains("has left registry"), "{answer:?}");
}

/// An agent in its app's place still answers when the app has gone: by saying that it has.
#[test]
fn who_says_that_the_app_is_away_is_not_held() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Away);
    let registered = register(&hub, provider.addr);
    let consumer = consumer_with_metrics(&hub, "");
    // One connection, for one worker: each holds for itself.
    let mut http = Http::to(&consumer);
    let mut one_call = || http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"x\"]");
    wait_until("its refusal", || (one_call().status == 502).then_some(()));
    drop(registered);
    wait_until("it to be held", || (held(&consumer) == 1).then_some(()));
    assert_eq!(one_call().status, 502);
    assert_eq!(held(&consumer), 0);
    let answer = one_call();
    assert_eq!((answer.status, &*answer.code()), (503, "no_endpoint"), "{answer:?}");
}

/// A connection that breaks ends it as well, although the provider would take a new one.
#[test]
fn what_is_down_is_not_held() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let registered = register(&hub, provider.addr);
    let consumer = consumer_with_metrics(&hub, "");
    let works = || call(&consumer, "echo", &[STRING], "[\"x\"]").status == 200;
    warm_up(&consumer);
    drop(registered);
    wait_until("it to be held", || (held(&consumer) == 1).then_some(()));
    provider.kill();
    wait_until("its end", || (held(&consumer) == 0).then_some(()));
    let _again = FakeProvider::start_at(provider.addr, Behaviour::Good);
    let end = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        assert!(!works());
    }
}

#[test]
fn holding_ends_in_time_and_can_be_switched_off() {
    for (keys, at_least) in [("hold_ms = 1000", 1000), ("hold_ms = 0", 0)] {
        let hub = MemoryHub::new();
        let provider = FakeProvider::start(Behaviour::Good);
        let registered = register(&hub, provider.addr);
        let consumer = consumer_with_metrics(&hub, &format!("[defaults]\n{keys}"));
        let works = || call(&consumer, "echo", &[STRING], "[\"x\"]").status == 200;
        warm_up(&consumer);
        let since = Instant::now();
        drop(registered);
        wait_until("the end", || (!works()).then_some(()));
        assert!(Duration::from_millis(at_least) <= since.elapsed(), "{:?}", since.elapsed());
        assert!(since.elapsed() < Duration::from_millis(at_least + 3000), "{:?}", since.elapsed());
        wait_until("the end at both workers", || (held(&consumer) == 0).then_some(()));
    }
}

/// The app behind an agent ends. Its agent refuses calls faster than any app answers them, but
/// tells the others at once, so that they offer it none.
#[test]
fn an_agent_without_its_app_is_offered_nothing() {
    let (elsewhere, hub) = (MemoryHub::new(), MemoryHub::new());
    let providers = [(); 2].map(|()| FakeProvider::start(Behaviour::Good));
    let agents = providers.each_ref().map(|it| provider_agent(&elsewhere, it.addr));
    let links = agents.each_ref().map(|agent| agent.addresses().link.unwrap());
    // Their registrations stay: nothing but the links can tell.
    let _registered = links.map(|link| register_link(&hub, link));
    let consumer = consumer_with_metrics(&hub, "");
    let load = BackgroundLoad::start(&consumer, 8);
    wait_for_calls_at(&consumer, &load, &links);

    let [gone, _] = &providers;
    gone.kill();
    load.wait_for(3000);
    let n_refused = n_calls(&consumer, links[0], "unreachable");
    assert!(n_refused <= 8, "{n_refused} calls were offered to an agent without an app");
    load.wait_for(1000);
    assert_eq!(n_calls(&consumer, links[0], "unreachable"), n_refused, "none since");
    let failures = load.stop();
    let is_broken = |failure: &String| failure.starts_with("502 ") && failure.contains("broken");
    assert!(failures.iter().all(is_broken) && failures.len() <= 8, "{failures:?}");

    // It is back, and so are the calls.
    let _again = FakeProvider::start_at(gone.addr, Behaviour::Good);
    let load = BackgroundLoad::start(&consumer, 4);
    wait_for_calls_at(&consumer, &load, &links);
    assert_eq!(load.stop(), Vec::<String>::new());
}

/// The app says that it is leaving: its agent withdraws it at once, and not when it has ended.
#[test]
fn an_app_that_leaves_in_order_is_withdrawn_at_once() {
    let hub = MemoryHub::new();
    let providers = [(); 2].map(|()| FakeProvider::start(Behaviour::Good));
    let agents = providers.each_ref().map(|it| provider_agent(&hub, it.addr));
    let links = agents.each_ref().map(|agent| agent.addresses().link.unwrap());
    let consumer = consumer_with_metrics(&hub, "");
    let load = BackgroundLoad::start(&consumer, 8);
    wait_for_calls_at(&consumer, &load, &links);
    providers[0].say_readonly();
    wait_until("the withdrawal", || (hub.urls().len() == 1).then_some(()));
    load.wait_for(500);
    assert_eq!(load.stop(), Vec::<String>::new());
    let n_refused = n_calls(&consumer, links[0], "unreachable");
    assert!(n_refused <= 8, "{n_refused}");
}

/// An agent that accepts every route and refuses every call, as those of older versions do without
/// their apps. Counts the calls.
fn agent_that_only_refuses() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, n_calls) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let counted = Arc::clone(&n_calls);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || {
                let config = link_proto::Config { features: 0, ..link_proto::Config::default() };
                let mut link = Connection::<()>::server(config, Instant::now());
                let (mut input, mut buffer) = (BytesMut::new(), vec![0; 1 << 16]);
                loop {
                    while let Some(event) = link.poll_event() {
                        match event {
                            Event::Defined { route, .. } => link.accept_route(route, 2),
                            Event::Request { id, .. } => {
                                counted.fetch_add(1, Ordering::SeqCst);
                                let status = Status::UPSTREAM_UNREACHABLE;
                                link.respond(id, Reply::error(status, "the app cannot be reached"));
                            }
                            _ => {}
                        }
                    }
                    if stream.write_all(&link.transmit().split()).is_err() {
                        return;
                    }
                    let Ok(len @ 1..) = stream.read(&mut buffer) else { return };
                    input.extend_from_slice(&buffer[..len]);
                    if link.handle_bytes(Instant::now(), &mut input).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (addr, n_calls)
}

/// Who only refuses is asked now and then, and not for every call.
#[test]
fn an_older_agent_without_its_app_is_asked_now_and_then() {
    for balance in balance::Policy::ALL {
        let hub = MemoryHub::new();
        let provider = FakeProvider::start(Behaviour::Good);
        let (refusing, n_offered) = agent_that_only_refuses();
        let _registered = (register(&hub, provider.addr), register_link(&hub, refusing));
        let keys = format!("[defaults]\nbalance = \"{balance}\"");
        let consumer = consumer_with_metrics(&hub, &keys);
        let load = BackgroundLoad::start(&consumer, 8);
        let since = Instant::now();
        load.wait_for(2000);
        assert_eq!(load.stop(), Vec::<String>::new(), "{balance}");
        // Per worker: calls that were under way together, and a trial per rest.
        let trials = usize::try_from(since.elapsed().as_millis() / 150).unwrap() + 1;
        let n_offered = n_offered.load(Ordering::SeqCst);
        assert!(
            n_offered <= 8 + 2 * trials,
            "{balance}: {n_offered} calls in {:?}",
            since.elapsed()
        );
    }
}
