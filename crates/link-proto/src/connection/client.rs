//! The client's half of a connection: routes it defined and calls it waits for.
//!
//! Invariant: whatever comes for a call that has ended finds nothing and is dropped.

use super::calls::{Calls, OutgoingState};
use super::core::Core;
use crate::assembly::PartialMessage;
use crate::header::{FrameKind, Header, MAX_TEXT_LEN, WHOLE_LINK, flags};
use crate::message::{ResponseHead, decode_response, duration_ms, timeout_ms};
use crate::outbox::FrameHead;
use crate::reader::Reader;
use crate::{
    CallId, Config, Credits, Event, GoAwayReason, LinkError, Meta, PoolId, RequestOut, RouteDef,
    RouteId, SendError, Status, meta, route,
};
use bytes::{Bytes, BytesMut};
use std::time::Instant;

#[derive(Debug)]
pub(super) struct ClientSide<T> {
    calls: Calls<T>,
    /// Most calls in flight: what the server granted, within our own bound.
    window: u32,
    /// How often each route was defined again: an answer to an older definition is dropped.
    routes: Vec<u64>,
    closing: Option<GoAwayReason>,
    go_away_sent: bool,
}

/// What [`ClientSide::drain`] gives.
pub(super) type Tokens<T> = std::vec::IntoIter<T>;

/// A server has no tokens.
pub(super) fn no_tokens<T>() -> Tokens<T> {
    Vec::new().into_iter()
}

impl<T> ClientSide<T> {
    pub(super) fn new() -> Self {
        Self {
            calls: Calls::new(),
            window: 0,
            routes: Vec::new(),
            closing: None,
            go_away_sent: false,
        }
    }

    #[inline]
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.calls.earliest()
    }

    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.calls.in_flight()
    }

    #[inline]
    pub(super) fn window(&self) -> usize {
        self.window as usize
    }

    #[inline]
    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    pub(super) fn has_said_go_away(&self) -> bool {
        self.go_away_sent
    }

    pub(super) fn is_done(&self) -> bool {
        self.go_away_sent
    }

    /// The server said HELLO, and with it how many calls it takes.
    pub(super) fn handle_ready(&mut self, core: &Core<T>) {
        let granted = core.peer.as_ref().map_or(0, |peer| peer.window);
        self.set_granted(granted, &core.config);
    }

    fn set_granted(&mut self, granted: u32, config: &Config) {
        self.window = granted.min(config.window);
    }

    #[inline]
    pub(super) fn can_send(&self, core: &Core<T>) -> Result<(), SendError> {
        if core.failed.is_some() || self.closing.is_some() {
            Err(SendError::Closing)
        } else if core.peer.is_none() {
            Err(SendError::NotReady)
        } else if self.calls.in_flight() >= self.window() {
            Err(SendError::NoCredit)
        } else if core.is_over_buffered() {
            Err(SendError::BufferFull)
        } else {
            Ok(())
        }
    }

    pub(super) fn define(
        &mut self,
        core: &mut Core<T>,
        def: &RouteDef,
    ) -> Result<RouteId, SendError> {
        if core.failed.is_some() || self.closing.is_some() {
            return Err(SendError::Closing);
        }
        let peer = core.peer.as_ref().ok_or(SendError::NotReady)?;
        let route = self.n_routes();
        let max = peer.max_routes;
        if route >= max {
            return Err(SendError::RoutesFull { max });
        }
        core.outbox.frame(|out| route::encode(def, route, 0, out))?;
        self.routes.push(0);
        Ok(RouteId(route))
    }

    pub(super) fn redefine(
        &mut self,
        core: &mut Core<T>,
        route: RouteId,
        def: &RouteDef,
    ) -> Result<(), SendError> {
        if core.failed.is_some() || self.closing.is_some() {
            return Err(SendError::Closing);
        }
        let Some(round) = self.routes.get_mut(route.index()) else {
            return Err(SendError::UnknownRoute);
        };
        // Long requests on the old route have to be out, whole, before its number changes hands.
        let (calls, streams) = (&mut self.calls, &mut core.streams);
        core.outbox.flush_long(|id| {
            calls.sent(CallId::from_wire(id));
            streams.release(CallId::from_wire(id))
        });
        core.outbox.frame(|out| route::encode(def, route.0, *round + 1, out))?;
        *round += 1;
        Ok(())
    }

    fn n_routes(&self) -> u32 {
        u32::try_from(self.routes.len()).unwrap_or(u32::MAX)
    }

    #[inline]
    pub(super) fn send_request(
        &mut self,
        core: &mut Core<T>,
        now: Instant,
        request: RequestOut<'_>,
        token: T,
    ) -> Result<CallId, (T, SendError)> {
        let meta_len = match self.check_request(core, &request) {
            Ok(meta_len) => meta_len,
            Err(error) => return Err((token, error)),
        };
        let deadline = if request.one_way { None } else { request.deadline };
        let state =
            if request.one_way { OutgoingState::OneWay } else { OutgoingState::Waiting(token) };
        let id = self.calls.begin(deadline, state);
        let timeout_ms = match request.timeout {
            Some(timeout) => duration_ms(timeout),
            None => timeout_ms(request.deadline, now),
        };
        let fields = u64::from(request.route.0) << 32 | u64::from(timeout_ms);
        let head = FrameHead {
            kind: FrameKind::Request,
            flags: request.flags(),
            codec: request.codec,
            status: 0,
            id: id.to_wire(),
            fields: Some(fields.to_be_bytes()),
        };
        let is_out = core.outbox.message(head, request.meta, meta_len, request.payload);
        if is_out && request.one_way {
            self.calls.end(id.slot() as usize);
        }
        core.open_stream(id, head.flags, true, !is_out);
        Ok(id)
    }

    /// Checks that the call may be sent; gives the length of its metadata.
    #[inline]
    fn check_request(&self, core: &Core<T>, request: &RequestOut<'_>) -> Result<usize, SendError> {
        self.can_send(core)?;
        if request.route.index() >= self.routes.len() {
            return Err(SendError::UnknownRoute);
        }
        let len = request.payload.as_slice().len();
        let max = core.peer.as_ref().map_or(0, |peer| peer.max_message_len as usize);
        if len > max {
            return Err(SendError::TooLarge { len, max });
        }
        if request.stream_in | request.stream_out {
            check_streams(core, request)?;
        }
        meta::encoded_len(request.meta)
    }

    /// Frees a slot; gives its token after giving back what parts of an answer had reserved.
    fn release_token(&mut self, core: &mut Core<T>, id: CallId) -> Option<T> {
        core.end_stream(id);
        match self.calls.end(id.slot() as usize) {
            OutgoingState::Waiting(token) => Some(token),
            OutgoingState::Receiving(token, partial) => {
                core.budget.end(&partial);
                Some(token)
            }
            OutgoingState::Free | OutgoingState::OneWay => None,
        }
    }

    /// The last chunk of a long request is in the buffer.
    pub(super) fn sent(&mut self, id: CallId) {
        self.calls.sent(id);
    }

    pub(super) fn cancel(&mut self, core: &mut Core<T>, id: CallId) -> Option<T> {
        self.calls.find(id)?;
        let token = self.release_token(core, id);
        if core.failed.is_none() {
            tell_cancel(core, id);
        }
        token
    }

    /// Ends the calls whose deadline has passed.
    pub(super) fn expire(&mut self, core: &mut Core<T>, now: Instant) {
        for id in self.calls.expired(now) {
            if let Some(token) = self.release_token(core, id) {
                core.events.push_back(Event::Expired { token });
            }
            tell_cancel(core, id);
        }
    }

    #[inline]
    pub(super) fn handle_response(
        &mut self,
        core: &mut Core<T>,
        header: &Header,
        body: BytesMut,
    ) -> Result<(), LinkError> {
        let (head, total, payload) = decode_response(header, body)?;
        let id = CallId::from_wire(header.id);
        let Some(slot) = self.calls.find(id) else {
            return Ok(());
        };
        match self.calls.state(slot) {
            Some(OutgoingState::Waiting(_)) => {}
            // Two answers, or an answer to a one-way call.
            _ => return Err(LinkError::Unexpected { kind: header.kind }),
        }
        let len = total.unwrap_or(payload.len());
        let max = core.config.max_message_len as usize;
        if len > max {
            let text = format!("answer of {len} bytes is over the caller's limit of {max}");
            self.refuse_response(core, id, total.is_some(), text);
            return Ok(());
        }
        if let Some(total) = total {
            let partial = PartialMessage::new(head, total, &payload)?;
            return self.begin_response(core, id, slot, partial);
        }
        core.end_stream(id);
        if core.outbox.has_long() {
            core.outbox.remove(header.id);
        }
        if let OutgoingState::Waiting(token) = self.calls.end(slot) {
            core.events.push_back(response(token, head, payload));
        }
        Ok(())
    }

    /// Ends a call whose answer is here, whole; gives its token. `None` if it is not as it should
    /// be.
    #[inline]
    pub(super) fn take_waiting(&mut self, core: &mut Core<T>, id: CallId) -> Option<T> {
        let slot = self.calls.find(id)?;
        if !matches!(self.calls.state(slot), Some(OutgoingState::Waiting(_))) {
            return None;
        }
        core.end_stream(id);
        match self.calls.end(slot) {
            OutgoingState::Waiting(token) => Some(token),
            _ => None,
        }
    }

    /// Keeps the first part of a long answer.
    fn begin_response(
        &mut self,
        core: &mut Core<T>,
        id: CallId,
        slot: usize,
        partial: PartialMessage<ResponseHead>,
    ) -> Result<(), LinkError> {
        let total = partial.total();
        if !core.budget.reserve(total) {
            let text = format!("no room for an answer of {total} bytes beside the others");
            self.refuse_response(core, id, true, text);
            return Ok(());
        }
        core.budget.begin(&partial);
        // The server has answered already: it needs no more of the request.
        core.outbox.remove(id.to_wire());
        core.end_stream(id);
        if let Some(state) = self.calls.state_mut(slot) {
            *state = match std::mem::replace(state, OutgoingState::Free) {
                OutgoingState::Waiting(token) => OutgoingState::Receiving(token, Box::new(partial)),
                other => other,
            };
        }
        Ok(())
    }

    /// Ends one call whose answer cannot be taken. The call was done, so it is not "overloaded".
    fn refuse_response(&mut self, core: &mut Core<T>, id: CallId, has_more: bool, text: String) {
        if has_more {
            tell_cancel(core, id);
        } else {
            core.outbox.remove(id.to_wire());
        }
        if let Some(token) = self.release_token(core, id) {
            let head = ResponseHead { status: Status::TOO_LARGE, codec: 0, meta: Meta::default() };
            core.events.push_back(response(token, head, text.into()));
        }
    }

    /// Gives up the answer in parts that holds most memory. `false` if there is none.
    pub(super) fn shed_parts(&mut self, core: &mut Core<T>, text: &str) -> bool {
        let Some(id) = self.calls.largest_partial() else { return false };
        self.refuse_response(core, id, true, text.to_owned());
        true
    }

    /// Ends one call of which an item cannot be taken.
    pub(super) fn refuse_item(&mut self, core: &mut Core<T>, id: CallId, text: String) {
        self.refuse_response(core, id, true, text);
    }

    /// Whether the call has not ended.
    pub(super) fn is_open(&self, id: CallId) -> bool {
        self.calls.find(id).is_some()
    }

    pub(super) fn handle_chunk(
        &mut self,
        core: &mut Core<T>,
        header: &Header,
        part: &[u8],
    ) -> Result<(), LinkError> {
        let last = header.flags & flags::MORE == 0;
        let Some(slot) = self.calls.find(CallId::from_wire(header.id)) else {
            return Ok(());
        };
        let Some(OutgoingState::Receiving(_, partial)) = self.calls.state_mut(slot) else {
            return Err(LinkError::Unexpected { kind: header.kind });
        };
        core.budget.push(partial, part, last)?;
        if last && let OutgoingState::Receiving(token, partial) = self.calls.end(slot) {
            core.budget.end(&partial);
            let (head, payload) = partial.finish();
            core.events.push_back(response(token, head, payload));
        }
        Ok(())
    }

    /// The server's answer to a DEFINE.
    pub(super) fn handle_ack(
        &mut self,
        core: &mut Core<T>,
        header: &Header,
        body: &[u8],
    ) -> Result<(), LinkError> {
        if header.flags & flags::ACK == 0 {
            return Err(LinkError::Unexpected { kind: header.kind });
        }
        let mut reader = Reader::new(header.kind, body);
        let route = reader.u32()?;
        let status = Status(header.status);
        let pool = match status {
            Status::OK if core.has_credits => PoolId::from_wire(reader.u32()?)?,
            _ => None,
        };
        let text = reader.rest_text()?;
        if text.len() > MAX_TEXT_LEN {
            let (kind, len, max) = (header.kind, text.len(), MAX_TEXT_LEN);
            return Err(LinkError::FieldTooLong { kind, what: "text", len, max });
        }
        match self.routes.get(route as usize) {
            None => return Err(LinkError::UnknownRoute { route, defined: self.n_routes() }),
            Some(round) if *round != header.id => return Ok(()),
            Some(_) => {}
        }
        let route = RouteId(route);
        core.events.push_back(match status {
            Status::OK => Event::RouteAccepted { route, codec: header.codec, pool },
            _ => Event::RouteRefused { route, status, text: text.to_owned() },
        });
        Ok(())
    }

    pub(super) fn handle_credit(
        &mut self,
        core: &mut Core<T>,
        header: &Header,
        body: &[u8],
    ) -> Result<(), LinkError> {
        let mut reader = Reader::new(header.kind, body);
        let (scope, granted) = (reader.u32()?, reader.u32()?);
        reader.finish()?;
        match scope {
            WHOLE_LINK => {}
            pool if core.has_credits => {
                let credits = Credits::from_wire(granted, header.flags);
                return Self::handle_pool_credit(core, pool, credits);
            }
            _ => return Err(LinkError::BadPool { pool: scope, max: 0 }),
        }
        self.set_granted(granted, &core.config);
        core.events.push_back(Event::Window(self.window));
        Ok(())
    }

    /// Sends no new calls, and GOAWAY when the last one has ended.
    pub(super) fn close(&mut self, reason: GoAwayReason) {
        self.closing.get_or_insert(reason);
    }

    /// Says GOAWAY, a client's last frame, once nothing is in flight.
    #[inline]
    pub(super) fn settle(&mut self, core: &mut Core<T>) {
        let Some(reason) = self.closing else {
            return;
        };
        if self.calls.in_flight() == 0 && !self.go_away_sent && core.failed.is_none() {
            core.go_away(reason, "");
            self.go_away_sent = true;
        }
    }

    /// Takes all tokens.
    pub(super) fn drain(&mut self, core: &mut Core<T>) -> Tokens<T> {
        let mut tokens = Vec::with_capacity(self.calls.in_flight());
        for id in self.calls.open_ids() {
            tokens.extend(self.release_token(core, id));
        }
        tokens.into_iter()
    }

    pub(super) fn check_invariants(&self, core: &Core<T>) {
        let items = core.streams.check_invariants(core.outbox.streams());
        debug_assert_eq!(self.calls.check_invariants() + items, core.budget.used());
        let is_waiting = |id: CallId| {
            self.calls.find(id).is_some_and(|slot| {
                matches!(self.calls.state(slot), Some(OutgoingState::Waiting(_)))
            })
        };
        debug_assert!(core.streams.ids().all(is_waiting));
    }
}

#[cold]
fn check_streams<T>(core: &Core<T>, request: &RequestOut<'_>) -> Result<(), SendError> {
    if request.one_way {
        Err(SendError::OneWayStream)
    } else if !core.has_streams {
        Err(SendError::NoStreams)
    } else {
        Ok(())
    }
}

fn response<T>(token: T, head: ResponseHead, payload: Bytes) -> Event<T> {
    let ResponseHead { status, codec, meta } = head;
    Event::Response { token, status, codec, meta, payload }
}

/// Tells the server that a call is given up, unless it has seen nothing of it.
fn tell_cancel<T>(core: &mut Core<T>, id: CallId) {
    if core.outbox.remove(id.to_wire()) {
        let header =
            Header { kind: FrameKind::Cancel as u8, id: id.to_wire(), ..Header::default() };
        core.outbox.control(header, &[]);
    }
}
