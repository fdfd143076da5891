//! Two services at one provider share connections. What their clusters say of their own calls
//! counts for these alone, whichever service is called first.

use dubbo_proto::{Serialization, Status};
use registry::MemoryHub;

use crate::support::dubbo::{DubboConsumer, body};
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, consumer_with_metrics, dubbo_consumer,
    register, register_service, register_with, reload, wait_until,
};

const OTHER: &str = "com.acme.Other";
/// Nothing but the limits under test keeps a call from the provider.
const BASE: &str = "[defaults]\nmax_attempts = 1\nendpoint_capacity = 0\neject_max_percent = 0\n";

/// How many of ten calls at once reach the provider by each way in: those of `consumer`.
fn n_begun(consumer: &mut DubboConsumer, service: &str, provider: &FakeProvider) -> usize {
    let before = provider.n_requests();
    let request = body(service, "echo", "x", &[("timeout", "400")]);
    (0..10).for_each(|token| consumer.send(Serialization::Hessian2, &request, token));
    let answers = (0..10).map(|_| consumer.answer().1);
    let refused = answers.filter(|it| it.status == Status::ServerThreadpoolExhausted);
    let n_refused = refused.inspect(|it| assert!(it.text().contains("max_in_flight"))).count();
    assert_eq!(provider.n_requests() - before, 10 - n_refused);
    10 - n_refused
}

#[test]
fn a_limit_of_calls_is_that_of_the_service_that_is_called() {
    let keys = format!("{BASE}[[cluster]]\ninterface = \"{SERVICE}\"\nmax_in_flight = 2\n");
    for order in [[SERVICE, OTHER], [OTHER, SERVICE]] {
        let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Hang));
        let _registered =
            (register(&hub, provider.addr), register_service(&hub, OTHER, provider.addr));
        let agent = dubbo_consumer(&hub, &keys);
        let mut consumer = DubboConsumer::to(&agent);
        for service in order {
            // From here on there is a connection.
            let request = body(service, "echo", "x", &[("timeout", "200")]);
            consumer.send(Serialization::Hessian2, &request, 0);
            assert_eq!(consumer.answer().1.status, Status::ServerTimeout);
        }
        assert_eq!(n_begun(&mut consumer, SERVICE, &provider), 2);
        assert_eq!(n_begun(&mut consumer, OTHER, &provider), 10);
    }
}

#[test]
fn a_reload_changes_the_limit_of_endpoints_that_are_known() {
    let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Hang));
    let _registered = register(&hub, provider.addr);
    let keys = |max: u32| format!("{BASE}max_in_flight = {max}\n");
    let agent = consumer_with_metrics(&hub, &keys(8));
    let headers = [STRING, "x-dubbo-timeout-ms: 400"];
    let path = format!("/{SERVICE}/echo");
    let call = || Http::to(&agent).post(&path, &headers, "[\"x\"]").status;
    assert_eq!(call(), 504);
    for max in [8, 3, 12, 8] {
        reload(&agent, &hub, &keys(max));
        // Of two workers, each with its own calls.
        let at_once = || {
            let mut callers = [(); 40].map(|()| Http::to(&agent));
            for caller in &mut callers {
                caller.send(crate::support::request(&path, &headers, "[\"x\"]"));
            }
            callers.iter_mut().map(Http::read).filter(|answer| answer.status == 504).count()
        };
        wait_until("the limit", || (at_once() == 2 * max as usize).then_some(()));
    }
}

#[test]
fn whether_a_provider_is_told_of_the_time_left_is_that_of_the_service_that_is_called() {
    let keys = format!("[[cluster]]\ninterface = \"{SERVICE}\"\ntell_time_left = false\n");
    for order in [[SERVICE, OTHER], [OTHER, SERVICE]] {
        let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Good));
        let _registered =
            (register(&hub, provider.addr), register_service(&hub, OTHER, provider.addr));
        let agent = consumer_with_metrics(&hub, &keys);
        for service in order {
            let path = format!("/{service}/attached");
            let answer = Http::to(&agent).post(&path, &["x-dubbo-parameter-types: "], "[]");
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.body.contains("_TO"), service == OTHER, "{order:?}: {answer:?}");
        }
        // A reload counts for endpoints that are known.
        reload(&agent, &hub, "");
        wait_until("it is told", || {
            let path = format!("/{SERVICE}/attached");
            let answer = Http::to(&agent).post(&path, &["x-dubbo-parameter-types: "], "[]");
            answer.body.contains("_TO").then_some(())
        });
    }
}

/// Dubbo's consumers go by the parameter of the method first.
#[test]
fn the_timeout_of_a_method_is_the_one_that_its_provider_has_registered_for_it() {
    let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Hang));
    let params = [("timeout", "30000"), ("echo.timeout", "150")];
    let _registered = register_with(&hub, provider.addr, &params);
    let agent = consumer_with_metrics(&hub, "");
    let answer = Http::to(&agent).post(&format!("/{SERVICE}/echo"), &[STRING], "[\"x\"]");
    assert_eq!(answer.status, 504, "{answer:?}");
    assert!(answer.body.contains("within 150 ms (the timeout that"), "{answer:?}");
    let rule = "configVersion: v2.7\nscope: service\nkey: com.acme.Hello\nconfigs:\n\
                - side: consumer\n  parameters: {echo.timeout: 70}\n";
    hub.set_rule("com.acme.Hello::.configurators", Some(rule));
    wait_until("the configurator", || {
        let answer = Http::to(&agent).post(&format!("/{SERVICE}/echo"), &[STRING], "[\"x\"]");
        answer.body.contains("within 70 ms").then_some(())
    });
}

/// An endpoint that takes no more calls says why, wherever it is looked at.
#[test]
fn a_full_endpoint_says_so() {
    for (keys, why) in [
        ("endpoint_capacity = 3", "full: it takes 3 calls at once (configured)"),
        ("endpoint_capacity = 0\nmax_in_flight = 3", "at its limit: max_in_flight is 3"),
    ] {
        let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Hang));
        let _registered = register(&hub, provider.addr);
        let agent = consumer_with_metrics(&hub, &format!("[defaults]\n{keys}\n"));
        let headers = [STRING, "x-dubbo-timeout-ms: 20000"];
        let request = crate::support::request(&format!("/{SERVICE}/echo"), &headers, "[\"x\"]");
        let mut callers = Vec::new();
        for page in ["/endpoints".to_owned(), format!("/explain?service={SERVICE}&method=echo")] {
            wait_until("the reason", || {
                if callers.len() < 12 {
                    let mut caller = Http::to(&agent);
                    caller.send(&request);
                    callers.push(caller);
                }
                let mut admin = Http::connect(agent.addresses().admin.unwrap());
                admin.send(format!("GET {page} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
                admin.read().body.contains(why).then_some(())
            });
        }
    }
}
