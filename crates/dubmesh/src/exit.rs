//! How commands end. Exit statuses are part of our interface: scripts read them.

use std::process::ExitCode;

/// How a command ended, for the shell.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// All went well.
    Ok,
    /// What was asked for is right, but could not be done.
    Failure,
    /// The arguments or the configuration are wrong. clap exits with the same status.
    Usage,
    /// A call was refused before it began.
    Refused,
    /// A call was not answered in time.
    Timeout,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Ok => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::Timeout => 4,
        })
    }
}
