//! What Java's `String.valueOf` shows of a value that is here as JSON.
//!
//! Consistent hashing and rules go by it, so that a caller by HTTP is led where a Java consumer
//! with the same value is.

use std::borrow::Cow;

use hessian::JavaType;
use hessian::transcode::builtin::Builtin;

/// What Java shows of a text, a number, a boolean or null. A number of which the type is not known
/// is taken for what a generic call makes of it.
pub fn text_of_json<'a>(json: &'a [u8], ty: Option<&JavaType>) -> Option<Cow<'a, str>> {
    match json.first()? {
        b'"' => serde_json::from_slice::<String>(json).ok().map(Cow::Owned),
        b'{' | b'[' => None,
        b'-' | b'0'..=b'9' => std::str::from_utf8(json).ok().map(|text| text_of_number(text, ty)),
        _ => std::str::from_utf8(json).ok().map(Cow::Borrowed),
    }
}

/// The same of what is at a path in a JSON value: the names of members, one in the other.
pub fn member_of_json(json: &[u8], path: &[String]) -> Option<Cow<'static, str>> {
    let value: serde_json::Value = serde_json::from_slice(json).ok()?;
    let found = path.iter().try_fold(&value, |value, name| value.get(name))?;
    let text = text_of_json(found.to_string().as_bytes(), None)?.into_owned();
    Some(Cow::Owned(text))
}

/// A number as Java shows one of that type. What is none stays as it is.
pub(super) fn text_of_number<'a>(text: &'a str, ty: Option<&JavaType>) -> Cow<'a, str> {
    let is_written_whole = || !text.contains(['.', 'e', 'E']);
    let shown = match kind_of(ty) {
        NumberKind::Whole => whole(text),
        NumberKind::Float => text.parse::<f32>().ok().filter(|it| it.is_finite()).map(|value| {
            let magnitude = f64::from(value.abs());
            shown(magnitude, format!("{value:?}"), format!("{value:E}"))
        }),
        NumberKind::Unknown if is_written_whole() => None,
        NumberKind::Double | NumberKind::Unknown => text
            .parse::<f64>()
            .ok()
            .filter(|it| it.is_finite())
            .map(|value| shown(value.abs(), format!("{value:?}"), format!("{value:E}"))),
        NumberKind::None => None,
    };
    shown.map_or(Cow::Borrowed(text), Cow::Owned)
}

enum NumberKind {
    Whole,
    Float,
    Double,
    Unknown,
    /// It has no such form, or keeps the one it is written in.
    None,
}

fn kind_of(ty: Option<&JavaType>) -> NumberKind {
    match ty {
        None => NumberKind::Unknown,
        Some(JavaType::Byte | JavaType::Short | JavaType::Int | JavaType::Long) => {
            NumberKind::Whole
        }
        Some(JavaType::Float) => NumberKind::Float,
        Some(JavaType::Double) => NumberKind::Double,
        Some(JavaType::Class(class)) => match class.builtin() {
            Some(Builtin::Byte | Builtin::Short | Builtin::Int | Builtin::Long) => {
                NumberKind::Whole
            }
            Some(Builtin::Float) => NumberKind::Float,
            Some(Builtin::Double) => NumberKind::Double,
            // What it is declared as does not say which number it is.
            None | Some(Builtin::Any | Builtin::Number) => NumberKind::Unknown,
            Some(_) => NumberKind::None,
        },
        Some(_) => NumberKind::None,
    }
}

/// A whole number, which may be written as `1e3`.
fn whole(text: &str) -> Option<String> {
    let value = text.parse::<i64>().ok().or_else(|| {
        let value = text.parse::<f64>().ok()?;
        let is_exact = value.fract() == 0.0 && value.abs() < 2_f64.powi(53);
        is_exact.then(|| format!("{value:.0}").parse().ok()).flatten()
    })?;
    Some(value.to_string())
}

/// As `Double.toString` shows it: plainly from 10^-3 to below 10^7, else as `1.0E10`.
fn shown(magnitude: f64, plain: String, scientific: String) -> String {
    if magnitude == 0.0 || (1e-3..1e7).contains(&magnitude) {
        return plain;
    }
    match scientific.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => scientific,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_as(json: &str, ty: &str) -> String {
        let ty = (!ty.is_empty()).then(|| JavaType::parse(ty).unwrap());
        text_of_json(json.as_bytes(), ty.as_ref()).unwrap().into_owned()
    }

    /// As `String.valueOf` of Java 17 shows them.
    #[test]
    fn numbers_are_shown_as_java_shows_them() {
        for (json, ty, expected) in [
            ("7", "double", "7.0"),
            ("100", "java.lang.Double", "100.0"),
            ("3", "float", "3.0"),
            ("0.1", "float", "0.1"),
            ("1e10", "double", "1.0E10"),
            ("10000000000.0", "", "1.0E10"),
            ("12345678", "double", "1.2345678E7"),
            ("9999999", "double", "9999999.0"),
            ("0.001", "double", "0.001"),
            ("0.00001", "double", "1.0E-5"),
            ("1.50", "double", "1.5"),
            ("-0", "double", "-0.0"),
            ("-0", "int", "0"),
            ("1e3", "long", "1000"),
            ("9007199254740993", "long", "9007199254740993"),
            ("5", "", "5"),
            ("1e3", "", "1000.0"),
            ("1.50", "java.math.BigDecimal", "1.50"),
            ("5", "java.lang.Object", "5"),
            ("1e10", "java.lang.Comparable", "1.0E10"),
            ("\"5\"", "double", "5"),
            ("true", "boolean", "true"),
            ("null", "double", "null"),
        ] {
            assert_eq!(shown_as(json, ty), expected, "{json} as {ty}");
        }
        assert_eq!(text_of_json(b"[1]", None), None);
        let path = ["a".to_owned(), "b".to_owned()];
        let member = member_of_json(br#"{"a":{"b":1e10}}"#, &path);
        assert_eq!(member.as_deref(), Some("1.0E10"));
    }
}
