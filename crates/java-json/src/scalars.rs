//! JSON scalars as values of Java's types, whatever the format that they are written in
//! afterwards.
//!
//! Invariant: what a type does not have is refused here, and nothing is rounded but by Java's
//! rules.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::JavaType;
use crate::Limits;
use crate::builtin::Builtin;
use crate::expected;
use crate::json::{JsonError, JsonKind, JsonReader, Short};
use crate::{number, texts, time};

/// With or without padding, for both are met.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why JSON is no value of a Java type.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Misfit {
    /// It is no JSON, or over a limit.
    Json(JsonError),
    /// It is of a kind that the type cannot take.
    Kind {
        /// Where the value begins.
        offset: usize,
        /// What the value is.
        found: &'static str,
        /// The Java type.
        expected: Box<str>,
    },
    /// A number or string that the type does not have.
    Value {
        /// Where the value begins.
        offset: usize,
        /// The value as JSON, shortened.
        found: Box<str>,
        /// What it should be.
        expected: Box<str>,
    },
}

impl From<JsonError> for Misfit {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

impl Misfit {
    /// The value that comes next cannot become `expected`.
    #[cold]
    #[must_use]
    pub fn kind(json: &JsonReader<'_>, expected: &str) -> Self {
        let mut json = json.clone();
        let found = match json.peek() {
            Ok(JsonKind::Null) => "null",
            Ok(JsonKind::Bool) => "a boolean",
            Ok(JsonKind::Number) => "a number",
            Ok(JsonKind::String) => "a string",
            Ok(JsonKind::Array) => "an array",
            Ok(JsonKind::Object) => "an object",
            Err(error) => return error.into(),
        };
        Self::Kind { offset: json.position(), found, expected: expected.into() }
    }

    /// The number or string at `offset` is not what it should be.
    #[cold]
    #[must_use]
    pub fn value(json: &JsonReader<'_>, offset: usize, expected: &str) -> Self {
        let found = expected::found_at(json.text(), offset);
        Self::Value { offset, found, expected: expected.into() }
    }
}

/// What JSON is as a value of a primitive type; nothing for `void`, and for what is no primitive.
#[must_use]
pub fn of_primitive(ty: &JavaType) -> Option<Builtin> {
    Some(match ty {
        JavaType::Boolean => Builtin::Boolean,
        JavaType::Byte => Builtin::Byte,
        JavaType::Char => Builtin::Char,
        JavaType::Short => Builtin::Short,
        JavaType::Int => Builtin::Int,
        JavaType::Long => Builtin::Long,
        JavaType::Float => Builtin::Float,
        JavaType::Double => Builtin::Double,
        _ => return None,
    })
}

/// Whether an array of these elements holds objects of a class that the mapping does not know, on
/// whatever level.
#[must_use]
pub fn is_of_beans(element: &JavaType) -> bool {
    match element {
        JavaType::Array(inner) => is_of_beans(inner),
        JavaType::Class(class) => class.builtin().is_none(),
        _ => false,
    }
}

/// A boolean, or a string that says one.
///
/// # Errors
/// [`Misfit`] if it is neither.
pub fn boolean(json: &mut JsonReader<'_>) -> Result<bool, Misfit> {
    let kind = json.peek()?;
    let offset = json.position();
    if kind == JsonKind::Bool {
        return Ok(json.read_bool()?);
    }
    match &*json.read_string()? {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Misfit::value(json, offset, expected::scalar(Builtin::Boolean))),
    }
}

/// A whole number from `min` to `max`, or a string that holds one.
///
/// # Errors
/// [`Misfit`] if it is something else.
#[inline]
pub fn integer(
    json: &mut JsonReader<'_>,
    min: i64,
    max: i64,
    expected: &'static str,
) -> Result<i64, Misfit> {
    let kind = json.peek()?;
    let offset = json.position();
    if !matches!(kind, JsonKind::Number | JsonKind::String) {
        return Err(Misfit::kind(json, expected));
    }
    let short = if kind == JsonKind::Number { json.read_short_int() } else { None };
    let value = match short {
        Some(value) => Some(value),
        None => number::integer(&number_text(json)?),
    };
    value
        .filter(|value| (min..=max).contains(value))
        .ok_or_else(|| Misfit::value(json, offset, expected))
}

/// A number that a float or double has, rounded as Java does, or a string that holds or names one.
/// Java makes a float of the double that it reads.
///
/// # Errors
/// [`Misfit`] if it is something else, or too large.
#[inline]
pub fn double(json: &mut JsonReader<'_>, is_float: bool) -> Result<f64, Misfit> {
    let kind = json.peek()?;
    let offset = json.position();
    let value = if kind == JsonKind::String {
        let text = json.read_string()?;
        match number::named_double(&text) {
            Some(value) => return Ok(value),
            None => text.parse::<f64>().unwrap_or(f64::INFINITY),
        }
    } else {
        match json.read_short_number() {
            #[expect(clippy::cast_precision_loss, reason = "rounded, as the library does")]
            Some(Short::Int(value)) => value as f64,
            Some(Short::Double(value)) => value,
            None => json.read_number()?.parse::<f64>().unwrap_or(f64::INFINITY),
        }
    };
    #[expect(clippy::cast_possible_truncation, reason = "only to see whether it is too large")]
    let is_of_type = value.is_finite() && !(is_float && (value as f32).is_infinite());
    if is_of_type {
        return Ok(value);
    }
    let builtin = if is_float { Builtin::Float } else { Builtin::Double };
    Err(Misfit::value(json, offset, expected::scalar(builtin)))
}

/// The text of a number of any length, which may stand in a string.
///
/// # Errors
/// [`Misfit`] if it is no number as JSON has it, or none that a `BigDecimal` has.
pub fn big_number<'a>(json: &mut JsonReader<'a>, builtin: Builtin) -> Result<Cow<'a, str>, Misfit> {
    json.peek()?;
    let offset = json.position();
    let text = number_text(json)?;
    let mut reader = JsonReader::new(text.as_bytes(), Limits::default());
    let is_number = reader.read_number() == Ok(&*text);
    if !is_number || builtin == Builtin::BigDecimal && !number::is_big_decimal(&text) {
        return Err(Misfit::value(json, offset, expected::scalar(builtin)));
    }
    Ok(text)
}

/// A date in milliseconds since 1970: such a number, or a text of ISO 8601.
///
/// # Errors
/// [`Misfit`] if it is something else.
pub fn date_ms(json: &mut JsonReader<'_>, builtin: Builtin) -> Result<i64, Misfit> {
    let kind = json.peek()?;
    let offset = json.position();
    let expected = expected::scalar(builtin);
    if kind == JsonKind::Number {
        return integer(json, i64::MIN, i64::MAX, expected);
    }
    let text = json.read_string()?;
    time::parse_ms(&text)
        .or_else(|| text.parse::<i64>().ok())
        .ok_or_else(|| Misfit::value(json, offset, expected))
}

/// A string of one UTF-16 unit.
///
/// # Errors
/// [`Misfit`] if it is something else.
pub fn char<'a>(json: &mut JsonReader<'a>) -> Result<Cow<'a, str>, Misfit> {
    let kind = json.peek()?;
    let offset = json.position();
    if kind != JsonKind::String {
        return Err(Misfit::kind(json, "char"));
    }
    let text = json.read_string()?;
    if text.encode_utf16().take(2).count() != 1 {
        return Err(Misfit::value(json, offset, expected::scalar(Builtin::Char)));
    }
    Ok(text)
}

/// The bytes that a string holds in base64.
///
/// # Errors
/// [`Misfit`] if it is something else.
pub fn base64(json: &mut JsonReader<'_>) -> Result<Vec<u8>, Misfit> {
    json.peek()?;
    let offset = json.position();
    let text = json.read_string()?;
    BASE64.decode(text.as_bytes()).map_err(|_| Misfit::value(json, offset, "base64"))
}

/// The bytes that an array of numbers is.
///
/// # Errors
/// [`Misfit`] if an element is something else.
pub fn byte_array(json: &mut JsonReader<'_>) -> Result<Vec<u8>, Misfit> {
    let mut bytes = Vec::new();
    let mut array = json.begin_array()?;
    while json.next_element(&mut array)? {
        let value = integer(json, i8::MIN.into(), u8::MAX.into(), expected::BYTE_OF_ARRAY)?;
        // Bytes are written from -128 to 127 by some, and from 0 to 255 by others.
        let [.., low] = value.to_be_bytes();
        bytes.push(low);
    }
    Ok(bytes)
}

/// What a `BitSet` has to be in a generic call: of a map Java makes an empty one.
pub const GENERIC_BIT_SET: &str = "\
    a java.util.BitSet that a generic call can carry, which does not know its type: send the \
    parameter types, or write {\"class\": \"java.util.BitSet\", \"words\": ..}";

/// The words of a `BitSet`, which are the member `words` of an object: 64 bits each.
///
/// # Errors
/// [`Misfit`] if the object has no such list of longs.
pub fn bit_set(json: &mut JsonReader<'_>) -> Result<Vec<i64>, Misfit> {
    json.peek()?;
    let offset = json.position();
    let mut words = None;
    let mut object = json.begin_object()?;
    while let Some(key) = json.next_key(&mut object)? {
        match (&*key, json.peek()?) {
            ("words", JsonKind::Array) => words = Some(longs(json)?),
            ("words", _) => return Err(Misfit::kind(json, "the words of a java.util.BitSet")),
            _ => json.skip_value().map(drop)?,
        }
    }
    words.ok_or_else(|| Misfit::value(json, offset, expected::scalar(Builtin::BitSet)))
}

fn longs(json: &mut JsonReader<'_>) -> Result<Vec<i64>, Misfit> {
    let mut longs = Vec::new();
    let mut array = json.begin_array()?;
    while json.next_element(&mut array)? {
        longs.push(integer(json, i64::MIN, i64::MAX, expected::scalar(Builtin::Long))?);
    }
    Ok(longs)
}

/// The text that an array of strings of one UTF-16 unit is.
///
/// # Errors
/// [`Misfit`] if an element is something else.
pub fn char_array(json: &mut JsonReader<'_>) -> Result<String, Misfit> {
    let mut text = String::new();
    let mut array = json.begin_array()?;
    while json.next_element(&mut array)? {
        text.push_str(&char(json)?);
    }
    Ok(text)
}

/// Checks the text of a class of which Java reads only some texts. Its reader of Hessian takes
/// null for most others.
///
/// # Errors
/// What the text should be.
pub fn check_text(builtin: Builtin, class: &str, text: &str) -> Result<(), &'static str> {
    let is_right = match builtin {
        Builtin::TextValue if class == "java.util.UUID" => texts::parse_uuid(text).is_some(),
        Builtin::Currency => texts::is_currency_code(text),
        Builtin::ClassName => texts::class_name(text).is_some(),
        Builtin::Locale => texts::is_locale(text),
        _ => true,
    };
    if is_right { Ok(()) } else { Err(expected::scalar(builtin)) }
}

/// A number, or a string that should hold one.
fn number_text<'a>(json: &mut JsonReader<'a>) -> Result<Cow<'a, str>, Misfit> {
    match json.peek()? {
        JsonKind::Number => Ok(Cow::Borrowed(json.read_number()?)),
        _ => Ok(json.read_string()?),
    }
}
