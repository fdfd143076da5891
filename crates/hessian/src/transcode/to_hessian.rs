//! JSON to Hessian.
//!
//! Invariants:
//! - One pass over the text, but for objects that become Hessian objects: their names have to be
//!   written before their values, so that they are looked through once before. The ends of the
//!   objects inside are remembered then, so that nothing is looked through at every level again.
//! - What is written when an error comes stays in the buffer; the caller drops it.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::builtin::Builtin;
use super::{TranscodeError, scalar, temporal, time};
use crate::java_type::ClassType;
use crate::json::{JsonKind, JsonReader};
use crate::{Encoder, JavaType};

/// With or without padding, for both are met.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What is known of classes beside their names: the types of their fields.
pub trait Schema {
    /// The type of a field, where it is known.
    fn field_type(&self, class: &str, field: &str) -> Option<&JavaType>;
}

/// Nothing is known.
impl Schema for () {
    fn field_type(&self, _class: &str, _field: &str) -> Option<&JavaType> {
        None
    }
}

/// Writes the JSON value that `json` is at, as a value of the Java type `ty`; without a type, as
/// what the JSON value looks like. The table is in docs/json-mapping.md.
///
/// # Errors
/// [`TranscodeError`] if the text is no JSON, or a value does not fit its type.
pub fn json_to_hessian(
    json: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    enc: &mut Encoder<'_>,
) -> Result<(), TranscodeError> {
    json_to_hessian_with(json, ty, enc, &())
}

/// Like [`json_to_hessian`], where the types of fields are known too.
///
/// # Errors
/// [`TranscodeError`] if the text is no JSON, or a value does not fit its type.
pub fn json_to_hessian_with(
    json: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    enc: &mut Encoder<'_>,
    schema: &dyn Schema,
) -> Result<(), TranscodeError> {
    let mut writer = Writer {
        json,
        enc,
        schema,
        keys: Vec::new(),
        ends: Vec::new(),
        scanned: 0,
        has_class: None,
    };
    writer.value(ty)
}

struct Writer<'r, 'a, 'e, 'o, 's> {
    json: &'r mut JsonReader<'a>,
    enc: &'e mut Encoder<'o>,
    schema: &'s dyn Schema,
    /// The names of the object that is being looked through.
    keys: Vec<Cow<'a, str>>,
    /// Where the arrays and objects begin and end that were passed while looking through, in order.
    ends: Vec<(usize, usize)>,
    /// Up to where `ends` is complete.
    scanned: usize,
    /// Whether the rest of the text has a member named `class` at all, once somebody asked.
    has_class: Option<bool>,
}

impl<'a> Writer<'_, 'a, '_, '_, '_> {
    fn value(&mut self, ty: Option<&JavaType>) -> Result<(), TranscodeError> {
        match ty {
            None => self.untyped(),
            Some(JavaType::Class(class)) => self.class_value(class),
            Some(JavaType::Array(element)) => self.array(element),
            Some(primitive) => {
                let builtin = match primitive {
                    JavaType::Boolean => Builtin::Boolean,
                    JavaType::Byte => Builtin::Byte,
                    JavaType::Char => Builtin::Char,
                    JavaType::Short => Builtin::Short,
                    JavaType::Int => Builtin::Int,
                    JavaType::Long => Builtin::Long,
                    JavaType::Float => Builtin::Float,
                    JavaType::Double => Builtin::Double,
                    _ => return Err(self.wrong_kind(self.json.clone().peek()?, "void")),
                };
                if self.json.peek()? == JsonKind::Null {
                    return Err(self.wrong_kind(JsonKind::Null, &primitive.java_name()));
                }
                self.scalar(builtin, "")
            }
        }
    }

    /// Whatever the JSON value looks like.
    fn untyped(&mut self) -> Result<(), TranscodeError> {
        match self.json.peek()? {
            JsonKind::Null => self.null(),
            JsonKind::Bool => {
                self.enc.bool(self.json.read_bool()?);
                Ok(())
            }
            JsonKind::Number => {
                scalar::write_untyped(self.enc, self.json.read_number()?);
                Ok(())
            }
            JsonKind::String => self.text(),
            JsonKind::Array => self.elements(None, None),
            JsonKind::Object if self.may_have_class() => self.object(None),
            JsonKind::Object => self.members(None, None, None),
        }
    }

    fn class_value(&mut self, class: &ClassType) -> Result<(), TranscodeError> {
        let Some(builtin) = class.builtin() else {
            return self.bean_value(class.name());
        };
        if builtin == Builtin::Any {
            return self.untyped();
        }
        let kind = self.json.peek()?;
        match (builtin, kind) {
            (_, JsonKind::Null) => self.null(),
            (Builtin::List, JsonKind::Array) => {
                self.elements(Builtin::list_type(class.name()), class.args().first())
            }
            (Builtin::Map, JsonKind::Object) => {
                let (key, value) = (class.args().first(), class.args().get(1));
                self.members(Builtin::map_type(class.name()), key, value)
            }
            (Builtin::List | Builtin::Map, _) => Err(self.wrong_kind(kind, class.name())),
            (Builtin::Optional, _) => {
                self.enc.object_begin("java.util.Optional", &["value"]);
                self.value(class.args().first())
            }
            _ => self.scalar(builtin, class.name()),
        }
    }

    /// A value of a class that we know nothing of but its name.
    fn bean_value(&mut self, name: &str) -> Result<(), TranscodeError> {
        match self.json.peek()? {
            JsonKind::Null => self.null(),
            JsonKind::Object => self.object(Some(name)),
            // The only class that has a text for its JSON is an enum.
            JsonKind::String => {
                self.enc.object_begin(name, &["name"]);
                self.text()
            }
            kind => Err(self.wrong_kind(kind, name)),
        }
    }

    fn array(&mut self, element: &JavaType) -> Result<(), TranscodeError> {
        let kind = self.json.peek()?;
        match (element, kind) {
            (_, JsonKind::Null) => self.null(),
            (JavaType::Byte, JsonKind::String) => {
                let offset = self.json.position();
                let text = self.json.read_string()?;
                let bytes = BASE64
                    .decode(text.as_bytes())
                    .map_err(|_| TranscodeError::Text { offset, expected: "base64" })?;
                self.enc.binary(&bytes);
                Ok(())
            }
            (JavaType::Byte, JsonKind::Array) => self.byte_array(),
            (JavaType::Char, JsonKind::String) => self.text(),
            (JavaType::Char, JsonKind::Array) => self.char_array(),
            (_, JsonKind::Array) => {
                let mut tag = String::new();
                JavaType::array_tag(element, &mut tag);
                self.elements(Some(&tag), Some(element))
            }
            _ => Err(self.wrong_kind(kind, &(element.java_name() + "[]"))),
        }
    }

    fn byte_array(&mut self) -> Result<(), TranscodeError> {
        let mut bytes = Vec::new();
        let mut array = self.json.begin_array()?;
        while self.json.next_element(&mut array)? {
            let value = self.integer(i8::MIN.into(), u8::MAX.into(), "byte")?;
            // Bytes are written from -128 to 127 by some, and from 0 to 255 by others.
            let [.., low] = value.to_be_bytes();
            bytes.push(low);
        }
        self.enc.binary(&bytes);
        Ok(())
    }

    fn char_array(&mut self) -> Result<(), TranscodeError> {
        let mut text = String::new();
        let mut array = self.json.begin_array()?;
        while self.json.next_element(&mut array)? {
            text.push_str(&self.char()?);
        }
        self.enc.string(&text);
        Ok(())
    }

    /// A JSON array as a list. Its length is not known before its end, unless it is empty.
    fn elements(&mut self, tag: Option<&str>, ty: Option<&JavaType>) -> Result<(), TranscodeError> {
        let mut array = self.json.begin_array()?;
        if !self.json.next_element(&mut array)? {
            self.enc.list_begin(tag, 0);
            return Ok(());
        }
        let list = self.enc.list_open(tag);
        let mut len = 0;
        loop {
            self.value(ty)?;
            len += 1;
            if !self.json.next_element(&mut array)? {
                break;
            }
        }
        self.enc.list_close(list, len);
        Ok(())
    }

    /// A JSON object as a map.
    fn members(
        &mut self,
        tag: Option<&str>,
        key_ty: Option<&JavaType>,
        ty: Option<&JavaType>,
    ) -> Result<(), TranscodeError> {
        self.enc.map_begin(tag);
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            self.key(&key, key_ty)?;
            self.value(ty)?;
        }
        self.enc.map_end();
        Ok(())
    }

    /// A name as a map's key: what the key's type makes of the text.
    fn key(&mut self, key: &str, ty: Option<&JavaType>) -> Result<(), TranscodeError> {
        let (builtin, name) = match ty {
            Some(JavaType::Class(class)) => (class.builtin(), class.name()),
            _ => (Some(Builtin::String), ""),
        };
        match builtin {
            Some(Builtin::String | Builtin::Any) => self.enc.string(key),
            Some(builtin) => {
                // Reads the key as the JSON string that it is.
                let mut quoted = Vec::new();
                crate::json::write_string(&mut quoted, key);
                let offset = self.json.position();
                let mut json = JsonReader::new(&quoted, crate::Limits::default());
                let mut writer = Writer {
                    json: &mut json,
                    enc: self.enc,
                    schema: self.schema,
                    keys: Vec::new(),
                    ends: Vec::new(),
                    scanned: 0,
                    has_class: None,
                };
                writer.scalar(builtin, name).map_err(|error| match error {
                    TranscodeError::Range { expected, .. } => {
                        TranscodeError::Range { offset, expected }
                    }
                    _ => TranscodeError::Text { offset, expected: "a key of the map's key type" },
                })?;
            }
            None => {
                self.enc.object_begin(name, &["name"]);
                self.enc.string(key);
            }
        }
        Ok(())
    }

    /// A JSON object as an object of `declared` or of the class that its member `class` names, or
    /// as a map if there is neither.
    fn object(&mut self, declared: Option<&str>) -> Result<(), TranscodeError> {
        let base = self.keys.len();
        let offset = self.json.position();
        let named = self.scan_object()?;
        let is_named = named.is_some();
        if named.as_deref() == Some("") {
            return Err(TranscodeError::Text { offset, expected: "the name of a class" });
        }
        let Some(class) = named.as_deref().or(declared) else {
            self.keys.truncate(base);
            return self.members(None, None, None);
        };
        let builtin = Builtin::of_declared(class).filter(|_| is_named);
        let has_only_value = matches!(self.keys.get(base..), Some([key]) if key == "value");
        match builtin {
            Some(Builtin::Map | Builtin::Any) => {
                self.keys.truncate(base);
                let tag = Builtin::map_type(class).filter(|_| builtin == Some(Builtin::Map));
                self.enc.map_begin(tag);
                self.fields(None)?;
                self.enc.map_end();
                Ok(())
            }
            _ if has_only_value && is_named && (builtin.is_some() || class.starts_with('[')) => {
                let ty = JavaType::parse(class)
                    .map_err(|_| TranscodeError::Text { offset, expected: "the name of a class" })?;
                self.keys.truncate(base);
                self.only_value(&ty)
            }
            _ => {
                self.enc.object_begin(class, self.keys.get(base..).unwrap_or_default());
                self.keys.truncate(base);
                self.fields(Some(class))
            }
        }
    }

    /// The values of an object's members but `class`, each after its name if there is no class.
    fn fields(&mut self, class: Option<&str>) -> Result<(), TranscodeError> {
        let schema = self.schema;
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            if key == "class" && self.json.peek()? == JsonKind::String {
                self.json.skip_value()?;
                continue;
            }
            match class {
                Some(class) => self.value(schema.field_type(class, &key))?,
                None => {
                    self.enc.string(&key);
                    self.value(None)?;
                }
            }
        }
        Ok(())
    }

    /// `{"class": "java.util.Date", "value": 0}`: a value of a class that is no JSON object.
    fn only_value(&mut self, ty: &JavaType) -> Result<(), TranscodeError> {
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            if key == "class" {
                self.json.skip_value()?;
            } else {
                self.value(Some(ty))?;
            }
        }
        Ok(())
    }

    /// Looks through the object that comes next: its names but `class` go to the end of `keys`;
    /// the class that it names is returned. The reader stays where it is.
    fn scan_object(&mut self) -> Result<Option<Cow<'a, str>>, TranscodeError> {
        let mut scan = self.json.clone();
        scan.peek()?;
        let is_known = scan.position() < self.scanned;
        if !is_known {
            self.ends.clear();
        }
        let mut class = None;
        let mut object = scan.begin_object()?;
        while let Some(key) = scan.next_key(&mut object)? {
            let kind = scan.peek()?;
            if key == "class" && kind == JsonKind::String {
                class = Some(scan.read_string()?);
                continue;
            }
            self.keys.push(key);
            match kind {
                JsonKind::Array | JsonKind::Object if is_known => {
                    let start = scan.position();
                    let found = self.ends.binary_search_by_key(&start, |&(start, _)| start);
                    match found.ok().and_then(|index| self.ends.get(index)) {
                        Some(&(_, end)) => scan.jump(end),
                        None => scan.skip_value().map(|_| ())?,
                    }
                }
                JsonKind::Array | JsonKind::Object => skip_noting(&mut scan, &mut self.ends)?,
                _ => scan.skip_value().map(|_| ())?,
            }
        }
        self.scanned = self.scanned.max(scan.position());
        Ok(class)
    }

    /// Whether an object may have a member named `class`. (One that is written with escapes is
    /// taken for a class only if another is not.)
    fn may_have_class(&mut self) -> bool {
        let (text, from) = (self.json.text(), self.json.position());
        *self.has_class.get_or_insert_with(|| {
            let rest = text.get(from..).unwrap_or_default();
            memchr::memmem::find(rest, b"\"class\"").is_some()
        })
    }

    fn scalar(&mut self, builtin: Builtin, name: &str) -> Result<(), TranscodeError> {
        let kind = self.json.peek()?;
        let offset = self.json.position();
        match (builtin, kind) {
            (_, JsonKind::Null) => self.null(),
            (_, JsonKind::Array | JsonKind::Object) => {
                Err(self.wrong_kind(kind, of(builtin, name)))
            }
            (Builtin::String, JsonKind::String) => self.text(),
            (Builtin::String, JsonKind::Number) => {
                self.enc.string(self.json.read_number()?);
                Ok(())
            }
            (Builtin::String, _) => {
                self.enc.string(if self.json.read_bool()? { "true" } else { "false" });
                Ok(())
            }
            (Builtin::Boolean, JsonKind::Bool) => {
                self.enc.bool(self.json.read_bool()?);
                Ok(())
            }
            (Builtin::Boolean, JsonKind::String) => {
                match &*self.json.read_string()? {
                    "true" => self.enc.bool(true),
                    "false" => self.enc.bool(false),
                    _ => return Err(TranscodeError::Text { offset, expected: "true or false" }),
                }
                Ok(())
            }
            (_, JsonKind::Bool) | (Builtin::Boolean, _) => {
                Err(self.wrong_kind(kind, of(builtin, name)))
            }
            (Builtin::Byte, _) => self.int(i8::MIN.into(), i8::MAX.into(), "byte"),
            (Builtin::Short, _) => self.int(i16::MIN.into(), i16::MAX.into(), "short"),
            (Builtin::Int, _) => self.int(i32::MIN, i32::MAX, "int"),
            (Builtin::Long, _) => {
                let value = self.integer(i64::MIN, i64::MAX, "long")?;
                self.enc.long(value);
                Ok(())
            }
            (Builtin::Float, _) => self.double(true),
            (Builtin::Double, _) => self.double(false),
            (Builtin::Char, JsonKind::String) => {
                let text = self.char()?;
                self.enc.string(&text);
                Ok(())
            }
            (Builtin::BigDecimal | Builtin::BigInteger, _) => self.big_number(builtin),
            (Builtin::Date | Builtin::SqlDate | Builtin::Calendar, _) => self.date(builtin, name),
            (Builtin::Year, JsonKind::Number) => {
                let value = self.integer(-999_999_999, 999_999_999, "java.time.Year")?;
                temporal::from_text(self.enc, builtin, &value.to_string())
                    .ok_or(TranscodeError::Range { offset, expected: "java.time.Year" })
            }
            (_, JsonKind::Number) => Err(self.wrong_kind(kind, of(builtin, name))),
            (Builtin::TextValue, _) => self.text_object(name, "value"),
            (Builtin::ClassName, _) => self.text_object("java.lang.Class", "name"),
            (Builtin::Locale, _) => {
                self.text_object("com.alibaba.com.caucho.hessian.io.LocaleHandle", "value")
            }
            _ => {
                let text = self.json.read_string()?;
                temporal::from_text(self.enc, builtin, &text).ok_or(TranscodeError::Text {
                    offset,
                    expected: "the ISO 8601 text of the java.time class",
                })
            }
        }
    }

    fn null(&mut self) -> Result<(), TranscodeError> {
        self.json.read_null()?;
        self.enc.null();
        Ok(())
    }

    fn text(&mut self) -> Result<(), TranscodeError> {
        self.enc.string(&self.json.read_string()?);
        Ok(())
    }

    fn text_object(&mut self, class: &str, field: &str) -> Result<(), TranscodeError> {
        self.enc.object_begin(class, &[field]);
        self.text()
    }

    fn int(&mut self, min: i32, max: i32, name: &'static str) -> Result<(), TranscodeError> {
        let value = self.integer(min.into(), max.into(), name)?;
        self.enc.int(i32::try_from(value).unwrap_or_default());
        Ok(())
    }

    fn integer(
        &mut self,
        min: i64,
        max: i64,
        expected: &'static str,
    ) -> Result<i64, TranscodeError> {
        let kind = self.json.peek()?;
        let offset = self.json.position();
        if !matches!(kind, JsonKind::Number | JsonKind::String) {
            return Err(self.wrong_kind(kind, expected));
        }
        scalar::integer(&self.number_text()?)
            .filter(|value| (min..=max).contains(value))
            .ok_or(TranscodeError::Range { offset, expected })
    }

    fn double(&mut self, is_float: bool) -> Result<(), TranscodeError> {
        let kind = self.json.peek()?;
        let offset = self.json.position();
        if kind == JsonKind::String {
            let value = match &*self.json.read_string()? {
                "NaN" => f64::NAN,
                "Infinity" => f64::INFINITY,
                "-Infinity" => f64::NEG_INFINITY,
                text => text
                    .parse::<f64>()
                    .ok()
                    .filter(|value| value.is_finite())
                    .ok_or(TranscodeError::Text { offset, expected: "a number" })?,
            };
            self.enc.double(value);
            return Ok(());
        }
        let value = self.json.read_number()?.parse::<f64>().unwrap_or(f64::INFINITY);
        // Java makes the float of the double that it reads, by the same rounding.
        #[expect(clippy::cast_possible_truncation, reason = "only to see whether it is too large")]
        let is_too_large = value.is_infinite() || is_float && (value as f32).is_infinite();
        if is_too_large {
            let expected = if is_float { "float" } else { "double" };
            return Err(TranscodeError::Range { offset, expected });
        }
        self.enc.double(value);
        Ok(())
    }

    fn big_number(&mut self, builtin: Builtin) -> Result<(), TranscodeError> {
        self.json.peek()?;
        let offset = self.json.position();
        let text = self.number_text()?;
        // The text of a string has to be a number as JSON has it.
        let mut reader = JsonReader::new(text.as_bytes(), crate::Limits::default());
        if reader.read_number() != Ok(&*text) {
            return Err(TranscodeError::Text { offset, expected: "a number" });
        }
        if builtin == Builtin::BigDecimal {
            scalar::write_big_decimal(self.enc, &text);
            return Ok(());
        }
        scalar::write_big_integer(self.enc, &text)
            .ok_or(TranscodeError::Range { offset, expected: "java.math.BigInteger" })
    }

    fn date(&mut self, builtin: Builtin, name: &str) -> Result<(), TranscodeError> {
        let kind = self.json.peek()?;
        let offset = self.json.position();
        let ms = match kind {
            JsonKind::Number => self.integer(i64::MIN, i64::MAX, "java.util.Date")?,
            _ => {
                let text = self.json.read_string()?;
                let expected = "a date as ISO 8601 or milliseconds";
                time::parse_ms(&text)
                    .or_else(|| text.parse::<i64>().ok())
                    .ok_or(TranscodeError::Text { offset, expected })?
            }
        };
        match builtin {
            Builtin::SqlDate => {
                self.enc.object_begin(name, &["value"]);
            }
            Builtin::Calendar => {
                let class = "com.alibaba.com.caucho.hessian.io.CalendarHandle";
                self.enc.object_begin(class, &["date"]);
            }
            _ => {}
        }
        self.enc.date_ms(ms);
        Ok(())
    }

    /// A string of one UTF-16 unit.
    fn char(&mut self) -> Result<Cow<'a, str>, TranscodeError> {
        let kind = self.json.peek()?;
        let offset = self.json.position();
        if kind != JsonKind::String {
            return Err(self.wrong_kind(kind, "char"));
        }
        let text = self.json.read_string()?;
        if text.encode_utf16().take(2).count() != 1 {
            return Err(TranscodeError::Text { offset, expected: "one character" });
        }
        Ok(text)
    }

    /// A number, or a string that should hold one.
    fn number_text(&mut self) -> Result<Cow<'a, str>, TranscodeError> {
        match self.json.peek()? {
            JsonKind::Number => Ok(Cow::Borrowed(self.json.read_number()?)),
            _ => Ok(self.json.read_string()?),
        }
    }

    #[cold]
    fn wrong_kind(&self, kind: JsonKind, expected: &str) -> TranscodeError {
        let found = match kind {
            JsonKind::Null => "null",
            JsonKind::Bool => "a boolean",
            JsonKind::Number => "a number",
            JsonKind::String => "a string",
            JsonKind::Array => "an array",
            JsonKind::Object => "an object",
        };
        TranscodeError::Kind { offset: self.json.position(), found, expected: expected.into() }
    }
}

/// The Java name of a type, for messages.
fn of(builtin: Builtin, name: &str) -> &str {
    match (name, builtin) {
        ("", Builtin::Boolean) => "boolean",
        ("", Builtin::Byte) => "byte",
        ("", Builtin::Short) => "short",
        ("", Builtin::Char) => "char",
        ("", Builtin::Int) => "int",
        ("", Builtin::Long) => "long",
        ("", Builtin::Float) => "float",
        ("", Builtin::Double) => "double",
        _ => name,
    }
}

/// Reads past a value and notes where its arrays and objects begin and end, in order.
fn skip_noting(
    scan: &mut JsonReader<'_>,
    ends: &mut Vec<(usize, usize)>,
) -> Result<(), TranscodeError> {
    let kind = scan.peek()?;
    if !matches!(kind, JsonKind::Array | JsonKind::Object) {
        scan.skip_value()?;
        return Ok(());
    }
    let index = ends.len();
    ends.push((scan.position(), 0));
    if kind == JsonKind::Array {
        let mut array = scan.begin_array()?;
        while scan.next_element(&mut array)? {
            skip_noting(scan, ends)?;
        }
    } else {
        let mut object = scan.begin_object()?;
        while scan.next_raw_key(&mut object)?.is_some() {
            skip_noting(scan, ends)?;
        }
    }
    if let Some(end) = ends.get_mut(index) {
        end.1 = scan.position();
    }
    Ok(())
}
