//! Real Dubbo consumers call real Dubbo providers through one agent and through two, by URL and by
//! registry, in every serialization that both have: each call ends as it does without an agent.

mod interop_support;

use std::fmt::Write as _;
use std::net::SocketAddr;

use interop_harness::{
    ConsumerOptions, DubboVersion, Etcd, JavaConsumer, JavaProvider, ProviderOptions, free_port,
};
use interop_support::{Agent, HELLO, PATIENCE, SESSION, TYPES};

const V2_7: DubboVersion = DubboVersion::V2_7;
const V3_3: DubboVersion = DubboVersion::V3_3;

/// The interfaces, versions and groups of the providers.
const SERVICES: [(&str, &str, &str); 3] =
    [(HELLO, "", ""), (TYPES, "", ""), (TYPES, "2.0.0", "blue")];

fn provider(version: DubboVersion, serialization: &str) -> JavaProvider {
    let serialization = serialization.to_owned();
    JavaProvider::start(version, ProviderOptions { serialization, ..ProviderOptions::default() })
        .unwrap()
}

const COMMON: &str = "[agent]\nworkers = 2\n[log]\nformat = \"json\"\n\
                      [admin]\nlisten = \"127.0.0.1:0\"\n";

/// An agent that takes Dubbo calls and finds all services at one endpoint.
fn consumers_agent(endpoint: &str) -> (Agent, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut list = String::new();
    for (interface, version, group) in SERVICES {
        let _ = writeln!(
            list,
            "[[service]]\ninterface = \"{interface}\"\nversion = \"{version}\"\n\
             group = \"{group}\"\nendpoints = [\"{endpoint}\"]"
        );
    }
    let path = folder.path().join("services.toml");
    std::fs::write(&path, list).unwrap();
    let path = path.display();
    let text = format!(
        "{COMMON}[[registry]]\nkind = \"file\"\npath = \"{path}\"\n\
         [[ingress]]\nprotocol = \"dubbo\"\nlisten = \"127.0.0.1:0\"\n"
    );
    (Agent::start("consumer", &text), folder)
}

/// An agent that offers all services of the app at `app` in `etcd`; `listeners` are its sections.
fn providers_agent(app: SocketAddr, etcd: &Etcd, listeners: &str) -> Agent {
    let url = etcd.client_url();
    let mut text = format!(
        "{COMMON}[[registry]]\nkind = \"etcd\"\nendpoints = [\"{url}\"]\nlease_ttl_s = {}\n{listeners}",
        SESSION.as_secs()
    );
    for (interface, version, group) in SERVICES {
        let _ = write!(text, "[[export]]\ninterface = \"{interface}\"\napp = \"dubbo://{app}\"\n");
        for (key, value) in [("version", version), ("group", group)] {
            if !value.is_empty() {
                let _ = writeln!(text, "{key} = \"{value}\"");
            }
        }
    }
    Agent::start("provider", &text)
}

/// Makes all calls; what goes wrong that does not go wrong without an agent fails the test.
fn check(consumer: DubboVersion, provider: DubboVersion, serialization: &str, url: &str) {
    let options = ConsumerOptions::between(consumer, provider, serialization, url);
    let printed = JavaConsumer::start(consumer, &options).unwrap().finish(PATIENCE);
    let printed = printed
        .unwrap_or_else(|error| panic!("{consumer:?} {provider:?} {serialization}: {error}"));
    let n_calls = printed.lines().filter(|line| line.contains(" = ")).count();
    assert!(50 < n_calls, "{consumer:?} {provider:?} {serialization}: {printed}");
}

fn through_one_agent(version: DubboVersion) {
    for serialization in version.serializations() {
        let provider = provider(version, serialization);
        let (agent, _folder) = consumers_agent(&format!("dubbo://{}", provider.addr()));
        let url = format!("dubbo://{}", agent.dubbo());
        for consumer in DubboVersion::ALL {
            if consumer.shares(version, serialization) {
                check(consumer, version, serialization, &url);
            }
        }
    }
}

#[test]
fn through_one_agent_to_2_6() {
    through_one_agent(DubboVersion::V2_6);
}

#[test]
fn through_one_agent_to_2_7() {
    through_one_agent(V2_7);
}

#[test]
fn through_one_agent_to_3_2() {
    through_one_agent(DubboVersion::V3_2);
}

#[test]
fn through_one_agent_to_3_3() {
    through_one_agent(V3_3);
}

/// The consumer's agent finds the provider's by its link, and it is whole requests that travel there.
#[test]
fn through_two_agents() {
    let etcd = Etcd::start().unwrap();
    for version in [V2_7, V3_3] {
        for serialization in version.serializations() {
            let provider = provider(version, serialization);
            let listener = "[link]\nlisten = \"127.0.0.1:0\"\n";
            let providers = providers_agent(provider.addr(), &etcd, listener);
            let (agent, _folder) = consumers_agent(&format!("link://{}", providers.link()));
            let url = format!("dubbo://{}", agent.dubbo());
            for consumer in [V2_7, V3_3] {
                if consumer.shares(version, serialization) {
                    check(consumer, version, serialization, &url);
                }
            }
        }
    }
}

/// Consumers find the provider's agent in their registry, and take it for the provider.
#[test]
fn by_registry() {
    let etcd = Etcd::start().unwrap();
    for version in [V2_7, V3_3] {
        let provider = provider(version, "hessian2");
        let (dubbo, link) = (free_port(), free_port());
        let listeners = format!(
            "[dubbo]\nlisten = \"127.0.0.1:{dubbo}\"\napplication = \"types\"\n\
             [link]\nlisten = \"127.0.0.1:{link}\"\n"
        );
        let mut agent = providers_agent(provider.addr(), &etcd, &listeners);
        for consumer in [V2_7, V3_3] {
            check(consumer, version, "hessian2", &format!("etcd://{}", etcd.addr()));
        }
        assert!(0 < agent.n_exported(TYPES), "the calls came through the agent");
        agent.terminate();
        agent.wait();
    }
}
