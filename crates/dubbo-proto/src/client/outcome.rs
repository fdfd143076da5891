//! What a connection toward a provider tells its driver: what happened, why it refused a call, and
//! what it counted.

use std::time::Duration;

use bytes::Bytes;

use crate::{ProtoError, Serialization, Status};

/// What happened on a connection toward a provider.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ClientEvent<T> {
    /// The provider answered a call.
    Reply {
        /// What the caller gave with the call.
        token: T,
        /// How it ended. [`crate::Reply`] reads the body by it.
        status: Status,
        /// How the body is written.
        serialization: Serialization,
        /// The reply's body, a slice of the buffer that was read.
        body: Bytes,
    },
    /// The provider answered a call with more than we take; the answer is not kept.
    TooLong {
        /// What the caller gave with the call.
        token: T,
        /// Length of the answer's body in bytes.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The answer to a call was given up as it came, by
    /// [`ClientConnection::shed_frame`](crate::ClientConnection::shed_frame).
    Shed {
        /// What the caller gave with the call.
        token: T,
        /// Length of the answer's body in bytes.
        len: usize,
    },
    /// A call's deadline passed without an answer. A later answer is dropped.
    Expired {
        /// What the caller gave with the call.
        token: T,
    },
    /// The sign of life has come that
    /// [`ClientConfig::asks_first`](crate::ClientConfig::asks_first) asks for, or the time for it
    /// is over: calls are taken from now on.
    Alive,
    /// The provider wants no new calls; those in flight will be answered.
    ReadOnly,
    /// The provider wants calls again.
    Writeable,
    /// The connection is of no use any more. Calls in flight are still to be drained.
    Dead(DeadReason),
}

/// Why a connection died without an error in its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DeadReason {
    /// Nothing was heard for three heartbeats.
    #[error("the peer sent nothing for {} ms", .silence.as_millis())]
    Silent {
        /// For how long.
        silence: Duration,
    },
    /// A frame began to come and did not become whole in time.
    #[error("a message began to arrive and was not complete after {} ms", .time.as_millis())]
    Unfinished {
        /// How long it had.
        time: Duration,
    },
}

/// Why a call was not accepted. None of its bytes were written, so it may go elsewhere.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SendError {
    /// The provider wants no new calls, or the connection is dead.
    #[error("the connection takes no new calls")]
    NotAccepting,
    /// As many calls as allowed wait for their reply.
    #[error("{max} calls are in flight already")]
    TooManyInFlight {
        /// The limit.
        max: usize,
    },
    /// The peer reads more slowly than calls are made.
    #[error("{buffered} bytes wait to be written, the limit is {max}")]
    BufferFull {
        /// Bytes that wait.
        buffered: usize,
        /// The limit.
        max: usize,
    },
    /// The request cannot be written.
    #[error(transparent)]
    Encode(#[from] ProtoError),
}

/// What a connection has counted that no event tells.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClientStats {
    /// Calls that had expired or were cancelled before their reply was read.
    pub given_up: u64,
    /// Replies to calls that had expired, were cancelled, or never were.
    pub stale_replies: u64,
    /// Answers to our heartbeats.
    pub heartbeats_heard: u64,
    /// Heartbeats that we sent.
    pub heartbeats_sent: u64,
    /// Heartbeats that we answered.
    pub heartbeats_answered: u64,
    /// Requests of the provider, which we do not serve (Dubbo's callbacks).
    pub refused_requests: u64,
}
