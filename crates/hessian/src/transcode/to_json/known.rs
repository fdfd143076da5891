//! Objects of classes that the mapping knows: throwables, numbers, java.time, and the like.

use std::borrow::Cow;

use super::{Shape, TranscodeError, Writer};
use crate::json::{self, JsonReader};
use crate::transcode::bigint;
use crate::transcode::builtin::Builtin;
use crate::transcode::time::{self, Date, Time};
use crate::{Kind, Limits, Name, ObjectCursor};

impl<'a> Writer<'_, 'a, '_> {
    /// An object of a known class. What cannot be one is an error: its class says what it is.
    pub(super) fn known(
        &mut self,
        builtin: Builtin,
        object: ObjectCursor,
    ) -> Result<(), TranscodeError> {
        let start = self.dec.position();
        let shape = |expected| TranscodeError::Shape { offset: start, expected };
        match builtin {
            Builtin::BigDecimal => self.big_decimal(object)?,
            Builtin::BigInteger => self.big_integer(object)?,
            Builtin::SqlDate | Builtin::Calendar => {
                self.one_field(object, if builtin == Builtin::SqlDate { "value" } else { "date" })?;
            }
            Builtin::TextValue
            | Builtin::Locale
            | Builtin::Optional
            | Builtin::AtomicInteger
            | Builtin::AtomicLong => self.one_field(object, "value")?,
            Builtin::AtomicBoolean => self.atomic_boolean(object)?,
            Builtin::Currency => self.one_field(object, "currencyCode")?,
            Builtin::Uri => self.one_field(object, "string")?,
            Builtin::ClassName => self.one_field(object, "name")?,
            Builtin::ZoneId => self.one_field(object, "zoneId")?,
            Builtin::Year => self.one_field(object, "year")?,
            Builtin::EnumSet => self.one_field(object, "objects")?,
            Builtin::StackTraceElement => self.stack_trace_element(object)?,
            _ => {
                let mut text = Vec::new();
                self.temporal(builtin, object, &mut text)?
                    .ok_or_else(|| shape("a value of java.time"))?;
                let text = std::str::from_utf8(&text).map_err(|_| shape("text"))?;
                json::write_string(self.out, text);
            }
        }
        Ok(())
    }

    /// A Java exception: its class, message and cause, its stack trace as Java prints it, and its
    /// own fields. It is its own cause if it has none.
    pub(super) fn throwable(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        self.out.push(b'{');
        self.class_member(object.class());
        while let Some(name) = self.next_field(&mut object) {
            let key = match &*name {
                "detailMessage" => "message",
                "suppressedExceptions" => "suppressed",
                other => other,
            };
            self.out.push(b',');
            let key_at = self.out.len();
            json::write_string(self.out, key);
            if let Some(paths) = &mut self.paths {
                paths.at_key(key_at..self.out.len());
            }
            self.out.push(b':');
            if key != "cause" || self.dec.peek()? != Kind::Ref {
                self.value()?;
                continue;
            }
            let offset = self.dec.position();
            let index = self.dec.read_ref()?;
            if self.dec.ref_start(index) == self.open.last().copied() {
                self.out.extend_from_slice(b"null");
            } else {
                self.reference_to(offset, index)?;
            }
        }
        self.out.push(b'}');
        Ok(())
    }

    /// The value of the field `wanted`; the others are dropped. `null` if there is none.
    fn one_field(&mut self, mut object: ObjectCursor, wanted: &str) -> Result<(), TranscodeError> {
        let mut is_found = false;
        while let Some(name) = self.next_field(&mut object) {
            if &*name == wanted && !is_found {
                is_found = true;
                self.value()?;
            } else {
                self.dec.skip_value()?;
            }
        }
        if !is_found {
            self.out.extend_from_slice(b"null");
        }
        Ok(())
    }

    /// `AtomicBoolean` holds an int.
    fn atomic_boolean(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        let mut value = 0;
        while let Some(name) = self.next_field(&mut object) {
            if &*name == "value" {
                value = self.dec.read_int()?;
            } else {
                self.dec.skip_value()?;
            }
        }
        self.out.extend_from_slice(if value == 0 { b"false" } else { b"true" });
        Ok(())
    }

    fn big_decimal(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        let mut value = None;
        while let Some(name) = self.next_field(&mut object) {
            if &*name == "value" {
                value = self.dec.read_opt_string()?;
            } else {
                self.dec.skip_value()?;
            }
        }
        match value {
            None => self.out.extend_from_slice(b"null"),
            Some(text) if !self.style.big_numbers_as_text && is_json_number(&text) => {
                self.out.extend_from_slice(text.as_bytes());
            }
            Some(text) => json::write_string(self.out, &text),
        }
        Ok(())
    }

    /// `BigInteger` comes as its fields: `signum` and `mag`, the words from the highest down; or
    /// as its text, from writers that treat it like `BigDecimal`.
    fn big_integer(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        let offset = self.dec.position();
        let (mut sign, mut words, mut text) = (0, Vec::new(), None);
        while let Some(name) = self.next_field(&mut object) {
            match &*name {
                "signum" => sign = self.dec.read_int()?,
                "mag" => self.words(&mut words)?,
                "value" => text = self.dec.read_opt_string()?,
                _ => self.dec.skip_value()?,
            }
        }
        if bigint::MAX_WORDS < words.len() {
            let expected = "a BigInteger of at most 8192 bits";
            return Err(TranscodeError::Shape { offset, expected });
        }
        let start = self.out.len();
        match text {
            Some(text) if is_json_number(&text) => self.out.extend_from_slice(text.as_bytes()),
            Some(text) => {
                json::write_string(self.out, &text);
                return Ok(());
            }
            None => bigint::write_decimal(self.out, sign < 0, &words),
        }
        if self.style.big_numbers_as_text {
            self.out.insert(start, b'"');
            self.out.push(b'"');
        }
        Ok(())
    }

    fn words(&mut self, words: &mut Vec<u32>) -> Result<(), TranscodeError> {
        if self.dec.peek()? == Kind::Ref {
            return self.replay(|writer| writer.words(words));
        }
        let mut list = self.dec.read_list_begin()?;
        while list.next(self.dec)? {
            words.push(self.dec.read_int()?.cast_unsigned());
        }
        Ok(())
    }

    /// `com.acme.Shop.sell(Shop.java:12)`
    fn stack_trace_element(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        let (mut class, mut method) = (Cow::Borrowed(""), Cow::Borrowed(""));
        let (mut file, mut line) = (None, 0);
        while let Some(name) = self.next_field(&mut object) {
            match &*name {
                "declaringClass" => class = self.dec.read_opt_string()?.unwrap_or_default(),
                "methodName" => method = self.dec.read_opt_string()?.unwrap_or_default(),
                "fileName" => file = self.dec.read_opt_string()?,
                "lineNumber" => line = self.dec.read_int()?,
                _ => self.dec.skip_value()?,
            }
        }
        let place = match (line, file) {
            (-2, _) => "Native Method".to_owned(),
            (_, None) => "Unknown Source".to_owned(),
            (0.., Some(file)) => format!("{file}:{line}"),
            (_, Some(file)) => file.into_owned(),
        };
        json::write_string(self.out, &format!("{class}.{method}({place})"));
        Ok(())
    }

    /// The text of a java.time value, without quotes. Nothing if its fields are not what they
    /// have to be.
    fn temporal(
        &mut self,
        builtin: Builtin,
        mut object: ObjectCursor,
        text: &mut Vec<u8>,
    ) -> Result<Option<()>, TranscodeError> {
        let mut parts = Parts::default();
        while let Some(name) = self.next_field(&mut object) {
            self.part(&name, &mut parts)?;
        }
        Ok(parts.write(builtin, text))
    }

    /// Takes in one field of a java.time value: a number, or a value of java.time itself.
    fn part(&mut self, name: &str, parts: &mut Parts<'a>) -> Result<(), TranscodeError> {
        match self.dec.peek()? {
            Kind::Null => self.dec.skip_value()?,
            Kind::Int | Kind::Long => {
                let value = self.dec.read_long()?;
                if let Some(slot) = parts.number(name) {
                    *slot = Some(value);
                }
            }
            Kind::String => parts.zone = Some(self.dec.read_string()?),
            Kind::Ref => self.replay(|writer| writer.part(name, parts))?,
            Kind::Object => {
                let offset = self.dec.position();
                let mut object = self.dec.read_object_begin()?;
                let is_time = matches!(
                    self.shape(object.class()),
                    Shape::Known(
                        Builtin::LocalDate
                            | Builtin::LocalTime
                            | Builtin::LocalDateTime
                            | Builtin::ZoneOffset
                    )
                );
                if !is_time {
                    let expected = "a value of java.time";
                    return Err(TranscodeError::Shape { offset, expected });
                }
                // The fields of the parts have different names, so that one level holds them all.
                self.open.push(offset);
                while let Some(name) = self.next_field(&mut object) {
                    self.part(&name, parts)?;
                }
                self.open.pop();
            }
            _ => {
                let (offset, expected) = (self.dec.position(), "a value of java.time");
                return Err(TranscodeError::Shape { offset, expected });
            }
        }
        Ok(())
    }

    fn next_field(&mut self, object: &mut ObjectCursor) -> Option<Name<'a>> {
        let index = object.next(self.dec)?;
        let def = self.dec.class(object.class())?;
        def.fields.get(index).cloned()
    }
}

/// The fields of a java.time value and of the values inside it.
#[derive(Default)]
struct Parts<'a> {
    numbers: [Option<i64>; NUMBERS.len()],
    zone: Option<Cow<'a, str>>,
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

impl Parts<'_> {
    fn number(&mut self, name: &str) -> Option<&mut Option<i64>> {
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
            return (day.abs() <= MAX_DAY).then(|| Date::from_days(day));
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

    fn write(&self, builtin: Builtin, text: &mut Vec<u8>) -> Option<()> {
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

fn is_json_number(text: &str) -> bool {
    JsonReader::new(text.as_bytes(), Limits::default()).read_number() == Ok(text)
}
