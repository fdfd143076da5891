//! Calls that wait for room or for the connection, first come, first served.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use bytes::Bytes;
use link_proto::{Connection, Payload, RouteDef, SendError};

use super::{CallEnd, CallHead, CallKey, CallSlot, NotTaken, SessionMachine};
use crate::client::config::{WhenDown, WhenFull};
use crate::error::Full;

/// Calls that are not sent yet.
#[derive(Default)]
pub(super) struct WaitingCalls {
    /// By when they came, so that one that gives up is found among many.
    pub(super) keys: BTreeMap<u64, CallKey>,
    next_place: u64,
    pub(super) bytes: usize,
    /// Not after any deadline of those who wait.
    pub(super) earliest: Option<Instant>,
}

impl WaitingCalls {
    pub(super) fn remove(&mut self, parked: &Parked) {
        self.keys.remove(&parked.place);
        self.bytes -= parked.payload.len();
    }
}

/// A call that waits for room or for a connection.
pub(super) struct Parked {
    /// Where it stands among those that wait.
    place: u64,
    head: CallHead<Arc<RouteDef>>,
    meta: Vec<(String, String)>,
    pub(super) payload: Bytes,
    pub(super) waker: Waker,
}

impl SessionMachine {
    /// Whether a call that could not be sent for this reason is to wait.
    pub(super) fn check_wait(&self, error: SendError) -> Result<(), NotTaken> {
        let full = match error {
            SendError::NotReady => {
                return match (&self.trouble, self.config.when_down) {
                    (Some(reason), WhenDown::Fail) => {
                        Err(NotTaken::Unreachable(Arc::clone(reason)))
                    }
                    _ => Ok(()),
                };
            }
            SendError::NoCredit => Full::Calls(self.link.as_ref().map_or(0, Connection::in_flight)),
            SendError::BufferFull => Full::Bytes(self.config.max_bytes),
            SendError::Closing => return Err(NotTaken::Elsewhere),
            other => return Err(NotTaken::Unsendable(other)),
        };
        match self.config.when_full {
            WhenFull::Wait => Ok(()),
            WhenFull::Reject => Err(NotTaken::Full(full)),
        }
    }

    /// Whether a call is to wait behind those that wait.
    pub(super) fn check_behind_others(&self) -> Result<(), NotTaken> {
        match self.link.as_ref().map_or(Err(SendError::NotReady), Connection::can_send) {
            // There is room, and the driver is about to give it to them.
            Ok(()) => Ok(()),
            Err(error) => self.check_wait(error),
        }
    }

    /// Has a call wait.
    pub(super) fn park(
        &mut self,
        head: CallHead<&Arc<RouteDef>>,
        meta: &[(&str, &str)],
        payload: Payload<'_>,
        waker: &Waker,
    ) -> Result<CallKey, NotTaken> {
        let n_waiting = self.waiting.keys.len();
        if n_waiting >= self.config.max_waiting_calls {
            return Err(NotTaken::Full(Full::Waiting(n_waiting)));
        }
        let payload = match payload {
            Payload::Slice(slice) => Bytes::copy_from_slice(slice),
            Payload::Bytes(bytes) => bytes,
        };
        let bytes = self.waiting.bytes + payload.len();
        if bytes > self.config.max_waiting_bytes {
            return Err(NotTaken::Full(Full::Bytes(bytes)));
        }
        self.waiting.bytes = bytes;
        if let Some(deadline) = head.deadline {
            let known = self.waiting.earliest;
            self.waiting.earliest = Some(known.map_or(deadline, |earliest| earliest.min(deadline)));
        }
        let meta = meta.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let place = self.waiting.next_place;
        self.waiting.next_place += 1;
        let parked = Parked { place, head: head.to_owned(), meta, payload, waker: waker.clone() };
        let key = self.calls.insert(CallSlot::Waiting(Box::new(parked)));
        self.waiting.keys.insert(place, key);
        Ok(key)
    }

    /// Sends those who wait, as far as there is room.
    pub(super) fn send_waiting(&mut self) {
        let now = self.queueing.now();
        while let Some((_, &key)) = self.waiting.keys.first_key_value() {
            let Some(CallSlot::Waiting(parked)) = self.calls.get_mut(key) else {
                debug_assert!(false, "only waiting calls wait");
                self.waiting.keys.pop_first();
                continue;
            };
            let (def, waker) = (Arc::clone(&parked.head.def), parked.waker.clone());
            let (head, payload) =
                (parked.head.with_def(&def), Payload::Bytes(parked.payload.clone()));
            let owned = std::mem::take(&mut parked.meta);
            let meta: Vec<_> = owned.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            let payload_len = parked.payload.len();
            match self.send(now, head, &meta, &payload, key) {
                Ok(Some(id)) => {
                    if let Some(slot) = self.calls.get_mut(key) {
                        *slot = CallSlot::Out { id, waker };
                    }
                    if head.is_streaming() {
                        self.stream_sent(key, id);
                    }
                }
                Ok(None) => self.finish(key, CallEnd::Sent),
                Err(SendError::NotReady | SendError::NoCredit | SendError::BufferFull) => {
                    if let Some(CallSlot::Waiting(parked)) = self.calls.get_mut(key) {
                        parked.meta = owned;
                    }
                    return;
                }
                Err(SendError::Closing) => self.finish(key, CallEnd::NotBegun),
                Err(error) => self.finish(key, CallEnd::Unsendable(error)),
            }
            self.waiting.keys.pop_first();
            self.waiting.bytes -= payload_len;
        }
        self.waiting.earliest = None;
    }

    /// Ends waiting calls whose time is over.
    pub(super) fn expire_waiting(&mut self, now: Instant) {
        if self.waiting.earliest.is_none_or(|earliest| now < earliest) {
            return;
        }
        self.waiting.earliest = None;
        for (place, key) in std::mem::take(&mut self.waiting.keys) {
            let Some(CallSlot::Waiting(parked)) = self.calls.get(key) else {
                continue;
            };
            match parked.head.deadline {
                Some(deadline) if deadline <= now => {
                    self.waiting.bytes -= parked.payload.len();
                    // Forgotten once a connection is ready.
                    let reason = self.trouble.clone();
                    self.finish(key, CallEnd::Expired(reason));
                }
                deadline => {
                    self.waiting.keys.insert(place, key);
                    let known = self.waiting.earliest;
                    self.waiting.earliest = [known, deadline].into_iter().flatten().min();
                }
            }
        }
    }
}
