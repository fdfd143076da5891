//! Discovery at application level, with real Dubbo 3 in real registries: providers that are called
//! through an agent, and consumers that find an agent.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::support::{Agent, PATIENCE, SESSION, TYPES, post, wait_until};
use interop_harness::{
    ConsumerOptions, DubboVersion, HttpApp, JavaConsumer, JavaProvider, ProviderOptions, ZooKeeper,
    free_port,
};

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
            assert!(line.is_some_and(|line| line.contains(level)), "{which} {out}");
            java.stop_gracefully().unwrap();
            wait_until(&format!("the withdrawal of {which}"), || call("[\"a\"]").status == 503);
        }
    }
}

/// The calls that an app without Java knows.
const CALLS: &str = "text,text_unicode,int64,add,texts,person,people,fail,attachments,variant,\
    variant_blue,generic_text,one_way";

/// Makes calls to what a Java consumer finds by this migration step.
fn consume(version: DubboVersion, url: &str, step: &str, more: &[&str]) -> Result<String, String> {
    let mut options = ConsumerOptions::new(url);
    options.calls = CALLS.split(',').map(str::to_owned).collect();
    let migration = format!("-Ddubbo.application.service-discovery.migration={step}");
    options.jvm_args = [migration.as_str()].iter().chain(more).map(OsString::from).collect();
    let consumer = JavaConsumer::start(version, &options).unwrap();
    consumer.finish(3 * PATIENCE).map_err(|error| error.to_string())
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
    let printed = consume(DubboVersion::V3_3, &url, "FORCE_APPLICATION", &remote);
    let printed = printed.unwrap_or_else(|error| panic!("{error}\n{}", agent.tail()));
    let n_right = printed.lines().filter(|line| line.contains(" = ")).count();
    assert_eq!(n_right, CALLS.split(',').count(), "{printed}");
    assert!(10 < agent.n_exported(TYPES), "they came through the agent");
}

/// An agent that offers an HTTP app to Dubbo's consumers, registered in this mode.
fn offering(app: &HttpApp, registry: &str, mode: &str) -> Agent {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/apps/exports.toml");
    let exports = std::fs::read_to_string(path).unwrap();
    let exports = exports.replace("http://127.0.0.1:8080", &app.url());
    let registry = common(&format!("{registry}register_mode = \"{mode}\"\n"));
    let dubbo = format!("[dubbo]\nlisten = \"127.0.0.1:{}\"\napplication = \"web\"\n", free_port());
    Agent::start("provider", &(registry + &dubbo + &exports))
}

/// In each mode, by each step that can find something there.
#[test]
fn java_consumers_of_every_step_reach_an_agent_of_every_mode() {
    let app = HttpApp::node().unwrap();
    for (mode, steps) in [
        ("all", &["FORCE_INTERFACE", "APPLICATION_FIRST", "FORCE_APPLICATION"][..]),
        ("instance", &["APPLICATION_FIRST", "FORCE_APPLICATION"]),
        ("interface", &["FORCE_INTERFACE", "APPLICATION_FIRST"]),
    ] {
        let zookeeper = ZooKeeper::start().unwrap();
        let url = format!("zookeeper://{}", zookeeper.addr());
        let mut agent = offering(&app, &in_zookeeper(&zookeeper), mode);
        for version in DUBBO_3 {
            for step in steps {
                let before = agent.n_exported(TYPES);
                let printed = consume(version, &url, step, &[]);
                let which = format!("{version:?} {mode} {step}");
                let printed =
                    printed.unwrap_or_else(|error| panic!("{which}: {error}\n{}", agent.tail()));
                let n_right = printed.lines().filter(|line| line.contains(" = ")).count();
                assert_eq!(n_right, CALLS.split(',').count(), "{which}: {printed}");
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
        let printed = consume(version, &url, "APPLICATION_FIRST", &[]);
        printed.unwrap_or_else(|error| panic!("{version:?}: {error}\n{}", agent.tail()));
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
