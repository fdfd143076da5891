//! Work of milliseconds, away from a worker's event loop: megabytes that are turned from one form
//! into another would hold up all other calls of the worker.
//!
//! Threads of the runtime's own pool do it, at most one for each core at a time, for all workers
//! together. Other work waits for a free one. If none is free for a second, the work is done in
//! place, so that no call fails for want of a thread.
//!
//! A thread finishes its work even if nobody waits for it any more. The message is not counted as
//! the agent's memory then: that is at most one message for each core.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

/// Shorter messages are worked on in place: that takes less than a tenth of a millisecond, and
/// to have a thread do it costs a part of that.
pub const LONG_LEN: usize = 64 * 1024;
/// How long work waits for a thread: far longer than where there are enough of them.
const PATIENCE: Duration = Duration::from_secs(1);

/// The threads that all workers share. Clones are handles to the same.
#[derive(Clone, Debug)]
pub struct Threads {
    /// How many more may be at work.
    free: Arc<Semaphore>,
    patience: Duration,
}

impl Threads {
    /// One thread for each core.
    #[must_use]
    pub fn one_per_core() -> Self {
        Self::new(available_parallelism().map_or(1, usize::from), PATIENCE)
    }

    fn new(n: usize, patience: Duration) -> Self {
        Self { free: Arc::new(Semaphore::new(n)), patience }
    }

    /// Waits for a free thread. What the work needs is best copied once there is one.
    pub async fn free(&self) -> Thread {
        let permit = tokio::time::timeout(self.patience, Arc::clone(&self.free).acquire_owned());
        Thread(permit.await.ok().and_then(Result::ok))
    }
}

/// A thread that is free to work; the caller's own if none was free in time.
#[must_use]
pub struct Thread(Option<OwnedSemaphorePermit>);

impl Thread {
    /// Does the work there, and waits for it. Must be called on a runtime of tokio.
    pub async fn run<R: Send + 'static>(self, work: impl FnOnce() -> R + Send + 'static) -> R {
        let Some(permit) = self.0 else { return work() };
        let work = move || {
            let done = work();
            drop(permit);
            done
        };
        match spawn_blocking(work).await {
            Ok(done) => done,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime ends, and drops whoever waits.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::{ThreadId, current};

    use super::*;
    use crate::testing::on_worker;

    fn this_thread() -> ThreadId {
        current().id()
    }

    #[test]
    fn others_go_on_meanwhile() {
        on_worker(async || {
            let (go_on, wait) = channel();
            let threads = Threads::new(1, Duration::MAX);
            let work = async { threads.free().await.run(move || wait.recv()).await };
            let others = async {
                tokio::task::yield_now().await;
                go_on.send("others").unwrap();
            };
            assert_eq!(tokio::join!(work, others).0, Ok("others"));
        });
    }

    #[test]
    fn no_more_work_than_there_may() {
        on_worker(async || {
            let (go_on, wait) = channel();
            let threads = Threads::new(1, Duration::MAX);
            let first = async { threads.free().await.run(move || wait.recv()).await };
            let second = async {
                let mut second =
                    std::pin::pin!(async { threads.free().await.run(this_thread).await });
                let is_early = tokio::select! {
                    biased;
                    _ = &mut second => true,
                    () = tokio::task::yield_now() => false,
                };
                go_on.send(is_early).unwrap();
                second.await
            };
            let (is_early, second) = tokio::join!(first, second);
            assert_eq!(is_early, Ok(false));
            assert_ne!(second, this_thread());
        });
    }

    #[test]
    fn who_has_waited_long_works_in_place() {
        on_worker(async || {
            let none = Threads::new(0, Duration::from_millis(1));
            assert_eq!(none.free().await.run(this_thread).await, this_thread());
        });
    }

    #[test]
    fn a_panic_is_its_callers() {
        on_worker(async || {
            let threads = Threads::new(1, Duration::MAX);
            let thread = threads.free().await;
            let task = tokio::task::spawn_local(thread.run(|| panic!("bad bytes")));
            assert!(task.await.unwrap_err().is_panic());
            assert_eq!(threads.free().await.run(|| 1).await, 1, "the thread is free again");
        });
    }
}
