//! A time as an argument, such as `10s`.

use std::time::Duration;

/// Reads a time above 0: digits and a unit, which is a second if it is left out.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const FORMS: &str = "write a time above 0 such as 10s, 500ms or 2m";
    let n_digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(n_digits);
    let number: u32 = number.parse().map_err(|_| FORMS)?;
    let unit = match unit {
        "ms" => Duration::from_millis(1),
        "s" | "" => Duration::from_secs(1),
        "m" => Duration::from_secs(60),
        "h" => Duration::from_secs(3600),
        _ => return Err(FORMS.to_owned()),
    };
    if number == 0 { Err(FORMS.to_owned()) } else { Ok(unit * number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!((duration("2m"), duration("3")), (duration("120s"), duration("3000ms")));
        for wrong in ["", "s", "-1s", "0s", "1d", "1.5s", "99999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
