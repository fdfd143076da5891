//! Dates and times as ISO 8601 text, in the proleptic Gregorian calendar, as java.time has it.

mod amount;
mod calendar;
mod fields;
mod zone;

use std::ops::RangeInclusive;

pub use amount::{parse_duration, parse_period};
pub use calendar::{parse_date_time, parse_month_day, parse_whole_year, parse_year_month, whole};
pub use fields::TimeFields;
pub use zone::{Zone, parse_zone};

/// A calendar day.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Date {
    pub year: i64,
    pub month: u32,
    pub day: u32,
}

/// A time of day.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Time {
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    pub nano: u32,
}

impl Date {
    /// The day that lies `days` after 1970-01-01. (H. Hinnant's `civil_from_days`.)
    pub fn from_days(days: i64) -> Self {
        let z = days + 719_468;
        let era = z.div_euclid(146_097);
        let day_of_era = z.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let mp = (5 * day_of_year + 2) / 153;
        let month = if mp < 10 { mp + 3 } else { mp - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let small = |n: i64| u32::try_from(n).unwrap_or(1);
        Self { year, month: small(month), day: small(day_of_year - (153 * mp + 2) / 5 + 1) }
    }

    /// Days since 1970-01-01.
    pub fn to_days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let mp = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * mp + 2) / 5 + i64::from(self.day) - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * 146_097 + day_of_era - 719_468
    }

    fn is_valid(self) -> bool {
        let is_leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let n_days = match self.month {
            2 => 28 + u32::from(is_leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return false,
        };
        (1..=n_days).contains(&self.day)
    }

    /// `2024-02-29`; years beyond four digits bear a sign, as in Java.
    pub fn write(self, out: &mut Vec<u8>) {
        write_year(out, self.year);
        write_2(out, b"-", self.month);
        write_2(out, b"-", self.day);
    }

    /// The day at the front of `text`, and what follows.
    pub fn parse(text: &[u8]) -> Option<(Self, &[u8])> {
        Self::parse_of(parse_year(text)?)
    }

    /// The same behind its year.
    fn parse_of((year, text): (i64, &[u8])) -> Option<(Self, &[u8])> {
        let (month, text) = digits::<2>(text.strip_prefix(b"-")?)?;
        let (day, text) = digits::<2>(text.strip_prefix(b"-")?)?;
        let date = Self { year, month, day };
        date.is_valid().then_some((date, text))
    }
}

impl Time {
    /// `13:05`, `13:05:59`, `13:05:59.123`: Java's shortest form with 0, 3, 6 or 9 digits.
    pub fn write_short(self, out: &mut Vec<u8>) {
        write_2(out, b"", self.hour);
        write_2(out, b":", self.minute);
        if self.second != 0 || self.nano != 0 {
            write_2(out, b":", self.second);
            write_nano(out, self.nano);
        }
    }

    /// Always with seconds.
    pub fn write(self, out: &mut Vec<u8>) {
        write_2(out, b"", self.hour);
        write_2(out, b":", self.minute);
        write_2(out, b":", self.second);
        write_nano(out, self.nano);
    }

    /// The time at the front of `text`, and what follows. Seconds and their fraction may be
    /// absent.
    pub fn parse(text: &[u8]) -> Option<(Self, &[u8])> {
        let (hour, text) = digits::<2>(text)?;
        let (minute, mut text) = digits::<2>(text.strip_prefix(b":")?)?;
        let (mut second, mut nano) = (0, 0);
        if let Some(rest) = text.strip_prefix(b":") {
            (second, text) = digits::<2>(rest)?;
            if let Some(rest) = text.strip_prefix(b".").or_else(|| text.strip_prefix(b",")) {
                let n_digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
                if n_digits == 0 || 9 < n_digits {
                    return None;
                }
                let (fraction, rest) = rest.split_at(n_digits);
                nano = (0..9).fold(0, |sum, i| {
                    sum * 10 + fraction.get(i).map_or(0, |digit| u32::from(digit - b'0'))
                });
                text = rest;
            }
        }
        let is_valid = hour < 24 && minute < 60 && second < 60;
        is_valid.then_some((Self { hour, minute, second, nano }, text))
    }

    pub fn from_seconds(second_of_day: u32, nano: u32) -> Self {
        Self {
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
            nano,
        }
    }

    pub fn to_seconds(self) -> i64 {
        i64::from(self.hour * 3600 + self.minute * 60 + self.second)
    }
}

/// `2024-02-29T13:05:59.123Z`, always with milliseconds.
pub fn write_ms(out: &mut Vec<u8>, ms: i64) {
    let (date, second_of_day) = split_seconds(ms.div_euclid(1000));
    date.write(out);
    out.push(b'T');
    let nano = u32::try_from(ms.rem_euclid(1000)).unwrap_or(0) * 1_000_000;
    let time = Time::from_seconds(second_of_day, nano);
    time.write(out);
    if nano == 0 {
        out.extend_from_slice(b".000");
    }
    out.push(b'Z');
}

/// Milliseconds since 1970 UTC, of a day, a day and a time, or both with an offset. Without an
/// offset it is UTC.
pub fn parse_ms(text: &str) -> Option<i64> {
    let (seconds, nano) = parse_instant(text.as_bytes())?;
    seconds.checked_mul(1000)?.checked_add(i64::from(nano / 1_000_000))
}

/// From -1000000000-01-01T00:00:00Z to +1000000000-12-31T23:59:59Z. Source: `Instant.MIN`, `MAX`.
const INSTANTS: RangeInclusive<i64> = -31_557_014_167_219_200..=31_556_889_864_403_199;

/// Seconds since 1970 UTC, and nanoseconds after them.
pub fn parse_instant(text: &[u8]) -> Option<(i64, u32)> {
    let (date, rest) = Date::parse_of(parse_long_year(text)?)?;
    let days = date.to_days();
    if rest.is_empty() {
        return Some((days * 86_400, 0)).filter(|(seconds, _)| INSTANTS.contains(seconds));
    }
    let (time, rest) = match rest.split_first()? {
        (b'T' | b't' | b' ', rest) => Time::parse(rest)?,
        _ => return None,
    };
    let offset = if rest.is_empty() { 0 } else { parse_offset(rest)? };
    let seconds = days * 86_400 + time.to_seconds() - i64::from(offset);
    INSTANTS.contains(&seconds).then_some((seconds, time.nano))
}

/// The day and the second of the day.
pub fn split_seconds(seconds: i64) -> (Date, u32) {
    let second_of_day = u32::try_from(seconds.rem_euclid(86_400)).unwrap_or(0);
    (Date::from_days(seconds.div_euclid(86_400)), second_of_day)
}

/// `Z`, `+08:00`, `-03:30:15`.
pub fn write_offset(out: &mut Vec<u8>, seconds: i32) {
    if seconds == 0 {
        return out.push(b'Z');
    }
    out.push(if seconds < 0 { b'-' } else { b'+' });
    let time = Time::from_seconds(seconds.unsigned_abs(), 0);
    write_2(out, b"", time.hour);
    write_2(out, b":", time.minute);
    if time.second != 0 {
        write_2(out, b":", time.second);
    }
}

/// The whole of `text` as an offset, in seconds east of UTC: `Z`, `+08`, `+0800`, `+08:00`.
pub fn parse_offset(text: &[u8]) -> Option<i32> {
    let (sign, rest) = match text.split_first()? {
        (b'Z' | b'z', []) => return Some(0),
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let (hour, rest) = digits::<2>(rest)?;
    let (mut minute, mut second) = (0, 0);
    if !rest.is_empty() {
        let (m, rest) = digits::<2>(rest.strip_prefix(b":").unwrap_or(rest))?;
        minute = m;
        if !rest.is_empty() {
            let (s, rest) = digits::<2>(rest.strip_prefix(b":").unwrap_or(rest))?;
            second = s;
            if !rest.is_empty() {
                return None;
            }
        }
    }
    // Java's limit is 18 hours.
    let seconds = i32::try_from(hour * 3600 + minute * 60 + second).ok()?;
    (seconds <= 18 * 3600 && minute < 60 && second < 60).then_some(sign * seconds)
}

/// `2024`, `-0044`, `+12024`.
pub fn write_year(out: &mut Vec<u8>, year: i64) {
    if year < 0 {
        out.push(b'-');
    } else if 9999 < year {
        out.push(b'+');
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(year.unsigned_abs()).as_bytes();
    out.extend(std::iter::repeat_n(b'0', 4usize.saturating_sub(digits.len())));
    out.extend_from_slice(digits);
}

/// The year at the front of `text`: four digits, or a sign and up to nine.
pub fn parse_year(text: &[u8]) -> Option<(i64, &[u8])> {
    parse_long_year(text).filter(|(year, _)| year.abs() <= 999_999_999)
}

/// The same with up to ten digits: an `Instant` has a year more at either end than a date.
fn parse_long_year(text: &[u8]) -> Option<(i64, &[u8])> {
    let (sign, rest) = match text.split_first()? {
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => (1, text),
    };
    let n_digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let max = if rest.len() == text.len() { 4 } else { 10 };
    if n_digits < 4 || max < n_digits {
        return None;
    }
    let (digits, rest) = rest.split_at(n_digits);
    Some((sign * digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')), rest))
}

/// The number of exactly `N` digits at the front of `text`.
pub fn digits<const N: usize>(text: &[u8]) -> Option<(u32, &[u8])> {
    let (front, rest) = text.split_first_chunk::<N>()?;
    let number = front
        .iter()
        .try_fold(0, |sum, &b| b.is_ascii_digit().then(|| sum * 10 + u32::from(b - b'0')))?;
    Some((number, rest))
}

/// Two digits, after `before`.
pub fn write_2(out: &mut Vec<u8>, before: &[u8], number: u32) {
    out.extend_from_slice(before);
    let [.., low] = (number % 10).to_be_bytes();
    let [.., high] = (number / 10 % 10).to_be_bytes();
    out.extend_from_slice(&[b'0' + high, b'0' + low]);
}

/// `.123`, `.123456`, `.123456789`, or nothing for 0.
pub fn write_nano(out: &mut Vec<u8>, nano: u32) {
    if nano == 0 {
        return;
    }
    out.push(b'.');
    let (value, n_digits) = match nano {
        _ if nano.is_multiple_of(1_000_000) => (nano / 1_000_000, 3),
        _ if nano.is_multiple_of(1000) => (nano / 1000, 6),
        _ => (nano, 9),
    };
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value).as_bytes();
    out.extend(std::iter::repeat_n(b'0', n_digits - digits.len().min(n_digits)));
    out.extend_from_slice(digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iso(ms: i64) -> String {
        let mut out = Vec::new();
        write_ms(&mut out, ms);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn writes_and_reads_instants() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_827_696_789, "2000-02-29T12:34:56.789Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "+10000-01-01T00:00:00.000Z"),
            (-62_167_219_200_001, "-0001-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(iso(ms), text);
            assert_eq!(parse_ms(text), Some(ms), "{text}");
        }
        // The whole range of a Java long has a text.
        assert_eq!(iso(i64::MAX), "+292278994-08-17T07:12:55.807Z");
        assert_eq!(iso(i64::MIN), "-292275055-05-16T16:47:04.192Z");
    }

    /// `Instant` has a year more at either end than `LocalDate`.
    #[test]
    fn the_first_and_the_last_instant_are_read() {
        let read = |text: &str| parse_instant(text.as_bytes());
        let (least, most) = INSTANTS.into_inner();
        assert_eq!(read("-1000000000-01-01T00:00:00Z"), Some((least, 0)));
        let last = "+1000000000-12-31T23:59:59.999999999Z";
        assert_eq!(read(last), Some((most, 999_999_999)));
        for text in [
            "-1000000001-12-31T23:59:59Z",
            "-1000000000-01-01T00:00:00+01:00",
            "+1000000000-12-31T23:59:59-01:00",
            "+1000000001-01-01",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(Date::parse(b"+1000000000-01-01").is_none());
        assert!(Date::parse(b"+999999999-12-31").is_some());
    }

    #[test]
    fn reads_the_usual_spellings() {
        for (text, ms) in [
            ("1970-01-02", 86_400_000),
            ("1970-01-01 00:01", 60_000),
            ("1970-01-01T08:00:00+08:00", 0),
            ("1970-01-01T08:00:00.5+0800", 500),
            ("1969-12-31T19:00:00-05", 0),
        ] {
            assert_eq!(parse_ms(text), Some(ms), "{text}");
        }
        for text in [
            "",
            "1970",
            "1970-02-30",
            "1970-01-01T",
            "1970-01-01T25:00",
            "1970-01-01x",
            "1970-01-01T00:00:00.",
            "1970-01-01T00:00+99:00",
            "99999999-01-01",
        ] {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }
}
