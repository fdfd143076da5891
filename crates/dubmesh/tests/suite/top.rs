//! `dubmesh top --once` as somebody runs it, beside an agent that carries calls.

#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use interop_harness::Child;
use serde_json::Value;

const HELLO: &str = "com.alibaba.dubbo.performance.demo.provider.IHelloService";
/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn dubmesh(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    command.args(args);
    command
}

/// Its exit status, and what it prints.
fn top(args: &[&str]) -> (i32, String, String) {
    let output = dubmesh(&["top"]).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// An agent for HTTP callers, and a provider that it calls.
struct HttpMesh {
    _provider: Child,
    agent: agent::Agent,
    _folder: tempfile::TempDir,
}

impl HttpMesh {
    fn start() -> Self {
        let provide = dubmesh(&["provider", "--listen", "127.0.0.1:0", "--work-ms", "1"]);
        let mut provider = Child::spawn("the provider", &provide).unwrap();
        let line = provider.wait_for_line("READY dubbo://", PATIENCE).unwrap();
        let address = line.trim_start_matches("READY ").trim().to_owned();
        let folder = tempfile::tempdir().unwrap();
        let services =
            format!("[[service]]\ninterface = \"{HELLO}\"\nendpoints = [\"{address}\"]\n");
        let path = folder.path().join("services.toml");
        std::fs::write(&path, services).unwrap();
        let text = format!(
            "[agent]\nname = \"shop\"\nworkers = 2\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [[registry]]\nkind = \"file\"\npath = \"{}\"\n\
             [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n",
            path.display()
        );
        let agent = agent::Agent::start(agent::config::parse(&text, "a.toml").unwrap()).unwrap();
        Self { _provider: provider, agent, _folder: folder }
    }

    fn admin(&self) -> String {
        self.agent.addresses().admin.unwrap().to_string()
    }

    /// Has calls made all the time while `look` looks.
    fn under_load<T>(&self, look: impl FnOnce() -> T) -> T {
        let (http, ended) = (self.agent.addresses().http[0], AtomicBool::new(false));
        thread::scope(|scope| {
            let calls = scope.spawn(|| {
                while !ended.load(Relaxed) {
                    call(http);
                }
            });
            let seen = look();
            ended.store(true, Relaxed);
            calls.join().unwrap();
            seen
        })
    }
}

fn call(http: SocketAddr) {
    let mut stream = TcpStream::connect(http).unwrap();
    let request = format!(
        "POST /{HELLO}/hash HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: \
         application/json\r\ncontent-length: 5\r\n\r\n[\"a\"]"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn one_look_shows_rates_as_text_and_as_json() {
    let mesh = HttpMesh::start();
    let admin = mesh.admin();
    call(mesh.agent.addresses().http[0]);
    let once = ["--admin", &admin, "--once", "--every", "500ms"];
    let look = |args: &[&str]| mesh.under_load(|| top(&[&once[..], args].concat()));
    let (status, text, err) = look(&[]);
    assert_eq!((status, &*err), (0, ""), "{text}");
    assert!(!text.contains('~'), "nothing is cut in a pipe: {text}");
    assert!(text.starts_with("shop ") && text.contains("1 endpoint\n"), "{text}");
    assert!(text.contains("127.0.0.1:") && text.contains("ready"), "{text}");
    for (view, column) in [("endpoints", "rate"), ("services", "rate"), ("connections", "in/s")] {
        let (status, text, err) = look(&["--view", view, "--json"]);
        assert_eq!((status, &*err), (0, ""), "{text}");
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&json["agent"], &json["view"]), (&"shop".into(), &view.into()));
        assert!(0.0 < json["calls_per_s"].as_f64().unwrap(), "{json}");
        let items = json["items"].as_array().unwrap();
        assert!(items.iter().any(|item| 0.0 < item[column].as_f64().unwrap()), "{json}");
    }
    let (_, text, _) = look(&["--filter", "nothing like this", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["items"], Value::Array(Vec::new()));
}

#[test]
fn mistakes_are_named() {
    let (status, _, err) = top(&["--once", "--sort", "speed"]);
    assert_eq!(status, 2);
    assert!(err.contains("no column \"speed\"; write one of endpoint, service, rate"), "{err}");
    let (status, _, err) = top(&["--once", "--admin", "127.0.0.1:1"]);
    assert_eq!(status, 1);
    assert!(err.contains("no agent answers at 127.0.0.1:1"), "{err}");
    assert_eq!(top(&["--json"]).0, 2, "only one look can be JSON");
}
