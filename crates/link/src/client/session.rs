//! One connection's calls, without I/O: those that are out, those that wait for room or for the
//! connection itself, and the answers that their callers have not fetched yet.
//!
//! Invariants:
//! - A call has one key from `start` until its outcome was fetched or it was given up; one that
//!   streams, until it was given up: its caller may hold its streams for longer than its outcome.
//! - Waiting calls are sent in the order in which they came, and none overtakes them.
//! - When the session is over every call has its outcome, and no call is taken.

mod outcome;
mod streams;
mod waiting_calls;

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use link_proto::{
    CallId, Connection, Event, GoAwayReason, LinkError, Payload, RequestOut, RouteDef, RouteId,
    SendError,
};
use slab::Slab;

pub(crate) use self::outcome::{CallEnd, NotTaken, Response};
use self::streams::ClientStreams;
use self::waiting_calls::{Parked, WaitingCalls};
use super::config::{ClientConfig, WhenDown};
use super::queueing_delay::Queueing;
use wire::{Machine, slice_len};

/// A call's place in its session.
pub(crate) type CallKey = usize;

/// The calls of one connection, from before it is made until it has ended.
pub(crate) struct SessionMachine {
    config: Arc<ClientConfig>,
    /// `None` until the first bytes can be sent.
    link: Option<Connection<CallKey>>,
    calls: Slab<CallSlot>,
    /// The connection's numbers of methods, by the client's numbers.
    routes: Vec<Option<RouteId>>,
    waiting: WaitingCalls,
    streams: ClientStreams,
    events: VecDeque<SessionEvent>,
    phase: Phase,
    /// Why the last attempt to connect failed.
    trouble: Option<Arc<str>>,
    queueing: Queueing,
    /// What stands in for the connection's output while there is none.
    nothing: BytesMut,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Calls are taken.
    Open,
    /// Those that are here are finished, no more are taken.
    Closing,
    /// Nothing is here, and nothing is taken.
    Over,
}

/// Where a call is.
enum CallSlot {
    Waiting(Box<Parked>),
    Out {
        id: CallId,
        waker: Waker,
    },
    Done(CallEnd),
    /// The outcome was fetched; the caller still holds the call's streams.
    Fetched,
}

/// What a call has beside its payload and metadata.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallHead<D> {
    /// The client's number of the method.
    pub method: usize,
    /// What the server is told of the method.
    pub def: D,
    pub codec: u8,
    pub deadline: Option<Instant>,
    /// How long it is until then, if the call begins just now.
    pub timeout: Option<Duration>,
    pub one_way: bool,
    /// The caller sends items.
    pub stream_in: bool,
    /// The caller takes items.
    pub stream_out: bool,
}

impl<D> CallHead<D> {
    fn is_streaming(&self) -> bool {
        self.stream_in || self.stream_out
    }

    fn with_def<E>(&self, def: E) -> CallHead<E> {
        let Self { method, codec, deadline, timeout, one_way, stream_in, stream_out, .. } = *self;
        CallHead { method, def, codec, deadline, timeout, one_way, stream_in, stream_out }
    }
}

impl CallHead<&Arc<RouteDef>> {
    fn to_owned(self) -> CallHead<Arc<RouteDef>> {
        // By the time that it is sent, less is left.
        CallHead { timeout: None, ..self.with_def(Arc::clone(self.def)) }
    }
}

/// What the driver of a session is told.
pub(crate) enum SessionEvent {
    /// A caller's outcome is there.
    Wake(Waker),
    /// The connection is ready for calls.
    Ready,
    /// The server takes no more calls on this connection: another one is needed.
    Leaving,
    /// What is to be written has to wait too long.
    Standing,
}

impl SessionMachine {
    pub(crate) fn new(config: Arc<ClientConfig>) -> Self {
        Self {
            config,
            link: None,
            calls: Slab::new(),
            routes: Vec::new(),
            waiting: WaitingCalls::default(),
            streams: ClientStreams::default(),
            events: VecDeque::new(),
            phase: Phase::Open,
            trouble: None,
            queueing: Queueing::default(),
            nothing: BytesMut::new(),
        }
    }

    /// How many callers are woken before what they send is written.
    pub(crate) fn slice_len(&self) -> usize {
        slice_len(self.calls.len())
    }

    /// How long bytes have lately waited to be written.
    pub(crate) fn queueing(&mut self) -> &mut Queueing {
        &mut self.queueing
    }

    /// The connection exists, and its handshake may begin.
    pub(crate) fn handle_connected(&mut self, now: Instant) {
        self.link = Some(Connection::client(self.config.link(), now));
    }

    /// An attempt to connect has failed; those who wait go on waiting if they are to.
    pub(crate) fn handle_connect_error(&mut self, reason: Arc<str>) {
        if self.config.when_down == WhenDown::Fail {
            while let Some((_, key)) = self.waiting.keys.pop_first() {
                self.finish(key, CallEnd::Unreachable(Arc::clone(&reason)));
            }
            self.waiting = WaitingCalls::default();
        }
        self.trouble = Some(reason);
    }

    /// Takes no more calls; the connection is left when those that are here have ended.
    pub(crate) fn close(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Closing;
        }
        self.settle();
    }

    /// Whether no more calls come, and none wait for a connection.
    pub(crate) fn is_closed_and_idle(&self) -> bool {
        self.phase != Phase::Open && self.waiting.keys.is_empty()
    }

    /// The connection has ended: so do all calls.
    pub(crate) fn end(&mut self, reason: &Arc<str>) {
        self.phase = Phase::Over;
        for key in std::mem::take(&mut self.waiting).keys.into_values() {
            self.finish(key, CallEnd::NotBegun);
        }
        let pending: Vec<CallKey> =
            self.link.as_mut().map_or_else(Vec::new, |link| link.drain_pending().collect());
        for key in pending {
            self.finish(key, CallEnd::Broken(Arc::clone(reason)));
        }
        if let (Some(link), Some(traffic)) = (self.link.take(), &self.config.traffic) {
            traffic.count_link(&link);
        }
    }

    /// Why the link failed, if it did.
    pub(crate) fn failure(&self) -> Option<LinkError> {
        self.link.as_ref().and_then(Connection::failure)
    }

    /// Takes a call: sends it, or has it wait. `waker` is woken when it has its outcome.
    #[inline]
    pub(crate) fn start(
        &mut self,
        now: Instant,
        head: CallHead<&Arc<RouteDef>>,
        meta: &[(&str, &str)],
        payload: Payload<'_>,
        waker: &Waker,
    ) -> Result<CallKey, NotTaken> {
        if self.phase != Phase::Open {
            return Err(NotTaken::Elsewhere);
        }
        if head.is_streaming() {
            return self.start_stream(now, head, meta, payload, waker);
        }
        if !self.waiting.keys.is_empty() {
            self.check_behind_others()?;
        } else {
            match self.send(now, head, meta, &payload, self.calls.vacant_key()) {
                Ok(Some(id)) => {
                    return Ok(self.calls.insert(CallSlot::Out { id, waker: waker.clone() }));
                }
                Ok(None) => return Ok(self.calls.insert(CallSlot::Done(CallEnd::Sent))),
                Err(error) => self.check_wait(error)?,
            }
        }
        self.park(head, meta, payload, waker)
    }

    /// As `start`, of a call that streams.
    #[cold]
    fn start_stream(
        &mut self,
        now: Instant,
        head: CallHead<&Arc<RouteDef>>,
        meta: &[(&str, &str)],
        payload: Payload<'_>,
        waker: &Waker,
    ) -> Result<CallKey, NotTaken> {
        if !self.waiting.keys.is_empty() {
            self.check_behind_others()?;
            let key = self.park(head, meta, payload, waker)?;
            self.open_stream(key);
            return Ok(key);
        }
        let key = match self.send(now, head, meta, &payload, self.calls.vacant_key()) {
            Ok(Some(id)) => {
                let key = self.calls.insert(CallSlot::Out { id, waker: waker.clone() });
                self.open_stream(key);
                self.stream_sent(key, id);
                return Ok(key);
            }
            Ok(None) => return Err(NotTaken::Unsendable(SendError::OneWayStream)),
            Err(error) => {
                self.check_wait(error)?;
                self.park(head, meta, payload, waker)?
            }
        };
        self.open_stream(key);
        Ok(key)
    }

    /// Puts a call into the connection's buffer. `None` for a one-way call, which has then ended.
    #[inline]
    fn send(
        &mut self,
        now: Instant,
        head: CallHead<&Arc<RouteDef>>,
        meta: &[(&str, &str)],
        payload: &Payload<'_>,
        key: CallKey,
    ) -> Result<Option<CallId>, SendError> {
        let Some(link) = &mut self.link else {
            return Err(SendError::NotReady);
        };
        let route = match self.routes.get(head.method) {
            Some(Some(route)) => *route,
            _ => {
                link.can_send()?;
                let route = link.define(head.def)?;
                let n_routes = self.routes.len().max(head.method + 1);
                self.routes.resize(n_routes, None);
                if let Some(known) = self.routes.get_mut(head.method) {
                    *known = Some(route);
                }
                route
            }
        };
        let was_empty = link.buffered_bytes() == 0;
        let payload = match payload {
            Payload::Slice(slice) => Payload::Slice(slice),
            Payload::Bytes(bytes) => Payload::Bytes(bytes.clone()),
        };
        let request = RequestOut {
            deadline: head.deadline,
            timeout: head.timeout,
            meta,
            codec: head.codec,
            one_way: head.one_way,
            stream_in: head.stream_in,
            stream_out: head.stream_out,
            payload,
            ..RequestOut::new(route)
        };
        let id = link.send_request(now, request, key).map_err(|(_, error)| error)?;
        if was_empty {
            self.queueing.begin(now);
        }
        Ok((!head.one_way).then_some(id))
    }

    /// The outcome of a call, once it is there; the call is then forgotten.
    #[inline]
    pub(crate) fn poll_outcome(&mut self, key: CallKey, waker: &Waker) -> Poll<CallEnd> {
        let known = match self.calls.get_mut(key) {
            Some(slot @ CallSlot::Done(_)) => {
                let slot = match self.streams.has(key) {
                    true => std::mem::replace(slot, CallSlot::Fetched),
                    false => self.calls.remove(key),
                };
                return match slot {
                    CallSlot::Done(outcome) => Poll::Ready(outcome),
                    CallSlot::Waiting(_) | CallSlot::Out { .. } | CallSlot::Fetched => {
                        Poll::Pending
                    }
                };
            }
            Some(CallSlot::Out { waker, .. }) => waker,
            Some(CallSlot::Waiting(parked)) => &mut parked.waker,
            Some(CallSlot::Fetched) | None => {
                debug_assert!(false, "a call is asked for its outcome only once");
                return Poll::Ready(CallEnd::NotBegun);
            }
        };
        if !known.will_wake(waker) {
            known.clone_from(waker);
        }
        Poll::Pending
    }

    /// Gives a call up. Whether the connection has something to say because of it.
    pub(crate) fn give_up(&mut self, key: CallKey) -> bool {
        self.close_stream(key);
        match self.calls.try_remove(key) {
            Some(CallSlot::Out { id, .. }) => {
                let cancelled = self.link.as_mut().and_then(|link| link.cancel(id));
                self.settle();
                cancelled.is_some()
            }
            Some(CallSlot::Waiting(parked)) => {
                self.waiting.remove(&parked);
                self.settle();
                self.phase == Phase::Closing
            }
            Some(CallSlot::Done(_) | CallSlot::Fetched) | None => false,
        }
    }

    fn finish(&mut self, key: CallKey, outcome: CallEnd) {
        let Some(slot) = self.calls.get_mut(key) else {
            return;
        };
        match std::mem::replace(slot, CallSlot::Done(outcome)) {
            CallSlot::Out { waker, .. } => self.events.push_back(SessionEvent::Wake(waker)),
            CallSlot::Waiting(parked) => self.events.push_back(SessionEvent::Wake(parked.waker)),
            CallSlot::Done(_) | CallSlot::Fetched => debug_assert!(false, "a call ends once"),
        }
        self.stream_over(key);
    }

    /// Takes what the connection reports.
    fn drain_link(&mut self) {
        while let Some(event) = self.link.as_mut().and_then(Connection::poll_event) {
            match event {
                Event::Response { token, status, codec, meta, payload } => {
                    let response = Response { status, codec, meta, payload };
                    self.finish(token, CallEnd::Answer(response));
                }
                Event::Item { id, codec, payload } => self.handle_item(id, codec, payload),
                Event::Writable { id } => self.handle_writable(id),
                Event::Expired { token } => self.finish(token, CallEnd::Expired(None)),
                Event::Ready(_) => {
                    self.trouble = None;
                    self.events.push_back(SessionEvent::Ready);
                }
                Event::GoAway { .. } => {
                    self.leave();
                    self.events.push_back(SessionEvent::Leaving);
                }
                // A refused route's calls are answered one by one; the rest is the server's.
                _ => {}
            }
        }
    }

    /// The server takes no more calls here: those that wait go elsewhere.
    fn leave(&mut self) {
        self.phase = Phase::Closing;
        for key in std::mem::take(&mut self.waiting).keys.into_values() {
            self.finish(key, CallEnd::NotBegun);
        }
    }

    /// Sends those who wait, as far as there is room, and leaves when all is done.
    fn settle(&mut self) {
        if self.link.is_some() && !self.waiting.keys.is_empty() {
            self.send_waiting();
        }
        if self.phase == Phase::Closing
            && self.waiting.keys.is_empty()
            && let Some(link) = &mut self.link
        {
            link.go_away(GoAwayReason::SHUTDOWN);
        }
    }
}

impl Machine for SessionMachine {
    type Event = SessionEvent;
    type Error = LinkError;

    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), LinkError> {
        self.queueing.set_now(now);
        let Some(link) = &mut self.link else {
            return Ok(());
        };
        let result = link.handle_bytes(now, input);
        if self.queueing.is_stuck(now) {
            self.events.push_back(SessionEvent::Standing);
        }
        self.drain_link();
        self.settle();
        result
    }

    fn has_backlog(&self) -> bool {
        self.link.as_ref().is_some_and(Connection::has_backlog)
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.queueing.set_now(now);
        if let Some(link) = &mut self.link {
            link.handle_timeout(now);
        }
        self.drain_link();
        self.expire_waiting(now);
        self.settle();
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let link = self.link.as_ref().and_then(Connection::poll_timeout);
        match self.waiting.earliest {
            None => link,
            waiting => [link, waiting].into_iter().flatten().min(),
        }
    }

    fn poll_event(&mut self) -> Option<SessionEvent> {
        if self.events.is_empty() {
            self.drain_link();
        }
        self.events.pop_front()
    }

    fn has_events(&self) -> bool {
        !self.events.is_empty() || self.link.as_ref().is_some_and(Connection::has_events)
    }

    fn transmit(&mut self) -> &mut BytesMut {
        if !self.waiting.keys.is_empty() {
            self.settle();
        }
        match &mut self.link {
            Some(link) => link.transmit(),
            None => &mut self.nothing,
        }
    }

    fn is_finished(&self) -> bool {
        self.link.as_ref().is_some_and(Connection::is_finished)
    }

    fn is_broken(&self) -> bool {
        self.failure().is_some()
    }

    fn handle_written(&mut self, now: Instant) {
        if self.queueing.end(now) {
            self.events.push_back(SessionEvent::Standing);
        }
    }
}

#[cfg(test)]
mod tests;
