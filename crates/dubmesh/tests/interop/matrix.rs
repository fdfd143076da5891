//! Java consumers of each version call Java providers of each version through agents, and see just
//! what they see without: every kind of call is checked by the consumer itself.
//!
//! Each version and serialization is on either side of one agent and of two. `INTEROP_FULL=1` (or
//! `make interop-full`) takes every pair, both ways.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use crate::support::{Agent, HELLO, TYPES};
use interop_harness::{
    ConsumerOptions, DubboVersion, JavaConsumer, JavaProvider, ProviderOptions, free_port,
};

use DubboVersion::{V2_6, V2_7, V3_2, V3_3};

const USERS: &str = "org.dubmesh.interop.UserService";
/// What each provider publishes: interface, group and version.
const SERVICES: [(&str, &str, &str); 4] =
    [(HELLO, "", ""), (TYPES, "", ""), (USERS, "", ""), (TYPES, "blue", "2.0.0")];
/// All calls take a consumer some seconds on a machine of its own, and minutes beside others that
/// want as much of it. This is only for what hangs.
const PATIENCE: Duration = Duration::from_secs(600);

/// How many agents stand between a consumer and a provider.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    OneAgent,
    TwoAgents,
}

/// A consumer of a provider.
type Pair = (DubboVersion, &'static str, Way);

/// The pairs of everyday runs.
fn consumers_of(provider: DubboVersion) -> &'static [Pair] {
    use Way::{OneAgent, TwoAgents};
    match provider {
        V2_6 => &[(V2_7, "fastjson", OneAgent), (V3_2, "hessian2", TwoAgents)],
        V2_7 => &[(V2_6, "hessian2", OneAgent), (V3_3, "hessian2", TwoAgents)],
        V3_2 => &[(V3_3, "fastjson2", OneAgent), (V2_7, "hessian2", TwoAgents)],
        V3_3 => &[
            (V3_2, "hessian2", OneAgent),
            (V2_6, "hessian2", TwoAgents),
            (V3_3, "fastjson2", TwoAgents),
        ],
    }
}

/// Every pair, if the environment asks for it.
fn pairs(provider: DubboVersion) -> Vec<Pair> {
    if std::env::var_os("INTEROP_FULL").is_none() {
        return consumers_of(provider).to_vec();
    }
    let mut pairs = Vec::new();
    for serialization in provider.serializations() {
        for consumer in DubboVersion::ALL {
            if consumer.shares(provider, serialization) {
                let ways = [Way::OneAgent, Way::TwoAgents];
                pairs.extend(ways.map(|way| (consumer, *serialization, way)));
            }
        }
    }
    pairs
}

fn head(name: &str) -> String {
    format!(
        "[agent]\nname = \"{name}\"\nworkers = 2\n[log]\nformat = \"json\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[defaults]\ntimeout_ms = 20000\n"
    )
}

/// The services of a provider as exports of its agent.
fn exports(app: &str) -> String {
    let mut text = String::new();
    for (interface, group, version) in SERVICES {
        // What it speaks need not be said: requests are passed on as they are.
        let _ = writeln!(text, "[[export]]\ninterface = \"{interface}\"\napp = \"{app}\"");
        if !group.is_empty() {
            let _ = writeln!(text, "group = \"{group}\"\nversion = \"{version}\"");
        }
    }
    text
}

/// An agent in front of a consumer that finds all services at `endpoint`, and its Dubbo URL.
fn consumers_agent(endpoint: &str, folder: &tempfile::TempDir) -> (Agent, String) {
    let path = folder.path().join("services.toml");
    let mut services = String::new();
    for (interface, group, version) in SERVICES {
        let _ = writeln!(
            services,
            "[[service]]\ninterface = \"{interface}\"\nendpoints = [\"{endpoint}\"]"
        );
        if !group.is_empty() {
            let _ = writeln!(services, "group = \"{group}\"\nversion = \"{version}\"");
        }
    }
    fs::write(&path, services).unwrap();
    let port = free_port();
    let config = format!(
        "{}[[registry]]\nkind = \"file\"\npath = \"{}\"\n\
         [[ingress]]\nprotocol = \"dubbo\"\nlisten = \"127.0.0.1:{port}\"\n",
        head("consumer"),
        path.display()
    );
    (Agent::start("consumer", &config), format!("dubbo://127.0.0.1:{port}"))
}

/// An agent beside a provider. Its registry is in memory, which only its own ingress can use:
/// the other agent is told where it is.
fn providers_agent(app: &str) -> Agent {
    let config = format!(
        "{}[[registry]]\nkind = \"memory\"\n[link]\nlisten = \"127.0.0.1:{}\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:{}\"\n{}",
        head("provider"),
        free_port(),
        free_port(),
        exports(app)
    );
    Agent::start("provider", &config)
}

fn start(version: DubboVersion, serialization: &str) -> JavaProvider {
    let options = ProviderOptions {
        serialization: serialization.to_owned(),
        hash_sleep: Duration::ZERO,
        ..ProviderOptions::default()
    };
    JavaProvider::start(version, options).unwrap()
}

/// Has a consumer make all calls that go right between the two without an agent.
fn call((consumer, serialization, way): Pair, provider: &JavaProvider) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let at = (way == Way::TwoAgents).then(|| providers_agent(&provider.url()));
    let endpoint = at.as_ref().map_or_else(
        || format!("{}?serialization={serialization}", provider.url()),
        |agent| format!("link://{}", agent.link()),
    );
    let (agent, url) = consumers_agent(&endpoint, &folder);
    let started = Instant::now();
    let options = ConsumerOptions::between(consumer, provider.version(), serialization, &url);
    let what = format!("{consumer:?} {way:?} {:?} {serialization}", provider.version());
    let calls = JavaConsumer::start(consumer, &options).unwrap();
    let result = calls.finish(PATIENCE);
    println!("{what}: {:?}", started.elapsed());
    let tails =
        || format!("{}\n{}", agent.tail(), at.as_ref().map(Agent::tail).unwrap_or_default());
    result.map(|_| ()).map_err(|error| format!("{what}: {error}\n{}", tails()))
}

/// A provider for each serialization, and its consumers one after the other.
fn check(version: DubboVersion) {
    let pairs = pairs(version);
    let mut wrong = Vec::new();
    for serialization in version.serializations() {
        let mut pairs = pairs.iter().filter(|pair| pair.1 == *serialization).peekable();
        if pairs.peek().is_some() {
            let provider = start(version, serialization);
            wrong.extend(pairs.filter_map(|pair| call(*pair, &provider).err()));
        }
    }
    assert!(wrong.is_empty(), "{} pairs went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn providers_of_2_6() {
    check(V2_6);
}

#[test]
fn providers_of_2_7() {
    check(V2_7);
}

#[test]
fn providers_of_3_2() {
    check(V3_2);
}

#[test]
fn providers_of_3_3() {
    check(V3_3);
}
