//! Streams of items beside a call: what one direction of one stream keeps on each side, and its
//! flow control. No frames are written and no calls are known here.
//!
//! A frame of an item costs its payload and its header. The sender may send while its credit is
//! above 0, so it overdraws by one frame at most; the receiver gives back what was taken.
//!
//! Invariants:
//! - A sender holds at most one unfinished item.
//! - The credit on both sides is never above the window: nothing is given back that was not used.
//! - Untaken items and the one under assembly have at most the window, one frame and one
//!   message limit together: parts of a long item are given back as they come, but once it is
//!   whole, all of it has to be taken before there is more.

use crate::LinkError;
use crate::assembly::AssemblyBudget;
use crate::header::{HEADER_LEN, MAX_PART_LEN, flags};
use crate::outbox::CHUNK_LEN;
use bytes::{Bytes, BytesMut};

/// What a frame with so many bytes of payload costs. Items are within the message limit of 1 GiB.
fn cost(len: usize) -> i64 {
    i64::try_from(HEADER_LEN + len).unwrap_or(i64::MAX)
}

/// The sending side of a stream.
#[derive(Debug)]
pub(crate) struct Sending {
    window: i64,
    credit: i64,
    /// The item that is not, or not yet wholly, in the outbox.
    unsent: Option<Unsent>,
    /// Parts of the request, which goes before all items, are still to be sent.
    held: bool,
    end: SendingEnd,
    /// The owner is to be told when an item may be sent again.
    blocked: bool,
}

#[derive(Debug)]
struct Unsent {
    codec: u8,
    rest: Bytes,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum SendingEnd {
    Open,
    /// There are no more items, and the peer has still to be told.
    Wanted,
    Said,
}

/// A frame's worth of an item.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct ItemPart {
    pub(crate) codec: u8,
    pub(crate) payload: Bytes,
    pub(crate) is_last: bool,
}

impl Sending {
    /// A stream to a peer that stated `window`. It is held while its request is in the outbox.
    pub(crate) fn new(window: u32, held: bool) -> Self {
        let window = i64::from(window);
        let blocked = window == 0;
        Self { window, credit: window, unsent: None, held, end: SendingEnd::Open, blocked }
    }

    /// Whether the next item would be taken.
    pub(crate) fn can_take(&self) -> bool {
        self.end == SendingEnd::Open && self.credit > 0 && self.unsent.is_none()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.end == SendingEnd::Open
    }

    /// Whether the next item, of `len` bytes, may go to the outbox as one frame, past all turns.
    pub(crate) fn takes_at_once(&self, len: usize) -> bool {
        self.can_take() && !self.held && len <= MAX_PART_LEN
    }

    /// The request is sent.
    pub(crate) fn release(&mut self) {
        self.held = false;
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.unsent.is_some()
    }

    /// Whether a part, or the end, could be sent now.
    pub(crate) fn wants_turn(&self) -> bool {
        let has_part = self.unsent.is_some() && self.credit > 0;
        !self.held && (has_part || self.unsent.is_none() && self.end == SendingEnd::Wanted)
    }

    /// An item went to the outbox as one frame.
    pub(crate) fn sent_whole(&mut self, len: usize) {
        debug_assert!(self.can_take() && !self.held, "checked by the caller");
        self.credit -= cost(len);
        self.blocked = !self.can_take();
    }

    /// Keeps an item, to be sent part by part.
    pub(crate) fn keep(&mut self, codec: u8, rest: Bytes) {
        debug_assert!(self.can_take(), "checked by the caller");
        self.unsent = Some(Unsent { codec, rest });
        self.blocked = true;
    }

    /// The next part, if there is one and credit for it.
    pub(crate) fn next_part(&mut self) -> Option<ItemPart> {
        if self.held || self.credit <= 0 {
            return None;
        }
        let Unsent { codec, mut rest } = self.unsent.take()?;
        // As long as it fits, one frame: the receiver need not put it together.
        let len = if rest.len() <= MAX_PART_LEN { rest.len() } else { CHUNK_LEN };
        let payload = rest.split_to(len);
        self.credit -= cost(len);
        let is_last = rest.is_empty();
        if !is_last {
            self.unsent = Some(Unsent { codec, rest });
        }
        Some(ItemPart { codec, payload, is_last })
    }

    /// No more items. Nothing if that was said before.
    pub(crate) fn end(&mut self) {
        if self.end == SendingEnd::Open {
            self.end = SendingEnd::Wanted;
        }
    }

    /// Whether the end is to be said now; it is said once.
    pub(crate) fn take_end(&mut self) -> bool {
        let now = self.end == SendingEnd::Wanted && self.unsent.is_none() && !self.held;
        if now {
            self.end = SendingEnd::Said;
        }
        now
    }

    /// The peer gives back `len` bytes.
    pub(crate) fn add_credit(&mut self, len: u32) -> Result<(), LinkError> {
        let credit = self.credit + i64::from(len);
        if credit > self.window {
            return Err(LinkError::CreditBeyondWindow { credit, window: self.window });
        }
        self.credit = credit;
        Ok(())
    }

    /// Whether the owner is to be told now that the next item would be taken.
    pub(crate) fn take_writable(&mut self) -> bool {
        let now = self.blocked && self.can_take();
        if now {
            self.blocked = false;
        }
        now
    }

    pub(crate) fn check_invariants(&self) {
        debug_assert!(self.credit <= self.window);
        let can_take = self.can_take();
        debug_assert!(self.end != SendingEnd::Open || self.blocked != can_take, "{self:?}");
        debug_assert!(self.end != SendingEnd::Said || self.unsent.is_none());
    }
}

/// The receiving side of a stream.
#[derive(Debug)]
pub(crate) struct Receiving {
    window: i64,
    /// The peer's credit, once it has read all that was given back.
    credit: i64,
    /// To be given back. Below 0, so much of an item that is whole was given back beforehand.
    returnable: i64,
    /// Cost of the items that the app has not taken.
    untaken: i64,
    partial: Option<PartialItem>,
    ended: bool,
}

#[derive(Debug)]
struct PartialItem {
    codec: u8,
    data: BytesMut,
}

/// What a frame of a stream was.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Received {
    /// A part; the item goes on.
    Part,
    /// An item is whole.
    Item {
        /// Codec of its first frame.
        codec: u8,
        /// All of it.
        payload: Bytes,
    },
    /// No more items come.
    End,
    /// The item cannot be taken, which is the end of its call.
    Refused {
        /// Its bytes until now.
        len: usize,
        /// The limit; `None` if there is no room beside other messages.
        max: Option<usize>,
    },
}

impl Receiving {
    pub(crate) fn new(window: u32) -> Self {
        let window = i64::from(window);
        Self { window, credit: window, returnable: 0, untaken: 0, partial: None, ended: false }
    }

    /// Takes a frame's part of an item of at most `max_len` bytes. Parts are reserved from
    /// `budget` while their item is not whole.
    pub(crate) fn receive(
        &mut self,
        frame: StreamFrame,
        part: crate::Payload<'_>,
        max_len: usize,
        budget: &mut AssemblyBudget,
    ) -> Result<Received, LinkError> {
        let len = part.as_slice().len();
        self.check(frame, len)?;
        if frame.flags & flags::END != 0 {
            self.ended = true;
            return Ok(Received::End);
        }
        self.credit -= cost(len);
        let have = self.reserved() + len;
        if have > max_len {
            return Ok(Received::Refused { len: have, max: Some(max_len) });
        }
        let is_last = frame.flags & flags::MORE == 0;
        let Some(partial) = &mut self.partial else {
            if is_last {
                self.untaken += cost(len);
                return Ok(Received::Item { codec: frame.codec, payload: part.into_bytes() });
            }
            return Ok(self.begin(frame.codec, part.as_slice(), budget));
        };
        if is_last {
            partial.data.extend_from_slice(part.as_slice());
            return Ok(self.finish(len, budget));
        }
        if !budget.reserve(len) {
            return Ok(Received::Refused { len: have, max: None });
        }
        partial.data.extend_from_slice(part.as_slice());
        self.returnable += cost(len);
        Ok(Received::Part)
    }

    fn check(&self, frame: StreamFrame, len: usize) -> Result<(), LinkError> {
        let bad = |rule| Err(LinkError::BadItem { rule });
        let has_more = frame.flags & flags::MORE != 0;
        if self.ended {
            return bad("nothing may follow the end");
        }
        if frame.flags & flags::END != 0 {
            return match () {
                () if !frame.may_end => bad("only a client ends its items"),
                () if has_more || len != 0 => bad("the end has neither payload nor MORE"),
                () if self.partial.is_some() => bad("the last item is not whole"),
                () => Ok(()),
            };
        }
        if self.credit <= 0 {
            return bad("sent without credit");
        }
        if has_more && len == 0 {
            return bad("a part that is not the last is empty");
        }
        Ok(())
    }

    fn begin(&mut self, codec: u8, part: &[u8], budget: &mut AssemblyBudget) -> Received {
        if !budget.reserve(part.len()) {
            return Received::Refused { len: part.len(), max: None };
        }
        self.partial = Some(PartialItem { codec, data: BytesMut::from(part) });
        self.returnable += cost(part.len());
        Received::Part
    }

    /// An item is whole; its last part had `last_len` bytes.
    fn finish(&mut self, last_len: usize, budget: &mut AssemblyBudget) -> Received {
        let PartialItem { codec, data } =
            self.partial.take().unwrap_or(PartialItem { codec: 0, data: BytesMut::new() });
        budget.release(data.len() - last_len);
        // What came before was given back, but the whole item is now to be taken.
        self.returnable -= cost(data.len()) - cost(last_len);
        self.untaken += cost(data.len());
        Received::Item { codec, payload: data.freeze() }
    }

    /// Bytes of the item under assembly, which are reserved from the budget.
    pub(crate) fn reserved(&self) -> usize {
        self.partial.as_ref().map_or(0, |partial| partial.data.len())
    }

    /// The app has taken an item of `len` bytes.
    pub(crate) fn take(&mut self, len: usize) {
        let cost = cost(len);
        debug_assert!(cost <= self.untaken, "taken twice, or of another length");
        let cost = cost.min(self.untaken);
        self.untaken -= cost;
        self.returnable += cost;
    }

    /// Whether so much was taken that the peer is to be told: half of the window saves frames,
    /// and leaves the peer the other half to go on with.
    pub(crate) fn owes_credit(&self) -> bool {
        !self.ended && self.returnable >= (self.window / 2).max(1)
    }

    /// What is to be given back now, if that is worth a frame.
    pub(crate) fn take_credit(&mut self) -> Option<u32> {
        if !self.owes_credit() {
            return None;
        }
        // At most the window and one message, which is far below the type's limit.
        let len = u32::try_from(self.returnable).unwrap_or(u32::MAX);
        self.returnable -= i64::from(len);
        self.credit += i64::from(len);
        Some(len)
    }

    pub(crate) fn check_invariants(&self) {
        debug_assert!(self.credit <= self.window && self.untaken >= 0, "{self:?}");
    }
}

/// What of a frame's header matters to a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamFrame {
    pub(crate) flags: u8,
    pub(crate) codec: u8,
    /// The peer is a client.
    pub(crate) may_end: bool,
}

#[cfg(test)]
mod tests;
