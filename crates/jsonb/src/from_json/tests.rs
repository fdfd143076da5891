//! Tests of JSON to JSONB by type. examples/jsonb_java_check.rs lets Java read what comes out
//! here.

use super::*;
use crate::{Decoder, check, jsonb_to_json};
use java_json::json::items_read_by;
use java_json::{JsonOptions, Limits};

fn bytes(ty: &str, json: &str) -> Result<Vec<u8>, JsonbError> {
    let ty = JavaType::parse(ty).ok().filter(|_| !ty.is_empty());
    let mut out = Vec::new();
    let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
    json_to_jsonb(&mut reader, ty.as_ref(), &mut Encoder::new(&mut out))?;
    reader.finish()?;
    Ok(out)
}

#[test]
fn scalars_by_their_type() {
    for (ty, json, expected) in [
        ("boolean", "true", &b"\xb1"[..]),
        ("byte", "-128", b"\xbd\x80"),
        ("short", "3e2", b"\xbc\x01\x2c"),
        ("int", "\"7\"", b"\x07"),
        ("int", "-17", b"\x37\xef"),
        ("long", "7", b"\xe7"),
        ("java.lang.Long", "2147483648", b"\xbe\0\0\0\0\x80\0\0\0"),
        ("float", "99.8", b"\xb7\x42\xc7\x99\x9a"),
        ("double", "12.5", b"\xb5\x40\x29\0\0\0\0\0\0"),
        ("char", "\"x\"", b"\x90\x38\x78"),
        ("java.lang.String", "1.50", b"\x4d1.50"),
        ("java.lang.String", "\"\u{e9}\"", b"\x4a\xe9"),
        ("java.lang.String", "\"中\"", b"\x7a\x03\xe4\xb8\xad"),
        ("java.util.Date", "\"1970-01-01T00:00:01Z\"", b"\xac\0\0\0\x01"),
        ("java.util.Date", "1", b"\xab\0\0\0\0\0\0\0\x01"),
        ("java.math.BigDecimal", "1e3", b"\xb9\xfd\x01"),
        ("java.math.BigDecimal", "\"5\"", b"\xb8\xe5"),
        ("byte[]", "\"AQI\"", b"\x91\x02\x01\x02"),
        ("byte[]", "[1,-1]", b"\x91\x02\x01\xff"),
        ("char[]", "[\"a\",\"b\"]", b"\x4bab"),
        ("java.util.BitSet", r#"{"words":[5]}"#, b"\x91\x01\x05"),
        (
            "java.util.BitSet",
            r#"{"words":[-1,256,0]}"#,
            b"\x91\x0a\xff\xff\xff\xff\xff\xff\xff\xff\0\x01",
        ),
        ("java.util.BitSet", r#"{"words":[]}"#, b"\x91\0"),
        ("java.lang.Class", "\"int[]\"", b"\x4b[I"),
        ("com.acme.Color", "\"RED\"", b"\x4cRED"),
        ("java.util.List", "null", b"\xaf"),
        ("", "1", b"\x01"),
        ("", "2147483648", b"\xbe\0\0\0\0\x80\0\0\0"),
    ] {
        assert_eq!(bytes(ty, json).as_deref(), Ok(expected), "{ty} {json}");
    }
}

#[test]
fn classes_are_named_where_nothing_is_declared() {
    let class = |name: &str, number: u8| {
        let mut out = vec![0x92];
        Encoder::new(&mut out).string(name);
        out.push(number);
        out
    };
    let (color, order) = (class("a.Color", 0), class("a.Order", 0));
    let red = &b"\x4cRED"[..];
    assert_eq!(bytes("a.Color[]", "[\"RED\"]").unwrap(), [b"\x95", red].concat());
    let list = [b"\x96", &*color, red, b"\x92\x00", red].concat();
    assert_eq!(bytes("java.util.List<a.Color>", "[\"RED\",\"RED\"]").unwrap(), list);
    let object = &b"\xa6\x4aa\x01\xa5"[..];
    assert_eq!(bytes("a.Order", r#"{"a":1}"#).unwrap(), object);
    assert_eq!(bytes("a.Order", r#"{"a":1,"class":"a.Order"}"#).unwrap(), object);
    let named = [&*order, object].concat();
    assert_eq!(bytes("a.Base", r#"{"class":"a.Order","a":1}"#).unwrap(), named);
    assert_eq!(bytes("java.lang.Object", r#"{"a":1,"class":"a.Order"}"#).unwrap(), named);
    assert_eq!(bytes("java.util.Map<java.lang.String,a.Order>", r#"{"k":{"a":1}}"#).unwrap(), {
        [b"\xa6\x4ak", &*named, b"\xa5"].concat()
    });
    assert_eq!(bytes("", r#"{"class":"java.util.Date","value":0}"#).unwrap(), b"\xac\0\0\0\0");
    assert_eq!(bytes("", r#"{"class":"java.util.HashMap","a":1}"#).unwrap(), object);
    let bytes_of = |json| bytes("java.lang.Object", json).unwrap();
    assert_eq!(bytes_of(r#"{"class":"[B","value":"AQ=="}"#), b"\x92\x4b[B\0\x91\x01\x01");
    let bits = bytes_of(r#"{"class":"java.util.BitSet","words":[5]}"#);
    assert_eq!(bits, [&*class("java.util.BitSet", 0), b"\x91\x01\x05"].concat());
    // A member of that name that is no string is a member like any other.
    assert_eq!(bytes_of(r#"{"class":7}"#), b"\xa6\x4eclass\x07\xa5");
    assert!(bytes("java.lang.Object", r#"{"class":""}"#).is_err());
}

#[test]
fn objects_that_name_a_class_are_of_it() {
    let same = |ty: &str, json: &str, other_ty: &str, other: &str| {
        assert_eq!(bytes(ty, json).unwrap(), bytes(other_ty, other).unwrap(), "{ty} {json}");
    };
    // Primitive types and both spellings of arrays, generic arguments, and where a class is
    // declared that no object is.
    same("", r#"{"class":"long","value":7}"#, "long", "7");
    same("", r#"{"class":"byte[]","value":"AQ=="}"#, "", r#"{"class":"[B","value":"AQ=="}"#);
    let dates = r#"{"class":"java.util.List<java.util.Date>","value":[0]}"#;
    same("", dates, "java.util.List<java.util.Date>", "[0]");
    let stamp = r#"{"class":"java.sql.Timestamp","value":0}"#;
    same("java.util.Date", stamp, "", stamp);
    // A reader that knows the class does not want to hear it.
    let uuid = "\"00000000-0000-0001-0000-000000000002\"";
    for (class, value) in [
        ("java.util.UUID", uuid),
        ("java.time.Duration", "\"PT5S\""),
        ("java.sql.Timestamp", "1000"),
        ("java.util.Calendar", "1000"),
    ] {
        let long_form = format!(r#"{{"class":"{class}","value":{value}}}"#);
        same(class, &long_form, class, value);
        assert!(bytes("java.util.Optional", &long_form).unwrap().starts_with(b"\x92"), "{class}");
    }
    let map = r#"{"class":"java.util.TreeMap<java.lang.Integer,java.lang.Long>","value":{}}"#;
    assert!(bytes("java.util.Map", map).unwrap().starts_with(b"\x92"));
    same("java.util.List", dates, "java.util.List<java.util.Date>", "[0]");
    // A map says of which types its keys and values are, around its entries or beside them.
    let map = "java.util.TreeMap<java.lang.Integer, java.lang.Long>";
    let beside = bytes("", &format!(r#"{{"class":"{map}","7":1}}"#)).unwrap();
    let around = bytes("", &format!(r#"{{"class":"{map}","value":{{"7":1}}}}"#)).unwrap();
    assert!(beside == around && beside.ends_with(b"\xa6\x07\xe1\xa5"), "{beside:x?}");
    assert!(bytes("", r#"{"class":"java.util.HashMap<Integer,Object>"}"#).is_err());
    assert!(bytes("", r#"{"class":"a b<c"}"#).is_err());
    let error = bytes("java.util.Date", r#"{"value":0}"#).unwrap_err();
    assert_eq!(error.to_string(), "JSON at byte 0: an object cannot become java.util.Date");
}

#[test]
fn atomic_numbers_are_what_they_hold() {
    let of = |class: &str, json: &str| bytes(&format!("java.util.concurrent.atomic.{class}"), json);
    assert_eq!(of("AtomicInteger", "7").unwrap(), b"\x07");
    assert_eq!(of("AtomicLong", "7").unwrap(), bytes("long", "7").unwrap());
    assert_eq!(of("AtomicBoolean", "true").unwrap(), b"\xb1");
    assert!(of("AtomicBoolean", "1").is_err() && of("AtomicInteger", "2147483648").is_err());
}

/// What `class=yes` writes is the same value when it is sent in again.
#[test]
fn maps_with_their_classes_can_be_sent_in_again() {
    let map = |class: &str, key: &str, entries: &str| {
        format!(r#"{{"class":"{class}<{key}, java.lang.Object>","value":{{{entries}}}}}"#)
    };
    let (hash, tree) = ("java.util.HashMap", "java.util.TreeMap");
    for json in [
        map(hash, "java.lang.Integer", r#""1":"x","200":null"#),
        map(tree, "java.lang.Long", r#""1":"x""#),
        map(hash, "java.lang.Short", r#""1":"x""#),
        map(
            tree,
            "java.lang.Boolean",
            &format!(r#""true":{}"#, map(hash, "java.lang.Byte", r#""7":1"#)),
        ),
        map(hash, "a.Color", r#""RED":1"#),
        map(hash, "java.time.LocalDate", r#""2024-02-29":1"#),
        map(hash, "java.lang.String", r#""class":"x","b":1"#),
        map(tree, "java.lang.String", r#""class":"x""#),
        r#"{"class":"java.util.TreeMap","value":"x"}"#.to_owned(),
        r#"{"class":"java.math.BigDecimal","value":19.90}"#.to_owned(),
        r#"{"class":"java.math.BigDecimal","value":7}"#.to_owned(),
        r#"{"class":"java.math.BigInteger","value":18446744073709551617}"#.to_owned(),
        r#"{"class":"a.B","price":{"class":"java.math.BigDecimal","value":1.0}}"#.to_owned(),
        r#"[{"class":"java.math.BigDecimal","value":1.50},1.5,9007199254740993]"#.to_owned(),
        map(hash, "java.math.BigDecimal", r#""1.50":1"#),
        r#"{"value":{"class":7}}"#.to_owned(),
    ] {
        let bytes = bytes("java.lang.Object", &json).unwrap();
        let opts = JsonOptions::parse("class=yes").unwrap();
        let mut out = Vec::new();
        jsonb_to_json(&mut Decoder::new(&bytes, Limits::default()), &mut out, &opts).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), json);
    }
}

#[test]
fn keys_take_the_types_of_the_map() {
    let of = |ty: &str, json: &str| bytes(&format!("java.util.Map<{ty},a.B>"), json);
    assert_eq!(of("java.lang.Integer", r#"{"1":null}"#).unwrap(), b"\xa6\x01\xaf\xa5");
    assert_eq!(of("a.C", r#"{"RED":null}"#).unwrap(), b"\xa6\x92\x4ca.C\0\x4cRED\xaf\xa5");
    assert!(matches!(
        of("java.lang.Integer", r#"{"x":null}"#),
        Err(JsonbError::Value { offset: 5, .. })
    ));
}

#[test]
fn numbers_keep_their_value() {
    for text in [
        "9223372036854775808",
        "-9223372036854775809",
        "0.1234567890123456789",
        "1E+400",
        "0.0000001234567890123456789",
        "1234567890123456789012345678901234567890",
        "-0.0",
        "1e+300",
    ] {
        let mut out = Vec::new();
        let bytes = bytes("java.lang.Object", text).unwrap();
        let mut decoder = Decoder::new(&bytes, Limits::default());
        jsonb_to_json(&mut decoder, &mut out, &JsonOptions::default()).unwrap();
        let again = String::from_utf8(out).unwrap();
        // Java writes the last but two with an exponent.
        let is_same = again == text || again == "1.234567890123456789E-7";
        assert!(is_same, "{text} {again}");
    }
}

/// Java makes of a double a decimal without its zeros, and of a large number one of 64 bits.
#[test]
fn numbers_in_a_generic_call_are_none_that_java_changes() {
    let write = |json: &str, generic: bool| {
        let mut out = Vec::new();
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        let options = InputOptions { as_maps: generic, ..InputOptions::default() };
        json_to_jsonb_by(
            &mut reader,
            None,
            &mut Encoder::new(&mut out),
            &options,
            ValueContext::ROOT,
        )?;
        Ok::<_, JsonbError>(out)
    };
    let decimal = bytes("java.math.BigDecimal", "19.90").unwrap();
    assert_eq!(write("19.90", true), Ok(decimal));
    assert_eq!(write("[19.9,7]", true), write("[19.9,7]", false));
    assert!(write("18446744073709551617", false).is_ok());
    let error = write("[1,18446744073709551617]", true).unwrap_err();
    assert_eq!(error.offset(), 3, "{error}");
}

#[test]
fn an_enum_has_the_values_of_a_schema() {
    struct Colors([Box<str>; 1]);
    impl Schema for Colors {
        fn field_type(&self, _class: &str, _field: &str) -> Option<&JavaType> {
            None
        }

        fn is_enum(&self, class: &str) -> Option<bool> {
            Some(class == "a.Color")
        }

        fn enum_names(&self, class: &str) -> Option<&[Box<str>]> {
            (class == "a.Color").then_some(&self.0)
        }
    }
    let schema = Colors(["RED".into()]);
    for ty in ["a.Color", "java.util.List<a.Color>", "java.util.Map<a.Color,a.B>"] {
        for (name, is_good) in [("RED", true), ("PURPLE", false)] {
            let jsons = match ty {
                "a.Color" => [format!("\"{name}\""), format!("{{\"name\":\"{name}\"}}")],
                _ if ty.contains("List") => [format!("[\"{name}\"]"), format!("[null,\"{name}\"]")],
                _ => [format!("{{\"{name}\":null}}"), format!("{{\"{name}\":{{}}}}")],
            };
            for json in jsons {
                let (mut out, parsed) = (Vec::new(), JavaType::parse(ty).unwrap());
                let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
                let mut encoder = Encoder::new(&mut out);
                let written = json_to_jsonb_with(&mut reader, Some(&parsed), &mut encoder, &schema);
                assert_eq!(written.is_ok(), is_good, "{ty} {json}");
            }
        }
    }
    let write = |ty: &str, json: &str| {
        let (mut out, ty) = (Vec::new(), JavaType::parse(ty).unwrap());
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        json_to_jsonb_with(&mut reader, Some(&ty), &mut Encoder::new(&mut out), &schema)
            .map_err(|error| error.to_string())?;
        Ok::<_, String>(out)
    };
    // fastjson2 answers with numbers, and reads them where the class is declared.
    for json in ["0", "0.0", r#"{"class":"a.Color","value":"RED"}"#] {
        let is_number = !json.starts_with('{');
        let declared = if is_number { Ok(vec![0]) } else { write("a.Color", "\"RED\"") };
        assert_eq!(write("a.Color", json), declared, "{json}");
        let json = format!("[{json}]");
        let list = "java.util.List<a.Color>";
        assert_eq!(write(list, &json), write(list, "[\"RED\"]"), "{json}");
    }
    for json in ["1", "-1", "0.5", "{}", r#"{"x":1}"#, r#"{"class":"a.B","name":"RED"}"#] {
        let error = write("a.Color", json).unwrap_err();
        assert!(error.ends_with(" is not a value of a.Color (RED)"), "{json}: {error}");
    }
    assert!(write("a.B", "0").is_err());
    // What is known to be no enum has no text.
    for (ty, json) in [("a.B", "\"RED\""), ("java.util.Map<a.B,int>", "{\"RED\":1}")] {
        let (mut out, parsed) = (Vec::new(), JavaType::parse(ty).unwrap());
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        let mut encoder = Encoder::new(&mut out);
        let error = json_to_jsonb_with(&mut reader, Some(&parsed), &mut encoder, &schema);
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with("is not an object of a.B, which is no enum"), "{error}");
    }
}

/// fastjson2 reads the number itself where an optional one is declared, and Dubbo a map.
#[test]
fn a_number_is_an_optional_number() {
    let write = |ty: &str, json: &str, as_maps| {
        let (mut out, ty) = (Vec::new(), JavaType::parse(ty).unwrap());
        let options = InputOptions { as_maps, ..InputOptions::default() };
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        let mut encoder = Encoder::new(&mut out);
        let context = ValueContext { path: "$", is_declared: true };
        json_to_jsonb_by(&mut reader, Some(&ty), &mut encoder, &options, context).map(|()| out)
    };
    for (ty, json, number) in [
        ("java.util.OptionalInt", "7", "int"),
        ("java.util.OptionalLong", "\"7\"", "long"),
        ("java.util.OptionalDouble", "7", "double"),
    ] {
        assert_eq!(write(ty, json, false), write(number, json, false), "{ty}");
        let map = write(ty, json, true).unwrap();
        let has = |text: &[u8]| memchr::memmem::find(&map, text).is_some();
        assert!(has(b"isPresent") && has(b"value") && !has(b"Optional"), "{ty}");
    }
    assert!(write("java.util.OptionalInt", "7.5", false).is_err());
    assert!(write("java.util.OptionalInt", "3000000000", true).is_err());
}

#[test]
fn what_does_not_fit_is_an_error_with_its_place() {
    for (ty, json, offset) in [
        ("int", "null", 0),
        ("int", "2147483648", 0),
        ("byte", "128", 0),
        ("int", " {}", 1),
        ("int", "true", 0),
        ("float", "1e39", 0),
        ("float", "\"1e39\"", 0),
        ("int", "0.99999999999999999999", 0),
        ("java.time.YearMonth", "\"2024-05-07\"", 0),
        ("java.lang.Integer", r#"{"class":"java.lang.Long","value":3000000000}"#, 0),
        ("java.util.List<byte>", r#"{"class":"java.util.ArrayList","value":[300]}"#, 40),
        ("char", "\"😀\"", 0),
        ("boolean", "1", 0),
        ("java.util.Locale", "\"\"", 0),
        ("java.util.Locale", "\"zh-Hans-CN\"", 0),
        ("java.lang.Class", "\"\"", 0),
        ("java.util.Currency", "\"ZZZ\"", 0),
        ("java.math.BigDecimal", "1E+3000000000", 0),
        ("java.math.BigDecimal", "0.1E+2147483648", 0),
        ("java.lang.Object", "[1E+3000000000]", 1),
        ("java.util.BitSet", "{\"words\":[5,1.5]}", 12),
        ("java.util.BitSet", "{}", 0),
        ("java.util.BitSet", "\"BQ==\"", 0),
        ("java.lang.String", "[]", 0),
        ("java.util.List", "{}", 0),
        ("java.util.Map", "[]", 0),
        ("a.B", "1", 0),
        ("int[]", "[1, x]", 4),
        ("byte[]", "\"***\"", 0),
        ("java.util.Date", "\"yesterday\"", 0),
        ("java.math.BigInteger", "1.5", 0),
        ("java.math.BigDecimal", "1e99999999999", 0),
        ("java.time.LocalDate", "\"2024-02-30\"", 0),
        ("java.time.Duration", "\"soon\"", 0),
        ("java.time.YearMonth", "\"2024-13\"", 0),
        ("java.util.UUID", "\"123e4567-e89b-12d3-a456-42661417400g\"", 0),
        ("java.util.Currency", "\"euro\"", 0),
        ("void", "1", 0),
    ] {
        let error = bytes(ty, json).unwrap_err();
        assert_eq!(error.offset(), offset, "{ty} {json}: {error}");
    }
}

#[test]
fn checks_hold_on_texts_with_types() {
    for text in
        ["int[]\n[1]", "a.B\n{\"x\":[{}]}", "[B\n\"AA==\"", "{\"class\":\"a\"}", "[[[\n1", "\n"]
    {
        check::from_json(text.as_bytes());
    }
    assert!(check::from_json(b"java.time.Duration\n\"PT1H-2M3.5S\""));
    assert!(check::from_json(b"java.time.ZonedDateTime\n\"2024-02-29T13:05Z[UTC]\""));
    for (ty, json) in [
        ("java.time.ZonedDateTime", "\"2024-02-29T13:05+08:00[Mars/Olympus]\""),
        ("java.time.ZonedDateTime", "\"2024-02-29T13:05+08:00[UTC]\""),
        ("java.time.ZoneId", "\"utc\""),
    ] {
        let error = bytes(ty, json).unwrap_err().to_string();
        assert!(error.contains("that Java knows"), "{json}: {error}");
    }
}

fn by(json: &str, refs: bool, root: &str) -> Result<Vec<u8>, JsonbError> {
    let mut out = Vec::new();
    let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
    let options = InputOptions { refs, ..InputOptions::default() };
    json_to_jsonb_by(
        &mut reader,
        None,
        &mut Encoder::new(&mut out),
        &options,
        ValueContext { path: root, is_declared: true },
    )?;
    reader.finish()?;
    Ok(out)
}

#[test]
fn references_name_what_began_before() {
    let path = |text: &str| {
        let mut out = vec![0x93];
        Encoder::new(&mut out).string(text);
        out
    };
    let list = |root: &str, steps: &str| {
        [&b"\x96\xa6\x4aa\x01\xa5"[..], &path(&format!("{root}{steps}"))].concat()
    };
    let json = r#"[{"a":1},{"$ref":"$[0]"}]"#;
    assert_eq!(by(json, true, "$").unwrap()[1..], list("$", "[0]")[1..]);
    assert!(by(json, true, "$[2]").unwrap().ends_with(&path("$[2][0]")));
    // A cycle, a key that needs quotes, an object in a bean.
    assert!(
        by(r#"{"me":{"$ref":"$"}}"#, true, "$")
            .unwrap()
            .ends_with(&[&path("$")[..], b"\xa5"].concat())
    );
    let quoted = r#"{"a b":[[]],"x":{"$ref":"$[\"a b\"][0]"}}"#;
    assert!(by(quoted, true, "$").is_ok());
    for wrong in [
        r#"[{"$ref":"$[0]"}]"#,
        r#"[[],{"$ref":"$[2]"}]"#,
        r#"[[],{"$ref":"$[0]","a":1}]"#,
        r#"[[],{"$ref":"[0]"}]"#,
        r#"["a",{"$ref":"$[0]"}]"#,
    ] {
        assert!(matches!(by(wrong, true, "$"), Err(JsonbError::Value { .. })), "{wrong}");
    }
    // Nobody has asked for them: an object like any other.
    assert!(by(r#"[{"$ref":"$[7]"}]"#, false, "$").is_ok());
}

#[test]
fn the_long_form_of_an_enum_is_one() {
    struct Known;
    impl Schema for Known {
        fn field_type(&self, _: &str, _: &str) -> Option<&JavaType> {
            None
        }
        fn is_enum(&self, class: &str) -> Option<bool> {
            match class {
                "a.Color" => Some(true),
                "a.Pet" => Some(false),
                _ => None,
            }
        }
    }
    let write = |ty: Option<&str>, json: &str| {
        let ty = ty.map(|ty| JavaType::parse(ty).unwrap());
        let mut out = Vec::new();
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        json_to_jsonb_with(&mut reader, ty.as_ref(), &mut Encoder::new(&mut out), &Known).unwrap();
        let mut json = Vec::new();
        let options = JsonOptions { class_name: true, ..JsonOptions::default() };
        jsonb_to_json(&mut Decoder::new(&out, Limits::default()), &mut json, &options).unwrap();
        (out, String::from_utf8(json).unwrap())
    };
    let red = "\"RED\"";
    assert_eq!(write(Some("a.Color"), r#"{"name":"RED"}"#).0, b"\x4cRED");
    assert_eq!(write(Some("a.Color"), r#"{"class":"a.Color","name":"RED"}"#).0, b"\x4cRED");
    assert_eq!(write(None, r#"{"class":"a.Color","name":"red"}"#).1, red.to_lowercase());
    // Of a class that nobody knows, what is written like a constant.
    assert_eq!(write(None, r#"{"name":"RED","class":"a.Other"}"#).1, red);
    for bean in [
        r#"{"class":"a.Other","name":"Rex"}"#,
        r#"{"class":"a.Pet","name":"REX"}"#,
        r#"{"class":"a.Other","name":"REX","age":1}"#,
    ] {
        assert_eq!(write(None, bean).1, bean);
    }
    assert_eq!(write(Some("a.Other"), r#"{"name":"RED"}"#).1, r#"{"name":"RED"}"#);
}

/// As a generic call has it: what comes out without `class=yes` shows what was an object, and what
/// a map.
#[test]
fn objects_of_a_generic_call_are_maps_with_their_class() {
    struct Records;
    impl Schema for Records {
        fn field_type(&self, _: &str, _: &str) -> Option<&JavaType> {
            None
        }
        fn takes_no_map(&self, class: &str) -> bool {
            class == "a.Size"
        }
    }
    let options = InputOptions { schema: &Records, as_maps: true, ..InputOptions::default() };
    let write = |json: &str| {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        let mut encoder = Encoder::new(&mut bytes);
        if let Err(error) =
            json_to_jsonb_by(&mut reader, None, &mut encoder, &options, ValueContext::ROOT)
        {
            return error.to_string();
        }
        let mut decoder = Decoder::new(&bytes, Limits::default());
        jsonb_to_json(&mut decoder, &mut out, &JsonOptions::default()).unwrap();
        String::from_utf8(out).unwrap()
    };
    // Whatever its field is, fastjson2 would drop the fraction of one of two.
    let refused = write(r#"{"class":"a.Size","x":[{"y":1.5}]}"#);
    assert!(refused.starts_with("JSON at byte 28: 1.5 is not a number of known type"), "{refused}");
    let entry = r#"{"class":"java.util.HashMap<java.lang.String, java.lang.Object>","value":{"class":"x"}}"#;
    let refused = write(entry);
    assert!(
        refused.contains(r#""x" is not a value that an entry named class can have"#),
        "{refused}"
    );
    for (json, expected) in [
        (r#"{"class":"a.Size","x":{"class":"java.lang.Double","value":1.5}}"#, r#"{"x":1.5}"#),
        (r#"{"class":"a.Size","x":2.0}"#, r#"{"x":2.0}"#),
        (r#"[{"class":"a.Size","x":1},1.5]"#, r#"[{"x":1},1.5]"#),
        (
            r#"{"a":1,"class":"a.B","b":{"class":"a.C"}}"#,
            r#"{"class":"a.B","a":1,"b":{"class":"a.C"}}"#,
        ),
        (r#"[{"class":"a.Color","name":"RED"}]"#, r#"[{"class":"a.Color","name":"RED"}]"#),
        (r#"{"class":"java.math.BigDecimal","value":1.10}"#, "1.10"),
        (r#"{"class":"java.util.TreeMap","a":{"class":"a.B"}}"#, r#"{"a":{"class":"a.B"}}"#),
        (r#"{"class":"java.util.ArrayList<a.B>","value":[{"x":1}]}"#, r#"[{"class":"a.B","x":1}]"#),
        (
            r#"{"class":"a.B[][]","value":[[{}],["RED"]]}"#,
            r#"[[{"class":"a.B"}],[{"class":"a.B","name":"RED"}]]"#,
        ),
        (
            r#"{"class":"java.util.Optional[]","value":[null,5,{"class":"a.B","x":1}]}"#,
            r#"[null,{"value":5},{"value":{"class":"a.B","x":1}}]"#,
        ),
        (
            r#"{"class":"java.util.OptionalLong[]","value":[{"value":5,"isPresent":true}]}"#,
            r#"[{"value":5,"isPresent":true}]"#,
        ),
        (
            r#"[{"class":"a.Size","x":{"class":"a.B","y":1}},{"class":"a.B"}]"#,
            r#"[{"x":{"y":1}},{"class":"a.B"}]"#,
        ),
    ] {
        assert_eq!(write(json), expected, "{json}");
    }
}

/// The reader knows a field of type `T` as an `Object`, so that its value has to tell its class;
/// of a list it does anyway.
#[test]
fn what_type_arguments_say_is_told() {
    struct Pages(Vec<(&'static str, &'static str, JavaType)>);
    impl Schema for Pages {
        fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
            let is_it = |one: &&(&str, &str, JavaType)| one.0 == class && one.1 == field;
            self.0.iter().find(is_it).map(|(_, _, ty)| ty)
        }
    }
    let fields = [
        ("a.Page", "first", "java.lang.Object"),
        ("a.Page", "items", "java.util.List<java.lang.Object>"),
        ("a.Page", "cover", "a.Item"),
        ("a.Page<a.Item>", "first", "a.Item"),
        ("a.Page<a.Item>", "items", "java.util.List<a.Item>"),
        ("a.Page<a.Item>", "cover", "a.Item"),
        ("a.Item", "at", "java.time.LocalDate"),
    ];
    let schema =
        Pages(fields.map(|(class, field, ty)| (class, field, JavaType::parse(ty).unwrap())).into());
    let write = |json: &str| {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        let ty = JavaType::parse("a.Page<a.Item>").unwrap();
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        json_to_jsonb_with(&mut reader, Some(&ty), &mut Encoder::new(&mut bytes), &schema).unwrap();
        let options = JsonOptions { class_name: true, ..JsonOptions::default() };
        let mut decoder = Decoder::new(&bytes, Limits::default());
        jsonb_to_json(&mut decoder, &mut out, &options).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(
        write(r#"{"first":{},"items":[{}],"cover":{}}"#),
        r#"{"first":{"class":"a.Item"},"items":[{"class":"a.Item"}],"cover":{}}"#
    );
    // Also where the object names the class again, and for a subclass that nobody knows.
    for class in ["a.Page", "a.Sub"] {
        let json = format!(r#"{{"class":"{class}","first":{{"at":"2024-02-29"}}}}"#);
        let written = write(&json);
        assert!(written.contains(r#""first":{"class":"a.Item","at":"2024-02-29"}"#), "{written}");
    }
}

#[test]
fn nothing_is_looked_through_at_every_level() {
    let nest = |inner: String, _| format!(r#"{{"class":"a.B","x":{inner},"y":0}}"#);
    let json = (0..60).fold("7".to_owned(), nest);
    let n_read = items_read_by(|| drop(bytes("a.B", &json).unwrap()));
    // When it is passed, looked through and written.
    assert!(n_read <= 3 * 3 * 60, "{n_read}");
}
