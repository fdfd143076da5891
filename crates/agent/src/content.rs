//! What headers say of a body: its media type, its charset, and whether it is encoded. Their names
//! have no case.

use std::borrow::Cow;

use http::HeaderValue;
pub use wire::file::without_mark;

/// A media type with its parameters, as `Content-Type` has it.
#[derive(Clone, Copy, Debug)]
pub struct MediaType<'a> {
    name: &'a str,
    parameters: &'a str,
}

impl<'a> MediaType<'a> {
    /// Reads a header; nothing if its value is not ASCII.
    pub fn of(header: &'a HeaderValue) -> Option<Self> {
        let text = header.to_str().ok()?;
        let (name, parameters) = text.split_once(';').unwrap_or((text, ""));
        Some(Self { name: name.trim(), parameters })
    }

    /// Whether it is `text/...`.
    pub fn is_text(&self) -> bool {
        self.name.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("text/"))
    }

    /// Whether it is JSON, or a format in JSON.
    pub fn is_json(&self) -> bool {
        let end = self.name.rsplit(['/', '+']).next().unwrap_or_default();
        end.eq_ignore_ascii_case("json")
    }

    /// Whether it is a form, as browsers send them.
    pub fn is_form(&self) -> bool {
        self.name.eq_ignore_ascii_case("application/x-www-form-urlencoded")
    }

    /// The charset, if there is one.
    pub fn charset(&self) -> Option<Charset<'a>> {
        let mut rest = self.parameters;
        while let Some((name, after)) = rest.split_once('=') {
            let name = name.trim_start_matches([';', ' ', '\t']).trim_end();
            let (value, after) = match after.trim_start().strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => after.split_once(';').unwrap_or((after, "")),
            };
            if name.eq_ignore_ascii_case("charset") {
                return Some(Charset::of(value.trim()));
            }
            rest = after;
        }
        None
    }
}

/// How characters are bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Charset<'a> {
    /// UTF-8, or ASCII, which is a part of it.
    Utf8,
    /// ISO-8859-1: each byte is the character with its number.
    Latin1,
    /// One that nobody reads here.
    Other(&'a str),
}

impl<'a> Charset<'a> {
    fn of(name: &'a str) -> Self {
        let is_one_of = |known: &[&str]| known.iter().any(|known| name.eq_ignore_ascii_case(known));
        match () {
            () if is_one_of(&["utf-8", "utf8", "us-ascii", "ascii"]) => Self::Utf8,
            () if is_one_of(&["iso-8859-1", "latin1"]) => Self::Latin1,
            () => Self::Other(name),
        }
    }
}

/// Text of ISO-8859-1.
pub fn latin1(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.is_ascii() => Cow::Borrowed(text),
        _ => Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()),
    }
}

/// Whether a `Content-Encoding` leaves the body as it is.
pub fn is_identity(encoding: &HeaderValue) -> bool {
    let name = encoding.as_bytes().trim_ascii();
    name.is_empty() || name.eq_ignore_ascii_case(b"identity")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(value: &'static str) -> HeaderValue {
        HeaderValue::from_static(value)
    }

    #[test]
    fn a_media_type_has_no_case() {
        let media_type =
            |value| MediaType::of(&header(value)).map(|it| (it.is_text(), it.is_json()));
        for (value, is_text, is_json) in [
            ("Text/Plain", true, false),
            (" text/html ; charset=x", true, false),
            ("text", false, false),
            ("Application/JSON", false, true),
            ("application/problem+json; v=1", false, true),
            ("text/json", true, true),
            ("application/jsonp", false, false),
        ] {
            assert_eq!(media_type(value), Some((is_text, is_json)), "{value}");
        }
        let form = header("application/x-www-form-URLencoded;charset=utf-8");
        assert!(MediaType::of(&form).is_some_and(|media_type| media_type.is_form()));
        assert!(MediaType::of(&HeaderValue::from_bytes(b"text/\xfc").unwrap()).is_none());
    }

    #[test]
    fn a_charset_is_found_among_parameters() {
        for (value, charset) in [
            ("text/plain", None),
            ("text/plain; format=flowed", None),
            ("text/plain;charset=UTF-8", Some(Charset::Utf8)),
            ("text/plain; Charset=\"us-ascii\"; a=b", Some(Charset::Utf8)),
            ("text/plain; a=\";charset=x\"; charset = ISO-8859-1 ", Some(Charset::Latin1)),
            ("text/plain;;charset=utf-16;a=b", Some(Charset::Other("utf-16"))),
            ("text/plain; charset=\"utf-16", Some(Charset::Other("utf-16"))),
            ("text/plain; charset=", Some(Charset::Other(""))),
        ] {
            let header = header(value);
            assert_eq!(MediaType::of(&header).unwrap().charset(), charset, "{value}");
        }
    }

    #[test]
    fn each_byte_of_latin1_is_a_character() {
        assert_eq!(latin1(b"a\xfc\xff"), "a\u{fc}\u{ff}");
        assert!(matches!(latin1(b"plain"), Cow::Borrowed("plain")));
        assert_eq!(latin1("\u{fc}".as_bytes()), "\u{c3}\u{bc}", "whatever else it might be");
    }

    #[test]
    fn an_encoding_that_changes_nothing_has_no_case() {
        for value in ["identity", "Identity", " identity ", ""] {
            assert!(is_identity(&header(value)), "{value:?}");
        }
        assert!(!is_identity(&header("gzip")) && !is_identity(&header("identity, gzip")));
    }
}
