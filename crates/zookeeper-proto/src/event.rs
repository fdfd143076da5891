//! What a connection reports, and why it fails.

use std::time::Duration;

use crate::answer::{Answer, Refusal};
use crate::jute::JuteError;
use crate::settings::Session;

/// What a connection reports.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event<R, W> {
    /// The session is there, and requests are welcome.
    Ready {
        /// To be resumed by the next connection.
        session: Session,
    },
    /// The session that was to be resumed is over. The server closes the connection.
    Expired,
    /// An answer, for who asked.
    Answered {
        /// What the request was sent with.
        to: R,
        /// What the server says.
        outcome: Result<Answer, Refusal>,
    },
    /// What was read has changed.
    Fired(W),
}

/// Why a connection is of no more use.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Broken {
    /// A frame's length is over the limit, or negative.
    #[error("a frame of {len} bytes; the limit is {max_len} (max_message_bytes)")]
    FrameTooLong {
        /// As the server gave it.
        len: u32,
        /// What is allowed.
        max_len: usize,
    },
    /// A record that is none.
    #[error(transparent)]
    Jute(#[from] JuteError),
    /// An answer to something that was not asked for.
    #[error("an answer to request {found}, where {expected:?} was the next one")]
    OutOfOrder {
        /// Its number.
        found: i32,
        /// The number that should have come.
        expected: Option<i32>,
    },
    /// The server does not accept who we are.
    #[error("the server refuses the authentication; check the user, the password and the scheme")]
    AuthFailed,
    /// The session was not there in time.
    #[error("no session within {after:?}")]
    NoSession {
        /// How long it was waited for.
        after: Duration,
    },
    /// The server does not answer.
    #[error("no answer within {after:?}")]
    Silent {
        /// How long it was waited for.
        after: Duration,
    },
}
