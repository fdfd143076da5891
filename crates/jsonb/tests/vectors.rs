//! Bytes that fastjson2 wrote (interop/vectors-jsonb has the program), and what they are.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hessian::transcode::hessian_to_json;
use java_json::{DateStyle, EnumStyle, JsonOptions, RefStyle};
use java_json::{JavaType, Limits};
use jsonb::{Decoder, JsonbError, check, jsonb_to_json, jsonb_to_json_as};

fn crates() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn load(name: &str) -> Vec<u8> {
    fs::read(crates().join("jsonb/vectors").join(format!("{name}.bin"))).unwrap()
}

fn all() -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(crates().join("jsonb/vectors")).unwrap();
    let names = entries.map(|entry| entry.unwrap().path());
    let names = names.map(|path| path.file_stem().unwrap().display().to_string());
    names.map(|name| (name.clone(), load(&name))).collect()
}

fn try_json(bytes: &[u8], opts: &JsonOptions) -> Result<String, JsonbError> {
    let (mut out, mut decoder) = (Vec::new(), Decoder::new(bytes, Limits::default()));
    jsonb_to_json(&mut decoder, &mut out, opts)?;
    assert!(decoder.is_at_end());
    Ok(String::from_utf8(out).unwrap())
}

fn json(name: &str) -> String {
    try_json(&load(name), &JsonOptions::default()).unwrap()
}

/// What JSONB cannot tell, or tells in another way.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "pojo",
        r#"{"amount":1234567890.12345678901234567890,"at":"2023-11-14T22:13:20.123Z","color":1,"extra":{"k":1},"id":7,"items":[{"count":1,"sku":"a"},{"count":2,"sku":"b"}],"letter":"x","name":"café","next":null,"paid":true,"price":12.5,"raw":"AQID","small":3,"tiny":-4,"total":9007199254740993,"weight":99.8}"#,
    ),
    (
        "throwable",
        r#"{"class":"java.lang.IllegalArgumentException","cause":{"class":"java.lang.IllegalStateException","message":"the cause","stackTrace":[],"suppressed":[],"cause":null},"message":"wrong \"thing\"","stackTrace":["com.acme.Shop.sell(Shop.java:12)","com.acme.Shop.main(Unknown Source)","com.acme.Shop.run(Native Method)"],"suppressed":[]}"#,
    ),
    ("sql-timestamp", r#""2023-11-14T22:13:20.123""#),
    ("sql-timestamp-nanos", r#""2024-02-29T13:05:59.123456789""#),
    ("sql-time", r#""01:00:00""#),
    ("offset-time", r#""1970-01-01T13:05:59.120+08:00""#),
    ("zoned-date-time", r#""2024-02-29T13:05:59.120[Asia/Shanghai]""#),
    ("zoned-gap", r#""2024-10-27T02:30[Europe/Berlin]""#),
    // There are 16 bits for a year.
    ("local-date-max", r#""-13825-12-31""#),
    ("string-builder", r#""text""#),
    ("bit-set", r#""BQ==""#),
    ("inet-address", r#""localhost""#),
    ("array-sql-dates", r#"["1970-01-01T00:00:00.001",null]"#),
    ("atomic-int-array", r#"[1,2]"#),
    ("atomic-long-array", r#"[1,2]"#),
    ("atomic-reference", r#""x""#),
    (
        "boxes",
        r#"{"aBoolean":true,"aByte":1,"aChar":"7","aDouble":6.1,"aFloat":5.1,"aLong":4,"aShort":2,"anInt":3,"builder":null,"number":8,"object":[9],"state":0,"texts":["a"],"type":"com.acme.Item"}"#,
    ),
    ("chrono-date-time", r#"{}"#),
    ("chrono-hijrah", r#"{}"#),
    ("chrono-iso", r#"{}"#),
    ("chrono-japanese", r#"{}"#),
    ("chrono-japanese-era", r#"{}"#),
    ("chrono-minguo", r#"{}"#),
    ("chrono-period", r#"{"chrono":{},"days":3,"months":2,"years":1}"#),
    ("chrono-thai", r#"{}"#),
    ("chrono-zoned", r#"{}"#),
    ("entry", r#"["k",1]"#),
    ("entry-immutable", r#"["k",1]"#),
    ("hiding", r#"{"name":"hiding","number":1}"#),
    ("inet-address-6", r#""localhost""#),
    ("long-adder", r#"{}"#),
    ("object-name", r#"{}"#),
    ("offset-time-max", r#""1970-01-01T23:59:59.999999999-18:00""#),
    ("optional-int", r#"7"#),
    ("pattern", r#""a+""#),
    ("replaced", r#"{}"#),
    (
        "sql-exception",
        r#"{"class":"java.sql.SQLException","SQLState":"42000","message":"reason","stackTrace":[],"suppressed":[],"vendorCode":7,"cause":null}"#,
    ),
    ("string-buffer", r#""text""#),
    ("unix-socket-address", r#"{}"#),
    ("url", r#""http://acme.com/a?b=c""#),
    ("week-fields", r#"{"firstDayOfWeek":0,"minimalDays":4}"#),
    // An enum with its class alone is told apart from an object with the field `name`.
    ("named", r#"{"name":"RED"}"#),
    // The JVM shuffles these anew each time that it runs.
    ("set-of-3", r#"["c","b","a"]"#),
];

#[test]
fn java_values_are_the_same_json_as_by_hessian() {
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let mut n_same = 0;
    for (name, bytes) in all().into_iter().filter(|(name, _)| name != "refs") {
        let opts = JsonOptions::default();
        let text = try_json(&bytes, &opts);
        if let Some((_, expected)) = DIFFERENT.iter().find(|(other, _)| *other == name) {
            assert_eq!(text.as_deref(), Ok(*expected), "{name}");
            continue;
        }
        let hessian = fs::read(crates().join(format!("hessian/vectors/lite4/{name}.bin"))).unwrap();
        let mut expected = Vec::new();
        let mut decoder = hessian::Decoder::new(&hessian, Limits::default());
        let result = hessian_to_json(&mut decoder, &mut expected, &opts);
        let expected = String::from_utf8(expected).unwrap();
        match (result, text) {
            (Ok(()), Ok(text)) if name == "pojo-list" => {
                // fastjson2 leaves out fields that are zero.
                assert_eq!(parse(&text), parse(&expected.replacen("\"count\":0,", "", 1)));
            }
            // The order of fields is another.
            (Ok(()), Ok(text)) if text.contains('{') => assert_eq!(parse(&text), parse(&expected)),
            (Ok(()), Ok(text)) => assert_eq!(text, expected, "{name}"),
            (Err(_), Err(JsonbError::Cycle { .. })) => assert!(name.starts_with("cycle"), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        n_same += 1;
    }
    assert!(225 < n_same, "{n_same}");
}

#[test]
fn every_cut_of_what_java_wrote_is_an_error() {
    for (name, bytes) in all().into_iter().filter(|(_, bytes)| bytes.len() < 400) {
        for len in 0..bytes.len() {
            let cut = &bytes[..len];
            assert!(Decoder::new(cut, Limits::default()).skip_value().is_err(), "{name} {len}");
            assert!(try_json(cut, &JsonOptions::default()).is_err(), "{name} {len}");
        }
    }
}

#[test]
fn checks_hold_on_what_java_wrote() {
    for (name, mut bytes) in all() {
        assert!(check::to_json(&bytes) || name.starts_with("cycle"), "{name}");
        if bytes.len() < 400 {
            // And on what somebody has tampered with.
            for at in 0..bytes.len() {
                for flip in [1, 0x10, 0x80, 0xff] {
                    bytes[at] ^= flip;
                    check::to_json(&bytes);
                    bytes[at] ^= flip;
                }
            }
        }
    }
}

#[test]
fn options_decide() {
    let opts = JsonOptions {
        class_name: true,
        dates: DateStyle::Millis,
        enums: EnumStyle::Object,
        big_numbers_as_text: true,
        ..JsonOptions::default()
    };
    let json = |name| try_json(&load(name), &opts).unwrap();
    assert_eq!(json("enum"), r#"{"class":"com.acme.Color","name":"RED"}"#);
    assert_eq!(json("map-tree"), r#"{"class":"java.util.TreeMap","a":1,"b":2}"#);
    assert_eq!(json("map-hash"), r#"{"k":"v"}"#);
    assert_eq!(json("date-milli"), "1700000040123");
    assert_eq!(json("big-integer"), r#""-123456789012345678901234567890""#);
    assert_eq!(json("big-decimal"), r#""1E+3""#);
    assert!(json("longs").contains(r#""9007199254740993""#));
    assert!(json("pojo-list").starts_with(r#"[{"class":"com.acme.Item","sku":"sku0"}"#));
    let small = JsonOptions { max_out_len: 10, ..JsonOptions::default() };
    let error = try_json(&load("pojo"), &small);
    assert!(matches!(error, Err(JsonbError::OutputLen { max: 10, .. })));
}

/// Each value stands twice in a list, and then a map twice. fastjson2 writes a reference for the
/// second of some values that are texts or numbers in JSON, too, such as enums with bodies.
#[test]
fn references_lead_to_every_kind_of_value() {
    let all: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&json("refs")).unwrap();
    assert!(230 < all.len());
    let paths = JsonOptions { refs: RefStyle::Path, ..JsonOptions::default() };
    for (name, message) in &all {
        // The JVM shuffles two of these; the others contain themselves.
        if ["map-of-2", "set-of-3"].contains(&&**name) || name.starts_with("cycle") {
            continue;
        }
        let message = STANDARD.decode(message.as_str().unwrap()).unwrap();
        let value = json(name);
        let expected = format!("[{value},{value},{{\"shared\":1}},{{\"shared\":1}}]");
        let text = try_json(&message, &JsonOptions::default());
        assert_eq!(text.as_deref(), Ok(&*expected), "{name}");
        // What is no array or object in JSON is repeated.
        let is_leaf = !value.starts_with(['[', '{']);
        if is_leaf {
            let expected = format!("[{value},{value},{{\"shared\":1}},{{\"$ref\":\"$[2]\"}}]");
            assert_eq!(try_json(&message, &paths).as_deref(), Ok(&*expected), "{name}");
        }
    }
}

#[test]
fn options_hold_for_fields_and_references() {
    let json =
        |name, options| try_json(&load(name), &JsonOptions::parse(options).unwrap()).unwrap();
    let pojo = json("pojo", "dates=millis@at; longs=text@com.acme.Order.total; longs=text@a.B.id");
    assert!(pojo.contains("\"at\":1700000000123,"), "{pojo}");
    assert!(pojo.contains("\"total\":\"9007199254740993\""), "{pojo}");
    assert!(pojo.contains("\"id\":7,"), "{pojo}");
    assert!(json("longs", "longs=text").starts_with(r#"["0","-8","15""#));
    assert_eq!(json("shared", "refs=path"), r#"[{"k":"v"},{"$ref":"$[0]"}]"#);
    assert_eq!(json("cycle", "refs=path"), r#"{"label":"self","next":{"$ref":"$"}}"#);
    assert_eq!(json("cycle-list", "refs=path"), r#"[1,{"$ref":"$"}]"#);
}

#[test]
fn a_declared_type_tells_what_the_bytes_do_not() {
    let json = |bytes: &[u8], ty: &str| {
        let mut out = Vec::new();
        let (ty, opts) = (JavaType::parse(ty).unwrap(), JsonOptions::default());
        let mut decoder = Decoder::new(bytes, Limits::default());
        jsonb_to_json_as(&mut decoder, Some(&ty), &mut out, &opts).unwrap();
        String::from_utf8(out).unwrap()
    };
    let uuid = load("uuid");
    assert_eq!(json(&uuid, "java.util.UUID"), "\"123e4567-e89b-12d3-a456-426614174000\"");
    assert_eq!(json(&uuid, "byte[]"), "\"Ej5FZ+ibEtOkVkJmFBdAAA==\"");
    assert_eq!(json(&load("offset-time"), "java.time.OffsetTime"), "\"13:05:59.120+08:00\"");
}

#[test]
fn long_texts_are_what_java_had() {
    assert_eq!(json("string-32769"), format!("\"{}\"", "y".repeat(32769)));
    assert_eq!(json("string-chinese"), format!("\"{}\"", "中文字符".repeat(8250)));
    assert_eq!(json("string-emojis"), format!("\"{}\"", "😀".repeat(16500)));
}

#[test]
fn references_are_followed_by_their_paths() {
    // [{"k":"v","a.b":[1]}, ref $[0], ref again, ref $[0].a\.b]
    let mut bytes = vec![0x98, 0xa6, 0x4a, b'k', 0x4a, b'v', 0x4c, b'a', b'.', b'b', 0x95, 1, 0xa5];
    bytes.extend_from_slice(b"\x93\x4d$[0]\x93\x4c#-1\x93\x52$[0].a\\.b");
    let text = try_json(&bytes, &JsonOptions::default()).unwrap();
    let map = r#"{"k":"v","a.b":[1]}"#;
    assert_eq!(text, format!("[{map},{map},{map},[1]]"));
    // To nothing; to what it is in; and two that lead to each other.
    for bytes in [&b"\x95\x93\x4d$[7]"[..], b"\x95\x93\x4a$", b"\x95\x93\x4b.."] {
        assert!(try_json(bytes, &JsonOptions::default()).is_err());
    }
    let crossed = b"\x96\x95\x93\x4d$[1]\x95\x93\x4d$[0]";
    let error = try_json(crossed, &JsonOptions::default());
    assert!(matches!(error, Err(JsonbError::Cycle { .. })), "{error:?}");
}

/// fastjson2 2.0.56 wrote the path of the first, a map with a key in which a character beyond
/// U+FFFF is not the first, and a reference to what is below that key.
#[test]
fn a_path_with_lost_characters_means_the_only_key_that_it_fits() {
    let read = |keys: &[&str], path: &str| {
        let mut bytes = Vec::new();
        let mut encoder = jsonb::Encoder::new(&mut bytes);
        encoder.object_begin();
        for key in keys {
            encoder.string(key);
            encoder.object_begin();
            encoder.string("items");
            encoder.array_begin(1);
            encoder.int(7);
            encoder.object_end();
        }
        encoder.string("again");
        bytes.extend([0x93, 0x7a, u8::try_from(path.len()).unwrap()]);
        bytes.extend_from_slice(path.as_bytes());
        bytes.push(0xa5);
        try_json(&bytes, &JsonOptions::default())
    };
    for (key, path) in [
        ("abc😀启", "$.abc??启.items"),
        ("a😀b", "$.a😀b.items"),
        ("\0", "$.\u{fffd}\u{fffd}.items"),
        ("?😀.", "$.\\???\\..items"),
        ("😀", "$.??.items"),
        ("a?b", "$.a\\?b.items"),
        ("\u{fffd}", "$.?.items"),
    ] {
        let text = read(&[key, "other", "??"], path).unwrap();
        assert!(text.ends_with(",\"again\":[7]}"), "{key:?}: {text}");
    }
    // Of two keys that fit nobody can say which is meant, and none fits the others.
    for (keys, path) in [
        (&["😀", "🦀"][..], "$.??.items"),
        (&["abcd", "?", "a😀"], "$.??.items"),
        (&["\u{fffd}\u{fffd}", "\0"], "$.\u{fffd}\u{fffd}.items"),
        (&["😀"], "$.\\?\\?.items"),
        (&["ab"], "$.a.items"),
    ] {
        let error = read(keys, path).unwrap_err();
        assert!(error.to_string().contains("names no value"), "{keys:?}: {error}");
    }
}

#[test]
fn repeated_values_cannot_grow_without_bound() {
    // Each list holds the one before it many times.
    let mut bytes = vec![0xa4, 0x2f, 0x95, 1];
    for level in 0..46_u8 {
        bytes.push(0xa3);
        for _ in 0..15 {
            let path = format!("$[{level}]");
            bytes.extend([0x93, 0x49 + u8::try_from(path.len()).unwrap()]);
            bytes.extend_from_slice(path.as_bytes());
        }
    }
    let error = try_json(&bytes, &JsonOptions::default()).unwrap_err();
    assert!(matches!(error, JsonbError::Broken { .. } | JsonbError::OutputLen { .. }), "{error}");
}

#[test]
fn an_exceptions_own_message_takes_the_place_of_the_usual_one() {
    for (name, message) in [
        ("shadowed-exception", "own"),
        ("shadowed-exception-null", "own"),
        ("shadowed-exception-own-null", "super"),
    ] {
        let text = json(name);
        assert_eq!(text.matches("\"message\":").count(), 1, "{text}");
        assert!(text.contains(&format!("\"message\":\"{message}\"")), "{text}");
    }
}

#[test]
fn a_null_message_hides_none_in_either_order() {
    for fields in [
        [("message", None), ("detailMessage", Some("usual"))],
        [("detailMessage", Some("usual")), ("message", None)],
        [("detailMessage", None), ("message", Some("usual"))],
    ] {
        let mut bytes = Vec::new();
        let mut encoder = jsonb::Encoder::new(&mut bytes);
        encoder.class("com.acme.X");
        encoder.object_begin();
        for (name, text) in fields.into_iter().chain([("suppressedExceptions", None)]) {
            encoder.string(name);
            match text {
                Some(text) => encoder.string(text),
                None => encoder.null(),
            }
        }
        encoder.object_end();
        assert_eq!(
            try_json(&bytes, &JsonOptions::default()).unwrap(),
            r#"{"class":"com.acme.X","message":"usual","suppressed":null,"cause":null}"#
        );
    }
}

/// Dubbo 3.3.6 with fastjson2 2.0.56 wrote these, of a class with the fields `kids`, `name` and
/// `next`: after a reference the field comes again, as null. Java reads the reference.
#[test]
fn a_null_after_a_reference_of_the_same_name_is_left_out() {
    const SHARED: &str = "92516f64642e4e6f646500a67f4d6b6964730195a67f01af7f4d6e616d65024a6b7f4d6e\
                          65787403afa57f024a617f039352242e6b6964735b305d7f03afa5";
    const CYCLE: &str = "92516f64642e4e6f646500a67f4d6b69647301af7f4d6e616d65024a617f4d6e65787403\
                         a67f01af7f024a627f03934a247f03afa5a5";
    let bytes = |hex: &str| -> Vec<u8> {
        let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digits).collect()
    };
    let repeated = JsonOptions::default();
    let paths = JsonOptions { refs: RefStyle::Path, ..JsonOptions::default() };
    let kid = r#"{"kids":null,"name":"k","next":null}"#;
    let shared = bytes(SHARED);
    let json = format!(r#"{{"kids":[{kid}],"name":"a","next":{kid}}}"#);
    assert_eq!(try_json(&shared, &repeated).unwrap(), json);
    let json = format!(r#"{{"kids":[{kid}],"name":"a","next":{{"$ref":"$.kids[0]"}}}}"#);
    assert_eq!(try_json(&shared, &paths).unwrap(), json);
    let json = r#"{"kids":null,"name":"a","next":{"kids":null,"name":"b","next":{"$ref":"$"}}}"#;
    assert_eq!(try_json(&bytes(CYCLE), &paths).unwrap(), json);
    // Null for another name stays, and so does another value of the same name.
    for (hex, json) in [
        ("a64a61944a62934c242e614a63afa5", r#"{"a":[],"b":[],"c":null}"#),
        ("a64a61944a62934c242e614a6201a5", r#"{"a":[],"b":[],"b":1}"#),
        ("a64a61944a61afa5", r#"{"a":[],"a":null}"#),
        (
            "924c612e5400a64e6361757365934b2e2e4e6361757365af\
             5d73757070726573736564457863657074696f6e7394a5",
            r#"{"class":"a.T","cause":null,"suppressed":[],"message":null}"#,
        ),
    ] {
        assert_eq!(try_json(&bytes(hex), &repeated).unwrap(), json);
    }
}
