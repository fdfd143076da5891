//! Attachments that are numbers or booleans, among those that are texts.
//!
//! Attachments go from part to part as pairs of texts. The name of one that is not a text begins
//! with [`TYPED`], and its value is the JSON of a number or boolean. In the map of a request or
//! reply it is under its plain name, as what it is in Java.

use java_json::number::is_exact;

/// Before the name of an attachment whose value is a number or boolean. No name begins so.
pub const TYPED: char = '\u{1}';

/// A value of an attachment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttachmentValue<'a> {
    /// A `String`.
    Text(&'a str),
    /// A `Boolean`.
    Bool(bool),
    /// An `Integer`.
    Int(i32),
    /// A `Long`: an integer that is too long for an `Integer`.
    Long(i64),
    /// A `Double`.
    Double(f64),
}

impl<'a> AttachmentValue<'a> {
    /// The plain name and the value of a pair of texts. What is marked as a number or boolean and
    /// is none is a text.
    #[must_use]
    pub fn of(name: &'a str, value: &'a str) -> (&'a str, Self) {
        match name.strip_prefix(TYPED) {
            Some(name) => (name, Self::of_json(value).unwrap_or(Self::Text(value))),
            None => (name, Self::Text(value)),
        }
    }

    /// What a JSON number or boolean is; nothing for all else, and for what its type does not hold
    /// exactly.
    #[must_use]
    pub fn of_json(text: &'a str) -> Option<Self> {
        match text.as_bytes() {
            b"true" => return Some(Self::Bool(true)),
            b"false" => return Some(Self::Bool(false)),
            // Rust reads more than JSON has: +1, inf, NaN.
            [b'-', b'0'..=b'9', ..] | [b'0'..=b'9', ..] => {}
            _ => return None,
        }
        if let Ok(value) = text.parse::<i32>() {
            return Some(Self::Int(value));
        }
        if let Ok(value) = text.parse::<i64>() {
            return Some(Self::Long(value));
        }
        if !text.contains(['.', 'e', 'E']) {
            return None;
        }
        text.parse().ok().filter(|value: &f64| is_exact(text, *value)).map(Self::Double)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_name_has_a_number_or_boolean() {
        use AttachmentValue as V;
        for (name, value, expected) in [
            ("a", "5", ("a", V::Text("5"))),
            ("\u{1}a", "5", ("a", V::Int(5))),
            ("\u{1}a", "-2147483649", ("a", V::Long(-2_147_483_649))),
            ("\u{1}a", "1.50", ("a", V::Double(1.5))),
            ("\u{1}a", "1e3", ("a", V::Double(1000.0))),
            ("\u{1}a", "0.0", ("a", V::Double(0.0))),
            ("\u{1}a", "0.1234567890123456789", ("a", V::Text("0.1234567890123456789"))),
            ("\u{1}a", "true", ("a", V::Bool(true))),
            ("\u{1}a", "false", ("a", V::Bool(false))),
            ("\u{1}a", "9223372036854775808", ("a", V::Text("9223372036854775808"))),
            ("\u{1}a", "1e999", ("a", V::Text("1e999"))),
            ("\u{1}a", "NaN", ("a", V::Text("NaN"))),
            ("\u{1}a", "+1", ("a", V::Text("+1"))),
            ("\u{1}", "", ("", V::Text(""))),
        ] {
            assert_eq!(V::of(name, value), expected, "{value}");
        }
    }
}
