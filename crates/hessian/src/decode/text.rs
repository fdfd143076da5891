//! Strings and binaries, whole or in chunks.
//!
//! Hessian gives a string's length in UTF-16 units, and writes each unit by itself: a character
//! beyond the BMP is two surrogates of three bytes each. Plain four-byte UTF-8, which other
//! writers use, is taken as two units. A surrogate without its other half becomes U+FFFD.

use std::borrow::Cow;

use ascii::AsAsciiStr as _;
use simdutf8::basic::from_utf8;

use super::Decoder;
use crate::{HessianError, Limits, tag, utf16};

/// The bytes of some UTF-16 units.
enum Units<'a> {
    /// All of them ASCII.
    Ascii(&'a str),
    /// With others among them, not checked.
    Other(&'a [u8]),
}

impl<'a> Units<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            Self::Ascii(text) => text.as_bytes(),
            Self::Other(bytes) => bytes,
        }
    }
}

/// Whether `bytes` are one string in one chunk, all of it ASCII, and nothing else. That is seen
/// without a [`Decoder`]; of other strings it is not.
#[inline]
#[must_use]
pub fn is_ascii_string(bytes: &[u8], limits: &Limits) -> bool {
    let (len, text) = match bytes {
        [len @ 0x00..=0x1f, text @ ..] => (usize::from(*len), text),
        [tag @ 0x30..=0x33, low, text @ ..] => {
            (usize::from(u16::from_be_bytes([tag - tag::STRING_SHORT, *low])), text)
        }
        [tag::STRING, high, low, text @ ..] => {
            (usize::from(u16::from_be_bytes([*high, *low])), text)
        }
        _ => return false,
    };
    text.len() == len && len <= limits.max_len && text.is_ascii()
}

impl<'a> Decoder<'a> {
    /// A string. It is borrowed if it came in one chunk and is UTF-8 as it stands.
    ///
    /// # Errors
    /// [`HessianError`] if no string comes next, or one that is cut off, too long or not UTF-8.
    #[inline]
    pub fn read_string(&mut self) -> Result<Cow<'a, str>, HessianError> {
        match self.short_ascii() {
            Some(text) => Ok(Cow::Borrowed(text)),
            None => self.other_string(),
        }
    }

    /// A string of which is known that [`Decoder::short_ascii`] does not give it.
    pub(crate) fn other_string(&mut self) -> Result<Cow<'a, str>, HessianError> {
        self.head()?;
        self.take_text()
    }

    /// A string of at most 31 bytes that are ASCII, if that is what comes next.
    #[inline(never)]
    pub(crate) fn short_ascii(&mut self) -> Option<&'a str> {
        let bytes = self.short_text()?;
        let text = bytes.as_ascii_str().ok()?;
        self.pass_short_text(bytes);
        Some(text.as_str())
    }

    /// The bytes of a string of at most 31 units, if that is what comes next and if each unit is
    /// one byte, which the caller has to see. They are not taken: [`Decoder::pass_short_text`]
    /// does.
    #[inline]
    fn short_text(&self) -> Option<&'a [u8]> {
        let (&len, rest) = self.rest().split_first()?;
        let len = usize::from(len);
        if tag::STRING_DIRECT_MAX < len || self.limits.max_len < len {
            return None;
        }
        rest.get(..len)
    }

    /// Goes on after a text that [`Decoder::short_text`] gave.
    #[inline]
    fn pass_short_text(&mut self, text: &[u8]) {
        self.pos += 1 + text.len();
    }

    /// A string or `null`.
    ///
    /// # Errors
    /// As [`Decoder::read_string`], unless it is `null`.
    #[inline]
    pub fn read_opt_string(&mut self) -> Result<Option<Cow<'a, str>>, HessianError> {
        if self.read_null()? { Ok(None) } else { self.take_text().map(Some) }
    }

    /// A string, piece by piece and never as a whole, if it is UTF-8 as it stands. If it is not,
    /// the decoder stays where it was, though pieces were handed out already.
    pub(crate) fn read_text_pieces(
        &mut self,
        mut take: impl FnMut(&'a [u8]),
    ) -> Result<bool, HessianError> {
        self.head()?;
        let start = self.pos;
        let mut n_seen = 0;
        loop {
            let (n_units, is_last) = self.text_head()?;
            let bytes = match self.take_units(start, n_seen, n_units)? {
                Units::Ascii(text) => text.as_bytes(),
                Units::Other(bytes) => match from_utf8(bytes) {
                    Ok(text) => text.as_bytes(),
                    Err(_) => {
                        self.pos = start;
                        return Ok(false);
                    }
                },
            };
            n_seen += n_units;
            take(bytes);
            if is_last {
                return Ok(true);
            }
        }
    }

    /// A binary. It is borrowed if it came in one chunk.
    ///
    /// # Errors
    /// [`HessianError`] if no binary comes next, or one that is cut off or too long.
    pub fn read_binary(&mut self) -> Result<Cow<'a, [u8]>, HessianError> {
        self.head()?;
        let start = self.pos;
        let (len, is_last) = self.binary_head()?;
        let first = self.take_chunk(start, 0, len)?;
        if is_last {
            return Ok(Cow::Borrowed(first));
        }
        let mut whole = first.to_vec();
        loop {
            let (len, is_last) = self.binary_head()?;
            let chunk = self.take_chunk(start, whole.len(), len)?;
            whole.extend_from_slice(chunk);
            if is_last {
                return Ok(Cow::Owned(whole));
            }
        }
    }

    /// A string, and nothing before it.
    #[inline]
    pub(super) fn take_text(&mut self) -> Result<Cow<'a, str>, HessianError> {
        let start = self.pos;
        let (n_units, is_last) = self.text_head()?;
        if !is_last {
            return self.chunked_text(start, n_units);
        }
        match self.take_units(start, 0, n_units)? {
            Units::Ascii(text) => Ok(Cow::Borrowed(text)),
            Units::Other(bytes) => match from_utf8(bytes) {
                Ok(text) => Ok(Cow::Borrowed(text)),
                Err(_) => join_surrogates(bytes, start).map(Cow::Owned),
            },
        }
    }

    /// A string whose first chunk is known to have `n_units`, and not to be the last.
    fn chunked_text(&mut self, start: usize, n_units: usize) -> Result<Cow<'a, str>, HessianError> {
        let mut whole = String::new();
        let (mut n_units, mut n_seen, mut is_last) = (n_units, 0, false);
        loop {
            let text = match self.take_units(start, n_seen, n_units)? {
                Units::Ascii(text) => Ok(text),
                Units::Other(bytes) => from_utf8(bytes).map_err(|_| bytes),
            };
            n_seen += n_units;
            match text {
                Ok(text) => whole.push_str(text),
                Err(bytes) => {
                    let mut whole = whole.into_bytes();
                    whole.extend_from_slice(bytes);
                    return self.chunked_surrogates(start, whole, n_seen, is_last);
                }
            }
            if is_last {
                return Ok(Cow::Owned(whole));
            }
            (n_units, is_last) = self.text_head()?;
        }
    }

    /// The rest of a string in chunks, in which surrogates have to be joined, perhaps over the end
    /// of a chunk.
    #[cold]
    fn chunked_surrogates(
        &mut self,
        start: usize,
        mut whole: Vec<u8>,
        mut n_seen: usize,
        mut is_last: bool,
    ) -> Result<Cow<'a, str>, HessianError> {
        while !is_last {
            let n_units;
            (n_units, is_last) = self.text_head()?;
            let chunk = self.take_units(start, n_seen, n_units)?;
            n_seen += n_units;
            whole.extend_from_slice(chunk.bytes());
        }
        join_surrogates(&whole, start).map(Cow::Owned)
    }

    /// Reads past a string. That it is UTF-8 is not checked, only how far it goes.
    pub(super) fn skip_text(&mut self) -> Result<(), HessianError> {
        let start = self.pos;
        let mut n_seen = 0;
        loop {
            let (n_units, is_last) = self.text_head()?;
            self.take_units(start, n_seen, n_units)?;
            n_seen += n_units;
            if is_last {
                return Ok(());
            }
        }
    }

    pub(super) fn skip_binary(&mut self) -> Result<(), HessianError> {
        let start = self.pos;
        let mut n_seen = 0;
        loop {
            let (len, is_last) = self.binary_head()?;
            self.take_chunk(start, n_seen, len)?;
            n_seen += len;
            if is_last {
                return Ok(());
            }
        }
    }

    /// The length of the next chunk of text in UTF-16 units, and whether it is the last.
    #[inline]
    fn text_head(&mut self) -> Result<(usize, bool), HessianError> {
        let start = self.pos;
        let [tag] = self.take_array()?;
        match tag {
            0x00..=0x1f => Ok((usize::from(tag), true)),
            0x30..=0x33 => {
                let [low] = self.take_array()?;
                Ok((usize::from(u16::from_be_bytes([tag - tag::STRING_SHORT, low])), true))
            }
            tag::STRING | tag::STRING_CHUNK => {
                let len = u16::from_be_bytes(self.take_array()?);
                Ok((usize::from(len), tag == tag::STRING))
            }
            _ => {
                self.pos = start;
                Err(self.wrong_tag(tag, "a string"))
            }
        }
    }

    /// The length of the next chunk of binary, and whether it is the last.
    fn binary_head(&mut self) -> Result<(usize, bool), HessianError> {
        let start = self.pos;
        let [tag] = self.take_array()?;
        match tag {
            0x20..=0x2f => Ok((usize::from(tag - tag::BINARY_DIRECT), true)),
            0x34..=0x37 => {
                let [low] = self.take_array()?;
                Ok((usize::from(u16::from_be_bytes([tag - tag::BINARY_SHORT, low])), true))
            }
            tag::BINARY | tag::BINARY_CHUNK => {
                let len = u16::from_be_bytes(self.take_array()?);
                Ok((usize::from(len), tag == tag::BINARY))
            }
            _ => {
                self.pos = start;
                Err(self.wrong_tag(tag, "a binary"))
            }
        }
    }

    fn take_chunk(
        &mut self,
        start: usize,
        n_seen: usize,
        len: usize,
    ) -> Result<&'a [u8], HessianError> {
        self.check_len(start, n_seen, len)?;
        self.take(len)
    }

    /// The bytes of the next `n_units` UTF-16 units, of a string that began at `start` and of
    /// which `n_seen` units were read before.
    #[inline]
    fn take_units(
        &mut self,
        start: usize,
        n_seen: usize,
        n_units: usize,
    ) -> Result<Units<'a>, HessianError> {
        self.check_len(start, n_seen, n_units)?;
        let rest = self.rest();
        // Every unit takes a byte at least.
        let Some(bytes) = rest.get(..n_units) else {
            let needed = n_units - rest.len();
            return Err(HessianError::Truncated { offset: self.pos, needed });
        };
        if let Ok(text) = bytes.as_ascii_str() {
            self.pos += n_units;
            return Ok(Units::Ascii(text.as_str()));
        }
        let n_bytes =
            utf16::prefix_len(rest, n_units).ok_or_else(|| cut_error(rest, self.pos, start))?;
        self.take(n_bytes).map(Units::Other)
    }

    #[inline]
    fn check_len(&self, start: usize, n_seen: usize, len: usize) -> Result<(), HessianError> {
        if self.limits.max_len < n_seen + len {
            return Err(HessianError::TooLong { offset: start, max: self.limits.max_len });
        }
        Ok(())
    }
}

#[cold]
fn cut_error(rest: &[u8], offset: usize, start: usize) -> HessianError {
    // A last character that is cut off, or fewer characters than announced: more bytes are due.
    // Anything else is text that cannot be UTF-8.
    match std::str::from_utf8(rest) {
        Err(error) if error.error_len().is_some() => HessianError::Utf8 { offset: start },
        _ => HessianError::Truncated { offset: offset + rest.len(), needed: 1 },
    }
}

/// Text in Java's encoding: UTF-8, but for surrogates of three bytes each.
fn join_surrogates(bytes: &[u8], offset: usize) -> Result<String, HessianError> {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let good = match std::str::from_utf8(rest) {
            Ok(good) => good,
            Err(error) => {
                let good = rest.get(..error.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(good).map_err(|_| HessianError::Utf8 { offset })?
            }
        };
        text.push_str(good);
        rest = rest.get(good.len()..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        let first = surrogate(rest).ok_or(HessianError::Utf8 { offset })?;
        rest = rest.get(3..).unwrap_or_default();
        match surrogate(rest) {
            Some(second) if first < 0xdc00 && 0xdc00 <= second => {
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                rest = rest.get(3..).unwrap_or_default();
            }
            _ => text.push(char::REPLACEMENT_CHARACTER),
        }
    }
    Ok(text)
}

/// The surrogate at the front of `bytes`.
fn surrogate(bytes: &[u8]) -> Option<u32> {
    match *bytes {
        [0xed, b1 @ 0xa0..=0xbf, b0 @ 0x80..=0xbf, ..] => {
            Some(0xd000 | (u32::from(b1 & 0x3f) << 6) | u32::from(b0 & 0x3f))
        }
        _ => None,
    }
}
