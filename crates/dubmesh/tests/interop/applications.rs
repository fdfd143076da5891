//! Discovery at application level, with real Dubbo 3 in real registries: providers that are called
//! through an agent, and consumers that find an agent.

use std::time::Instant;

use crate::support::discovery::{
    DUBBO_3, MODES, TEXT_TYPES, consume, consumer, dubmesh, offering, provider,
};
use crate::support::{SESSION, TYPES, post, wait_until};
use interop_harness::{DubboVersion, HttpApp, ZooKeeper};

fn in_zookeeper(zookeeper: &ZooKeeper) -> String {
    format!(
        "kind = \"zookeeper\"\nendpoints = [\"{}\"]\nsession_timeout_ms = 20000\n",
        zookeeper.addr()
    )
}

/// Whatever level a provider registers at, and wherever its metadata are.
#[test]
fn java_providers_of_every_mode_are_found_and_called() {
    let zookeeper = ZooKeeper::start().unwrap();
    let url = format!("zookeeper://{}", zookeeper.addr());
    let agent = consumer(&in_zookeeper(&zookeeper));
    let call = |body: &str| post(agent.http(), &format!("/{TYPES}/text"), &TEXT_TYPES, body);
    for version in DUBBO_3 {
        for (mode, storage, level) in [
            ("instance", "local", "application"),
            ("instance", "remote", "application"),
            ("all", "local", "interface"),
            ("interface", "local", "interface"),
        ] {
            let which = format!("{version:?} {mode} {storage}");
            let mut java = provider(version, &url, mode, storage);
            wait_until(&format!("the first answer of {which}\n{}", agent.tail()), || {
                call("[\"a\"]").status == 200
            });
            assert_eq!(call("[\"é\"]").body, "\"é\"", "{which}");
            let blue = ["x-dubbo-service-group: blue", "x-dubbo-service-version: 2.0.0"];
            let answer = post(agent.http(), &format!("/{TYPES}/variant"), &blue, "[]");
            assert_eq!((answer.status, &*answer.body), (200, "\"blue/2.0.0\""), "{which}");
            let (status, out, err) = dubmesh(&["list", "--registry", &url]);
            assert_eq!(status, Some(0), "{which} {out} {err}");
            let line = out.lines().find(|line| line.contains(&java.addr().to_string()));
            assert!(line.is_some_and(|line| line.contains(level)), "{which} {out}");
            java.stop_gracefully().unwrap();
            wait_until(&format!("the withdrawal of {which}"), || call("[\"a\"]").status == 503);
        }
    }
}

/// The agent's metadata are in the metadata report, and the instance says so: a consumer of Dubbo
/// does not ask the agent for them.
#[test]
fn a_java_consumer_finds_the_metadata_of_an_agent_in_the_report() {
    let app = HttpApp::node().unwrap();
    let zookeeper = ZooKeeper::start().unwrap();
    let url = format!("zookeeper://{}", zookeeper.addr());
    let registry = in_zookeeper(&zookeeper) + "metadata_type = \"remote\"\n";
    let agent = offering(&app, &registry, "instance");
    let mut client = zookeeper.client().unwrap();
    let folder = "/dubbo/metadata/web";
    // If some services were there before others, there is a revision of these alone as well.
    wait_until("the metadata", || !client.children(folder).unwrap_or_default().is_empty());
    let remote = ["-Ddubbo.application.metadata-type=remote"];
    let result = consume(DubboVersion::V3_3, &url, "FORCE_APPLICATION", &remote);
    result.unwrap_or_else(|error| panic!("{error}\n{}", agent.tail()));
    assert!(10 < agent.n_exported(TYPES), "they came through the agent");
}

/// In each mode, by each step that can find something there.
#[test]
fn java_consumers_of_every_step_reach_an_agent_of_every_mode() {
    let app = HttpApp::node().unwrap();
    for (mode, steps) in MODES {
        let zookeeper = ZooKeeper::start().unwrap();
        let url = format!("zookeeper://{}", zookeeper.addr());
        let mut agent = offering(&app, &in_zookeeper(&zookeeper), mode);
        for version in DUBBO_3 {
            for step in steps {
                let before = agent.n_exported(TYPES);
                let which = format!("{version:?} {mode} {step}");
                let result = consume(version, &url, step, &[]);
                result.unwrap_or_else(|error| panic!("{which}: {error}\n{}", agent.tail()));
                assert!(before + 10 < agent.n_exported(TYPES), "{which} came through the agent");
            }
        }
        agent.terminate();
        agent.wait();
        let mut client = zookeeper.client().unwrap();
        assert!(client.children("/services/web").unwrap_or_default().is_empty(), "{mode}");
    }
}

/// The service is offered by a real provider at both levels, and by an agent beside it: consumers
/// that prefer applications use both.
#[test]
fn an_agent_is_not_passed_by() {
    for version in DUBBO_3 {
        let zookeeper = ZooKeeper::start().unwrap();
        let url = format!("zookeeper://{}", zookeeper.addr());
        let java = provider(version, &url, "all", "local");
        let app = HttpApp::node().unwrap();
        let agent = offering(&app, &in_zookeeper(&zookeeper), "all");
        wait_until("the agent's instance", || {
            zookeeper.client().unwrap().children("/services/web").unwrap().len() == 1
        });
        let result = consume(version, &url, "APPLICATION_FIRST", &[]);
        result.unwrap_or_else(|error| panic!("{version:?}: {error}\n{}", agent.tail()));
        assert!(0 < agent.n_exported(TYPES), "{version:?}: some calls came through the agent");
        drop(java);
    }
}

/// A registry stands still for longer than all sessions live, while every provider runs on: no
/// call fails, neither then, nor when it goes on without their entries, nor later.
#[test]
fn a_registry_that_stalls_longer_than_sessions_costs_no_call() {
    for mode in ["interface", "instance"] {
        let mut zookeeper = ZooKeeper::start().unwrap();
        let url = format!("zookeeper://{}", zookeeper.addr());
        let java = provider(DubboVersion::V3_3, &url, mode, "local");
        let registry = in_zookeeper(&zookeeper).replace("20000", "2000");
        let agent = consumer(&registry);
        let call = || post(agent.http(), &format!("/{TYPES}/text"), &TEXT_TYPES, "[\"a\"]").status;
        wait_until("the first answer", || call() == 200);
        let (folder, name) = match mode {
            "interface" => (format!("/dubbo/{TYPES}/providers"), "the provider"),
            _ => ("/services/interop-provider".to_owned(), "the instance"),
        };
        let owner = |zookeeper: &ZooKeeper| {
            let mut client = zookeeper.client().ok()?;
            let node = client.children(&folder).ok()?.into_iter().next()?;
            Some(client.stat(&format!("{folder}/{node}")).ok()??.owner)
        };
        let before = owner(&zookeeper).expect(name);
        zookeeper.suspend();
        // The sessions end as soon as it goes on.
        let stalls_until = Instant::now() + 3 * SESSION;
        let mut n_calls = 0;
        while Instant::now() < stalls_until {
            assert_eq!(call(), 200, "{mode}: call {n_calls} while it stands still");
            n_calls += 1;
        }
        zookeeper.resume();
        wait_until(&format!("{name} to come back in {mode}"), || {
            assert_eq!(call(), 200, "{mode}: call {n_calls} after it goes on");
            n_calls += 1;
            owner(&zookeeper).is_some_and(|owner| owner != before)
        });
        assert!(100 < n_calls);
        drop(java);
    }
}
