//! The client's half of a connection: routes it defined and calls it waits for.
//!
//! Invariants:
//! - A slot that is not free belongs to exactly one call; its generation changes when that ends,
//!   so whatever still comes for the old call finds nothing.
//! - `earliest` is not after any deadline of a call in flight.

use super::core::Core;
use crate::assembly::Partial;
use crate::header::{Header, Kind, MAX_TEXT_LEN, WHOLE_LINK, flags};
use crate::message::{ResponseHead, decode_response, timeout_ms};
use crate::outbox::Head;
use crate::reader::Reader;
use crate::{
    CallId, Config, Event, GoAwayReason, LinkError, Meta, RequestOut, RouteDef, RouteId, SendError,
    Status, meta, route,
};
use bytes::{Bytes, BytesMut};
use std::time::Instant;

#[derive(Debug)]
pub(super) struct ClientSide<T> {
    slots: Vec<Slot<T>>,
    /// Free slots, the one used last on top: its memory is warm.
    free: Vec<u32>,
    in_flight: usize,
    /// Most calls in flight: what the server granted, within our own bound.
    window: u32,
    /// Lower bound of all deadlines: the slots are walked only when it has passed.
    earliest: Option<Instant>,
    n_routes: u32,
    closing: Option<GoAwayReason>,
    go_away_sent: bool,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    deadline: Option<Instant>,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Free,
    /// A long one-way call of which chunks are still to be sent.
    OneWay,
    /// The answer has not begun.
    Waiting(T),
    /// Parts of the answer came.
    Receiving(T, Box<Partial<ResponseHead>>),
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
            slots: Vec::new(),
            free: Vec::new(),
            in_flight: 0,
            window: 0,
            earliest: None,
            n_routes: 0,
            closing: None,
            go_away_sent: false,
        }
    }

    #[inline]
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    #[inline]
    pub(super) fn window(&self) -> usize {
        self.window as usize
    }

    #[inline]
    pub(super) fn is_closing(&self) -> bool {
        self.closing.is_some()
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
        } else if self.in_flight >= self.window() {
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
        if self.n_routes >= peer.max_routes {
            return Err(SendError::RoutesFull);
        }
        core.outbox.frame(|out| route::encode(def, self.n_routes, out))?;
        self.n_routes += 1;
        Ok(RouteId(self.n_routes - 1))
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
        if self.n_routes <= route.0 {
            return Err(SendError::UnknownRoute);
        }
        core.outbox.frame(|out| route::encode(def, route.0, out))
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
        let id = self.take_slot(deadline, request.one_way, token);
        let timeout_ms = timeout_ms(request.deadline, now);
        let fields = u64::from(request.route.0) << 32 | u64::from(timeout_ms);
        let head = Head {
            kind: Kind::Request,
            flags: if request.one_way { flags::ONE_WAY } else { 0 },
            codec: request.codec,
            status: 0,
            id: id.to_wire(),
            fields: Some(fields.to_be_bytes()),
        };
        let is_out = core.outbox.message(head, request.meta, meta_len, request.payload);
        if is_out && request.one_way {
            self.release(id.slot() as usize);
        }
        Ok(id)
    }

    /// Checks that the call may be sent; gives the length of its metadata.
    #[inline]
    fn check_request(&self, core: &Core<T>, request: &RequestOut<'_>) -> Result<usize, SendError> {
        self.can_send(core)?;
        if request.route.0 >= self.n_routes {
            return Err(SendError::UnknownRoute);
        }
        let len = request.payload.as_slice().len();
        let max = core.peer.as_ref().map_or(0, |peer| peer.max_message_len as usize);
        if len > max {
            return Err(SendError::TooLarge { len, max });
        }
        meta::encoded_len(request.meta)
    }

    #[inline]
    fn take_slot(&mut self, deadline: Option<Instant>, one_way: bool, token: T) -> CallId {
        let state = if one_way { State::OneWay } else { State::Waiting(token) };
        if let Some(deadline) = deadline {
            self.earliest = Some(self.earliest.map_or(deadline, |e| e.min(deadline)));
        }
        self.in_flight += 1;
        if let Some(slot) = self.free.pop() {
            if let Some(entry) = self.slots.get_mut(slot as usize) {
                entry.deadline = deadline;
                entry.state = state;
                return CallId::new(slot, entry.generation);
            }
            debug_assert!(false, "free slots exist");
        }
        // All slots are taken, so the new one is number `in_flight - 1`, below the window.
        let slot = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        self.slots.push(Slot { generation: 0, deadline, state });
        CallId::new(slot, 0)
    }

    /// Frees a slot; gives what was in it.
    #[inline]
    fn release(&mut self, slot: usize) -> State<T> {
        let Some(entry) = self.slots.get_mut(slot) else {
            debug_assert!(false, "only slots that exist are released");
            return State::Free;
        };
        entry.generation = entry.generation.wrapping_add(1);
        entry.deadline = None;
        let state = std::mem::replace(&mut entry.state, State::Free);
        debug_assert!(!matches!(state, State::Free), "released twice");
        self.in_flight -= 1;
        self.free.push(u32::try_from(slot).unwrap_or(u32::MAX));
        state
    }

    /// Frees a slot; gives its token after giving back what parts of an answer had reserved.
    fn release_token(&mut self, core: &mut Core<T>, slot: usize) -> Option<T> {
        match self.release(slot) {
            State::Waiting(token) => Some(token),
            State::Receiving(token, partial) => {
                core.budget.release(partial.total());
                Some(token)
            }
            State::Free | State::OneWay => None,
        }
    }

    /// Index of the slot of a call that has not ended.
    #[inline]
    fn find(&self, id: CallId) -> Option<usize> {
        let slot = id.slot() as usize;
        let entry = self.slots.get(slot)?;
        let is_live = entry.generation == id.generation() && !matches!(entry.state, State::Free);
        is_live.then_some(slot)
    }

    /// The last chunk of a long request is in the buffer.
    pub(super) fn sent(&mut self, id: CallId) {
        if let Some(slot) = self.find(id)
            && matches!(self.slots.get(slot), Some(Slot { state: State::OneWay, .. }))
        {
            self.release(slot);
        }
    }

    pub(super) fn cancel(&mut self, core: &mut Core<T>, id: CallId) -> Option<T> {
        let slot = self.find(id)?;
        let token = self.release_token(core, slot);
        if core.failed.is_none() {
            tell_cancel(core, id);
        }
        token
    }

    /// Ends the calls whose deadline has passed.
    pub(super) fn expire(&mut self, core: &mut Core<T>, now: Instant) {
        if self.earliest.is_none_or(|earliest| now < earliest) {
            return;
        }
        self.earliest = None;
        for slot in 0..self.slots.len() {
            let Some(Slot { generation, deadline: Some(deadline), .. }) = self.slots.get(slot)
            else {
                continue;
            };
            if now < *deadline {
                self.earliest = Some(self.earliest.map_or(*deadline, |e| e.min(*deadline)));
                continue;
            }
            let id = CallId::new(u32::try_from(slot).unwrap_or(u32::MAX), *generation);
            if let Some(token) = self.release_token(core, slot) {
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
        let Some(slot) = self.find(id) else {
            return Ok(());
        };
        match self.slots.get(slot).map(|entry| &entry.state) {
            Some(State::Waiting(_)) => {}
            // Two answers, or an answer to a one-way call.
            _ => return Err(LinkError::Unexpected { kind: header.kind }),
        }
        let len = total.unwrap_or(payload.len());
        let max = core.config.max_message_len as usize;
        if len > max {
            let text = format!("answer of {len} bytes is over the caller's limit of {max}");
            self.refuse_response(core, id, slot, total.is_some(), text);
            return Ok(());
        }
        if let Some(total) = total {
            return self.begin_response(core, id, slot, head, total, &payload);
        }
        if core.outbox.has_long() {
            core.outbox.remove(header.id);
        }
        if let State::Waiting(token) = self.release(slot) {
            core.events.push_back(response(token, head, payload));
        }
        Ok(())
    }

    /// Keeps the first part of a long answer.
    fn begin_response(
        &mut self,
        core: &mut Core<T>,
        id: CallId,
        slot: usize,
        head: ResponseHead,
        total: usize,
        part: &[u8],
    ) -> Result<(), LinkError> {
        let partial = Partial::new(head, total, part)?;
        if !core.budget.reserve(total) {
            let text = format!("no room for an answer of {total} bytes beside the others");
            self.refuse_response(core, id, slot, true, text);
            return Ok(());
        }
        // The server has answered already: it needs no more of the request.
        core.outbox.remove(id.to_wire());
        if let Some(entry) = self.slots.get_mut(slot) {
            entry.state = match std::mem::replace(&mut entry.state, State::Free) {
                State::Waiting(token) => State::Receiving(token, Box::new(partial)),
                other => other,
            };
        }
        Ok(())
    }

    /// Ends one call whose answer cannot be taken. The call was done, so it is not "overloaded".
    fn refuse_response(
        &mut self,
        core: &mut Core<T>,
        id: CallId,
        slot: usize,
        has_more: bool,
        text: String,
    ) {
        if has_more {
            tell_cancel(core, id);
        } else {
            core.outbox.remove(id.to_wire());
        }
        if let Some(token) = self.release_token(core, slot) {
            let head = ResponseHead { status: Status::TOO_LARGE, codec: 0, meta: Meta::default() };
            core.events.push_back(response(token, head, text.into()));
        }
    }

    pub(super) fn handle_chunk(
        &mut self,
        core: &mut Core<T>,
        header: &Header,
        part: &[u8],
    ) -> Result<(), LinkError> {
        let last = header.flags & flags::MORE == 0;
        let Some(slot) = self.find(CallId::from_wire(header.id)) else {
            return Ok(());
        };
        let Some(Slot { state: State::Receiving(_, partial), .. }) = self.slots.get_mut(slot)
        else {
            return Err(LinkError::Unexpected { kind: header.kind });
        };
        partial.push(part, last)?;
        if last && let State::Receiving(token, partial) = self.release(slot) {
            core.budget.release(partial.total());
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
        let text = reader.rest_text()?;
        if text.len() > MAX_TEXT_LEN {
            let (kind, len, max) = (header.kind, text.len(), MAX_TEXT_LEN);
            return Err(LinkError::FieldTooLong { kind, what: "text", len, max });
        }
        if route >= self.n_routes {
            return Err(LinkError::UnknownRoute { route, defined: self.n_routes });
        }
        let (route, status) = (RouteId(route), Status(header.status));
        core.events.push_back(match status {
            Status::OK => Event::RouteAccepted { route, codec: header.codec },
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
        if scope != WHOLE_LINK {
            // Credits of single routes need a feature that version 1 does not have.
            return Err(LinkError::UnknownRoute { route: scope, defined: self.n_routes });
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
        if self.in_flight == 0 && !self.go_away_sent && core.failed.is_none() {
            core.go_away(reason, "");
            self.go_away_sent = true;
        }
    }

    /// Takes all tokens.
    pub(super) fn drain(&mut self, core: &mut Core<T>) -> Tokens<T> {
        let mut tokens = Vec::with_capacity(self.in_flight);
        for slot in 0..self.slots.len() {
            if !matches!(self.slots.get(slot), Some(Slot { state: State::Free, .. })) {
                tokens.extend(self.release_token(core, slot));
            }
        }
        self.earliest = None;
        tokens.into_iter()
    }

    pub(super) fn check_invariants(&self, core: &Core<T>) {
        let busy = self.slots.iter().filter(|s| !matches!(s.state, State::Free));
        debug_assert_eq!(busy.clone().count(), self.in_flight);
        debug_assert_eq!(self.slots.len(), self.in_flight + self.free.len());
        let reserved: usize = busy
            .map(|slot| match &slot.state {
                State::Receiving(_, partial) => partial.total(),
                _ => 0,
            })
            .sum();
        debug_assert_eq!(reserved, core.budget.used());
        for deadline in self.slots.iter().filter_map(|slot| slot.deadline) {
            debug_assert!(self.earliest.is_some_and(|earliest| earliest <= deadline));
        }
    }
}

fn response<T>(token: T, head: ResponseHead, payload: Bytes) -> Event<T> {
    let ResponseHead { status, codec, meta } = head;
    Event::Response { token, status, codec, meta, payload }
}

/// Tells the server that a call is given up, unless it has seen nothing of it.
fn tell_cancel<T>(core: &mut Core<T>, id: CallId) {
    if core.outbox.remove(id.to_wire()) {
        let header = Header { kind: Kind::Cancel as u8, id: id.to_wire(), ..Header::default() };
        core.outbox.control(header, &[]);
    }
}
