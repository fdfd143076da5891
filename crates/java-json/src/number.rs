//! Numbers of JSON as numbers of Java, without loss.

use crate::Limits;
use crate::json::JsonReader;

/// The integer that a JSON number or text stands for: `7`, `7.0`, `7e2`. Nothing if it is none, or
/// lies outside of 64 bits. No digit is lost: `0.99999999999999999999` is not 1.
pub fn integer(text: &str) -> Option<i64> {
    if let Ok(value) = text.parse::<i64>() {
        // Rust takes a plus sign, which JSON does not; for a text in a string it does no harm.
        return Some(value);
    }
    let mut reader = JsonReader::new(text.as_bytes(), Limits::default());
    if reader.read_number() != Ok(text) {
        return None;
    }
    let (digits, power) = digits_of(text)?;
    // More than 19 digits before the point are more than 64 bits, and none may stand behind it.
    let n_digits = usize::try_from(power).ok().filter(|&power| power <= 19)?;
    let n_zeros = n_digits.checked_sub(digits.len())?;
    let is_negative = text.starts_with('-');
    digits
        .iter()
        .map(|digit| i64::from(digit - b'0'))
        .chain(std::iter::repeat_n(0, n_zeros))
        .try_fold(0_i64, |value, digit| {
            let value = value.checked_mul(10)?;
            if is_negative { value.checked_sub(digit) } else { value.checked_add(digit) }
        })
}

/// Whether Java's `BigDecimal` has the number of a JSON text: its exponent and its scale, which is
/// the digits after the point less the exponent, have 32 bits.
#[must_use]
pub fn is_big_decimal(text: &str) -> bool {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return true };
    let fraction = mantissa.split_once('.').map_or("", |(_, fraction)| fraction);
    let Ok(exponent) = exponent.parse::<i32>() else { return false };
    i64::try_from(fraction.len())
        .is_ok_and(|n_digits| i32::try_from(n_digits - i64::from(exponent)).is_ok())
}

/// The doubles that JSON has no number for, by their names in Java.
pub fn named_double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// What a number has to be in a generic call.
pub const GENERIC_NUMBER: &str = "a number that a generic call can carry: it changes \
     whole numbers beyond 64 bits, whose type it does not know; send the parameter types, or write \
     {\"class\": \"java.math.BigInteger\", \"value\": ..}";

/// What becomes of a number of unknown type in a generic call. Java makes of it what the method
/// takes: of a double a `BigDecimal` by its shortest text, and of whatever is no `BigInteger` one
/// by its low 64 bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InGenericCall {
    /// The same as elsewhere.
    Usual,
    /// A `BigDecimal`, for zeros at the end that a double does not have: `19.90`.
    Decimal,
    /// There is none that is the same whatever the method takes.
    Nothing,
}

impl InGenericCall {
    /// Of the text of a JSON number.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        if unsigned.bytes().all(|b| b.is_ascii_digit()) {
            return if text.parse::<i64>().is_ok() { Self::Usual } else { Self::Nothing };
        }
        let has_zeros = unsigned.split_once('.').is_some_and(|(_, fraction)| {
            1 < fraction.len()
                && fraction.ends_with('0')
                && fraction.bytes().all(|b| b.is_ascii_digit())
        });
        // Minus zero is a double, the only type that has one.
        let is_minus_zero =
            text.starts_with('-') && text.bytes().all(|b| !(b'1'..=b'9').contains(&b));
        if has_zeros && !is_minus_zero { Self::Decimal } else { Self::Usual }
    }

    /// Whether a JSON text may hold a number of [`InGenericCall::Decimal`].
    pub fn may_have_decimal(json: &[u8]) -> bool {
        memchr::memchr_iter(b'.', json).any(|at| {
            let after = json.get(at + 1..).unwrap_or_default();
            let len = after.iter().take_while(|b| b.is_ascii_digit()).count();
            1 < len && after.get(len - 1) == Some(&b'0')
        })
    }

    /// Whether a JSON text may hold a number of [`InGenericCall::Nothing`].
    #[must_use]
    pub fn may_have_nothing(json: &[u8]) -> bool {
        json.split(|b| !b.is_ascii_digit()).any(|digits| 19 <= digits.len())
    }
}

/// Whether a double says the same number as `text`: then its shortest text has the same digits.
pub fn is_exact(text: &str, value: f64) -> bool {
    if !value.is_finite() {
        return false;
    }
    // A double tells any 15 digits apart.
    let n_digits = text.bytes().take_while(|b| !matches!(b, b'e' | b'E'));
    if n_digits.filter(u8::is_ascii_digit).count() <= 15 && value != 0.0 && value.is_normal() {
        return true;
    }
    let mut buffer = zmij::Buffer::new();
    digits_of(text) == digits_of(buffer.format_finite(value))
}

/// The digits of a number without zeros at either end, and the power of ten of the first one.
/// Nothing for exponents that nobody means.
pub fn digits_of(text: &str) -> Option<(Vec<u8>, i64)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    if 1_000_000 < exponent.abs() {
        return None;
    }
    let mantissa = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = || whole.bytes().chain(fraction.bytes());
    let n_zeros = all().take_while(|&b| b == b'0').count();
    let mut digits: Vec<u8> = all().skip(n_zeros).collect();
    let n_trailing = digits.iter().rev().take_while(|&&b| b == b'0').count();
    digits.truncate(digits.len() - n_trailing);
    if digits.is_empty() {
        return Some((digits, 0));
    }
    let power = i64::try_from(whole.len()).ok()? - i64::try_from(n_zeros).ok()? + exponent;
    Some((digits, power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generic_call_takes_numbers_that_java_does_not_change() {
        use InGenericCall::{Decimal, Nothing, Usual};
        for (text, expected) in [
            ("7", Usual),
            ("9223372036854775807", Usual),
            ("-9223372036854775808", Usual),
            ("9223372036854775808", Nothing),
            ("-18446744073709551617", Nothing),
            ("1e30", Usual),
            ("19.9", Usual),
            ("19.0", Usual),
            ("19.90", Decimal),
            ("-19.00", Decimal),
            ("0.00", Decimal),
            ("-0.00", Usual),
            ("1.50e3", Usual),
            ("0.12345678901234567890", Decimal),
        ] {
            assert_eq!(InGenericCall::of(text), expected, "{text}");
            let json = format!("[{text},1]");
            let may_have = InGenericCall::may_have_decimal(json.as_bytes());
            assert!(expected != Decimal || may_have, "{text}");
            let may_have = InGenericCall::may_have_nothing(json.as_bytes());
            assert!(expected != Nothing || may_have, "{text}");
        }
        assert!(!InGenericCall::may_have_decimal(b"[1.5,100,\"a.b\",\"1.0\"]"));
        assert!(!InGenericCall::may_have_nothing(b"[123456789012345678]"));
    }

    /// As `new BigDecimal(text)` of Java 17.
    #[test]
    fn a_big_decimal_has_a_scale_and_an_exponent_of_32_bits() {
        for text in ["7", "-1.50", "1E+2147483647", "1e-2147483647", "1E00000000000000005"] {
            assert!(is_big_decimal(text), "{text}");
        }
        for text in [
            "1E-2147483648",
            "10E-2147483648",
            "0.1E-2147483647",
            "0.1E+2147483648",
            "1E+3000000000",
            "0E+3000000000",
            "1e99999999999999999999",
        ] {
            assert!(!is_big_decimal(text), "{text}");
        }
        assert!(is_big_decimal("0.1E-2147483646"));
    }

    #[test]
    fn whole_numbers_are_integers_however_they_are_written() {
        assert_eq!(integer("7.0"), Some(7));
        assert_eq!(integer("7e2"), Some(700));
        assert_eq!(integer("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer("-9.223372036854775808e18"), Some(i64::MIN));
        assert_eq!(integer("9007199254740993.0"), Some(9_007_199_254_740_993));
        assert_eq!(integer("1230e-1"), Some(123));
        assert_eq!(
            (integer("0.000"), integer("-0.0"), integer("0e9")),
            (Some(0), Some(0), Some(0))
        );
        for text in [
            "7.5",
            "1e30",
            "9223372036854775808",
            "9.223372036854775808e18",
            "0.99999999999999999999",
            "2147483647.0000000001",
            "9007199254740992.5",
            "1e-1",
            "1e999999999999",
            "",
            "x",
            "NaN",
            "inf",
            "1.",
            ".5e1",
        ] {
            assert_eq!(integer(text), None, "{text}");
        }
    }
}
