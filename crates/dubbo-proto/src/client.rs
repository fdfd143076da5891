//! The state of one Dubbo TCP connection toward a provider: requests and bytes in, bytes and
//! events out. It owns no socket and reads no clock.
//!
//! A driver reads bytes into a buffer and calls [`ClientConnection::handle_bytes`], calls
//! [`ClientConnection::handle_timeout`] when [`ClientConnection::poll_timeout`] says so, takes
//! events until [`ClientConnection::poll_event`] has none left, and writes what
//! [`ClientConnection::transmit`] holds.
//!
//! Invariants:
//! - Every accepted two-way call gives its token back exactly once: with its reply, as expired, by
//!   [`ClientConnection::cancel`], or by [`ClientConnection::drain_pending`].
//! - A reply finds its call or nothing, never another call. See [`RequestId`].
//! - Pending calls, and bytes that wait to be written, are bounded by the configuration.

mod config;
mod outcome;
mod sending;

use std::collections::VecDeque;
use std::time::Instant;

use bytes::BytesMut;

pub use self::config::{CallDeadline, ClientConfig};
pub use self::outcome::{ClientEvent, ClientStats, DeadReason, SendError};
use crate::event::{self, EventFrame};
use crate::frame::{Frame, Frames, Header, Incoming};
use crate::frame_deadline::Unfinished;
use crate::liveness::{Liveness, LivenessAction};
use crate::pending_calls::{Pending, RequestId};
use crate::reply::{self, ReplyTo};
use crate::{ProtoError, Serialization, Status};

/// So many times as much may wait before a short request is refused.
const SHORT_TIMES: usize = 2;

/// Bytes of answers to heartbeats, and of refusals of what a provider asks, that may wait. While
/// it reads none of them, what it asks further is not answered: it is far more than a provider
/// ever asks in earnest.
const MAX_UNASKED_LEN: usize = 64 << 10;

/// One connection toward a provider. `T` is what a caller wants back with its reply.
#[derive(Debug)]
pub struct ClientConnection<T> {
    config: ClientConfig,
    pending: Pending<T>,
    liveness: Liveness,
    frames: Frames,
    unfinished: Unfinished,
    events: VecDeque<ClientEvent<T>>,
    out: BytesMut,
    /// How much was added to `out`, since it was empty, that the provider has asked for.
    unasked_len: usize,
    stats: ClientStats,
    /// Heartbeats go out in the serialization of the latest call, which the provider must know.
    serialization: Serialization,
    /// Numbers heartbeats and one-way requests.
    n_slotless: u32,
    /// The sign of life has not come that has to come first.
    is_awaited: bool,
    /// Until then it is waited for; without an instant, for ever.
    awaited_until: Option<Instant>,
    has_answered: bool,
    is_readonly: bool,
    is_finished: bool,
}

impl<T> ClientConnection<T> {
    /// A fresh connection.
    #[must_use]
    pub fn new(config: ClientConfig, now: Instant) -> Self {
        let mut new = Self {
            pending: Pending::new(config.max_in_flight),
            liveness: Liveness::new(config.heartbeat, now),
            frames: Frames::new(config.max_body_len),
            unfinished: Unfinished::new(config.body_timeout),
            events: VecDeque::new(),
            out: BytesMut::new(),
            unasked_len: 0,
            stats: ClientStats::default(),
            serialization: Serialization::DEFAULT,
            n_slotless: 0,
            is_awaited: config.asks_first.is_some(),
            awaited_until: config.asks_first.and_then(|patience| now.checked_add(patience)),
            has_answered: false,
            is_readonly: false,
            is_finished: false,
            config,
        };
        if config.asks_first.is_some() {
            new.ask(now);
        }
        new
    }

    /// Gives up a call: nobody waits for its reply any more. `None` when it has ended already.
    pub fn cancel(&mut self, id: RequestId) -> Option<T> {
        let call = self.pending.take(id.get())?;
        self.stats.given_up += 1;
        Some(call)
    }

    /// Counts a reply that was handed over, and that nobody waited for any more.
    pub const fn reply_was_late(&mut self) {
        self.stats.given_up += 1;
        self.stats.stale_replies += 1;
    }

    /// Gives back the tokens of all calls in flight, for a connection that broke.
    pub fn drain_pending(&mut self) -> impl Iterator<Item = T> {
        self.pending.drain()
    }

    /// Ends the connection on our side: no new calls, and nothing that comes in counts any more.
    /// What waits to be written may still go out. Calls in flight are still to be drained.
    pub const fn close(&mut self) {
        self.is_finished = true;
    }

    /// How many calls wait for their reply.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Whether new calls are welcome. Even then one can be refused when a limit is reached.
    #[must_use]
    pub const fn is_accepting(&self) -> bool {
        !self.is_readonly && !self.is_finished && !self.is_awaited
    }

    /// Whether the provider has said that it takes no more calls.
    #[must_use]
    pub const fn is_readonly(&self) -> bool {
        self.is_readonly
    }

    /// Whether the provider has sent anything that was a whole frame.
    #[must_use]
    pub const fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// What was counted since the connection began.
    #[must_use]
    pub const fn stats(&self) -> ClientStats {
        self.stats
    }

    /// Takes every whole frame off the front of `input`, and leaves the rest for later.
    ///
    /// # Errors
    /// [`ProtoError`] when the connection has to be closed. Calls in flight are still to be
    /// drained.
    pub fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), ProtoError> {
        if self.is_finished {
            input.clear();
            return Ok(());
        }
        if !input.is_empty() {
            self.liveness.heard(now);
        }
        let handled = self.handle_frames(now, input);
        self.is_finished |= handled.is_err();
        handled
    }

    /// The length of the frame that has begun to come in `input`, as far as it is known. `None` if
    /// it will not be kept.
    #[must_use]
    pub fn front_len(&self, input: &[u8]) -> Option<usize> {
        if self.is_finished { None } else { self.frames.front_len(input) }
    }

    /// Expires calls, sends a heartbeat, or gives the connection up, as the time tells.
    pub fn handle_timeout(&mut self, now: Instant) {
        let (events, stats) = (&mut self.events, &mut self.stats);
        self.pending.expire(now, |token| {
            stats.given_up += 1;
            events.push_back(ClientEvent::Expired { token });
        });
        if self.is_finished {
            return;
        }
        if let Some(time) = self.unfinished.overdue(now) {
            self.is_finished = true;
            self.events.push_back(ClientEvent::Dead(DeadReason::Unfinished { time }));
            return;
        }
        if self.awaited_until.is_some_and(|until| until <= now) {
            self.stop_waiting();
        }
        match self.liveness.look(now) {
            LivenessAction::Nothing => {}
            LivenessAction::SendHeartbeat => self.send_heartbeat(),
            LivenessAction::Silent(silence) => {
                self.is_finished = true;
                self.events.push_back(ClientEvent::Dead(DeadReason::Silent { silence }));
            }
        }
    }

    /// Sends a heartbeat out of turn: for a side that wants to know now whether its peer answers.
    pub fn ask(&mut self, now: Instant) {
        if !self.is_finished {
            self.liveness.asked(now);
            self.send_heartbeat();
        }
    }

    fn send_heartbeat(&mut self) {
        let id = self.slotless_id();
        event::write_heartbeat(self.serialization, id.get(), &mut self.out);
        self.stats.heartbeats_sent += 1;
    }

    /// When something came from the provider last.
    #[must_use]
    pub const fn heard_at(&self) -> Instant {
        self.liveness.heard_at()
    }

    /// When the first heartbeat was sent of those to which nothing has come, if there are any.
    #[must_use]
    pub const fn unanswered_since(&self) -> Option<Instant> {
        self.liveness.unanswered_since()
    }

    /// When a heartbeat was sent last; if none was, since when the connection is there.
    #[must_use]
    pub const fn asked_at(&self) -> Instant {
        self.liveness.asked_at()
    }

    /// When [`ClientConnection::handle_timeout`] wants to be called next. It may turn out that
    /// it was called too early; in return this instant moves rarely.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let calls = self.pending.earliest();
        if self.is_finished {
            return calls;
        }
        let look = Some(self.liveness.next_look());
        [calls, look, self.unfinished.due(), self.awaited_until].into_iter().flatten().min()
    }

    /// The next thing that happened.
    #[inline]
    pub fn poll_event(&mut self) -> Option<ClientEvent<T>> {
        self.events.pop_front()
    }

    /// The bytes that wait to be written. The driver takes off what it has written.
    #[inline]
    pub const fn transmit(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    /// Bytes that wait to be written.
    #[inline]
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.out.len()
    }

    /// Whether the connection is of no use any more and should be closed.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// Gives up the answer that has begun to come, and that takes memory meanwhile: what is in
    /// `input` is dropped, the rest will be skipped, and its call ends by [`ClientEvent::Shed`].
    /// `false` if too little of it is there to know whose it is.
    ///
    /// # Errors
    /// [`ProtoError`] when the connection has to be closed.
    pub fn shed_frame(&mut self, input: &mut BytesMut) -> Result<bool, ProtoError> {
        let Some((header, _)) = self.frames.shed(input)? else { return Ok(false) };
        // The memory goes as well.
        *input = BytesMut::new();
        if !header.is_event && !header.is_request {
            match self.pending.take(header.id) {
                Some(token) => {
                    self.events.push_back(ClientEvent::Shed { token, len: header.body_len });
                }
                None => self.stats.stale_replies += 1,
            }
        }
        Ok(true)
    }

    fn handle_frames(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), ProtoError> {
        let mut took_frames = false;
        while let Some(incoming) = self.frames.next(input)? {
            took_frames = true;
            let frame = match incoming {
                Incoming::Frame(frame) => frame,
                Incoming::TooLong(header, _) => {
                    self.handle_long(&header);
                    continue;
                }
            };
            match (frame.header.is_event, frame.header.is_request) {
                (false, false) => self.handle_reply(frame),
                (true, true) => self.handle_event(now, &frame)?,
                (true, false) => self.stats.heartbeats_heard += 1,
                (false, true) => self.refuse_request(&frame)?,
            }
        }
        let is_left = !input.is_empty() || self.frames.is_skipping();
        self.unfinished.looked(now, took_frames, is_left);
        self.has_answered |= took_frames;
        if self.is_awaited && took_frames {
            self.stop_waiting();
        }
        Ok(())
    }

    /// Calls are taken from now on.
    #[cold]
    fn stop_waiting(&mut self) {
        (self.is_awaited, self.awaited_until) = (false, None);
        self.events.push_back(ClientEvent::Alive);
    }

    #[inline]
    fn handle_reply(&mut self, frame: Frame) {
        let Some(token) = self.pending.take(frame.header.id) else {
            self.stats.stale_replies += 1;
            return;
        };
        self.events.push_back(ClientEvent::Reply {
            token,
            status: Status::from_u8(frame.header.status),
            serialization: frame.header.serialization.of_body(&frame.body),
            body: frame.body,
        });
    }

    #[cold]
    fn handle_long(&mut self, header: &Header) {
        if header.is_event || header.is_request {
            return;
        }
        let (len, max) = (header.body_len, self.config.max_body_len);
        match self.pending.take(header.id) {
            Some(token) => self.events.push_back(ClientEvent::TooLong { token, len, max }),
            None => self.stats.stale_replies += 1,
        }
    }

    fn handle_event(&mut self, now: Instant, frame: &Frame) -> Result<(), ProtoError> {
        match EventFrame::from_body(&frame.body) {
            EventFrame::Heartbeat => {}
            EventFrame::ReadOnly => self.set_readonly(true),
            EventFrame::Writeable => self.set_readonly(false),
        }
        if frame.header.two_way {
            self.check_output()?;
            if self.add_unasked(|out| event::write_heartbeat_answer(frame, out)) {
                self.liveness.wrote(now);
                self.stats.heartbeats_answered += 1;
            }
        }
        Ok(())
    }

    /// A provider that repeats itself makes one event, so that it cannot fill our memory.
    fn set_readonly(&mut self, is_readonly: bool) {
        if self.is_readonly == is_readonly {
            return;
        }
        self.is_readonly = is_readonly;
        let opposite = |event: &ClientEvent<T>| {
            matches!(
                (event, is_readonly),
                (ClientEvent::ReadOnly, false) | (ClientEvent::Writeable, true)
            )
        };
        if self.events.back().is_some_and(opposite) {
            self.events.pop_back();
        } else {
            let event = if is_readonly { ClientEvent::ReadOnly } else { ClientEvent::Writeable };
            self.events.push_back(event);
        }
    }

    /// A provider that calls back (Dubbo's callback arguments) is told that nobody serves it.
    fn refuse_request(&mut self, asked: &Frame) -> Result<(), ProtoError> {
        self.stats.refused_requests += 1;
        if asked.header.two_way {
            self.check_output()?;
            let text = "this consumer offers no services: callbacks are not supported";
            let id = asked.header.id;
            let serialization = asked.header.serialization.of_body(&asked.body);
            let to = ReplyTo { id, serialization, takes_attachments: false };
            self.add_unasked(|out| reply::encode_error(to, Status::BadRequest, text, out));
        }
        Ok(())
    }

    /// Adds what the provider has asked for, unless too much of that waits already.
    fn add_unasked(&mut self, write: impl FnOnce(&mut BytesMut)) -> bool {
        if self.out.is_empty() {
            self.unasked_len = 0;
        }
        let may_add = self.unasked_len < MAX_UNASKED_LEN;
        if may_add {
            let before = self.out.len();
            write(&mut self.out);
            self.unasked_len += self.out.len() - before;
        }
        may_add
    }

    /// What we write unasked is small, so a full buffer means a peer that does not read.
    fn check_output(&self) -> Result<(), ProtoError> {
        let (buffered, max) = (self.out.len(), self.max_short());
        if buffered < max { Ok(()) } else { Err(ProtoError::OutputFull { buffered, max }) }
    }

    /// Bytes that may wait before what is short is refused.
    #[inline]
    const fn max_short(&self) -> usize {
        self.config.max_buffered_bytes.saturating_mul(SHORT_TIMES)
    }

    #[inline]
    fn wrote(&mut self, now: Instant, serialization: Serialization) {
        self.liveness.wrote(now);
        self.serialization = serialization;
    }

    const fn slotless_id(&mut self) -> RequestId {
        self.n_slotless = self.n_slotless.wrapping_add(1);
        RequestId::without_slot(self.n_slotless)
    }
}

#[cfg(test)]
mod tests;
