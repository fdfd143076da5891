//! `dubmesh reload`: has the agents that run with a configuration read it again.
//!
//! The agents are found among the processes of this machine by their command line, so that there
//! is not a file with a number that may be out of date. What would be refused is refused here,
//! where somebody reads why.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use agent::config;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::Exit;
use crate::config_file::refuse;
use crate::output;

/// What stands below the options in `--help`.
pub(crate) const HELP: &str = "\
The file is checked first. A file with mistakes is refused, and nothing changes.
Then each agent on this machine that runs with the file gets a SIGHUP. Its log
shows what has changed, and what needs a restart.

Examples:
  dubmesh reload --config consumer.toml
  dubmesh check --config new.toml && mv new.toml agent.toml && \\
      dubmesh reload --config agent.toml

Exit status:
  0  every agent that runs with the file got the signal
  1  no agent runs with the file, or one could not get the signal
  2  the file has mistakes; one line per mistake";

/// Where the kernel shows processes.
const PROCESSES: &str = "/proc";
/// How names of the program begin, whatever folder it is in: some installations add a version.
const PROGRAM: &str = "dubmesh";
/// What the kernel adds to the name of a program that was replaced.
const REPLACED: &str = " (deleted)";
/// An agent that has just been started takes signals after this long.
const START_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The bit of SIGHUP in a mask of signals.
const HANG_UP_BIT: u64 = 1 << (Signal::SIGHUP as u64 - 1);

/// A running agent, and the file that it was started with.
struct RunningAgent {
    pid: i32,
    config: PathBuf,
}

/// Reads a command line, and gives the configuration file of an agent that it runs.
pub(crate) type ReadCommand = fn(Vec<OsString>) -> Option<PathBuf>;

/// Tells all agents that run with the file at `path`.
pub(crate) fn reload(path: &Path, read_command: ReadCommand) -> Exit {
    if let Err(errors) = config::load(path) {
        return refuse(&errors);
    }
    match told(path, read_command) {
        Ok(pids) => {
            let path = path.display();
            let line =
                |pid| format!("agent {pid} reads {path} again; its log shows what changed\n");
            output::print("reload", &pids.into_iter().map(line).collect::<String>(), Exit::Ok)
        }
        Err(message) => {
            output::say(format_args!("dubmesh reload: {message}"));
            Exit::Failure
        }
    }
}

/// The processes that were told.
fn told(path: &Path, read_command: ReadCommand) -> Result<Vec<i32>, String> {
    let wanted = fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let agents = running(read_command).map_err(|error| {
        format!(
            "cannot look for agents in {PROCESSES}: {error}; use kill -HUP with the agent's pid"
        )
    })?;
    let (mine, others): (Vec<_>, Vec<_>) =
        agents.into_iter().partition(|agent| agent.config == wanted);
    if mine.is_empty() {
        let others: Vec<String> = others
            .iter()
            .map(|agent| format!("{} (pid {})", agent.config.display(), agent.pid))
            .collect();
        let others = match others.is_empty() {
            true => "none of your agents runs on this machine".to_owned(),
            false => format!("agents run with {}", others.join(", ")),
        };
        return Err(format!("no agent runs with {}; {others}", wanted.display()));
    }
    mine.iter().map(|agent| hang_up(agent.pid).map(|()| agent.pid)).collect()
}

/// The agents that run with the file at `path`, as far as this user can see.
pub(crate) fn running_with(path: &Path, read_command: ReadCommand) -> Vec<i32> {
    let (Ok(wanted), Ok(agents)) = (fs::canonicalize(path), running(read_command)) else {
        return Vec::new();
    };
    agents.into_iter().filter(|agent| agent.config == wanted).map(|agent| agent.pid).collect()
}

/// Sends SIGHUP once the agent takes it: before that it would be its end.
fn hang_up(pid: i32) -> Result<(), String> {
    let begun = Instant::now();
    while !takes_hang_up(pid) {
        if START_TIMEOUT <= begun.elapsed() {
            return Err(format!("agent {pid} does not take signals yet; try again"));
        }
        thread::sleep(POLL_INTERVAL);
    }
    kill(Pid::from_raw(pid), Signal::SIGHUP).map_err(|error| match error {
        Errno::EPERM => {
            format!("agent {pid} belongs to another user; run this command as that user")
        }
        error => format!("cannot send SIGHUP to agent {pid}: {error}"),
    })
}

fn takes_hang_up(pid: i32) -> bool {
    let status = fs::read_to_string(format!("{PROCESSES}/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & HANG_UP_BIT != 0)
}

/// The agents that this user can see, with the whole paths of their files.
fn running(read_command: ReadCommand) -> io::Result<Vec<RunningAgent>> {
    let mut agents = Vec::new();
    let own_files = fs::read_link(format!("{PROCESSES}/self/ns/mnt"))?;
    for entry in fs::read_dir(PROCESSES)? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // The same path in a container is another file.
        if fs::read_link(entry.path().join("ns/mnt")).is_ok_and(|files| files == own_files)
            && let Some(config) = config_of(&entry.path(), read_command)
        {
            agents.push(RunningAgent { pid, config });
        }
    }
    Ok(agents)
}

/// The file that a process was told to run with, if it is an agent.
fn config_of(process: &Path, read_command: ReadCommand) -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap_or_default();
    if !is_same_program(&fs::read_link(process.join("exe")).ok()?, &own) {
        return None;
    }
    let command = fs::read(process.join("cmdline")).ok()?;
    let arguments = command.strip_suffix(b"\0").unwrap_or(&command).split(|byte| *byte == 0);
    let arguments = arguments.map(|text| OsString::from_vec(text.to_vec()));
    let config = read_command(arguments.collect())?;
    let folder = fs::read_link(process.join("cwd")).ok()?;
    fs::canonicalize(folder.join(config)).ok()
}

/// Whether another process runs this program, whose own file is `own`.
fn is_same_program(other: &Path, own: &Path) -> bool {
    let name = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let Some(other) = name(other) else { return false };
    let other = other.strip_suffix(REPLACED).unwrap_or(&other);
    let own = name(own).unwrap_or_default();
    other.starts_with(PROGRAM) || other == own.strip_suffix(REPLACED).unwrap_or(&own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_found_whatever_their_program_is_called() {
        for (other, own, is_same) in [
            ("/usr/bin/dubmesh", "/opt/dubmesh", true),
            ("/usr/bin/dubmesh (deleted)", "/opt/dubmesh", true),
            ("/usr/bin/dubmesh-1.2", "/usr/bin/dubmesh", true),
            ("/usr/bin/mesh (deleted)", "/usr/bin/mesh", true),
            ("/usr/bin/mesh", "/usr/bin/dubmesh", false),
            ("/usr/bin/nginx", "", false),
            ("/", "/", false),
        ] {
            assert_eq!(is_same_program(Path::new(other), Path::new(own)), is_same, "{other}");
        }
    }
}
