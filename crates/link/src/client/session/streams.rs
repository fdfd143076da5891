//! Items of the calls that stream.
//!
//! Invariant: a stream is here from the start of its call until the caller has let go of it, also
//! when the call has ended before: items that came before the end can still be taken.

use std::collections::{HashMap, VecDeque};
use std::task::{Poll, Waker};

use bytes::Bytes;
use link_proto::{CallId, Payload, SendError, Status};

use super::{CallEnd, CallKey, CallSlot, SessionEvent, SessionMachine};
use crate::error::Failure;

/// The streams of a session's calls.
#[derive(Default)]
pub(super) struct ClientStreams {
    by_key: HashMap<CallKey, ClientStreamBuffer>,
    /// Which call has a slot of the connection.
    by_slot: HashMap<u32, (CallId, CallKey)>,
}

/// The streams of one call, in both directions.
#[derive(Default)]
struct ClientStreamBuffer {
    id: Option<CallId>,
    items: VecDeque<(u8, Bytes)>,
    /// The caller has no more items; known before the call is sent.
    is_ended: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
}

impl ClientStreams {
    /// Whether the call of this key streams, and its caller has not let go of it.
    #[inline]
    pub(super) fn has(&self, key: CallKey) -> bool {
        !self.by_key.is_empty() && self.by_key.contains_key(&key)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.by_slot.is_empty()
    }

    fn find(&mut self, id: CallId) -> Option<&mut ClientStreamBuffer> {
        let (known, key) = self.by_slot.get(&id.slot())?;
        if *known != id {
            return None;
        }
        self.by_key.get_mut(key)
    }
}

impl SessionMachine {
    /// The call of this key streams.
    pub(super) fn open_stream(&mut self, key: CallKey) {
        self.streams.by_key.insert(key, ClientStreamBuffer::default());
    }

    /// A streaming call was sent.
    pub(super) fn stream_sent(&mut self, key: CallKey, id: CallId) {
        let Some(stream) = self.streams.by_key.get_mut(&key) else {
            return;
        };
        stream.id = Some(id);
        self.streams.by_slot.insert(id.slot(), (id, key));
        if stream.is_ended
            && let Some(link) = &mut self.link
        {
            // The call may have ended already, which ends its streams, too.
            let _ = link.end_items(id);
        }
        let sender = stream.sender.take();
        self.events.extend(sender.map(SessionEvent::Wake));
    }

    /// The call of this key has ended: whoever waits for its items is to see that.
    pub(super) fn stream_over(&mut self, key: CallKey) {
        if self.streams.by_key.is_empty() {
            return;
        }
        if let Some(stream) = self.streams.by_key.get_mut(&key) {
            let wakers = [stream.receiver.take(), stream.sender.take()];
            self.events.extend(wakers.into_iter().flatten().map(SessionEvent::Wake));
        }
    }

    pub(super) fn handle_item(&mut self, id: CallId, codec: u8, payload: Bytes) {
        if let Some(stream) = self.streams.find(id) {
            stream.items.push_back((codec, payload));
            let receiver = stream.receiver.take();
            self.events.extend(receiver.map(SessionEvent::Wake));
        }
    }

    pub(super) fn handle_writable(&mut self, id: CallId) {
        if let Some(sender) = self.streams.find(id).and_then(|stream| stream.sender.take()) {
            self.events.push_back(SessionEvent::Wake(sender));
        }
    }

    /// Lets go of a stream.
    pub(super) fn close_stream(&mut self, key: CallKey) {
        if self.streams.by_key.is_empty() {
            return;
        }
        if let Some(stream) = self.streams.by_key.remove(&key)
            && let Some(id) = stream.id
            && self.streams.by_slot.get(&id.slot()).is_some_and(|(known, _)| *known == id)
        {
            self.streams.by_slot.remove(&id.slot());
        }
    }

    /// Takes the next item: its codec and bytes. `None` after the last.
    pub(crate) fn poll_item(
        &mut self,
        key: CallKey,
        waker: &Waker,
    ) -> Poll<Result<Option<(u8, Bytes)>, Failure>> {
        let Some(stream) = self.streams.by_key.get_mut(&key) else {
            return Poll::Ready(Ok(None));
        };
        if let Some((codec, bytes)) = stream.items.pop_front() {
            if let (Some(id), Some(link)) = (stream.id, &mut self.link) {
                link.item_taken(id, bytes.len());
            }
            return Poll::Ready(Ok(Some((codec, bytes))));
        }
        match self.calls.get(key) {
            Some(CallSlot::Done(CallEnd::Answer(response))) if response.status == Status::OK => {
                Poll::Ready(Ok(None))
            }
            Some(CallSlot::Done(_)) => Poll::Ready(Err(Failure::Interrupted)),
            // The outcome was fetched: who has it knows whether all was well.
            Some(CallSlot::Fetched) | None => Poll::Ready(Ok(None)),
            Some(CallSlot::Out { .. } | CallSlot::Waiting(_)) => {
                stream.receiver = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// Hands an item over, once there is room.
    pub(crate) fn poll_send(
        &mut self,
        key: CallKey,
        codec: u8,
        payload: &Payload<'_>,
        waker: &Waker,
    ) -> Poll<Result<(), Failure>> {
        let Some(stream) = self.streams.by_key.get_mut(&key) else {
            return Poll::Ready(Err(Failure::Interrupted));
        };
        match self.calls.get(key) {
            Some(CallSlot::Out { .. } | CallSlot::Waiting(_)) => {}
            Some(CallSlot::Done(_) | CallSlot::Fetched) | None => {
                return Poll::Ready(Err(Failure::Interrupted));
            }
        }
        let result = match (stream.id, &mut self.link) {
            (Some(id), Some(link)) => link.send_item(id, codec, payload.clone()),
            _ => Err(SendError::NoStreamCredit),
        };
        Poll::Ready(match result {
            Ok(()) => Ok(()),
            Err(SendError::NoStreamCredit) => {
                stream.sender = Some(waker.clone());
                return Poll::Pending;
            }
            Err(SendError::TooLarge { len, max }) => Err(Failure::TooLarge { len, max }),
            Err(_) => Err(Failure::Interrupted),
        })
    }

    /// Waits until no part of an item is still to be sent.
    pub(crate) fn poll_flushed(&mut self, key: CallKey, waker: &Waker) -> Poll<()> {
        let Some(stream) = self.streams.by_key.get_mut(&key) else {
            return Poll::Ready(());
        };
        let unsent = |id| self.link.as_ref().is_some_and(|link| link.items_unsent(id));
        if stream.id.is_some_and(unsent) {
            stream.sender = Some(waker.clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Sends no more items.
    pub(crate) fn end_items(&mut self, key: CallKey) {
        let Some(stream) = self.streams.by_key.get_mut(&key) else {
            return;
        };
        stream.is_ended = true;
        if let (Some(id), Some(link)) = (stream.id, &mut self.link) {
            // It may have been said before, or the call may have ended.
            let _ = link.end_items(id);
        }
    }
}
