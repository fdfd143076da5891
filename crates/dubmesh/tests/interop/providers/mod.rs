//! Calls to real Dubbo providers: of all versions, in each serialization that we write, straight
//! and through a provider's agent, in both layouts of etcd.
//!
//! The same list of calls is made each time. What may differ is said by
//! [`peer::ProviderUnderTest`].

mod calls;
mod peer;
mod serializations;

use std::path::Path;
use std::thread;
use std::time::Duration;

use self::calls::all_calls;
use self::peer::{ProviderUnderTest, TYPE_HEADER};
use crate::support::{
    Agent, ConsumerAgent, HELLO, Layout, Offer, PATIENCE, SESSION, TYPES, post, speaking,
    wait_until,
};
use interop_harness::{DubboVersion, Etcd, JavaProvider, ProviderOptions, free_port};

/// A provider that has registered itself, called straight, then through its agent by each layout.
fn check_provider(version: DubboVersion, serialization: &str) {
    let etcd = Etcd::start().unwrap();
    let (java, consumers) = thread::scope(|scope| {
        let java = scope.spawn(|| {
            let options = ProviderOptions {
                registry: version.has_etcd().then(|| format!("etcd://{}", etcd.addr())),
                registry_session: SESSION,
                hash_sleep: Duration::ZERO,
                ..speaking(serialization)
            };
            JavaProvider::start(version, options).unwrap()
        });
        let consumers = [Layout::Dubbo, Layout::Contest]
            .map(|layout| ConsumerAgent { etcd: &etcd, layout, extra: "" })
            .map(|consumer| scope.spawn(move || consumer.start()))
            .map(|started| started.join().unwrap());
        (java.join().unwrap(), consumers)
    });
    let [straight, contest] = &consumers;
    let mut wrong = Vec::new();
    let mut check = |way: &str, consumer: &Agent, layout: Layout, endpoint: String| {
        wait_until_calls_go_to(consumer, &endpoint);
        let has_variants = layout == Layout::Dubbo;
        let mut peer = ProviderUnderTest {
            consumer,
            version,
            serialization,
            has_variants,
            endpoint,
            wrong: Vec::new(),
        };
        all_calls(&mut peer);
        wrong.extend(peer.wrong.into_iter().map(|text| format!("{way}: {text}")));
    };
    if version.has_etcd() {
        check("straight", straight, Layout::Dubbo, java.addr().to_string());
    } else {
        let folder = tempfile::tempdir().unwrap();
        let straight = listing(&java, "", folder.path());
        check("straight, from a file", &straight, Layout::Dubbo, java.addr().to_string());
    }
    let serialization = match (version, serialization) {
        (DubboVersion::V3_2 | DubboVersion::V3_3, "fastjson") => "fastjson-sized",
        _ => serialization,
    };
    let ways = [
        ("by an agent in the contest's layout", contest, Layout::Contest),
        ("by an agent beside the provider's own entry", straight, Layout::Dubbo),
    ];
    for (way, consumer, layout) in ways {
        let agent = Offer { etcd: &etcd, layout, app: java.url(), serialization }.start();
        check(way, consumer, layout, agent.link().to_string());
    }
    assert!(wrong.is_empty(), "{} calls went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// An agent that knows a provider, with these parameters, from a file.
fn listing(java: &JavaProvider, params: &str, folder: &Path) -> Agent {
    let file = folder.join("services.toml");
    let variant = "group = \"blue\"\nversion = \"2.0.0\"\n";
    let mut services = String::new();
    for (interface, more) in [(HELLO, ""), (TYPES, ""), (TYPES, variant)] {
        let endpoint = java.url();
        services += &format!(
            "[[service]]\ninterface = \"{interface}\"\n{more}endpoints = [\"{endpoint}{params}\"]\n"
        );
    }
    std::fs::write(&file, services).unwrap();
    let config = format!(
        "[agent]\nname = \"listing\"\nworkers = 2\n[log]\nformat = \"json\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[[registry]]\nkind = \"file\"\npath = {file:?}\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:{}\"\n\
         [defaults]\ntimeout_ms = 20000\n",
        free_port()
    );
    Agent::start("listing", &config)
}

/// An error tells where it happened: the consumer's agent may still know another way.
fn wait_until_calls_go_to(consumer: &Agent, endpoint: &str) {
    let http = consumer.http();
    for interface in [TYPES, HELLO] {
        interop_harness::wait_until(&format!("calls that go to {endpoint}"), PATIENCE, || {
            let types = format!("{TYPE_HEADER}int");
            post(http, &format!("/{interface}/missing"), &[&types], "[1]").member("endpoint")
                == endpoint
        });
    }
    wait_until("a first answer", || {
        post(http, &format!("/{TYPES}/variant"), &[], "[]").status == 200
    });
}

#[test]
fn dubbo_2_6_by_hessian2() {
    check_provider(DubboVersion::V2_6, "hessian2");
}

#[test]
fn dubbo_3_2_by_hessian2() {
    check_provider(DubboVersion::V3_2, "hessian2");
}

#[test]
fn dubbo_2_7_by_hessian2() {
    check_provider(DubboVersion::V2_7, "hessian2");
}

#[test]
fn dubbo_2_7_by_fastjson() {
    check_provider(DubboVersion::V2_7, "fastjson");
}

#[test]
fn dubbo_3_3_by_hessian2() {
    check_provider(DubboVersion::V3_3, "hessian2");
}

#[test]
fn dubbo_3_3_by_fastjson() {
    check_provider(DubboVersion::V3_3, "fastjson");
}

/// This provider permits nothing else.
#[test]
fn dubbo_3_3_by_fastjson2() {
    check_provider(DubboVersion::V3_3, "fastjson2");
}
