//! How long the requests and replies are that endpoints take and give: Dubbo's `payload`, and the
//! keys of agents.

use crate::support::dubbo::{DubboConsumer, body, string};
use crate::support::http_app::{Does, TestApp};
use crate::support::{
    Behaviour, FakeProvider, HttpResponse, Registered, SERVICE, STRING, call, exporting,
    register_with, start, wait_until,
};
use agent::Agent;
use dubbo_proto::{Serialization, Status};
use registry::MemoryHub;

const MIB: usize = 1 << 20;
/// Over Dubbo's usual limit.
const LEN: usize = 9 * MIB;

/// An agent for HTTP callers and Dubbo consumers that takes 32 MiB in and out.
fn wide_agent(hub: &MemoryHub) -> Agent {
    let ingress = |protocol| {
        format!(
            "[[ingress]]\nprotocol = \"{protocol}\"\nlisten = \"127.0.0.1:0\"\n\
             max_body_bytes = 33554432\n"
        )
    };
    let text = format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 1\n\
         [defaults]\nmax_reply_bytes = 33554432\n\
         [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n{}{}",
        ingress("http"),
        ingress("dubbo")
    );
    start(&text, hub)
}

/// Calls by HTTP with one text of `len` bytes.
fn echo(agent: &Agent, len: usize) -> HttpResponse {
    let argument = format!("[\"{}\"]", "x".repeat(len));
    call(agent, "echo", &[STRING, "x-dubbo-timeout-ms: 30000"], &argument)
}

/// A provider of 64 MiB, and what its URL says.
fn wide_provider(hub: &MemoryHub, payload: &str) -> (FakeProvider, Registered) {
    let provider = FakeProvider::start(Behaviour::Wide);
    let registered = register_with(hub, provider.addr, &[("payload", payload)]);
    (provider, registered)
}

fn is_ready(agent: &Agent) {
    wait_until("an answer", || (echo(agent, 1).status == 200).then_some(()));
}

#[test]
fn an_endpoint_gets_what_its_payload_allows() {
    for payload in ["67108864", "0", "-1", "9223372036854775807"] {
        let hub = MemoryHub::new();
        let (_provider, _registered) = wide_provider(&hub, payload);
        let agent = wide_agent(&hub);
        let answer = echo(&agent, LEN);
        assert_eq!((answer.status, answer.body.len()), (200, LEN + 2), "{payload}");
    }
}

#[test]
fn an_endpoint_gets_no_more_than_its_payload() {
    for (payload, limit) in
        [("", 8 * MIB), ("9223372036854775808", 8 * MIB), ("1000", 1000), ("9000000", 9_000_000)]
    {
        let hub = MemoryHub::new();
        let (provider, _registered) = wide_provider(&hub, payload);
        let agent = wide_agent(&hub);
        is_ready(&agent);
        let n_before = provider.n_requests();
        let refused = echo(&agent, limit);
        assert_eq!((refused.status, &*refused.code()), (413, "body_too_large"), "{payload}");
        assert!(refused.body.contains(&format!("limit of {limit} (param")), "{}", refused.body);
        let mut consumer = DubboConsumer::to(&agent);
        let request = body(SERVICE, "nothing", &"x".repeat(limit), &[]);
        consumer.send(Serialization::Hessian2, &request, 1);
        let (_, answer) = consumer.answer();
        assert_eq!(answer.status, Status::BadRequest);
        assert!(answer.text().contains("body_too_large"), "{}", answer.text());
        assert_eq!(provider.n_requests(), n_before, "nothing of it was sent");
        assert_eq!(echo(&agent, limit / 2).status, 200);
    }
}

#[test]
fn whole_requests_of_consumers_go_by_it_as_well() {
    let hub = MemoryHub::new();
    let (_provider, _registered) = wide_provider(&hub, "67108864");
    let agent = wide_agent(&hub);
    let mut consumer = DubboConsumer::to(&agent);
    let request = body(SERVICE, "long", &"x".repeat(LEN), &[("timeout", "30000")]);
    consumer.send(Serialization::Hessian2, &request, 1);
    assert_eq!(consumer.answer().1.value(), string(&"x".repeat(64 << 10)));
}

/// The others of the service get their calls, too.
#[test]
fn a_call_that_is_too_long_for_one_endpoint_goes_to_another() {
    let hub = MemoryHub::new();
    let (small, _registered_small) = wide_provider(&hub, "1000");
    let (large, _registered_large) = wide_provider(&hub, "10000");
    let agent = wide_agent(&hub);
    wait_until("both endpoints", || {
        is_ready(&agent);
        [&small, &large].iter().all(|provider| 0 < provider.n_requests()).then_some(())
    });
    let n_before = large.n_requests();
    let mut consumer = DubboConsumer::to(&agent);
    for _ in 0..5 {
        assert_eq!(echo(&agent, 5000).status, 200);
        let request = body(SERVICE, "echo", &"x".repeat(5000), &[]);
        consumer.send(Serialization::Hessian2, &request, 1);
        assert_eq!(consumer.answer().1.status, Status::Ok);
    }
    assert_eq!(large.n_requests(), n_before + 10);
    assert_eq!(echo(&agent, 20_000).code(), "body_too_large");
}

/// An agent before a wide provider, with that in its `[link]`.
fn app_agent(hub: &MemoryHub, provider: &FakeProvider, link: &str) -> Agent {
    let text = format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 1\n\
         [defaults]\nmax_reply_bytes = 33554432\n\
         [[registry]]\nname = \"main\"\nkind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n\
         [link]\nlisten = \"127.0.0.1:0\"\n{link}\n\
         [[export]]\ninterface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n",
        provider.addr
    );
    start(&text, hub)
}

#[test]
fn a_link_carries_what_the_agent_before_the_app_takes() {
    let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Wide));
    let _app_agent = app_agent(&hub, &provider, "max_body_bytes = 33554432");
    let agent = wide_agent(&hub);
    is_ready(&agent);
    let answer = echo(&agent, LEN);
    assert_eq!((answer.status, answer.body.len()), (200, LEN + 2));
    let mut consumer = DubboConsumer::to(&agent);
    let request = body(SERVICE, "long", &"x".repeat(LEN), &[("timeout", "30000")]);
    consumer.send(Serialization::Hessian2, &request, 1);
    assert_eq!(consumer.answer().1.value(), string(&"x".repeat(64 << 10)));
}

#[test]
fn a_link_carries_no_more() {
    for (link, limit) in [("", 8 * MIB), ("max_body_bytes = 10000", 10_000)] {
        let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Wide));
        let _app_agent = app_agent(&hub, &provider, link);
        let agent = wide_agent(&hub);
        is_ready(&agent);
        let n_before = provider.n_requests();
        let refused = echo(&agent, limit + 1);
        assert_eq!((refused.status, &*refused.code()), (413, "body_too_large"));
        assert!(refused.body.contains("max_body_bytes of its [link]"), "{}", refused.body);
        let mut consumer = DubboConsumer::to(&agent);
        let request = body(SERVICE, "nothing", &"x".repeat(limit), &[]);
        consumer.send(Serialization::Hessian2, &request, 1);
        assert!(consumer.answer().1.text().contains("body_too_large"));
        assert_eq!(provider.n_requests(), n_before);
        assert_eq!(echo(&agent, limit / 2).status, 200);
    }
}

/// What the app's provider would get is longer than what is on the link.
#[test]
fn names_and_attachments_count_for_the_app() {
    let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Wide));
    let _app_agent = app_agent(&hub, &provider, "max_body_bytes = 10000");
    let agent = wide_agent(&hub);
    is_ready(&agent);
    let refused = echo(&agent, 9990);
    assert!(refused.body.contains("with its names and attachments"), "{}", refused.body);
    assert_eq!(echo(&agent, 9000).status, 200);
}

#[test]
fn an_http_app_answers_as_much_as_it_may() {
    let hub = MemoryHub::new();
    let app = TestApp::start(|_| Does::json(format!("\"{}\"", "y".repeat(LEN))));
    let _app_agent = exporting(
        &hub,
        &format!(
            "interface = \"{SERVICE}\"\napp = \"http://{}\"\nmax_answer_bytes = 33554432\n",
            app.addr
        ),
    );
    let agent = wide_agent(&hub);
    is_ready(&agent);
    assert_eq!(echo(&agent, 1).body.len(), LEN + 2);
}

/// There is nothing wrong with the JSON.
#[test]
fn arguments_that_hold_too_much_have_their_own_code() {
    let hub = MemoryHub::new();
    let (_provider, _registered) = wide_provider(&hub, "");
    let agent = wide_agent(&hub);
    let many = format!("[[{}0]]", "0,".repeat(MIB));
    let refused = call(&agent, "echo", &["x-dubbo-parameter-types: int[]"], &many);
    assert_eq!((refused.status, &*refused.code()), (413, "body_too_large"));
    let deep = format!("[{}{}]", "[".repeat(70), "]".repeat(70));
    let refused = call(&agent, "echo", &["x-dubbo-parameter-types: java.lang.Object"], &deep);
    assert_eq!(refused.code(), "bad_request");
    assert!(!refused.body.contains("not JSON"), "{}", refused.body);
}
