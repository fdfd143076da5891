//! Limits of calls a second: who is refused, what he is told, and what a reload changes.

use crate::support::dubbo::DubboConsumer;
use crate::support::{
    Behaviour, FakeProvider, Http, HttpResponse, SERVICE, STRING, block_on, consumer_with_metrics,
    dubbo_consumer, metric, register, wait_until,
};
use agent::{Agent, config};
use dubbo_proto::Status;
use registry::MemoryHub;

/// Nothing comes back into a bucket within a test.
const SLOW: &str = "rate_limit = 1\nrate_burst = 1\n";

fn echo(agent: &Agent, headers: &[&str]) -> HttpResponse {
    let headers = [&[STRING], headers].concat();
    Http::to(agent).post(&format!("/{SERVICE}/echo"), &headers, "[\"a\"]")
}

fn n_events(agent: &Agent, event: &str) -> u64 {
    let labels = format!("service=\"{SERVICE}\",event=\"{event}\"");
    metric(agent, &format!("dubmesh_upstream_method_events_total{{{labels}}}"))
}

/// The two workers share one limit.
#[test]
fn calls_over_the_rate_are_told_when_to_come_again() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let keys = "[[defaults.method]]\nnames = [\"ec*\"]\nrate_limit = 1\nrate_burst = 8\n";
    let agent = consumer_with_metrics(&hub, keys);
    let answers: Vec<HttpResponse> = (0..40).map(|_| echo(&agent, &[])).collect();
    let refused: Vec<&HttpResponse> =
        answers.iter().filter(|answer| answer.status != 200).collect();
    // The test may take some seconds, in which one token comes each.
    assert!((20..=32).contains(&refused.len()), "{} of 40", refused.len());
    for answer in &refused {
        assert_eq!((answer.status, answer.code()), (429, "rate_limited".to_owned()));
        assert!(answer.head.contains("retry-after: 1\r\n"), "{}", answer.head);
        assert!(
            answer.body.contains("rate_limit of") && answer.body.contains("\"retryable\":true")
        );
    }
    assert_eq!(provider.n_requests(), 40 - refused.len(), "nothing else was sent");
    assert_eq!(n_events(&agent, "rate_limited"), refused.len() as u64);
    // Other methods are not limited.
    let mut http = Http::to(&agent);
    for _ in 0..20 {
        assert_eq!(http.post(&format!("/{SERVICE}/nothing"), &[], "[]").status, 200);
    }
}

#[test]
fn each_caller_has_a_limit_of_its_own() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let keys = "caller_rate_limit = 1\ncaller_rate_burst = 2\ncaller = \"header:X-User\"\n";
    let agent = consumer_with_metrics(&hub, &format!("[[defaults.method]]\n{keys}"));
    for user in ["x-user: ann", "x-user: bob", "x-other: none"] {
        assert!((0..2).all(|_| echo(&agent, &[user]).status == 200), "{user}");
        wait_until("one too many", || (echo(&agent, &[user]).status == 429).then_some(()));
    }
    assert!(3 <= n_events(&agent, "caller_rate_limited"));
    let agent = consumer_with_metrics(&hub, "[[defaults.method]]\ncaller_rate_limit = 1\n");
    wait_until("the address counts", || (echo(&agent, &[]).status == 429).then_some(()));
}

#[test]
fn dubbo_consumers_are_refused_with_their_status() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let keys = "[[defaults.method]]\ncaller_rate_limit = 1\ncaller = \"application\"\n";
    let agent = dubbo_consumer(&hub, keys);
    let mut consumer = DubboConsumer::to(&agent);
    let shop = [("remote.application", "shop")];
    let refused = wait_until("one too many", || {
        let reply = consumer.call("echo", "a", &shop);
        (reply.status != Status::Ok).then_some(reply)
    });
    assert_eq!(refused.status, Status::ServerThreadpoolExhausted);
    let text = String::from_utf8_lossy(&refused.body).into_owned();
    assert!(text.contains("rate_limited: caller_rate_limit of") && text.contains("shop"), "{text}");
    let desk = [("remote.application", "desk")];
    assert_eq!(consumer.call("echo", "a", &desk).status, Status::Ok);
}

#[test]
fn a_reload_changes_the_limit() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = consumer_with_metrics(&hub, &format!("[[defaults.method]]\n{SLOW}"));
    let limited = || (echo(&agent, &[]).status == 429).then_some(());
    wait_until("the limit", limited);
    let reload = |extra: &str| {
        let text = format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 2\ndrain_ms = 5000\n\
             [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
             [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n{extra}\n"
        );
        let mut config = config::parse(&text, "test.toml").unwrap();
        for registry in &mut config.registries {
            registry.config = registry::RegistryConfig::Memory(hub.clone());
        }
        let plan = block_on(agent.reload(config)).unwrap();
        assert!(plan.needs_restart.is_empty(), "{plan:?}");
    };
    reload("");
    wait_until("no limit", || (0..10).all(|_| echo(&agent, &[]).status == 200).then_some(()));
    reload(&format!("[[defaults.method]]\n{SLOW}"));
    wait_until("the limit again", limited);
}
