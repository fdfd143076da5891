//! JSON scalars as Java's: numbers, text, dates, and the classes whose JSON is one of these.

use super::{Builtin, JsonKind, JsonToHessian, TranscodeError};
use crate::transcode::{number, temporal};
use java_json::{expected, scalars, texts};

impl JsonToHessian<'_, '_, '_, '_, '_> {
    pub(super) fn scalar(&mut self, builtin: Builtin, name: &str) -> Result<(), TranscodeError> {
        let kind = self.json.peek()?;
        let offset = self.json.position();
        match (builtin, kind) {
            (_, JsonKind::Null) => self.null(),
            (_, JsonKind::Array | JsonKind::Object) => Err(self.wrong_kind(of(builtin, name))),
            (Builtin::String, _) => self.as_text(kind),
            (Builtin::Boolean | Builtin::AtomicBoolean, _) => self.boolean(builtin, name, kind),
            (_, JsonKind::Bool) => Err(self.wrong_kind(of(builtin, name))),
            (Builtin::Byte, _) => self.int(i8::MIN.into(), i8::MAX.into(), builtin),
            (Builtin::Short, _) => self.int(i16::MIN.into(), i16::MAX.into(), builtin),
            (Builtin::Int, _) => self.int(i32::MIN, i32::MAX, builtin),
            (Builtin::Long, _) => {
                let value =
                    scalars::integer(self.json, i64::MIN, i64::MAX, expected::scalar(builtin))?;
                self.enc.long(value);
                Ok(())
            }
            (Builtin::Float, _) => self.double(true),
            (Builtin::Double, _) => self.double(false),
            (Builtin::Char, JsonKind::String) => {
                let text = scalars::char(self.json)?;
                self.enc.string(&text);
                Ok(())
            }
            (Builtin::BigDecimal | Builtin::BigInteger, _) => self.big_number(builtin),
            (Builtin::Date | Builtin::SqlDate | Builtin::Calendar, _) => self.date(builtin, name),
            (Builtin::Year, JsonKind::Number) => {
                let expected = expected::scalar(builtin);
                let value = scalars::integer(self.json, -999_999_999, 999_999_999, expected)?;
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
            (_, JsonKind::Number) => Err(self.wrong_kind(of(builtin, name))),
            (Builtin::TextValue, _) => self.checked_text_object(builtin, name, "value"),
            (Builtin::Currency, _) => self.checked_text_object(builtin, name, "currencyCode"),
            (Builtin::Uri, _) => self.text_object(name, "string"),
            (Builtin::ClassName, _) => self.class_name(),
            (Builtin::Locale, _) => {
                let class = "com.alibaba.com.caucho.hessian.io.LocaleHandle";
                self.checked_text_object(builtin, class, "value")
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
        match (builtin, kind) {
            (Builtin::Boolean, JsonKind::Bool | JsonKind::String) => {
                self.enc.bool(scalars::boolean(self.json)?);
            }
            (Builtin::AtomicBoolean, JsonKind::Bool) => {
                self.enc.object_begin(name, &["value"]);
                self.enc.int(self.json.read_bool()?.into());
            }
            _ => return Err(self.wrong_kind(of(builtin, name))),
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

    fn checked_text_object(
        &mut self,
        builtin: Builtin,
        class: &str,
        field: &str,
    ) -> Result<(), TranscodeError> {
        let offset = self.json.position();
        let text = self.json.clone().read_string()?;
        scalars::check_text(builtin, class, &text)
            .map_err(|expected| self.wrong_value(offset, expected))?;
        self.text_object(class, field)
    }

    fn class_name(&mut self) -> Result<(), TranscodeError> {
        let offset = self.json.position();
        let text = self.json.read_string()?;
        let name = texts::class_name(&text)
            .ok_or_else(|| self.wrong_value(offset, expected::scalar(Builtin::ClassName)))?;
        self.enc.object_begin("java.lang.Class", &["name"]);
        self.enc.string(&name);
        Ok(())
    }

    fn text_object(&mut self, class: &str, field: &str) -> Result<(), TranscodeError> {
        self.enc.object_begin(class, &[field]);
        self.text()
    }

    fn int(&mut self, min: i32, max: i32, builtin: Builtin) -> Result<(), TranscodeError> {
        let value = scalars::integer(self.json, min.into(), max.into(), expected::scalar(builtin))?;
        self.enc.int(i32::try_from(value).unwrap_or_default());
        Ok(())
    }

    fn double(&mut self, is_float: bool) -> Result<(), TranscodeError> {
        self.enc.double(scalars::double(self.json, is_float)?);
        Ok(())
    }

    fn big_number(&mut self, builtin: Builtin) -> Result<(), TranscodeError> {
        self.json.peek()?;
        let offset = self.json.position();
        let text = scalars::big_number(self.json, builtin)?;
        if builtin == Builtin::BigDecimal {
            number::write_big_decimal(self.enc, &text);
            return Ok(());
        }
        number::write_big_integer(self.enc, &text)
            .ok_or_else(|| self.wrong_value(offset, expected::scalar(builtin)))
    }

    fn date(&mut self, builtin: Builtin, name: &str) -> Result<(), TranscodeError> {
        let ms = scalars::date_ms(self.json, builtin)?;
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
