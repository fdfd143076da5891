//! Who may keep the event loop busy, and how often.
//!
//! A turn of a session is one poll of its task. Most take microseconds; one that decodes
//! megabytes, or thousands of frames that a hostile peer has sent, takes milliseconds. Tasks that
//! are ready run one after the other, so that a call would wait for the long turns of all such
//! sessions, or for the first turns of all who connect at the same moment.
//!
//! Here those wait instead. A session is quick that was answered once, and has used little of the
//! loop's time lately. All others share a time for each look at the sockets. What is beyond it
//! waits, first come, first served, until the sockets of all were looked at again. Where nobody
//! else has anything to do, that costs a look at the sockets.
//!
//! Those who were never answered are a crowd that has just come, or hostile peers. They have a
//! queue of their own, in which addresses take turns, so that who connects from another one does
//! not wait for them. While others call who are known, and from elsewhere, they have a part of the
//! loop's time (`new_time`). When it is used, those who have used most of it rest between their
//! turns, so that the other programs of the machine have a core, too.
//!
//! What counts is the core's time. A turn is not longer because the operating system ran somebody
//! else in it.
//!
//! Where a long line of calls waits for endpoints, the first calls of others come to it one at a
//! time: unread they wait without a deadline, and in line with one. Those who are served already
//! go on. Half of those who begin are those who came last, so that not everybody has to wait for
//! a crowd.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::by_origin::{ByOrigin, Origin};
use super::core_time::{CoreTime, n_interruptions};
use super::new_time::NewTime;
use crate::connections::Session;

/// A session is quick that has used less than this and not been forgiven it: several calls.
const QUICK: Duration = Duration::from_micros(200);
/// Who is new, or has not been seen for [`FORGET`], is taken to have used so much.
const UNKNOWN: Duration = Duration::from_millis(1);
/// See [`UNKNOWN`].
const FORGET: Duration = Duration::from_secs(1);
/// One part of so many of the time that passes is forgiven.
const FORGIVEN_PARTS: u32 = 100;
/// So much of each turn is not counted: that of a call. Beyond it sessions differ.
const FREE: Duration = Duration::from_micros(20);
/// A turn of at least this may have been interrupted.
const LONG: Duration = Duration::from_micros(100);
/// After a long turn, so many are timed exactly.
const TIMED_TURNS: u8 = 8;
/// How long all together, who are not quick, may keep the loop busy between two looks at the
/// sockets.
const TIME_PER_LOOK: Duration = Duration::from_micros(200);
/// Each turn changes an average by one part of so many.
const AVERAGE_PARTS: u32 = 4;
/// The first call of a session is read in one of so many turns.
const FIRST_TURNS: u8 = 2;
/// While so many of one origin wait who were never answered, no more sessions from there begin.
const MAX_NEW: usize = 16;
/// How long those rest who have used their time. Timers are kept to a millisecond: it is one to
/// two.
const REST: Duration = Duration::from_millis(1);
/// Where more calls than this wait for endpoints, first calls come one at a time, with this pause.
const LONG_LINE_LEN: usize = 256;
const LONG_LINE_PAUSE: Duration = Duration::from_millis(1);

/// What the sessions of a worker share that are not quick.
#[derive(Debug, Default)]
pub(super) struct SessionTurns {
    waiting: RefCell<WaitingSessions>,
    /// What they have used since the last look at the sockets that was for them: when it is as
    /// much as they may use, the next of them waits for another.
    spent: Cell<Duration>,
    new_time: NewTime,
    /// When those who rest had their last turn.
    rested_at: Cell<Option<Instant>>,
    /// What one of their turns takes on average.
    average: Cell<Duration>,
    /// How often this thread had been interrupted after the last long turn that nobody timed.
    n_interruptions: Cell<i64>,
    /// Somebody waits.
    added: Notify,
    /// How many calls wait for endpoints.
    n_in_line: Rc<Cell<usize>>,
    /// When somebody was called last for a first call.
    first_at: Cell<Option<Instant>>,
}

/// Who waits for time. Those who are new and those who are known take turns.
#[derive(Debug, Default)]
struct WaitingSessions {
    /// With their first calls.
    first: ByOrigin<Rc<Ticket>>,
    /// Those who were never answered.
    new: ByOrigin<Rc<Ticket>>,
    known: VecDeque<Rc<Ticket>>,
    is_turn_of_known: bool,
}

impl WaitingSessions {
    fn is_empty(&self) -> bool {
        self.is_empty_but_for_first() && self.first.is_empty()
    }

    fn is_empty_but_for_first(&self) -> bool {
        self.new.is_empty() && self.known.is_empty()
    }

    /// How many from there were never answered.
    fn n_new_from(&self, origin: Origin) -> usize {
        self.first.len_from(origin) + self.new.len_from(origin)
    }

    /// The next of those who need not rest.
    fn pop(&mut self, has_to_rest: impl Fn(Origin) -> bool) -> Option<Rc<Ticket>> {
        let is_turn_of_known = self.is_turn_of_known;
        self.is_turn_of_known = !is_turn_of_known;
        match is_turn_of_known {
            true => self.known.pop_front().or_else(|| self.new.pop_unless(has_to_rest)),
            false => self.new.pop_unless(has_to_rest).or_else(|| self.known.pop_front()),
        }
    }

    /// Whether some wait, and all of them have to rest.
    fn is_at_rest(&self, has_to_rest: impl Fn(Origin) -> bool) -> bool {
        let rest = |line: &ByOrigin<_>| line.all(&has_to_rest);
        !self.is_empty() && self.known.is_empty() && rest(&self.first) && rest(&self.new)
    }
}

/// A session's place among them.
#[derive(Debug, Default)]
struct Ticket {
    /// Of the session's task, while it waits.
    waker: RefCell<Option<Waker>>,
    is_called: Cell<bool>,
}

impl Ticket {
    fn call(&self) {
        self.is_called.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl SessionTurns {
    /// Nobody waits. `n_in_line` is how many calls wait for endpoints.
    pub(super) fn new(n_in_line: Rc<Cell<usize>>) -> Self {
        Self { n_in_line, ..Self::default() }
    }

    /// Gives time after each look at the sockets, for ever.
    pub(super) async fn call_each(&self) {
        loop {
            if self.waiting.borrow().is_empty() {
                self.added.notified().await;
            }
            let is_only_first = self.waiting.borrow().is_empty_but_for_first();
            let is_at_rest = self.is_at_rest();
            if is_only_first && self.is_long_line() {
                tokio::select! {
                    () = tokio::time::sleep(LONG_LINE_PAUSE) => {}
                    () = self.added.notified() => {}
                }
            } else if is_at_rest {
                tokio::time::sleep(REST).await;
            } else {
                // Those who may do so run, and then the sockets of all are looked at.
                tokio::task::yield_now().await;
            }
            self.call_some(Instant::now());
            if is_at_rest {
                // They run; the time until the next of them is for others.
                tokio::task::yield_now().await;
                self.spent.set(Duration::ZERO);
            }
        }
    }

    /// Has some go on: as many as may run between two looks at the sockets. Those who have to rest
    /// are among them once in a while.
    fn call_some(&self, now: Instant) {
        self.spent.set(Duration::ZERO);
        let n = self.n_per_look();
        let have_rested = self.rested_at.get().is_none_or(|at| at + REST <= now);
        if have_rested {
            self.rested_at.set(Some(now));
            self.waiting.borrow_mut().is_turn_of_known = false;
        }
        let has_to_rest = |origin| !have_rested && self.new_time.has_to_rest(origin, now);
        for _ in 0..n {
            let next = self.waiting.borrow_mut().pop(has_to_rest);
            let Some(ticket) = next else { break };
            ticket.call();
        }
        for _ in 0..self.n_first(n, now) {
            let next = self.waiting.borrow_mut().first.pop_unless(has_to_rest);
            let Some(ticket) = next else { break };
            ticket.call();
        }
    }

    /// How many go on with their first calls: `n`, or as many as a long line allows.
    fn n_first(&self, n: u128, now: Instant) -> u128 {
        let n = match self.is_long_line() {
            false => n,
            true if self.first_at.get().is_none_or(|at| at + LONG_LINE_PAUSE <= now) => 1,
            true => return 0,
        };
        self.first_at.set(Some(now));
        n
    }

    /// Whether so many from there wait who were never answered that no more should come.
    pub(super) fn is_full_from(&self, origin: Origin) -> bool {
        MAX_NEW <= self.waiting.borrow().n_new_from(origin)
    }

    /// Whether sessions from there may begin faster, as nobody calls from elsewhere, and they have
    /// time left.
    pub(super) fn may_hurry(&self, origin: Origin) -> bool {
        let now = Instant::now();
        !self.new_time.is_beside_others(origin, now) && !self.new_time.is_spent(origin, now)
    }

    /// Whether only those wait who were never answered, and have to rest.
    fn is_at_rest(&self) -> bool {
        let now = Instant::now();
        self.waiting.borrow().is_at_rest(|origin| self.new_time.has_to_rest(origin, now))
    }

    fn is_long_line(&self) -> bool {
        LONG_LINE_LEN < self.n_in_line.get()
    }

    /// How many turns fit between two looks at the sockets: one at least.
    fn n_per_look(&self) -> u128 {
        let average = self.average.get().as_nanos().max(1);
        (TIME_PER_LOOK.as_nanos() / average).max(1)
    }

    /// How long a turn that took `wall` used the core. `at_start` is what the thread had used
    /// before, if somebody looked. If nobody did, an interrupted turn counts for nothing.
    fn used(&self, wall: Duration, at_start: Option<CoreTime>) -> Duration {
        if wall < LONG {
            return wall;
        }
        let Some(at_start) = at_start else {
            let n = n_interruptions();
            let was_interrupted = self.n_interruptions.replace(n) != n;
            return if was_interrupted { Duration::ZERO } else { wall };
        };
        wall.min(CoreTime::of_thread().since(at_start))
    }

    fn spend(&self, now: Instant, time: Duration, who: &Who) {
        if !who.is_known {
            self.new_time.spend(who.origin, now, time);
        }
        self.spent.set(self.spent.get() + time);
        self.average.set(follow(self.average.get(), time));
    }

    fn has_time(&self, who: &Who) -> bool {
        let waiting = self.waiting.borrow();
        let is_next = match who.is_known {
            true => waiting.known.is_empty(),
            false => waiting.n_new_from(who.origin) == 0,
        };
        is_next && self.spent.get() < TIME_PER_LOOK
    }

    fn add(&self, waker: &Waker, who: &Who) -> Rc<Ticket> {
        let ticket = Rc::new(Ticket { waker: Some(waker.clone()).into(), ..Ticket::default() });
        let (waiting, waits) = (&mut *self.waiting.borrow_mut(), Rc::clone(&ticket));
        match who {
            Who { is_known: true, .. } => waiting.known.push_back(waits),
            Who { n_turns: 0..FIRST_TURNS, .. } => waiting.first.push(who.origin, waits),
            Who { .. } => waiting.new.push(who.origin, waits),
        }
        self.added.notify_one();
        ticket
    }
}

/// An average that follows what comes.
fn follow(average: Duration, next: Duration) -> Duration {
    (average * (AVERAGE_PARTS - 1) + next) / AVERAGE_PARTS
}

/// What a session has used of the loop's time lately, kept as the instant by which all of it is
/// forgiven (virtual scheduling, as the generic cell rate algorithm of ITU-T I.371 does it): most
/// turns then need a comparison.
#[derive(Clone, Copy, Debug)]
struct Usage {
    forgiven_at: Instant,
    known_until: Instant,
}

impl Usage {
    fn unknown(now: Instant) -> Self {
        Self { forgiven_at: now + UNKNOWN * FORGIVEN_PARTS, known_until: now + FORGET }
    }

    fn is_quick(&self, now: Instant) -> bool {
        now <= self.known_until && self.forgiven_at < now + QUICK * FORGIVEN_PARTS
    }

    /// The same after a turn that began `now` and took so long.
    fn after(self, now: Instant, time: Duration) -> Self {
        let known = if now <= self.known_until { self } else { Self::unknown(now) };
        let forgiven_at = match time.saturating_sub(FREE) {
            Duration::ZERO => known.forgiven_at,
            used => known.forgiven_at.max(now) + used * FORGIVEN_PARTS,
        };
        Self { forgiven_at, known_until: now + FORGET }
    }
}

/// Who has a session.
pub(super) struct Who {
    origin: Origin,
    session: Rc<dyn Session>,
    /// How many turns it has had, as far as they were counted.
    n_turns: u8,
    /// A call of it was answered.
    is_known: bool,
}

impl Who {
    /// One that has just come from there.
    pub(super) fn new(origin: Origin, session: Rc<dyn Session>) -> Self {
        Self { origin, session, n_turns: 0, is_known: false }
    }

    fn note_turn(&mut self) {
        if !self.is_known {
            self.n_turns = self.n_turns.saturating_add(1);
            self.is_known = self.session.is_known();
        }
    }
}

/// A session's task, which takes its turn among the others.
pub(super) struct InTurn<F> {
    task: Pin<Box<F>>,
    turns: Rc<SessionTurns>,
    usage: Usage,
    /// So many of its next turns are timed exactly, because one was long.
    n_timed: u8,
    who: Who,
    /// While it waits.
    ticket: Option<Rc<Ticket>>,
}

impl<F> InTurn<F> {
    /// The task of a session, and who has it.
    pub(super) fn new(task: F, turns: &Rc<SessionTurns>, who: Who) -> Self {
        let now = Instant::now();
        Self {
            task: Box::pin(task),
            turns: Rc::clone(turns),
            usage: Usage::unknown(now),
            n_timed: 0,
            who,
            ticket: None,
        }
    }

    /// Whether it may run now. If not, `waker` is woken when it may.
    fn may_run(&mut self, waker: &Waker) -> bool {
        match &self.ticket {
            Some(ticket) if ticket.is_called.get() => {
                self.ticket = None;
                true
            }
            Some(ticket) => {
                ticket.waker.borrow_mut().get_or_insert_with(|| waker.clone()).clone_from(waker);
                false
            }
            None if self.turns.has_time(&self.who) && !self.has_to_wait() => true,
            None => {
                self.ticket = Some(self.turns.add(waker, &self.who));
                false
            }
        }
    }

    /// Whether it would come with its first call to a long line.
    fn has_to_wait(&self) -> bool {
        let Who { n_turns, is_known, .. } = self.who;
        !is_known && n_turns < FIRST_TURNS && self.turns.is_long_line()
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let start = Instant::now();
        let may_be_quick = self.who.is_known && self.ticket.is_none();
        let is_quick = may_be_quick && self.usage.is_quick(start);
        if !is_quick && !self.may_run(cx.waker()) {
            return Poll::Pending;
        }
        if self.who.is_known {
            self.turns.new_time.note_known(self.who.origin, start);
        }
        // Who was answered has short turns, as far as is known, and looking costs system calls.
        let is_timed = !self.who.is_known || 0 < self.n_timed;
        let at_start = is_timed.then(CoreTime::of_thread);
        let polled = self.task.as_mut().poll(cx);
        let wall = start.elapsed();
        let time = self.turns.used(wall, at_start);
        self.n_timed = match LONG <= if at_start.is_some() { time } else { wall } {
            true => TIMED_TURNS,
            false => self.n_timed.saturating_sub(1),
        };
        self.usage = self.usage.after(start, time);
        if !is_quick {
            self.turns.spend(start, time, &self.who);
        }
        self.who.note_turn();
        polled
    }
}

#[cfg(test)]
mod tests;
