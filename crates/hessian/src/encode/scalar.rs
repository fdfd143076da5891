//! Numbers, text and binaries in their shortest forms.

use super::number::{put_double, put_int, put_long};
use super::short::{SHORT_TEXT_ROOM, write_short_text};
use crate::{tag, utf16};
use java_json::short_copy::push_front;

/// A tag and four bytes, at once.
#[inline]
fn tagged(out: &mut Vec<u8>, tag: u8, [b3, b2, b1, b0]: [u8; 4]) {
    out.extend_from_slice(&[tag, b3, b2, b1, b0]);
}

/// A tag and eight bytes, at once.
#[inline]
fn tagged_long(out: &mut Vec<u8>, tag: u8, [b7, b6, b5, b4, b3, b2, b1, b0]: [u8; 8]) {
    out.extend_from_slice(&[tag, b7, b6, b5, b4, b3, b2, b1, b0]);
}

/// A tag with the bytes after it is no longer.
const NUMBER_LEN: usize = 9;

/// Whether `n_bytes` can be appended as the buffer is. Where that is asked first, and what there
/// is to do otherwise is left to another function, no bytes are counted again for each of several
/// forms.
#[inline]
fn has_room(out: &Vec<u8>, n_bytes: usize) -> bool {
    n_bytes <= out.capacity() - out.len()
}

/// Appends a 32-bit integer.
#[inline]
pub fn write_int(out: &mut Vec<u8>, value: i32) {
    let mut place = [0; NUMBER_LEN];
    let len = put_int(&mut place, value);
    push_front(out, &place, len);
}

/// Appends a 64-bit integer.
#[inline]
pub fn write_long(out: &mut Vec<u8>, value: i64) {
    let mut place = [0; NUMBER_LEN];
    let len = put_long(&mut place, value);
    push_front(out, &place, len);
}

/// Appends a double.
#[inline]
pub fn write_double(out: &mut Vec<u8>, value: f64) {
    let mut place = [0; NUMBER_LEN];
    let len = put_double(&mut place, value);
    push_front(out, &place, len);
}

/// Appends a date, in milliseconds since 1970 UTC; whole minutes get the short form.
#[inline]
pub fn write_date_ms(out: &mut Vec<u8>, ms: i64) {
    match (ms % 60_000, i32::try_from(ms / 60_000)) {
        (0, Ok(minutes)) => {
            tagged(out, tag::DATE_MINUTE, minutes.to_be_bytes());
        }
        _ => {
            tagged_long(out, tag::DATE, ms.to_be_bytes());
        }
    }
}

/// Appends a string. Its length is in UTF-16 units, and a character beyond the BMP is
/// written as Java does, as two surrogates of three bytes each.
pub fn write_string(out: &mut Vec<u8>, value: &str) {
    if value.len() <= tag::STRING_DIRECT_MAX {
        if !has_room(out, SHORT_TEXT_ROOM) {
            return write_string_with_room(out, value);
        }
        if write_short_text(out, value.as_bytes()) {
            return;
        }
    }
    write_long_string(out, value);
}

#[cold]
fn write_string_with_room(out: &mut Vec<u8>, value: &str) {
    out.reserve(SHORT_TEXT_ROOM);
    write_string(out, value);
}

/// ASCII of at most [`tag::STRING_DIRECT_MAX`] bytes.
#[inline]
fn write_short_ascii(out: &mut Vec<u8>, value: &[u8]) {
    out.reserve(value.len() + 1);
    #[expect(clippy::cast_possible_truncation, reason = "at most 0x1f")]
    out.push(value.len() as u8);
    out.extend_from_slice(value);
}

#[inline(never)]
fn write_long_string(out: &mut Vec<u8>, value: &str) {
    if value.is_ascii() {
        return write_long_ascii(out, value.as_bytes());
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
pub(super) fn write_ascii(out: &mut Vec<u8>, value: &[u8]) {
    if value.len() <= tag::STRING_DIRECT_MAX {
        write_short_ascii(out, value);
    } else {
        write_long_ascii(out, value);
    }
}

fn write_long_ascii(out: &mut Vec<u8>, value: &[u8]) {
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
