use std::time::Instant;

use bytes::BytesMut;
use dubbo_proto::{Serialization, ServerConfig, ServerConnection, ServerEvent};
use hessian::transcode::{JsonOptions, hessian_to_json};
use hessian::{Decoder, Encoder, JavaType, Limits, Value};
use jsonb::jsonb_to_json;
use proptest::prelude::*;

use super::super::arguments::JsonArguments;
use super::super::generic::{GenericCall, Mode};
use super::*;
use crate::config::http_app::method::Classes;
use crate::error::Code;

/// The plain JSON of the one argument of a recorded generic call.
fn recorded(frame: &[u8]) -> (String, Mode) {
    let now = Instant::now();
    let mut server = ServerConnection::new(ServerConfig::default(), now);
    server.handle_bytes(now, &mut BytesMut::from(frame)).unwrap();
    let Some(ServerEvent::Request { request, .. }) = server.poll_event() else {
        panic!("no request")
    };
    let serialization = request.serialization();
    let raw =
        JsonArguments::raw(serialization, request.args(), 3, &JsonOptions::default()).unwrap();
    let target = GenericCall::read(&raw).unwrap();
    let mode = Mode::of_attachment(Some("bean")).unwrap();
    let mode = mode.fitting(target.array, serialization).unwrap();
    let [argument] = super::super::arguments::elements(target.array).unwrap()[..] else {
        panic!("one argument")
    };
    (String::from_utf8(mode.argument(argument).unwrap().into_owned()).unwrap(), mode)
}

macro_rules! vector {
    ($name:literal) => {
        include_bytes!(concat!("../../../../../dubbo-proto/vectors/", $name, "_request.bin"))
    };
}

#[test]
fn reads_what_java_wrote() {
    let new = vector!("java32_hessian2_generic_bean_person");
    let old = vector!("java26_hessian2_generic_bean_person");
    let jsonb = vector!("java32_fastjson2_generic_bean_person");
    for (frame, class) in [(&new[..], CLASS), (&old[..], OLD_CLASS), (&jsonb[..], CLASS)] {
        let (text, mode) = recorded(frame);
        assert_eq!(mode, Mode::Bean(class));
        let person: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(person["class"], "org.dubmesh.interop.Person", "{text}");
        assert_eq!(person["color"], "GREEN");
        assert_eq!(person["address"]["zip"], 12345);
        assert_eq!(person["address"]["class"], "org.dubmesh.interop.Address");
        assert_eq!(person["counts"], serde_json::json!({"one": 1, "many": 1_000_000}));
        assert!(person["friends"][0]["name"].is_string(), "{text}");
        assert!(text.contains("\"balance\":12345678901234567890."), "{text}");
    }
}

fn classes() -> Classes {
    let mut classes = Classes::default();
    let fields = [
        ("born", "java.util.Date"),
        ("color", "com.acme.Color"),
        ("id", "long"),
        ("balance", "java.math.BigDecimal"),
        ("day", "java.time.LocalDate"),
        ("key", "java.util.UUID"),
        ("bytes", "byte[]"),
        ("names", "java.lang.String[]"),
        ("days", "java.util.Map<java.lang.Integer,java.time.LocalDate>"),
        ("friends", "java.util.Set<com.acme.User>"),
    ];
    let fields = fields.map(|(field, ty)| (field.into(), JavaType::parse(ty).unwrap()));
    classes.add("com.acme.User", Vec::new(), fields.into());
    classes
}

/// A descriptor as JSON, with the names of classes.
fn described(json: &str, ty: &str, serialization: Serialization) -> String {
    let ty = (!ty.is_empty()).then(|| JavaType::parse(ty).unwrap());
    let mut bytes = Vec::new();
    let mut objects = serialization.values().unwrap().objects(&mut bytes).unwrap();
    describe(json.as_bytes(), ty.as_ref(), &classes(), CLASS, &mut *objects).unwrap();
    drop(objects);
    let options = JsonOptions { class_name: true, ..JsonOptions::default() };
    let mut out = Vec::new();
    match serialization {
        Serialization::Fastjson2 => {
            let mut decoder = jsonb::Decoder::new(&bytes, Limits::default());
            jsonb_to_json(&mut decoder, &mut out, &options).unwrap();
            decoder.finish().unwrap();
        }
        _ => {
            let mut decoder = Decoder::new(&bytes, Limits::default());
            hessian_to_json(&mut decoder, &mut out, &options).unwrap();
        }
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn what_is_described_reads_as_it_was() {
    let user = r#"{"class":"com.acme.User","name":"Ann","age":7,"id":7,"born":"2024-02-29T00:00:00.000Z","color":"RED","balance":12345678901234567890.10,"day":"2024-02-29","key":"5a1b3b1e-9c1f-4a53-8c8b-0123456789ab","bytes":"AQL/","names":["a",null],"days":{"1":"2024-02-29"},"friends":[{"class":"com.acme.User","name":"Ben"}],"other":{"a":[1,"x",1.5,true,null]}}"#;
    for (json, ty) in [
        (user, "com.acme.User"),
        (user, ""),
        ("[1,\"x\"]", ""),
        ("7", "long"),
        ("\"RED\"", "com.acme.Color"),
        ("[[1],[2]]", "int[][]"),
        ("null", "com.acme.User"),
        ("{\"a\":{\"b\":[]}}", "java.lang.Object"),
        ("[\"2024-02-29\"]", "java.util.List<java.time.LocalDate>"),
    ] {
        for serialization in [Serialization::Hessian2, Serialization::Fastjson2] {
            let descriptor = described(json, ty, serialization);
            let text = plain(descriptor.as_bytes())
                .unwrap_or_else(|error| panic!("{json} {serialization:?}: {error}; {descriptor}"));
            assert_eq!(String::from_utf8(text).unwrap(), json, "{serialization:?}: {descriptor}");
        }
    }
}

#[test]
fn descriptors_are_as_java_makes_them() {
    let hessian = |json: &str, ty: &str| described(json, ty, Serialization::Hessian2);
    let of = |class: &str, ty: u32, properties: &str| {
        let comma = if properties.is_empty() { "" } else { "," };
        format!(
            r#"{{"class":"{CLASS}","className":"{class}","type":{ty},"properties":{{"class":"java.util.LinkedHashMap"{comma}{properties}}}}}"#
        )
    };
    let value = |class: &str, value: &str| of(class, 6, &format!("\"value\":{value}"));
    let int = |number: i32| value("java.lang.Integer", &number.to_string());
    assert_eq!(hessian("7", "int"), int(7));
    assert_eq!(hessian("7", ""), int(7));
    assert_eq!(hessian("7", "java.lang.Short"), value("java.lang.Short", "7"));
    assert_eq!(hessian("5000000000", ""), value("java.lang.Long", "5000000000"));
    assert_eq!(
        hessian("0.1234567890123456789", ""),
        value("java.math.BigDecimal", "0.1234567890123456789")
    );
    assert_eq!(hessian("\"x\"", "java.lang.Object"), value("java.lang.String", "\"x\""));
    assert_eq!(hessian("\"RED\"", "com.acme.Color"), of("com.acme.Color", 2, "\"name\":\"RED\""));
    assert_eq!(hessian("[7]", ""), of("java.util.ArrayList", 3, &format!("\"0\":{}", int(7))));
    assert_eq!(hessian("[]", "java.util.Set<int>"), of("java.util.LinkedHashSet", 3, ""));
    assert_eq!(hessian("[null]", "com.acme.User[][]"), of("[Lcom.acme.User;", 5, "\"0\":null"));
    assert_eq!(hessian("{}", "com.acme.User"), of("com.acme.User", 7, ""));
    assert_eq!(hessian("{\"x\":null}", "com.acme.User"), of("com.acme.User", 7, ""));
    assert_eq!(hessian("{\"class\":\"java.util.TreeMap\"}", ""), of("java.util.TreeMap", 4, ""));
    let date = r#"{"class":"java.util.Date","value":0}"#;
    assert_eq!(hessian(date, ""), value("java.util.Date", "\"1970-01-01T00:00:00.000Z\""));
}

#[test]
fn descriptors_that_mean_nothing_are_refused() {
    let of = |rest: &str| format!("{{\"class\":\"{CLASS}\"{rest}}}");
    for (text, said) in [
        ("7".to_owned(), "takes only JavaBeanDescriptor and null"),
        ("{}".to_owned(), "takes only JavaBeanDescriptor and null"),
        (r#"{"class":"com.acme.User"}"#.to_owned(), "takes only JavaBeanDescriptor and null"),
        (of(""), "has no className"),
        (of(r#","className":7"#), "has no className"),
        (of(r#","className":" ""#), "has no className"),
        (of(r#","className":"a.B""#), "of a.B is of type 0"),
        (of(r#","className":"a.B","type":8"#), "of a.B is of type 8"),
        (of(r#","className":"a.B","type":-1"#), "of a.B is of type -1"),
        (of(r#","className":"a.B","type":"7""#), "of a.B is of type \"7\""),
        (of(r#","className":"a.B","type":7"#), "of a.B has no properties"),
        (of(r#","className":"a.B","type":7,"properties":null"#), "of a.B has no properties"),
        (of(r#","className":"a.B","type":7,"properties":[]"#), "of a.B has no properties"),
        (of(r#","className":"a.B","type":6,"properties":{}"#), "of a.B has no property value"),
        (of(r#","className":"a.B","type":2,"properties":{}"#), "of a.B has no property name"),
        (of(r#","className":"a.B","type":1,"properties":{"name":7}"#), "is not a string"),
        (of(r#","className":"a.B","type":3,"properties":{"-1":null}"#), "index \"-1\" is invalid"),
        (of(r#","className":"a.B","type":3,"properties":{"1":null}"#), "index \"1\" is invalid"),
        (of(r#","className":"a.B","type":5,"properties":{"0":null,"0":null}"#), "or repeated"),
        (
            of(r#","className":"a.B","type":5,"properties":{"99999999999999999999":1}"#),
            "is invalid",
        ),
        (
            of(&format!(r#","className":"a.B","type":7,"properties":{{"x":{}}}"#, of(""))),
            "has no className",
        ),
    ] {
        let error = plain(text.as_bytes()).unwrap_err();
        assert_eq!(error.code, Code::BadArguments, "{text}");
        assert!(error.message.contains(said), "{text}: {error}");
    }
}

#[test]
fn loops_and_depth_are_refused_and_repetition_is_not() {
    let descriptor = |ty, properties| {
        Value::object(
            CLASS,
            vec![
                ("className", Value::string("a.B")),
                ("type", Value::Int(ty)),
                ("properties", Value::map(properties)),
            ],
        )
    };
    let read = |value: Value| {
        let mut bytes = Vec::new();
        Encoder::new(&mut bytes).value(&value);
        let raw = JsonArguments::raw(Serialization::Hessian2, &bytes, 1, &JsonOptions::default())?;
        plain(raw.at(0).unwrap()).map(|text| String::from_utf8(text).unwrap())
    };
    // The outermost value is number 0, its map 1.
    let own = read(descriptor(7, vec![(Value::string("x"), Value::Ref(0))]));
    assert!(own.unwrap_err().message.contains("contains itself"));
    let leaf = descriptor(6, vec![(Value::string("value"), Value::Int(7))]);
    let twice = vec![(Value::Int(0), leaf.clone()), (Value::Int(1), Value::Ref(2))];
    assert_eq!(read(descriptor(3, twice)).unwrap(), "[7,7]");
    let long = Value::string(&"x".repeat(1 << 20));
    let long = descriptor(6, vec![(Value::string("value"), long)]);
    let bomb = (1..20).map(|index| (Value::Int(index), Value::Ref(2)));
    let bomb = [(Value::Int(0), long)].into_iter().chain(bomb).collect();
    assert!(read(descriptor(3, bomb)).unwrap_err().message.contains("of over 16777216 bytes"));
    let deep = (0..100).fold(leaf, |inner, _| descriptor(3, vec![(Value::Int(0), inner)]));
    let error = read(deep).unwrap_err();
    assert!(error.message.contains("deep"), "{error}");
}

/// Any JSON value, but for members that name a class.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let name = any::<String>().prop_filter("names a class", |name| name != "class");
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            proptest::collection::btree_map(name, inner, 0..6)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

proptest! {
    /// What is described without a type is the same value again.
    #[test]
    fn any_value_reads_as_it_was(value in any_json()) {
        for serialization in [Serialization::Hessian2, Serialization::Fastjson2] {
            let descriptor = described(&value.to_string(), "", serialization);
            let text = plain(descriptor.as_bytes()).unwrap();
            let read: serde_json::Value = serde_json::from_slice(&text).unwrap();
            prop_assert_eq!(&read, &value, "{}", descriptor);
        }
    }

    /// What becomes of a broken descriptor is an error or JSON.
    #[test]
    fn broken_descriptors_do_no_harm(
        value in any_json(),
        places in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut descriptor = described(&value.to_string(), "", Serialization::Hessian2).into_bytes();
        for (place, byte) in places {
            let index = place.index(descriptor.len());
            descriptor[index] = byte;
        }
        if let Ok(text) = plain(&descriptor) {
            let mut reader = hessian::json::JsonReader::new(&text, Limits::default());
            prop_assert!(reader.skip_value().is_ok() && reader.finish().is_ok());
        }
    }
}
