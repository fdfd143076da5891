//! What fastjson writes, as JSON; and the framings, there and back.

use proptest::prelude::*;

use super::*;

fn json(text: &str, class_names: bool) -> Result<String, ProtoError> {
    let mut out = Vec::new();
    to_json(text.as_bytes(), class_names, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn the_dialect_becomes_json() {
    for (text, expected) in [
        ("-8B", "-8"),
        ("[-1600S,-5L,1.5F,2.0E-3D,7]", "[-1600,-5,1.5,2.0E-3,7]"),
        // A BigDecimal without fraction.
        ("[0.,-12.,{\"k\":3.}]", "[0,-12,{\"k\":3}]"),
        ("x'0001FF7F'", "\"AAH/fw==\""),
        ("{\"a\":x''}", "{\"a\":\"\"}"),
        ("new Date(-16)", "-16"),
        ("[Set[\"one\"],TreeSet[1,2L]]", "[[\"one\"],[1,2]]"),
        ("{1:true,-2L:\"x\\\"1L\",\"k\":1}", "{\"1\":true,\"-2\":\"x\\\"1L\",\"k\":1}"),
        ("{true:1,null:[null,false],1.5:2}", "{\"true\":1,\"null\":[null,false],\"1.5\":2}"),
        ("[{\"$ref\":\"$[0]\"},null,false]", "[{\"$ref\":\"$[0]\"},null,false]"),
        ("\"{\\\"@type\\\":\\\"a\\\"}\"", "\"{\\\"@type\\\":\\\"a\\\"}\""),
    ] {
        assert_eq!(json(text, true).as_deref(), Ok(expected));
        assert_eq!(json(text, false).as_deref(), Ok(expected));
    }
}

#[test]
fn classes_are_named_on_request() {
    let text = r#"{"@type":"a.B","l":[{"@type":"a.C"},{"x":1,"@type":"kept"},{"@type":7}]}"#;
    let named = r#"{"class":"a.B","l":[{"class":"a.C"},{"x":1,"@type":"kept"},{"@type":7}]}"#;
    let plain = r#"{"l":[{},{"x":1,"@type":"kept"},{"@type":7}]}"#;
    assert_eq!(json(text, true).as_deref(), Ok(named));
    assert_eq!(json(text, false).as_deref(), Ok(plain));
}

#[test]
fn what_is_neither_is_refused() {
    for (text, at) in [
        ("[1,undefined]", 3),
        ("x'0'", 0),
        ("x'0G'", 0),
        ("x'00", 0),
        ("xy", 0),
        ("\"open", 0),
        ("\"open\\", 0),
        ("new Date()", 0),
        ("new Foo(1)", 0),
        ("Set(1)", 0),
        ("[\u{1}]", 1),
        ("'a'", 0),
    ] {
        match json(text, true) {
            Err(ProtoError::Json { offset, .. }) => assert_eq!(offset, at, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn json_stays_what_it_is(numbers in proptest::collection::vec(any::<f64>(), 0..5), text: String) {
        let value = serde_json::json!({ "n": numbers, "text": text, "list": [true, null, {"": []}] });
        prop_assert_eq!(json(&value.to_string(), true), Ok(value.to_string()));
    }

    #[test]
    fn any_text_is_translated_or_refused(text in "[-0-9{}\\[\\]:,\"\\\\x'A-FLST @new Date()]{0,40}") {
        let _ = json(&text, true);
    }
}
