//! Why a peer could not be started or steered.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why a peer could not be started or steered. The text is meant for who reads a failed test.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// A program is neither in `PATH` nor at the places that the harness knows.
    #[error("{program} is not installed: run `make setup`, or `{install}`, or set ${variable}")]
    NotInstalled {
        /// The missing program.
        program: &'static str,
        /// The command that installs it on a Debian-like machine.
        install: &'static str,
        /// The environment variable that may name the program's path.
        variable: &'static str,
    },
    /// A program could not be started.
    #[error("cannot start {name}: {source}")]
    Spawn {
        /// What was to be started.
        name: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A child did not get ready in time.
    #[error("{name} was not ready after {waited:?}; its last output:\n{tail}")]
    NotReady {
        /// Which child.
        name: String,
        /// How long the harness waited.
        waited: Duration,
        /// The last lines that the child wrote.
        tail: String,
    },
    /// A child ended while it was needed.
    #[error("{name} ended early ({status}); its last output:\n{tail}")]
    Ended {
        /// Which child.
        name: String,
        /// How it ended.
        status: String,
        /// The last lines that the child wrote.
        tail: String,
    },
    /// Calls of a consumer did not return what they should.
    #[error("{name} got {n_calls} wrong results:\n{calls}")]
    WrongCalls {
        /// Which consumer.
        name: String,
        /// How many calls.
        n_calls: usize,
        /// A line for each of the first ones.
        calls: String,
    },
    /// A command that should succeed did not.
    #[error("`{command}` failed ({status}):\n{output}")]
    Command {
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// What it wrote.
        output: String,
    },
    /// A network between namespaces could not be changed.
    #[error("a network between namespaces: {source}")]
    Network {
        /// The system's reason.
        source: io::Error,
    },
    /// A session in ZooKeeper failed.
    #[error("a session in ZooKeeper failed: {error}")]
    ZooKeeper {
        /// What went wrong.
        error: String,
    },
    /// A file or folder could not be used.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}
