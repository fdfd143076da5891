//! JSON arrays and objects as arrays, lists and maps.

use super::run::Rule;
use super::{Builtin, JsonKind, JsonReader, JsonToHessian, TranscodeError};
use crate::JavaType;
use java_json::expected;
use java_json::named::GENERIC_ENTRY;
use java_json::passed::Passed;
use java_json::scalars::{self, is_of_beans};

impl JsonToHessian<'_, '_, '_, '_, '_> {
    pub(super) fn array(&mut self, element: &JavaType) -> Result<(), TranscodeError> {
        let kind = self.json.peek()?;
        match (element, kind) {
            (_, JsonKind::Null) => self.null(),
            (JavaType::Byte, JsonKind::String) => {
                let bytes = scalars::base64(self.json)?;
                self.enc.binary(&bytes);
                Ok(())
            }
            (JavaType::Byte, JsonKind::Array) => {
                self.enc.binary(&scalars::byte_array(self.json)?);
                Ok(())
            }
            (JavaType::Char, JsonKind::String) => self.text(),
            (JavaType::Char, JsonKind::Array) => {
                self.enc.string(&scalars::char_array(self.json)?);
                Ok(())
            }
            (_, JsonKind::Array) => {
                let mut tag = String::new();
                match self.as_maps && is_of_beans(element) {
                    // It holds maps, of which the provider makes the elements.
                    true => tag.push_str("[object"),
                    false => JavaType::array_tag(element, &mut tag),
                }
                self.elements(Some(&tag), Some(element))
            }
            _ => Err(self.wrong_kind(&(element.java_name() + "[]"))),
        }
    }

    /// A JSON array as a list. Its length is not known before its end, unless it is empty.
    pub(super) fn elements(
        &mut self,
        tag: Option<&str>,
        ty: Option<&JavaType>,
    ) -> Result<(), TranscodeError> {
        self.enter();
        let mut array = self.json.begin_array()?;
        if !self.json.next_element(&mut array)? {
            self.enc.list_begin(tag, 0);
            self.leave();
            return Ok(());
        }
        let list = self.enc.list_open(tag);
        let mut len = 0;
        let rule = Rule::of(ty);
        loop {
            if let Some(places) = &mut self.places {
                places.at_index(len);
            }
            self.value(ty)?;
            len += 1 + self.run_elements(&mut array, rule);
            if !self.json.next_element(&mut array)? {
                break;
            }
        }
        self.enc.list_close(list, len);
        self.leave();
        Ok(())
    }

    /// A JSON object as a map.
    pub(super) fn members(
        &mut self,
        tag: Option<&str>,
        key_ty: Option<&JavaType>,
        ty: Option<&JavaType>,
    ) -> Result<(), TranscodeError> {
        self.enter();
        self.enc.map_begin(tag);
        let mut object = self.json.begin_object()?;
        let is_text = self.places.is_none()
            && match key_ty {
                None => true,
                Some(JavaType::Class(class)) => class.builtin() == Some(Builtin::String),
                Some(_) => false,
            };
        // A text named `class` would make an object of a map.
        let is_watched = self.as_maps && self.may_have_class();
        let is_text = is_text && !is_watched;
        let rule = if is_text { Rule::of(ty) } else { Rule::Never };
        loop {
            self.run_entries(&mut object, rule);
            if !self.json.next_member(&mut object)? {
                break;
            }
            if is_text && let Some(key) = self.json.take_plain_key() {
                self.enc.ascii(key);
                self.value(ty)?;
                continue;
            }
            let key = self.json.read_key()?;
            if is_watched && key == "class" && self.json.peek()? == JsonKind::String {
                return Err(self.wrong_value(self.json.position(), GENERIC_ENTRY));
            }
            self.key(&key, key_ty)?;
            if let Some(places) = &mut self.places {
                places.at_key(key);
            }
            self.value(ty)?;
        }
        self.enc.map_end();
        self.leave();
        Ok(())
    }

    /// In a generic call the provider refuses a map of which it cannot make the constant; of an
    /// object Dubbo 2 takes the whole map for null.
    fn constant_key(&mut self, class: &str, name: &str) {
        if self.is_map(class) {
            self.enc.map_begin(None);
            self.class_entry(class);
            self.enc.string("name");
            self.enc.string(name);
            self.enc.map_end();
            return;
        }
        self.enc.object_begin(class, &["name"]);
        self.enc.string(name);
    }

    /// A name as a map's key: what the key's type makes of the text.
    pub(super) fn key(&mut self, key: &str, ty: Option<&JavaType>) -> Result<(), TranscodeError> {
        let (builtin, name) = match ty {
            Some(JavaType::Class(class)) => (class.builtin(), class.name()),
            _ => (Some(Builtin::String), ""),
        };
        match builtin {
            Some(Builtin::String | Builtin::Any | Builtin::Number) => self.enc.string(key),
            Some(builtin) => {
                // Reads the key as the JSON string that it is.
                let mut quoted = Vec::new();
                java_json::json::write_string(&mut quoted, key);
                let offset = self.json.position();
                let mut json = JsonReader::new(&quoted, crate::Limits::default());
                let mut writer = JsonToHessian {
                    json: &mut json,
                    enc: self.enc,
                    has_decimals: false,
                    schema: self.schema,
                    as_maps: false,
                    keeps_zeros: false,
                    members: Vec::new(),
                    passed: Passed::default(),
                    has_class: None,
                    known: Vec::new(),
                    has_runs: false,
                    n_misses: 0,
                    places: None,
                };
                writer.scalar(builtin, name).map_err(|error| match error {
                    TranscodeError::Value { found, expected, .. } => {
                        TranscodeError::Value { offset, found, expected }
                    }
                    _ => TranscodeError::Value {
                        offset,
                        found: expected::quoted(key),
                        expected: "a key of the map's key type".into(),
                    },
                })?;
            }
            None => {
                let offset = self.json.position();
                if let Some(expected) = expected::enum_without(self.schema, name, key) {
                    let found = expected::quoted(key);
                    return Err(TranscodeError::Value { offset, found, expected });
                }
                self.constant_key(name, key);
            }
        }
        Ok(())
    }
}
