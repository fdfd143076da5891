//! The encoder: typed values in, Hessian 2.0 bytes out.
//!
//! Invariants:
//! - It writes the shortest form of every value, the same bytes as hessian-lite's `Hessian2Output`
//!   (binaries over 32 KiB are cut at other places, and `-0.0` keeps its sign).
//! - Lists, maps and objects are numbered from 0 in the order in which they begin, which is how
//!   Java counts them; [`Encoder::reference`] takes such a number.
//! - The encoder only appends to the caller's buffer. It reads back what it wrote itself (class
//!   definitions), so the buffer must not be cut while the encoder lives, which the borrow sees to.

use crate::{tag, utf16};

#[cfg(feature = "serde")]
mod late;

/// Only this many class definitions and type names are looked through for one that can be used
/// again; any after them are written out each time. It bounds the work that a hostile list of
/// thousands of different classes can cause.
const SEARCHED: usize = 256;

/// Writes Hessian 2.0 values to the end of a buffer that the caller owns.
///
/// One encoder belongs to one message: classes, types and references are numbered from its start.
/// Making one costs nothing; memory is taken when the first class definition or type is written.
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
    classes: Names,
    types: Names,
    n_refs: u32,
}

/// Byte ranges of `out` that hold the definitions which were written, in order.
#[derive(Debug, Default)]
struct Names {
    ranges: Vec<(usize, usize)>,
    count: u32,
}

impl Names {
    /// The number of the earlier definition with the same bytes as `out[start..]`.
    fn find(&self, out: &[u8], start: usize) -> Option<u32> {
        let new = out.get(start..)?;
        let same = |&(from, to): &(usize, usize)| out.get(from..to) == Some(new);
        // The last one is the likeliest: lists hold objects of one class.
        let index = self.ranges.iter().rposition(same)?;
        u32::try_from(index).ok()
    }

    fn push(&mut self, start: usize, end: usize) -> u32 {
        if self.ranges.len() < SEARCHED {
            self.ranges.push((start, end));
        }
        let index = self.count;
        self.count += 1;
        index
    }
}

/// A place to go back to, when what was written after it turns out to be wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    len: usize,
    n_refs: u32,
    classes: (usize, u32),
    types: (usize, u32),
}

/// A list that waits for its length.
#[derive(Debug)]
pub struct OpenList {
    at: usize,
}

impl<'a> Encoder<'a> {
    /// An encoder that appends to `out`. What `out` holds already stays as it is.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, classes: Names::default(), types: Names::default(), n_refs: 0 }
    }

    /// How many bytes the buffer holds by now.
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// How many lists, maps and objects have begun; the next one gets this number.
    #[must_use]
    pub fn ref_count(&self) -> u32 {
        self.n_refs
    }

    /// `null`.
    pub fn null(&mut self) {
        self.out.push(tag::NULL);
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) {
        self.out.push(if value { tag::TRUE } else { tag::FALSE });
    }

    /// A 32-bit integer; Java's byte, short and int.
    pub fn int(&mut self, value: i32) {
        write_int(self.out, value);
    }

    /// A 64-bit integer.
    pub fn long(&mut self, value: i64) {
        write_long(self.out, value);
    }

    /// A double; Java's float and double.
    pub fn double(&mut self, value: f64) {
        write_double(self.out, value);
    }

    /// A `java.util.Date`, in milliseconds since 1970 UTC.
    pub fn date_ms(&mut self, ms: i64) {
        write_date_ms(self.out, ms);
    }

    /// A string.
    pub fn string(&mut self, value: &str) {
        write_string(self.out, value);
    }

    /// A string of which is known that all its bytes are ASCII.
    pub(crate) fn ascii(&mut self, value: &[u8]) {
        debug_assert!(value.is_ascii());
        write_ascii(self.out, value);
    }

    /// A `byte[]`.
    pub fn binary(&mut self, value: &[u8]) {
        write_binary(self.out, value);
    }

    /// Begins a list of exactly `len` elements, which the caller writes next. There is no end mark.
    /// `ty` is the name as hessian-lite writes it: `[int`, `[string`, `java.util.LinkedList`.
    /// Returns the list's reference number.
    pub fn list_begin(&mut self, ty: Option<&str>, len: usize) -> u32 {
        let direct = u8::try_from(len).ok().filter(|_| len <= tag::LIST_DIRECT_MAX);
        match (direct, ty) {
            (Some(len), None) => self.out.push(tag::LIST_DIRECT_UNTYPED + len),
            (Some(len), Some(ty)) => {
                self.out.push(tag::LIST_DIRECT + len);
                self.type_name(ty);
            }
            (None, ty) => {
                match ty {
                    None => self.out.push(tag::LIST_FIXED_UNTYPED),
                    Some(ty) => {
                        self.out.push(tag::LIST_FIXED);
                        self.type_name(ty);
                    }
                }
                // No list in memory has more elements than this, for each is a byte at least.
                write_int(self.out, i32::try_from(len).unwrap_or(i32::MAX));
            }
        }
        self.next_ref()
    }

    /// Begins a list whose length will be known when its elements are written; then comes
    /// [`Encoder::list_close`]. The list has a fixed length for those who read it.
    pub fn list_open(&mut self, ty: Option<&str>) -> OpenList {
        match ty {
            None => self.out.push(tag::LIST_FIXED_UNTYPED),
            Some(ty) => {
                self.out.push(tag::LIST_FIXED);
                self.type_name(ty);
            }
        }
        let at = self.out.len();
        // The long form of an int, whose length does not depend on its value.
        self.out.extend_from_slice(&[tag::INT, 0, 0, 0, 0]);
        self.next_ref();
        OpenList { at }
    }

    /// Sets the length of a list that was begun with [`Encoder::list_open`].
    #[expect(clippy::needless_pass_by_value, reason = "a list is closed once")]
    pub fn list_close(&mut self, list: OpenList, len: usize) {
        let len = i32::try_from(len).unwrap_or(i32::MAX);
        if let Some(place) = self.out.get_mut(list.at + 1..list.at + 5) {
            place.copy_from_slice(&len.to_be_bytes());
        }
    }

    /// Begins a list of unknown length; the elements follow, then [`Encoder::list_end`].
    /// Returns the list's reference number. hessian-lite writes this form for iterators only, and
    /// its collections (up to 4.0.4 at least) fail to read it: [`Encoder::list_open`] is the
    /// way to send Java a list.
    pub fn list_begin_variable(&mut self, ty: Option<&str>) -> u32 {
        match ty {
            None => self.out.push(tag::LIST_VARIABLE_UNTYPED),
            Some(ty) => {
                self.out.push(tag::LIST_VARIABLE);
                self.type_name(ty);
            }
        }
        self.next_ref()
    }

    /// Ends a list of unknown length.
    pub fn list_end(&mut self) {
        self.out.push(tag::END);
    }

    /// Begins a map; keys and values follow in turn, then [`Encoder::map_end`]. Without a type it
    /// is a `java.util.HashMap`. Returns the map's reference number.
    pub fn map_begin(&mut self, ty: Option<&str>) -> u32 {
        match ty {
            None => self.out.push(tag::MAP_UNTYPED),
            Some(ty) => {
                self.out.push(tag::MAP);
                self.type_name(ty);
            }
        }
        self.next_ref()
    }

    /// Ends a map.
    pub fn map_end(&mut self) {
        self.out.push(tag::END);
    }

    /// Begins an object; the values of `fields` follow in that order, with no end mark. The class
    /// definition is written before it unless the same one (name and fields) was written already.
    /// Returns the object's reference number.
    pub fn object_begin<S: AsRef<str>>(&mut self, class: &str, fields: &[S]) -> u32 {
        let index = self.class_number(class, fields);
        self.object_head(index)
    }

    /// The number of a class definition, which is written if it was not before.
    pub(crate) fn class_number<S: AsRef<str>>(&mut self, class: &str, fields: &[S]) -> u32 {
        let start = self.out.len();
        self.class_def(class, fields);
        match self.classes.find(self.out, start) {
            Some(index) => {
                self.out.truncate(start);
                index
            }
            None => self.classes.push(start, self.out.len()),
        }
    }

    /// This place.
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            len: self.out.len(),
            n_refs: self.n_refs,
            classes: (self.classes.ranges.len(), self.classes.count),
            types: (self.types.ranges.len(), self.types.count),
        }
    }

    /// Takes back what was written after `mark`.
    pub(crate) fn go_back(&mut self, mark: Mark) {
        self.out.truncate(mark.len);
        self.n_refs = mark.n_refs;
        for (names, (n_ranges, count)) in
            [(&mut self.classes, mark.classes), (&mut self.types, mark.types)]
        {
            names.ranges.truncate(n_ranges);
            names.count = count;
        }
    }

    fn class_def<S: AsRef<str>>(&mut self, name: &str, fields: &[S]) {
        self.out.push(tag::CLASS_DEF);
        write_string(self.out, name);
        write_int(self.out, i32::try_from(fields.len()).unwrap_or(i32::MAX));
        for field in fields {
            write_string(self.out, field.as_ref());
        }
    }

    /// The head of an object whose class has this number, by whoever knows the number.
    pub(crate) fn object_head(&mut self, class: u32) -> u32 {
        match u8::try_from(class) {
            Ok(small) if class <= tag::OBJECT_DIRECT_MAX => {
                self.out.push(tag::OBJECT_DIRECT + small);
            }
            _ => {
                self.out.push(tag::OBJECT);
                write_int(self.out, i32::try_from(class).unwrap_or(i32::MAX));
            }
        }
        self.next_ref()
    }

    /// The list, map or object with this number once more: shared, or a cycle.
    pub fn reference(&mut self, index: u32) {
        self.out.push(tag::REF);
        write_int(self.out, i32::try_from(index).unwrap_or(i32::MAX));
    }

    /// A type's name at its first use, and its number after that.
    fn type_name(&mut self, name: &str) {
        let start = self.out.len();
        write_string(self.out, name);
        match self.types.find(self.out, start) {
            Some(index) => {
                self.out.truncate(start);
                write_int(self.out, i32::try_from(index).unwrap_or(i32::MAX));
            }
            None => {
                self.types.push(start, self.out.len());
            }
        }
    }

    fn next_ref(&mut self) -> u32 {
        let index = self.n_refs;
        self.n_refs += 1;
        index
    }
}

/// Appends a 32-bit integer.
#[inline]
pub fn write_int(out: &mut Vec<u8>, value: i32) {
    let [_, b2, b1, b0] = value.to_be_bytes();
    match value {
        -0x10..=0x2f => out.push(tag::INT_ZERO.wrapping_add(b0)),
        -0x800..=0x7ff => out.extend_from_slice(&[tag::INT_BYTE_ZERO.wrapping_add(b1), b0]),
        -0x40000..=0x3ffff => {
            out.extend_from_slice(&[tag::INT_SHORT_ZERO.wrapping_add(b2), b1, b0]);
        }
        _ => {
            out.push(tag::INT);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

/// Appends a 64-bit integer.
#[inline]
pub fn write_long(out: &mut Vec<u8>, value: i64) {
    let [.., b2, b1, b0] = value.to_be_bytes();
    match value {
        -0x08..=0x0f => out.push(tag::LONG_ZERO.wrapping_add(b0)),
        -0x800..=0x7ff => out.extend_from_slice(&[tag::LONG_BYTE_ZERO.wrapping_add(b1), b0]),
        -0x40000..=0x3ffff => {
            out.extend_from_slice(&[tag::LONG_SHORT_ZERO.wrapping_add(b2), b1, b0]);
        }
        _ => match i32::try_from(value) {
            Ok(value) => {
                out.push(tag::LONG_INT);
                out.extend_from_slice(&value.to_be_bytes());
            }
            Err(_) => {
                out.push(tag::LONG);
                out.extend_from_slice(&value.to_be_bytes());
            }
        },
    }
}

/// Appends a double.
#[inline]
pub fn write_double(out: &mut Vec<u8>, value: f64) {
    #[expect(clippy::cast_possible_truncation, reason = "compared with the value afterwards")]
    let (int, mills) = (value as i32, (value * 1000.0) as i32);
    #[expect(clippy::float_cmp, reason = "a short form is right only if it is exactly the value")]
    let (is_int, is_mills) = (f64::from(int) == value, 0.001 * f64::from(mills) == value);
    let is_minus_zero = value == 0.0 && value.is_sign_negative();
    if is_int && !is_minus_zero {
        let [_, _, b1, b0] = int.to_be_bytes();
        match int {
            0 => return out.push(tag::DOUBLE_ZERO),
            1 => return out.push(tag::DOUBLE_ONE),
            -0x80..=0x7f => return out.extend_from_slice(&[tag::DOUBLE_BYTE, b0]),
            -0x8000..=0x7fff => return out.extend_from_slice(&[tag::DOUBLE_SHORT, b1, b0]),
            _ => {}
        }
    }
    if is_mills && !is_minus_zero {
        out.push(tag::DOUBLE_MILL);
        out.extend_from_slice(&mills.to_be_bytes());
    } else {
        out.push(tag::DOUBLE);
        out.extend_from_slice(&value.to_bits().to_be_bytes());
    }
}

/// Appends a date, in milliseconds since 1970 UTC; whole minutes get the short form.
#[inline]
pub fn write_date_ms(out: &mut Vec<u8>, ms: i64) {
    match (ms % 60_000, i32::try_from(ms / 60_000)) {
        (0, Ok(minutes)) => {
            out.push(tag::DATE_MINUTE);
            out.extend_from_slice(&minutes.to_be_bytes());
        }
        _ => {
            out.push(tag::DATE);
            out.extend_from_slice(&ms.to_be_bytes());
        }
    }
}

/// Appends a string. Its length is in UTF-16 units, and a character beyond the BMP is
/// written as Java does, as two surrogates of three bytes each.
#[inline]
pub fn write_string(out: &mut Vec<u8>, value: &str) {
    if value.len() <= tag::STRING_DIRECT_MAX && value.is_ascii() {
        #[expect(clippy::cast_possible_truncation, reason = "at most 0x1f")]
        out.push(value.len() as u8);
        out.extend_from_slice(value.as_bytes());
    } else {
        write_long_string(out, value);
    }
}

fn write_long_string(out: &mut Vec<u8>, value: &str) {
    if value.is_ascii() {
        return write_ascii(out, value.as_bytes());
    }
    out.reserve(value.len() + 8);
    let (mut rest, mut n_left) = (value, utf16::count(value.as_bytes()));
    loop {
        let (n_units, n_bytes) =
            if n_left <= tag::CHUNK_LEN { (n_left, rest.len()) } else { chunk_len(rest) };
        let (chunk, after) = rest.split_at(n_bytes);
        string_head(out, n_units, after.is_empty());
        // Only characters beyond the BMP have first bytes from 0xf0 on, and two units.
        if 0xf0 <= chunk.bytes().fold(0, u8::max) {
            write_surrogates(out, chunk);
        } else {
            out.extend_from_slice(chunk.as_bytes());
        }
        if after.is_empty() {
            return;
        }
        (rest, n_left) = (after, n_left - n_units);
    }
}

#[inline]
fn write_ascii(out: &mut Vec<u8>, value: &[u8]) {
    out.reserve(value.len() + 8);
    let mut rest = value;
    while let Some((chunk, after)) = rest.split_at_checked(tag::CHUNK_LEN) {
        if after.is_empty() {
            break;
        }
        string_head(out, chunk.len(), false);
        out.extend_from_slice(chunk);
        rest = after;
    }
    string_head(out, rest.len(), true);
    out.extend_from_slice(rest);
}

/// The units and bytes of a full chunk at the front of a longer text. It does not end between the
/// halves of a surrogate pair, as Java's does not.
fn chunk_len(text: &str) -> (usize, usize) {
    let len_of = |n_units| utf16::prefix_len(text.as_bytes(), n_units).map(|len| (n_units, len));
    let len = len_of(tag::CHUNK_LEN).or_else(|| len_of(tag::CHUNK_LEN - 1));
    debug_assert!(len.is_some());
    len.unwrap_or((0, text.len()))
}

fn string_head(out: &mut Vec<u8>, n_units: usize, is_last: bool) {
    // At most CHUNK_LEN, so that two bytes hold it.
    let [.., b1, b0] = n_units.to_be_bytes();
    if !is_last {
        out.extend_from_slice(&[tag::STRING_CHUNK, b1, b0]);
    } else if n_units <= tag::STRING_DIRECT_MAX {
        out.push(b0);
    } else if n_units <= tag::STRING_SHORT_MAX {
        out.extend_from_slice(&[tag::STRING_SHORT + b1, b0]);
    } else {
        out.extend_from_slice(&[tag::STRING, b1, b0]);
    }
}

fn write_surrogates(out: &mut Vec<u8>, text: &str) {
    let mut utf8 = [0; 4];
    let mut utf16 = [0; 2];
    for c in text.chars() {
        if c.len_utf16() == 1 {
            out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes());
            continue;
        }
        for unit in c.encode_utf16(&mut utf16) {
            let [high, low] = unit.to_be_bytes();
            out.extend_from_slice(&[
                0xe0 | (high >> 4),
                0x80 | ((high & 0x0f) << 2) | (low >> 6),
                0x80 | (low & 0x3f),
            ]);
        }
    }
}

/// Appends a `byte[]`.
pub fn write_binary(out: &mut Vec<u8>, value: &[u8]) {
    out.reserve(value.len() + 8);
    let mut rest = value;
    while let Some((chunk, after)) = rest.split_at_checked(tag::CHUNK_LEN) {
        if after.is_empty() {
            break;
        }
        let [.., b1, b0] = chunk.len().to_be_bytes();
        out.extend_from_slice(&[tag::BINARY_CHUNK, b1, b0]);
        out.extend_from_slice(chunk);
        rest = after;
    }
    // At most CHUNK_LEN, so that two bytes hold it.
    let [.., b1, b0] = rest.len().to_be_bytes();
    if rest.len() <= tag::BINARY_DIRECT_MAX {
        out.push(tag::BINARY_DIRECT + b0);
    } else if rest.len() <= tag::BINARY_SHORT_MAX {
        out.extend_from_slice(&[tag::BINARY_SHORT + b1, b0]);
    } else {
        out.extend_from_slice(&[tag::BINARY, b1, b0]);
    }
    out.extend_from_slice(rest);
}
