//! Every client against its server: all calls are answered, and servers end when told.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_rpc-peers");

struct Server {
    process: Child,
    addr: String,
}

impl Server {
    fn start(role: &str) -> Self {
        let mut command = Command::new(BINARY);
        command.arg(role).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let addr = line.trim().strip_prefix("listening ").expect("its first line").to_owned();
        Self { process, addr }
    }

    /// Closes its standard input, which must end it.
    fn stop(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

fn measure(role: &str, server: &Server, args: &[&str]) -> Value {
    let mut command = Command::new(BINARY);
    command.args([role, "--connect", &server.addr, "--duration", "0.2s", "--warmup", "0.1s"]);
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn check(server_role: &str, client_role: &str) {
    let server = Server::start(server_role);
    for args in [
        &["--concurrency", "1"][..],
        &["--concurrency", "1", "--connections", "4"],
        &["--concurrency", "10", "--connections", "4", "--threads", "2"],
        &["--concurrency", "10", "--request-bytes", "8", "--response-bytes", "3000"],
        &["--concurrency", "10", "--request-bytes", "3000", "--response-bytes", "4"],
    ] {
        let result = measure(client_role, &server, args);
        assert!(result["calls"].as_u64().unwrap() > 0, "{args:?}: {result}");
        assert_eq!(result["errors"], 0, "{args:?}: {result}");
        let figure = |name: &str| result[name].as_f64().unwrap();
        assert!(figure("p50_ms") <= figure("p99_ms") && figure("p99_ms") <= figure("p999_ms"));
        assert!(figure("cpu_us_per_call") > 0.0, "{args:?}: {result}");
    }
    server.stop();
}

#[test]
fn raw() {
    check("raw-server", "raw-client");
}

#[test]
fn raw_threads() {
    check("raw-server", "raw-threads-client");
}

#[test]
fn tonic() {
    check("tonic-server", "tonic-client");
}

#[test]
fn tarpc() {
    check("tarpc-server", "tarpc-client");
}

#[test]
fn volo() {
    check("volo-server", "volo-client");
}

#[test]
fn too_much_in_flight_is_refused() {
    let server = Server::start("raw-server");
    let mut command = Command::new(BINARY);
    command.args(["raw-client", "--connect", &server.addr, "--request-bytes", "5000"]);
    let output = command.output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("over the limit of 131072"));
    server.stop();
}
