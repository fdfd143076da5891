//! A Dubbo app that starts behind its agent: it opens its port before it offers its services.

use crate::support;
use crate::support::{Behaviour, FakeProvider, SERVICE, STRING, call, consumer, wait_until};
use agent::Agent;
use registry::MemoryHub;

/// Whether a call through `agent` is answered.
fn is_answered(agent: &Agent) -> bool {
    call(agent, "echo", &[STRING], "[\"x\"]").status == 200
}

/// An app behind an agent, and an agent that calls it; the app is away again.
fn with_an_app_that_is_away(test: impl FnOnce(&Agent, std::net::SocketAddr)) {
    let hub = MemoryHub::new();
    let app = FakeProvider::start(Behaviour::Good);
    let _exporting = support::provider_agent(&hub, app.addr);
    let calling = consumer(&hub, "");
    wait_until("an answer", || is_answered(&calling).then_some(()));
    assert_eq!(app.last_request().method(), "echo", "one that is there is not asked");
    app.kill();
    wait_until("a refusal", || (!is_answered(&calling)).then_some(()));
    test(&calling, app.addr);
}

#[test]
fn it_gets_calls_once_it_offers_the_service() {
    with_an_app_that_is_away(|calling, addr| {
        let app = FakeProvider::start_at(addr, Behaviour::Exporting);
        wait_until("questions", || (2 <= app.n_requests()).then_some(()));
        assert!(!is_answered(calling));
        let asked = app.last_request();
        assert_eq!((asked.method(), asked.path()), ("$echo", SERVICE));
        app.go_on();
        wait_until("an answer", || is_answered(calling).then_some(()));
    });
}

/// It may know no `$echo`. One that hangs up once may be an old process that ends.
#[test]
fn one_that_cannot_be_asked_gets_calls_all_the_same() {
    for (behaviour, n_questions) in [(Behaviour::Close, 5), (Behaviour::Hang, 1)] {
        with_an_app_that_is_away(|calling, addr| {
            let app = FakeProvider::start_at(addr, behaviour);
            wait_until("a call", || {
                is_answered(calling);
                (app.n_requests() != 0 && app.last_request().method() == "echo").then_some(())
            });
            assert!(n_questions < app.n_requests(), "{behaviour:?}");
        });
    }
}
