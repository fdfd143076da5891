//! Replies, read and written. A result's value is left as the bytes it is.
//!
//! A body of status 20 is a number (what kind of result, and whether attachments follow), the
//! value or exception if there is one, and the attachments. A body of any other status is a text.
//! Source: apache/dubbo, `DecodeableRpcResult` and `DubboCodec.encodeResponseData`.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use bytes::BytesMut;
use hessian::Decoder;

use crate::body::{BodyLimits, read_attachments, read_text_attachments};
use crate::frame::{HEADER_LEN, Header};
use crate::json::{self, Framing, SIZE_LEN, Texts};
use crate::{ProtoError, Serialization, Status, attachment};

/// The longest error text that is written. A stack trace of ordinary depth fits.
const MAX_ERROR_TEXT_LEN: usize = 16 << 10;
/// The longest that stands before a value: a type of two bytes behind its length, and a length.
const MAX_FRONT_LEN: usize = SIZE_LEN + 2 + SIZE_LEN;
/// Before a Java byte in JSONB.
const JSONB_BYTE: u8 = 0xbd;

/// What a method's result is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReplyKind {
    /// The method threw; an object of the exception's class.
    Exception,
    /// The method returned a value.
    Value,
    /// The method returned null, or nothing.
    Null,
}

impl ReplyKind {
    /// The number in front of the value, and whether attachments follow.
    const fn from_number(number: i64) -> Option<(Self, bool)> {
        Some(match number {
            0 => (Self::Exception, false),
            1 => (Self::Value, false),
            2 => (Self::Null, false),
            3 => (Self::Exception, true),
            4 => (Self::Value, true),
            5 => (Self::Null, true),
            _ => return None,
        })
    }

    /// The kind of a reply of status OK, by the first bytes of its body; `None` if it cannot be
    /// told from them. The rest of the body is not looked at.
    #[must_use]
    pub fn of(serialization: Serialization, body: &[u8]) -> Option<Self> {
        // Hessian writes numbers below 48 as one byte from 0x90 on.
        if let (Serialization::Hessian2, Some(byte @ 0x90..=0x95)) = (serialization, body.first()) {
            return Self::from_number(i64::from(byte - 0x90)).map(|(kind, _)| kind);
        }
        let framing = Framing::of(serialization.of_body(body))?;
        let (number, _) = number(framing, body).ok()?;
        Self::from_number(number).map(|(kind, _)| kind)
    }

    const fn number(self, has_attachments: bool) -> u8 {
        let number = match self {
            Self::Exception => 0,
            Self::Value => 1,
            Self::Null => 2,
        };
        if has_attachments { number + 3 } else { number }
    }
}

/// A reply's body, read as far as its status and kind tell.
#[derive(Clone, Debug)]
pub enum Reply<'a> {
    /// Status 20: the method was called.
    Done(Outcome<'a>),
    /// Any other status: the call failed outside of the method.
    Failed {
        /// How.
        status: Status,
        /// What the provider says about it; empty when it says nothing.
        text: Cow<'a, str>,
    },
}

impl<'a> Reply<'a> {
    /// Reads the begin of a reply's body.
    ///
    /// # Errors
    /// [`ProtoError`] when status 20 comes with a body that cannot be read. A text that cannot be
    /// read is no error: the status says enough.
    pub fn decode(
        serialization: Serialization,
        status: Status,
        body: &'a [u8],
    ) -> Result<Self, ProtoError> {
        if status == Status::Ok {
            Outcome::decode(serialization, body).map(Self::Done)
        } else {
            Ok(Self::Failed { status, text: error_text(serialization, body) })
        }
    }
}

/// The text of a reply whose status is not 20. What cannot be read as the serialization says is
/// given as it stands, so that nothing that a provider tells gets lost.
#[must_use]
pub fn error_text(serialization: Serialization, body: &[u8]) -> Cow<'_, str> {
    let serialization = serialization.of_body(body);
    let text = match Framing::of(serialization) {
        Some(framing) => match Texts::new(framing, body, 0).next("error text") {
            Ok(Some((_, text))) => framing.read_string(text).map(|(text, _)| text),
            Ok(None) => Some(Cow::Borrowed("")),
            Err(_) => None,
        },
        None if serialization == Serialization::Hessian2 => {
            let limits = BodyLimits::default().hessian;
            Decoder::new(body, limits).read_opt_string().ok().map(Option::unwrap_or_default)
        }
        None => None,
    };
    let readable = body.get(..MAX_ERROR_TEXT_LEN).unwrap_or(body);
    text.unwrap_or_else(|| String::from_utf8_lossy(readable))
}

/// The outcome of a method that was called.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    serialization: Serialization,
    kind: ReplyKind,
    has_attachments: bool,
    body: &'a [u8],
    value_start: usize,
    /// Where the value ends, once somebody had to know.
    value_end: Cell<Option<usize>>,
}

impl<'a> Outcome<'a> {
    fn decode(serialization: Serialization, body: &'a [u8]) -> Result<Self, ProtoError> {
        let serialization = serialization.of_body(body);
        let (number, mut value_start) = match Framing::of(serialization) {
            Some(framing) => number(framing, body)?,
            None if serialization == Serialization::Hessian2 => {
                let mut decoder = Decoder::new(body, BodyLimits::default().hessian);
                let wrap = |source| ProtoError::Hessian { field: "reply type", source };
                (i64::from(decoder.read_int().map_err(wrap)?), decoder.position())
            }
            None => return Err(ProtoError::UnsupportedSerialization { id: serialization.id() }),
        };
        let Some((kind, has_attachments)) = ReplyKind::from_number(number) else {
            return Err(ProtoError::BadReplyType { found: number });
        };
        let mut value_end = (kind == ReplyKind::Null).then_some(value_start);
        let sized = Framing::of(serialization).filter(|framing| framing.is_sized());
        if let Some(framing) = sized.filter(|_| kind != ReplyKind::Null) {
            // The length before the value is no part of it.
            let range = json_value(framing, body, value_start)?;
            (value_start, value_end) = (range.start, Some(range.end));
        }
        let value_end = Cell::new(value_end);
        Ok(Self { serialization, kind, has_attachments, body, value_start, value_end })
    }

    /// Value, null or exception.
    #[must_use]
    pub const fn kind(&self) -> ReplyKind {
        self.kind
    }

    /// How the value is written.
    #[must_use]
    pub const fn serialization(&self) -> Serialization {
        self.serialization
    }

    /// Whether attachments stand behind the value.
    #[must_use]
    pub const fn has_attachments(&self) -> bool {
        self.has_attachments
    }

    /// Where in the body the value begins.
    #[must_use]
    pub const fn value_offset(&self) -> usize {
        self.value_start
    }

    /// The value and, where there are any, the attachments behind it. A decoder that reads one
    /// value from it needs to know no more, and this costs nothing.
    #[must_use]
    pub fn value_and_rest(&self) -> &'a [u8] {
        self.body.get(self.value_start..).unwrap_or_default()
    }

    /// The value alone; empty when it is null. With attachments behind it, a hessian2 value has
    /// to be walked through to find its end.
    ///
    /// # Errors
    /// [`ProtoError`] when the value is broken.
    pub fn value(&self, limits: &BodyLimits) -> Result<&'a [u8], ProtoError> {
        let range = match (self.serialization, self.has_attachments, self.value_end.get()) {
            (_, _, Some(end)) => self.value_start..end,
            (Serialization::Fastjson, _, None) => {
                json_value(Framing::Lines, self.body, self.value_start)?
            }
            (_, false, None) => self.value_start..self.body.len(),
            (_, true, None) => {
                let mut decoder = Decoder::new(self.value_and_rest(), limits.hessian);
                self.skip_value(&mut decoder)?;
                self.value_start..self.value_start + decoder.position()
            }
        };
        self.value_end.set(Some(range.end));
        Ok(self.body.get(range).unwrap_or_default())
    }

    /// The attachments whose values are strings.
    ///
    /// # Errors
    /// [`ProtoError`] when the value or the attachments are broken, or they pass a limit.
    pub fn attachments(&self, limits: &BodyLimits) -> Result<Vec<(String, String)>, ProtoError> {
        let max = limits.max_attachments;
        let (texts, base) = match self.attachment_map(limits)? {
            None => return Ok(Vec::new()),
            Some(AttachmentMap::Hessian(mut decoder)) => {
                (read_attachments(&mut decoder, max)?, self.value_and_rest())
            }
            Some(AttachmentMap::Text { offset, text }) => {
                let framing = Framing::of(self.serialization).unwrap_or(Framing::Lines);
                (read_text_attachments(framing, Some((offset, text)), max)?, self.body)
            }
        };
        let own = |(name, value): (crate::body::Text, crate::body::Text)| {
            (name.get(base).to_owned(), value.get(base).to_owned())
        };
        Ok(texts.into_iter().map(own).collect())
    }

    /// Where the attachments stand, for those who want them all, whatever they are.
    ///
    /// # Errors
    /// [`ProtoError`] when the value before them is broken.
    pub fn attachment_map(
        &self,
        limits: &BodyLimits,
    ) -> Result<Option<AttachmentMap<'a>>, ProtoError> {
        if !self.has_attachments {
            return Ok(None);
        }
        let Some(framing) = Framing::of(self.serialization) else {
            // Classes that the value defined may be used behind it, so the way leads through it.
            let mut decoder = Decoder::new(self.value_and_rest(), limits.hessian);
            if self.kind != ReplyKind::Null {
                self.skip_value(&mut decoder)?;
            }
            return Ok((!decoder.is_at_end()).then_some(AttachmentMap::Hessian(decoder)));
        };
        // What was sized has its value's end since it was decoded.
        let known_end = self.value_end.get().filter(|_| framing.is_sized());
        let mut texts = Texts::new(framing, self.body, known_end.unwrap_or(self.value_start));
        if self.kind != ReplyKind::Null && known_end.is_none() {
            texts.next("value")?;
        }
        let map = texts.next("attachments")?.filter(|(_, text)| !text.is_empty());
        Ok(map.map(|(offset, text)| AttachmentMap::Text { offset, text }))
    }

    fn skip_value(&self, decoder: &mut Decoder<'a>) -> Result<(), ProtoError> {
        decoder.skip_value().map_err(|source| ProtoError::Hessian { field: "value", source })
    }
}

/// A map of attachments, not yet read.
#[derive(Debug)]
pub enum AttachmentMap<'a> {
    /// In hessian2: a decoder that stands before it. It knows the classes that the value has defined.
    Hessian(Decoder<'a>),
    /// In the outcome's serialization: without what frames it.
    Text {
        /// Where it begins in the body.
        offset: usize,
        /// The map.
        text: &'a [u8],
    },
}

/// The number in front of a reply's value, and where the next text begins. Written with its class,
/// as the extension for Dubbo 3 does, the number has a letter behind it: `4B`, a byte.
fn number(framing: Framing, body: &[u8]) -> Result<(i64, usize), ProtoError> {
    let mut texts = Texts::new(framing, body, 0);
    let text = texts.next("reply type")?.map_or(&b""[..], |(_, text)| text);
    let number = if framing == Framing::Jsonb {
        jsonb::Decoder::new(text, hessian::Limits::default()).read_whole().ok()
    } else {
        let digits = text.strip_suffix(b"B").unwrap_or(text);
        std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok())
    };
    match number {
        Some(number) => Ok((number, texts.position())),
        None => Err(ProtoError::Json { field: "reply type", offset: 0, rule: "a number" }),
    }
}

/// Where the value that stands at `start` is.
fn json_value(framing: Framing, body: &[u8], start: usize) -> Result<Range<usize>, ProtoError> {
    match Texts::new(framing, body, start).next("value")? {
        Some((start, text)) => Ok(start..start + text.len()),
        None => Err(ProtoError::Json { field: "value", offset: start, rule: "a text" }),
    }
}

/// Where a reply goes, and in what form its reader takes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReplyTo {
    /// The id of the request.
    pub id: u64,
    /// The serialization of the request, which the reply has to use, too.
    pub serialization: Serialization,
    /// Whether attachments may be sent along.
    pub takes_attachments: bool,
}

/// Appends a reply of status 20 to `out`.
///
/// `value` is a value or an exception in the request's serialization, and not looked at for
/// [`ReplyKind::Null`]. Attachments are left out when the consumer does not understand them.
///
/// # Errors
/// [`ProtoError::PayloadTooLong`] when the body is over `payload_limit`, [`ProtoError::Json`] when
/// a JSON text is not one line, [`ProtoError::UnsupportedSerialization`]. Then `out` is as it was.
pub fn encode_reply(
    to: ReplyTo,
    kind: ReplyKind,
    value: &[u8],
    attachments: &[(&str, &str)],
    payload_limit: usize,
    out: &mut BytesMut,
) -> Result<(), ProtoError> {
    let value = if kind == ReplyKind::Null { &[][..] } else { value };
    let attachments = if to.takes_attachments { attachments } else { &[] };
    let number = kind.number(!attachments.is_empty());
    let mut tail = Vec::new();
    let mut front = [0; MAX_FRONT_LEN];
    let n_front = match Framing::of(to.serialization) {
        Some(framing) => {
            if kind != ReplyKind::Null && !framing.holds_one(value) {
                let rule = "one JSON text in one line";
                return Err(ProtoError::Json { field: "value", offset: 0, rule });
            }
            if kind != ReplyKind::Null && !framing.is_sized() {
                tail.push(b'\n');
            }
            if !attachments.is_empty() {
                framing.write_map(&mut tail, attachments);
            }
            let has_value = kind != ReplyKind::Null;
            text_front(framing, number, has_value.then_some(value.len()), &mut front)
        }
        None if to.serialization == Serialization::Hessian2 => {
            if !attachments.is_empty() {
                hessian::Encoder::new(&mut tail).map_begin(None);
                for (name, value) in attachments {
                    attachment::write_hessian(&mut tail, name, value);
                }
                hessian::Encoder::new(&mut tail).map_end();
            }
            // Hessian's form of an int from -16 to 47 is one byte.
            front[0] = 0x90 + number;
            1
        }
        None => return Err(ProtoError::UnsupportedSerialization { id: to.serialization.id() }),
    };
    let body_len = n_front + value.len() + tail.len();
    if body_len > payload_limit {
        return Err(ProtoError::PayloadTooLong { len: body_len, max: payload_limit });
    }
    out.reserve(HEADER_LEN + body_len);
    out.extend_from_slice(&reply_header(to, Status::Ok, body_len).encode());
    out.extend_from_slice(front.get(..n_front).unwrap_or_default());
    out.extend_from_slice(value);
    out.extend_from_slice(&tail);
    Ok(())
}

/// Writes what stands before the value of a reply of texts, and returns how long it is.
fn text_front(
    framing: Framing,
    number: u8,
    value_len: Option<usize>,
    front: &mut [u8; MAX_FRONT_LEN],
) -> usize {
    let digit = b'0' + number;
    match (framing, value_len) {
        (Framing::Lines, _) => {
            front[..2].copy_from_slice(&[digit, b'\n']);
            2
        }
        (framing, value_len) => {
            let typed =
                if framing == Framing::Jsonb { [JSONB_BYTE, number] } else { [digit, b'B'] };
            front[..6].copy_from_slice(&[0, 0, 0, 2, typed[0], typed[1]]);
            let Some(len) = value_len else { return 6 };
            front[6..].copy_from_slice(&json::size(len));
            MAX_FRONT_LEN
        }
    }
}

/// Appends a reply that says why the call failed.
///
/// In a serialization that is not written here it goes out as hessian2, which every Dubbo reads:
/// the header says so.
pub fn encode_error(to: ReplyTo, status: Status, text: &str, out: &mut BytesMut) {
    let end = text.floor_char_boundary(MAX_ERROR_TEXT_LEN);
    let text = text.get(..end).unwrap_or_default();
    let mut body = Vec::with_capacity(text.len() + 8);
    let serialization = if let Some(framing) = Framing::of(to.serialization) {
        framing.write(&mut body, |body| framing.write_string(body, text));
        to.serialization
    } else {
        hessian::write_string(&mut body, text);
        Serialization::Hessian2
    };
    write_body(ReplyTo { serialization, ..to }, status, &body, out);
}

/// Appends a reply whose body stands ready, as another provider wrote it.
pub(crate) fn write_body(to: ReplyTo, status: Status, body: &[u8], out: &mut BytesMut) {
    out.reserve(HEADER_LEN + body.len());
    out.extend_from_slice(&reply_header(to, status, body.len()).encode());
    out.extend_from_slice(body);
}

const fn reply_header(to: ReplyTo, status: Status, body_len: usize) -> Header {
    Header {
        is_request: false,
        two_way: false,
        is_event: false,
        serialization: to.serialization,
        status: status.to_u8(),
        id: to.id,
        body_len,
    }
}

#[cfg(test)]
mod tests;
