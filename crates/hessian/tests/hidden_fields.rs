//! Objects with two values of one name in the message: JSON has one member.

use std::fs;
use std::path::PathBuf;

use hessian::transcode::{JsonOptions, hessian_to_json};
use hessian::{Decoder, Encoder, Limits, Value, check};

fn load(version: &str, name: &str) -> Vec<u8> {
    let vectors = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors");
    fs::read(vectors.join(version).join(format!("{name}.bin"))).unwrap()
}

fn json(bytes: &[u8], opts: &JsonOptions) -> String {
    let (mut out, mut decoder) = (Vec::new(), Decoder::new(bytes, Limits::default()));
    hessian_to_json(&mut decoder, &mut out, opts).unwrap();
    assert!(decoder.is_at_end() && check::to_json(bytes));
    String::from_utf8(out).unwrap()
}

fn written(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes).value(value);
    bytes
}

#[test]
fn one_member_where_a_subclass_has_a_field_of_the_same_name() {
    // What Java's own reader sets the field to: the value that comes last.
    for version in ["lite3", "lite4"] {
        let written = json(&load(version, "shadowed-field"), &JsonOptions::default());
        assert_eq!(written.matches("\"name\":").count(), 1, "{version}: {written}");
        let value: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!(value, serde_json::json!({"name": "sub", "level": 3, "id": 7}), "{version}");
    }
}

#[test]
fn the_last_value_of_a_name_counts_in_either_order() {
    for fields in [["name", "id", "name"], ["id", "name", "name"]] {
        let object = Value::object(
            "com.acme.Ticket$Child",
            fields.iter().zip(0..).map(|(name, at)| (*name, Value::Int(at))).collect(),
        );
        let id = fields.iter().position(|name| *name == "id").unwrap();
        assert_eq!(
            json(&written(&object), &JsonOptions::default()),
            format!(r#"{{"id":{id},"name":2}}"#)
        );
    }
}

#[test]
fn the_message_of_an_exception_that_has_two() {
    for version in ["lite3", "lite4"] {
        for (name, message) in [
            ("shadowed-exception", "own"),
            ("shadowed-exception-null", "own"),
            ("shadowed-exception-own-null", "super"),
        ] {
            for options in ["", "refs=path"] {
                let options = JsonOptions::parse(options).unwrap();
                let written = json(&load(version, name), &options);
                assert_eq!(written.matches("\"message\":").count(), 1, "{version}: {written}");
                let value: serde_json::Value = serde_json::from_str(&written).unwrap();
                assert_eq!(value["message"], message, "{version}: {written}");
                assert_eq!((&value["code"], &value["cause"]), (&42.into(), &().into()));
            }
        }
    }
}

#[test]
fn an_exceptions_own_cause_takes_the_place_of_the_usual_one() {
    // The object is its own cause, as Java has it where there is none.
    for (fields, cause) in [
        (["cause", "detailMessage", "stackTrace", "cause"], "\"c\""),
        (["cause", "cause", "detailMessage", "stackTrace"], "\"c\""),
    ] {
        let (own, none) = (Value::string("c"), Value::Ref(0));
        let mut values = if fields[1] == "cause" {
            vec![own, none]
        } else {
            vec![none, Value::Null, Value::Null, own]
        };
        values.resize(4, Value::Null);
        let object = Value::object("com.acme.X", fields.into_iter().zip(values).collect());
        let text = json(&written(&object), &JsonOptions::default());
        assert!(text.contains(&format!("\"cause\":{cause}")), "{text}");
        assert_eq!(text.matches("cause").count(), 1, "{text}");
    }
}

#[test]
fn a_null_message_hides_none_in_either_order() {
    for (fields, values) in [
        (["message", "detailMessage", "stackTrace", "cause"], ["", "usual"]),
        (["detailMessage", "message", "stackTrace", "cause"], ["usual", ""]),
        (["detailMessage", "detailMessage", "stackTrace", "cause"], ["usual", ""]),
    ] {
        let of = |text: &str| if text.is_empty() { Value::Null } else { Value::string(text) };
        let values = [of(values[0]), of(values[1]), Value::Null, Value::Ref(0)];
        let object = Value::object("com.acme.X", fields.into_iter().zip(values).collect());
        assert_eq!(
            json(&written(&object), &JsonOptions::default()),
            r#"{"class":"com.acme.X","message":"usual","stackTrace":null,"cause":null}"#
        );
    }
}

#[test]
fn what_is_inside_a_hidden_value_can_be_named() {
    let inner = || Value::object("com.acme.Inner", vec![("x", Value::Int(7))]);
    for (class, fields, expected) in [
        ("com.acme.Sub", ["a", "b", "a", "c"], r#"{"b":1,"a":{"x":7},"c":{"x":7}}"#),
        ("com.acme.Sub", ["a", "a", "a", "c"], r#"{"a":{"x":7},"c":{"x":7}}"#),
    ] {
        // The second object of the message, which is hidden, and named by the last two values.
        let values = [inner(), Value::Int(1), Value::Ref(1), Value::Ref(1)];
        let object = Value::object(class, fields.into_iter().zip(values).collect());
        assert_eq!(json(&written(&object), &JsonOptions::default()), expected);
        let by_path = JsonOptions::parse("refs=path").unwrap();
        let expected = expected.replace(r#""c":{"x":7}"#, r#""c":{"$ref":"$.a"}"#);
        assert_eq!(json(&written(&object), &by_path), expected);
    }
}

#[test]
fn a_class_with_hidden_fields_has_no_comma_too_many() {
    let object = |n| {
        let fields = [("a", n), ("b", n + 1), ("a", n + 2)];
        let fields = fields.into_iter().map(|(name, value)| (name, Value::Int(value))).collect();
        Value::object("com.acme.Sub", fields)
    };
    let list = written(&Value::list(vec![object(1), object(5)]));
    assert_eq!(json(&list, &JsonOptions::default()), r#"[{"b":2,"a":3},{"b":6,"a":7}]"#);
    let with_class = JsonOptions::parse("class=yes").unwrap();
    assert_eq!(
        json(&list, &with_class),
        r#"[{"class":"com.acme.Sub","b":2,"a":3},{"class":"com.acme.Sub","b":6,"a":7}]"#
    );
}
