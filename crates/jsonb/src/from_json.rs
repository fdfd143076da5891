//! JSON to JSONB.
//!
//! fastjson2 reads a value by the class that is declared for its place, where there is one: a
//! parameter, an element of an array, a field. Texts become enums and dates there, and objects beans,
//! so that no class has to be named. Where nothing is declared (elements of a `List`, values of a
//! `Map`, `Object`) a value that is not what it looks like bears the name of its class.
//!
//! Invariants:
//! - One pass over the text, but for objects where one has a member `class`: those are looked through
//!   for it once before.
//! - What is written when an error comes stays in the buffer; the caller drops it.

mod leaf;

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hessian::JavaType;
use hessian::json::{JsonKind, JsonReader};
use hessian::transcode::builtin::Builtin;
use hessian::transcode::named::Named;
use hessian::transcode::{InputOptions, Places, Schema};
use memchr::memmem;

use crate::Encoder;
use crate::error::JsonbError;

/// With or without padding, for both are met.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Writes the JSON value that `json` is at, as a value of the Java type `ty` that its reader knows; if
/// the reader knows none, as what the JSON value looks like. The table is in docs/json-mapping.md.
///
/// # Errors
/// [`JsonbError`] if the text is no JSON, or a value does not fit its type.
pub fn json_to_jsonb(
    json: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    enc: &mut Encoder<'_>,
) -> Result<(), JsonbError> {
    json_to_jsonb_with(json, ty, enc, &())
}

/// Like [`json_to_jsonb`], where the types of fields are known too.
///
/// # Errors
/// [`JsonbError`] if the text is no JSON, or a value does not fit its type.
pub fn json_to_jsonb_with(
    json: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    enc: &mut Encoder<'_>,
    schema: &dyn Schema,
) -> Result<(), JsonbError> {
    json_to_jsonb_by(json, ty, enc, &InputOptions { schema, refs: false }, ROOT)
}

/// The path of a message's outermost value.
const ROOT: &str = "$";

/// Like [`json_to_jsonb`], with choices. `root` is the path of this value in the message, `$` if it is the
/// outermost one: references tell the whole path.
///
/// # Errors
/// [`JsonbError`] if the text is no JSON, or a value does not fit its type.
pub fn json_to_jsonb_by(
    json: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    enc: &mut Encoder<'_>,
    options: &InputOptions<'_>,
    root: &str,
) -> Result<(), JsonbError> {
    let rest = json.text().get(json.position()..).unwrap_or_default();
    let may_have_class = memmem::find(rest, b"\"class\"").is_some();
    let places = options.refs.then(Places::default);
    let schema = options.schema;
    let mut writer = Writer { json, enc, schema, may_have_class, places, root };
    let place = if ty.is_some() { Place::Declared } else { Place::Open };
    writer.value(ty, place)
}

/// What the reader knows of the value at a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// Its type.
    Declared,
    /// Nothing, so that the value has to say.
    Open,
}

struct Writer<'r, 'a, 'e, 'o, 's> {
    json: &'r mut JsonReader<'a>,
    enc: &'e mut Encoder<'o>,
    schema: &'s dyn Schema,
    /// Whether there is a member named `class` at all. (One that is written with escapes is taken
    /// for a class only if another is not.)
    may_have_class: bool,
    /// What references may name, where they are read.
    places: Option<Places<'a>>,
    root: &'s str,
}

/// What an object says of itself.
struct Look<'a> {
    class: Option<Cow<'a, str>>,
    /// Whether its only other member is `value`.
    has_only_value: bool,
    /// The string that is its only other member, which is called `name`.
    only_name: Option<Cow<'a, str>>,
}

impl<'a> Writer<'_, 'a, '_, '_, '_> {
    fn value(&mut self, ty: Option<&JavaType>, place: Place) -> Result<(), JsonbError> {
        if self.places.is_some() && self.reference()? {
            return Ok(());
        }
        match ty {
            None => self.untyped(None),
            Some(JavaType::Class(class)) => match class.builtin() {
                None => self.bean(class.name(), place),
                Some(Builtin::Any) => self.untyped(None),
                Some(builtin) => self.builtin(builtin, class.name(), class.args(), place),
            },
            Some(JavaType::Array(element)) => self.array(element, place),
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
                    _ => return Err(self.wrong_kind("void")),
                };
                if self.json.peek()? == JsonKind::Null {
                    return Err(self.wrong_kind(&primitive.java_name()));
                }
                self.scalar(builtin, &primitive.java_name(), place)
            }
        }
    }

    /// Whatever the JSON value looks like; an object is of this class unless it says another.
    fn untyped(&mut self, class: Option<&str>) -> Result<(), JsonbError> {
        match self.json.peek()? {
            JsonKind::Null => self.null(),
            JsonKind::Bool => {
                self.enc.bool(self.json.read_bool()?);
                Ok(())
            }
            JsonKind::Number => self.untyped_number(),
            JsonKind::String => self.text(),
            JsonKind::Array => self.elements(None, Place::Open),
            JsonKind::Object => self.object(class, Place::Open),
        }
    }

    fn builtin(
        &mut self,
        builtin: Builtin,
        name: &str,
        args: &[JavaType],
        place: Place,
    ) -> Result<(), JsonbError> {
        let kind = self.json.peek()?;
        match (builtin, kind) {
            (_, JsonKind::Null) => self.null(),
            (Builtin::List | Builtin::EnumSet, JsonKind::Array) => {
                self.class_if_open(Builtin::list_type(name), place);
                self.elements(args.first(), Place::Open)
            }
            (Builtin::Map, JsonKind::Object) => {
                self.class_if_open(Builtin::map_type(name), place);
                self.members(args.first(), args.get(1))
            }
            // It is read from the value inside.
            (Builtin::Optional, _) => self.value(args.first(), Place::Open),
            (_, JsonKind::Object) => self.named_object(name),
            (Builtin::List | Builtin::Map | Builtin::EnumSet, _) => Err(self.wrong_kind(name)),
            _ => self.scalar(builtin, name, place),
        }
    }

    fn class_if_open(&mut self, class: Option<&str>, place: Place) {
        if let (Some(class), Place::Open) = (class, place) {
            self.enc.class(class);
        }
    }

    /// A value of a class that we know nothing of but its name.
    fn bean(&mut self, name: &str, place: Place) -> Result<(), JsonbError> {
        match self.json.peek()? {
            JsonKind::Null => self.null(),
            JsonKind::Object => self.object(Some(name), place),
            // An enum, most likely.
            JsonKind::String => {
                self.class_if_open(Some(name), place);
                self.text()
            }
            _ => Err(self.wrong_kind(name)),
        }
    }

    fn array(&mut self, element: &JavaType, place: Place) -> Result<(), JsonbError> {
        let kind = self.json.peek()?;
        if kind == JsonKind::Null {
            return self.null();
        }
        if place == Place::Open {
            self.enc.class(&array_name(element));
        }
        match (element, kind) {
            (JavaType::Byte, JsonKind::String) => {
                let offset = self.json.position();
                let text = self.json.read_string()?;
                let bytes = BASE64
                    .decode(text.as_bytes())
                    .map_err(|_| JsonbError::Text { offset, expected: "base64" })?;
                self.enc.binary(&bytes);
                Ok(())
            }
            (JavaType::Byte, JsonKind::Array) => self.byte_array(),
            (JavaType::Char, JsonKind::String) => self.text(),
            (JavaType::Char, JsonKind::Array) => self.char_array(),
            (_, JsonKind::Array) => self.elements(Some(element), Place::Declared),
            _ => Err(self.wrong_kind(&(element.java_name() + "[]"))),
        }
    }

    /// A JSON array. Its length is not known before its end.
    fn elements(&mut self, ty: Option<&JavaType>, place: Place) -> Result<(), JsonbError> {
        self.enter();
        let mut array = self.json.begin_array()?;
        let open = self.enc.array_open();
        let mut len = 0;
        while self.json.next_element(&mut array)? {
            if let Some(places) = &mut self.places {
                places.at_index(len);
            }
            self.value(ty, place)?;
            len += 1;
        }
        self.enc.array_close(open, len);
        self.leave();
        Ok(())
    }

    /// A JSON object as a map.
    fn members(
        &mut self,
        key_ty: Option<&JavaType>,
        ty: Option<&JavaType>,
    ) -> Result<(), JsonbError> {
        self.enter();
        self.enc.object_begin();
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            self.key(&key, key_ty)?;
            self.at_key(key);
            self.value(ty, Place::Open)?;
        }
        self.enc.object_end();
        self.leave();
        Ok(())
    }

    /// A name as a map's key: what the key's type makes of the text.
    fn key(&mut self, key: &str, ty: Option<&JavaType>) -> Result<(), JsonbError> {
        let (builtin, name) = match ty {
            Some(JavaType::Class(class)) => (class.builtin(), class.name()),
            _ => (Some(Builtin::String), ""),
        };
        match builtin {
            Some(Builtin::String | Builtin::Any) => self.enc.string(key),
            Some(builtin) => {
                // Reads the key as the JSON string that it is.
                let mut quoted = Vec::new();
                hessian::json::write_string(&mut quoted, key);
                let offset = self.json.position();
                let mut json = JsonReader::new(&quoted, hessian::Limits::default());
                let mut writer = Writer {
                    json: &mut json,
                    enc: self.enc,
                    schema: self.schema,
                    may_have_class: false,
                    places: None,
                    root: self.root,
                };
                writer.scalar(builtin, name, Place::Open).map_err(|error| match error {
                    JsonbError::Range { expected, .. } => JsonbError::Range { offset, expected },
                    _ => JsonbError::Text { offset, expected: "a key of the map's key type" },
                })?;
            }
            None => {
                self.enc.class(name);
                self.enc.string(key);
            }
        }
        Ok(())
    }

    /// A JSON object as an object of `declared` or of the class that its member `class` names, or
    /// as a map if there is neither.
    fn object(&mut self, declared: Option<&str>, place: Place) -> Result<(), JsonbError> {
        let offset = self.json.position();
        let is_enum = declared.is_some_and(|class| self.schema.is_enum(class) == Some(true));
        let look = if self.may_have_class || is_enum { Some(self.look()?) } else { None };
        let named = look.as_ref().and_then(|look| look.class.as_deref());
        if let Some(look) = &look
            && let Some(name) = &look.only_name
            && let Some(class) = named.or(declared).filter(|class| self.is_enum(class, name, named))
        {
            let is_told = place == Place::Declared && declared == Some(class);
            self.class_if_open(Some(class), if is_told { place } else { Place::Open });
            self.enc.string(name);
            return self.json.skip_value().map(drop).map_err(Into::into);
        }
        let no_class = JsonbError::Text { offset, expected: "the name of a class" };
        let of = match named {
            Some(name) => Some(Named::of(name).ok_or_else(|| no_class.clone())?),
            None => None,
        };
        let has_only_value = look.as_ref().is_some_and(|look| look.has_only_value);
        match (named, of) {
            // `{"class": "java.util.Date", "value": 0}`: of a class that is no JSON object.
            (Some(class), Some(of)) if has_only_value && of.is_of_value() => {
                let ty = match of.plain {
                    Some(ty) => ty,
                    None => JavaType::parse(class).map_err(|_| no_class)?,
                };
                return self.only_value(&ty);
            }
            (Some(class), Some(Named { builtin: Some(Builtin::Map), .. })) => {
                self.class_if_open(Builtin::map_type(class), Place::Open);
            }
            (Some(_), Some(Named { builtin: Some(Builtin::Any), .. })) => {}
            (Some(class), _) => {
                if place == Place::Open || declared != Some(class) {
                    self.enc.class(class);
                }
            }
            (None, _) => self.class_if_open(declared, place),
        }
        self.fields(named, declared)
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
    fn named_object(&mut self, declared: &str) -> Result<(), JsonbError> {
        if !self.may_have_class || self.look()?.class.is_none() {
            return Err(self.wrong_kind(declared));
        }
        self.object(None, Place::Open)
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
        let (mut class, mut name, mut n_others, mut has_value) = (None, None, 0, false);
        let mut object = scan.begin_object()?;
        while let Some(key) = scan.next_key(&mut object)? {
            if key == "class" && scan.peek()? == JsonKind::String {
                class = Some(scan.read_string()?);
                continue;
            }
            n_others += 1;
            has_value |= key == "value";
            if key == "name" && scan.peek()? == JsonKind::String {
                name = Some(scan.read_string()?);
                continue;
            }
            scan.skip_value()?;
        }
        let only_name = name.filter(|_| n_others == 1);
        Ok(Look { class, has_only_value: has_value && n_others == 1, only_name })
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

    fn enter(&mut self) {
        if let Some(places) = &mut self.places {
            // Paths are all that counts here.
            places.enter(0);
        }
    }

    fn leave(&mut self) {
        if let Some(places) = &mut self.places {
            places.leave();
        }
    }

    fn at_key(&mut self, key: Cow<'a, str>) {
        if let Some(places) = &mut self.places {
            places.at_key(key);
        }
    }

    /// Writes what an object with the single member `$ref` names, if one comes next.
    fn reference(&mut self) -> Result<bool, JsonbError> {
        if self.json.peek()? != JsonKind::Object {
            return Ok(false);
        }
        let offset = self.json.position();
        let mut ahead = self.json.clone();
        let mut object = ahead.begin_object()?;
        if ahead.next_key(&mut object)?.is_none_or(|key| key != "$ref")
            || ahead.peek()? != JsonKind::String
        {
            return Ok(false);
        }
        let path = ahead.read_string()?;
        let is_alone = ahead.next_key(&mut object)?.is_none();
        let is_known = self.places.as_ref().is_some_and(|places| places.find(&path).is_some());
        let Some(steps) = path.strip_prefix(ROOT).filter(|_| is_alone && is_known) else {
            let expected = "the path of an array or object that began before";
            return Err(JsonbError::Text { offset, expected });
        };
        self.enc.reference(&format!("{}{steps}", self.root));
        *self.json = ahead;
        Ok(true)
    }

    #[cold]
    fn wrong_kind(&self, expected: &str) -> JsonbError {
        let mut json = self.json.clone();
        let found = match json.peek() {
            Ok(JsonKind::Null) => "null",
            Ok(JsonKind::Bool) => "a boolean",
            Ok(JsonKind::Number) => "a number",
            Ok(JsonKind::String) => "a string",
            Ok(JsonKind::Array) => "an array",
            Ok(JsonKind::Object) => "an object",
            Err(error) => return error.into(),
        };
        JsonbError::Kind { offset: json.position(), found, expected: expected.into() }
    }
}

/// The name that fastjson2 gives an array of this element: `[I`, `[String`, `[com.acme.Order`.
fn array_name(element: &JavaType) -> String {
    match element {
        JavaType::Array(inner) => format!("[{}", array_name(inner)),
        JavaType::Class(class) => match class.name() {
            "java.lang.Object" => "[O".to_owned(),
            "java.lang.String" => "[String".to_owned(),
            name => format!("[{name}"),
        },
        primitive => format!("[{}", primitive.to_descriptor()),
    }
}

#[cfg(test)]
mod tests;
