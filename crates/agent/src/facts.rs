//! What routing rules can see of a call: its method, attachments and arguments.
//!
//! Nothing is read before a rule asks for it.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::LazyLock;

use dubbo_proto::{BodyLimits, JsonTexts, ReadOptions, Request, Serialization, descriptor};
use flow::rules::FORCE_TAG;
use hessian::JavaType;
use hessian::transcode::{JsonOptions, RefStyle};
use http::HeaderMap;
use memchr::memmem::Finder;

use crate::args::{join_json, member_of_json, text_of_json};
use crate::call::{Encoded, Payload, RoutedCall, WholeBody};
use crate::grown_text::plain_len;
use crate::journal::{JournalEntry, RequestNames};

/// Dubbo's generic call: its first argument is the method that is meant.
const GENERIC_METHOD: &str = "$invoke";
/// So much of a body's end is searched for it. A long body is not searched from end to end, and
/// what has more attachments than this behind it does not insist on a tag.
const SEARCHED_LEN: usize = 64 * 1024;
/// The name of [`FORCE_TAG`], as a body has it.
static FORCE_TAG_BYTES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(FORCE_TAG));

/// What routing rules can see of a call.
pub trait CallFacts {
    /// The method's name.
    fn method(&self) -> Cow<'_, str>;

    /// The attachment of a name.
    fn attachment(&self, name: &str) -> Option<Cow<'_, str>>;

    /// The argument at an index as text, if it is a text, a number, a boolean or null.
    fn argument(&self, index: usize) -> Option<Cow<'_, str>>;

    /// The same of what is at a path in the argument: the names of members, one in the other.
    fn member(&self, index: usize, path: &[String]) -> Option<Cow<'_, str>>;

    /// The header of a name in small letters, if the call came by HTTP.
    fn header(&self, _name: &str) -> Option<Cow<'_, str>> {
        None
    }

    /// Whether the attachment [`FORCE_TAG`] has to be looked at: it may be there. Every call is
    /// asked, so this reads no attachments.
    fn may_force_tag(&self) -> bool {
        self.attachment(FORCE_TAG).is_some()
    }
}

impl CallFacts for RoutedCall<'_> {
    fn method(&self) -> Cow<'_, str> {
        match &self.payload {
            Payload::Json(_) => Cow::Borrowed(&self.method.method),
            Payload::Whole(whole) => WholeFacts::new(*whole).method().into_owned().into(),
        }
    }

    fn attachment(&self, name: &str) -> Option<Cow<'_, str>> {
        let own = self.attachments.iter().rev().find(|(key, _)| *key == name);
        match (own, &self.payload) {
            (Some((_, value)), _) => Some(Cow::Borrowed(value)),
            (None, Payload::Json(_)) => None,
            (None, Payload::Whole(whole)) => {
                WholeFacts::new(*whole).attachment(name).map(|value| value.into_owned().into())
            }
        }
    }

    fn argument(&self, index: usize) -> Option<Cow<'_, str>> {
        match &self.payload {
            Payload::Json(args) => args.text_at(index, self.method.parameters.at(index)),
            Payload::Whole(whole) => {
                WholeFacts::new(*whole).argument(index).map(|value| value.into_owned().into())
            }
        }
    }

    fn member(&self, index: usize, path: &[String]) -> Option<Cow<'_, str>> {
        match &self.payload {
            Payload::Json(args) => args.member_at(index, path),
            Payload::Whole(whole) => {
                WholeFacts::new(*whole).member(index, path).map(|value| value.into_owned().into())
            }
        }
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        header_of(self.headers?, name)
    }

    fn may_force_tag(&self) -> bool {
        self.attachments.iter().any(|(name, _)| *name == FORCE_TAG)
            || matches!(&self.payload, Payload::Whole(whole) if whole.may_force_tag())
    }
}

impl WholeBody<'_> {
    /// Whether the name of the attachment is where attachments are: at the end of the body.
    pub fn may_force_tag(&self) -> bool {
        let tail = self.body.len().saturating_sub(SEARCHED_LEN);
        FORCE_TAG_BYTES.find(&self.body[tail..]).is_some()
    }
}

/// A header's value as text.
pub fn header_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<Cow<'a, str>> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()))
}

/// The same of a Dubbo request that is passed on as it is. Of one that cannot be read nothing is
/// known.
pub struct WholeFacts<'a> {
    whole: WholeBody<'a>,
    may_force_tag: Option<bool>,
    request: OnceCell<Option<Request>>,
    arguments: OnceCell<Option<JsonTexts>>,
}

impl<'a> WholeFacts<'a> {
    /// Nothing is read yet.
    pub fn new(whole: WholeBody<'a>) -> Self {
        Self { whole, may_force_tag: None, request: OnceCell::new(), arguments: OnceCell::new() }
    }

    /// The same of a request of which it may be known already whether it may insist on a tag.
    #[inline]
    pub fn with_force_tag(self, may_force_tag: Option<bool>) -> Self {
        Self { may_force_tag, ..self }
    }

    /// Notes in `entry` what the request says.
    #[cold]
    pub fn note(&self, entry: &mut JournalEntry) {
        if let Some(request) = self.request() {
            let service = request.service_key();
            let service = service.map_or_else(|_| request.path().to_owned(), |it| it.to_string());
            let (method, trace) = (self.method(), request.attachment("traceparent"));
            entry.named(RequestNames { service: &service, method: &method, trace });
        }
        let shown = |max_len| {
            let texts = self.arguments()?;
            Some(join_json((0..).map_while(|index| texts.at(index)), max_len))
        };
        entry.asked(self.whole.body.len(), shown);
    }

    /// The request, if it can be read.
    pub fn request(&self) -> Option<&Request> {
        let read = || {
            let WholeBody { serialization, body } = self.whole;
            Request::decode(serialization, body.clone(), &BodyLimits::default()).ok()
        };
        self.request.get_or_init(read).as_ref()
    }

    /// The type of an argument, which decides how Java shows it: a `float` is in the body as a
    /// `double`, which would have more digits.
    fn declared_type(&self, index: usize) -> Option<JavaType> {
        let ty = descriptor::split(self.request()?.descriptor()).nth(index)?.ok()?;
        JavaType::parse_descriptors(ty).ok()?.pop()
    }

    fn arguments(&self) -> Option<&JsonTexts> {
        let read = || {
            let request = self.request()?;
            read_args(request.serialization(), request.args(), request.descriptor())
        };
        self.arguments.get_or_init(read).as_ref()
    }
}

/// Notes in `entry` what a call says whose arguments are encoded. The method of a generic call is
/// the one that it means.
#[cold]
pub fn note_encoded(
    entry: &mut JournalEntry,
    named: RequestNames<'_>,
    args: Encoded<'_>,
    descriptor: &str,
) {
    let Encoded { serialization, bytes } = args;
    let texts = OnceCell::new();
    let read = || texts.get_or_init(|| read_args(serialization, bytes, descriptor)).as_ref();
    // To read them takes time, and without a record nobody sees the method.
    let is_generic = named.method == GENERIC_METHOD && entry.is_told();
    let meant = is_generic.then(|| text_of_json(read()?.at(0)?, None)).flatten();
    entry.named(RequestNames { method: meant.as_deref().unwrap_or(named.method), ..named });
    let shown = |max_len| {
        let texts = read()?;
        Some(join_json((0..).map_while(|index| texts.at(index)), max_len))
    };
    entry.asked(bytes.len(), shown);
}

/// Arguments as JSON; nothing if they cannot be read. Where values that others refer to make the
/// text long, each is written once, and `{"$ref":..}` in the place of the others.
fn read_args(serialization: Serialization, args: &[u8], descriptor: &str) -> Option<JsonTexts> {
    let n = descriptor::count(descriptor).ok()?;
    let values = serialization.values()?;
    let read = |refs| {
        let json =
            JsonOptions { refs, max_out_len: plain_len(args.len()), ..JsonOptions::default() };
        values.read_args(args, n, None, ReadOptions { json: &json, schema: None })
    };
    match read(RefStyle::Repeat) {
        Err(error) if error.source.is_too_long() => read(RefStyle::Path).ok(),
        read => read.ok(),
    }
}

impl CallFacts for WholeFacts<'_> {
    fn method(&self) -> Cow<'_, str> {
        let Some(request) = self.request() else { return Cow::Borrowed("") };
        let generic = (request.method() == GENERIC_METHOD).then(|| self.argument(0)).flatten();
        generic.unwrap_or(Cow::Borrowed(request.method()))
    }

    fn attachment(&self, name: &str) -> Option<Cow<'_, str>> {
        self.request()?.attachment(name).map(Cow::Borrowed)
    }

    fn argument(&self, index: usize) -> Option<Cow<'_, str>> {
        text_of_json(self.arguments()?.at(index)?, self.declared_type(index).as_ref())
    }

    fn member(&self, index: usize, path: &[String]) -> Option<Cow<'_, str>> {
        member_of_json(self.arguments()?.at(index)?, path)
    }

    #[inline]
    fn may_force_tag(&self) -> bool {
        self.may_force_tag.unwrap_or_else(|| self.whole.may_force_tag())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use dubbo_proto::Serialization;
    use hessian::Encoder;

    use super::*;

    fn strings(texts: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes);
        texts.iter().for_each(|text| encoder.string(text));
        bytes
    }

    fn body(method: &str, descriptor: &str, args: &[&str]) -> Bytes {
        body_with(method, descriptor, &strings(args))
    }

    fn body_with(method: &str, descriptor: &str, args: &[u8]) -> Bytes {
        let head = strings(&["2.0.2", "a.B", "0.0.0", method, descriptor]);
        let attachments = strings(&["dubbo.tag", "gray"]);
        [&head, args, b"H", &attachments, b"Z"].concat().into()
    }

    /// As `String.valueOf` of Java 17 shows what is written of them.
    #[test]
    fn numbers_of_a_whole_request_are_shown_by_their_types() {
        let serialization = Serialization::Hessian2;
        let of_float = f64::from(0.1_f32);
        for (ty, value, shown) in [
            ("F", of_float, "0.1"),
            ("Ljava/lang/Float;", of_float, "0.1"),
            ("F", 1e10, "1.0E10"),
            ("F", 5.0, "5.0"),
            ("D", of_float, "0.10000000149011612"),
            ("Ljava/lang/Object;", of_float, "0.10000000149011612"),
            ("Ljava/lang/Comparable;", 1e10, "1.0E10"),
        ] {
            let mut args = Vec::new();
            Encoder::new(&mut args).double(value);
            let body = body_with("find", ty, &args);
            let facts = WholeFacts::new(WholeBody { serialization, body: &body });
            assert_eq!(facts.argument(0).as_deref(), Some(shown), "{ty} {value}");
        }
    }

    #[test]
    fn a_whole_request_shows_its_parts() {
        let serialization = Serialization::Hessian2;
        let plain = body("find", "Ljava/lang/String;", &["x"]);
        let facts = WholeFacts::new(WholeBody { serialization, body: &plain });
        assert_eq!((&*facts.method(), facts.argument(0).as_deref()), ("find", Some("x")));
        assert_eq!(facts.attachment("dubbo.tag").as_deref(), Some("gray"));
        assert_eq!((facts.attachment("x"), facts.argument(1)), (None, None));
        let text = "Ljava/lang/String;".repeat(3);
        let generic = body(GENERIC_METHOD, &text, &["find", "", ""]);
        assert_eq!(WholeFacts::new(WholeBody { serialization, body: &generic }).method(), "find");
        let broken = Bytes::from_static(b"\x05x");
        let facts = WholeFacts::new(WholeBody { serialization, body: &broken });
        assert_eq!((&*facts.method(), facts.attachment("a"), facts.argument(0)), ("", None, None));
    }
}
