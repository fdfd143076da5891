//! The decoder: Hessian 2.0 bytes in, typed values out, by pulling.
//!
//! It takes every form that Hessian 2.0 has, whether or not hessian-lite writes it.
//!
//! Invariants:
//! - Nothing is allocated by a length that a peer announced before that many bytes are there.
//! - Class definitions, types and the places where lists, maps and objects begin are recorded by
//!   every way of reading, [`Decoder::skip_value`] too, so that numbers stay right whatever the
//!   caller chose to look at.
//! - After an error the place in the stream is lost, and the caller gives up the message.

mod ahead;
mod cursor;
mod name;
mod number;
mod starts;
mod text;

pub(crate) use starts::Starts;

pub use cursor::{ListCursor, MapCursor, ObjectCursor};
pub use name::{ClassDef, Name};
pub use text::is_ascii_string;

use crate::{HessianError, Limits, tag};

/// What kind of value comes next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ValueKind {
    /// `null`.
    Null,
    /// A boolean.
    Bool,
    /// A 32-bit integer.
    Int,
    /// A 64-bit integer.
    Long,
    /// A double.
    Double,
    /// A `java.util.Date`.
    Date,
    /// A string.
    String,
    /// A `byte[]`.
    Binary,
    /// A list or an array.
    List,
    /// A map.
    Map,
    /// An object of a defined class.
    Object,
    /// A reference to an earlier list, map or object.
    Ref,
}

/// Reads Hessian 2.0 values from the front of a slice, one after the other.
///
/// One decoder belongs to one message: classes, types and references are numbered from its start.
#[derive(Debug)]
pub struct Decoder<'a> {
    buf: &'a [u8],
    pos: usize,
    limits: Limits,
    depth: u32,
    n_items: usize,
    classes: Vec<ClassDef<'a>>,
    types: Vec<Name<'a>>,
    /// Where each list, map and object begins, by its reference number.
    refs: Starts,
    /// Over 0 while an earlier value is read once more: then nothing is recorded again.
    replays: u32,
}

impl<'a> Decoder<'a> {
    /// A decoder at the first byte of `buf`.
    #[must_use]
    pub fn new(buf: &'a [u8], limits: Limits) -> Self {
        Self {
            buf,
            pos: 0,
            limits,
            depth: 0,
            n_items: 0,
            classes: Vec::new(),
            types: Vec::new(),
            refs: Starts::default(),
            replays: 0,
        }
    }

    /// How many bytes have been read.
    #[must_use]
    #[inline]
    pub fn position(&self) -> usize {
        self.pos
    }

    /// Whether all bytes have been read.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.buf.len() <= self.pos
    }

    /// The bytes not yet read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.buf.get(self.pos..).unwrap_or_default()
    }

    /// What bounds the message.
    #[cfg(feature = "serde")]
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// How many lists, maps and objects have begun so far.
    #[must_use]
    pub fn ref_count(&self) -> usize {
        self.refs.len()
    }

    /// The class definition with this number, as in [`ObjectCursor::class`].
    #[must_use]
    #[inline]
    pub fn class(&self, index: usize) -> Option<&ClassDef<'a>> {
        self.classes.get(index)
    }

    /// What kind of value comes next. Class definitions before it are taken in.
    ///
    /// # Errors
    /// [`HessianError`] if no value begins here, or a class definition before it is wrong.
    #[inline]
    pub fn peek(&mut self) -> Result<ValueKind, HessianError> {
        let tag = self.head()?;
        let kind = KINDS.get(usize::from(tag)).copied().flatten();
        kind.ok_or_else(|| self.wrong_tag(tag, "the start of a value"))
    }

    /// Takes a `null` if that is what comes next.
    ///
    /// # Errors
    /// [`HessianError`] if nothing comes next, or a class definition that is wrong.
    #[inline]
    pub fn read_null(&mut self) -> Result<bool, HessianError> {
        let is_null = self.head()? == tag::NULL;
        self.pos += usize::from(is_null);
        Ok(is_null)
    }

    /// A boolean.
    ///
    /// # Errors
    /// [`HessianError`] if no boolean comes next.
    #[inline]
    pub fn read_bool(&mut self) -> Result<bool, HessianError> {
        let tag = self.head()?;
        let value = match tag {
            tag::TRUE => true,
            tag::FALSE => false,
            _ => return Err(self.wrong_tag(tag, "a boolean")),
        };
        self.pos += 1;
        Ok(value)
    }

    /// A date, in milliseconds since 1970 UTC.
    ///
    /// # Errors
    /// [`HessianError`] if no date comes next, or not all of it.
    pub fn read_date_ms(&mut self) -> Result<i64, HessianError> {
        let tag = self.head()?;
        match tag {
            tag::DATE => {
                self.pos += 1;
                Ok(i64::from_be_bytes(self.take_array()?))
            }
            tag::DATE_MINUTE => {
                self.pos += 1;
                Ok(i64::from(i32::from_be_bytes(self.take_array()?)) * 60_000)
            }
            _ => Err(self.wrong_tag(tag, "a date")),
        }
    }

    /// The number of a reference; it names a list, map or object that began before.
    ///
    /// # Errors
    /// [`HessianError`] if no reference comes next, or one to what has not begun.
    pub fn read_ref(&mut self) -> Result<usize, HessianError> {
        let offset = self.pos;
        let tag = self.head()?;
        if tag != tag::REF {
            return Err(self.wrong_tag(tag, "a reference"));
        }
        self.pos += 1;
        let index = self.read_int()?;
        let known = self.refs.len();
        usize::try_from(index).ok().filter(|&index| index < known).ok_or(HessianError::RefIndex {
            offset,
            index: index.into(),
            known,
        })
    }

    /// Reads past one value without building it. Classes, types and references are counted on.
    ///
    /// # Errors
    /// [`HessianError`] if the value is wrong, cut off, or passes a limit.
    pub fn skip_value(&mut self) -> Result<(), HessianError> {
        let tag = self.head()?;
        match tag {
            0x00..=0x1f | 0x30..=0x33 | tag::STRING | tag::STRING_CHUNK => self.skip_text(),
            0x20..=0x2f | 0x34..=0x37 | tag::BINARY | tag::BINARY_CHUNK => self.skip_binary(),
            tag::NULL | tag::TRUE | tag::FALSE | 0x80..=0xbf | 0xd8..=0xef => self.advance(1),
            tag::DOUBLE_ZERO | tag::DOUBLE_ONE => self.advance(1),
            0xc0..=0xcf | 0xf0..=0xff | tag::DOUBLE_BYTE => self.advance(2),
            0xd0..=0xd7 | 0x38..=0x3f | tag::DOUBLE_SHORT => self.advance(3),
            tag::INT | tag::LONG_INT | tag::DOUBLE_MILL | tag::DATE_MINUTE => self.advance(5),
            tag::LONG | tag::DOUBLE | tag::DATE => self.advance(9),
            tag::REF => self.read_ref().map(|_| ()),
            tag::MAP | tag::MAP_UNTYPED => {
                let mut map = self.read_map_begin()?;
                while map.next(self)? {
                    self.skip_value()?;
                    self.skip_value()?;
                }
                Ok(())
            }
            tag::OBJECT | 0x60..=0x6f => {
                let mut object = self.read_object_begin()?;
                while object.next(self).is_some() {
                    self.skip_value()?;
                }
                Ok(())
            }
            _ => {
                let mut list = self.read_list_begin()?;
                while list.next(self)? {
                    self.skip_value()?;
                }
                Ok(())
            }
        }
    }

    /// Goes back to where the list, map or object with this number begins, to read it once more.
    /// The caller hands the result to [`Decoder::end_replay`] after it has read the value.
    pub(crate) fn begin_replay(&mut self, index: usize) -> Option<usize> {
        self.refs.get(index).map(|start| self.begin_replay_at(start))
    }

    /// Like [`Decoder::begin_replay`], for a value that begins at `start`.
    pub(crate) fn begin_replay_at(&mut self, start: usize) -> usize {
        self.replays += 1;
        std::mem::replace(&mut self.pos, start)
    }

    pub(crate) fn end_replay(&mut self, pos: usize) {
        debug_assert!(0 < self.replays);
        self.replays -= 1;
        self.pos = pos;
    }

    /// Where the list, map or object with this number begins.
    pub(crate) fn ref_start(&self, index: usize) -> Option<usize> {
        self.refs.get(index)
    }

    /// The number of the list, map or object that begins at `start`; the later it began, the
    /// faster.
    pub(crate) fn ref_index_at(&self, start: usize) -> Option<usize> {
        self.refs.index_of(start)
    }

    /// The next value's tag, which is not taken. Class definitions before it are.
    #[inline]
    pub(crate) fn head(&mut self) -> Result<u8, HessianError> {
        match self.buf.get(self.pos) {
            Some(&tag) if tag != tag::CLASS_DEF => Ok(tag),
            _ => self.head_after_classes(),
        }
    }

    #[cold]
    fn head_after_classes(&mut self) -> Result<u8, HessianError> {
        loop {
            match self.buf.get(self.pos) {
                Some(&tag::CLASS_DEF) => self.class_def()?,
                Some(&tag) => return Ok(tag),
                None => return Err(HessianError::Truncated { offset: self.pos, needed: 1 }),
            }
        }
    }

    fn class_def(&mut self) -> Result<(), HessianError> {
        self.pos += 1;
        let name = self.read_name()?;
        let n_fields = self.read_len()?;
        self.count(n_fields)?;
        if 0 < self.replays {
            for _ in 0..n_fields {
                self.skip_text()?;
            }
            return Ok(());
        }
        self.count(1)?;
        let mut fields = Vec::with_capacity(n_fields);
        for _ in 0..n_fields {
            fields.push(self.read_name()?);
        }
        if fields.is_empty() {
            fields.extend(hidden_field(&name));
        }
        self.classes.push(ClassDef { name, fields });
        Ok(())
    }

    fn read_name(&mut self) -> Result<Name<'a>, HessianError> {
        if let Some(text) = self.short_ascii() {
            return Ok(Name::Borrowed(text));
        }
        self.take_text().map(Name::from)
    }

    /// A type's name, or the number of one that was sent before.
    fn read_type(&mut self) -> Result<Name<'a>, HessianError> {
        let offset = self.pos;
        let Some(&tag) = self.buf.get(self.pos) else {
            return Err(HessianError::Truncated { offset, needed: 1 });
        };
        if matches!(tag, 0x00..=0x1f | 0x30..=0x33 | tag::STRING | tag::STRING_CHUNK) {
            let name = self.read_name()?;
            if self.replays == 0 {
                self.types.push(name.clone());
            }
            return Ok(name);
        }
        let index = self.take_int()?;
        let name = usize::try_from(index).ok().and_then(|index| self.types.get(index));
        let known = self.types.len();
        name.cloned().ok_or(HessianError::TypeIndex { offset, index: index.into(), known })
    }

    /// A number of things to come, each of which takes at least one byte.
    fn read_len(&mut self) -> Result<usize, HessianError> {
        let offset = self.pos;
        let len = self.take_int()?;
        let n_left = self.buf.len() - self.pos.min(self.buf.len());
        usize::try_from(len)
            .ok()
            .filter(|&len| len <= n_left)
            .ok_or(HessianError::Length { offset, len: len.into() })
    }

    /// Counts elements against the limit.
    #[inline]
    fn count(&mut self, n: usize) -> Result<(), HessianError> {
        self.n_items = self.n_items.saturating_add(n);
        if self.limits.max_items < self.n_items {
            return Err(HessianError::TooManyItems {
                offset: self.pos,
                max: self.limits.max_items,
            });
        }
        Ok(())
    }

    /// Goes one level down into the container that begins at `start`.
    #[inline]
    fn enter(&mut self, start: usize) -> Result<(), HessianError> {
        if self.limits.max_depth <= self.depth {
            return Err(HessianError::TooDeep { offset: start, max: self.limits.max_depth });
        }
        self.depth += 1;
        if self.replays == 0 {
            self.refs.push(start);
        }
        Ok(())
    }

    #[inline]
    fn leave(&mut self) {
        debug_assert!(0 < self.depth);
        self.depth = self.depth.saturating_sub(1);
    }

    #[inline]
    fn advance(&mut self, n: usize) -> Result<(), HessianError> {
        self.take(n).map(|_| ())
    }

    /// The next `n` bytes.
    #[inline]
    fn take(&mut self, n: usize) -> Result<&'a [u8], HessianError> {
        let rest = self.rest();
        match rest.get(..n) {
            Some(bytes) => {
                self.pos += n;
                Ok(bytes)
            }
            None => Err(HessianError::Truncated {
                offset: self.pos,
                needed: n.saturating_sub(rest.len()),
            }),
        }
    }

    #[inline]
    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], HessianError> {
        let rest = self.rest();
        match rest.first_chunk::<N>() {
            Some(bytes) => {
                self.pos += N;
                Ok(*bytes)
            }
            None => Err(HessianError::Truncated {
                offset: self.pos,
                needed: N.saturating_sub(rest.len()),
            }),
        }
    }

    #[cold]
    fn wrong_tag(&self, tag: u8, expected: &'static str) -> HessianError {
        HessianError::Tag { offset: self.pos, tag, expected }
    }
}

/// The value that follows an object of this class although its definition names no field: that is
/// how the compact mode of hessian-lite 4 writes dates and times. Read as a field it cannot be
/// missed.
fn hidden_field(class: &str) -> Option<Name<'static>> {
    match class {
        "java.time.LocalDate" => Some(Name::Borrowed("epochDay")),
        "java.time.LocalTime" => Some(Name::Borrowed("nanoOfDay")),
        _ => None,
    }
}

/// By the first byte of a value: one look instead of a dozen comparisons.
const KINDS: [Option<ValueKind>; 256] = {
    let mut kinds = [None; 256];
    let mut tag = 0u8;
    loop {
        kinds[tag as usize] = kind_of(tag);
        if tag == u8::MAX {
            break kinds;
        }
        tag += 1;
    }
};

const fn kind_of(tag: u8) -> Option<ValueKind> {
    Some(match tag {
        tag::NULL => ValueKind::Null,
        tag::TRUE | tag::FALSE => ValueKind::Bool,
        0x80..=0xd7 | tag::INT => ValueKind::Int,
        0xd8..=0xff | 0x38..=0x3f | tag::LONG | tag::LONG_INT => ValueKind::Long,
        tag::DOUBLE | tag::DOUBLE_ZERO..=tag::DOUBLE_MILL => ValueKind::Double,
        tag::DATE | tag::DATE_MINUTE => ValueKind::Date,
        0x00..=0x1f | 0x30..=0x33 | tag::STRING | tag::STRING_CHUNK => ValueKind::String,
        0x20..=0x2f | 0x34..=0x37 | tag::BINARY | tag::BINARY_CHUNK => ValueKind::Binary,
        tag::LIST_VARIABLE..=tag::LIST_FIXED_UNTYPED | 0x70..=0x7f => ValueKind::List,
        tag::MAP | tag::MAP_UNTYPED => ValueKind::Map,
        tag::OBJECT | 0x60..=0x6f => ValueKind::Object,
        tag::REF => ValueKind::Ref,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
