//! A JSON object taken apart.

use std::borrow::Cow;

use super::{JsonError, JsonReader};
use crate::Limits;

/// A name and a JSON text.
pub type JsonMember<'a> = (Cow<'a, str>, &'a [u8]);

/// The members of a JSON object in their order, each value as the text that it has there.
///
/// # Errors
/// The text is not one JSON object, or over a limit.
pub fn members(text: &[u8]) -> Result<Vec<JsonMember<'_>>, JsonError> {
    let mut reader = JsonReader::new(text, Limits::of_whole());
    let mut members = Vec::new();
    let mut object = reader.begin_object()?;
    while let Some(name) = reader.next_key(&mut object)? {
        members.push((name, reader.skip_value()?));
    }
    reader.finish()?;
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_taken_apart_and_nothing_else_is() {
        let found = members(br#" {"a": [1, {}], "\u0062":null, "a":2} "#).unwrap();
        let expected: [JsonMember<'_>; 3] =
            [("a".into(), b"[1, {}]"), ("b".into(), b"null"), ("a".into(), b"2")];
        assert_eq!(found, expected);
        assert_eq!(members(b"{}"), Ok(Vec::new()));
        for text in ["", "[]", "1", "{\"a\":1", "{\"a\":1} x", "{\"a\"}"] {
            assert!(members(text.as_bytes()).is_err(), "{text}");
        }
    }
}
