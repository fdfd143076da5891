//! JSON texts of serialization 6: from fastjson's own dialect to JSON.
//!
//! A fastjson that writes class names, as the extension for Dubbo 3 does, writes more than JSON
//! has: `-5L` and `1.5F` for boxed numbers, `x'00FF'` for bytes, `new Date(0)`, `Set["a"]`,
//! members named `@type`. Every fastjson writes numbers, booleans and null as they are where they
//! are keys of maps.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::ProtoError;

const FIELD: &str = "text";

/// Appends one text of fastjson's dialect as JSON.
///
/// Numbers lose the letter of their type, bytes become base64, dates their milliseconds, sets
/// arrays, and keys that are numbers, booleans or null strings. A member `@type` becomes one named
/// `class` if `class_names`, or is left out. References (`{"$ref":"$[0]"}`) stay as they are.
/// Plain JSON comes out as it is, but for such members. Whether it is JSON otherwise is not
/// checked.
///
/// # Errors
/// [`ProtoError::Json`] at a token that neither JSON nor the dialect has.
pub fn to_json(text: &[u8], class_names: bool, out: &mut Vec<u8>) -> Result<(), ProtoError> {
    out.reserve(text.len());
    Dialect { text, pos: 0 }.write(class_names, out)
}

/// The place in a text.
struct Dialect<'a> {
    text: &'a [u8],
    pos: usize,
}

impl<'a> Dialect<'a> {
    fn write(&mut self, class_names: bool, out: &mut Vec<u8>) -> Result<(), ProtoError> {
        while let Some(&byte) = self.text.get(self.pos) {
            match byte {
                b'"' => out.extend_from_slice(self.string()?),
                b'{' => {
                    self.pos += 1;
                    out.push(b'{');
                    self.class_name(class_names, out)?;
                }
                b'-' | b'0'..=b'9' => self.number(out),
                b'x' => self.bytes(out)?,
                b'A'..=b'Z' | b'a'..=b'z' => self.word(out)?,
                b'}' | b'[' | b']' | b':' | b',' | b' ' | b'\t' | b'\n' | b'\r' => {
                    self.pos += 1;
                    out.push(byte);
                }
                _ => return Err(self.broken("a token of JSON")),
            }
        }
        Ok(())
    }

    fn broken(&self, rule: &'static str) -> ProtoError {
        ProtoError::Json { field: FIELD, offset: self.pos, rule }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.pos..).unwrap_or_default()
    }

    /// Takes `word` if it comes next.
    fn take(&mut self, word: &[u8]) -> bool {
        let is_next = self.rest().starts_with(word);
        self.pos += if is_next { word.len() } else { 0 };
        is_next
    }

    /// Takes what is of this kind.
    fn take_while(&mut self, is_kind: impl Fn(u8) -> bool) -> &'a [u8] {
        let rest = self.rest();
        let len = rest.iter().position(|&byte| !is_kind(byte)).unwrap_or(rest.len());
        self.pos += len;
        rest.get(..len).unwrap_or_default()
    }

    /// A string with its quotes.
    fn string(&mut self) -> Result<&'a [u8], ProtoError> {
        let rest = self.rest();
        let mut len = 1;
        loop {
            let tail = rest.get(len..).unwrap_or_default();
            match memchr::memchr2(b'"', b'\\', tail) {
                Some(at) if tail.get(at) == Some(&b'"') => {
                    len += at + 1;
                    break;
                }
                Some(at) => len += at + 2,
                None => return Err(self.broken("a string that ends")),
            }
        }
        self.pos += len;
        Ok(rest.get(..len).unwrap_or_default())
    }

    /// The name of a class, where an object's first member is one.
    fn class_name(&mut self, is_wanted: bool, out: &mut Vec<u8>) -> Result<(), ProtoError> {
        let start = self.pos;
        if !self.take(b"\"@type\":") || !self.rest().starts_with(b"\"") {
            self.pos = start;
            return Ok(());
        }
        let name = self.string()?;
        if is_wanted {
            out.extend_from_slice(b"\"class\":");
            out.extend_from_slice(name);
        } else {
            self.take(b",");
        }
        Ok(())
    }

    /// A number without what tells its type: a letter, or the point behind a whole `BigDecimal`. A
    /// key becomes a string.
    fn number(&mut self, out: &mut Vec<u8>) {
        let is_part = |byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let number = self.take_while(is_part);
        if matches!(self.rest(), [b'B' | b'S' | b'L' | b'F' | b'D', ..]) {
            self.pos += 1;
        }
        self.maybe_key(number.strip_suffix(b".").unwrap_or(number), out);
    }

    /// A value that was just taken, as a string if it is a key.
    fn maybe_key(&self, value: &[u8], out: &mut Vec<u8>) {
        let quote: &[u8] = if self.rest().starts_with(b":") { b"\"" } else { b"" };
        out.extend_from_slice(quote);
        out.extend_from_slice(value);
        out.extend_from_slice(quote);
    }

    /// `x'00FF'` as base64.
    fn bytes(&mut self, out: &mut Vec<u8>) -> Result<(), ProtoError> {
        let start = self.pos;
        let digits = if self.take(b"x'") {
            self.take_while(|byte| byte.is_ascii_hexdigit())
        } else {
            return Err(self.broken("a token of JSON"));
        };
        if !digits.len().is_multiple_of(2) || !self.take(b"'") {
            self.pos = start;
            return Err(self.broken("pairs of hexadecimal digits"));
        }
        let pair = |pair: &[u8]| pair.iter().fold(0, |byte, &digit| byte << 4 | hex_value(digit));
        let bytes: Vec<u8> = digits.chunks_exact(2).map(pair).collect();
        out.push(b'"');
        out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
        out.push(b'"');
        Ok(())
    }

    /// `true`, `false`, `null`, a set, or a date.
    fn word(&mut self, out: &mut Vec<u8>) -> Result<(), ProtoError> {
        let start = self.pos;
        if self.take(b"new Date(") {
            let ms = self.take_while(|byte| byte == b'-' || byte.is_ascii_digit());
            if !ms.is_empty() && self.take(b")") {
                out.extend_from_slice(ms);
                return Ok(());
            }
        }
        self.pos = start;
        match self.take_while(|byte| byte.is_ascii_alphabetic()) {
            word @ (b"true" | b"false" | b"null") => self.maybe_key(word, out),
            b"Set" | b"TreeSet" if self.rest().starts_with(b"[") => {}
            _ => {
                self.pos = start;
                return Err(self.broken("a token of JSON"));
            }
        }
        Ok(())
    }
}

/// The value of a hexadecimal digit.
const fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
