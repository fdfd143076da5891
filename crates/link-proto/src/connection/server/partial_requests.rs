//! Requests that come in parts: until the last one is here, or their time is over, or there is no
//! memory for them.
//!
//! Invariants:
//! - Every request that is put together has an instant after which it is given up and its bytes
//!   are freed.
//! - `earliest_due` is not after any of these instants.

use super::{IncomingSlot, IncomingState, ServerSide, refuse, request};
use crate::assembly::PartialMessage;
use crate::connection::core::Core;
use crate::header::{Header, flags};
use crate::message::RequestHead;
use crate::{CallId, LinkError, Status};
use std::time::{Duration, Instant};

/// A request of which parts are missing.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) partial: PartialMessage<RequestHead>,
    /// When its last part has to be here.
    due: Instant,
    /// How long that was from its first part on.
    time: Duration,
}

impl ServerSide {
    /// Keeps the first part of a request, if there is room for the whole.
    pub(super) fn begin_parts<T>(
        &mut self,
        core: &mut Core<T>,
        slot: usize,
        id: CallId,
        partial: PartialMessage<RequestHead>,
    ) {
        let total = partial.total();
        if !core.budget.reserve(total) {
            let text = format!("no room for a request of {total} bytes beside the others");
            refuse(core, id, partial.head().is_one_way(), Status::OVERLOADED, &text);
            return;
        }
        core.budget.begin(&partial);
        let longest = core.config.assembly_timeout;
        let time = partial.head().timeout.map_or(longest, |timeout| timeout.min(longest));
        // These bytes are what was heard last.
        let due = core.last_heard + time;
        self.earliest_due = Some(self.earliest_due.map_or(due, |earliest| earliest.min(due)));
        self.occupy(slot, id, IncomingState::Receiving(Box::new(Inbound { partial, due, time })));
    }

    pub(in crate::connection) fn handle_chunk<T>(
        &mut self,
        core: &mut Core<T>,
        header: &Header,
        part: &[u8],
    ) -> Result<(), LinkError> {
        let last = header.flags & flags::MORE == 0;
        let id = CallId::from_wire(header.id);
        let Some(entry) = self.slots.get_mut(id.slot() as usize) else {
            return Ok(());
        };
        let IncomingState::Receiving(inbound) = &mut entry.state else {
            // Of a call that was refused or answered before its request was here.
            return Ok(());
        };
        if entry.generation != id.generation() {
            return Ok(());
        }
        core.budget.push(&mut inbound.partial, part, last)?;
        if !last {
            return Ok(());
        }
        let Some(IncomingState::Receiving(inbound)) = self.release(id) else {
            return Ok(());
        };
        core.budget.end(&inbound.partial);
        let (head, payload) = inbound.partial.finish();
        if !head.is_one_way() {
            self.occupy(id.slot() as usize, id, IncomingState::Open);
            core.open_stream(id, head.flags, false, false);
        }
        core.events.push_back(request(id, head, payload));
        Ok(())
    }

    /// When [`ServerSide::expire`] has something to do, at the earliest.
    #[inline]
    pub(in crate::connection) fn earliest_due(&self) -> Option<Instant> {
        self.earliest_due
    }

    /// Gives up the requests whose last part did not come in time.
    pub(in crate::connection) fn expire<T>(&mut self, core: &mut Core<T>, now: Instant) {
        if self.earliest_due.is_none_or(|earliest| now < earliest) {
            return;
        }
        self.earliest_due = None;
        let mut late = Vec::new();
        for (slot, entry) in (0_u32..).zip(&self.slots) {
            let IncomingState::Receiving(inbound) = &entry.state else { continue };
            if inbound.due <= now {
                late.push((CallId::new(slot, entry.generation), inbound.time));
            } else {
                let due = inbound.due;
                self.earliest_due = Some(self.earliest_due.map_or(due, |e| e.min(due)));
            }
        }
        for (id, time) in late {
            self.give_up(core, id, Status::TIMEOUT, |total, have| {
                format!("only {have} of the request's {total} bytes came within {time:?}")
            });
        }
    }

    /// Gives up the request in parts that holds most memory, and tells its caller `text`. `false`
    /// if there is none.
    pub(in crate::connection) fn shed_parts<T>(&mut self, core: &mut Core<T>, text: &str) -> bool {
        let held = |slot: &IncomingSlot| match &slot.state {
            IncomingState::Receiving(inbound) => inbound.partial.held(),
            _ => 0,
        };
        let largest = (0_u32..).zip(&self.slots).max_by_key(|(_, slot)| held(slot));
        let Some((slot, entry)) = largest.filter(|(_, slot)| held(slot) != 0) else {
            return false;
        };
        let id = CallId::new(slot, entry.generation);
        self.give_up(core, id, Status::OVERLOADED, |_, _| text.to_owned());
        true
    }

    /// Frees a request in parts; `text` says why, of its whole length and of what came.
    fn give_up<T>(
        &mut self,
        core: &mut Core<T>,
        id: CallId,
        status: Status,
        text: impl FnOnce(usize, usize) -> String,
    ) {
        if let Some(IncomingState::Receiving(inbound)) = self.release(id) {
            let partial = inbound.partial;
            core.budget.end(&partial);
            let text = text(partial.total(), partial.have());
            refuse(core, id, partial.head().is_one_way(), status, &text);
        }
    }
}
