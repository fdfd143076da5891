//! Calls: their ids, what goes out, and the bodies of REQUEST and RESPONSE.
//!
//! REQUEST: `u32` route, `u32` timeout in ms, then as RESPONSE. RESPONSE: with MORE the `u32`
//! length of the whole payload, with META the metadata, then the payload or its first part.

use crate::header::{Header, MAX_PART_LEN, flags};
use crate::meta::Meta;
use crate::reader::Reader;
use crate::{LinkError, RouteId, Status};
use bytes::{Buf, Bytes, BytesMut};
use std::time::{Duration, Instant};

/// A call on one link: a slot, and a generation that tells the calls in that slot apart.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CallId(u64);

impl CallId {
    pub(crate) fn new(slot: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(slot))
    }

    pub(crate) fn from_wire(id: u64) -> Self {
        Self(id)
    }

    /// The id as it is in frames.
    pub fn to_wire(self) -> u64 {
        self.0
    }

    /// Index of the call in tables of both sides: below the window, free again after the call.
    pub fn slot(self) -> u32 {
        (self.0 & 0xffff_ffff) as u32
    }

    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// Payload of a message on its way out. One that is sent in chunks is not copied if it is `Bytes`.
#[derive(Clone, Debug)]
pub enum Payload<'a> {
    /// Bytes that someone else owns.
    Slice(&'a [u8]),
    /// Shared bytes.
    Bytes(Bytes),
}

impl Payload<'_> {
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Slice(slice) => slice,
            Self::Bytes(bytes) => bytes,
        }
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Self::Slice(slice) => Bytes::copy_from_slice(slice),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl<'a> From<&'a [u8]> for Payload<'a> {
    fn from(slice: &'a [u8]) -> Self {
        Self::Slice(slice)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Payload<'a> {
    fn from(slice: &'a [u8; N]) -> Self {
        Self::Slice(slice)
    }
}

impl<'a> From<&'a str> for Payload<'a> {
    fn from(text: &'a str) -> Self {
        Self::Slice(text.as_bytes())
    }
}

impl From<Bytes> for Payload<'_> {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Vec<u8>> for Payload<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<String> for Payload<'_> {
    fn from(text: String) -> Self {
        Self::Bytes(text.into())
    }
}

/// A call to be sent.
#[derive(Clone, Debug)]
pub struct RequestOut<'a> {
    /// A route of this link.
    pub route: RouteId,
    /// When the caller gives up; the server is told how long that is from now.
    pub deadline: Option<Instant>,
    /// How long that is, if the sender knows: it is then not worked out.
    pub timeout: Option<Duration>,
    /// Metadata, at most 128 entries and 32 KiB.
    pub meta: &'a [(&'a str, &'a str)],
    /// Codec of the payload.
    pub codec: u8,
    /// The caller wants no answer, and will not learn what became of the call.
    pub one_way: bool,
    /// The caller will send items, and end them by
    /// [`end_items`](crate::Connection::end_items). The peer must have
    /// [`STREAMS`](crate::features::STREAMS).
    pub stream_in: bool,
    /// The server may send items before its answer. As for `stream_in`.
    pub stream_out: bool,
    /// The caller would like to know how long the app took. The server may say so in the metadata
    /// of its answer.
    pub timed: bool,
    /// Arguments.
    pub payload: Payload<'a>,
}

impl RequestOut<'_> {
    /// A call without deadline, metadata, streams and payload.
    pub fn new(route: RouteId) -> Self {
        Self {
            route,
            deadline: None,
            timeout: None,
            meta: &[],
            codec: 0,
            one_way: false,
            stream_in: false,
            stream_out: false,
            timed: false,
            payload: Payload::Slice(&[]),
        }
    }

    /// Flags of its REQUEST that say what kind of call this is.
    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        let one_way = if self.one_way { flags::ONE_WAY } else { 0 };
        let stream_in = if self.stream_in { flags::STREAM_IN } else { 0 };
        let stream_out = if self.stream_out { flags::STREAM_OUT } else { 0 };
        let timed = if self.timed { flags::TIMED } else { 0 };
        one_way | stream_in | stream_out | timed
    }
}

/// An answer to be sent.
#[derive(Clone, Debug)]
pub struct Reply<'a> {
    /// Outcome.
    pub status: Status,
    /// Codec of the payload.
    pub codec: u8,
    /// Metadata, at most 128 entries and 32 KiB.
    pub meta: &'a [(&'a str, &'a str)],
    /// Reply, or the text of an error: [`Status`] says which.
    pub payload: Payload<'a>,
}

impl<'a> Reply<'a> {
    /// An answer without metadata and payload.
    pub fn new(status: Status) -> Self {
        Self { status, codec: 0, meta: &[], payload: Payload::Slice(&[]) }
    }

    /// An error with its text.
    pub fn error(status: Status, text: &'a str) -> Self {
        Self { payload: text.into(), ..Self::new(status) }
    }
}

/// What comes before the payload of a REQUEST.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) route: u32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) codec: u8,
    /// As in the header.
    pub(crate) flags: u8,
    pub(crate) meta: Meta,
}

impl RequestHead {
    #[inline]
    pub(crate) fn is_one_way(&self) -> bool {
        self.flags & flags::ONE_WAY != 0
    }
}

/// What comes before the payload of a RESPONSE.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: Status,
    pub(crate) codec: u8,
    pub(crate) meta: Meta,
}

/// A message's head; the length of its whole payload if chunks follow; the payload here.
pub(crate) type FirstFrame<H> = (H, Option<usize>, Bytes);

/// Reads a REQUEST's body.
///
/// Always inlined, as the next two: moving the result through memory costs 25 ns a call.
#[inline(always)]
pub(crate) fn decode_request(
    header: &Header,
    body: BytesMut,
) -> Result<FirstFrame<RequestHead>, LinkError> {
    let mut reader = Reader::new(header.kind, &body);
    let route = reader.u32()?;
    let timeout_ms = reader.u32()?;
    let (total, meta, payload) = decode_rest(header, 8, body)?;
    let timeout = (timeout_ms != 0).then(|| Duration::from_millis(u64::from(timeout_ms)));
    let (codec, flags) = (header.codec, header.flags);
    Ok((RequestHead { route, timeout, codec, flags, meta }, total, payload))
}

/// Reads a RESPONSE's body.
#[inline(always)]
pub(crate) fn decode_response(
    header: &Header,
    body: BytesMut,
) -> Result<FirstFrame<ResponseHead>, LinkError> {
    let (total, meta, payload) = decode_rest(header, 0, body)?;
    Ok((ResponseHead { status: Status(header.status), codec: header.codec, meta }, total, payload))
}

/// Reads what REQUEST and RESPONSE have in common, from offset `at` on.
#[inline(always)]
fn decode_rest(
    header: &Header,
    at: usize,
    mut body: BytesMut,
) -> Result<(Option<usize>, Meta, Bytes), LinkError> {
    body.advance(at);
    let mut total = None;
    let mut meta = Meta::default();
    if header.flags & (flags::MORE | flags::META) != 0 {
        (total, meta) = decode_optional(header, &mut body)?;
    }
    if body.len() > MAX_PART_LEN {
        let (kind, len, max) = (header.kind, body.len(), MAX_PART_LEN);
        return Err(LinkError::FieldTooLong { kind, what: "payload of one frame", len, max });
    }
    Ok((total, meta, body.freeze()))
}

/// Takes the fields that flags announce off the front of `body`. Kept out of the way of the
/// messages that have none, which are most.
#[inline(never)]
fn decode_optional(
    header: &Header,
    body: &mut BytesMut,
) -> Result<(Option<usize>, Meta), LinkError> {
    let mut reader = Reader::new(header.kind, body);
    let total = match header.flags & flags::MORE {
        0 => None,
        _ => Some(reader.u32()? as usize),
    };
    let mut meta_len = 0;
    if header.flags & flags::META != 0 {
        meta_len = usize::from(reader.u16()?);
        reader.bytes(meta_len)?;
    }
    let start = reader.at() - meta_len;
    body.advance(start);
    let meta = match meta_len {
        0 => Meta::default(),
        _ => Meta::check(header.kind, body.split_to(meta_len).freeze())?,
    };
    Ok((total, meta))
}

/// Remaining time as the wire has it: rounded up, since 0 means "no limit".
pub(crate) fn timeout_ms(deadline: Option<Instant>, now: Instant) -> u32 {
    let Some(deadline) = deadline else {
        return 0;
    };
    duration_ms(deadline.saturating_duration_since(now))
}

/// A remaining time as the wire has it.
#[inline]
pub(crate) fn duration_ms(left: Duration) -> u32 {
    let ms = left.as_secs().saturating_mul(1000);
    let ms = ms.saturating_add(u64::from(left.subsec_nanos().div_ceil(1_000_000)));
    u32::try_from(ms).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "only differences of instants matter")]
    fn remaining_time_is_rounded_up_and_never_no_limit() {
        let now = Instant::now();
        let ms = |left| timeout_ms(Some(now + left), now);
        assert_eq!(timeout_ms(None, now), 0);
        assert_eq!(ms(Duration::ZERO), 1);
        assert_eq!(ms(Duration::from_nanos(1)), 1);
        assert_eq!(ms(Duration::from_micros(1_000)), 1);
        assert_eq!(ms(Duration::from_micros(2_001)), 3);
        assert_eq!(ms(Duration::from_secs(1 << 40)), u32::MAX);
        assert_eq!(timeout_ms(Some(now), now + Duration::from_secs(1)), 1);
    }

    #[test]
    fn id_has_slot_and_generation() {
        let id = CallId::new(7, 0xffff_ffff);
        assert_eq!((id.slot(), id.generation()), (7, 0xffff_ffff));
        assert_eq!(id.to_wire(), 0xffff_ffff_0000_0007);
    }
}
