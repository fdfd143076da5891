//! Where a line ends. Bytes in, offsets out; no file in this module.
//!
//! A line ends with `\r\n`, and with nothing else: a lone `\n` or `\r` is a byte of its line. The last
//! line may lack its end; nothing after the last `\r\n` is no line.

use std::ops::Range;

/// What a line ends with.
pub const LINE_END: &[u8] = b"\r\n";

/// How many bytes are looked at together: as many as a word has bits.
const CHUNK_LEN: usize = 64;

/// Puts into `ends` the offset behind the end of each line that ends within `bytes`.
///
/// Line lengths are random, so a branch on "is there an end here" is mispredicted about once a line,
/// which costs more than all else here. So two ends are stored for each chunk, whether there are any or
/// not, and counted after that; more than two are rare.
///
/// # Panics
/// If `bytes` is longer than `u32::MAX`; blocks are far shorter.
pub(crate) fn find_ends(bytes: &[u8], ends: &mut Vec<u32>) {
    assert!(u32::try_from(bytes.len()).is_ok(), "a block is shorter than 4 GiB");
    ends.clear();
    let mut found = 0;
    let (chunks, rest) = bytes.as_chunks();
    let mut last = [0; CHUNK_LEN];
    last[..rest.len()].copy_from_slice(rest);
    for (at, chunk) in chunks.iter().chain([&last]).enumerate() {
        if ends.len() < found + CHUNK_LEN {
            ends.resize(2 * found + CHUNK_LEN, 0);
        }
        let Some(room) = ends[found..].first_chunk_mut::<CHUNK_LEN>() else { break };
        found += find_in_chunk(chunk, at * CHUNK_LEN, bytes, room);
    }
    ends.truncate(found);
}

/// Stores the ends in `chunk`, which lies at `begin` of `bytes`, and returns how many there are.
#[inline]
fn find_in_chunk(
    chunk: &[u8; CHUNK_LEN],
    begin: usize,
    bytes: &[u8],
    ends: &mut [u32; CHUNK_LEN],
) -> usize {
    let mut left = newlines(chunk);
    let mut found = 0;
    let mut store_one = |left: u64| {
        let at = begin + left.trailing_zeros() as usize;
        let after_return = bytes.get(at.wrapping_sub(1)) == Some(&b'\r');
        #[expect(clippy::cast_possible_truncation, reason = "the caller has asserted that it fits")]
        let end = at as u32 + 1;
        ends[found] = end;
        found += usize::from(left != 0 && after_return);
    };
    for _ in 0..2 {
        store_one(left);
        left &= left.wrapping_sub(1);
    }
    while left != 0 {
        store_one(left);
        left &= left - 1;
    }
    found
}

/// Bit `i` says whether byte `i` is a newline. Written such that a compiler finds vector instructions
/// for the comparison; each byte keeps its bit, and a multiplication adds up those of eight.
#[inline]
fn newlines(chunk: &[u8; CHUNK_LEN]) -> u64 {
    let bits: [u8; CHUNK_LEN] =
        std::array::from_fn(|at| if chunk[at] == b'\n' { 1 << (at % 8) } else { 0 });
    bits.as_chunks::<8>().0.iter().rev().fold(0, |mask, bits| {
        let sum = u64::from_le_bytes(*bits).wrapping_mul(0x0101_0101_0101_0101) >> 56;
        mask << 8 | sum
    })
}

/// How many bytes blocks keep free in front of their first line, so that most lines have as many bytes
/// of any content before them; see [`Line::content_within`].
pub(crate) const MARGIN: usize = 80;

/// A line with its end, and the memory it lies in.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    memory: &'a [u8],
    begin: usize,
    content_end: usize,
    end: usize,
}

impl<'a> Line<'a> {
    /// A line that has its memory to itself.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::within(bytes, 0..bytes.len())
    }

    /// The line at `place` of `memory`.
    ///
    /// # Panics
    /// If `place` is not within `memory`.
    #[must_use]
    pub fn within(memory: &'a [u8], place: Range<usize>) -> Self {
        let bytes = &memory[place.clone()];
        let end_len = if bytes.ends_with(LINE_END) { LINE_END.len() } else { 0 };
        Self { memory, begin: place.start, content_end: place.end - end_len, end: place.end }
    }

    /// The line with its end.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        &self.memory[self.begin..self.end]
    }

    /// The line without its end.
    #[must_use]
    pub fn content(&self) -> &'a [u8] {
        &self.memory[self.begin..self.content_end]
    }

    /// Its end, which is empty for a last line without one.
    #[must_use]
    pub fn end(&self) -> &'a [u8] {
        &self.memory[self.content_end..self.end]
    }

    /// The memory, and where in it the content lies. A step may load bytes around the content, which
    /// belong to other lines or to none, as long as they do not show in its result: to work on
    /// vectors of one length is several times as fast as on exactly the bytes there are.
    #[must_use]
    pub fn content_within(&self) -> (&'a [u8], Range<usize>) {
        (self.memory, self.begin..self.content_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends(bytes: &[u8]) -> Vec<u32> {
        let mut ends = Vec::new();
        find_ends(bytes, &mut ends);
        ends
    }

    #[test]
    fn only_both_bytes_end_a_line() {
        assert_eq!(ends(b""), [0_u32; 0]);
        assert_eq!(ends(b"\n"), [0_u32; 0]);
        assert_eq!(ends(b"\r"), [0_u32; 0]);
        assert_eq!(ends(b"a\nb\r\rc\n\r\n"), [9]);
        assert_eq!(ends(b"\r\n\r\n"), [2, 4]);
        assert_eq!(ends(b"ab\r\ncd"), [4]);
    }

    #[test]
    fn an_end_may_be_missing() {
        let parts = |bytes| (Line::new(bytes).content(), Line::new(bytes).end());
        assert_eq!(parts(b"ab\r\n"), (&b"ab"[..], &b"\r\n"[..]));
        assert_eq!(parts(b"ab\r"), (&b"ab\r"[..], &b""[..]));
        assert_eq!(parts(b"\r\n"), (&b""[..], &b"\r\n"[..]));
        assert_eq!(parts(b""), (&b""[..], &b""[..]));
        let (memory, content) = Line::within(b"xxab\r\nyy", 2..6).content_within();
        assert_eq!((memory.len(), content), (8, 2..4));
    }

    proptest! {
        #[test]
        fn the_same_as_a_loop_over_bytes(bytes in "[ab\r\n]{0,400}") {
            let bytes = bytes.as_bytes();
            let slow = (1..).zip(1..=bytes.len()).filter(|&(_, end)| bytes[..end].ends_with(LINE_END));
            prop_assert_eq!(ends(bytes), slow.map(|(end, _)| end).collect::<Vec<_>>());
        }
    }
}
