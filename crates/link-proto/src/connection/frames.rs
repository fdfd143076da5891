//! Takes frames off the front of the input and hands each to what it is about.
//!
//! Invariants:
//! - A frame leaves the input whole or not at all.
//! - What compressed frames unpack to counts as input: one call handles a bounded amount of it,
//!   and the rest waits.
//! - One call leads to a bounded number of events. The frames behind them wait in the input.

use super::InPlace;
use super::client::ClientSide;
use super::core::check_opaque;
use super::server::ServerSide;
use super::streams::COPIED_LEN;
use super::{Connection, ConnectionSide};
use crate::header::{FrameKind, HEADER_LEN, Header};
use crate::reader::Reader;
use crate::{CallId, Event, GoAwayReason, LinkError, Payload};
use bytes::{Buf, BytesMut};
use std::time::Instant;

/// Compressed frames are left for the next call once what those before them held is this long:
/// about as much as a driver reads at a time, since a peer can say in 500 bytes what unpacks to
/// 128 KiB.
const MAX_UNPACKED_LEN: usize = 1024 * 1024;

/// Frames are left for the next call while so many events wait: a peer can cause one by 24 bytes,
/// and each takes several times as much. More than a slice of events, so that nobody waits longer.
pub(super) const MAX_EVENTS: usize = 1024;

/// What was at the front of the input.
enum Handled {
    /// A frame, which was handled.
    Frame,
    /// No whole frame.
    Nothing,
    /// A compressed one, which is still there.
    Compressed,
}

/// What compressed frames held in one call.
struct Unpacked {
    /// What is left of the last one.
    raw: BytesMut,
    len: usize,
}

impl<T> Connection<T> {
    /// Handles all whole frames at the front of `input`.
    pub(super) fn handle_frames(
        &mut self,
        now: Instant,
        input: &mut BytesMut,
        in_place: &mut impl InPlace<T>,
    ) -> Result<(), LinkError> {
        let mut unpacked = Unpacked { raw: BytesMut::new(), len: 0 };
        loop {
            if MAX_EVENTS <= self.core.events.len() {
                self.core.has_backlog = true;
                return Ok(());
            }
            match self.handle_some(now, input, in_place)? {
                Handled::Frame => {}
                Handled::Nothing => return Ok(()),
                Handled::Compressed if MAX_UNPACKED_LEN <= unpacked.len => {
                    self.core.has_backlog = true;
                    return Ok(());
                }
                Handled::Compressed => {
                    self.handle_compressed(now, input, &mut unpacked, in_place)?;
                }
            }
        }
    }

    /// Handles what can be handled in place, and then one frame. Always inlined: with its second
    /// caller, which is rare, it would become a call in the hot loop of the first.
    #[inline(always)]
    fn handle_some(
        &mut self,
        now: Instant,
        input: &mut BytesMut,
        in_place: &mut impl InPlace<T>,
    ) -> Result<Handled, LinkError> {
        let handled_len = self.handle_in_place(input, in_place);
        if handled_len != 0 {
            input.advance(handled_len);
        }
        self.handle_frame(now, input)
    }

    /// Handles the frames inside of the COMPRESSED that is whole at the front of `input`.
    #[inline(never)]
    fn handle_compressed(
        &mut self,
        now: Instant,
        input: &mut BytesMut,
        unpacked: &mut Unpacked,
        in_place: &mut impl InPlace<T>,
    ) -> Result<(), LinkError> {
        let body_len = input.first_chunk().map_or(0, |head| Header::parse(head).body_len as usize);
        let body = input.get(HEADER_LEN..HEADER_LEN + body_len).unwrap_or_default();
        let raw = &mut unpacked.raw;
        self.core.meter.unpack(body, raw)?;
        input.advance(HEADER_LEN + body_len);
        let raw_len = raw.len();
        unpacked.len += raw_len;
        while !raw.is_empty() {
            let rule = match self.handle_some(now, raw, in_place)? {
                Handled::Frame => continue,
                Handled::Nothing if raw.is_empty() => break,
                Handled::Nothing => "it must hold whole frames",
                Handled::Compressed => "it must not hold another one",
            };
            return Err(LinkError::BadCompressed { raw_len, rule });
        }
        Ok(())
    }

    /// Handles the first frame of `input`, but for a compressed one.
    #[inline]
    fn handle_frame(&mut self, now: Instant, input: &mut BytesMut) -> Result<Handled, LinkError> {
        let Some(head) = input.first_chunk::<HEADER_LEN>() else {
            return Ok(Handled::Nothing);
        };
        let header = Header::parse(head);
        if self.core.peer.is_none() && header.kind != FrameKind::Hello as u8 {
            let first = header.body_len.to_be_bytes();
            return Err(LinkError::NotHello { kind: header.kind, first });
        }
        let kind = header.check()?;
        let body_len = header.body_len as usize;
        if input.len() < HEADER_LEN + body_len {
            return Ok(Handled::Nothing);
        }
        let Some(kind) = kind else {
            input.advance(HEADER_LEN + body_len);
            return Ok(Handled::Frame);
        };
        match kind {
            FrameKind::Request | FrameKind::Response | FrameKind::Define => {
                let mut body = input.split_to(HEADER_LEN + body_len);
                body.advance(HEADER_LEN);
                self.handle_body(&header, kind, body)?;
            }
            FrameKind::Compressed if !self.core.has_lz4 => {
                return Err(LinkError::UnknownKind { kind: header.kind });
            }
            FrameKind::Compressed => return Ok(Handled::Compressed),
            FrameKind::Item if body_len > COPIED_LEN => {
                let mut body = input.split_to(HEADER_LEN + body_len);
                body.advance(HEADER_LEN);
                self.handle_item(&header, Payload::Bytes(body.freeze()))?;
            }
            _ => {
                let body = input.get(HEADER_LEN..HEADER_LEN + body_len).unwrap_or_default();
                self.handle_slice(now, &header, kind, body)?;
                input.advance(HEADER_LEN + body_len);
            }
        }
        Ok(Handled::Frame)
    }

    /// Frames whose bodies are kept.
    #[inline]
    fn handle_body(
        &mut self,
        header: &Header,
        kind: FrameKind,
        body: BytesMut,
    ) -> Result<(), LinkError> {
        let core = &mut self.core;
        match (&mut self.side, kind) {
            (ConnectionSide::Client(client), FrameKind::Response) => {
                client.handle_response(core, header, body)
            }
            (ConnectionSide::Server(server), FrameKind::Request) => {
                server.handle_request(core, header, body)
            }
            (ConnectionSide::Client(client), FrameKind::Define) => {
                client.handle_ack(core, header, &body)
            }
            (ConnectionSide::Server(server), FrameKind::Define) => {
                server.handle_define(core, header, &body.freeze())
            }
            _ => Err(LinkError::Unexpected { kind: header.kind }),
        }
    }

    /// Frames whose bodies are read in place.
    fn handle_slice(
        &mut self,
        now: Instant,
        header: &Header,
        kind: FrameKind,
        body: &[u8],
    ) -> Result<(), LinkError> {
        let core = &mut self.core;
        match (&mut self.side, kind) {
            (ConnectionSide::Client(client), FrameKind::Chunk) => {
                client.handle_chunk(core, header, body)
            }
            (ConnectionSide::Server(server), FrameKind::Chunk) => {
                server.handle_chunk(core, header, body)
            }
            (ConnectionSide::Server(server), FrameKind::Cancel) => {
                server.handle_cancel(core, CallId::from_wire(header.id))
            }
            (ConnectionSide::Server(_), FrameKind::Demand) => {
                ServerSide::handle_demand(core, header, body)
            }
            (ConnectionSide::Client(client), FrameKind::Credit) => {
                client.handle_credit(core, header, body)
            }
            (ConnectionSide::Client(_), FrameKind::Pause) => {
                ClientSide::handle_pause(core, header, body)
            }
            (side, FrameKind::Hello) => {
                core.handle_hello(now, header, body)?;
                match side {
                    ConnectionSide::Client(client) => client.handle_ready(core),
                    ConnectionSide::Server(server) => server.handle_ready(core),
                }
                Ok(())
            }
            (_, FrameKind::Ping) => core.handle_ping(header, body),
            (_, FrameKind::Pong) => check_opaque(header, body),
            (_, FrameKind::Item) => self.handle_item(header, Payload::Slice(body)),
            (_, FrameKind::ItemCredit) => self.handle_item_credit(header, body),
            (_, FrameKind::GoAway) => self.handle_go_away(header, body),
            _ => Err(LinkError::Unexpected { kind: header.kind }),
        }
    }

    fn handle_go_away(&mut self, header: &Header, body: &[u8]) -> Result<(), LinkError> {
        let text = Reader::new(header.kind, body).rest_text()?.to_owned();
        let reason = GoAwayReason(header.status);
        if reason.is_fatal() {
            self.core.events.push_back(Event::GoAway { reason, text });
            return Err(LinkError::PeerFailed { reason: reason.0 });
        }
        match &mut self.side {
            ConnectionSide::Client(client) => client.close(reason),
            ConnectionSide::Server(server) => {
                server.handle_client_gone(&mut self.core, header.kind)?;
            }
        }
        self.core.events.push_back(Event::GoAway { reason, text });
        Ok(())
    }
}
