//! Agents and embedded providers as child processes, which end with their owner.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use interop_harness::{Child, HarnessError, free_port};
use tempfile::TempDir;

use crate::error::BenchError;
use crate::http::Client;

const START_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// How often a start is tried when another process takes one of the ports first.
const N_START_TRIES: usize = 3;

/// How an agent is started.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The program.
    pub dubmesh: &'a Path,
    /// The agent's name.
    pub name: &'a str,
    /// `level` of its `[log]`.
    pub log_level: &'a str,
    /// The most file descriptors that the process may have, if not as many as this one.
    pub max_files: Option<u32>,
}

/// Free ports, for a configuration to name.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// For an ingress that speaks HTTP.
    pub http: u16,
    /// For an ingress that speaks Dubbo.
    pub dubbo: u16,
    /// For the link's listener.
    pub link: u16,
    /// Of the admin listener, which every agent has.
    pub admin: u16,
}

/// A running `dubmesh run`.
#[derive(Debug)]
pub struct Agent {
    /// The process.
    pub child: Child,
    /// What it may listen on.
    pub ports: Ports,
    /// From its exec until it was ready.
    pub start_time: Duration,
    _dir: TempDir,
}

impl Agent {
    /// Starts an agent whose configuration is what `config` makes of its ports, and waits until it
    /// is ready.
    ///
    /// # Errors
    /// When it ends, or is not ready in time; both show its last words.
    pub fn start(
        launch: &Launch<'_>,
        config: impl Fn(Ports) -> String,
    ) -> Result<Self, BenchError> {
        let mut n_tries_left = N_START_TRIES;
        loop {
            n_tries_left -= 1;
            let [http, dubbo, link, admin] = std::array::from_fn(|_| free_port());
            let ports = Ports { http, dubbo, link, admin };
            match Self::launch(launch, &config(ports), ports) {
                // Taken between our look and the agent's bind.
                Err(BenchError::Harness(HarnessError::Ended { tail, .. }))
                    if n_tries_left > 0 && tail.contains("in use") => {}
                result => return result,
            }
        }
    }

    fn launch(launch: &Launch<'_>, config: &str, ports: Ports) -> Result<Self, BenchError> {
        let Launch { dubmesh, name, log_level, max_files } = *launch;
        let dir = TempDir::with_prefix("bench-").map_err(BenchError::io("a temporary folder"))?;
        let path = dir.path().join("agent.toml");
        let head = format!(
            "[agent]\nname = \"{name}\"\n[log]\nlevel = \"{log_level}\"\n\
             [admin]\nlisten = \"127.0.0.1:{}\"\n",
            ports.admin
        );
        fs::write(&path, head + config).map_err(BenchError::file(&path))?;
        let mut command = match max_files {
            None => Command::new(dubmesh),
            Some(max) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {max} && exec \"$@\""), "sh"]).arg(dubmesh);
                shell
            }
        };
        command.args(["run", "--config"]).arg(&path);
        let started = Instant::now();
        let mut child = Child::spawn(name, &command)?;
        let admin = (Ipv4Addr::LOCALHOST, ports.admin).into();
        let deadline = started + START_TIMEOUT;
        while !is_ready(admin) {
            if child.try_wait().is_some() || deadline < Instant::now() {
                // It has ended, or will not get ready; this says which, with its last words.
                child.wait_ready(Duration::ZERO, || false)?;
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(Self { child, ports, start_time: started.elapsed(), _dir: dir })
    }

    /// The address of one of its ports.
    #[must_use]
    pub fn addr(&self, port: u16) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, port).into()
    }
}

fn is_ready(admin: SocketAddr) -> bool {
    let answer =
        Client::connect(admin).and_then(|mut admin| admin.request("GET /readyz HTTP/1.1", ""));
    answer.is_ok_and(|answer| answer.status == 200)
}

/// A running `dubmesh provider`.
#[derive(Debug)]
pub struct EmbeddedProvider {
    /// The process.
    pub child: Child,
    /// Where it listens.
    pub addr: SocketAddr,
}

impl EmbeddedProvider {
    /// Starts a provider with these arguments, and waits until it listens.
    ///
    /// # Errors
    /// When it ends, or does not listen in time; both show its last words.
    pub fn start(dubmesh: &Path, args: &[&str]) -> Result<Self, BenchError> {
        let mut command = Command::new(dubmesh);
        command.arg("provider").args(args);
        let mut child = Child::spawn("the embedded provider", &command)?;
        let line = child.wait_for_line("READY dubbo://", START_TIMEOUT)?;
        let addr = line.trim_start_matches("READY dubbo://").trim().parse();
        let addr = addr.map_err(|_| BenchError::NoResult { output: line })?;
        Ok(Self { child, addr })
    }
}
