//! Dubbo consumers of an export that hang up while their calls are under way.

use std::net::SocketAddr;
use std::time::Duration;

use agent::Agent;
use dubbo_proto::{Serialization, Status};
use registry::MemoryHub;

use crate::support::dubbo::{DubboConsumer, body};
use crate::support::http_app::{Does, TestApp};
use crate::support::pool::PoolProvider;
use crate::support::{Behaviour, FakeProvider, SERVICE, dubbo_exports, metric, start, wait_until};

/// An agent before an app, which shows its metrics.
fn agent_before(app: &str, lines: &str) -> Agent {
    let export = format!("interface = \"{SERVICE}\"\napp = \"{app}\"\n{lines}\n");
    let text = dubbo_exports(&export).replace("enabled = false", "listen = \"127.0.0.1:0\"");
    start(&text, &MemoryHub::new())
}

/// A consumer that has sent one call of a method.
fn calling(agent: &Agent, method: &str) -> DubboConsumer {
    let mut consumer = DubboConsumer::connect(agent.addresses().dubbo_exports.unwrap());
    consumer.send(Serialization::Hessian2, &body(SERVICE, method, "x", &[]), 1);
    consumer
}

fn n_in_flight(agent: &Agent) -> u64 {
    metric(agent, &format!("dubmesh_export_in_flight{{service=\"{SERVICE}\"}}"))
}

fn have_ended(agent: &Agent) {
    wait_until("the end of all calls", || (n_in_flight(agent) == 0).then_some(()));
}

/// Has a call be in the app, which never answers it.
fn check(agent: &Agent) {
    let consumer = calling(agent, "hang");
    wait_until("the call", || (n_in_flight(agent) == 1).then_some(()));
    drop(consumer);
    have_ended(agent);
    let labels = format!("service=\"{SERVICE}\",code=\"cancelled\"");
    assert_eq!(metric(agent, &format!("dubmesh_export_calls_total{{{labels}}}")), 1);
}

#[test]
fn a_call_in_the_app_ends_with_its_caller() {
    let silent = FakeProvider::start(Behaviour::Hang);
    check(&agent_before(&format!("dubbo://{}", silent.addr), ""));
    let silent = TestApp::start(|_| Does::Hang);
    check(&agent_before(&format!("http://{}", silent.addr), ""));
}

#[test]
fn a_call_that_has_waited_at_the_gate_ends_with_its_caller() {
    let app = PoolProvider::start(1, Duration::from_millis(500), true);
    let agent = agent_before(&format!("dubbo://{}", app.addr), "capacity = 1");
    let address: SocketAddr = agent.addresses().dubbo_exports.unwrap();
    let ready = || DubboConsumer::connect(address).call("echo", "x", &[]).status == Status::Ok;
    wait_until("the app", || ready().then_some(()));
    have_ended(&agent);

    let mut first = calling(&agent, "echo");
    wait_until("the first call", || (n_in_flight(&agent) == 1).then_some(()));
    let second = calling(&agent, "echo");
    let n_waiting = format!("dubmesh_app_waiting{{app=\"{}\"}}", app.addr);
    wait_until("the second call", || (metric(&agent, &n_waiting) == 1).then_some(()));
    first.answer();
    wait_until("the second call's turn", || (n_in_flight(&agent) == 1).then_some(()));
    drop(second);
    have_ended(&agent);
}
