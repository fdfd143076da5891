//! java.time: from ISO 8601 text to hessian-lite's stand-ins, and the fields of those.
//!
//! hessian-lite writes a `LocalDate` as an object of class `LocalDateHandle` with its fields, and
//! makes the `LocalDate` again when it reads one. Composed types hold the stand-ins of their
//! parts.

use java_json::builtin::{Builtin, handle};
use java_json::time::{self, Date, Time, parse_date_time, whole};

use crate::Encoder;

/// Writes what `text` says as a value of the java.time class. Nothing if it does not say one; what
/// was written by then is to be dropped.
pub(super) fn from_text(enc: &mut Encoder<'_>, builtin: Builtin, text: &str) -> Option<()> {
    let bytes = text.as_bytes();
    match builtin {
        Builtin::LocalDate => whole(Date::parse(bytes)?).map(|date| write_date(enc, date)),
        Builtin::LocalTime => whole(Time::parse(bytes)?).map(|time| write_time(enc, time)),
        Builtin::LocalDateTime => {
            let (date, time) = whole(parse_date_time(bytes)?)?;
            write_date_time(enc, date, time)
        }
        Builtin::Instant => {
            let (seconds, nano) = time::parse_instant(bytes)?;
            write_seconds(enc, "Instant", seconds, nano.cast_signed())
        }
        Builtin::OffsetDateTime => {
            let ((date, time), rest) = parse_date_time(bytes)?;
            let offset = time::parse_offset(rest)?;
            enc.object_begin(&handle("OffsetDateTime"), &["dateTime", "offset"]);
            write_date_time(enc, date, time)?;
            write_offset(enc, offset);
            Some(())
        }
        Builtin::OffsetTime => {
            let (time, rest) = Time::parse(bytes)?;
            let offset = time::parse_offset(rest)?;
            enc.object_begin(&handle("OffsetTime"), &["localTime", "zoneOffset"]);
            write_time(enc, time);
            write_offset(enc, offset);
            Some(())
        }
        Builtin::ZonedDateTime => zoned(enc, text),
        Builtin::ZoneOffset => {
            write_offset(enc, time::parse_offset(bytes)?);
            Some(())
        }
        Builtin::ZoneId => {
            let zone = time::parse_zone(text)?;
            enc.object_begin(&handle("ZoneId"), &["zoneId"]);
            enc.string(&zone.name);
            Some(())
        }
        Builtin::Year => write_ints(enc, "Year", &["year"], &[time::parse_whole_year(text)?]),
        Builtin::YearMonth => {
            let date = time::parse_year_month(text)?;
            let year = i32::try_from(date.year).ok()?;
            write_ints(enc, "YearMonth", &["year", "month"], &[year, date.month.cast_signed()])
        }
        Builtin::MonthDay => {
            let date = time::parse_month_day(text)?;
            let fields = [date.month.cast_signed(), date.day.cast_signed()];
            write_ints(enc, "MonthDay", &["month", "day"], &fields)
        }
        Builtin::Duration => {
            let (seconds, nanos) = time::parse_duration(text)?;
            write_seconds(enc, "Duration", seconds, nanos)
        }
        Builtin::Period => {
            let [years, months, days] = time::parse_period(text)?;
            write_ints(enc, "Period", &["years", "months", "days"], &[years, months, days])
        }
        _ => None,
    }
}

/// `2024-01-02T03:04:05+08:00[Asia/Shanghai]`; without brackets the offset is the zone.
fn zoned(enc: &mut Encoder<'_>, text: &str) -> Option<()> {
    let ((date, time), rest) = parse_date_time(text.as_bytes())?;
    let rest = text.get(text.len() - rest.len()..)?;
    let (offset, zone) = match rest.split_once('[') {
        Some((offset, zone)) => (offset, zone.strip_suffix(']')?),
        None if rest == "z" => (rest, "Z"),
        None => (rest, rest),
    };
    let (seconds, zone) = (time::parse_offset(offset.as_bytes())?, time::parse_zone(zone)?);
    // Java would take the local time for one of the zone: another instant.
    if zone.offset.is_some_and(|of_zone| of_zone != seconds) {
        return None;
    }
    enc.object_begin(&handle("ZonedDateTime"), &["dateTime", "offset", "zoneId"]);
    write_date_time(enc, date, time)?;
    write_offset(enc, seconds);
    enc.string(&zone.name);
    Some(())
}

fn write_date(enc: &mut Encoder<'_>, date: Date) {
    enc.object_begin(&handle("LocalDate"), &["year", "month", "day"]);
    enc.int(i32::try_from(date.year).unwrap_or_default());
    enc.int(date.month.cast_signed());
    enc.int(date.day.cast_signed());
}

fn write_time(enc: &mut Encoder<'_>, time: Time) {
    enc.object_begin(&handle("LocalTime"), &["hour", "minute", "second", "nano"]);
    for part in [time.hour, time.minute, time.second, time.nano] {
        enc.int(part.cast_signed());
    }
}

fn write_date_time(enc: &mut Encoder<'_>, date: Date, time: Time) -> Option<()> {
    enc.object_begin(&handle("LocalDateTime"), &["date", "time"]);
    write_date(enc, date);
    write_time(enc, time);
    Some(())
}

fn write_offset(enc: &mut Encoder<'_>, seconds: i32) {
    enc.object_begin(&handle("ZoneOffset"), &["seconds"]);
    enc.int(seconds);
}

fn write_seconds(enc: &mut Encoder<'_>, name: &str, seconds: i64, nanos: i32) -> Option<()> {
    enc.object_begin(&handle(name), &["seconds", "nanos"]);
    enc.long(seconds);
    enc.int(nanos);
    Some(())
}

fn write_ints(enc: &mut Encoder<'_>, name: &str, fields: &[&str], values: &[i32]) -> Option<()> {
    enc.object_begin(&handle(name), fields);
    values.iter().for_each(|&value| enc.int(value));
    Some(())
}
