//! Who gets which line: numbers are handed out in the file's order, each exactly once, to any
//! number of callers on any number of connections and threads, without a lock.
//!
//! Every caller is synchronous: it has one request at most, and numbers its requests 1, 2, 3...
//! (its *turns*). The hand-out remembers each caller's last turn and which line answered it. A
//! request that comes again, because its connection died before the answer had come, is answered
//! with the same line; the next turn says that the line before it has arrived. So no line is lost
//! with a connection, and none is handed to two callers. `docs/transfer.md` has the whole
//! protocol.
//!
//! Invariants:
//! - A number is taken by one `fetch_add`, by the one thread that won the caller's place for this
//!   turn.
//! - A place's turn goes up by one at a time; its line and totals are written only by the winner,
//!   between winning the place and publishing the turn.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::checksum::{SentLine, Totals};
use crate::line_step::LineProcessor;
use crate::{Reader, Source, TransferError};

/// How many callers one hand-out keeps places for (2 MiB).
pub const MAX_CALLERS: u32 = 65_536;

/// One transfer of a source to one client.
#[derive(Debug)]
pub struct HandOut {
    source: Arc<Source>,
    step: &'static dyn LineProcessor,
    /// The first line of this transfer.
    first: u64,
    /// The next line's number.
    next: NextLine,
    places: Box<[CallerTurn]>,
    /// Why no line can be handed out any more.
    failed: OnceLock<TransferError>,
}

/// On a cache line of its own: all threads write it.
#[derive(Debug)]
#[repr(align(64))]
struct NextLine(AtomicU64);

/// One caller.
#[derive(Debug, Default)]
struct CallerTurn {
    /// The turn shifted left by one; the lowest bit says that somebody is answering the turn after
    /// it.
    turn: AtomicU64,
    /// The line that answered the turn.
    line: AtomicU64,
    /// The totals of the caller's lines. No atomic additions: only one thread at a time writes
    /// them.
    bytes: AtomicU64,
    sum: AtomicU64,
}

/// A caller's request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LineRequest {
    /// The caller's number, from 0.
    pub caller: u32,
    /// The number of its request, from 1; the same again to ask again.
    pub turn: u64,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Handed<'a> {
    /// A line.
    Line {
        /// Its number, from 0.
        number: u64,
        /// The line, processed, with its end.
        line: &'a [u8],
    },
    /// There are no more lines.
    End {
        /// How many lines the source has.
        count: u64,
    },
}

impl HandOut {
    /// Begins a transfer of `source` from line `first` on, for `callers` callers.
    ///
    /// Blocks while the source is searched for that line, see [`Source::seek`].
    ///
    /// # Errors
    /// [`TransferError::TooManyCallers`], [`TransferError::NoSuchLine`], or what reading can end
    /// with.
    pub fn new(
        source: Arc<Source>,
        step: &'static dyn LineProcessor,
        first: u64,
        callers: u32,
    ) -> Result<Self, TransferError> {
        if MAX_CALLERS < callers {
            let (callers, max) = (callers.into(), MAX_CALLERS.into());
            return Err(TransferError::TooManyCallers { callers, max });
        }
        source.seek(first)?;
        let places = (0..callers).map(|_| CallerTurn::default()).collect();
        let next = NextLine(AtomicU64::new(first));
        Ok(Self { source, step, first, next, places, failed: OnceLock::new() })
    }

    /// The source.
    #[must_use]
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Answers a request. `reader` belongs to the calling thread and reads the same source; the
    /// line lies in its memory.
    ///
    /// # Errors
    /// What is wrong with the request; or what reading ended with, which then ends the whole
    /// transfer.
    pub fn answer<'a>(
        &self,
        ask: LineRequest,
        reader: &'a mut Reader,
    ) -> Result<Handed<'a>, TransferError> {
        debug_assert!(Arc::ptr_eq(&self.source, reader.source()), "a reader of the same source");
        let LineRequest { caller, turn } = ask;
        let Some(place) = usize::try_from(caller).ok().and_then(|at| self.places.get(at)) else {
            let callers = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
            return Err(TransferError::UnknownCaller { caller, callers });
        };
        if let Some(error) = self.failed.get() {
            return Err(error.clone());
        }
        match place.begin(turn) {
            RequestTurn::Next => {}
            RequestTurn::Again { line } => return self.line(line, reader),
            RequestTurn::BeingAnswered => {
                return Err(TransferError::BeingAnswered { caller, turn });
            }
            RequestTurn::Wrong { last } => {
                return Err(TransferError::OutOfTurn { caller, turn, last });
            }
        }
        let number = self.next.0.fetch_add(1, Ordering::Relaxed);
        place.line.store(number, Ordering::Relaxed);
        let answer = self.line(number, reader);
        if let Ok(Handed::Line { number, line }) = answer {
            let SentLine { hash, len } = SentLine::of(number, line);
            let bytes = place.bytes.load(Ordering::Relaxed).wrapping_add(len.into());
            place.bytes.store(bytes, Ordering::Relaxed);
            let sum = place.sum.load(Ordering::Relaxed).wrapping_add(hash);
            place.sum.store(sum, Ordering::Relaxed);
        }
        place.turn.store(turn << 1, Ordering::Release);
        answer
    }

    /// How far into the source lines have been handed out, in bytes, to a block.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.source.offset_of(self.next.0.load(Ordering::Relaxed))
    }

    /// How many callers there may be.
    #[must_use]
    pub fn n_callers(&self) -> usize {
        self.places.len()
    }

    /// What all lines handed out so far add up to, from the first line of this transfer on. It is
    /// the whole only once every caller has been told of the end.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let handed = self.next.0.load(Ordering::Acquire);
        let end = self.source.count().map_or(handed, |count| count.min(handed));
        self.places.iter().fold(
            Totals { lines: end.saturating_sub(self.first), ..Totals::default() },
            |totals, place| {
                let _turn = place.turn.load(Ordering::Acquire);
                totals.plus(Totals {
                    lines: 0,
                    bytes: place.bytes.load(Ordering::Relaxed),
                    sum: place.sum.load(Ordering::Relaxed),
                })
            },
        )
    }

    fn line<'a>(&self, number: u64, reader: &'a mut Reader) -> Result<Handed<'a>, TransferError> {
        match reader.processed(self.step, number) {
            Ok(Some(line)) => Ok(Handed::Line { number, line }),
            Ok(None) => Ok(Handed::End { count: self.source.count().unwrap_or(number) }),
            Err(error) => Err(self.failed.get_or_init(|| error).clone()),
        }
    }
}

/// What the first `lines` lines of `source` add up to after `step`: what a client compares that
/// went on from an earlier transfer, whose hand-out is gone. Reads and processes all of them.
///
/// # Errors
/// [`TransferError::NoSuchLine`] if there are fewer lines, or what reading can end with.
pub fn totals_before(
    source: &Arc<Source>,
    step: &dyn LineProcessor,
    lines: u64,
) -> Result<Totals, TransferError> {
    let mut reader = Reader::new(Arc::clone(source));
    let mut totals = Totals::default();
    for number in 0..lines {
        let Some(line) = reader.processed(step, number)? else {
            return Err(TransferError::NoSuchLine { number: lines, count: number });
        };
        totals.add(SentLine::of(number, line));
    }
    Ok(totals)
}

/// What a request is to the place of its caller.
enum RequestTurn {
    /// The next one; the place is won and has to be given back with the turn published.
    Next,
    /// The last one again.
    Again { line: u64 },
    /// The next one, which another thread is answering.
    BeingAnswered,
    /// Neither.
    Wrong { last: u64 },
}

impl CallerTurn {
    fn begin(&self, turn: u64) -> RequestTurn {
        let now = self.turn.load(Ordering::Acquire);
        let last = now >> 1;
        if last == turn && turn != 0 {
            let line = self.line.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            // A caller that goes on meanwhile has its line; what was read may be the next one's.
            let unchanged = now & 1 == 0 && self.turn.load(Ordering::Relaxed) == now;
            return if unchanged {
                RequestTurn::Again { line }
            } else {
                RequestTurn::Wrong { last }
            };
        }
        if last.checked_add(1) != Some(turn) {
            return RequestTurn::Wrong { last };
        }
        let won = now & 1 == 0
            && self
                .turn
                .compare_exchange(now, now | 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        // Whoever sees the line that is stored next sees that the place is taken, too.
        fence(Ordering::Release);
        if won { RequestTurn::Next } else { RequestTurn::BeingAnswered }
    }
}

#[cfg(test)]
mod tests;
