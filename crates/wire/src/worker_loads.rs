//! Which worker has how many connections, and which have to go to another one.
//!
//! A new connection goes to the worker that has fewest: of all, or of those that are used
//! ([`Loads::use_first`]) if it can go to another one later. Few go at a time: what limits the
//! calls of each worker has to follow.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// One connection of so many goes at a time.
const LEAVING_PARTS: usize = 8;
/// The same where a worker has too much to do.
const SPREAD_PARTS: usize = 4;

/// How many connections each worker has, whatever their listener. A clone is another handle to the
/// same counts.
#[derive(Clone, Debug)]
pub struct Loads(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    n_connections: Box<[AtomicUsize]>,
    /// How many connections each worker has to give away now.
    n_leaving: Box<[AtomicUsize]>,
    n_used: AtomicUsize,
    /// Where the next search begins, so that workers with equally many take turns.
    next: AtomicUsize,
}

impl Loads {
    /// No connections yet.
    #[must_use]
    pub fn new(n_workers: NonZeroUsize) -> Self {
        let zeros = || (0..n_workers.get()).map(|_| AtomicUsize::new(0)).collect();
        Self(Arc::new(Inner {
            n_connections: zeros(),
            n_leaving: zeros(),
            n_used: AtomicUsize::new(n_workers.get()),
            next: AtomicUsize::new(0),
        }))
    }

    /// Gives one connection more to the worker that has fewest; of several, to the next in turn.
    #[must_use]
    pub fn assign(&self) -> Assigned {
        self.assign_to_first(self.0.n_connections.len())
    }

    /// The same among the workers that are used.
    #[must_use]
    pub fn assign_used(&self) -> Assigned {
        self.assign_to_first(self.n_used())
    }

    fn assign_to_first(&self, n_workers: usize) -> Assigned {
        let Inner { n_connections, next, .. } = &*self.0;
        let first = next.load(Relaxed);
        let in_turn = (0..n_workers).map(|step| (first + step) % n_workers);
        let load = |worker: &usize| n_connections[*worker].load(Relaxed);
        let worker = in_turn.min_by_key(load).unwrap_or_default();
        next.store(worker + 1, Relaxed);
        self.add_to(worker)
    }

    fn add_to(&self, worker: usize) -> Assigned {
        self.0.n_connections[worker].fetch_add(1, Relaxed);
        Assigned { loads: self.clone(), worker }
    }

    /// The first `n` workers are used, one at least. Some of the connections of the others may go
    /// there now; if `are_spread`, so may some of those that one of the first ones has beyond its
    /// part. Call this now and then, until all are where they should be.
    pub fn use_first(&self, n: usize, are_spread: bool) {
        let n = n.clamp(1, self.0.n_connections.len());
        self.0.n_used.store(n, Relaxed);
        let counts = self.n_connections();
        let part = counts.iter().sum::<usize>().div_ceil(n);
        for (worker, (leaving, count)) in self.0.n_leaving.iter().zip(counts).enumerate() {
            let n_leaving = match worker < n {
                true if are_spread => count.saturating_sub(part).min(count.div_ceil(SPREAD_PARTS)),
                true => 0,
                false => count.div_ceil(LEAVING_PARTS),
            };
            leaving.store(n_leaving, Relaxed);
        }
    }

    /// How many are used.
    #[must_use]
    pub fn n_used(&self) -> usize {
        self.0.n_used.load(Relaxed)
    }

    /// Whether a worker has to give connections away.
    #[inline]
    #[must_use]
    pub fn has_leaving(&self, worker: usize) -> bool {
        self.0.n_leaving[worker].load(Relaxed) != 0
    }

    /// Gives a connection of a worker to the one of the others that are used which has fewest, if
    /// it has to give any away.
    #[must_use]
    pub fn reassign(&self, worker: usize) -> Option<Assigned> {
        let take_one = |n: usize| n.checked_sub(1);
        self.0.n_leaving[worker].fetch_update(Relaxed, Relaxed, take_one).ok()?;
        let load = |other: &usize| self.0.n_connections[*other].load(Relaxed);
        let others = (0..self.n_used()).filter(|other| *other != worker);
        Some(self.add_to(others.min_by_key(load)?))
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

    /// Moves what may leave, and says how many each worker has then.
    fn moved(loads: &Loads, held: &mut [Assigned], n_used: usize, are_spread: bool) -> Vec<usize> {
        loads.use_first(n_used, are_spread);
        for assigned in held {
            if let Some(next) = loads.reassign(assigned.worker()) {
                *assigned = next;
            }
        }
        loads.n_connections()
    }

    #[test]
    fn connections_go_to_the_workers_that_are_used() {
        let loads = loads(4);
        let mut held: Vec<_> = (0..18).map(|_| loads.assign()).collect();
        for (n_used, expected) in [
            (4, [5, 5, 4, 4]),
            (3, [6, 6, 6, 0]),
            (1, [18, 0, 0, 0]),
            (2, [9, 9, 0, 0]),
            (4, [5, 5, 4, 4]),
            (0, [18, 0, 0, 0]),
            (9, [5, 5, 4, 4]),
        ] {
            let mut n_steps = 0;
            while moved(&loads, &mut held, n_used, true) != expected {
                n_steps += 1;
                assert!(n_steps < 20, "{n_used}: {:?}", loads.n_connections());
            }
            assert_eq!(moved(&loads, &mut held, n_used, true), expected, "{n_used}, again");
            assert!((0..4).all(|worker| !loads.has_leaving(worker)), "{n_used}");
        }
        drop(held);
        assert_eq!(loads.n_connections(), [0; 4]);
    }

    #[test]
    fn few_connections_go_at_a_time_and_none_from_who_is_used() {
        let loads = loads(2);
        let mut held: Vec<_> = (0..128).map(|_| loads.assign()).collect();
        assert_eq!(moved(&loads, &mut held, 1, false), [72, 56]);
        assert_eq!(moved(&loads, &mut held, 1, false), [79, 49]);
        assert_eq!(moved(&loads, &mut held, 2, false), [79, 49]);
        assert_eq!(moved(&loads, &mut held, 2, true), [64, 64]);
        assert_eq!(moved(&loads, &mut held, 1, true), [72, 56]);
        // Those that come go to who is used, if they can go elsewhere later.
        held.extend((0..40).map(|_| loads.assign_used()));
        assert_eq!(loads.n_connections(), [112, 56]);
        held.extend((0..40).map(|_| loads.assign()));
        assert_eq!(loads.n_connections(), [112, 96]);
        assert_eq!(moved(&loads, &mut held, 2, true), [104, 104]);
    }

    #[test]
    fn short_connections_take_turns() {
        let loads = loads(2);
        let workers: Vec<_> = (0..6).map(|_| loads.assign().worker()).collect();
        assert_eq!(workers, [0, 1, 0, 1, 0, 1]);
    }
}
