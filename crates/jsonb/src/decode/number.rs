//! Whole numbers in their many forms, and the digits of large ones.

use java_json::bigint;

use super::Decoder;
use crate::error::{JsonbError, Rule};
use crate::tag;

/// A `BigInteger`, or a `BigDecimal` without its point.
pub(crate) enum WholeNumber<'a> {
    Long(i64),
    /// Two's complement, the highest byte first.
    Bytes(&'a [u8]),
}

impl<'a> Decoder<'a> {
    /// An int in any of its forms.
    pub(crate) fn int(&mut self) -> Result<i32, JsonbError> {
        let found = self.peek()?;
        if !tag::is_int(found) {
            return Err(self.broken(Rule::Expected { expected: "an int" }));
        }
        let value = self.long()?;
        i32::try_from(value).map_err(|_| self.broken(Rule::Expected { expected: "an int" }))
    }

    /// A whole number of any type that fits a long.
    pub(crate) fn long(&mut self) -> Result<i64, JsonbError> {
        let found = self.take()?;
        let from = |zero: u8| (i64::from(found) - i64::from(zero)) << 8;
        Ok(match found {
            0..=0x2f | 0xf0..=0xff => i64::from(found.cast_signed()),
            tag::INT_12_FIRST..=tag::INT_12_LAST => from(tag::INT_12_ZERO) + self.low_8()?,
            tag::INT_19_FIRST..=tag::INT_19_LAST => {
                (from(tag::INT_19_ZERO) << 8) + self.low_16()?
            }
            tag::INT_32 | tag::LONG_32 => i64::from(i32::from_be_bytes(self.array_of()?)),
            tag::LONG_NUM_FIRST..=tag::LONG_NUM_LAST => {
                tag::LONG_NUM_MIN + i64::from(found - tag::LONG_NUM_FIRST)
            }
            tag::LONG_12_FIRST..=tag::LONG_12_LAST => from(tag::LONG_12_ZERO) + self.low_8()?,
            tag::LONG_19_FIRST..=tag::LONG_19_LAST => {
                (from(tag::LONG_19_ZERO) << 8) + self.low_16()?
            }
            tag::LONG_64 => i64::from_be_bytes(self.array_of()?),
            tag::INT_16 => i64::from(i16::from_be_bytes(self.array_of()?)),
            tag::INT_8 => i64::from(i8::from_be_bytes(self.array_of()?)),
            found => return Err(self.broken_before(Rule::Tag { found })),
        })
    }

    fn low_8(&mut self) -> Result<i64, JsonbError> {
        self.take().map(i64::from)
    }

    fn low_16(&mut self) -> Result<i64, JsonbError> {
        Ok(i64::from(u16::from_be_bytes(self.array_of()?)))
    }

    /// The digits of a decimal: any form of a whole number, short or long.
    pub(crate) fn unscaled(&mut self) -> Result<WholeNumber<'a>, JsonbError> {
        match self.peek()? {
            tag::BIGINT => {
                self.pos += 1;
                let start = self.pos;
                let len = self.length()?;
                let max = bigint::MAX_WORDS * 4;
                if max < len {
                    let rule = Rule::BigNumber { max: max * 8 };
                    return Err(JsonbError::Broken { offset: start, rule });
                }
                self.bytes(len).map(WholeNumber::Bytes)
            }
            tag::BIGINT_LONG => {
                self.pos += 1;
                self.long().map(WholeNumber::Long)
            }
            _ => self.long().map(WholeNumber::Long),
        }
    }

    pub(crate) fn skip_unscaled(&mut self) -> Result<(), JsonbError> {
        if self.peek()? == tag::BIGINT {
            self.pos += 1;
            let len = self.length()?;
            return self.bytes(len).map(|_| ());
        }
        self.unscaled().map(|_| ())
    }
}

impl WholeNumber<'_> {
    /// Appends the decimal text, with its sign.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Long(value) => java_json::json::write_i64(out, *value),
            Self::Bytes(bytes) => {
                let is_negative = bytes.first().is_some_and(|&byte| 0x80 <= byte);
                let mut words = words(bytes, is_negative);
                if is_negative {
                    negate(&mut words);
                }
                bigint::write_decimal(out, is_negative, &words);
            }
        }
    }
}

/// Words of 32 bits, the highest first, filled up with the sign.
fn words(bytes: &[u8], is_negative: bool) -> Vec<u32> {
    let fill = if is_negative { 0xff } else { 0 };
    let mut words: Vec<u32> = bytes
        .rchunks(4)
        .map(|chunk| {
            let mut word = [fill; 4];
            for (place, byte) in word.iter_mut().rev().zip(chunk.iter().rev()) {
                *place = *byte;
            }
            u32::from_be_bytes(word)
        })
        .collect();
    words.reverse();
    words
}

/// The two's complement.
pub(crate) fn negate(words: &mut [u32]) {
    let mut carry = true;
    for word in words.iter_mut().rev() {
        (*word, carry) = (!*word).overflowing_add(carry.into());
    }
}
