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
            "a.Color",
            "java.lang.String",
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
            ("a.Page<a.Person>", "shade") => 5,
            ("a.Page<a.Person>" | "a.Page", "title") => 6,
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
    let reasons = Reasons { unreadable: what, knows_variables: false, knows_elements: false };
    has_unreadable(&mut reader, ty.as_ref(), &estate, reasons).unwrap()
}

/// Java knows what a `List` of a caller's types holds.
#[test]
fn objects_in_collections_without_type_arguments() {
    let has = |ty: &str, json: &str, knows_elements| {
        let unreadable = Unreadable::Fields;
        let reasons = Reasons { unreadable, knows_variables: false, knows_elements };
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        let ty = JavaType::parse(ty).unwrap();
        has_unreadable(&mut reader, Some(&ty), &Estate::new(), reasons).unwrap()
    };
    for (ty, json, expected) in [
        ("java.util.List", r#"[1,{"x":1}]"#, true),
        ("java.util.List", r#"[{"class":"a.Person","any":[]},{"x":1}]"#, true),
        ("java.util.List<java.util.List>", r#"[[{"x":1}]]"#, true),
        ("java.util.Set[]", r#"[[[{"x":1}]]]"#, true),
        ("java.util.Map", r#"{"k":{"x":1}}"#, true),
        // In a generic call Java would look for a class `red`.
        ("java.util.Map", r#"{"class":"red","k":{"x":1}}"#, false),
        ("java.util.Map", r#"{"k":1}"#, false),
        ("java.util.List", r#"[{"class":"a.Person","born":0}]"#, false),
        ("java.util.List<java.lang.Object>", r#"[{"x":1}]"#, false),
        ("java.util.List<java.util.Map>", r#"[{"x":1}]"#, false),
        ("java.lang.Object", r#"{"x":[{"y":1}]}"#, false),
        ("a.Person", r#"{"any":[{"x":1}]}"#, false),
    ] {
        assert_eq!(has(ty, json, true), expected, "{ty} {json}");
        assert!(!has(ty, json, false), "{ty} {json}");
    }
}

/// What has no class where a `T` may be is of the type argument, which the provider knows.
#[test]
fn objects_where_a_type_variable_may_be() {
    let has = |unreadable, ty: &str, json: &str, knows_variables| {
        let estate = Estate::new();
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        let reasons = Reasons { unreadable, knows_variables, knows_elements: false };
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
        // It may be an enum.
        ("a.New", r#"{"name":"RED"}"#, true),
        ("a.New", r#"{"class":"a.New","value":"RED"}"#, true),
        ("a.New", r#"{"name":"RED","x":1}"#, false),
        ("a.New", r#"{"name":"Rex"}"#, false),
        ("a.New", r#"{"value":"RED"}"#, false),
        ("a.New", r#"{"class":"a.New","value":"2024-02-29"}"#, false),
        ("a.Color", r#"{"class":"a.Color","value":"RED"}"#, false),
        ("a.Person", r#"{"name":"RED"}"#, false),
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
        // Only the type argument tells what the items are.
        ("a.Page<a.Person>", r#"{"items":[{"name":"x"}]}"#, true),
        ("a.Page<a.Person>", r#"{"items":[{"class":"a.Person","name":"x"}]}"#, true),
        ("a.Page<a.Person>", r#"{"items":[null]}"#, false),
        ("a.Page<a.Person>", r#"{"shade":"RED"}"#, true),
        ("a.Page<a.Person>", r#"{"title":"RED"}"#, false),
        ("a.Page<a.Person>", r#"{"cover":{"x":1}}"#, false),
        ("a.Page", r#"{"items":[{"name":"x"}]}"#, false),
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
        ("java.lang.StringBuilder", "\"x\""),
        ("java.util.List<java.lang.StringBuffer>", "[\"x\"]"),
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
        ("a.Person", r#"{"maybe":5}"#),
        ("", r#"{"class":"java.util.Optional","value":5}"#),
        ("", r#"{"class":"java.util.OptionalInt","value":5,"isPresent":true}"#),
    ] {
        assert!(is_unknown(ty, json), "{ty} {json}");
        assert!(!has(Unreadable::Misread, ty, json), "{ty} {json}");
    }
    assert!(!is_unknown("java.util.Optional", "null"));
    assert!(!is_unknown("a.Person", r#"{"maybe":null}"#));
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

/// hessian-lite makes a `HashMap` of an `EnumMap`, and an optional number of no number.
#[test]
fn what_hessian_lite_never_makes() {
    for (ty, json, expected) in [
        ("java.util.EnumMap<a.Color,java.lang.Integer>", "{}", true),
        ("java.util.List<java.util.EnumMap>", r#"[null,{"RED":1}]"#, true),
        ("java.util.EnumMap", "null", false),
        ("java.util.OptionalInt", "7", true),
        ("java.util.List<java.util.OptionalDouble>", "[\"7.5\"]", true),
        ("java.util.OptionalLong", "null", false),
    ] {
        assert_eq!(is_unknown(ty, json), expected, "{ty} {json}");
        assert!(!has(Unreadable::Misread, ty, json), "{ty} {json}");
        assert!(!has(Unreadable::Elements, ty, json), "{ty} {json}");
    }
    // None reads an optional number of an object.
    for what in [Unreadable::Fields, Unreadable::Misread, Unreadable::Elements] {
        let json = r#"{"value":7,"isPresent":true}"#;
        assert!(has(what, "java.util.OptionalInt", json), "{what:?}");
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
