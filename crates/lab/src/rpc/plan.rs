//! What is measured, and why nothing was.

use std::time::Duration;

use link::{Connections, Failure, SetupError};

/// A call that takes longer has failed.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct RpcPlan {
    /// Callers, each with one call at a time.
    pub concurrency: u32,
    /// Connections to the server.
    pub connections: Connections,
    /// Length of a request's payload, at least 12 bytes.
    pub request_bytes: u32,
    /// Length of a reply's payload, at least 12 bytes.
    pub response_bytes: u32,
    /// Serialization of both.
    pub codec: Codec,
    /// How long is measured.
    pub duration: Duration,
    /// How long callers call before that.
    pub warmup: Duration,
    /// Each caller is a blocking thread.
    pub blocking: bool,
    /// Threads of the client's runtime.
    pub threads: u32,
}

/// The serializations that can be measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Codec {
    /// None: bytes.
    Raw,
    /// Protobuf.
    Protobuf,
    /// Postcard.
    Postcard,
    /// JSON.
    Json,
    /// Hessian 2.0.
    Hessian2,
}

impl Codec {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Raw, Self::Protobuf, Self::Postcard, Self::Json, Self::Hessian2];

    /// Its name in arguments and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Protobuf => "protobuf",
            Self::Postcard => "postcard",
            Self::Json => "json",
            Self::Hessian2 => "hessian2",
        }
    }

    /// The codec of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// The library's number of it.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::Raw => 1,
            Self::Hessian2 => 2,
            Self::Json => 13,
            Self::Postcard => 14,
            Self::Protobuf => 22,
        }
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// Client or server cannot be set up.
    #[error("{0}")]
    Setup(#[from] SetupError),
    /// The server's process cannot be started.
    #[error("cannot start the server: {0}")]
    Server(std::io::Error),
    /// The server's process does not tell its address.
    #[error("the server did not say where it listens, but: {0:?}")]
    Silent(String),
    /// There is no event loop.
    #[error("cannot start the runtime: {0}")]
    Runtime(std::io::Error),
    /// The first call failed.
    #[error("the server does not answer: {0}")]
    Probe(Failure),
    /// A defect of this program.
    #[error("a caller panicked")]
    Caller,
}
