//! Requests on their way out. What is the same in every call of a method is written once, into a
//! template; a call then costs a header and three copies.
//!
//! Shape of a body, in both serializations: Dubbo's protocol version, path, service version,
//! method, parameter descriptor, the arguments, and a map of attachments.
//! Source: apache/dubbo, `DubboCodec.encodeRequestData`.

use bytes::BytesMut;

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
    /// The service's path, which is its interface unless the provider's URL has another.
    pub path: &'a str,
    /// The service's version; empty is none.
    pub version: &'a str,
    /// The method.
    pub method: &'a str,
    /// JVM descriptors of the parameters, such as `Ljava/lang/String;I`; empty is none.
    pub descriptor: &'a str,
}

/// Everything constant of the calls of one method, ready to be copied.
#[derive(Clone, Debug)]
pub struct RequestTemplate {
    serialization: Serialization,
    bodies: &'static dyn BodyCodec,
    /// All of the body that comes before the arguments.
    front: Box<[u8]>,
    /// All that comes after the arguments.
    back: Box<[u8]>,
    /// Where in `back` another attachment goes.
    back_open_len: usize,
    /// Whether the map of attachments has a member already, so that a comma has to follow.
    has_attachments: bool,
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
        Ok(Self {
            serialization,
            bodies,
            front: front.into(),
            back: back.into(),
            back_open_len,
            has_attachments: bodies.begins_with_entry() || !attachments.is_empty(),
            n_params,
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
        })
    }

    /// Sets the provider's `payload`, the longest body in bytes that it takes.
    #[must_use]
    pub const fn with_payload_limit(mut self, payload_limit: usize) -> Self {
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
        self.check_args(args)?;
        let extra = self.encode_extra(extra);
        let body_len = self.front.len() + args.len() + extra.len() + self.back.len();
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
        if extra.is_empty() {
            out.extend_from_slice(&self.back);
        } else {
            let (mut open, end) = self.back.split_at(self.back_open_len);
            if self.bodies.is_sized() {
                // The map got longer than the template says.
                out.extend_from_slice(&texts::size(self.back.len() - SIZE_LEN + extra.len()));
                open = open.get(SIZE_LEN..).unwrap_or_default();
            }
            out.extend_from_slice(open);
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

    fn encode_extra(&self, extra: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        self.bodies.write_entries(&mut out, self.has_attachments, extra);
        out
    }
}
