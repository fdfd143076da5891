//! The state of one Dubbo TCP connection from a consumer: bytes in, requests out, replies in,
//! bytes out. It owns no socket and reads no clock; a driver treats it like
//! [`ClientConnection`](crate::ClientConnection).
//!
//! Invariants:
//! - Every two-way request of the consumer is either handed out as an event, or answered here with
//!   an error. A broken body inside of a whole frame fails that one request, not the connection.
//! - Requests that wait for their reply, and bytes that wait to be written, are bounded.
//! - One call of [`ServerConnection::handle_bytes`] handles a bounded number of frames. What they
//!   lead to is done before the next ones.

mod config;

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{Bytes, BytesMut};

pub use self::config::ServerConfig;
use crate::client::DeadReason;
use crate::event;
use crate::frame::{Frame, Frames, Header, Incoming};
use crate::frame_deadline::Unfinished;
use crate::liveness::{Liveness, LivenessAction};
use crate::reply::{self, ReplyKind, ReplyTo};
use crate::{ProtoError, Request, RequestId, Serialization, Status};

/// Frames that one call of [`ServerConnection::handle_bytes`] handles. A read brings up to 60,000
/// short ones, and what comes of each takes many times as much as the frame. As many as a consumer
/// has in flight in earnest are handled at once.
const MAX_FRAMES: usize = 1024;

/// What happened on a connection from a consumer.
#[derive(Clone, Debug)]
pub enum ServerEvent {
    /// The consumer asks for something.
    Request {
        /// Where the reply goes.
        to: ReplyTo,
        /// Whether one is wanted. If so, one of the `reply` functions has to be called once.
        two_way: bool,
        /// What is asked for. In a box, so that events that pass on a body are short.
        request: Box<Request>,
    },
    /// The same where [`ServerConfig::pass_through`] is set.
    Body {
        /// Where the reply goes. Whether the consumer takes attachments is not known, so it counts
        /// as one that does not.
        to: ReplyTo,
        /// As in [`ServerEvent::Request`].
        two_way: bool,
        /// The request's body as it came: [`crate::Routing`] and [`Request`] read it.
        body: Bytes,
    },
    /// A request was longer than it may be. It has been answered, and its body passed over.
    TooLong {
        /// The length that its header has announced.
        len: usize,
    },
    /// The connection is of no use any more.
    Dead(DeadReason),
}

/// What a connection has counted that no event tells.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ServerStats {
    /// Requests that could not be read.
    pub bad_requests: u64,
    /// Requests over the limit of those in flight.
    pub refused_requests: u64,
    /// Heartbeats that we sent.
    pub heartbeats_sent: u64,
    /// Heartbeats that we answered.
    pub heartbeats_answered: u64,
}

/// One connection from a consumer.
#[derive(Debug)]
pub struct ServerConnection {
    config: ServerConfig,
    liveness: Liveness,
    frames: Frames,
    unfinished: Unfinished,
    events: VecDeque<ServerEvent>,
    out: BytesMut,
    stats: ServerStats,
    serialization: Serialization,
    n_in_flight: usize,
    n_events_sent: u32,
    is_readonly: bool,
    is_finished: bool,
    /// Frames were left in the input whose turn has not come.
    has_backlog: bool,
}

impl ServerConnection {
    /// A fresh connection.
    #[must_use]
    pub fn new(config: ServerConfig, now: Instant) -> Self {
        Self {
            liveness: Liveness::new(config.heartbeat, now),
            frames: Frames::new(config.max_body_len),
            unfinished: Unfinished::new(config.body_timeout),
            events: VecDeque::new(),
            out: BytesMut::new(),
            stats: ServerStats::default(),
            serialization: Serialization::DEFAULT,
            n_in_flight: 0,
            n_events_sent: 0,
            is_readonly: false,
            is_finished: false,
            has_backlog: false,
            config,
        }
    }

    /// Takes whole frames off the front of `input`, and leaves the rest for later: the beginning
    /// of a frame, or more if [`has_backlog`](Self::has_backlog) says so.
    ///
    /// # Errors
    /// [`ProtoError`] when the connection has to be closed.
    pub fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), ProtoError> {
        self.has_backlog = false;
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

    /// Whether whole frames may have been left in the input, since there were many. The driver
    /// takes the events, and then calls [`handle_bytes`](Self::handle_bytes) again, with or
    /// without more input.
    #[must_use]
    pub const fn has_backlog(&self) -> bool {
        self.has_backlog
    }

    /// The length of the frame that has begun to come in `input`, as far as it is known. `None` if
    /// it will not be kept.
    #[must_use]
    pub fn front_len(&self, input: &[u8]) -> Option<usize> {
        if self.is_finished { None } else { self.frames.front_len(input) }
    }

    /// Sends a heartbeat, or gives the connection up, as the time tells.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.is_finished {
            return;
        }
        if !self.wants_input() {
            self.note_unread(now);
        } else if let Some(time) = self.unfinished.overdue(now) {
            self.is_finished = true;
            self.events.push_back(ServerEvent::Dead(DeadReason::Unfinished { time }));
            return;
        }
        match self.liveness.look(now) {
            LivenessAction::Nothing => {}
            LivenessAction::SendHeartbeat => {
                let id = self.event_id();
                event::write_heartbeat(self.serialization, id.get(), &mut self.out);
                self.stats.heartbeats_sent += 1;
            }
            LivenessAction::Silent(silence) => {
                self.is_finished = true;
                self.events.push_back(ServerEvent::Dead(DeadReason::Silent { silence }));
            }
        }
    }

    /// It is we who do not read: silence says nothing. A driver that stops reading for reasons of
    /// its own says so before [`handle_timeout`](Self::handle_timeout).
    pub fn note_unread(&mut self, now: Instant) {
        self.unfinished.restart(now);
        self.liveness.heard(now);
    }

    /// When [`ServerConnection::handle_timeout`] wants to be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let look = self.liveness.next_look();
        (!self.is_finished).then(|| self.unfinished.due().map_or(look, |due| due.min(look)))
    }

    /// The next thing that happened.
    #[inline]
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
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

    /// Whether more input is welcome: false while more than half of the output's bound waits. A
    /// driver that then stops reading never meets [`ProtoError::OutputFull`] by requests alone.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.out.len() <= self.config.max_buffered_bytes / 2
    }

    /// Ends the connection on our side. What waits to be written may still go out.
    pub const fn close(&mut self) {
        self.is_finished = true;
    }

    /// How many requests wait for their reply.
    #[must_use]
    pub const fn in_flight(&self) -> usize {
        self.n_in_flight
    }

    /// What was counted since the connection began.
    #[must_use]
    pub const fn stats(&self) -> ServerStats {
        self.stats
    }

    /// Tells the consumer to send nothing new. What it has sent already is served.
    pub fn send_readonly(&mut self, now: Instant) {
        if self.is_readonly || self.is_finished {
            return;
        }
        self.is_readonly = true;
        let id = self.event_id();
        event::write_readonly(self.serialization, id.get(), &mut self.out);
        self.liveness.wrote(now);
    }

    /// Answers a request. A value that is too long, or not one line of JSON, becomes an error that
    /// says so to the consumer.
    ///
    /// # Errors
    /// [`ProtoError::OutputFull`] when the connection has to be closed.
    pub fn reply(
        &mut self,
        now: Instant,
        to: ReplyTo,
        kind: ReplyKind,
        value: &[u8],
        attachments: &[(&str, &str)],
    ) -> Result<(), ProtoError> {
        self.begin_reply(now)?;
        let limit = self.config.payload_limit;
        let written = reply::encode_reply(to, kind, value, attachments, limit, &mut self.out);
        if let Err(error) = written {
            let text = error.to_string();
            reply::encode_error(to, Status::SerializationError, &text, &mut self.out);
        }
        Ok(())
    }

    /// Answers a request with an error.
    ///
    /// # Errors
    /// [`ProtoError::OutputFull`] when the connection has to be closed.
    pub fn reply_error(
        &mut self,
        now: Instant,
        to: ReplyTo,
        status: Status,
        text: &str,
    ) -> Result<(), ProtoError> {
        self.begin_reply(now)?;
        reply::encode_error(to, status, text, &mut self.out);
        Ok(())
    }

    /// Answers a request with a body that another provider wrote in `to.serialization`.
    ///
    /// # Errors
    /// [`ProtoError::OutputFull`] when the connection has to be closed.
    pub fn reply_body(
        &mut self,
        now: Instant,
        to: ReplyTo,
        status: Status,
        body: &[u8],
    ) -> Result<(), ProtoError> {
        self.begin_reply(now)?;
        let (len, max) = (body.len(), self.config.payload_limit);
        if len > max {
            let text = ProtoError::PayloadTooLong { len, max }.to_string();
            reply::encode_error(to, Status::SerializationError, &text, &mut self.out);
        } else {
            reply::write_body(to, status, body, &mut self.out);
        }
        Ok(())
    }

    /// Forgets a request that nobody will answer.
    pub const fn abandon(&mut self) {
        self.n_in_flight = self.n_in_flight.saturating_sub(1);
    }

    /// Gives up the request that has begun to come, and that takes memory meanwhile: what is in
    /// `input` is dropped, the rest will be skipped, and the consumer is told `text`, with
    /// [`Status::ServerThreadpoolExhausted`]. `false` if too little of it is there to know whose
    /// it is, or whole frames are in front of it.
    ///
    /// # Errors
    /// [`ProtoError`] when the connection has to be closed.
    pub fn shed_frame(
        &mut self,
        now: Instant,
        input: &mut BytesMut,
        text: &str,
    ) -> Result<bool, ProtoError> {
        if self.has_backlog {
            return Ok(false);
        }
        let Some((header, first)) = self.frames.shed(input)? else { return Ok(false) };
        // The memory goes as well.
        *input = BytesMut::new();
        if header.is_request && !header.is_event {
            self.stats.refused_requests += 1;
            if header.two_way {
                let serialization = header.serialization.of_body(&[first]);
                let to = ReplyTo { id: header.id, serialization, takes_attachments: false };
                self.refuse(now, to, Status::ServerThreadpoolExhausted, text)?;
            }
        }
        Ok(true)
    }

    fn handle_frames(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), ProtoError> {
        let mut n_frames = 0;
        while n_frames < MAX_FRAMES
            && let Some(incoming) = self.frames.next(input)?
        {
            n_frames += 1;
            let frame = match incoming {
                Incoming::Frame(frame) => frame,
                Incoming::TooLong(header, first) => {
                    self.refuse_long(now, &header, first)?;
                    continue;
                }
            };
            match (frame.header.is_event, frame.header.is_request) {
                (false, true) => self.handle_request(now, frame)?,
                (true, true) => self.handle_event(now, &frame)?,
                // Answers to heartbeats; and we ask nothing else of a consumer.
                (_, false) => {}
            }
        }
        let is_left = !input.is_empty() || self.frames.is_skipping();
        self.has_backlog = n_frames == MAX_FRAMES && is_left;
        // Of what is left there may be all.
        self.unfinished.looked(now, n_frames != 0, is_left && !self.has_backlog);
        Ok(())
    }

    fn handle_request(&mut self, now: Instant, frame: Frame) -> Result<(), ProtoError> {
        let Frame { header, body } = frame;
        let serialization = header.serialization.of_body(&body);
        self.serialization = serialization;
        let mut to = ReplyTo { id: header.id, serialization, takes_attachments: false };
        if header.two_way && self.n_in_flight >= self.config.max_in_flight {
            self.stats.refused_requests += 1;
            let text = "too many requests of one connection wait for their reply";
            return self.refuse(now, to, Status::ServerThreadpoolExhausted, text);
        }
        if self.config.pass_through {
            self.n_in_flight += usize::from(header.two_way);
            self.events.push_back(ServerEvent::Body { to, two_way: header.two_way, body });
            return Ok(());
        }
        match Request::decode(serialization, body, &self.config.body) {
            Ok(request) => {
                to.takes_attachments = request.takes_reply_attachments();
                self.n_in_flight += usize::from(header.two_way);
                let two_way = header.two_way;
                self.events.push_back(ServerEvent::Request {
                    to,
                    two_way,
                    request: request.into(),
                });
                Ok(())
            }
            Err(error) => {
                self.stats.bad_requests += 1;
                if !header.two_way {
                    return Ok(());
                }
                self.refuse(now, to, Status::BadRequest, &error.to_string())
            }
        }
    }

    /// Answers a request that is too long, as Dubbo does: in its words, so that its users know it.
    #[cold]
    fn refuse_long(&mut self, now: Instant, header: &Header, first: u8) -> Result<(), ProtoError> {
        if header.is_event || !header.is_request {
            return Ok(());
        }
        self.stats.bad_requests += 1;
        self.events.push_back(ServerEvent::TooLong { len: header.body_len });
        if !header.two_way {
            return Ok(());
        }
        let serialization = header.serialization.of_body(&[first]);
        let to = ReplyTo { id: header.id, serialization, takes_attachments: false };
        let (len, max) = (header.body_len, self.config.max_body_len);
        let text = format!("Data length too large: {len}, max payload: {max}; nothing was called");
        self.refuse(now, to, Status::BadRequest, &text)
    }

    /// Answers a request that was never handed out.
    #[cold]
    fn refuse(
        &mut self,
        now: Instant,
        to: ReplyTo,
        status: Status,
        text: &str,
    ) -> Result<(), ProtoError> {
        self.check_output()?;
        self.liveness.wrote(now);
        reply::encode_error(to, status, text, &mut self.out);
        Ok(())
    }

    fn handle_event(&mut self, now: Instant, frame: &Frame) -> Result<(), ProtoError> {
        if frame.header.two_way {
            self.check_output()?;
            event::write_heartbeat_answer(frame, &mut self.out);
            self.liveness.wrote(now);
            self.stats.heartbeats_answered += 1;
        }
        Ok(())
    }

    fn begin_reply(&mut self, now: Instant) -> Result<(), ProtoError> {
        self.n_in_flight = self.n_in_flight.saturating_sub(1);
        let checked = self.check_output();
        self.is_finished |= checked.is_err();
        checked?;
        self.liveness.wrote(now);
        Ok(())
    }

    fn check_output(&self) -> Result<(), ProtoError> {
        let (buffered, max) = (self.out.len(), self.config.max_buffered_bytes);
        if buffered < max { Ok(()) } else { Err(ProtoError::OutputFull { buffered, max }) }
    }

    const fn event_id(&mut self) -> RequestId {
        self.n_events_sent = self.n_events_sent.wrapping_add(1);
        RequestId::without_slot(self.n_events_sent)
    }
}

#[cfg(test)]
mod tests;
