//! JSON scalars as Java's: numbers, text, dates, and the classes whose JSON is one of these.

use std::borrow::Cow;

use super::{Builtin, JsonKind, JsonReader, JsonToHessian, TranscodeError};
use crate::transcode::{number, temporal};
use java_json::json::Short;
use java_json::{expected, time};

impl<'a> JsonToHessian<'_, 'a, '_, '_, '_> {
    pub(super) fn scalar(&mut self, builtin: Builtin, name: &str) -> Result<(), TranscodeError> {
        let kind = self.json.peek()?;
        let offset = self.json.position();
        match (builtin, kind) {
            (_, JsonKind::Null) => self.null(),
            (_, JsonKind::Array | JsonKind::Object) => {
                Err(self.wrong_kind(kind, of(builtin, name)))
            }
            (Builtin::String, _) => self.as_text(kind),
            (Builtin::Boolean | Builtin::AtomicBoolean, _) => self.boolean(builtin, name, kind),
            (_, JsonKind::Bool) => Err(self.wrong_kind(kind, of(builtin, name))),
            (Builtin::Byte, _) => self.int(i8::MIN.into(), i8::MAX.into(), builtin),
            (Builtin::Short, _) => self.int(i16::MIN.into(), i16::MAX.into(), builtin),
            (Builtin::Int, _) => self.int(i32::MIN, i32::MAX, builtin),
            (Builtin::Long, _) => {
                let value = self.integer(i64::MIN, i64::MAX, expected::scalar(builtin))?;
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
                let expected = expected::scalar(builtin);
                let value = self.integer(-999_999_999, 999_999_999, expected)?;
                temporal::from_text(self.enc, builtin, &value.to_string())
                    .ok_or_else(|| self.wrong_value(offset, expected))
            }
            (Builtin::AtomicInteger, _) => {
                self.enc.object_begin(name, &["value"]);
                self.int(i32::MIN, i32::MAX, builtin)
            }
            (Builtin::AtomicLong, _) => {
                self.enc.object_begin(name, &["value"]);
                self.scalar(Builtin::Long, "")
            }
            (_, JsonKind::Number) => Err(self.wrong_kind(kind, of(builtin, name))),
            (Builtin::TextValue, _) => self.text_object(name, "value"),
            (Builtin::Currency, _) => self.text_object(name, "currencyCode"),
            (Builtin::Uri, _) => self.text_object(name, "string"),
            (Builtin::ClassName, _) => self.text_object("java.lang.Class", "name"),
            (Builtin::Locale, _) => {
                self.text_object("com.alibaba.com.caucho.hessian.io.LocaleHandle", "value")
            }
            _ => {
                let text = self.json.read_string()?;
                temporal::from_text(self.enc, builtin, &text)
                    .ok_or_else(|| self.wrong_value(offset, expected::scalar(builtin)))
            }
        }
    }

    fn boolean(
        &mut self,
        builtin: Builtin,
        name: &str,
        kind: JsonKind,
    ) -> Result<(), TranscodeError> {
        let offset = self.json.position();
        match (builtin, kind) {
            (Builtin::Boolean, JsonKind::Bool) => self.enc.bool(self.json.read_bool()?),
            (Builtin::Boolean, JsonKind::String) => match &*self.json.read_string()? {
                "true" => self.enc.bool(true),
                "false" => self.enc.bool(false),
                _ => return Err(self.wrong_value(offset, expected::scalar(builtin))),
            },
            (Builtin::AtomicBoolean, JsonKind::Bool) => {
                self.enc.object_begin(name, &["value"]);
                self.enc.int(self.json.read_bool()?.into());
            }
            _ => return Err(self.wrong_kind(kind, of(builtin, name))),
        }
        Ok(())
    }

    /// Text, or what a number or boolean looks like as text.
    fn as_text(&mut self, kind: JsonKind) -> Result<(), TranscodeError> {
        match kind {
            JsonKind::Number => self.enc.string(self.json.read_number()?),
            JsonKind::Bool => {
                self.enc.string(if self.json.read_bool()? { "true" } else { "false" });
            }
            _ => return self.text(),
        }
        Ok(())
    }

    pub(super) fn null(&mut self) -> Result<(), TranscodeError> {
        self.json.read_null()?;
        self.enc.null();
        Ok(())
    }

    pub(super) fn text(&mut self) -> Result<(), TranscodeError> {
        match self.json.read_plain_ascii()? {
            Some(ascii) => self.enc.ascii(ascii),
            None => self.enc.string(&self.json.read_string()?),
        }
        Ok(())
    }

    fn text_object(&mut self, class: &str, field: &str) -> Result<(), TranscodeError> {
        self.enc.object_begin(class, &[field]);
        self.text()
    }

    fn int(&mut self, min: i32, max: i32, builtin: Builtin) -> Result<(), TranscodeError> {
        let value = self.integer(min.into(), max.into(), expected::scalar(builtin))?;
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
        let short = if kind == JsonKind::Number { self.json.read_short_int() } else { None };
        let value = match short {
            Some(value) => Some(value),
            None => java_json::number::integer(&self.number_text()?),
        };
        value
            .filter(|value| (min..=max).contains(value))
            .ok_or_else(|| self.wrong_value(offset, expected))
    }

    fn double(&mut self, is_float: bool) -> Result<(), TranscodeError> {
        let kind = self.json.peek()?;
        let offset = self.json.position();
        let value = if kind == JsonKind::String {
            let text = self.json.read_string()?;
            match java_json::number::named_double(&text) {
                Some(value) => {
                    self.enc.double(value);
                    return Ok(());
                }
                None => text.parse::<f64>().unwrap_or(f64::INFINITY),
            }
        } else {
            match self.json.read_short_number() {
                #[expect(clippy::cast_precision_loss, reason = "rounded, as the library does")]
                Some(Short::Int(value)) => value as f64,
                Some(Short::Double(value)) => value,
                None => self.json.read_number()?.parse::<f64>().unwrap_or(f64::INFINITY),
            }
        };
        // Java makes the float of the double that it reads, by the same rounding.
        #[expect(clippy::cast_possible_truncation, reason = "only to see whether it is too large")]
        let is_of_type = value.is_finite() && !(is_float && (value as f32).is_infinite());
        if !is_of_type {
            let builtin = if is_float { Builtin::Float } else { Builtin::Double };
            return Err(self.wrong_value(offset, expected::scalar(builtin)));
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
            return Err(self.wrong_value(offset, expected::scalar(builtin)));
        }
        if builtin == Builtin::BigDecimal {
            number::write_big_decimal(self.enc, &text);
            return Ok(());
        }
        number::write_big_integer(self.enc, &text)
            .ok_or_else(|| self.wrong_value(offset, expected::scalar(builtin)))
    }

    fn date(&mut self, builtin: Builtin, name: &str) -> Result<(), TranscodeError> {
        let kind = self.json.peek()?;
        let offset = self.json.position();
        let expected = expected::scalar(builtin);
        let ms = match kind {
            JsonKind::Number => self.integer(i64::MIN, i64::MAX, expected)?,
            _ => {
                let text = self.json.read_string()?;
                time::parse_ms(&text)
                    .or_else(|| text.parse::<i64>().ok())
                    .ok_or_else(|| self.wrong_value(offset, expected))?
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
            return Err(self.wrong_value(offset, expected::scalar(Builtin::Char)));
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

    pub(super) fn byte_array(&mut self) -> Result<(), TranscodeError> {
        let mut bytes = Vec::new();
        let mut array = self.json.begin_array()?;
        while self.json.next_element(&mut array)? {
            let value = self.integer(i8::MIN.into(), u8::MAX.into(), expected::BYTE_OF_ARRAY)?;
            // Bytes are written from -128 to 127 by some, and from 0 to 255 by others.
            let [.., low] = value.to_be_bytes();
            bytes.push(low);
        }
        self.enc.binary(&bytes);
        Ok(())
    }

    pub(super) fn char_array(&mut self) -> Result<(), TranscodeError> {
        let mut text = String::new();
        let mut array = self.json.begin_array()?;
        while self.json.next_element(&mut array)? {
            text.push_str(&self.char()?);
        }
        self.enc.string(&text);
        Ok(())
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
