//! Numbers, text and binaries in their shortest forms.

use crate::{ascii, tag, utf16};

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
            tagged(out, tag::INT, value.to_be_bytes());
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
            Ok(value) => tagged(out, tag::LONG_INT, value.to_be_bytes()),
            Err(_) => tagged_long(out, tag::LONG, value.to_be_bytes()),
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
        tagged(out, tag::DOUBLE_MILL, mills.to_be_bytes());
    } else {
        tagged_long(out, tag::DOUBLE, value.to_bits().to_be_bytes());
    }
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
#[inline]
pub fn write_string(out: &mut Vec<u8>, value: &str) {
    if value.len() <= tag::STRING_DIRECT_MAX && ascii::is_ascii(value.as_bytes()) {
        write_short_ascii(out, value.as_bytes());
    } else {
        write_long_string(out, value);
    }
}

/// ASCII of at most [`tag::STRING_DIRECT_MAX`] bytes.
#[inline]
fn write_short_ascii(out: &mut Vec<u8>, value: &[u8]) {
    out.reserve(value.len() + 1);
    #[expect(clippy::cast_possible_truncation, reason = "at most 0x1f")]
    out.push(value.len() as u8);
    out.extend_from_slice(value);
}

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
