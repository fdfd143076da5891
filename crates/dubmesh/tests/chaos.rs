//! What callers notice when etcd, providers and agents are killed, stopped, hung and started
//! again.
//!
//! Calls run all the while. Where a process is killed, a call that it was working on may fail with
//! 502, for nobody can know what became of it; nothing else may fail, and nothing at all where a
//! process leaves in order.

#[path = "interop/support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use interop_harness::{DubboVersion, Etcd, JavaProvider, ProviderOptions};
use support::{
    Agent, Cable, ConsumerAgent, HELLO, HelloLoad, HttpResponse, Layout, Offer, TYPES, java, post,
    wait_until,
};

/// The versions of two providers.
const VERSIONS: [DubboVersion; 2] = [DubboVersion::V2_7, DubboVersion::V3_3];
/// How many threads call at once.
const N_CALLERS: usize = 8;
/// As many calls as are sure to meet what has just changed.
const MANY: u64 = 200;
/// How long a provider works on a call.
const WORK: Duration = Duration::from_millis(5);
/// What becomes of a call whose provider is killed.
const BROKEN: &str = "502 connection_broken";

/// Starts both at once: a virtual machine takes its time.
fn both<T: Send>(start: impl Fn(usize) -> T + Sync) -> [T; 2] {
    thread::scope(|scope| {
        let start = &start;
        let second = scope.spawn(move || start(1));
        [start(0), second.join().unwrap()]
    })
}

/// Waits until calls go well at `endpoint` that did not before.
fn wait_for_calls_at(consumer: &Agent, endpoint: &str) {
    let before = consumer.n_calls(endpoint, "ok");
    wait_until(&format!("calls that go well at {endpoint}"), || {
        before + 20 < consumer.n_calls(endpoint, "ok")
    });
}

fn is_registered(etcd: &Etcd, port: u16) -> bool {
    let keys = etcd.keys("/").unwrap();
    keys.iter().any(|key| key.contains(&format!(":{port}")) || key.contains(&format!("%3A{port}")))
}

fn sleep(consumer: &Agent, millis: u32) -> HttpResponse {
    let types = ["x-dubbo-parameter-types: long"];
    post(consumer.http(), &format!("/{TYPES}/sleep"), &types, &format!("[{millis}]"))
}

#[test]
fn etcd_is_killed_and_comes_back() {
    let mut etcd = Etcd::start().unwrap();
    let [first, second] = both(|number| {
        java(DubboVersion::V2_7, (number == 0).then_some(&etcd), Duration::from_millis(1))
    });
    let consumer = ConsumerAgent { etcd: &etcd, layout: Layout::Dubbo, extra: "" }.start();
    let offer = |etcd: &Etcd, app: &JavaProvider| {
        let (layout, serialization) = (Layout::Dubbo, "hessian2");
        Offer { etcd, layout, app: app.url(), serialization }.start()
    };
    let agent = offer(&etcd, &first);
    let load = HelloLoad::start(consumer.http(), N_CALLERS);
    wait_for_calls_at(&consumer, &agent.link().to_string());

    etcd.kill9();
    consumer.wait_for_log(&["registry cannot be reached"]);
    load.wait_for(MANY);
    etcd.restart_keeping_data().unwrap();
    load.wait_for(MANY);
    let late = offer(&etcd, &second);
    wait_for_calls_at(&consumer, &late.link().to_string());

    // Its whole memory is lost: what is known stays, and the agents register again.
    etcd.kill9();
    load.wait_for(MANY);
    etcd.restart_empty().unwrap();
    for agent in [&agent, &late] {
        wait_until("its registration", || is_registered(&etcd, agent.link().port()));
    }
    load.wait_for(MANY);
    load.stop().assert_all_ok();
}

/// Only the providers' agents lose etcd, for longer than their leases live. Every process is alive
/// and every link is up, so nobody who calls notices anything.
#[test]
fn etcd_is_out_of_reach_of_the_providers_agents() {
    let etcd = Etcd::start().unwrap();
    let providers = both(|_| java(DubboVersion::V2_7, None, Duration::from_millis(1)));
    let layout = Layout::Contest;
    let consumer = ConsumerAgent { etcd: &etcd, layout, extra: "" }.start();
    let cable = Cable::to(etcd.addr());
    let agents = both(|number| {
        let app = providers[number].url();
        let config = Offer { etcd: &etcd, layout, app, serialization: "hessian2" }.config();
        let through_cable = config.replace(&etcd.client_url(), &format!("http://{}", cable.addr()));
        Agent::start("provider", &through_cable.replace("lease_ttl_s = 20", "lease_ttl_s = 4"))
    });
    let load = HelloLoad::start(consumer.http(), N_CALLERS);
    for agent in &agents {
        wait_for_calls_at(&consumer, &agent.link().to_string());
    }

    cable.cut();
    for agent in &agents {
        wait_until("the end of its lease", || !is_registered(&etcd, agent.link().port()));
    }
    consumer.wait_for_log(&["vanished from the registry but still answer"]);
    let held = |n: u8| {
        let sample = format!("dubmesh_endpoints_held{{service=\"{HELLO}\"}} {n}");
        consumer.metrics().lines().any(|line| line == sample)
    };
    wait_until("both to be held", || held(2));
    for agent in &agents {
        wait_for_calls_at(&consumer, &agent.link().to_string());
    }
    load.wait_for(MANY);

    cable.mend();
    for agent in &agents {
        wait_until("its registration", || is_registered(&etcd, agent.link().port()));
    }
    consumer.wait_for_log(&["no endpoint is held any more"]);
    for agent in &agents {
        wait_for_calls_at(&consumer, &agent.link().to_string());
    }
    let summary = load.stop();
    println!("{summary:?}");
    summary.assert_all_ok();
}

#[test]
fn java_providers_are_killed_stopped_and_hung() {
    let etcd = Etcd::start().unwrap();
    let mut providers = both(|number| java(VERSIONS[number], Some(&etcd), WORK));
    let places = [providers[0].addr(), providers[1].addr()];
    come_and_go(&etcd, Layout::Dubbo, &mut providers, places);
}

#[test]
fn java_providers_behind_agents_are_killed_stopped_and_hung() {
    let etcd = Etcd::start().unwrap();
    let mut providers = both(|number| java(VERSIONS[number], None, WORK));
    let agents = both(|number| {
        let (layout, app) = (Layout::Contest, providers[number].url());
        Offer { etcd: &etcd, layout, app, serialization: "hessian2" }.start()
    });
    let places = [agents[0].link(), agents[1].link()];
    come_and_go(&etcd, Layout::Contest, &mut providers, places);
}

/// Has each provider (2.7, then 3.3) go in every way while the other one stays. `places` is where
/// callers find them.
fn come_and_go(
    etcd: &Etcd,
    layout: Layout,
    providers: &mut [JavaProvider; 2],
    places: [SocketAddr; 2],
) {
    let consumer = &ConsumerAgent { etcd, layout, extra: "" }.start();
    let warm_up = HelloLoad::start(consumer.http(), N_CALLERS);
    for place in places {
        wait_for_calls_at(consumer, &place.to_string());
    }
    // A cold virtual machine may take long over its first calls, but it answers them.
    warm_up.stop().assert_all_ok();
    let _shown = Shown(etcd);
    for (provider, place) in providers.iter_mut().zip(places) {
        println!("the provider at {place} comes and goes");
        // Dubbo 3.3 does not register again when it has lost its lease while it hung.
        if layout == Layout::Contest || place == places[0] {
            hang(consumer, provider, place);
        }
        kill(etcd, consumer, provider, place);
        stop(etcd, consumer, provider, place);
    }
}

/// Shows what is registered at the end of a test that fails.
struct Shown<'a>(&'a Etcd);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("registered at the end: {:#?}", self.0.keys("/"));
        }
    }
}

/// Calls at a provider that hangs time out; others go on, and so do all when it goes on.
fn hang(consumer: &Agent, provider: &mut JavaProvider, place: SocketAddr) {
    let address = place.to_string();
    let load = HelloLoad::start_with(consumer.http(), N_CALLERS, &["x-dubbo-timeout-ms: 1000"]);
    load.wait_for(MANY);
    let before = consumer.n_calls(&address, "timeout");
    provider.suspend();
    wait_until("a timeout", || before < consumer.n_calls(&address, "timeout"));
    load.wait_for(MANY);
    provider.resume();
    load.stop().assert_only(&["504 timeout"]);
    let load = HelloLoad::start(consumer.http(), N_CALLERS);
    wait_for_calls_at(consumer, &address);
    load.stop().assert_all_ok();
}

/// Calls go to the other one, its entry ends in time, and it is used again when it is back.
fn kill(etcd: &Etcd, consumer: &Agent, provider: &mut JavaProvider, place: SocketAddr) {
    let load = HelloLoad::start(consumer.http(), N_CALLERS);
    wait_for_calls_at(consumer, &place.to_string());
    provider.kill9();
    load.wait_for(MANY);
    load.stop().assert_only(&[BROKEN]);

    let load = HelloLoad::start(consumer.http(), N_CALLERS);
    wait_until("the end of its entry", || !is_registered(etcd, place.port()));
    load.wait_for(MANY);
    provider.restart().unwrap();
    wait_for_calls_at(consumer, &place.to_string());
    load.stop().assert_all_ok_after_a_start();
}

/// Nobody notices a provider that leaves in order.
fn stop(etcd: &Etcd, consumer: &Agent, provider: &mut JavaProvider, place: SocketAddr) {
    let load = HelloLoad::start(consumer.http(), N_CALLERS);
    wait_for_calls_at(consumer, &place.to_string());
    provider.stop_gracefully().unwrap();
    wait_until("the end of its entry", || !is_registered(etcd, place.port()));
    load.wait_for(MANY);
    provider.restart().unwrap();
    wait_for_calls_at(consumer, &place.to_string());
    load.stop().assert_all_ok_after_a_start();
}

#[test]
fn agents_are_stopped_killed_and_reloaded() {
    let etcd = Etcd::start().unwrap();
    let providers = both(|_| java(DubboVersion::V2_7, None, WORK));
    let layout = Layout::Contest;
    let settings = ConsumerAgent { etcd: &etcd, layout, extra: "" }.config();
    let mut consumer = Agent::start("consumer", &settings);
    let mut agents = both(|number| {
        let app = providers[number].url();
        Offer { etcd: &etcd, layout, app, serialization: "hessian2" }.start()
    });
    let load = HelloLoad::start(consumer.http(), N_CALLERS);
    for agent in &agents {
        wait_for_calls_at(&consumer, &agent.link().to_string());
    }
    load.stop().assert_all_ok();

    let [agent, _] = &mut agents;
    drain(&etcd, &consumer, agent);
    let address = agent.link().to_string();

    let load = HelloLoad::start(consumer.http(), N_CALLERS);
    wait_for_calls_at(&consumer, &address);
    agent.kill9();
    load.wait_for(MANY);
    load.stop().assert_only(&[BROKEN]);
    let load = HelloLoad::start(consumer.http(), N_CALLERS);
    agent.restart();
    wait_for_calls_at(&consumer, &address);
    load.stop().assert_all_ok();

    consumer.kill9();
    consumer.restart();
    let load = HelloLoad::start(consumer.http(), N_CALLERS);
    wait_for_calls_at(&consumer, &address);
    reload(&consumer, &settings, &load);
    load.stop().assert_all_ok();
}

/// An agent that is asked to end withdraws its registration first, then answers what it has begun.
fn drain(etcd: &Etcd, consumer: &Agent, agent: &mut Agent) {
    let port = agent.link().port();
    let load = HelloLoad::start(consumer.http(), N_CALLERS);
    thread::scope(|scope| {
        let long: Vec<_> = (0..4).map(|_| scope.spawn(|| sleep(consumer, 3000))).collect();
        let in_flight = format!("dubmesh_export_in_flight{{service=\"{TYPES}\"}} ");
        wait_until("a long call", || {
            let metrics = agent.metrics();
            metrics.lines().any(|line| line.starts_with(&in_flight) && !line.ends_with(" 0"))
        });
        agent.terminate();
        wait_until("the end of its registration", || !is_registered(etcd, port));
        assert!(agent.is_running(), "{}", agent.tail());
        for call in long {
            let answer = call.join().unwrap();
            assert_eq!((answer.status, &*answer.body), (200, "3000"));
        }
    });
    let status = agent.wait();
    assert_eq!(status.code(), Some(0), "{status} {}", agent.tail());
    load.wait_for(MANY);
    agent.restart();
    wait_for_calls_at(consumer, &agent.link().to_string());
    load.stop().assert_all_ok();
}

/// SIGHUP takes over what can be, and a file with a mistake changes nothing.
fn reload(consumer: &Agent, settings: &str, load: &HelloLoad) {
    let changed = settings.replace("[defaults]", "[defaults]\nbalance = \"round-robin\"");
    consumer.reload(&changed);
    consumer.wait_for_log(&["\"message\":\"reloaded\"", "defaults"]);
    load.wait_for(MANY);
    consumer.reload(&format!("{changed}\nnonsense = 1\n"));
    consumer.wait_for_log(&["configuration refused", "nonsense"]);
    consumer.wait_for_log(&["nothing was changed"]);
    load.wait_for(MANY);
}

#[test]
fn a_full_thread_pool_refuses() {
    let etcd = Etcd::start().unwrap();
    let providers = both(|number| {
        let options = ProviderOptions { threads: 2, ..ProviderOptions::default() };
        JavaProvider::start(VERSIONS[number], options).unwrap()
    });
    for provider in &providers {
        let layout = Layout::Contest;
        let consumer = ConsumerAgent { etcd: &etcd, layout, extra: "" }.start();
        let mut agent =
            Offer { etcd: &etcd, layout, app: provider.url(), serialization: "hessian2" }.start();
        wait_until("a first answer", || sleep(&consumer, 1).status == 200);
        let answers: Vec<HttpResponse> = thread::scope(|scope| {
            let calls: Vec<_> = (0..20).map(|_| scope.spawn(|| sleep(&consumer, 500))).collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        let n_ok = answers.iter().filter(|answer| answer.status == 200).count();
        let n_with = |code| {
            answers.iter().filter(|answer| (answer.status, &*answer.code()) == (503, code)).count()
        };
        // The pool refuses what comes before its size is found out; the agent what comes after.
        let (n_refused, n_shed) = (n_with("thread_pool_exhausted"), n_with("overloaded"));
        assert!(0 < n_ok && 0 < n_refused && n_ok + n_refused + n_shed == 20, "{answers:#?}");
        // Its threads are free again.
        assert_eq!(sleep(&consumer, 1).status, 200);
        agent.terminate();
        assert_eq!(agent.wait().code(), Some(0), "{}", agent.tail());
        wait_until("its withdrawal", || !is_registered(&etcd, agent.link().port()));
    }
}
