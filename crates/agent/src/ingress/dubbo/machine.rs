//! [`ServerConnection`] as the driver sees it.

use std::time::Instant;

use bytes::BytesMut;
use dubbo_proto::{
    ProtoError, ReplyKind, ReplyTo, ServerConfig, ServerConnection, ServerEvent, Status,
};
use wire::{Machine, TimedEvent};

use crate::memory::Buffers;

/// A consumer's connection.
pub(super) struct DubboServer {
    connection: ServerConnection,
    read_at: Instant,
    /// The consumer does not take what it asked for: nothing is worth waiting for.
    is_broken: bool,
}

impl DubboServer {
    pub(super) fn new(config: ServerConfig, now: Instant) -> Self {
        let connection = ServerConnection::new(config, now);
        Self { connection, read_at: now, is_broken: false }
    }

    /// Passes a provider's reply on.
    #[inline]
    pub(super) fn reply_body(&mut self, now: Instant, to: ReplyTo, status: Status, body: &[u8]) {
        self.is_broken |= self.connection.reply_body(now, to, status, body).is_err();
    }

    /// Answers for itself.
    pub(super) fn reply(&mut self, now: Instant, to: ReplyTo, kind: ReplyKind, value: &[u8]) {
        self.is_broken |= self.connection.reply(now, to, kind, value, &[]).is_err();
    }

    /// Says why there is no reply of a provider.
    pub(super) fn reply_error(&mut self, now: Instant, to: ReplyTo, status: Status, text: &str) {
        self.is_broken |= self.connection.reply_error(now, to, status, text).is_err();
    }

    /// Asks the consumer to send nothing new.
    pub(super) fn send_readonly(&mut self, now: Instant) {
        self.connection.send_readonly(now);
    }

    /// Requests that wait for their reply.
    pub(super) fn in_flight(&self) -> usize {
        self.connection.in_flight()
    }

    /// When the last bytes came.
    pub(super) fn read_at(&self) -> Instant {
        self.read_at
    }

    /// Closes the connection when what waits is written.
    pub(super) fn close(&mut self) {
        self.connection.close();
    }
}

impl Buffers for DubboServer {
    const IS_ASKED: bool = true;

    fn waiting_len(&self) -> usize {
        self.connection.buffered_bytes()
    }

    /// A frame that is not whole is in the driver's input.
    fn assembly_len(&self) -> usize {
        0
    }

    fn shed(&mut self, now: Instant, input: &mut BytesMut, text: &str) -> Result<bool, ProtoError> {
        self.connection.shed_frame(now, input, text)
    }
}

impl Machine for DubboServer {
    type Event = TimedEvent<ServerEvent>;
    type Error = ProtoError;

    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), ProtoError> {
        self.read_at = now;
        self.connection.handle_bytes(now, input)
    }

    fn room_for(&self, input: &BytesMut) -> Option<usize> {
        self.connection.front_len(input)
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        let event = self.connection.poll_event()?;
        self.is_broken |= matches!(event, ServerEvent::Dead(_));
        Some(TimedEvent { read_at: self.read_at, event })
    }

    fn transmit(&mut self) -> &mut BytesMut {
        self.connection.transmit()
    }

    fn is_finished(&self) -> bool {
        self.connection.is_finished()
    }

    fn is_broken(&self) -> bool {
        self.is_broken
    }

    fn wants_input(&self) -> bool {
        self.connection.wants_input()
    }
}
