//! The parts of a value of java.time, and its text.

use std::borrow::Cow;

use super::{Date, Time};
use crate::builtin::Builtin;
use crate::time;

/// The fields of a java.time value and of the values inside it.
#[derive(Default)]
pub struct TimeFields<'a> {
    numbers: [Option<i64>; NUMBERS.len()],
    pub zone: Option<Cow<'a, str>>,
}

/// `seconds` is that of an `Instant`, a `Duration` or a `ZoneOffset`, never of two of them.
const NUMBERS: [&str; 15] = [
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "nano",
    "seconds",
    "nanos",
    "years",
    "months",
    "days",
    "offset",
    EPOCH_DAY,
    NANO_OF_DAY,
];

/// No Java date is farther from 1970, in days.
const MAX_DAY: i64 = 366_000_000_000;

/// The fields of the compact forms. A compact `LocalDateTime` calls them `date` and `time`, which
/// are objects in the other form, and so never numbers.
const EPOCH_DAY: &str = "epochDay";
const NANO_OF_DAY: &str = "nanoOfDay";

impl TimeFields<'_> {
    pub fn number(&mut self, name: &str) -> Option<&mut Option<i64>> {
        let name = match name {
            "date" => EPOCH_DAY,
            "time" => NANO_OF_DAY,
            other => other,
        };
        let index = NUMBERS.iter().position(|&number| number == name)?;
        self.numbers.get_mut(index)
    }

    fn take(&self, name: &str) -> Option<i64> {
        let index = NUMBERS.iter().position(|&number| number == name)?;
        *self.numbers.get(index)?
    }

    fn small(&self, name: &str, max: u32) -> Option<u32> {
        u32::try_from(self.take(name)?).ok().filter(|&value| value <= max)
    }

    fn int(&self, name: &str) -> Option<i32> {
        i32::try_from(self.take(name)?).ok()
    }

    fn date(&self) -> Option<Date> {
        if let Some(day) = self.take(EPOCH_DAY) {
            return (-MAX_DAY..=MAX_DAY).contains(&day).then(|| Date::from_days(day));
        }
        let year = i64::from(self.int("year")?);
        Some(Date { year, month: self.small("month", 12)?, day: self.small("day", 31)? })
    }

    fn time(&self) -> Option<Time> {
        if let Some(nanos) = self.take(NANO_OF_DAY) {
            let seconds = u32::try_from(nanos.div_euclid(1_000_000_000)).ok()?;
            let nano = u32::try_from(nanos.rem_euclid(1_000_000_000)).ok()?;
            return (seconds < 86_400).then(|| Time::from_seconds(seconds, nano));
        }
        Some(Time {
            hour: self.small("hour", 23)?,
            minute: self.small("minute", 59)?,
            second: self.small("second", 59)?,
            nano: self.small("nano", 999_999_999)?,
        })
    }

    /// The text, without quotes. Nothing if the parts are not what they have to be.
    pub fn write(&self, builtin: Builtin, text: &mut Vec<u8>) -> Option<()> {
        match builtin {
            Builtin::LocalDate => self.date()?.write(text),
            Builtin::LocalTime => self.time()?.write_short(text),
            Builtin::LocalDateTime => self.date_time(text)?,
            Builtin::OffsetDateTime => {
                self.date_time(text)?;
                time::write_offset(text, self.int("seconds")?);
            }
            Builtin::ZonedDateTime => {
                self.date_time(text)?;
                time::write_offset(text, self.int("seconds")?);
                let zone = self.zone.as_deref()?;
                // Where the zone is an offset, Java does not write it twice.
                if time::parse_offset(zone.as_bytes()).is_none() {
                    text.push(b'[');
                    text.extend_from_slice(zone.as_bytes());
                    text.push(b']');
                }
            }
            Builtin::OffsetTime => {
                self.time()?.write_short(text);
                time::write_offset(text, self.int("seconds")?);
            }
            Builtin::ZoneOffset => time::write_offset(text, self.int("seconds")?),
            Builtin::Instant => {
                let (date, second_of_day) = time::split_seconds(self.take("seconds")?);
                date.write(text);
                text.push(b'T');
                let nano = self.small("nanos", 999_999_999)?;
                Time::from_seconds(second_of_day, nano).write(text);
                text.push(b'Z');
            }
            Builtin::YearMonth => {
                time::write_year(text, self.take("year")?);
                time::write_2(text, b"-", self.small("month", 12)?);
            }
            Builtin::MonthDay => {
                time::write_2(text, b"--", self.small("month", 12)?);
                time::write_2(text, b"-", self.small("day", 31)?);
            }
            Builtin::Duration => {
                write_duration(text, self.take("seconds")?, self.small("nanos", 999_999_999)?);
            }
            Builtin::Period => {
                let parts = [self.int("years")?, self.int("months")?, self.int("days")?];
                write_period(text, parts);
            }
            _ => return None,
        }
        Some(())
    }

    fn date_time(&self, text: &mut Vec<u8>) -> Option<()> {
        self.date()?.write(text);
        text.push(b'T');
        self.time()?.write_short(text);
        Some(())
    }
}

/// `PT1H2M3.5S`, as Java writes it: no days, and zero is `PT0S`.
fn write_duration(text: &mut Vec<u8>, seconds: i64, nanos: u32) {
    // Java counts nanoseconds up from the second below; the text has them below zero.
    let total = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let (whole, fraction) = (total / 1_000_000_000, total % 1_000_000_000);
    text.extend_from_slice(b"PT");
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    for (number, unit) in [(hours, b'H'), (minutes, b'M')] {
        if number != 0 {
            text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            text.push(unit);
        }
    }
    if seconds == 0 && fraction == 0 && whole != 0 {
        return;
    }
    if seconds == 0 && fraction < 0 {
        text.push(b'-');
    }
    text.extend_from_slice(itoa::Buffer::new().format(seconds).as_bytes());
    if fraction != 0 {
        let nine = format!(".{:09}", fraction.unsigned_abs());
        text.extend_from_slice(nine.trim_end_matches('0').as_bytes());
    }
    text.push(b'S');
}

/// `P1Y2M3D`, as Java writes it; zero is `P0D`.
fn write_period(text: &mut Vec<u8>, parts: [i32; 3]) {
    text.push(b'P');
    for (number, unit) in parts.into_iter().zip(*b"YMD") {
        if number != 0 {
            text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            text.push(unit);
        }
    }
    if parts == [0; 3] {
        text.extend_from_slice(b"0D");
    }
}
