//! Work of milliseconds, away from a worker's event loop: megabytes that are turned from one form
//! into another would hold up all other calls of the worker.
//!
//! Threads of the runtime's own pool do it. As many are at work as the machine has cores, for all
//! workers together; others wait their turn. Who has waited long does its work in place, so
//! that no call fails for want of a thread.

use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

/// Bytes of which less are worked on in place: that takes less than a tenth of a millisecond, and
/// to have a thread do it costs a part of that.
pub const LONG_LEN: usize = 64 * 1024;
/// How long work waits for a thread: far longer than where there are enough of them.
const PATIENCE: Duration = Duration::from_secs(1);

/// Those that all workers share.
static THREADS: LazyLock<Threads> = LazyLock::new(|| {
    let n_cores = available_parallelism().map_or(1, usize::from);
    Threads { free: Arc::new(Semaphore::new(n_cores)), patience: PATIENCE }
});

/// A thread that is free to work. What is needed for the work is best made when there is one.
#[must_use]
pub struct Thread(Option<OwnedSemaphorePermit>);

/// Waits for a thread.
pub async fn thread() -> Thread {
    THREADS.thread().await
}

impl Thread {
    /// Does some work there, and waits for it. Who no longer waits still has it done. Must be
    /// called on a runtime of tokio.
    pub async fn have<R: Send + 'static>(self, work: impl FnOnce() -> R + Send + 'static) -> R {
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

/// The threads that do such work.
struct Threads {
    /// How many more may be at work.
    free: Arc<Semaphore>,
    patience: Duration,
}

impl Threads {
    async fn thread(&self) -> Thread {
        let permit = tokio::time::timeout(self.patience, Arc::clone(&self.free).acquire_owned());
        Thread(permit.await.ok().and_then(Result::ok))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::{ThreadId, current};

    use super::*;
    use crate::testing::on_worker;

    fn threads(n: usize, patience: Duration) -> Threads {
        Threads { free: Arc::new(Semaphore::new(n)), patience }
    }

    fn this_thread() -> ThreadId {
        current().id()
    }

    #[test]
    fn others_go_on_meanwhile() {
        on_worker(async || {
            let (go_on, wait) = channel();
            let threads = threads(1, Duration::MAX);
            let work = async { threads.thread().await.have(move || wait.recv()).await };
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
            let threads = threads(1, Duration::MAX);
            let first = async { threads.thread().await.have(move || wait.recv()).await };
            let second = async {
                let mut second =
                    std::pin::pin!(async { threads.thread().await.have(this_thread).await });
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
            let none = threads(0, Duration::from_millis(1));
            assert_eq!(none.thread().await.have(this_thread).await, this_thread());
        });
    }

    #[test]
    fn a_panic_is_its_callers() {
        on_worker(async || {
            let threads = threads(1, Duration::MAX);
            let thread = threads.thread().await;
            let task = tokio::task::spawn_local(thread.have(|| panic!("bad bytes")));
            assert!(task.await.unwrap_err().is_panic());
            assert_eq!(threads.thread().await.have(|| 1).await, 1, "the thread is free again");
        });
    }
}
