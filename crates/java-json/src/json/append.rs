//! Pieces of JSON text, appended to a buffer of the caller.

use super::put::{LEAF_LEN, put_f64, put_i64};
use super::text;
use crate::ascii;
use crate::short_copy::{push_front, push_short};

/// Most names are no longer; it is worth a look whether they can be copied as they are.
const SHORT: usize = 32;

/// A string in quotes.
#[inline]
pub fn write_string(out: &mut Vec<u8>, value: &str) {
    out.reserve(value.len() + 2);
    out.push(b'"');
    if value.len() <= SHORT && ascii::is_plain(value.as_bytes()) {
        push_short(out, value.as_bytes());
    } else {
        text::escape(out, value.as_bytes());
    }
    out.push(b'"');
}

/// An integer.
#[inline]
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    let mut place = [0; LEAF_LEN];
    let len = put_i64(&mut place, value);
    push_front(out, &place, len);
}

/// The shortest number that reads back as this double. JSON has none for NaN and the infinities:
/// they are written as the strings `"NaN"`, `"Infinity"` and `"-Infinity"`.
#[inline]
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    let mut place = [0; LEAF_LEN];
    let len = put_f64(&mut place, value);
    push_front(out, &place, len);
}

/// The shortest number that reads back as this float, so that Java's 99.8f is 99.8.
pub fn write_f32(out: &mut Vec<u8>, value: f32) {
    if value.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else {
        out.extend_from_slice(not_finite(value.into()));
    }
}

pub(super) fn not_finite(value: f64) -> &'static [u8] {
    if value.is_nan() {
        b"\"NaN\""
    } else if value.is_sign_positive() {
        b"\"Infinity\""
    } else {
        b"\"-Infinity\""
    }
}
