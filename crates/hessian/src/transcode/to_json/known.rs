//! Objects of classes that the mapping knows: numbers, java.time, and the like.

use std::borrow::Cow;

use super::{HessianToJson, ObjectShape, TranscodeError};
use crate::transcode::builtin::Builtin;
use crate::{Limits, Name, ObjectCursor, ValueKind};
use java_json::bigint;
use java_json::json::{self, JsonReader};
use java_json::texts;
use java_json::time::TimeFields;
use java_json::write;

impl<'a> HessianToJson<'_, 'a, '_> {
    /// An object of a known class. What cannot be one is an error: its class says what it is.
    pub(super) fn known(
        &mut self,
        builtin: Builtin,
        object: ObjectCursor,
    ) -> Result<(), TranscodeError> {
        let start = self.dec.position();
        let shape = |expected| TranscodeError::Shape { offset: start, expected };
        match builtin {
            Builtin::BigDecimal | Builtin::BigInteger => self.big_number(builtin, object)?,
            Builtin::SqlDate | Builtin::Calendar => {
                self.one_field(object, if builtin == Builtin::SqlDate { "value" } else { "date" })?;
            }
            Builtin::TextValue => self.text_value(object)?,
            Builtin::Locale | Builtin::Optional | Builtin::AtomicInteger | Builtin::AtomicLong => {
                self.one_field(object, "value")?;
            }
            Builtin::AtomicBoolean => self.atomic_boolean(object)?,
            Builtin::Currency => self.one_field(object, "currencyCode")?,
            Builtin::Uri => self.one_field(object, "string")?,
            Builtin::ClassName => self.one_field(object, "name")?,
            Builtin::ZoneId => self.one_field(object, "zoneId")?,
            Builtin::Year => self.one_field(object, "year")?,
            Builtin::EnumSet => self.one_field(object, "objects")?,
            Builtin::StackTraceElement => self.stack_trace_element(object)?,
            _ => {
                let mut text = Vec::new();
                self.temporal(builtin, object, &mut text)?
                    .ok_or_else(|| shape("a value of java.time"))?;
                let text = std::str::from_utf8(&text).map_err(|_| shape("text"))?;
                json::write_string(self.out, text);
            }
        }
        Ok(())
    }

    /// The value of the field `wanted`; the others are dropped. `null` if there is none.
    fn one_field(&mut self, mut object: ObjectCursor, wanted: &str) -> Result<(), TranscodeError> {
        let mut is_found = false;
        while let Some(name) = self.next_field(&mut object) {
            if &*name == wanted && !is_found {
                is_found = true;
                self.value()?;
            } else {
                self.dec.skip_value()?;
            }
        }
        if !is_found {
            self.out.extend_from_slice(b"null");
        }
        Ok(())
    }

    /// A class whose text is its field `value`; or a UUID as hessian-lite wrote it before 3.2.8,
    /// by its two halves.
    fn text_value(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        let (mut is_found, mut high, mut low) = (false, None, None);
        while let Some(name) = self.next_field(&mut object) {
            match &*name {
                "value" if !is_found => {
                    is_found = true;
                    self.value()?;
                }
                "mostSigBits" => high = Some(self.dec.read_long()?),
                "leastSigBits" => low = Some(self.dec.read_long()?),
                _ => self.dec.skip_value()?,
            }
        }
        match (is_found, high, low) {
            (true, ..) => {}
            (_, Some(high), Some(low)) => json::write_string(
                self.out,
                &texts::uuid(high.cast_unsigned(), low.cast_unsigned()),
            ),
            _ => self.out.extend_from_slice(b"null"),
        }
        Ok(())
    }

    /// `AtomicBoolean` holds an int.
    fn atomic_boolean(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        let mut value = 0;
        while let Some(name) = self.next_field(&mut object) {
            if &*name == "value" {
                value = self.dec.read_int()?;
            } else {
                self.dec.skip_value()?;
            }
        }
        self.out.extend_from_slice(if value == 0 { b"false" } else { b"true" });
        Ok(())
    }

    fn big_number(&mut self, builtin: Builtin, object: ObjectCursor) -> Result<(), TranscodeError> {
        let is_named = self.names_numbers && self.declared_number != Some(builtin);
        let is_decimal = builtin == Builtin::BigDecimal;
        if is_named {
            let class = if is_decimal { "java.math.BigDecimal" } else { "java.math.BigInteger" };
            write::begin_value(self.out, class);
        }
        if is_decimal {
            self.big_decimal(object)?;
        } else {
            self.big_integer(object)?;
        }
        if is_named {
            write::end_value(self.out);
        }
        Ok(())
    }

    fn big_decimal(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        let mut value = None;
        while let Some(name) = self.next_field(&mut object) {
            if &*name == "value" {
                value = self.dec.read_opt_string()?;
            } else {
                self.dec.skip_value()?;
            }
        }
        match value {
            None => self.out.extend_from_slice(b"null"),
            Some(text) if !self.style.big_numbers_as_text && is_json_number(&text) => {
                self.out.extend_from_slice(text.as_bytes());
            }
            Some(text) => json::write_string(self.out, &text),
        }
        Ok(())
    }

    /// `BigInteger` comes as its fields: `signum` and `mag`, the words from the highest down; or
    /// as its text, from writers that treat it like `BigDecimal`.
    fn big_integer(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        let offset = self.dec.position();
        let (mut sign, mut words, mut text) = (0, Vec::new(), None);
        while let Some(name) = self.next_field(&mut object) {
            match &*name {
                "signum" => sign = self.dec.read_int()?,
                "mag" => self.words(&mut words)?,
                "value" => text = self.dec.read_opt_string()?,
                _ => self.dec.skip_value()?,
            }
        }
        if bigint::MAX_WORDS < words.len() {
            let expected = "a BigInteger of at most 8192 bits";
            return Err(TranscodeError::Shape { offset, expected });
        }
        let start = self.out.len();
        match text {
            Some(text) if is_json_number(&text) => self.out.extend_from_slice(text.as_bytes()),
            Some(text) => {
                json::write_string(self.out, &text);
                return Ok(());
            }
            None => bigint::write_decimal(self.out, sign < 0, &words),
        }
        if self.style.big_numbers_as_text {
            self.out.insert(start, b'"');
            self.out.push(b'"');
        }
        Ok(())
    }

    fn words(&mut self, words: &mut Vec<u32>) -> Result<(), TranscodeError> {
        if self.dec.peek()? == ValueKind::Ref {
            return self.replay(|writer| writer.words(words));
        }
        let mut list = self.dec.read_list_begin()?;
        while list.next(self.dec)? {
            words.push(self.word()?);
        }
        Ok(())
    }

    /// 32 bits of a `BigInteger`: an int from Java, and from dubbo-go a long, which has no sign.
    fn word(&mut self) -> Result<u32, TranscodeError> {
        let offset = self.dec.position();
        let word = self.dec.read_long()?;
        u32::try_from(word)
            .or_else(|_| i32::try_from(word).map(i32::cast_unsigned))
            .map_err(|_| TranscodeError::Shape { offset, expected: "32 bits of a BigInteger" })
    }

    /// `com.acme.Shop.sell(Shop.java:12)`
    fn stack_trace_element(&mut self, mut object: ObjectCursor) -> Result<(), TranscodeError> {
        let (mut class, mut method) = (Cow::Borrowed(""), Cow::Borrowed(""));
        let (mut file, mut line) = (None, 0);
        while let Some(name) = self.next_field(&mut object) {
            match &*name {
                "declaringClass" => class = self.dec.read_opt_string()?.unwrap_or_default(),
                "methodName" => method = self.dec.read_opt_string()?.unwrap_or_default(),
                "fileName" => file = self.dec.read_opt_string()?,
                "lineNumber" => line = self.dec.read_int()?,
                _ => self.dec.skip_value()?,
            }
        }
        let text = texts::stack_trace_element(&class, &method, file.as_deref(), line.into());
        json::write_string(self.out, &text);
        Ok(())
    }

    /// The text of a java.time value, without quotes. Nothing if its fields are not what they
    /// have to be.
    fn temporal(
        &mut self,
        builtin: Builtin,
        mut object: ObjectCursor,
        text: &mut Vec<u8>,
    ) -> Result<Option<()>, TranscodeError> {
        let mut parts = TimeFields::default();
        while let Some(name) = self.next_field(&mut object) {
            self.part(&name, &mut parts)?;
        }
        Ok(parts.write(builtin, text))
    }

    /// Takes in one field of a java.time value: a number, or a value of java.time itself.
    fn part(&mut self, name: &str, parts: &mut TimeFields<'a>) -> Result<(), TranscodeError> {
        match self.dec.peek()? {
            ValueKind::Null => self.dec.skip_value()?,
            ValueKind::Int | ValueKind::Long => {
                let value = self.dec.read_long()?;
                if let Some(slot) = parts.number(name) {
                    *slot = Some(value);
                }
            }
            ValueKind::String => parts.zone = Some(self.dec.read_string()?),
            ValueKind::Ref => self.replay(|writer| writer.part(name, parts))?,
            ValueKind::Object => {
                let offset = self.dec.position();
                let mut object = self.dec.read_object_begin()?;
                let is_time = matches!(
                    self.shape(object.class()),
                    ObjectShape::Known(
                        Builtin::LocalDate
                            | Builtin::LocalTime
                            | Builtin::LocalDateTime
                            | Builtin::ZoneOffset
                    )
                );
                if !is_time {
                    let expected = "a value of java.time";
                    return Err(TranscodeError::Shape { offset, expected });
                }
                // The fields of the parts have different names, so that one level holds them all.
                self.open.push(offset);
                while let Some(name) = self.next_field(&mut object) {
                    self.part(&name, parts)?;
                }
                self.open.pop();
            }
            _ => {
                let (offset, expected) = (self.dec.position(), "a value of java.time");
                return Err(TranscodeError::Shape { offset, expected });
            }
        }
        Ok(())
    }

    fn next_field(&mut self, object: &mut ObjectCursor) -> Option<Name<'a>> {
        let index = object.next(self.dec)?;
        let def = self.dec.class(object.class())?;
        def.fields.get(index).cloned()
    }
}

fn is_json_number(text: &str) -> bool {
    JsonReader::new(text.as_bytes(), Limits::default()).read_number() == Ok(text)
}
