//! What stands before the value of a field where JSON has no white space: `,"name":`.

use crate::ascii;

/// The lead of one field, in a form that is copied or compared at once.
#[derive(Clone, Copy, Debug)]
pub struct MemberName {
    text: [u8; 32],
    /// 0 for a name that does not fit here, or that is written with escapes.
    len: u8,
}

impl MemberName {
    /// The lead of a field of this name. There is no comma before the first one.
    #[inline]
    pub fn new(name: &str, has_comma: bool) -> Self {
        let mut text = [0; 32];
        let at = usize::from(has_comma);
        // Comma, quotes and colon.
        let len = name.len() + at + 3;
        if text.len() < len {
            return Self { text, len: 0 };
        }
        text[0] = b',';
        text[at] = b'"';
        let inside = text.get_mut(at + 1..).unwrap_or_default();
        for (place, &byte) in inside.iter_mut().zip(name.as_bytes()) {
            *place = byte;
        }
        if let Some([quote, colon, ..]) = inside.get_mut(name.len()..) {
            (*quote, *colon) = (b'"', b':');
        }
        let is_plain = ascii::is_plain(name.as_bytes());
        Self { text, len: if is_plain { u8::try_from(len).unwrap_or_default() } else { 0 } }
    }

    /// The text, and how many bytes of it count; nothing if it is not known here.
    #[inline]
    pub fn text(&self) -> Option<(&[u8; 32], usize)> {
        (self.len != 0).then_some((&self.text, usize::from(self.len)))
    }

    /// How long the lead is, if it is what the bytes begin with; 0 for any other.
    #[inline]
    pub fn len_at(&self, bytes: &[u8; 32]) -> usize {
        let len = usize::from(self.len);
        if ascii::is_same_front(bytes, &self.text, len) { len } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_short_and_plain_have_one() {
        let text = |name: &str, has_comma| {
            let lead = MemberName::new(name, has_comma);
            lead.text().map(|(text, len)| String::from_utf8(text[..len].to_vec()).unwrap())
        };
        for n_letters in 0..28 {
            let name = "x".repeat(n_letters);
            assert_eq!(text(&name, true), Some(format!(",\"{name}\":")));
            assert_eq!(text(&name, false), Some(format!("\"{name}\":")));
        }
        assert!(text(&"x".repeat(29), false).is_some() && text(&"x".repeat(29), true).is_none());
        for name in ["a\"b", "\\", "\n", "\u{e9}", &"x".repeat(30)] {
            assert_eq!(text(name, false), None);
        }
    }
}
