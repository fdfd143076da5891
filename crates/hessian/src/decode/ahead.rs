//! For those who look at the bytes of simple values themselves.

use super::Decoder;

impl Decoder<'_> {
    /// Goes on after `n` bytes, which are whole values within the limits.
    #[inline]
    pub(crate) fn pass(&mut self, n: usize) {
        self.pos += n;
        debug_assert!(self.pos <= self.buf.len());
    }

    /// How long one text or binary may be.
    #[inline]
    pub(crate) fn max_len(&self) -> usize {
        self.limits.max_len
    }

    /// How many more elements there may be.
    #[inline]
    pub(crate) fn items_left(&self) -> usize {
        self.limits.max_items.saturating_sub(self.n_items)
    }

    /// Counts elements that were passed, no more than were left.
    #[inline]
    pub(crate) fn pass_items(&mut self, n: usize) {
        self.n_items += n;
    }
}
