//! An agent that starts while its registry is away.

use std::fs;

use crate::support;
use crate::support::{Behaviour, FakeProvider, SERVICE, STRING, call, wait_until};

#[test]
fn calls_go_by_what_the_registry_listed_last() {
    let (app, folder) = (FakeProvider::start(Behaviour::Good), tempfile::tempdir().unwrap());
    let list =
        format!("[[service]]\ninterface = \"{SERVICE}\"\nendpoints = [\"dubbo://{}\"]\n", app.addr);
    let snapshot = folder.path().join("snapshot.toml");
    fs::write(&snapshot, list).unwrap();
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 1\n[[registry]]\nkind = \
         \"etcd\"\nendpoints = [\"http://127.0.0.1:1\"]\nsnapshot = \"{}\"\n[[ingress]]\n\
         protocol = \"http\"\nlisten = \"127.0.0.1:0\"\n",
        snapshot.display()
    );
    let agent = agent::Agent::start(agent::config::parse(&text, "test.toml").unwrap()).unwrap();
    wait_until("an answer", || {
        (call(&agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    let mut http = support::Http::connect(agent.addresses().admin.unwrap());
    http.send("GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    assert_eq!(http.read().status, 200, "it can serve");
    http.send("GET /services HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    let body = http.read().body;
    assert!(body.contains("\"stale\""), "{body}");
}
