//! A reload adds, changes and removes exports, and no call is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Scope;

use crate::support;
use crate::support::dubbo::DubboConsumer;
use crate::support::http_app::{Does, TestApp};
use crate::support::{
    Behaviour, FakeProvider, SERVICE, STRING, block_on, call, consumer, request, start, wait_until,
};
use agent::{Agent, config};
use dubbo_proto::Status;
use registry::{MemoryHub, RegistryConfig};

const LINK: &str = "[link]\nlisten = \"127.0.0.1:0\"\n";

/// An agent for other agents and for Dubbo's consumers, with these exports.
fn agent(exports: &str) -> String {
    format!(
        "[admin]\nenabled = false\n[agent]\nworkers = 2\ndrain_ms = 5000\n\
         [[registry]]\nname = \"main\"\nkind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n\
         {LINK}[dubbo]\nlisten = \"127.0.0.1:0\"\napplication = \"shop\"\n\
         {exports}"
    )
}

fn export(service: &str, app: &str) -> String {
    format!("[[export]]\ninterface = \"{service}\"\napp = \"{app}\"\n")
}

fn dubbo(provider: &FakeProvider) -> String {
    export(SERVICE, &format!("dubbo://{}", provider.addr))
}

/// Reloads, and returns what has changed.
fn reload(agent: &Agent, hub: &MemoryHub, text: &str) -> Vec<String> {
    let mut config = config::parse(text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    for registry in &mut config.registries {
        registry.config = RegistryConfig::Memory(hub.clone());
    }
    let plan = block_on(agent.reload(config)).unwrap();
    assert_eq!(plan.needs_restart, [""; 0]);
    plan.changed
}

/// Calls all the time; each call has to be answered.
fn call_on<'s>(
    scope: &'s Scope<'s, '_>,
    agent: &'s Agent,
    is_over: &'s AtomicBool,
) -> std::thread::ScopedJoinHandle<'s, usize> {
    scope.spawn(move || {
        let mut n_calls = 0;
        while !is_over.load(Ordering::SeqCst) {
            let answer = call(agent, "echo", &[STRING], "[\"x\"]");
            assert_eq!((answer.status, &*answer.body), (200, "\"x\""), "call {n_calls}");
            n_calls += 1;
        }
        n_calls
    })
}

#[test]
fn another_app_takes_over() {
    let hub = MemoryHub::new();
    let [old, new] = [0; 2].map(|_| FakeProvider::start(Behaviour::Good));
    let exporting = start(&agent(&dubbo(&old)), &hub);
    let calling = consumer(&hub, "");
    wait_until("an answer", || {
        (call(&calling, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    let mut consumer = DubboConsumer::connect(exporting.addresses().dubbo_exports.unwrap());
    assert_eq!(consumer.call("echo", "x", &[]).status, Status::Ok);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let callers = [0; 2].map(|_| call_on(scope, &calling, &is_over));
        let changed = reload(&exporting, &hub, &agent(&dubbo(&new)));
        assert_eq!(changed, [format!("export of {SERVICE}")]);
        wait_until("calls of the other app", || (20 < new.n_requests()).then_some(()));
        assert_eq!(consumer.call("echo", "x", &[]).status, Status::Ok);
        let n_before = old.n_requests();
        let n_new = new.n_requests();
        wait_until("more of them", || (n_new + 20 < new.n_requests()).then_some(()));
        assert_eq!(old.n_requests(), n_before, "nobody calls the app that was");
        is_over.store(true, Ordering::SeqCst);
        let n_calls: usize = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
        assert!(20 < n_calls);
    });
}

#[test]
fn services_come_and_go() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let app = TestApp::start(|_| Does::json("\"from the other\""));
    let staying = export("com.acme.Other", &format!("http://{}", app.addr));
    let both = agent(&format!("{staying}{}", dubbo(&provider)));
    let one = agent(&staying);
    let exporting = start(&one, &hub);
    let calling = consumer(&hub, "");
    assert_eq!(call(&calling, "echo", &[STRING], "[\"x\"]").code(), "service_not_found");
    for _ in 0..2 {
        let changed = reload(&exporting, &hub, &both);
        assert_eq!(changed, [format!("new export of {SERVICE}")]);
        wait_until("an answer", || {
            (call(&calling, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
        });
        let changed = reload(&exporting, &hub, &one);
        assert_eq!(changed, [format!("removed export of {SERVICE}")]);
        wait_until("its end", || {
            let answer = call(&calling, "echo", &[STRING], "[\"x\"]");
            (answer.status != 200).then_some(())
        });
        let mut http = support::Http::to(&calling);
        http.send(request("/com.acme.Other/say", &[STRING], "[\"x\"]"));
        assert_eq!(http.read().body, "\"from the other\"");
    }
}

/// The last one may go as well, and others may come where there was none.
#[test]
fn the_last_export_can_be_removed() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let exporting = start(&agent(""), &hub);
    let calling = consumer(&hub, "");
    for _ in 0..2 {
        let changed = reload(&exporting, &hub, &agent(&dubbo(&provider)));
        assert_eq!(changed, [format!("new export of {SERVICE}")]);
        wait_until("an answer", || {
            (call(&calling, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
        });
        let changed = reload(&exporting, &hub, &agent(""));
        assert_eq!(changed, [format!("removed export of {SERVICE}")]);
        wait_until("its end", || {
            (call(&calling, "echo", &[STRING], "[\"x\"]").status != 200).then_some(())
        });
    }
}

/// Who has called it is told that nobody offers it any more, and not that there never was such a
/// service: whether its agent can say so by a link, or is called as a Dubbo provider.
#[test]
fn callers_of_a_removed_export_hear_that_it_has_left() {
    for link in ["", LINK] {
        let shaped = |text: String| text.replace(LINK, link);
        let hub = MemoryHub::new();
        let provider = FakeProvider::start(Behaviour::Good);
        let exporting = start(&shaped(agent(&dubbo(&provider))), &hub);
        let calling = consumer(&hub, "");
        // One connection, for one worker: the other one has never known the service.
        let mut http = support::Http::to(&calling);
        let mut one_call = || http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"x\"]");
        wait_until("an answer", || (one_call().status == 200).then_some(()));
        reload(&exporting, &hub, &shaped(agent("")));
        let left = wait_until("its end", || {
            let answer = one_call();
            (answer.status != 200).then_some(answer)
        });
        assert_eq!((left.status, &*left.code()), (503, "no_endpoint"), "{left:?}");
    }
}

/// Another agent offers the service, too: callers go there, and none of their calls fails.
#[test]
fn a_removed_export_costs_no_call() {
    let hub = MemoryHub::new();
    let [leaving, staying] = [0; 2].map(|_| FakeProvider::start(Behaviour::Good));
    let app = TestApp::start(|_| Does::json("1"));
    let other = export("com.acme.Other", &format!("http://{}", app.addr));
    let exporting = start(&agent(&format!("{other}{}", dubbo(&leaving))), &hub);
    let _staying = start(&agent(&dubbo(&staying)), &hub);
    let calling = consumer(&hub, "");
    wait_until("both", || {
        call(&calling, "echo", &[STRING], "[\"x\"]");
        (leaving.n_requests() != 0 && staying.n_requests() != 0).then_some(())
    });
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let callers = [0; 2].map(|_| call_on(scope, &calling, &is_over));
        reload(&exporting, &hub, &agent(&other));
        wait_until("the end of connections to the app", || {
            let n_before = leaving.n_requests();
            let n_staying = staying.n_requests();
            wait_until("calls", || (n_staying + 20 < staying.n_requests()).then_some(()));
            (leaving.n_requests() == n_before && leaving.n_open() == 0).then_some(())
        });
        is_over.store(true, Ordering::SeqCst);
        for caller in callers {
            assert_ne!(caller.join().unwrap(), 0);
        }
    });
}
