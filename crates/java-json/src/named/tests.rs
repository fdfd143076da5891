use super::*;
use crate::Limits;
use crate::json::JsonReader;
use crate::passed::Passed;

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
        assert_eq!(NamedClass::of(name).map(|named| named.class), class, "{name}");
    }
}

/// `a.Color` is an enum.
struct Colors;

impl Schema for Colors {
    fn field_type(&self, _class: &str, _field: &str) -> Option<&JavaType> {
        None
    }

    fn is_enum(&self, class: &str) -> Option<bool> {
        ["a.Color", "a.Bean"].contains(&class).then_some(class == "a.Color")
    }

    fn knows_arguments(&self, class: &str) -> bool {
        class == "a.Page<a.Color>"
    }
}

#[test]
fn a_scalar_stands_for_its_own_class_and_superclasses() {
    for (declared, named, expected) in [
        ("java.lang.Integer", "java.lang.Integer", true),
        ("java.lang.Integer", "java.lang.Long", false),
        ("java.lang.Long", "long", false),
        ("java.lang.String", "java.lang.Integer", false),
        ("java.lang.String", "a.Text", false),
        ("java.lang.CharSequence", "java.lang.String", true),
        ("java.math.BigDecimal", "java.math.BigInteger", false),
        ("java.math.BigDecimal", "a.Money", true),
        ("java.math.BigDecimal", "a.Color", false),
        ("java.math.BigDecimal", "java.util.TimeZone", false),
        ("java.util.Date", "java.sql.Timestamp", true),
        ("java.util.Date", "java.lang.Integer", false),
        ("java.util.Date", "int[]", false),
        ("java.util.Date", "a.Day", true),
        ("java.sql.Timestamp", "java.sql.Date", false),
        ("java.sql.Timestamp", "java.sql.Timestamp", true),
        ("java.util.Calendar", "java.util.GregorianCalendar", true),
        ("java.util.UUID", "java.io.File", false),
        ("java.util.UUID", "a.Id", false),
        ("java.util.Locale", "java.util.HashMap", false),
        ("java.time.ZoneId", "java.time.ZoneOffset", true),
        ("java.time.Instant", "java.util.Date", false),
        ("java.util.List", "java.util.LinkedList", true),
        ("java.util.List", "java.util.Collections$UnmodifiableList", true),
        ("java.util.List", "java.lang.Integer", false),
        ("java.lang.Object", "java.lang.Integer", true),
        ("java.lang.Number", "java.lang.Byte", true),
        ("java.lang.Number", "double", true),
        ("java.lang.Number", "a.Fraction", true),
        ("java.lang.Number", "java.util.Date", false),
        ("java.lang.Number", "boolean", false),
        ("java.lang.Number", "int[]", false),
    ] {
        let JavaType::Class(class) = JavaType::class(declared) else { unreachable!() };
        let may = NamedClass::of(named).unwrap().may_stand_for(&class, &Colors);
        assert_eq!(may, expected, "{named} for {declared}");
    }
}

#[test]
fn an_object_that_names_a_constant_is_one() {
    for (text, declared, expected) in [
        (r#"{"name":"RED"}"#, Some("a.Color"), Some("a.Color RED")),
        (r#"{"name":"GREY"}"#, Some("a.Color"), Some("a.Color GREY")),
        (r#"{"class":"a.Color","name":"RED"}"#, None, Some("a.Color RED")),
        (r#"{"class":"a.Color","value":"RED"}"#, Some("a.Color"), Some("a.Color RED")),
        (r#"{"class":"a.Color","value":"RED"}"#, Some("a.Shade"), Some("a.Color RED")),
        (r#"{"class":"a.Color$1","name":"RED"}"#, Some("a.Color"), Some("a.Color RED")),
        (r#"{"value":"RED"}"#, Some("a.Color"), None),
        (r#"{"name":"RED","x":1}"#, Some("a.Color"), None),
        (r#"{"name":5}"#, Some("a.Color"), None),
        (r#"{"class":"a.Colors","name":"RED"}"#, Some("a.Color"), None),
        (r#"{"class":"java.lang.Integer","value":"5"}"#, Some("a.Color"), None),
        (r#"{"class":"b.Color","name":"RED"}"#, None, Some("b.Color RED")),
        (r#"{"class":"b.Color","name":"Red"}"#, None, None),
        (r#"{"class":"b.Color","value":"RED"}"#, None, None),
        (r#"{"class":"a.Bean","name":"RED"}"#, None, None),
        (r#"{"name":"RED"}"#, Some("b.Color"), None),
    ] {
        let json = JsonReader::new(text.as_bytes(), Limits::default());
        let look = Passed::default().look(&json).unwrap();
        let found = enum_object(&Colors, &look, declared);
        let found = found.map(|EnumObject { class, name }| format!("{class} {name}"));
        assert_eq!(found.as_deref(), expected, "{text} {declared:?}");
    }
    assert_eq!(known_enum(&Colors, Some("a.Bean"), Some("a.Color")), Err("a.Color"));
    assert_eq!(known_enum(&Colors, None, Some("a.Color")), Ok(Some("a.Color")));
    assert_eq!(known_enum(&Colors, None, Some("b.Color")), Ok(None));
}

#[test]
fn an_object_stands_for_what_it_names_or_what_is_declared() {
    let form = |name: Option<&str>, declared: Option<&ClassType>, has_only_value| {
        let named = NamedClass::of_object(7, name, &()).unwrap();
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
    assert!(matches!(
        NamedClass::of_object(7, Some("a b"), &()),
        Err(Misfit::Value { offset: 7, .. })
    ));
}

#[test]
fn type_arguments_mean_something_to_the_schema() {
    let of = |name| NamedClass::of_object(7, Some(name), &Colors);
    for name in ["java.util.List<a.Color>", "a.Page<a.Color>", "java.util.List<a.Page<a.Color>>"] {
        assert!(of(name).is_ok(), "{name}");
    }
    for name in ["a.Page<a.B>", "java.util.List<a.Page<a.B>>", "a.Color<a.B>[]"] {
        let Err(Misfit::Value { offset: 7, expected, .. }) = of(name) else { panic!("{name}") };
        assert_eq!(&*expected, KNOWN_ARGUMENTS, "{name}");
    }
}
