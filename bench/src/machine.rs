//! Where and when a result was measured.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// The fields that every row carries about its origin.
#[must_use]
pub fn origin() -> Value {
    json!({
        "date": output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        "commit": commit(),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "cpu": cpu(),
    })
}

/// The commit of the checkout, with a plus when files that are built differ from it.
fn commit() -> String {
    let commit = output("git", &["rev-parse", "--short=12", "HEAD"]);
    let changes = output("git", &["status", "--porcelain", "--", "..", ":!results"]);
    let is_changed = changes.lines().any(|line| !line.starts_with("??"));
    commit + if is_changed { "+" } else { "" }
}

fn cpu() -> String {
    let text = read("/proc/cpuinfo");
    let models: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, model)| model)
        .collect();
    format!("{} x {}", models.len(), models.first().unwrap_or(&"unknown"))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn output(program: &str, args: &[&str]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(program).args(args).current_dir(folder).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}
