//! `dubmesh list --admin`: what a running agent has found.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

fn list(args: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_dubmesh")).arg("list").args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn an_agent_tells_what_it_has_found() {
    let config = "[agent]\nworkers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n[[registry]]\nname = \
                  \"main\"\nkind = \"static\"\n[[registry.service]]\ninterface = \"com.acme.Echo\"\n\
                  endpoints = [\"dubbo://127.0.0.1:1?weight=7\", \"tri://127.0.0.1:2\"]\n\
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
