//! JSON to JSONB.
//!
//! fastjson2 reads a value by the class that is declared for its place, where there is one: a
//! parameter, an element of an array, a field. Texts become enums and dates there, and objects
//! beans, so that no class has to be named. Where nothing is declared (elements of a `List`,
//! values of a `Map`, `Object`) a value that is not what it looks like bears the name of its
//! class.
//!
//! Invariants:
//! - One pass over the text, but for objects where one has a member `class`: those are looked
//!   through for it once before, but nothing in them at every level.
//! - What is written when an error comes stays in the buffer; the caller drops it.

mod leaf;
mod object;

use std::borrow::Cow;

use java_json::builtin::Builtin;
use java_json::declared::DeclaredForm;
use java_json::json::{JsonKind, JsonReader};
use java_json::named::GENERIC_ENTRY;
use java_json::number;
use java_json::passed::Passed;
use java_json::references::ReferencePaths;
use java_json::scalars::{self, Misfit, is_of_beans};
use java_json::unknown::optional_number;
use java_json::{ClassType, JavaType};
use java_json::{InputOptions, Schema, expected};
use memchr::memmem;

use crate::Encoder;
use crate::error::JsonbError;

/// Writes the JSON value that `json` is at, as a value of the Java type `ty` that its reader
/// knows; if the reader knows none, as what the JSON value looks like. The table is in
/// docs/json-mapping.md.
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
    json_to_jsonb_by(
        json,
        ty,
        enc,
        &InputOptions { schema, ..Default::default() },
        ValueContext::ROOT,
    )
}

/// What surrounds a value in its message.
#[derive(Clone, Copy, Debug)]
pub struct ValueContext<'a> {
    /// Its path: references tell the whole path.
    pub path: &'a str,
    /// Whether the reader knows the value's type too, if there is one. If not, what is not what it
    /// looks like carries its class.
    pub is_declared: bool,
}

impl ValueContext<'static> {
    /// The outermost value, whose type the reader knows.
    pub const ROOT: Self = Self { path: "$", is_declared: true };
}

/// Like [`json_to_jsonb`], with choices, for a value in that context.
///
/// # Errors
/// [`JsonbError`] if the text is no JSON, or a value does not fit its type.
pub fn json_to_jsonb_by(
    json: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    enc: &mut Encoder<'_>,
    options: &InputOptions<'_>,
    context: ValueContext<'_>,
) -> Result<(), JsonbError> {
    let rest = json.text().get(json.position()..).unwrap_or_default();
    let may_have_class = memmem::find(rest, b"\"class\"").is_some();
    let places = options.refs.then(ReferencePaths::default);
    let schema = options.schema;
    let as_maps = options.as_maps;
    let root = context.path;
    let mut writer = JsonToJsonb {
        json,
        enc,
        schema,
        as_maps,
        is_in_record: false,
        may_have_class,
        passed: Passed::default(),
        places,
        root,
    };
    let is_declared = ty.is_some() && context.is_declared;
    writer.value(ty, if is_declared { ReaderType::Declared } else { ReaderType::Open })
}

/// fastjson2 2.0.56 reads no larger number as the constant of an enum.
const MAX_ORDINAL: i32 = 47;

/// What the reader knows of the value at a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ReaderType {
    /// Its type.
    Declared,
    /// Nothing, so that the value has to say.
    Open,
}

struct JsonToJsonb<'r, 'a, 'e, 'o, 's> {
    json: &'r mut JsonReader<'a>,
    enc: &'e mut Encoder<'o>,
    schema: &'s dyn Schema,
    /// Whether objects of classes are written as maps here. Inside of an object they never are.
    as_maps: bool,
    /// Whether this is inside of an object that a generic call cannot write as a map.
    is_in_record: bool,
    /// Whether there is a member named `class` at all. (One that is written with escapes is taken
    /// for a class only if another is not.)
    may_have_class: bool,
    passed: Passed,
    /// What references may name, where they are read.
    places: Option<ReferencePaths<'a>>,
    root: &'s str,
}

impl<'a> JsonToJsonb<'_, 'a, '_, '_, '_> {
    fn value(&mut self, ty: Option<&JavaType>, place: ReaderType) -> Result<(), JsonbError> {
        if self.places.is_some() && self.reference()? {
            return Ok(());
        }
        match ty {
            None => self.untyped(),
            Some(JavaType::Class(class)) => self.class_value(class, place),
            Some(JavaType::Array(element)) => self.array(element, place),
            Some(primitive) => {
                let Some(builtin) = scalars::of_primitive(primitive) else {
                    return Err(self.wrong_kind("void"));
                };
                if self.json.peek()? == JsonKind::Null {
                    return Err(self.wrong_kind(&primitive.java_name()));
                }
                self.scalar(builtin, &primitive.java_name(), place)
            }
        }
    }

    /// Whatever the JSON value looks like.
    fn untyped(&mut self) -> Result<(), JsonbError> {
        match self.json.peek()? {
            JsonKind::Null => self.null(),
            JsonKind::Bool => {
                self.enc.bool(self.json.read_bool()?);
                Ok(())
            }
            JsonKind::Number => self.untyped_number(),
            JsonKind::String => self.text(),
            JsonKind::Array => self.elements(None, ReaderType::Open),
            JsonKind::Object => self.object(None, ReaderType::Open),
        }
    }

    /// Dubbo makes an optional one of a map where it is declared, unless the map names the class.
    fn optional_map(&mut self, ty: Option<&JavaType>) -> Result<(), JsonbError> {
        self.enc.object_begin();
        self.enc.string("value");
        self.value(ty, ReaderType::Open)?;
        self.enc.object_end();
        Ok(())
    }

    fn class_value(&mut self, class: &ClassType, place: ReaderType) -> Result<(), JsonbError> {
        let kind = self.json.peek()?;
        let (name, args) = (class.name(), class.args());
        match DeclaredForm::of(class.builtin(), kind, || self.names_map())? {
            DeclaredForm::Untyped => self.untyped(),
            DeclaredForm::Null => self.null(),
            // It is read from the value inside.
            DeclaredForm::Optional if kind == JsonKind::Null => self.null(),
            DeclaredForm::Optional if self.is_map(name) => self.optional_map(args.first()),
            DeclaredForm::Optional => self.value(args.first(), ReaderType::Open),
            DeclaredForm::Elements | DeclaredForm::EnumSet => {
                self.class_if_open(Builtin::list_type(name), place);
                self.elements(args.first(), ReaderType::Open)
            }
            DeclaredForm::BitSet if self.next_class()?.is_some() => self.named_object(class, place),
            DeclaredForm::BitSet => self.bit_set(place),
            DeclaredForm::NamedMap => self.object_with(None, args, ReaderType::Open),
            DeclaredForm::Entries => {
                self.class_if_open(Builtin::map_type(name), place);
                self.members(args.first(), args.get(1))
            }
            DeclaredForm::NamedObject => self.named_object(class, place),
            DeclaredForm::Scalar(builtin) => self.scalar(builtin, name, place),
            DeclaredForm::Object => self.object(Some(class), place),
            DeclaredForm::EnumName | DeclaredForm::Wrong
                if optional_number(name).is_some()
                    && matches!(kind, JsonKind::Number | JsonKind::String) =>
            {
                self.optional_number(name, place)
            }
            DeclaredForm::EnumName => self.enum_name(name, place),
            DeclaredForm::Wrong if kind == JsonKind::Number && class.builtin().is_none() => {
                self.enum_number(name, place)
            }
            DeclaredForm::Wrong => Err(self.wrong_kind(name)),
        }
    }

    fn class_if_open(&mut self, class: Option<&str>, place: ReaderType) {
        if let (Some(class), ReaderType::Open) = (class, place) {
            self.enc.class(class);
        }
    }

    /// A text where a class is declared that we know nothing of but its name: an enum, most
    /// likely.
    fn enum_name(&mut self, class: &str, place: ReaderType) -> Result<(), JsonbError> {
        if self.is_map(class) {
            return self.constant_map(class, Self::text);
        }
        let offset = self.json.position();
        let text = self.json.read_string()?;
        self.check_enum(offset, class, &text)?;
        self.class_if_open(Some(class), place);
        self.enc.string(&text);
        Ok(())
    }

    /// A number where an enum is declared whose values are known: fastjson2 writes the fields of
    /// an object so.
    fn enum_number(&mut self, class: &str, place: ReaderType) -> Result<(), JsonbError> {
        let Some(names) = self.schema.enum_names(class) else {
            return Err(self.wrong_kind(class));
        };
        let offset = self.json.position();
        let number = number::integer(self.json.read_number()?);
        let index = number.and_then(|number| usize::try_from(number).ok());
        let Some(name) = index.and_then(|index| names.get(index)) else {
            let expected = expected::enum_values(self.schema, class);
            return Err(Misfit::value(self.json, offset, &expected).into());
        };
        if self.is_map(class) {
            self.constant_map(class, |writer| writer.enc.string(name));
            return Ok(());
        }
        let ordinal = index.and_then(|index| i32::try_from(index).ok());
        if let (Some(ordinal), ReaderType::Declared) =
            (ordinal.filter(|it| *it <= MAX_ORDINAL), place)
        {
            self.enc.int(ordinal);
            return Ok(());
        }
        // What is listed need not be its name.
        self.check_enum(offset, class, name)?;
        self.class_if_open(Some(class), place);
        self.enc.string(name);
        Ok(())
    }

    /// Checks that a text is a value of the enum, where these are known: what is none, Java takes
    /// for null.
    fn check_enum(&self, offset: usize, class: &str, name: &str) -> Result<(), JsonbError> {
        match expected::enum_without(self.schema, class, name) {
            Some(expected) => {
                Err(JsonbError::Value { offset, found: expected::quoted(name), expected })
            }
            None => Ok(()),
        }
    }

    fn array(&mut self, element: &JavaType, place: ReaderType) -> Result<(), JsonbError> {
        let kind = self.json.peek()?;
        if kind == JsonKind::Null {
            return self.null();
        }
        // Of an array that holds maps the provider makes the elements, and the array.
        let is_of_maps = self.as_maps && is_of_beans(element);
        if place == ReaderType::Open && !is_of_maps {
            self.enc.class(&array_name(element));
        }
        match (element, kind) {
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
            (_, JsonKind::Array) if is_of_maps => self.elements(Some(element), ReaderType::Open),
            (_, JsonKind::Array) => self.elements(Some(element), ReaderType::Declared),
            _ => Err(self.wrong_kind(&(element.java_name() + "[]"))),
        }
    }

    /// A JSON array. Its length is not known before its end.
    fn elements(&mut self, ty: Option<&JavaType>, place: ReaderType) -> Result<(), JsonbError> {
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
            if self.as_maps && key == "class" && self.json.peek()? == JsonKind::String {
                return Err(self.wrong_value(self.json.position(), GENERIC_ENTRY));
            }
            self.key(&key, key_ty)?;
            self.at_key(key);
            self.value(ty, ReaderType::Open)?;
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
            Some(Builtin::String | Builtin::Any | Builtin::Number) => self.enc.string(key),
            Some(builtin) => {
                // Reads the key as the JSON string that it is.
                let mut quoted = Vec::new();
                java_json::json::write_string(&mut quoted, key);
                let offset = self.json.position();
                let mut json = JsonReader::new(&quoted, java_json::Limits::default());
                let mut writer = JsonToJsonb {
                    json: &mut json,
                    enc: self.enc,
                    schema: self.schema,
                    as_maps: false,
                    is_in_record: false,
                    may_have_class: false,
                    passed: Passed::default(),
                    places: None,
                    root: self.root,
                };
                writer.scalar(builtin, name, ReaderType::Open).map_err(|error| match error {
                    JsonbError::Value { found, expected, .. } => {
                        JsonbError::Value { offset, found, expected }
                    }
                    _ => JsonbError::Value {
                        offset,
                        found: expected::quoted(key),
                        expected: "a key of the map's key type".into(),
                    },
                })?;
            }
            None => {
                self.check_enum(self.json.position(), name, key)?;
                if self.is_map(name) {
                    // The provider refuses what is no constant, where fastjson2 would take null.
                    self.constant_map(name, |writer| writer.enc.string(key));
                    return Ok(());
                }
                self.enc.class(name);
                self.enc.string(key);
            }
        }
        Ok(())
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
        let Some(steps) =
            path.strip_prefix(ValueContext::ROOT.path).filter(|_| is_alone && is_known)
        else {
            let expected = "a reference to an array or object that began before";
            return Err(self.wrong_value(offset, expected));
        };
        self.enc.reference(&format!("{}{steps}", self.root));
        *self.json = ahead;
        Ok(true)
    }

    #[cold]
    fn wrong_kind(&self, expected: &str) -> JsonbError {
        Misfit::kind(self.json, expected).into()
    }

    /// The number or string at `offset` is not what it should be.
    #[cold]
    fn wrong_value(&self, offset: usize, expected: &str) -> JsonbError {
        Misfit::value(self.json, offset, expected).into()
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
