//! The words of errors: what stands in a JSON text, and what its Java type takes instead.

use crate::Limits;
use crate::Schema;
use crate::builtin::Builtin;
use crate::json::JsonReader;

/// A message shows no more of a value than this, in bytes.
const MAX_SHOWN: usize = 48;

/// The JSON value at `offset` of `text`, shortened.
#[must_use]
pub fn found_at(text: &[u8], offset: usize) -> Box<str> {
    let rest = text.get(offset..).unwrap_or_default();
    let value = JsonReader::new(rest, Limits::of_whole()).skip_value().unwrap_or(rest);
    shortened(&String::from_utf8_lossy(value))
}

/// A text as JSON, shortened.
#[must_use]
pub fn quoted(text: &str) -> Box<str> {
    let mut json = Vec::new();
    crate::json::write_string(&mut json, text);
    shortened(&String::from_utf8_lossy(&json))
}

fn shortened(text: &str) -> Box<str> {
    match text.len() {
        ..=MAX_SHOWN => text.into(),
        _ => format!("{}...", text.split_at(text.floor_char_boundary(MAX_SHOWN)).0).into(),
    }
}

/// A message lists no more values of an enum than this.
const MAX_NAMES: usize = 32;

/// What a class takes, if a text does not become one of it: what is known to be no enum, and an
/// enum of which it is known that `name` is none of its values.
#[must_use]
pub fn enum_without(schema: &dyn Schema, class: &str, name: &str) -> Option<Box<str>> {
    if !schema.takes_text(class) {
        return Some(format!("an object of {class}, which is no enum").into());
    }
    if schema.takes_constant(class, name) {
        return None;
    }
    schema.enum_names(class)?;
    Some(enum_values(schema, class))
}

/// What an enum takes, if an object does not become one of its values.
#[must_use]
pub fn enum_values(schema: &dyn Schema, class: &str) -> Box<str> {
    let Some(names) = schema.enum_names(class) else {
        return format!("a value of {class}").into();
    };
    let mut list = names.iter().take(MAX_NAMES).map(|name| &**name).collect::<Vec<_>>().join(", ");
    if MAX_NAMES < names.len() {
        list.push_str(", ...");
    }
    format!("a value of {class} ({list})").into()
}

/// An element of a `byte[]`: some writers have a sign, and others none.
pub const BYTE_OF_ARRAY: &str = "a byte (a whole number from -128 to 255)";

/// What JSON a scalar class takes.
#[must_use]
pub fn scalar(builtin: Builtin) -> &'static str {
    match builtin {
        Builtin::Boolean => "a boolean (true or false)",
        Builtin::Byte => "a byte (a whole number from -128 to 127)",
        Builtin::Short => "a short (a whole number from -32768 to 32767)",
        Builtin::Char => "a char (a text of one UTF-16 unit)",
        Builtin::Int | Builtin::AtomicInteger => {
            "an int (a whole number from -2147483648 to 2147483647)"
        }
        Builtin::Long | Builtin::AtomicLong => {
            "a long (a whole number from -9223372036854775808 to 9223372036854775807)"
        }
        Builtin::Float => {
            "a float (a number up to 3.4028235e38, \"NaN\", \"Infinity\" or \"-Infinity\")"
        }
        Builtin::Double => {
            "a double (a number up to 1.7976931348623157e308, \"NaN\", \"Infinity\" or \"-Infinity\")"
        }
        Builtin::BigDecimal => {
            "a java.math.BigDecimal (a number, whose scale and exponent fit into 32 bits)"
        }
        Builtin::BigInteger => {
            "a java.math.BigInteger (a whole number of up to 2467 digits, without point and exponent)"
        }
        Builtin::Date | Builtin::SqlDate | Builtin::Calendar => {
            "a date (ISO 8601 such as 2024-02-29T13:05:59Z, or whole milliseconds since 1970)"
        }
        Builtin::BitSet => {
            "a java.util.BitSet (an object with a list of longs, such as {\"words\":[5]})"
        }
        Builtin::TextValue => "a UUID (such as 123e4567-e89b-12d3-a456-426614174000)",
        Builtin::Currency => "the code of a currency that Java knows (such as EUR)",
        Builtin::ClassName => {
            "the name of a class, primitive type or array (such as java.lang.String, int or [I)"
        }
        Builtin::Locale => "a locale with _ between its parts (such as zh_CN, not zh-CN)",
        Builtin::Year => "a java.time.Year (a year from -999999999 to 999999999)",
        Builtin::ZonedDateTime => {
            "a time with an offset and a zone that Java knows (2024-02-29T13:05:59+08:00[Asia/Shanghai])"
        }
        Builtin::ZoneId => "a zone that Java knows (such as Asia/Shanghai, UTC or +08:00)",
        _ => "the ISO 8601 text of the java.time class",
    }
}
