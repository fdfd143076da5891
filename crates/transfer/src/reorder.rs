//! Lines that come in any order, given out in the file's order, with bounded memory. Batches in,
//! bytes out: no file, thread or clock in this module.
//!
//! Invariants:
//! - `oldest` is the first line that is missing; all lines before it have been given out, once.
//! - Place `number % window` of the ring names where the line lies, for the `window` lines from
//!   `oldest` on; no line outside of these is kept.
//! - A batch is given back when the last of its lines has been given out.

use crate::TransferError;
use crate::checksum::{SentLine, Totals};
use crate::line_step::{LineProcessor, line_max_len, process_line};
use crate::lines::{Line, LineEnds};

/// A batch that has reached this length goes to the writer.
pub(crate) const BATCH_LEN: usize = 64 * 1024;

/// How many lines a batch holds at most, however short they are.
const BATCH_LINES: usize = 1024;

/// Lines on their way from a thread that received them to the writer.
#[derive(Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    lines: Vec<BatchLine>,
    /// How many of the lines have not been given out; kept by [`Reorder`].
    left: usize,
}

/// One line of a batch; it begins where the one before it ends.
#[derive(Debug)]
struct BatchLine {
    number: u64,
    sent: SentLine,
    begin: u32,
    end: u32,
}

impl Batch {
    pub(crate) fn new() -> Self {
        // With room for the line that makes it full.
        let bytes = Vec::with_capacity(BATCH_LEN + 4096);
        Self { bytes, lines: Vec::with_capacity(BATCH_LINES), left: 0 }
    }

    /// Processes `line`, whose end is one of `ends`, into the batch's memory.
    pub(crate) fn push(
        &mut self,
        number: u64,
        line: &[u8],
        ends: LineEnds,
        step: &dyn LineProcessor,
    ) {
        let begin = self.bytes.len();
        if step.changes() {
            self.bytes.resize(begin + line_max_len(step, line.len()), 0);
            let (line, out) = (Line::new(ends, line), &mut self.bytes[begin..]);
            let len = process_line(step, number, line, out);
            self.bytes.truncate(begin + len);
        } else {
            self.bytes.extend_from_slice(line);
        }
        // A batch is given away at 64 KiB and takes one line of 1 MiB beyond that.
        let [begin, end] =
            [begin, self.bytes.len()].map(|at| u32::try_from(at).unwrap_or(u32::MAX));
        self.lines.push(BatchLine { number, sent: SentLine::of(number, line), begin, end });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        BATCH_LEN <= self.bytes.len() || BATCH_LINES <= self.lines.len()
    }

    /// The memory it takes, in bytes, however few lines are in it.
    pub(crate) fn footprint(&self) -> usize {
        self.bytes.capacity() + self.lines.capacity() * size_of::<BatchLine>()
    }

    /// Makes it ready for other lines. Memory of an unusually long line is not kept.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * BATCH_LEN);
        self.lines.clear();
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Reorder {
    ring: Box<[LinePosition]>,
    oldest: u64,
    batches: Vec<Option<Batch>>,
    /// Places in `batches` that hold no lines.
    free: Vec<u32>,
    /// Lines that came a second time.
    duplicates: u64,
}

/// Where a line lies.
#[derive(Clone, Copy, Debug, Default)]
struct LinePosition {
    /// The batch's place, plus one; 0 if the line is missing.
    batch: u32,
    line: u32,
}

impl Reorder {
    /// Expects lines from `oldest` on and keeps `window` of them, a power of two.
    pub(crate) fn new(oldest: u64, window: usize) -> Self {
        assert!(window.is_power_of_two(), "the window is a power of two");
        Self {
            ring: vec![LinePosition::default(); window].into_boxed_slice(),
            oldest,
            batches: Vec::new(),
            free: Vec::new(),
            duplicates: 0,
        }
    }

    /// The first line that has not been given out.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// How many lines came a second time and were dropped.
    pub(crate) fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Takes in the lines of a batch. One that is here already, or was given out, is dropped; a
    /// batch that holds no others comes back at once.
    ///
    /// # Errors
    /// [`TransferError::NoRoom`] for a line beyond the window, which is our own senders' error.
    pub(crate) fn handle_batch(
        &mut self,
        mut batch: Batch,
    ) -> Result<Option<Batch>, TransferError> {
        let window = self.ring.len() as u64;
        let at = self.free.pop().unwrap_or_else(|| {
            self.batches.push(None);
            // Each batch in use holds one line of the window at least, and that is no 2^32.
            u32::try_from(self.batches.len() - 1).unwrap_or(u32::MAX)
        });
        batch.left = 0;
        for (line, entry) in (0..).zip(&batch.lines) {
            let number = entry.number;
            if self.oldest.saturating_add(window) <= number {
                return Err(TransferError::NoRoom { number, oldest: self.oldest, window });
            }
            let place = place_of(&mut self.ring, number);
            if number < self.oldest || place.batch != 0 {
                self.duplicates += 1;
                continue;
            }
            *place = LinePosition { batch: at + 1, line };
            batch.left += 1;
        }
        if batch.left == 0 {
            self.free.push(at);
            return Ok(Some(batch));
        }
        self.batches[at as usize] = Some(batch);
        Ok(None)
    }

    /// Appends to `out` the lines that follow, until one is missing or `out` has at least `enough`
    /// bytes, and adds them to `totals`. Batches that are done with go to `empty`.
    pub(crate) fn poll_lines(
        &mut self,
        out: &mut Vec<u8>,
        enough: usize,
        totals: &mut Totals,
        empty: &mut Vec<Batch>,
    ) {
        while out.len() < enough {
            let place = std::mem::take(place_of(&mut self.ring, self.oldest));
            let Some(at) = place.batch.checked_sub(1) else { return };
            let held = &mut self.batches[at as usize];
            let Some(batch) = held else { return };
            let entry = &batch.lines[place.line as usize];
            out.extend_from_slice(&batch.bytes[entry.begin as usize..entry.end as usize]);
            totals.add(entry.sent);
            self.oldest += 1;
            batch.left -= 1;
            if batch.left == 0 {
                empty.extend(held.take());
                self.free.push(at);
            }
        }
    }
}

fn place_of(ring: &mut [LinePosition], number: u64) -> &mut LinePosition {
    let mask = ring.len() as u64 - 1;
    #[expect(clippy::cast_possible_truncation, reason = "below the ring's length")]
    let at = (number & mask) as usize;
    &mut ring[at]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line_step::{Contest, Unchanged};
    use proptest::prelude::*;

    fn batch(lines: &[u64], step: &dyn LineProcessor) -> Batch {
        let mut batch = Batch::new();
        for &number in lines {
            let line = format!("line {number}\r\n");
            batch.push(number, line.as_bytes(), LineEnds::Crlf, step);
        }
        batch
    }

    /// All that can be given out, `enough` bytes at a time.
    fn drain(reorder: &mut Reorder, totals: &mut Totals, empty: &mut Vec<Batch>) -> String {
        let mut all = String::new();
        loop {
            let mut out = Vec::new();
            reorder.poll_lines(&mut out, 20, totals, empty);
            if out.is_empty() {
                return all;
            }
            all += std::str::from_utf8(&out).unwrap();
        }
    }

    #[test]
    fn lines_wait_for_those_before_them() {
        let (mut reorder, mut totals, mut empty) =
            (Reorder::new(5, 8), Totals::default(), Vec::new());
        let mut give = |lines: &[u64]| {
            let nothing_new = reorder.handle_batch(batch(lines, &Contest)).unwrap();
            empty.extend(nothing_new);
            drain(&mut reorder, &mut totals, &mut empty)
        };
        assert_eq!(give(&[7, 6]), "");
        assert_eq!(give(&[5, 9, 5]), "55 il\r\n66 il\r\n77 il\r\n");
        assert_eq!(give(&[6, 9]), "");
        assert_eq!(give(&[8]), "88 il\r\n99 il\r\n");
        assert_eq!((reorder.oldest(), reorder.duplicates(), totals.lines), (10, 3, 5));
        assert_eq!(empty.len(), 4);
    }

    #[test]
    fn no_line_beyond_the_window() {
        let mut reorder = Reorder::new(0, 8);
        reorder.handle_batch(batch(&[7], &Unchanged)).unwrap();
        let error = reorder.handle_batch(batch(&[8], &Unchanged)).unwrap_err();
        assert!(matches!(error, TransferError::NoRoom { number: 8, oldest: 0, window: 8 }));
    }

    proptest! {
        /// In whatever order, batches and repetitions lines come: they go out once, in order, and
        /// no batch is lost.
        #[test]
        fn any_order_comes_out_in_order(
            keys in proptest::collection::vec((any::<u32>(), 1..3u32), 0..100),
            batch_len in 1..10usize,
        ) {
            let mut arrivals: Vec<(u32, u64)> = (0..)
                .zip(&keys)
                .flat_map(|(number, &(key, times))| {
                    (0..times).map(move |time| (key.rotate_left(time * 8), number))
                })
                .collect();
            arrivals.sort_unstable();
            let (mut reorder, mut totals, mut empty) =
                (Reorder::new(0, 128), Totals::default(), Vec::new());
            let mut out = String::new();
            let mut batches = 0;
            for lines in arrivals.chunks(batch_len) {
                let numbers: Vec<u64> = lines.iter().map(|&(_, number)| number).collect();
                empty.extend(reorder.handle_batch(batch(&numbers, &Unchanged)).unwrap());
                batches += 1;
                out += &drain(&mut reorder, &mut totals, &mut empty);
            }
            let count = keys.len() as u64;
            let expected: String = (0..count).map(|number| format!("line {number}\r\n")).collect();
            prop_assert_eq!(out, expected);
            prop_assert_eq!(reorder.oldest(), count);
            prop_assert_eq!(reorder.duplicates(), arrivals.len() as u64 - count);
            prop_assert_eq!(empty.len(), batches);
            prop_assert_eq!(reorder.free.len(), reorder.batches.len());
        }
    }
}
