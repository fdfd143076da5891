//! The threads of calls that have just been answered.
//!
//! A Dubbo provider's thread writes its answer, and goes back to its pool after that. A pool
//! without a queue (Dubbo's default) rejects a call that comes in between. So where every thread
//! of an app is in use, one that was answered counts as in the app for a moment longer. That
//! costs two or three percent of the app's capacity. Nothing tells a pool that would reject calls
//! from one with a queue but a rejection, which is what must not happen.
//!
//! A call that comes by a credit must not wait in line behind those that have none. It has its
//! place, and is only sent a moment later.
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
    pub(super) fn settle(&self, pass: Pass, now: Instant, latency: Duration) -> Option<Pass> {
        let is_of_dubbo = self.late_replies.borrow().is_some();
        let is_long = LEAST_WORK <= self.gate.borrow().usual();
        if !is_of_dubbo || !is_long || self.shared.source() == Source::Found {
            return Some(pass);
        }
        if pass.lent_to().is_some() {
            self.settles_at.set(Some(now + MOMENT));
            return Some(pass);
        }
        self.gate.borrow_mut().answered(latency);
        self.lingering.borrow_mut().settling.push_back((now + MOMENT, pass));
        // Its task is to look at the time.
        self.shared.wake(self.worker);
        None
    }

    /// When a call may be sent that has just been let in by a credit; `None` means at once.
    #[inline]
    pub fn sent_at(&self, now: Instant) -> Option<Instant> {
        let at = if self.is_lending.get() { self.settles_at.get() } else { None };
        at.filter(|at| now < *at && self.is_all_in_use())
    }

    /// Whether there are as many calls in the app as this worker may have there.
    #[cold]
    fn is_all_in_use(&self) -> bool {
        self.allowed.get() <= self.gate.borrow().stats().in_flight
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Arc;

    use super::*;
    use crate::config::AppCapacity;
    use crate::gate::SharedGate;
    use crate::testing::on_worker;

    const WORK: Duration = Duration::from_millis(50);

    /// A gate before a Dubbo app with one thread.
    fn gate(capacity: AppCapacity) -> Rc<AppGate> {
        let shared = Arc::new(SharedGate::new("h:20880".to_owned(), capacity, 1));
        let gate = AppGate::new(&shared, 0);
        gate.set_late_replies(Box::new(|| None));
        gate
    }

    /// Makes a call that takes `work`, and returns when it was answered.
    fn call(gate: &Rc<AppGate>, began: Instant, work: Duration) -> Instant {
        gate.enter(began).unwrap().answered(began + work);
        began + work
    }

    #[test]
    fn a_thread_gets_a_moment() {
        on_worker(async || {
            let gate = gate(AppCapacity::Known(1));
            let now = call(&gate, Instant::now(), WORK);
            assert!(gate.has_room(now), "nobody knew yet how long calls take");
            let now = call(&gate, now, WORK);
            assert!(!gate.has_room(now) && gate.enter(now).is_none());
            assert_eq!(gate.settled_at(), Some(now + MOMENT));
            gate.end_settling(now + MOMENT - Duration::from_nanos(1));
            assert!(!gate.has_room(now));
            gate.end_settling(now + MOMENT);
            assert!(gate.has_room(now + MOMENT));
        });
    }

    #[test]
    fn short_calls_get_none() {
        on_worker(async || {
            let gate = gate(AppCapacity::Known(1));
            let short = LEAST_WORK - Duration::from_millis(1);
            let now = call(&gate, Instant::now(), short);
            let now = call(&gate, now, short);
            assert!(gate.has_room(now));
        });
    }

    #[test]
    fn a_thread_that_is_not_the_last_one_gets_none() {
        on_worker(async || {
            let gate = gate(AppCapacity::Known(2));
            let now = call(&gate, Instant::now(), WORK);
            let now = call(&gate, now, WORK);
            assert_eq!(gate.settled_at(), None);
            assert!(gate.enter(now).is_some() && gate.has_room(now));
        });
    }
}
