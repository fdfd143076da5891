//! `dubmesh tap` as somebody runs it, beside an agent that carries calls.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use serde_json::Value;

/// An agent whose calls all fail, for nobody is at the endpoint that its registry names.
fn agent(folder: &tempfile::TempDir, admin: &str) -> agent::Agent {
    let path = folder.path().join("services.toml");
    let services =
        "[[service]]\ninterface = 'com.acme.Echo'\nendpoints = ['dubbo://127.0.0.1:1']\n";
    std::fs::write(&path, services).unwrap();
    let text = format!(
        "[agent]\nworkers = 1\n[admin]\nlisten = \"127.0.0.1:0\"\n{admin}\n[[registry]]\nname = \
         \"main\"\nkind = \"file\"\npath = \"{}\"\n[[ingress]]\nprotocol = \"http\"\nlisten = \
         \"127.0.0.1:0\"\n",
        path.display()
    );
    agent::Agent::start(agent::config::parse(&text, "test.toml").unwrap()).unwrap()
}

fn call(http: SocketAddr, method: &str) {
    let mut stream = TcpStream::connect(http).unwrap();
    let request = format!(
        "POST /com.acme.Echo/{method} HTTP/1.1\r\nhost: x\r\nconnection: \
         close\r\ncontent-length: 5\r\n\r\n[\"a\"]"
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream.read_to_string(&mut String::new()).unwrap();
}

/// What `dubmesh tap` prints while calls of two methods are made: its status, output and errors.
fn tap(agent: &agent::Agent, args: &[&str]) -> (i32, String, String) {
    tap_into(Stdio::piped(), agent, args)
}

/// The same into another output.
fn tap_into(stdout: Stdio, agent: &agent::Agent, args: &[&str]) -> (i32, String, String) {
    let admin = agent.addresses().admin.unwrap().to_string();
    let (http, ended) = (agent.addresses().http[0], AtomicBool::new(false));
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Relaxed) {
                call(http, "echo");
                call(http, "other");
            }
        });
        let output = Command::new(env!("CARGO_BIN_EXE_dubmesh"))
            .args(["tap", "--admin", &admin])
            .args(args)
            .stdout(stdout)
            .output();
        ended.store(true, Relaxed);
        output.unwrap()
    });
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn calls_are_shown_as_text_and_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(&folder, "");
    let (status, text, err) = tap(&agent, &["com.acme.Echo/echo", "--failed", "--count", "3"]);
    assert_eq!((status, text.lines().count()), (0, 3), "{text}{err}");
    for line in text.lines() {
        assert!(line.contains(" http  127.0.0.1:"), "{line}");
        assert!(line.contains(" com.acme.Echo/echo "), "{line}");
        assert!(!line.contains(" ok "), "{line}");
    }
    let (status, text, _) = tap(&agent, &["com.acme.*", "--json", "--count", "4"]);
    let calls: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((status, calls.len()), (0, 4), "{text}");
    assert!(calls.iter().any(|call| call["method"] == "other"), "{text}");
    assert!(calls.iter().all(|call| call.get("arguments").is_none()), "{text}");
}

#[test]
fn a_full_disk_is_not_the_agents_fault() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(&folder, "");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (status, _, err) = tap_into(full.into(), &agent, &[]);
    assert_eq!(status, 1, "{err}");
    assert!(err.starts_with("dubmesh tap: cannot write to standard output: "), "{err}");
}

#[test]
fn arguments_are_shown_only_where_the_agent_allows_it() {
    let folder = tempfile::tempdir().unwrap();
    let shy = agent(&folder, "");
    let (status, text, err) = tap(&shy, &["--arguments", "--count", "1"]);
    assert_eq!((status, &*text), (1, ""));
    assert!(err.contains("tap_arguments = true"), "{err}");
    let open = agent(&folder, "tap_arguments = true");
    let (status, text, err) = tap(&open, &["--arguments", "--count", "1"]);
    assert_eq!(status, 0, "{err}");
    assert!(text.trim_end().ends_with(" [\"a\"]"), "{text}");
}

/// No call comes that would find out.
#[test]
fn it_ends_with_its_reader_and_says_that_a_service_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(&folder, "");
    let admin = agent.addresses().admin.unwrap().to_string();
    let mut tap = Command::new(env!("CARGO_BIN_EXE_dubmesh"))
        .args(["tap", "com.acme.Nobody", "--admin", &admin])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(tap.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    assert!(line.starts_with("dubmesh tap: no call of com.acme.Nobody has come"), "{line}");
    drop(tap.stdout.take());
    assert_eq!(tap.wait().unwrap().code(), Some(0));
}
