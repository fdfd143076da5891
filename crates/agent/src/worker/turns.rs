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
    /// How many it has had, up to [`NEW_TURNS`].
    n_turns: u8,
    /// While it waits.
    ticket: Option<Rc<Ticket>>,
}

impl<F> InTurn<F> {
    pub(super) fn new(task: F, turns: &Rc<Turns>) -> Self {
        let usage = Usage::unknown(Instant::now());
        Self { task: Box::pin(task), turns: Rc::clone(turns), usage, n_turns: 0, ticket: None }
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
        let polled = self.task.as_mut().poll(cx);
        let time = start.elapsed();
        self.n_turns = NEW_TURNS.min(self.n_turns + 1);
        self.usage = self.usage.after(start, time);
        if !is_quick {
            self.turns.spend(time);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that is always ready, and busy for so long in each turn.
    async fn busy(time: Duration, n_turns: &Cell<u32>) {
        loop {
            let start = Instant::now();
            while start.elapsed() < time {
                std::hint::spin_loop();
            }
            n_turns.set(n_turns.get() + 1);
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_call_waits_for_one_long_turn_and_not_for_all() {
        let turns = Rc::new(Turns::default());
        let n_long = Rc::new(Cell::new(0));
        let tasks = tokio::task::LocalSet::new();
        for _ in 0..20 {
            let n_long = Rc::clone(&n_long);
            let task = async move { busy(5 * TIME_PER_LOOK, &n_long).await };
            tasks.spawn_local(InTurn::new(task, &turns));
        }
        let calling = {
            let turns = Rc::clone(&turns);
            tasks.spawn_local(async move { turns.call_each().await })
        };
        let mut most = 0;
        tasks
            .run_until(async {
                while n_long.get() < 20 {
                    tokio::task::yield_now().await;
                }
                for _ in 0..50 {
                    let before = n_long.get();
                    tokio::task::yield_now().await;
                    most = most.max(n_long.get() - before);
                }
            })
            .await;
        calling.abort();
        assert!((1..=3).contains(&most), "{most} long turns between two looks");
    }

    #[tokio::test]
    async fn all_that_have_long_turns_get_theirs() {
        let turns = Rc::new(Turns::default());
        let counts: Vec<Rc<Cell<u32>>> = (0..3).map(|_| Rc::default()).collect();
        let tasks = tokio::task::LocalSet::new();
        for count in &counts {
            let count = Rc::clone(count);
            let task = async move { busy(2 * TIME_PER_LOOK, &count).await };
            tasks.spawn_local(InTurn::new(task, &turns));
        }
        let all_have = async {
            while counts.iter().any(|count| count.get() < 5) {
                tokio::task::yield_now().await;
            }
        };
        tasks
            .run_until(async {
                tokio::select! {
                    () = turns.call_each() => {}
                    () = all_have => {}
                }
            })
            .await;
        let most = counts.iter().map(|count| count.get()).max();
        assert!(most <= Some(7), "{counts:?}");
    }

    /// A task that wakes itself forever, with turns that cost nothing to speak of.
    async fn short(n_turns: &Cell<u32>) {
        loop {
            n_turns.set(n_turns.get() + 1);
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn first_calls_come_one_by_one_to_a_long_line_and_others_go_on() {
        let n_in_line = Rc::new(Cell::new(0));
        let turns = Rc::new(Turns::new(Rc::clone(&n_in_line)));
        let (n_served, n_first) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let tasks = tokio::task::LocalSet::new();
        let calling = {
            let turns = Rc::clone(&turns);
            tasks.spawn_local(async move { turns.call_each().await })
        };
        let served = Rc::clone(&n_served);
        tasks.spawn_local(InTurn::new(async move { short(&served).await }, &turns));
        let until = async |n: &Cell<u32>, least: u32| {
            let target = n.get() + least;
            while n.get() < target {
                tokio::task::yield_now().await;
            }
        };
        tasks.run_until(until(&n_served, 10)).await;
        n_in_line.set(LONG_LINE_LEN + 1);
        for _ in 0..20 {
            let first = Rc::clone(&n_first);
            let task = async move { first.set(first.get() + 1) };
            tasks.spawn_local(InTurn::new(task, &turns));
        }
        let start = Instant::now();
        tasks.run_until(until(&n_first, 5)).await;
        assert!(4 * LONG_LINE_PAUSE <= start.elapsed(), "{:?}", start.elapsed());
        tasks.run_until(until(&n_served, 10)).await;
        n_in_line.set(0);
        tasks.run_until(until(&n_first, 20 - n_first.get())).await;
        calling.abort();
    }

    #[test]
    fn what_was_used_is_forgiven_and_who_is_not_seen_is_forgotten() {
        let now = Instant::now();
        let usage = Usage::unknown(now);
        let proof = FORGIVEN_PARTS * UNKNOWN;
        let quick = FORGIVEN_PARTS * QUICK;
        assert!(!usage.is_quick(now) && !usage.is_quick(now + proof - quick));
        assert!(usage.is_quick(now + proof) && usage.is_quick(now + FORGET));
        assert!(!usage.is_quick(now + 2 * FORGET));
        // What it uses adds up, from when it had nothing to be forgiven.
        let later = now + FORGET / 2;
        let usage = usage.after(later, FREE + QUICK / 2);
        assert!(usage.is_quick(later) && usage.known_until == later + FORGET);
        let usage = usage.after(later, FREE + QUICK / 2);
        assert!(!usage.is_quick(later) && usage.is_quick(later + quick / 2));
        // Turns of a call count for nothing, however many they are.
        let calls = (0..100).fold(usage, |usage, _| usage.after(later, FREE));
        assert_eq!(calls.forgiven_at, usage.forgiven_at);
        // Who was forgotten begins anew.
        let again = later + 2 * FORGET;
        assert_eq!(usage.after(again, FREE + QUICK).forgiven_at, again + proof + quick);
    }

    #[tokio::test]
    async fn who_has_been_quick_does_not_wait_for_those_who_have_just_come() {
        let turns = Rc::new(Turns::default());
        let n_quick = Rc::new(Cell::new(0));
        let n_new = Rc::new(Cell::new(0));
        let tasks = tokio::task::LocalSet::new();
        let quick = Rc::clone(&n_quick);
        let mut task = InTurn::new(async move { short(&quick).await }, &turns);
        task.usage.forgiven_at = Instant::now();
        tasks.spawn_local(task);
        let calling = Rc::clone(&turns);
        tasks.spawn_local(async move { calling.call_each().await });
        tasks
            .run_until(async {
                for _ in 0..40 {
                    let n_new = Rc::clone(&n_new);
                    let first_turn = async move {
                        let start = Instant::now();
                        while start.elapsed() < TIME_PER_LOOK {
                            std::hint::spin_loop();
                        }
                        n_new.set(n_new.get() + 1);
                    };
                    tokio::task::spawn_local(InTurn::new(first_turn, &turns));
                }
                let before = n_quick.get();
                while n_new.get() < 40 {
                    tokio::task::yield_now().await;
                }
                let n_quick = n_quick.get() - before;
                assert!(30 <= n_quick, "{n_quick} quick turns beside 40 first ones");
            })
            .await;
    }

    #[test]
    fn who_has_just_come_does_not_wait_for_all_who_were_there() {
        let turns = Turns::default();
        for _ in 0..3 {
            turns.add(Waker::noop(), NEW_TURNS);
        }
        let new = turns.add(Waker::noop(), FIRST_TURNS);
        let mut waiting = turns.waiting.borrow_mut();
        let order: Vec<bool> =
            std::iter::from_fn(|| waiting.pop()).map(|ticket| Rc::ptr_eq(&ticket, &new)).collect();
        assert_eq!(order, [true, false, false, false]);
    }

    #[tokio::test]
    async fn one_alone_has_all_the_time() {
        let turns = Rc::new(Turns::default());
        let n_turns = Rc::new(Cell::new(0));
        let count = Rc::clone(&n_turns);
        let task = async move { busy(2 * TIME_PER_LOOK, &count).await };
        let until = async {
            while n_turns.get() < 20 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = InTurn::new(task, &turns) => {}
            () = turns.call_each() => {}
            () = until => {}
        }
        // It waited for nobody but the sockets.
        assert!(turns.waiting.borrow().new.len() + turns.waiting.borrow().known.len() <= 1);
    }
}
