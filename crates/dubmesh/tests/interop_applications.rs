//! Discovery at application level, with real Dubbo 3 in real registries: providers that are called
//! through an agent, and consumers that find an agent.

mod interop_support;

use std::ffi::OsString;
use std::process::Command;

use interop_harness::{DubboVersion, JavaProvider, ProviderOptions, ZooKeeper};
use interop_support::{Agent, SESSION, TYPES, post, wait_until};

const DUBBO_3: [DubboVersion; 2] = [DubboVersion::V3_2, DubboVersion::V3_3];

fn in_zookeeper(zookeeper: &ZooKeeper) -> String {
    format!(
        "kind = \"zookeeper\"\nendpoints = [\"{}\"]\nsession_timeout_ms = 20000\n",
        zookeeper.addr()
    )
}

fn common(registry: &str) -> String {
    format!(
        "[agent]\nworkers = 2\n[log]\nformat = \"json\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [[registry]]\n{registry}[defaults]\ntimeout_ms = 20000\n"
    )
}

fn consumer(registry: &str) -> Agent {
    let ingress = "[[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n";
    Agent::start("consumer", &(common(registry) + ingress))
}

/// A Java provider that registers in this mode, and keeps its metadata there.
fn provider(version: DubboVersion, url: &str, mode: &str, storage: &str) -> JavaProvider {
    let options = ProviderOptions {
        registry: Some(url.to_owned()),
        registry_session: SESSION,
        jvm_args: [("register-mode", mode), ("metadata-type", storage)]
            .map(|(name, value)| OsString::from(format!("-Ddubbo.application.{name}={value}")))
            .into(),
        ..ProviderOptions::default()
    };
    JavaProvider::start(version, options).unwrap()
}

/// Exit status, standard output and standard error.
fn dubmesh(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_dubmesh")).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

const TEXT_TYPES: [&str; 1] = ["x-dubbo-parameter-types: java.lang.String"];

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
            println!("{which}:\n{out}");
            assert!(line.is_some_and(|line| line.contains(level)), "{which} {out}");
            java.stop_gracefully().unwrap();
            wait_until(&format!("the withdrawal of {which}"), || call("[\"a\"]").status == 503);
        }
    }
}
