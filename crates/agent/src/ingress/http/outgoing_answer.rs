//! Answers on their way out: who does not take them is left, and what waits is counted.
//!
//! hyper takes of a body what its buffers allow, so a [`Leaving`] hands it out in pieces: what
//! hyper has is then little, and what is left here is known. For each stream of HTTP/2 a piece may
//! wait for a window; those count until they are dropped.
//!
//! Invariants:
//! - The connection's account knows all of an answer that waits, here or in hyper's buffers.
//! - An answer of HTTP/2 that does not get on within the listener's time has its stream reset.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::task::AbortHandle;
use wire::{Hold, MIN_TAKEN_LEN};

use super::session::Active;

/// What HTTP/1 is given at a time: as much as its buffer takes by default.
const PIECE_LEN: usize = 64 * 1024;
/// What a stream of HTTP/2 is given at a time: the longest frame unless its peer allows longer
/// ones.
const STREAM_PIECE_LEN: usize = 16 * 1024;

/// What a connection of HTTP/1 hands out in one turn of the event loop.
const MAX_LEN_PER_TURN: usize = 4 * PIECE_LEN;

/// The last pieces are copies, about so many. The others are parts of the whole answer and keep
/// all of it: when the last piece goes, none of them may be left in hyper's buffer.
const N_COPIED: usize = 4;

/// What is left of an answer.
pub(super) struct Leaving {
    rest: Bytes,
    /// Of the whole answer: that is what is kept until the last piece has gone.
    hold: Option<Hold>,
    active: Active,
    stream: Option<Rc<StreamAnswer>>,
}

impl Leaving {
    /// An answer of HTTP/1, or of that stream. hyper drops it when all of it has gone into buffers
    /// of a connection; until then its request counts as being answered.
    pub(super) fn new(
        rest: Bytes,
        hold: Option<Hold>,
        active: Active,
        stream: Option<Rc<StreamAnswer>>,
    ) -> Self {
        if let Some(stream) = &stream {
            stream.waits_since.set(Some(Instant::now()));
        }
        Self { rest, hold, active, stream }
    }
}

impl Body for Leaving {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        // A socket may take megabytes at once, and others would wait. (h2 takes no more than
        // 400 KB of a stream at a time.)
        if self.stream.is_none() && !self.active.session().has_turn(MAX_LEN_PER_TURN) {
            let _ = pin!(tokio::task::yield_now()).poll(cx);
            return Poll::Pending;
        }
        let piece_len = if self.stream.is_some() { STREAM_PIECE_LEN } else { PIECE_LEN };
        let len = piece_len.min(self.rest.len());
        let is_whole = self.hold.as_ref().is_none_or(|hold| hold.len() <= len);
        let mut piece = self.rest.split_to(len);
        if !is_whole && self.rest.len() < N_COPIED * piece_len {
            piece = Bytes::copy_from_slice(&piece);
        }
        if let Some(stream) = &self.stream {
            stream.took(len);
            piece = stream.pieces.count(piece);
        }
        let waiting_len = self.stream.as_ref().map(|stream| stream.pieces.waiting_len());
        self.active.handed_out(len, waiting_len);
        if self.rest.is_empty() {
            self.hold = None;
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// The answer of one stream of HTTP/2.
pub(super) struct StreamAnswer {
    /// Since when it waits for the peer to take it, or the next [`MIN_TAKEN_LEN`] of it.
    waits_since: Cell<Option<Instant>>,
    n_taken: Cell<u64>,
    /// hyper's task for it.
    task: RefCell<Option<AbortHandle>>,
    pieces: Arc<UnwrittenPieces>,
}

impl StreamAnswer {
    pub(super) fn new(pieces: &Arc<UnwrittenPieces>) -> Rc<Self> {
        Rc::new(Self {
            waits_since: Cell::new(None),
            n_taken: Cell::new(0),
            task: RefCell::new(None),
            pieces: Arc::clone(pieces),
        })
    }

    /// hyper answers the stream in this task.
    pub(super) fn runs_in(&self, task: AbortHandle) {
        *self.task.borrow_mut() = Some(task);
    }

    fn took(&self, len: usize) {
        let n_taken = self.n_taken.get() + len as u64;
        if n_taken / MIN_TAKEN_LEN != self.n_taken.get() / MIN_TAKEN_LEN {
            self.waits_since.set(Some(Instant::now()));
        }
        self.n_taken.set(n_taken);
    }

    /// Resets the stream if its peer has not taken enough within `time`.
    pub(super) fn check(&self, now: Instant, time: Duration) {
        let is_late = |since: Instant| time <= now.saturating_duration_since(since);
        if self.waits_since.get().is_some_and(is_late)
            && let Some(task) = self.task.take()
        {
            task.abort();
        }
    }
}

/// Pieces that a connection of HTTP/2 has been given and not written. They are dropped wherever h2
/// does so.
#[derive(Debug, Default)]
pub(super) struct UnwrittenPieces {
    waiting_len: AtomicUsize,
    n_dropped: AtomicU64,
}

impl UnwrittenPieces {
    /// The same piece, counted until its last clone is dropped.
    fn count(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        self.waiting_len.fetch_add(bytes.len(), Relaxed);
        Bytes::from_owner(Piece { bytes, pieces: Arc::clone(self) })
    }

    /// How many bytes they are.
    pub(super) fn waiting_len(&self) -> usize {
        self.waiting_len.load(Relaxed)
    }

    /// How many bytes were written or given up so far.
    pub(super) fn n_dropped(&self) -> u64 {
        self.n_dropped.load(Relaxed)
    }
}

struct Piece {
    bytes: Bytes,
    pieces: Arc<UnwrittenPieces>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.pieces.waiting_len.fetch_sub(self.bytes.len(), Relaxed);
        self.pieces.n_dropped.fetch_add(self.bytes.len() as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use wire::Peer;

    use super::*;
    use crate::ingress::http::session::HttpSession;
    use crate::testing::{account, on_worker, until};

    #[test]
    fn a_piece_counts_until_nobody_has_it() {
        let pieces = Arc::new(UnwrittenPieces::default());
        let first = pieces.count(Bytes::from_static(b"12345"));
        let second = pieces.count(Bytes::from_static(b"678"));
        assert_eq!((pieces.waiting_len(), pieces.n_dropped()), (8, 0));
        let part = first.slice(..1);
        drop(first);
        assert_eq!((pieces.waiting_len(), pieces.n_dropped()), (8, 0), "a part keeps all of it");
        drop(part);
        assert_eq!((pieces.waiting_len(), pieces.n_dropped()), (3, 5));
        drop(second);
        assert_eq!((pieces.waiting_len(), pieces.n_dropped()), (0, 8));
    }

    #[test]
    fn a_stream_that_is_not_taken_is_reset_in_time() {
        on_worker(async || {
            let stream = StreamAnswer::new(&Arc::default());
            let task = tokio::task::spawn_local(std::future::pending::<()>());
            stream.runs_in(task.abort_handle());
            let (start, time) = (Instant::now(), Duration::from_secs(1));
            stream.check(start + 10 * time, time);
            stream.waits_since.set(Some(start));
            stream.check(start + time - Duration::from_nanos(1), time);
            tokio::task::yield_now().await;
            assert!(!task.is_finished());
            stream.check(start + time, time);
            until(|| task.is_finished().then_some(())).await;
        });
    }

    /// However much the socket takes, a connection of HTTP/1 lets others have their turns.
    #[test]
    fn a_long_answer_takes_several_turns() {
        on_worker(async || {
            let session = HttpSession::new(account(), Peer::Unix);
            let answer = Bytes::from(vec![b'x'; 10 * MAX_LEN_PER_TURN]);
            let active = Active::begin(&session);
            let mut body = pin!(Leaving::new(answer, None, active, None));
            let (mut n_turns, mut len) = (0, 0);
            while !body.is_end_stream() {
                session.begin_turn();
                n_turns += 1;
                let before = len;
                let turn = poll_fn(|cx| {
                    while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(cx) {
                        len += frame.unwrap().into_data().unwrap().len();
                    }
                    Poll::Ready(len - before)
                });
                assert!(turn.await <= MAX_LEN_PER_TURN);
            }
            assert_eq!((n_turns, len), (10, 10 * MAX_LEN_PER_TURN));
        });
    }

    /// A reader that takes a little now and then does not keep its stream for ever.
    #[test]
    fn only_enough_of_an_answer_counts_as_taken() {
        let stream = StreamAnswer::new(&Arc::default());
        let start = Instant::now() - Duration::from_secs(1);
        stream.waits_since.set(Some(start));
        let enough = usize::try_from(MIN_TAKEN_LEN).unwrap();
        stream.took(enough - 1);
        assert_eq!(stream.waits_since.get(), Some(start));
        stream.took(1);
        assert!(stream.waits_since.get() > Some(start));
    }
}
