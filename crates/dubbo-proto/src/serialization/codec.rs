//! How a serialization writes and reads the bodies of Dubbo's frames.

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;

use crate::ProtoError;
use crate::body::{AttachmentMap, BodyLimits, BodyText, RequestParts, Routing};

/// Two attachments of a message: name and value.
pub(crate) type TextPair = (BodyText, BodyText);

/// The length before a text or value, where there is one.
pub(crate) const SIZE_LEN: usize = 4;
/// The longest that comes before a reply's value: a type of two bytes behind its length, and a
/// length.
pub(crate) const MAX_FRONT_LEN: usize = SIZE_LEN + 2 + SIZE_LEN;

/// Where a request wants to go, and what others look like that want to go there, where that can be
/// told.
pub(crate) type RoutingParts<'a> = (Routing<'a>, Option<ArgumentSurroundings>);

/// What is around the arguments of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ArgumentSurroundings {
    /// Everything before the arguments.
    pub(crate) head: Box<[u8]>,
    pub(crate) n_args: usize,
    /// Everything after them.
    pub(crate) tail: Box<[u8]>,
}

/// A reply's body, as far as it has been read.
pub(crate) struct ReplyParts<'a> {
    pub(crate) body: &'a [u8],
    /// How many values there are before the attachments.
    pub(crate) n_values: usize,
    pub(crate) value_start: usize,
    /// Where the value ends, once somebody had to know.
    pub(crate) value_end: Option<usize>,
}

impl<'a> ReplyParts<'a> {
    pub(crate) fn value_and_rest(&self) -> &'a [u8] {
        self.body.get(self.value_start..).unwrap_or_default()
    }
}

/// How a body is put together from texts, values and a map of attachments.
///
/// Dubbo's bodies have one shape in all serializations: a request is five texts, the arguments and
/// a map; a reply is a number, a value and a map.
pub(crate) trait BodyCodec: Debug + Sync {
    /// Appends a text.
    fn write_text(&self, out: &mut Vec<u8>, text: &str);

    /// What ends the last of `n_args` arguments.
    fn args_end(&self, n_args: usize) -> &'static [u8];

    /// Appends a map of attachments. Returns how long it is up to where another entry goes.
    fn write_map(&self, out: &mut Vec<u8>, entries: &[(&str, &str)]) -> usize;

    /// Appends more entries for a map that has some already, or has none.
    fn write_entries(&self, out: &mut Vec<u8>, has_some: bool, entries: &[(&str, &str)]);

    /// Whether an empty map has an entry already, as far as commas go.
    fn begins_with_entry(&self) -> bool {
        false
    }

    /// Whether lengths come before texts, values and maps.
    fn is_sized(&self) -> bool {
        false
    }

    /// Checks that the bytes are so many arguments.
    ///
    /// # Errors
    /// What they should have been.
    fn check_args(&self, args: &[u8], n_args: usize) -> Result<(), &'static str>;

    /// The value of the only argument, without what frames it.
    fn only_arg<'a>(&self, args: &'a [u8]) -> &'a [u8];

    /// Finds the parts of a request in its body.
    fn read_request(
        &self,
        request: &mut RequestParts,
        limits: &BodyLimits,
    ) -> Result<(), ProtoError>;

    /// Reads where a request wants to go, if that takes less than reading all of it.
    fn read_routing<'a>(
        &self,
        _body: &'a [u8],
        _limits: &BodyLimits,
    ) -> Result<Option<RoutingParts<'a>>, ProtoError> {
        Ok(None)
    }

    /// Whether a request has the same around its arguments.
    fn is_like(
        &self,
        _likeness: &ArgumentSurroundings,
        _body: &[u8],
        _limits: &BodyLimits,
    ) -> bool {
        false
    }

    /// Puts what comes before the value of a reply: the number of its kind, and the length of the
    /// value if there is one. Returns how many bytes that are.
    fn put_reply_front(
        &self,
        number: u8,
        value_len: Option<usize>,
        front: &mut [u8; MAX_FRONT_LEN],
    ) -> usize;

    /// Whether `value` may be the value of a reply.
    fn holds_value(&self, value: &[u8]) -> bool;

    /// What ends the value of a reply.
    fn value_end(&self) -> &'static [u8];

    /// The text that is a whole body; nothing if it cannot be read.
    fn read_text<'a>(&self, body: &'a [u8]) -> Option<Cow<'a, str>>;

    /// The number at the front of a reply, and where what follows begins.
    fn read_reply_number(&self, body: &[u8]) -> Result<(i64, usize), ProtoError>;

    /// Where the value is that begins at `start`, if that takes no walk through it.
    fn framed_value(&self, body: &[u8], start: usize) -> Result<Option<Range<usize>>, ProtoError>;

    /// Where the value is that begins at `start`.
    fn find_value(
        &self,
        body: &[u8],
        start: usize,
        has_attachments: bool,
        limits: &BodyLimits,
    ) -> Result<Range<usize>, ProtoError>;

    /// Where the attachments are of a reply that has some.
    fn find_attachments<'a>(
        &self,
        reply: &ReplyParts<'a>,
        limits: &BodyLimits,
    ) -> Result<Option<AttachmentMap<'a>>, ProtoError>;

    /// The attachments whose values are texts, and what those texts are in.
    fn read_attachments<'a>(
        &self,
        map: AttachmentMap<'a>,
        reply: &ReplyParts<'a>,
        max: usize,
    ) -> Result<(Vec<TextPair>, &'a [u8]), ProtoError>;

    /// The letter of an event frame whose body says that no call is welcome (`R`), or that it is
    /// (`W`).
    fn event_letter(&self, body: &[u8]) -> Option<u8>;
}
