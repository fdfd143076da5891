//! Dubbo's generic calls, `$invoke`: callers that have no classes.
//!
//! Source: apache/dubbo, `GenericFilter` and `PojoUtils`.

use std::borrow::Cow;

use dubbo_proto::{ObjectWriter, Serialization, Status as DubboStatus, text_of};
use hessian::json::JsonReader;
use hessian::{Decoder, HessianError, Limits, Value};

use super::arguments::{JsonArguments, elements};
use super::bean;
use crate::config::http_app::method::Classes;
use crate::error::{CallError, Code};

/// The method's names; the second wants its result as a future, which is the caller's affair.
const METHODS: [&str; 2] = ["$invoke", "$invokeAsync"];
/// Its parameters, which Dubbo compares to the letter.
const DESCRIPTOR: &str = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;";

/// How arguments and results are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// This is not a generic call.
    Plain,
    /// Objects are maps with a member `class`.
    Map,
    /// Objects are maps in the arguments, and themselves in the result.
    Raw,
    /// Everything is JSON text in strings.
    Gson,
    /// Everything is a descriptor of this class.
    Bean(&'static str),
}

/// Whether a call is a generic one.
pub fn is_generic(method: &str, descriptor: &str) -> bool {
    METHODS.contains(&method) && descriptor == DESCRIPTOR
}

impl Mode {
    /// What the attachment `generic` asks for.
    ///
    /// # Errors
    /// A status of Dubbo's, for modes that only Java can serve.
    pub fn of_attachment(generic: Option<&str>) -> Result<Self, CallError> {
        match generic.unwrap_or_default() {
            "" | "true" | "nullable" => Ok(Self::Map),
            "gson" => Ok(Self::Gson),
            "raw.return" => Ok(Self::Raw),
            "bean" => Ok(Self::Bean(bean::CLASS)),
            other => Err(CallError::from_provider(
                DubboStatus::ServiceError,
                &format!(
                    "generic={other} does not work with an HTTP app; use generic=true, gson, bean \
                     or raw.return"
                ),
            )),
        }
    }

    /// The same for a call with these arguments, which a result has to be like.
    ///
    /// # Errors
    /// [`Code::BadArguments`] if they are not an array, or come in a serialization without
    /// classes.
    pub fn fitting(self, array: &[u8], serialization: Serialization) -> Result<Self, CallError> {
        match self {
            Self::Bean(_) if serialization.has_classes() => {
                Ok(Self::Bean(bean::class_of(&elements(array)?)))
            }
            Self::Bean(_) => {
                let has_classes = |known: &Serialization| known.has_classes();
                let names = Serialization::NAMED.into_iter().filter(has_classes);
                let names: Vec<&str> = names.map(Serialization::name).collect();
                let text = format!(
                    "generic=bean needs a serialization with classes ({}), but this call uses {}",
                    names.join(", "),
                    serialization.name()
                );
                Err(CallError::from_provider(DubboStatus::ServiceError, &text))
            }
            other => Ok(other),
        }
    }

    /// An argument's JSON, from an element of the generic call's array.
    ///
    /// # Errors
    /// [`Code::BadArguments`] if it is not what the mode says.
    pub fn argument<'a>(self, element: &'a [u8]) -> Result<Cow<'a, [u8]>, CallError> {
        match self {
            Self::Plain | Self::Map | Self::Raw => return Ok(Cow::Borrowed(element)),
            Self::Bean(_) => return bean::plain(element).map(Cow::Owned),
            Self::Gson => {}
        }
        let text = JsonReader::new(element, Limits::of_whole()).read_string();
        let text = text.map_err(|error| {
            CallError::new(Code::BadArguments, format!("generic=gson takes JSON strings: {error}"))
        })?;
        Ok(match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        })
    }
}

/// What a generic call asks for.
#[derive(Debug)]
pub struct GenericCall<'a> {
    /// The method.
    pub method: Cow<'a, str>,
    /// JVM descriptors of its parameters, or nothing if the caller leaves it to the provider.
    pub descriptor: Option<String>,
    /// The array of arguments.
    pub array: &'a [u8],
}

impl<'a> GenericCall<'a> {
    /// Reads the three arguments of the call.
    ///
    /// # Errors
    /// [`Code::BadArguments`] if they are not a name, names of types or null, and an array.
    pub fn read(arguments: &'a JsonArguments) -> Result<Self, CallError> {
        let bad = |what: &dyn std::fmt::Display| {
            CallError::new(Code::BadArguments, format!("a generic call's arguments: {what}"))
        };
        let at = |index| arguments.at(index).unwrap_or(b"null");
        let text = |json: &'a [u8]| JsonReader::new(json, Limits::of_whole()).read_string();
        let method = text(at(0)).map_err(|error| bad(&error))?;
        let descriptor = match at(1) {
            b"null" => None,
            types => {
                let mut descriptor = String::new();
                for ty in elements(types)? {
                    let name = text(ty).map_err(|error| bad(&error))?;
                    let ty = hessian::JavaType::parse(&name).map_err(|error| bad(&error))?;
                    ty.write_descriptor(&mut descriptor);
                }
                Some(descriptor)
            }
        };
        Ok(Self { method, descriptor, array: at(2) })
    }
}

/// Writes a value in Hessian with maps in the place of objects, as a generic caller wants it. An
/// object with the single field `name` is an enum unless its class is one of `classes`.
///
/// # Errors
/// What is wrong with the value.
pub fn generalize(
    value: &[u8],
    classes: &Classes,
    out: &mut dyn ObjectWriter,
) -> Result<(), HessianError> {
    let value = Decoder::new(value, Limits::of_whole()).read_value()?;
    out.tree(&without_classes(value, classes));
    Ok(())
}

/// The depth is bounded by what the decoder let through.
fn without_classes(value: Value, classes: &Classes) -> Value {
    let inner = |value| without_classes(value, classes);
    match value {
        Value::List { items, .. } => Value::list(items.into_iter().map(inner).collect()),
        Value::Map { ty, entries } => {
            let entries = entries.into_iter();
            let entries = entries.map(|(key, value)| (inner(key), inner(value)));
            Value::Map { ty, entries: entries.collect() }
        }
        // These have a class that every consumer has, and are values to it.
        Value::Object { class, fields } if class.name.starts_with("java.") => {
            Value::Object { class, fields }
        }
        // Hessian's stand-ins for java.time and the like.
        value @ Value::Object { .. } if is_handle(&value) => as_text(&value),
        Value::Object { class, fields } => {
            if let ([name], [Value::String(text)]) = (class.fields.as_slice(), fields.as_slice())
                && name == "name"
                && !classes.knows(&class.name)
            {
                return Value::string(text);
            }
            let mut entries = vec![(Value::string("class"), Value::string(&class.name))];
            let names = class.fields.iter().map(|name| Value::string(name));
            entries.extend(names.zip(fields.into_iter().map(inner)));
            Value::map(entries)
        }
        other => other,
    }
}

fn is_handle(value: &Value) -> bool {
    matches!(value, Value::Object { class, .. } if class.name.contains(".hessian.io."))
}

fn as_text(value: &Value) -> Value {
    text_of(value).map_or(Value::Null, Value::String)
}

#[cfg(test)]
mod tests {
    use hessian::Encoder;

    use super::*;

    #[test]
    fn only_the_exact_descriptor_is_generic() {
        assert!(is_generic("$invoke", DESCRIPTOR) && is_generic("$invokeAsync", DESCRIPTOR));
        assert!(!is_generic("$invoke", "Ljava/lang/String;") && !is_generic("find", DESCRIPTOR));
        let mode = |text| Mode::of_attachment(text).map_err(|error| error.provider_status);
        assert_eq!((mode(None), mode(Some("true"))), (Ok(Mode::Map), Ok(Mode::Map)));
        assert_eq!((mode(Some("gson")), mode(Some("raw.return"))), (Ok(Mode::Gson), Ok(Mode::Raw)));
        assert_eq!(mode(Some("bean")), Ok(Mode::Bean(bean::CLASS)));
        let fitting = |serialization| {
            let mode = Mode::Bean(bean::CLASS).fitting(b"[null]", serialization);
            mode.map_err(|error| error.provider_status)
        };
        assert_eq!(fitting(Serialization::Fastjson2), Ok(Mode::Bean(bean::CLASS)));
        assert_eq!(fitting(Serialization::Fastjson), Err(Some(DubboStatus::ServiceError)));
        assert_eq!(mode(Some("nativejava")), Err(Some(DubboStatus::ServiceError)));
    }

    #[test]
    fn objects_become_maps() {
        let date = Value::object("java.time.Instant", vec![("seconds", Value::Long(1))]);
        let value = Value::list(vec![
            Value::object(
                "com.acme.User",
                vec![
                    ("id", Value::Long(7)),
                    (
                        "color",
                        Value::object("com.acme.Color", vec![("name", Value::string("RED"))]),
                    ),
                ],
            ),
            date.clone(),
        ]);
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes).value(&value);
        let mut out = Vec::new();
        let mut objects = Serialization::Hessian2.values().unwrap().objects(&mut out).unwrap();
        generalize(&bytes, &Classes::default(), &mut *objects).unwrap();
        drop(objects);
        let expected = Value::list(vec![
            Value::map(vec![
                (Value::string("class"), Value::string("com.acme.User")),
                (Value::string("id"), Value::Long(7)),
                (Value::string("color"), Value::string("RED")),
            ]),
            date,
        ]);
        let read = Decoder::new(&out, Limits::default()).read_value().unwrap();
        assert_eq!(read, expected);
    }
}
