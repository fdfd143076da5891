//! Texts that others have chosen, such as names and messages, made harmless to those who read them
//! at a terminal: there, control characters move the cursor, and some of Unicode's turn around the
//! order in which a line is shown.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal does something with a character other than to show it. Sources: Unicode's
/// category Cc, and the embeddings, overrides and isolates of its bidirectional algorithm (UAX
/// #9).
#[must_use]
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The same text in one line, with U+FFFD in place of what is unsafe.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_unsafe(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// The same text, in which what is unsafe is written as `\u009b`. In JSON that means the same.
/// Tabs and the ends of lines stay as they are.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_unsafe(c) && !matches!(c, '\n' | '\t');
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_escaped(c) {
            // A `String` takes all that is written. No unsafe character has more than four digits.
            true => drop(write!(out, "\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_does_not_reach_it() {
        let text = "a\u{1b}[31m\u{7f}\u{9b}2J\u{202e}b\u{2066}c\u{2069} snö 語\u{200d}";
        let shown = "a\\u001b[31m\\u007f\\u009b2J\\u202eb\\u2066c\\u2069 snö 語\u{200d}";
        assert_eq!(escaped(text), shown);
        let json: String = serde_json::from_str(&format!("\"{shown}\"")).unwrap();
        assert_eq!(json, text);
        assert_eq!(escaped("a\n\tb"), "a\n\tb");
        assert_eq!(plain("a\nb\u{202a}\u{80}"), "a\u{fffd}b\u{fffd}\u{fffd}");
    }
}
