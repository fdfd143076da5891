//! How room goes round among workers, where an app takes fewer than two calls for each.
//!
//! Each call that ends hands its room on, if another worker waits. It goes to the worker that was
//! given room least recently, whatever it has: a slow call must not keep the other callers of its
//! worker waiting. So each worker that waits has its turn.
//!
//! Slow calls of one worker must not take everything either. A worker that has its equal share,
//! and was given room beyond that, comes last for as long as that turn took, once it is over.
//!
//! Invariant: room is granted only while there is some.

use std::time::{Duration, Instant};

use super::{Capacity, WorkerShare};
use crate::lender::OwnDemand;

/// A worker that had a turn beyond its share comes last for no longer than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The turns of one worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTurns {
    /// The last one: turns are counted, of all workers.
    last: u64,
    /// When the last one began that was beyond its share, until that is over.
    beyond_since: Option<Instant>,
    /// It comes last until then, for room beyond its share.
    pauses_until: Option<Instant>,
}

impl RoundTurns {
    fn is_paused(&self, now: Instant) -> bool {
        self.pauses_until.is_some_and(|until| now < until)
    }

    fn begin(&mut self, now: Instant, number: u64, is_beyond: bool) {
        self.last = number;
        if is_beyond {
            self.beyond_since = Some(now);
        }
    }

    fn end_beyond(&mut self, now: Instant) {
        if let Some(since) = self.beyond_since.take() {
            let took = now.saturating_duration_since(since);
            self.pauses_until = Some(now + took.min(LONGEST_PAUSE));
        }
    }
}

impl Capacity {
    /// A worker has these calls, and so many have ended since it was last heard of.
    pub(super) fn hand_on(&mut self, now: Instant, worker: usize, own: OwnDemand, n_ended: u32) {
        let others_wait = (0..self.workers.len()).any(|n| n != worker && self.waits(n));
        let Some(it) = self.workers.get_mut(worker) else { return };
        it.demand = own.demand;
        if own.demand == 0 {
            self.allocator.give_back(worker, 0);
        } else if others_wait && 0 < n_ended {
            self.allocator.recall(worker, it.limit.saturating_sub(n_ended));
            self.allocator.returned(worker, own.in_flight);
        }
        self.take_changes();
        self.pass_on(now);
    }

    /// Gives what is free to those who wait.
    pub(super) fn pass_on(&mut self, now: Instant) {
        let n_active = self.workers.iter().filter(|it| 0 < it.demand).count();
        let share = self.capacity() / u32::try_from(n_active).unwrap_or(u32::MAX).max(1);
        let share = share.max(1);
        for worker in 0..self.workers.len() {
            if self.allocator.held_by(worker) <= share {
                self.workers[worker].turns.end_beyond(now);
            }
        }
        self.take_back_excess();
        while let Some(worker) = self.next_turn(now, share) {
            let is_beyond = share <= self.allocator.held_by(worker) && 1 < n_active;
            if !self.allocator.grant_one(worker) {
                self.take_back_unused(worker);
                break;
            }
            self.n_turns += 1;
            self.workers[worker].turns.begin(now, self.n_turns, is_beyond);
            self.take_changes();
        }
        self.take_changes();
    }

    /// Who gets room next.
    fn next_turn(&self, now: Instant, share: u32) -> Option<usize> {
        let waiting = (0..self.workers.len()).filter(|worker| self.waits(*worker));
        waiting.min_by_key(|worker| {
            let turns = &self.workers[*worker].turns;
            let comes_last = share <= self.allocator.held_by(*worker) && turns.is_paused(now);
            (comes_last, turns.last)
        })
    }

    /// Whether a worker has more calls than room.
    fn waits(&self, worker: usize) -> bool {
        self.workers.get(worker).is_some_and(|it| self.allocator.held_by(worker) < it.demand)
    }

    /// The capacity has fallen: those who have most return some.
    fn take_back_excess(&mut self) {
        loop {
            let n_told: u32 = self.workers.iter().map(|it| it.limit).sum();
            let most = (0..self.workers.len()).max_by_key(|worker| self.workers[*worker].limit);
            let Some(worker) = most.filter(|_| self.capacity() < n_told) else { return };
            self.allocator.recall(worker, self.workers[worker].limit - 1);
            self.take_changes();
        }
    }

    /// Others return what they do not use.
    fn take_back_unused(&mut self, but: usize) {
        for (worker, it) in self.workers.iter().enumerate().filter(|(worker, _)| *worker != but) {
            self.allocator.recall(worker, it.limit.min(it.used()));
        }
    }
}

impl WorkerShare {
    /// What it uses of its room, or is about to.
    fn used(&self) -> u32 {
        self.in_flight.max(self.demand)
    }
}
