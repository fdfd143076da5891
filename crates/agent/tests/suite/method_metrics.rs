//! Calls over HTTP are counted by method, and names that callers make up take no room.

use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, call, consumer_with_metrics, metric, register,
    register_service, wait_until,
};
use registry::MemoryHub;

const FAILING: &str = "com.acme.Failing";

#[test]
fn a_method_counts_under_its_name_once_it_was_answered() {
    let hub = MemoryHub::new();
    let good = FakeProvider::start(Behaviour::Good);
    let fails = FakeProvider::start(Behaviour::Fails);
    let _registered = [register(&hub, good.addr), register_service(&hub, FAILING, fails.addr)];
    let agent = consumer_with_metrics(&hub, "");
    let echo = || call(&agent, "echo", &[STRING], "[\"a\"]").status;
    wait_until("an answer", || (echo() == 200).then_some(()));
    let count = |service: &str, method: &str, code: &str| {
        let labels = format!("service=\"{service}\",method=\"{method}\",code=\"{code}\"");
        metric(&agent, &format!("dubmesh_method_calls_total{{{labels}}}"))
    };
    let took = |outcome: &str| {
        let labels = format!("service=\"{SERVICE}\",method=\"echo\",outcome=\"{outcome}\"");
        metric(&agent, &format!("dubmesh_method_latency_seconds_count{{{labels}}}"))
    };
    let before = count(SERVICE, "echo", "ok");
    assert!(1 <= before);
    for _ in 0..3 {
        assert_eq!(echo(), 200);
    }
    assert_eq!(count(SERVICE, "echo", "ok"), before + 3);
    assert_eq!((took("ok"), took("failed")), (before + 3, 0));
    // Arguments that do not fit are a failure of a method that is known.
    assert_eq!(call(&agent, "echo", &[STRING], "[{\"a\":1}]").status, 400);
    assert_eq!((took("ok"), took("failed")), (before + 3, 1));

    let failed = |n: usize| {
        let path = format!("/{FAILING}/madeUp{n}");
        Http::to(&agent).post(&path, &[STRING], "[\"a\"]").code()
    };
    let code = wait_until("the other provider", || {
        let code = failed(0);
        (fails.n_requests() != 0).then_some(code)
    });
    let before = count(FAILING, "other", &code);
    for n in 1..4 {
        assert_eq!(failed(n), code);
        assert_eq!(count(FAILING, &format!("madeUp{n}"), &code), 0);
    }
    assert_eq!(count(FAILING, "other", &code), before + 3);
}
