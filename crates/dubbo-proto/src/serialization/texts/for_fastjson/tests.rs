use std::borrow::Cow;

use java_json::InputOptions;
use java_json::json::items_read_by;

use super::super::Framing;
use super::super::values::JsonValues;
use super::*;
use crate::values::{Argument, Arguments, GenericHead, ValueCodec};

struct One<'a>(&'a str, Option<JavaType>);

impl Arguments for One<'_> {
    fn count(&self) -> usize {
        1
    }

    fn ty(&self, _index: usize) -> Option<&JavaType> {
        self.1.as_ref()
    }

    fn at(&self, _index: usize, _ty: Option<&JavaType>) -> Argument<'_> {
        Argument::Json(Cow::Borrowed(self.0.as_bytes()))
    }
}

/// A class with fields, and an enum.
struct Shop(Vec<(&'static str, JavaType)>, Vec<Box<str>>);

impl Shop {
    fn new() -> Self {
        let field = |(name, ty)| (name, JavaType::parse(ty).unwrap());
        let fields = [
            ("at", "java.util.Date"),
            ("photo", "byte[]"),
            ("color", "a.Color"),
            ("times", "java.util.List<java.sql.Timestamp>"),
            ("owner", "a.Shop"),
            ("year", "java.time.Year"),
            ("tags", "java.util.Map<java.lang.String, byte[]>"),
        ];
        Self(fields.map(field).into(), ["RED".into(), "GREEN".into()].into())
    }
}

impl Schema for Shop {
    fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
        self.0.iter().find(|(name, _)| class == "a.Shop" && *name == field).map(|(_, ty)| ty)
    }

    fn knows_arguments(&self, class: &str) -> bool {
        class == "a.Page<a.Shop>"
    }

    fn enum_names(&self, class: &str) -> Option<&[Box<str>]> {
        (class == "a.Color").then_some(&self.1)
    }

    fn is_enum(&self, class: &str) -> Option<bool> {
        ["a.Shop", "a.Color"].contains(&class).then_some(class == "a.Color")
    }
}

const VALUES: JsonValues = JsonValues { framing: Framing::Lines, is_dialect: false };

fn sent_by(
    text: &str,
    ty: Option<&str>,
    schema: &dyn Schema,
    refs: bool,
) -> Result<String, String> {
    let one = One(text, ty.map(|ty| JavaType::parse(ty).unwrap()));
    let options = InputOptions { schema, refs, ..InputOptions::default() };
    let mut out = Vec::new();
    VALUES.write_args(&one, None, &options, &mut out).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

fn sent(text: &str, ty: &str) -> String {
    sent_by(text, Some(ty), &Shop::new(), false).unwrap_or_else(|error| error)
}

fn sent_generic(text: &str, refs: bool) -> Result<String, String> {
    sent_generic_by(text, None, &(), refs)
}

fn sent_generic_by(
    text: &str,
    ty: Option<&str>,
    schema: &dyn Schema,
    refs: bool,
) -> Result<String, String> {
    let options = InputOptions { schema, refs, as_maps: true, ..InputOptions::default() };
    let mut out = Vec::new();
    let head = GenericHead { method: "m", types: None };
    let one = One(text, ty.map(|ty| JavaType::parse(ty).unwrap()));
    VALUES.write_args(&one, Some(head), &options, &mut out).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

/// Its own `{"@type":"java.util.Date","val":5}` would be a `Date` there, and `{"$ref":"$"}` a
/// cycle, wherever an object may stand.
#[test]
fn names_that_fastjson_takes_for_its_own_are_refused() {
    let objects = [
        r#"{"@type":"java.util.Date","val":5}"#,
        r#"{"val":5,"@type":"java.util.Date"}"#,
        r#"{"\u0040type":"java.util.Date","val":5}"#,
        r#"{"@type":1}"#,
        r#"{"$ref":"$"}"#,
        r#"{"a":1,"\u0024ref":null}"#,
    ];
    let places = ["java.lang.Object", "java.util.Map<java.lang.String,java.lang.Object>", "a.Shop"];
    for object in objects {
        for ty in places {
            for text in [object.to_owned(), format!("{{\"tags\":null,\"x\":[1,{object}]}}")] {
                let error = sent_by(&text, Some(ty), &Shop::new(), false).unwrap_err();
                assert!(error.contains("fastjson takes the names"), "{ty} {text}: {error}");
                assert!(error.starts_with("argument 0 ("), "{error}");
            }
        }
        let named = format!(r#"{{"class":"a.Other","x":{object}}}"#);
        for text in [object, &named, &format!(r#"{{"class":"java.util.TreeMap","a":{object}}}"#)] {
            sent_by(text, None, &(), false).unwrap_err();
            sent_generic(text, false).unwrap_err();
            VALUES.write_value(text.as_bytes(), None, &(), &mut Vec::new()).unwrap_err();
        }
    }
    let error = sent(r#"[{},{"a":{"@type":"x"}}]"#, "java.util.List<java.lang.Object>");
    assert!(error.contains("JSON at byte 18 ($[1].a.@type): "), "{error}");
    let plain = r#"{"type":"@type","@":"$ref","$":{"@types":1,"$Ref":2}}"#;
    assert_eq!(sent(plain, "java.lang.Object"), plain);
}

/// Where references were asked for, only these are sent.
#[test]
fn references_that_were_asked_for_are_sent() {
    let text = r#"{"a":[1],"b":{"$ref":"$.a"}}"#;
    assert_eq!(sent_by(text, Some("java.lang.Object"), &(), true).as_deref(), Ok(text));
    assert_eq!(sent_by(text, None, &(), true).as_deref(), Ok(text));
    // There the arguments are elements of an array.
    let generic = "\"m\"\nnull\n[{\"a\":[1],\"b\":{\"$ref\":\"$[0].a\"}}]";
    assert_eq!(sent_generic(text, true).as_deref(), Ok(generic));
    for text in [
        r#"{"a":[1],"b":{"$ref":"$.c"}}"#,
        r#"{"a":[1],"b":{"$ref":"$.a","x":1}}"#,
        r#"{"a":[1],"b":{"x":1,"$ref":"$.a"}}"#,
        r#"{"a":[1],"b":{"$ref":1}}"#,
        r#"{"@type":"a.B"}"#,
    ] {
        sent_by(text, Some("java.lang.Object"), &(), true).unwrap_err();
        sent_generic(text, true).unwrap_err();
    }
}

/// What fastjson 1.2.83 reads was tried out: `interop` has the same calls.
#[test]
fn values_have_the_form_that_fastjson_reads() {
    let fine = r#""2024-02-29T13:05:59.123456789Z""#;
    for (ty, text, expected) in [
        ("java.util.Date", fine, "1709211959123"),
        ("java.util.Date", r#""2024-02-29""#, "1709164800000"),
        ("java.util.Date", r#"{"class":"java.util.Date","value":0}"#, "0"),
        ("java.util.Date", r#"{"class":"java.sql.Timestamp", "value": "1970-01-01"} "#, "0"),
        ("java.sql.Timestamp", fine, "1709211959123"),
        ("java.util.Calendar", fine, "1709211959123"),
        ("byte[]", "[1, 200]", r#""Acg=""#),
        ("byte[]", r#""Acg""#, r#""Acg""#),
        ("byte[][]", "[[1],\n[-1],null]", r#"["AQ==","/w==",null]"#),
        ("int[]", "[1, 200]", "[1, 200]"),
        ("a.Color", r#"{"class":"a.Color","name":"RED"}"#, r#""RED""#),
        ("a.Color", r#"{"name":"RED"}"#, r#""RED""#),
        ("a.Color", r#""RED""#, r#""RED""#),
        ("b.Color", r#"{"class":"b.Color","name":"RED"}"#, r#""RED""#),
        ("b.Item", r#"{"class":"b.Item","name":"Red"}"#, r#"{"class":"b.Item","name":"Red"}"#),
        ("java.util.Optional<java.util.Date>", r#""1970-01-01""#, "0"),
        ("java.lang.Object", r#"{"n":1,"class":"a.Page<a.Shop>"}"#, r#"{"class":"a.Page","n":1}"#),
        ("java.time.LocalDateTime", r#""0001-01-01T00:00""#, r#""0001-01-01T00:00:00""#),
        ("java.time.LocalDateTime", r#""2024-02-29T13:05:59""#, r#""2024-02-29T13:05:59""#),
        (
            "java.util.List<java.time.LocalDateTime>",
            r#"["2024-02-29T13:05:59.5","+12024-01-01T00:00:00.123456789",null]"#,
            r#"["2024-02-29T13:05:59.500000000","+12024-01-01T00:00:00.123456789",null]"#,
        ),
        ("java.time.LocalTime", r#""13:05:59.5""#, r#""13:05:59.5""#),
        ("float", "1e-50", "0.0"),
        ("float", "-1e-400", "-0.0"),
        ("java.lang.Float", "1.50", "1.50"),
        ("java.util.Locale", r#" "zh_CN" "#, r#" "zh_CN""#),
        ("java.lang.Number", "9223372036854775807", "9223372036854775807"),
        ("java.lang.Object", r#"{"class":"java.util.Date","value":0}"#, "0"),
        (
            "java.util.Map<java.lang.String, java.util.Date>",
            r#"{ "class":"java.util.TreeMap", "a" : "1970-01-01" , "b":1 }"#,
            r#"{"a":0,"b":1}"#,
        ),
        (
            "java.lang.Object",
            r#"{"class":"java.util.HashMap<java.lang.String, byte[]>","value":{"class":[1]}}"#,
            r#"{"class":"AQ=="}"#,
        ),
        (
            "java.util.List<a.Shop>",
            r#"[{"at":"1970-01-01","photo":[1],"color":{"class":"a.Color","name":"GREEN"},
"times":["1970-01-01",{"class":"java.sql.Timestamp","value":1}],"n":1.50,
"owner":{"at":{"value":7,"class":"java.util.Date"},"tags":{"a":[2]}}}]"#,
            r#"[{"at":0,"photo":"AQ==","color":"GREEN","times":[0,1],"n":1.50,"owner":{"at":7,"tags":{"a":"Ag=="}}}]"#,
        ),
    ] {
        assert_eq!(sent(text, ty), expected, "{ty} {text}");
        let (ty, mut out) = (JavaType::parse(ty).unwrap(), Vec::new());
        VALUES.write_value(text.as_bytes(), Some(&ty), &Shop::new(), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected, "an answer: {text}");
    }
}

/// What `PojoUtils` of Dubbo 2.7.23 and 3.3.6 makes of the maps, texts and numbers that fastjson
/// reads was tried out.
#[test]
fn values_of_a_generic_call_have_the_form_that_dubbo_reads() {
    let sent = |text: &str, ty: Option<&str>| {
        let sent = sent_generic_by(text, ty, &Shop::new(), false).unwrap();
        sent.strip_prefix("\"m\"\nnull\n[").unwrap().strip_suffix(']').unwrap().to_owned()
    };
    let timestamp = r#"{"class":"java.sql.Timestamp","time":0}"#;
    for (ty, text, expected) in [
        ("java.util.Date", r#""1970-01-01""#, r#"{"class":"java.util.Date","time":0}"#),
        ("java.sql.Timestamp", "0", timestamp),
        ("java.util.Date", r#"{"class":"java.sql.Timestamp","value":0}"#, timestamp),
        ("java.util.Calendar", "5", r#"{"class":"java.util.GregorianCalendar","timeInMillis":5}"#),
        ("java.time.LocalDateTime", r#""2024-02-29T13:05:00""#, r#""2024-02-29T13:05""#),
        ("java.math.BigDecimal", "9007199254740993", "9007199254740993E0"),
        ("java.math.BigDecimal", "-100", "-100E0"),
        ("java.math.BigDecimal", "1e3", "1e3"),
        ("java.math.BigDecimal", "19.90", "19.90"),
        ("java.math.BigInteger", "12345678901234567890", "12345678901234567890"),
        ("java.lang.String", "19.90", r#""19.90""#),
        ("java.lang.Long", r#""7""#, "7"),
        ("int", "7.0e0", "7"),
        ("byte[]", r#""Af8=""#, "[1,-1]"),
        ("byte[]", "[1, 200]", "[1,-56]"),
        ("java.util.Optional<java.lang.Long>", "5", r#"{"value":5}"#),
        ("java.util.Optional<a.Shop>", "null", "null"),
        ("java.util.OptionalInt", "5", r#"{"isPresent":true,"value":5}"#),
        (
            "java.util.List<java.util.OptionalLong>",
            "[null,5]",
            r#"[null,{"isPresent":true,"value":5}]"#,
        ),
        ("a.Color", r#""RED""#, r#"{"class":"a.Color","name":"RED"}"#),
        ("a.Color", r#"{"name":"RED"}"#, r#"{"class":"a.Color","name":"RED"}"#),
        ("a.Color", r#"{"class":"a.Color","value":"RED"}"#, r#"{"class":"a.Color","name":"RED"}"#),
        ("java.lang.CharSequence", r#""a""#, r#""a""#),
        ("java.time.Year", "2024", "2024"),
        (
            "java.lang.Object",
            r#"{"class":"a.Shop","at":0,"n":1.50}"#,
            r#"{"class":"a.Shop","at":{"class":"java.util.Date","time":0},"n":1.50}"#,
        ),
        (
            "a.Shop[]",
            r#"[{"owner":{"class":"a.Mall","at":"1970-01-01"},"color":"RED"},{}]"#,
            r#"[{"class":"a.Shop","owner":{"class":"a.Mall","at":{"class":"java.util.Date","time":0}},"color":{"class":"a.Color","name":"RED"}},{"class":"a.Shop"}]"#,
        ),
        (
            "java.util.Map<java.lang.String, java.math.BigDecimal>",
            r#"{"class":"java.util.TreeMap","a":1234567890123456}"#,
            r#"{"a":1234567890123456E0}"#,
        ),
        ("java.lang.Object", r#"{"class":"java.io.File","value":"x"}"#, r#""x""#),
    ] {
        assert_eq!(sent(text, Some(ty)), expected, "{ty} {text}");
    }
    for text in ["1.5", "9007199254740993", r#"{"a":"2024-02-29","b":[1e3]}"#] {
        assert_eq!(sent(text, None), text);
    }
    // An object that is a reference has no class.
    let text = r#"[{"at":null},{"$ref":"$[0]"}]"#;
    let sent = sent_generic_by(text, Some("java.util.List<a.Shop>"), &Shop::new(), true);
    let expected = "\"m\"\nnull\n[[{\"at\":null},{\"$ref\":\"$[0][0]\"}]]";
    assert_eq!(sent.as_deref(), Ok(expected));
}

#[test]
fn what_fastjson_cannot_read_is_refused() {
    for (ty, text) in [
        ("java.time.Year", "2024"),
        ("java.time.YearMonth", r#""2024-02""#),
        ("java.time.MonthDay", r#""--02-29""#),
        ("java.time.ZoneOffset", r#""+01:00""#),
        ("java.lang.CharSequence", r#""a""#),
        ("java.util.GregorianCalendar", "0"),
        ("java.util.EnumSet<a.Color>", r#"["RED"]"#),
        ("java.util.EnumMap<a.Color,java.lang.Integer>", r#"{"RED":1}"#),
        ("java.lang.Iterable<java.lang.Integer>", "[1]"),
        ("java.lang.Number", "9223372036854775808"),
        ("java.util.Locale", "\"\""),
        ("java.util.BitSet", r#"{"words":[5]}"#),
        ("java.lang.Class", "\"void\""),
    ] {
        let error = sent(text, ty);
        assert!(error.contains(": JSON at byte 0 ($): fastjson reads no java."), "{ty}: {error}");
        let null = sent_by("null", Some(ty), &(), false);
        assert_eq!(null.as_deref(), Ok("null"), "{ty}");
    }
    sent_by(r#"[{"class":"java.util.BitSet","words":[5]}]"#, None, &(), false).unwrap_err();
    assert_eq!(sent(r#""java.lang.String[]""#, "java.lang.Class"), r#""[Ljava.lang.String;""#);
    let error = sent_generic("[1e400,1E+3000000000]", false).unwrap_err();
    assert!(error.contains("byte 7: 1E+3000000000 is not a java.math.BigDecimal"), "{error}");
    // It reads an `EnumMap` in a list or field.
    let list = "java.util.List<java.util.EnumMap<a.Color,java.lang.Integer>>";
    assert_eq!(sent(r#"[{"RED":1}]"#, list), r#"[{"RED":1}]"#);
    let error = sent(r#"{"owner":{"year": 2024}}"#, "a.Shop");
    let place =
        "argument 0 (a.Shop): JSON at byte 18 ($.owner.year): fastjson reads no java.time.Year";
    assert!(error.starts_with(place), "{error}");
    // It would make a shop of it, and drop what a mall has more.
    let error = sent(r#"{"owner":{"class": "a.Mall", "floors": 3}}"#, "a.Shop");
    let both = "($.owner): fastjson reads no a.Mall where a.Shop is declared";
    assert!(error.contains(both), "{error}");
    let same = r#"{"owner":{"class":"a.Shop"}}"#;
    assert!(sent_by(same, Some("a.Shop"), &Shop::new(), false).is_ok());
}

/// fastjson makes null of them, and of the object that they stand in.
#[test]
fn what_is_no_value_of_its_type_is_refused() {
    for (ty, text) in [
        ("java.lang.Number", r#""x""#),
        ("java.lang.Number", "true"),
        ("java.lang.Number", "[1]"),
        ("java.lang.Number", r#"{"x":1}"#),
        ("java.lang.Number", r#"{"class":"java.util.Date","value":0}"#),
        ("java.lang.Number", r#"{"class":"a.Fraction","value":0}"#),
        ("java.lang.Number", r#"{"class":"boolean","value":true}"#),
        ("java.util.Date", r#"{"class":"java.lang.Integer","value":5}"#),
        ("java.util.Date", r#"{"class":"a.Moment","time":5}"#),
        ("java.util.Date", r#"{"class":"a.Color","name":"RED"}"#),
        ("java.util.UUID", r#"{"class":"java.lang.Integer","value":5}"#),
        ("java.util.Locale", r#"{"class":"java.util.HashMap","a":1}"#),
        ("java.util.Set<java.lang.Short>", r#"{"class":"java.util.Date","value":0}"#),
        ("java.util.Set<java.lang.Short>", r#"{"class":"a.Names","value":[]}"#),
        ("a.Mall", r#"{"class":"java.lang.Integer","value":5}"#),
        ("a.Color", r#"{"class":"java.lang.Integer","value":5}"#),
        ("a.Shop", r#"{"class":"a.Color","name":"RED"}"#),
        ("a.Shade", r#"{"class":"b.Color","name":"RED"}"#),
        ("a.Color", "{}"),
        ("a.Color", r#"{"x":1}"#),
        ("a.Color", r#"{"name":"RED","x":1}"#),
        ("a.Color", r#"{"name":"GREY"}"#),
    ] {
        let list = (format!("[{text}]"), format!("java.util.List<{ty}>"));
        for (text, ty) in [(text, ty), (&list.0, &list.1)] {
            let refused = sent_by(text, Some(ty), &Shop::new(), false);
            assert!(refused.is_err(), "{ty} {text}: {refused:?}");
        }
    }
    for (ty, text, expected) in [
        ("java.lang.Number", r#"{"class":"java.lang.Byte","value":5}"#, "5"),
        ("java.lang.Number", r#"{"class":"double","value":1.50}"#, "1.50"),
        ("java.lang.Number", r#""5""#, r#""5""#),
        ("java.lang.Number", "null", "null"),
        ("a.Color", r#"{"class":"a.Color","value":"RED"}"#, r#""RED""#),
        ("java.lang.Object", r#"{"class":"a.Color","value":"RED"}"#, r#""RED""#),
        ("java.util.List<int>", r#"{"class":"java.util.LinkedList","value":[1]}"#, "[1]"),
    ] {
        assert_eq!(sent(text, ty), expected, "{ty} {text}");
    }
    let text = r#"{"a":[1],"b":{"$ref":"$.a"}}"#;
    let ty = "java.util.Map<java.lang.String,java.util.List<java.lang.Long>>";
    assert_eq!(sent_by(text, Some(ty), &(), true).as_deref(), Ok(text));
}

/// 60 objects inside one another, each with a class.
#[test]
fn nothing_is_looked_through_at_every_level() {
    let (ty, known) = (JavaType::parse("a.B").unwrap(), TextContext { schema: &(), refs: false });
    let text = "{\"class\":\"a.B\",\"x\":".repeat(60) + "7" + &",\"y\":0}".repeat(60);
    let mut out = Vec::new();
    let n_read = items_read_by(|| {
        write(text.as_bytes(), Some(&ty), known, &mut out).unwrap();
    });
    assert_eq!(out, text.as_bytes());
    // When it is passed, looked through and written: three members each.
    assert!(n_read <= 3 * 3 * 60, "{n_read}");
}

/// fastjson makes null of the others.
#[test]
fn times_have_seconds_and_offsets_a_colon() {
    for (ty, json, expected) in [
        ("OffsetDateTime", "2024-02-29T13:05:59.5+0800", "2024-02-29T13:05:59.500+08:00"),
        ("OffsetTime", "13:05+08", "13:05+08:00"),
        ("ZonedDateTime", "2024-02-29T13:05+0800", "2024-02-29T13:05+08:00"),
        ("ZonedDateTime", "2024-02-29T13:05+08:00[UTC+8]", "2024-02-29T13:05+08:00[UTC+08:00]"),
        ("Instant", "2024-02-29", "2024-02-29T00:00:00Z"),
        ("Instant", "2024-02-29T13:05", "2024-02-29T13:05:00Z"),
        ("Instant", "2024-02-29T13:05Z", "2024-02-29T13:05:00Z"),
        ("Instant", "2024-02-29 13:05:59", "2024-02-29T13:05:59Z"),
        ("Instant", "2024-02-29T13:05:59.5+0800", "2024-02-29T05:05:59.500Z"),
        ("Instant", "2024-02-29T13:05:59+08", "2024-02-29T05:05:59Z"),
    ] {
        let (mut out, ty) = (Vec::new(), JavaType::class(&format!("java.time.{ty}")));
        let known = TextContext { schema: &(), refs: false };
        write(format!("\"{json}\"").as_bytes(), Some(&ty), known, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("\"{expected}\""));
    }
}
