//! Takes frames off the front of the input and hands each to what it is about.
//!
//! Invariant: a frame leaves the input whole or not at all.

use super::core::check_opaque;
use super::streams::COPIED_LEN;
use super::{Connection, Side};
use crate::header::{HEADER_LEN, Header, Kind};
use crate::reader::Reader;
use crate::{CallId, Event, GoAwayReason, LinkError, Payload};
use bytes::{Buf, BytesMut};
use std::time::Instant;

impl<T> Connection<T> {
    /// Handles the first frame of `input`; `false` if it is not whole.
    #[inline]
    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        input: &mut BytesMut,
    ) -> Result<bool, LinkError> {
        let Some(head) = input.first_chunk::<HEADER_LEN>() else {
            return Ok(false);
        };
        let header = Header::parse(head);
        if self.core.peer.is_none() && header.kind != Kind::Hello as u8 {
            return Err(LinkError::NotHello { kind: header.kind });
        }
        let kind = header.check()?;
        let body_len = header.body_len as usize;
        if input.len() < HEADER_LEN + body_len {
            return Ok(false);
        }
        let Some(kind) = kind else {
            input.advance(HEADER_LEN + body_len);
            return Ok(true);
        };
        match kind {
            Kind::Request | Kind::Response | Kind::Define => {
                let mut body = input.split_to(HEADER_LEN + body_len);
                body.advance(HEADER_LEN);
                self.handle_body(&header, kind, body)?;
            }
            Kind::Item if body_len > COPIED_LEN => {
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
        Ok(true)
    }

    /// Frames whose bodies are kept.
    #[inline]
    fn handle_body(
        &mut self,
        header: &Header,
        kind: Kind,
        body: BytesMut,
    ) -> Result<(), LinkError> {
        let core = &mut self.core;
        match (&mut self.side, kind) {
            (Side::Client(client), Kind::Response) => client.handle_response(core, header, body),
            (Side::Server(server), Kind::Request) => server.handle_request(core, header, body),
            (Side::Client(client), Kind::Define) => client.handle_ack(core, header, &body),
            (Side::Server(server), Kind::Define) => {
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
        kind: Kind,
        body: &[u8],
    ) -> Result<(), LinkError> {
        let core = &mut self.core;
        match (&mut self.side, kind) {
            (Side::Client(client), Kind::Chunk) => client.handle_chunk(core, header, body),
            (Side::Server(server), Kind::Chunk) => server.handle_chunk(core, header, body),
            (Side::Server(server), Kind::Cancel) => {
                server.handle_cancel(core, CallId::from_wire(header.id))
            }
            (Side::Client(client), Kind::Credit) => client.handle_credit(core, header, body),
            (side, Kind::Hello) => {
                core.handle_hello(now, header, body)?;
                match side {
                    Side::Client(client) => client.handle_ready(core),
                    Side::Server(server) => server.handle_ready(core),
                }
                Ok(())
            }
            (_, Kind::Ping) => core.handle_ping(header, body),
            (_, Kind::Pong) => check_opaque(header, body),
            (_, Kind::Item) => self.handle_item(header, Payload::Slice(body)),
            (_, Kind::ItemCredit) => self.handle_item_credit(header, body),
            (_, Kind::GoAway) => self.handle_go_away(header, body),
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
            Side::Client(client) => client.close(reason),
            Side::Server(server) => server.handle_client_gone(&mut self.core, header.kind)?,
        }
        self.core.events.push_back(Event::GoAway { reason, text });
        Ok(())
    }
}
