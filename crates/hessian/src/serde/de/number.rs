//! Numbers: widened and narrowed, but never changed.

use super::ValueReader;
use crate::serde::error::Failure;
use crate::{HessianError, ValueKind, tag};

impl ValueReader<'_, '_> {
    /// An integer that is in the range of the type; `expected` names it. A date is one, too.
    #[inline]
    pub(super) fn integer<N: TryFrom<i64>>(
        &mut self,
        expected: &'static str,
    ) -> Result<N, Failure> {
        let start = self.dec.position();
        let (offset, value) = match self.dec.plain_long() {
            Some(value) => (start, value),
            None => self.other_integer()?,
        };
        N::try_from(value).map_err(|_| HessianError::Range { offset, expected }.into())
    }

    /// Where it stands, and what it is.
    #[cold]
    fn other_integer(&mut self) -> Result<(usize, i64), Failure> {
        // This is also where class definitions are taken in, so that the place is right.
        let tag = self.dec.head()?;
        let offset = self.dec.position();
        let value = match tag {
            tag::DATE | tag::DATE_MINUTE => self.dec.read_date_ms()?,
            _ => self.dec.read_long()?,
        };
        Ok((offset, value))
    }

    /// A double; an integer only if a double can hold it.
    #[inline]
    pub(super) fn double(&mut self) -> Result<f64, Failure> {
        match self.dec.plain_double() {
            Some(value) => Ok(value),
            None => self.other_double(),
        }
    }

    #[cold]
    fn other_double(&mut self) -> Result<f64, Failure> {
        if self.kind()? != ValueKind::Long {
            return Ok(self.dec.read_double()?);
        }
        let offset = self.dec.position();
        let long = self.dec.read_long()?;
        #[expect(clippy::cast_precision_loss, reason = "compared afterwards")]
        let double = long as f64;
        #[expect(clippy::cast_possible_truncation, reason = "a double over i128 cannot come here")]
        let is_same = double as i128 == i128::from(long);
        if is_same {
            Ok(double)
        } else {
            Err(HessianError::Range { offset, expected: "an f64" }.into())
        }
    }

    /// A float. Java writes one as the double of the same value, or (if it is boxed) as the double
    /// with the same shortest text; both are the float, and nothing else is.
    pub(super) fn float(&mut self) -> Result<f32, Failure> {
        self.kind()?;
        let offset = self.dec.position();
        let double = self.double()?;
        #[expect(clippy::cast_possible_truncation, reason = "compared afterwards")]
        let float = double as f32;
        if f64::from(float).to_bits() == double.to_bits() || double.is_nan() {
            return Ok(float);
        }
        let text = zmij::Buffer::new().format(float).parse();
        if text == Ok(double) {
            Ok(float)
        } else {
            Err(HessianError::Range { offset, expected: "an f32" }.into())
        }
    }
}
