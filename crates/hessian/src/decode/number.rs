//! Integers and doubles, in all their forms.

use super::cursor::SHORT_LENS;
use super::{Decoder, KINDS, ValueKind};
use crate::{HessianError, tag};

impl Decoder<'_> {
    /// An integer that fits 32 bits, from any form of int or long.
    ///
    /// # Errors
    /// [`HessianError`] if no integer comes next, or not all of it, or one over 32 bits.
    #[inline]
    pub fn read_int(&mut self) -> Result<i32, HessianError> {
        // Class definitions first, so that the place is right.
        self.head()?;
        let offset = self.pos;
        let value = self.read_long()?;
        i32::try_from(value).map_err(|_| HessianError::Range { offset, expected: "an int" })
    }

    /// An integer from any form of int or long.
    ///
    /// # Errors
    /// [`HessianError`] if no integer comes next, or not all of it.
    #[inline]
    pub fn read_long(&mut self) -> Result<i64, HessianError> {
        match self.plain_long() {
            Some(value) => Ok(value),
            None => self.other_long(),
        }
    }

    /// An integer that stands right here and whole, which is nearly every one. A `None` says too
    /// little for an error, and fits two registers; nothing is taken then.
    pub(crate) fn plain_long(&mut self) -> Option<i64> {
        let (&tag, rest) = self.buf.get(self.pos..)?.split_first()?;
        let small = |zero| i64::from(tag) - i64::from(zero);
        let (value, len) = match tag {
            0x80..=0xbf => (small(tag::INT_ZERO), 1),
            0xc0..=0xcf => ((small(tag::INT_BYTE_ZERO) << 8) + i64::from(*rest.first()?), 2),
            0xd0..=0xd7 => {
                let low = u16::from_be_bytes(*rest.first_chunk()?);
                ((small(tag::INT_SHORT_ZERO) << 16) + i64::from(low), 3)
            }
            0xd8..=0xef => (small(tag::LONG_ZERO), 1),
            0xf0..=0xff => ((small(tag::LONG_BYTE_ZERO) << 8) + i64::from(*rest.first()?), 2),
            0x38..=0x3f => {
                let low = u16::from_be_bytes(*rest.first_chunk()?);
                ((small(tag::LONG_SHORT_ZERO) << 16) + i64::from(low), 3)
            }
            tag::LONG_INT | tag::INT => (i32::from_be_bytes(*rest.first_chunk()?).into(), 5),
            tag::LONG => (i64::from_be_bytes(*rest.first_chunk()?), 9),
            _ => return None,
        };
        self.pos += len;
        Some(value)
    }

    /// An integer behind class definitions, or what is wrong with it.
    #[cold]
    fn other_long(&mut self) -> Result<i64, HessianError> {
        let tag = self.head()?;
        match self.plain_long() {
            Some(value) => Ok(value),
            None => Err(self.integer_error(tag)),
        }
    }

    /// Why there is no integer here, where `tag` stands: it is another value, or cut off.
    fn integer_error(&self, tag: u8) -> HessianError {
        match KINDS[usize::from(tag)] {
            Some(ValueKind::Int | ValueKind::Long) => self.cut_error(tag),
            _ => self.wrong_tag(tag, "an integer"),
        }
    }

    /// Why there is no value of a fixed length here, where its `tag` stands: bytes are missing.
    fn cut_error(&self, tag: u8) -> HessianError {
        let end = self.pos + usize::from(SHORT_LENS[usize::from(tag)]);
        HessianError::Truncated { offset: self.pos + 1, needed: end.saturating_sub(self.buf.len()) }
    }

    /// A double from any form of double, int or long. A long over 2^53 is rounded, as in Java.
    ///
    /// # Errors
    /// [`HessianError`] if no number comes next, or not all of it.
    #[inline]
    pub fn read_double(&mut self) -> Result<f64, HessianError> {
        match self.plain_double() {
            Some(value) => Ok(value),
            None => self.other_double(),
        }
    }

    /// As [`Decoder::plain_long`] for a double.
    pub(crate) fn plain_double(&mut self) -> Option<f64> {
        let (&tag, rest) = self.buf.get(self.pos..)?.split_first()?;
        let (value, len) = match tag {
            tag::DOUBLE => (f64::from_be_bytes(*rest.first_chunk()?), 9),
            // Thousandths, where the Hessian 2.0 draft has a 32-bit float: the dialect of Java.
            tag::DOUBLE_MILL => (0.001 * f64::from(i32::from_be_bytes(*rest.first_chunk()?)), 5),
            tag::DOUBLE_ZERO => (0.0, 1),
            tag::DOUBLE_ONE => (1.0, 1),
            tag::DOUBLE_BYTE => (f64::from(i8::from_be_bytes(*rest.first_chunk()?)), 2),
            tag::DOUBLE_SHORT => (f64::from(i16::from_be_bytes(*rest.first_chunk()?)), 3),
            _ => return None,
        };
        self.pos += len;
        Some(value)
    }

    /// A double behind class definitions, an integer, or what is wrong with it.
    #[cold]
    fn other_double(&mut self) -> Result<f64, HessianError> {
        let tag = self.head()?;
        if let Some(value) = self.plain_double() {
            return Ok(value);
        }
        match self.plain_long() {
            #[expect(clippy::cast_precision_loss, reason = "documented")]
            Some(value) => Ok(value as f64),
            None if KINDS[usize::from(tag)] == Some(ValueKind::Double) => Err(self.cut_error(tag)),
            None => Err(self.integer_error(tag)),
        }
    }

    /// An int, and nothing before it.
    #[inline]
    pub(super) fn take_int(&mut self) -> Result<i32, HessianError> {
        let start = self.pos;
        let [tag] = self.take_array()?;
        match tag {
            0x80..=0xbf => Ok(i32::from(tag) - i32::from(tag::INT_ZERO)),
            0xc0..=0xcf => {
                let [b0] = self.take_array()?;
                Ok(((i32::from(tag) - i32::from(tag::INT_BYTE_ZERO)) << 8) + i32::from(b0))
            }
            0xd0..=0xd7 => {
                let low = u16::from_be_bytes(self.take_array()?);
                Ok(((i32::from(tag) - i32::from(tag::INT_SHORT_ZERO)) << 16) + i32::from(low))
            }
            tag::INT => Ok(i32::from_be_bytes(self.take_array()?)),
            _ => {
                self.pos = start;
                Err(self.wrong_tag(tag, "an int"))
            }
        }
    }
}
