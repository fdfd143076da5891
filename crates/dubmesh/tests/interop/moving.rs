//! A service that moves from one registry to another while it is called, in real stores.

use std::time::Duration;

use crate::support::discovery::nacos;
use crate::support::{Agent, HELLO, HelloLoad, get, java, post, wait_until};
use interop_harness::{DubboVersion, Etcd, ZooKeeper, free_port};

/// What both sides of a configuration begin with.
const COMMON: &str = "[agent]\nworkers = 2\ndrain_ms = 20000\n[log]\nformat = \"json\"\n[admin]\n\
    listen = \"127.0.0.1:0\"\n[defaults]\ntimeout_ms = 20000\n";

/// A registry of a configuration, by its kind, which is its name as well.
struct Registry {
    kind: &'static str,
    endpoint: String,
}

impl Registry {
    fn section(&self) -> String {
        let Self { kind, endpoint } = self;
        format!(
            "[[registry]]\nname = \"{kind}\"\nkind = \"{kind}\"\nendpoints = [\"{endpoint}\"]\n"
        )
    }
}

fn consumer(registries: &[Registry]) -> Agent {
    let sections: String = registries.iter().map(Registry::section).collect();
    let names: Vec<_> = registries.iter().map(|it| it.kind).collect();
    Agent::start(
        "consumer",
        &format!(
            "{COMMON}{sections}[[registry]]\nname = \"all\"\nkind = \"several\"\nof = {names:?}\n\
             [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\nregistry = \"all\"\n"
        ),
    )
}

/// An agent that registers the service in one registry.
fn provider(registry: &Registry, app: &str) -> Agent {
    let (section, port) = (registry.section(), free_port());
    Agent::start(
        "provider",
        &format!(
            "{COMMON}{section}[link]\nlisten = \"127.0.0.1:{port}\"\n[[export]]\n\
             interface = \"{HELLO}\"\napp = \"{app}\"\n"
        ),
    )
}

/// Which registries list an endpoint, as the agent shows it.
fn is_listed_by(agent: &Agent, kind: &str) -> bool {
    let page = get(agent.admin(), "/endpoints");
    page.is_some_and(|(_, body)| body.contains(&format!("\"listed_by\":\"{kind}\"")))
}

/// Nacos takes part where rnacos is installed.
#[test]
fn a_service_moves_between_real_stores_without_a_lost_call() {
    let (zookeeper, etcd) = (ZooKeeper::start().unwrap(), Etcd::start().unwrap());
    let nacos = nacos();
    let registry = |kind, endpoint| Registry { kind, endpoint };
    let mut registries = vec![registry("zookeeper", zookeeper.addr().to_string())];
    registries.extend(nacos.as_ref().map(|it| registry("nacos", it.addr().to_string())));
    registries.push(registry("etcd", etcd.client_url()));

    let app = java(DubboVersion::V2_7, None, Duration::ZERO);
    let consumer = consumer(&registries);
    let mut current = provider(&registries[0], &app.url());
    wait_until("the first endpoint", || {
        let call = post(consumer.http(), &format!("/{HELLO}/hash"), &[], "[\"a\"]");
        call.status == 200
    });
    let load = HelloLoad::start(consumer.http(), 4);
    load.wait_for(100);
    for registry in &registries[1..] {
        let next = provider(registry, &app.url());
        wait_until("calls by the new way", || 10 < next.n_exported(HELLO));
        assert!(is_listed_by(&consumer, registry.kind), "{}", consumer.tail());
        current.terminate();
        assert!(current.wait().success());
        current = next;
        load.wait_for(500);
    }
    load.stop().assert_all_ok();
}
