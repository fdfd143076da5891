//! JSON scalars as Java's: numbers, text, dates, and the classes whose JSON is one of these.

use std::borrow::Cow;

use java_json::builtin::Builtin;
use java_json::json::JsonKind;
use java_json::number::InGenericCall;
use java_json::time::{self, Date, Time, parse_date_time, whole};
use java_json::unknown::optional_number;
use java_json::{expected, number, scalars, texts};

use super::{JsonToJsonb, ReaderType};
use crate::encode::{DateParts, TimeParts};
use crate::error::JsonbError;

/// What a number with a fraction has to be in a record whose fields nobody knows.
const RECORD_NUMBER: &str = "a number of known type, without which fastjson2 may drop the fraction \
     in a record: write {\"class\": \"java.math.BigDecimal\", \"value\": ..} or java.lang.Double, or \
     describe the class in a definition";

impl JsonToJsonb<'_, '_, '_, '_, '_> {
    /// A number where an optional one is declared. fastjson2 reads the number itself there.
    pub(super) fn optional_number(
        &mut self,
        class: &str,
        place: ReaderType,
    ) -> Result<(), JsonbError> {
        let (held, name) = match optional_number(class) {
            Some(Builtin::Int) => (Builtin::Int, "int"),
            Some(Builtin::Long) => (Builtin::Long, "long"),
            _ => (Builtin::Double, "double"),
        };
        if !self.is_map(class) {
            return self.scalar(held, name, place);
        }
        self.enc.object_begin();
        self.enc.string("isPresent");
        self.enc.bool(true);
        self.enc.string("value");
        self.scalar(held, name, ReaderType::Open)?;
        self.enc.object_end();
        Ok(())
    }

    pub(super) fn scalar(
        &mut self,
        builtin: Builtin,
        name: &str,
        place: ReaderType,
    ) -> Result<(), JsonbError> {
        let kind = self.json.peek()?;
        match (builtin, kind) {
            (_, JsonKind::Null) => self.null(),
            (_, JsonKind::Array | JsonKind::Object) => Err(self.wrong_kind(name)),
            (Builtin::String, _) => self.as_text(kind),
            (Builtin::Boolean, JsonKind::Bool | JsonKind::String) => {
                self.enc.bool(scalars::boolean(self.json)?);
                Ok(())
            }
            (Builtin::AtomicBoolean, JsonKind::Bool) => {
                self.class_if_open(Some(name), place);
                self.enc.bool(self.json.read_bool()?);
                Ok(())
            }
            (_, JsonKind::Bool) | (Builtin::Boolean | Builtin::AtomicBoolean, _) => {
                Err(self.wrong_kind(name))
            }
            (Builtin::AtomicInteger, _) => {
                self.class_if_open(Some(name), place);
                self.whole(Builtin::Int)
            }
            (Builtin::AtomicLong, _) => {
                self.class_if_open(Some(name), place);
                self.whole(Builtin::Long)
            }
            (Builtin::Byte | Builtin::Short | Builtin::Int | Builtin::Long, _) => {
                self.whole(builtin)
            }
            (Builtin::Float, _) => self.double(true),
            (Builtin::Double, _) => self.double(false),
            (Builtin::Char, JsonKind::String) => {
                let text = scalars::char(self.json)?;
                self.enc.char(text.encode_utf16().next().unwrap_or_default());
                Ok(())
            }
            (Builtin::BigDecimal | Builtin::BigInteger, _) => self.big_number(builtin),
            (Builtin::Date | Builtin::SqlDate | Builtin::Calendar, _) => {
                self.date(builtin, name, place)
            }
            (Builtin::Year, JsonKind::Number) => {
                let year = scalars::integer(
                    self.json,
                    -999_999_999,
                    999_999_999,
                    expected::scalar(builtin),
                )?;
                self.fields_of(name, &[("year", year)])
            }
            (_, JsonKind::Number) => Err(self.wrong_kind(name)),
            _ => self.as_iso_text(builtin, name, place),
        }
    }

    pub(super) fn null(&mut self) -> Result<(), JsonbError> {
        self.json.read_null()?;
        self.enc.null();
        Ok(())
    }

    pub(super) fn text(&mut self) -> Result<(), JsonbError> {
        self.enc.string(&self.json.read_string()?);
        Ok(())
    }

    /// Text, or what a number or boolean looks like as text.
    fn as_text(&mut self, kind: JsonKind) -> Result<(), JsonbError> {
        match kind {
            JsonKind::Number => self.enc.string(self.json.read_number()?),
            JsonKind::Bool => {
                self.enc.string(if self.json.read_bool()? { "true" } else { "false" });
            }
            _ => return self.text(),
        }
        Ok(())
    }

    /// A number whose Java type is not known: the smallest of int, long and double that holds it
    /// exactly, and `BigDecimal` where none does. (fastjson2 2.0.56 makes a `BigDecimal` of a
    /// double by dropping its fraction, and a double of a `BigDecimal` and of a text as well.)
    pub(super) fn untyped_number(&mut self) -> Result<(), JsonbError> {
        let offset = self.json.position();
        let text = self.json.read_number()?;
        if self.as_maps {
            match InGenericCall::of(text) {
                InGenericCall::Usual => {}
                InGenericCall::Decimal => return self.decimal(text, offset),
                InGenericCall::Nothing => {
                    return Err(self.wrong_value(offset, number::GENERIC_NUMBER));
                }
            }
        }
        match text.parse::<i64>() {
            // Minus zero is a double, the only type that has one.
            Ok(value) if value != 0 || !text.starts_with('-') => match i32::try_from(value) {
                Ok(value) => self.enc.int(value),
                Err(_) => self.enc.long(value),
            },
            _ => match text.parse::<f64>() {
                // fastjson2 drops the fraction of a double where the field is a `BigDecimal`, and
                // that of a `BigDecimal` where it is a double.
                Ok(_) if self.is_in_record && number::integer(text).is_none() => {
                    return Err(self.wrong_value(offset, RECORD_NUMBER));
                }
                Ok(value) if number::is_exact(text, value) => self.enc.double(value),
                _ => return self.decimal(text, offset),
            },
        }
        Ok(())
    }

    fn whole(&mut self, builtin: Builtin) -> Result<(), JsonbError> {
        let expected = expected::scalar(builtin);
        match builtin {
            Builtin::Byte => {
                let value = scalars::integer(self.json, i8::MIN.into(), i8::MAX.into(), expected)?;
                self.enc.byte(i8::try_from(value).unwrap_or_default());
            }
            Builtin::Short => {
                let value =
                    scalars::integer(self.json, i16::MIN.into(), i16::MAX.into(), expected)?;
                self.enc.short(i16::try_from(value).unwrap_or_default());
            }
            Builtin::Int => {
                let value =
                    scalars::integer(self.json, i32::MIN.into(), i32::MAX.into(), expected)?;
                self.enc.int(i32::try_from(value).unwrap_or_default());
            }
            _ => {
                let value = scalars::integer(self.json, i64::MIN, i64::MAX, expected)?;
                self.enc.long(value);
            }
        }
        Ok(())
    }

    fn double(&mut self, is_float: bool) -> Result<(), JsonbError> {
        let value = scalars::double(self.json, is_float)?;
        match is_float {
            #[expect(clippy::cast_possible_truncation, reason = "rounded like Java does")]
            true => self.enc.float(value as f32),
            false => self.enc.double(value),
        }
        Ok(())
    }

    fn big_number(&mut self, builtin: Builtin) -> Result<(), JsonbError> {
        self.json.peek()?;
        let offset = self.json.position();
        let text = scalars::big_number(self.json, builtin)?;
        if builtin == Builtin::BigDecimal {
            return self.decimal(&text, offset);
        }
        let digits = text.strip_prefix('-').unwrap_or(&text);
        self.enc
            .big_integer(text.starts_with('-'), digits)
            .ok_or_else(|| self.wrong_value(offset, expected::scalar(builtin)))
    }

    /// A JSON number as a `BigDecimal`, as many digits as are written.
    fn decimal(&mut self, text: &str, offset: usize) -> Result<(), JsonbError> {
        Some(text)
            .filter(|text| number::is_big_decimal(text))
            .and_then(decimal_parts)
            .and_then(|(sign, digits, scale)| self.enc.big_decimal(sign, &digits, scale))
            .ok_or_else(|| self.wrong_value(offset, expected::scalar(Builtin::BigDecimal)))
    }

    /// The bytes of a `BitSet`, the lowest first, as fastjson2 writes it.
    pub(super) fn bit_set(&mut self, place: ReaderType) -> Result<(), JsonbError> {
        let words = scalars::bit_set(self.json)?;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1));
        self.class_if_open(Some("java.util.BitSet"), place);
        self.enc.binary(&bytes);
        Ok(())
    }

    fn date(&mut self, builtin: Builtin, name: &str, place: ReaderType) -> Result<(), JsonbError> {
        let ms = scalars::date_ms(self.json, builtin)?;
        match builtin {
            Builtin::SqlDate => self.class_if_open(Some(name), place),
            Builtin::Calendar => self.class_if_open(Some("java.util.GregorianCalendar"), place),
            _ => {}
        }
        self.enc.date_ms(ms);
        Ok(())
    }

    /// The classes whose JSON is a text. Some have forms of their own; the others are texts too.
    fn as_iso_text(
        &mut self,
        builtin: Builtin,
        name: &str,
        place: ReaderType,
    ) -> Result<(), JsonbError> {
        let offset = self.json.position();
        let text = self.json.read_string()?;
        let iso = expected::scalar(builtin);
        let wrong = |expected: &str| {
            let found = expected::quoted(&text);
            JsonbError::Value { offset, found, expected: expected.into() }
        };
        if let Some(written) = self.date_or_time(builtin, &text, name, place) {
            return written.ok_or_else(|| wrong(iso));
        }
        match builtin {
            Builtin::TextValue if name == "java.util.UUID" => {
                let bytes = texts::parse_uuid(&text).ok_or_else(|| wrong(iso))?;
                self.class_if_open(Some(name), place);
                self.enc.binary(&bytes);
                return Ok(());
            }
            Builtin::ZoneId if time::parse_zone(&text).is_none() => return Err(wrong(iso)),
            Builtin::Year | Builtin::YearMonth | Builtin::MonthDay => {
                let fields = calendar_fields(builtin, &text).ok_or_else(|| wrong(iso))?;
                return self.fields_of(name, &fields);
            }
            Builtin::Duration => {
                time::parse_duration(&text).ok_or_else(|| wrong(iso))?;
            }
            Builtin::Period => {
                time::parse_period(&text).ok_or_else(|| wrong(iso))?;
            }
            Builtin::ZoneOffset => {
                time::parse_offset(text.as_bytes()).ok_or_else(|| wrong(iso))?;
            }
            Builtin::ClassName => {
                let of = texts::class_name(&text).ok_or_else(|| wrong(iso))?;
                self.class_if_open(Some(name), place);
                self.enc.string(&of);
                return Ok(());
            }
            // fastjson2 takes it for null.
            Builtin::Locale if text.is_empty() => {
                return Err(wrong("a locale that fastjson2 reads (such as zh_CN, not empty)"));
            }
            _ => scalars::check_text(builtin, name, &text).map_err(wrong)?,
        }
        self.class_if_open(Some(name), place);
        self.enc.string(&text);
        Ok(())
    }

    /// Dates and times. Nothing if it is another class; nothing in that if the text is none.
    fn date_or_time(
        &mut self,
        builtin: Builtin,
        text: &str,
        name: &str,
        place: ReaderType,
    ) -> Option<Option<()>> {
        let bytes = text.as_bytes();
        let write = |writer: &mut Self| -> Option<()> {
            match builtin {
                Builtin::LocalDate => {
                    let date = date_parts(whole(Date::parse(bytes)?)?)?;
                    writer.enc.local_date(date);
                }
                Builtin::LocalTime => {
                    let time = time_parts(whole(Time::parse(bytes)?)?)?;
                    writer.enc.local_time(time);
                }
                Builtin::LocalDateTime => {
                    let (date, time) = whole(parse_date_time(bytes)?)?;
                    writer.enc.local_date_time(date_parts(date)?, time_parts(time)?);
                }
                Builtin::Instant => {
                    let (seconds, nano) = time::parse_instant(bytes)?;
                    writer.enc.instant(seconds, nano.cast_signed());
                }
                Builtin::OffsetTime => {
                    let (time, rest) = Time::parse(bytes)?;
                    let zone = offset(rest)?;
                    writer.class_if_open(Some(name), place);
                    let day = DateParts { year: 1970, month: 1, day: 1 };
                    writer.enc.zoned_date_time(day, time_parts(time)?, &zone);
                }
                _ => {
                    let ((date, time), rest) = parse_date_time(bytes)?;
                    let rest = text.get(text.len() - rest.len()..)?;
                    let zone = match rest.split_once('[') {
                        Some((at, zone)) if builtin == Builtin::ZonedDateTime => {
                            let zone = time::parse_zone(zone.strip_suffix(']')?)?;
                            let seconds = time::parse_offset(at.as_bytes())?;
                            // As by hessian2, whose reader would make another instant of it.
                            if zone.offset.is_some_and(|of_zone| of_zone != seconds) {
                                return None;
                            }
                            zone.name
                        }
                        _ => Cow::Owned(offset(rest.as_bytes())?),
                    };
                    if builtin == Builtin::OffsetDateTime {
                        writer.class_if_open(Some(name), place);
                    }
                    writer.enc.zoned_date_time(date_parts(date)?, time_parts(time)?, &zone);
                }
            }
            Some(())
        };
        matches!(
            builtin,
            Builtin::LocalDate
                | Builtin::LocalTime
                | Builtin::LocalDateTime
                | Builtin::Instant
                | Builtin::OffsetTime
                | Builtin::OffsetDateTime
                | Builtin::ZonedDateTime
        )
        .then(|| write(self))
    }

    /// An object of a class of java.time that has no form of its own, as fastjson2 writes it.
    fn fields_of(&mut self, class: &str, fields: &[(&str, i64)]) -> Result<(), JsonbError> {
        self.enc.class(class);
        self.enc.object_begin();
        for (name, value) in fields {
            self.enc.string(name);
            self.enc.int(i32::try_from(*value).unwrap_or_default());
        }
        self.enc.object_end();
        Ok(())
    }
}

/// An offset as Java writes it.
fn offset(text: &[u8]) -> Option<String> {
    let mut out = Vec::new();
    time::write_offset(&mut out, time::parse_offset(text)?);
    String::from_utf8(out).ok()
}

/// JSONB has 16 bits for a year.
fn date_parts(date: Date) -> Option<DateParts> {
    let year = i16::try_from(date.year).ok().filter(|&year| 0 <= year)?;
    Some(DateParts {
        year,
        month: u8::try_from(date.month).ok()?,
        day: u8::try_from(date.day).ok()?,
    })
}

fn time_parts(time: Time) -> Option<TimeParts> {
    let small = |part: u32| u8::try_from(part).ok();
    Some(TimeParts {
        hour: small(time.hour)?,
        minute: small(time.minute)?,
        second: small(time.second)?,
        nano: i32::try_from(time.nano).ok()?,
    })
}

fn calendar_fields(builtin: Builtin, text: &str) -> Option<Vec<(&'static str, i64)>> {
    match builtin {
        Builtin::Year => Some(vec![("year", time::parse_whole_year(text)?.into())]),
        Builtin::YearMonth => {
            let date = time::parse_year_month(text)?;
            Some(vec![("month", date.month.into()), ("year", date.year)])
        }
        _ => {
            let date = time::parse_month_day(text)?;
            Some(vec![("day", date.day.into()), ("month", date.month.into())])
        }
    }
}

/// The sign, the digits, and how many of them stand behind the point.
fn decimal_parts(text: &str) -> Option<(bool, String, i32)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let is_negative = mantissa.starts_with('-');
    let mantissa = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    Some((is_negative, format!("{whole}{fraction}"), i32::try_from(scale).ok()?))
}
