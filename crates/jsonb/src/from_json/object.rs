//! JSON objects as objects of a class: the one that the object names, or the one that is declared.

use std::borrow::Cow;

use java_json::builtin::Builtin;
use java_json::expected;
use java_json::json::JsonKind;
use java_json::named::{EnumObject, NamedClass, ObjectForm, enum_object, field_type, known_enum};
use java_json::scalars::Misfit;
use java_json::unknown::is_optional_class;
use java_json::{ClassType, JavaType};

use super::{JsonToJsonb, ReaderType};
use crate::error::JsonbError;

/// The class of an object.
#[derive(Clone, Copy)]
struct Of<'c> {
    /// What its fields are known by.
    key: &'c str,
    /// Whether the object itself says so.
    is_named: bool,
    /// The class that is declared, which may be a superclass.
    declared: Option<&'c ClassType>,
}

impl<'c> Of<'c> {
    /// The text of a type with type arguments, if it is one.
    fn generic_key(self) -> Option<&'c str> {
        let declared = self.declared.map(ClassType::key);
        declared.into_iter().chain([self.key]).find(|key| key.contains('<'))
    }
}

impl<'a> JsonToJsonb<'_, 'a, '_, '_, '_> {
    /// A JSON object as an object of `declared` or of the class that its member `class` names, or
    /// as a map if there is neither.
    pub(super) fn object(
        &mut self,
        declared: Option<&ClassType>,
        place: ReaderType,
    ) -> Result<(), JsonbError> {
        self.object_with(declared, &[], place)
    }

    /// The same; a collection or map that the object stands for holds what `args` say.
    pub(super) fn object_with(
        &mut self,
        declared: Option<&ClassType>,
        args: &[JavaType],
        place: ReaderType,
    ) -> Result<(), JsonbError> {
        let offset = self.json.position();
        let declared_name = declared.map(ClassType::name);
        let is_enum = declared_name.is_some_and(|class| self.schema.is_enum(class) == Some(true));
        let look =
            if self.may_have_class || is_enum { Some(self.passed.look(self.json)?) } else { None };
        let named = look.as_ref().and_then(|look| look.class.as_deref());
        if let Some(look) = &look
            && let Some(EnumObject { class, name }) = enum_object(self.schema, look, declared_name)
        {
            self.check_enum(offset, class, name)?;
            if self.is_map(class) {
                self.constant_map(class, |writer| writer.enc.string(name));
                return self.json.skip_value().map(drop).map_err(Into::into);
            }
            let is_told = place == ReaderType::Declared && declared_name == Some(class);
            self.class_if_open(Some(class), if is_told { place } else { ReaderType::Open });
            self.enc.string(name);
            return self.json.skip_value().map(drop).map_err(Into::into);
        }
        if let Err(class) | Ok(Some(class)) = known_enum(self.schema, named, declared_name) {
            let expected = expected::enum_values(self.schema, class);
            return Err(Misfit::value(self.json, offset, &expected).into());
        }
        let name = look.as_ref().and_then(|look| look.class.as_deref());
        let named = NamedClass::of_object(offset, name, self.schema)?;
        let only_value = look.as_ref().and_then(|look| look.only_value);
        let builtin = named.as_ref().and_then(|named| named.builtin);
        if builtin == Some(Builtin::BitSet) && only_value.is_none() {
            return self.bit_set(ReaderType::Open);
        }
        let is_object = || only_value.is_some_and(|(kind, _)| kind == JsonKind::Object);
        match ObjectForm::of(named, declared, args, only_value.is_some(), is_object) {
            ObjectForm::Untyped => {
                self.fields(Of { key: "", is_named: false, declared: None }, None)
            }
            ObjectForm::Any(class) => {
                self.fields(Of { key: class, is_named: true, declared }, None)
            }
            ObjectForm::Map(named) => {
                self.class_if_open(Builtin::map_type(named.class), ReaderType::Open);
                match named.args_or(args) {
                    [] => self.fields(Of { key: named.class, is_named: true, declared }, None),
                    [key, rest @ ..] => self.entries(key, rest.first()),
                }
            }
            ObjectForm::Value(ty) if declared.is_none() => self.only_value(&ty, place),
            ObjectForm::Value(ty) => self.only_value(&ty, ReaderType::Open),
            ObjectForm::Named(named) => {
                let of = Of { key: named.key(), is_named: true, declared };
                self.object_of(of, named.class, place)
            }
            ObjectForm::Declared(class) => {
                let of = Of { key: class.key(), is_named: false, declared };
                self.object_of(of, class.name(), place)
            }
        }
    }

    /// The object that comes next as one of the class `name`, or as the map of which the provider
    /// makes one.
    fn object_of(&mut self, of: Of<'_>, name: &str, place: ReaderType) -> Result<(), JsonbError> {
        if self.is_map(name) {
            return self.fields(of, Some(name));
        }
        if place == ReaderType::Open || of.declared.map(ClassType::name) != Some(name) {
            self.enc.class(name);
        }
        self.as_object(|writer| writer.fields(of, None))
    }

    /// Writes what is inside of an object, where the provider's generic call does not look for
    /// maps.
    fn as_object(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), JsonbError>,
    ) -> Result<(), JsonbError> {
        let outside = std::mem::replace(&mut self.as_maps, false);
        let was_in_record = self.is_in_record;
        self.is_in_record |= outside;
        let written = write(self);
        (self.as_maps, self.is_in_record) = (outside, was_in_record);
        written
    }

    /// Whether an object of this class is written as a map.
    pub(super) fn is_map(&self, class: &str) -> bool {
        self.as_maps && !self.schema.takes_no_map(class)
    }

    /// The map of which the provider makes a constant of an enum.
    pub(super) fn constant_map<E>(&mut self, class: &str, name: impl FnOnce(&mut Self) -> E) -> E {
        self.enc.object_begin();
        self.class_entry(class);
        self.enc.string("name");
        let written = name(self);
        self.enc.object_end();
        written
    }

    /// What names the class in a map that stands for an object.
    pub(super) fn class_entry(&mut self, class: &str) {
        self.enc.string("class");
        self.enc.string(class);
    }

    /// The members of an object that says of which types its keys and values are.
    fn entries(&mut self, key_ty: &JavaType, ty: Option<&JavaType>) -> Result<(), JsonbError> {
        self.enter();
        self.enc.object_begin();
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            if key == "class" && self.json.peek()? == JsonKind::String {
                self.json.skip_value()?;
                continue;
            }
            self.key(&key, Some(key_ty))?;
            self.at_key(key);
            self.value(ty, ReaderType::Open)?;
        }
        self.enc.object_end();
        self.leave();
        Ok(())
    }

    /// The members of an object; what names its class is left out. In a map of which the provider
    /// makes an object of the class `told`, that is the first entry.
    fn fields(&mut self, of: Of<'_>, told: Option<&str>) -> Result<(), JsonbError> {
        self.enter();
        self.enc.object_begin();
        if let Some(class) = told.filter(|class| !is_optional_class(class)) {
            self.class_entry(class);
        }
        let (schema, generic) = (self.schema, of.generic_key().and_then(|key| key.split_once('<')));
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            let may_be_class = of.is_named || told.is_some();
            if may_be_class && key == "class" && self.json.peek()? == JsonKind::String {
                self.json.skip_value()?;
                continue;
            }
            let ty = field_type(schema, of.key, of.declared.map(ClassType::key), &key);
            // The reader knows a field by its class alone, without type arguments, and an entry of
            // a map not at all.
            let is_declared = ty.filter(|_| told.is_none()).is_some_and(|ty| {
                let Some((class, _)) = generic else { return true };
                let raw = schema.field_type(class, &key);
                raw.is_some_and(|raw| raw.to_descriptor() == ty.to_descriptor())
            });
            self.enc.string(&key);
            self.at_key(key);
            self.value(ty, if is_declared { ReaderType::Declared } else { ReaderType::Open })?;
        }
        self.enc.object_end();
        self.leave();
        Ok(())
    }

    /// A JSON object where a class is declared that is none in JSON: it has to say by its member
    /// `class` what it is, which may be a subclass. If it is the class that the reader knows, the
    /// value does not say so again: fastjson2 cannot read a `UUID`, `Duration` or `Timestamp` that
    /// does.
    pub(super) fn named_object(
        &mut self,
        declared: &ClassType,
        place: ReaderType,
    ) -> Result<(), JsonbError> {
        let Some(name) = self.next_class()? else { return Err(self.wrong_kind(declared.name())) };
        if NamedClass::of(&name).is_some_and(|named| !named.may_stand_for(declared, self.schema)) {
            let (offset, found) = (self.json.position(), "an object of another class");
            return Err(JsonbError::Kind { offset, found, expected: declared.name().into() });
        }
        let place = if name == declared.name() { place } else { ReaderType::Open };
        self.object_with(None, declared.args(), place)
    }

    /// Whether the object that comes next, where a map is declared, says by its member `class`
    /// which map of java.util it is. Otherwise that is a key like any other.
    pub(super) fn names_map(&mut self) -> Result<bool, JsonbError> {
        Ok(NamedClass::is_of_map(self.next_class()?.as_deref()))
    }

    /// The class that the object that comes next names.
    pub(super) fn next_class(&mut self) -> Result<Option<Cow<'a, str>>, JsonbError> {
        if !self.may_have_class {
            return Ok(None);
        }
        Ok(self.passed.look(self.json)?.class)
    }

    /// The member `value` in place of its object.
    fn only_value(&mut self, ty: &JavaType, place: ReaderType) -> Result<(), JsonbError> {
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            match &*key {
                "value" => self.value(Some(ty), place)?,
                _ => self.json.skip_value().map(|_| ())?,
            }
        }
        Ok(())
    }
}
