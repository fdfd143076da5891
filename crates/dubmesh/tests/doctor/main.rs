//! `dubmesh doctor` as somebody runs it: the condition is brought about, and named.

#![cfg(target_os = "linux")]

mod mesh;
mod network;
mod sockets;
mod unwatched;

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Its exit status, and what it prints.
fn doctor(args: &[&str]) -> (i32, String, String) {
    output_of(&mut doctor_command(args))
}

fn doctor_command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dubmesh"));
    command.arg("doctor").args(args);
    command
}

/// The same of any command.
fn dubmesh(args: &[&str]) -> (i32, String, String) {
    output_of(Command::new(env!("CARGO_BIN_EXE_dubmesh")).args(args))
}

fn output_of(command: &mut Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The causes that it names for a port.
fn causes(args: &[&str]) -> (i32, Vec<String>, Value) {
    causes_for("2s", args)
}

/// The same, watched for some time.
fn causes_for(time: &str, args: &[&str]) -> (i32, Vec<String>, Value) {
    let (status, report) = report(&[args, &as_json(time)].concat());
    let findings = report["findings"].as_array().unwrap();
    let causes = findings.iter().map(|it| it["cause"].as_str().unwrap().to_owned()).collect();
    (status, causes, report)
}

/// What it prints as JSON. A machine that runs many tests at once may have no processor left for
/// an agent. That is said rightly, and is not what is tested here.
fn report(args: &[&str]) -> (i32, Value) {
    let (status, out, err) = doctor(args);
    let mut report: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let findings = report["findings"].as_array_mut().unwrap();
    let n_all = findings.len();
    findings.retain(|it| it["cause"] != "no_processor");
    let is_healthy_else = findings.is_empty() && n_all != 0;
    (if is_healthy_else { 0 } else { status }, report)
}

/// Looks often for so long, and writes for programs.
fn as_json(time: &str) -> [&str; 5] {
    ["--for", time, "--every", "100ms", "--json"]
}

/// What it says, in its order.
fn verdicts(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().map(|it| it["verdict"].as_str().unwrap().to_owned()).collect()
}
