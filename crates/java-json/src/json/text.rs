//! The insides of JSON strings: fast scanning, escapes.

use super::{JsonError, JsonRule};
use crate::ascii;

/// How many bytes at the front of `bytes` mean just themselves, in a JSON string.
#[inline]
pub(super) fn plain_len(bytes: &[u8]) -> usize {
    scan::<false>(bytes)
}

/// How many bytes at the front of `bytes` mean just themselves, in a JSON string, and are ASCII.
#[inline]
pub(super) fn plain_ascii_len(bytes: &[u8]) -> usize {
    scan::<true>(bytes)
}

#[inline]
fn scan<const ONLY_ASCII: bool>(bytes: &[u8]) -> usize {
    let mut at = 0;
    let mut rest = bytes;
    while let Some((chunk, after)) = rest.split_first_chunk() {
        if let Some(index) = ascii::special_in_chunk::<ONLY_ASCII>(chunk) {
            return at + index;
        }
        at += chunk.len();
        rest = after;
    }
    at + scan_short::<ONLY_ASCII>(rest)
}

fn scan_short<const ONLY_ASCII: bool>(bytes: &[u8]) -> usize {
    let mut at = 0;
    let mut rest = bytes;
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        if let Some(index) = ascii::special_in::<ONLY_ASCII>(*chunk) {
            return at + index;
        }
        at += 8;
        rest = after;
    }
    let is_plain = |byte: u8| !ascii::is_special(byte) && (!ONLY_ASCII || byte < 0x80);
    at + rest.iter().take_while(|&&byte| is_plain(byte)).count()
}

/// The bytes from `start` to the closing quote, all escapes checked, and whether there are any.
#[inline]
pub(super) fn scan_string(text: &[u8], start: usize) -> Result<(&[u8], bool), JsonError> {
    let rest = text.get(start..).unwrap_or_default();
    let len = plain_len(rest);
    if rest.get(len) == Some(&b'"') {
        return Ok((rest.get(..len).unwrap_or_default(), false));
    }
    scan_escapes(rest, start, len)
}

fn scan_escapes(rest: &[u8], start: usize, mut at: usize) -> Result<(&[u8], bool), JsonError> {
    let broken = |at: usize, rule| JsonError { offset: start + at, rule };
    loop {
        match rest.get(at) {
            Some(b'"') => return Ok((rest.get(..at).unwrap_or_default(), true)),
            Some(b'\\') => {}
            Some(_) => return Err(broken(at, JsonRule::Control)),
            None => return Err(broken(at, JsonRule::End)),
        }
        at += match rest.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => match hex4(rest, at + 2) {
                Some(0xdc00..=0xdfff) => return Err(broken(at, JsonRule::Surrogate)),
                Some(0xd800..=0xdbff) => match low_surrogate(rest, at + 6) {
                    Some(_) => 12,
                    None => return Err(broken(at, JsonRule::Surrogate)),
                },
                Some(_) => 6,
                None => return Err(broken(at, JsonRule::Escape)),
            },
            Some(_) => return Err(broken(at, JsonRule::Escape)),
            None => return Err(broken(at + 1, JsonRule::End)),
        };
        at += plain_len(rest.get(at..).unwrap_or_default());
    }
}

fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    digits.iter().try_fold(0, |sum, &b| Some(sum << 4 | char::from(b).to_digit(16)?))
}

/// The second half of a surrogate pair, written as an escape at `at`.
fn low_surrogate(bytes: &[u8], at: usize) -> Option<u32> {
    if bytes.get(at..at + 2)? != b"\\u" {
        return None;
    }
    hex4(bytes, at + 2).filter(|unit| (0xdc00..=0xdfff).contains(unit))
}

/// The text that `raw` stands for. Its escapes have been checked by [`scan_string`].
pub(super) fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        let (plain, escape) = rest.split_at(at);
        text.push_str(plain);
        let bytes = escape.as_bytes();
        let (c, len) = match bytes.get(1) {
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{c}', 2),
            Some(b'n') => ('\n', 2),
            Some(b'r') => ('\r', 2),
            Some(b't') => ('\t', 2),
            Some(b'u') => {
                let unit = hex4(bytes, 2).unwrap_or_default();
                let is_high = (0xd800..0xdc00).contains(&unit);
                let (code, len) = match low_surrogate(bytes, 6).filter(|_| is_high) {
                    Some(low) => (0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00), 12),
                    None => (unit, 6),
                };
                (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), len)
            }
            Some(&other) => (char::from(other), 2),
            None => break,
        };
        text.push(c);
        rest = escape.get(len..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

/// Appends text in UTF-8 without quotes, with the escapes that JSON demands.
#[inline]
pub fn escape(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    loop {
        let (plain, after) = rest.split_at(plain_len(rest));
        out.extend_from_slice(plain);
        let Some((&byte, behind)) = after.split_first() else {
            return;
        };
        rest = if byte == b'"' || byte == b'\\' {
            escape_row(out, after)
        } else {
            escape_byte(out, byte);
            behind
        };
    }
}

/// Quotes and backslashes at the front of `text`, and what stands behind them. They come in long
/// rows where JSON stands in JSON that stands in JSON.
#[cold]
fn escape_row<'a>(out: &mut Vec<u8>, text: &'a [u8]) -> &'a [u8] {
    let len = text.iter().take_while(|&&byte| byte == b'"' || byte == b'\\').count();
    let (row, behind) = text.split_at(len);
    out.reserve(2 * len);
    for &byte in row {
        out.extend_from_slice(&[b'\\', byte]);
    }
    behind
}

#[cold]
fn escape_byte(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        0x08 => b'b',
        0x0c => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend([byte >> 4, byte & 0x0f].map(|digit| HEX[usize::from(digit)]));
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}
