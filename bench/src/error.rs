//! Why a benchmark could not be run.

use std::io;
use std::path::PathBuf;

use interop_harness::HarnessError;

/// Why a benchmark could not be run. A slow result is a result, a wrong answer is an error.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what it is")]
pub enum BenchError {
    #[error(
        "usage: bench contest|saturation|footprint|hop|rpc|transfer|codec|congestion|mixed|overload|faults|registries|all [--quick] [--without-link] [--pinned]\n\
         \x20      bench bare-epoll\n\
         \x20      bench raw-transfer-serve FILE\n\
         \x20      bench raw-transfer-fetch HOST:PORT OUTPUT CONNECTIONS CALLERS"
    )]
    Usage,
    #[error("{variable}={value} is not a whole number from 1 up")]
    Setting { variable: &'static str, value: String },
    #[error(transparent)]
    Harness(#[from] HarnessError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{what}: {source}")]
    Io { what: &'static str, source: io::Error },
    #[error(transparent)]
    Transfer(#[from] transfer::TransferError),
    #[error("building {package} failed")]
    Build { package: &'static str },
    #[error("the load generator printed no result:\n{output}")]
    NoResult { output: String },
    #[error("a call to {program} was answered wrongly: {problem}")]
    WrongAnswer { program: String, problem: String },
}

impl BenchError {
    /// For `map_err` of what touches the file at `path`.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }

    /// For `map_err` of what has no path.
    pub fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
