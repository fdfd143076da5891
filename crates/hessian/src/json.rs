//! JSON text: a pull reader, and (in `write`) the pieces of a writer.
//!
//! Strict RFC 8259 in UTF-8: no comments, no trailing commas, no NaN, no raw control characters.
//! Surrogate escapes without their other half are refused, for no Rust or JSON text can hold them.
//! Names that occur twice in an object are handed out twice.
//!
//! The reader allocates only for strings that contain escapes.

mod error;
mod text;
mod write;

pub use error::{JsonError, JsonRule};
pub(crate) use text::escape;
pub use write::{write_f32, write_f64, write_i64, write_string};

use std::borrow::Cow;

use crate::Limits;

/// What kind of JSON value comes next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum JsonKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// Reads one JSON text from front to back.
#[derive(Clone, Debug)]
pub struct JsonReader<'a> {
    buf: &'a [u8],
    pos: usize,
    depth: u32,
    n_items: usize,
    limits: Limits,
    /// Whether strings that are passed over are left for a later reader to check.
    is_scan: bool,
}

impl<'a> JsonReader<'a> {
    /// A reader at the first byte of `buf`.
    #[must_use]
    pub fn new(buf: &'a [u8], limits: Limits) -> Self {
        Self { buf, pos: 0, depth: 0, n_items: 0, limits, is_scan: false }
    }

    /// How many bytes have been read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.pos
    }

    /// The whole text.
    #[must_use]
    pub fn text(&self) -> &'a [u8] {
        self.buf
    }

    /// Whether nothing but white space is left.
    pub fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.buf.len() <= self.pos
    }

    /// Checks that nothing but white space is left.
    pub fn finish(&mut self) -> Result<(), JsonError> {
        if self.is_at_end() { Ok(()) } else { Err(self.broken(JsonRule::Trailing)) }
    }

    /// What kind of value comes next.
    #[inline]
    pub fn peek(&mut self) -> Result<JsonKind, JsonError> {
        self.skip_space();
        match self.byte() {
            Some(b'"') => Ok(JsonKind::String),
            Some(b'{') => Ok(JsonKind::Object),
            Some(b'[') => Ok(JsonKind::Array),
            Some(b'-' | b'0'..=b'9') => Ok(JsonKind::Number),
            Some(b't' | b'f') => Ok(JsonKind::Bool),
            Some(b'n') => Ok(JsonKind::Null),
            Some(_) => Err(self.broken(JsonRule::Value)),
            None => Err(self.broken(JsonRule::End)),
        }
    }

    /// `null`.
    pub fn read_null(&mut self) -> Result<(), JsonError> {
        self.skip_space();
        self.literal(b"null")
    }

    /// `true` or `false`.
    pub fn read_bool(&mut self) -> Result<bool, JsonError> {
        self.skip_space();
        if self.byte() == Some(b't') {
            self.literal(b"true").map(|()| true)
        } else {
            self.literal(b"false").map(|()| false)
        }
    }

    /// A number, as it is written.
    pub fn read_number(&mut self) -> Result<&'a str, JsonError> {
        self.skip_space();
        let rest = self.rest();
        let len = number_len(rest).ok_or_else(|| self.broken(JsonRule::Number))?;
        self.check_len(len)?;
        self.pos += len;
        // Only digits, signs, points and the letter e.
        Ok(rest.get(..len).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default())
    }

    /// A whole number of up to 18 digits; nothing for any other, and the reader stays.
    #[inline]
    pub(crate) fn read_short_int(&mut self) -> Option<i64> {
        let rest = self.rest();
        let (is_negative, digits) = match rest.strip_prefix(b"-") {
            Some(digits) => (true, digits),
            None => (false, rest),
        };
        let (mut value, mut n_digits) = (0i64, 0);
        for digit in digits.iter().take(19).take_while(|byte| byte.is_ascii_digit()) {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
            n_digits += 1;
        }
        let is_plain = match digits.first() {
            // No leading zeros, and minus zero is a double.
            Some(b'0') => n_digits == 1 && !is_negative,
            _ => (1..=18).contains(&n_digits),
        };
        if !is_plain || matches!(digits.get(n_digits), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        self.pos += n_digits + usize::from(is_negative);
        Some(if is_negative { -value } else { value })
    }

    /// A string, borrowed unless it contains escapes.
    #[inline]
    pub fn read_string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.skip_space();
        if self.byte() != Some(b'"') {
            return Err(self.broken(JsonRule::String));
        }
        let (raw, has_escapes) = self.take_raw_string()?;
        Ok(if has_escapes { Cow::Owned(text::unescape(raw)) } else { Cow::Borrowed(raw) })
    }

    /// A string that is ASCII without escapes. Nothing for any other, and the reader stays.
    #[inline]
    pub(crate) fn read_plain_ascii(&mut self) -> Result<Option<&'a [u8]>, JsonError> {
        self.skip_space();
        if self.byte() != Some(b'"') {
            return Err(self.broken(JsonRule::String));
        }
        let start = self.pos + 1;
        let rest = self.buf.get(start..).unwrap_or_default();
        let (plain, after) = rest.split_at(text::plain_len(rest));
        if after.first() != Some(&b'"') || !plain.is_ascii() {
            return Ok(None);
        }
        self.check_len(plain.len())?;
        self.pos = start + plain.len() + 1;
        Ok(Some(plain))
    }

    /// Whether the object has one more member, whose name comes next.
    pub(crate) fn next_member(&mut self, object: &mut Sequence) -> Result<bool, JsonError> {
        self.next(object, b'}')
    }

    /// Takes the object's next member if it has this name, plainly written. The reader stays if not.
    #[inline]
    pub(crate) fn next_key_is(
        &mut self,
        object: &mut Sequence,
        name: &str,
    ) -> Result<bool, JsonError> {
        if !self.next(object, b'}')? {
            return Ok(false);
        }
        self.skip_space();
        let rest = self.rest();
        let after = rest
            .strip_prefix(b"\"")
            .and_then(|rest| rest.strip_prefix(name.as_bytes()))
            .and_then(|rest| rest.strip_prefix(b"\""));
        let Some(after) = after else {
            return Ok(false);
        };
        self.pos += rest.len() - after.len();
        self.skip_space();
        if self.byte() != Some(b':') {
            return Err(self.broken(JsonRule::Colon));
        }
        self.pos += 1;
        Ok(true)
    }

    /// Begins an array; [`JsonReader::next_element`] then tells of each element.
    pub fn begin_array(&mut self) -> Result<Sequence, JsonError> {
        self.begin(b'[', JsonRule::Array)
    }

    /// Whether the array has one more element, which the caller reads next.
    pub fn next_element(&mut self, array: &mut Sequence) -> Result<bool, JsonError> {
        self.next(array, b']')
    }

    /// Begins an object; [`JsonReader::next_key`] then tells of each member.
    pub fn begin_object(&mut self) -> Result<Sequence, JsonError> {
        self.begin(b'{', JsonRule::Object)
    }

    /// The name of the object's next member, whose value the caller reads next.
    pub fn next_key(&mut self, object: &mut Sequence) -> Result<Option<Cow<'a, str>>, JsonError> {
        if !self.next(object, b'}')? {
            return Ok(None);
        }
        self.skip_space();
        if self.byte() != Some(b'"') {
            return Err(self.broken(JsonRule::Key));
        }
        let key = self.read_string()?;
        self.skip_space();
        if self.byte() != Some(b':') {
            return Err(self.broken(JsonRule::Colon));
        }
        self.pos += 1;
        Ok(Some(key))
    }

    /// Reads past one value, checking it, and returns its text.
    pub fn skip_value(&mut self) -> Result<&'a [u8], JsonError> {
        let kind = self.peek()?;
        let start = self.pos;
        match kind {
            JsonKind::Null => self.read_null()?,
            JsonKind::Bool => self.read_bool().map(|_| ())?,
            JsonKind::Number => self.read_number().map(|_| ())?,
            JsonKind::String => self.skip_string()?,
            JsonKind::Array => {
                let mut array = self.begin_array()?;
                while self.next_element(&mut array)? {
                    self.skip_value()?;
                }
            }
            JsonKind::Object => {
                let mut object = self.begin_object()?;
                while self.next_raw_key(&mut object)?.is_some() {
                    self.skip_value()?;
                }
            }
        }
        Ok(self.buf.get(start..self.pos).unwrap_or_default())
    }

    /// Like [`JsonReader::next_key`], but the name is left with its escapes, which the flag tells.
    pub(crate) fn next_raw_key(
        &mut self,
        object: &mut Sequence,
    ) -> Result<Option<(&'a str, bool)>, JsonError> {
        if !self.next(object, b'}')? {
            return Ok(None);
        }
        self.skip_space();
        if self.byte() != Some(b'"') {
            return Err(self.broken(JsonRule::Key));
        }
        let key = self.take_raw_string()?;
        self.skip_space();
        if self.byte() != Some(b':') {
            return Err(self.broken(JsonRule::Colon));
        }
        self.pos += 1;
        Ok(Some(key))
    }

    /// A reader at the same place, to look ahead: it does not check that the strings that it passes
    /// over are UTF-8, for this one will.
    pub(crate) fn scan(&self) -> Self {
        Self { is_scan: true, ..self.clone() }
    }

    /// Whether there is an array or object around this place.
    pub(crate) fn is_inside(&self) -> bool {
        0 < self.depth
    }

    /// Goes on at `pos`, where a value begins or ends that was passed before.
    pub(crate) fn jump(&mut self, pos: usize) {
        self.pos = pos;
    }

    /// Goes on after the end of the array or object that it is in, which was passed before.
    pub(crate) fn jump_out(&mut self, end: usize) {
        self.pos = end;
        self.depth = self.depth.saturating_sub(1);
    }

    /// Counts members that are read by jumping to them.
    pub(crate) fn count(&mut self, n: usize) -> Result<(), JsonError> {
        self.n_items += n;
        if self.limits.max_items < self.n_items {
            return Err(self.broken(JsonRule::Items { max: self.limits.max_items }));
        }
        Ok(())
    }

    fn begin(&mut self, open: u8, rule: JsonRule) -> Result<Sequence, JsonError> {
        self.skip_space();
        if self.byte() != Some(open) {
            return Err(self.broken(rule));
        }
        if self.limits.max_depth <= self.depth {
            return Err(self.broken(JsonRule::Depth { max: self.limits.max_depth }));
        }
        self.depth += 1;
        self.pos += 1;
        Ok(Sequence { is_first: true })
    }

    #[inline]
    fn next(&mut self, sequence: &mut Sequence, close: u8) -> Result<bool, JsonError> {
        self.skip_space();
        let is_first = std::mem::replace(&mut sequence.is_first, false);
        match self.byte() {
            Some(byte) if byte == close => {
                self.pos += 1;
                self.depth = self.depth.saturating_sub(1);
                return Ok(false);
            }
            Some(b',') if !is_first => {
                self.pos += 1;
                self.skip_space();
                // A comma is followed by an element, which its reader sees to; but not by the end.
                if self.byte() == Some(close) {
                    return Err(self.broken(JsonRule::Value));
                }
            }
            Some(_) if is_first => {}
            Some(_) => return Err(self.broken(JsonRule::Comma)),
            None => return Err(self.broken(JsonRule::End)),
        }
        self.count(1)?;
        Ok(true)
    }

    /// The string whose quote comes next, without its quotes, and whether it contains escapes.
    #[inline]
    fn take_raw_string(&mut self) -> Result<(&'a str, bool), JsonError> {
        let start = self.pos + 1;
        let (raw, has_escapes) = text::scan_string(self.buf, start)?;
        self.check_len(raw.len())?;
        let text = std::str::from_utf8(raw).map_err(|error| JsonError {
            offset: start + error.valid_up_to(),
            rule: JsonRule::Utf8,
        })?;
        self.pos = start + raw.len() + 1;
        Ok((text, has_escapes))
    }

    fn skip_string(&mut self) -> Result<(), JsonError> {
        if !self.is_scan {
            return self.take_raw_string().map(|_| ());
        }
        let start = self.pos + 1;
        let (raw, _) = text::scan_string(self.buf, start)?;
        self.check_len(raw.len())?;
        self.pos = start + raw.len() + 1;
        Ok(())
    }

    fn literal(&mut self, word: &'static [u8]) -> Result<(), JsonError> {
        if !self.rest().starts_with(word) {
            return Err(self.broken(JsonRule::Value));
        }
        self.pos += word.len();
        Ok(())
    }

    fn check_len(&self, len: usize) -> Result<(), JsonError> {
        if self.limits.max_len < len {
            return Err(self.broken(JsonRule::Len { max: self.limits.max_len }));
        }
        Ok(())
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.byte() {
            self.pos += 1;
        }
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.buf.get(self.pos).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.buf.get(self.pos..).unwrap_or_default()
    }

    #[cold]
    fn broken(&self, rule: JsonRule) -> JsonError {
        JsonError { offset: self.pos, rule }
    }
}

/// The place inside an array or object, between its elements.
#[derive(Debug)]
pub struct Sequence {
    is_first: bool,
}

/// The length of the number at the front of `bytes`.
fn number_len(bytes: &[u8]) -> Option<usize> {
    let digits = |from: usize| -> usize {
        bytes.get(from..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    match digits(at) {
        0 => return None,
        // No leading zeros.
        1 => at += 1,
        _ if bytes.get(at) == Some(&b'0') => return None,
        n => at += n,
    }
    if bytes.get(at) == Some(&b'.') {
        let n = digits(at + 1);
        if n == 0 {
            return None;
        }
        at += 1 + n;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        at += usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
        let n = digits(at);
        if n == 0 {
            return None;
        }
        at += n;
    }
    Some(at)
}

/// Where in the text `offset` lies, as `$.orders[2].id`; for messages, after an error.
#[must_use]
pub fn path_at(text: &[u8], offset: usize) -> String {
    let mut path = String::from("$");
    let mut reader = JsonReader::new(text, Limits::default());
    // An error ends the walk: the path so far is the answer.
    let _ = walk_to(&mut reader, offset, &mut path);
    path
}

/// Extends `path` by the members that lead to `offset`. Whether the offset was in this value.
fn walk_to(
    reader: &mut JsonReader<'_>,
    offset: usize,
    path: &mut String,
) -> Result<bool, JsonError> {
    use std::fmt::Write as _;
    let kind = reader.peek()?;
    let len = path.len();
    match kind {
        JsonKind::Array => {
            let mut array = reader.begin_array()?;
            let mut index = 0usize;
            while reader.next_element(&mut array)? {
                let _ = write!(path, "[{index}]");
                if walk_to(reader, offset, path)? || offset < reader.pos {
                    return Ok(true);
                }
                path.truncate(len);
                index += 1;
            }
        }
        JsonKind::Object => {
            let mut object = reader.begin_object()?;
            while let Some(key) = reader.next_key(&mut object)? {
                let _ = write!(path, ".{key}");
                if walk_to(reader, offset, path)? || offset < reader.pos {
                    return Ok(true);
                }
                path.truncate(len);
            }
        }
        _ => {
            reader.skip_value()?;
        }
    }
    Ok(offset < reader.pos)
}

#[cfg(test)]
mod tests;
