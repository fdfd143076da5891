//! Who may keep the event loop busy, and how often.
//!
//! A turn of a session is one poll of its task. Most take microseconds; one that decodes
//! megabytes, or thousands of frames that a hostile peer has sent, takes milliseconds. Tasks that
//! are ready run one after the other, so that a call would wait for the long turns of all such
//! sessions, or for the first turns of all who connect at the same moment.
//!
//! Here those wait instead. A session is quick that has used little of the loop's time lately. All
//! others share a time for each look at the sockets. What is beyond it waits, first come, first
//! served, until the sockets of all were looked at again. Who has just come waits in a queue of
//! its own, so that thousands of old sessions that end at once are not in its way. Where nobody
//! else has anything to do, that costs a look at the sockets.
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

use super::core_time::CoreTime;

/// A session is quick that has used less than this and not been forgiven it: several calls.
const QUICK: Duration = Duration::from_micros(200);
/// Who is new, or has not been seen for [`FORGET`], is taken to have used so much.
const UNKNOWN: Duration = Duration::from_millis(1);
/// See [`UNKNOWN`].
const FORGET: Duration = Duration::from_secs(1);
/// A session is new for so many turns: those of a call.
const NEW_TURNS: u8 = 3;
/// One part of so many of the time that passes is forgiven.
const FORGIVEN_PARTS: u32 = 100;
/// So much of each turn is not counted: that of a call. Beyond it sessions differ.
const FREE: Duration = Duration::from_micros(20);
/// A turn of at least this may have been interrupted.
const LONG: Duration = Duration::from_micros(100);
/// How long all together, who are not quick, may keep the loop busy between two looks at the
/// sockets.
const TIME_PER_LOOK: Duration = Duration::from_micros(200);
/// Each turn changes an average by one part of so many.
const AVERAGE_PARTS: u32 = 4;
/// The first call of a session is read in one of so many turns.
const FIRST_TURNS: u8 = 2;
/// Where more calls than this wait for endpoints, first calls come one at a time, with this pause.
const LONG_LINE_LEN: usize = 256;
const LONG_LINE_PAUSE: Duration = Duration::from_millis(1);

/// What the sessions of a worker share that are not quick.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: RefCell<Waiting>,
    /// What they have used since the last look at the sockets that was for them: when it is as
    /// much as they may use, the next of them waits for another.
    spent: Cell<Duration>,
    /// What one of their turns takes on average.
    average: Cell<Duration>,
    /// What this thread had of a core after the last long turn.
    core_time: Cell<CoreTime>,
    /// Somebody waits.
    added: Notify,
    /// How many calls wait for endpoints.
    n_in_line: Rc<Cell<usize>>,
    /// When somebody was called last for a first call.
    first_at: Cell<Option<Instant>>,
}

/// Who waits for time. The two queues take turns.
#[derive(Debug, Default)]
struct Waiting {
    /// With their first calls.
    first: VecDeque<Rc<Ticket>>,
    is_turn_of_last: bool,
    /// For the first time.
    new: VecDeque<Rc<Ticket>>,
    known: VecDeque<Rc<Ticket>>,
    is_turn_of_new: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.is_empty_but_for_first() && self.first.is_empty()
    }

    fn is_empty_but_for_first(&self) -> bool {
        self.new.is_empty() && self.known.is_empty()
    }

    fn pop(&mut self) -> Option<Rc<Ticket>> {
        self.is_turn_of_new = !self.is_turn_of_new;
        match self.is_turn_of_new {
            true => self.new.pop_front().or_else(|| self.known.pop_front()),
            false => self.known.pop_front().or_else(|| self.new.pop_front()),
        }
    }

    fn pop_first(&mut self) -> Option<Rc<Ticket>> {
        self.is_turn_of_last = !self.is_turn_of_last;
        match self.is_turn_of_last {
            true => self.first.pop_front(),
            false => self.first.pop_back(),
        }
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

impl Turns {
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
            if is_only_first && self.is_long_line() {
                tokio::select! {
                    () = tokio::time::sleep(LONG_LINE_PAUSE) => {}
                    () = self.added.notified() => {}
                }
            } else {
                // Those who may do so run, and then the sockets of all are looked at.
                tokio::task::yield_now().await;
            }
            self.spent.set(Duration::ZERO);
            let n = self.n_per_look();
            for _ in 0..n {
                let Some(ticket) = self.waiting.borrow_mut().pop() else { break };
                ticket.call();
            }
            self.call_first(n);
        }
    }

    /// Has some go on with their first calls: `n`, or as many as a long line allows.
    fn call_first(&self, n: u128) {
        let now = Instant::now();
        let n = match self.is_long_line() {
            false => n,
            true if self.first_at.get().is_none_or(|at| at + LONG_LINE_PAUSE <= now) => 1,
            true => return,
        };
        self.first_at.set(Some(now));
        for _ in 0..n {
            let Some(ticket) = self.waiting.borrow_mut().pop_first() else { break };
            ticket.call();
        }
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
        let now = CoreTime::of_thread();
        let before = self.core_time.replace(now);
        match at_start {
            Some(at_start) => wall.min(now.since(at_start)),
            None if now.was_interrupted_since(before) => Duration::ZERO,
            None => wall,
        }
    }

    fn spend(&self, time: Duration) {
        self.spent.set(self.spent.get() + time);
        self.average.set(follow(self.average.get(), time));
    }

    fn has_time(&self) -> bool {
        self.spent.get() < TIME_PER_LOOK && self.waiting.borrow().is_empty()
    }

    fn add(&self, waker: &Waker, n_turns: u8) -> Rc<Ticket> {
        let ticket = Rc::new(Ticket { waker: Some(waker.clone()).into(), ..Ticket::default() });
        let waiting = &mut *self.waiting.borrow_mut();
        let queue = match n_turns {
            0..FIRST_TURNS => &mut waiting.first,
            FIRST_TURNS..NEW_TURNS => &mut waiting.new,
            _ => &mut waiting.known,
        };
        queue.push_back(Rc::clone(&ticket));
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

/// A session's task, which takes its turn among the others.
pub(super) struct InTurn<F> {
    task: Pin<Box<F>>,
    turns: Rc<Turns>,
    usage: Usage,
    /// Its turns are measured exactly until then, because one was long.
    watched_until: Instant,
    /// How many it has had, up to [`NEW_TURNS`].
    n_turns: u8,
    /// While it waits.
    ticket: Option<Rc<Ticket>>,
}

impl<F> InTurn<F> {
    pub(super) fn new(task: F, turns: &Rc<Turns>) -> Self {
        let now = Instant::now();
        Self {
            task: Box::pin(task),
            turns: Rc::clone(turns),
            usage: Usage::unknown(now),
            watched_until: now,
            n_turns: 0,
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
            None if self.turns.has_time() && !self.has_to_wait() => true,
            None => {
                self.ticket = Some(self.turns.add(waker, self.n_turns));
                false
            }
        }
    }

    /// Whether it would come with its first call to a long line.
    fn has_to_wait(&self) -> bool {
        self.n_turns < FIRST_TURNS && self.turns.is_long_line()
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let start = Instant::now();
        let may_be_quick = self.ticket.is_none() && !self.has_to_wait();
        let is_quick = may_be_quick && self.usage.is_quick(start);
        if !is_quick && !self.may_run(cx.waker()) {
            return Poll::Pending;
        }
        let at_start = (!is_quick || start < self.watched_until).then(CoreTime::of_thread);
        let polled = self.task.as_mut().poll(cx);
        let wall = start.elapsed();
        if LONG <= wall {
            self.watched_until = start + FORGET;
        }
        let time = self.turns.used(wall, at_start);
        self.n_turns = NEW_TURNS.min(self.n_turns + 1);
        self.usage = self.usage.after(start, time);
        if !is_quick {
            self.turns.spend(time);
        }
        polled
    }
}

#[cfg(test)]
mod tests;
