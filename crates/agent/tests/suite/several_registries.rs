//! Services that are in several registries, and move from one to the other.

use std::sync::atomic::Ordering;

use registry::{MemoryHub, RegistryConfig};

use crate::support;
use crate::support::{Behaviour, FakeProvider, SERVICE, STRING, call, register, wait_until};
use agent::{Agent, config};

/// An agent over a registry that is away, and two that are there, in this order; `more` lines tell
/// more about them.
fn consumer(mode: &str, more: &str, old: &MemoryHub, new: &MemoryHub) -> Agent {
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 1\ndrain_ms = 5000\n\
         [defaults]\nbalance = \"round-robin\"\n\
         [[registry]]\nname = \"all\"\nkind = \"several\"\nof = [\"away\", \"old\", \"new\"]\n\
         mode = \"{mode}\"{more}\n\
         [[registry]]\nname = \"away\"\nkind = \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\n\
         [[registry]]\nname = \"old\"\nkind = \"file\"\npath = \"x\"\n\
         [[registry]]\nname = \"new\"\nkind = \"file\"\npath = \"x\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\nregistry = \"all\"\n"
    );
    let mut config = config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    for (name, hub) in [("old", old), ("new", new)] {
        let entry = config.registries.iter_mut().find(|it| it.name == name).unwrap();
        entry.config = RegistryConfig::Memory(hub.clone());
    }
    Agent::start(config).unwrap()
}

fn answer(agent: &Agent) -> u16 {
    call(agent, "echo", &[STRING], "[\"x\"]").status
}

fn wait_for_calls(agent: &Agent, provider: &FakeProvider, what: &str) {
    let before = provider.n_requests.load(Ordering::SeqCst);
    wait_until(what, || {
        assert_eq!(answer(agent), 200);
        (before < provider.n_requests.load(Ordering::SeqCst)).then_some(())
    });
}

#[test]
fn a_service_moves_from_one_registry_to_the_other_without_a_lost_call() {
    let (old, new) = (MemoryHub::new(), MemoryHub::new());
    let provider = FakeProvider::start(Behaviour::Good);
    let in_old = register(&old, provider.addr);
    let agent = consumer("merged", "", &old, &new);
    wait_until("the first answer", || (answer(&agent) == 200).then_some(()));
    let mut http = support::Http::connect(agent.addresses().admin.unwrap());
    http.send("GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    assert_eq!(http.read().status, 200, "one registry that is away keeps nobody from serving");

    // The same endpoint in both is one endpoint; then the other list alone has it.
    let in_new = register(&new, provider.addr);
    let other = FakeProvider::start(Behaviour::Good);
    let _other_in_new = register(&new, other.addr);
    wait_for_calls(&agent, &other, "a call of the provider that is only in the new registry");
    http.send(format!("GET /endpoints?service={SERVICE} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"));
    let body = http.read().body;
    assert_eq!(body.matches(&format!("\"{}\"", provider.addr)).count(), 1, "{body}");
    let listed_by = |name: &str| body.matches(&format!("\"listed_by\":\"{name}\"")).count();
    assert_eq!((listed_by("old"), listed_by("new")), (1, 1), "{body}");
    drop(in_old);
    wait_for_calls(&agent, &provider, "a call of the provider that has moved");
    drop(in_new);
    wait_for_calls(&agent, &other, "a call of the provider that is left");
}

/// Weights in the registries do not count against the shares of the configuration.
#[test]
fn registries_get_their_shares() {
    let (old, new) = (MemoryHub::new(), MemoryHub::new());
    let providers: Vec<_> = (0..3).map(|_| FakeProvider::start(Behaviour::Good)).collect();
    let _in_old: Vec<_> = providers[..2].iter().map(|it| register(&old, it.addr)).collect();
    let _in_new = register(&new, providers[2].addr);
    let agent = consumer("merged", "\nshares = { old = 1, new = 9 }", &old, &new);
    wait_until("the first answer", || (answer(&agent) == 200).then_some(()));
    let n_calls = |n: usize| providers[n].n_requests.load(Ordering::SeqCst);
    // Calls before all of them are connected may go elsewhere.
    wait_until("all of them to be called", || {
        assert_eq!(answer(&agent), 200);
        (0..3).all(|n| 0 < n_calls(n)).then_some(())
    });
    let before = n_calls(2);
    for _ in 0..400 {
        assert_eq!(answer(&agent), 200);
    }
    let share = n_calls(2) - before;
    assert!((340..=380).contains(&share), "{share} of 400");
}

#[test]
fn the_next_registry_counts_when_the_one_before_has_nobody() {
    let (old, new) = (MemoryHub::new(), MemoryHub::new());
    let (preferred, spare) =
        (FakeProvider::start(Behaviour::Good), FakeProvider::start(Behaviour::Good));
    let in_old = register(&old, preferred.addr);
    let _in_new = register(&new, spare.addr);
    let agent = consumer("failover", "", &old, &new);
    wait_until("the first answer", || (answer(&agent) == 200).then_some(()));
    for _ in 0..10 {
        assert_eq!(answer(&agent), 200);
    }
    assert_eq!(spare.n_requests.load(Ordering::SeqCst), 0);
    drop(in_old);
    drop(preferred);
    wait_until("a call of the spare one", || {
        answer(&agent);
        (0 < spare.n_requests.load(Ordering::SeqCst)).then_some(())
    });
}

/// Its rules, its list and its definitions are not waited for.
#[test]
fn the_first_call_does_not_wait_for_a_registry_that_is_away() {
    let (old, new) = (MemoryHub::new(), MemoryHub::new());
    let provider = FakeProvider::start(Behaviour::Good);
    let _in_old = register(&old, provider.addr);
    let agent = consumer("merged", "", &old, &new);
    let mut http = support::Http::connect(agent.addresses().admin.unwrap());
    wait_until("the failure of the registry that is away", || {
        http.send("GET /registries HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        http.read().body.contains("127.0.0.1:1").then_some(())
    });
    assert_eq!(answer(&agent), 200);
}
