//! Replies, read and written. A result's value is left as the bytes it is.
//!
//! A body of status 20 is a number (what kind of result, and whether attachments follow), the
//! value or exception if there is one, and the attachments. A body of any other status is a text.
//! Source: apache/dubbo, `DecodeableRpcResult` and `DubboCodec.encodeResponseData`.

use std::borrow::Cow;
use std::cell::Cell;

use bytes::BytesMut;
use java_json::{JavaType, JsonOptions, RefStyle};

use crate::body::{AttachmentMap, BodyLimits};
use crate::frame::{HEADER_LEN, Header};
use crate::serialization::BodyCodec;
use crate::serialization::codec::{MAX_FRONT_LEN, ReplyParts};
use crate::values::{ReadOptions, ValueCodec, ValueError};
use crate::{ProtoError, Serialization, Status};

/// The longest error text that is written. A stack trace of ordinary depth fits.
const MAX_ERROR_TEXT_LEN: usize = 16 << 10;

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
        let short = serialization.short_reply_number(body).map(i64::from);
        if let Some((kind, _)) = short.and_then(Self::from_number) {
            return Some(kind);
        }
        let bodies = serialization.of_body(body).bodies().ok()?;
        let (number, _) = bodies.read_reply_number(body).ok()?;
        Self::from_number(number).map(|(kind, _)| kind)
    }

    /// The body of a reply that is null, in a serialization that everybody reads.
    #[must_use]
    pub fn null_body() -> (Serialization, &'static [u8]) {
        (Serialization::DEFAULT, Serialization::DEFAULT_NULL_REPLY)
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

/// Whether the body of a reply of status OK breaks the rules of its serialization, as far as its
/// value or exception goes. One that is only over a limit of ours, or has no form in JSON, does
/// not. To find out, at most `max_out_len` bytes are written.
#[must_use]
pub fn is_broken_reply(serialization: Serialization, body: &[u8], max_out_len: usize) -> bool {
    // With references as paths, no value is written twice.
    let json = JsonOptions { refs: RefStyle::Path, max_out_len, ..JsonOptions::default() };
    let read = |outcome: Outcome<'_>| match outcome.kind {
        ReplyKind::Null => Ok(()),
        ReplyKind::Value | ReplyKind::Exception => {
            let options = ReadOptions { json: &json, schema: None };
            outcome.write_json(None, options, &mut Vec::new())
        }
    };
    let read = Outcome::decode(serialization, body).map_err(ValueError::from).and_then(read);
    read.is_err_and(|error| error.breaks_format())
}

impl<'a> Reply<'a> {
    /// Reads the begin of a reply's body.
    ///
    /// # Errors
    /// [`ProtoError`] when status 20 comes with a body that cannot be read. A text that cannot be
    /// read is not an error: the status says enough.
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
/// given as it is, so that nothing that a provider says gets lost.
#[must_use]
pub fn error_text(serialization: Serialization, body: &[u8]) -> Cow<'_, str> {
    let serialization = serialization.of_body(body);
    let text = serialization.bodies().ok().and_then(|bodies| bodies.read_text(body));
    let readable = body.get(..MAX_ERROR_TEXT_LEN).unwrap_or(body);
    text.unwrap_or_else(|| String::from_utf8_lossy(readable))
}

/// The outcome of a method that was called.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    serialization: Serialization,
    bodies: &'static dyn BodyCodec,
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
        let bodies = serialization.bodies()?;
        let (number, mut value_start) = bodies.read_reply_number(body)?;
        let Some((kind, has_attachments)) = ReplyKind::from_number(number) else {
            return Err(ProtoError::BadReplyType { found: number });
        };
        let mut value_end = (kind == ReplyKind::Null).then_some(value_start);
        if kind != ReplyKind::Null
            && let Some(range) = bodies.framed_value(body, value_start)?
        {
            (value_start, value_end) = (range.start, Some(range.end));
        }
        let value_end = Cell::new(value_end);
        Ok(Self { serialization, bodies, kind, has_attachments, body, value_start, value_end })
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

    /// Whether attachments come after the value.
    #[must_use]
    pub const fn has_attachments(&self) -> bool {
        self.has_attachments
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
        let (body, start) = (self.body, self.value_start);
        let range = match self.value_end.get() {
            Some(end) => start..end,
            None => self.bodies.find_value(body, start, self.has_attachments, limits)?,
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
        let Some(map) = self.attachment_map(limits)? else { return Ok(Vec::new()) };
        let (texts, base) = self.bodies.read_attachments(map, &self.parts(), max)?;
        let own = |(name, value): (crate::body::BodyText, crate::body::BodyText)| {
            (name.get(base).to_owned(), value.get(base).to_owned())
        };
        Ok(texts.into_iter().map(own).collect())
    }

    /// Appends the value or exception as JSON. A value of the type `ty`, if that is known; of an
    /// exception, what it looks like.
    ///
    /// # Errors
    /// [`ValueError`] when it is broken, or has no form in JSON.
    pub fn write_json(
        &self,
        ty: Option<&JavaType>,
        options: ReadOptions<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let values = self.values()?;
        let value = match values.shows_end() {
            true => self.value_and_rest(),
            false => self.value(&BodyLimits::default())?,
        };
        match self.kind {
            ReplyKind::Exception => values.read_untyped(value, options.json, out),
            ReplyKind::Value | ReplyKind::Null => values.read_value(value, ty, options, out),
        }
    }

    /// Appends the map of the attachments as JSON, and says whether there is one.
    ///
    /// # Errors
    /// [`ValueError`] when it is broken, or has no form in JSON.
    pub fn write_attachments_json(
        &self,
        options: &JsonOptions,
        out: &mut Vec<u8>,
    ) -> Result<bool, ValueError> {
        match self.attachment_map(&BodyLimits::default())? {
            Some(map) => map.write_json(self.values()?, options, out).map(|()| true),
            None => Ok(false),
        }
    }

    fn values(&self) -> Result<&'static dyn ValueCodec, ProtoError> {
        self.serialization.known_values()
    }

    /// Where the attachments are, for those who want them all, whatever they are.
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
        self.bodies.find_attachments(&self.parts(), limits)
    }

    fn parts(&self) -> ReplyParts<'a> {
        ReplyParts {
            body: self.body,
            n_values: usize::from(self.kind != ReplyKind::Null),
            value_start: self.value_start,
            value_end: self.value_end.get(),
        }
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
    let bodies = to.serialization.bodies()?;
    let has_value = kind != ReplyKind::Null;
    if has_value && !bodies.holds_value(value) {
        let rule = "one JSON text in one line";
        return Err(ProtoError::Json { field: "value", offset: 0, rule });
    }
    let value_end = if has_value { bodies.value_end() } else { b"" };
    if !attachments.is_empty() {
        bodies.write_map(&mut tail, attachments);
    }
    let n_front = bodies.put_reply_front(number, has_value.then_some(value.len()), &mut front);
    let body_len = n_front + value.len() + value_end.len() + tail.len();
    if body_len > payload_limit {
        return Err(ProtoError::PayloadTooLong { len: body_len, max: payload_limit });
    }
    out.reserve(HEADER_LEN + body_len);
    out.extend_from_slice(&reply_header(to, Status::Ok, body_len).encode());
    out.extend_from_slice(front.get(..n_front).unwrap_or_default());
    out.extend_from_slice(value);
    out.extend_from_slice(value_end);
    out.extend_from_slice(&tail);
    Ok(())
}

/// Appends a reply that says why the call failed.
///
/// In a serialization that is not written here it goes out in the default one, which every Dubbo
/// reads: the header says so.
pub fn encode_error(to: ReplyTo, status: Status, text: &str, out: &mut BytesMut) {
    let end = text.floor_char_boundary(MAX_ERROR_TEXT_LEN);
    let text = text.get(..end).unwrap_or_default();
    let mut body = Vec::with_capacity(text.len() + 8);
    let (serialization, bodies) = to.serialization.or_default();
    bodies.write_text(&mut body, text);
    write_body(ReplyTo { serialization, ..to }, status, &body, out);
}

/// Appends a reply whose body is ready, as another provider wrote it.
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
