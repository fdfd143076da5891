//! JSON objects as objects of a class: the one that the object names, or the one that is declared.

use std::borrow::Cow;

use hessian::JavaType;
use hessian::json::JsonKind;
use hessian::transcode::builtin::Builtin;
use hessian::transcode::expected;
use hessian::transcode::named::{CLASS_NAME, Named};

use super::{Place, Writer};
use crate::error::JsonbError;

/// What an object says of itself.
struct Look<'a> {
    class: Option<Cow<'a, str>>,
    /// What its only other member is, if that is called `value`.
    only_value: Option<JsonKind>,
    /// The string that is its only other member, which is called `name`.
    only_name: Option<Cow<'a, str>>,
}

impl<'a> Writer<'_, 'a, '_, '_, '_> {
    /// A JSON object as an object of `declared` or of the class that its member `class` names, or
    /// as a map if there is neither.
    pub(super) fn object(
        &mut self,
        declared: Option<&str>,
        place: Place,
    ) -> Result<(), JsonbError> {
        self.object_with(declared, &[], place)
    }

    /// The same; a collection or map that the object stands for holds what `args` say.
    pub(super) fn object_with(
        &mut self,
        declared: Option<&str>,
        args: &[JavaType],
        place: Place,
    ) -> Result<(), JsonbError> {
        let offset = self.json.position();
        let is_enum = declared.is_some_and(|class| self.schema.is_enum(class) == Some(true));
        let look = if self.may_have_class || is_enum { Some(self.look()?) } else { None };
        let named = look.as_ref().and_then(|look| look.class.as_deref());
        if let Some(look) = &look
            && let Some(name) = &look.only_name
            && let Some(class) = named.or(declared).filter(|class| self.is_enum(class, name, named))
        {
            self.check_enum(offset, class, name)?;
            if self.is_map(class) {
                return self.object_map(class, declared);
            }
            let is_told = place == Place::Declared && declared == Some(class);
            self.class_if_open(Some(class), if is_told { place } else { Place::Open });
            self.enc.string(name);
            return self.json.skip_value().map(drop).map_err(Into::into);
        }
        let named = match look.as_ref().and_then(|look| look.class.as_deref()) {
            Some(name) => Some(Named::of(name).ok_or_else(|| no_class(offset, name))?),
            None => None,
        };
        let only_value = look.as_ref().and_then(|look| look.only_value);
        match (named, declared) {
            (Some(named @ Named { builtin: Some(Builtin::Map), .. }), _) => {
                if only_value == Some(JsonKind::Object) && !named.args().is_empty() {
                    return self.only_value(&named.into_type(args));
                }
                self.class_if_open(Builtin::map_type(named.class), Place::Open);
                match if args.is_empty() { named.args() } else { args } {
                    [] => self.fields(Some(named.class), declared),
                    [key, rest @ ..] => self.entries(key, rest.first()),
                }
            }
            (Some(Named { class, builtin: Some(Builtin::Any), .. }), _) => {
                self.fields(Some(class), declared)
            }
            // `{"class": "java.util.Date", "value": 0}`: of a class that is no JSON object.
            (Some(named), _) if only_value.is_some() && named.is_of_value() => {
                self.only_value(&named.into_type(args))
            }
            (Some(Named { class, .. }), _) | (None, Some(class)) if self.is_map(class) => {
                self.object_map(class, declared)
            }
            (Some(Named { class, .. }), _) => {
                if place == Place::Open || declared != Some(class) {
                    self.enc.class(class);
                }
                self.as_object(|writer| writer.fields(Some(class), declared))
            }
            (None, Some(class)) => {
                self.class_if_open(declared, place);
                self.as_object(|writer| writer.fields(None, Some(class)))
            }
            (None, None) => self.fields(None, None),
        }
    }

    /// Writes what is inside of an object, where the provider's generic call does not look for maps.
    fn as_object(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), JsonbError>,
    ) -> Result<(), JsonbError> {
        let outside = std::mem::replace(&mut self.as_maps, false);
        let written = write(self);
        self.as_maps = outside;
        written
    }

    /// Whether an object of this class is written as a map.
    pub(super) fn is_map(&self, class: &str) -> bool {
        self.as_maps && !self.schema.takes_no_map(class)
    }

    /// What names the class in a map that stands for an object.
    pub(super) fn class_entry(&mut self, class: &str) {
        self.enc.string("class");
        self.enc.string(class);
    }

    /// The members of an object, as the map of which the provider makes an object of the class.
    fn object_map(&mut self, class: &str, declared: Option<&str>) -> Result<(), JsonbError> {
        self.enter();
        self.enc.object_begin();
        self.class_entry(class);
        let schema = self.schema;
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            if key == "class" && self.json.peek()? == JsonKind::String {
                self.json.skip_value()?;
                continue;
            }
            let field_type = |class| schema.field_type(class, &key);
            let ty = field_type(class).or_else(|| field_type(declared?));
            self.enc.string(&key);
            self.at_key(key);
            self.value(ty, Place::Open)?;
        }
        self.enc.object_end();
        self.leave();
        Ok(())
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
            self.value(ty, Place::Open)?;
        }
        self.enc.object_end();
        self.leave();
        Ok(())
    }

    /// The members of an object of the class that it names, or that is declared; what names it is left out.
    fn fields(&mut self, named: Option<&str>, declared: Option<&str>) -> Result<(), JsonbError> {
        self.enter();
        self.enc.object_begin();
        let schema = self.schema;
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            if named.is_some() && key == "class" && self.json.peek()? == JsonKind::String {
                self.json.skip_value()?;
                continue;
            }
            // Of a subclass that nobody knows, the fields of its superclass are known.
            let field_type = |class| schema.field_type(class, &key);
            let ty = named.and_then(field_type).or_else(|| field_type(declared?));
            self.enc.string(&key);
            self.at_key(key);
            match ty {
                Some(ty) => self.value(Some(ty), Place::Declared)?,
                None => self.value(None, Place::Open)?,
            }
        }
        self.enc.object_end();
        self.leave();
        Ok(())
    }

    /// A JSON object where a class is declared that is none in JSON: it has to say by its member `class`
    /// what it is, which may be a subclass.
    pub(super) fn named_object(
        &mut self,
        builtin: Builtin,
        declared: &str,
        args: &[JavaType],
    ) -> Result<(), JsonbError> {
        let name = if self.may_have_class { self.look()?.class } else { None };
        let Some(name) = name else { return Err(self.wrong_kind(declared)) };
        if Named::of(&name).is_some_and(|named| !named.may_stand_for(builtin)) {
            let (offset, found) = (self.json.position(), "an object of another class");
            return Err(JsonbError::Kind { offset, found, expected: declared.into() });
        }
        self.object_with(None, args, Place::Open)
    }

    /// Whether the object that comes next, where a map is declared, says by its member `class` which map of java.util
    /// it is. Otherwise that is a key like any other.
    pub(super) fn names_map(&self) -> Result<bool, JsonbError> {
        let name = if self.may_have_class { self.look()?.class } else { None };
        let named = name.as_deref().and_then(Named::of);
        Ok(named.is_some_and(|named| named.builtin == Some(Builtin::Map)))
    }

    /// The member `value` in place of its object.
    fn only_value(&mut self, ty: &JavaType) -> Result<(), JsonbError> {
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            match &*key {
                "value" => self.value(Some(ty), Place::Open)?,
                _ => self.json.skip_value().map(|_| ())?,
            }
        }
        Ok(())
    }

    /// Looks through the object that comes next. The reader stays.
    fn look(&self) -> Result<Look<'a>, JsonbError> {
        let mut scan = self.json.clone();
        let (mut class, mut name, mut n_others, mut value) = (None, None, 0, None);
        let mut object = scan.begin_object()?;
        while let Some(key) = scan.next_key(&mut object)? {
            if key == "class" && scan.peek()? == JsonKind::String {
                class = Some(scan.read_string()?);
                continue;
            }
            n_others += 1;
            if key == "value" {
                value = Some(scan.peek()?);
            }
            if key == "name" && scan.peek()? == JsonKind::String {
                name = Some(scan.read_string()?);
                continue;
            }
            scan.skip_value()?;
        }
        let only_name = name.filter(|_| n_others == 1);
        let only_value = value.filter(|_| n_others == 1);
        Ok(Look { class, only_value, only_name })
    }

    /// Whether an object of this class, with a `name` alone, is the long form of an enum. Where nobody knows, it is
    /// one if it says its class and the name is written like a constant.
    fn is_enum(&self, class: &str, name: &str, named: Option<&str>) -> bool {
        let is_constant = || {
            let fits =
                |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
            name.starts_with(|first: char| first.is_ascii_uppercase()) && name.bytes().all(fits)
        };
        let known = self.schema.is_enum(class);
        known.unwrap_or_else(|| named.is_some() && !class.starts_with("java.") && is_constant())
    }
}

/// The member `class` of the object at `offset` names none.
#[cold]
fn no_class(offset: usize, name: &str) -> JsonbError {
    JsonbError::Value { offset, found: expected::quoted(name), expected: CLASS_NAME.into() }
}
