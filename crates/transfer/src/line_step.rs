//! What is done to a line between its request and its place in the output. A step sees a line's
//! content, without its end, and writes into a buffer of its caller's: it allocates nothing.

use std::fmt;
use std::str::FromStr;

use crate::TransferError;
use crate::lines::{CRLF, LF, Line, MAX_END_LEN};

/// A processing step. It must be a function of the line's number and content alone: a line may be
/// processed again, after a connection was lost, and must come out the same.
pub trait LineProcessor: Send + Sync + fmt::Debug {
    /// Its name on the command line, in journals and on the wire.
    fn name(&self) -> &'static str;

    /// `false` if every line comes out as it went in, so that nobody has to copy it.
    fn changes(&self) -> bool {
        true
    }

    /// How many bytes [`LineProcessor::process`] needs at most for content of `len` bytes.
    fn max_len(&self, len: usize) -> usize;

    /// Writes the line's processed content to the front of `out` and returns its length. What of
    /// `out` lies behind that may be changed, too.
    ///
    /// # Panics
    /// If `out` is shorter than [`LineProcessor::max_len`] says.
    fn process(&self, number: u64, line: Line<'_>, out: &mut [u8]) -> usize;
}

/// The steps that have a name on the command line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineStep {
    /// [`Contest`].
    Contest,
    /// [`Unchanged`].
    Unchanged,
}

impl LineStep {
    /// The step itself.
    #[must_use]
    pub fn process(self) -> &'static dyn LineProcessor {
        match self {
            Self::Contest => &Contest,
            Self::Unchanged => &Unchanged,
        }
    }
}

impl FromStr for LineStep {
    type Err = TransferError;

    fn from_str(name: &str) -> Result<Self, TransferError> {
        [Self::Contest, Self::Unchanged]
            .into_iter()
            .find(|step| step.process().name() == name)
            .ok_or_else(|| TransferError::UnknownProcess { name: name.to_owned() })
    }
}

impl fmt::Display for LineStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.process().name())
    }
}

/// Lines as they are: `none` on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Unchanged;

impl LineProcessor for Unchanged {
    fn name(&self) -> &'static str {
        "none"
    }

    fn changes(&self) -> bool {
        false
    }

    fn max_len(&self, len: usize) -> usize {
        len
    }

    fn process(&self, _number: u64, line: Line<'_>, out: &mut [u8]) -> usize {
        let content = line.content();
        out[..content.len()].copy_from_slice(content);
        content.len()
    }
}

/// The contest's rule. Of `size` bytes, `size / 3` are removed from position `size / 3` on, the
/// rest is reversed, and the line's number, from 0, is put in front: line 7 `123456789` becomes
/// `7987321`.
#[derive(Clone, Copy, Debug)]
pub struct Contest;

/// The decimal digits of the greatest `u64`.
const MAX_DIGITS: usize = 20;

/// What is reversed at once: the longer half of a line of 200 bytes is 68 bytes.
const WINDOW: usize = 72;

impl LineProcessor for Contest {
    fn name(&self) -> &'static str {
        "contest"
    }

    fn max_len(&self, len: usize) -> usize {
        MAX_DIGITS + len - len / 3 + WINDOW
    }

    fn process(&self, number: u64, line: Line<'_>, out: &mut [u8]) -> usize {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        let (front, out) = out.split_at_mut(digits.len());
        front.copy_from_slice(digits);

        let (memory, content) = line.content_within();
        let third = content.len() / 3;
        let (head, tail) =
            (content.start..content.start + third, content.start + 2 * third..content.end);
        let len = tail.len() + third;
        if tail.len() <= WINDOW && WINDOW <= content.start {
            // Whole windows, without a branch on the length: what comes before `tail` or `head` in
            // memory lands behind them in `out`, where it is written over or not looked at.
            reverse_window(memory, tail.end, out);
            reverse_window(memory, head.end, &mut out[tail.len()..]);
        } else {
            let (back, out) = out.split_at_mut(tail.len());
            reverse_into(&memory[tail], back);
            reverse_into(&memory[head], &mut out[..third]);
        }
        digits.len() + len
    }
}

/// Writes the [`WINDOW`] bytes before `end` backwards to the front of `into`.
#[inline]
fn reverse_window(from: &[u8], end: usize, into: &mut [u8]) {
    reverse_into(&from[end - WINDOW..end], &mut into[..WINDOW]);
}

/// Writes `from` backwards into `into`, which has the same length. Eight bytes at a time: a byte
/// swap of a register is several times as fast as a loop over bytes, at these lengths.
#[inline]
fn reverse_into(from: &[u8], into: &mut [u8]) {
    debug_assert_eq!(from.len(), into.len());
    let (rest, words) = from.as_rchunks::<8>();
    let (places, last) = into.as_chunks_mut::<8>();
    for (word, place) in words.iter().rev().zip(places) {
        *place = u64::from_le_bytes(*word).to_be_bytes();
    }
    for (byte, place) in rest.iter().rev().zip(last) {
        *place = *byte;
    }
}

/// Processes a whole line into the front of `out`; its end is kept as it is. Returns the length
/// written; what of `out` lies behind that may be changed, too.
///
/// # Panics
/// If `out` is shorter than [`line_max_len`] says.
pub fn process_line(
    step: &dyn LineProcessor,
    number: u64,
    line: Line<'_>,
    out: &mut [u8],
) -> usize {
    let len = step.process(number, line, out);
    // Each branch copies a length that is known: no call for one or two bytes.
    match line.end() {
        CRLF => out[len..len + CRLF.len()].copy_from_slice(CRLF),
        LF => out[len..len + LF.len()].copy_from_slice(LF),
        _ => return len,
    }
    len + line.end().len()
}

/// How much memory [`process_line`] needs, for a line of `len` bytes with its end.
pub fn line_max_len(step: &dyn LineProcessor, len: usize) -> usize {
    step.max_len(len) + MAX_END_LEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::LineEnds;
    use proptest::prelude::*;

    fn processed(step: &dyn LineProcessor, number: u64, line: &[u8]) -> Vec<u8> {
        processed_by(LineEnds::Crlf, step, number, line)
    }

    fn processed_by(ends: LineEnds, step: &dyn LineProcessor, number: u64, line: &[u8]) -> Vec<u8> {
        let mut out = vec![0; line_max_len(step, line.len())];
        let len = process_line(step, number, Line::new(ends, line), &mut out);
        out.truncate(len);
        // Whatever lies around the line in memory, the result is the same.
        for (before, after) in [(1, 0), (80, 0), (200, 100)] {
            let memory = [&vec![b'<'; before], line, &vec![b'>'; after]].concat();
            let mut again = vec![0; line_max_len(step, line.len())];
            let line = Line::within(ends, &memory, before..before + line.len());
            let len = process_line(step, number, line, &mut again);
            assert_eq!(&again[..len], out);
        }
        out
    }

    /// The rule, word by word.
    fn by_the_rule(number: u64, content: &[u8]) -> Vec<u8> {
        let size = content.len();
        let mut rest = content.to_vec();
        rest.drain(size / 3..size / 3 + size / 3);
        rest.reverse();
        [number.to_string().into_bytes(), rest].concat()
    }

    /// The first of the issue's examples is written without its number, the second with it.
    #[test]
    fn contest_examples() {
        assert_eq!(by_the_rule(0, b"123456789"), b"0987321");
        assert_eq!(processed(&Contest, 0, b"123456789\r\n"), b"0987321\r\n");
        assert_eq!(processed(&Contest, 0, b"aaa\r\n"), b"0aa\r\n");
        assert_eq!(processed(&Contest, 41, b"ab\r\n"), b"41ba\r\n");
        assert_eq!(processed(&Contest, 10, b"\r\n"), b"10\r\n");
        assert_eq!(processed(&Contest, 3, b"abcd"), b"3dca");
        assert_eq!(processed(&Contest, u64::MAX, b""), b"18446744073709551615");
    }

    #[test]
    fn none_leaves_lines_alone() {
        for line in [&b"abc\r\n"[..], b"abc", b"\r\n", b"", b"a\nb\r\n", b"a\r"] {
            assert_eq!(processed(&Unchanged, 9, line), line);
        }
    }

    #[test]
    fn each_line_keeps_its_end() {
        let contest = |ends, line| processed_by(ends, &Contest, 4, line);
        assert_eq!(contest(LineEnds::Lf, b"abc\n"), b"4ca\n");
        assert_eq!(contest(LineEnds::Lf, b"ab\r\n"), b"4\ra\n");
        assert_eq!(contest(LineEnds::Lf, b"abc"), b"4ca");
        assert_eq!(contest(LineEnds::Any, b"abc\n"), b"4ca\n");
        assert_eq!(contest(LineEnds::Any, b"abc\r\n"), b"4ca\r\n");
        assert_eq!(contest(LineEnds::Any, b"\n"), b"4\n");
        assert_eq!(contest(LineEnds::Any, b"abc"), b"4ca");
        assert_eq!(contest(LineEnds::Crlf, b"ab\n"), b"4\na");
    }

    #[test]
    fn names_are_read_back() {
        for step in [LineStep::Contest, LineStep::Unchanged] {
            assert_eq!(step.to_string().parse::<LineStep>().unwrap(), step);
        }
        assert!("gzip".parse::<LineStep>().is_err());
    }

    proptest! {
        #[test]
        fn contest_follows_the_rule(number: u64, content in proptest::collection::vec(b' '..=b'~', 0..300)) {
            prop_assert_eq!(processed(&Contest, number, &content), by_the_rule(number, &content));
        }
    }
}
