//! Values, appended to a buffer of the caller in the forms that Java writes.
//!
//! What is written is what was asked for: whether it makes a sound message is up to the caller.

use std::collections::BTreeMap;

use java_json::bigint;

use crate::decode::negate;
use crate::tag;

/// An array whose length is not known yet.
#[derive(Debug)]
#[must_use = "an array has to be closed"]
pub struct OpenArray {
    start: usize,
}

/// The room that the length of an open array takes: the tags of array and int, and four bytes.
const OPEN_LEN: usize = 6;
/// Contents up to this length are moved to save the room.
const MAX_MOVED: usize = 1024;

/// The first byte of U+0100 in UTF-8.
const FIRST_BEYOND_LATIN1: u8 = 0xc4;

/// Messages of more classes are rare.
const MAX_FIRST_TYPES: usize = 16;

/// Writes values.
#[derive(Debug)]
pub struct Encoder<'o> {
    out: &'o mut Vec<u8>,
    /// The types that have numbers, in their order: the first few, which are looked through for
    /// one,
    types: Vec<Box<str>>,
    /// and those after them. Who makes up classes would make looking through all of them take
    /// forever.
    more_types: BTreeMap<Box<str>, i32>,
}

impl<'o> Encoder<'o> {
    /// An encoder of one message, behind what is in `out`.
    pub const fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, types: Vec::new(), more_types: BTreeMap::new() }
    }

    /// `null`
    pub fn null(&mut self) {
        self.out.push(tag::NULL);
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) {
        self.out.push(if value { tag::TRUE } else { tag::FALSE });
    }

    /// A `byte`.
    pub fn byte(&mut self, value: i8) {
        self.out.extend_from_slice(&[tag::INT_8, value.cast_unsigned()]);
    }

    /// A `short`.
    pub fn short(&mut self, value: i16) {
        self.out.push(tag::INT_16);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// An `int`.
    pub fn int(&mut self, value: i32) {
        match value {
            tag::INT_NUM_MIN..=tag::INT_NUM_MAX => {
                let [.., low] = value.to_be_bytes();
                self.out.push(low);
            }
            _ => self.ranged(value.into(), [tag::INT_12_ZERO, tag::INT_19_ZERO, tag::INT_32]),
        }
    }

    /// A `long`.
    pub fn long(&mut self, value: i64) {
        match value {
            tag::LONG_NUM_MIN..=tag::LONG_NUM_MAX => {
                let [.., low] = (value - tag::LONG_NUM_MIN).to_be_bytes();
                self.out.push(tag::LONG_NUM_FIRST + low);
            }
            _ => self.ranged(value, [tag::LONG_12_ZERO, tag::LONG_19_ZERO, tag::LONG_32]),
        }
    }

    /// A number in 12, 19, 32 or 64 bits.
    fn ranged(&mut self, value: i64, [zero_12, zero_19, tag_32]: [u8; 3]) {
        let [.., third, second, first] = value.to_be_bytes();
        match value {
            tag::BITS_12_MIN..=tag::BITS_12_MAX => {
                self.out.extend_from_slice(&[zero_12.wrapping_add(second), first]);
            }
            tag::BITS_19_MIN..=tag::BITS_19_MAX => {
                self.out.extend_from_slice(&[zero_19.wrapping_add(third), second, first]);
            }
            _ => match i32::try_from(value) {
                Ok(value) => {
                    self.out.push(tag_32);
                    self.out.extend_from_slice(&value.to_be_bytes());
                }
                Err(_) => {
                    self.out.push(tag::LONG_64);
                    self.out.extend_from_slice(&value.to_be_bytes());
                }
            },
        }
    }

    /// A `float`.
    pub fn float(&mut self, value: f32) {
        self.out.push(tag::FLOAT);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// A `double`.
    pub fn double(&mut self, value: f64) {
        self.out.push(tag::DOUBLE);
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// A `char`: one unit of UTF-16.
    pub fn char(&mut self, unit: u16) {
        self.out.push(tag::CHAR);
        self.int(unit.into());
    }

    /// A string: a byte a character if Latin-1 has them all, and UTF-8 otherwise.
    ///
    /// Latin-1 is more than shorter: of `é` in UTF-8, fastjson2 2.0.56 makes a Java string that is
    /// not equal to the one in the JVM's own form.
    pub fn string(&mut self, text: &str) {
        if text.is_ascii() {
            self.latin1_len(text.len());
            self.out.extend_from_slice(text.as_bytes());
        } else if text.bytes().all(|byte| byte < FIRST_BEYOND_LATIN1) {
            self.latin1_len(text.chars().count());
            self.out.extend(text.chars().map(|c| u8::try_from(c).unwrap_or(b'?')));
        } else {
            self.out.push(tag::STR_UTF8);
            self.int(i32::try_from(text.len()).unwrap_or(i32::MAX));
            self.out.extend_from_slice(text.as_bytes());
        }
    }

    fn latin1_len(&mut self, len: usize) {
        match u8::try_from(len) {
            Ok(len @ 0..=47) => self.out.push(tag::STR_0 + len),
            _ => {
                self.out.push(tag::STR_LATIN1);
                self.int(i32::try_from(len).unwrap_or(i32::MAX));
            }
        }
    }

    /// A `byte[]`.
    pub fn binary(&mut self, bytes: &[u8]) {
        self.out.push(tag::BINARY);
        self.int(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.out.extend_from_slice(bytes);
    }

    /// A `java.util.Date`, in milliseconds since 1970.
    pub fn date_ms(&mut self, ms: i64) {
        match i32::try_from(ms.div_euclid(1000)) {
            Ok(seconds) if ms.rem_euclid(1000) == 0 => {
                self.out.push(tag::SECONDS);
                self.out.extend_from_slice(&seconds.to_be_bytes());
            }
            _ => {
                self.out.push(tag::MILLIS);
                self.out.extend_from_slice(&ms.to_be_bytes());
            }
        }
    }

    /// A `java.time.Instant`.
    pub fn instant(&mut self, seconds: i64, nano: i32) {
        self.out.push(tag::INSTANT);
        self.long(seconds);
        self.int(nano);
    }

    /// A `java.time.LocalDate`.
    pub fn local_date(&mut self, date: DateParts) {
        self.out.push(tag::LOCAL_DATE);
        self.date(date);
    }

    /// A `java.time.LocalTime`.
    pub fn local_time(&mut self, time: TimeParts) {
        self.out.push(tag::LOCAL_TIME);
        self.time(time);
    }

    /// A `java.time.LocalDateTime`.
    pub fn local_date_time(&mut self, date: DateParts, time: TimeParts) {
        self.out.push(tag::LOCAL_DATE_TIME);
        self.date(date);
        self.time(time);
    }

    /// A `java.time.ZonedDateTime`, `OffsetDateTime`, or, on the first day of 1970, `OffsetTime`.
    pub fn zoned_date_time(&mut self, date: DateParts, time: TimeParts, zone: &str) {
        self.out.push(tag::ZONED_DATE_TIME);
        self.date(date);
        self.time(time);
        self.string(zone);
    }

    fn date(&mut self, date: DateParts) {
        self.out.extend_from_slice(&date.year.to_be_bytes());
        self.out.extend_from_slice(&[date.month, date.day]);
    }

    fn time(&mut self, time: TimeParts) {
        self.out.extend_from_slice(&[time.hour, time.minute, time.second]);
        self.int(time.nano);
    }

    /// A `BigInteger` of these decimal digits. `None`, and nothing is written, if they are too
    /// many, or none.
    pub fn big_integer(&mut self, is_negative: bool, digits: &str) -> Option<()> {
        match signed(is_negative, digits) {
            Some(value) => {
                self.out.push(tag::BIGINT_LONG);
                self.long(value);
            }
            None => {
                let mut words = bigint::parse_decimal(digits.as_bytes())?;
                // The highest bit is the sign.
                words.insert(0, 0);
                if is_negative {
                    negate(&mut words);
                }
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
                let fill = if is_negative { 0xff } else { 0 };
                let is_sign = |pair: &&[u8]| matches!(pair, [byte, next] if *byte == fill && (*next ^ fill) < 0x80);
                let n_signs = bytes.windows(2).take_while(is_sign).count();
                let bytes = bytes.get(n_signs..).unwrap_or_default();
                self.out.push(tag::BIGINT);
                self.int(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
                self.out.extend_from_slice(bytes);
            }
        }
        Some(())
    }

    /// A `BigDecimal` of these decimal digits, the point `scale` places from the right. `None`,
    /// and nothing that could stay is written, if they are too many, or none.
    pub fn big_decimal(&mut self, is_negative: bool, digits: &str, scale: i32) -> Option<()> {
        match (signed(is_negative, digits), scale) {
            (Some(value), 0) => {
                self.out.push(tag::DECIMAL_LONG);
                self.long(value);
            }
            (value, _) => {
                self.out.push(tag::DECIMAL);
                self.int(scale);
                match value.map(|value| (i32::try_from(value), value)) {
                    Some((Ok(value), _)) => self.int(value),
                    Some((Err(_), value)) => self.long(value),
                    None => return self.big_integer(is_negative, digits),
                }
            }
        }
        Some(())
    }

    /// The name of the class of the value that comes next.
    pub fn class(&mut self, name: &str) {
        self.out.push(tag::TYPED);
        let to_number = |index: usize| i32::try_from(index).unwrap_or(i32::MAX);
        let first = self.types.iter().position(|known| **known == *name).map(to_number);
        if let Some(number) = first.or_else(|| self.more_types.get(name).copied()) {
            return self.int(number);
        }
        let number = to_number(self.types.len() + self.more_types.len());
        self.string(name);
        self.int(number);
        if self.types.len() < MAX_FIRST_TYPES {
            self.types.push(name.into());
        } else {
            self.more_types.insert(name.into(), number);
        }
    }

    /// A list or array of `len` elements, which come next.
    pub fn array_begin(&mut self, len: usize) {
        match u8::try_from(len) {
            Ok(len @ 0..=15) => self.out.push(tag::ARRAY_0 + len),
            _ => {
                self.out.push(tag::ARRAY);
                self.int(i32::try_from(len).unwrap_or(i32::MAX));
            }
        }
    }

    /// A list or array of elements that nobody has counted.
    pub fn array_open(&mut self) -> OpenArray {
        let start = self.out.len();
        self.out.extend_from_slice(&[tag::ARRAY, tag::INT_32, 0, 0, 0, 0]);
        OpenArray { start }
    }

    /// The end of an open array, which has `len` elements.
    #[expect(clippy::needless_pass_by_value, reason = "an array is closed once")]
    pub fn array_close(&mut self, array: OpenArray, len: usize) {
        let content = array.start + OPEN_LEN;
        match u8::try_from(len) {
            Ok(len @ 0..=15) if self.out.len() - content <= MAX_MOVED => {
                self.out.splice(array.start..content, [tag::ARRAY_0 + len]);
            }
            _ => {
                let len = i32::try_from(len).unwrap_or(i32::MAX).to_be_bytes();
                if let Some(place) = self.out.get_mut(content - len.len()..content) {
                    place.copy_from_slice(&len);
                }
            }
        }
    }

    /// Another value of the message, by its path from the outermost one: `$.orders[2]`.
    pub fn reference(&mut self, path: &str) {
        self.out.push(tag::REFERENCE);
        self.string(path);
    }

    /// The beginning of a map or object: names and values come next, in turn.
    pub fn object_begin(&mut self) {
        self.out.push(tag::OBJECT);
    }

    /// Its end.
    pub fn object_end(&mut self) {
        self.out.push(tag::OBJECT_END);
    }
}

/// A day of the calendar.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DateParts {
    /// The format has 16 bits for it.
    pub year: i16,
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
}

/// A time of day.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TimeParts {
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// Up to 999,999,999.
    pub nano: i32,
}

/// The number, if it fits a long.
fn signed(is_negative: bool, digits: &str) -> Option<i64> {
    let value = digits.parse::<i128>().ok()?;
    i64::try_from(if is_negative { -value } else { value }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{Decoder, WholeNumber};
    use java_json::Limits;

    #[test]
    fn numbers_are_read_again() {
        let mut edges = vec![0_i64, 9_007_199_254_740_993, i64::MIN, i64::MAX];
        for shift in 0..63 {
            let power = 1_i64 << shift;
            edges.extend([power - 1, power, power + 1, -power - 1, -power, 1 - power]);
        }
        for value in edges {
            let mut out = Vec::new();
            let mut encoder = Encoder::new(&mut out);
            encoder.long(value);
            if let Ok(value) = i32::try_from(value) {
                encoder.int(value);
            }
            let mut decoder = Decoder::new(&out, Limits::default());
            while !decoder.is_at_end() {
                assert_eq!(decoder.read_whole(), Ok(value));
            }
        }
    }

    #[test]
    fn big_integers_are_read_again() {
        for text in [
            "0",
            "-1",
            "9223372036854775807",
            "9223372036854775808",
            "-9223372036854775808",
            "-9223372036854775809",
            "340282366920938463463374607431768211455",
            "-340282366920938463463374607431768211456",
            "-170141183460469231731687303715884105728",
            "170141183460469231731687303715884105728",
        ] {
            let mut out = Vec::new();
            let digits = text.trim_start_matches('-');
            Encoder::new(&mut out).big_integer(text.starts_with('-'), digits).unwrap();
            let mut decoder = Decoder::new(&out, Limits::default());
            let mut again = Vec::new();
            let whole: WholeNumber<'_> = decoder.unscaled().unwrap();
            whole.write(&mut again);
            assert_eq!(String::from_utf8(again).unwrap(), text);
            assert!(decoder.is_at_end());
        }
        let mut out = Vec::new();
        assert_eq!(Encoder::new(&mut out).big_integer(false, &"9".repeat(3000)), None);
    }

    #[test]
    fn arrays_take_the_room_they_need() {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        for len in [0_usize, 3, 16] {
            let array = encoder.array_open();
            (0..len).for_each(|_| encoder.null());
            encoder.array_close(array, len);
        }
        assert_eq!(out.get(..6), Some(&[0x94, 0x97, 0xaf, 0xaf, 0xaf, tag::ARRAY][..]));
        let mut decoder = Decoder::new(&out, Limits::default());
        for _ in 0..3 {
            decoder.skip_value().unwrap();
        }
        assert!(decoder.is_at_end());
    }
}
