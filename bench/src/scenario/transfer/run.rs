//! One measurement: the processes, what they print, and what the kernel says of them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use interop_harness::Child;
use serde_json::Value;
use tempfile::TempDir;

use super::TIMEOUT;
use crate::error::BenchError;
use crate::plan::Plan;
use crate::usage;

const START_TIMEOUT: Duration = Duration::from_secs(20);
/// The shape of the raw program, and of a transfer unless it says otherwise.
const CONNECTIONS: u64 = 12;
const RAW_CALLERS: u64 = 1000;
const DEFAULT_CALLERS: u64 = 500;

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Program {
    /// One thread, no network: read, process, write.
    Local,
    /// Bare sockets, one thread a side.
    Raw,
    /// The product; with its default number of callers a connection, or another one.
    Dubmesh { process_at: &'static str, callers: Option<u64> },
}

/// The files of all runs.
pub(super) struct Files {
    pub(super) source: PathBuf,
    /// The local program's output.
    expected: PathBuf,
    output: PathBuf,
    _folder: TempDir,
}

/// What one run showed.
pub(super) struct RunFigures {
    pub(super) rows: u64,
    pub(super) seconds: f64,
    /// Of client and server; the local program is a client.
    pub(super) cpu_s: [f64; 2],
    pub(super) peak_rss_mb: [f64; 2],
    pub(super) wire: Value,
    pub(super) foreign_cores: f64,
}

impl Files {
    pub(super) fn new(plan: &Plan) -> Result<Self, BenchError> {
        // Beside the results, which lie on a real disk; `/tmp` may be memory.
        let folder = TempDir::new_in(&plan.results).map_err(BenchError::file(&plan.results))?;
        let [source, expected, output] =
            ["source", "expected", "output"].map(|name| folder.path().join(name));
        Ok(Self { source, expected, output, _folder: folder })
    }
}

impl RunFigures {
    pub(super) fn rows_per_s(&self) -> f64 {
        self.rows as f64 / self.seconds
    }

    pub(super) fn cpu_us_per_row(&self) -> [f64; 2] {
        self.cpu_s.map(|seconds| seconds * 1e6 / self.rows.max(1) as f64)
    }
}

impl Program {
    pub(super) fn name(self) -> String {
        match self {
            Self::Local => "local".to_owned(),
            Self::Raw => "raw sockets".to_owned(),
            Self::Dubmesh { process_at, callers } => {
                let callers = callers.map_or_else(String::new, |n| format!(", {n} callers each"));
                format!("dubmesh, {process_at} processes{callers}")
            }
        }
    }

    /// Whether it is in the targets.
    pub(super) fn is_main(self) -> bool {
        self == Self::Dubmesh { process_at: "server", callers: None }
    }

    /// Connections, and callers in all.
    pub(super) fn shape(self) -> (u64, u64) {
        match self {
            Self::Local => (0, 1),
            Self::Raw => (CONNECTIONS, CONNECTIONS * RAW_CALLERS),
            Self::Dubmesh { callers, .. } => {
                (CONNECTIONS, CONNECTIONS * callers.unwrap_or(DEFAULT_CALLERS))
            }
        }
    }

    /// Moves the file once, and compares what came out.
    pub(super) fn run(self, plan: &Plan, files: &Files) -> Result<RunFigures, BenchError> {
        let output = if self == Self::Local { &files.expected } else { &files.output };
        // All write new files, so that none is spared the search for memory.
        let _ = fs::remove_file(output);
        let server = self.start_server(plan, files)?;
        let (machine, start) = (usage::machine_cpu().used, Instant::now());
        let mut client = Child::spawn(
            &format!("the client of {}", self.name()),
            &self.client(plan, files, &server),
        )?;
        let printed = client.finish(TIMEOUT)?;
        let (machine, elapsed) = (usage::machine_cpu().used - machine, start.elapsed());
        let result: Value = serde_json::from_str(printed.trim())
            .map_err(|_| BenchError::NoResult { output: printed.clone() })?;
        let figure = |name: &str| result[name].as_f64().unwrap_or_default();
        let pid = server.as_ref().map(|(child, _)| child.pid());
        let server_cpu = pid.map_or(0.0, |pid| usage::cpu(pid).as_secs_f64());
        let server_peak = pid.map_or(0.0, usage::peak_rss_mb);
        drop(server);
        if self != Self::Local {
            compare(&files.expected, output, &self.name())?;
        }
        let cpu_s = [figure("cpu_s"), server_cpu];
        let ours: f64 = cpu_s.iter().sum();
        Ok(RunFigures {
            rows: result["rows"].as_u64().unwrap_or_default(),
            seconds: figure("seconds"),
            cpu_s,
            peak_rss_mb: [figure("peak_rss_mb"), server_peak],
            wire: result["wire"].clone(),
            foreign_cores: ((machine.as_secs_f64() - ours) / elapsed.as_secs_f64()).max(0.0),
        })
    }

    fn start_server(
        self,
        plan: &Plan,
        files: &Files,
    ) -> Result<Option<(Child, String)>, BenchError> {
        let command = match self {
            Self::Local => return Ok(None),
            Self::Raw => {
                let mut command = this_program()?;
                command.arg("raw-transfer-serve").arg(&files.source);
                command
            }
            Self::Dubmesh { .. } => {
                let mut command = Command::new(&plan.dubmesh);
                command.args(["transfer", "serve", "--listen", "127.0.0.1:0"]).arg(&files.source);
                command
            }
        };
        let mut child = Child::spawn(&format!("the server of {}", self.name()), &command)?;
        let line = child.wait_for_line("READY ", START_TIMEOUT)?;
        let address = line.trim_start_matches("READY ").trim().to_owned();
        Ok(Some((child, address)))
    }

    fn client(self, plan: &Plan, files: &Files, server: &Option<(Child, String)>) -> Command {
        let address = server.as_ref().map_or("", |(_, address)| address);
        let mut command = match self {
            Self::Raw => this_program().unwrap_or_else(|_| Command::new("bench")),
            Self::Local | Self::Dubmesh { .. } => Command::new(&plan.dubmesh),
        };
        match self {
            Self::Local => {
                command.args(["transfer", "local", "--process", "contest", "--json"]);
                command.arg(&files.source).arg(&files.expected);
            }
            Self::Raw => {
                command.args(["raw-transfer-fetch", address]).arg(&files.output);
                command.args([CONNECTIONS.to_string(), RAW_CALLERS.to_string()]);
            }
            Self::Dubmesh { process_at, callers } => {
                command.args(["transfer", "fetch", address, "--force", "--no-sync", "--json"]);
                command.args(["--process", "contest", "--process-at", process_at]);
                if let Some(callers) = callers {
                    command.args(["--callers", &callers.to_string()]);
                }
                command.arg("--output").arg(&files.output);
            }
        }
        command
    }
}

fn this_program() -> Result<Command, BenchError> {
    std::env::current_exe().map(Command::new).map_err(BenchError::io("the path of this program"))
}

/// Byte by byte.
fn compare(expected: &Path, output: &Path, program: &str) -> Result<(), BenchError> {
    let [mut expected, mut output] = {
        let open = |path: &Path| File::open(path).map_err(BenchError::file(path));
        [open(expected)?, open(output)?]
    };
    let read = |file: &mut File, into: &mut Vec<u8>| {
        into.clear();
        file.take(1 << 20).read_to_end(into).map_err(BenchError::io("an output"))
    };
    let (mut one, mut other, mut offset) = (Vec::new(), Vec::new(), 0);
    loop {
        let len = read(&mut expected, &mut one)?;
        read(&mut output, &mut other)?;
        if one != other {
            let problem = format!("its output differs within 1 MiB from offset {offset}");
            return Err(BenchError::WrongAnswer { program: program.to_owned(), problem });
        }
        if len == 0 {
            return Ok(());
        }
        offset += len;
    }
}
