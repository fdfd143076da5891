//! Which Java types a JSON value can be meant for.
//!
//! Two grades, for a value often can be written for a type that nobody would think of first: `"7"`
//! for an int, 7 for a date. Where a method takes the value naturally, those are not asked.

use dubbo_proto::ServiceDefinition;
use hessian::json::{JsonKind, JsonReader};
use hessian::transcode::builtin::Builtin;
use hessian::{JavaType, Limits};
use java_json::named::NamedClass;
use java_json::passed::Passed;
use java_json::scalars;
use java_json::unknown::optional_number;
use memchr::memmem;

/// How well a value fits a type.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Fit {
    /// It cannot be written as the type.
    #[default]
    None,
    /// It can be.
    Possible,
    /// It looks like the type.
    Natural,
}

/// Elements of an array that are looked at; the others are like them.
const MAX_ELEMENTS: usize = 16;
/// Levels that are looked at.
const MAX_DEPTH: u32 = 4;

/// How well JSON text fits a type. Text that is not JSON fits none.
pub(crate) fn of_json(text: &[u8], ty: &JavaType, service: Option<&ServiceDefinition>) -> Fit {
    Looking { service, depth: 0 }.value(text, ty)
}

#[derive(Clone, Copy)]
struct Looking<'a> {
    service: Option<&'a ServiceDefinition>,
    depth: u32,
}

impl Looking<'_> {
    fn value(self, text: &[u8], ty: &JavaType) -> Fit {
        if MAX_DEPTH < self.depth {
            return Fit::Natural;
        }
        let deeper = Self { depth: self.depth + 1, ..self };
        let mut reader = JsonReader::new(text, Limits::of_whole());
        let Ok(kind) = reader.peek() else { return Fit::None };
        if kind == JsonKind::Object
            && let Some(fit) = deeper.long_form(&reader, text, ty)
        {
            return fit;
        }
        match (ty, kind) {
            (_, JsonKind::Null) if ty.is_primitive() => Fit::None,
            (_, JsonKind::Null) => Fit::Natural,
            (JavaType::Array(element), JsonKind::Array) => deeper.elements(text, Some(element)),
            (JavaType::Array(element), JsonKind::String) => match **element {
                JavaType::Byte | JavaType::Char => Fit::Possible,
                _ => Fit::None,
            },
            (JavaType::Array(_), _) => Fit::None,
            (JavaType::Class(class), _) => match class.builtin() {
                Some(Builtin::Optional) => match class.args().first() {
                    Some(inner) => deeper.value(text, inner),
                    None => Fit::Possible,
                },
                Some(Builtin::List | Builtin::EnumSet) if kind == JsonKind::Array => {
                    deeper.elements(text, class.args().first())
                }
                Some(Builtin::Map) if kind == JsonKind::Object => map(&reader, text),
                Some(Builtin::BitSet) if kind == JsonKind::Object => {
                    scalars::bit_set(&mut reader).map_or(Fit::None, |_| Fit::Natural)
                }
                Some(builtin) => scalar(text, kind, builtin),
                None => deeper.bean(text, kind, class.name()),
            },
            (primitive, _) => scalar(text, kind, of_primitive(primitive)),
        }
    }

    /// An object that stands for a value of the class that it names: `{"class": "java.util.Date",
    /// "value": 0}`. Nothing for any other object.
    fn long_form(self, reader: &JsonReader<'_>, text: &[u8], ty: &JavaType) -> Option<Fit> {
        memmem::find(text, b"\"class\"")?;
        let summary = Passed::default().look(reader).ok()?;
        let named = NamedClass::of(summary.class.as_deref()?)?;
        if let Some(name) = &summary.only_name
            && let JavaType::Class(class) = ty
            && self.service.and_then(|service| service.enum_values(class.name())).is_some()
        {
            let is_one = class.name() == named.class
                && self.bean(&quoted(name), JsonKind::String, class.name()) != Fit::None;
            return Some(if is_one { Fit::Natural } else { Fit::None });
        }
        let (_, at) = summary.only_value.filter(|_| named.is_of_value())?;
        let value = JsonReader::new(text.get(at..)?, Limits::of_whole()).skip_value().ok()?;
        // Primitive types and arrays have no long form where they are declared.
        let JavaType::Class(declared) = ty else { return Some(Fit::None) };
        if declared.name() == named.class {
            let fit = self.value(value, &named.into_type(&[]));
            return Some(if fit == Fit::None { Fit::None } else { Fit::Natural });
        }
        Some(match declared.builtin() {
            Some(Builtin::Any | Builtin::Number) => Fit::Possible,
            Some(declared) if is_subclass(declared, named.builtin) => Fit::Possible,
            _ => Fit::None,
        })
    }

    fn elements(self, text: &[u8], ty: Option<&JavaType>) -> Fit {
        let Some(ty) = ty else { return Fit::Natural };
        let mut reader = JsonReader::new(text, Limits::of_whole());
        let Ok(mut array) = reader.begin_array() else { return Fit::None };
        let mut worst = Fit::Natural;
        for _ in 0..MAX_ELEMENTS {
            if !reader.next_element(&mut array).unwrap_or(false) {
                break;
            }
            let Ok(element) = reader.skip_value() else { return Fit::None };
            worst = worst.min(self.value(element, ty));
        }
        worst
    }

    /// A class of the estate: an object with its fields, or the name of an enum's value.
    fn bean(self, text: &[u8], kind: JsonKind, class: &str) -> Fit {
        let values = self.service.and_then(|service| service.enum_values(class));
        let fields = self.service.and_then(|service| service.fields(class));
        let mut reader = JsonReader::new(text, Limits::of_whole());
        if let Some(held) = optional_number(class)
            && matches!(kind, JsonKind::Number | JsonKind::String)
        {
            return scalar(text, kind, held).min(Fit::Possible);
        }
        match kind {
            JsonKind::String => match (values, reader.read_string()) {
                (Some(values), Ok(name)) if values.iter().any(|value| **value == *name) => {
                    Fit::Natural
                }
                // Names may be others than what is listed.
                (Some(_), Ok(_)) => Fit::Possible,
                (None, Ok(_)) if fields.is_none() => Fit::Possible,
                _ => Fit::None,
            },
            JsonKind::Object if values.is_none() => {
                let Ok(mut object) = reader.begin_object() else { return Fit::None };
                let mut has_others = false;
                let mut named = None;
                while let Ok(Some(key)) = reader.next_key(&mut object) {
                    if key == "class" && reader.peek() == Ok(JsonKind::String) {
                        named = reader.read_string().ok();
                        continue;
                    }
                    has_others |= fields.is_some_and(|fields| !fields.contains_key(&*key));
                    if reader.skip_value().is_err() {
                        return Fit::None;
                    }
                }
                match named {
                    Some(name) if name == class => Fit::Natural,
                    // It may be a subclass.
                    Some(_) => Fit::Possible,
                    None if has_others => Fit::Possible,
                    None => Fit::Natural,
                }
            }
            _ => Fit::None,
        }
    }
}

/// An object where a map is declared: one that names another class is rather of that.
fn map(reader: &JsonReader<'_>, text: &[u8]) -> Fit {
    if memmem::find(text, b"\"class\"").is_none() {
        return Fit::Natural;
    }
    let summary = Passed::default().look(reader).unwrap_or_default();
    match summary.class.as_deref() {
        Some(name) if !NamedClass::is_of_map(Some(name)) => Fit::Possible,
        _ => Fit::Natural,
    }
}

/// Whether values of another class of the table may stand where one is declared.
fn is_subclass(declared: Builtin, named: Option<Builtin>) -> bool {
    match declared {
        Builtin::Date => matches!(named, Some(Builtin::Date | Builtin::SqlDate)),
        Builtin::List | Builtin::Map | Builtin::Calendar | Builtin::ZoneId => {
            named == Some(declared)
                || declared == Builtin::List && named == Some(Builtin::EnumSet)
                || declared == Builtin::ZoneId && named == Some(Builtin::ZoneOffset)
        }
        _ => false,
    }
}

fn quoted(text: &str) -> Vec<u8> {
    let mut json = Vec::new();
    hessian::json::write_string(&mut json, text);
    json
}

fn of_primitive(ty: &JavaType) -> Builtin {
    match ty {
        JavaType::Boolean => Builtin::Boolean,
        JavaType::Byte => Builtin::Byte,
        JavaType::Char => Builtin::Char,
        JavaType::Short => Builtin::Short,
        JavaType::Int => Builtin::Int,
        JavaType::Float => Builtin::Float,
        JavaType::Double => Builtin::Double,
        _ => Builtin::Long,
    }
}

fn scalar(text: &[u8], kind: JsonKind, builtin: Builtin) -> Fit {
    let mut reader = JsonReader::new(text, Limits::of_whole());
    if matches!(builtin, Builtin::Any | Builtin::Number) {
        return Fit::Possible;
    }
    match kind {
        JsonKind::Bool => match builtin {
            Builtin::Boolean | Builtin::AtomicBoolean => Fit::Natural,
            Builtin::String => Fit::Possible,
            _ => Fit::None,
        },
        JsonKind::Number => reader.read_number().map_or(Fit::None, |text| number(text, builtin)),
        JsonKind::String => reader.read_string().map_or(Fit::None, |text| string(&text, builtin)),
        JsonKind::Null => Fit::Natural,
        JsonKind::Array | JsonKind::Object => Fit::None,
    }
}

fn number(text: &str, builtin: Builtin) -> Fit {
    let whole = text.parse::<i128>().ok();
    let within = |min: i64, max: i64| match whole {
        Some(value) if i128::from(min) <= value && value <= i128::from(max) => Fit::Natural,
        _ => Fit::None,
    };
    match builtin {
        Builtin::Byte => within(i8::MIN.into(), i8::MAX.into()),
        Builtin::Short => within(i16::MIN.into(), i16::MAX.into()),
        Builtin::Int | Builtin::AtomicInteger => within(i32::MIN.into(), i32::MAX.into()),
        Builtin::Long | Builtin::AtomicLong => within(i64::MIN, i64::MAX),
        Builtin::BigInteger if !text.contains(['.', 'e', 'E']) => Fit::Natural,
        Builtin::Float | Builtin::Double | Builtin::BigDecimal if whole.is_none() => Fit::Natural,
        Builtin::Float
        | Builtin::Double
        | Builtin::BigDecimal
        | Builtin::String
        | Builtin::Date
        | Builtin::SqlDate
        | Builtin::Calendar
        | Builtin::Year => Fit::Possible,
        _ => Fit::None,
    }
}

fn string(text: &str, builtin: Builtin) -> Fit {
    let if_parsed = |is: bool| if is { Fit::Possible } else { Fit::None };
    match builtin {
        Builtin::String => Fit::Natural,
        Builtin::List
        | Builtin::Map
        | Builtin::EnumSet
        | Builtin::BitSet
        | Builtin::StackTraceElement => Fit::None,
        Builtin::Byte
        | Builtin::Short
        | Builtin::Int
        | Builtin::Long
        | Builtin::BigInteger
        | Builtin::AtomicInteger
        | Builtin::AtomicLong => if_parsed(text.parse::<i128>().is_ok()),
        Builtin::Float | Builtin::Double | Builtin::BigDecimal => {
            if_parsed(text.parse::<f64>().is_ok())
        }
        Builtin::Boolean | Builtin::AtomicBoolean => if_parsed(matches!(text, "true" | "false")),
        Builtin::Char => if_parsed(text.encode_utf16().count() == 1),
        // A date, a time or a name: whether it is one, the encoder says best.
        _ => Fit::Possible,
    }
}
