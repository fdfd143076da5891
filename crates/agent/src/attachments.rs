//! Attachments as one JSON object: for names in which case counts, and for values that are no
//! texts.
//!
//! A header's name has no case, and its value no type. The header [`HEADER`] has both, in requests
//! and answers, towards callers and towards apps.
//!
//! Inside the agent attachments are pairs of texts; those of numbers and booleans are marked as
//! [`dubbo_proto::attachment`] says.

use std::borrow::Cow;
use std::fmt::Write as _;

use dubbo_proto::attachment::TYPED;
use dubbo_proto::{AttachmentValue, BodyLimits, Outcome, Request};
use hessian::Limits;
use hessian::json::{self, JsonError, JsonReader};
use hessian::transcode::JsonOptions;

use crate::call::ONE_WAY;
use crate::grown_text::IN_PLACE_LEN;

/// Holds attachments as a JSON object.
pub const HEADER: &str = "x-dubbo-attachments";
/// Longest text of the header, in both directions. A link's metadata has room for twice as much.
pub const MAX_LEN: usize = 16 * 1024;
/// Most attachments in the header: half of what a link takes with one call.
pub const MAX_COUNT: usize = 64;
/// [`TYPED`] as a text.
const MARK: &str = "\u{1}";
/// Longest name in bytes.
const MAX_NAME_LEN: usize = 256;
/// What every provider attaches to every reply: its version of Dubbo's protocol.
const PROTOCOL_VERSION: &str = "dubbo";
/// Names by which Dubbo finds the service, and where else a caller says so.
const RESERVED: [(&str, &str); 5] = [
    ("path", "the URL"),
    ("interface", "the URL"),
    ("version", "header x-dubbo-service-version"),
    ("group", "header x-dubbo-service-group"),
    ("generic", "header x-dubbo-generic"),
];

/// Names that fastjson takes for its own, in attachments too: for one that chooses the class of an
/// object, and for one that repeats a value. What serialization a call takes is known later.
const OF_FASTJSON: [&str; 2] = ["@type", "$ref"];

/// Why attachments are refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AttachmentError {
    /// Too long a text.
    #[error("{len} bytes are over the limit of {MAX_LEN}")]
    TooLong {
        /// Length in bytes.
        len: usize,
    },
    /// No object of attachments.
    #[error("not a JSON object such as {{\"traceId\":\"abc\",\"n\":5}}: {0}")]
    NotAnObject(JsonError),
    /// Too many of them.
    #[error("more than {MAX_COUNT} attachments")]
    TooMany,
    /// A name that cannot be one.
    #[error(
        "invalid attachment name {0:?}: a name has 1 to {MAX_NAME_LEN} bytes and no control \
         characters"
    )]
    Name(Box<str>),
    /// A name that was there before.
    #[error("attachment {0:?} is given twice")]
    Twice(Box<str>),
    /// A name that is Dubbo's own.
    #[error("attachment {name:?} is reserved for Dubbo; use {instead}")]
    Reserved {
        /// The name.
        name: &'static str,
        /// Where it is said.
        instead: &'static str,
    },
    /// A name by which fastjson makes objects of classes, or repeats values.
    #[error("attachment {0:?} has a name that fastjson takes for its own; rename it")]
    OfFastjson(&'static str),
    /// A value of another kind.
    #[error(
        "attachment {0:?} must be a string, a boolean, or a 64-bit number; a double must have no \
         more digits than it keeps"
    )]
    Value(Box<str>),
}

/// Reads a JSON object of texts, numbers and booleans.
///
/// # Errors
/// [`AttachmentError`] with what is wrong.
pub fn read(text: &[u8]) -> Result<Vec<(String, String)>, AttachmentError> {
    if MAX_LEN < text.len() {
        return Err(AttachmentError::TooLong { len: text.len() });
    }
    let mut found: Vec<(String, String)> = Vec::new();
    for (name, value) in json::members(text).map_err(AttachmentError::NotAnObject)? {
        if found.len() == MAX_COUNT {
            return Err(AttachmentError::TooMany);
        }
        check_name(&name)?;
        if found.iter().any(|(known, _)| known.trim_start_matches(TYPED) == name) {
            return Err(AttachmentError::Twice(name.into()));
        }
        match pair(&name, value) {
            Some(pair) => found.push(pair),
            None => return Err(AttachmentError::Value(name.into())),
        }
    }
    Ok(found)
}

/// Refuses names that are none, and those by which Dubbo finds the service: a call would reach
/// another one than the one that it names.
///
/// # Errors
/// [`AttachmentError::Name`], [`AttachmentError::Reserved`], [`AttachmentError::OfFastjson`].
pub fn check_name(name: &str) -> Result<(), AttachmentError> {
    if let Some((name, instead)) = RESERVED.into_iter().find(|(own, _)| *own == name) {
        return Err(AttachmentError::Reserved { name, instead });
    }
    if let Some(name) = OF_FASTJSON.into_iter().find(|own| *own == name) {
        return Err(AttachmentError::OfFastjson(name));
    }
    if name.is_empty() || MAX_NAME_LEN < name.len() || name.contains(char::is_control) {
        let end = name.floor_char_boundary(MAX_NAME_LEN);
        return Err(AttachmentError::Name(name.get(..end).unwrap_or_default().into()));
    }
    Ok(())
}

/// A member of the object as an attachment, its name marked if it is not a text.
fn pair(name: &str, value: &[u8]) -> Option<(String, String)> {
    if value.first() == Some(&b'"') {
        let text = JsonReader::new(value, Limits::of_whole()).read_string().ok()?;
        return Some((name.to_owned(), text.into_owned()));
    }
    let value = std::str::from_utf8(value).ok()?;
    AttachmentValue::of_json(value)?;
    // Java's attachment of a one-way call is a text.
    let mark = if name == ONE_WAY.0 { "" } else { MARK };
    Some((format!("{mark}{name}"), value.to_owned()))
}

/// The attachments of a request that are numbers or booleans, their names marked.
pub fn typed_of(request: &Request) -> Vec<(String, String)> {
    let mut json = Vec::new();
    // Far more than the few numbers and booleans that are looked for.
    let options = JsonOptions { max_out_len: IN_PLACE_LEN, ..JsonOptions::default() };
    let has_some = request.may_have_other_attachments()
        && request.write_attachments_json(&options, &mut json).is_ok_and(|it| it);
    if !has_some {
        return Vec::new();
    }
    let is_text = |value: &[u8]| value.first() == Some(&b'"');
    let members = json::members(&json).unwrap_or_default().into_iter();
    let others = members.filter(|(_, value)| !is_text(value));
    others.take(MAX_COUNT).filter_map(|(name, value)| pair(&name, value)).collect()
}

/// Attachments of a reply, by name: each as JSON text.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Replied {
    /// Names and values, but for what Dubbo itself adds.
    pub members: Vec<(String, Box<[u8]>)>,
    /// Whether there are some that cannot be told in JSON.
    pub is_unreadable: bool,
}

impl Replied {
    /// All attachments of a reply, whatever they are.
    pub fn of(outcome: &Outcome<'_>, options: &JsonOptions) -> Self {
        let own = |(name, value): (Cow<'_, str>, &[u8])| (name.into_owned(), value.into());
        let read = || {
            let Some(json) = map_of(outcome, options)? else { return Some(Vec::new()) };
            Some(json::members(&json).ok()?.into_iter().map(own).collect())
        };
        if let Some(mut members) = read() {
            members.retain(|(name, _): &(String, _)| name != PROTOCOL_VERSION && name != "@type");
            return Self { members, is_unreadable: false };
        }
        // Those that are texts can be told even so.
        let texts = outcome.attachments(&BodyLimits::default()).unwrap_or_default();
        let quoted = |(name, text): (String, String)| {
            let mut json = Vec::new();
            json::write_string(&mut json, &text);
            (name, json.into())
        };
        let texts = texts.into_iter().filter(|(name, _)| name != PROTOCOL_VERSION);
        Self { members: texts.map(quoted).collect(), is_unreadable: true }
    }

    /// The JSON object for a header, in ASCII, and how many attachments it has no room for.
    pub fn header(&self) -> (String, usize) {
        let mut text = String::from("{");
        let mut n_left_out = usize::from(self.is_unreadable);
        for (name, value) in &self.members {
            let mut member = Vec::with_capacity(name.len() + value.len() + 4);
            json::write_string(&mut member, name);
            member.push(b':');
            member.extend_from_slice(value);
            let end = text.len();
            if end != 1 {
                text.push(',');
            }
            push_ascii(&mut text, &String::from_utf8_lossy(&member));
            if MAX_LEN < text.len() + 1 {
                text.truncate(end);
                n_left_out += 1;
            }
        }
        text.push('}');
        (text, n_left_out)
    }
}

/// The map of a reply's attachments as JSON; nothing if it cannot be told.
fn map_of(outcome: &Outcome<'_>, options: &JsonOptions) -> Option<Option<Vec<u8>>> {
    let mut json = Vec::new();
    if !outcome.write_attachments_json(options, &mut json).ok()? {
        return Some(None);
    }
    let is_null = json == b"null";
    Some((!is_null).then_some(json))
}

/// Attachments for an app, as the JSON object of a header: only where headers of their own cannot
/// tell them all.
pub fn header_for_app(
    attachments: &[(&str, &str)],
    is_told: impl Fn(&str) -> bool,
) -> Option<String> {
    let is_lost = |name: &str, value: &str| {
        name.contains(|c: char| c == TYPED || c.is_uppercase() || !c.is_ascii())
            || value.contains(char::is_control)
    };
    let mut plain =
        attachments.iter().map(|(name, value)| (name.trim_start_matches(TYPED), name, value));
    if !plain.any(|(plain, name, value)| is_lost(name, value) && is_told(plain)) {
        return None;
    }
    let mut replied = Replied::default();
    for (name, value) in attachments {
        let (name, value) = AttachmentValue::of(name, value);
        if !is_told(name) {
            continue;
        }
        let mut json = Vec::new();
        match value {
            AttachmentValue::Text(text) => json::write_string(&mut json, text),
            AttachmentValue::Bool(flag) => json.extend_from_slice(flag.to_string().as_bytes()),
            AttachmentValue::Int(number) => json::write_i64(&mut json, number.into()),
            AttachmentValue::Long(number) => json::write_i64(&mut json, number),
            AttachmentValue::Double(number) => json::write_f64(&mut json, number),
        }
        replied.members.push((name.to_owned(), json.into()));
    }
    Some(replied.header().0)
}

/// Appends JSON text. What is not ASCII is in strings, where it can be escaped.
fn push_ascii(out: &mut String, json: &str) {
    for character in json.chars() {
        if character.is_ascii() {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a `String` never fails.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_numbers_and_booleans_are_read() {
        let read = |text: &str| read(text.as_bytes());
        let expected = [
            ("traceId", "abc"),
            ("\u{1}n", "5"),
            ("\u{1}big", "7000000000"),
            ("\u{1}f", "1.50"),
            ("\u{1}yes", "true"),
            ("größe", "\u{1f600}"),
            ("return", "false"),
        ];
        let text = r#"{"traceId":"abc","n":5,"big":7000000000,"f":1.50,"yes":true,
            "größe":"\ud83d\ude00","return":false}"#;
        let found = read(text).unwrap();
        let found: Vec<_> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(found, expected);
        assert_eq!(read("{}"), Ok(Vec::new()));
    }

    #[test]
    fn what_cannot_be_an_attachment_is_refused() {
        let many: Vec<_> = (0..=MAX_COUNT).map(|n| format!("\"a{n}\":1")).collect();
        let long_name = format!("{{\"{}\":1}}", "n".repeat(MAX_NAME_LEN + 1));
        for (text, part) in [
            ("[]", "not a JSON object"),
            ("{\"a\":1", "not a JSON object"),
            ("{\"a\":1} x", "not a JSON object"),
            ("{\"a\":null}", "\"a\" must be"),
            ("{\"a\":[1]}", "\"a\" must be"),
            ("{\"a\":{}}", "\"a\" must be"),
            ("{\"a\":9223372036854775808}", "64-bit"),
            ("{\"a\":1e999}", "64-bit"),
            ("{\"a\":0.1234567890123456789}", "no more digits"),
            ("{\"a\":1,\"a\":\"x\"}", "twice"),
            ("{\"\":1}", "invalid attachment name"),
            ("{\"\\u0001a\":1}", "invalid attachment name"),
            ("{\"path\":\"com.acme.Other\"}", "reserved"),
            ("{\"group\":\"x\"}", "x-dubbo-service-group"),
            ("{\"\\u0040type\":\"java.util.Date\",\"val\":\"5\"}", "\"@type\" has a name that"),
            ("{\"$ref\":\"$\"}", "\"$ref\" has a name that"),
            (&long_name, "invalid attachment name"),
            (&format!("{{{}}}", many.join(",")), "more than 64"),
            (&format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_LEN)), "over the limit of 16384"),
        ] {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(error.len() < 600, "{} bytes", error.len());
        }
    }

    #[test]
    fn headers_are_ascii_and_bounded() {
        let member = |name: &str, json: &str| (name.to_owned(), json.as_bytes().into());
        let mut replied = Replied {
            members: vec![member("größe", "\"\u{1f600}\""), member("n", "[1,null]")],
            is_unreadable: false,
        };
        let expected = r#"{"gr\u00f6\u00dfe":"\ud83d\ude00","n":[1,null]}"#;
        assert_eq!(replied.header(), (expected.to_owned(), 0));
        let long = format!("\"{}\"", "x".repeat(MAX_LEN));
        replied.members.insert(1, member("long", &long));
        assert_eq!(replied.header(), (expected.to_owned(), 1));
        assert_eq!(Replied::default().header(), ("{}".to_owned(), 0));
    }

    #[test]
    fn an_app_gets_the_object_where_headers_would_lose_something() {
        let told = |pairs: &[(&str, &str)]| header_for_app(pairs, |name| name != "path");
        assert_eq!(told(&[("path", "A"), ("colour", "red")]), None);
        let expected = r#"{"traceId":"abc","colour":"red"}"#.to_owned();
        assert_eq!(told(&[("path", "A"), ("traceId", "abc"), ("colour", "red")]), Some(expected));
        assert_eq!(told(&[("\u{1}n", "5")]), Some(r#"{"n":5}"#.to_owned()));
    }
}
