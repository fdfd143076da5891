//! What waits to be written: one buffer that the driver empties, and long messages that enter it
//! chunk by chunk, in turn, so that short messages overtake them. Streams take turns with them.
//!
//! Invariants:
//! - The buffer always ends at a frame's end. If frames are to be compressed, the driver empties
//!   another one, and this one begins at a frame's begin, too.
//! - A long message is in the queue until its last chunk is in the buffer, and leaves it once.
//! - A stream is in the queue at most once. Its items are not kept here: they may have to wait for
//!   credit, and must not keep a server from reading meanwhile.

use crate::Status;
use crate::compress::{CompressionMeter, Packer};
use crate::header::{FrameKind, HEADER_LEN, Header, MAX_PART_LEN, flags};
use crate::message::Payload;
use crate::meta;
use bytes::{BufMut, Bytes, BytesMut};
use std::collections::VecDeque;

/// Length of the chunks that we send: half of what is allowed, so that long messages take turns
/// finely, with 0.05% of header.
pub(crate) const CHUNK_LEN: usize = 32 * 1024;
/// Chunks enter the buffer while it holds less than this: about what one write takes.
const FILL_LEN: usize = 64 * 1024;
/// After so many bytes of short messages a chunk enters in any case, so that none starves.
const PATIENCE_LEN: usize = 256 * 1024;
/// While the buffer holds more than this, frames of streams wait for their turn.
const DIRECT_LEN: usize = 256 * 1024;
/// A buffer that once held more than this is given back when it is empty.
const KEEP_LEN: usize = 1024 * 1024;

/// Bytes and messages on their way out.
#[derive(Debug)]
pub(crate) struct Outbox {
    out: BytesMut,
    queue: VecDeque<TurnTaker>,
    /// Payload bytes in the queue.
    queued_bytes: usize,
    /// Bytes of short messages since the last chunk, while the queue is not empty.
    overtaken_bytes: usize,
    /// What `out` would hold if the driver had written nothing since we looked.
    expected_len: usize,
    /// The driver wrote something since `take_progress` was asked.
    progressed: bool,
    /// `out` held more than `KEEP_LEN` since it was made.
    is_large: bool,
    /// With `packer`: what `out` held, as the driver takes it.
    packed: BytesMut,
    /// What `packed` held when the driver was given it last.
    packed_len: usize,
    packer: Option<Box<Packer>>,
}

/// Who takes turns.
#[derive(Debug)]
enum TurnTaker {
    Message(Long),
    /// The stream of the call with this id.
    Stream(u64),
}

/// What [`Outbox::fill`] needs to know of the calls.
pub(crate) trait StreamTurns {
    /// The last chunk of this call's message was moved. Says whether its stream takes turns now.
    fn sent(&mut self, id: u64) -> bool;
    /// Lets a stream write a frame or two; says whether it wants another turn.
    fn stream_turn(&mut self, id: u64, out: &mut BytesMut) -> bool;
}

/// A message that is sent in chunks.
#[derive(Debug)]
struct Long {
    id: u64,
    /// Header and fields of its first frame, until that is sent.
    head: Option<BytesMut>,
    rest: Bytes,
}

/// First frame of a message, without metadata and payload.
#[derive(Clone, Copy)]
pub(crate) struct FrameHead {
    pub(crate) kind: FrameKind,
    pub(crate) flags: u8,
    pub(crate) codec: u8,
    pub(crate) status: u8,
    pub(crate) id: u64,
    /// Route and timeout of a REQUEST.
    pub(crate) fields: Option<[u8; 8]>,
}

/// An answer that is too long to be written in place.
pub(crate) struct LongAnswer {
    pub(crate) status: Status,
    pub(crate) codec: u8,
    pub(crate) payload: Bytes,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            out: BytesMut::new(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            overtaken_bytes: 0,
            expected_len: 0,
            progressed: false,
            is_large: false,
            packed: BytesMut::new(),
            packed_len: 0,
            packer: None,
        }
    }

    /// All bytes that wait.
    #[inline]
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.unpacked_bytes() + self.packed.len()
    }

    /// Bytes that wait, without those that were compressed: what a call has to know of it.
    #[inline]
    pub(crate) fn unpacked_bytes(&self) -> usize {
        self.out.len() + self.queued_bytes
    }

    /// Bytes that wait and that nothing overtakes.
    #[inline]
    pub(crate) fn direct_bytes(&self) -> usize {
        self.out.len() + self.packed.len()
    }

    /// Bytes of long messages that still have to take their turns.
    #[inline]
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.packed.is_empty() && self.queue.is_empty()
    }

    pub(crate) fn has_long(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Appends a frame that `write` encodes.
    pub(crate) fn frame<R>(&mut self, write: impl FnOnce(&mut BytesMut) -> R) -> R {
        self.note_progress();
        let result = write(&mut self.out);
        self.expected_len = self.out.len();
        result
    }

    /// Appends a frame with this header, whose body length is filled in here.
    pub(crate) fn control(&mut self, header: Header, body: &[u8]) {
        let body_len = u32::try_from(body.len()).unwrap_or(u32::MAX);
        self.frame(|out| {
            out.reserve(HEADER_LEN + body.len());
            out.put_slice(&Header { body_len, ..header }.to_bytes());
            out.put_slice(body);
        });
    }

    /// Appends a message, or queues it if it is long. Metadata and length were checked. Returns
    /// whether all of it is in the buffer.
    #[inline]
    pub(crate) fn message(
        &mut self,
        head: FrameHead,
        entries: &[(&str, &str)],
        meta_len: usize,
        payload: Payload<'_>,
    ) -> bool {
        let slice = payload.as_slice();
        if slice.len() > MAX_PART_LEN {
            self.queue_long(head, entries, meta_len, payload.into_bytes());
            return false;
        }
        self.note_progress();
        let start = self.out.len();
        self.out.reserve(HEADER_LEN + 8 + 2 + meta_len + slice.len());
        match (entries, head.fields) {
            // Most messages: header and fields as one copy.
            ([], Some(fields)) => put_plain(&mut self.out, &head, fields, slice.len()),
            _ => put_head(&mut self.out, &head, entries, meta_len, None, slice.len()),
        }
        self.out.extend_from_slice(slice);
        self.expected_len = self.out.len();
        if !self.queue.is_empty() {
            self.overtaken_bytes += self.out.len() - start;
        }
        true
    }

    /// Appends an answer whose payload `answer` appends; it says status and codec, or that there
    /// is none. A payload of more than `max_len` bytes is not sent but given back.
    #[inline]
    pub(crate) fn reply_in_place(
        &mut self,
        id: u64,
        max_len: usize,
        answer: impl FnOnce(&mut BytesMut) -> Option<(Status, u8)>,
    ) -> Option<Result<(), LongAnswer>> {
        self.note_progress();
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_LEN]);
        let Some((status, codec)) = answer(&mut self.out) else {
            self.out.truncate(start);
            return None;
        };
        let len = self.out.len() - start - HEADER_LEN;
        if len > max_len {
            let payload = self.out.split_off(start + HEADER_LEN).freeze();
            self.out.truncate(start);
            return Some(Err(LongAnswer { status, codec, payload }));
        }
        let body_len = u32::try_from(len).unwrap_or(u32::MAX);
        let (kind, status) = (FrameKind::Response as u8, status.0);
        let header = Header { body_len, kind, flags: 0, codec, status, id };
        if let Some(place) = self.out.get_mut(start..start + HEADER_LEN) {
            place.copy_from_slice(&header.to_bytes());
        }
        self.expected_len = self.out.len();
        if !self.queue.is_empty() {
            self.overtaken_bytes += self.out.len() - start;
        }
        Some(Ok(()))
    }

    fn queue_long(
        &mut self,
        head: FrameHead,
        entries: &[(&str, &str)],
        meta_len: usize,
        payload: Bytes,
    ) {
        let mut bytes = BytesMut::with_capacity(HEADER_LEN + 8 + 4 + 2 + meta_len);
        let total = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        put_head(&mut bytes, &head, entries, meta_len, Some(total), CHUNK_LEN);
        self.queued_bytes += payload.len();
        let long = Long { id: head.id, head: Some(bytes), rest: payload };
        self.queue.push_back(TurnTaker::Message(long));
    }

    /// Whether frames of streams may be appended at once, by [`stream_frame`](Self::stream_frame).
    pub(crate) fn has_room(&self) -> bool {
        self.out.len() < DIRECT_LEN
    }

    /// Appends a frame of a stream, with its body.
    pub(crate) fn stream_frame(&mut self, header: Header, body: &[u8]) {
        self.control(header, body);
        if !self.queue.is_empty() {
            self.overtaken_bytes += HEADER_LEN + body.len();
        }
    }

    /// Has a stream take turns, which it does not yet.
    pub(crate) fn queue_stream(&mut self, id: u64) {
        self.queue.push_back(TurnTaker::Stream(id));
    }

    /// Lets a stream take no more turns.
    pub(crate) fn remove_stream(&mut self, id: u64) {
        self.queue.retain(|turn| !matches!(turn, TurnTaker::Stream(stream) if *stream == id));
    }

    /// From now on frames are compressed. What waits leaves as it is: the driver may have written
    /// a part of it.
    pub(crate) fn start_packing(&mut self) {
        self.note_progress();
        self.packed = std::mem::take(&mut self.out);
        (self.expected_len, self.packed_len) = (0, self.packed.len());
        self.packer = Some(Box::new(Packer::new()));
    }

    /// What the driver is to write: chunks and items are moved into the buffer while it has room.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        turns: &mut impl StreamTurns,
        meter: &mut CompressionMeter,
    ) -> &mut BytesMut {
        self.fill_out(turns);
        match self.packer {
            None => &mut self.out,
            Some(_) => self.fill_packed(meter),
        }
    }

    /// Compresses what waits, once all is written that was compressed before: the more there is,
    /// the better.
    fn fill_packed(&mut self, meter: &mut CompressionMeter) -> &mut BytesMut {
        self.note_packed_progress();
        if let (Some(packer), true) = (&mut self.packer, self.packed.is_empty()) {
            if self.packed.capacity() > KEEP_LEN {
                self.packed = BytesMut::new();
            }
            packer.pack(&mut self.out, &mut self.packed, meter);
            (self.expected_len, self.packed_len) = (0, self.packed.len());
        }
        &mut self.packed
    }

    #[inline]
    fn fill_out(&mut self, turns: &mut impl StreamTurns) {
        self.note_progress();
        self.is_large |= self.out.len() > KEEP_LEN;
        if self.is_large && self.out.is_empty() {
            self.out = BytesMut::new();
            self.is_large = false;
        }
        if !self.queue.is_empty() {
            self.fill_chunks(turns);
        }
        self.expected_len = self.out.len();
    }

    /// Moves all that is left of long messages into the buffer; `sent` is as in [`StreamTurns`].
    pub(crate) fn flush_long(&mut self, mut sent: impl FnMut(u64) -> bool) {
        self.note_progress();
        let mut streams = VecDeque::new();
        while let Some(turn) = self.queue.pop_front() {
            match turn {
                TurnTaker::Message(long) => self.put_part(long, &mut sent),
                stream @ TurnTaker::Stream(_) => streams.push_back(stream),
            }
        }
        self.queue = streams;
        self.expected_len = self.out.len();
    }

    fn fill_chunks(&mut self, turns: &mut impl StreamTurns) {
        while self.out.len() < FILL_LEN || self.overtaken_bytes >= PATIENCE_LEN {
            match self.queue.pop_front() {
                Some(TurnTaker::Message(long)) => self.put_part(long, &mut |id| turns.sent(id)),
                Some(TurnTaker::Stream(id)) => {
                    self.overtaken_bytes = 0;
                    if turns.stream_turn(id, &mut self.out) {
                        self.queue.push_back(TurnTaker::Stream(id));
                    }
                }
                None => break,
            }
        }
    }

    /// Moves the next part of a message into the buffer, and puts the rest back into the queue.
    fn put_part(&mut self, mut long: Long, sent: &mut impl FnMut(u64) -> bool) {
        let part = long.rest.split_to(CHUNK_LEN.min(long.rest.len()));
        let is_last = long.rest.is_empty();
        self.out.reserve(HEADER_LEN + part.len());
        match long.head.take() {
            Some(head) => self.out.extend_from_slice(&head),
            None => self.out.put_slice(&chunk_header(long.id, part.len(), is_last).to_bytes()),
        }
        self.out.extend_from_slice(&part);
        self.queued_bytes -= part.len();
        self.overtaken_bytes = 0;
        if !is_last {
            self.queue.push_back(TurnTaker::Message(long));
        } else if sent(long.id) {
            self.queue.push_back(TurnTaker::Stream(long.id));
        }
    }

    /// Drops what is left of a long message. Says whether the peer has seen some of it; a message
    /// that is not in the queue counts as seen.
    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let is_it = |turn: &TurnTaker| matches!(turn, TurnTaker::Message(long) if long.id == id);
        let Some(index) = self.queue.iter().position(is_it) else {
            return true;
        };
        let Some(TurnTaker::Message(long)) = self.queue.remove(index) else {
            return true;
        };
        self.queued_bytes -= long.rest.len();
        long.head.is_none()
    }

    /// Drops all long messages and turns.
    pub(crate) fn clear_long(&mut self) {
        self.queue.clear();
        self.queued_bytes = 0;
    }

    /// Drops everything: the peer reads no more.
    pub(crate) fn clear(&mut self) {
        self.clear_long();
        self.out.clear();
        self.packed.clear();
        (self.expected_len, self.packed_len) = (0, 0);
    }

    /// Whether the driver wrote something since this was last asked.
    pub(crate) fn take_progress(&mut self) -> bool {
        self.note_progress();
        self.note_packed_progress();
        std::mem::take(&mut self.progressed)
    }

    fn note_packed_progress(&mut self) {
        self.progressed |= self.packed.len() < self.packed_len;
        self.packed_len = self.packed.len();
    }

    #[inline]
    fn note_progress(&mut self) {
        self.progressed |= self.out.len() < self.expected_len;
        self.expected_len = self.out.len();
    }

    /// Streams that take turns.
    pub(crate) fn streams(&self) -> impl Iterator<Item = u64> {
        self.queue.iter().filter_map(|turn| match turn {
            TurnTaker::Stream(id) => Some(*id),
            TurnTaker::Message(_) => None,
        })
    }

    pub(crate) fn check_invariants(&self) {
        let messages = || {
            self.queue.iter().filter_map(|turn| match turn {
                TurnTaker::Message(long) => Some(long.rest.len()),
                TurnTaker::Stream(_) => None,
            })
        };
        debug_assert_eq!(messages().sum::<usize>(), self.queued_bytes);
        debug_assert!(messages().all(|len| len != 0));
        debug_assert!(self.packer.is_some() || self.packed.is_empty());
    }
}

/// Writes header and fields of a message in one frame without metadata.
#[inline]
fn put_plain(out: &mut BytesMut, head: &FrameHead, fields: [u8; 8], payload_len: usize) {
    let body_len = u32::try_from(fields.len() + payload_len).unwrap_or(u32::MAX);
    let FrameHead { kind, flags, codec, status, id, .. } = *head;
    let header = Header { body_len, kind: kind as u8, flags, codec, status, id }.to_bytes();
    let mut bytes = [0; HEADER_LEN + 8];
    let (front, back) = bytes.split_at_mut(HEADER_LEN);
    front.copy_from_slice(&header);
    back.copy_from_slice(&fields);
    out.extend_from_slice(&bytes);
}

/// Writes header, fields, total and metadata of a message's first frame; `part_len` bytes of
/// payload are to follow.
#[inline]
fn put_head(
    out: &mut BytesMut,
    head: &FrameHead,
    entries: &[(&str, &str)],
    meta_len: usize,
    total: Option<u32>,
    part_len: usize,
) {
    let mut body_len = part_len;
    let mut flags = head.flags;
    if head.fields.is_some() {
        body_len += 8;
    }
    if total.is_some() {
        body_len += 4;
        flags |= flags::MORE;
    }
    if !entries.is_empty() {
        body_len += 2 + meta_len;
        flags |= flags::META;
    }
    let body_len = u32::try_from(body_len).unwrap_or(u32::MAX);
    let (kind, codec, status, id) = (head.kind as u8, head.codec, head.status, head.id);
    let header = Header { body_len, kind, flags, codec, status, id };
    out.extend_from_slice(&header.to_bytes());
    if let Some(fields) = head.fields {
        out.extend_from_slice(&fields);
    }
    if let Some(total) = total {
        out.put_u32(total);
    }
    if !entries.is_empty() {
        meta::encode(entries, meta_len, out);
    }
}

fn chunk_header(id: u64, part_len: usize, is_last: bool) -> Header {
    let body_len = u32::try_from(part_len).unwrap_or(u32::MAX);
    let flags = if is_last { 0 } else { flags::MORE };
    Header { body_len, kind: FrameKind::Chunk as u8, flags, id, ..Header::default() }
}
