//! How long the replies of one method are expected to be.

use std::cell::Cell;

/// After a long reply, each shorter one takes an eighth of the difference off what is expected.
const FORGETTING: u32 = 8;

/// What the replies so far say about the length of the next one.
///
/// One long reply raises it at once; short ones lower it bit by bit.
#[derive(Debug, Default)]
pub struct ExpectedLen(Cell<u32>);

impl ExpectedLen {
    /// A reply of `len` bytes has come.
    #[inline]
    pub fn note(&self, len: usize) {
        let (known, len) = (self.0.get(), u32::try_from(len).unwrap_or(u32::MAX));
        let next = known.saturating_sub(known.abs_diff(len).div_ceil(FORGETTING));
        self.0.set(if known <= len { len } else { next });
    }

    /// The length of the next reply, in bytes.
    #[inline]
    pub fn get(&self) -> usize {
        self.0.get() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_reply_counts_at_once_and_short_ones_bit_by_bit() {
        let expected = ExpectedLen::default();
        expected.note(100);
        assert_eq!(expected.get(), 100);
        expected.note(5 << 20);
        assert_eq!(expected.get(), 5 << 20);
        let mut n_short = 0;
        while 64 << 10 <= expected.get() {
            expected.note(100);
            n_short += 1;
        }
        assert!((20..50).contains(&n_short), "{n_short}");
        for _ in 0..200 {
            expected.note(100);
        }
        assert_eq!(expected.get(), 100, "it comes down all the way");
    }
}
