//! The calls of one connection that wait for their reply.
//!
//! Invariants:
//! - A call's id is its slot in the low half and the slot's generation in the high half, so that a
//!   reply is found by index, and an id that was given back never names a later call.
//! - `earliest` is never later than the earliest deadline of a pending call. It may be sooner: the
//!   call that it belonged to may have been answered. Then one scan corrects it.

use std::fmt;
use std::time::Instant;

/// Names one request of a connection. Never used twice on it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RequestId(u64);

/// The slot of ids that are not pending calls: heartbeats and one-way requests.
const NO_SLOT: u32 = u32::MAX;

/// The end of the list of free slots.
const NIL: u32 = u32::MAX;

/// Not 0: the first id of a connection should not look like an id that nobody has set.
const FIRST_GENERATION: u32 = 1;

impl RequestId {
    /// The number in the frame's header.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    pub(crate) const fn without_slot(counter: u32) -> Self {
        Self::new(counter, NO_SLOT)
    }

    const fn new(generation: u32, slot: u32) -> Self {
        Self((generation as u64) << 32 | slot as u64)
    }

    #[expect(clippy::cast_possible_truncation, reason = "an id is made of two halves")]
    const fn split(id: u64) -> (u32, u32) {
        ((id >> 32) as u32, id as u32)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Slots, reused in the order last in, first out, so that few calls touch little memory.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    slots: Vec<PendingSlot<T>>,
    free: u32,
    n_busy: usize,
    max: usize,
    earliest: Option<Instant>,
}

#[derive(Debug)]
struct PendingSlot<T> {
    generation: u32,
    state: SlotState<T>,
}

#[derive(Debug)]
enum SlotState<T> {
    Free { next: u32 },
    Busy { deadline: Instant, token: T },
}

impl<T> Pending<T> {
    pub(crate) fn new(max: usize) -> Self {
        // Ids have 32 bits for the slot, and one value is taken.
        let max = max.min(NO_SLOT as usize - 1);
        Self { slots: Vec::new(), free: NIL, n_busy: 0, max, earliest: None }
    }

    pub(crate) const fn len(&self) -> usize {
        self.n_busy
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.n_busy >= self.max
    }

    /// A lower bound of the deadlines; `None` only when nothing is pending.
    pub(crate) const fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// The id that the next call gets.
    pub(crate) fn next_id(&self) -> RequestId {
        match self.slots.get(self.free as usize) {
            Some(slot) => RequestId::new(slot.generation, self.free),
            None => RequestId::new(FIRST_GENERATION, self.next_slot()),
        }
    }

    /// Keeps a call under [`Pending::next_id`]. The caller has checked that there is room.
    pub(crate) fn insert(&mut self, deadline: Instant, token: T) {
        debug_assert!(!self.is_full());
        self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
        self.n_busy += 1;
        let busy = SlotState::Busy { deadline, token };
        let at = self.free;
        if let Some(slot) = self.slots.get_mut(at as usize)
            && let SlotState::Free { next } = slot.state
        {
            self.free = next;
            slot.state = busy;
        } else {
            self.slots.push(PendingSlot { generation: FIRST_GENERATION, state: busy });
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "`max` is below the number of u32s")]
    const fn next_slot(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Gives back the call with this id; `None` when it is not pending, or not any more.
    pub(crate) fn take(&mut self, id: u64) -> Option<T> {
        let (generation, at) = RequestId::split(id);
        let slot = self.slots.get_mut(at as usize)?;
        if slot.generation != generation || matches!(slot.state, SlotState::Free { .. }) {
            return None;
        }
        let token = free_slot(slot, at, &mut self.free)?;
        self.n_busy -= 1;
        if self.n_busy == 0 {
            self.earliest = None;
        }
        Some(token)
    }

    /// Gives back every call whose deadline has passed.
    pub(crate) fn expire(&mut self, now: Instant, mut expired: impl FnMut(T)) {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return;
        }
        let mut earliest: Option<Instant> = None;
        for (at, slot) in (0..).zip(&mut self.slots) {
            match slot.state {
                SlotState::Busy { deadline, .. } if deadline <= now => {
                    if let Some(token) = free_slot(slot, at, &mut self.free) {
                        self.n_busy -= 1;
                        expired(token);
                    }
                }
                SlotState::Busy { deadline, .. } => {
                    earliest = Some(earliest.map_or(deadline, |earliest| earliest.min(deadline)));
                }
                SlotState::Free { .. } => {}
            }
        }
        self.earliest = earliest;
    }

    /// Gives back all calls, as the iterator is driven; what is left out stays pending.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        let Self { slots, free, n_busy, .. } = self;
        (0..).zip(slots).filter_map(move |(at, slot)| {
            let token = free_slot(slot, at, free)?;
            *n_busy -= 1;
            Some(token)
        })
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        let busy = self.slots.iter().filter_map(|slot| match slot.state {
            SlotState::Busy { deadline, .. } => Some(deadline),
            SlotState::Free { .. } => None,
        });
        let (mut n_busy, mut n_late) = (0, 0);
        for deadline in busy {
            n_busy += 1;
            n_late += usize::from(self.earliest.is_none_or(|earliest| deadline < earliest));
        }
        assert_eq!((n_busy, n_late), (self.n_busy, 0));
    }
}

/// Empties a busy slot, puts it in front of the free ones and makes its old id void.
fn free_slot<T>(slot: &mut PendingSlot<T>, at: u32, free: &mut u32) -> Option<T> {
    match std::mem::replace(&mut slot.state, SlotState::Free { next: *free }) {
        SlotState::Busy { token, .. } => {
            slot.generation = slot.generation.wrapping_add(1);
            *free = at;
            Some(token)
        }
        was_free @ SlotState::Free { .. } => {
            slot.state = was_free;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::test_clock::start;

    #[derive(Clone, Debug)]
    enum TableOperation {
        Insert(u64),
        Take(usize),
        Pass(u64),
    }

    fn any_step() -> impl Strategy<Value = TableOperation> {
        prop_oneof![
            3 => (0..1000u64).prop_map(TableOperation::Insert),
            2 => any::<usize>().prop_map(TableOperation::Take),
            1 => (0..300u64).prop_map(TableOperation::Pass),
        ]
    }

    proptest! {
        /// Against a plain map: the same calls come back, no id is given out twice, stale ids
        /// find nothing, and deadlines expire exactly when they should.
        #[test]
        fn behaves_like_a_map(steps in vec(any_step(), 1..200)) {
            let mut now = start();
            let mut pending = Pending::new(64);
            let mut model: BTreeMap<u64, (Instant, usize)> = BTreeMap::new();
            let (mut used, mut ids) = (BTreeSet::new(), Vec::new());
            for (token, step) in steps.into_iter().enumerate() {
                match step {
                    TableOperation::Insert(ms) if !pending.is_full() => {
                        let deadline = now + Duration::from_millis(ms);
                        let id = pending.next_id().get();
                        pending.insert(deadline, token);
                        prop_assert!(used.insert(id), "id {} again", id);
                        ids.push(id);
                        model.insert(id, (deadline, token));
                    }
                    TableOperation::Insert(_) => prop_assert_eq!(model.len(), 64),
                    TableOperation::Take(at) if !ids.is_empty() => {
                        let id = ids[at % ids.len()];
                        prop_assert_eq!(pending.take(id), model.remove(&id).map(|(_, t)| t));
                    }
                    TableOperation::Take(_) => {}
                    TableOperation::Pass(ms) => {
                        now += Duration::from_millis(ms);
                        let mut seen = BTreeSet::new();
                        pending.expire(now, |token| { seen.insert(token); });
                        let due: BTreeSet<_> =
                            model.values().filter(|(d, _)| *d <= now).map(|(_, t)| *t).collect();
                        model.retain(|_, (deadline, _)| *deadline > now);
                        prop_assert_eq!(seen, due);
                    }
                }
                pending.check_invariants();
                prop_assert_eq!(pending.len(), model.len());
            }
            prop_assert_eq!(pending.drain().count(), model.len());
            prop_assert_eq!(pending.len(), 0);
        }
    }
}
