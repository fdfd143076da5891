//! What the member `class` of a JSON object says: the same for every serialization.

use crate::builtin::Builtin;
use crate::expected;
use crate::passed::ObjectSummary;
use crate::scalars::Misfit;
use crate::{ClassType, JavaType, Schema};

/// What a member `class` has to be.
pub const CLASS_NAME: &str = "the name of a class, with its package, also between < and > \
     (java.lang.Integer, not Integer), each part of which starts with a letter, _ or $";

/// What a member `class` has to be, if a class of the caller's own in it has type arguments.
pub const KNOWN_ARGUMENTS: &str = "a class of which it is known what its type arguments mean for \
     its fields; leave them out (com.acme.Page, not com.acme.Page<com.acme.Order>), and have the \
     objects in it name their class";

/// What an entry of a map may not be in a generic call, if it is a text that is named `class`.
pub const GENERIC_ENTRY: &str = "a value that an entry named class can have in the map of a generic \
     call, where it names the class of an object; send the parameter types";

/// A class that an object names.
#[derive(Clone, Debug)]
pub struct NamedClass<'n> {
    /// The name, without generic arguments.
    pub class: &'n str,
    /// What the mapping knows of it.
    pub builtin: Option<Builtin>,
    /// An array or primitive type, whose values no JSON object is, or a class with generic
    /// arguments.
    ty: Option<JavaType>,
}

impl<'n> NamedClass<'n> {
    /// The class that the object at `offset` names, if it names one.
    ///
    /// # Errors
    /// [`Misfit`] if no class can have the name, or if it has type arguments of which `schema`
    /// does not know what they mean.
    pub fn of_object(
        offset: usize,
        name: Option<&'n str>,
        schema: &dyn Schema,
    ) -> Result<Option<Self>, Misfit> {
        let Some(name) = name else { return Ok(None) };
        let expected = match Self::of(name) {
            Some(named) if named.has_unknown_arguments(schema) => KNOWN_ARGUMENTS,
            Some(named) => return Ok(Some(named)),
            None => CLASS_NAME,
        };
        Err(Misfit::Value { offset, found: expected::quoted(name), expected: expected.into() })
    }

    /// Whether a class of the caller's own in it has type arguments that `schema` does not know.
    fn has_unknown_arguments(&self, schema: &dyn Schema) -> bool {
        let is_unknown = |class: &ClassType| {
            class.builtin().is_none()
                && !class.args().is_empty()
                && !schema.knows_arguments(class.key())
        };
        self.ty.as_ref().is_some_and(|ty| ty.find_class(&is_unknown).is_some())
    }

    /// Whether a name is that of a map of java.util. Where a map is declared, a member `class`
    /// that says something else is a key like any other.
    #[must_use]
    pub fn is_of_map(name: Option<&str>) -> bool {
        let named = name.and_then(NamedClass::of);
        named.is_some_and(|named| named.builtin == Some(Builtin::Map))
    }

    /// Nothing if no class can have the name, or if it is longer than any.
    #[must_use]
    pub fn of(name: &'n str) -> Option<Self> {
        if name.is_empty() || JavaType::MAX_NAME_LEN < name.len() {
            return None;
        }
        // Arrays in both spellings, and primitive types.
        let is_plain =
            name.starts_with('[') || name.ends_with("[]") || 1 < name.len() && !name.contains('.');
        let parsed = if is_plain { JavaType::parse(name).ok() } else { None };
        let plain = parsed.filter(|ty| !matches!(ty, JavaType::Class(_) | JavaType::Void));
        if plain.is_some() {
            return Some(Self { class: name, builtin: None, ty: plain });
        }
        let Some((class, _)) = name.split_once('<') else {
            let builtin = Builtin::of_declared(name);
            return JavaType::is_class_name(name).then_some(Self {
                class: name,
                builtin,
                ty: None,
            });
        };
        let class = class.trim();
        let ty = JavaType::parse(name).ok().filter(has_packages)?;
        Some(Self { class, builtin: Builtin::of_declared(class), ty: Some(ty) })
    }

    /// Whether `{"class": C, "value": v}` is v as a value of this class.
    #[must_use]
    pub fn is_of_value(&self) -> bool {
        let is_object =
            matches!(self.builtin, None | Some(Builtin::Map | Builtin::Any | Builtin::Number));
        self.is_plain() || !is_object
    }

    fn is_plain(&self) -> bool {
        self.ty.as_ref().is_some_and(|ty| !matches!(ty, JavaType::Class(_)))
    }

    /// Whether its values are numbers to Java, or may be.
    fn is_number(&self) -> bool {
        match &self.ty {
            Some(ty) if self.is_plain() => {
                ty.is_primitive() && !matches!(ty, JavaType::Boolean | JavaType::Char)
            }
            _ => self.builtin.is_none_or(|builtin| {
                matches!(
                    builtin,
                    Builtin::Byte
                        | Builtin::Short
                        | Builtin::Int
                        | Builtin::Long
                        | Builtin::Float
                        | Builtin::Double
                        | Builtin::BigDecimal
                        | Builtin::BigInteger
                        | Builtin::AtomicInteger
                        | Builtin::AtomicLong
                )
            }),
        }
    }

    /// What a [`Schema`](crate::Schema) knows its fields by.
    #[must_use]
    pub fn key(&self) -> &str {
        match &self.ty {
            Some(JavaType::Class(class)) => class.key(),
            _ => self.class,
        }
    }

    /// Its generic arguments.
    #[must_use]
    pub fn args(&self) -> &[JavaType] {
        match &self.ty {
            Some(JavaType::Class(class)) => class.args(),
            _ => &[],
        }
    }

    /// What a collection or map of this class holds: what is declared, if something is.
    #[must_use]
    pub fn args_or<'t>(&'t self, declared_args: &'t [JavaType]) -> &'t [JavaType] {
        if declared_args.is_empty() { self.args() } else { declared_args }
    }

    /// The type of the value that it stands for. Where a collection or map is declared, it holds
    /// what is declared.
    #[must_use]
    pub fn into_type(self, declared_args: &[JavaType]) -> JavaType {
        let holds = matches!(
            self.builtin,
            Some(Builtin::List | Builtin::EnumSet | Builtin::Optional | Builtin::Map)
        );
        match self.ty {
            Some(ty) if !holds || declared_args.is_empty() => ty,
            _ if holds => JavaType::class_of(self.class, declared_args.to_vec()),
            _ => JavaType::class_of(self.class, Vec::new()),
        }
    }

    /// Whether a value of this class may stand where a class of the table is declared. Boxes,
    /// texts and times have no subclasses: a `Long` for an `Integer` would lose what an int cannot
    /// hold, and Java takes an `Integer` for null where it wants a `Date`.
    #[must_use]
    pub fn may_stand_for(&self, declared: &ClassType, schema: &dyn Schema) -> bool {
        let Some(builtin) = declared.builtin() else { return true };
        match (builtin, self.builtin) {
            (Builtin::Any | Builtin::StackTraceElement, _) => true,
            (Builtin::Number, _) => self.is_number(),
            _ if self.is_plain() => false,
            // Also the JDK's own that have no name of their own.
            (Builtin::List | Builtin::Map | Builtin::EnumSet, None) => true,
            (_, None) => {
                let is_known = self.class.starts_with("java.");
                let is_enum = || schema.is_enum(self.class) == Some(true);
                has_subclasses(builtin, declared.name()) && !is_known && !is_enum()
            }
            (Builtin::Date, Some(Builtin::SqlDate))
            | (Builtin::ZoneId, Some(Builtin::ZoneOffset))
            | (Builtin::List, Some(Builtin::EnumSet)) => true,
            // Several classes that are the same in JSON alone.
            (Builtin::SqlDate | Builtin::TextValue, Some(_)) => self.class == declared.name(),
            (builtin, Some(named)) => builtin == named,
        }
    }
}

/// Whether a class is none of the JDK's: no value of the JDK is of a subclass of it.
#[must_use]
pub fn is_own(class: &ClassType) -> bool {
    class.builtin().is_none() && !["java.", "javax."].iter().any(|it| class.name().starts_with(it))
}

/// Whether a class that is a scalar in JSON may have subclasses of the caller's own.
fn has_subclasses(builtin: Builtin, class: &str) -> bool {
    match builtin {
        Builtin::BigDecimal
        | Builtin::BigInteger
        | Builtin::Date
        | Builtin::SqlDate
        | Builtin::Calendar
        | Builtin::AtomicInteger
        | Builtin::AtomicLong => true,
        Builtin::TextValue => class == "java.io.File",
        _ => false,
    }
}

/// What a JSON object stands for.
#[derive(Debug)]
pub enum ObjectForm<'n, 'c> {
    /// A map, for nothing says more.
    Untyped,
    /// A map: it names a class that every value is of.
    Any(&'n str),
    /// A map of java.util.
    Map(NamedClass<'n>),
    /// Its member `value`, as a value of this type: `{"class": "java.util.Date", "value": 0}`.
    Value(JavaType),
    /// An object of the class that it names.
    Named(NamedClass<'n>),
    /// An object of the class that is declared.
    Declared(&'c ClassType),
}

impl<'n, 'c> ObjectForm<'n, 'c> {
    /// By the class that the object names, the one that is declared, and the type arguments where
    /// a collection or map is declared. `has_only_value` is whether `value` is its only other
    /// member.
    pub fn of(
        named: Option<NamedClass<'n>>,
        declared: Option<&'c ClassType>,
        args: &[JavaType],
        has_only_value: bool,
        value_is_object: impl FnOnce() -> bool,
    ) -> Self {
        let Some(named) = named else { return declared.map_or(Self::Untyped, Self::Declared) };
        match named.builtin {
            Some(Builtin::Any | Builtin::Number) => Self::Any(named.class),
            Some(Builtin::Map) => {
                let is_inside = !named.args().is_empty() && has_only_value && value_is_object();
                if is_inside { Self::Value(named.into_type(args)) } else { Self::Map(named) }
            }
            _ if has_only_value && named.is_of_value() => Self::Value(named.into_type(args)),
            _ => Self::Named(named),
        }
    }
}

/// The type of a field of an object, by what a schema knows its class and the declared one by. Of
/// a subclass that nobody knows, the fields of its superclass are known; and where type arguments
/// are declared, these tell more than the class alone.
pub fn field_type<'s>(
    schema: &'s dyn Schema,
    class: &str,
    declared: Option<&str>,
    field: &str,
) -> Option<&'s JavaType> {
    let of = |class| schema.field_type(class, field);
    match declared {
        None => of(class),
        Some(declared) if declared.contains('<') => of(declared).or_else(|| of(class)),
        Some(declared) => of(class).or_else(|| of(declared)),
    }
}

/// The enum of which an object is a constant, where that is known: the one that it names, or the
/// one that is declared.
///
/// # Errors
/// The enum that is declared, if the object names another class.
pub fn known_enum<'c>(
    schema: &dyn Schema,
    named: Option<&'c str>,
    declared: Option<&'c str>,
) -> Result<Option<&'c str>, &'c str> {
    let is_enum = |class: &&str| schema.is_enum(class) == Some(true);
    let Some(declared) = declared.filter(is_enum) else { return Ok(named.filter(is_enum)) };
    match named.map(|named| named.strip_prefix(declared)) {
        // A constant with a body has a class of its own: `com.acme.Op$1`.
        None | Some(Some("")) => Ok(Some(declared)),
        Some(Some(rest)) if rest.starts_with('$') => Ok(Some(declared)),
        Some(_) => Err(declared),
    }
}

/// A constant of an enum that an object stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EnumObject<'c> {
    /// The enum.
    pub class: &'c str,
    /// The name of the constant.
    pub name: &'c str,
}

/// The constant that an object stands for: it has a `name` and no other member but perhaps
/// `class`, or a `class` and the name as its `value`. Where nobody knows whether the class is an
/// enum, it is one if the object says its class and a `name` that is written like a constant.
#[must_use]
pub fn enum_object<'c>(
    schema: &dyn Schema,
    look: &'c ObjectSummary<'_>,
    declared: Option<&'c str>,
) -> Option<EnumObject<'c>> {
    let named = look.class.as_deref();
    if let Some(class) = known_enum(schema, named, declared).ok()? {
        let value = look.only_text.as_deref().filter(|_| named.is_some());
        return look.only_name.as_deref().or(value).map(|name| EnumObject { class, name });
    }
    let (class, name) = named.zip(look.only_name.as_deref())?;
    let is_unknown = schema.is_enum(class).is_none() && !class.starts_with("java.");
    (is_unknown && is_constant(name)).then_some(EnumObject { class, name })
}

/// Whether an object has the form of a constant, and its name is written like one.
#[must_use]
pub fn names_constant(look: &ObjectSummary<'_>) -> bool {
    let value = look.only_text.as_deref().filter(|_| look.class.is_some());
    look.only_name.as_deref().or(value).is_some_and(is_constant)
}

/// Whether a name is written like that of a constant.
#[must_use]
pub fn is_constant(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    name.starts_with(|first: char| first.is_ascii_uppercase()) && name.bytes().all(fits)
}

/// Whether all classes of a type have a package. In Java's source some need none, but here it
/// would be another class.
fn has_packages(ty: &JavaType) -> bool {
    ty.find_class(&|class| !class.name().contains('.')).is_none()
}

#[cfg(test)]
mod tests;
