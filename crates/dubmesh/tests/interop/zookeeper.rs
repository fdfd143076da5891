//! Real Dubbo in a real ZooKeeper, both ways: providers that are called through an agent, and
//! consumers that find an agent there.

use std::path::Path;

use crate::support::discovery::dubmesh;
use crate::support::{Agent, PATIENCE, SESSION, TYPES, post, wait_until};
use interop_harness::{
    ConsumerOptions, DubboVersion, HttpApp, JavaConsumer, JavaProvider, ProviderOptions, ZooKeeper,
    free_port,
};

/// The calls that an app without Java knows.
const CALLS: &str = "hash,text,text_unicode,bytes,bool,int32,int64,float64,boxed_int,decimal,add,\
    int32s,text_array,texts,counts,date,color,person,people,make_person,echo_text,echo_int,nothing,\
    fail,attachments,variant,variant_blue,generic_text,generic_person,missing_method,one_way";

fn common(zookeeper: &ZooKeeper) -> String {
    format!(
        "[agent]\nworkers = 2\n[log]\nformat = \"json\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [[registry]]\nkind = \"zookeeper\"\nendpoints = [\"{}\"]\nsession_timeout_ms = 20000\n\
         [defaults]\ntimeout_ms = 20000\n",
        zookeeper.addr()
    )
}

fn consumer(zookeeper: &ZooKeeper) -> Agent {
    let ingress = "[[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n";
    Agent::start("consumer", &(common(zookeeper) + ingress))
}

fn provider(version: DubboVersion, zookeeper: &ZooKeeper) -> JavaProvider {
    let url = format!("zookeeper://{}", zookeeper.addr());
    let options = ProviderOptions {
        registry: Some(url.clone()),
        metadata: Some(url),
        registry_session: SESSION,
        ..ProviderOptions::default()
    };
    JavaProvider::start(version, options).unwrap()
}

/// By JSON without types: the definitions are in ZooKeeper, too.
#[test]
fn java_providers_are_found_and_called() {
    for version in [DubboVersion::V2_7, DubboVersion::V3_2, DubboVersion::V3_3] {
        let mut zookeeper = ZooKeeper::start().unwrap();
        let agent = consumer(&zookeeper);
        let call = |method: &str, headers: &[&str], body: &str| {
            post(agent.http(), &format!("/{TYPES}/{method}"), headers, body)
        };
        assert_eq!(call("text", &[], "[\"a\"]").code(), "service_not_found", "nobody is there");
        let mut java = provider(version, &zookeeper);
        wait_until("the first answer", || call("text", &[], "[\"a\"]").status == 200);
        let answer = call("text", &[], "[\"é\"]");
        assert_eq!((answer.status, &*answer.body), (200, "\"é\""), "{version:?}");
        let blue = ["x-dubbo-service-group: blue", "x-dubbo-service-version: 2.0.0"];
        let answer = call("variant", &blue, "[]");
        assert_eq!((answer.status, &*answer.body), (200, "\"blue/2.0.0\""), "{version:?}");

        let url = format!("zookeeper://{}", zookeeper.addr());
        let (status, out, err) = dubmesh(&["describe", TYPES, "--registry", &url]);
        assert_eq!(status, Some(0), "{version:?} {out} {err}");
        assert!(out.contains("metadata report /dubbo/metadata/"), "{version:?} {out}");
        assert!(out.contains(&java.addr().to_string()), "{version:?} {out}");
        let (status, out, err) = dubmesh(&["call", TYPES, "text", "\"b\"", "--registry", &url]);
        assert_eq!((status, &*out), (Some(0), "\"b\"\n"), "{version:?} {err}");

        // While ZooKeeper stands still, nothing changes.
        zookeeper.suspend();
        for _ in 0..100 {
            assert_eq!(call("text", &[], "[\"a\"]").status, 200, "{version:?}");
        }
        zookeeper.resume();
        java.stop_gracefully().unwrap();
        wait_until("the withdrawal", || call("text", &[], "[\"a\"]").status == 503);
    }
}

/// With Dubbo's default settings, at interface level.
#[test]
fn java_consumers_find_an_agent_for_an_http_app() {
    let zookeeper = ZooKeeper::start().unwrap();
    let app = HttpApp::node().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/apps/exports.toml");
    let exports = std::fs::read_to_string(path).unwrap();
    let exports = exports.replace("http://127.0.0.1:8080", &app.url());
    let port = free_port();
    let mut agent = Agent::start(
        "provider",
        &format!("{}[dubbo]\nlisten = \"127.0.0.1:{port}\"\n{exports}", common(&zookeeper)),
    );
    for version in [DubboVersion::V2_7, DubboVersion::V3_2, DubboVersion::V3_3] {
        let mut options = ConsumerOptions::new(&format!("zookeeper://{}", zookeeper.addr()));
        options.calls = CALLS.split(',').map(str::to_owned).collect();
        let consumer = JavaConsumer::start(version, &options).unwrap();
        let printed = consumer.finish(3 * PATIENCE);
        let printed =
            printed.unwrap_or_else(|error| panic!("{version:?}: {error}\n{}", agent.tail()));
        let n_right = printed.lines().filter(|line| line.contains(" = ")).count();
        assert_eq!(n_right, options.calls.len(), "{version:?}: {printed}");
    }
    assert!(50 < agent.n_exported(TYPES), "the calls came through the agent");
    let mut client = zookeeper.client().unwrap();
    let folder = format!("/dubbo/{TYPES}/providers");
    assert_eq!(client.children(&folder).unwrap().len(), 2, "both variants");
    agent.terminate();
    agent.wait();
    assert!(client.children(&folder).unwrap().is_empty(), "a drain withdraws");
}

/// The configurations in docs/zookeeper.md are good as they are.
#[test]
fn the_examples_of_the_guide() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/zookeeper.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let blocks = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let whole: Vec<_> = blocks.filter(|block| block.contains("[[registry]]")).collect();
    assert_eq!(whole.len(), 2);
    let folder = tempfile::tempdir().unwrap();
    for block in whole {
        let path = folder.path().join("agent.toml");
        std::fs::write(&path, block).unwrap();
        let (status, out, err) = dubmesh(&["check", "--config", &path.display().to_string()]);
        assert_eq!((status, &*err), (Some(0), ""), "{out}");
        assert!(out.contains("uses registry main (zookeeper)"), "{out}");
    }
}
