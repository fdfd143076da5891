//! [`ServerConnection`] as the driver sees it.

use std::time::Instant;

use bytes::BytesMut;
use dubbo_proto::{
    ProtoError, ReplyKind, ReplyTo, ServerConfig, ServerConnection, ServerEvent, Status,
};
use wire::{Machine, TimedEvent};

use crate::memory::Buffers;

/// Requests of one connection that may wait for their reply. Who has more in flight is read when
/// some have theirs. It is several times as many as an endpoint is sent by default.
pub(super) const MAX_IN_FLIGHT: usize = 16 * 1024;
/// Requests of one connection that nobody waits for, and that wait for an endpoint. More are read
/// when some have gone.
pub(super) const MAX_WAITING_ONE_WAY: usize = 4096;
/// What a request in flight takes beside its bytes: its place in tables, here and where it was
/// sent, and its answer if that is an error.
const REQUEST_LEN: usize = 1024;
/// What the task of a request that waits takes, beside the request.
const TASK_LEN: usize = 3072;
/// Requests are counted by so many: few of them, or one more and one less, cost no look at what is
/// shared.
const COUNTED_STEP: usize = 32;

/// A consumer's connection.
pub(super) struct DubboServer {
    connection: ServerConnection,
    /// Requests that wait in a task, and those of them that nobody waits for.
    n_waiting: usize,
    n_waiting_one_way: usize,
    read_at: Instant,
    /// The consumer does not take what it asked for: nothing is worth waiting for.
    is_broken: bool,
}

impl DubboServer {
    pub(super) fn new(config: ServerConfig, now: Instant) -> Self {
        let connection = ServerConnection::new(config, now);
        let (n_waiting, n_waiting_one_way) = (0, 0);
        Self { connection, n_waiting, n_waiting_one_way, read_at: now, is_broken: false }
    }

    #[cfg(test)]
    pub(super) fn n_waiting_one_way(&self) -> usize {
        self.n_waiting_one_way
    }

    /// A request waits in a task from now on.
    pub(super) fn begin_wait(&mut self, one_way: bool) {
        self.n_waiting += 1;
        self.n_waiting_one_way += usize::from(one_way);
    }

    /// One that waited has gone, or was given up.
    pub(super) fn end_wait(&mut self, one_way: bool) {
        self.n_waiting -= 1;
        self.n_waiting_one_way -= usize::from(one_way);
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

    fn in_flight_len(&self) -> usize {
        let counted = |n: usize| n / COUNTED_STEP * COUNTED_STEP;
        counted(self.connection.in_flight()) * REQUEST_LEN + counted(self.n_waiting) * TASK_LEN
    }

    fn note_unread(&mut self, now: Instant) {
        self.connection.note_unread(now);
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

    fn has_backlog(&self) -> bool {
        self.connection.has_backlog()
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
            && self.connection.in_flight() < MAX_IN_FLIGHT
            && self.n_waiting_one_way < MAX_WAITING_ONE_WAY
    }
}
