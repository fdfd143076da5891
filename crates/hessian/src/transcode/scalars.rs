//! Whether a JSON value contradicts the scalar types that are known of it, for who sends it
//! without these types: Java's generic call makes a number of any other, and drops what does not
//! fit.
//!
//! Only scalars are looked at: numbers, booleans, characters, texts, dates and the like, wherever
//! they stand; and texts where a class is declared that is known to be no enum. What else is no
//! scalar where a collection or class is declared, or the other way round in there, is passed over:
//! types that tell so may be out of date.

use super::{Schema, TranscodeError, json_to_hessian_with};
use crate::{Encoder, JavaType, Limits};
use java_json::ClassType;
use java_json::builtin::Builtin;
use java_json::expected;
use java_json::json::{JsonKind, JsonReader};
use java_json::named::{Named, field_type};
use java_json::passed::Passed;
use java_json::scalars::{GENERIC_BIT_SET, Misfit};

/// Looks through the JSON value that `json` is at for a value that the scalar type of its place
/// does not have.
///
/// # Errors
/// The first of them, as [`json_to_hessian`](super::json_to_hessian) has it; or that the text is
/// no JSON.
pub fn check_scalars(
    json: &mut JsonReader<'_>,
    ty: &JavaType,
    schema: &dyn Schema,
) -> Result<(), TranscodeError> {
    let rest = json.text().get(json.position()..).unwrap_or_default();
    let may_have_class = memchr::memmem::find(rest, b"\"class\"").is_some();
    let passed = Passed::default();
    Check { json, schema, may_have_class, passed, scratch: Vec::new() }.value(ty)
}

struct Check<'r, 'a, 's> {
    json: &'r mut JsonReader<'a>,
    schema: &'s dyn Schema,
    may_have_class: bool,
    passed: Passed,
    /// Where scalars are written to see whether they can be.
    scratch: Vec<u8>,
}

impl Check<'_, '_, '_> {
    fn value(&mut self, ty: &JavaType) -> Result<(), TranscodeError> {
        match ty {
            JavaType::Array(element) => self.array(ty, element),
            JavaType::Class(class) => match class.builtin() {
                None => self.bean(class),
                Some(Builtin::Any | Builtin::StackTraceElement) => self.skip(),
                Some(Builtin::List | Builtin::EnumSet) => self.list(class),
                Some(Builtin::Map) => self.map(class),
                Some(Builtin::Optional) => match class.args().first() {
                    Some(inner) if self.json.peek()? != JsonKind::Null => self.value(inner),
                    _ => self.skip(),
                },
                Some(Builtin::BitSet) => self.bit_set(ty),
                Some(_) => self.scalar(ty),
            },
            _ => self.scalar(ty),
        }
    }

    fn skip(&mut self) -> Result<(), TranscodeError> {
        self.json.skip_value()?;
        Ok(())
    }

    /// Writes the value, and drops what was written.
    fn scalar(&mut self, ty: &JavaType) -> Result<(), TranscodeError> {
        self.scratch.clear();
        json_to_hessian_with(self.json, Some(ty), &mut Encoder::new(&mut self.scratch), self.schema)
    }

    /// Without its type, only its class makes it one.
    fn bit_set(&mut self, ty: &JavaType) -> Result<(), TranscodeError> {
        let is_object = self.json.peek()? == JsonKind::Object;
        let offset = self.json.position();
        let has_class = self.may_have_class && self.passed.look(self.json)?.class.is_some();
        self.scalar(ty)?;
        match is_object && !has_class {
            true => Err(Misfit::value(self.json, offset, GENERIC_BIT_SET).into()),
            false => Ok(()),
        }
    }

    fn array(&mut self, ty: &JavaType, element: &JavaType) -> Result<(), TranscodeError> {
        match self.json.peek()? {
            // These are scalars as a whole.
            JsonKind::Array if matches!(element, JavaType::Byte | JavaType::Char) => {
                self.scalar(ty)
            }
            JsonKind::Array => self.elements(Some(element)),
            _ => self.skip(),
        }
    }

    fn elements(&mut self, ty: Option<&JavaType>) -> Result<(), TranscodeError> {
        let Some(ty) = ty else { return self.skip() };
        let mut array = self.json.begin_array()?;
        while self.json.next_element(&mut array)? {
            self.value(ty)?;
        }
        Ok(())
    }

    fn list(&mut self, class: &ClassType) -> Result<(), TranscodeError> {
        match self.json.peek()? {
            JsonKind::Array => self.elements(class.args().first()),
            // One that names its class: `{"class": "java.util.LinkedList", "value": [1]}`.
            JsonKind::Object => {
                let mut object = self.json.begin_object()?;
                while let Some(key) = self.json.next_key(&mut object)? {
                    match self.json.peek()? {
                        JsonKind::Array if key == "value" => self.elements(class.args().first())?,
                        _ => self.skip()?,
                    }
                }
                Ok(())
            }
            _ => self.skip(),
        }
    }

    fn map(&mut self, class: &ClassType) -> Result<(), TranscodeError> {
        if self.json.peek()? != JsonKind::Object {
            return self.skip();
        }
        let name = if self.may_have_class { self.passed.look(self.json)?.class } else { None };
        let named = name.as_deref().and_then(Named::of);
        let named = named.filter(|named| named.builtin == Some(Builtin::Map));
        let (key_ty, value_ty) = (class.args().first(), class.args().get(1));
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            // One that names its class, which may be around its entries.
            if let Some(named) = &named {
                let kind = self.json.peek()?;
                if key == "class" && kind == JsonKind::String {
                    self.skip()?;
                    continue;
                }
                if key == "value" && kind == JsonKind::Object && !named.args().is_empty() {
                    self.map(class)?;
                    continue;
                }
            }
            if let Some(ty) = key_ty {
                self.key(&key, ty)?;
            }
            match value_ty {
                Some(ty) => self.value(ty)?,
                None => self.skip()?,
            }
        }
        Ok(())
    }

    /// A key is the text of a scalar.
    fn key(&mut self, key: &str, ty: &JavaType) -> Result<(), TranscodeError> {
        let is_scalar = matches!(ty, JavaType::Class(class) if class.builtin().is_some());
        if !is_scalar {
            return Ok(());
        }
        let (mut quoted, offset) = (Vec::new(), self.json.position());
        java_json::json::write_string(&mut quoted, key);
        let mut json = JsonReader::new(&quoted, Limits::default());
        let (schema, scratch) = (self.schema, Vec::new());
        let passed = Passed::default();
        let mut check = Check { json: &mut json, schema, may_have_class: false, passed, scratch };
        check.value(ty).map_err(|error| error.at(offset))
    }

    /// An object of a class that the schema may know, or of the one that it names; or a text, which
    /// is one of its values if it is an enum.
    fn bean(&mut self, class: &ClassType) -> Result<(), TranscodeError> {
        match self.json.peek()? {
            JsonKind::Object => {}
            JsonKind::String if !self.schema.takes_text(class.name()) => {
                let offset = self.json.position();
                let text = self.json.read_string()?;
                let expected = expected::enum_without(self.schema, class.name(), &text);
                let (found, expected) = (expected::quoted(&text), expected.unwrap_or_default());
                return Err(TranscodeError::Value { offset, found, expected });
            }
            _ => return self.skip(),
        }
        let declared = class.key();
        let name = if self.may_have_class { self.passed.look(self.json)?.class } else { None };
        let named = name.as_deref().and_then(Named::of);
        let named = named.as_ref().map(Named::key);
        let schema = self.schema;
        let mut object = self.json.begin_object()?;
        while let Some(field) = self.json.next_key(&mut object)? {
            let ty = field_type(schema, named.unwrap_or(declared), Some(declared), &field);
            // The member that names the class is no field.
            match ty.filter(|_| named.is_none() || field != "class") {
                Some(ty) => self.value(ty)?,
                None => self.skip()?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use java_json::json::items_read_by;

    struct Orders(Vec<JavaType>);

    impl Schema for Orders {
        fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
            let fields = ["id", "lines", "next"];
            let index = fields.iter().position(|&name| name == field);
            index.filter(|_| class == "a.Order").and_then(|index| self.0.get(index))
        }
    }

    fn check(ty: &str, json: &str) -> Result<(), String> {
        let types = ["int", "java.util.Map<java.lang.Long,short[]>", "a.Order"];
        let schema = Orders(types.map(|ty| JavaType::parse(ty).unwrap()).into());
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        check_scalars(&mut reader, &JavaType::parse(ty).unwrap(), &schema)
            .map_err(|error| error.to_string())?;
        reader.finish().map_err(|error| error.to_string())
    }

    #[test]
    fn a_scalar_is_what_its_type_has_wherever_it_stands() {
        for (ty, json, wrong) in [
            ("int", "3000000000", "JSON at byte 0: 3000000000 is not an int"),
            ("boolean", "\"yes\"", "JSON at byte 0: \"yes\" is not a boolean"),
            (
                "java.util.List<java.util.BitSet>",
                "[null,{\"words\":[5]}]",
                "JSON at byte 6: {\"words\":[5]} is not a java.util.BitSet that a generic call",
            ),
            ("java.util.BitSet", "{\"words\":[5,\"x\"]}", "JSON at byte 12: \"x\" is not a long"),
            ("int", "null", "JSON at byte 0: null cannot become int"),
            ("int", "[1]", "JSON at byte 0: an array cannot become int"),
            ("java.lang.String", "{}", "JSON at byte 0: an object cannot become java.lang.String"),
            ("int[]", "[1,2.5]", "JSON at byte 3: 2.5 is not an int"),
            ("byte[]", "[300]", "JSON at byte 1: 300 is not a byte"),
            ("char[]", "[\"ab\"]", "JSON at byte 1: \"ab\" is not a char"),
            (
                "java.util.List<java.util.Date>",
                "[\"now\"]",
                "JSON at byte 1: \"now\" is not a date",
            ),
            (
                "java.util.Map<java.lang.Byte,java.util.Optional<java.lang.Short>>",
                "{\"7\":[],\"8\":40000}",
                "JSON at byte 5: an array cannot become java.lang.Short",
            ),
            (
                "java.util.Map<java.lang.Byte,int[]>",
                "{\"300\":[]}",
                "JSON at byte 7: \"300\" is not a byte",
            ),
            ("a.Order", "{\"next\":{\"id\":1e10}}", "JSON at byte 14: 1e10 is not an int"),
            ("a.Order", "{\"lines\":{\"1\":[1,70000]}}", "JSON at byte 17: 70000 is not a short"),
            ("a.Other", "{\"id\":1.5,\"class\":\"a.Order\"}", "JSON at byte 6: 1.5 is not an int"),
            (
                "java.util.Map<java.lang.String,java.lang.Byte>",
                r#"{"class":"java.util.HashMap<java.lang.String, java.lang.Object>","value":{"a":300}}"#,
                "JSON at byte 78: 300 is not a byte",
            ),
            (
                "java.util.List<java.lang.Integer>",
                "{\"class\":\"java.util.LinkedList\",\"value\":[1,\"x\"]}",
                "JSON at byte 43: \"x\" is not an int",
            ),
        ] {
            let error = check(ty, json).unwrap_err();
            assert!(error.starts_with(wrong), "{ty} {json}: {error}");
        }
    }

    #[test]
    fn what_is_of_another_kind_than_a_class_or_collection_is_passed_over() {
        for (ty, json) in [
            ("int", "7"),
            ("java.lang.Integer", "null"),
            ("java.util.List<java.lang.String>", "\"x\""),
            ("java.util.List", "[1,{}]"),
            ("java.util.Map<java.lang.String,java.lang.Integer>", "[1.5]"),
            ("int[]", "7"),
            ("byte[]", "\"no base64\""),
            ("a.Order", "7"),
            ("a.Order", "\"RED\""),
            ("a.Order", "{\"more\":1.5,\"lines\":7,\"next\":{\"next\":null}}"),
            ("a.Order", "{\"class\":\"a.Order\",\"id\":7}"),
            ("java.util.Date", "{\"class\":\"java.sql.Timestamp\",\"value\":7}"),
            ("java.util.Optional<java.lang.Byte>", "null"),
            ("java.util.BitSet", "{\"class\":\"java.util.BitSet\",\"words\":[5]}"),
            ("java.lang.Object", "99999999999999999999"),
        ] {
            assert_eq!(check(ty, json), Ok(()), "{ty} {json}");
        }
        assert!(check("a.Order", "{\"id\"").is_err() && check("int[]", &"[".repeat(99)).is_err());
    }

    /// A class that is known to have fields.
    #[test]
    fn a_text_is_no_object() {
        struct Bean;
        impl Schema for Bean {
            fn field_type(&self, _: &str, _: &str) -> Option<&JavaType> {
                None
            }
            fn takes_text(&self, class: &str) -> bool {
                class != "a.Order"
            }
        }
        let check = |json: &str| {
            let ty = JavaType::parse("java.util.List<a.Order>").unwrap();
            check_scalars(&mut JsonReader::new(json.as_bytes(), Limits::default()), &ty, &Bean)
        };
        let error = check(r#"[{},"x"]"#).unwrap_err().to_string();
        assert!(error.contains("\"x\" is not an object of a.Order, which is no enum"), "{error}");
        assert_eq!(check("[{},null,7,[]]"), Ok(()));
    }

    #[test]
    fn nothing_is_looked_through_at_every_level() {
        let nest = |inner: String, _| format!(r#"{{"class":"a.Order","next":{inner},"id":0}}"#);
        let text = (0..60).fold("null".to_owned(), nest);
        let n_read = items_read_by(|| assert_eq!(check("a.Order", &text), Ok(())));
        // When it is passed, looked through and checked.
        assert!(n_read <= 3 * 3 * 60, "{n_read}");
    }
}
