//! How calls fail.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::time::Duration;

use link_proto::Status;

use crate::codec::CodecError;

/// Why a call gave no reply.
#[derive(Debug, thiserror::Error)]
pub enum CallError<E = NoError> {
    /// The service's own error, as its method returned it.
    #[error("{0}")]
    Service(E),
    /// Everything else.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl<E> CallError<E> {
    /// The failure, if it was not the service that answered with an error.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Service(_) => None,
            Self::Failed(failure) => Some(failure),
        }
    }
}

/// The error of a method that has none of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoError {}

impl std::fmt::Display for NoError {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {}
    }
}

impl std::error::Error for NoError {}

impl From<Infallible> for NoError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// What went wrong between a caller and a service.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No answer came in time. The service was told to stop, if the call had reached it.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// There was no connection until the call's time was over, or at once if calls are not to
    /// wait.
    #[error("cannot reach {endpoint}: {reason}")]
    Unreachable {
        /// Where the client connects to.
        endpoint: String,
        /// What the last attempt said.
        reason: String,
    },
    /// The connection broke while the call was out: nobody knows whether it was done.
    #[error("the connection broke while the call was in flight: {0}")]
    Broken(String),
    /// The client's limits: too many calls are in flight or wait.
    #[error("{0}")]
    Full(Full),
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
    /// The request, its metadata or an item of a stream is over a limit, and was not sent.
    #[error("message of {len} bytes is over the limit of {max}")]
    TooLarge {
        /// Its length.
        len: usize,
        /// What is allowed.
        max: usize,
    },
    /// The request has more entries of metadata than may be sent, and was not sent.
    #[error("{n} entries of metadata are over the limit of {max}")]
    TooManyEntries {
        /// How many.
        n: usize,
        /// What is allowed.
        max: usize,
    },
    /// The arguments cannot be encoded.
    #[error("cannot encode the arguments: {0}")]
    Encode(CodecError),
    /// The reply cannot be decoded. The call was done.
    #[error("cannot decode the reply: {0}")]
    Decode(CodecError),
    /// The server answered that the call failed.
    #[error("the server answered {}: {text}", status.name())]
    Refused {
        /// Its status.
        status: Status,
        /// The same for people.
        text: String,
    },
    /// The call that a stream belongs to has ended, and not well; its reply says why.
    #[error("the call ended before its stream did; its reply says why")]
    Interrupted,
    /// The peer cannot do what the call needs.
    #[error("the peer does not support {0}")]
    Unsupported(&'static str),
}

/// Which of a client's limits a call met.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Full {
    /// As many calls are in flight as client and server allow.
    #[error("{0} calls are in flight, which is the limit")]
    Calls(usize),
    /// As many bytes wait to be written as the client allows.
    #[error("{0} bytes wait to be written, which is over the limit")]
    Bytes(usize),
    /// As many calls wait for room as the client allows.
    #[error("{0} calls wait for room, which is the limit")]
    Waiting(usize),
    /// As many different methods were called as the server allows on a connection.
    #[error("the server allows no more methods on a connection")]
    Methods,
}

impl Failure {
    /// A name that does not change, fit for a label of a metric.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Timeout(_) => "timeout",
            Self::Unreachable { .. } => "unreachable",
            Self::Broken(_) => "broken",
            Self::Full(_) => "full",
            Self::Closed => "closed",
            Self::TooLarge { .. } | Self::TooManyEntries { .. } => "too_large",
            Self::Encode(_) => "encode",
            Self::Decode(_) => "decode",
            Self::Refused { status, .. } => status.name(),
            Self::Interrupted => "interrupted",
            Self::Unsupported(_) => "unsupported",
        }
    }

    /// Whether it is certain that the call was not begun, so that even one that must not be done
    /// twice may be made again.
    pub fn is_not_begun(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Full(_) | Self::Closed => true,
            Self::Refused { status, .. } => status.is_not_begun(),
            Self::TooLarge { .. } | Self::TooManyEntries { .. } => true,
            Self::Encode(_) | Self::Unsupported(_) => true,
            Self::Timeout(_) | Self::Broken(_) | Self::Decode(_) | Self::Interrupted => false,
        }
    }
}

/// Why a client or a server could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The address has no port or no host.
    #[error("'{0}' is not HOST:PORT")]
    Address(String),
    /// The first connection could not be made.
    #[error("cannot connect to {endpoint}: {reason}")]
    Connect {
        /// Where to.
        endpoint: String,
        /// Why not.
        reason: String,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; {}", wire::remedy(.source, "the server"))]
    Listen {
        /// The address.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A setting is out of its range.
    #[error("{key} is {value}; it must be {}", in_words(.range))]
    Setting {
        /// Which one, such as `ClientConfig::max_calls`.
        key: &'static str,
        /// What it is.
        value: usize,
        /// What it may be.
        range: RangeInclusive<usize>,
    },
    /// Two services of a server have one name.
    #[error("two services are called '{0}'; offer each name once")]
    TwoServices(String),
    /// Two methods of a service have one name.
    #[error("service '{service}' has two methods called '{method}'")]
    TwoMethods {
        /// The service.
        service: String,
        /// The name of both.
        method: String,
    },
    /// A method was added to another service than its own.
    #[error(
        "method '{method}' belongs to service '{owner}' and was added to service '{service}'; \
         Method::of changes the service of a method"
    )]
    ForeignMethod {
        /// Where it was added.
        service: String,
        /// The method.
        method: String,
        /// The service that it belongs to.
        owner: String,
    },
    /// There is no tokio runtime here to drive the connections.
    #[error("this needs a tokio runtime to be called on; Client::connect_blocking needs none")]
    NoRuntime,
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
    /// The settings of TLS are wrong.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] crate::tls::TlsError),
}

/// Checks one setting.
pub(crate) fn check_setting(
    key: &'static str,
    value: usize,
    range: RangeInclusive<usize>,
) -> Result<(), SetupError> {
    match range.contains(&value) {
        true => Ok(()),
        false => Err(SetupError::Setting { key, value, range }),
    }
}

/// A range as a message has it.
fn in_words(range: &RangeInclusive<usize>) -> String {
    match (range.start(), range.end()) {
        (min, &usize::MAX) => format!("at least {min}"),
        (0, max) => format!("at most {max}"),
        (min, max) => format!("{min} to {max}"),
    }
}

/// Whether this thread is in a tokio runtime.
pub(crate) fn check_runtime() -> Result<(), SetupError> {
    let runtime = tokio::runtime::Handle::try_current();
    runtime.map(drop).map_err(|_| SetupError::NoRuntime)
}
