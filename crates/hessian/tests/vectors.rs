//! Bytes that hessian-lite wrote (interop/vectors has the program), and what they are.

use std::fs;
use std::path::PathBuf;

use hessian::json::JsonReader;
use hessian::transcode::{
    DateStyle, EnumStyle, InputOptions, JsonOptions, RefStyle, TranscodeError, hessian_to_json,
    hessian_to_json_as, json_to_hessian_by,
};
use hessian::{Decoder, Encoder, JavaType, Limits, Value, check};

fn folder(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vectors").join(version)
}

fn load(version: &str, name: &str) -> Vec<u8> {
    fs::read(folder(version).join(format!("{name}.bin"))).unwrap()
}

fn all() -> impl Iterator<Item = (String, Vec<u8>)> {
    ["lite3", "lite4"].into_iter().flat_map(|version| {
        fs::read_dir(folder(version)).unwrap().map(move |entry| {
            let path = entry.unwrap().path();
            (format!("{version}/{}", path.file_stem().unwrap().display()), fs::read(&path).unwrap())
        })
    })
}

fn json(bytes: &[u8], opts: &JsonOptions) -> String {
    let (mut out, mut decoder) = (Vec::new(), Decoder::new(bytes, Limits::default()));
    hessian_to_json(&mut decoder, &mut out, opts).unwrap();
    assert!(decoder.is_at_end());
    String::from_utf8(out).unwrap()
}

#[test]
fn what_java_wrote_is_written_again_byte_for_byte() {
    let mut n_files = 0;
    for (name, bytes) in all() {
        assert!(check::decode(&bytes), "{name}");
        let value = Decoder::new(&bytes, Limits::default()).read_value().unwrap();
        let mut again = Vec::new();
        Encoder::new(&mut again).value(&value);
        // Java cuts long binaries by the room in its buffer, sends half surrogates, and lists and
        // binaries of unknown length.
        let differ = [
            "binary-chunks",
            "binary-100000",
            "-surrogate",
            "-surrogates",
            "iterator",
            "enumeration",
            "input-stream",
            "refs",
        ];
        if !differ.iter().any(|end| name.ends_with(end)) {
            assert!(again == bytes, "{name}");
        }
        n_files += 1;
    }
    assert!(550 < n_files);
}

#[test]
fn every_cut_of_what_java_wrote_is_an_error() {
    for (name, bytes) in all().filter(|(_, bytes)| bytes.len() < 3000) {
        for len in 0..bytes.len() {
            let cut = &bytes[..len];
            let mut out = Vec::new();
            assert!(Decoder::new(cut, Limits::default()).read_value().is_err(), "{name} {len}");
            assert!(Decoder::new(cut, Limits::default()).skip_value().is_err(), "{name} {len}");
            let opts = JsonOptions::default();
            let result =
                hessian_to_json(&mut Decoder::new(cut, Limits::default()), &mut out, &opts);
            assert!(result.is_err(), "{name} {len}");
        }
    }
}

#[test]
fn long_texts_are_what_java_had() {
    let string =
        |name: &str| match Decoder::new(&load("lite3", name), Limits::default()).read_value() {
            Ok(Value::String(text)) => text,
            other => panic!("{other:?}"),
        };
    assert_eq!(string("string-32769"), "y".repeat(32769));
    assert_eq!(string("string-chunks"), "z".repeat(33000));
    assert_eq!(string("string-chinese"), "中文字符".repeat(8250));
    assert_eq!(string("string-emojis"), "😀".repeat(16500));
    for n_units in [31, 32, 1023, 32768, 32769] {
        let expected = "x".repeat(n_units - 2) + "😀";
        assert_eq!(string(&format!("string-emoji-{n_units}")), expected);
    }
    assert_eq!(string("string-chunks-3"), "é".repeat(70_000));
    let at_chunk = "a".repeat(32767) + "😀" + &"b".repeat(100);
    assert_eq!(string("string-emoji-at-chunk"), at_chunk);
    assert_eq!(string("string-lone-surrogate"), "a\u{fffd}!");
    let bytes: Vec<u8> = (0..33000u32).map(|n| n.to_le_bytes()[0]).collect();
    let binary =
        |name: &str| Decoder::new(&load("lite3", name), Limits::default()).read_value().unwrap();
    assert_eq!(binary("binary-chunks"), Value::Binary(bytes));
    let bytes = (0..100_000u32).map(|n| (n * 31).to_le_bytes()[0]).collect();
    assert_eq!(binary("binary-100000"), Value::Binary(bytes));
}

/// The JSON of each vector, by the default options.
const JSON: &[(&str, &str)] = &[
    ("null", "null"),
    ("true", "true"),
    ("false", "false"),
    (
        "ints",
        "[0,-16,47,-17,48,-2048,2047,-2049,2048,-262144,262143,-262145,262144,-2147483648,2147483647]",
    ),
    (
        "longs",
        "[0,-8,15,-9,16,-2048,2047,-2049,2048,-262144,262143,-262145,262144,-2147483648,2147483647,-2147483649,2147483648,9007199254740993,-9223372036854775808,9223372036854775807]",
    ),
    (
        "doubles",
        r#"[0.0,1.0,-128.0,127.0,-129.0,128.0,-32768.0,32767.0,32768.0,12.25,99.8,0.001,1e+300,5e-324,3.141592653589793,-2147483.648,1.7976931348623157e+308,"NaN","Infinity","-Infinity"]"#,
    ),
    ("floats", "[99.8,0.1,3.4028235e+38,1.5]"),
    ("float", "99.8"),
    ("shorts", "[-1,300]"),
    ("booleans", "[true,false]"),
    ("chars", "\"a中\""),
    (
        "dates",
        r#"["1970-01-01T00:00:00.000Z","1970-01-01T00:01:00.000Z","1969-12-31T23:59:00.000Z","1970-01-01T00:00:00.001Z","2023-11-14T22:13:20.123Z","+292278994-08-17T07:12:55.807Z"]"#,
    ),
    ("date-minute", "\"2023-11-14T22:14:00.000Z\""),
    ("date-milli", "\"2023-11-14T22:14:00.123Z\""),
    ("string-empty", "\"\""),
    ("string-mixed", "\"é中😀 \\\"\\\\\\n\\t\\u0001\u{7f}\\u0000\""),
    ("binary-0", "\"\""),
    ("binary-15", "\"AAECAwQFBgcICQoLDA0O\""),
    ("list-empty", "[]"),
    ("list-8", "[1,2,3,4,5,6,7,8]"),
    ("list-type-refs", "[[0],[1],[2]]"),
    ("strings", r#"["a",null,"b"]"#),
    ("objects", r#"["a",1,null,2,1.5]"#),
    ("ints-2d", "[[1],[2,3]]"),
    ("map-empty", "{}"),
    ("map-linked", r#"{"s":"text","i":1,"n":null,"l":[1,2]}"#),
    (
        "map-keys",
        r#"{"1":"int","2":"long","1.5":"double","true":"boolean","RED":"enum","null":"null","1970-01-01T00:00:00.000Z":"date","1.50":"decimal"}"#,
    ),
    ("map-tree", r#"{"a":1,"b":2}"#),
    ("shared", r#"[{"k":"v"},{"k":"v"}]"#),
    ("pojo-array", r#"[{"count":1,"sku":"a"},null]"#),
    ("enum", "\"RED\""),
    ("enum-body", "\"GREEN\""),
    ("enums", r#"["RED","GREEN","RED"]"#),
    ("enum-set", r#"["RED","GREEN"]"#),
    ("big-decimal", "1E+3"),
    ("big-decimal-long", "-0.1234567890123456789012345678901234567890"),
    ("big-integer", "-123456789012345678901234567890"),
    ("big-integer-zero", "0"),
    ("uuid", "\"123e4567-e89b-12d3-a456-426614174000\""),
    ("locale", "\"zh_CN\""),
    ("class", "\"java.lang.String\""),
    ("sql-date", "\"2023-11-14T22:13:20.000Z\""),
    ("sql-timestamp", "\"2023-11-14T22:13:20.123Z\""),
    (
        "throwable",
        r#"{"class":"java.lang.IllegalArgumentException","suppressed":[],"stackTrace":["com.acme.Shop.sell(Shop.java:12)","com.acme.Shop.main(Unknown Source)","com.acme.Shop.run(Native Method)"],"cause":{"class":"java.lang.IllegalStateException","suppressed":[],"stackTrace":[],"cause":null,"message":"the cause"},"message":"wrong \"thing\""}"#,
    ),
    ("local-date", "\"2024-02-29\""),
    ("local-time", "\"13:05:59.120\""),
    ("local-time-short", "\"13:05\""),
    ("local-date-time", "\"2024-02-29T13:05:59.120\""),
    ("instant", "\"2023-11-14T22:13:20.123456789Z\""),
    ("duration", "\"PT1H2M5.5S\""),
    ("duration-negative", "\"PT-1.5S\""),
    ("duration-zero", "\"PT0S\""),
    ("period", "\"P1Y-2M30D\""),
    ("year", "2024"),
    ("year-month", "\"2024-02\""),
    ("month-day", "\"--02-29\""),
    ("zone-offset", "\"+05:30\""),
    ("zone-id", "\"Asia/Shanghai\""),
    ("offset-time", "\"13:05:59.120+08:00\""),
    ("offset-date-time", "\"2024-02-29T13:05:59.120-03:00\""),
    ("zoned-date-time", "\"2024-02-29T13:05:59.120+08:00[Asia/Shanghai]\""),
    ("local-dates", r#"["2024-02-29","2024-03-01"]"#),
    ("list-as-list", ABC),
    ("list-sub", r#"["a","b"]"#),
    ("list-singleton", "[\"a\"]"),
    ("list-empty-shared", "[]"),
    ("list-copy-on-write", ABC),
    ("iterator", ABC),
    ("vector", ABC),
    ("stack", ABC),
    ("deque", ABC),
    ("queue-priority", ABC),
    ("set-hash", ABC),
    ("set-tree", ABC),
    ("set-tree-reversed", r#"["b","a"]"#),
    ("set-singleton", "[\"a\"]"),
    ("set-keys", "[\"k\"]"),
    ("map-values", "[1]"),
    (
        "list-mixed",
        r#"[1,2,"c",3,4,5.5,6.5,true,"s",null,7.70,"CA==","1970-01-01T00:00:00.009Z","RED",[10],{"count":11,"sku":"i"}]"#,
    ),
    ("enum-set-empty", "[]"),
    ("enum-of-java", "\"SECONDS\""),
    ("bit-set", r#"{"words":[5]}"#),
    ("map-singleton", K1),
    ("map-empty-shared", "{}"),
    ("map-concurrent", K1),
    ("map-skip-list", K1),
    ("hashtable", K1),
    ("properties", r#"{"k":"v"}"#),
    ("enum-map", r#"{"GREEN":1}"#),
    ("map-int-keys", r#"{"-2":"minus two","1":"one"}"#),
    (
        "map-object-keys",
        r#"{"{\"count\":1,\"sku\":\"i\"}":"pojo","[1,2]":"list","2024-02-29":"date","123e4567-e89b-12d3-a456-426614174000":"uuid","c":"char","":"empty"}"#,
    ),
    ("shared-array", "[[1,2],[1,2]]"),
    (
        "shared-scalars",
        r#"["1970-01-01T00:01:00.000Z","1970-01-01T00:01:00.000Z",1.50,1.50,"RED","RED","2024-02-29","2024-02-29"]"#,
    ),
    (
        "wide",
        r#"{"items":[[{"count":1,"sku":"a"}],[]],"colors":["GREEN"],"strings":["s",null],"booleans":[true],"doubles":[0.5],"floats":[99.8],"longs":[1099511627776],"ints":[7],"chars":"a中","shorts":[-300,300],"bytes":"Af8=","aBoolean":false,"aDouble":1e+300,"aFloat":99.8,"aLong":9,"integer":8,"character":"é","aShort":-6,"aByte":5}"#,
    ),
    ("byte", "-5"),
    ("short", "300"),
    ("char", "\"c\""),
    ("optional", "\"x\""),
    ("optional-empty", "null"),
    ("atomic-integer", "7"),
    ("atomic-long", "1099511627776"),
    ("atomic-boolean", "true"),
    ("currency", "\"CNY\""),
    ("uri", "\"http://acme.com/a?b=c\""),
    ("file", "\"/tmp/x\""),
    ("locale-root", "\"en\""),
    ("class-array", r#"["int","[I","[Ljava.lang.String;","com.acme.Item"]"#),
    ("sql-time", "\"1970-01-01T01:00:00.000Z\""),
    ("sql-timestamp-nanos", "\"2024-02-29T13:05:59.123Z\""),
    ("calendar", "\"2023-11-14T22:13:20.123Z\""),
    ("stack-trace-element", "\"com.acme.Shop.sell(Shop.java:12)\""),
    ("big-integer-negative-word", "-18446744069414584320"),
    ("big-decimal-exponent", "-1.23E-10"),
    ("big-decimals", "[1,0E+7]"),
    (
        "throwable-own",
        r#"{"class":"com.acme.ShopException","suppressed":[{"class":"java.lang.ArithmeticException","suppressed":[],"stackTrace":[],"cause":null,"message":null}],"stackTrace":[],"item":{"count":1,"sku":"a"},"cause":{"class":"java.lang.ArithmeticException","suppressed":[],"stackTrace":[],"cause":null,"message":null},"message":"closed","code":7}"#,
    ),
    (
        "throwable-error",
        r#"{"class":"java.lang.StackOverflowError","suppressed":[],"stackTrace":["a.B.c(B.java:1)"],"cause":null,"message":null}"#,
    ),
    ("local-date-far", "\"-0044-03-15\""),
    ("local-date-max", "\"+999999999-12-31\""),
    ("local-time-midnight", "\"00:00\""),
    ("local-date-time-nanos", "\"2024-02-29T00:00:00.000000001\""),
    ("zoned-utc", "\"2024-02-29T00:00:00.000000001Z\""),
    ("zoned-gap", "\"2024-10-27T02:30+01:00[Europe/Berlin]\""),
    (
        "offset-date-times",
        r#"["2024-02-29T00:00:00.000000001Z","2024-02-29T00:00:00.000000001-01:02:03"]"#,
    ),
    ("year-negative", "-44"),
    ("day-of-week", "\"MONDAY\""),
    (
        "dates-far",
        r#"["0001-01-01T00:00:00.000Z","9999-12-31T23:59:59.999Z","1969-12-31T23:59:59.999Z"]"#,
    ),
    ("string-swapped-surrogates", "\"\u{fffd}\u{fffd}\""),
    ("string-max-char", "\"\u{ffff}\u{fffe}\u{feff}\u{e000}\""),
    ("string-numeric", "\"\\u0000\\u0001\\u001f\u{7f}\u{80}\u{7ff}\u{800}\""),
];

const ABC: &str = r#"["a","b","c"]"#;
const K1: &str = r#"{"k":1}"#;

/// What the two versions write in different ways; 3 writes the insides of these classes of the
/// JDK.
const JSON_4: &[(&str, &str)] = &[
    ("list-of-2", r#"["a","b"]"#),
    ("list-of-3", ABC),
    ("list-unmodifiable", ABC),
    ("list-synchronized", ABC),
    ("set-of-3", ABC),
    ("set-unmodifiable", ABC),
    ("map-of-1", K1),
    ("map-of-2", r#"{"l":2,"k":1}"#),
    ("map-unmodifiable", K1),
    ("object", "{}"),
];

#[test]
fn what_only_version_4_writes_plainly() {
    for &(name, expected) in JSON_4 {
        assert_eq!(json(&load("lite4", name), &JsonOptions::default()), expected, "{name}");
    }
}

/// The compact mode of hessian-lite 4 writes other bytes for the same values.
#[test]
fn compact_dates_and_times_are_read() {
    let mut n_files = 0;
    for entry in fs::read_dir(folder("lite4-compact")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let (compact, full) = (load("lite4-compact", &name), load("lite4", &name));
        assert_ne!(compact, full, "{name}");
        let opts = JsonOptions::default();
        assert_eq!(json(&compact, &opts), json(&full, &opts), "{name}");
        assert!(check::decode(&compact), "{name}");
        n_files += 1;
    }
    assert!(21 < n_files);
}

#[test]
fn java_values_become_the_json_of_the_table() {
    for version in ["lite3", "lite4"] {
        for &(name, expected) in JSON {
            assert_eq!(json(&load(version, name), &JsonOptions::default()), expected, "{name}");
        }
    }
}

#[test]
fn a_pojo_becomes_an_object_with_all_its_fields() {
    let text =
        json(&load("lite3", "pojo"), &JsonOptions { class_name: true, ..Default::default() });
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expected = serde_json::json!({
        "class": "com.acme.Order", "id": 7, "total": 9_007_199_254_740_993_i64, "small": 3,
        "tiny": -4, "letter": "x", "paid": true, "price": 12.5, "weight": value["weight"],
        "name": "café", "at": "2023-11-14T22:13:20.123Z", "amount": value["amount"],
        "color": "GREEN", "raw": "AQID", "extra": {"k": 1}, "next": null,
        "items": [{"class": "com.acme.Item", "sku": "a", "count": 1},
            {"class": "com.acme.Item", "sku": "b", "count": 2}],
    });
    assert_eq!(value, expected);
    assert!(text.contains("\"weight\":99.80000305175781,"));
    assert!(text.contains("\"amount\":1234567890.12345678901234567890"));
}

#[test]
fn options_choose_the_form() {
    let default = JsonOptions::default;
    let floats = JsonOptions { floats: true, ..default() };
    assert!(json(&load("lite3", "pojo"), &floats).contains("\"weight\":99.8,"));
    let millis = JsonOptions { dates: DateStyle::Millis, ..default() };
    assert_eq!(json(&load("lite3", "sql-timestamp"), &millis), "1700000000123");
    let objects = JsonOptions { enums: EnumStyle::Object, ..default() };
    assert_eq!(json(&load("lite3", "enum"), &objects), r#"{"name":"RED"}"#);
    let texts = JsonOptions { big_numbers_as_text: true, ..default() };
    assert!(json(&load("lite3", "longs"), &texts).ends_with(r#""9223372036854775807"]"#));
    assert_eq!(json(&load("lite3", "big-integer-zero"), &texts), "\"0\"");
    assert_eq!(json(&load("lite3", "big-decimal"), &texts), "\"1E+3\"");
    let classes = JsonOptions { class_name: true, ..default() };
    let tree = r#"{"class":"java.util.TreeMap","a":1,"b":2}"#;
    assert_eq!(json(&load("lite3", "map-tree"), &classes), tree);
}

/// Shared values and cycles as paths, and what those become in Hessian again.
#[test]
fn references_become_paths_and_are_read_back() {
    let opts = JsonOptions { refs: RefStyle::Path, class_name: true, ..Default::default() };
    for (name, expected) in [
        ("cycle", r#"{"class":"com.acme.Node","next":{"$ref":"$"},"label":"self"}"#),
        (
            "cycle-2",
            r#"{"class":"com.acme.Node","next":{"class":"com.acme.Node","next":{"$ref":"$"},"label":"second"},"label":"first"}"#,
        ),
        ("cycle-list", r#"[1,{"$ref":"$"}]"#),
        ("cycle-map", r#"{"self":{"$ref":"$"}}"#),
        (
            "shared-deep",
            r#"[[{"class":"com.acme.Item","count":1,"sku":"a"},{"$ref":"$[0][0]"}],{"$ref":"$[0]"},{"class":"java.util.LinkedHashMap","item":{"$ref":"$[0][0]"},"list":{"$ref":"$[0]"}},{"$ref":"$[2]"}]"#,
        ),
        ("shared", r#"[{"k":"v"},{"$ref":"$[0]"}]"#),
        // What is no array or object in JSON is repeated.
        ("enums", r#"["RED","GREEN","RED"]"#),
    ] {
        let bytes = load("lite4", name);
        let text = json(&bytes, &opts);
        assert_eq!(text, expected, "{name}");
        if name == "enums" {
            continue;
        }
        let (mut out, mut reader) =
            (Vec::new(), JsonReader::new(text.as_bytes(), Limits::default()));
        let input = InputOptions { refs: true, ..Default::default() };
        json_to_hessian_by(&mut reader, None, &mut Encoder::new(&mut out), &input).unwrap();
        // A list in five bytes where Java has one, and otherwise the same.
        let value = |bytes| Decoder::new(bytes, Limits::default()).read_value().unwrap();
        assert_eq!(value(&out), value(&bytes), "{name}");
    }
    let pojo = json(&load("lite4", "cycle-pojo"), &opts);
    assert!(pojo.contains(r#""next":{"$ref":"$"}"#), "{pojo}");
    assert!(pojo.contains(r#""extra":{"items":[{"class":"com.acme.Item","count":1,"sku":"a"}]}"#));
    assert!(pojo.contains(r#""items":{"$ref":"$.extra.items"}"#), "{pojo}");
}

#[test]
fn strange_keys_are_quoted_in_paths() {
    let item = || Value::list(vec![]);
    let map = Value::map(vec![
        (Value::string("a b\"]"), Value::map(vec![(Value::string(""), item())])),
        (Value::string("é"), Value::Ref(2)),
        (Value::string("x"), Value::Ref(1)),
        // What is inside of a key has no path, and is repeated.
        (Value::list(vec![item()]), Value::Ref(4)),
    ]);
    let mut bytes = Vec::new();
    Encoder::new(&mut bytes).value(&map);
    let opts = JsonOptions { refs: RefStyle::Path, ..Default::default() };
    let text = json(&bytes, &opts);
    let expected = r#"{"a b\"]":{"":[]},"é":{"$ref":"$[\"a b\\\"]\"][\"\"]"},"x":{"$ref":"$[\"a b\\\"]\"]"},"[[]]":[]}"#;
    assert_eq!(text, expected);
    let (mut out, mut reader) = (Vec::new(), JsonReader::new(text.as_bytes(), Limits::default()));
    let input = InputOptions { refs: true, ..Default::default() };
    json_to_hessian_by(&mut reader, None, &mut Encoder::new(&mut out), &input).unwrap();
    let Ok(Value::Map { entries, .. }) = Decoder::new(&out, Limits::default()).read_value() else {
        panic!("no map");
    };
    assert_eq!((&entries[1].1, &entries[2].1), (&Value::Ref(2), &Value::Ref(1)));
}

#[test]
fn references_to_nowhere_are_errors() {
    for (text, offset) in [
        (r#"[{"$ref":"$[1]"}]"#, 1),
        (r#"[{"$ref":"x"}]"#, 1),
        (r#"{"$ref":"$"}"#, 0),
        (r#"[[],{"$ref":"$[0"}]"#, 4),
        (r#"[[],{"$ref":"$[0].a"}]"#, 4),
        (r#"[[],{"$ref":"$[0]","more":1}]"#, 4),
        (r#"[1,{"$ref":"$[0]"}]"#, 3),
        (r#"[{"$ref":"$[1]"},[]]"#, 1),
    ] {
        let (mut out, mut reader) =
            (Vec::new(), JsonReader::new(text.as_bytes(), Limits::default()));
        let input = InputOptions { refs: true, ..Default::default() };
        let result = json_to_hessian_by(&mut reader, None, &mut Encoder::new(&mut out), &input);
        assert_eq!(result.unwrap_err().offset(), offset, "{text}");
    }
    // To those who did not ask it is an object like any other, and so is one whose $ref is no
    // text.
    let plain = |text: &str, refs| {
        let (mut out, mut reader) =
            (Vec::new(), JsonReader::new(text.as_bytes(), Limits::default()));
        let input = InputOptions { refs, ..Default::default() };
        json_to_hessian_by(&mut reader, None, &mut Encoder::new(&mut out), &input).unwrap();
        json(&out, &JsonOptions::default())
    };
    assert_eq!(plain(r#"[{"$ref":"$"}]"#, false), r#"[{"$ref":"$"}]"#);
    assert_eq!(plain(r#"[{"$ref":7}]"#, true), r#"[{"$ref":7}]"#);
}

#[test]
fn options_of_single_fields_hold_for_these() {
    let text =
        |options: &str, name| json(&load("lite4", name), &JsonOptions::parse(options).unwrap());
    let pojo = text(
        "longs=text@total;floats=float@com.acme.Order.weight;dates=millis@at;enums=object@color;big-numbers=text@amount",
        "pojo",
    );
    for part in [
        r#""total":"9007199254740993""#,
        r#""weight":99.8,"#,
        r#""at":1700000000123"#,
        r#""color":{"name":"GREEN"}"#,
        r#""amount":"1234567890.12345678901234567890""#,
        // A long of another name.
        r#""extra":{"k":1}"#,
    ] {
        assert!(pojo.contains(part), "{part}: {pojo}");
    }
    // The options of a field hold for what is inside it, and those of a map by its keys.
    assert!(text("longs=text@extra", "pojo").contains(r#""extra":{"k":"1"}"#));
    assert!(text("longs=text@l", "map-linked").contains(r#""l":["1","2"]"#));
    let other = text("floats=float@com.acme.Item.weight", "pojo");
    assert!(other.contains("99.80000305175781"), "{other}");
    assert!(text("longs=text", "longs").starts_with(r#"["0","-8","15""#));
    assert!(text("longs=text", "ints").starts_with("[0,-16,47"));
}

#[test]
fn a_declared_float_is_written_as_a_float() {
    let mut message = Vec::new();
    hessian::write_double(&mut message, f64::from(99.8f32));
    for (ty, expected) in [("float", "99.8"), ("double", "99.80000305175781")] {
        let (mut out, ty) = (Vec::new(), JavaType::parse(ty).unwrap());
        let mut decoder = Decoder::new(&message, Limits::default());
        hessian_to_json_as(&mut decoder, Some(&ty), &mut out, &JsonOptions::default()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

#[test]
fn a_cycle_is_an_error_that_names_it() {
    for name in ["cycle", "cycle-2", "cycle-list", "cycle-map", "cycle-pojo"] {
        let bytes = load("lite3", name);
        let mut out = Vec::new();
        let mut decoder = Decoder::new(&bytes, Limits::default());
        let error = hessian_to_json(&mut decoder, &mut out, &JsonOptions::default()).unwrap_err();
        assert!(matches!(error, TranscodeError::Cycle { index: 0, .. }), "{name}: {error}");
    }
}
