//! Threads for handlers that may block, so that nobody else waits for them.
//!
//! Invariants:
//! - There are never more threads, and never more jobs in the queue, than was said.
//! - A job that was taken is run, also when the pool is dropped meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::panics::contain;

/// A thread that has had nothing to do for so long ends.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// A job.
type Job = Box<dyn FnOnce() + Send>;

/// Threads that are started when they are needed and end when they are not.
pub(crate) struct ThreadPool(Arc<PoolState>);

struct PoolState {
    max_threads: usize,
    max_waiting: usize,
    state: Mutex<JobQueue>,
    /// Told when there is a job.
    arrived: Condvar,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<Job>,
    n_threads: usize,
    /// Threads that are at a job; the others look for one, or are about to.
    n_busy: usize,
}

/// The pool has no room.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("all {threads} threads for blocking calls are busy, and {waiting} calls wait for one")]
pub(crate) struct PoolFull {
    pub threads: usize,
    pub waiting: usize,
}

impl ThreadPool {
    /// At most this many threads, at least 1, and as many jobs that wait for one.
    pub(crate) fn new(max_threads: usize, max_waiting: usize) -> Self {
        let (state, arrived) = (Mutex::default(), Condvar::new());
        Self(Arc::new(PoolState { max_threads, max_waiting, state, arrived }))
    }

    /// Has a job run as soon as a thread is free.
    ///
    /// # Errors
    /// All threads are busy and as many jobs wait as may, or no thread can be started.
    pub(crate) fn submit(&self, job: Job) -> Result<(), PoolFull> {
        let mut state = self.0.lock();
        let n_free = state.n_threads - state.n_busy;
        if state.jobs.len() < n_free {
            state.jobs.push_back(job);
            self.0.arrived.notify_one();
            return Ok(());
        }
        if state.n_threads < self.0.max_threads {
            let shared = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("link-blocking".to_owned());
            if thread.spawn(move || shared.work()).is_ok() {
                state.n_threads += 1;
                state.jobs.push_back(job);
                return Ok(());
            }
        }
        // Jobs that a free thread is about to take do not wait for one.
        let waiting = state.jobs.len() - n_free;
        if state.n_threads == 0 || waiting >= self.0.max_waiting {
            return Err(PoolFull { threads: state.n_threads, waiting });
        }
        state.jobs.push_back(job);
        Ok(())
    }
}

impl PoolState {
    fn lock(&self) -> MutexGuard<'_, JobQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a thread does.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.n_busy += 1;
                drop(state);
                // A thread that a job ends would be missed for good.
                let _ = contain(job);
                state = self.lock();
                state.n_busy -= 1;
                continue;
            }
            let waited = self.arrived.wait_timeout(state, IDLE_TIME);
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if timeout.timed_out() && state.jobs.is_empty() {
                state.n_threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::mpsc;

    #[test]
    fn jobs_run_beside_each_other_and_the_rest_waits_or_is_rejected() {
        let pool = ThreadPool::new(2, 1);
        let (busy, release) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
        for _ in 0..2 {
            let (busy, release) = (Arc::clone(&busy), Arc::clone(&release));
            let job = move || {
                busy.wait();
                release.wait();
            };
            pool.submit(Box::new(job)).unwrap();
        }
        busy.wait();
        let (sender, receiver) = mpsc::channel();
        pool.submit(Box::new(move || sender.send(7).unwrap())).unwrap();
        let full = pool.submit(Box::new(|| ())).unwrap_err();
        assert_eq!(full, PoolFull { threads: 2, waiting: 1 });
        release.wait();
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(7));
    }

    #[test]
    fn jobs_that_come_at_once_have_all_threads_and_places() {
        let pool = ThreadPool::new(3, 2);
        let release = Arc::new(Barrier::new(4));
        for n in 0..5 {
            let release = Arc::clone(&release);
            let job = move || {
                if n < 3 {
                    release.wait();
                }
            };
            // No thread has begun by now, most likely.
            assert_eq!(pool.submit(Box::new(job)), Ok(()), "{n}");
        }
        assert_eq!(pool.submit(Box::new(|| ())), Err(PoolFull { threads: 3, waiting: 2 }));
        release.wait();
    }

    #[test]
    fn a_job_that_panics_does_not_take_its_thread_along() {
        let pool = ThreadPool::new(1, 8);
        let (sender, receiver) = mpsc::channel();
        for n in 0..3 {
            pool.submit(Box::new(move || panic!("job {n}"))).unwrap();
        }
        pool.submit(Box::new(move || sender.send(7).unwrap())).unwrap();
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(7));
    }

    #[test]
    fn an_idle_thread_is_used_again() {
        let pool = ThreadPool::new(8, 8);
        for _ in 0..50 {
            let (sender, receiver) = mpsc::channel();
            pool.submit(Box::new(move || sender.send(()).unwrap())).unwrap();
            receiver.recv_timeout(Duration::from_secs(20)).unwrap();
        }
        assert!(pool.0.lock().n_threads <= 8);
    }
}
