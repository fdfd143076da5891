//! A message, from front to back.
//!
//! Invariants:
//! - Depth, lengths and counts are checked before anything is kept for them.
//! - Names and types that have numbers are kept in the order of their numbers, so that a message
//!   can make us keep no more of them than it holds.
//! - After an error the decoder is of no use any more.

mod number;
mod text;

use java_json::Limits;

use crate::error::{JsonbError, Rule};
use crate::tag;

pub(crate) use number::{WholeNumber, negate};
pub use text::EncodedText;

/// Numbers may be given out this far ahead of their order. Java never does.
const SYMBOL_SLACK: usize = 16;

/// Reads one message.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    buf: &'a [u8],
    pos: usize,
    limits: Limits,
    depth: u32,
    n_items: usize,
    symbols: Vec<Option<EncodedText<'a>>>,
}

impl<'a> Decoder<'a> {
    /// A decoder at the first byte of `buf`.
    #[must_use]
    pub const fn new(buf: &'a [u8], limits: Limits) -> Self {
        Self { buf, pos: 0, limits, depth: 0, n_items: 0, symbols: Vec::new() }
    }

    /// How many bytes have been read.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.pos
    }

    /// Whether all has been read.
    #[must_use]
    pub const fn is_at_end(&self) -> bool {
        self.buf.len() <= self.pos
    }

    /// Makes sure that nothing follows.
    ///
    /// # Errors
    /// [`Rule::Trailing`] if something does.
    pub const fn finish(&self) -> Result<(), JsonbError> {
        if self.is_at_end() { Ok(()) } else { Err(self.broken(Rule::Trailing)) }
    }

    /// Reads a text or null, with or without the name of a type before it.
    ///
    /// # Errors
    /// [`JsonbError::Broken`] if something else comes.
    pub fn read_opt_text(&mut self) -> Result<Option<EncodedText<'a>>, JsonbError> {
        if self.peek()? == tag::TYPED {
            self.pos += 1;
            self.read_type()?;
        }
        match self.peek()? {
            tag::NULL => {
                self.pos += 1;
                Ok(None)
            }
            _ => self.read_text().map(Some),
        }
    }

    /// Reads a whole number that fits an int, of any of Java's types.
    ///
    /// # Errors
    /// [`JsonbError::Broken`] if something else comes.
    pub fn read_whole(&mut self) -> Result<i64, JsonbError> {
        self.long()
    }

    /// Reads a map, and gives those of its entries to `entry` whose name and value are texts.
    /// Null is an empty map. Names that have numbers may make the texts together longer than the
    /// message.
    ///
    /// # Errors
    /// [`JsonbError::Broken`] if something else comes.
    pub fn read_text_map(
        &mut self,
        mut entry: impl FnMut(EncodedText<'a>, EncodedText<'a>),
    ) -> Result<(), JsonbError> {
        if self.peek()? == tag::TYPED {
            self.pos += 1;
            self.read_type()?;
        }
        match self.take()? {
            tag::NULL => return Ok(()),
            tag::OBJECT => {}
            _ => return Err(self.broken_before(Rule::Expected { expected: "a map" })),
        }
        self.enter()?;
        while !self.object_ends()? {
            let name = match self.peek()? {
                found if tag::is_text(found) || found == tag::SYMBOL => Some(self.read_text()?),
                _ => {
                    self.skip_value()?;
                    None
                }
            };
            match (name, self.peek()?) {
                (Some(name), found) if tag::is_text(found) => entry(name, self.read_text()?),
                _ => self.skip_value()?,
            }
        }
        self.leave();
        Ok(())
    }

    /// Passes over one value. Texts are not checked, but for names.
    ///
    /// # Errors
    /// [`JsonbError::Broken`] if there is none, or it passes a limit.
    pub fn skip_value(&mut self) -> Result<(), JsonbError> {
        let found = self.peek()?;
        match found {
            tag::NULL | tag::FALSE | tag::TRUE | tag::DOUBLE_0 | tag::DOUBLE_1 => self.pos += 1,
            tag::SYMBOL => self.read_text().map(|_| ())?,
            tag::BINARY => self.binary().map(|_| ())?,
            tag::CHAR | tag::FLOAT_INT => {
                self.pos += 1;
                self.int()?;
            }
            tag::DOUBLE_LONG | tag::DECIMAL_LONG | tag::BIGINT_LONG => {
                self.pos += 1;
                self.long()?;
            }
            tag::DOUBLE | tag::MILLIS => self.skip_bytes(9)?,
            tag::FLOAT | tag::SECONDS | tag::MINUTES | tag::LOCAL_DATE => self.skip_bytes(5)?,
            tag::DECIMAL => {
                self.pos += 1;
                self.int()?;
                self.skip_unscaled()?;
            }
            tag::BIGINT => self.skip_unscaled()?,
            tag::LOCAL_TIME => {
                self.skip_bytes(4)?;
                self.int()?;
            }
            tag::LOCAL_DATE_TIME | tag::ZONED_DATE_TIME => {
                self.skip_bytes(8)?;
                self.int()?;
                if found == tag::ZONED_DATE_TIME {
                    self.skip_text()?;
                }
            }
            tag::INSTANT => {
                self.pos += 1;
                self.long()?;
                self.int()?;
            }
            tag::REFERENCE => {
                self.pos += 1;
                self.skip_text()?;
            }
            tag::TYPED => {
                self.pos += 1;
                self.read_type()?;
                self.enter()?;
                self.skip_value()?;
                self.leave();
            }
            tag::OBJECT | tag::ARRAY_0..=tag::ARRAY => self.skip_container()?,
            _ if tag::is_text(found) => self.skip_text()?,
            _ => self.long().map(|_| ())?,
        }
        Ok(())
    }

    fn skip_container(&mut self) -> Result<(), JsonbError> {
        self.enter()?;
        if self.peek()? == tag::OBJECT {
            self.pos += 1;
            while !self.object_ends()? {
                self.skip_value()?;
                self.skip_value()?;
            }
        } else {
            for _ in 0..self.array()? {
                self.skip_value()?;
            }
        }
        self.leave();
        Ok(())
    }

    /// Whether the object that is being read ends here; if not, an entry is counted.
    pub(crate) fn object_ends(&mut self) -> Result<bool, JsonbError> {
        if self.peek()? == tag::OBJECT_END {
            self.pos += 1;
            return Ok(true);
        }
        self.count(1)?;
        Ok(false)
    }

    /// The number of elements of the array that begins here. They are counted.
    pub(crate) fn array(&mut self) -> Result<usize, JsonbError> {
        let len = match self.take()? {
            tag::ARRAY => self.length()?,
            first => match first.checked_sub(tag::ARRAY_0) {
                Some(len @ 0..=15) => usize::from(len),
                _ => return Err(self.broken_before(Rule::Expected { expected: "an array" })),
            },
        };
        // Every element takes a byte.
        if self.rest().len() < len {
            return Err(self.broken(Rule::End));
        }
        self.count(len)?;
        Ok(len)
    }

    /// The bytes of the binary that begins here.
    pub(crate) fn binary(&mut self) -> Result<&'a [u8], JsonbError> {
        match self.take()? {
            tag::BINARY => {
                let len = self.length()?;
                self.bytes(len)
            }
            _ => Err(self.broken_before(Rule::Expected { expected: "a binary" })),
        }
    }

    pub(crate) const fn enter(&mut self) -> Result<(), JsonbError> {
        if self.limits.max_depth <= self.depth {
            return Err(self.broken(Rule::Depth { max: self.limits.max_depth }));
        }
        self.depth += 1;
        Ok(())
    }

    pub(crate) const fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Goes on at `pos`, where a value begins that was passed before; returns the place before.
    pub(crate) const fn jump(&mut self, pos: usize) -> usize {
        std::mem::replace(&mut self.pos, pos)
    }

    fn count(&mut self, n: usize) -> Result<(), JsonbError> {
        self.n_items = self.n_items.saturating_add(n);
        if self.limits.max_items < self.n_items {
            return Err(self.broken(Rule::Items { max: self.limits.max_items }));
        }
        Ok(())
    }

    /// A length as it stands before texts, binaries and arrays.
    fn length(&mut self) -> Result<usize, JsonbError> {
        let len = self.int()?;
        let rule = Rule::Length { len: len.into() };
        let len = usize::try_from(len).map_err(|_| self.broken(rule))?;
        if self.rest().len() < len {
            return Err(self.broken(rule));
        }
        if self.limits.max_len < len {
            return Err(self.broken(Rule::TooLong { len, max: self.limits.max_len }));
        }
        Ok(len)
    }

    /// The tag of the value that comes next.
    #[inline]
    pub(crate) fn peek(&self) -> Result<u8, JsonbError> {
        self.buf.get(self.pos).copied().ok_or_else(|| self.broken(Rule::End))
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Result<u8, JsonbError> {
        let found = self.peek()?;
        self.pos += 1;
        Ok(found)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], JsonbError> {
        let Some(bytes) = self.rest().get(..len) else {
            return Err(self.broken(Rule::End));
        };
        self.pos += len;
        Ok(bytes)
    }

    pub(crate) fn array_of<const N: usize>(&mut self) -> Result<[u8; N], JsonbError> {
        let Some(bytes) = self.rest().first_chunk::<N>() else {
            return Err(self.broken(Rule::End));
        };
        self.pos += N;
        Ok(*bytes)
    }

    fn skip_bytes(&mut self, len: usize) -> Result<(), JsonbError> {
        self.bytes(len).map(|_| ())
    }

    /// The bytes that have not been read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.buf.get(self.pos..).unwrap_or_default()
    }

    /// A decoder at the first byte, that knows no names yet.
    pub(crate) const fn restarted(&self) -> Self {
        Self::new(self.buf, self.limits)
    }

    #[cold]
    pub(crate) const fn broken(&self, rule: Rule) -> JsonbError {
        JsonbError::Broken { offset: self.pos, rule }
    }

    /// The fault lies in the byte that was taken last.
    #[cold]
    pub(crate) const fn broken_before(&self, rule: Rule) -> JsonbError {
        JsonbError::Broken { offset: self.pos.saturating_sub(1), rule }
    }
}

#[cfg(test)]
mod tests;
