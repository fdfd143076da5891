//! Who may keep the event loop busy, and how often.
//!
//! A turn of a session is one poll of its task. Most take microseconds; one that decodes
//! megabytes, or thousands of frames that a hostile peer has sent, takes milliseconds. Tasks that
//! are ready run one after the other, so that a call would wait for the long turns of all such
//! sessions. Here they wait for each other instead: after a long turn, a session's next one is put
//! off until it is its turn among those, and one of them runs each time that the sockets of all
//! others were looked at. Where nobody else has anything to do, that costs a look at the sockets.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Above this a turn is long: many times what a call takes.
const LONG: Duration = Duration::from_micros(500);

/// The sessions of a worker whose last turn was long, and that want another.
#[derive(Debug, Default)]
pub(super) struct LongTurns {
    waiting: RefCell<VecDeque<Rc<Ticket>>>,
    added: Notify,
}

/// A session's place among them.
#[derive(Debug, Default)]
struct Ticket {
    /// Of the session's task, while it waits.
    waker: RefCell<Option<Waker>>,
    is_called: Cell<bool>,
}

impl LongTurns {
    /// Has one after the other take its turn, for ever.
    pub(super) async fn call_each(&self) {
        loop {
            let next = self.waiting.borrow_mut().pop_front();
            match next {
                None => self.added.notified().await,
                Some(ticket) => {
                    ticket.is_called.set(true);
                    if let Some(waker) = ticket.waker.take() {
                        waker.wake();
                    }
                    // It runs, and then the sockets of all are looked at.
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

/// A session's task, which takes its turn among the others.
pub(super) struct InTurn<F> {
    task: Pin<Box<F>>,
    turns: Rc<LongTurns>,
    /// If its last turn was long.
    ticket: Option<Rc<Ticket>>,
}

impl<F> InTurn<F> {
    pub(super) fn new(task: F, turns: &Rc<LongTurns>) -> Self {
        Self { task: Box::pin(task), turns: Rc::clone(turns), ticket: None }
    }

    /// Whether it has to wait for its turn.
    fn waits(&self, waker: &Waker) -> bool {
        let Some(ticket) = &self.ticket else { return false };
        if ticket.is_called.get() {
            return false;
        }
        if ticket.waker.replace(Some(waker.clone())).is_none() {
            self.turns.waiting.borrow_mut().push_back(Rc::clone(ticket));
            self.turns.added.notify_one();
        }
        true
    }
}

impl<F: Future> Future for InTurn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if self.waits(cx.waker()) {
            return Poll::Pending;
        }
        let start = Instant::now();
        let polled = self.task.as_mut().poll(cx);
        self.ticket = (LONG < start.elapsed()).then(Rc::default);
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
        let turns = Rc::new(LongTurns::default());
        let n_long = Rc::new(Cell::new(0));
        let tasks = tokio::task::LocalSet::new();
        for _ in 0..20 {
            let n_long = Rc::clone(&n_long);
            let task = async move { busy(4 * LONG, &n_long).await };
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
        let turns = Rc::new(LongTurns::default());
        let counts: Vec<Rc<Cell<u32>>> = (0..3).map(|_| Rc::default()).collect();
        let tasks = tokio::task::LocalSet::new();
        for count in &counts {
            let count = Rc::clone(count);
            let task = async move { busy(2 * LONG, &count).await };
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
}
