//! How calls are spread over endpoints where a method says so, and what stands for a failure.

use std::time::Instant;

use crate::support;
use crate::support::dubbo::DubboConsumer;
use crate::support::{
    Behaviour, FakeProvider, Http, HttpResponse, PATIENCE, Registered, SERVICE, STRING,
    consumer_with_metrics, dubbo_consumer, free_addr, metric, n_calls, register, register_with,
    reload, wait_until,
};
use agent::Agent;
use agent::inspect::snapshot::{EndpointSnapshot, Page, ServiceSnapshot};
use dubbo_proto::{ReplyKind, Status};
use registry::MemoryHub;

/// Nobody is left out because of how calls ended.
const BASE: &str = "[defaults]\nbalance = \"round-robin\"\neject_max_percent = 0\n\
                    idempotent = [\"echo\"]\n";

type RegisteredProviders<const N: usize> = ([FakeProvider; N], [Registered; N]);

fn registered_providers<const N: usize>(
    hub: &MemoryHub,
    behaviours: [Behaviour; N],
) -> RegisteredProviders<N> {
    let providers = behaviours.map(FakeProvider::start);
    let registered = providers.each_ref().map(|it| register(hub, it.addr));
    (providers, registered)
}

fn agent(hub: &MemoryHub, keys: &str) -> Agent {
    consumer_with_metrics(hub, &format!("{BASE}[[defaults.method]]\nnames = [\"echo\"]\n{keys}"))
}

fn echo_within(agent: &Agent, ms: u32) -> HttpResponse {
    let timeout = format!("x-dubbo-timeout-ms: {ms}");
    Http::to(agent).post(&format!("/{SERVICE}/echo"), &[STRING, &timeout], "[\"a\"]")
}

fn echo(agent: &Agent) -> HttpResponse {
    echo_within(agent, 5000)
}

fn n_events(agent: &Agent, event: &str) -> u64 {
    let labels = format!("service=\"{SERVICE}\",event=\"{event}\"");
    metric(agent, &format!("dubmesh_upstream_method_events_total{{{labels}}}"))
}

fn page(agent: &Agent, path: &str) -> String {
    let mut http = Http::connect(agent.addresses().admin.unwrap());
    http.send(format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
    http.read().body
}

fn no_call_is_left(agent: &Agent, provider: &FakeProvider) {
    let labels = format!("service=\"{SERVICE}\",endpoint=\"{}\"", provider.addr);
    wait_until("all calls have ended", || {
        (metric(agent, &format!("dubmesh_upstream_in_flight{{{labels}}}")) == 0).then_some(())
    });
}

#[test]
fn failfast_asks_nobody_else() {
    let hub = MemoryHub::new();
    let (providers, _registered) = registered_providers(&hub, [Behaviour::Busy, Behaviour::Good]);
    let failover = agent(&hub, "cluster = \"failover\"\n");
    let failfast = agent(&hub, "cluster = \"failfast\"\n");
    wait_until("one that is full refuses", || (echo(&failfast).status == 503).then_some(()));
    let n_refused = n_calls(&failfast, providers[0].addr, "thread_pool_exhausted");
    assert!(1 <= n_refused);
    wait_until("the other one is asked", || {
        assert_eq!(echo(&failover).status, 200);
        (1 <= n_calls(&failover, providers[0].addr, "thread_pool_exhausted")).then_some(())
    });
}

#[test]
fn failsafe_answers_null_but_tells_the_caller_his_own_mistakes() {
    let hub = MemoryHub::new();
    let (_providers, _registered) = registered_providers(&hub, [Behaviour::Fails]);
    let agent = agent(&hub, "cluster = \"failsafe\"\n");
    let answer = echo(&agent);
    assert_eq!((answer.status, &*answer.body), (200, "null"));
    assert_eq!(n_events(&agent, "failed_safe"), 1);
    let wrong = Http::to(&agent).post(
        &format!("/{SERVICE}/echo"),
        &["x-dubbo-parameter-types: int"],
        "[\"a\"]",
    );
    assert_eq!(wrong.code(), "bad_arguments");
}

#[test]
fn failback_makes_the_call_again_until_it_is_lost() {
    let hub = MemoryHub::new();
    let (providers, registered) = registered_providers(&hub, [Behaviour::Fails]);
    let later = agent(&hub, "cluster = \"failback\"\nfailback_delay_ms = 20\n");
    let soon = agent(&hub, "cluster = \"failback\"\nfailback_delay_ms = 5\nfailback_ms = 20\n");
    for agent in [&later, &soon] {
        assert_eq!(&*echo(agent).body, "null");
        assert_eq!(n_events(agent, "failback_queued"), 1);
    }
    wait_until("it is lost", || (n_events(&soon, "failback_lost") == 1).then_some(()));
    let [broken] = providers;
    let addr = broken.addr;
    drop(broken);
    drop(wait_until("the port is free", || std::net::TcpListener::bind(addr).ok()));
    let repaired = FakeProvider::start_at(addr, Behaviour::Good);
    wait_until("it is made again", || (n_events(&later, "failback_done") == 1).then_some(()));
    assert_eq!(repaired.n_requests(), 1);
    drop(registered);
}

#[test]
fn forking_takes_the_first_answer_and_cancels_the_others() {
    let hub = MemoryHub::new();
    let (providers, _registered) =
        registered_providers(&hub, [Behaviour::Hang, Behaviour::Fails, Behaviour::Good]);
    let agent = agent(&hub, "cluster = \"forking\"\nforks = 3\n");
    for n in 1..=10 {
        assert_eq!(echo(&agent).status, 200);
        wait_until("the one that hangs has got it", || {
            (n <= providers[0].n_requests()).then_some(())
        });
    }
    no_call_is_left(&agent, &providers[0]);
    assert_eq!(n_calls(&agent, providers[0].addr, "cancelled"), 10);
    assert_eq!(providers[2].n_requests(), 10);
}

#[test]
fn broadcast_reaches_all_and_fails_if_one_does() {
    let hub = MemoryHub::new();
    let (providers, _registered) = registered_providers(&hub, [Behaviour::Good; 3]);
    let agent = agent(&hub, "cluster = \"broadcast\"\n");
    wait_until("all are connected", || (echo(&agent).status == 200).then_some(()));
    let before = providers.each_ref().map(FakeProvider::n_requests);
    assert_eq!(&*echo(&agent).body, "\"a\"");
    assert_eq!(providers.each_ref().map(FakeProvider::n_requests), before.map(|n| n + 1));
    let broken = FakeProvider::start(Behaviour::Fails);
    let _more = register(&hub, broken.addr);
    let answer = wait_until("one fails", || {
        let answer = echo(&agent);
        (answer.status != 200 && 1 <= broken.n_requests()).then_some(answer)
    });
    assert!(answer.body.contains(&broken.addr.to_string()), "{}", answer.body);
}

/// What a method throws counts, whichever endpoint answers last.
#[test]
fn broadcast_tells_what_one_method_throws() {
    for slow in [Behaviour::Good, Behaviour::Slow] {
        let hub = MemoryHub::new();
        let behaviours = [Behaviour::Throws, Behaviour::Good, slow];
        let (providers, _registered) = registered_providers(&hub, behaviours);
        let keys = "cluster = \"broadcast\"\n";
        let agent = agent(&hub, keys);
        let n_had = || providers.each_ref().map(FakeProvider::n_requests);
        let had_all = |before: [usize; 3]| n_had() == before.map(|n| n + 1);
        let answer = wait_until("a call that all have had", || {
            let before = n_had();
            let answer = echo(&agent);
            had_all(before).then_some(answer)
        });
        assert_eq!(answer.code(), "exception", "{answer:?}");
        assert!(answer.body.contains("com.acme.Oops"), "{answer:?}");

        let dubbo = dubbo_consumer(&hub, &format!("{BASE}[[defaults.method]]\n{keys}"));
        let mut consumer = DubboConsumer::to(&dubbo);
        let answer = wait_until("a request that all have had", || {
            let before = n_had();
            let answer = consumer.call("echo", "a", &[]);
            had_all(before).then_some(answer)
        });
        let kind = ReplyKind::of(answer.serialization, &answer.body);
        assert_eq!((answer.status, kind), (Status::Ok, Some(ReplyKind::Exception)));
    }
}

#[test]
fn a_broadcast_that_reaches_nobody_is_counted_and_says_why() {
    let hub = MemoryHub::new();
    let closed = [free_addr(), free_addr()];
    let _registered = closed.map(|addr| register(&hub, addr));
    let method = "[[defaults.method]]\nnames = [\"echo\"]\ncluster = \"broadcast\"\n";
    let agent = consumer_with_metrics(&hub, &format!("{BASE}{method}"));
    let mut n_calls = 0;
    let answer = wait_until("nothing is begun", || {
        let answer = echo(&agent);
        let is_unbegun = answer.code() == "no_endpoint";
        n_calls += u64::from(is_unbegun);
        is_unbegun.then_some(answer)
    });
    assert!(answer.body.contains("refused"), "{}", answer.body);
    let labels = format!("service=\"{SERVICE}\",endpoint=\"none\",code=\"no_endpoint\"");
    assert_eq!(metric(&agent, &format!("dubmesh_upstream_calls_total{{{labels}}}")), n_calls);
}

#[test]
fn broadcast_waits_where_an_endpoint_is_full() {
    let hub = MemoryHub::new();
    let (providers, _registered) = registered_providers(&hub, [Behaviour::Hang, Behaviour::Good]);
    let method = "[[defaults.method]]\nnames = [\"echo\"]\ncluster = \"broadcast\"\n";
    let agent = consumer_with_metrics(&hub, &format!("{BASE}endpoint_capacity = 1\n{method}"));
    let n_had = || providers.each_ref().map(FakeProvider::n_requests);
    let mut http = Http::to(&agent);
    let headers = [STRING, "x-dubbo-timeout-ms: 30000"];
    http.send(support::request(&format!("/{SERVICE}/echo"), &headers, "[\"a\"]"));
    wait_until("both have it", || (n_had() == [1, 1]).then_some(()));
    assert_ne!(echo_within(&agent, 200).status, 200);
    assert_eq!(n_had(), [1, 2], "one of them has no room");
}

/// "retryable" invites to make the call again: not where an endpoint may have carried it out.
#[test]
fn what_an_endpoint_may_have_carried_out_is_not_called_unbegun() {
    for (mode, behaviours) in [
        ("broadcast", [Behaviour::Good, Behaviour::Busy]),
        ("forking", [Behaviour::Fails, Behaviour::Busy]),
        ("failover", [Behaviour::Fails, Behaviour::Busy]),
    ] {
        let hub = MemoryHub::new();
        let (providers, _registered) = registered_providers(&hub, behaviours);
        let keys = format!("{BASE}[[defaults.method]]\nnames = [\"echo\"]\ncluster = \"{mode}\"\n");
        let had_both = |before: [usize; 2]| {
            providers.each_ref().map(FakeProvider::n_requests) == before.map(|n| n + 1)
        };
        let n_had = || providers.each_ref().map(FakeProvider::n_requests);
        let agent = consumer_with_metrics(&hub, &keys);
        let answer = wait_until("a call that both have had", || {
            let before = n_had();
            let answer = echo(&agent);
            had_both(before).then_some(answer)
        });
        assert!(answer.body.contains("\"retryable\":false"), "{mode}: {answer:?}");
        assert_eq!((answer.status, &*answer.code()), (502, "provider_error"), "{mode}");
        assert!(!answer.head.contains("retry-after"), "{mode}: {answer:?}");
        let agent = dubbo_consumer(&hub, &keys);
        let mut consumer = DubboConsumer::to(&agent);
        let status = wait_until("a request that both have had", || {
            let before = n_had();
            let answer = consumer.call("echo", "a", &[]);
            had_both(before).then_some(answer.status)
        });
        assert_ne!(status, Status::ServerThreadpoolExhausted, "{mode}");
    }
}

#[test]
fn hedging_asks_another_one_when_the_first_is_slow() {
    let hub = MemoryHub::new();
    let (providers, _registered) = registered_providers(&hub, [Behaviour::Hang, Behaviour::Good]);
    let agent = agent(&hub, "cluster = \"hedging\"\nhedge_after_ms = 10\n");
    wait_until("the one that hangs is asked", || {
        assert_eq!(echo_within(&agent, 20_000).status, 200);
        (3 <= providers[0].n_requests()).then_some(())
    });
    let n_hedged = n_events(&agent, "hedged");
    assert!(3 <= n_hedged && n_events(&agent, "hedge_won") <= n_hedged);
    no_call_is_left(&agent, &providers[0]);
    // A deadline that comes before the delay.
    let agent = self::agent(&hub, "cluster = \"hedging\"\nhedge_after_ms = 60000\n");
    wait_until("it hangs", || (echo_within(&agent, 50).status == 504).then_some(()));
    assert_eq!(n_events(&agent, "hedged"), 0);
}

#[test]
fn hedging_keeps_to_the_budget_and_to_endpoints_that_are_there() {
    let hub = MemoryHub::new();
    let (providers, _registered) = registered_providers(&hub, [Behaviour::Hang]);
    let keys = "cluster = \"hedging\"\nhedge_after_ms = 5\n";
    let alone = agent(&hub, keys);
    assert_eq!(echo_within(&alone, 100).status, 504);
    assert_eq!((n_events(&alone, "hedged"), providers[0].n_requests()), (0, 1));
    let good = FakeProvider::start(Behaviour::Good);
    let _more = register(&hub, good.addr);
    let poor = format!("{BASE}retry_budget_percent = 0\n[[defaults.method]]\n{keys}")
        .replace("[[defaults.method]]", "[[defaults.method]]\nnames = [\"echo\"]");
    let poor = consumer_with_metrics(&hub, &poor);
    wait_until("nobody else is asked", || (echo_within(&poor, 50).status == 504).then_some(()));
    assert_eq!(n_events(&poor, "hedged"), 0);
    let once = format!("{BASE}max_attempts = 1\n[[defaults.method]]\nnames = [\"echo\"]\n{keys}");
    let once = consumer_with_metrics(&hub, &once);
    wait_until("one alone is asked", || (echo_within(&once, 50).status == 504).then_some(()));
    assert_eq!(n_events(&once, "hedged"), 0);
}

/// The caller goes away while two endpoints have its call.
#[test]
fn a_caller_that_goes_away_gives_all_attempts_up() {
    let hub = MemoryHub::new();
    let (providers, _registered) = registered_providers(&hub, [Behaviour::Hang; 2]);
    let agent = agent(&hub, "cluster = \"forking\"\n");
    let mut http = Http::to(&agent);
    let headers = [STRING, "x-dubbo-timeout-ms: 30000"];
    http.send(support::request(&format!("/{SERVICE}/echo"), &headers, "[\"a\"]"));
    wait_until("both have it", || providers.iter().all(|it| it.n_requests() == 1).then_some(()));
    drop(http);
    providers.iter().for_each(|provider| no_call_is_left(&agent, provider));
}

#[test]
fn mocks_stand_for_failures_or_for_calls() {
    let hub = MemoryHub::new();
    let (providers, _registered) = registered_providers(&hub, [Behaviour::Fails]);
    let value = r#"{"id":7,"names":["a","b"],"rate":1.5,"none":null}"#;
    let fail = agent(&hub, &format!("mock = 'fail:return {value}'\n"));
    let answer = echo(&fail);
    assert_eq!((answer.status, &*answer.body), (200, value));
    assert_eq!((providers[0].n_requests(), n_events(&fail, "mocked")), (1, 1));
    let force = agent(&hub, "mock = 'force:return closed'\n");
    assert_eq!(&*echo(&force).body, "\"closed\"");
    assert_eq!(providers[0].n_requests(), 1, "nobody was asked");
    assert!(page(&force, "/routes").contains("mock instead of each call"));
}

#[test]
fn dubbo_consumers_get_mocks_and_nulls() {
    let hub = MemoryHub::new();
    let (_providers, _registered) = registered_providers(&hub, [Behaviour::Fails]);
    let keys = format!(
        "{BASE}[[defaults.method]]\nnames = [\"echo\"]\nmock = 'return \"closed\"'\n\
         [[defaults.method]]\nnames = [\"nothing\"]\ncluster = \"failsafe\"\n"
    );
    let agent = dubbo_consumer(&hub, &keys);
    let mut consumer = DubboConsumer::to(&agent);
    let answer = consumer.call("echo", "a", &[]);
    assert_eq!((answer.status, answer.value()), (Status::Ok, &b"\x06closed"[..]));
    let answer = consumer.call("nothing", "a", &[]);
    assert_eq!((answer.status, &*answer.body), (Status::Ok, &b"\x92"[..]));
    assert_ne!(consumer.call("other", "a", &[]).status, Status::Ok);
}

#[test]
fn faults_are_injected_and_shown() {
    let hub = MemoryHub::new();
    let (providers, _registered) = registered_providers(&hub, [Behaviour::Good]);
    let aborting = agent(&hub, "fault_abort_percent = 100\n");
    let answer = echo(&aborting);
    assert_eq!((answer.status, answer.code()), (503, "fault_injected".to_owned()));
    assert_eq!((providers[0].n_requests(), n_events(&aborting, "abort_injected")), (0, 1));
    assert!(page(&aborting, "/routes").contains("FAULTS ARE INJECTED: 100 % fail"));
    assert!(page(&aborting, "/config").contains("injects faults into calls"));
    let slow = agent(&hub, "fault_delay_ms = 50\n");
    let started = Instant::now();
    assert_eq!(echo(&slow).status, 200);
    assert!(started.elapsed().as_millis() >= 50 && started.elapsed() < PATIENCE);
    // The delay is nobody's latency, whether the provider was quick or not.
    let call_ms = started.elapsed().as_secs_f64() * 1e3;
    let endpoints: Page<EndpointSnapshot> =
        serde_json::from_str(&page(&slow, "/endpoints")).unwrap();
    let calls = &endpoints.items[0].calls;
    let took_ms = [calls.ok_total_ms, calls.average_ms].map(|ms| ms.unwrap());
    assert!(took_ms.iter().all(|ms| ms + 50.0 <= call_ms + 1.0), "{took_ms:?} of {call_ms}");
    let services: Page<ServiceSnapshot> = serde_json::from_str(&page(&slow, "/services")).unwrap();
    assert_eq!(services.items[0].method_events["delay_injected"], 1);
    // The caller is told in time, whatever the delay.
    let slower = agent(&hub, "fault_delay_ms = 60000\n");
    assert_eq!(echo_within(&slower, 50).status, 504);
    assert_eq!(providers[0].n_requests(), 1);
    // What stands for failures stands for these, too.
    let mocked = agent(&hub, "fault_abort_percent = 100\nmock = 'return 7'\n");
    assert_eq!(&*echo(&mocked).body, "7");
}

/// What providers register holds for methods of which the configuration says nothing.
#[test]
fn the_mode_that_providers_register_is_honoured() {
    let hub = MemoryHub::new();
    let providers = [Behaviour::Busy, Behaviour::Good].map(FakeProvider::start);
    let params = [("cluster", "failfast")];
    let _registered = providers.each_ref().map(|it| register_with(&hub, it.addr, &params));
    let own = agent(&hub, "cluster = \"failover\"\n");
    let none = consumer_with_metrics(&hub, BASE);
    wait_until("one that is full refuses", || (echo(&none).status == 503).then_some(()));
    wait_until("the other one is asked", || {
        assert_eq!(echo(&own).status, 200);
        (1 <= n_calls(&own, providers[0].addr, "thread_pool_exhausted")).then_some(())
    });
    assert!(page(&none, "/routes").contains("cluster: failfast"));
}

/// More calls fail than may wait: the rest is lost, and that is counted.
#[test]
fn failback_keeps_no_more_than_its_limit() {
    let hub = MemoryHub::new();
    let (_providers, _registered) = registered_providers(&hub, [Behaviour::Fails]);
    let keys = "cluster = \"failback\"\nfailback_delay_ms = 60000\n";
    let agent = agent(&hub, keys);
    // One connection is of one worker. The first call waits in its task, and no longer in the
    // queue.
    let mut http = Http::to(&agent);
    for _ in 0..1100 {
        let answer = http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]");
        assert_eq!(&*answer.body, "null");
    }
    let (n_queued, n_lost) =
        (n_events(&agent, "failback_queued"), n_events(&agent, "failback_lost"));
    assert!((1024..=1025).contains(&n_queued), "{n_queued}");
    assert_eq!(n_queued + n_lost, 1100);
}

/// Calls that are under way end by the rules that they began by; new ones go by the new rules.
#[test]
fn a_reload_changes_modes_while_calls_are_under_way() {
    let hub = MemoryHub::new();
    let (providers, _registered) = registered_providers(&hub, [Behaviour::Hang]);
    let agent = agent(&hub, "cluster = \"hedging\"\nhedge_after_ms = 200\n");
    let mut http = Http::to(&agent);
    let headers = [STRING, "x-dubbo-timeout-ms: 30000"];
    http.send(support::request(&format!("/{SERVICE}/echo"), &headers, "[\"a\"]"));
    wait_until("a call hangs", || (providers[0].n_requests() == 1).then_some(()));
    let good = FakeProvider::start(Behaviour::Good);
    let _more = register(&hub, good.addr);
    reload(&agent, &hub, &format!("{BASE}[[defaults.method]]\nmock = \"force:return 7\"\n"));
    wait_until("new calls are mocked", || (&*echo(&agent).body == "7").then_some(()));
    drop(providers);
    assert_eq!(&*http.read().body, "\"a\"", "the old one goes to the other endpoint");
}

/// Providers of two versions, both good or as told: those of the second one get copies.
fn two_versions(hub: &MemoryHub, second: Behaviour) -> ([FakeProvider; 2], [Registered; 2]) {
    let providers = [Behaviour::Good, second].map(FakeProvider::start);
    let of_second = format!("{SERVICE}:2.0");
    let registered = [
        register(hub, providers[0].addr),
        support::register_service(hub, &of_second, providers[1].addr),
    ];
    (providers, registered)
}

#[test]
fn a_copy_goes_to_another_version_marked_and_unnoticed() {
    let hub = MemoryHub::new();
    let (providers, _registered) = two_versions(&hub, Behaviour::Good);
    let agent = agent(&hub, "mirror_percent = 100\nmirror_version = \"2.0\"\n");
    assert_eq!((echo(&agent).status, &*echo(&agent).body), (200, "\"a\""));
    wait_until("copies are answered", || (n_events(&agent, "mirror_answered") == 2).then_some(()));
    assert_eq!(providers.each_ref().map(FakeProvider::n_requests), [2, 2]);
    assert_eq!((n_events(&agent, "mirrored"), n_events(&agent, "mirror_dropped")), (2, 0));
    // The copy of another agent's copy is not made.
    let marked = [STRING, "x-dubbo-attachment-dubmesh.mirror: true"];
    let answer = Http::to(&agent).post(&format!("/{SERVICE}/echo"), &marked, "[\"a\"]");
    assert_eq!((answer.status, n_events(&agent, "mirrored")), (200, 2));
    assert!(page(&agent, "/routes").contains("100% of the calls are copied to version 2.0"));
    reload(&agent, &hub, &format!("{BASE}[[defaults.method]]\nrate_limit = 1000\n"));
    wait_until("no more copies are made", || {
        let before = n_events(&agent, "mirrored");
        assert_eq!(echo(&agent).status, 200);
        (n_events(&agent, "mirrored") == before).then_some(())
    });
}

/// Whatever becomes of copies, and however many there are, the calls are as ever.
#[test]
fn copies_that_hang_fail_or_are_too_many_harm_nobody() {
    let hub = MemoryHub::new();
    let (providers, _registered) = two_versions(&hub, Behaviour::Hang);
    let keys = "mirror_percent = 100\nmirror_version = \"2.0\"\nmirror_max_in_flight = 3\n\
                mirror_timeout_ms = 60000\n";
    let hanging = agent(&hub, keys);
    let mut http = Http::to(&hanging);
    for _ in 0..20 {
        let answer = http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]");
        assert_eq!((answer.status, &*answer.body), (200, "\"a\""));
    }
    let (n_mirrored, n_dropped) =
        (n_events(&hanging, "mirrored"), n_events(&hanging, "mirror_dropped"));
    assert_eq!((n_mirrored, n_dropped), (3, 17), "one connection is of one worker");
    wait_until("copies are there", || (providers[1].n_requests() == 3).then_some(()));
    // A copy has a deadline of its own, is offered once, and gives its place back.
    let keys = keys.replace("60000", "20").replace("in_flight = 3", "in_flight = 1");
    let short = agent(&hub, &keys);
    for n in 1..=3 {
        wait_until("a copy is made", || {
            assert_eq!(echo(&short).status, 200);
            (n <= n_events(&short, "mirrored")).then_some(())
        });
        wait_until("it fails", || (n <= n_events(&short, "mirror_failed")).then_some(()));
    }
    // Nobody offers what copies should go to.
    let nobody = agent(&hub, "mirror_percent = 100\nmirror_group = \"shadow\"\n");
    assert_eq!(echo(&nobody).status, 200);
    wait_until("the copy fails", || (n_events(&nobody, "mirror_failed") == 1).then_some(()));
}

#[test]
fn requests_of_dubbo_consumers_are_copied_with_another_version_and_a_mark() {
    let hub = MemoryHub::new();
    let (providers, _registered) = two_versions(&hub, Behaviour::Good);
    let keys = "[[defaults.method]]\nmirror_percent = 100\nmirror_version = \"2.0\"\n";
    let agent = dubbo_consumer(&hub, keys);
    let mut consumer = DubboConsumer::to(&agent);
    let answer = consumer.call("echo", "a", &[("colour", "red")]);
    assert_eq!((answer.status, answer.value()), (Status::Ok, &b"\x01a"[..]));
    wait_until("the copy is there", || (providers[1].n_requests() == 1).then_some(()));
    let copy = providers[1].last_request();
    assert_eq!((copy.version(), copy.attachment("version")), ("2.0", Some("2.0")));
    assert_eq!(copy.attachment("dubmesh.mirror"), Some("true"));
    assert_eq!((copy.method(), copy.attachment("colour")), ("echo", Some("red")));
    // A copy is not copied again.
    let answer = consumer.call("echo", "a", &[("dubmesh.mirror", "true")]);
    assert_eq!(answer.status, Status::Ok);
    assert_eq!(consumer.call("echo", "b", &[]).status, Status::Ok);
    wait_until("the next copy is there", || (providers[1].n_requests() == 2).then_some(()));
    assert_eq!(providers[0].n_requests(), 3);
}

/// Copies that nobody has the tag for must not be carried out where the calls are.
#[test]
fn a_copy_for_a_tag_that_nobody_has_fails() {
    let hub = MemoryHub::new();
    let (providers, _registered) = registered_providers(&hub, [Behaviour::Good]);
    let keys = "mirror_percent = 100\nmirror_tag = \"shadow\"\n";
    let http = agent(&hub, keys);
    assert_eq!(echo(&http).status, 200);
    wait_until("the copy fails", || (n_events(&http, "mirror_failed") == 1).then_some(()));
    assert_eq!(providers[0].n_requests(), 1);

    let dubbo = dubbo_consumer(&hub, &format!("[[defaults.method]]\n{keys}"));
    let mut consumer = DubboConsumer::to(&dubbo);
    assert_eq!(consumer.call("echo", "a", &[]).status, Status::Ok);
    // Copies for a tag that somebody has get there, so that they are on their way.
    let tagged = FakeProvider::start(Behaviour::Good);
    let _tagged = register_with(&hub, tagged.addr, &[("dubbo.tag", "shadow")]);
    wait_until("a copy is there", || {
        assert_eq!(consumer.call("echo", "a", &[]).status, Status::Ok);
        (0 < tagged.n_requests()).then_some(())
    });
    let asked = |it: &FakeProvider| it.last_request().attachment("dubmesh.mirror").is_some();
    assert!(asked(&tagged) && !asked(&providers[0]));
}

/// As Dubbo's `MockInvoker`: an exception of the class, or an `RpcException` where none is named.
#[test]
fn mocks_throw_for_http_and_for_dubbo_consumers() {
    let hub = MemoryHub::new();
    let (providers, _registered) = registered_providers(&hub, [Behaviour::Fails]);
    let thrown = agent(&hub, "mock = \"fail:throw com.acme.Closed\"\n");
    let answer = echo(&thrown);
    assert_eq!((answer.status, answer.code()), (500, "exception".to_owned()), "{answer:?}");
    assert!(answer.body.contains("com.acme.Closed"), "{}", answer.body);
    assert!(answer.body.contains("mocked exception for service degradation."));
    assert_eq!((providers[0].n_requests(), n_events(&thrown, "mocked")), (1, 1));
    let forced = agent(&hub, "mock = \"force:throw\"\n");
    let answer = echo(&forced);
    assert!(answer.body.contains("org.apache.dubbo.rpc.RpcException"), "{}", answer.body);
    assert_eq!(providers[0].n_requests(), 1);

    let keys = "[[defaults.method]]\nmock = \"force:throw com.acme.Closed\"\n";
    let agent = dubbo_consumer(&hub, keys);
    let answer = DubboConsumer::to(&agent).call("echo", "a", &[]);
    assert_eq!(answer.status, Status::Ok);
    let text = String::from_utf8_lossy(&answer.body);
    for part in ["com.acme.Closed", "detailMessage", "mocked exception"] {
        assert!(text.contains(part), "{text}");
    }
    let kind = dubbo_proto::ReplyKind::of(answer.serialization, &answer.body);
    assert_eq!(kind, Some(dubbo_proto::ReplyKind::Exception));
}
