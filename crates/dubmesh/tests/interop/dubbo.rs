//! Real Dubbo consumers find a provider's agent in their registry, and take it for the provider.

use std::fmt::Write as _;

use crate::support::{Agent, HELLO, Layout, PATIENCE, TYPES, common};
use interop_harness::{
    ConsumerOptions, DubboVersion, Etcd, JavaConsumer, JavaProvider, ProviderOptions, free_port,
};

const USERS: &str = "org.dubmesh.interop.UserService";
/// What each provider publishes: interface, group and version.
const SERVICES: [(&str, &str, &str); 4] =
    [(HELLO, "", ""), (TYPES, "", ""), (USERS, "", ""), (TYPES, "blue", "2.0.0")];

/// An agent that offers all services of the app at `app` to other agents and to Dubbo's consumers.
fn agent_of(app: &str, etcd: &Etcd) -> Agent {
    let (link, dubbo) = (free_port(), free_port());
    let mut text = format!(
        "{}[link]\nlisten = \"127.0.0.1:{link}\"\n\
         [dubbo]\nlisten = \"127.0.0.1:{dubbo}\"\napplication = \"types\"\n",
        common("provider", etcd, Layout::Dubbo)
    );
    for (interface, group, version) in SERVICES {
        let _ = writeln!(text, "[[export]]\ninterface = \"{interface}\"\napp = \"dubbo://{app}\"");
        if !group.is_empty() {
            let _ = writeln!(text, "group = \"{group}\"\nversion = \"{version}\"");
        }
    }
    Agent::start("provider", &text)
}

#[test]
fn by_registry() {
    let etcd = Etcd::start().unwrap();
    for version in [DubboVersion::V2_7, DubboVersion::V3_3] {
        let provider = JavaProvider::start(version, ProviderOptions::default()).unwrap();
        let mut agent = agent_of(&provider.addr().to_string(), &etcd);
        for consumer in [DubboVersion::V2_7, DubboVersion::V3_3] {
            let registry = format!("etcd://{}", etcd.addr());
            let mut options = ConsumerOptions::between(consumer, version, "hessian2", &registry);
            // Found in a registry, Dubbo makes all generic calls of an interface in the way of the
            // first one, with an agent or without.
            let others = ["generic_gson_person", "generic_bean_person"];
            options.except.extend(others.map(str::to_owned));
            let printed = JavaConsumer::start(consumer, &options).unwrap().finish(PATIENCE);
            let printed = printed.unwrap_or_else(|error| panic!("{consumer:?}: {error}"));
            let n_calls = printed.lines().filter(|line| line.contains(" = ")).count();
            assert!(50 < n_calls, "{consumer:?}: {printed}");
        }
        assert!(50 < agent.n_exported(TYPES), "the calls came through the agent");
        agent.terminate();
        agent.wait();
    }
}
