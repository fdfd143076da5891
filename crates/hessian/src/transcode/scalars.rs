//! Whether a JSON value contradicts the types that are known of it, for who sends it without
//! these types: Java's generic call makes a number of any other, drops what does not fit, and
//! leaves in a list what is no element of it.
//!
//! Types are known where they are declared, and where an object names a class that the schema
//! knows, or a class with type arguments. An argument that is an array, an object or a scalar
//! where its type is another of the three is passed over, but for the objects in it that name
//! their class: types that tell so may be out of date. What is inside of an argument has to fit.

use std::borrow::Cow;

use super::{Schema, TranscodeError, json_to_hessian_with};
use crate::{Encoder, JavaType, Limits};
use java_json::ClassType;
use java_json::builtin::Builtin;
use java_json::expected;
use java_json::json::{JsonKind, JsonReader};
use java_json::named::{NamedClass, ObjectForm, enum_object, field_type, known_enum};
use java_json::number;
use java_json::passed::{ObjectSummary, Passed};
use java_json::references::is_ref;
use java_json::scalars::{GENERIC_BIT_SET, Misfit};
use java_json::unknown::optional_number;

/// What is known of values that are sent without their types.
#[derive(Clone, Copy)]
pub struct ScalarCheck<'s> {
    /// What is known of classes.
    pub schema: &'s dyn Schema,
    /// Whether `{"$ref":"$.a"}` is a reference, as in [`InputOptions`](super::InputOptions).
    pub refs: bool,
    /// Whether a number is the constant of an enum that has this place, counted from 0: who
    /// writes its name.
    pub takes_ordinals: bool,
}

impl ScalarCheck<'_> {
    /// Looks through the JSON value that `json` is at for a value that the type of its place does
    /// not have. `ty` is the type of the whole, where it is known.
    ///
    /// # Errors
    /// The first of them, as [`json_to_hessian`](super::json_to_hessian) has it; or that the text
    /// is no JSON.
    pub fn check(
        &self,
        json: &mut JsonReader<'_>,
        ty: Option<&JavaType>,
    ) -> Result<(), TranscodeError> {
        let rest = json.text().get(json.position()..).unwrap_or_default();
        // With escapes, `class` may be written in other ways.
        let may_have_class = memchr::memmem::find(rest, b"\"class\"").is_some()
            || memchr::memchr(b'\\', rest).is_some();
        let (passed, scratch) = (Passed::default(), Vec::new());
        let is_inside = false;
        Check { json, known: *self, may_have_class, is_inside, passed, scratch }.value(ty)
    }
}

struct Check<'r, 'a, 's> {
    json: &'r mut JsonReader<'a>,
    known: ScalarCheck<'s>,
    may_have_class: bool,
    /// Whether this is inside of an array or object.
    is_inside: bool,
    passed: Passed,
    /// Where scalars are written to see whether they can be.
    scratch: Vec<u8>,
}

impl<'a> Check<'_, 'a, '_> {
    fn value(&mut self, ty: Option<&JavaType>) -> Result<(), TranscodeError> {
        let Some(ty) = ty else { return self.untyped() };
        if self.known.refs && is_ref(self.json)? {
            return self.skip();
        }
        match ty {
            JavaType::Array(element) => self.array(ty, element),
            JavaType::Class(class) => match class.builtin() {
                None => self.bean(class),
                Some(Builtin::Any | Builtin::StackTraceElement) => self.untyped(),
                Some(Builtin::List | Builtin::EnumSet) => self.list(class),
                Some(Builtin::Map) => self.map(class),
                Some(Builtin::Optional) => self.value(class.args().first()),
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

    /// A value of which only the objects tell what they are that name their class.
    fn untyped(&mut self) -> Result<(), TranscodeError> {
        match self.json.peek()? {
            JsonKind::Array if self.may_have_class => self.elements(None),
            JsonKind::Object if self.may_have_class => self.object(None, &[]),
            _ => self.skip(),
        }
    }

    /// An array, object or scalar where another of these is declared. Of an argument, its type may
    /// be out of date.
    fn of_another_kind(&mut self, declared: &str) -> Result<(), TranscodeError> {
        match self.is_inside {
            true => Err(Misfit::kind(self.json, declared).into()),
            false => self.untyped(),
        }
    }

    /// Writes the value, and drops what was written.
    fn scalar(&mut self, ty: &JavaType) -> Result<(), TranscodeError> {
        self.scratch.clear();
        let (ty, schema) = (Some(ty), self.known.schema);
        json_to_hessian_with(self.json, ty, &mut Encoder::new(&mut self.scratch), schema)
    }

    /// Without its type, only its class makes it one.
    fn bit_set(&mut self, ty: &JavaType) -> Result<(), TranscodeError> {
        let is_object = self.json.peek()? == JsonKind::Object;
        let offset = self.json.position();
        let has_class = self.class_of_next()?.is_some();
        self.scalar(ty)?;
        match is_object && !has_class {
            true => Err(Misfit::value(self.json, offset, GENERIC_BIT_SET).into()),
            false => Ok(()),
        }
    }

    /// The class that the next value names, if it is an object.
    fn class_of_next(&mut self) -> Result<Option<Cow<'a, str>>, TranscodeError> {
        match self.may_have_class && self.json.peek()? == JsonKind::Object {
            true => Ok(self.passed.look(self.json)?.class),
            false => Ok(None),
        }
    }

    fn array(&mut self, ty: &JavaType, element: &JavaType) -> Result<(), TranscodeError> {
        let is_text_too = matches!(element, JavaType::Byte | JavaType::Char);
        match self.json.peek()? {
            JsonKind::Null => self.skip(),
            // These are scalars as a whole.
            JsonKind::Array if is_text_too => self.scalar(ty),
            JsonKind::String if is_text_too && self.is_inside => self.scalar(ty),
            JsonKind::Array => self.elements(Some(element)),
            _ => self.of_another_kind(&ty.java_name()),
        }
    }

    fn elements(&mut self, ty: Option<&JavaType>) -> Result<(), TranscodeError> {
        self.is_inside = true;
        let mut array = self.json.begin_array()?;
        while self.json.next_element(&mut array)? {
            self.value(ty)?;
        }
        Ok(())
    }

    fn list(&mut self, class: &ClassType) -> Result<(), TranscodeError> {
        match self.json.peek()? {
            JsonKind::Null => return self.skip(),
            JsonKind::Array => return self.elements(class.args().first()),
            _ => {}
        }
        // One that names its class: `{"class": "java.util.LinkedList", "value": [1]}`.
        let name = self.class_of_next()?;
        match name.as_deref().and_then(NamedClass::of) {
            Some(named) if named.may_stand_for(class, self.known.schema) => {
                self.object(None, class.args())
            }
            _ => self.of_another_kind(class.name()),
        }
    }

    fn map(&mut self, class: &ClassType) -> Result<(), TranscodeError> {
        match self.json.peek()? {
            JsonKind::Null => self.skip(),
            // One that names its class, which may be around its entries.
            JsonKind::Object if NamedClass::is_of_map(self.class_of_next()?.as_deref()) => {
                self.object(None, class.args())
            }
            JsonKind::Object => self.entries(class.args(), false),
            _ => self.of_another_kind(class.name()),
        }
    }

    /// The entries of a map whose keys and values are of the types `args`, if any.
    fn entries(&mut self, args: &[JavaType], is_named: bool) -> Result<(), TranscodeError> {
        self.is_inside = true;
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            if is_named && key == "class" && self.json.peek()? == JsonKind::String {
                self.skip()?;
                continue;
            }
            if let Some(ty) = args.first() {
                self.key(&key, ty)?;
            }
            self.value(args.get(1))?;
        }
        Ok(())
    }

    /// A key is the text of a scalar.
    fn key(&mut self, key: &str, ty: &JavaType) -> Result<(), TranscodeError> {
        let (mut quoted, offset) = (Vec::new(), self.json.position());
        java_json::json::write_string(&mut quoted, key);
        let mut json = JsonReader::new(&quoted, Limits::default());
        self.known.check(&mut json, Some(ty)).map_err(|error| error.at(offset))
    }

    /// A value where a class is declared that the schema may know.
    fn bean(&mut self, class: &ClassType) -> Result<(), TranscodeError> {
        let is_enum = self.known.schema.is_enum(class.name());
        match (self.json.peek()?, is_enum) {
            (JsonKind::Null, _) => self.skip(),
            (JsonKind::Object, _) => self.object(Some(class), &[]),
            (JsonKind::Number | JsonKind::String, _) if optional_number(class.name()).is_some() => {
                self.scalar(&JavaType::class(class.name()))
            }
            (JsonKind::String, _) => {
                let (offset, text) = (self.json.position(), self.json.read_string()?);
                self.constant(offset, class.name(), &text)
            }
            (JsonKind::Number, Some(true)) if self.known.takes_ordinals => self.ordinal(class),
            (JsonKind::Number | JsonKind::Bool, Some(true)) => {
                Err(self.not_of_enum(self.json.position(), class.name()))
            }
            // It may be a collection of the caller's own.
            (JsonKind::Array, None) => self.untyped(),
            _ => self.of_another_kind(class.name()),
        }
    }

    /// A text where a class is declared: it is one of its values if that is an enum.
    fn constant(&self, offset: usize, class: &str, name: &str) -> Result<(), TranscodeError> {
        match expected::enum_without(self.known.schema, class, name) {
            None => Ok(()),
            Some(expected) => {
                let found = expected::quoted(name);
                Err(TranscodeError::Value { offset, found, expected })
            }
        }
    }

    fn ordinal(&mut self, class: &ClassType) -> Result<(), TranscodeError> {
        let offset = self.json.position();
        let number = number::integer(self.json.read_number()?);
        let index = number.and_then(|number| usize::try_from(number).ok());
        let names = self.known.schema.enum_names(class.name());
        match names.zip(index).and_then(|(names, index)| names.get(index)) {
            Some(name) => self.constant(offset, class.name(), name),
            None => Err(self.not_of_enum(offset, class.name())),
        }
    }

    fn not_of_enum(&self, offset: usize, class: &str) -> TranscodeError {
        let expected = expected::enum_values(self.known.schema, class);
        Misfit::value(self.json, offset, &expected).into()
    }

    /// An object of the class that it names, or of `declared`. A collection or map that it stands
    /// for holds what `args` say.
    fn object(
        &mut self,
        declared: Option<&ClassType>,
        args: &[JavaType],
    ) -> Result<(), TranscodeError> {
        let schema = self.known.schema;
        let is_known = |class: &ClassType| schema.is_enum(class.name()).is_some();
        let is_enum = |class: &ClassType| schema.is_enum(class.name()) == Some(true);
        let offset = self.json.position();
        let look = match self.may_have_class || declared.is_some_and(is_enum) {
            true => self.passed.look(self.json)?,
            false => ObjectSummary::default(),
        };
        let (name, declared_name) = (look.class.as_deref(), declared.map(ClassType::name));
        if let Some(constant) = enum_object(schema, &look, declared_name) {
            self.constant(offset, constant.class, constant.name)?;
            return self.skip();
        }
        match known_enum(schema, name, declared_name) {
            Ok(None) => {}
            Ok(Some(class)) if name.is_some() => return Err(self.not_of_enum(offset, class)),
            Ok(Some(class)) | Err(class) => return self.of_another_kind(class),
        }
        let named = NamedClass::of_object(offset, name, schema)?;
        let is_object = || look.only_value.is_some_and(|(kind, _)| kind == JsonKind::Object);
        match ObjectForm::of(named, declared, args, look.only_value.is_some(), is_object) {
            ObjectForm::Any(_) | ObjectForm::Map(_) | ObjectForm::Value(_)
                if declared.is_some_and(is_known) =>
            {
                self.of_another_kind(declared_name.unwrap_or_default())
            }
            ObjectForm::Untyped | ObjectForm::Any(_) => self.members(|_| None),
            ObjectForm::Map(named) => self.entries(named.args_or(args), true),
            ObjectForm::Value(ty) => self.members(|_| Some(&ty)),
            ObjectForm::Named(named) => {
                let declared = declared.map(ClassType::key);
                self.members(|field| field_type(schema, named.key(), declared, field))
            }
            ObjectForm::Declared(class) => {
                let key = class.key();
                self.members(|field| field_type(schema, key, Some(key), field))
            }
        }
    }

    /// The members of an object, but for what names its class.
    fn members<'t>(
        &mut self,
        ty_of: impl Fn(&str) -> Option<&'t JavaType>,
    ) -> Result<(), TranscodeError> {
        self.is_inside = true;
        let mut object = self.json.begin_object()?;
        while let Some(field) = self.json.next_key(&mut object)? {
            if field == "class" && self.json.peek()? == JsonKind::String {
                self.skip()?;
                continue;
            }
            self.value(ty_of(&field))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
