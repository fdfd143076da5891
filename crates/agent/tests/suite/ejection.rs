//! Providers that fail, hang or are slow beside others that work: what their callers notice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::load::BackgroundLoad;
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, call, consumer_with_metrics, exporting, metric,
    n_calls, register, register_link, wait_until,
};
use agent::Agent;
use agent::inspect::snapshot::{Page, ServiceSnapshot};
use registry::MemoryHub;

/// Whoever is ejected stays so until the test is over.
const FOR_LONG: &str = "[defaults]\neject_ms = 600000\neject_max_ms = 600000\n";

/// Makes calls on several connections at a time and returns how many failed.
fn n_failed(agent: &Agent, n_callers: usize, n_calls: usize, timeout_ms: u32) -> usize {
    let n_failed = AtomicUsize::new(0);
    let timeout = format!("x-dubbo-timeout-ms: {timeout_ms}");
    std::thread::scope(|scope| {
        for _ in 0..n_callers {
            scope.spawn(|| {
                let mut http = Http::to(agent);
                for _ in 0..n_calls {
                    let answer =
                        http.post(&format!("/{SERVICE}/echo"), &[STRING, &timeout], "[\"a\"]");
                    n_failed.fetch_add(usize::from(answer.status != 200), Ordering::SeqCst);
                }
            });
        }
    });
    n_failed.into_inner()
}

fn n_ejected(agent: &Agent) -> u64 {
    metric(agent, &format!("dubmesh_endpoints_ejected{{service=\"{SERVICE}\"}}"))
}

fn n_ejections(agent: &Agent, reason: &str) -> u64 {
    let labels = format!("service=\"{SERVICE}\",reason=\"{reason}\"");
    metric(agent, &format!("dubmesh_endpoint_ejections_total{{{labels}}}"))
}

/// Two workers find out by themselves, with a few failures each. Before, two thirds of all calls
/// went to the one that answers fastest, by failing.
#[test]
fn one_that_fails_at_once_is_ejected() {
    let hub = MemoryHub::new();
    let providers = [Behaviour::Fails, Behaviour::Good, Behaviour::Good].map(FakeProvider::start);
    let _registered = providers.each_ref().map(|provider| register(&hub, provider.addr));
    let agent = consumer_with_metrics(&hub, FOR_LONG);
    // Failures within a millisecond count once, so that a fast caller sees some more.
    let n_first = n_failed(&agent, 4, 200, 5000);
    assert!((5..=80).contains(&n_first), "{n_first} of the first 800 calls failed");
    // A worker that has met few failures in a row asks it seldom, and ejects it when it fails
    // again.
    wait_until("it is ejected", || {
        assert!(n_failed(&agent, 4, 10, 5000) <= 10);
        (n_ejected(&agent) == 1).then_some(())
    });
    assert!(1 <= n_ejections(&agent, "failures") + n_ejections(&agent, "error-rate"));
    // It is connected, and not ready, once no worker has it.
    wait_until("no worker has it", || {
        n_failed(&agent, 4, 10, 5000);
        let mut http = Http::connect(agent.addresses().admin.unwrap());
        http.send("GET /services HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        let services: Page<ServiceSnapshot> = serde_json::from_str(&http.read().body).unwrap();
        (services.items[0].ready == 2).then_some(())
    });
    let connected = format!("dubmesh_endpoints{{service=\"{SERVICE}\",state=\"ready\"}}");
    assert_eq!(metric(&agent, &connected), 3);
}

/// One of three that answers faster than the others, by failing: of all calls after the first
/// second, how many in a hundred fail.
fn failed_percent(bad: Behaviour, keys: &str) -> f64 {
    let hub = MemoryHub::new();
    let providers = [bad, Behaviour::Slow, Behaviour::Slow].map(FakeProvider::start);
    let _registered = providers.each_ref().map(|provider| register(&hub, provider.addr));
    let agent = consumer_with_metrics(&hub, &format!("[defaults]\n{keys}\n"));
    let (load, started) = (BackgroundLoad::start(&agent, 8), Instant::now());
    while started.elapsed() < Duration::from_secs(1) {
        load.wait_for(1);
    }
    let (n_failed, n_ok) = (load.n_failed(), 300);
    load.wait_for(n_ok);
    let n_failed = load.n_failed() - n_failed;
    drop(load.stop());
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let percent = 100.0 * n_failed as f64 / (n_failed + n_ok) as f64;
    percent
}

#[test]
fn one_that_fails_at_once_costs_next_to_nothing_after_a_second() {
    let cases: Vec<_> = ["adaptive", "least-in-flight", "power-of-two"]
        .into_iter()
        .map(|balance| format!("balance = \"{balance}\""))
        .flat_map(|keys| {
            let exceptions = format!("{keys}\neject_exceptions = true");
            [(Behaviour::Fails, keys), (Behaviour::Throws, exceptions)]
        })
        .collect();
    std::thread::scope(|scope| {
        for (bad, keys) in &cases {
            scope.spawn(move || {
                let percent = failed_percent(*bad, keys);
                assert!(percent <= 1.0, "{bad:?}, {keys}: {percent:.1}% of the calls fail");
            });
        }
    });
}

#[test]
fn one_that_hangs_is_ejected() {
    let hub = MemoryHub::new();
    let providers = [Behaviour::Hang, Behaviour::Good, Behaviour::Good].map(FakeProvider::start);
    let _registered = providers.each_ref().map(|provider| register(&hub, provider.addr));
    let agent = consumer_with_metrics(&hub, FOR_LONG);
    let n_first = n_failed(&agent, 16, 100, 1000);
    assert!((1..=32).contains(&n_first), "{n_first} of the first 1600 calls failed");
    wait_until("it is ejected", || {
        assert!(n_failed(&agent, 16, 10, 1000) <= 6);
        (n_ejected(&agent) == 1).then_some(())
    });
}

/// What hangs is given up and made again elsewhere: nobody's call is lost, and nobody waits for
/// the timeout.
#[test]
fn calls_that_may_run_twice_leave_one_that_hangs() {
    let hub = MemoryHub::new();
    let providers = [Behaviour::Hang, Behaviour::Good, Behaviour::Good].map(FakeProvider::start);
    let _registered = providers.each_ref().map(|provider| register(&hub, provider.addr));
    let agent = consumer_with_metrics(&hub, &format!("{FOR_LONG}idempotent = [\"*\"]\n"));
    assert_eq!(n_failed(&agent, 32, 50, 60_000), 0);
    assert!(0 < providers[0].n_requests(), "none went to the one that hangs");
}

/// A provider whose process stands still gets no calls, long before it is ejected.
#[test]
fn one_that_pauses_is_avoided() {
    let hub = MemoryHub::new();
    let providers = [Behaviour::Jams, Behaviour::Good, Behaviour::Good].map(FakeProvider::start);
    let _registered = providers.each_ref().map(|provider| register(&hub, provider.addr));
    let never = "[defaults]\neject_failures = 0\neject_error_percent = 0\neject_silence_ms = 0\n\
                 long_bytes = 100000000\n";
    let agent = consumer_with_metrics(&hub, never);
    let long = format!("[\"{}\"]", "x".repeat(100_000));
    std::thread::scope(|scope| {
        // Some of them come to the one that they jam for as long as the test takes.
        for _ in 0..12 {
            scope.spawn(|| call(&agent, "echo", &[STRING], &long));
        }
        wait_until("the provider is jammed", || (providers[0].n_requests() != 0).then_some(()));
        let n_failed = n_failed(&agent, 8, 200, 500);
        assert!(n_failed <= 16, "{n_failed} of 1600 calls failed");
        providers[0].go_on();
    });
}

/// The links work, and only the agent before it can tell that the provider stands still.
#[test]
fn one_that_pauses_behind_its_agent_is_avoided() {
    let (near, far) = (MemoryHub::new(), MemoryHub::new());
    let providers = [Behaviour::Jams, Behaviour::Good, Behaviour::Good].map(FakeProvider::start);
    let short = "[defaults]\nlong_bytes = 100000000\n";
    let agents = providers.each_ref().map(|it| {
        let app = it.addr;
        exporting(&far, &format!("interface = \"{SERVICE}\"\napp = \"dubbo://{app}\"\n{short}"))
    });
    let links = agents.each_ref().map(|agent| agent.addresses().link.unwrap());
    let _registered = links.map(|link| register_link(&near, link));
    let never = "eject_failures = 0\neject_error_percent = 0\neject_silence_ms = 0\n";
    let turns = "balance = \"round-robin\"\n";
    let agent = consumer_with_metrics(&near, &format!("{short}{never}{turns}"));
    let long = format!("[\"{}\"]", "x".repeat(100_000));
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| call(&agent, "echo", &[STRING], &long));
        }
        wait_until("the provider is jammed", || (providers[0].n_requests() != 0).then_some(()));
        let n_first = n_failed(&agent, 8, 200, 500);
        assert!(n_first <= 16, "{n_first} of 1600 calls failed");
        let n_more = n_failed(&agent, 8, 100, 500);
        assert_eq!(n_more, 0, "it is known to pause");
        providers[0].go_on();
    });
    let before = n_calls(&agent, links[0], "ok");
    wait_until("calls at the one that goes on", || {
        assert_eq!(n_failed(&agent, 8, 10, 5000), 0);
        (before + 8 < n_calls(&agent, links[0], "ok")).then_some(())
    });
}

/// One call is too few to eject anybody. That its connection answers nothing says enough.
#[test]
fn a_single_call_leaves_one_that_stands_still() {
    let hub = MemoryHub::new();
    let providers = [Behaviour::Jams, Behaviour::Good].map(FakeProvider::start);
    let _registered = providers.each_ref().map(|provider| register(&hub, provider.addr));
    let keys = "[defaults]\nidempotent = [\"echo\"]\nlong_bytes = 100000000\n";
    let agent = consumer_with_metrics(&hub, keys);
    let long = format!("[\"{}\"]", "x".repeat(100_000));
    wait_until("a call comes to the one that it jams", || {
        let answer = call(&agent, "echo", &[STRING, "x-dubbo-timeout-ms: 60000"], &long);
        assert_eq!(answer.status, 200);
        (providers[0].n_requests() != 0).then_some(())
    });
    providers[0].go_on();
}

/// A call and the question for a sign of life get lost together, and then everything works. The
/// question is put again. Who never answers any gets a call as a trial.
#[test]
fn one_that_has_lost_a_call_and_a_heartbeat_is_soon_used_again() {
    let hub = MemoryHub::new();
    let behaviours = [Behaviour::Loses, Behaviour::LosesAndIsDeaf, Behaviour::Good];
    let providers = behaviours.map(FakeProvider::start);
    let _registered = providers.each_ref().map(|provider| register(&hub, provider.addr));
    let keys = "[defaults]\nbalance = \"round-robin\"\neject_max_percent = 0\n";
    let agent = consumer_with_metrics(&hub, keys);
    let addresses = [providers[0].addr, providers[1].addr].map(|it| it.to_string());
    let n_pausing = |page: &str| {
        let mut http = Http::connect(agent.addresses().admin.unwrap());
        http.send(format!("GET {page} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
        let body = http.read().body;
        assert!(addresses.iter().all(|address| body.contains(address)), "{body}");
        body.matches("it pauses: ").count()
    };
    let echo = || call(&agent, "echo", &[STRING, "x-dubbo-timeout-ms: 200"], "[\"a\"]").status;
    wait_until("both pause", || {
        let _ = echo();
        (n_pausing("/endpoints") == 2).then_some(())
    });
    assert_eq!(n_pausing(&format!("/explain?service={SERVICE}&method=echo")), 2);
    providers.iter().for_each(FakeProvider::go_on);
    for provider in &providers[..2] {
        let addr = provider.addr;
        wait_until("it answers", || {
            let _ = echo();
            (0 < n_calls(&agent, addr, "ok")).then_some(())
        });
    }
    wait_until("none pauses", || {
        assert_eq!(echo(), 200);
        (n_pausing("/endpoints") == 0).then_some(())
    });
}

/// The last one is never ejected: there is nobody else to ask.
#[test]
fn the_only_endpoint_is_asked_whatever_it_answers() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Fails);
    let _registered = register(&hub, provider.addr);
    let agent = consumer_with_metrics(&hub, FOR_LONG);
    assert_eq!(n_failed(&agent, 1, 50, 5000), 50);
    assert_eq!((provider.n_requests(), n_ejected(&agent)), (50, 0));
}

#[test]
fn one_that_works_again_is_used_again() {
    let hub = MemoryHub::new();
    let good = FakeProvider::start(Behaviour::Good);
    let broken = FakeProvider::start(Behaviour::Fails);
    let _registered = [&good, &broken].map(|provider| register(&hub, provider.addr));
    let agent = consumer_with_metrics(&hub, "[defaults]\neject_ms = 50\neject_max_ms = 200\n");
    let _ = n_failed(&agent, 2, 200, 5000);
    wait_until("it is ejected", || {
        let _ = n_failed(&agent, 2, 10, 5000);
        (n_ejected(&agent) == 1).then_some(())
    });
    let addr = broken.addr;
    drop(broken);
    // Its thread lets go of the port a moment later.
    drop(wait_until("the port is free", || std::net::TcpListener::bind(addr).ok()));
    let repaired = FakeProvider::start_at(addr, Behaviour::Good);
    wait_until("it is used again", || {
        let _ = n_failed(&agent, 2, 10, 5000);
        (50 <= repaired.n_requests() && n_ejected(&agent) == 0).then_some(())
    });
    assert_eq!(n_failed(&agent, 2, 50, 5000), 0);
}

#[test]
fn a_slow_one_gets_less() {
    let hub = MemoryHub::new();
    let providers = [Behaviour::Slow, Behaviour::Good, Behaviour::Good].map(FakeProvider::start);
    let _registered = providers.each_ref().map(|provider| register(&hub, provider.addr));
    let agent = consumer_with_metrics(&hub, "");
    assert_eq!(n_failed(&agent, 8, 200, 5000), 0);
    let n_slow = providers[0].n_requests();
    assert!((1..=160).contains(&n_slow), "{n_slow} of 1600 calls went to the slow one");
}
