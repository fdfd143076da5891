//! `dubmesh list --admin` and `dubmesh describe --admin`: what a running agent has found.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

fn list(args: &[&str]) -> (Option<i32>, String, String) {
    dubmesh(&[&["list"], args].concat())
}

fn dubmesh(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_dubmesh")).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn an_agent_tells_what_it_has_found() {
    let config = "[agent]\nworkers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n[[registry]]\nname = \
                  \"main\"\nkind = \"static\"\n[[registry.service]]\ninterface = \"com.acme.Echo\"\n\
                  endpoints = [\"dubbo://127.0.0.1:1?weight=7&application=echoes&release=3.3.6\",\n\
                  \"tri://127.0.0.1:2\"]\n\
                  [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n";
    let agent = agent::Agent::start(agent::config::parse(config, "test.toml").unwrap()).unwrap();
    let admin = agent.addresses().admin.unwrap().to_string();

    let (status, out, err) = list(&["--admin", &admin]);
    assert_eq!((status, &*out), (Some(0), ""));
    assert!(err.contains("nothing is called through the agent"), "{err}");

    let mut stream = TcpStream::connect(agent.addresses().http[0]).unwrap();
    let request = "POST /com.acme.Echo/echo HTTP/1.1\r\nhost: x\r\nconnection: \
                   close\r\ncontent-length: 5\r\n\r\n[\"a\"]";
    stream.write_all(request.as_bytes()).unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
    let (status, out, err) = list(&["--admin", &admin]);
    assert_eq!((status, &*err), (Some(0), ""));
    assert!(out.starts_with("com.acme.Echo  registry main  current\n"), "{out}");
    assert!(out.contains("  dubbo://127.0.0.1:1  weight 7  "), "{out}");
    assert!(out.contains("  application echoes  dubbo 3.3.6"), "{out}");
    assert!(out.contains("  not used: tri://127.0.0.1:2 (protocol tri"), "{out}");
    let (_, out, _) = list(&["Echo", "--admin", &admin, "--json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["services"][0]["endpoints"][0]["weight"], 7);
    let (status, out, err) = list(&["Nobody", "--admin", &admin]);
    assert_eq!((status, &*out), (Some(0), ""));
    assert!(err.contains("like \"Nobody\""), "{err}");

    drop(agent);
    let (status, _, err) = list(&["--admin", &admin]);
    assert_eq!(status, Some(1));
    assert!(err.contains("no agent answers at"), "{err}");
    assert_eq!(list(&["--admin", &admin, "--registry", "file:x"]).0, Some(2));
}

/// Whether they are called or not, by the registries that it has.
#[test]
fn an_agent_describes_what_its_registries_have() {
    let folder = tempfile::tempdir().unwrap();
    let definition = r#"{"canonicalName":"com.acme.Echo","methods":[{"name":"echo",
        "parameterTypes":["java.lang.String"],"returnType":"com.acme.Said"}],"types":[
        {"type":"com.acme.Said","properties":{"text":"java.lang.String"}}]}"#;
    std::fs::write(folder.path().join("com.acme.Echo.json"), definition).unwrap();
    let registry = |name: &str, version: &str, more: &str| {
        format!(
            "[[registry]]\nname = \"{name}\"\nkind = \"static\"\n{more}[[registry.service]]\n\
             interface = \"com.acme.Echo\"\nversion = \"{version}\"\n\
             endpoints = [\"dubbo://127.0.0.1:1?weight=7&methods=echo,ping\"]\n"
        )
    };
    let definitions = format!("definitions = {:?}\n", folder.path());
    let config = format!(
        "[agent]\nworkers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n{}{}[[ingress]]\n\
         protocol = \"http\"\nregistry = \"main\"\nlisten = \"127.0.0.1:0\"\n",
        registry("main", "1.0", &definitions),
        registry("other", "2.0", "") + &registry("third", "2.0", "").replace("Echo", "Ping")
    );
    let agent = agent::Agent::start(agent::config::parse(&config, "test.toml").unwrap()).unwrap();
    let admin = agent.addresses().admin.unwrap().to_string();
    let describe = |args: &[&str]| dubmesh(&[&["describe", "--admin", &admin], args].concat());

    let (status, out, err) = describe(&["com.acme.Echo", "--version", "1.0"]);
    assert_eq!((status, &*err), (Some(0), ""), "{out}");
    assert!(out.starts_with("service com.acme.Echo:1.0\n"), "{out}");
    for part in [
        "\n  com.acme.Said echo(java.lang.String)\n",
        "\n  com.acme.Said\n    java.lang.String text\n",
        "\nregistered, but not in the definition: ping\n",
        "\n  dubbo://127.0.0.1:1  ",
        "weight 7\n",
    ] {
        assert!(out.contains(part), "{out}");
    }
    let (_, out, _) = describe(&["com.acme.Echo", "--version", "1.0", "--json"]);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["registry"], "main");
    assert_eq!(json["methods"][0]["parameterTypes"][0], "java.lang.String");
    assert_eq!(json["classes"]["com.acme.Said"]["fields"]["text"], "java.lang.String");
    let (_, out, _) = describe(&["com.acme.Echo", "--version", "*"]);
    assert!(out.starts_with("registry main\nservice com.acme.Echo:*\n"), "{out}");
    assert!(out.contains("\nregistry other\nservice com.acme.Echo:*\n"), "{out}");

    let (status, out, err) = describe(&["com.acme.Ping"]);
    assert_eq!((status, &*out), (Some(3), ""));
    assert!(err.contains("it is registered as com.acme.Ping:2.0: check --version"), "{err}");
    assert!(err.contains("nobody offers com.acme.Ping in registry \"main\""), "{err}");
    let (status, _, err) = describe(&["org.other.Echo"]);
    assert_eq!(status, Some(3));
    assert!(err.contains("did you mean com.acme.Echo:1.0?"), "{err}");
    for wrong in [&["a..b"][..], &["a.B", "--registry", "file:x"], &["a.B", "--definitions", "x"]] {
        assert_eq!(describe(wrong).0, Some(2), "{wrong:?}");
    }
    drop(agent);
    let (status, _, err) = describe(&["com.acme.Echo"]);
    assert_eq!(status, Some(1));
    assert!(err.contains("no agent answers at"), "{err}");
}
