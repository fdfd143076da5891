//! Numbers of JSON whose Java type is not known, and Java's long numbers, as Hessian.

use java_json::bigint;
use java_json::number::{is_big_decimal, is_exact};

use crate::Encoder;

/// A number whose Java type is not known: the smallest of int, long and double that holds it
/// exactly, and `BigDecimal` where none does. Nothing is written if that has no such number.
pub(super) fn write_untyped(enc: &mut Encoder<'_>, text: &str) -> Option<()> {
    if let Ok(value) = text.parse::<i64>() {
        // Minus zero is a double, the only type that has one.
        if value != 0 || !text.starts_with('-') {
            match i32::try_from(value) {
                Ok(value) => enc.int(value),
                Err(_) => enc.long(value),
            }
            return Some(());
        }
    }
    // A whole number stays one, however round it is.
    let is_whole = text.bytes().all(|b| b.is_ascii_digit() || b == b'-') && text != "-0";
    match text.parse::<f64>() {
        Ok(value) if !is_whole && is_exact(text, value) => enc.double(value),
        _ if !is_big_decimal(text) => return None,
        _ => write_big_decimal(enc, text),
    }
    Some(())
}

/// `java.math.BigDecimal`, as hessian-lite writes it, of a number that is one.
pub(super) fn write_big_decimal(enc: &mut Encoder<'_>, text: &str) {
    enc.object_begin("java.math.BigDecimal", &["value"]);
    enc.string(text);
}

/// `java.math.BigInteger`, as hessian-lite writes it, but without the fields that only cache.
/// Nothing is written if the text is not an integer of a bounded length.
pub(super) fn write_big_integer(enc: &mut Encoder<'_>, text: &str) -> Option<()> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let words = bigint::parse_decimal(digits.as_bytes())?;
    enc.object_begin("java.math.BigInteger", &["signum", "mag"]);
    enc.int(match (words.is_empty(), text.starts_with('-')) {
        (true, _) => 0,
        (false, true) => -1,
        (false, false) => 1,
    });
    enc.list_begin(Some("[int"), words.len());
    for word in words {
        enc.int(word.cast_signed());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoder, Limits, Value};

    fn untyped(text: &str) -> Value {
        let mut out = Vec::new();
        write_untyped(&mut Encoder::new(&mut out), text).unwrap();
        Decoder::new(&out, Limits::default()).read_value().unwrap()
    }

    #[test]
    fn the_smallest_type_that_holds_the_number_is_taken() {
        assert_eq!(untyped("0"), Value::Int(0));
        assert_eq!(untyped("-2147483648"), Value::Int(i32::MIN));
        assert_eq!(untyped("2147483648"), Value::Long(2_147_483_648));
        assert_eq!(untyped("9223372036854775807"), Value::Long(i64::MAX));
        assert_eq!(untyped("1.0"), Value::Double(1.0));
        assert_eq!(untyped("1e300"), Value::Double(1e300));
        assert_eq!(untyped("0.30000000000000004"), Value::Double(0.1 + 0.2));
        assert_eq!(untyped("0.0000"), Value::Double(0.0));
        assert_eq!(untyped("5e-324"), Value::Double(5e-324));
        assert!(matches!(untyped("-0"), Value::Double(v) if v.is_sign_negative()));
    }

    #[test]
    fn what_a_double_would_change_becomes_a_big_decimal() {
        let round = "10043690281865288000";
        for text in
            [round, "9223372036854775808", "0.1234567890123456789", "1e400", "1e-400", "3e-324"]
        {
            let expected = vec![("value", Value::string(text))];
            assert_eq!(untyped(text), Value::object("java.math.BigDecimal", expected), "{text}");
        }
    }
}
