//! How long and how often is measured, with which binary, and where results go.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::BenchError;
use crate::scenario::codec::Programs;

/// Shorter measurements are not to be quoted.
const SECONDS: u64 = 20;
const QUICK_SECONDS: u64 = 1;
const ROUNDS: u64 = 3;

/// The command line's switches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Switches {
    /// Everything is shortened so that all of it takes less than two minutes.
    pub(crate) is_quick: bool,
    /// The RPC peers are measured without the link.
    pub(crate) is_without_link: bool,
    /// Each side of an RPC has a core of its own.
    pub(crate) is_pinned: bool,
}

/// What all scenarios share.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) is_quick: bool,
    pub(crate) is_without_link: bool,
    pub(crate) is_pinned: bool,
    /// Only subjects whose names have this text are measured.
    only: Option<String>,
    /// Length of one measurement.
    pub(crate) seconds: Duration,
    /// Measurements of the same thing; rows hold the medians.
    pub(crate) n_rounds: u64,
    /// The program under test.
    pub(crate) dubmesh: PathBuf,
    /// Where the rows are written.
    pub(crate) results: PathBuf,
}

impl Plan {
    /// Reads the environment, and builds `dubmesh` unless `DUBMESH_BIN` names it or nobody needs
    /// it.
    pub(crate) fn new(switches: Switches, needs_dubmesh: bool) -> Result<Self, BenchError> {
        let Switches { is_quick, is_without_link, is_pinned } = switches;
        let seconds = setting("BENCH_SECONDS", if is_quick { QUICK_SECONDS } else { SECONDS })?;
        let n_rounds = setting("BENCH_ROUNDS", if is_quick { 1 } else { ROUNDS })?;
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        let only = env::var("BENCH_ONLY").ok().filter(|text| !text.is_empty());
        // A quick run says whether all works, and a part is not the whole: neither must take the
        // place of a recorded result.
        let results = match &only {
            _ if is_quick => results.join("quick"),
            Some(_) => results.join("part"),
            None => results,
        };
        fs::create_dir_all(results.join("raw")).map_err(BenchError::file(&results))?;
        let dubmesh = if needs_dubmesh { dubmesh()? } else { PathBuf::new() };
        let seconds = Duration::from_secs(seconds);
        Ok(Self { is_quick, is_without_link, is_pinned, only, seconds, n_rounds, dubmesh, results })
    }

    /// Whether a subject of that name is to be measured.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|text| name.contains(text.as_str()))
    }

    /// How long a subject is loaded before its first measurement, at least: a virtual machine
    /// begins to compile its hot methods in this time.
    pub(crate) fn warm_up(&self, has_java: bool) -> Duration {
        Duration::from_secs(match (has_java, self.is_quick) {
            (true, false) => 15,
            (true, true) => 4,
            (false, false) => 3,
            (false, true) => 1,
        })
    }
}

/// The program under test: what `DUBMESH_BIN` names, or the release binary, built if need be.
///
/// # Errors
/// When it cannot be built.
pub fn dubmesh() -> Result<PathBuf, BenchError> {
    env::var_os("DUBMESH_BIN").map_or_else(build, |path| Ok(path.into()))
}

/// A whole number from the environment.
///
/// # Errors
/// When it is anything else, or 0.
pub fn setting(variable: &'static str, default: u64) -> Result<u64, BenchError> {
    let Ok(value) = env::var(variable) else {
        return Ok(default);
    };
    match value.parse() {
        Ok(number) if number != 0 => Ok(number),
        _ => Err(BenchError::Setting { variable, value }),
    }
}

/// Builds the release binary and tells where it is: beside this program, which is built alike.
fn build() -> Result<PathBuf, BenchError> {
    cargo_build("dubmesh", &["--package", "dubmesh"])?;
    let bench = env::current_exe().map_err(BenchError::io("the path of this program"))?;
    Ok(bench.with_file_name("dubmesh"))
}

/// Builds what the RPC library is measured against, and tells where it is. It is a workspace of
/// its own, with its own lock file and target folder.
pub(crate) fn build_rpc_peers() -> Result<PathBuf, BenchError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("rpc-peers");
    let [manifest, target] = ["Cargo.toml", "target"].map(|name| folder.join(name));
    let (manifest, target) = (manifest.to_string_lossy(), target.to_string_lossy());
    let args = ["--locked", "--manifest-path", &manifest, "--target-dir", &target];
    cargo_build("bench/rpc-peers", &args)?;
    Ok(folder.join("target/release/rpc-peers"))
}

/// Builds the codec's program and what it is measured against.
pub(crate) fn build_codec_programs() -> Result<Programs, BenchError> {
    let args = ["--package", "hessian", "--features", "serde", "--example", "codec_bench"];
    cargo_build("the example codec_bench", &args)?;
    let bench = env::current_exe().map_err(BenchError::io("the path of this program"))?;
    let ours = bench.with_file_name("examples").join("codec_bench");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("codec-peers");
    let (java, go) = (folder.join("java"), folder.join("go"));
    run_in(&java, "mvn", &["-q", "-B", "compile"])?;
    let program = go.join("target/codec");
    run_in(&go, "go", &["build", "-o", &program.to_string_lossy(), "."])?;
    Ok(Programs { ours, go: program, java })
}

fn run_in(folder: &Path, program: &'static str, args: &[&str]) -> Result<(), BenchError> {
    let status = Command::new(program).args(args).current_dir(folder).status();
    let status = status.map_err(BenchError::io(program))?;
    if status.success() { Ok(()) } else { Err(BenchError::Build { package: "bench/codec-peers" }) }
}

fn cargo_build(package: &'static str, args: &[&str]) -> Result<(), BenchError> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--release", "--quiet"]).args(args);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    let status = command.status().map_err(BenchError::io("cargo"))?;
    if status.success() { Ok(()) } else { Err(BenchError::Build { package }) }
}
