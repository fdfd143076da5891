//! Values without values inside: numbers, dates, binaries.

use java_json::builtin::Builtin;
use java_json::json;
use java_json::time::{self, Date, Time};
use java_json::write;

use super::{Hint, JsonbToJson};
use crate::decode::WholeNumber;
use crate::error::{JsonbError, Rule};
use crate::tag;

impl JsonbToJson<'_, '_, '_> {
    pub(super) fn leaf(&mut self, found: u8, hint: Hint) -> Result<(), JsonbError> {
        match found {
            tag::NULL => self.literal(b"null")?,
            tag::FALSE => self.literal(b"false")?,
            tag::TRUE => self.literal(b"true")?,
            tag::DOUBLE_0 => self.literal(b"0.0")?,
            tag::DOUBLE_1 => self.literal(b"1.0")?,
            tag::DOUBLE | tag::DOUBLE_LONG | tag::FLOAT | tag::FLOAT_INT => self.double(found)?,
            tag::DECIMAL | tag::DECIMAL_LONG | tag::BIGINT | tag::BIGINT_LONG => {
                self.big_number(found)?;
            }
            tag::CHAR => self.char()?,
            tag::MILLIS | tag::SECONDS | tag::MINUTES => self.date(found)?,
            tag::LOCAL_DATE
            | tag::LOCAL_TIME
            | tag::LOCAL_DATE_TIME
            | tag::ZONED_DATE_TIME
            | tag::INSTANT => self.temporal(found, hint)?,
            _ => {
                let is_long = (tag::LONG_64..=tag::LONG_NUM_LAST).contains(&found);
                let value = self.dec.long()?;
                self.style.write_whole(self.out, value, is_long);
            }
        }
        Ok(())
    }

    fn literal(&mut self, text: &[u8]) -> Result<(), JsonbError> {
        self.dec.take()?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn double(&mut self, found: u8) -> Result<(), JsonbError> {
        self.dec.take()?;
        match found {
            tag::FLOAT => {
                let value = f32::from_be_bytes(self.dec.array_of()?);
                json::write_f32(self.out, value);
            }
            #[expect(clippy::cast_precision_loss, reason = "Java makes the float in the same way")]
            tag::FLOAT_INT => json::write_f32(self.out, self.dec.int()? as f32),
            #[expect(clippy::cast_precision_loss, reason = "Java makes the double in the same way")]
            tag::DOUBLE_LONG => json::write_f64(self.out, self.dec.long()? as f64),
            _ => {
                let value = f64::from_be_bytes(self.dec.array_of()?);
                self.style.write_double(self.out, value);
            }
        }
        Ok(())
    }

    fn big_number(&mut self, found: u8) -> Result<(), JsonbError> {
        let is_integer = matches!(found, tag::BIGINT | tag::BIGINT_LONG);
        let builtin = if is_integer { Builtin::BigInteger } else { Builtin::BigDecimal };
        let is_named = self.names_numbers && self.declared_number != Some(builtin);
        if is_named {
            let class = if is_integer { "java.math.BigInteger" } else { "java.math.BigDecimal" };
            write::begin_value(self.out, class);
        }
        let (scale, whole) = match found {
            tag::BIGINT | tag::BIGINT_LONG => (0, self.dec.unscaled()?),
            tag::DECIMAL_LONG => {
                self.dec.take()?;
                (0, WholeNumber::Long(self.dec.long()?))
            }
            _ => {
                self.dec.take()?;
                (self.dec.int()?, self.dec.unscaled()?)
            }
        };
        let is_text = self.style.big_numbers_as_text;
        write::quoted_if(is_text, self.out, |out| write_decimal(out, &whole, scale));
        if is_named {
            write::end_value(self.out);
        }
        Ok(())
    }

    fn char(&mut self) -> Result<(), JsonbError> {
        self.dec.take()?;
        let unit = self.dec.int()?;
        let c = u32::try_from(unit).ok().and_then(char::from_u32);
        let mut place = [0; 4];
        let text = c.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut place);
        json::write_string(self.out, text);
        Ok(())
    }

    fn date(&mut self, found: u8) -> Result<(), JsonbError> {
        self.dec.take()?;
        let ms = match found {
            tag::MILLIS => i64::from_be_bytes(self.dec.array_of()?),
            tag::SECONDS => i64::from(i32::from_be_bytes(self.dec.array_of()?)) * 1000,
            _ => i64::from(i32::from_be_bytes(self.dec.array_of()?)) * 60_000,
        };
        self.style.write_date(self.out, ms);
        Ok(())
    }

    fn temporal(&mut self, found: u8, hint: Hint) -> Result<(), JsonbError> {
        let start = self.dec.position();
        self.dec.take()?;
        let wrong = JsonbError::Broken { offset: start, rule: Rule::Time };
        let mut text = Vec::new();
        if found == tag::INSTANT {
            let (seconds, nano) = (self.dec.long()?, self.dec.int()?);
            // The years that an Instant has.
            let is_valid = seconds.unsigned_abs() < 31_556_889_864_403_200;
            let nano = u32::try_from(nano).ok().filter(|&nano| is_valid && nano < 1_000_000_000);
            let (date, second_of_day) = time::split_seconds(if is_valid { seconds } else { 0 });
            date.write(&mut text);
            text.push(b'T');
            Time::from_seconds(second_of_day, nano.ok_or(wrong)?).write(&mut text);
            text.push(b'Z');
        } else {
            if found != tag::LOCAL_TIME {
                let date = self.day()?.ok_or_else(|| wrong.clone())?;
                if hint != Hint::OffsetTime {
                    date.write(&mut text);
                }
            }
            if matches!(found, tag::LOCAL_DATE_TIME | tag::ZONED_DATE_TIME)
                && hint != Hint::OffsetTime
            {
                text.push(b'T');
            }
            if found != tag::LOCAL_DATE {
                self.time_of_day()?.ok_or(wrong)?.write_short(&mut text);
            }
            if found == tag::ZONED_DATE_TIME {
                self.zone(&mut text)?;
            }
        }
        json::write_string(self.out, &String::from_utf8_lossy(&text));
        Ok(())
    }

    fn day(&mut self) -> Result<Option<Date>, JsonbError> {
        let [high, low, month, day] = self.dec.array_of()?;
        let year = i64::from(i16::from_be_bytes([high, low]));
        let is_valid = (1..=12).contains(&month) && (1..=31).contains(&day);
        Ok(is_valid.then_some(Date { year, month: month.into(), day: day.into() }))
    }

    fn time_of_day(&mut self) -> Result<Option<Time>, JsonbError> {
        let [hour, minute, second] = self.dec.array_of()?;
        let nano = u32::try_from(self.dec.int()?).unwrap_or(u32::MAX);
        let is_valid = hour < 24 && minute < 60 && second < 60 && nano < 1_000_000_000;
        let (hour, minute, second) = (hour.into(), minute.into(), second.into());
        Ok(is_valid.then_some(Time { hour, minute, second, nano }))
    }

    /// An offset, or the name of a zone in brackets; what offset that has, only its rules know.
    fn zone(&mut self, text: &mut Vec<u8>) -> Result<(), JsonbError> {
        let zone = self.dec.read_text()?.to_str();
        match time::parse_offset(zone.as_bytes()) {
            Some(seconds) => time::write_offset(text, seconds),
            None => {
                text.push(b'[');
                text.extend_from_slice(zone.as_bytes());
                text.push(b']');
            }
        }
        Ok(())
    }

    /// Base64, or a UUID: fastjson2 writes its 16 bytes without saying what they are.
    pub(super) fn binary(&mut self, hint: Hint) -> Result<(), JsonbError> {
        const UUID_LEN: usize = 16;
        let bytes = self.dec.binary()?;
        if hint == Hint::Bytes || bytes.len() != UUID_LEN {
            write::write_base64(self.out, bytes);
            return Ok(());
        }
        const HEX: &[u8; 16] = b"0123456789abcdef";
        self.out.push(b'"');
        for (index, byte) in bytes.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                self.out.push(b'-');
            }
            self.out.extend([byte >> 4, byte & 0x0f].map(|digit| HEX[usize::from(digit)]));
        }
        self.out.push(b'"');
        Ok(())
    }
}

/// A `BigDecimal` as its `toString` gives it.
fn write_decimal(out: &mut Vec<u8>, whole: &WholeNumber<'_>, scale: i32) {
    let start = out.len();
    whole.write(out);
    if scale == 0 {
        return;
    }
    let is_negative = out.get(start) == Some(&b'-');
    let digits_at = start + usize::from(is_negative);
    let n_digits = i64::try_from(out.len() - digits_at).unwrap_or(i64::MAX);
    let scale = i64::from(scale);
    // The power of ten of the first digit.
    let exponent = n_digits - 1 - scale;
    if 0 < scale && -6 <= exponent {
        let scale = usize::try_from(scale).unwrap_or_default();
        let n_zeros = (scale + 1).saturating_sub(out.len() - digits_at);
        out.splice(digits_at..digits_at, std::iter::repeat_n(b'0', n_zeros));
        out.insert(out.len() - scale, b'.');
        return;
    }
    if 1 < n_digits {
        out.insert(digits_at + 1, b'.');
    }
    if exponent != 0 {
        out.push(b'E');
        if 0 < exponent {
            out.push(b'+');
        }
        json::write_i64(out, exponent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_look_like_those_of_java() {
        for (digits, scale, expected) in [
            (1, -3, "1E+3"),
            (150, 2, "1.50"),
            (-5, 1, "-0.5"),
            (5, 7, "5E-7"),
            (5, 6, "0.000005"),
            (1234, -2, "1.234E+5"),
            (0, 3, "0.000"),
            (-12345, 2, "-123.45"),
            (12, i32::MAX, "1.2E-2147483646"),
            (1, i32::MIN, "1E+2147483648"),
        ] {
            let mut out = b"x".to_vec();
            write_decimal(&mut out, &WholeNumber::Long(digits), scale);
            assert_eq!(out.get(1..), Some(expected.as_bytes()), "{digits} {scale}");
        }
    }
}
