//! Integers and doubles, in all their forms.

use super::Decoder;
use crate::{HessianError, tag};

impl Decoder<'_> {
    /// An integer that fits 32 bits, from any form of int or long.
    #[inline]
    pub fn read_int(&mut self) -> Result<i32, HessianError> {
        // Class definitions first, so that the place is right.
        self.head()?;
        let offset = self.pos;
        let value = self.read_long()?;
        i32::try_from(value).map_err(|_| HessianError::Range { offset, expected: "an int" })
    }

    /// An integer from any form of int or long.
    #[inline]
    pub fn read_long(&mut self) -> Result<i64, HessianError> {
        let tag = self.head()?;
        let start = self.pos;
        self.pos += 1;
        match tag {
            0x80..=0xbf => Ok(i64::from(tag) - i64::from(tag::INT_ZERO)),
            0xc0..=0xcf => {
                let [b0] = self.take_array()?;
                Ok(((i64::from(tag) - i64::from(tag::INT_BYTE_ZERO)) << 8) + i64::from(b0))
            }
            0xd0..=0xd7 => {
                let low = u16::from_be_bytes(self.take_array()?);
                Ok(((i64::from(tag) - i64::from(tag::INT_SHORT_ZERO)) << 16) + i64::from(low))
            }
            0xd8..=0xef => Ok(i64::from(tag) - i64::from(tag::LONG_ZERO)),
            0xf0..=0xff => {
                let [b0] = self.take_array()?;
                Ok(((i64::from(tag) - i64::from(tag::LONG_BYTE_ZERO)) << 8) + i64::from(b0))
            }
            0x38..=0x3f => {
                let low = u16::from_be_bytes(self.take_array()?);
                Ok(((i64::from(tag) - i64::from(tag::LONG_SHORT_ZERO)) << 16) + i64::from(low))
            }
            tag::LONG_INT | tag::INT => Ok(i32::from_be_bytes(self.take_array()?).into()),
            tag::LONG => Ok(i64::from_be_bytes(self.take_array()?)),
            _ => {
                self.pos = start;
                Err(self.wrong_tag(tag, "an integer"))
            }
        }
    }

    /// A double from any form of double, int or long. A long over 2^53 is rounded, as in Java.
    #[inline]
    pub fn read_double(&mut self) -> Result<f64, HessianError> {
        let tag = self.head()?;
        let start = self.pos;
        self.pos += 1;
        match tag {
            tag::DOUBLE_ZERO => Ok(0.0),
            tag::DOUBLE_ONE => Ok(1.0),
            tag::DOUBLE_BYTE => Ok(f64::from(i8::from_be_bytes(self.take_array()?))),
            tag::DOUBLE_SHORT => Ok(f64::from(i16::from_be_bytes(self.take_array()?))),
            // Thousandths, where the Hessian 2.0 draft has a 32-bit float: the dialect of Java.
            tag::DOUBLE_MILL => Ok(0.001 * f64::from(i32::from_be_bytes(self.take_array()?))),
            tag::DOUBLE => Ok(f64::from_bits(u64::from_be_bytes(self.take_array()?))),
            _ => {
                self.pos = start;
                #[expect(clippy::cast_precision_loss, reason = "documented")]
                self.read_long().map(|value| value as f64)
            }
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
