//! What the member `class` of a JSON object says: the same for every serialization.

use crate::builtin::Builtin;
use crate::expected;
use crate::scalars::Misfit;
use crate::{ClassType, JavaType, Schema};

/// What a member `class` has to be.
pub const CLASS_NAME: &str = "the name of a class, with its package, also between < and > \
     (java.lang.Integer, not Integer), each part of which starts with a letter, _ or $";

/// What an entry of a map may not be in a generic call, if it is a text that is named `class`.
pub const GENERIC_ENTRY: &str = "a value that an entry named class can have in the map of a generic \
     call, where it names the class of an object; send the parameter types";

/// A class that an object names.
#[derive(Clone, Debug)]
pub struct Named<'n> {
    /// The name, without generic arguments.
    pub class: &'n str,
    /// What the mapping knows of it.
    pub builtin: Option<Builtin>,
    /// An array or primitive type, whose values no JSON object is, or a class with generic
    /// arguments.
    ty: Option<JavaType>,
}

impl<'n> Named<'n> {
    /// The class that the object at `offset` names, if it names one.
    ///
    /// # Errors
    /// [`Misfit`] if no class can have the name.
    pub fn of_object(offset: usize, name: Option<&'n str>) -> Result<Option<Self>, Misfit> {
        let Some(name) = name else { return Ok(None) };
        match Self::of(name) {
            Some(named) => Ok(Some(named)),
            None => {
                let (found, expected) = (expected::quoted(name), CLASS_NAME.into());
                Err(Misfit::Value { offset, found, expected })
            }
        }
    }

    /// Whether a name is that of a map of java.util. Where a map is declared, a member `class`
    /// that says something else is a key like any other.
    #[must_use]
    pub fn is_of_map(name: Option<&str>) -> bool {
        let named = name.and_then(Named::of);
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
        let is_object = matches!(self.builtin, None | Some(Builtin::Map | Builtin::Any));
        self.is_plain() || !is_object
    }

    fn is_plain(&self) -> bool {
        self.ty.as_ref().is_some_and(|ty| !matches!(ty, JavaType::Class(_)))
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

    /// Whether a value of this class may stand where a class is declared that is `declared` in the
    /// table. A box or a text has no subclasses: a `Long` for an `Integer` would lose what an int
    /// cannot hold.
    #[must_use]
    pub fn may_stand_for(&self, declared: Option<Builtin>) -> bool {
        let Some(declared) = declared else { return true };
        match declared {
            Builtin::Boolean
            | Builtin::Byte
            | Builtin::Short
            | Builtin::Char
            | Builtin::Int
            | Builtin::Long
            | Builtin::Float
            | Builtin::Double
            | Builtin::String => self.builtin == Some(declared),
            Builtin::BigDecimal | Builtin::BigInteger => {
                !self.is_plain() && self.builtin.is_none_or(|builtin| builtin == declared)
            }
            _ => true,
        }
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
    Map(Named<'n>),
    /// Its member `value`, as a value of this type: `{"class": "java.util.Date", "value": 0}`.
    Value(JavaType),
    /// An object of the class that it names.
    Named(Named<'n>),
    /// An object of the class that is declared.
    Declared(&'c ClassType),
}

impl<'n, 'c> ObjectForm<'n, 'c> {
    /// By the class that the object names, the one that is declared, and the type arguments where
    /// a collection or map is declared. `has_only_value` is whether `value` is its only other
    /// member.
    pub fn of(
        named: Option<Named<'n>>,
        declared: Option<&'c ClassType>,
        args: &[JavaType],
        has_only_value: bool,
        value_is_object: impl FnOnce() -> bool,
    ) -> Self {
        let Some(named) = named else { return declared.map_or(Self::Untyped, Self::Declared) };
        match named.builtin {
            Some(Builtin::Any) => Self::Any(named.class),
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

/// The class of an object that has a `name` and no other member but perhaps `class`, if it is the
/// long form of an enum. Where nobody knows, it is one if it says its class and the name is written
/// like a constant.
#[must_use]
pub fn enum_object<'c>(
    schema: &dyn Schema,
    named: Option<&'c str>,
    declared: Option<&'c str>,
    name: &str,
) -> Option<&'c str> {
    let class = named.or(declared)?;
    let is_constant = || {
        let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        name.starts_with(|first: char| first.is_ascii_uppercase()) && name.bytes().all(fits)
    };
    let known = schema.is_enum(class);
    known
        .unwrap_or_else(|| named.is_some() && !class.starts_with("java.") && is_constant())
        .then_some(class)
}

/// Whether all classes of a type have a package. In Java's source some need none, but here it
/// would be another class.
fn has_packages(ty: &JavaType) -> bool {
    ty.find_class(&|class| !class.name().contains('.')).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_classes_or_nothing() {
        for (name, class) in [
            ("a.B", Some("a.B")),
            ("a.Outer$Inner", Some("a.Outer$Inner")),
            ("I", Some("I")),
            ("java.util.HashMap<java.lang.Integer, java.lang.Object>", Some("java.util.HashMap")),
            ("a.Page<a.Order[]>", Some("a.Page")),
            ("int[]", Some("int[]")),
            ("[Ljava.lang.String;", Some("[Ljava.lang.String;")),
            ("java.util.HashMap<Integer,Object>", None),
            ("java.util.HashMap<java.lang.Integer", None),
            ("java.util.HashMap<>", None),
            ("a b<c", None),
            ("a b", None),
            ("a..B", None),
            (".B", None),
            ("a.B.", None),
            ("1a.B", None),
            ("a.1B", None),
            ("a-b.C", None),
            ("a.B$1", Some("a.B$1")),
            ("a_1.$B", Some("a_1.$B")),
            ("\u{8ba2}\u{5355}.\u{e9}B2", Some("\u{8ba2}\u{5355}.\u{e9}B2")),
            ("1a.B[]", None),
            ("[L1a.B;", None),
            ("[La/2B;", None),
            ("java.util.HashMap<java.lang.String, 1a.B>", None),
            ("java.1util.HashMap<java.lang.String, a.B>", None),
            ("[foo", None),
            ("", None),
        ] {
            assert_eq!(Named::of(name).map(|named| named.class), class, "{name}");
        }
    }

    #[test]
    fn a_box_stands_for_itself_alone() {
        for (declared, named, expected) in [
            ("java.lang.Integer", "java.lang.Integer", true),
            ("java.lang.Integer", "java.lang.Long", false),
            ("java.lang.Long", "long", false),
            ("java.lang.String", "java.lang.Integer", false),
            ("java.lang.CharSequence", "java.lang.String", true),
            ("java.math.BigDecimal", "java.math.BigInteger", false),
            ("java.math.BigDecimal", "a.Money", true),
            ("java.util.Date", "java.sql.Timestamp", true),
        ] {
            let declared = Builtin::of_declared(declared);
            assert_eq!(Named::of(named).unwrap().may_stand_for(declared), expected, "{named}");
        }
    }

    #[test]
    fn an_object_stands_for_what_it_names_or_what_is_declared() {
        let form = |name: Option<&str>, declared: Option<&ClassType>, has_only_value| {
            let named = Named::of_object(7, name).unwrap();
            match ObjectForm::of(named, declared, &[], has_only_value, || true) {
                ObjectForm::Untyped => "a map".to_owned(),
                ObjectForm::Any(class) => format!("any {class}"),
                ObjectForm::Map(named) => format!("map {}", named.class),
                ObjectForm::Value(ty) => format!("value {}", ty.java_name()),
                ObjectForm::Named(named) => format!("object {}", named.class),
                ObjectForm::Declared(class) => format!("declared {}", class.name()),
            }
        };
        let JavaType::Class(declared) = JavaType::parse("a.B").unwrap() else { unreachable!() };
        let declared = Some(&declared);
        for (name, has_only_value, expected) in [
            (None, true, "declared a.B"),
            (Some("a.C"), true, "object a.C"),
            (Some("java.lang.Object"), false, "any java.lang.Object"),
            (Some("java.util.TreeMap"), true, "map java.util.TreeMap"),
            (Some("java.util.Date"), true, "value java.util.Date"),
            (Some("java.util.Date"), false, "object java.util.Date"),
            (Some("int[]"), true, "value int[]"),
        ] {
            assert_eq!(form(name, declared, has_only_value), expected, "{name:?}");
        }
        assert_eq!(form(None, None, true), "a map");
        assert!(matches!(Named::of_object(7, Some("a b")), Err(Misfit::Value { offset: 7, .. })));
    }
}
