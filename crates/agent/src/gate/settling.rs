//! The threads of calls that have just been answered.
//!
//! A Dubbo provider's thread writes its answer, and goes back to its pool after that. A pool
//! without a queue (Dubbo's default) rejects a call that comes in between. So where every thread
//! of an app is in use, one that was answered counts as in the app for a moment longer. That
//! costs two or three percent of the app's capacity. Nothing tells a pool that would reject calls
//! from one with a queue but a rejection, which is what must not happen.
//!
//! A call that comes by a credit must not wait in line behind those that have none. It has its
//! place, and is only sent a moment later, when enough threads are free for certain.
//!
//! Where calls are short, that moment would be a large part of the app's capacity. There a call
//! that is rejected now and then costs less: it is offered to the app again
//! ([`super::repeating`]).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use flow::gate::{Left, Pass};

use super::AppGate;

/// The moment. Timers have steps of a millisecond, so that it takes twice as long on average.
const MOMENT: Duration = Duration::from_micros(500);
/// A call that takes less time than this, as calls usually do, is short.
const LEAST_WORK: Duration = Duration::from_millis(40);

/// Calls by credits that were answered a moment ago: their passes are back, and their threads may
/// not be.
#[derive(Debug, Default)]
pub(super) struct LentSettling {
    /// When their threads are free for certain, the next one first. The gate's task forgets what
    /// is over at every look, so these are the calls that were answered since the last one.
    free_at: VecDeque<Instant>,
}

impl LentSettling {
    fn add(&mut self, free_at: Instant) {
        self.free_at.push_back(free_at);
    }

    fn forget(&mut self, now: Instant) {
        while self.free_at.pop_front_if(|at| *at <= now).is_some() {}
    }

    fn len(&self) -> u32 {
        u32::try_from(self.free_at.len()).unwrap_or(u32::MAX)
    }

    /// When threads are free for certain for all of `in_flight` calls of an app that has
    /// `n_threads`; `None` if they are.
    fn all_free_at(&self, in_flight: u32, n_threads: u32) -> Option<Instant> {
        let n_missing = in_flight.saturating_add(self.len()).saturating_sub(n_threads);
        let last = usize::try_from(n_missing.checked_sub(1)?).ok()?;
        self.free_at.get(last).or(self.free_at.back()).copied()
    }
}

impl AppGate {
    /// Whether it is before a Dubbo app of which somebody has said how many threads it has.
    #[inline]
    pub(super) fn has_known_threads(&self) -> bool {
        !self.shared.is_measured() && self.late_ends.borrow().is_some()
    }

    /// Keeps the pass of a call that was answered, if its thread may not be free yet.
    #[cold]
    pub(super) fn settle(&self, pass: Pass, now: Instant, latency: Duration) -> Option<Pass> {
        let is_long = LEAST_WORK <= self.gate.borrow().usual().max(latency);
        if !is_long || !self.has_known_threads() {
            return Some(pass);
        }
        if self.gate.borrow().lent_to(&pass).is_some() {
            self.lingering.borrow_mut().settling_lent.add(now + MOMENT);
            self.settles_lent.set(true);
            return Some(pass);
        }
        self.gate.borrow_mut().answered(&pass, latency);
        self.lingering.borrow_mut().settling.push_back((now + MOMENT, pass));
        // Its task is to look at the time.
        self.shared.wake(self.worker);
        None
    }

    /// When a call may be sent that has just been let in by a credit; `None` means at once.
    #[inline]
    pub fn sent_at(&self, now: Instant) -> Option<Instant> {
        if self.settles_lent.get() { self.all_free_at(now, 0) } else { None }
    }

    /// Whether threads are free for certain for one more call.
    #[inline]
    pub(super) fn is_settled(&self, now: Instant) -> bool {
        !self.settles_lent.get() || self.all_free_at(now, 1).is_none()
    }

    /// When threads are free for certain for the calls in the app, and so many more.
    #[cold]
    fn all_free_at(&self, now: Instant, n_more: u32) -> Option<Instant> {
        let settling = &mut self.lingering.borrow_mut().settling_lent;
        settling.forget(now);
        self.settles_lent.set(settling.len() != 0);
        let in_flight = self.gate.borrow().stats().in_flight;
        settling.all_free_at(in_flight.saturating_add(n_more), self.allowed.get())
    }

    /// How many threads are not free for certain, of calls by credits that were answered.
    pub(super) fn n_settling_lent(&self, now: Instant) -> u32 {
        let settling = &mut self.lingering.borrow_mut().settling_lent;
        settling.forget(now);
        settling.len()
    }

    /// When the next thread is free for certain.
    pub(super) fn settled_at(&self) -> Option<Instant> {
        let lingering = self.lingering.borrow();
        let own = lingering.settling.front().map(|(at, _)| *at);
        own.into_iter().chain(lingering.settling_lent.free_at.front().copied()).min()
    }

    /// Gives back the passes of calls whose threads are free.
    pub(super) fn end_settling(&self, now: Instant) {
        self.lingering.borrow_mut().settling_lent.forget(now);
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

    use flow::lender::Demand;
    use flow::queue::{CallerId, Priority};

    use super::*;
    use crate::config::AppCapacity;
    use crate::gate::testing::TestBorrower;
    use crate::gate::{Admission, Admitted, Borrower, SharedGate};
    use crate::testing::on_worker;

    const WORK: Duration = Duration::from_millis(50);

    /// A gate before a Dubbo app with one thread.
    fn gate(capacity: AppCapacity) -> Rc<AppGate> {
        let shared = Arc::new(SharedGate::new("h:20880".to_owned(), capacity, 1));
        let gate = AppGate::new(&shared, 0);
        gate.set_late_ends(Box::new(|| None));
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

    const LINK: u64 = 7;

    fn admit(gate: &Rc<AppGate>, now: Instant, caller: u64) -> Option<Admitted> {
        let caller = CallerId { number: caller, is_known: true };
        match gate.admit(now, caller, now + WORK * 10, Priority::default) {
            Admission::In(admitted) => Some(admitted),
            Admission::Waits(_) | Admission::Shed(_) => None,
        }
    }

    /// Two threads, whose credits a link has, and two calls by them that are answered together.
    fn answered_together(gate: &Rc<AppGate>) -> Instant {
        let start = Instant::now();
        gate.lend(start, LINK, &(Rc::new(TestBorrower::default()) as Rc<dyn Borrower>));
        gate.demanded(start, LINK, Demand { n_waiting: 2, n_seen: 1 });
        gate.look_at_lending(start + Duration::from_millis(100), false);
        let calls = [(); 2].map(|()| admit(gate, start, LINK).unwrap());
        let now = start + WORK;
        calls.into_iter().for_each(|call| call.answered(now));
        now
    }

    /// Neither thread may be back: both calls that follow are sent a moment later.
    #[test]
    fn each_thread_of_calls_by_credits_gets_a_moment() {
        on_worker(async || {
            let gate = gate(AppCapacity::Known(2));
            let now = answered_together(&gate);
            let first = admit(&gate, now, LINK).unwrap();
            assert_eq!(gate.sent_at(now), Some(now + MOMENT));
            let second = admit(&gate, now, LINK).unwrap();
            assert_eq!(gate.sent_at(now), Some(now + MOMENT));
            assert_eq!(gate.sent_at(now + MOMENT), None);
            drop((first, second));
        });
    }

    /// Nor are they somebody else's meanwhile.
    #[test]
    fn threads_that_may_not_be_free_are_not_given_away() {
        on_worker(async || {
            let gate = gate(AppCapacity::Known(2));
            let now = answered_together(&gate);
            gate.lost(now, LINK);
            assert!(admit(&gate, now, LINK + 1).is_none());
            assert_eq!((gate.n_held(now), gate.settled_at()), (2, Some(now + MOMENT)));
            assert_eq!(gate.n_held(now + MOMENT), 1, "it is for the call that has asked");
            assert!(gate.is_settled(now + MOMENT));
        });
    }
}
