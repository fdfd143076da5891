//! Readers that look ahead, and go on where others have been: what they pass is counted all the
//! same.

use super::{JsonError, JsonReader, JsonRule, Sequence};

impl JsonReader<'_> {
    /// A reader at the same place, to look ahead: it does not check that the strings that it
    /// passes over are UTF-8, for this one will.
    pub fn scan(&self) -> Self {
        Self { is_scan: true, ..self.clone() }
    }

    /// Goes on after `n` members or elements of `n_bytes`, no more than
    /// [`JsonReader::items_left`].
    pub fn pass(&mut self, sequence: &mut Sequence, n_bytes: usize, n: usize) {
        self.pos += n_bytes;
        self.n_items += n;
        sequence.is_first &= n == 0;
    }

    /// How many more elements and members there may be.
    pub fn items_left(&self) -> usize {
        self.limits.max_items.saturating_sub(self.n_items)
    }

    /// How long one text may be.
    #[inline]
    pub fn max_len(&self) -> usize {
        self.limits.max_len
    }

    /// Whether there is an array or object around this place.
    pub fn is_inside(&self) -> bool {
        0 < self.depth
    }

    /// Goes on at `pos`, where a value begins or ends that was passed before.
    pub fn jump(&mut self, pos: usize) {
        self.pos = pos;
    }

    /// Goes on after the end of the array or object that it is in, which was passed before.
    pub fn jump_out(&mut self, end: usize) {
        self.pos = end;
        self.depth = self.depth.saturating_sub(1);
    }

    /// Counts members that are read by jumping to them.
    ///
    /// # Errors
    /// [`JsonError`] if there are more than the limit allows.
    #[inline]
    pub fn count(&mut self, n: usize) -> Result<(), JsonError> {
        self.n_items += n;
        if self.limits.max_items < self.n_items {
            return Err(self.broken(JsonRule::Items { max: self.limits.max_items }));
        }
        Ok(())
    }
}
