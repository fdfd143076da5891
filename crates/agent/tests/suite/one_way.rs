//! Calls whose callers wait for no reply.

use std::time::Duration;

use crate::support::{
    Behaviour, FakeProvider, SERVICE, STRING, call, consumer, consumer_with_metrics,
    exporting_with_admin, metric, provider_agent, register, wait_until,
};
use agent::args::ArgumentList;
use agent::call::ONE_WAY;
use agent::client::Client;
use agent::config::ClusterPolicy;
use agent::invocation::{CallOrigin, Invocation};
use agent::route::RouteName;
use hessian::transcode::JsonOptions;
use registry::{MemoryHub, Registry, RegistryConfig};

const RETURN: &str = "x-dubbo-attachment-return: false";

/// `echo` answers null at once to who wants no answer, and its argument to all others.
fn is_sent_without_an_answer(agent: &agent::Agent, provider: &FakeProvider) {
    wait_until("the first endpoint", || {
        (call(agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    let n_before = provider.n_requests();
    let answer = call(agent, "echo", &[STRING, RETURN], "[\"x\"]");
    assert_eq!((answer.status, &*answer.body), (200, "null"), "{answer:?}");
    let answer = call(agent, "echo", &[RETURN, "x-dubbo-generic: true"], "[\"x\"]");
    assert_eq!((answer.status, &*answer.body), (200, "null"), "{answer:?}");
    wait_until("both calls", || (provider.n_requests() == n_before + 2).then_some(()));
    let answer = call(agent, "echo", &[STRING, "x-dubbo-attachment-return: true"], "[\"x\"]");
    assert_eq!((answer.status, &*answer.body), (200, "\"x\""), "{answer:?}");
}

#[test]
fn straight_to_a_dubbo_provider() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    is_sent_without_an_answer(&consumer(&hub, ""), &provider);
}

#[test]
fn over_a_link() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _exporting = provider_agent(&hub, provider.addr);
    is_sent_without_an_answer(&consumer(&hub, ""), &provider);
}

/// They count as calls, at every place, and as answers of no time nowhere.
#[test]
fn what_has_no_answer_has_no_latency() {
    let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Good));
    let export = format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n", provider.addr);
    let exporting = exporting_with_admin(&hub, &export);
    let agent = consumer_with_metrics(&hub, "");
    wait_until("an answer", || {
        (call(&agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    for _ in 0..3 {
        assert_eq!(call(&agent, "echo", &[STRING, RETURN], "[\"x\"]").status, 200);
    }
    wait_until("all calls", || (provider.n_requests() == 4).then_some(()));
    let endpoint = exporting.addresses().link.unwrap();
    let service = format!("service=\"{SERVICE}\"");
    for (agent, place, labels) in [
        (&agent, "upstream", format!("{service},endpoint=\"{endpoint}\"")),
        (&agent, "method", format!("{service},method=\"echo\"")),
        (&exporting, "export", service.clone()),
    ] {
        let n_calls = format!("dubmesh_{place}_calls_total{{{labels},code=\"ok\"}}");
        wait_until(&n_calls, || (metric(agent, &n_calls) == 4).then_some(()));
        let name = format!("dubmesh_{place}_latency_seconds_count{{{labels},outcome=\"ok\"}}");
        assert_eq!(metric(agent, &name), 1, "{name}");
    }
}

#[test]
fn what_nobody_takes_is_an_error() {
    let hub = MemoryHub::new();
    let agent = consumer(&hub, "");
    let answer = call(&agent, "echo", &[STRING, RETURN], "[\"x\"]");
    assert_eq!(answer.code(), "service_not_found", "{answer:?}");
}

/// A program that makes one call and ends, as `dubmesh call` does.
fn sent_by_a_client(hub: &MemoryHub, argument: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .unwrap();
    runtime.block_on(async {
        let registry = Registry::open(RegistryConfig::Memory(hub.clone())).unwrap();
        let client = Client::new("test", "memory", registry, ClusterPolicy::default());
        let invocation = Invocation {
            name: RouteName {
                interface: SERVICE,
                version: "",
                group: "",
                method: "echo",
                types: Some("java.lang.String"),
                generic: None,
            },
            args: ArgumentList::json(argument.as_bytes()).unwrap(),
            timeout: Some(Duration::from_secs(20)),
            timeout_key: "timeout",
            attachments: vec![ONE_WAY],
            origin: CallOrigin::default(),
            clock: None,
            is_copy: false,
            not_at: None,
        };
        let answer = client.call(&invocation, &JsonOptions::default()).await.unwrap();
        assert_eq!(answer, b"null");
        client.close().await.unwrap();
    });
}

/// More than a socket takes at once.
#[test]
fn all_is_written_before_the_connections_are_closed() {
    let argument = format!("\"{}\"", "x".repeat(7 << 20));
    let straight = FakeProvider::start(Behaviour::Good);
    let hub = MemoryHub::new();
    let _registered = register(&hub, straight.addr);
    sent_by_a_client(&hub, &argument);
    wait_until("the call", || (straight.n_requests() == 1).then_some(()));

    let linked = FakeProvider::start(Behaviour::Good);
    let hub = MemoryHub::new();
    let agent = provider_agent(&hub, linked.addr);
    let through = consumer(&hub, "");
    wait_until("the agent", || {
        (call(&through, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    let n_before = linked.n_requests();
    sent_by_a_client(&hub, &argument);
    wait_until("the call", || (linked.n_requests() == n_before + 1).then_some(()));
    drop(agent);
}
