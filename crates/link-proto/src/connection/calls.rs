//! A client's calls in flight, found by their slot.
//!
//! Invariants:
//! - A slot that is not free belongs to exactly one call; its generation changes when that ends.
//! - No slot's number is above the most calls that were ever in flight at once.
//! - `earliest` is not after any deadline of a call in flight.

use crate::CallId;
use crate::assembly::PartialMessage;
use crate::message::ResponseHead;
use std::time::Instant;

#[derive(Debug)]
pub(super) struct Calls<T> {
    slots: Vec<OutgoingSlot<T>>,
    /// Free slots, the one used last on top: its memory is warm.
    free: Vec<u32>,
    in_flight: usize,
    /// Lower bound of all deadlines: the slots are walked only when it has passed.
    earliest: Option<Instant>,
}

#[derive(Debug)]
struct OutgoingSlot<T> {
    generation: u32,
    deadline: Option<Instant>,
    state: OutgoingState<T>,
}

#[derive(Debug)]
pub(super) enum OutgoingState<T> {
    Free,
    /// A long one-way call of which chunks are still to be sent.
    OneWay,
    /// The answer has not begun.
    Waiting(T),
    /// Parts of the answer came.
    Receiving(T, Box<PartialMessage<ResponseHead>>),
}

impl<T> Calls<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), in_flight: 0, earliest: None }
    }

    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    #[inline]
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// The call whose answer in parts takes most memory.
    pub(super) fn largest_partial(&self) -> Option<CallId> {
        let partials = (0_u32..).zip(&self.slots).filter_map(|(slot, entry)| match &entry.state {
            OutgoingState::Receiving(_, partial) => Some((partial.held(), slot, entry.generation)),
            _ => None,
        });
        let (_, slot, generation) = partials.max_by_key(|(held, ..)| *held)?;
        Some(CallId::new(slot, generation))
    }

    /// All calls that have not ended.
    pub(super) fn open_ids(&self) -> Vec<CallId> {
        let slots = (0_u32..).zip(&self.slots);
        let open = slots.filter(|(_, entry)| !matches!(entry.state, OutgoingState::Free));
        open.map(|(slot, entry)| CallId::new(slot, entry.generation)).collect()
    }

    #[inline]
    pub(super) fn state(&self, slot: usize) -> Option<&OutgoingState<T>> {
        self.slots.get(slot).map(|entry| &entry.state)
    }

    #[inline]
    pub(super) fn state_mut(&mut self, slot: usize) -> Option<&mut OutgoingState<T>> {
        self.slots.get_mut(slot).map(|entry| &mut entry.state)
    }

    /// Takes a slot for a call.
    #[inline]
    pub(super) fn begin(&mut self, deadline: Option<Instant>, state: OutgoingState<T>) -> CallId {
        if let Some(deadline) = deadline {
            self.earliest = Some(self.earliest.map_or(deadline, |e| e.min(deadline)));
        }
        self.in_flight += 1;
        if let Some(slot) = self.free.pop() {
            if let Some(entry) = self.slots.get_mut(slot as usize) {
                entry.deadline = deadline;
                entry.state = state;
                return CallId::new(slot, entry.generation);
            }
            debug_assert!(false, "free slots exist");
        }
        // All slots are taken, so the new one is number `in_flight - 1`, below the window.
        let slot = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(OutgoingSlot { generation: 0, deadline, state });
        CallId::new(slot, 0)
    }

    /// Frees a slot; gives what was in it.
    #[inline]
    pub(super) fn end(&mut self, slot: usize) -> OutgoingState<T> {
        let Some(entry) = self.slots.get_mut(slot) else {
            debug_assert!(false, "only slots that exist are freed");
            return OutgoingState::Free;
        };
        entry.generation = entry.generation.wrapping_add(1);
        entry.deadline = None;
        let state = std::mem::replace(&mut entry.state, OutgoingState::Free);
        debug_assert!(!matches!(state, OutgoingState::Free), "freed twice");
        self.in_flight -= 1;
        self.free.push(u32::try_from(slot).unwrap_or(u32::MAX));
        state
    }

    /// Index of the slot of a call that has not ended.
    #[inline]
    pub(super) fn find(&self, id: CallId) -> Option<usize> {
        let slot = id.slot() as usize;
        let entry = self.slots.get(slot)?;
        let is_live =
            entry.generation == id.generation() && !matches!(entry.state, OutgoingState::Free);
        is_live.then_some(slot)
    }

    /// The last chunk of a long request is in the buffer: a one-way call has ended.
    pub(super) fn sent(&mut self, id: CallId) {
        if let Some(slot) = self.find(id)
            && matches!(self.state(slot), Some(OutgoingState::OneWay))
        {
            self.end(slot);
        }
    }

    /// The slots of all calls whose deadline has passed, and a new bound of the others. Walks the
    /// slots only if some deadline may have passed.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<CallId> {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return Vec::new();
        }
        let mut expired = Vec::new();
        self.earliest = None;
        for (slot, entry) in self.slots.iter().enumerate() {
            match entry.deadline {
                Some(deadline) if deadline <= now => {
                    let slot = u32::try_from(slot).unwrap_or(u32::MAX);
                    expired.push(CallId::new(slot, entry.generation));
                }
                Some(deadline) => {
                    self.earliest = Some(self.earliest.map_or(deadline, |e| e.min(deadline)));
                }
                None => {}
            }
        }
        expired
    }

    /// Checks the invariants, and gives what answers on their way have reserved.
    pub(super) fn check_invariants(&self) -> usize {
        let busy = self.slots.iter().filter(|s| !matches!(s.state, OutgoingState::Free));
        debug_assert_eq!(busy.clone().count(), self.in_flight);
        debug_assert_eq!(self.slots.len(), self.in_flight + self.free.len());
        for deadline in self.slots.iter().filter_map(|slot| slot.deadline) {
            debug_assert!(self.earliest.is_some_and(|earliest| earliest <= deadline));
        }
        let reserved = |slot: &OutgoingSlot<T>| match &slot.state {
            OutgoingState::Receiving(_, partial) => partial.total(),
            _ => 0,
        };
        busy.map(reserved).sum()
    }
}
