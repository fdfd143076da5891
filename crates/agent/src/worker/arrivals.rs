//! Connections that were accepted and are not served yet.
//!
//! To begin a session costs tens of microseconds. Where thousands connect at once, the calls of
//! those who are served already must not wait for all of them: a few sessions begin in each turn
//! of the event loop, and the calls that came meanwhile are served in between. Half of them are
//! those who came last: who connects while a crowd waits need not wait for all of it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::Notify;
use wire::per_turn;

/// Where more than this wait, only so many of them begin at a time, with a pause in between: the
/// calls that they all bring at once would fill the line of their service, and it would have no
/// place for those of others. Timers are kept to a millisecond: a pause is one to two.
const CROWD_LEN: usize = 1_000;
const CROWD_BATCH_LEN: usize = 16;
const CROWD_PAUSE: Duration = Duration::from_millis(1);

/// What waits for its turn.
#[derive(Debug)]
pub(super) struct Arrivals<T> {
    waiting: RefCell<VecDeque<T>>,
    added: Notify,
}

impl<T> Arrivals<T> {
    pub(super) fn new() -> Self {
        Self { waiting: RefCell::default(), added: Notify::new() }
    }

    /// The queue is bounded by the listeners' limits of connections.
    pub(super) fn push(&self, arrival: T) {
        self.waiting.borrow_mut().push_back(arrival);
        self.added.notify_one();
    }

    /// By turns who came first and who came last.
    fn pop(&self, nth: usize) -> Option<T> {
        let mut waiting = self.waiting.borrow_mut();
        if nth.is_multiple_of(2) { waiting.pop_front() } else { waiting.pop_back() }
    }

    /// Begins what arrives, for ever.
    pub(super) async fn begin_each(&self, begin: impl Fn(T)) {
        loop {
            let n_waiting = self.waiting.borrow().len();
            let is_crowd = CROWD_LEN < n_waiting;
            let batch_len = if is_crowd { CROWD_BATCH_LEN } else { per_turn(n_waiting) };
            (0..batch_len).filter_map(|nth| self.pop(nth)).for_each(&begin);
            let is_empty = self.waiting.borrow().is_empty();
            match is_empty {
                true => self.added.notified().await,
                false if is_crowd => tokio::time::sleep(CROWD_PAUSE).await,
                // Sockets are looked at before this goes on.
                false => tokio::task::yield_now().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_crowd_begins_from_both_ends_and_others_run_between() {
        let arrivals = Arrivals::new();
        (0..100).for_each(|nth| arrivals.push(nth));
        let (begun, n_turns) = (RefCell::new(Vec::new()), Cell::new(0));
        let others = async {
            while begun.borrow().len() < 100 {
                n_turns.set(n_turns.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = arrivals.begin_each(|nth| begun.borrow_mut().push(nth)) => {}
            () = others => {}
        }
        let mut begun = begun.take();
        assert_eq!(begun[..4], [0, 99, 1, 98]);
        begun.sort_unstable();
        assert_eq!(begun, (0..100).collect::<Vec<_>>());
        assert!((15..=25).contains(&n_turns.get()), "{n_turns:?}");
    }

    #[tokio::test]
    async fn a_large_crowd_takes_its_time() {
        let (arrivals, n_crowd) = (Arrivals::new(), 10 * CROWD_BATCH_LEN);
        (0..CROWD_LEN + n_crowd).for_each(|nth| arrivals.push(nth));
        let (n_begun, started) = (Cell::new(0), Instant::now());
        let all = async {
            while n_begun.get() < CROWD_LEN + n_crowd {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = arrivals.begin_each(|_| n_begun.set(n_begun.get() + 1)) => {}
            () = all => {}
        }
        assert!(10 * CROWD_PAUSE <= started.elapsed(), "{:?}", started.elapsed());
    }

    #[tokio::test]
    async fn who_comes_later_is_served_too() {
        let arrivals = Arrivals::new();
        let n_begun = Cell::new(0);
        let others = async {
            for n in 1..=3 {
                arrivals.push(());
                while n_begun.get() < n {
                    tokio::task::yield_now().await;
                }
            }
        };
        tokio::select! {
            () = arrivals.begin_each(|()| n_begun.set(n_begun.get() + 1)) => {}
            () = others => {}
        }
        assert_eq!(n_begun.get(), 3);
    }
}
