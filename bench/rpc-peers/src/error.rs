//! Why a peer could not serve or measure.

use std::fmt::{self, Display, Formatter};
use std::io;

/// Why a peer could not serve or measure.
#[derive(Debug)]
pub(crate) enum PeerError {
    Io(io::Error),
    /// The peer's library refused to start or to connect.
    Library {
        name: &'static str,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// More than the kernel's buffers are sure to hold.
    TooMuchInFlight {
        len: usize,
        max: usize,
    },
    ServerLeft,
    WrongAnswer,
}

impl PeerError {
    /// For `map_err` of what a library returns.
    pub(crate) fn library<E>(name: &'static str) -> impl FnOnce(E) -> Self
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        move |source| Self::Library { name, source: source.into() }
    }
}

impl Display for PeerError {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(source) => write!(formatter, "{source}"),
            Self::Library { name, source } => write!(formatter, "{name}: {source}"),
            Self::TooMuchInFlight { len, max } => {
                write!(
                    formatter,
                    "{len} bytes in flight on a connection are over the limit of {max}"
                )
            }
            Self::ServerLeft => write!(formatter, "the server closed the connection"),
            Self::WrongAnswer => write!(formatter, "an answer has another length or caller"),
        }
    }
}

impl std::error::Error for PeerError {}

impl From<io::Error> for PeerError {
    fn from(source: io::Error) -> Self {
        Self::Io(source)
    }
}
