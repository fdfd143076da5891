//! Which worker has how many connections.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many connections each worker has, whatever their listener. A clone is another handle to the
/// same counts.
#[derive(Clone, Debug)]
pub struct Loads(Arc<LoadCounts>);

#[derive(Debug)]
struct LoadCounts {
    n_connections: Box<[AtomicUsize]>,
    /// Where the next search begins, so that workers with equally many take turns.
    next: AtomicUsize,
}

impl Loads {
    /// No connections yet.
    #[must_use]
    pub fn new(n_workers: NonZeroUsize) -> Self {
        let n_connections = (0..n_workers.get()).map(|_| AtomicUsize::new(0)).collect();
        Self(Arc::new(LoadCounts { n_connections, next: AtomicUsize::new(0) }))
    }

    /// Gives one connection more to the worker that has fewest; of several, to the next in turn.
    #[must_use]
    pub fn assign(&self) -> Assigned {
        let LoadCounts { n_connections, next } = &*self.0;
        let n_workers = n_connections.len();
        let first = next.load(Relaxed);
        let in_turn = (0..n_workers).map(|step| (first + step) % n_workers);
        let load = |worker: &usize| n_connections[*worker].load(Relaxed);
        let worker = in_turn.min_by_key(load).unwrap_or_default();
        next.store(worker + 1, Relaxed);
        n_connections[worker].fetch_add(1, Relaxed);
        Assigned { loads: self.clone(), worker }
    }

    /// How many connections each worker has.
    #[must_use]
    pub fn n_connections(&self) -> Vec<usize> {
        self.0.n_connections.iter().map(|count| count.load(Relaxed)).collect()
    }
}

/// One connection of a worker, which counts until this is dropped.
#[derive(Debug)]
pub struct Assigned {
    loads: Loads,
    worker: usize,
}

impl Assigned {
    /// The worker's number, from 0.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker
    }
}

impl Drop for Assigned {
    fn drop(&mut self) {
        self.loads.0.n_connections[self.worker].fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(n_workers: usize) -> Loads {
        Loads::new(NonZeroUsize::new(n_workers).unwrap())
    }

    #[test]
    fn connections_are_spread_evenly() {
        let loads = loads(4);
        let held: Vec<_> = (0..18).map(|_| loads.assign()).collect();
        assert_eq!(loads.n_connections(), [5, 5, 4, 4]);
        drop(held);
        assert_eq!(loads.n_connections(), [0; 4]);
    }

    #[test]
    fn the_worker_with_fewest_is_next() {
        let loads = loads(3);
        let mut held: Vec<_> = (0..9).map(|_| loads.assign()).collect();
        held.retain(|assigned| assigned.worker() != 1);
        let next: Vec<_> = (0..3).map(|_| loads.assign()).collect();
        assert!(next.iter().all(|assigned| assigned.worker() == 1), "{next:?}");
    }

    #[test]
    fn short_connections_take_turns() {
        let loads = loads(2);
        let workers: Vec<_> = (0..6).map(|_| loads.assign().worker()).collect();
        assert_eq!(workers, [0, 1, 0, 1, 0, 1]);
    }
}
