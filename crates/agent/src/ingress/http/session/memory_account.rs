//! What a connection holds, for its account: heads, and answers on their way out. Bodies and whole
//! answers hold their own.

use std::rc::Rc;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, HeaderValue};
use tracing::debug;
use wire::{Account, Hold, MIN_TAKEN_LEN};

use super::{FramePace, HttpSession, Phase, StreamAnswer};
use crate::error::{CallError, Code};

/// Fields that a head may have, in either version.
const MAX_FIELDS: usize = 100;
/// What a field costs beside its bytes, which several may share.
const FIELD_COST: usize = 100;

impl HttpSession {
    /// What the connection holds.
    pub(in crate::ingress::http) fn account(&self) -> &Rc<Account> {
        &self.account
    }

    /// Counts what was read of a head of HTTP/1; says whether there is room for it.
    pub(super) fn read_of_head(&self, len: usize) -> bool {
        let before = self.head_len.get();
        if self.phase.get() == Phase::Busy {
            return true;
        }
        self.head_len.set(before + len);
        self.account.set(before, before + len).is_ok()
    }

    /// The head of HTTP/1 that was read is needed no longer.
    pub(super) fn end_head(&self) {
        let _ = self.account.set(self.head_len.replace(0), 0);
    }

    /// Counts what hyper has of answers.
    pub(super) fn count_handed(&self, len: usize) {
        let _ = self.account.set(self.handed_len.replace(len), len);
    }

    /// Counts the head of a request of HTTP/2, which is made of fields that may have come as a
    /// byte each.
    pub(super) fn hold_head(&self, head: &HeaderMap) -> Result<Option<Hold>, CallError> {
        if !self.is_http2.get() {
            return Ok(None);
        }
        if MAX_FIELDS < head.len() {
            self.pace(FramePace::refused_head);
            let message =
                format!("{} header fields are over the limit of {MAX_FIELDS}", head.len());
            return Err(CallError::new(Code::HeadTooLarge, message));
        }
        let cost = |(name, value): (&HeaderName, &HeaderValue)| {
            name.as_str().len() + value.len() + FIELD_COST
        };
        Ok(Some(self.account.take(head.iter().map(cost).sum())?))
    }

    /// The answer of a stream of HTTP/2 that has begun.
    pub(super) fn begin_stream(&self) -> Option<Rc<StreamAnswer>> {
        let stream = self.is_http2.get().then(|| StreamAnswer::new(&self.pieces))?;
        self.pace(FramePace::accepted_head);
        *self.last_stream.borrow_mut() = Some(Rc::clone(&stream));
        Some(stream)
    }

    /// Resets streams of HTTP/2 whose answers are not taken, and ends a connection that takes
    /// nothing at all.
    pub(super) fn check_streams(&self, now: Instant, time: Duration) {
        self.streams
            .borrow_mut()
            .retain(|stream| stream.upgrade().inspect(|stream| stream.check(now, time)).is_some());
        let (len, n_dropped) = (self.pieces.waiting_len(), self.pieces.n_dropped());
        self.count_handed(len);
        match self.pieces_mark.get() {
            Some((since, wanted, before)) if n_dropped - before < wanted => {
                if time <= now.saturating_duration_since(since) {
                    debug!("connection closed: the caller did not read its answers");
                    self.is_over.set(true);
                    self.wake();
                }
            }
            _ => {
                let wanted = MIN_TAKEN_LEN.min(len as u64);
                self.pieces_mark.set((len != 0).then_some((now, wanted, n_dropped)));
            }
        }
    }
}
