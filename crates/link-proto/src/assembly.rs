//! Long messages on their way in: parts are put together under one budget per link.
//!
//! Invariants:
//! - The announced total is reserved from the budget before a byte is kept, and given back once.
//! - Every part that is not the last brings at least one byte, so a message ends.

use crate::LinkError;
use bytes::{Bytes, BytesMut};

/// Memory is taken in steps up to the announced total: announcing is cheap for a hostile peer.
const FIRST_STEP_LEN: usize = 256 * 1024;
/// A step is so many times as much as has come, so that little is moved: all that has come is.
const ROOM_TIMES: usize = 8;

/// How many bytes all unfinished messages of a link may have together.
#[derive(Debug)]
pub(crate) struct AssemblyBudget {
    used: usize,
    max: usize,
    /// What is in `used` for long messages: their announced lengths.
    announced: usize,
    /// What those messages take in memory so far.
    held: usize,
}

impl AssemblyBudget {
    pub(crate) fn new(max: usize) -> Self {
        Self { used: 0, max, announced: 0, held: 0 }
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Takes `len` bytes; says whether they were there.
    #[must_use]
    pub(crate) fn reserve(&mut self, len: usize) -> bool {
        let fits = len <= self.max - self.used;
        if fits {
            self.used += len;
        }
        fits
    }

    /// What is in memory of messages that are not whole.
    pub(crate) fn held(&self) -> usize {
        self.held + (self.used - self.announced)
    }

    /// Counts a message for which its total was reserved.
    pub(crate) fn begin<H>(&mut self, partial: &PartialMessage<H>) {
        self.announced += partial.total;
        self.held += partial.held();
    }

    /// Adds a part to a message.
    pub(crate) fn push<H>(
        &mut self,
        partial: &mut PartialMessage<H>,
        part: &[u8],
        last: bool,
    ) -> Result<(), LinkError> {
        let before = partial.held();
        let pushed = partial.push(part, last);
        self.held += partial.held() - before;
        pushed
    }

    /// Gives back all that a message has taken.
    pub(crate) fn end<H>(&mut self, partial: &PartialMessage<H>) {
        self.announced -= partial.total;
        self.held -= partial.held();
        self.release(partial.total);
    }

    pub(crate) fn release(&mut self, len: usize) {
        debug_assert!(len <= self.used, "given back more than was taken");
        self.used = self.used.saturating_sub(len);
    }
}

/// A message of which parts are missing. `H` is what stood before its payload.
#[derive(Debug)]
pub(crate) struct PartialMessage<H> {
    head: H,
    total: usize,
    data: BytesMut,
}

impl<H> PartialMessage<H> {
    /// Begins a message with its first part; the caller has reserved `total` bytes.
    pub(crate) fn new(head: H, total: usize, first: &[u8]) -> Result<Self, LinkError> {
        let mut partial = Self { head, total, data: BytesMut::new() };
        partial.check(first.len(), false, true)?;
        partial.data.reserve(total.min(FIRST_STEP_LEN));
        partial.data.extend_from_slice(first);
        Ok(partial)
    }

    /// Length that was announced and reserved.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Bytes that came.
    pub(crate) fn have(&self) -> usize {
        self.data.len()
    }

    /// What stood before the payload.
    pub(crate) fn head(&self) -> &H {
        &self.head
    }

    /// Bytes of memory that it takes.
    pub(crate) fn held(&self) -> usize {
        self.data.capacity()
    }

    /// Adds a part.
    fn push(&mut self, part: &[u8], last: bool) -> Result<(), LinkError> {
        self.check(part.len(), last, false)?;
        let need = self.data.len() + part.len();
        if self.data.capacity() < need {
            let step = self.data.len().saturating_mul(ROOM_TIMES);
            let step = step.clamp(need, self.total.max(need));
            self.data.reserve(step - self.data.len());
        }
        self.data.extend_from_slice(part);
        Ok(())
    }

    /// The whole message, after its last part.
    pub(crate) fn finish(self) -> (H, Bytes) {
        debug_assert_eq!(self.data.len(), self.total, "the last part was checked");
        (self.head, self.data.freeze())
    }

    fn check(&self, part: usize, last: bool, first: bool) -> Result<(), LinkError> {
        let (total, have) = (self.total, self.data.len());
        let sum = have + part;
        let fits = if last { sum == total } else { sum < total && (part != 0 || first) };
        if fits { Ok(()) } else { Err(LinkError::BadChunk { total, have, part, last }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_a_message() {
        let mut partial = PartialMessage::new("head", 6, b"ab").unwrap();
        partial.push(b"cd", false).unwrap();
        partial.push(b"ef", true).unwrap();
        assert_eq!(partial.finish(), ("head", Bytes::from_static(b"abcdef")));
        let mut late = PartialMessage::new((), 1, b"").unwrap();
        late.push(b"x", true).unwrap();
        assert_eq!(late.finish().1, "x");
    }

    #[test]
    fn parts_that_do_not_add_up_are_refused() {
        assert!(PartialMessage::new((), 2, b"ab").is_err(), "nothing left for the parts to come");
        assert!(PartialMessage::new((), 0, b"").is_err());
        let mut partial = PartialMessage::new((), 4, b"a").unwrap();
        assert!(partial.push(b"", false).is_err(), "a part without progress");
        assert!(partial.push(b"bcd", false).is_err(), "full, but more is to come");
        assert!(partial.push(b"bc", true).is_err(), "last, but not full");
        assert!(partial.push(b"bcde", true).is_err(), "too much");
        assert!(partial.push(b"bcd", true).is_ok());
    }

    #[test]
    fn budget_is_exact() {
        let mut budget = AssemblyBudget::new(10);
        assert!(budget.reserve(10) && !budget.reserve(1));
        budget.release(4);
        assert!(!budget.reserve(5) && budget.reserve(4));
        assert_eq!(budget.used(), 10);
    }

    #[test]
    fn announcing_a_large_message_takes_little_memory() {
        let partial = PartialMessage::new((), 1 << 30, b"x").unwrap();
        assert!(partial.data.capacity() <= 2 * FIRST_STEP_LEN);
    }
}
