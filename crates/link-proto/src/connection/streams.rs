//! Streams of items beside calls, for both sides: which call has a stream, and how its items get
//! from the app to the outbox and from frames to events.
//!
//! Invariants:
//! - A call has a stream from its REQUEST (a server: whole) until it ends: by the first frame of
//!   its RESPONSE, by being cancelled or refused, or with the link.
//! - A stream that has something to send, and credit for it, takes turns in the outbox.
//! - A call without a stream costs one comparison.

use super::core::Core;
use super::{Connection, ConnectionSide};
use crate::header::{FrameKind, HEADER_LEN, Header, flags};
use crate::outbox::StreamTurns;
use crate::reader::Reader;
use crate::stream::{ItemPart, Received, Receiving, Sending, StreamFrame};
use crate::{CallId, Event, LinkError, Payload, SendError};
use bytes::{BufMut, BytesMut};
use std::collections::VecDeque;

/// Items up to this length are copied out of the input, so that one that waits for a slow app does
/// not keep a whole read's buffer.
pub(super) const COPIED_LEN: usize = 16 * 1024;
/// The flags of a REQUEST with streams.
const STREAMS: u8 = flags::STREAM_IN | flags::STREAM_OUT;

/// The streams of a link, by the slot of their call.
#[derive(Debug)]
pub(super) struct Streams {
    slots: Vec<Option<Box<OpenStream>>>,
    n_open: usize,
}

#[derive(Debug)]
struct OpenStream {
    id: CallId,
    sending: Option<Sending>,
    receiving: Option<Receiving>,
    /// It takes turns in the outbox.
    is_queued: bool,
}

impl OpenStream {
    fn wants_turn(&self) -> bool {
        self.sending.as_ref().is_some_and(Sending::wants_turn)
            || self.receiving.as_ref().is_some_and(Receiving::owes_credit)
    }
}

impl Streams {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), n_open: 0 }
    }

    #[inline]
    fn find(&mut self, id: CallId) -> Option<&mut OpenStream> {
        let stream = self.slots.get_mut(id.slot() as usize)?.as_deref_mut()?;
        (stream.id == id).then_some(stream)
    }

    fn look(&self, id: CallId) -> Option<&OpenStream> {
        let stream = self.slots.get(id.slot() as usize)?.as_deref()?;
        (stream.id == id).then_some(stream)
    }

    /// Forgets a stream. `None` if the call has none.
    fn take(&mut self, id: CallId) -> Option<Box<OpenStream>> {
        self.look(id)?;
        self.n_open -= 1;
        self.slots.get_mut(id.slot() as usize)?.take()
    }

    /// The request of a call is in the buffer. Says whether its stream takes turns from now on.
    pub(super) fn release(&mut self, id: CallId) -> bool {
        if self.n_open == 0 {
            return false;
        }
        let Some(stream) = self.find(id) else {
            return false;
        };
        if let Some(sending) = &mut stream.sending {
            sending.release();
        }
        let newly_queued = !stream.is_queued && stream.wants_turn();
        stream.is_queued |= newly_queued;
        newly_queued
    }

    /// Writes a frame or two of a stream; says whether it wants another turn.
    fn turn<T>(&mut self, id: CallId, out: &mut BytesMut, events: &mut VecDeque<Event<T>>) -> bool {
        let Some(stream) = self.find(id) else {
            debug_assert!(false, "a stream that ended takes no turns");
            return false;
        };
        if let Some(len) = stream.receiving.as_mut().and_then(Receiving::take_credit) {
            put_frame(credit_header(id), &len.to_be_bytes(), out);
        }
        if let Some(sending) = &mut stream.sending {
            if let Some(part) = sending.next_part() {
                put_frame(item_header(id, &part), &part.payload, out);
            }
            if sending.take_end() {
                put_frame(end_header(id), &[], out);
            }
            if sending.take_writable() {
                events.push_back(Event::Writable { id });
            }
        }
        stream.is_queued = stream.wants_turn();
        stream.is_queued
    }

    /// Ids of the calls that have a stream.
    pub(super) fn ids(&self) -> impl Iterator<Item = CallId> {
        self.slots.iter().flatten().map(|stream| stream.id)
    }

    /// Checks the invariants, and gives what items under assembly have reserved.
    pub(super) fn check_invariants(&self, queued: impl Iterator<Item = u64>) -> usize {
        let streams = || self.slots.iter().flatten();
        debug_assert_eq!(streams().count(), self.n_open);
        debug_assert_eq!(streams().filter(|s| s.is_queued).count(), queued.count());
        let mut reserved = 0;
        for stream in streams() {
            debug_assert!(stream.is_queued || !stream.wants_turn(), "{stream:?}");
            stream.sending.iter().for_each(Sending::check_invariants);
            stream.receiving.iter().for_each(Receiving::check_invariants);
            reserved += stream.receiving.as_ref().map_or(0, Receiving::reserved);
        }
        reserved
    }
}

impl<T> Core<T> {
    /// Checks that a REQUEST with these flags may be sent to this side.
    #[inline]
    pub(super) fn check_streams(&self, header: &Header) -> Result<(), LinkError> {
        let (kind, streams) = (header.kind, header.flags & STREAMS);
        if streams == 0 {
            return Ok(());
        }
        let may = self.has_streams && header.flags & flags::ONE_WAY == 0;
        if may { Ok(()) } else { Err(LinkError::UnknownFlags { kind, flags: streams }) }
    }

    /// Gives a call the streams that the flags of its REQUEST say. `held`: the request is still
    /// to be sent.
    #[inline]
    pub(super) fn open_stream(&mut self, id: CallId, flags: u8, is_client: bool, held: bool) {
        if flags & STREAMS != 0 {
            self.do_open_stream(id, flags, is_client, held);
        }
    }

    #[cold]
    fn do_open_stream(&mut self, id: CallId, flags: u8, is_client: bool, held: bool) {
        let (up, down) = (flags & flags::STREAM_IN != 0, flags & flags::STREAM_OUT != 0);
        let (sends, receives) = if is_client { (up, down) } else { (down, up) };
        let peer_window = self.peer.as_ref().map_or(0, |peer| peer.stream_window);
        let stream = OpenStream {
            id,
            sending: sends.then(|| Sending::new(peer_window, held)),
            receiving: receives.then(|| Receiving::new(self.config.stream_window)),
            is_queued: false,
        };
        let slots = &mut self.streams.slots;
        let slot = id.slot() as usize;
        if slots.len() <= slot {
            slots.resize_with(slot + 1, || None);
        }
        if let Some(entry) = slots.get_mut(slot) {
            debug_assert!(entry.is_none(), "a slot has one call at a time");
            *entry = Some(Box::new(stream));
            self.streams.n_open += 1;
        }
    }

    /// A call has ended, or its answer has begun.
    #[inline]
    pub(super) fn end_stream(&mut self, id: CallId) {
        if self.streams.n_open != 0 {
            self.do_end_stream(id);
        }
    }

    #[inline(never)]
    fn do_end_stream(&mut self, id: CallId) {
        let Some(stream) = self.streams.take(id) else {
            return;
        };
        self.budget.release(stream.receiving.as_ref().map_or(0, Receiving::reserved));
        if stream.is_queued {
            self.outbox.remove_stream(id.to_wire());
        }
    }

    /// The link is over.
    pub(super) fn end_all_streams(&mut self) {
        for stream in self.streams.slots.drain(..).flatten() {
            self.budget.release(stream.receiving.as_ref().map_or(0, Receiving::reserved));
            if stream.is_queued {
                self.outbox.remove_stream(stream.id.to_wire());
            }
        }
        self.streams.n_open = 0;
    }

    fn send_item(&mut self, id: CallId, codec: u8, payload: Payload<'_>) -> Result<(), SendError> {
        let max = self.peer.as_ref().map_or(0, |peer| peer.max_message_len as usize);
        let Some(stream) = self.streams.find(id) else {
            return Err(SendError::NoSuchStream);
        };
        let Some(sending) = stream.sending.as_mut().filter(|sending| sending.is_open()) else {
            return Err(SendError::NoSuchStream);
        };
        let len = payload.as_slice().len();
        if len > max {
            return Err(SendError::TooLarge { len, max });
        }
        if !sending.can_take() {
            return Err(SendError::NoStreamCredit);
        }
        if sending.takes_at_once(len) && self.outbox.has_room() {
            let header = Header { codec, ..frame_header(FrameKind::Item, id) };
            self.outbox.stream_frame(header, payload.as_slice());
            sending.sent_whole(len);
        } else {
            sending.keep(codec, payload.into_bytes());
            self.queue_stream(id);
        }
        Ok(())
    }

    fn end_items(&mut self, id: CallId) -> Result<(), SendError> {
        let sending = self.streams.find(id).and_then(|stream| stream.sending.as_mut());
        let Some(sending) = sending.filter(|sending| sending.is_open()) else {
            return Err(SendError::NoSuchStream);
        };
        sending.end();
        if self.outbox.has_room() && sending.take_end() {
            self.outbox.stream_frame(end_header(id), &[]);
        }
        self.queue_stream(id);
        Ok(())
    }

    /// Has a stream take turns, if it wants to and does not yet.
    fn queue_stream(&mut self, id: CallId) {
        if let Some(stream) = self.streams.find(id)
            && !stream.is_queued
            && stream.wants_turn()
        {
            stream.is_queued = true;
            self.outbox.queue_stream(id.to_wire());
        }
    }

    /// Tells the peer what was taken, if that is worth it: at once, or in turn.
    fn give_credit(&mut self, id: CallId) {
        let has_room = self.outbox.has_room();
        let receiving = self.streams.find(id).and_then(|stream| stream.receiving.as_mut());
        let Some(receiving) = receiving.filter(|receiving| receiving.owes_credit()) else {
            return;
        };
        if !has_room {
            self.queue_stream(id);
        } else if let Some(len) = receiving.take_credit() {
            self.outbox.stream_frame(credit_header(id), &len.to_be_bytes());
        }
    }
}

impl<T> Connection<T> {
    /// Whether the next item of this call would be taken: it streams in this direction, has
    /// credit, and no item waits in the machine.
    pub fn can_send_item(&self, id: CallId) -> bool {
        let sending = self.core.streams.look(id).and_then(|stream| stream.sending.as_ref());
        sending.is_some_and(Sending::can_take)
    }

    /// Sends an item of a stream. A long one leaves in parts as the peer's credit and other
    /// messages allow; until then it is the only one of its stream in the machine.
    ///
    /// # Errors
    /// [`SendError::NoStreamCredit`] until the next [`Event::Writable`]; others are final.
    pub fn send_item(
        &mut self,
        id: CallId,
        codec: u8,
        payload: Payload<'_>,
    ) -> Result<(), SendError> {
        self.core.send_item(id, codec, payload)
    }

    /// Client: says that there are no more items, behind those that were sent. A server says that
    /// with its answer.
    ///
    /// # Errors
    /// The call has ended, sends no items, or ended them before.
    pub fn end_items(&mut self, id: CallId) -> Result<(), SendError> {
        match &self.side {
            ConnectionSide::Client(_) => self.core.end_items(id),
            ConnectionSide::Server(_) => Err(SendError::NoSuchStream),
        }
    }

    /// The app has taken an item with `len` bytes of payload, so the peer may send more. To be
    /// said once for each [`Event::Item`]; ignored after the end of the call.
    pub fn item_taken(&mut self, id: CallId, len: usize) {
        let receiving = self.core.streams.find(id).and_then(|stream| stream.receiving.as_mut());
        if let Some(receiving) = receiving {
            receiving.take(len);
            self.core.give_credit(id);
        }
    }

    /// Whether an item of this call is still in the machine, wholly or partly. A server that
    /// answers drops what is left of it.
    pub fn items_unsent(&self, id: CallId) -> bool {
        let sending = self.core.streams.look(id).and_then(|stream| stream.sending.as_ref());
        sending.is_some_and(Sending::has_unsent)
    }

    pub(super) fn handle_item(
        &mut self,
        header: &Header,
        part: Payload<'_>,
    ) -> Result<(), LinkError> {
        let core = &mut self.core;
        let id = stream_id(core, header)?;
        let may_end = matches!(self.side, ConnectionSide::Server(_));
        let receiving = core.streams.find(id).map(|stream| stream.receiving.as_mut());
        let Some(receiving) = receiving else {
            return self.check_ended(header, id);
        };
        let Some(receiving) = receiving else {
            return Err(LinkError::Unexpected { kind: header.kind });
        };
        let frame = StreamFrame { flags: header.flags, codec: header.codec, may_end };
        let max = core.config.max_message_len as usize;
        match receiving.receive(frame, part, max, &mut core.budget)? {
            Received::Part => core.give_credit(id),
            Received::Item { codec, payload } => {
                core.events.push_back(Event::Item { id, codec, payload });
            }
            Received::End => core.events.push_back(Event::ItemsEnd { id }),
            Received::Refused { len, max } => {
                let text = match max {
                    Some(max) => format!("item of {len} bytes or more, over the limit of {max}"),
                    None => format!("no room for an item of {len} bytes or more beside others"),
                };
                match &mut self.side {
                    ConnectionSide::Client(client) => client.refuse_item(core, id, text),
                    ConnectionSide::Server(server) => server.refuse_item(core, id, &text),
                }
            }
        }
        Ok(())
    }

    pub(super) fn handle_item_credit(
        &mut self,
        header: &Header,
        body: &[u8],
    ) -> Result<(), LinkError> {
        let core = &mut self.core;
        let id = stream_id(core, header)?;
        let mut reader = Reader::new(header.kind, body);
        let len = reader.u32()?;
        reader.finish()?;
        let sending = core.streams.find(id).map(|stream| stream.sending.as_mut());
        let Some(sending) = sending else {
            return self.check_ended(header, id);
        };
        let Some(sending) = sending else {
            return Err(LinkError::Unexpected { kind: header.kind });
        };
        sending.add_credit(len)?;
        if sending.take_writable() {
            core.events.push_back(Event::Writable { id });
        }
        core.queue_stream(id);
        Ok(())
    }

    /// A frame came for a stream that is not there: fine if its call has ended.
    fn check_ended(&self, header: &Header, id: CallId) -> Result<(), LinkError> {
        let is_open = match &self.side {
            ConnectionSide::Client(client) => client.is_open(id),
            ConnectionSide::Server(server) => server.is_open(id),
        };
        if is_open { Err(LinkError::Unexpected { kind: header.kind }) } else { Ok(()) }
    }
}

/// The call of a stream's frame, if this link has streams at all.
fn stream_id<T>(core: &Core<T>, header: &Header) -> Result<CallId, LinkError> {
    if !core.has_streams {
        return Err(LinkError::UnknownKind { kind: header.kind });
    }
    Ok(CallId::from_wire(header.id))
}

/// What the outbox is filled from.
pub(super) struct Fill<'a, T> {
    pub(super) side: &'a mut ConnectionSide<T>,
    pub(super) streams: &'a mut Streams,
    pub(super) events: &'a mut VecDeque<Event<T>>,
}

impl<T> StreamTurns for Fill<'_, T> {
    fn sent(&mut self, id: u64) -> bool {
        let id = CallId::from_wire(id);
        match &mut self.side {
            ConnectionSide::Client(client) => client.sent(id),
            ConnectionSide::Server(server) => server.sent(id),
        }
        self.streams.release(id)
    }

    fn stream_turn(&mut self, id: u64, out: &mut BytesMut) -> bool {
        self.streams.turn(CallId::from_wire(id), out, self.events)
    }
}

fn frame_header(kind: FrameKind, id: CallId) -> Header {
    Header { kind: kind as u8, id: id.to_wire(), ..Header::default() }
}

fn credit_header(id: CallId) -> Header {
    frame_header(FrameKind::ItemCredit, id)
}

fn end_header(id: CallId) -> Header {
    Header { flags: flags::END, ..frame_header(FrameKind::Item, id) }
}

fn item_header(id: CallId, part: &ItemPart) -> Header {
    let flags = if part.is_last { 0 } else { flags::MORE };
    Header { flags, codec: part.codec, ..frame_header(FrameKind::Item, id) }
}

/// Appends a frame, whose body length is filled in here.
fn put_frame(header: Header, body: &[u8], out: &mut BytesMut) {
    let body_len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    out.reserve(HEADER_LEN + body.len());
    out.put_slice(&Header { body_len, ..header }.to_bytes());
    out.put_slice(body);
}
