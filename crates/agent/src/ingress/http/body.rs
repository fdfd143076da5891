//! The bodies of requests, put together within the limits of their listener.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use wire::Hold;

use super::HttpSession;
use crate::config::HttpIngressConfig;
use crate::error::{CallError, Code};
use crate::offload::Threads;

/// So many times as much is kept for a body as has come of it, and at least so much, as long as
/// more was announced.
const ROOM_TIMES: usize = 4;
const MIN_ROOM_LEN: usize = 64 * 1024;
/// For so long what comes of a refused request is taken, if it does not pause.
const REST_TIME: Duration = Duration::from_secs(5);
const REST_PAUSE: Duration = Duration::from_millis(200);
/// No piece of a body is longer.
const PIECE_LEN: usize = 1024 * 1024;

/// The whole body, within the listener's limits of length and time. If that took a while, the call
/// counts as `started` only now. `n_read` tells how much has come, also if that is not all.
pub(super) async fn read_body(
    body: &mut Incoming,
    session: &HttpSession,
    config: &HttpIngressConfig,
    started: &mut Instant,
    threads: &Threads,
    n_read: &Cell<usize>,
) -> Result<(Bytes, Hold), CallError> {
    let mut whole = pin!(collect(body, session, config.max_body_len, n_read));
    // Most bodies came along with their head; those need no timer.
    let polled = poll_fn(|cx| Poll::Ready(session.poll_body(|| whole.as_mut().poll(cx)))).await;
    let (data, hold) = match polled {
        Poll::Ready(whole) => whole?,
        Poll::Pending => {
            let whole = tokio::time::timeout(config.body_timeout, whole).await;
            *started = Instant::now();
            match whole {
                Ok(whole) => whole?,
                Err(_) => {
                    session.expects_no_more();
                    return Err(late(config.body_timeout));
                }
            }
        }
    };
    session.expects_no_more();
    match data {
        BodyData::Whole(whole) => Ok((whole, hold)),
        // Long ones are rare: their future need not be a part of every call's.
        BodyData::Pieces(pieces) => {
            let joined = Box::pin(pieces.joined(threads)).await?;
            *started = Instant::now();
            Ok((joined, hold))
        }
    }
}

/// Takes what comes of the body of a request of HTTP/2 that is refused, for a while. Some clients
/// take the end of a stream that they still send on for a failure, and show no answer.
#[cold]
pub(super) fn discard_rest(mut body: Incoming) {
    if body.is_end_stream() {
        return;
    }
    tokio::task::spawn_local(async move {
        let all = async {
            while let Ok(Some(Ok(_))) = tokio::time::timeout(REST_PAUSE, body.frame()).await {}
        };
        let _ = tokio::time::timeout(REST_TIME, all).await;
    });
}

#[cold]
fn late(time: Duration) -> CallError {
    CallError::new(Code::RequestTimeout, format!("the body did not arrive within {time:?}"))
}

/// What a body brought.
#[derive(Debug)]
enum BodyData {
    Whole(Bytes),
    /// It is long.
    Pieces(BodyPieces),
}

/// Data of a body as it comes. To have all of it in one place from the first, it would have to be
/// moved as it grows, in turns of milliseconds.
#[derive(Debug, Default)]
struct BodyPieces {
    /// Each of [`PIECE_LEN`].
    full: Vec<BytesMut>,
    last: BytesMut,
}

impl BodyPieces {
    fn len(&self) -> usize {
        self.full.len() * PIECE_LEN + self.last.len()
    }

    /// Adds what has come; there may be `room_len` in all.
    fn push(&mut self, mut data: &[u8], room_len: usize) {
        while !data.is_empty() {
            if self.last.len() == PIECE_LEN {
                self.full.push(std::mem::take(&mut self.last));
            }
            let free_len = PIECE_LEN - self.last.len();
            let (now, rest) = data.split_at(data.len().min(free_len));
            if self.last.capacity() - self.last.len() < now.len() {
                let more_len = room_len.saturating_sub(self.len()).min(free_len);
                self.last.reserve(more_len.max(now.len()));
            }
            self.last.extend_from_slice(now);
            data = rest;
        }
    }

    fn into_data(self) -> BodyData {
        match self.full.is_empty() {
            true => BodyData::Whole(self.last.freeze()),
            false => BodyData::Pieces(self),
        }
    }

    /// All of it in one place, put together by one of `threads`.
    async fn joined(self, threads: &Threads) -> Result<Bytes, CallError> {
        let len = self.len();
        let thread = threads.free(None).await?;
        let join = move || {
            let mut whole = Vec::with_capacity(len);
            // Each goes as soon as it is copied.
            self.full.into_iter().for_each(|piece| whole.extend_from_slice(&piece));
            whole.extend_from_slice(&self.last);
            Bytes::from(whole)
        };
        Ok(thread.run((), join).await)
    }
}

/// All data of a body; the usual one piece is not copied.
async fn collect(
    body: &mut Incoming,
    session: &HttpSession,
    max_len: usize,
    n_read: &Cell<usize>,
) -> Result<(BodyData, Hold), CallError> {
    let announced_len = match usize::try_from(body.size_hint().lower()) {
        Ok(len) if len <= max_len => len,
        _ => return Err(too_large(max_len)),
    };
    if MIN_ROOM_LEN < announced_len {
        // What has no chance is refused before it is read. What has one may still be refused: to
        // be held, it has to be there.
        session.account().check(announced_len)?;
    }
    let mut hold = session.account().take(0)?;
    let (mut first, mut pieces) = (Bytes::new(), BodyPieces::default());
    while let Some(frame) = next_frame(body, session, max_len).await? {
        let frame = frame.map_err(|error| {
            CallError::new(Code::BadRequest, format!("the body cannot be read: {error}"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let arrived_len = first.len() + pieces.len() + data.len();
        n_read.set(arrived_len);
        if max_len < arrived_len {
            return Err(too_large(max_len));
        }
        if hold.len() < arrived_len {
            hold.resize(room_for(arrived_len, announced_len))?;
        }
        if arrived_len == data.len() {
            first = data;
            continue;
        }
        pieces.push(&std::mem::take(&mut first), hold.len());
        pieces.push(&data, hold.len());
    }
    let data = if first.is_empty() { pieces.into_data() } else { BodyData::Whole(first) };
    Ok((data, hold))
}

/// How much is kept for a body of which so many bytes have come, and so many were announced:
/// several times as much as is there, so that of many that come at a time some pass, and none
/// whose peer only announces much.
fn room_for(arrived_len: usize, announced_len: usize) -> usize {
    let wanted = arrived_len.saturating_mul(ROOM_TIMES).max(MIN_ROOM_LEN);
    // A length that nobody told is 0.
    let told_len = if announced_len == 0 { 2 * arrived_len } else { announced_len };
    wanted.min(told_len).max(arrived_len)
}

/// The next piece of a body, unless that has announced more than is taken.
async fn next_frame(
    body: &mut Incoming,
    session: &HttpSession,
    max_len: usize,
) -> Result<Option<Result<Frame<Bytes>, hyper::Error>>, CallError> {
    let mut frame = body.frame();
    poll_fn(|cx| match session.is_body_too_long() {
        true => Poll::Ready(Err(too_large(max_len))),
        false => Pin::new(&mut frame).poll(cx).map(Ok),
    })
    .await
}

fn too_large(max_len: usize) -> CallError {
    let message = format!("the body is longer than the limit of {max_len} bytes (max_body_bytes)");
    CallError::new(Code::BodyTooLarge, message)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::on_worker;

    /// A peer that announces much and sends little is given little.
    #[test]
    fn a_body_gets_room_as_it_comes() {
        assert_eq!(room_for(1, 8 << 20), MIN_ROOM_LEN);
        assert_eq!(room_for(1 << 20, 8 << 20), ROOM_TIMES << 20);
        assert_eq!(room_for(1 << 20, (1 << 20) + 1), (1 << 20) + 1, "no more than was announced");
        assert_eq!(room_for(100, 0), 200, "nothing was announced");
        assert_eq!(room_for(100, 50), 100, "what has come is kept");
        assert_eq!(room_for(0, 0), 0);
    }

    async fn joined(pieces: BodyPieces) -> Bytes {
        match pieces.into_data() {
            BodyData::Whole(whole) => whole,
            BodyData::Pieces(pieces) => pieces.joined(&Threads::one_per_core()).await.unwrap(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn pieces_are_the_whole(
            lens in vec(prop_oneof![0..9_usize, 1_000_000..2_500_000_usize], 0..5),
        ) {
            let whole: Vec<u8> = (0..=250).cycle().take(lens.iter().sum()).collect();
            let (mut pieces, mut rest) = (BodyPieces::default(), &*whole);
            for len in lens {
                let (data, more) = rest.split_at(len);
                pieces.push(data, whole.len());
                rest = more;
            }
            prop_assert_eq!(pieces.len(), whole.len());
            prop_assert!(pieces.full.iter().all(|piece| piece.len() == PIECE_LEN));
            on_worker(async move || assert!(joined(pieces).await == whole));
        }
    }

    /// More room than is needed is not taken, and what is in a short body is in one place.
    #[test]
    fn a_body_takes_the_room_that_is_held() {
        let mut pieces = BodyPieces::default();
        pieces.push(&[1; 10], MIN_ROOM_LEN);
        assert_eq!(pieces.last.capacity(), MIN_ROOM_LEN);
        pieces.push(&vec![2; PIECE_LEN - 10], 4 * PIECE_LEN);
        assert!(pieces.full.is_empty() && pieces.last.capacity() == PIECE_LEN);
        pieces.push(&[3], 4 * PIECE_LEN);
        assert_eq!((pieces.full.len(), pieces.last.capacity()), (1, PIECE_LEN));
    }
}
