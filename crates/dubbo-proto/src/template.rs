//! Requests on their way out. What is the same in every call of a method is written once, into a
//! template; a call then costs a header and three copies.
//!
//! Shape of a body, in both serializations: Dubbo's protocol version, path, service version,
//! method, parameter descriptor, the arguments, and a map of attachments.
//! Source: apache/dubbo, `DubboCodec.encodeRequestData`.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::frame::{HEADER_LEN, Header};
use crate::serialization::BodyCodec;
use crate::serialization::codec::SIZE_LEN;
use crate::serialization::texts;
use crate::service::{MAX_INTERFACE_LEN, NO_VERSION, validate_method};
use crate::{DEFAULT_PAYLOAD_LIMIT, PROTOCOL_VERSION, ProtoError, Serialization};
use crate::{RequestId, descriptor};

/// What names a method of a service in a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestHead<'a> {
    /// The service's interface, which is its path unless the provider's URL has another. That one
    /// goes into the attachment `path`.
    pub path: &'a str,
    /// The service's version; empty is none.
    pub version: &'a str,
    /// The method.
    pub method: &'a str,
    /// JVM descriptors of the parameters, such as `Ljava/lang/String;I`; empty is none.
    pub descriptor: &'a str,
}

/// What differs from call to call, beside arguments and attachments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallHeader {
    pub(crate) id: RequestId,
    /// Whether the provider is to answer.
    pub(crate) two_way: bool,
    /// How long the caller still waits, if the provider is told.
    pub(crate) time_left: Option<Duration>,
}

/// Everything constant of the calls of one method, ready to be copied.
#[derive(Clone, Debug)]
pub struct RequestTemplate {
    serialization: Serialization,
    bodies: &'static dyn BodyCodec,
    /// All of the body that comes before the arguments. Copies of a template share it.
    front: Bytes,
    /// All that comes after the arguments.
    back: Bytes,
    /// Where in `back` another attachment goes.
    back_open_len: usize,
    /// Whether the map of attachments has a member already, so that a comma has to follow.
    has_attachments: bool,
    time_left: TimeLeft,
    n_params: usize,
    payload_limit: usize,
}

impl RequestTemplate {
    /// Writes the constant parts.
    ///
    /// `attachments` have to hold what the provider looks for: `path`, `interface`, `version`,
    /// `group`, `timeout` and the like.
    ///
    /// # Errors
    /// [`ProtoError`] when a name or the descriptor is invalid, or this crate does not write the
    /// serialization.
    pub fn new(
        serialization: Serialization,
        head: &RequestHead<'_>,
        attachments: &[(&str, &str)],
    ) -> Result<Self, ProtoError> {
        if head.path.is_empty() {
            return Err(ProtoError::name("path", head.path, "at least one character"));
        }
        if head.path.len() > MAX_INTERFACE_LEN {
            let (len, max) = (head.path.len(), MAX_INTERFACE_LEN);
            return Err(ProtoError::NameTooLong { what: "path", len, max });
        }
        validate_method(head.method)?;
        let n_params = descriptor::count(head.descriptor)?;
        let (mut front, mut back) = (Vec::new(), Vec::new());
        let version = if head.version.is_empty() { NO_VERSION } else { head.version };
        let fields = [PROTOCOL_VERSION, head.path, version, head.method, head.descriptor];
        let bodies = serialization.bodies()?;
        for field in fields {
            bodies.write_text(&mut front, field);
        }
        back.extend_from_slice(bodies.args_end(n_params));
        let before_map = back.len();
        let back_open_len = before_map + bodies.write_map(&mut back, attachments);
        let has_attachments = bodies.begins_with_entry() || !attachments.is_empty();
        Ok(Self {
            serialization,
            bodies,
            front: front.into(),
            back: back.into(),
            back_open_len,
            has_attachments,
            time_left: TimeLeft::new(bodies, has_attachments),
            n_params,
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
        })
    }

    /// Sets the provider's `payload`, the longest body in bytes that it takes.
    #[must_use]
    pub fn with_payload_limit(mut self, payload_limit: usize) -> Self {
        self.payload_limit = payload_limit;
        self
    }

    /// The serialization in which the arguments have to be.
    #[must_use]
    pub const fn serialization(&self) -> Serialization {
        self.serialization
    }

    /// How many arguments a call has.
    #[must_use]
    pub const fn n_params(&self) -> usize {
        self.n_params
    }

    /// Appends one request to `out`.
    ///
    /// `args` are the values one after another in hessian2 (references and class definitions
    /// counted from the first of them), JSON texts joined by line breaks in fastjson, and JSON
    /// texts each behind its length in its other framing, as JSONB values are in fastjson2. An
    /// attachment in `extra` takes the place of a constant one of the same name;
    /// [`TYPED`](crate::attachment::TYPED) marks numbers and booleans.
    ///
    /// # Errors
    /// [`ProtoError::PayloadTooLong`], or [`ProtoError::Json`] when the JSON texts are not one for
    /// each parameter. Then `out` is as it was.
    #[inline]
    pub fn encode(
        &self,
        id: RequestId,
        two_way: bool,
        args: &[u8],
        extra: &[(&str, &str)],
        out: &mut BytesMut,
    ) -> Result<(), ProtoError> {
        self.encode_within(CallHeader { id, two_way, time_left: None }, args, extra, out)
    }

    /// The same for a call that may be given up after some time, which the provider is told by the
    /// attachment `_TO`: calls that it makes in turn are then given up, too. An attachment of that
    /// name in `extra` takes its place.
    ///
    /// # Errors
    /// As [`RequestTemplate::encode`].
    #[inline]
    pub(crate) fn encode_within(
        &self,
        header: CallHeader,
        args: &[u8],
        extra: &[(&str, &str)],
        out: &mut BytesMut,
    ) -> Result<(), ProtoError> {
        let CallHeader { id, two_way, time_left } = header;
        self.check_args(args)?;
        let mut written = [0; TimeLeft::MAX_LEN];
        let time_left = time_left.map_or(&[][..], |time| self.time_left.write(time, &mut written));
        let extra = self.encode_extra(!time_left.is_empty(), extra);
        let n_more = time_left.len() + extra.len();
        let body_len = self.front.len() + args.len() + n_more + self.back.len();
        if body_len > self.payload_limit {
            return Err(ProtoError::PayloadTooLong { len: body_len, max: self.payload_limit });
        }
        let header = Header {
            is_request: true,
            two_way,
            is_event: false,
            serialization: self.serialization,
            status: 0,
            id: id.get(),
            body_len,
        };
        out.reserve(HEADER_LEN + body_len);
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(&self.front);
        out.extend_from_slice(args);
        if n_more == 0 {
            out.extend_from_slice(&self.back);
        } else {
            let (mut open, end) = self.back.split_at(self.back_open_len);
            if self.bodies.is_sized() {
                // The map got longer than the template says.
                out.extend_from_slice(&texts::size(self.back.len() - SIZE_LEN + n_more));
                open = open.get(SIZE_LEN..).unwrap_or_default();
            }
            out.extend_from_slice(open);
            out.extend_from_slice(time_left);
            out.extend_from_slice(&extra);
            out.extend_from_slice(end);
        }
        Ok(())
    }

    /// One argument that spans two lines would shift all that follows it, and so would a length
    /// that is not right.
    #[inline]
    fn check_args(&self, args: &[u8]) -> Result<(), ProtoError> {
        self.bodies.check_args(args, self.n_params).map_err(|rule| ProtoError::Json {
            field: "arguments",
            offset: 0,
            rule,
        })
    }

    fn encode_extra(&self, comes_second: bool, extra: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        self.bodies.write_entries(&mut out, self.has_attachments || comes_second, extra);
        out
    }
}

/// The attachment that says how many milliseconds are left to a call, ready but for its digits.
///
/// Source: apache/dubbo, `CommonConstants.TIMEOUT_ATTACHMENT_KEY`; `RpcUtils.getTimeout` reads it
/// as a number or a text. Before 2.7.5, Dubbo takes attachments that are texts alone.
#[derive(Clone, Debug)]
struct TimeLeft {
    /// With one digit, with two, and so on: the longer the text, the longer what stands before it
    /// may say that it is.
    entries: [Box<[u8]>; Self::MAX_DIGITS],
    /// How much comes after the digits.
    tail_len: usize,
}

impl TimeLeft {
    const NAME: &str = "_TO";

    /// 27 hours are enough for any call.
    const MAX_DIGITS: usize = 8;
    const MAX_MS: u32 = 99_999_999;

    /// Of an entry, in any serialization.
    const MAX_LEN: usize = 32;

    fn new(bodies: &dyn BodyCodec, has_attachments: bool) -> Self {
        let digits = "00000000";
        let entries: [Box<[u8]>; Self::MAX_DIGITS] = std::array::from_fn(|index| {
            let mut entry = Vec::new();
            let value = digits.get(..=index).unwrap_or(digits);
            bodies.write_entries(&mut entry, has_attachments, &[(Self::NAME, value)]);
            debug_assert!(entry.len() <= Self::MAX_LEN);
            entry.into()
        });
        let digit = entries[0].iter().rposition(|byte| *byte == b'0');
        let tail_len = digit.map_or(0, |at| entries[0].len() - at - 1);
        Self { entries, tail_len }
    }

    /// The entry, in `buffer`. A call whose time is over has a millisecond left.
    #[inline]
    fn write<'a>(&self, time: Duration, buffer: &'a mut [u8; Self::MAX_LEN]) -> &'a [u8] {
        let mut ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).clamp(1, Self::MAX_MS);
        let entry = self.entries.get(ms.ilog10() as usize).map_or(&[][..], |entry| entry);
        let Some(written) = buffer.get_mut(..entry.len()) else { return &[] };
        written.copy_from_slice(entry);
        let end = entry.len().saturating_sub(self.tail_len);
        for digit in written.get_mut(..end).unwrap_or_default().iter_mut().rev() {
            *digit = b'0' + (ms % 10) as u8;
            ms /= 10;
            if ms == 0 {
                break;
            }
        }
        written
    }
}
