//! Where a line ends. Bytes in, offsets out; no file in this module.
//!
//! What ends a line is said by [`LineEnds`]: `\r\n` alone unless told otherwise. A lone `\r` is
//! always a byte of its line. The last line may lack its end. An end at the end of the bytes
//! begins no further line.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// The long end of a line.
pub const CRLF: &[u8] = b"\r\n";
/// The short end of a line.
pub const LF: &[u8] = b"\n";
/// How long an end is at most.
pub(crate) const MAX_END_LEN: usize = CRLF.len();

/// What ends the lines of a file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LineEnds {
    /// `\r\n`, and nothing else: a lone `\n` is a byte of its line.
    #[default]
    Crlf,
    /// `\n`, and nothing else: a `\r` before it is a byte of its line.
    Lf,
    /// Each line by its own end, which is either.
    Any,
}

impl LineEnds {
    const ALL: [Self; 3] = [Self::Crlf, Self::Lf, Self::Any];

    /// The name on the command line, in journals and on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Crlf => "crlf",
            Self::Lf => "lf",
            Self::Any => "any",
        }
    }

    /// How long the end of `line` is; 0 for a last line without one.
    #[inline]
    fn end_len(self, line: &[u8]) -> usize {
        let ends_with = |end: &[u8]| if line.ends_with(end) { end.len() } else { 0 };
        match self {
            Self::Crlf => ends_with(CRLF),
            Self::Lf => ends_with(LF),
            Self::Any => ends_with(CRLF).max(ends_with(LF)),
        }
    }
}

/// The name of no rule for the ends of lines.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown rule for line ends {name:?}; the rules are crlf, lf and any")]
pub struct UnknownLineEnds {
    /// What was named.
    pub name: String,
}

impl FromStr for LineEnds {
    type Err = UnknownLineEnds;

    fn from_str(name: &str) -> Result<Self, UnknownLineEnds> {
        Self::ALL
            .into_iter()
            .find(|ends| ends.name() == name)
            .ok_or_else(|| UnknownLineEnds { name: name.to_owned() })
    }
}

impl fmt::Display for LineEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many bytes are looked at together: as many as a word has bits.
const CHUNK_LEN: usize = 64;

/// Puts into `ends` the offset behind the end of each line that ends within `bytes`.
///
/// Line lengths are random, so a branch on "is there an end here" is mispredicted about once a
/// line, which costs more than all else here. So two ends are stored for each chunk, whether there
/// are any or not, and counted after that; more than two are rare.
///
/// # Panics
/// If `bytes` is longer than `u32::MAX`; blocks are far shorter.
pub(crate) fn find_ends(kind: LineEnds, bytes: &[u8], ends: &mut Vec<u32>) {
    // One copy of the loop for each, so that neither asks once a line.
    match kind {
        LineEnds::Crlf => find_ends_by::<true>(bytes, ends),
        LineEnds::Lf | LineEnds::Any => find_ends_by::<false>(bytes, ends),
    }
}

/// `WITH_RETURN` says whether a newline needs a `\r` before it.
fn find_ends_by<const WITH_RETURN: bool>(bytes: &[u8], ends: &mut Vec<u32>) {
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
        found += find_in_chunk::<WITH_RETURN>(chunk, at * CHUNK_LEN, bytes, room);
    }
    ends.truncate(found);
}

/// Stores the ends in `chunk`, which lies at `begin` of `bytes`, and returns how many there are.
#[inline]
fn find_in_chunk<const WITH_RETURN: bool>(
    chunk: &[u8; CHUNK_LEN],
    begin: usize,
    bytes: &[u8],
    ends: &mut [u32; CHUNK_LEN],
) -> usize {
    let mut left = newlines(chunk);
    let mut found = 0;
    let mut store_one = |left: u64| {
        let at = begin + left.trailing_zeros() as usize;
        let ends_line = !WITH_RETURN || bytes.get(at.wrapping_sub(1)) == Some(&b'\r');
        #[expect(clippy::cast_possible_truncation, reason = "the caller has asserted that it fits")]
        let end = at as u32 + 1;
        ends[found] = end;
        found += usize::from(left != 0 && ends_line);
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

/// Bit `i` says whether byte `i` is a newline. Written such that a compiler finds vector
/// instructions for the comparison; each byte keeps its bit, and a multiplication adds up those of
/// eight.
#[inline]
fn newlines(chunk: &[u8; CHUNK_LEN]) -> u64 {
    let bits: [u8; CHUNK_LEN] =
        std::array::from_fn(|at| if chunk[at] == b'\n' { 1 << (at % 8) } else { 0 });
    bits.as_chunks::<8>().0.iter().rev().fold(0, |mask, bits| {
        let sum = u64::from_le_bytes(*bits).wrapping_mul(0x0101_0101_0101_0101) >> 56;
        mask << 8 | sum
    })
}

/// How many bytes blocks keep free in front of their first line, so that most lines have as many
/// bytes of any content before them; see [`Line::content_within`].
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
    pub fn new(ends: LineEnds, bytes: &'a [u8]) -> Self {
        Self::within(ends, bytes, 0..bytes.len())
    }

    /// The line at `place` of `memory`; `ends` says what of it is its end.
    ///
    /// # Panics
    /// If `place` is not within `memory`.
    #[must_use]
    pub fn within(ends: LineEnds, memory: &'a [u8], place: Range<usize>) -> Self {
        let end_len = ends.end_len(&memory[place.clone()]);
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

    /// The memory, and where in it the content lies. A step may load bytes around the content,
    /// which belong to other lines or to none, as long as they do not show in its result: to work
    /// on vectors of one length is several times as fast as on exactly the bytes there are.
    #[must_use]
    pub fn content_within(&self) -> (&'a [u8], Range<usize>) {
        (self.memory, self.begin..self.content_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends_by(kind: LineEnds, bytes: &[u8]) -> Vec<u32> {
        let mut ends = Vec::new();
        find_ends(kind, bytes, &mut ends);
        ends
    }

    fn ends(bytes: &[u8]) -> Vec<u32> {
        ends_by(LineEnds::Crlf, bytes)
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

    fn parts(kind: LineEnds, bytes: &[u8]) -> (&[u8], &[u8]) {
        let line = Line::new(kind, bytes);
        (line.content(), line.end())
    }

    #[test]
    fn a_newline_alone_ends_a_line_if_it_may() {
        for kind in [LineEnds::Lf, LineEnds::Any] {
            assert_eq!(ends_by(kind, b""), [0_u32; 0]);
            assert_eq!(ends_by(kind, b"\r"), [0_u32; 0]);
            assert_eq!(ends_by(kind, b"\n\n"), [1, 2]);
            assert_eq!(ends_by(kind, b"a\nb\r\rc\n\r\nd"), [2, 7, 9]);
            assert_eq!(parts(kind, b"ab\n"), (&b"ab"[..], &b"\n"[..]));
            assert_eq!(parts(kind, b"ab\r"), (&b"ab\r"[..], &b""[..]));
            assert_eq!(parts(kind, b""), (&b""[..], &b""[..]));
        }
        assert_eq!(parts(LineEnds::Crlf, b"ab\n"), (&b"ab\n"[..], &b""[..]));
        assert_eq!(parts(LineEnds::Lf, b"ab\r\n"), (&b"ab\r"[..], &b"\n"[..]));
        assert_eq!(parts(LineEnds::Any, b"ab\r\n"), (&b"ab"[..], &b"\r\n"[..]));
        assert_eq!(parts(LineEnds::Any, b"ab\r\r\n"), (&b"ab\r"[..], &b"\r\n"[..]));
    }

    #[test]
    fn names_are_read_back() {
        for kind in LineEnds::ALL {
            assert_eq!(kind.to_string().parse::<LineEnds>().unwrap(), kind);
        }
        let error = "cr".parse::<LineEnds>().unwrap_err().to_string();
        assert!(error.ends_with("the rules are crlf, lf and any"), "{error}");
    }

    #[test]
    fn an_end_may_be_missing() {
        let parts = |bytes| parts(LineEnds::Crlf, bytes);
        assert_eq!(parts(b"ab\r\n"), (&b"ab"[..], &b"\r\n"[..]));
        assert_eq!(parts(b"ab\r"), (&b"ab\r"[..], &b""[..]));
        assert_eq!(parts(b"\r\n"), (&b""[..], &b"\r\n"[..]));
        assert_eq!(parts(b""), (&b""[..], &b""[..]));
        let (memory, content) = Line::within(LineEnds::Crlf, b"xxab\r\nyy", 2..6).content_within();
        assert_eq!((memory.len(), content), (8, 2..4));
    }

    proptest! {
        #[test]
        fn the_same_as_a_loop_over_bytes(bytes in "[ab\r\n]{0,400}") {
            let bytes = bytes.as_bytes();
            for (kind, end) in [(LineEnds::Crlf, CRLF), (LineEnds::Lf, LF), (LineEnds::Any, LF)] {
                let slow = (1..).zip(1..=bytes.len()).filter(|&(_, at)| bytes[..at].ends_with(end));
                prop_assert_eq!(ends_by(kind, bytes), slow.map(|(at, _)| at).collect::<Vec<_>>());
            }
        }
    }
}
