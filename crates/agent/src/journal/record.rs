//! What is told of a call.

use std::time::{Duration, SystemTime};

use dubbo_proto::ServiceKey;
use wire::Peer;

use crate::error::Code;
use crate::stages::Spent;

/// Longest service key, method, path or trace context that is kept, in bytes.
pub(super) const MAX_NAME_LEN: usize = 256;
/// Longest message of an error that is kept, in bytes.
pub(super) const MAX_MESSAGE_LEN: usize = 512;
/// Longest text of arguments that is kept, in bytes.
pub(super) const MAX_ARGUMENTS_LEN: usize = 4096;

/// A call that has ended.
#[derive(Debug)]
pub struct Record {
    /// When it came, by the clock on the wall.
    pub began: SystemTime,
    /// How long it took.
    pub latency: Duration,
    /// What it came by: `http`, `dubbo` or `link`.
    pub protocol: &'static str,
    /// Who has made it.
    pub peer: Option<Peer>,
    /// The service key; `None` if the request could not be read so far.
    pub service: Option<Box<str>>,
    /// The method; `None` as above.
    pub method: Option<Box<str>>,
    /// The path that an HTTP request asked for, while it is not known what it calls.
    pub path: Option<Box<str>>,
    /// What went wrong; `None` if nothing did.
    pub code: Option<Code>,
    /// What was said of that.
    pub message: Option<Box<str>>,
    /// Where it was answered, or has failed.
    pub endpoint: Option<Box<str>>,
    /// Bytes of the request's body: as announced, or as have come, if it was refused before all
    /// was there.
    pub request_len: usize,
    /// Bytes of the provider's reply.
    pub reply_len: usize,
    /// The caller's `traceparent`.
    pub trace: Option<Box<str>>,
    /// The arguments as a JSON array, cut off where they are long, if anybody wanted them.
    pub arguments: Option<Box<str>>,
    /// How long it was in each stage, if its time was stopped.
    pub stages: Option<Box<Spent>>,
}

impl Record {
    /// Whether the call is one of this service: of its key, or of its interface alone.
    pub fn is_of_service(&self, wanted: &str) -> bool {
        self.service.as_deref().is_some_and(|name| {
            let service = name.parse::<ServiceKey>();
            service.is_ok_and(|service| service.matches(wanted, name))
        })
    }
}

/// At most so many bytes of a text, to the end of a character.
pub(super) fn cut(text: &str, max_len: usize) -> Box<str> {
    text[..text.floor_char_boundary(max_len)].into()
}
