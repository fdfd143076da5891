//! Apps without Java: the services of interop/service-api as plain JSON over HTTP, by Node and by
//! Python.
//!
//! Invariant: an app keeps its port over [`HttpApp::restart`], so that clients see it come back.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use crate::child::Child;
use crate::error::HarnessError;
use crate::program::find_program;

/// A start takes a tenth of a second; this leaves room for a machine that is busy building.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Longer than any call of a test sleeps.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

const READY: &str = "READY ";

/// A running (or killed) HTTP app on 127.0.0.1. Dropping it kills it.
///
/// interop/README.md lists its paths: `POST /{interface}/{method}` with an array of arguments, and
/// `/users`.
#[derive(Debug)]
pub struct HttpApp {
    language: Language,
    options: Vec<String>,
    child: Child,
    url: String,
}

#[derive(Clone, Copy, Debug)]
enum Language {
    Node,
    Python,
}

impl HttpApp {
    /// Starts interop/apps/node and waits until it serves. `NODE_BIN` can name the program.
    ///
    /// # Errors
    /// When Node is missing or the app does not start; the error shows its last output.
    pub fn node() -> Result<Self, HarnessError> {
        Self::start(Language::Node, &[])
    }

    /// Like [`HttpApp::node`] with options of the program, by which it speaks TLS or listens on a
    /// socket in the file system.
    ///
    /// # Errors
    /// As [`HttpApp::node`].
    pub fn node_with(options: &[&str]) -> Result<Self, HarnessError> {
        Self::start(Language::Node, options)
    }

    /// Starts interop/apps/python and waits until it serves. `PYTHON_BIN` can name the program.
    ///
    /// # Errors
    /// When Python is missing or the app does not start; the error shows its last output.
    pub fn python() -> Result<Self, HarnessError> {
        Self::start(Language::Python, &[])
    }

    fn start(language: Language, options: &[&str]) -> Result<Self, HarnessError> {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let (child, url) = launch(language, &options)?;
        Ok(Self { language, options, child, url })
    }

    /// Where it listens.
    ///
    /// # Panics
    /// It listens on a socket in the file system.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        let place = self.url.rsplit('/').next().and_then(|place| place.parse().ok());
        place.expect("an app that listens on TCP")
    }

    /// Where it listens, as `http://127.0.0.1:PORT` or what its options made of it.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// The last lines that it wrote.
    #[must_use]
    pub fn tail(&self) -> String {
        self.child.tail()
    }

    /// Kills it by SIGKILL.
    pub fn kill9(&mut self) {
        self.child.kill9();
    }

    /// Stops it by SIGTERM and waits: it finishes what it works on, and ends.
    ///
    /// # Errors
    /// When it still ran after 20 seconds; it is killed then.
    pub fn stop_gracefully(&mut self) -> Result<ExitStatus, HarnessError> {
        self.child.stop_gracefully(STOP_TIMEOUT)
    }

    /// Stops its clock: connections stay open, and nothing answers on them.
    pub fn suspend(&mut self) {
        self.child.suspend();
    }

    /// Lets a suspended app go on.
    pub fn resume(&mut self) {
        self.child.resume();
    }

    /// Kills it if it runs, and starts it again on the same port.
    ///
    /// # Errors
    /// As the first start.
    pub fn restart(&mut self) -> Result<(), HarnessError> {
        self.child.kill9();
        let mut options = self.options.clone();
        if !self.url.starts_with("unix:") {
            options.extend(["--port".to_owned(), self.addr().port().to_string()]);
        }
        (self.child, self.url) = launch(self.language, &options)?;
        Ok(())
    }
}

/// Starts an app, on a port that the system picks unless the options tell one; and says where it
/// is.
fn launch(language: Language, options: &[String]) -> Result<(Child, String), HarnessError> {
    let (program, file, name) = match language {
        Language::Node => {
            (find_program("node", "NODE_BIN", "apt-get install nodejs")?, "node/app.js", "Node")
        }
        Language::Python => {
            let program = find_program("python3", "PYTHON_BIN", "apt-get install python3")?;
            (program, "python/app.py", "Python")
        }
    };
    let mut command = Command::new(program);
    command.arg(apps_dir().join(file)).args(options);
    let mut child = Child::spawn(&format!("the {name} app"), &command)?;
    let line = child.wait_for_line(READY, START_TIMEOUT)?;
    let url = line[READY.len()..].trim_end().to_owned();
    Ok((child, url))
}

fn apps_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../apps")
}
