//! The server's half of a connection: routes it was told and calls it is to answer. Requests that
//! come in parts are in `parts`.
//!
//! Invariants:
//! - A slot is taken from a REQUEST's first frame until the last byte of its answer is in the
//!   buffer, or the client gave it up, or the call was refused.
//! - No slot is at or beyond the largest window that was ever granted.

mod partial_requests;

use self::partial_requests::Inbound;
use super::core::{Core, cut_text};
use crate::assembly::PartialMessage;
use crate::header::{FrameKind, Header, MAX_WINDOW, WHOLE_LINK, flags};
use crate::message::{RequestHead, decode_request};
use crate::outbox::FrameHead;
use crate::route::Ack;
use crate::{
    CallId, DefinedRoute, Event, GoAwayReason, LinkError, Reply, RouteId, Status, meta, route,
};
use bytes::{Bytes, BytesMut};
use std::time::Instant;

#[derive(Debug)]
pub(super) struct ServerSide {
    slots: Vec<IncomingSlot>,
    in_flight: usize,
    window: u32,
    /// Largest window granted so far: the client may not have seen a smaller one yet.
    max_window: u32,
    routes: Vec<Route>,
    /// No request that comes in parts is due before this.
    earliest_due: Option<Instant>,
    /// GOAWAY was sent: new calls are refused.
    closing: bool,
    /// The client's GOAWAY came: it sends no more calls.
    client_gone: bool,
}

#[derive(Debug)]
struct IncomingSlot {
    generation: u32,
    state: IncomingState,
}

#[derive(Debug)]
enum IncomingState {
    Free,
    /// Parts of the request came.
    Receiving(Box<Inbound>),
    /// The driver has it.
    Open,
    /// Chunks of the answer are still to be sent.
    Sending,
}

#[derive(Debug)]
struct Route {
    /// As the client counted this definition.
    round: u64,
    /// Without this calls are passed on; the driver answers the definition when it can.
    refused: Option<(Status, Box<str>)>,
}

impl ServerSide {
    pub(super) fn new(window: u32) -> Self {
        Self {
            slots: Vec::new(),
            in_flight: 0,
            window,
            max_window: window,
            routes: Vec::new(),
            earliest_due: None,
            closing: false,
            client_gone: false,
        }
    }

    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    #[inline]
    pub(super) fn window(&self) -> usize {
        self.window as usize
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing || self.client_gone
    }

    pub(super) fn is_done(&self) -> bool {
        self.closing && self.client_gone
    }

    pub(super) fn handle_define<T>(
        &mut self,
        core: &mut Core<T>,
        header: &Header,
        body: &Bytes,
    ) -> Result<(), LinkError> {
        if header.flags & flags::ACK != 0 || self.client_gone {
            return Err(LinkError::Unexpected { kind: header.kind });
        }
        let (route, def) = route::decode(body)?;
        let expected = u32::try_from(self.routes.len()).unwrap_or(u32::MAX);
        let max = core.config.max_routes;
        if route > expected || route >= max {
            return Err(LinkError::BadRouteNumber { route, expected, max });
        }
        let defined = Route { round: header.id, refused: None };
        match self.routes.get_mut(route as usize) {
            // The client has no more use for the old route of that number.
            Some(old) => *old = defined,
            None => self.routes.push(defined),
        }
        let route = DefinedRoute { id: RouteId(route), round: header.id };
        core.events.push_back(Event::Defined { route, def: Box::new(def) });
        Ok(())
    }

    pub(super) fn answer_route<T>(
        &mut self,
        core: &mut Core<T>,
        route: DefinedRoute,
        ack: Ack<'_>,
    ) {
        let Some(entry) = self.routes.get_mut(route.id.index()) else {
            debug_assert!(false, "only a defined route is answered");
            return;
        };
        let ack = Ack { text: cut_text(ack.text), ..ack };
        // What is said of an older definition says nothing of the newer one.
        if entry.round == route.round {
            entry.refused = (ack.status != Status::OK).then(|| (ack.status, ack.text.into()));
        }
        if core.failed.is_none() {
            core.outbox.frame(|out| route::encode_ack(route, ack, out));
        }
    }

    #[inline]
    pub(super) fn handle_request<T>(
        &mut self,
        core: &mut Core<T>,
        header: &Header,
        body: BytesMut,
    ) -> Result<(), LinkError> {
        let id = CallId::from_wire(header.id);
        let slot = self.free_slot(header, id)?;
        core.check_streams(header)?;
        let (head, total, payload) = decode_request(header, body)?;
        let len = total.unwrap_or(payload.len());
        if let Some((status, text)) = self.refusal(core, &head, len)? {
            refuse(core, id, head.is_one_way(), status, &text);
            return Ok(());
        }
        let Some(total) = total else {
            if !head.is_one_way() {
                self.occupy(slot, id, IncomingState::Open);
                core.open_stream(id, head.flags, false, false);
            }
            core.events.push_back(request(id, head, payload));
            return Ok(());
        };
        let partial = PartialMessage::new(head, total, &payload)?;
        self.begin_parts(core, slot, id, partial);
        Ok(())
    }

    /// Whether a call may be answered at once: nothing is wrong with it, and nothing else holds it
    /// up.
    #[inline]
    pub(super) fn may_answer(&self, id: CallId, route: RouteId) -> bool {
        let is_free = |slot: &IncomingSlot| matches!(slot.state, IncomingState::Free);
        !self.closing
            && !self.client_gone
            && id.slot() < self.max_window
            && self.slots.get(id.slot() as usize).is_none_or(is_free)
            && self.routes.get(route.index()).is_some_and(|route| route.refused.is_none())
    }

    /// Answers a call that has taken no slot yet, with a payload that takes more than one frame.
    #[cold]
    pub(super) fn answer_long<T>(
        &mut self,
        core: &mut Core<T>,
        id: CallId,
        status: Status,
        codec: u8,
        payload: Bytes,
    ) {
        let index = id.slot() as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || IncomingSlot {
                generation: 0,
                state: IncomingState::Free,
            });
        }
        self.occupy(index, id, IncomingState::Open);
        self.respond(core, id, Reply { codec, payload: payload.into(), ..Reply::new(status) });
    }

    /// Index of the slot of a new call; fails if it is not free or not granted.
    #[inline]
    fn free_slot(&mut self, header: &Header, id: CallId) -> Result<usize, LinkError> {
        if self.client_gone {
            return Err(LinkError::Unexpected { kind: header.kind });
        }
        let slot = id.slot();
        if slot >= self.max_window {
            return Err(LinkError::SlotBeyondWindow { slot, window: self.max_window });
        }
        let index = slot as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || IncomingSlot {
                generation: 0,
                state: IncomingState::Free,
            });
        }
        match self.slots.get(index) {
            Some(IncomingSlot { state: IncomingState::Free, .. }) => Ok(index),
            _ => Err(LinkError::SlotBusy { slot }),
        }
    }

    /// Why a call is not even shown to the driver, if it is not.
    #[inline]
    fn refusal<T>(
        &self,
        core: &Core<T>,
        head: &RequestHead,
        len: usize,
    ) -> Result<Option<(Status, Box<str>)>, LinkError> {
        let max = core.config.max_message_len as usize;
        let route = head.route;
        match self.routes.get(route as usize) {
            None => {
                let defined = u32::try_from(self.routes.len()).unwrap_or(u32::MAX);
                Err(LinkError::UnknownRoute { route, defined })
            }
            // Nobody could tell the caller that a one-way call was refused.
            _ if self.closing && !head.is_one_way() => {
                Ok(Some((Status::REFUSED, "the server is going away".into())))
            }
            Some(Route { refused: Some(refused), .. }) => Ok(Some(refused.clone())),
            _ if len > max => {
                let text = format!("request of {len} bytes is over the limit of {max}");
                Ok(Some((Status::TOO_LARGE, text.into())))
            }
            Some(_) => Ok(None),
        }
    }

    #[inline]
    fn occupy(&mut self, slot: usize, id: CallId, state: IncomingState) {
        if let Some(entry) = self.slots.get_mut(slot) {
            *entry = IncomingSlot { generation: id.generation(), state };
            self.in_flight += 1;
        }
    }

    /// Frees the slot of a call; gives what it was doing. `None` if the call has ended.
    #[inline]
    fn release(&mut self, id: CallId) -> Option<IncomingState> {
        let entry = self.slots.get_mut(id.slot() as usize)?;
        if entry.generation != id.generation() || matches!(entry.state, IncomingState::Free) {
            return None;
        }
        self.in_flight -= 1;
        Some(std::mem::replace(&mut entry.state, IncomingState::Free))
    }

    pub(super) fn handle_cancel<T>(
        &mut self,
        core: &mut Core<T>,
        id: CallId,
    ) -> Result<(), LinkError> {
        match self.release(id) {
            Some(IncomingState::Receiving(inbound)) => core.budget.end(&inbound.partial),
            Some(IncomingState::Open) => {
                core.end_stream(id);
                core.events.push_back(Event::Cancelled { id });
            }
            Some(IncomingState::Sending) => {
                core.outbox.remove(id.to_wire());
            }
            // Answered before the CANCEL came.
            Some(IncomingState::Free) | None => {}
        }
        Ok(())
    }

    /// Ends one call of which an item cannot be taken. The call was begun, so it is not
    /// "overloaded".
    pub(super) fn refuse_item<T>(&mut self, core: &mut Core<T>, id: CallId, text: &str) {
        core.end_stream(id);
        if self.release(id).is_some() {
            refuse(core, id, false, Status::TOO_LARGE, text);
            core.events.push_back(Event::Cancelled { id });
        }
    }

    /// Whether the call was not answered.
    pub(super) fn is_open(&self, id: CallId) -> bool {
        self.slots.get(id.slot() as usize).is_some_and(|entry| {
            let is_open = matches!(entry.state, IncomingState::Open | IncomingState::Receiving(_));
            is_open && entry.generation == id.generation()
        })
    }

    /// The client has no calls in flight and begins no more.
    pub(super) fn handle_client_gone<T>(
        &mut self,
        core: &mut Core<T>,
        kind: u8,
    ) -> Result<(), LinkError> {
        if self.client_gone {
            return Err(LinkError::Unexpected { kind });
        }
        self.client_gone = true;
        for slot in 0..self.slots.len() {
            let Some(entry) = self.slots.get(slot) else {
                break;
            };
            let id = CallId::new(u32::try_from(slot).unwrap_or(u32::MAX), entry.generation);
            self.handle_cancel(core, id)?;
        }
        self.close(core, GoAwayReason::SHUTDOWN);
        Ok(())
    }

    #[inline]
    pub(super) fn respond<T>(&mut self, core: &mut Core<T>, id: CallId, reply: Reply<'_>) -> bool {
        let Some(IncomingSlot { generation, state: state @ IncomingState::Open }) =
            self.slots.get_mut(id.slot() as usize)
        else {
            return false;
        };
        if *generation != id.generation() {
            return false;
        }
        core.end_stream(id);
        let len = reply.payload.as_slice().len();
        let max = core.peer.as_ref().map_or(0, |peer| peer.max_message_len as usize);
        let is_out = match meta::encoded_len(reply.meta) {
            Ok(meta_len) if len <= max => {
                let head = response_head(id, reply.status, reply.codec);
                core.outbox.message(head, reply.meta, meta_len, reply.payload)
            }
            Ok(_) => {
                let text = format!("answer of {len} bytes is over the caller's limit of {max}");
                let head = response_head(id, Status::TOO_LARGE, 0);
                core.outbox.message(head, &[], 0, text.into())
            }
            Err(error) => {
                let text = format!("metadata of the answer: {error}");
                let head = response_head(id, Status::SERVER_ERROR, 0);
                core.outbox.message(head, &[], 0, text.into())
            }
        };
        *state = IncomingState::Sending;
        if is_out {
            self.release(id);
        }
        true
    }

    /// The last chunk of a long answer is in the buffer.
    pub(super) fn sent(&mut self, id: CallId) {
        self.release(id);
    }

    pub(super) fn set_window<T>(&mut self, core: &mut Core<T>, window: u32) {
        self.window = window.min(MAX_WINDOW);
        self.max_window = self.max_window.max(self.window);
        if core.failed.is_none() && core.peer.is_some() {
            self.send_credit(core);
        }
    }

    /// The client said HELLO: now it may be told of a window that changed since ours.
    pub(super) fn handle_ready<T>(&self, core: &mut Core<T>) {
        if self.window != core.config.window {
            self.send_credit(core);
        }
    }

    fn send_credit<T>(&self, core: &mut Core<T>) {
        let body = u64::from(WHOLE_LINK) << 32 | u64::from(self.window);
        let header = Header { kind: FrameKind::Credit as u8, ..Header::default() };
        core.outbox.control(header, &body.to_be_bytes());
    }

    /// Says GOAWAY: new calls are refused from now on.
    pub(super) fn close<T>(&mut self, core: &mut Core<T>, reason: GoAwayReason) {
        if !self.closing {
            self.closing = true;
            core.go_away(reason, "");
        }
    }

    /// Forgets all calls: the link is over.
    pub(super) fn abandon<T>(&mut self, core: &mut Core<T>) {
        for entry in &mut self.slots {
            if let IncomingState::Receiving(inbound) =
                std::mem::replace(&mut entry.state, IncomingState::Free)
            {
                core.budget.end(&inbound.partial);
            }
        }
        self.in_flight = 0;
    }

    pub(super) fn check_invariants<T>(&self, core: &Core<T>) {
        let busy = self.slots.iter().filter(|s| !matches!(s.state, IncomingState::Free));
        debug_assert_eq!(busy.clone().count(), self.in_flight);
        debug_assert!(self.slots.len() <= self.max_window as usize);
        let reserved: usize = busy
            .map(|slot| match &slot.state {
                IncomingState::Receiving(inbound) => inbound.partial.total(),
                _ => 0,
            })
            .sum();
        let items = core.streams.check_invariants(core.outbox.streams());
        debug_assert_eq!(reserved + items, core.budget.used());
        let is_open = |id: CallId| {
            let state = self.slots.get(id.slot() as usize).map(|slot| &slot.state);
            matches!(state, Some(IncomingState::Open)) && self.is_open(id)
        };
        debug_assert!(core.streams.ids().all(is_open));
    }
}

fn request<T>(id: CallId, head: RequestHead, payload: Bytes) -> Event<T> {
    let RequestHead { route, timeout, codec, flags, meta } = head;
    let one_way = flags & flags::ONE_WAY != 0;
    let stream_in = flags & flags::STREAM_IN != 0;
    let stream_out = flags & flags::STREAM_OUT != 0;
    let timed = flags & flags::TIMED != 0;
    let route = RouteId(route);
    Event::Request {
        id,
        route,
        codec,
        timeout,
        meta,
        payload,
        one_way,
        stream_in,
        stream_out,
        timed,
    }
}

fn response_head(id: CallId, status: Status, codec: u8) -> FrameHead {
    let (kind, status, id) = (FrameKind::Response, status.0, id.to_wire());
    FrameHead { kind, flags: 0, codec, status, id, fields: None }
}

/// Answers a call that takes no slot, unless nobody waits for the answer.
fn refuse<T>(core: &mut Core<T>, id: CallId, one_way: bool, status: Status, text: &str) {
    if !one_way {
        core.outbox.message(response_head(id, status, 0), &[], 0, text.into());
    }
}
