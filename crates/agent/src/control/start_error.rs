//! Why an agent does not start.

use std::io;

use wire::ListenError;

use crate::journal::LogFileError;

/// Why an agent did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener's address cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The file descriptors that are reserved leave none for callers.
    #[error(
        "agent.reserved_files = {reserved} leaves no file descriptor for callers: the limit of the \
         process is {limit}; lower it, or raise the limit (ulimit -n, or LimitNOFILE of systemd)"
    )]
    Files {
        /// All that the process may have.
        limit: u64,
        /// How many are reserved.
        reserved: u64,
    },
    /// The time is none that HTTP can write.
    #[error(
        "this machine's clock is before 1970 or after 9999; answers by HTTP need a valid date; set \
         the clock"
    )]
    Clock,
    /// A registry's settings cannot be right.
    #[error("registry {name:?}: {source}")]
    Registry {
        /// Its name.
        name: String,
        /// What is wrong.
        source: registry::RegistryError,
    },
    /// The access log cannot be written.
    #[error(transparent)]
    AccessLog(#[from] LogFileError),
    /// A thread or an event loop could not be made.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// The control thread ended before it was ready.
    #[error("the control thread ended before it was ready; please report this")]
    Lost,
}
