//! Arguments of a generic call by fastjson, as far as their types are known: in the forms that
//! Dubbo's `PojoUtils` reads.
//!
//! fastjson makes maps, lists, texts and numbers of all JSON there, and `CompatibleTypeUtils`
//! makes of these what parameters and fields are. It reads the texts of dates in the provider's
//! own zone, up to the second; up to Dubbo 3.0 it makes a `BigDecimal` of a whole number by way of
//! a double; and of a base64 text it makes no bytes. So these have other forms here.

use java_json::builtin::Builtin;
use java_json::json::{self, JsonKind};
use java_json::named::EnumObject;
use java_json::scalars;
use java_json::unknown::is_optional_class;
use java_json::{ClassType, JavaType};

use super::{ObjectHead, Writer};
use crate::values::ValueError;

impl Writer<'_, '_, '_> {
    /// A JSON value of a class that is a scalar in JSON.
    pub(super) fn scalar_of_map(&mut self, builtin: Builtin, name: &str) -> Result<(), ValueError> {
        let kind = self.json.peek()?;
        let start = self.json.position();
        match (builtin, kind) {
            (_, JsonKind::Null) => self.skip(),
            (Builtin::Date | Builtin::SqlDate, _) => self.date(name, "time", builtin),
            (Builtin::Calendar, _) => {
                self.date("java.util.GregorianCalendar", "timeInMillis", builtin)
            }
            (Builtin::String, JsonKind::Number | JsonKind::Bool) => {
                let text = self.json.skip_value()?;
                self.put(start, |out| {
                    out.push(b'"');
                    out.extend_from_slice(text);
                    out.push(b'"');
                });
                Ok(())
            }
            (Builtin::BigDecimal, JsonKind::Number) => self.decimal(start),
            (Builtin::Byte | Builtin::Short | Builtin::Int | Builtin::Long, _) => {
                let number =
                    scalars::integer(&mut self.json, i64::MIN, i64::MAX, "a whole number")?;
                self.put(start, |out| json::write_i64(out, number));
                Ok(())
            }
            (
                Builtin::LocalDate
                | Builtin::LocalTime
                | Builtin::LocalDateTime
                | Builtin::OffsetDateTime
                | Builtin::OffsetTime
                | Builtin::ZonedDateTime,
                _,
            ) => self.as_java_writes_it(start, name),
            _ => self.skip(),
        }
    }

    /// A map with a setter of the class, which is the same in every zone.
    fn date(&mut self, class: &str, setter: &str, builtin: Builtin) -> Result<(), ValueError> {
        let start = self.json.position();
        let ms = scalars::date_ms(&mut self.json, builtin)?;
        self.put(start, |out| {
            out.extend_from_slice(b"{\"class\":");
            json::write_string(out, class);
            out.push(b',');
            json::write_string(out, setter);
            out.push(b':');
            json::write_i64(out, ms);
            out.push(b'}');
        });
        Ok(())
    }

    /// A number with a point or an exponent is a `BigDecimal` to fastjson, and stays one.
    fn decimal(&mut self, start: usize) -> Result<(), ValueError> {
        let text = self.json.read_number()?;
        if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
            self.put(start, |out| {
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"E0");
            });
        }
        Ok(())
    }

    /// Dubbo makes an optional one of a map where it is declared, unless the map names the class.
    pub(super) fn optional_map(&mut self, ty: Option<&JavaType>) -> Result<(), ValueError> {
        if self.json.peek()? == JsonKind::Null {
            return self.skip();
        }
        let start = self.json.position();
        self.copy_to(start);
        self.out.extend_from_slice(b"{\"value\":");
        self.value(ty, false)?;
        let end = self.json.position();
        self.copy_to(end);
        self.out.push(b'}');
        Ok(())
    }

    /// A number as the map of which Dubbo makes an `OptionalInt` and the like.
    pub(super) fn optional_number(&mut self) -> Result<(), ValueError> {
        let start = self.json.position();
        let number = self.json.skip_value()?;
        self.put(start, |out| {
            out.extend_from_slice(b"{\"isPresent\":true,\"value\":");
            out.extend_from_slice(number);
            out.push(b'}');
        });
        Ok(())
    }

    /// The name of a constant, also where Java knows only a type variable.
    pub(super) fn enum_map(&mut self, class: &str) -> Result<(), ValueError> {
        let start = self.json.position();
        let name = self.json.skip_value()?;
        self.put(start, |out| {
            out.extend_from_slice(b"{\"class\":");
            json::write_string(out, class);
            out.extend_from_slice(b",\"name\":");
            out.extend_from_slice(name);
            out.push(b'}');
        });
        Ok(())
    }

    /// How an object of a declared class begins: Java itself makes no elements of a `List<T>`,
    /// unless they name their class. A reference stays one.
    pub(super) fn head_of<'c>(
        &self,
        start: usize,
        declared: Option<&'c ClassType>,
    ) -> ObjectHead<'c> {
        let class = declared.map(ClassType::name).filter(|name| !is_optional_class(name));
        match class {
            Some(_) if self.generic.is_some() && !self.known.refs => {
                ObjectHead::Anew { start, class }
            }
            _ => ObjectHead::AsItIs,
        }
    }
}

/// The map of which Dubbo makes a constant of an enum.
pub(super) fn write_constant(out: &mut Vec<u8>, constant: EnumObject<'_>) {
    out.extend_from_slice(b"{\"class\":");
    json::write_string(out, constant.class);
    out.extend_from_slice(b",\"name\":");
    json::write_string(out, constant.name);
    out.push(b'}');
}

/// Bytes as a list of numbers.
pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'[');
    for (index, byte) in bytes.iter().enumerate() {
        if index != 0 {
            out.push(b',');
        }
        json::write_i64(out, i64::from(byte.cast_signed()));
    }
    out.push(b']');
}
