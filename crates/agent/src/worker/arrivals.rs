//! Connections that were accepted and are not served yet.
//!
//! To begin a session costs tens of microseconds, and so does the call that it brings, here and at
//! whoever answers it. Where thousands connect at once, the calls of those who are served already
//! must not wait for all of them: a few sessions begin at a time, and then the machine has some
//! time for what else there is to do. Half of them are those who came last: who connects while a
//! crowd waits need not wait for all of it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// How many begin at a time.
const BATCH_LEN: usize = 16;
/// So much time goes by before the next ones begin. Timers are kept to a millisecond, so that this
/// is one to two of them: some 10,000 connections a second, for each worker.
const PAUSE: Duration = Duration::from_millis(1);

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
            // What comes one by one is begun at once, until it is a batch as well.
            let batch_ends = Instant::now() + PAUSE;
            let mut n_begun = 0;
            while n_begun < BATCH_LEN {
                match self.pop(n_begun) {
                    Some(next) => {
                        begin(next);
                        n_begun += 1;
                    }
                    None if n_begun == 0 || Instant::now() < batch_ends => {
                        self.added.notified().await;
                    }
                    None => break,
                }
            }
            if n_begun == BATCH_LEN {
                sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_crowd_begins_from_both_ends_and_takes_its_time() {
        let arrivals = Arrivals::new();
        (0..100).for_each(|nth| arrivals.push(nth));
        let (begun, started) = (RefCell::new(Vec::new()), Instant::now());
        let all = async {
            while begun.borrow().len() < 100 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = arrivals.begin_each(|nth| begun.borrow_mut().push(nth)) => {}
            () = all => {}
        }
        let mut begun = begun.take();
        assert_eq!(begun[..6], [0, 99, 1, 98, 2, 97]);
        begun.sort_unstable();
        assert_eq!(begun, (0..100).collect::<Vec<_>>());
        let n_pauses = 99 / u32::try_from(BATCH_LEN).unwrap();
        assert!(n_pauses * PAUSE <= started.elapsed(), "{:?}", started.elapsed());
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
