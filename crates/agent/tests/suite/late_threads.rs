//! Apps whose threads write their answers before they are back in the pool, which rejects a call
//! that comes in between: nobody who calls through an agent hears of that.

use std::time::Duration;

use crate::support;
use crate::support::dubbo::DubboConsumer;
use crate::support::pool::PoolProvider;
use crate::support::{
    SERVICE, STRING, block_on, call, consumer, dubbo_consumer, exporting, metric, register_with,
    start,
};
use agent::Agent;
use dubbo_proto::Status;
use registry::MemoryHub;

const MS: Duration = Duration::from_millis(1);

/// An app with a single thread, which is late.
fn app() -> PoolProvider {
    PoolProvider::with_late_threads(1, 2 * MS, 2 * MS)
}

fn all_are_answered(app: &PoolProvider, call: impl FnMut() -> bool) {
    let n_ok = std::iter::repeat_with(call).take(50).filter(|is_ok| *is_ok).count();
    // On a busy machine a thread may be later than the last repeat.
    assert!(45 <= n_ok, "{n_ok} answered, {} rejected", app.n_rejected());
    assert!(0 < app.n_rejected(), "its thread was never late");
}

fn http_call(agent: &Agent) -> bool {
    call(agent, "echo", &[STRING], "[\"a\"]").status == 200
}

#[test]
fn a_caller_by_a_link_hears_nothing_of_late_threads() {
    let (hub, app) = (MemoryHub::new(), app());
    let export = format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n", app.addr);
    let provider = support::exporting_with_admin(&hub, &format!("{export}capacity = 1\n"));
    let agent = consumer(&hub, "");
    all_are_answered(&app, || http_call(&agent));
    block_on(agent.drain());
    block_on(provider.drain());
}

/// Nor is a known capacity taken for less because of them.
#[test]
fn late_threads_do_not_lower_a_known_capacity() {
    let (hub, app) = (MemoryHub::new(), PoolProvider::with_late_threads(3, 2 * MS, 2 * MS));
    let export = format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n", app.addr);
    let provider = support::exporting_with_admin(&hub, &format!("{export}capacity = 3\n"));
    let agent = consumer(&hub, "");
    let n_ok = std::thread::scope(|scope| {
        let callers: Vec<_> =
            (0..3).map(|_| scope.spawn(|| (0..50).filter(|_| http_call(&agent)).count())).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).sum::<usize>()
    });
    let name = format!("dubmesh_app_capacity{{app=\"{}\"}}", app.addr);
    let n_rejected = app.n_rejected();
    assert!(135 <= n_ok, "{n_ok} answered, {n_rejected} rejected");
    // On a busy machine a thread may be later than the last repeat, which counts.
    assert!(n_ok < 150 || metric(&provider, &name) == 3, "{n_rejected} rejected");
    block_on(agent.drain());
    block_on(provider.drain());
}

#[test]
fn a_consumer_of_an_export_hears_nothing_of_late_threads() {
    let app = app();
    let text = support::dubbo_exports(&format!(
        "interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\ncapacity = 1\n",
        app.addr
    ));
    let agent = start(&text, &MemoryHub::new());
    let mut consumer = DubboConsumer::connect(agent.addresses().dubbo_exports.unwrap());
    all_are_answered(&app, || consumer.call("echo", "a", &[]).status == Status::Ok);
    block_on(agent.drain());
}

#[test]
fn a_caller_of_a_provider_without_an_agent_hears_nothing_of_late_threads() {
    let (hub, app) = (MemoryHub::new(), app());
    let _registered = register_with(&hub, app.addr, &[("threads", "1")]);
    let agent = consumer(&hub, "");
    all_are_answered(&app, || http_call(&agent));
    block_on(agent.drain());
}

#[test]
fn a_consumer_of_a_provider_without_an_agent_hears_nothing_of_late_threads() {
    let (hub, app) = (MemoryHub::new(), app());
    let _registered = register_with(&hub, app.addr, &[("threads", "1")]);
    let agent = dubbo_consumer(&hub, "");
    let mut consumer = DubboConsumer::to(&agent);
    all_are_answered(&app, || consumer.call("echo", "a", &[]).status == Status::Ok);
    block_on(agent.drain());
}

/// Others use its threads, or it has fewer than somebody has said.
#[test]
fn a_pool_that_is_full_is_not_asked_again_and_again() {
    let (hub, app) = (MemoryHub::new(), PoolProvider::start(1, 400 * MS, false));
    let export = format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n", app.addr);
    let provider = exporting(&hub, &format!("{export}capacity = 40\n"));
    let agent = consumer(&hub, "");
    let codes: Vec<String> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..40)
            .map(|_| {
                scope.spawn(|| {
                    let answer = call(&agent, "echo", &[STRING], "[\"a\"]");
                    if answer.status == 200 { String::new() } else { answer.code() }
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    // The capacity falls, and those who come later are shed.
    let is_told = |code: &String| ["", "thread_pool_exhausted", "overloaded"].contains(&&**code);
    assert!(codes.iter().all(is_told), "{codes:?}");
    assert!(codes.iter().any(|code| code == "thread_pool_exhausted"), "{codes:?}");
    // Nobody has paid for more repeats than a few.
    assert!(app.n_rejected() <= 40 + 20, "{} were rejected", app.n_rejected());
    block_on(agent.drain());
    block_on(provider.drain());
}
