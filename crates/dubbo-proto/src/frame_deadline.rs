//! How long a frame may take that has begun to come.
//!
//! The time is that of the whole frame: a byte now and then does not extend it.

use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Unfinished {
    limit: Duration,
    since: Option<Instant>,
}

impl Unfinished {
    pub(crate) const fn new(limit: Duration) -> Self {
        Self { limit, since: None }
    }

    /// Bytes were looked at: whether whole frames were among them, and whether the beginning of
    /// one is left.
    #[inline]
    pub(crate) const fn looked(&mut self, now: Instant, took_frames: bool, is_left: bool) {
        if !is_left {
            self.since = None;
        } else if took_frames || self.since.is_none() {
            self.since = Some(now);
        }
    }

    /// The time begins again: the peer could not send.
    pub(crate) fn restart(&mut self, now: Instant) {
        if let Some(since) = &mut self.since {
            *since = now;
        }
    }

    /// When the frame has to be whole.
    #[inline]
    pub(crate) fn due(&self) -> Option<Instant> {
        // A limit beyond what instants can tell is none.
        self.since?.checked_add(self.limit)
    }

    /// How long the frame has taken, if that is too long.
    pub(crate) fn overdue(&self, now: Instant) -> Option<Duration> {
        self.due().filter(|due| *due <= now).and(self.since).map(|since| now - since)
    }
}
