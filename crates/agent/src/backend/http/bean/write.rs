//! JSON into descriptors, by the types that are known of it.

use dubbo_proto::{ObjectWriter, ValueError};
use hessian::json::{self, JsonError, JsonKind, JsonReader};
use hessian::transcode::builtin::Builtin;
use hessian::transcode::named::field_type;
use hessian::transcode::{TranscodeError, json_to_hessian_with};
use hessian::{ClassType, Decoder, Encoder, JavaType, Limits, Value};

use super::BeanKind;
use super::read::{members, string_of};
use crate::config::http_app::method::Classes;

/// The class of the map that Java keeps properties in.
const PROPERTIES: &str = "java.util.LinkedHashMap";

/// Why a value has no descriptor.
#[derive(Debug, thiserror::Error)]
pub enum BeanError {
    /// It does not fit its type.
    #[error(transparent)]
    Hessian(#[from] TranscodeError),
    /// The same, or it has no form in the serialization.
    #[error(transparent)]
    Value(#[from] ValueError),
}

impl From<JsonError> for BeanError {
    fn from(error: JsonError) -> Self {
        Self::Hessian(error.into())
    }
}

/// Writes JSON, which was found to fit `ty`, as a descriptor of the class `own_class`.
///
/// # Errors
/// [`BeanError`] if it does not fit after all.
pub fn describe(
    text: &[u8],
    ty: Option<&JavaType>,
    classes: &Classes,
    own_class: &str,
    out: &mut dyn ObjectWriter,
) -> Result<(), BeanError> {
    let json = JsonReader::new(text, Limits::of_whole());
    Descriptors { json, out, classes, own_class }.value(ty)
}

struct Descriptors<'a, 'w> {
    json: JsonReader<'a>,
    out: &'w mut dyn ObjectWriter,
    classes: &'a Classes,
    own_class: &'a str,
}

impl Descriptors<'_, '_> {
    /// The depth is bounded by the reader.
    fn value(&mut self, ty: Option<&JavaType>) -> Result<(), BeanError> {
        let of = match ty {
            Some(JavaType::Class(class)) => Some((class, class.builtin())),
            _ => None,
        };
        let ty = ty.filter(|_| !matches!(of, Some((_, Some(Builtin::Any | Builtin::Number)))));
        let is_open = ty.is_none();
        match (self.json.peek()?, ty, of) {
            (JsonKind::Null, ..) => {
                self.json.read_null()?;
                self.out.null();
                Ok(())
            }
            (JsonKind::Array, ..) if is_open => {
                self.elements(BeanKind::Collection, "java.util.ArrayList", None)
            }
            (JsonKind::Object, ..) if is_open => self.object(None, ty),
            (JsonKind::Array, Some(JavaType::Array(element)), _) if !element.is_primitive() => {
                self.elements(BeanKind::Array, &class_name(element), Some(element))
            }
            (JsonKind::Array, _, Some((class, Some(Builtin::List)))) => {
                let name = Builtin::list_type(class.name()).unwrap_or("java.util.ArrayList");
                self.elements(BeanKind::Collection, name, class.args().first())
            }
            (JsonKind::Object, _, Some((class, Some(Builtin::Map)))) => {
                let name = map_class(class.name());
                self.entries(name, class.args().first(), class.args().get(1), false)
            }
            (JsonKind::Object, _, Some((class, None))) => self.object(Some(class.key()), ty),
            (JsonKind::String, _, Some((class, None))) => {
                let name = self.json.read_string()?;
                self.begin(BeanKind::Enum, class.name());
                self.out.string("name");
                self.out.string(&name);
                self.end();
                Ok(())
            }
            _ => self.leaf(ty),
        }
    }

    /// Begins a descriptor; its properties follow, as keys and values in turn.
    fn begin(&mut self, kind: BeanKind, class: &str) {
        self.out.begin_object(self.own_class, &["className", "type", "properties"]);
        self.out.field("className");
        self.out.string(class);
        self.out.field("type");
        self.out.int(kind as i32);
        self.out.field("properties");
        self.out.begin_map(PROPERTIES);
    }

    fn end(&mut self) {
        self.out.end_map();
        self.out.end_object();
    }

    fn elements(
        &mut self,
        kind: BeanKind,
        class: &str,
        element: Option<&JavaType>,
    ) -> Result<(), BeanError> {
        self.begin(kind, class);
        let mut array = self.json.begin_array()?;
        let mut index = 0;
        while self.json.next_element(&mut array)? {
            self.out.int(index);
            index += 1;
            self.value(element)?;
        }
        self.end();
        Ok(())
    }

    /// A JSON object as a map; its member `class` may be what names the map's own class.
    fn entries(
        &mut self,
        class: &str,
        key: Option<&JavaType>,
        value: Option<&JavaType>,
        is_named: bool,
    ) -> Result<(), BeanError> {
        self.begin(BeanKind::Map, class);
        let mut object = self.json.begin_object()?;
        while let Some(name) = self.json.next_key(&mut object)? {
            if is_named && name == "class" {
                self.json.skip_value()?;
                continue;
            }
            let mut quoted = Vec::new();
            json::write_string(&mut quoted, &name);
            let json = JsonReader::new(&quoted, Limits::of_whole());
            let (classes, own_class) = (self.classes, self.own_class);
            Descriptors { json, out: &mut *self.out, classes, own_class }.value(key)?;
            self.value(value)?;
        }
        self.end();
        Ok(())
    }

    /// A JSON object of the class that its member `class` names, or else of `declared`, or else as
    /// a map.
    fn object(&mut self, declared: Option<&str>, ty: Option<&JavaType>) -> Result<(), BeanError> {
        let members = members(self.json.clone().skip_value()?)?;
        let named =
            members.iter().find(|(name, _)| name == "class").and_then(|(_, it)| string_of(it));
        let Some(class) = named.as_deref().or(declared) else {
            return self.entries(map_class("java.util.Map"), None, None, false);
        };
        match JavaType::parse(class) {
            Ok(JavaType::Class(class)) => match class.builtin() {
                None => self.bean(&class, declared),
                Some(Builtin::Map) => self.entries(map_class(class.name()), None, None, true),
                Some(Builtin::Any | Builtin::Number) => {
                    self.entries(map_class("java.util.Map"), None, None, true)
                }
                Some(_) => self.leaf(ty),
            },
            _ => self.leaf(ty),
        }
    }

    fn bean(&mut self, class: &ClassType, declared: Option<&str>) -> Result<(), BeanError> {
        self.begin(BeanKind::Bean, class.name());
        let mut object = self.json.begin_object()?;
        while let Some(name) = self.json.next_key(&mut object)? {
            let is_class = name == "class" && self.json.peek()? == JsonKind::String;
            // Java leaves out what is null.
            if is_class || self.json.peek()? == JsonKind::Null {
                self.json.skip_value()?;
                continue;
            }
            self.out.string(&name);
            let ty = field_type(self.classes, class.key(), declared, &name);
            self.value(ty)?;
        }
        self.end();
        Ok(())
    }

    /// A value that is its descriptor's own, whatever its class: Java takes any for it.
    fn leaf(&mut self, ty: Option<&JavaType>) -> Result<(), BeanError> {
        let text = self.json.skip_value()?;
        let mut value = Vec::with_capacity(text.len() + 16);
        let mut reader = JsonReader::new(text, Limits::of_whole());
        json_to_hessian_with(&mut reader, ty, &mut Encoder::new(&mut value), self.classes)?;
        let decoded = Decoder::new(&value, Limits::of_whole()).read_value();
        let class = match (decoded.map_err(TranscodeError::from)?, ty) {
            (Value::Bool(_), None) => "java.lang.Boolean".to_owned(),
            (Value::Int(_), None) => "java.lang.Integer".to_owned(),
            (Value::Long(_), None) => "java.lang.Long".to_owned(),
            (Value::Double(_), None) => "java.lang.Double".to_owned(),
            (Value::Date(_), None) => "java.util.Date".to_owned(),
            (Value::Object { class, .. }, None) => class.name.clone(),
            (_, Some(ty)) => boxed_name(ty),
            _ => "java.lang.String".to_owned(),
        };
        self.begin(BeanKind::Primitive, &class);
        self.out.string("value");
        self.out.json_with_type(text, ty, self.classes)?;
        self.end();
        Ok(())
    }
}

/// Java's maps in the order of their entries, where no other is wanted.
fn map_class(declared: &str) -> &str {
    Builtin::map_type(declared).unwrap_or("java.util.LinkedHashMap")
}

/// The name that `Class.getName` gives.
fn class_name(ty: &JavaType) -> String {
    match ty {
        JavaType::Array(_) => ty.to_descriptor().replace('/', "."),
        _ => ty.java_name(),
    }
}

fn boxed_name(ty: &JavaType) -> String {
    match ty {
        JavaType::Int => "java.lang.Integer".to_owned(),
        JavaType::Char => "java.lang.Character".to_owned(),
        JavaType::Class(_) | JavaType::Array(_) => class_name(ty),
        // The others differ by their first letter alone.
        primitive => {
            let name = primitive.java_name();
            let (first, rest) = name.split_at(1);
            format!("java.lang.{}{rest}", first.to_uppercase())
        }
    }
}
