//! Whether a JSON value has objects of which nobody knows the fields.
//!
//! As objects they would be written by what their values look like, and a provider that finds a
//! double where its class has a `BigDecimal`, or a text where it has a date, cannot read them: one
//! of Dubbo 2 calls the method with null in place of the whole argument, and fastjson2 drops the
//! fraction. As maps of a generic call they are for the provider to make.

use crate::builtin::Builtin;
use crate::json::{JsonError, JsonKind, JsonReader};
use crate::named::{Named, ObjectForm, enum_object, field_type};
use crate::number;
use crate::passed::{ObjectSummary, Passed};
use crate::{ClassType, JavaType, Schema};

/// What of unknown type a reader of objects cannot do with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unreadable {
    /// A field of an object, and a text or array where a class is declared of which nothing is
    /// known; and an `Optional`, which is none that hessian-lite writes or reads.
    Fields,
    /// In such a field, a number with a fraction, and an object whose members are named as no
    /// fields are: it may be a map with keys that are no texts.
    Misread,
    /// An object that names a class other than the declared one, and an object of a collection
    /// or an `Optional` that is no field: a reader that knows only the classes of parameters makes
    /// others of them.
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
}

/// Whether the type is an optional one, or has one within.
#[must_use]
pub fn has_optional(ty: &JavaType) -> bool {
    ty.find_class(&|class| is_optional_class(class.name())).is_some()
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

fn is_optional(ty: &JavaType) -> bool {
    matches!(ty, JavaType::Class(class) if class.builtin() == Some(Builtin::Optional))
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
        is_deep: false,
        is_in_unknown: false,
        is_in_object: false,
        is_element: false,
    };
    Ok(search.value(ty)? || reasons.knows_variables && search.variables.are_lost(search.what))
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
    /// Whether this is inside of an object that is in a field of another.
    is_deep: bool,
    /// Whether this is inside of a field whose type is unknown.
    is_in_unknown: bool,
    /// Whether this is inside of an object.
    is_in_object: bool,
    /// Whether this is an element of a collection.
    is_element: bool,
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
                Unreadable::Fields => Ok(true),
                _ if kind == JsonKind::Null => self.skip(),
                Unreadable::Elements if !self.is_in_object => Ok(true),
                _ => self.value_in_optional(class),
            };
        }
        match (kind, ty) {
            (JsonKind::Array, None) => self.elements(None),
            (JsonKind::Array, Some(JavaType::Array(element))) => self.elements(Some(element)),
            (JsonKind::Array, _) => match class.and_then(ClassType::builtin) {
                Some(Builtin::Any) => self.elements(ty.filter(|_| class.is_some_and(is_object))),
                // The elements of an `EnumSet` are enums, which their names say.
                Some(Builtin::List) => {
                    self.is_element = !self.is_in_object;
                    self.elements(class.and_then(|class| class.args().first()))
                }
                Some(_) => self.skip(),
                // It may be a collection.
                None => self.of_unknown(class),
            },
            (JsonKind::Object, None | Some(JavaType::Class(_))) => self.object(class),
            (JsonKind::String, _) => self.of_unknown(class),
            (JsonKind::Number, None) if self.is_in_unknown && self.what != Unreadable::Elements => {
                Ok(number::integer(self.json.read_number()?).is_none())
            }
            _ => self.skip(),
        }
    }

    /// The value of an optional one. The provider may know what it is where the definition does not
    /// tell.
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
            && class.is_some_and(|class| class.builtin().is_none() && !self.knows(class.name())))
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
        let look = match self.may_have_class || declared.is_some_and(is_enum) {
            true => self.passed.look(self.json)?,
            false => ObjectSummary::default(),
        };
        let name = look.class.as_deref();
        if builtin == Some(Builtin::Map) && !Named::is_of_map(name) {
            self.is_element = !self.is_in_object;
            // The values of a `Map<String, Object>` are no objects of a class.
            let value =
                args.get(1).filter(|ty| !matches!(ty, JavaType::Class(it) if is_object(it)));
            return self.members(false, |_| value, |_| true);
        }
        let declared_name = declared.map(ClassType::name);
        if look.only_name.is_some_and(|it| enum_object(schema, name, declared_name, &it).is_some())
        {
            return self.skip();
        }
        let named = name.and_then(Named::of);
        let is_object = || look.only_value.is_some_and(|(kind, _)| kind == JsonKind::Object);
        let form = ObjectForm::of(named, declared, args, look.only_value.is_some(), is_object);
        if self.what == Unreadable::Elements && self.is_made_otherwise(&form, declared) {
            return Ok(true);
        }
        if may_be_variable && matches!(form, ObjectForm::Untyped) {
            self.variables.is_outside |= !self.is_deep;
            self.variables.is_inside |= self.is_deep;
        }
        match &form {
            ObjectForm::Untyped | ObjectForm::Any(_) => {
                self.members(look.class.is_some(), |_| None, |_| true)
            }
            ObjectForm::Map(named) => {
                let args = named.args_or(args);
                self.members(true, |_| args.get(1), |_| true)
            }
            ObjectForm::Value(ty) => self.members(true, |_| Some(ty), |_| true),
            ObjectForm::Named(named) => self.fields(true, named.class, named.key(), declared),
            ObjectForm::Declared(class) => self.fields(false, class.name(), class.key(), declared),
        }
    }

    /// Whether a reader that knows only the classes of parameters makes something else of it.
    fn is_made_otherwise(&self, form: &ObjectForm<'_, '_>, declared: Option<&ClassType>) -> bool {
        match form {
            ObjectForm::Named(named) => {
                self.is_element || declared.is_none_or(|class| class.name() != named.class)
            }
            ObjectForm::Declared(_) => self.is_element,
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
        if self.what == Unreadable::Fields && is_optional_class(class) {
            return Ok(true);
        }
        let is_known = self.knows(class);
        let declared = declared.map(ClassType::key);
        let ty = |field: &str| field_type(schema, key, declared, field);
        let outside = (self.is_in_object, self.is_deep, self.is_element);
        (self.is_in_object, self.is_deep, self.is_element) = (true, self.is_in_object, false);
        let found = self.members(is_named, ty, |ty| is_known || ty.is_some());
        (self.is_in_object, self.is_deep, self.is_element) = outside;
        found
    }

    /// The members of an object, but for what names its class. `is_known` is asked about those
    /// that are not null.
    fn members<'t>(
        &mut self,
        is_named: bool,
        ty_of: impl Fn(&str) -> Option<&'t JavaType>,
        is_known: impl Fn(Option<&JavaType>) -> bool,
    ) -> Result<bool, JsonError> {
        let mut object = self.json.begin_object()?;
        while let Some(key) = self.json.next_key(&mut object)? {
            let kind = self.json.peek()?;
            let ty = ty_of(&key);
            if !is_named && self.is_misread_as_field(&key) {
                return Ok(true);
            }
            if kind == JsonKind::Null && !ty.is_some_and(is_optional)
                || is_named && kind == JsonKind::String && key == "class"
            {
                self.skip()?;
                continue;
            }
            let is_unknown = !is_known(ty);
            if is_unknown && self.what == Unreadable::Fields {
                return Ok(true);
            }
            let was_in_unknown = self.is_in_unknown;
            self.is_in_unknown |= is_unknown;
            if self.value(ty)? {
                return Ok(true);
            }
            self.is_in_unknown = was_in_unknown;
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::json::items_read_by;

    /// A person with a date and a friend, a color, and pages of persons.
    struct Estate(Vec<JavaType>);

    impl Estate {
        fn new() -> Self {
            let types = [
                "java.util.Date",
                "a.Person",
                "java.util.List<a.Person>",
                "java.lang.Object",
                "java.util.Optional<java.lang.Long>",
            ];
            Self(types.map(|ty| JavaType::parse(ty).unwrap()).into())
        }
    }

    impl Schema for Estate {
        fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
            let index = match (class, field) {
                ("a.Person", "born") => 0,
                ("a.Person", "friend") => 1,
                ("a.Page<a.Person>", "items") => 2,
                ("a.Person", "any") => 3,
                ("a.Person", "maybe") => 4,
                _ => return None,
            };
            self.0.get(index)
        }

        fn is_enum(&self, class: &str) -> Option<bool> {
            match class {
                "a.Person" => Some(false),
                "a.Color" => Some(true),
                _ => None,
            }
        }
    }

    fn is_unknown(ty: &str, json: &str) -> bool {
        has(Unreadable::Fields, ty, json)
    }

    fn has(what: Unreadable, ty: &str, json: &str) -> bool {
        let estate = Estate::new();
        let ty = (!ty.is_empty()).then(|| JavaType::parse(ty).unwrap());
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        let reasons = Reasons { unreadable: what, knows_variables: false };
        has_unreadable(&mut reader, ty.as_ref(), &estate, reasons).unwrap()
    }

    /// What has no class where a `T` may be is of the type argument, which the provider knows.
    #[test]
    fn objects_where_a_type_variable_may_be() {
        let has = |unreadable, ty: &str, json: &str, knows_variables| {
            let estate = Estate::new();
            let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
            let reasons = Reasons { unreadable, knows_variables };
            let ty = JavaType::parse(ty).unwrap();
            has_unreadable(&mut reader, Some(&ty), &estate, reasons).unwrap()
        };
        for (ty, json, expected) in [
            ("a.Person", r#"{"any":{"x":1}}"#, true),
            ("a.Person", r#"{"any":[1,{"x":1}]}"#, true),
            ("a.Person", r#"{"any":{"class":"a.Person","born":0}}"#, false),
            ("a.Person", r#"{"any":{"class":"java.util.HashMap","x":1}}"#, false),
            ("a.Person", r#"{"any":[1,"x",null]}"#, false),
            ("java.lang.Object", r#"{"x":1}"#, false),
            ("java.util.List<java.lang.Object>", r#"[{"x":1}]"#, false),
            ("java.util.Map<java.lang.String, java.lang.Object>", r#"{"x":{"y":1}}"#, false),
        ] {
            for unreadable in [Unreadable::Fields, Unreadable::Misread] {
                assert_eq!(has(unreadable, ty, json, true), expected, "{ty} {json}");
                assert!(!has(unreadable, ty, json, false), "{ty} {json}");
            }
        }
        // fastjson2 knows what the fields of a field are, where Dubbo may not.
        for json in [r#"{"friend":{"any":{"x":1}}}"#, r#"{"any":{},"friend":{"any":[{"x":1}]}}"#] {
            assert!(has(Unreadable::Fields, "a.Person", json, true), "{json}");
            assert!(!has(Unreadable::Misread, "a.Person", json, true), "{json}");
        }
    }

    /// fastjson reads each argument as the class of its parameter, and fields by their own types.
    #[test]
    fn objects_of_other_classes_and_of_collections() {
        for (ty, json, expected) in [
            ("a.New", r#"{"x":1.5,"list":[{"y":1}]}"#, false),
            ("a.New[]", r#"[{"x":1.5}]"#, false),
            ("a.New", r#"{"class":"a.New","x":1}"#, false),
            ("a.New", r#"{"class":"a.Newer","x":1}"#, true),
            ("a.New", r#"{"friend":{"class":"a.Newer"}}"#, true),
            ("java.lang.Object", r#"{"class":"a.New","x":1}"#, true),
            ("java.util.List<a.New>", r#"[{"x":1}]"#, true),
            ("java.util.Map<java.lang.String, a.New>", r#"{"k":{"x":1}}"#, true),
            ("java.util.List<java.lang.Long>", "[1]", false),
            ("java.util.Map", r#"{"k":{"x":1}}"#, false),
            ("java.util.Optional<a.New>", r#"{"x":1}"#, true),
            ("java.util.Optional<java.lang.Long>", "5", true),
            ("java.util.Optional<java.lang.Long>", "null", false),
            ("a.Person", r#"{"maybe":5}"#, false),
        ] {
            assert_eq!(has(Unreadable::Elements, ty, json), expected, "{ty} {json}");
        }
    }

    #[test]
    fn objects_whose_fields_nobody_knows() {
        for (ty, json) in [
            ("a.Other", r#"{"price":1.5}"#),
            ("a.Other", "\"RED\""),
            ("a.Other", "[1]"),
            ("a.Other[]", r#"[null,{"price":1}]"#),
            ("java.util.List<a.Other>", r#"[{"price":1}]"#),
            ("java.util.Map<java.lang.String,a.Other>", r#"{"x":{"price":1}}"#),
            ("java.util.Optional<a.Other>", r#"{"price":1}"#),
            ("java.lang.Object", r#"{"class":"a.Other","price":1}"#),
            ("java.lang.Object", r#"{"cl\u0061ss":"a.Other","price":1}"#),
            ("java.util.List", r#"[1,[{"x":{"price":1,"class":"a.Other"}}]]"#),
            ("java.util.Map", r#"{"class":"x","y":{"class":"a.Other","price":1}}"#),
            ("", r#"{"class":"java.util.ArrayList<a.Other>","value":[{"price":1}]}"#),
            ("", r#"{"class":"java.util.TreeMap<java.lang.String,a.Other>","x":{"price":1}}"#),
            ("java.math.BigDecimal", r#"{"class":"a.Money","cents":1}"#),
            // Of a subclass only the fields of its superclass are known.
            ("a.Person", r#"{"class":"a.Employee","born":"2000-01-01","salary":1.5}"#),
            ("a.Person", r#"{"friend":{"any":{"class":"a.Other","price":1}}}"#),
            ("a.Page<a.Person>", r#"{"items":[{"class":"a.Employee","salary":1}]}"#),
            ("a.Page<a.Person>", r#"{"items":[],"total":1}"#),
        ] {
            assert!(is_unknown(ty, json), "{ty} {json}");
        }
    }

    #[test]
    fn optionals_are_no_objects_of_hessian_lite() {
        for (ty, json) in [
            ("java.util.Optional<java.lang.Long>", "5"),
            ("java.util.Optional", "null"),
            ("a.Person", r#"{"maybe":null}"#),
            ("java.util.List<java.util.OptionalLong>", r#"[{"value":5,"isPresent":true}]"#),
            ("", r#"{"class":"java.util.Optional","value":5}"#),
            ("", r#"{"class":"java.util.OptionalInt","value":5,"isPresent":true}"#),
        ] {
            assert!(is_unknown(ty, json), "{ty} {json}");
            assert!(!has(Unreadable::Misread, ty, json), "{ty} {json}");
        }
        assert!(!is_unknown("java.util.OptionalLong", "null"));
    }

    #[test]
    fn what_is_known_or_has_no_fields() {
        for (ty, json) in [
            ("a.Other", "null"),
            ("a.Other", "{}"),
            ("a.Other", r#"{"price":null}"#),
            // These cannot be objects of the class, which is for the writer to say.
            ("a.Other", "7"),
            ("a.Person", "[1]"),
            ("a.Person", r#"{"born":"2000-01-01","friend":{"born":0}}"#),
            ("a.Person", r#"{"class":"a.Employee","born":"2000-01-01","salary":null}"#),
            ("a.Person", r#"{"class":"a.Person","nobody":1}"#),
            ("a.Page<a.Person>", r#"{"items":[{"born":0}]}"#),
            ("a.Color", "\"RED\""),
            ("java.util.EnumSet<a.Size>", "[\"LARGE\"]"),
            ("a.Color", r#"{"class":"a.Color","name":"RED"}"#),
            // The long form of an enum says all there is.
            ("", r#"{"class":"a.Size","name":"LARGE"}"#),
            ("java.lang.Object", r#"{"price":1,"class":7}"#),
            ("java.util.Map", r#"{"class":"a.Other","price":1}"#),
            ("java.util.Map", r#"{"class":"java.util.TreeMap","price":1}"#),
            ("java.util.Date", r#"{"class":"java.sql.Timestamp","value":7}"#),
            ("", r#"{"class":"java.util.BitSet","words":[5]}"#),
            ("", r#"{"class":"java.util.ArrayList<a.Person>","value":[{"born":1}]}"#),
            ("int[][]", "[[1],[2]]"),
            ("java.lang.String", "\"x\""),
        ] {
            assert!(!is_unknown(ty, json), "{ty} {json}");
        }
    }

    #[test]
    fn what_fastjson2_misreads_in_unknown_fields() {
        for (ty, json, expected) in [
            ("a.Other", r#"{"price":1.5}"#, true),
            ("a.Other", r#"{"prices":[1,{"x":1.5}]}"#, true),
            ("java.lang.Object", r#"{"class":"a.Other","price":19.90}"#, true),
            ("a.Other", r#"{"price":2.0,"name":"x","n":7,"of":{"y":1e3}}"#, false),
            ("a.Other", r#"{"price":{"class":"java.math.BigDecimal","value":1.5}}"#, false),
            ("a.Other", "\"RED\"", false),
            // They may be keys of a `Map<Integer, ..>`, or of another that are no texts.
            ("a.Other", r#"{"byNo":{"1":{"x":1}}}"#, true),
            ("a.Other", r#"{"list":[{"byColor":{"RED":null}}]}"#, true),
            ("a.Other", r#"{"byDay":{"2024-02-29":1}}"#, true),
            ("a.Other", r#"{"byFlag":{"true":1}}"#, true),
            ("a.Other", r#"{"address":{"street_1":"x","cityOf":{"_id":1}}}"#, false),
            ("a.Other", r#"{"OK":1}"#, false),
            // Whatever stands there is what it looks like.
            ("java.util.List", "[1.5]", false),
            ("a.Person", r#"{"any":1.5,"friend":{"any":[1.5]}}"#, false),
            ("a.Person", r#"{"class":"a.Employee","born":0,"salary":1.5}"#, true),
            ("java.util.Optional", r#"{"price":1.5}"#, true),
            ("java.util.Optional<java.lang.Double>", "1.5", false),
        ] {
            assert_eq!(has(Unreadable::Misread, ty, json), expected, "{ty} {json}");
        }
    }

    #[test]
    fn nothing_is_looked_through_at_every_level() {
        let text = (0..60).fold("7".to_owned(), |inner, _| {
            format!(r#"{{"class":"a.Person","any":{inner},"born":0}}"#)
        });
        let n_read = items_read_by(|| assert!(!is_unknown("", &text)));
        assert!(n_read <= 3 * 60 * 3, "{n_read}");
    }
}
