//! Whether a JSON value has objects of which nobody knows the fields.
//!
//! As objects they would be written by what their values look like, and a provider that finds a
//! double where its class has a `BigDecimal`, or a text where it has a date, cannot read them: one
//! of Dubbo 2 calls the method with null in place of the whole argument, and fastjson2 drops the
//! fraction. As maps of a generic call they are for the provider to make.

use crate::builtin::Builtin;
use crate::json::{JsonError, JsonKind, JsonReader};
use crate::named::{NamedClass, ObjectForm, enum_object, field_type, names_constant};
use crate::number;
use crate::passed::{ObjectSummary, Passed};
use crate::{ClassType, JavaType, Schema};

/// What of unknown type a reader of objects cannot do with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unreadable {
    /// A field of an object, and a text or array where a class is declared of which nothing is
    /// known; a text for a `StringBuilder`; an `Optional`, which is none that hessian-lite
    /// writes or reads; and an `EnumMap`, which it cannot make.
    Fields,
    /// In such a field, a number with a fraction, and an object whose members are named as no
    /// fields are: it may be a map with keys that are no texts.
    Misread,
    /// An object that names a class other than the declared one, one that may be a constant of an
    /// enum, an object of a collection or an `Optional` that is no field, and one, or a constant,
    /// in a field whose type only a type argument tells: a reader that knows only the classes of
    /// parameters makes others of them.
    Elements,
}

/// Why values go as maps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reasons {
    /// What the reader cannot do with.
    pub unreadable: Unreadable,
    /// Whether it makes of a map what type variables stand for: of one in a field that is declared
    /// as `Object`, which may be a `T`, an object of the type argument.
    pub knows_variables: bool,
    /// Whether it makes of a map what the method's parameter holds: of one in a `List` without
    /// type arguments, an element of a `List<Order>`.
    pub knows_elements: bool,
}

/// Whether the type is an optional one, or has one within.
#[must_use]
pub fn has_optional(ty: &JavaType) -> bool {
    ty.find_class(&|class| is_optional_class(class.name())).is_some()
}

/// Whether hessian-lite makes no value of the class of JSON of this kind.
fn is_never_read(class: &ClassType, kind: JsonKind) -> bool {
    match kind {
        JsonKind::Object => class.name() == ENUM_MAP,
        JsonKind::Number | JsonKind::String => optional_number(class.name()).is_some(),
        _ => false,
    }
}

/// Whether the type is a `StringBuilder` or `StringBuffer`, or has one within. hessian-lite reads
/// none of a text.
#[must_use]
pub fn has_builder(ty: &JavaType) -> bool {
    ty.find_class(&is_builder).is_some()
}

fn is_builder(class: &ClassType) -> bool {
    matches!(class.name(), "java.lang.StringBuilder" | "java.lang.StringBuffer")
}

/// Whether the type is an `EnumMap`, or has one within: hessian-lite reads a `HashMap` in its
/// place.
#[must_use]
pub fn has_enum_map(ty: &JavaType) -> bool {
    ty.find_class(&|class| class.name() == ENUM_MAP).is_some()
}

/// hessian-lite cannot make one of what it reads. Dubbo 2 calls the method with null in place of
/// an argument with one, and Dubbo 3 puts a `HashMap` into its field.
pub const ENUM_MAP: &str = "java.util.EnumMap";

/// The number that an optional one of this class holds.
#[must_use]
pub fn optional_number(class: &str) -> Option<Builtin> {
    Some(match class.strip_prefix("java.util.Optional")? {
        "Int" => Builtin::Int,
        "Long" => Builtin::Long,
        "Double" => Builtin::Double,
        _ => return None,
    })
}

/// Whether a class is one of those that a provider of Dubbo makes only where they are declared:
/// they are not serializable, and refused by their names.
#[must_use]
pub fn is_optional_class(name: &str) -> bool {
    let kind = name.strip_prefix("java.util.Optional");
    matches!(kind, Some("" | "Int" | "Long" | "Double"))
}

fn is_object(class: &ClassType) -> bool {
    class.name() == "java.lang.Object"
}

/// Whether a field may have the name, as most have: keys that are numbers, dates, constants of
/// enums or UUIDs are none.
fn is_name_of_field(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !matches!(name, "true" | "false")
}

/// Whether the type is `java.lang.Object`, or has it within: it may stand for a type variable.
#[must_use]
pub fn has_object(ty: &JavaType) -> bool {
    ty.find_class(&is_object).is_some()
}

/// Whether the JSON value that `json` is at, as a value of type `ty`, has one of these reasons, as
/// far as `schema` knows the types of fields. Classes of the JDK do not count.
///
/// # Errors
/// [`JsonError`] if the text is no JSON.
pub fn has_unreadable(
    json: &mut JsonReader<'_>,
    ty: Option<&JavaType>,
    schema: &dyn Schema,
    reasons: Reasons,
) -> Result<bool, JsonError> {
    let rest = json.text().get(json.position()..).unwrap_or_default();
    // With escapes, `class` may be written in other ways.
    let may_have_class =
        memchr::memmem::find(rest, b"\"class\"").is_some() || memchr::memchr(b'\\', rest).is_some();
    let passed = Passed::default();
    let mut search = Search {
        json,
        schema,
        may_have_class,
        passed,
        what: reasons.unreadable,
        variables: Variables::default(),
        is_bare: false,
        has_bare: false,
        has_entry: false,
        is_deep: false,
        is_in_unknown: false,
        is_in_object: false,
        is_element: false,
        is_of_variable: false,
    };
    Ok(search.value(ty)?
        || reasons.knows_variables && search.variables.are_lost(search.what)
        || reasons.knows_elements && search.has_bare && !search.has_entry)
}

/// Where objects stand that may be of a type variable.
#[derive(Clone, Copy, Default)]
struct Variables {
    /// In fields of the outermost object.
    is_outside: bool,
    /// In fields of an object that is in a field itself.
    is_inside: bool,
}

impl Variables {
    /// Whether they become maps unless all is one. fastjson and fastjson2 know the type arguments
    /// of fields, also where Dubbo does not: of a `List<T>`.
    fn are_lost(self, what: Unreadable) -> bool {
        match what {
            Unreadable::Fields => self.is_outside || self.is_inside,
            Unreadable::Misread | Unreadable::Elements => self.is_outside && !self.is_inside,
        }
    }
}

struct Search<'r, 'a, 's> {
    json: &'r mut JsonReader<'a>,
    schema: &'s dyn Schema,
    may_have_class: bool,
    passed: Passed,
    what: Unreadable,
    variables: Variables,
    /// Whether this is an element of a collection without type arguments.
    is_bare: bool,
    /// Whether an object without a class stands in such a collection, which is a parameter.
    has_bare: bool,
    /// Whether a map has an entry that would be the name of a class in a generic call.
    has_entry: bool,
    /// Whether this is inside of an object that is in a field of another.
    is_deep: bool,
    /// Whether this is inside of a field whose type is unknown.
    is_in_unknown: bool,
    /// Whether this is inside of an object.
    is_in_object: bool,
    /// Whether this is an element of a collection.
    is_element: bool,
    /// Whether this is inside of a field whose type only a type argument tells.
    is_of_variable: bool,
}

impl Search<'_, '_, '_> {
    fn value(&mut self, ty: Option<&JavaType>) -> Result<bool, JsonError> {
        let class = match ty {
            Some(JavaType::Class(class)) => Some(class),
            _ => None,
        };
        let kind = self.json.peek()?;
        if let Some(class) = class
            && class.builtin() == Some(Builtin::Optional)
        {
            return match self.what {
                _ if kind == JsonKind::Null => self.skip(),
                Unreadable::Fields => Ok(true),
                Unreadable::Elements if !self.is_in_object => Ok(true),
                _ => self.value_in_optional(class),
            };
        }
        if self.what == Unreadable::Fields && class.is_some_and(|class| is_never_read(class, kind))
        {
            return Ok(true);
        }
        match (kind, ty) {
            (JsonKind::Array, None) => self.elements(None),
            (JsonKind::Array, Some(JavaType::Array(element))) => self.elements(Some(element)),
            (JsonKind::Array, _) => match class.and_then(ClassType::builtin) {
                Some(Builtin::Any) => self.elements(ty.filter(|_| class.is_some_and(is_object))),
                // The elements of an `EnumSet` are enums, which their names say.
                Some(Builtin::List) => {
                    self.is_element = !self.is_in_object;
                    let ty = class.and_then(|class| class.args().first());
                    let outside = std::mem::replace(&mut self.is_bare, ty.is_none());
                    let found = self.elements(ty);
                    self.is_bare = outside;
                    found
                }
                Some(_) => self.skip(),
                // It may be a collection.
                None => self.of_unknown(class),
            },
            (JsonKind::Object, None | Some(JavaType::Class(_))) => {
                let is_bare = self.is_bare;
                let found = self.object(class);
                self.is_bare = is_bare;
                found
            }
            (JsonKind::String, _) if self.is_text_of_variable(class) => {
                self.skip()?;
                Ok(true)
            }
            (JsonKind::String, _) => self.of_unknown(class),
            (JsonKind::Number, None) if self.is_in_unknown && self.what != Unreadable::Elements => {
                Ok(number::integer(self.json.read_number()?).is_none())
            }
            _ => self.skip(),
        }
    }

    /// The value of an optional one. The provider may know what it is where the definition does
    /// not tell.
    fn value_in_optional(&mut self, class: &ClassType) -> Result<bool, JsonError> {
        let ty = class.args().first();
        let was_in_unknown = self.is_in_unknown;
        self.is_in_unknown |= ty.is_none();
        let found = self.value(ty);
        self.is_in_unknown = was_in_unknown;
        found
    }

    /// Passes a value; whether a class is declared of which nothing is known.
    fn of_unknown(&mut self, class: Option<&ClassType>) -> Result<bool, JsonError> {
        self.skip()?;
        Ok(self.what == Unreadable::Fields
            && class.is_some_and(|class| {
                is_builder(class) || class.builtin().is_none() && !self.knows(class.name())
            }))
    }

    /// Whether a text is a constant of an enum that only a type argument tells.
    fn is_text_of_variable(&self, class: Option<&ClassType>) -> bool {
        self.what == Unreadable::Elements
            && self.is_of_variable
            && class.is_some_and(|class| class.builtin().is_none())
    }

    fn skip(&mut self) -> Result<bool, JsonError> {
        self.json.skip_value()?;
        Ok(false)
    }

    /// Whether a class is described, or is one of the JDK's own.
    fn knows(&self, class: &str) -> bool {
        self.schema.is_enum(class).is_some() || class.starts_with("java.")
    }

    fn elements(&mut self, ty: Option<&JavaType>) -> Result<bool, JsonError> {
        if ty.is_some_and(JavaType::is_primitive) {
            return self.skip();
        }
        let mut array = self.json.begin_array()?;
        while self.json.next_element(&mut array)? {
            if self.value(ty)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn object(&mut self, class: Option<&ClassType>) -> Result<bool, JsonError> {
        let schema = self.schema;
        let builtin = class.and_then(ClassType::builtin);
        let declared = class.filter(|_| builtin.is_none());
        let args = class.map_or(&[][..], ClassType::args);
        let may_be_variable = self.is_in_object && class.is_some_and(is_object);
        let is_enum = |class: &ClassType| schema.is_enum(class.name()) == Some(true);
        // One without a class may be a constant, too.
        let is_looked_at = |class: &ClassType| {
            is_enum(class) || self.what == Unreadable::Elements && !self.knows(class.name())
        };
        let look = match self.may_have_class || declared.is_some_and(is_looked_at) {
            true => self.passed.look(self.json)?,
            false => ObjectSummary::default(),
        };
        let name = look.class.as_deref();
        if builtin == Some(Builtin::Map) && !NamedClass::is_of_map(name) {
            self.is_element = !self.is_in_object;
            self.has_entry |= look.class.is_some();
            self.is_bare = args.is_empty();
            // The values of a `Map<String, Object>` are no objects of a class.
            let value =
                args.get(1).filter(|ty| !matches!(ty, JavaType::Class(it) if is_object(it)));
            return self.members(false, |_| value, |_| true, |_, _| false);
        }
        let declared_name = declared.map(ClassType::name);
        if enum_object(schema, &look, declared_name).is_some() {
            return self.skip();
        }
        let may_be_constant =
            declared.is_some_and(|class| !self.knows(class.name())) && names_constant(&look);
        let named = name.and_then(NamedClass::of);
        let is_object = || look.only_value.is_some_and(|(kind, _)| kind == JsonKind::Object);
        let form = ObjectForm::of(named, declared, args, look.only_value.is_some(), is_object);
        if self.what == Unreadable::Elements
            && (may_be_constant || self.is_made_otherwise(&form, declared))
        {
            return Ok(true);
        }
        let is_bare = std::mem::replace(&mut self.is_bare, false);
        if is_bare && !self.is_in_object && matches!(form, ObjectForm::Untyped) {
            self.has_bare = true;
        }
        if may_be_variable && matches!(form, ObjectForm::Untyped) {
            self.variables.is_outside |= !self.is_deep;
            self.variables.is_inside |= self.is_deep;
        }
        match &form {
            ObjectForm::Untyped | ObjectForm::Any(_) => {
                self.members(look.class.is_some(), |_| None, |_| true, |_, _| false)
            }
            ObjectForm::Map(named) => {
                let args = named.args_or(args);
                self.members(true, |_| args.get(1), |_| true, |_, _| false)
            }
            ObjectForm::Value(ty) => self.members(true, |_| Some(ty), |_| true, |_, _| false),
            ObjectForm::Named(named) => self.fields(true, named.class, named.key(), declared),
            ObjectForm::Declared(class) => self.fields(false, class.name(), class.key(), declared),
        }
    }

    /// Whether a reader that knows only the classes of parameters makes something else of it.
    fn is_made_otherwise(&self, form: &ObjectForm<'_, '_>, declared: Option<&ClassType>) -> bool {
        match form {
            ObjectForm::Named(named) => {
                self.is_element
                    || self.is_of_variable
                    || declared.is_none_or(|class| class.name() != named.class)
            }
            ObjectForm::Declared(_) => self.is_element || self.is_of_variable,
            _ => false,
        }
    }

    /// Whether a member of an object of unknown class is no field.
    fn is_misread_as_field(&self, name: &str) -> bool {
        self.what == Unreadable::Misread && self.is_in_unknown && !is_name_of_field(name)
    }

    /// The members of an object of this class.
    fn fields(
        &mut self,
        is_named: bool,
        class: &str,
        key: &str,
        declared: Option<&ClassType>,
    ) -> Result<bool, JsonError> {
        let schema = self.schema;
        // Where it is declared, no reader takes one as an object.
        let is_declared = declared.is_some_and(|declared| declared.name() == class);
        if is_optional_class(class) && (is_declared || self.what == Unreadable::Fields) {
            return Ok(true);
        }
        let is_known = self.knows(class);
        let declared = declared.map(ClassType::key);
        let ty = |field: &str| field_type(schema, key, declared, field);
        let outside = (self.is_in_object, self.is_deep, self.is_element);
        (self.is_in_object, self.is_deep, self.is_element) = (true, self.is_in_object, false);
        // What the class itself tells of a field, whatever its type arguments are.
        let raw = key.split_once('<').map(|(class, _)| class);
        let of_variable = |field: &str, ty: Option<&JavaType>| {
            raw.is_some_and(|class| schema.field_type(class, field) != ty)
        };
        let found = self.members(is_named, ty, |ty| is_known || ty.is_some(), of_variable);
        (self.is_in_object, self.is_deep, self.is_element) = outside;
        found
    }

    /// The members of an object, but for what names its class. `is_known` is asked about those
    /// that are not null, and `of_variable` whether only a type argument tells the type.
    fn members<'t>(
        &mut self,
        is_named: bool,
        ty_of: impl Fn(&str) -> Option<&'t JavaType>,
        is_known: impl Fn(Option<&JavaType>) -> bool,
        of_variable: impl Fn(&str, Option<&JavaType>) -> bool,
    ) -> Result<bool, JsonError> {
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            let kind = self.json.peek()?;
            let ty = ty_of(&key);
            if !is_named && self.is_misread_as_field(&key) {
                return Ok(true);
            }
            if kind == JsonKind::Null || is_named && kind == JsonKind::String && key == "class" {
                self.skip()?;
                continue;
            }
            let is_unknown = !is_known(ty);
            if is_unknown && self.what == Unreadable::Fields {
                return Ok(true);
            }
            let was_in_unknown = self.is_in_unknown;
            self.is_in_unknown |= is_unknown;
            let was_of_variable = self.is_of_variable;
            self.is_of_variable |= of_variable(&key, ty);
            if self.value(ty)? {
                return Ok(true);
            }
            (self.is_in_unknown, self.is_of_variable) = (was_in_unknown, was_of_variable);
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
