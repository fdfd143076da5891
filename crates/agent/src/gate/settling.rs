//! The threads of calls that have just been answered.
//!
//! A Dubbo provider's thread writes its answer, and goes back to its pool after that. A pool
//! without a queue (Dubbo's default) rejects a call that comes in between. So where every thread
//! of an app is in use, a call that was answered counts as in the app for a moment longer.
//!
//! Where calls are short, that moment would be a large part of the app's capacity. There a call
//! that is rejected now and then costs less: it goes to another endpoint, or waits.

use std::time::{Duration, Instant};

use flow::gate::{Left, Pass};

use super::{AppGate, Source};

/// The moment. Timers have steps of a millisecond, so that it takes twice as long on average.
const MOMENT: Duration = Duration::from_micros(500);
/// Calls that usually take less time than this are short.
const LEAST_WORK: Duration = Duration::from_millis(40);

impl AppGate {
    /// Keeps the pass of a call that was answered, if its thread may not be free yet.
    #[cold]
    pub(super) fn settle(&self, pass: Pass, now: Instant) -> Option<Pass> {
        let is_of_dubbo = self.late_replies.borrow().is_some();
        let is_long = LEAST_WORK <= self.gate.borrow().usual();
        if !is_of_dubbo || !is_long || self.shared.source() == Source::Found {
            return Some(pass);
        }
        self.gate.borrow_mut().answered(&pass, now);
        self.lingering.borrow_mut().settling.push_back((now + MOMENT, pass));
        // Its task is to look at the time.
        self.shared.wake(self.worker);
        None
    }

    /// When the next thread is free for certain.
    pub(super) fn settled_at(&self) -> Option<Instant> {
        self.lingering.borrow().settling.front().map(|(at, _)| *at)
    }

    /// Gives back the passes of calls whose threads are free.
    pub(super) fn end_settling(&self, now: Instant) {
        loop {
            let settled = self.lingering.borrow_mut().settling.pop_front_if(|(at, _)| *at <= now);
            let Some((_, pass)) = settled else { return };
            self.leave(pass, now, Left::Unknown);
        }
    }
}
