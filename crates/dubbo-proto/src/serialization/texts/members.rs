//! What a text is as JSON: a string, or an object whose members are attachments.

use std::borrow::Cow;
use std::fmt;

use memchr::memchr2;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

/// A text that is a JSON string or null, which counts as empty. Borrowed when nothing in it is
/// escaped; then it begins one byte behind the text's begin.
#[inline]
pub(super) fn read_string(line: &[u8]) -> Option<Cow<'_, str>> {
    if let [b'"', text @ .., b'"'] = line
        && memchr2(b'"', b'\\', text).is_none()
    {
        return std::str::from_utf8(text).ok().map(Cow::Borrowed);
    }
    read_escaped(line)
}

pub(super) fn read_jsonb_string(text: &[u8]) -> Option<Cow<'_, str>> {
    let mut decoder = jsonb::Decoder::new(text, hessian::Limits::of_whole());
    let value = decoder.read_opt_text().ok().filter(|_| decoder.is_at_end())?;
    Some(value.map_or(Cow::Borrowed(""), jsonb::EncodedText::to_str))
}

#[cold]
fn read_escaped(line: &[u8]) -> Option<Cow<'_, str>> {
    let text = serde_json::from_slice::<Option<String>>(line).ok()?;
    Some(Cow::Owned(text.unwrap_or_default()))
}

/// The members of an object that are strings.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Members {
    /// Names and values of the first ones.
    pub(crate) kept: Vec<(Box<str>, Box<str>)>,
    /// How many there are.
    pub(crate) count: usize,
}

/// A text that is an object or null. Of the members those that are strings are counted, but for
/// `@type`, by which fastjson names the class, and the first `max` of them kept.
pub(super) fn read_map(line: &[u8], max: usize) -> Option<Members> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let members = AtMost(max).deserialize(&mut deserializer).ok()?;
    deserializer.end().ok().map(|()| members)
}

/// Reads members, and keeps at most so many.
struct AtMost(usize);

impl<'de> DeserializeSeed<'de> for AtMost {
    type Value = Members;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Members, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AtMost {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or null")
    }

    fn visit_unit<E>(self) -> Result<Members, E> {
        Ok(Members { kept: Vec::new(), count: 0 })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Members { kept: Vec::new(), count: 0 };
        while let Some((name, value)) = map.next_entry::<Box<str>, StringOrOther>()? {
            let Some(value) = value.0.filter(|_| *name != *"@type") else { continue };
            if members.count < self.0 {
                members.kept.push((name, value));
            }
            members.count += 1;
        }
        Ok(members)
    }
}

/// A string, or anything else, of which nothing is kept.
struct StringOrOther(Option<Box<str>>);

impl<'de> Deserialize<'de> for StringOrOther {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = StringOrOther;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_str<E>(self, text: &str) -> Result<StringOrOther, E> {
                Ok(StringOrOther(Some(text.into())))
            }

            fn visit_string<E>(self, text: String) -> Result<StringOrOther, E> {
                Ok(StringOrOther(Some(text.into())))
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
