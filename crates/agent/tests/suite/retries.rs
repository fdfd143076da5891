//! Calls that may be made twice, and how many of them are.

use crate::support;
use crate::support::dubbo::DubboConsumer;
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, consumer, consumer_with_metrics,
    dubbo_consumer, metric, register, wait_until,
};
use registry::MemoryHub;

/// Nobody is left out because of how calls ended.
const BASE: &str = "[defaults]\nbalance = \"round-robin\"\neject_max_percent = 0\n";

/// One provider that answers, and one that takes requests and then breaks its connection.
fn estate() -> (MemoryHub, [FakeProvider; 2], [support::Registered; 2]) {
    let hub = MemoryHub::new();
    let providers = [Behaviour::Close, Behaviour::Good].map(FakeProvider::start);
    let registered = providers.each_ref().map(|it| register(&hub, it.addr));
    (hub, providers, registered)
}

/// How many calls fail until the broken provider was asked so often.
fn n_failed(hub: &MemoryHub, providers: &[FakeProvider; 2], keys: &str, n_calls: usize) -> usize {
    let agent = consumer(hub, &format!("{BASE}{keys}"));
    let mut http = Http::to(&agent);
    let (mut n_failed, before) = (0, providers[0].n_requests());
    wait_until("the broken one is asked often", || {
        let answer = http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]");
        n_failed += usize::from(answer.status != 200);
        (before + n_calls <= providers[0].n_requests()).then_some(())
    });
    n_failed
}

#[test]
fn only_idempotent_calls_are_made_again_that_may_have_begun() {
    let (hub, providers, _registered) = estate();
    assert_eq!(n_failed(&hub, &providers, "", 5), 5);
    assert_eq!(n_failed(&hub, &providers, "idempotent = [\"find*\"]\n", 5), 5);
    assert_eq!(n_failed(&hub, &providers, "idempotent = [\"find*\", \"ec*\"]\n", 5), 0);
    let no_budget = "idempotent = [\"echo\"]\nretry_budget_percent = 0\n";
    assert_eq!(n_failed(&hub, &providers, no_budget, 5), 5);
}

/// An answer that cannot be read is asked for elsewhere, if the call may be carried out twice.
#[test]
fn an_unreadable_reply_of_an_idempotent_call_is_asked_for_elsewhere() {
    let hub = MemoryHub::new();
    let providers = [Behaviour::BrokenValue, Behaviour::Good].map(FakeProvider::start);
    let registered = providers.each_ref().map(|it| register(&hub, it.addr));
    assert_eq!(n_failed(&hub, &providers, "", 5), 5);
    assert_eq!(n_failed(&hub, &providers, "idempotent = [\"echo\"]\n", 5), 0);
    let no_budget = "idempotent = [\"echo\"]\nretry_budget_percent = 0\n";
    assert_eq!(n_failed(&hub, &providers, no_budget, 5), 5);
    let one_only = "idempotent = [\"echo\"]\n[[cluster]]\ninterface = \"*\"\n\
                    [[cluster.method]]\nnames = [\"echo\"]\ncluster = \"failfast\"\n";
    assert_eq!(n_failed(&hub, &providers, one_only, 5), 5);
    // A failure of which callers are not to hear.
    for rule in ["cluster = \"failsafe\"", "cluster = \"failback\"", "mock = \"return null\""] {
        let rule = format!(
            "[[cluster]]\ninterface = \"*\"\n[[cluster.method]]\nnames = [\"echo\"]\n{rule}\n"
        );
        assert_eq!(n_failed(&hub, &providers, &rule, 5), 0, "{rule}");
        let also_elsewhere = format!("idempotent = [\"echo\"]\n{rule}");
        assert_eq!(n_failed(&hub, &providers, &also_elsewhere, 5), 0, "{rule}");
    }
    // Where there is nobody else, the caller hears of the first answer.
    let [_broken, good] = registered;
    drop(good);
    let agent = consumer(&hub, &format!("{BASE}idempotent = [\"echo\"]\n"));
    let answer = Http::to(&agent).post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]");
    assert!(answer.status == 502 && answer.body.contains("bad_reply"), "{answer:?}");
}

#[test]
fn dubbo_consumers_calls_are_made_again_too() {
    let (hub, providers, _registered) = estate();
    let agent = dubbo_consumer(&hub, &format!("{BASE}idempotent = [\"echo\"]\n"));
    let mut consumer = DubboConsumer::to(&agent);
    wait_until("the broken one is asked", || {
        assert_eq!(consumer.call("echo", "a", &[]).status, dubbo_proto::Status::Ok);
        (5 <= providers[0].n_requests()).then_some(())
    });
}

#[test]
fn further_attempts_are_counted_by_their_reasons() {
    let (hub, providers, _registered) = estate();
    let agent = consumer_with_metrics(&hub, &format!("{BASE}idempotent = [\"echo\"]\n"));
    let mut http = Http::to(&agent);
    wait_until("the broken one is asked", || {
        assert_eq!(http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"a\"]").status, 200);
        (5 <= providers[0].n_requests()).then_some(())
    });
    let labels = format!("service=\"{SERVICE}\",reason=\"connection_broken\"");
    let n_retries = metric(&agent, &format!("dubmesh_upstream_retries_total{{{labels}}}"));
    assert_eq!(n_retries, providers[0].n_requests() as u64);
}
