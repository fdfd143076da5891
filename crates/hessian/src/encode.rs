//! The encoder: typed values in, Hessian 2.0 bytes out.
//!
//! Invariants:
//! - It writes the shortest form of every value, the same bytes as hessian-lite's `Hessian2Output`
//!   (binaries over 32 KiB are cut at other places, and `-0.0` keeps its sign).
//! - Lists, maps and objects are numbered from 0 in the order in which they begin, which is how
//!   Java counts them; [`Encoder::reference`] takes such a number.
//! - The encoder only appends to the caller's buffer. It reads back what it wrote itself (class
//!   definitions), so the buffer must not be cut while the encoder lives, which the borrow sees
//!   to.

use crate::tag;

#[cfg(feature = "serde")]
mod insert_classes;
mod number;
mod open_object;
mod scalar;
mod short;

pub(crate) use self::number::{put_double, put_int, put_long};
use self::scalar::write_ascii;
pub use self::scalar::{
    write_binary, write_date_ms, write_double, write_int, write_long, write_string,
};

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
    #[inline]
    pub fn null(&mut self) {
        self.out.push(tag::NULL);
    }

    /// A boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.out.push(if value { tag::TRUE } else { tag::FALSE });
    }

    /// A 32-bit integer; Java's byte, short and int.
    #[inline]
    pub fn int(&mut self, value: i32) {
        write_int(self.out, value);
    }

    /// A 64-bit integer.
    #[inline]
    pub fn long(&mut self, value: i64) {
        write_long(self.out, value);
    }

    /// A double; Java's float and double.
    #[inline]
    pub fn double(&mut self, value: f64) {
        write_double(self.out, value);
    }

    /// A `java.util.Date`, in milliseconds since 1970 UTC.
    pub fn date_ms(&mut self, ms: i64) {
        write_date_ms(self.out, ms);
    }

    /// A string.
    #[inline]
    pub fn string(&mut self, value: &str) {
        write_string(self.out, value);
    }

    /// A string of which is known that all its bytes are ASCII.
    #[inline]
    pub(crate) fn ascii(&mut self, value: &[u8]) {
        debug_assert!(value.is_ascii());
        write_ascii(self.out, value);
    }

    /// A `byte[]`.
    pub fn binary(&mut self, value: &[u8]) {
        write_binary(self.out, value);
    }

    /// Begins a list of exactly `len` elements, which the caller writes next. There is no end
    /// mark. `ty` is the name as hessian-lite writes it: `[int`, `[string`,
    /// `java.util.LinkedList`. Returns the list's reference number.
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
    #[inline]
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
