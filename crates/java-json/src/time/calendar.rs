//! Texts of which a whole value is made: dates with a time, and the parts of a date.

use super::{Date, Time};

/// What was parsed, if nothing follows it.
#[must_use]
pub fn whole<T>((value, rest): (T, &[u8])) -> Option<T> {
    rest.is_empty().then_some(value)
}

/// Reads `2024-01-02T03:04:05`, also with a blank between, and returns what follows.
#[must_use]
pub fn parse_date_time(text: &[u8]) -> Option<((Date, Time), &[u8])> {
    let (date, rest) = Date::parse(text)?;
    let (separator, rest) = rest.split_first()?;
    let (time, rest) = Time::parse(rest)?;
    matches!(separator, b'T' | b't' | b' ').then_some(((date, time), rest))
}

/// Reads a `java.time.Year`, such as `2024`.
#[must_use]
pub fn parse_whole_year(text: &str) -> Option<i32> {
    text.parse::<i32>().ok().filter(|year| year.unsigned_abs() <= 999_999_999)
}

/// Reads a `java.time.YearMonth`, such as `2024-02`: its first day.
#[must_use]
pub fn parse_year_month(text: &str) -> Option<Date> {
    // With a day, the text is a date.
    whole(Date::parse(format!("{text}-01").as_bytes())?)
}

/// Reads a `java.time.MonthDay`, such as `--02-29`: that day of a leap year.
#[must_use]
pub fn parse_month_day(text: &str) -> Option<Date> {
    // In a leap year every day exists that exists in some year.
    whole(Date::parse(format!("2000{}", text.strip_prefix('-')?).as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_dates_are_read_to_their_ends() {
        assert_eq!(parse_whole_year("-999999999"), Some(-999_999_999));
        for wrong in ["1000000000", "-2147483648", "2024-", ""] {
            assert_eq!(parse_whole_year(wrong), None, "{wrong}");
        }
        let parts = |date: Date| (date.year, date.month, date.day);
        assert_eq!(parse_year_month("2024-02").map(parts), Some((2024, 2, 1)));
        assert_eq!(parse_month_day("--02-29").map(parts), Some((2000, 2, 29)));
        for wrong in ["2024-02-03", "2024-13", "2024"] {
            assert_eq!(parse_year_month(wrong).map(parts), None, "{wrong}");
        }
        for wrong in ["--02-30", "02-29", "--02-29x", "-02-29"] {
            assert_eq!(parse_month_day(wrong).map(parts), None, "{wrong}");
        }
        let (_, rest) = parse_date_time(b"2024-01-02T03:04:05+08:00").unwrap();
        assert_eq!(rest, b"+08:00");
        assert!(parse_date_time(b"2024-01-02x03:04:05").is_none());
    }
}
