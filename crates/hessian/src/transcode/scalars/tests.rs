use super::*;
use java_json::json::items_read_by;

/// Of `a.Order` the fields are known, of `a.Page<a.Order>` too, and of `a.Color` the values.
struct Estate {
    fields: Vec<(&'static str, &'static str, JavaType)>,
    colors: Vec<Box<str>>,
}

impl Estate {
    fn new() -> Self {
        let field = |(class, name, ty)| (class, name, JavaType::parse(ty).unwrap());
        let fields = [
            ("a.Order", "id", "int"),
            ("a.Order", "lines", "java.util.Map<java.lang.Long,short[]>"),
            ("a.Order", "next", "a.Order"),
            ("a.Order", "any", "java.lang.Object"),
            ("a.Order", "color", "a.Color"),
            ("a.Order", "raw", "byte[]"),
            ("a.Page", "items", "java.util.List"),
            ("a.Page<a.Order>", "items", "java.util.List<a.Order>"),
        ];
        let colors = ["RED", "GREEN"].map(Box::from).into();
        Self { fields: fields.map(field).into(), colors }
    }
}

impl Schema for Estate {
    fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
        let is_it = |it: &&(&str, &str, JavaType)| it.0 == class && it.1 == field;
        self.fields.iter().find(is_it).map(|(_, _, ty)| ty)
    }

    fn knows_arguments(&self, class: &str) -> bool {
        class == "a.Page<a.Order>"
    }

    fn enum_names(&self, class: &str) -> Option<&[Box<str>]> {
        (class == "a.Color").then_some(&self.colors)
    }

    fn is_enum(&self, class: &str) -> Option<bool> {
        match class {
            "a.Color" => Some(true),
            "a.Order" | "a.Page" => Some(false),
            _ => None,
        }
    }
}

fn check_by(known: ScalarCheck<'_>, ty: &str, json: &str) -> Result<(), String> {
    let ty = (!ty.is_empty()).then(|| JavaType::parse(ty).unwrap());
    let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
    known.check(&mut reader, ty.as_ref()).map_err(|error| error.to_string())?;
    reader.finish().map_err(|error| error.to_string())
}

fn check(ty: &str, json: &str) -> Result<(), String> {
    let schema = &Estate::new();
    check_by(ScalarCheck { schema, refs: false, takes_ordinals: false }, ty, json)
}

#[track_caller]
fn assert_refused(cases: &[(&str, &str, &str)]) {
    for &(ty, json, wrong) in cases {
        let error = check(ty, json).expect_err(json);
        assert!(error.starts_with(wrong), "{ty} {json}: {error}");
    }
}

#[test]
fn a_scalar_is_what_its_type_has_wherever_it_stands() {
    assert_refused(&[
        ("int", "3000000000", "JSON at byte 0: 3000000000 is not an int"),
        ("boolean", "\"yes\"", "JSON at byte 0: \"yes\" is not a boolean"),
        (
            "java.util.List<java.util.BitSet>",
            "[null,{\"words\":[5]}]",
            "JSON at byte 6: {\"words\":[5]} is not a java.util.BitSet that a generic call",
        ),
        ("java.util.BitSet", "{\"words\":[5,\"x\"]}", "JSON at byte 12: \"x\" is not a long"),
        ("int", "null", "JSON at byte 0: null cannot become int"),
        ("int", "[1]", "JSON at byte 0: an array cannot become int"),
        ("java.lang.String", "{}", "JSON at byte 0: an object cannot become java.lang.String"),
        ("int[]", "[1,2.5]", "JSON at byte 3: 2.5 is not an int"),
        ("byte[]", "[300]", "JSON at byte 1: 300 is not a byte"),
        ("char[]", "[\"ab\"]", "JSON at byte 1: \"ab\" is not a char"),
        ("java.util.List<java.util.Date>", "[\"now\"]", "JSON at byte 1: \"now\" is not a date"),
        (
            "java.util.Map<java.lang.Byte,java.util.Optional<java.lang.Short>>",
            "{\"7\":[],\"8\":40000}",
            "JSON at byte 5: an array cannot become java.lang.Short",
        ),
        (
            "java.util.Map<java.lang.Byte,int[]>",
            "{\"300\":[]}",
            "JSON at byte 7: \"300\" is not a byte",
        ),
        ("a.Order", "{\"next\":{\"id\":1e10}}", "JSON at byte 14: 1e10 is not an int"),
        ("a.Order", "{\"lines\":{\"1\":[1,70000]}}", "JSON at byte 17: 70000 is not a short"),
        ("a.Other", "{\"id\":1.5,\"class\":\"a.Order\"}", "JSON at byte 6: 1.5 is not an int"),
        (
            "java.util.Map<java.lang.String,java.lang.Byte>",
            r#"{"class":"java.util.HashMap<java.lang.String, java.lang.Object>","value":{"a":300}}"#,
            "JSON at byte 78: 300 is not a byte",
        ),
        (
            "java.util.List<java.lang.Integer>",
            "{\"class\":\"java.util.LinkedList\",\"value\":[1,\"x\"]}",
            "JSON at byte 43: \"x\" is not an int",
        ),
    ]);
}

/// Java makes an object of the class of any map that names it.
#[test]
fn an_object_of_a_known_class_has_its_fields_where_nothing_is_declared() {
    let order = r#"{"class":"a.Order","id":1.5}"#;
    for (ty, before, after) in [
        ("", "", ""),
        ("", "[[", "]]"),
        ("", r#"{"x":"#, "}"),
        ("java.lang.Object", "", ""),
        ("java.util.List", "[", "]"),
        ("java.util.List<java.lang.Object>", "[", "]"),
        ("java.util.Map<java.lang.String,java.lang.Object>", r#"{"x":"#, "}"),
        ("a.Order", r#"{"any":"#, "}"),
        ("a.Order", r#"{"unknown":"#, "}"),
        ("a.Unknown", r#"{"x":"#, "}"),
        ("a.Page", r#"{"items":["#, "]}"),
        ("", r#"{"class":"a.Page","items":["#, "]}"),
        ("", r#"{"class":"a.Unknown","x":"#, "}"),
        // Another shape than that of the type, which may be out of date.
        ("java.util.List<a.Order>", "", ""),
        ("a.Order", "[", "]"),
    ] {
        let error = check(ty, &format!("{before}{order}{after}")).unwrap_err();
        assert!(error.contains("1.5 is not an int"), "{ty} {before}: {error}");
    }
    for json in [
        r#"{"class":"java.util.ArrayList<a.Order>","value":[{"id":1.5}]}"#,
        r#"{"class":"java.util.HashMap<java.lang.Integer,a.Order>","value":{"1":{"id":1.5}}}"#,
        r#"{"class":"java.util.HashMap<java.lang.Integer,a.Order>","1":{"id":1.5}}"#,
        r#"{"class":"a.Order[]","value":[{"id":1.5}]}"#,
        r#"{"class":"a.Page<a.Order>","items":[{"id":1.5}]}"#,
        r#"{"cl\u0061ss":"a.Order","id":1.5}"#,
    ] {
        let error = check("java.lang.Object", json).unwrap_err();
        assert!(error.contains("1.5 is not an int"), "{json}: {error}");
    }
}

#[test]
fn a_constant_is_one_of_its_enum() {
    let is_none = "is not a value of a.Color (RED, GREEN)";
    for (ty, json) in [
        ("a.Color", "\"PURPLE\""),
        ("a.Color", "5"),
        ("a.Color", "true"),
        ("a.Color", r#"{"name":"PURPLE"}"#),
        ("", r#"{"class":"a.Color","name":"PURPLE"}"#),
        ("", r#"{"class":"a.Color","value":"PURPLE"}"#),
        ("", r#"{"class":"a.Color","x":1}"#),
        ("java.util.List<a.Color>", "[5]"),
        ("java.util.Set<a.Color>", "[\"red\"]"),
        ("a.Color[]", "[null,true]"),
        ("java.util.Map<a.Color,a.Order>", r#"{"PURPLE":null}"#),
        ("a.Order", r#"{"color":"PURPLE"}"#),
    ] {
        let error = check(ty, json).unwrap_err();
        assert!(error.contains(is_none), "{ty} {json}: {error}");
    }
    for (ty, json) in [
        ("a.Color", "\"RED\""),
        ("a.Color", "null"),
        ("a.Color", r#"{"name":"RED"}"#),
        ("", r#"{"class":"a.Color","value":"GREEN"}"#),
        ("java.util.Map<a.Color,a.Order>", r#"{"RED":{}}"#),
        ("a.Other", "\"PURPLE\""),
        ("java.util.List<a.Other>", "[\"PURPLE\",[],{}]"),
    ] {
        assert_eq!(check(ty, json), Ok(()), "{ty} {json}");
    }
    let schema = &Estate::new();
    let by_number = ScalarCheck { schema, refs: false, takes_ordinals: true };
    assert_eq!(check_by(by_number, "java.util.List<a.Color>", "[0,1]"), Ok(()));
    for json in ["[2]", "[-1]", "[0.5]"] {
        let error = check_by(by_number, "java.util.List<a.Color>", json).unwrap_err();
        assert!(error.contains(is_none), "{json}: {error}");
    }
}

/// Java leaves what it is in a list.
#[test]
fn what_is_inside_of_an_argument_is_of_the_kind_of_its_type() {
    assert_refused(&[
        ("java.util.Map<a.Color,a.Order>", "{\"RED\":5}", "JSON at byte 7: a number cannot become"),
        ("java.util.List<java.util.List<java.lang.Short>>", "[1]", "JSON at byte 1: a number"),
        ("java.util.List<java.util.Map>", "[[1]]", "JSON at byte 1: an array cannot become"),
        ("java.util.List<int[]>", "[{}]", "JSON at byte 1: an object cannot become int[]"),
        ("java.util.List<a.Order>", "[[]]", "JSON at byte 1: an array cannot become a.Order"),
        ("java.util.List<a.Other>", "[5]", "JSON at byte 1: a number cannot become a.Other"),
        ("a.Order", "{\"lines\":7}", "JSON at byte 9: a number cannot become java.util.Map"),
        ("a.Order", "{\"raw\":\"no base64\"}", "JSON at byte 7: \"no base64\" is not base64"),
        (
            "java.util.List<java.util.List>",
            "[{\"class\":\"java.util.HashMap\"}]",
            "JSON at byte 1: an object cannot become java.util.List",
        ),
        (
            "java.util.List<a.Order>",
            "[{\"class\":\"java.util.Date\",\"value\":5}]",
            "JSON at byte 1: an object cannot become a.Order",
        ),
        ("java.util.List<a.Color>", "[{\"x\":1}]", "JSON at byte 1: an object cannot become a.Col"),
    ]);
}

#[test]
fn an_argument_of_another_kind_than_its_class_or_collection_is_passed_over() {
    for (ty, json) in [
        ("int", "7"),
        ("java.lang.Integer", "null"),
        ("java.util.List<java.lang.String>", "\"x\""),
        ("java.util.List<java.lang.String>", "{\"a\":1}"),
        ("java.util.List", "[1,{}]"),
        ("java.util.List<a.Order>", "{\"class\":\"a.Orders\",\"n\":1}"),
        ("java.util.Map<java.lang.String,java.lang.Integer>", "[1.5]"),
        ("int[]", "7"),
        ("byte[]", "\"no base64\""),
        ("a.Color", "[5]"),
        ("a.Color", "{\"x\":5}"),
        ("a.Color", "{\"class\":\"a.Order\",\"id\":5}"),
        ("a.Order", "7"),
        ("a.Order", "{\"class\":\"java.util.Date\",\"value\":7}"),
        ("a.Order", "{\"more\":1.5,\"lines\":null,\"next\":{\"next\":null}}"),
        ("a.Order", "{\"class\":\"a.Order\",\"id\":7}"),
        ("java.util.Date", "{\"class\":\"java.sql.Timestamp\",\"value\":7}"),
        ("java.util.Optional<java.lang.Byte>", "null"),
        ("java.util.BitSet", "{\"class\":\"java.util.BitSet\",\"words\":[5]}"),
        ("java.lang.Object", "99999999999999999999"),
        ("", "[{\"class\":\"a.Unknown\",\"id\":1.5},{\"id\":1.5}]"),
    ] {
        assert_eq!(check(ty, json), Ok(()), "{ty} {json}");
    }
    assert!(check("a.Order", "{\"id\"").is_err() && check("int[]", &"[".repeat(99)).is_err());
}

#[test]
fn the_meaning_of_type_arguments_is_known() {
    for ty in ["", "java.lang.Object"] {
        for class in ["a.Page<a.Color>", "java.util.ArrayList<a.Page<a.Color>>", "a.Other<a.Order>"]
        {
            let error = check(ty, &format!(r#"{{"class":"{class}"}}"#)).unwrap_err();
            assert!(error.contains("what its type arguments mean"), "{error}");
        }
    }
}

#[test]
fn a_reference_is_a_value_of_any_kind() {
    let (schema, json) = (&Estate::new(), r#"{"next":{},"lines":{"$ref":"$.next"}}"#);
    let known = |refs| ScalarCheck { schema, refs, takes_ordinals: false };
    assert_eq!(check_by(known(true), "a.Order", json), Ok(()));
    let list = "java.util.List<java.util.List<a.Order>>";
    assert_eq!(check_by(known(true), list, r#"[[],{"$ref":"$[0]"}]"#), Ok(()));
    assert!(check_by(known(false), list, r#"[[],{"$ref":"$[0]"}]"#).is_err());
}

/// A class that is known to have fields.
#[test]
fn a_text_is_no_object() {
    let error = check("java.util.List<a.Order>", r#"[{},"x"]"#).unwrap_err();
    assert!(error.contains("\"x\" is not an object of a.Order, which is no enum"), "{error}");
    assert_eq!(check("java.util.List<a.Order>", "[{},null]"), Ok(()));
}

#[test]
fn nothing_is_looked_through_at_every_level() {
    let nest = |inner: String, _| format!(r#"{{"class":"a.Order","next":{inner},"id":0}}"#);
    let text = (0..60).fold("null".to_owned(), nest);
    let n_read = items_read_by(|| assert_eq!(check("a.Order", &text), Ok(())));
    // When it is passed, looked through and checked.
    assert!(n_read <= 3 * 3 * 60, "{n_read}");
}
