//! How each policy chooses, and at which cost.

use std::hash::Hash;
use std::time::Instant;

use rand::Rng;

use super::Balancer;
use super::entry::{CallsPerWeight, EndpointEntry};
use crate::score::ONE;

/// Draws by weight before we fall back to looking at every endpoint. Eight misses in a row mean
/// that most of the traffic's share is unavailable, and then the scan is what it takes.
const MAX_DRAWS: u32 = 8;

/// Up to this many endpoints, looking at all of them is as cheap as anything else.
const SCAN_MAX: usize = 64;

/// Up to this many endpoints the adaptive policy looks at all of them.
const ADAPT_ALL_MAX: usize = 16;

/// As many endpoints does it look at where there are more. Two leave one call in n² to chance when
/// n endpoints in n are bad, four one in n⁴.
const N_DRAWN: usize = 4;

impl<K: Eq + Hash + Clone> Balancer<K> {
    /// One endpoint by chance, in proportion to the weights, among those that pass `usable`.
    pub(super) fn draw<R: Rng + ?Sized>(
        &self,
        rng: &mut R,
        usable: impl Fn(&EndpointEntry<K>) -> bool,
    ) -> Option<u32> {
        self.try_draw(rng, &usable).or_else(|| self.scan(rng, &usable))
    }

    fn try_draw<R: Rng + ?Sized>(
        &self,
        rng: &mut R,
        usable: impl Fn(&EndpointEntry<K>) -> bool,
    ) -> Option<u32> {
        let sum = *self.cumulative.last()?;
        (0..MAX_DRAWS).find_map(|_| {
            let point = rng.random_range(0..sum);
            let position = self.cumulative.partition_point(|end| *end <= point);
            let index = *self.live.get(position)?;
            self.at(index).is_some_and(&usable).then_some(index)
        })
    }

    /// The same choice as a draw, by looking at every endpoint once.
    fn scan<R: Rng + ?Sized>(
        &self,
        rng: &mut R,
        usable: impl Fn(&EndpointEntry<K>) -> bool,
    ) -> Option<u32> {
        let (mut sum, mut chosen) = (0_u64, None);
        for &index in &self.live {
            let Some(entry) = self.at(index).filter(|entry| usable(entry)) else { continue };
            sum += u64::from(entry.weight);
            if rng.random_range(0..sum) < u64::from(entry.weight) {
                chosen = Some(index);
            }
        }
        chosen
    }

    pub(super) fn better_of_two<R: Rng + ?Sized>(
        &self,
        now: Instant,
        rng: &mut R,
        usable: impl Fn(&EndpointEntry<K>) -> bool,
    ) -> Option<u32> {
        let first = self.draw(rng, &usable)?;
        let first_entry = self.at(first)?;
        let other = |entry: &EndpointEntry<K>| !std::ptr::eq(entry, first_entry) && usable(entry);
        let second = self.try_draw(rng, other).or_else(|| {
            // Rare: one endpoint has nearly all the weight, or few are available.
            (self.live.len() <= SCAN_MAX).then(|| self.scan(rng, other)).flatten()
        });
        let Some(second) = second else { return Some(first) };
        let second_entry = self.at(second)?;
        let second_wins = self.is_better(now, second_entry, first_entry);
        Some(if second_wins { second } else { first })
    }

    /// Whether one more call is expected to wait less at `a` than at `b`.
    ///
    /// The wait is the latency times one plus the calls in flight, relative to the weight. The
    /// weight divides only the calls in flight: an idle endpoint answers no faster for having a
    /// larger weight, and idle endpoints get their shares by the draw.
    fn is_better(&self, now: Instant, a: &EndpointEntry<K>, b: &EndpointEntry<K>) -> bool {
        let (known_a, known_b) = (a.known_cost_s(now), b.known_cost_s(now));
        let (load_a, load_b) = (self.load(now, a), self.load(now, b));
        let wait_a = a.cost_s(now, known_b) * (1.0 + load_a);
        let wait_b = b.cost_s(now, known_a) * (1.0 + load_b);
        wait_a < wait_b || (wait_a == wait_b && load_a < load_b)
    }

    /// Calls in flight, as many as they would be at an endpoint of average weight.
    #[expect(clippy::cast_precision_loss, reason = "a ratio needs no 53 bits")]
    fn load(&self, now: Instant, entry: &EndpointEntry<K>) -> f64 {
        let sum = self.cumulative.last().copied().unwrap_or_default();
        let mean = sum as f64 / self.live.len().max(1) as f64;
        f64::from(entry.calls(now)) * mean / f64::from(entry.weight.max(1))
    }

    /// The least loaded of all endpoints, or of a few where there are many.
    pub(super) fn adapt<R: Rng + ?Sized>(
        &mut self,
        now: Instant,
        rng: &mut R,
        usable: impl Fn(&EndpointEntry<K>) -> bool,
    ) -> Option<u32> {
        if self.live.len() <= ADAPT_ALL_MAX {
            self.gather(rng, usable);
            self.keep_least_loaded(|entry| entry.slowed_queue(now));
            return self.rotate();
        }
        let mut best = self.draw(rng, &usable)?;
        for _ in 1..N_DRAWN {
            let Some(other) = self.try_draw(rng, &usable) else { break };
            // Weights have had their say in the draw: they divide only what is in flight.
            let is_better = match (self.at(other), self.at(best)) {
                (Some(a), Some(b)) => {
                    let wait = |entry: &EndpointEntry<K>| {
                        f64::from(entry.score.factor()) * (1.0 + self.load(now, entry))
                    };
                    wait(a) < wait(b)
                }
                _ => false,
            };
            if is_better {
                best = other;
            }
        }
        Some(best)
    }

    /// One of the candidates by chance, in proportion to their weights.
    pub(super) fn draw_candidate<R: Rng + ?Sized>(&self, rng: &mut R) -> Option<u32> {
        let weight = |index: &u32| self.at(*index).map_or(0, |entry| u64::from(entry.weight));
        let sum: u64 = self.candidates.iter().map(weight).sum();
        let mut point = if sum == 0 { return None } else { rng.random_range(0..sum) };
        for index in &self.candidates {
            match point.checked_sub(weight(index)) {
                Some(rest) => point = rest,
                None => return Some(*index),
            }
        }
        None
    }

    /// Puts the usable endpoints into `candidates`, in the order of the rotation.
    pub(super) fn gather<R: Rng + ?Sized>(
        &mut self,
        rng: &mut R,
        usable: impl Fn(&EndpointEntry<K>) -> bool,
    ) {
        self.candidates.clear();
        if self.live.is_empty() {
            return;
        }
        let phase = *self.phase.get_or_insert_with(|| rng.random_range(0..self.live.len()));
        let (tail, head) = self.live.split_at(phase.min(self.live.len()));
        for &index in head.iter().chain(tail) {
            let entry = self.places.get(index as usize).and_then(|place| place.entry.as_ref());
            if entry.is_some_and(&usable) {
                self.candidates.push(index);
            }
        }
    }

    /// Keeps of the candidates those with the least by `measure`.
    pub(super) fn keep_least<T: Ord>(&mut self, measure: impl Fn(&EndpointEntry<K>) -> T) {
        let mut candidates = std::mem::take(&mut self.candidates);
        let least = candidates.iter().filter_map(|index| self.at(*index)).map(&measure).min();
        candidates.retain(|index| self.at(*index).map(&measure) == least);
        self.candidates = candidates;
    }

    /// Keeps of the candidates those with the shortest queues relative to their weights.
    ///
    /// Where weights differ, these are all that have less than their share of the calls, one more
    /// counted. A queue of one relative to the weight would say that an idle endpoint of little
    /// weight has a longer one than others: it would get no call at all while load is low.
    pub(super) fn keep_least_loaded(
        &mut self,
        queue: impl Fn(&EndpointEntry<K>) -> CallsPerWeight,
    ) {
        if self.is_even {
            return self.keep_least(queue);
        }
        let mut candidates = std::mem::take(&mut self.candidates);
        let (mut calls, mut weights) = (u128::from(ONE), 0_u128);
        for entry in candidates.iter().filter_map(|index| self.at(*index)) {
            let queue = queue(entry);
            calls += u128::from(queue.before());
            weights += u128::from(queue.weight());
        }
        candidates.retain(|index| {
            self.at(*index).map(&queue).is_some_and(|queue| {
                u128::from(queue.before()) * weights < calls * u128::from(queue.weight())
            })
        });
        self.candidates = candidates;
    }

    /// One step of smooth weighted round robin (as in nginx) over the candidates.
    pub(super) fn rotate(&mut self) -> Option<u32> {
        let candidates = std::mem::take(&mut self.candidates);
        let (mut sum, mut best) = (0, None);
        for &index in &candidates {
            let Some(entry) = self.at_mut(index) else { continue };
            entry.current += i64::from(entry.weight);
            sum += i64::from(entry.weight);
            if best.is_none_or(|(current, _)| current < entry.current) {
                best = Some((entry.current, index));
            }
        }
        self.candidates = candidates;
        let (_, index) = best?;
        self.at_mut(index)?.current -= sum;
        Some(index)
    }
}
