//! Dubbo frames: bytes in, frames out, and headers into a caller's buffer.
//!
//! Invariants:
//! - A frame leaves the buffer whole or not at all.
//! - The body's length is checked against the limit before any space is kept for the body.
//! - After an error the framing is lost, so the caller closes the connection.
//! - [`Frames`] keeps nothing of a body that is too long.

use bytes::{Bytes, BytesMut};

use crate::{FrameError, Serialization};

/// The protocol version that requests announce. Providers from 2.6.3 on may then send attachments
/// with their replies.
pub const PROTOCOL_VERSION: &str = "2.0.2";

/// The longest body that Dubbo sends or takes unless `payload` says otherwise.
pub const DEFAULT_PAYLOAD_LIMIT: usize = 8 << 20;

/// The longest body that a frame can have for Java, which reads its length as an `int`.
pub const MAX_PAYLOAD_LIMIT: usize = i32::MAX as usize;

/// The length of a header.
pub const HEADER_LEN: usize = 16;

/// The first two bytes of every frame.
pub const MAGIC: u16 = 0xdabb;

const REQUEST: u8 = 0x80;
const TWO_WAY: u8 = 0x40;
const EVENT: u8 = 0x20;

/// What comes before a body.
///
/// Source: apache/dubbo, `ExchangeCodec`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Header {
    /// A request, or the reply to one.
    pub is_request: bool,
    /// A request that wants a reply. Replies leave it out.
    pub two_way: bool,
    /// A heartbeat or a word about the connection, instead of a call.
    pub is_event: bool,
    /// How the body is written.
    pub serialization: Serialization,
    /// The outcome, in replies; 0 in requests. See [`Status`](crate::Status).
    pub status: u8,
    /// Chosen by the side that asks; a reply repeats it.
    pub id: u64,
    /// Length of the body in bytes.
    pub body_len: usize,
}

/// A header and its body.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// What comes before the body.
    pub header: Header,
    /// A slice of the buffer that the frame was read into, not a copy.
    pub body: Bytes,
}

impl Header {
    /// Reads a header. Bits that Dubbo does not define are ignored, as Java does.
    ///
    /// # Errors
    /// [`FrameError::BadMagic`] when these bytes do not begin a Dubbo frame.
    pub fn parse(head: &[u8; HEADER_LEN]) -> Result<Self, FrameError> {
        let [m0, m1, flags, status, i0, i1, i2, i3, i4, i5, i6, i7, l0, l1, l2, l3] = *head;
        let found = u16::from_be_bytes([m0, m1]);
        if found != MAGIC {
            return Err(FrameError::BadMagic { found });
        }
        let body_len = u32::from_be_bytes([l0, l1, l2, l3]);
        Ok(Self {
            is_request: flags & REQUEST != 0,
            two_way: flags & TWO_WAY != 0,
            is_event: flags & EVENT != 0,
            serialization: Serialization::from_id(flags),
            status,
            id: u64::from_be_bytes([i0, i1, i2, i3, i4, i5, i6, i7]),
            // A length that does not fit is over every limit, which is what the caller checks
            // next.
            body_len: usize::try_from(body_len).unwrap_or(usize::MAX),
        })
    }

    /// Writes the header. `body_len` has been checked against the payload limit before, which is
    /// far below 4 GiB.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let flags = flag(self.is_request, REQUEST)
            | flag(self.two_way, TWO_WAY)
            | flag(self.is_event, EVENT)
            | self.serialization.id();
        let body_len = u32::try_from(self.body_len).unwrap_or(u32::MAX);
        debug_assert!(body_len != u32::MAX, "the payload limit is far below");
        let mut head = [0; HEADER_LEN];
        head[..2].copy_from_slice(&MAGIC.to_be_bytes());
        head[2] = flags;
        head[3] = self.status;
        head[4..12].copy_from_slice(&self.id.to_be_bytes());
        head[12..].copy_from_slice(&body_len.to_be_bytes());
        head
    }
}

const fn flag(is_set: bool, bit: u8) -> u8 {
    if is_set { bit } else { 0 }
}

/// Takes the next frame off the front of `buf`: a header, then `body_len` bytes.
///
/// Returns `Ok(None)`, with `buf` as it was, until the whole frame is there. The body is not
/// copied. `max_body_len` is in bytes, without the header.
///
/// # Errors
/// [`FrameError`] if the peer broke the protocol; a wrong magic is noticed at its first byte.
#[inline]
pub fn decode(buf: &mut BytesMut, max_body_len: usize) -> Result<Option<Frame>, FrameError> {
    let Some(head) = buf.first_chunk::<HEADER_LEN>() else {
        return check_first_bytes(buf).map(|()| None);
    };
    let header = Header::parse(head)?;
    if max_body_len < header.body_len {
        return Err(FrameError::BodyTooLong { len: header.body_len, max: max_body_len });
    }
    let frame_len = HEADER_LEN + header.body_len;
    if buf.len() < frame_len {
        return Ok(None);
    }
    let mut body = buf.split_to(frame_len);
    bytes::Buf::advance(&mut body, HEADER_LEN);
    Ok(Some(Frame { header, body: body.freeze() }))
}

/// What [`Frames`] has found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Incoming {
    /// A whole frame.
    Frame(Frame),
    /// The header of a frame whose body is over the limit, and the body's first byte, which tells
    /// its framing. The body is skipped as it comes.
    TooLong(Header, u8),
}

/// Takes frames off a stream, and steps over those that are too long: the frames behind them are
/// as good as any.
#[derive(Debug)]
pub struct Frames {
    max_body_len: usize,
    /// What is still to come of a body that is too long.
    n_to_skip: usize,
}

impl Frames {
    /// For bodies of up to `max_body_len` bytes.
    #[must_use]
    pub const fn new(max_body_len: usize) -> Self {
        Self { max_body_len, n_to_skip: 0 }
    }

    /// The next frame at the front of `buf`, as [`decode`] takes it; `None` until it is there
    /// whole.
    ///
    /// # Errors
    /// [`FrameError::BadMagic`].
    #[inline]
    pub fn next(&mut self, buf: &mut BytesMut) -> Result<Option<Incoming>, FrameError> {
        if self.n_to_skip != 0 {
            let len = self.n_to_skip.min(buf.len());
            bytes::Buf::advance(buf, len);
            self.n_to_skip -= len;
        }
        match decode(buf, self.max_body_len) {
            Ok(frame) => Ok(frame.map(Incoming::Frame)),
            Err(FrameError::BodyTooLong { .. }) => self.begin_to_skip(buf),
            Err(error) => Err(error),
        }
    }

    /// Gives up the frame that is at the front of `buf`: what is there of it is dropped, and what
    /// is still to come is skipped. `None` if not even its header and the first byte of its body
    /// are there.
    ///
    /// # Errors
    /// As [`Frames::next`].
    pub fn shed(&mut self, buf: &mut BytesMut) -> Result<Option<(Header, u8)>, FrameError> {
        match self.begin_to_skip(buf)? {
            Some(Incoming::TooLong(header, first)) => Ok(Some((header, first))),
            _ => Ok(None),
        }
    }

    /// The length of the frame whose beginning is at the front of `buf`, with its header. `None`
    /// if that is not known, or nothing is to be kept of it.
    #[must_use]
    pub fn front_len(&self, buf: &[u8]) -> Option<usize> {
        let header = Header::parse(buf.first_chunk()?).ok()?;
        let is_kept = self.n_to_skip == 0 && header.body_len <= self.max_body_len;
        is_kept.then_some(HEADER_LEN + header.body_len)
    }

    /// Whether the rest of a frame that is skipped is still to come.
    #[must_use]
    pub const fn is_skipping(&self) -> bool {
        self.n_to_skip != 0
    }

    #[cold]
    fn begin_to_skip(&mut self, buf: &mut BytesMut) -> Result<Option<Incoming>, FrameError> {
        // A body that is too long has at least one byte.
        let Some((head, [first, ..])) = buf.split_first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let (header, first) = (Header::parse(head)?, *first);
        self.n_to_skip = HEADER_LEN.saturating_add(header.body_len);
        let len = self.n_to_skip.min(buf.len());
        bytes::Buf::advance(buf, len);
        self.n_to_skip -= len;
        Ok(Some(Incoming::TooLong(header, first)))
    }
}

/// Somebody who types text by hand gets his answer before he has typed 16 bytes.
fn check_first_bytes(buf: &[u8]) -> Result<(), FrameError> {
    let [high, low] = MAGIC.to_be_bytes();
    match *buf {
        [found] if found != high => {
            Err(FrameError::BadMagic { found: u16::from_be_bytes([found, 0]) })
        }
        [first, second, ..] if [first, second] != [high, low] => {
            Err(FrameError::BadMagic { found: u16::from_be_bytes([first, second]) })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::iter::from_fn;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const MAX_BODY_LEN: usize = 1024;

    fn any_frame() -> impl Strategy<Value = Frame> {
        (any::<(bool, bool, bool, u8, u8, u64)>(), vec(any::<u8>(), 0..100)).prop_map(
            |((is_request, two_way, is_event, id, status, request_id), body)| Frame {
                header: Header {
                    is_request,
                    two_way,
                    is_event,
                    serialization: Serialization::from_id(id),
                    status,
                    id: request_id,
                    body_len: body.len(),
                },
                body: body.into(),
            },
        )
    }

    fn encode_all(frames: &[Frame]) -> Vec<u8> {
        let mut out = Vec::new();
        for frame in frames {
            out.extend_from_slice(&frame.header.encode());
            out.extend_from_slice(&frame.body);
        }
        out
    }

    proptest! {
        /// Where the network cuts the bytes never changes the frames that come out.
        #[test]
        fn cuts_do_not_matter(frames in vec(any_frame(), 1..8), cut_len in 1..64usize) {
            let (mut buf, mut seen) = (BytesMut::new(), Vec::new());
            for piece in encode_all(&frames).chunks(cut_len) {
                buf.extend_from_slice(piece);
                seen.extend(from_fn(|| decode(&mut buf, MAX_BODY_LEN).unwrap()));
            }
            prop_assert_eq!(seen, frames);
            prop_assert!(buf.is_empty());
        }
    }

    proptest! {
        /// Frames that are too long are told, and cost none of the others, wherever the cuts are.
        #[test]
        fn long_frames_are_stepped_over(
            frames in vec(any_frame(), 1..8),
            max_body_len in 0..100usize,
            cut_len in 1..64usize,
        ) {
            let mut reader = Frames::new(max_body_len);
            let (mut buf, mut seen) = (BytesMut::new(), Vec::new());
            for piece in encode_all(&frames).chunks(cut_len) {
                buf.extend_from_slice(piece);
                seen.extend(from_fn(|| reader.next(&mut buf).unwrap()));
                prop_assert!(buf.len() <= HEADER_LEN + max_body_len + cut_len);
            }
            let expected: Vec<_> = frames
                .into_iter()
                .map(|frame| match frame.header.body_len <= max_body_len {
                    true => Incoming::Frame(frame),
                    false => Incoming::TooLong(frame.header, frame.body[0]),
                })
                .collect();
            prop_assert_eq!(seen, expected);
            prop_assert!(buf.is_empty());
        }
    }

    #[test]
    fn limit_is_checked_before_the_body_arrives() {
        let mut head = [0; HEADER_LEN];
        head[..2].copy_from_slice(&MAGIC.to_be_bytes());
        head[12..].copy_from_slice(&u32::MAX.to_be_bytes());
        let mut buf = BytesMut::from(&head[..]);
        let len = usize::try_from(u32::MAX).unwrap();
        assert_eq!(decode(&mut buf, 100), Err(FrameError::BodyTooLong { len, max: 100 }));
    }

    #[test]
    fn the_length_is_known_of_what_will_be_kept() {
        let frame = |body_len: u32| {
            let mut frame = [0; HEADER_LEN + 1];
            frame[..2].copy_from_slice(&MAGIC.to_be_bytes());
            frame[12..16].copy_from_slice(&body_len.to_be_bytes());
            frame
        };
        let mut frames = Frames::new(100);
        assert_eq!(frames.front_len(&frame(100)), Some(HEADER_LEN + 100));
        assert_eq!(frames.front_len(&frame(101)), None, "it is skipped");
        assert_eq!(frames.front_len(&frame(100)[..HEADER_LEN - 1]), None);
        assert_eq!(frames.front_len(b"GET / HTTP/1.1\r\n\r\n"), None);
        frames.shed(&mut BytesMut::from(&frame(100)[..])).unwrap();
        assert_eq!(frames.front_len(&frame(100)), None, "the rest of the other is still to come");
    }

    #[test]
    fn text_is_refused_at_its_first_byte() {
        let mut buf = BytesMut::from(&b"G"[..]);
        assert_eq!(decode(&mut buf, 100), Err(FrameError::BadMagic { found: 0x4700 }));
        let mut buf = BytesMut::from(&b"\xdaE"[..]);
        assert_eq!(decode(&mut buf, 100), Err(FrameError::BadMagic { found: 0xda45 }));
        let mut buf = BytesMut::from(&b"\xda\xbb"[..]);
        assert_eq!(decode(&mut buf, 100), Ok(None));
        let mut buf = BytesMut::from(&b"GET / HTTP/1.1\r\n\r\n"[..]);
        assert_eq!(decode(&mut buf, 100), Err(FrameError::BadMagic { found: 0x4745 }));
    }
}
