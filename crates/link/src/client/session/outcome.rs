//! How calls of a session end, and why they are not taken.

use std::sync::Arc;

use bytes::Bytes;
use link_proto::{Meta, SendError, Status};

use crate::error::Full;

/// How a call ended.
#[derive(Debug)]
pub(crate) enum CallEnd {
    /// An answer came.
    Answer(Response),
    /// A one-way call is in the connection's buffer.
    Sent,
    /// Its time was over; with the reason if there was no connection all that time.
    Expired(Option<Arc<str>>),
    /// The connection broke while it was out.
    Broken(Arc<str>),
    /// It was not begun, and another session will take it.
    NotBegun,
    /// The server cannot be reached, and the call was not to wait.
    Unreachable(Arc<str>),
    /// It cannot be sent.
    Unsendable(SendError),
}

/// An answer as it came.
#[derive(Debug)]
pub(crate) struct Response {
    pub status: Status,
    pub codec: u8,
    pub meta: Meta,
    pub payload: Bytes,
}

/// Why a call was not taken.
#[derive(Debug)]
pub(crate) enum NotTaken {
    /// The session is over or closing: look for another one.
    Elsewhere,
    Full(Full),
    Unreachable(Arc<str>),
    Unsendable(SendError),
}
