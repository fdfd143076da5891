//! Items that travel beside a call, in either direction: what both sides hold of them.
//!
//! Items arrive in the order in which they were sent. The sender waits while the receiver has a
//! window of bytes that its program has not taken yet (flow control of each stream by itself), so
//! that neither side's memory grows.

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker, ready};

use bytes::Bytes;
use link_proto::Payload;

use crate::blocking::block_on;
use crate::codec::Codecs;
use crate::error::{Failure, NoError};

/// The item type of a direction in which nothing streams.
pub type NoItems = NoError;

/// One end of a call's streams, without types.
pub(crate) trait StreamEnd: Send + Sync {
    /// Takes the next item: its codec and bytes. `None` after the last.
    fn poll_item(&self, waker: &Waker) -> Poll<Result<Option<(u8, Bytes)>, Failure>>;
    /// Hands an item over, once there is room.
    fn poll_send(
        &self,
        codec: u8,
        payload: &Payload<'_>,
        waker: &Waker,
    ) -> Poll<Result<(), Failure>>;
    /// Waits until no part of an item is still to be sent.
    fn poll_flushed(&self, waker: &Waker) -> Poll<()>;
    /// Sends no more items.
    fn end_items(&self);
}

thread_local! {
    /// Where items are encoded before they are copied into the connection's buffer.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Sends the items of a stream. Dropping it ends the stream in good order.
pub struct Sender<T: 'static> {
    end: Arc<dyn StreamEnd>,
    codecs: &'static Codecs<T>,
    codec: u8,
}

impl<T> Sender<T> {
    pub(crate) fn new(end: Arc<dyn StreamEnd>, codecs: &'static Codecs<T>, codec: u8) -> Self {
        Self { end, codecs, codec: codecs.choose(codec) }
    }

    /// Sends an item, as soon as the receiver has room. If the future is dropped before it is
    /// ready, the item was not sent.
    ///
    /// # Errors
    /// The call has ended, or the item cannot be encoded or is over the receiver's limit.
    pub async fn send(&mut self, item: &T) -> Result<(), Failure> {
        let bytes = SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            let shared = self.codecs.encode(self.codec, item, scratch).map_err(Failure::Encode)?;
            Ok::<_, Failure>(shared.cloned().unwrap_or_else(|| Bytes::copy_from_slice(scratch)))
        })?;
        let payload = Payload::Bytes(bytes);
        poll_fn(|cx| self.end.poll_send(self.codec, &payload, cx.waker())).await
    }

    /// As [`Sender::send`], for threads that run no asynchronous tasks; see
    /// [`Call::wait`](crate::Call::wait).
    ///
    /// # Errors
    /// As of [`Sender::send`].
    pub fn send_wait(&mut self, item: &T) -> Result<(), Failure> {
        block_on(self.send(item))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.end.end_items();
    }
}

impl<T> std::fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("codec", &self.codec).finish_non_exhaustive()
    }
}

/// Receives the items of a stream.
pub struct Receiver<T: 'static> {
    end: Arc<dyn StreamEnd>,
    codecs: &'static Codecs<T>,
    is_over: bool,
}

impl<T> Receiver<T> {
    pub(crate) fn new(end: Arc<dyn StreamEnd>, codecs: &'static Codecs<T>) -> Self {
        Self { end, codecs, is_over: false }
    }

    /// The next item, or `None` when the sender has sent its last.
    ///
    /// # Errors
    /// An item cannot be decoded, or the call failed: the stream is over then, and not complete.
    pub async fn next(&mut self) -> Result<Option<T>, Failure> {
        poll_fn(|cx| self.poll_next(cx.waker())).await
    }

    /// As [`Receiver::next`], for threads that run no asynchronous tasks; see
    /// [`Call::wait`](crate::Call::wait).
    ///
    /// # Errors
    /// As of [`Receiver::next`].
    pub fn next_wait(&mut self) -> Result<Option<T>, Failure> {
        block_on(self.next())
    }

    fn poll_next(&mut self, waker: &Waker) -> Poll<Result<Option<T>, Failure>> {
        if self.is_over {
            return Poll::Ready(Ok(None));
        }
        let item = match ready!(self.end.poll_item(waker)) {
            Ok(Some((codec, bytes))) => {
                self.codecs.decode(codec, bytes).map(Some).map_err(Failure::Decode)
            }
            Ok(None) => Ok(None),
            Err(failure) => Err(failure),
        };
        self.is_over = !matches!(item, Ok(Some(_)));
        Poll::Ready(item)
    }
}

impl<T> std::fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}
