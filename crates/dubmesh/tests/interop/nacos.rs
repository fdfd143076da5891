//! Real Dubbo with Nacos' own client, and agents, in Nacos or a server that is compatible with it:
//! both levels, both ways, and a server that stands still or dies. Without such a server there is
//! nothing to test; see [`nacos`].

use std::time::{Duration, Instant};

use crate::support::discovery::{
    DUBBO_3, MODES, TEXT_TYPES, consume, consumer, dubmesh, nacos, offering, provider,
};
use crate::support::{SESSION, TYPES, post, wait_until};
use interop_harness::{DubboVersion, HttpApp, JavaProvider, Nacos, ProviderOptions};

fn section(nacos: &Nacos) -> String {
    format!("kind = \"nacos\"\nendpoints = [\"{}\"]\n", nacos.addr())
}

fn url(nacos: &Nacos) -> String {
    format!("nacos://{}", nacos.addr())
}

/// By JSON without types: the definitions are in Nacos' configuration.
#[test]
fn java_providers_are_found_called_and_described() {
    let Some(nacos) = nacos() else { return };
    let url = url(&nacos);
    let agent = consumer(&section(&nacos));
    let call = |body: &str| post(agent.http(), &format!("/{TYPES}/text"), &[], body);
    assert_eq!(call("[\"a\"]").code(), "service_not_found", "nobody is there");
    for version in [DubboVersion::V2_7, DubboVersion::V3_2, DubboVersion::V3_3] {
        let options = ProviderOptions {
            registry: Some(url.clone()),
            metadata: Some(url.clone()),
            ..ProviderOptions::default()
        };
        let mut java = JavaProvider::start(version, options).unwrap();
        wait_until("the first answer", || call("[\"a\"]").status == 200);
        assert_eq!(call("[\"é\"]").body, "\"é\"", "{version:?}");
        let (status, out, err) = dubmesh(&["describe", TYPES, "--registry", &url]);
        assert_eq!(status, Some(0), "{version:?} {out} {err}");
        assert!(out.contains(&java.addr().to_string()), "{version:?} {out}");
        assert!(out.contains("metadata report"), "{version:?} {out}");
        let (status, out, err) = dubmesh(&["call", TYPES, "text", "\"b\"", "--registry", &url]);
        assert_eq!((status, &*out), (Some(0), "\"b\"\n"), "{version:?} {err}");
        java.stop_gracefully().unwrap();
        wait_until("the withdrawal", || call("[\"a\"]").status == 503);
    }
}

/// Whatever level a provider registers at, and wherever its metadata are.
#[test]
fn java_providers_of_every_mode_are_found_and_called() {
    let Some(nacos) = nacos() else { return };
    let url = url(&nacos);
    let agent = consumer(&section(&nacos));
    let call = |body: &str| post(agent.http(), &format!("/{TYPES}/text"), &TEXT_TYPES, body);
    for version in DUBBO_3 {
        for (mode, storage) in [("instance", "local"), ("instance", "remote"), ("all", "local")] {
            let which = format!("{version:?} {mode} {storage}");
            let mut java = provider(version, &url, mode, storage);
            wait_until(&format!("the first answer of {which}\n{}", agent.tail()), || {
                call("[\"a\"]").status == 200
            });
            let blue = ["x-dubbo-service-group: blue", "x-dubbo-service-version: 2.0.0"];
            // A provider registers one service after the other.
            wait_until(&format!("the other group and version of {which}"), || {
                let answer = post(agent.http(), &format!("/{TYPES}/variant"), &blue, "[]");
                (answer.status, &*answer.body) == (200, "\"blue/2.0.0\"")
            });
            java.stop_gracefully().unwrap();
            wait_until(&format!("the withdrawal of {which}"), || call("[\"a\"]").status == 503);
        }
    }
}

/// In each mode, by each step that can find something there.
#[test]
fn java_consumers_of_every_step_reach_an_agent_of_every_mode() {
    let app = HttpApp::node().unwrap();
    for (mode, steps) in MODES {
        let Some(nacos) = nacos() else { return };
        let agent = offering(&app, &section(&nacos), mode);
        let by_interface = (mode != "instance").then_some((DubboVersion::V2_7, "FORCE_INTERFACE"));
        let dubbo_3 =
            DUBBO_3.iter().flat_map(|&version| steps.iter().map(move |&it| (version, it)));
        for (version, step) in dubbo_3.chain(by_interface) {
            let before = agent.n_exported(TYPES);
            let which = format!("{version:?} {mode} {step}");
            let result = consume(version, &url(&nacos), step, &[]);
            result.unwrap_or_else(|error| panic!("{which}: {error}\n{}", agent.tail()));
            assert!(before + 10 < agent.n_exported(TYPES), "{which} came through the agent");
        }
    }
}

/// The server stands still for longer than it waits for its clients, and is killed and started
/// again, while the provider and the agents run on: no call fails, then or later.
#[test]
fn a_server_that_stands_still_or_dies_costs_no_call() {
    let Some(mut nacos) = nacos() else { return };
    let _java = provider(DubboVersion::V3_3, &url(&nacos), "interface", "local");
    let app = HttpApp::node().unwrap();
    let _offering = offering(&app, &section(&nacos), "interface");
    let agent = consumer(&section(&nacos));
    let call = || post(agent.http(), &format!("/{TYPES}/text"), &TEXT_TYPES, "[\"a\"]").status;
    wait_until("the first answer", || call() == 200);
    let call_for = |time: Duration, what: &str| {
        let until = Instant::now() + time;
        while Instant::now() < until {
            assert_eq!(call(), 200, "{what}\n{}", agent.tail());
        }
    };
    nacos.suspend();
    call_for(3 * SESSION, "while it stands still");
    nacos.resume();
    call_for(SESSION, "after it goes on");
    nacos.kill9();
    call_for(SESSION / 2, "while it is away");
    nacos.restart_keeping_data().unwrap();
    call_for(2 * SESSION, "after it is back");
}
