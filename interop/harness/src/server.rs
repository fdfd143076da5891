//! What servers with data of their own have in common: a temporary folder, and a process that is
//! killed and started again.
//!
//! Invariant: nothing of it is left when [`Server`] is dropped, neither the process nor the
//! folder.

use std::env;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use tempfile::TempDir;

use crate::child::Child;
use crate::error::HarnessError;

/// How often a start is tried when another process takes one of the ports first.
const N_START_TRIES: usize = 5;
/// How long a server may take to end in good order.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A running (or killed) server.
#[derive(Debug)]
pub(crate) struct Server {
    name: &'static str,
    dir: TempDir,
    child: Option<Child>,
}

impl Server {
    /// One that does not run yet, with an empty folder.
    pub(crate) fn new(name: &'static str) -> Result<Self, HarnessError> {
        let dir = TempDir::with_prefix(format!("{}-", name.to_lowercase()))
            .map_err(|source| HarnessError::File { path: env::temp_dir(), source })?;
        Ok(Self { name, dir, child: None })
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir().join("data")
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::pid)
    }

    pub(crate) fn kill9(&mut self) {
        self.child = None;
    }

    pub(crate) fn stop_gracefully(&mut self) -> Result<Option<ExitStatus>, HarnessError> {
        let child = self.child.take();
        child.map(|mut child| child.stop_gracefully(STOP_TIMEOUT)).transpose()
    }

    pub(crate) fn suspend(&mut self) {
        if let Some(child) = &mut self.child {
            child.suspend();
        }
    }

    pub(crate) fn resume(&mut self) {
        if let Some(child) = &mut self.child {
            child.resume();
        }
    }

    /// Kills it if it runs, and removes its data.
    pub(crate) fn forget(&mut self) -> Result<(), HarnessError> {
        self.kill9();
        let path = self.data_dir();
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(HarnessError::File { path, source })
            }
            _ => Ok(()),
        }
    }

    /// Starts it in the place of the one that may run. [`Self::wait_ready`] waits for it.
    pub(crate) fn spawn(&mut self, command: &Command) -> Result<(), HarnessError> {
        self.kill9();
        self.child = Some(Child::spawn(self.name, command)?);
        Ok(())
    }

    /// Waits until it is ready. One that does not get ready is killed.
    pub(crate) fn wait_ready(
        &mut self,
        timeout: Duration,
        is_ready: impl FnMut() -> bool,
    ) -> Result<(), HarnessError> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let ready = child.wait_ready(timeout, is_ready);
        if ready.is_err() {
            self.kill9();
        }
        ready
    }
}

/// Starts something by `launch`, on other ports by `move_away` if its own are taken.
pub(crate) fn start_somewhere<T>(
    mut server: T,
    launch: impl Fn(&mut T) -> Result<(), HarnessError>,
    move_away: impl Fn(&mut T),
) -> Result<T, HarnessError> {
    for _ in 1..N_START_TRIES {
        match launch(&mut server) {
            Err(HarnessError::Ended { tail, .. }) if tail.contains("already in use") => {
                move_away(&mut server);
            }
            result => return result.map(|()| server),
        }
    }
    launch(&mut server).map(|()| server)
}

/// What a server answers to `question` before it closes the connection: 4 KiB at most.
pub(crate) fn ask(addr: SocketAddr, question: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&addr, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(question.as_bytes())?;
    let mut answer = String::new();
    stream.take(4096).read_to_string(&mut answer)?;
    Ok(answer)
}
