//! JSON text: a pull reader, and (in `append` and `put`) the pieces of a writer.
//!
//! Strict RFC 8259 in UTF-8: no comments, no trailing commas, no NaN, no raw control characters.
//! Surrogate escapes without their other half are refused, for no Rust or JSON text can hold them.
//! Names that occur twice in an object are handed out twice.
//!
//! The reader allocates only for strings that contain escapes.

mod append;
mod error;
mod jumps;
mod member_name;
mod members;
mod number;
mod path;
mod put;
mod text;
mod work;

pub use append::{write_f32, write_f64, write_i64, write_string};
pub use error::{JsonError, JsonRule};
pub use member_name::MemberName;
pub use members::{JsonMember, members};
pub use number::{Short, short_number};
pub use path::path_at;
pub use put::{LEAF_LEN, LeafRoom, put_f64, put_i64, put_text, put_word};
pub use text::escape;
#[doc(hidden)]
pub use work::items_read_by;

use std::borrow::Cow;

use ascii::AsAsciiStr as _;

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
    ///
    /// # Errors
    /// [`JsonError`] if anything else is left.
    pub fn finish(&mut self) -> Result<(), JsonError> {
        if self.is_at_end() { Ok(()) } else { Err(self.broken(JsonRule::Trailing)) }
    }

    /// What kind of value comes next.
    ///
    /// # Errors
    /// [`JsonError`] if no value begins here.
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
    ///
    /// # Errors
    /// [`JsonError`] if anything else comes next.
    #[inline]
    pub fn read_null(&mut self) -> Result<(), JsonError> {
        self.skip_space();
        self.literal(b"null")
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// [`JsonError`] if neither comes next.
    #[inline]
    pub fn read_bool(&mut self) -> Result<bool, JsonError> {
        self.skip_space();
        if self.byte() == Some(b't') {
            self.literal(b"true").map(|()| true)
        } else {
            self.literal(b"false").map(|()| false)
        }
    }

    /// A string, borrowed unless it contains escapes.
    ///
    /// # Errors
    /// [`JsonError`] if no string comes next, or one that is wrong, cut off or too long.
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
    ///
    /// # Errors
    /// [`JsonError`] if no string comes next, or one that is too long.
    #[inline]
    pub fn read_plain_ascii(&mut self) -> Result<Option<&'a [u8]>, JsonError> {
        self.skip_space();
        if self.byte() != Some(b'"') {
            return Err(self.broken(JsonRule::String));
        }
        let start = self.pos + 1;
        let rest = self.buf.get(start..).unwrap_or_default();
        let (plain, after) = rest.split_at(text::plain_ascii_len(rest));
        if after.first() != Some(&b'"') {
            return Ok(None);
        }
        self.check_len(plain.len())?;
        self.pos = start + plain.len() + 1;
        Ok(Some(plain))
    }

    /// A string that is ASCII without escapes, if one comes next with no white space before it.
    #[inline]
    pub fn take_plain_ascii(&mut self) -> Option<&'a [u8]> {
        let inside = self.rest().strip_prefix(b"\"")?;
        let (plain, after) = inside.split_at(text::plain_ascii_len(inside));
        if after.first() != Some(&b'"') || self.limits.max_len < plain.len() {
            return None;
        }
        self.pos += plain.len() + 2;
        Some(plain)
    }

    /// A member's name that is ASCII without escapes, and its colon, if both come next with no
    /// white space around.
    #[inline]
    pub fn take_plain_key(&mut self) -> Option<&'a [u8]> {
        let start = self.pos;
        let key = self.take_plain_ascii()?;
        if self.byte() != Some(b':') {
            self.pos = start;
            return None;
        }
        self.pos += 1;
        Some(key)
    }

    /// Whether the object has one more member, whose name comes next.
    ///
    /// # Errors
    /// [`JsonError`] if neither a member nor the end of the object comes next, or there are too
    /// many members.
    #[inline]
    pub fn next_member(&mut self, object: &mut Sequence) -> Result<bool, JsonError> {
        self.next(object, b'}')
    }

    /// Takes the object's next member if it has the name that `lead` holds, as the writer of JSON
    /// without white space has it: `,"name":`, or `"name":` for the first one. If there is white
    /// space, it may be around these. The reader stays if the name is another.
    ///
    /// # Errors
    /// [`JsonError`] as of [`JsonReader::next_member`], or if no colon follows the name.
    #[inline]
    pub fn next_key_is(&mut self, object: &mut Sequence, lead: &[u8]) -> Result<bool, JsonError> {
        if self.rest().starts_with(lead) {
            object.is_first = false;
            self.pos += lead.len();
            self.count(1)?;
            return Ok(true);
        }
        self.next_spaced_key_is(object, lead)
    }

    #[cold]
    fn next_spaced_key_is(
        &mut self,
        object: &mut Sequence,
        lead: &[u8],
    ) -> Result<bool, JsonError> {
        if !self.next(object, b'}')? {
            return Ok(false);
        }
        self.skip_space();
        let quoted = lead.strip_prefix(b",").unwrap_or(lead);
        let quoted = quoted.strip_suffix(b":").unwrap_or(quoted);
        if !self.rest().starts_with(quoted) {
            return Ok(false);
        }
        self.pos += quoted.len();
        self.skip_space();
        if self.byte() != Some(b':') {
            return Err(self.broken(JsonRule::Colon));
        }
        self.pos += 1;
        Ok(true)
    }

    /// Begins an array; [`JsonReader::next_element`] then tells of each element.
    ///
    /// # Errors
    /// [`JsonError`] if no array comes next, or it is nested too deep.
    #[inline]
    pub fn begin_array(&mut self) -> Result<Sequence, JsonError> {
        self.begin(b'[', JsonRule::Array)
    }

    /// Whether the array has one more element, which the caller reads next.
    ///
    /// # Errors
    /// [`JsonError`] if neither an element nor the end of the array comes next, or there are too
    /// many elements.
    #[inline]
    pub fn next_element(&mut self, array: &mut Sequence) -> Result<bool, JsonError> {
        self.next(array, b']')
    }

    /// Begins an object; [`JsonReader::next_key`] then tells of each member.
    ///
    /// # Errors
    /// [`JsonError`] if no object comes next, or it is nested too deep.
    #[inline]
    pub fn begin_object(&mut self) -> Result<Sequence, JsonError> {
        self.begin(b'{', JsonRule::Object)
    }

    /// The name of the object's next member, whose value the caller reads next.
    ///
    /// # Errors
    /// [`JsonError`] as of [`JsonReader::next_member`] and [`JsonReader::read_key`].
    pub fn next_key(&mut self, object: &mut Sequence) -> Result<Option<Cow<'a, str>>, JsonError> {
        if !self.next(object, b'}')? {
            return Ok(None);
        }
        self.read_key().map(Some)
    }

    /// The name of a member that [`JsonReader::next_member`] told of.
    ///
    /// # Errors
    /// [`JsonError`] as of [`JsonReader::read_string`], or if no colon follows.
    pub fn read_key(&mut self) -> Result<Cow<'a, str>, JsonError> {
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
        Ok(key)
    }

    /// Reads past one value, checking it, and returns its text.
    ///
    /// # Errors
    /// [`JsonError`] if it is not JSON, or passes a limit.
    pub fn skip_value(&mut self) -> Result<&'a [u8], JsonError> {
        let kind = self.peek()?;
        let start = self.pos;
        match kind {
            JsonKind::Null => self.read_null()?,
            JsonKind::Bool => self.read_bool().map(|_| ())?,
            JsonKind::Number => self.take_number().map(|_| ())?,
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
    ///
    /// # Errors
    /// As [`JsonReader::next_key`].
    pub fn next_raw_key(
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

    #[inline]
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
        work::note_item();
        self.count(1)?;
        Ok(true)
    }

    /// The string whose quote comes next, without its quotes, and whether it contains escapes.
    #[inline]
    fn take_raw_string(&mut self) -> Result<(&'a str, bool), JsonError> {
        let start = self.pos + 1;
        let (raw, has_escapes) = text::scan_string(self.buf, start)?;
        self.check_len(raw.len())?;
        let text = match raw.as_ascii_str() {
            Ok(text) => text.as_str(),
            Err(_) => simdutf8::compat::from_utf8(raw).map_err(|error| JsonError {
                offset: start + error.valid_up_to(),
                rule: JsonRule::Utf8,
            })?,
        };
        self.pos = start + raw.len() + 1;
        Ok((text, has_escapes))
    }

    fn skip_string(&mut self) -> Result<(), JsonError> {
        if !self.is_scan {
            // Most strings are ASCII, and are looked at once.
            return match self.take_plain_ascii() {
                Some(_) => Ok(()),
                None => self.take_raw_string().map(|_| ()),
            };
        }
        let start = self.pos + 1;
        let (raw, _) = text::scan_string(self.buf, start)?;
        self.check_len(raw.len())?;
        self.pos = start + raw.len() + 1;
        Ok(())
    }

    #[inline]
    fn literal(&mut self, word: &'static [u8]) -> Result<(), JsonError> {
        if !self.rest().starts_with(word) {
            return Err(self.broken(JsonRule::Value));
        }
        self.pos += word.len();
        Ok(())
    }

    #[inline]
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

    /// The next byte, whatever it is.
    #[inline]
    pub fn byte(&self) -> Option<u8> {
        self.buf.get(self.pos).copied()
    }

    /// What has not been read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
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

impl Sequence {
    /// Whether nothing of it was read yet.
    #[inline]
    pub fn is_first(&self) -> bool {
        self.is_first
    }
}

#[cfg(test)]
mod tests;
