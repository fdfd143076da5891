//! Work of milliseconds, away from a worker's event loop: megabytes that are turned from one form
//! into another would hold up all other calls of the worker.
//!
//! Threads of the runtime's own pool do it, at most one for each core at a time, for all workers
//! together. Other work waits for a free one. If none is free for a second, work that takes no
//! longer than its message lets expect is done in place, so that no call fails for want of a
//! thread.
//!
//! Invariants:
//! - Work for a call whose deadline has passed is not begun.
//! - A thread finishes what it has begun, also if nobody waits for it any more. What is held for
//!   the work, such as memory that is counted, is held until then.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use rustix::process::{getpriority_process, setpriority_process};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::{spawn_blocking, spawn_local};

use crate::error::{CallError, Code};

/// Shorter messages are worked on in place: that takes less than a tenth of a millisecond, and
/// to have a thread do it costs a part of that.
pub const LONG_LEN: usize = 64 * 1024;
/// The threads that do it are nicer than others: when all cores are busy, they get a third of what
/// those get.
const NICER_BY: i32 = 5;
const MAX_NICENESS: i32 = 19;
/// How long work waits for a thread: far longer than where there are enough of them.
const PATIENCE: Duration = Duration::from_secs(1);

/// The threads that all workers share. Clones are handles to the same.
#[derive(Clone, Debug)]
pub struct Threads {
    /// How many more may be at work.
    free: Arc<Semaphore>,
    patience: Duration,
}

/// Has the calling thread give way to others of the machine: the event loops, and the programs
/// that call or are called. Where that is refused, it goes on as they do.
pub fn give_way() {
    // Of Linux's threads each has its own niceness; that of others does not change.
    let niceness = getpriority_process(None).unwrap_or_default();
    let _ = setpriority_process(None, (niceness + NICER_BY).min(MAX_NICENESS));
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

    /// As many threads, for which work waits so long.
    #[cfg(test)]
    pub(crate) fn patient(n: usize, patience: Duration) -> Self {
        Self::new(n, patience)
    }

    /// Waits for a free thread. What the work needs is best copied once there is one.
    ///
    /// # Errors
    /// [`Code::Timeout`] if the deadline passes before.
    pub async fn free(&self, deadline: Option<Instant>) -> Result<Thread, CallError> {
        self.free_by(deadline, Instant::now().checked_add(self.patience)).await
    }

    /// The same for work that must not be done in place: it waits until the deadline.
    ///
    /// # Errors
    /// [`Code::Timeout`] if the deadline passes before.
    pub async fn wait(&self, deadline: Option<Instant>) -> Result<Thread, CallError> {
        self.free_by(deadline, None).await
    }

    async fn free_by(
        &self,
        deadline: Option<Instant>,
        patient: Option<Instant>,
    ) -> Result<Thread, CallError> {
        let until = [deadline, patient].into_iter().flatten().min();
        let permit = Arc::clone(&self.free).acquire_owned();
        let permit = match until {
            Some(until) => tokio::time::timeout_at(until.into(), permit).await.ok(),
            None => Some(permit.await),
        };
        check_time(deadline)?;
        Ok(Thread(permit.and_then(Result::ok)))
    }
}

/// Whether work on a message is still of use.
///
/// # Errors
/// [`Code::Timeout`] if the call's deadline has passed.
pub fn check_time(deadline: Option<Instant>) -> Result<(), CallError> {
    if deadline.is_none_or(|deadline| Instant::now() < deadline) {
        return Ok(());
    }
    let message = "the deadline passed while a long message was converted, or waited for its turn";
    Err(CallError::new(Code::Timeout, message))
}

/// A thread that is free to work; the caller's own if none was free in time.
#[derive(Debug)]
#[must_use]
pub struct Thread(Option<OwnedSemaphorePermit>);

impl Thread {
    /// Whether it is the caller's own.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        self.0.is_none()
    }

    /// Does the work there, and waits for it; `held` is dropped when it has ended. Must be called
    /// on a worker's runtime.
    pub async fn run<R: Send + 'static>(
        self,
        held: impl Sized + 'static,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> R {
        let Some(permit) = self.0 else { return work() };
        let work = spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        let (end, ended) = oneshot::channel();
        spawn_local(async move {
            let done = work.await;
            drop(held);
            // Whoever has asked may have gone.
            let _ = end.send(done);
        });
        match ended.await {
            Ok(Ok(done)) => done,
            Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime ends, and drops whoever waits.
            _ => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::mpsc::channel;
    use std::thread::{ThreadId, current};

    use super::*;
    use crate::testing::on_worker;

    fn this_thread() -> ThreadId {
        current().id()
    }

    fn threads(n: usize) -> Threads {
        Threads::new(n, Duration::MAX)
    }

    async fn free(threads: &Threads) -> Thread {
        threads.free(None).await.unwrap()
    }

    #[test]
    fn such_a_thread_gives_way_and_no_other_does() {
        let niceness = || getpriority_process(None).unwrap();
        let before = niceness();
        let thread = std::thread::spawn(move || {
            give_way();
            niceness()
        });
        assert_eq!(thread.join().unwrap(), (before + NICER_BY).min(MAX_NICENESS));
        assert_eq!(niceness(), before);
    }

    #[test]
    fn others_go_on_meanwhile() {
        on_worker(async || {
            let (go_on, wait) = channel();
            let threads = threads(1);
            let work = async { free(&threads).await.run((), move || wait.recv()).await };
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
            let threads = threads(1);
            let first = async { free(&threads).await.run((), move || wait.recv()).await };
            let second = async {
                let mut second =
                    std::pin::pin!(async { free(&threads).await.run((), this_thread).await });
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
            assert_eq!(free(&none).await.run((), this_thread).await, this_thread());
        });
    }

    #[test]
    fn a_call_that_is_late_gets_no_thread() {
        on_worker(async || {
            let soon = Some(Instant::now() + Duration::from_millis(1));
            assert_eq!(threads(0).free(soon).await.unwrap_err().code, Code::Timeout);
            // Not even if one is free.
            assert_eq!(threads(1).free(soon).await.unwrap_err().code, Code::Timeout);
            assert!(check_time(soon).is_err() && check_time(None).is_ok());
        });
    }

    /// Tells when it is dropped.
    struct Held(Rc<Cell<bool>>);

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    #[test]
    fn what_is_held_for_work_is_held_until_its_end_whoever_waits() {
        on_worker(async || {
            let (threads, is_free) = (threads(1), Rc::<Cell<bool>>::default());
            let (begun, begins) = oneshot::channel();
            let (go_on, wait) = channel::<()>();
            let thread = free(&threads).await;
            let work = thread.run(Held(Rc::clone(&is_free)), move || {
                begun.send(()).unwrap();
                let _ = wait.recv();
            });
            let work = spawn_local(work);
            begins.await.unwrap();
            work.abort();
            assert!(work.await.unwrap_err().is_cancelled());
            assert!(!is_free.get(), "the thread works on");
            drop(go_on);
            // It has ended when another may begin.
            free(&threads).await.run((), || ()).await;
            while !is_free.get() {
                tokio::task::yield_now().await;
            }
        });
    }

    #[test]
    fn a_panic_is_its_callers() {
        on_worker(async || {
            let threads = threads(1);
            let task = spawn_local(free(&threads).await.run((), || panic!("bad bytes")));
            assert!(task.await.unwrap_err().is_panic());
            assert_eq!(free(&threads).await.run((), || 1).await, 1, "the thread is free again");
        });
    }
}
