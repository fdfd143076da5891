//! Dubbo consumers of an agent: what they send reaches the provider as it is, and so do the
//! answers.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::support::dubbo::{DubboConsumer, body, string};
use crate::support::http_app::{Does, TestApp};
use crate::support::{
    Behaviour, FakeProvider, SERVICE, block_on, dubbo_consumer, dubbo_exporting, dubbo_exports,
    free_addr, provider_agent, register, register_with, wait_until,
};
use agent::config;
use dubbo_proto::{ClientEvent, Serialization, Status};
use registry::MemoryHub;

const HESSIAN2: Serialization = Serialization::Hessian2;

/// Waits until calls reach a provider.
fn ready(consumer: &mut DubboConsumer) {
    wait_until("the first endpoint", || {
        (consumer.call("echo", "x", &[]).status == Status::Ok).then_some(())
    });
}

fn works_as_if_alone(agent: &agent::Agent, provider: &FakeProvider) {
    let mut consumer = DubboConsumer::to(agent);
    ready(&mut consumer);
    let answer = consumer.call("echo", "snö\n☃", &[("path", SERVICE), ("timeout", "5000")]);
    assert_eq!((answer.status, answer.value()), (Status::Ok, &string("snö\n☃")[..]));
    let answer = consumer.call("attachment", "", &[("colour", "red")]);
    assert_eq!(answer.value(), string("red"));
    let answer = consumer.call("nothing", "", &[]);
    assert_eq!((answer.status, &answer.body[..]), (Status::Ok, &[0x92][..]));
    let answer = consumer.call("fail", "", &[]);
    assert_eq!((answer.status, answer.body[0]), (Status::Ok, 0x90));
    // Many at once, in any order.
    for token in 0..1000 {
        let body = body(SERVICE, "echo", &token.to_string(), &[]);
        consumer.send(HESSIAN2, &body, token);
    }
    for _ in 0..1000 {
        let (token, answer) = consumer.answer();
        assert_eq!(answer.value(), string(&token.to_string()));
    }
    let n_before = provider.n_requests();
    consumer.send_one_way(HESSIAN2, &body(SERVICE, "echo", "gone", &[]));
    wait_until("the one-way call", || (provider.n_requests() == n_before + 1).then_some(()));
    // Of a service that nobody offers.
    let answer = {
        consumer.send(HESSIAN2, &body("com.acme.Nobody", "echo", "x", &[]), 1);
        consumer.answer().1
    };
    assert_eq!(answer.status, Status::ServiceNotFound, "{}", answer.text());
    let answer = consumer.call("echo", "x", &[("group", "g")]);
    assert_eq!(answer.status, Status::ServiceNotFound);
    assert!(answer.text().contains("g/com.acme.Hello"), "{}", answer.text());
    assert_eq!(consumer.call("echo", "still", &[]).value(), string("still"));
}

#[test]
fn straight_to_a_dubbo_provider() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    works_as_if_alone(&dubbo_consumer(&hub, ""), &provider);
}

/// A consumer with a registry has both from the provider's URL. One of an agent has the agent's.
#[test]
fn a_provider_gets_its_own_token_and_path() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let url = [("token", "s3cret"), ("path", "ctx/com.acme.Echo")];
    let _registered = register_with(&hub, provider.addr, &url);
    let agent = dubbo_consumer(&hub, "");
    let mut consumer = DubboConsumer::to(&agent);
    ready(&mut consumer);
    for attachments in [&[][..], &[("path", SERVICE), ("interface", SERVICE)]] {
        let answer = consumer.call("calledAs", "", attachments);
        assert_eq!(answer.value(), string(&format!("{SERVICE} ctx/com.acme.Echo s3cret")));
    }
    let answer = consumer.call("calledAs", "", &[("token", "mine")]);
    assert_eq!(answer.value(), string(&format!("{SERVICE} ctx/com.acme.Echo mine")));
}

#[test]
fn through_a_providers_agent() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _provider_agent = provider_agent(&hub, provider.addr);
    works_as_if_alone(&dubbo_consumer(&hub, ""), &provider);
}

#[test]
fn what_cannot_be_read_goes_to_the_default_service_or_is_refused() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = dubbo_consumer(&hub, "");
    let mut consumer = DubboConsumer::to(&agent);
    consumer.send(Serialization::Other(8), b"kryo's own", 1);
    let answer = consumer.answer().1;
    assert_eq!(answer.status, Status::BadRequest);
    assert!(answer.text().contains("default_service"), "{}", answer.text());
    consumer.send(HESSIAN2, b"\x05short", 2);
    let answer = consumer.answer().1;
    assert_eq!(answer.status, Status::BadRequest);
    assert!(answer.text().contains("Fail to decode request due to"), "{}", answer.text());
    ready(&mut consumer);

    let agent = dubbo_consumer(&hub, &format!("default_service = \"{SERVICE}\""));
    let mut consumer = DubboConsumer::to(&agent);
    ready(&mut consumer);
    // The fake provider cannot read it either, and says so itself.
    consumer.send(Serialization::Other(8), b"kryo's own", 3);
    let answer = consumer.answer().1;
    assert_eq!(answer.text(), "serialization 8 is not supported");
}

#[test]
fn limits_fail_the_call_and_not_the_connection() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let long = FakeProvider::start(Behaviour::Long);
    let _registered = register(&hub, provider.addr);
    let agent = dubbo_consumer(&hub, "max_body_bytes = 10000");
    let mut consumer = DubboConsumer::to(&agent);
    ready(&mut consumer);
    consumer.send(HESSIAN2, &body(SERVICE, "echo", &"x".repeat(3_000_000), &[]), 1);
    consumer.send(HESSIAN2, &body(SERVICE, "echo", "short", &[]), 2);
    let (token, answer) = consumer.answer();
    assert_eq!((token, answer.status), (1, Status::BadRequest));
    assert!(answer.text().starts_with("Data length too large: 3000"), "{}", answer.text());
    let (token, answer) = consumer.answer();
    assert_eq!((token, answer.value()), (2, &string("short")[..]));

    for through_agent in [false, true] {
        let hub = MemoryHub::new();
        let _registered = (!through_agent).then(|| register(&hub, long.addr));
        let _agent = through_agent.then(|| provider_agent(&hub, long.addr));
        let agent = dubbo_consumer(&hub, "[defaults]\nmax_reply_bytes = 300000");
        let mut consumer = DubboConsumer::to(&agent);
        let answer = wait_until("an endpoint", || {
            let answer = consumer.call("echo", "x", &[]);
            (answer.status != Status::ServiceNotFound).then_some(answer)
        });
        assert_eq!(answer.status, Status::SerializationError, "{}", answer.text());
        assert!(answer.text().contains("limit of 3"), "{}", answer.text());
        assert_eq!(consumer.call("echo", "x", &[]).status, Status::SerializationError);
    }
}

#[test]
fn a_provider_that_hangs_costs_the_callers_own_timeout() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Hang);
    let _registered = register(&hub, provider.addr);
    let agent = dubbo_consumer(&hub, "");
    let mut consumer = DubboConsumer::to(&agent);
    let started = Instant::now();
    let answer = consumer.call("echo", "x", &[("timeout", "300")]);
    assert_eq!(answer.status, Status::ServerTimeout, "{}", answer.text());
    assert!(started.elapsed() >= Duration::from_millis(290));
    let answer = consumer.call("echo", "x", &[("timeout", "30000"), ("_TO", "100")]);
    assert_eq!(answer.status, Status::ServerTimeout);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn broken_connections_are_told_at_once() {
    for (behaviour, status) in [
        (Behaviour::Close, Status::ChannelInactive),
        (Behaviour::Garbage, Status::ChannelInactive),
        (Behaviour::Busy, Status::ServerThreadpoolExhausted),
    ] {
        let hub = MemoryHub::new();
        let provider = FakeProvider::start(behaviour);
        let _registered = register(&hub, provider.addr);
        let agent = dubbo_consumer(&hub, "");
        let mut consumer = DubboConsumer::to(&agent);
        let answer = consumer.call("echo", "x", &[]);
        assert_eq!(answer.status, status, "{behaviour:?}: {}", answer.text());
    }
    let hub = MemoryHub::new();
    let _registered = register(&hub, free_addr());
    let agent = dubbo_consumer(&hub, "");
    let answer = DubboConsumer::to(&agent).call("echo", "x", &[]);
    assert_eq!(answer.status, Status::ServerError, "{}", answer.text());
}

#[test]
fn a_refused_call_goes_to_another_provider() {
    for behaviour in [Behaviour::Busy, Behaviour::Leaving, Behaviour::Starting] {
        let hub = MemoryHub::new();
        let bad = FakeProvider::start(behaviour);
        let good = FakeProvider::start(Behaviour::Good);
        let _registered = [register(&hub, bad.addr), register(&hub, good.addr)];
        let agent = dubbo_consumer(&hub, "");
        let mut consumer = DubboConsumer::to(&agent);
        for n in 0..50 {
            let answer = consumer.call("echo", &n.to_string(), &[]);
            assert_eq!(answer.value(), string(&n.to_string()), "{behaviour:?}");
        }
        assert!(0 < bad.n_requests());
        assert_eq!(good.n_requests(), 50);
    }
}

#[test]
fn calls_that_may_run_twice_leave_a_provider_that_hangs() {
    let hub = MemoryHub::new();
    let providers = [Behaviour::Hang, Behaviour::Good, Behaviour::Good].map(FakeProvider::start);
    let _registered = providers.each_ref().map(|provider| register(&hub, provider.addr));
    let agent = dubbo_consumer(&hub, "[defaults]\nidempotent = [\"echo\"]\neject_ms = 30000\n");
    let mut consumer = DubboConsumer::to(&agent);
    wait_until("the first endpoint", || {
        (consumer.call("echo", "x", &[("timeout", "200")]).status == Status::Ok).then_some(())
    });
    // One that hung before, when we looked whether all is ready, gets few: three are too few.
    for token in 0..300 {
        let body = body(SERVICE, "echo", &token.to_string(), &[("timeout", "60000")]);
        consumer.send(HESSIAN2, &body, token);
    }
    for _ in 0..300 {
        let (token, answer) = consumer.answer();
        assert_eq!(answer.value(), string(&token.to_string()), "{}", answer.text());
    }
    assert!(0 < providers[0].n_requests(), "none went to the one that hangs");
}

#[test]
fn a_consumer_that_leaves_takes_its_calls_along() {
    let hub = MemoryHub::new();
    let hang = FakeProvider::start(Behaviour::Hang);
    let _registered = register(&hub, hang.addr);
    let agent = dubbo_consumer(&hub, "[defaults]\nmax_in_flight = 10");
    for round in 1..=3 {
        let mut consumer = DubboConsumer::to(&agent);
        for token in 0..10 {
            consumer.send(HESSIAN2, &body(SERVICE, "echo", "x", &[]), token);
        }
        // A probe of the round before may be counted late.
        wait_until("all calls", || (10 * round <= hang.n_requests()).then_some(()));
        drop(consumer);
        // Their places are free again, or the next round would be refused.
        let mut probe = DubboConsumer::to(&agent);
        wait_until("room", || {
            let answer = probe.call("echo", "x", &[("timeout", "1")]);
            (answer.status == Status::ServerTimeout).then_some(())
        });
        hang.n_requests.store(10 * round, std::sync::atomic::Ordering::SeqCst);
    }
}

#[test]
fn a_drain_asks_consumers_to_leave_and_answers_what_came() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = dubbo_consumer(&hub, "");
    let mut consumer = DubboConsumer::to(&agent);
    ready(&mut consumer);
    let draining = std::thread::spawn(move || block_on(agent.drain()).unwrap());
    assert_eq!(consumer.next(), Some(ClientEvent::ReadOnly));
    assert_eq!(consumer.next(), None, "the connection closes when it is quiet");
    assert!(draining.join().unwrap().complete);
}

#[test]
fn other_protocols_and_slow_readers_are_cut_off() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Long);
    let _registered = register(&hub, provider.addr);
    let agent = dubbo_consumer(&hub, "");
    let mut consumer = DubboConsumer::to(&agent);
    consumer.stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert_eq!(consumer.stream.read(&mut [0; 100]).unwrap_or(0), 0);

    // Answers of 200 MB to one who never reads them.
    let mut consumer = DubboConsumer::to(&agent);
    ready(&mut consumer);
    consumer.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let request = body(SERVICE, "echo", "x", &[]);
    let mut frame = vec![0xda, 0xbb, 0xc2, 0];
    frame.extend_from_slice(&[0; 8]);
    frame.extend_from_slice(&u32::try_from(request.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(&request);
    for _ in 0..200 {
        if consumer.stream.write_all(&frame).is_err() {
            break;
        }
    }
    // Nobody else notices.
    assert_eq!(DubboConsumer::to(&agent).call("echo", "x", &[]).status, Status::Ok);
}

#[test]
fn what_is_exported_is_there_for_dubbo_consumers() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let app = provider.addr;
    let agent =
        dubbo_exporting(&hub, &format!("interface = \"{SERVICE}\"\napp = \"dubbo://{app}\"\n"));
    let addr = agent.addresses().dubbo_exports.unwrap();
    let mut consumer = DubboConsumer::connect(addr);
    ready(&mut consumer);
    assert_eq!(consumer.call("attachment", "", &[("colour", "red")]).value(), string("red"));
    let answer = consumer.call("echo", "x", &[("path", "com.acme.Secret")]);
    assert_eq!(answer.status, Status::ServiceNotFound, "{}", answer.text());
    consumer.send_one_way(HESSIAN2, &body(SERVICE, "echo", "gone", &[]));
    let n_requests = provider.n_requests();
    wait_until("the one-way call", || (n_requests <= provider.n_requests()).then_some(()));

    // As consumers see it in the registry; other agents see its link alone.
    let url = wait_until("the registration", || {
        hub.urls().into_iter().find(|url| url.starts_with("dubbo://"))
    });
    for part in ["application=shop", "side=provider", "interface=com.acme.Hello", "dubbo=2.0.2"] {
        assert!(url.contains(part), "{part} is not in {url}");
    }
    let (caller, mut n_calls) = (dubbo_consumer(&hub, ""), provider.n_requests());
    let mut consumer = DubboConsumer::to(&caller);
    ready(&mut consumer);
    n_calls = provider.n_requests() - n_calls;
    assert!(0 < n_calls);

    provider.kill();
    let mut consumer = DubboConsumer::connect(addr);
    let answer = wait_until("the app's absence", || {
        let answer = consumer.call("echo", "x", &[]);
        (answer.status == Status::ServerError).then_some(answer)
    });
    assert!(answer.text().contains("unreachable"), "{}", answer.text());
}

/// What a connection remembers of requests that look alike does not outlive what it was found by.
#[test]
fn a_reload_reaches_requests_that_look_like_those_before() {
    let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Hang));
    let export = format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n", provider.addr);
    let agent = dubbo_exporting(&hub, &format!("{export}[defaults]\nmax_timeout_ms = 600000\n"));
    let mut consumer = DubboConsumer::connect(agent.addresses().dubbo_exports.unwrap());
    let request = body(SERVICE, "echo", "x", &[("timeout", "600000")]);
    for token in 0..3 {
        consumer.send(HESSIAN2, &request, token);
    }
    wait_until("the requests", || (provider.n_requests() == 3).then_some(()));
    let text = dubbo_exports(&format!(
        "{export}[defaults]\nmax_timeout_ms = 100\ntimeout_ms = 100\nconnect_timeout_ms = 100\n"
    ));
    let plan = block_on(agent.reload(config::parse(&text, "test.toml").unwrap())).unwrap();
    assert_eq!(plan.changed, ["defaults"]);
    // The worker hears of it in a moment of its own.
    wait_until("the shorter time", || {
        consumer.send(HESSIAN2, &request, 3);
        consumer.hears(Duration::from_secs(1)).then_some(())
    });
    let (token, answer) = consumer.answer();
    assert_eq!((token, answer.status), (3, Status::ServerTimeout), "{}", answer.text());
}

#[test]
fn an_http_app_is_a_dubbo_provider() {
    let hub = MemoryHub::new();
    let app = TestApp::start(|request| match &*request.path {
        "/com.acme.Hello/echo" => Does::json(request.body.trim_matches(['[', ']'])),
        _ => Does::status(404, "{}"),
    });
    let export = format!("interface = \"{SERVICE}\"\napp = \"http://{}\"\n", app.addr);
    let agent = dubbo_exporting(&hub, &export);
    let mut consumer = DubboConsumer::connect(agent.addresses().dubbo_exports.unwrap());
    ready(&mut consumer);
    assert_eq!(consumer.call("echo", "snö", &[]).value(), string("snö"));
    assert_eq!(consumer.call("$echo", "ping", &[]).value(), string("ping"));
    assert_ne!(consumer.call("other", "x", &[]).body[0], 0x91);
    // By another agent, over its link.
    let caller = dubbo_consumer(&hub, "");
    let mut consumer = DubboConsumer::to(&caller);
    ready(&mut consumer);
    assert_eq!(consumer.call("echo", "far", &[]).value(), string("far"));
}
