//! The list of endpoints: who is on it, who leaves, and what weights they have now.

use std::hash::Hash;
use std::time::Instant;

use super::Balancer;
use super::entry::{EndpointEntry, ReusableEntry};
use crate::endpoint::{EndpointSpec, Slot};
use crate::latency::PeakEwma;
use crate::outlier::Outlier;
use crate::score::Score;

/// Where so many have gone that were listed one after the other, the next one is looked up.
const MAX_GONE_IN_A_ROW: usize = 4;

impl<K: Eq + Hash + Clone> Balancer<K> {
    /// Finds `key` among the places of this update and the one before. Registries list endpoints
    /// in a stable order, so one of the places after the last one found is nearly always the right
    /// one, and nothing has to be hashed.
    pub(super) fn find(&self, before: &[u32], key: &K, hint: &mut usize) -> Option<u32> {
        let next = before.get(*hint..).unwrap_or_default().iter().take(MAX_GONE_IN_A_ROW);
        let same = |index: &u32| self.at(*index).is_some_and(|entry| entry.key == *key);
        if let Some(steps) = next.clone().position(same) {
            *hint += steps + 1;
            return before.get(*hint - 1).copied();
        }
        // New in this update, or elsewhere in the order, or leaving since an earlier one.
        self.index.get(key).copied()
    }

    /// Takes over what `spec` says about a known endpoint; true if that changes the rotation.
    pub(super) fn refresh(&mut self, index: u32, spec: &EndpointSpec<K>) -> bool {
        let epoch = self.epoch;
        let Some(entry) = self.at_mut(index) else { return false };
        if entry.epoch == epoch {
            return false;
        }
        let changed = entry.full_weight != spec.weight || entry.leaving;
        entry.epoch = epoch;
        entry.full_weight = spec.weight;
        entry.warm_up = spec.warm_up;
        entry.leaving = false;
        self.listed.push(index);
        changed
    }

    pub(super) fn insert(&mut self, spec: EndpointSpec<K>) {
        let entry = EndpointEntry {
            key: spec.key,
            full_weight: spec.weight,
            warm_up: spec.warm_up,
            weight: 0,
            in_flight: 0,
            picks: 0,
            ewma: PeakEwma::default(),
            progress_at: None,
            current: 0,
            epoch: self.epoch,
            leaving: false,
            outlier: Outlier::default(),
            score: Score::default(),
        };
        let reused = self.free.pop();
        let index = reused.or_else(|| u32::try_from(self.places.len()).ok());
        let Some(index) = index else { return };
        self.index.insert(entry.key.clone(), index);
        match self.places.get_mut(index as usize) {
            Some(place) => place.entry = Some(entry),
            None => self.places.push(ReusableEntry { generation: 0, entry: Some(entry) }),
        }
        self.listed.push(index);
    }

    pub(super) fn drop_if_unlisted(&mut self, index: u32) {
        let epoch = self.epoch;
        let Some(entry) = self.at_mut(index) else { return };
        if entry.epoch == epoch {
            return;
        }
        entry.leaving = true;
        entry.weight = 0;
        if entry.in_flight == 0 {
            self.vacate(index);
        }
    }

    pub(super) fn vacate(&mut self, index: u32) {
        if let Some(place) = self.places.get_mut(index as usize) {
            if let Some(entry) = place.entry.take() {
                self.index.remove(&entry.key);
                self.n_out -= usize::from(entry.outlier.is_out());
                self.n_counted -= usize::from(entry.outlier.is_counted());
            }
            place.generation = place.generation.wrapping_add(1);
            self.free.push(index);
        }
    }

    /// How many calls are in flight at the endpoint of `slot`; 0 if it has gone.
    #[inline]
    #[must_use]
    pub fn in_flight(&self, slot: Slot) -> u32 {
        self.entry(slot).map_or(0, |entry| entry.in_flight)
    }

    pub(super) fn release(&mut self, slot: Slot) {
        let Some(entry) = self.entry_mut(slot) else { return };
        entry.in_flight = entry.in_flight.saturating_sub(1);
        if entry.leaving && entry.in_flight == 0 {
            self.vacate(slot.index);
        }
    }

    /// A cycle of the rotation is exact only if it begins with all credits at zero.
    pub(super) fn restart_rotation(&mut self) {
        for place in &mut self.places {
            if let Some(entry) = &mut place.entry {
                entry.current = 0;
            }
        }
        self.phase = None;
    }

    pub(super) fn compute_weights(&mut self, now: Instant) {
        self.live.clear();
        self.cumulative.clear();
        self.warmed_at = None;
        self.is_even = true;
        let (mut sum, mut first) = (0_u64, None);
        for &index in &self.listed {
            let place = self.places.get_mut(index as usize);
            let Some(entry) = place.and_then(|place| place.entry.as_mut()) else { continue };
            entry.warm_up = entry.warm_up.filter(|warm_up| !warm_up.is_warm(now));
            entry.weight = entry.full_weight;
            if let Some(warm_up) = entry.warm_up {
                entry.weight = warm_up.weight_at(now, entry.full_weight);
                self.warmed_at = Some(now);
            }
            if let Some(ramp) = entry.outlier.ramp(now) {
                entry.weight = ramp.weight_at(now, entry.weight);
                self.warmed_at = Some(now);
            }
            if 0 < entry.weight {
                self.is_even &= *first.get_or_insert(entry.weight) == entry.weight;
                sum += u64::from(entry.weight);
                self.live.push(index);
                self.cumulative.push(sum);
            }
        }
    }
}
