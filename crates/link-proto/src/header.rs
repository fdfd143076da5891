//! The 16 bytes before every frame, the kinds and flags of frames, and the protocol's limits.
//!
//! Invariants:
//! - A header is accepted or refused by itself: no space is kept for a body before its length
//!   was checked against its kind's limit.
//! - Kinds from 0x80 and the flag bits 0x40 and 0x80 may be ignored; all others must be known.

use crate::LinkError;

/// First number of every HELLO body: "DMSH".
pub const MAGIC: u32 = 0x444D_5348;
/// Length of a frame's header in bytes.
pub const HEADER_LEN: usize = 16;
/// Most bytes of a message's payload in one frame; a longer payload travels in chunks.
pub const MAX_PART_LEN: usize = 64 * 1024;
/// Longest encoded metadata of a message, or attachments of a route, without their length field.
pub const MAX_META_LEN: usize = 32 * 1024;
/// Most entries in metadata or attachments.
pub const MAX_META_ENTRIES: usize = 128;
/// Longest body of any frame. The largest legal REQUEST fits with room to spare, and a receive
/// buffer of this size and a header always holds one whole frame.
pub const MAX_BODY_LEN: usize = 128 * 1024;
/// Most bytes of whole frames in one COMPRESSED: the longest frame.
pub const MAX_RAW_LEN: usize = HEADER_LEN + MAX_BODY_LEN;
/// Longest body of a HELLO.
pub const MAX_HELLO_LEN: usize = 4096;
/// Longest text in a GOAWAY or in the answer to a DEFINE.
pub const MAX_TEXT_LEN: usize = 1024;
/// Longest service key, method name or peer name in bytes.
pub const MAX_NAME_LEN: usize = 1024;
/// Longest parameter descriptor in bytes: a method has at most 255 parameters.
pub const MAX_DESCRIPTOR_LEN: usize = 16 * 1024;
/// Largest window of calls in flight, so that a slot table stays small whatever a peer asks.
pub const MAX_WINDOW: u32 = 65_536;
/// Largest number of routes on one link.
pub const MAX_ROUTES: u32 = 65_536;
/// Largest message limit that can be configured.
pub const MAX_MESSAGE_LEN: u32 = 1 << 30;
/// Largest window of a stream, in bytes.
pub const MAX_STREAM_WINDOW: u32 = 16 << 20;
/// Smallest window of a stream that can be configured: a small item or two.
pub const MIN_STREAM_WINDOW: u32 = 16 << 10;
/// Most apps behind a server that have credits of their own.
pub const MAX_POOLS: u32 = 1024;
/// Scope of a CREDIT that means the whole link.
pub const WHOLE_LINK: u32 = u32::MAX;

/// What a frame is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum FrameKind {
    /// First frame of both sides: versions, limits, who I am.
    Hello = 1,
    /// Names a route by a number (client), or answers that (server, with [`flags::ACK`]).
    Define = 2,
    /// Begins a call.
    Request = 3,
    /// Ends a call, or begins a long answer.
    Response = 4,
    /// Goes on with a message that began with [`flags::MORE`].
    Chunk = 5,
    /// The client has no more interest in a call.
    Cancel = 6,
    /// The server says how many calls may be in flight.
    Credit = 7,
    /// Asks for a PONG.
    Ping = 8,
    /// Answers a PING with its eight bytes.
    Pong = 9,
    /// No more calls; or, with a fatal reason, the end of this link.
    GoAway = 10,
    /// A part of an item of a stream, or the end of the items.
    Item = 11,
    /// So many more bytes of items may be sent.
    ItemCredit = 12,
    /// Whole frames, in one LZ4 block.
    Compressed = 13,
    /// The client says how many calls wait for credits.
    Demand = 14,
    /// The server says that an app behind it gives no sign of life, or gives some again. Optional,
    /// as calls end without it, too.
    Pause = 0x80,
}

/// Flag bits of the frames. The same bit may mean different things in different kinds.
pub mod flags {
    /// REQUEST, RESPONSE, CHUNK, ITEM: this message or item goes on in the next CHUNK or ITEM.
    pub const MORE: u8 = 0x01;
    /// REQUEST, RESPONSE: metadata comes before the payload.
    pub const META: u8 = 0x02;
    /// REQUEST: there will be no answer.
    pub const ONE_WAY: u8 = 0x04;
    /// REQUEST: the client will send items.
    pub const STREAM_IN: u8 = 0x08;
    /// REQUEST: the server may send items before its RESPONSE.
    pub const STREAM_OUT: u8 = 0x10;
    /// REQUEST: the client would like to know how long the app took. Optional, as a receiver
    /// that does not know it answers without that.
    pub const TIMED: u8 = 0x40;
    /// CREDIT: how many calls the app takes was measured. Optional, as a receiver that does not
    /// know it takes the number for certain.
    pub const MEASURED: u8 = 0x40;
    /// ITEM: the client sends no more items.
    pub const END: u8 = 0x08;
    /// DEFINE: this is the server's answer.
    pub const ACK: u8 = 0x01;
    /// Flag bits that a receiver must know, or refuse the frame.
    pub const MUST_UNDERSTAND: u8 = 0x3f;
}

impl FrameKind {
    /// The kind with that number; `None` if this version does not know it.
    pub fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Hello,
            2 => Self::Define,
            3 => Self::Request,
            4 => Self::Response,
            5 => Self::Chunk,
            6 => Self::Cancel,
            7 => Self::Credit,
            8 => Self::Ping,
            9 => Self::Pong,
            10 => Self::GoAway,
            11 => Self::Item,
            12 => Self::ItemCredit,
            13 => Self::Compressed,
            14 => Self::Demand,
            0x80 => Self::Pause,
            _ => return None,
        })
    }

    /// Flag bits that mean something in this kind.
    fn known_flags(self) -> u8 {
        match self {
            Self::Request => {
                flags::MORE | flags::META | flags::ONE_WAY | flags::STREAM_IN | flags::STREAM_OUT
            }
            Self::Response => flags::MORE | flags::META,
            Self::Chunk => flags::MORE,
            Self::Item => flags::MORE | flags::END,
            Self::Define => flags::ACK,
            _ => 0,
        }
    }

    /// Longest body of this kind.
    fn max_body_len(self) -> usize {
        match self {
            Self::Hello => MAX_HELLO_LEN,
            Self::Define | Self::Request | Self::Response | Self::Compressed => MAX_BODY_LEN,
            Self::Chunk | Self::Item => MAX_PART_LEN,
            Self::Cancel => 0,
            Self::ItemCredit => 4,
            Self::Demand => 12,
            Self::Credit | Self::Ping | Self::Pong | Self::Pause => 8,
            Self::GoAway => MAX_TEXT_LEN,
        }
    }
}

/// A frame's header. Numbers are big endian on the wire.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Header {
    /// Length of the body that follows, without these 16 bytes.
    pub body_len: u32,
    /// See [`FrameKind`]; kept as a number since a peer may know more kinds.
    pub kind: u8,
    /// See [`flags`].
    pub flags: u8,
    /// Which serialization the payload has; the protocol itself gives 0 no meaning but "unset".
    pub codec: u8,
    /// See [`crate::Status`]; in a GOAWAY see [`crate::GoAwayReason`].
    pub status: u8,
    /// The call, or 0 in frames that belong to none.
    pub id: u64,
}

impl Header {
    /// Reads a header; any 16 bytes are one.
    #[inline]
    pub fn parse(bytes: &[u8; HEADER_LEN]) -> Self {
        let [a, b, c, d, kind, flags, codec, status, id @ ..] = *bytes;
        let body_len = u32::from_be_bytes([a, b, c, d]);
        Self { body_len, kind, flags, codec, status, id: u64::from_be_bytes(id) }
    }

    /// Writes the header.
    #[inline]
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let [a, b, c, d] = self.body_len.to_be_bytes();
        let [e, f, g, h, i, j, k, l] = self.id.to_be_bytes();
        [a, b, c, d, self.kind, self.flags, self.codec, self.status, e, f, g, h, i, j, k, l]
    }

    /// What the frame is, or `None` if it is of an optional kind and to be skipped.
    ///
    /// # Errors
    /// The kind or a flag is unknown and must not be, or the body is longer than the kind allows.
    #[inline]
    pub fn check(&self) -> Result<Option<FrameKind>, LinkError> {
        let kind = FrameKind::from_number(self.kind);
        let max = kind.map_or(MAX_BODY_LEN, FrameKind::max_body_len);
        if self.body_len as usize > max {
            return Err(LinkError::FrameTooLong { kind: self.kind, len: self.body_len, max });
        }
        let Some(kind) = kind else {
            if self.kind < 0x80 {
                return Err(LinkError::UnknownKind { kind: self.kind });
            }
            return Ok(None);
        };
        let unknown = self.flags & flags::MUST_UNDERSTAND & !kind.known_flags();
        if unknown != 0 {
            return Err(LinkError::UnknownFlags { kind: self.kind, flags: unknown });
        }
        Ok(Some(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips_and_is_big_endian() {
        let header =
            Header { body_len: 0x0102, kind: 3, flags: 4, codec: 5, status: 6, id: 0x0a0b };
        let bytes = header.to_bytes();
        assert_eq!(bytes, [0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0x0a, 0x0b]);
        assert_eq!(Header::parse(&bytes), header);
    }

    #[test]
    fn unknown_kinds_and_flags_follow_the_rule() {
        let header = |kind, flags, body_len| Header { kind, flags, body_len, ..Header::default() };
        assert_eq!(header(3, flags::META, 9).check(), Ok(Some(FrameKind::Request)));
        assert_eq!(header(3, 0xc0, 9).check(), Ok(Some(FrameKind::Request)), "ignorable flags");
        assert_eq!(
            header(4, flags::STREAM_IN, 9).check(),
            Err(LinkError::UnknownFlags { kind: 4, flags: 8 })
        );
        assert_eq!(header(0x81, 0x3f, 9).check(), Ok(None), "optional kinds are skipped");
        assert_eq!(header(0x7f, 0, 0).check(), Err(LinkError::UnknownKind { kind: 0x7f }));
        assert_eq!(header(0, 0, 0).check(), Err(LinkError::UnknownKind { kind: 0 }));
        for kind in 0..=255 {
            let len = u32::try_from(MAX_BODY_LEN).unwrap() + 1;
            let refused = header(kind, 0, len).check();
            assert!(matches!(refused, Err(LinkError::FrameTooLong { .. })), "{kind}: {refused:?}");
        }
    }
}
