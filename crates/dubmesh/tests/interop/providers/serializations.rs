//! Which serialization a provider is called by, and what only fastjson2 has.

use interop_harness::{DubboVersion, Etcd, JavaProvider, ProviderOptions};

use super::calls::{containers_and_objects, context};
use super::peer::{ProviderUnderTest, TYPE_HEADER};
use super::{listing, wait_until_calls_go_to};
use crate::support::{Agent, ConsumerAgent, Layout, SESSION, TYPES, post, speaking};

/// A provider whose registration prefers both, as Dubbo 3.2 and 3.3 do where nobody has chosen: it
/// is called by hessian2.
#[test]
fn dubbo_3_3_that_prefers_both() {
    let etcd = Etcd::start().unwrap();
    let options = ProviderOptions {
        serialization: "fastjson2".to_owned(),
        registry: Some(format!("etcd://{}", etcd.addr())),
        registry_session: SESSION,
        jvm_args: vec!["-Ddubbo.protocol.prefer-serialization=fastjson2,hessian2".into()],
        ..ProviderOptions::default()
    };
    let java = JavaProvider::start(DubboVersion::V3_3, options).unwrap();
    let consumer = ConsumerAgent { etcd: &etcd, layout: Layout::Dubbo, extra: "" }.start();
    let endpoint = java.addr().to_string();
    wait_until_calls_go_to(&consumer, &endpoint);
    let (version, serialization) = (DubboVersion::V3_3, "hessian2");
    let (consumer, has_variants, wrong) = (&consumer, true, Vec::new());
    let mut peer =
        ProviderUnderTest { consumer, version, serialization, has_variants, endpoint, wrong };
    containers_and_objects(&mut peer);
    context(&mut peer);
    assert!(peer.wrong.is_empty(), "{}", peer.wrong.join("\n"));
    assert!(!consumer.tail().contains("serialization refused"));
}

/// Endpoints that tell nothing, or a lie: the provider permits fastjson2 alone.
#[test]
fn serializations_that_a_provider_refuses_are_not_used_again() {
    let java = JavaProvider::start(DubboVersion::V3_3, speaking("fastjson2")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, params) in [("silent", ""), ("lying", "?serialization=hessian2")] {
        let file = folder.path().join(name);
        let service = format!(
            "[[service]]\ninterface = \"{TYPES}\"\nendpoints = [\"dubbo://{}{params}\"]\n",
            java.addr()
        );
        std::fs::write(&file, service).unwrap();
        let config = format!(
            "[agent]\nname = \"{name}\"\nworkers = 1\n[log]\nformat = \"json\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[[registry]]\nkind = \"file\"\npath = {file:?}\n\
             [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n\
             [defaults]\ntimeout_ms = 20000\n"
        );
        let agent = Agent::start(name, &config);
        let call = |method: &str, types: &str, body: &str| {
            let types = format!("{TYPE_HEADER}{types}");
            post(agent.http(), &format!("/{TYPES}/{method}"), &[&types], body)
        };
        for number in 0..5 {
            let answer = call("int32", "int", &format!("[{number}]"));
            assert_eq!((answer.status, answer.body), (200, number.to_string()), "{name}");
        }
        // What it cannot read for another reason is told, and changes nothing.
        for _ in 0..2 {
            let missing = call("missing", "int", "[1]");
            assert_eq!((missing.status, &*missing.code()), (400, "provider_rejected"), "{name}");
        }
        assert_eq!(call("int32", "int", "[7]").body, "7");
        assert_eq!(agent.tail().matches("serialization refused").count(), 1, "{}", agent.tail());
    }
}

/// What arguments say by references and by enums in their long form arrives by fastjson2 as it
/// does by hessian2.
#[test]
fn references_and_enums_by_fastjson2() {
    let java = JavaProvider::start(DubboVersion::V3_3, speaking("fastjson2")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let agent = listing(&java, "?serialization=fastjson2", folder.path());
    wait_until_calls_go_to(&agent, &java.addr().to_string());
    let call = |method: &str, types: &str, body: &str| {
        let headers = [&*format!("{TYPE_HEADER}{types}"), "x-dubbo-json: refs=path; class=yes"];
        let answer = post(agent.http(), &format!("/{TYPES}/{method}"), &headers, body);
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        answer.body
    };
    let shared =
        r#"[[{"name":"A","age":1},{"$ref":"$[0]"},{"name":"B","friends":[{"$ref":"$[0]"}]}]]"#;
    for (method, types) in
        [("people", "java.util.List<org.dubmesh.interop.Person>"), ("any", "java.lang.Object")]
    {
        let shared = match method {
            "any" => {
                shared.replace(r#"{"name""#, r#"{"class":"org.dubmesh.interop.Person","name""#)
            }
            _ => shared.to_owned(),
        };
        let answer = call(method, types, &shared);
        assert_eq!(answer.matches(r#"{"$ref":"$[0]"}"#).count(), 2, "{method}: {answer}");
    }
    let green = r#"{"class":"org.dubmesh.interop.Color","name":"GREEN"}"#;
    assert_eq!(call("any", "java.lang.Object", green), "\"GREEN\"");
    assert_eq!(call("color", "org.dubmesh.interop.Color", green), "\"GREEN\"");
    let person = format!(r#"{{"name":"A","color":{green}}}"#);
    let answer = call("person", "org.dubmesh.interop.Person", &person);
    assert!(answer.contains(r#""color":1"#), "{answer}");
}
