//! JSON into descriptors, by the types that are known of it.

use dubbo_proto::Serialization;
use hessian::json::{self, JsonError, JsonKind, JsonReader};
use hessian::transcode::builtin::Builtin;
use hessian::transcode::named::field_type;
use hessian::transcode::{TranscodeError, json_to_hessian_with};
use hessian::{ClassType, Decoder, Encoder, JavaType, Limits, Value};
use jsonb::{JsonbError, json_to_jsonb_with};

use super::Kind;
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
    /// Objects do not show their classes in this serialization.
    #[error("{serialization} has no descriptors")]
    NoClasses {
        /// Which one.
        serialization: Serialization,
    },
    /// The same, or it has no form in JSONB.
    #[error(transparent)]
    Jsonb(#[from] JsonbError),
}

impl From<JsonError> for BeanError {
    fn from(error: JsonError) -> Self {
        Self::Hessian(error.into())
    }
}

/// Writes JSON, which was found to fit `ty`, as a descriptor of the class `own_class`, in Hessian or JSONB.
///
/// # Errors
/// [`BeanError`] if it does not fit after all.
pub fn describe(
    text: &[u8],
    ty: Option<&JavaType>,
    classes: &Classes,
    own_class: &str,
    serialization: Serialization,
) -> Result<Vec<u8>, BeanError> {
    let mut out = Vec::with_capacity(2 * text.len());
    let mut to = match serialization {
        Serialization::Fastjson2 => Output::Jsonb(jsonb::Encoder::new(&mut out)),
        Serialization::Hessian2 => Output::Hessian(Encoder::new(&mut out)),
        Serialization::Fastjson | Serialization::FastjsonSized | Serialization::Other(_) => {
            return Err(BeanError::NoClasses { serialization });
        }
    };
    let json = JsonReader::new(text, Limits::default());
    Writer { json, out: &mut to, classes, own_class }.value(ty)?;
    Ok(out)
}

struct Writer<'a, 'w, 'o> {
    json: JsonReader<'a>,
    out: &'w mut Output<'o>,
    classes: &'a Classes,
    own_class: &'a str,
}

impl Writer<'_, '_, '_> {
    /// The depth is bounded by the reader.
    fn value(&mut self, ty: Option<&JavaType>) -> Result<(), BeanError> {
        let of = match ty {
            Some(JavaType::Class(class)) => Some((class, class.builtin())),
            _ => None,
        };
        let ty = ty.filter(|_| !matches!(of, Some((_, Some(Builtin::Any)))));
        let is_open = ty.is_none();
        match (self.json.peek()?, ty, of) {
            (JsonKind::Null, ..) => {
                self.json.read_null()?;
                self.out.null();
                Ok(())
            }
            (JsonKind::Array, ..) if is_open => {
                self.elements(Kind::Collection, "java.util.ArrayList", None)
            }
            (JsonKind::Object, ..) if is_open => self.object(None, ty),
            (JsonKind::Array, Some(JavaType::Array(element)), _) if !element.is_primitive() => {
                self.elements(Kind::Array, &class_name(element), Some(element))
            }
            (JsonKind::Array, _, Some((class, Some(Builtin::List)))) => {
                let name = Builtin::list_type(class.name()).unwrap_or("java.util.ArrayList");
                self.elements(Kind::Collection, name, class.args().first())
            }
            (JsonKind::Object, _, Some((class, Some(Builtin::Map)))) => {
                let name = map_class(class.name());
                self.entries(name, class.args().first(), class.args().get(1), false)
            }
            (JsonKind::Object, _, Some((class, None))) => self.object(Some(class.key()), ty),
            (JsonKind::String, _, Some((class, None))) => {
                let name = self.json.read_string()?;
                self.begin(Kind::Enum, class.name());
                self.out.string("name");
                self.out.string(&name);
                self.out.end();
                Ok(())
            }
            _ => self.leaf(ty),
        }
    }

    fn begin(&mut self, kind: Kind, class: &str) {
        self.out.begin(self.own_class, kind, class);
    }

    fn elements(
        &mut self,
        kind: Kind,
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
        self.out.end();
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
        self.begin(Kind::Map, class);
        let mut object = self.json.begin_object()?;
        while let Some(name) = self.json.next_key(&mut object)? {
            if is_named && name == "class" {
                self.json.skip_value()?;
                continue;
            }
            let mut quoted = Vec::new();
            json::write_string(&mut quoted, &name);
            let json = JsonReader::new(&quoted, Limits::default());
            let (classes, own_class) = (self.classes, self.own_class);
            Writer { json, out: &mut *self.out, classes, own_class }.value(key)?;
            self.value(value)?;
        }
        self.out.end();
        Ok(())
    }

    /// A JSON object of the class that its member `class` names, or else of `declared`, or else as a map.
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
                Some(Builtin::Any) => self.entries(map_class("java.util.Map"), None, None, true),
                Some(_) => self.leaf(ty),
            },
            _ => self.leaf(ty),
        }
    }

    fn bean(&mut self, class: &ClassType, declared: Option<&str>) -> Result<(), BeanError> {
        self.begin(Kind::Bean, class.name());
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
        self.out.end();
        Ok(())
    }

    /// A value that is its descriptor's own, whatever its class: Java takes any for it.
    fn leaf(&mut self, ty: Option<&JavaType>) -> Result<(), BeanError> {
        let text = self.json.skip_value()?;
        let mut value = Vec::with_capacity(text.len() + 16);
        let mut reader = JsonReader::new(text, Limits::default());
        json_to_hessian_with(&mut reader, ty, &mut Encoder::new(&mut value), self.classes)?;
        let decoded = Decoder::new(&value, Limits::default()).read_value();
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
        self.begin(Kind::Primitive, &class);
        self.out.string("value");
        self.out.leaf(text, ty, self.classes)?;
        self.out.end();
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

/// Where descriptors are written.
enum Output<'o> {
    Hessian(Encoder<'o>),
    Jsonb(jsonb::Encoder<'o>),
}

impl Output<'_> {
    /// Begins a descriptor; its properties follow, as keys and values in turn.
    fn begin(&mut self, own_class: &str, kind: Kind, class: &str) {
        let ty = kind as i32;
        match self {
            Self::Hessian(out) => {
                out.object_begin(own_class, &["className", "type", "properties"]);
                out.string(class);
                out.int(ty);
                out.map_begin(Some(PROPERTIES));
            }
            Self::Jsonb(out) => {
                out.class(own_class);
                out.object_begin();
                out.string("className");
                out.string(class);
                out.string("type");
                out.int(ty);
                out.string("properties");
                out.class(PROPERTIES);
                out.object_begin();
            }
        }
    }

    /// Ends a descriptor.
    fn end(&mut self) {
        match self {
            Self::Hessian(out) => out.map_end(),
            Self::Jsonb(out) => {
                out.object_end();
                out.object_end();
            }
        }
    }

    fn null(&mut self) {
        match self {
            Self::Hessian(out) => out.null(),
            Self::Jsonb(out) => out.null(),
        }
    }

    fn int(&mut self, value: i32) {
        match self {
            Self::Hessian(out) => out.int(value),
            Self::Jsonb(out) => out.int(value),
        }
    }

    fn string(&mut self, text: &str) {
        match self {
            Self::Hessian(out) => out.string(text),
            Self::Jsonb(out) => out.string(text),
        }
    }

    /// A value where its reader knows no type.
    fn leaf(
        &mut self,
        text: &[u8],
        ty: Option<&JavaType>,
        classes: &Classes,
    ) -> Result<(), BeanError> {
        let limits = Limits::default();
        match (self, ty) {
            (Self::Hessian(out), ty) => {
                json_to_hessian_with(&mut JsonReader::new(text, limits), ty, out, classes)?;
            }
            // In JSONB such a value has to bear its type.
            (Self::Jsonb(out), Some(ty)) if text.first() != Some(&b'{') => {
                let mut named = Vec::from(&b"{\"class\":"[..]);
                json::write_string(&mut named, &ty.to_string());
                named.extend_from_slice(b",\"value\":");
                named.extend_from_slice(text);
                named.push(b'}');
                json_to_jsonb_with(&mut JsonReader::new(&named, limits), None, out, classes)?;
            }
            (Self::Jsonb(out), ty) => {
                json_to_jsonb_with(&mut JsonReader::new(text, limits), ty, out, classes)?;
            }
        }
        Ok(())
    }
}
