//! Requests that are longer than they may be. They are answered before anybody reads them.

use std::time::Instant;

use tracing::debug;

use super::SOURCE;
use super::session::DubboSession;
use crate::error::{CallError, Code};

impl DubboSession {
    /// Counts a request that was refused before it was read, and tells of it.
    #[cold]
    pub(super) fn note_too_long(&self, now: Instant, len: usize) {
        let max_len = self.max_body_len;
        let message =
            format!("the body is longer than the limit of {max_len} bytes (max_body_bytes)");
        let error = CallError::new(Code::BodyTooLarge, message);
        debug!(%error, len, "request refused");
        if let Some(mut entry) = self.services.worker().journal.begin(SOURCE, Some(self.peer), now)
        {
            entry.asked(len, |_| None);
            entry.failed(&error, None);
        }
        self.stats.started();
        self.stats.finished(now.elapsed(), Some(error.code as u8));
    }
}
