//! Items of the calls that stream, on the server's side.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::Bytes;
use link_proto::{CallId, Payload, SendError};

use super::session::ServerSession;
use crate::error::Failure;
use crate::panics;
use crate::streaming::StreamEnd;

/// The streams of one client's calls.
#[derive(Default)]
pub(crate) struct ServerStreams(Mutex<HashMap<u64, ServerStreamBuffer>>);

/// The streams of one call, in both directions.
#[derive(Default)]
struct ServerStreamBuffer {
    items: VecDeque<(u8, Bytes)>,
    /// The client sends no more items.
    is_ended: bool,
    /// The call has ended before its streams: its caller gave up, or the connection broke.
    is_broken: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

impl ServerStreamBuffer {
    fn wake(&mut self) {
        [self.receiver.take(), self.sender.take()].into_iter().flatten().for_each(panics::wake);
    }
}

impl ServerStreams {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, ServerStreamBuffer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins that streams.
    pub(crate) fn open(&self, id: CallId, stream_in: bool) {
        let stream = ServerStreamBuffer { is_ended: !stream_in, ..ServerStreamBuffer::default() };
        self.lock().insert(id.to_wire(), stream);
    }

    /// A call is refused before anybody has its streams.
    pub(crate) fn forget(&self, id: CallId) {
        let mut streams = self.lock();
        if !streams.is_empty() {
            streams.remove(&id.to_wire());
        }
    }

    pub(crate) fn handle_item(&self, id: CallId, codec: u8, payload: Bytes) {
        if let Some(stream) = self.lock().get_mut(&id.to_wire()) {
            stream.items.push_back((codec, payload));
            if let Some(receiver) = stream.receiver.take() {
                panics::wake(receiver);
            }
        }
    }

    pub(crate) fn handle_end(&self, id: CallId) {
        if let Some(stream) = self.lock().get_mut(&id.to_wire()) {
            stream.is_ended = true;
            stream.wake();
        }
    }

    pub(crate) fn handle_writable(&self, id: CallId) {
        if let Some(stream) = self.lock().get_mut(&id.to_wire())
            && let Some(sender) = stream.sender.take()
        {
            panics::wake(sender);
        }
    }

    /// The caller gave up.
    pub(crate) fn handle_cancelled(&self, id: CallId) {
        if let Some(stream) = self.lock().get_mut(&id.to_wire()) {
            stream.is_broken = true;
            stream.wake();
        }
    }

    /// The connection has ended.
    pub(crate) fn handle_end_of_link(&self) {
        for stream in self.lock().values_mut() {
            stream.is_broken = true;
            stream.wake();
        }
    }
}

/// One call's end of its streams.
pub(crate) struct CallStreams {
    session: Arc<ServerSession>,
    id: CallId,
}

impl CallStreams {
    /// Of a call that was [opened](ServerStreams::open).
    pub(crate) fn new(session: Arc<ServerSession>, id: CallId) -> Arc<Self> {
        Arc::new(Self { session, id })
    }
}

impl Drop for CallStreams {
    fn drop(&mut self) {
        self.session.streams.lock().remove(&self.id.to_wire());
    }
}

impl StreamEnd for CallStreams {
    fn poll_item(&self, waker: &Waker) -> Poll<Result<Option<(u8, Bytes)>, Failure>> {
        let mut streams = self.session.streams.lock();
        let Some(stream) = streams.get_mut(&self.id.to_wire()) else {
            return Poll::Ready(Err(Failure::Interrupted));
        };
        if let Some((codec, bytes)) = stream.items.pop_front() {
            drop(streams);
            self.session.with(|machine| machine.item_taken(self.id, bytes.len()));
            return Poll::Ready(Ok(Some((codec, bytes))));
        }
        if stream.is_broken {
            return Poll::Ready(Err(Failure::Interrupted));
        }
        if stream.is_ended {
            return Poll::Ready(Ok(None));
        }
        stream.receiver = Some(waker.clone());
        Poll::Pending
    }

    fn poll_send(
        &self,
        codec: u8,
        payload: &Payload<'_>,
        waker: &Waker,
    ) -> Poll<Result<(), Failure>> {
        // Held while sending, so that the news of room cannot come in between.
        let mut streams = self.session.streams.lock();
        let Some(stream) = streams.get_mut(&self.id.to_wire()).filter(|stream| !stream.is_broken)
        else {
            return Poll::Ready(Err(Failure::Interrupted));
        };
        let sent = self.session.with(|machine| machine.send_item(self.id, codec, payload.clone()));
        Poll::Ready(match sent {
            Ok(()) => Ok(()),
            Err(SendError::NoStreamCredit) => {
                stream.sender = Some(waker.clone());
                return Poll::Pending;
            }
            Err(SendError::TooLarge { len, max }) => Err(Failure::TooLarge { len, max }),
            Err(_) => Err(Failure::Interrupted),
        })
    }

    fn poll_flushed(&self, waker: &Waker) -> Poll<()> {
        let mut streams = self.session.streams.lock();
        let Some(stream) = streams.get_mut(&self.id.to_wire()).filter(|stream| !stream.is_broken)
        else {
            return Poll::Ready(());
        };
        if self.session.with(|machine| machine.items_unsent(self.id)) {
            stream.sender = Some(waker.clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn end_items(&self) {
        // The answer is the end of a server's items.
    }
}
