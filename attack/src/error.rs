//! Why an attack could not be made.

use std::io;

use bench::BenchError;
use interop_harness::HarnessError;

/// Why an attack could not be made. A limit that is broken is a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttackError {
    #[error(
        "usage: attack [--only NAME]... [--json FILE] [--from ADDRESS]\n\
         \x20                                                   all attacks, or those named\n\
         \x20      attack --list                                what there is\n\
         \x20      attack peer NAME HOST:PORT SECONDS [ADDRESS] the hostile peer alone\n\
         Hostile peers connect from ADDRESS (127.0.0.2), callers from 127.0.0.1; loopback only.\n\
         ATTACK_SECONDS (10) is how long each attack lasts; DUBMESH_BIN names another binary."
    )]
    Usage,
    #[error("there is no attack {name:?}; `attack --list` names all")]
    Unknown { name: String },
    #[error("{addr} is not a loopback address; this program attacks nobody else's machine")]
    NotLoopback { addr: std::net::SocketAddr },
    #[error("{seconds} seconds are not from 1 to {max}")]
    Seconds { seconds: u64, max: u64 },
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Harness(#[from] HarnessError),
    #[error("{attack}: no right answer before the attack: {problem}")]
    NoAnswer { attack: &'static str, problem: String },
    #[error("{attack}: the hostile peer reached nobody, so that nothing was shown")]
    NotReached { attack: &'static str },
    #[error("{attack}: the hostile peer's result cannot be read: {output}")]
    NoTally { attack: &'static str, output: String },
    #[error("{what}: {source}")]
    Io { what: &'static str, source: io::Error },
}

impl AttackError {
    /// For `map_err`.
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
