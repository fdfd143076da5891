//! What is found in the bodies of requests and replies, whatever their serialization: texts that
//! stay in the body, the parts of a request, attachments, and where a request wants to go.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use hessian::Decoder;

use crate::service::{MAX_INTERFACE_LEN, MAX_METHOD_LEN, MAX_QUALIFIER_LEN};
use crate::{ProtoError, descriptor};

/// Bounds on what one body may ask of us. The body's own length is bounded by its connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BodyLimits {
    /// Attachments of one message. Dubbo's own are about ten.
    pub max_attachments: usize,
    /// Depth, lengths and counts inside arguments, results and attachments.
    pub hessian: hessian::Limits,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { max_attachments: 1024, hessian: hessian::Limits::of_whole() }
    }
}

/// A text of a body: where it is, or a copy where it is not there as it is.
#[derive(Clone, Debug)]
pub(crate) enum BodyText {
    Span { start: usize, end: usize },
    Owned(Box<str>),
}

impl BodyText {
    pub(crate) const EMPTY: Self = Self::Span { start: 0, end: 0 };

    /// `text` was read from a body and ended `end` bytes into it.
    pub(crate) fn ending_at(end: usize, text: Cow<'_, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::Span { start: end.saturating_sub(text.len()), end },
            Cow::Owned(text) => Self::Owned(text.into()),
        }
    }

    /// Whether it is this text.
    pub(crate) fn is(&self, body: &[u8], text: &str) -> bool {
        match self {
            Self::Span { start, end } => body.get(*start..*end) == Some(text.as_bytes()),
            Self::Owned(owned) => **owned == *text,
        }
    }

    /// Spans were checked when they were made, so the body has to be the same.
    pub(crate) fn get<'a>(&'a self, body: &'a [u8]) -> &'a str {
        match self {
            Self::Span { start, end } => body
                .get(*start..*end)
                .and_then(|bytes| std::str::from_utf8(bytes).ok())
                .unwrap_or_default(),
            Self::Owned(text) => text,
        }
    }
}

/// The JVM's own limit of a method's descriptor.
const MAX_DESCRIPTOR_LEN: usize = 65_535;

const DESCRIPTOR: &str = "descriptor";

/// A text in front of the arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// What it is, for messages.
    pub(crate) name: &'static str,
    /// How long it may be.
    pub(crate) max_len: usize,
}

/// The five texts in front of the arguments.
pub(crate) const FIELDS: [Field; 5] = [
    Field { name: "dubbo version", max_len: MAX_QUALIFIER_LEN },
    Field { name: "path", max_len: MAX_INTERFACE_LEN },
    Field { name: "version", max_len: MAX_QUALIFIER_LEN },
    Field { name: "method", max_len: MAX_METHOD_LEN },
    Field { name: DESCRIPTOR, max_len: MAX_DESCRIPTOR_LEN },
];

/// The parts of a request. The texts and the arguments stay where they are in the body.
#[derive(Clone, Debug)]
pub(crate) struct RequestParts {
    pub(crate) body: Bytes,
    pub(crate) fields: [BodyText; FIELDS.len()],
    pub(crate) args: Range<usize>,
    pub(crate) n_args: usize,
    pub(crate) attachments: Vec<(BodyText, BodyText)>,
    /// Whether there may be attachments that are not texts.
    pub(crate) may_have_others: bool,
}

impl RequestParts {
    /// Nothing has been read yet.
    pub(crate) fn of(body: Bytes) -> Self {
        let fields = [BodyText::EMPTY; FIELDS.len()];
        let (attachments, may_have_others) = (Vec::new(), true);
        Self { body, fields, args: 0..0, n_args: 0, attachments, may_have_others }
    }
}

/// Checks a field's length. For the descriptor, which comes last, the number of its parameters is
/// returned, and 0 for the others.
pub(crate) fn check_field(text: &str, field: Field) -> Result<usize, ProtoError> {
    let Field { name, max_len } = field;
    if text.len() > max_len {
        return Err(ProtoError::NameTooLong { what: name, len: text.len(), max: max_len });
    }
    if name == DESCRIPTOR { descriptor::count(text) } else { Ok(0) }
}

/// A map of attachments, not yet read.
#[derive(Debug)]
pub enum AttachmentMap<'a> {
    /// In hessian2: a decoder at its beginning. It knows the classes that the value has
    /// defined.
    Hessian(Decoder<'a>),
    /// In the outcome's serialization: without what frames it.
    Text {
        /// Where it begins in the body.
        offset: usize,
        /// The map.
        text: &'a [u8],
    },
}

/// Where a request wants to go.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Routing<'a> {
    /// The path as the provider looks for it: the attachment `path`, or else the one in the body.
    pub path: Cow<'a, str>,
    /// The attachment `interface`; empty if there is none.
    pub interface: Cow<'a, str>,
    /// The version as it is there: `0.0.0` and an empty one mean none.
    pub version: Cow<'a, str>,
    /// The group; empty is none.
    pub group: Cow<'a, str>,
    /// How long the caller waits: what is left of a time that is counted down (`_TO`), or the
    /// call's own `timeout`.
    pub timeout: Option<Duration>,
}

/// How long the caller waits, in milliseconds: `left` of its countdown, or else its `timeout`.
///
/// Dubbo counts down to below 0, and then the time is over: the least that can be waited. A
/// timeout of 0 says nothing, for Java's consumers wait their default then, and dubbo-go's write
/// it in all attempts but the first.
pub(crate) fn deadline(left: Option<i64>, timeout: Option<i64>) -> Option<Duration> {
    let ms = left.map(|ms| ms.max(1)).or_else(|| timeout.filter(|ms| 0 < *ms))?;
    u64::try_from(ms).ok().map(Duration::from_millis)
}
