//! The framing of Dubbo 2.6's and 2.7's fastjson: one JSON text a line.
//! Source: apache/dubbo 2.7, `FastJsonObjectOutput` and `FastJsonObjectInput`.

use std::borrow::Cow;
use std::fmt;

use memchr::{memchr, memchr_iter, memchr2};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Appends `value` as a JSON string.
pub(crate) fn write_string(out: &mut Vec<u8>, value: &str) {
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok(), "text into memory cannot fail");
}

/// Appends `"name":"value"`, after a comma unless it is the first.
pub(crate) fn write_entry(out: &mut Vec<u8>, is_first: bool, name: &str, value: &str) {
    if !is_first {
        out.push(b',');
    }
    write_string(out, name);
    out.push(b':');
    write_string(out, value);
}

/// Appends a whole line of attachments.
pub(crate) fn write_map(out: &mut Vec<u8>, entries: &[(&str, &str)]) {
    out.push(b'{');
    for (at, (name, value)) in entries.iter().enumerate() {
        write_entry(out, at == 0, name, value);
    }
    out.extend_from_slice(b"}\n");
}

/// Whether `texts` are `n` JSON texts joined by line breaks.
///
/// JSON allows a line break (and a carriage return, which Java takes for one, too) only between
/// its tokens, so whoever writes compact JSON never fails here. But one argument that spans two
/// lines would shift all that follows it.
pub(crate) fn are_lines(texts: &[u8], n: usize) -> bool {
    if texts.is_empty() {
        return n == 0;
    }
    memchr_iter(b'\n', texts).count() + 1 == n && memchr(b'\r', texts).is_none()
}

/// Takes lines off the front of a body, without what ends them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines<'a> {
    body: &'a [u8],
    pos: usize,
}

impl<'a> Lines<'a> {
    pub(crate) const fn new(body: &'a [u8], pos: usize) -> Self {
        Self { body, pos }
    }

    /// Where the next line begins.
    pub(crate) const fn position(&self) -> usize {
        self.pos
    }

    /// The next line and where it begins. A body need not end with a line break.
    pub(crate) fn next(&mut self) -> Option<(usize, &'a [u8])> {
        let rest = self.body.get(self.pos..).filter(|rest| !rest.is_empty())?;
        let start = self.pos;
        let len = memchr(b'\n', rest);
        let line = rest.get(..len.unwrap_or(rest.len())).unwrap_or_default();
        self.pos += len.map_or(rest.len(), |len| len + 1);
        Some((start, line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

/// A line that is a JSON string or null, which counts as empty. Borrowed when nothing in it is
/// escaped; then it begins one byte behind the line's begin.
pub(crate) fn read_string(line: &[u8]) -> Option<Cow<'_, str>> {
    if let [b'"', text @ .., b'"'] = line
        && memchr2(b'"', b'\\', text).is_none()
    {
        return std::str::from_utf8(text).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice::<Option<String>>(line)
        .ok()
        .map(|text| Cow::Owned(text.unwrap_or_default()))
}

/// A line that is an object or null. Only the members that are strings are kept.
pub(crate) fn read_map(line: &[u8]) -> Option<Vec<(String, String)>> {
    serde_json::from_slice::<StringMembers>(line).ok().map(|members| members.0)
}

struct StringMembers(Vec<(String, String)>);

impl<'de> Deserialize<'de> for StringMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = StringMembers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object or null")
            }

            fn visit_unit<E>(self) -> Result<StringMembers, E> {
                Ok(StringMembers(Vec::new()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StringMembers, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, StringOrOther>()? {
                    members.extend(value.0.map(|value| (name, value)));
                }
                Ok(StringMembers(members))
            }
        }
        deserializer.deserialize_any(Members)
    }
}

/// A string, or anything else, of which nothing is kept.
struct StringOrOther(Option<String>);

impl<'de> Deserialize<'de> for StringOrOther {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = StringOrOther;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_str<E>(self, text: &str) -> Result<StringOrOther, E> {
                Ok(StringOrOther(Some(text.to_owned())))
            }

            fn visit_string<E>(self, text: String) -> Result<StringOrOther, E> {
                Ok(StringOrOther(Some(text)))
            }

            fn visit_bool<E>(self, _: bool) -> Result<StringOrOther, E> {
                Ok(StringOrOther(None))
            }

            fn visit_i64<E>(self, _: i64) -> Result<StringOrOther, E> {
                Ok(StringOrOther(None))
            }

            fn visit_u64<E>(self, _: u64) -> Result<StringOrOther, E> {
                Ok(StringOrOther(None))
            }

            fn visit_f64<E>(self, _: f64) -> Result<StringOrOther, E> {
                Ok(StringOrOther(None))
            }

            fn visit_unit<E>(self) -> Result<StringOrOther, E> {
                Ok(StringOrOther(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<StringOrOther, A::Error> {
                IgnoredAny.visit_seq(seq).map(|_| StringOrOther(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StringOrOther, A::Error> {
                IgnoredAny.visit_map(map).map(|_| StringOrOther(None))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_strings_and_maps() {
        assert_eq!(read_string(b"\"a.B\""), Some(Cow::Borrowed("a.B")));
        assert_eq!(read_string(b"\"a\\n\\u00fc\"").as_deref(), Some("a\nü"));
        assert_eq!(read_string(b"null").as_deref(), Some(""));
        for broken in [&b""[..], b"\"", b"7", b"\"a\" \"b\"", b"\"\xff\"", b"{}", b"\0\0\0\x05"] {
            assert_eq!(read_string(broken), None, "{broken:?}");
        }
        let map = concat!(
            r#"{"a":"x","n":1,"l":[1,"2",{"deep":[]}],"o":{"a":null},"#,
            r#""z":null,"b":"\"","f":1.5,"t":true}"#
        );
        let expected = [("a", "x"), ("b", "\"")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(read_map(map.as_bytes()).as_deref(), Some(&expected[..]));
        assert_eq!(read_map(b"null"), Some(Vec::new()));
        assert_eq!(read_map(b"[]"), None);
        assert_eq!(read_map(&[b'['; 100_000]), None);
        assert_eq!(read_map(&[&b"{\"a\":"[..], &[b'['; 100_000]].concat()), None);
    }

    #[test]
    fn lines_may_end_as_windows_ends_them() {
        let mut lines = Lines::new(b"a\r\nb\n\nc", 0);
        let seen: Vec<_> = std::iter::from_fn(|| lines.next()).collect();
        assert_eq!(seen, [(0, &b"a"[..]), (3, b"b"), (5, b""), (6, b"c")]);
        assert!(are_lines(b"", 0) && are_lines(b"1", 1) && are_lines(b"1\n2", 2));
        assert!(!are_lines(b"1", 0) && !are_lines(b"", 1) && !are_lines(b"1\r2", 1));
    }
}
