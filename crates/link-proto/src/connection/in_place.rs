//! Calls that begin and end while bytes are read: answered, or taken, where they lie in the input.
//! They cost no event, no slot and no count of the bytes that they lie in.
//!
//! Invariant: whatever is not the plain case (a message in parts, metadata, streams, a mistake of
//! the peer, too much that waits to be written) is left to the ordinary way, and so ends as if
//! this were not here.

use bytes::BytesMut;

use super::client::ClientSide;
use super::core::Core;
use super::server::ServerSide;
use super::{Connection, ConnectionSide};
use crate::header::{FrameKind, HEADER_LEN, Header, MAX_PART_LEN, flags};
use crate::outbox::LongAnswer;
use crate::{CallId, RouteId, Status};

/// Who handles calls in place, in [`Connection::handle_bytes_with`].
pub trait InPlace<T> {
    /// Server: whether there are calls that [`InPlace::request`] answers.
    #[inline]
    fn takes_requests(&self) -> bool {
        false
    }

    /// Server: appends the reply to a call to `reply`, and says its status and codec. `None`: the
    /// call comes as an [`Event::Request`](crate::Event::Request); what was appended is dropped.
    #[inline]
    fn request(
        &mut self,
        route: RouteId,
        codec: u8,
        args: &[u8],
        reply: &mut BytesMut,
    ) -> Option<(Status, u8)> {
        let _ = (route, codec, args, reply);
        None
    }

    /// Client: whether [`InPlace::response`] wants answers; others come as
    /// [`Event::Response`](crate::Event::Response).
    #[inline]
    fn takes_responses(&self) -> bool {
        false
    }

    /// Client: the answer to a call.
    #[inline]
    fn response(&mut self, token: T, status: Status, codec: u8, payload: &[u8]) {
        let _ = (token, status, codec, payload);
    }
}

/// Nobody does: every call is an event.
pub(super) struct Nobody;

impl<T> InPlace<T> for Nobody {}

impl<T> Connection<T> {
    /// How many bytes at the front of `input` were calls that were handled.
    #[inline]
    pub(super) fn handle_in_place(
        &mut self,
        input: &[u8],
        in_place: &mut impl InPlace<T>,
    ) -> usize {
        let is_wanted = match &self.side {
            ConnectionSide::Server(_) => in_place.takes_requests(),
            ConnectionSide::Client(_) => in_place.takes_responses(),
        };
        if !is_wanted || self.core.peer.is_none() {
            return 0;
        }
        let mut rest = input;
        while let Some((head, body)) = rest.split_first_chunk::<HEADER_LEN>() {
            let header = Header::parse(head);
            let Some(body) = body.get(..header.body_len as usize) else { break };
            let is_handled = match &mut self.side {
                ConnectionSide::Server(server) => {
                    server.answer_in_place(&mut self.core, &header, body, in_place)
                }
                ConnectionSide::Client(client) => {
                    client.take_in_place(&mut self.core, &header, body, in_place)
                }
            };
            if !is_handled {
                break;
            }
            rest = rest.get(HEADER_LEN + body.len()..).unwrap_or_default();
        }
        input.len() - rest.len()
    }
}

impl ServerSide {
    #[inline]
    fn answer_in_place<T>(
        &mut self,
        core: &mut Core<T>,
        header: &Header,
        body: &[u8],
        in_place: &mut impl InPlace<T>,
    ) -> bool {
        let id = CallId::from_wire(header.id);
        let Some((route, args)) = body.split_first_chunk().and_then(|(route, body)| {
            let (_timeout, args) = body.split_first_chunk::<4>()?;
            Some((RouteId(u32::from_be_bytes(*route)), args))
        }) else {
            return false;
        };
        let is_plain = header.kind == FrameKind::Request as u8
            && header.flags & !flags::ONE_WAY == 0
            && args.len() <= MAX_PART_LEN.min(core.config.max_message_len as usize)
            && self.may_answer(id, route)
            && !core.is_over_buffered();
        if !is_plain {
            return false;
        }
        let mut answer = |reply: &mut BytesMut| in_place.request(route, header.codec, args, reply);
        if header.flags & flags::ONE_WAY != 0 {
            return answer(&mut BytesMut::new()).is_some();
        }
        let max = core.peer.as_ref().map_or(0, |peer| peer.max_message_len as usize);
        match core.outbox.reply_in_place(header.id, max.min(MAX_PART_LEN), answer) {
            None => false,
            Some(Ok(())) => true,
            Some(Err(LongAnswer { status, codec, payload })) => {
                self.answer_long(core, id, status, codec, payload);
                true
            }
        }
    }
}

impl<T> ClientSide<T> {
    #[inline]
    fn take_in_place(
        &mut self,
        core: &mut Core<T>,
        header: &Header,
        payload: &[u8],
        in_place: &mut impl InPlace<T>,
    ) -> bool {
        let is_plain = header.kind == FrameKind::Response as u8
            && header.flags == 0
            && payload.len() <= MAX_PART_LEN.min(core.config.max_message_len as usize)
            && !core.outbox.has_long();
        if !is_plain {
            return false;
        }
        let id = CallId::from_wire(header.id);
        let Some(token) = self.take_waiting(core, id) else { return false };
        in_place.response(token, Status(header.status), header.codec, payload);
        true
    }
}
