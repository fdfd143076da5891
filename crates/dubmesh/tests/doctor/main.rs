//! `dubmesh doctor` as somebody runs it: the condition is brought about, and named.

#![cfg(target_os = "linux")]

mod mesh;
mod sockets;
mod unwatched;

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Its exit status, and what it prints.
fn doctor(args: &[&str]) -> (i32, String, String) {
    dubmesh(&[&["doctor"], args].concat())
}

/// The same of any command.
fn dubmesh(args: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_dubmesh")).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The causes that it names for a port.
fn causes(args: &[&str]) -> (i32, Vec<String>, Value) {
    causes_for("2s", args)
}

/// The same, watched for some time.
fn causes_for(time: &str, args: &[&str]) -> (i32, Vec<String>, Value) {
    let quick = ["--for", time, "--every", "100ms", "--json"];
    let (status, out, err) = doctor(&[args, &quick[..]].concat());
    let report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let findings = report["findings"].as_array().unwrap();
    let causes = findings.iter().map(|it| it["cause"].as_str().unwrap().to_owned()).collect();
    (status, causes, report)
}

/// What it says, in its order.
fn verdicts(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|it| it["verdict"].as_str().unwrap().to_owned()).collect()
}
