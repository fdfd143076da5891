//! What is called, subject by subject. None of it ends a test:
//! [`ProviderUnderTest`] keeps what went wrong.

use std::time::{Duration, Instant};

use interop_harness::DubboVersion;
use serde_json::Value;

use super::peer::ProviderUnderTest;
use crate::support::{HELLO, HttpResponse, encoded, java_hash, post};

const STRING: &str = "java.lang.String";

pub(crate) fn all_calls(peer: &mut ProviderUnderTest<'_>) {
    contest_form(peer);
    texts_and_numbers(peer);
    containers_and_objects(peer);
    overloads(peer);
    failures(peer);
    context(peer);
    sizes(peer);
    timeouts(peer);
}

fn contest_form(peer: &mut ProviderUnderTest<'_>) {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let random: Vec<u8> = (0..1023)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed.to_be_bytes()[0]
        })
        .collect();
    let ascii: String = random.iter().map(|byte| char::from(byte % 95 + b' ')).collect();
    let lossy = String::from_utf8_lossy(&random).into_owned();
    for (bytes, text) in [
        ("hello".as_bytes(), "hello"),
        ("grüß 你好 😀 \0\t\"\\&=+%".as_bytes(), "grüß 你好 😀 \0\t\"\\&=+%"),
        (b"", ""),
        (b"123", "123"),
        (ascii.as_bytes(), &ascii),
        (&random, &lossy),
    ] {
        let types = "Ljava%2Flang%2FString%3B";
        let fields = format!(
            "interface={HELLO}&method=hash&parameterTypesString={types}&parameter={}",
            encoded(bytes)
        );
        let answer = peer.form(&fields);
        let is_right = (answer.status, &answer.body) == (200, &java_hash(text).to_string());
        peer.check(&format!("hash of {text:?}"), &answer, is_right);
    }
    let plain = format!(
        "interface={HELLO}&method=hash&parameterTypesString=Ljava/lang/String;&parameter=abc"
    );
    let answer = peer.form(&plain);
    let is_right = (answer.status, &answer.body) == (200, &java_hash("abc").to_string());
    peer.check("a form that is not encoded", &answer, is_right);
}

fn texts_and_numbers(peer: &mut ProviderUnderTest<'_>) {
    peer.returns("text", STRING, "[\"hello\"]", "\"hello\"", true);
    peer.returns("text", STRING, "\"bare\"", "\"bare\"", true);
    peer.returns("text", STRING, "[\"\"]", "\"\"", true);
    peer.returns("text", STRING, "[null]", "null", true);
    let unicode = "[\"grüß 你好 😀 \\u0000\\t\\\"\\\\\"]";
    peer.returns("text", STRING, unicode, &unicode[1..unicode.len() - 1], true);
    for (method, ty, boxed) in [
        ("int8", "byte", "java.lang.Byte"),
        ("int16", "short", "java.lang.Short"),
        ("int32", "int", "java.lang.Integer"),
        ("int64", "long", "java.lang.Long"),
    ] {
        peer.returns(method, ty, "[-8]", "-8", true);
        peer.is_missing(method, boxed, "[-8]");
    }
    peer.returns("int32", "int", "[-2147483648]", "-2147483648", true);
    peer.returns("int64", "long", "[7000000000]", "7000000000", true);
    peer.returns("int64", "J", "[9007199254740993]", "9007199254740993", true);
    peer.returns("float32", "float", "[1.5]", "1.5", true);
    peer.returns("float64", "double", "[0.1]", "0.1", true);
    peer.returns("float64", "double", "[2]", "2.0", true);
    peer.returns("bool", "boolean", "[true]", "true", true);
    peer.returns("char16", "char", "[\"x\"]", "\"x\"", true);
    peer.returns("boxedBool", "java.lang.Boolean", "[false]", "false", true);
    peer.returns("boxedInt", "java.lang.Integer", "[300000]", "300000", true);
    peer.returns("boxedInt", "java.lang.Integer", "[null]", "null", true);
    peer.returns("boxedLong", "java.lang.Long", "[-5]", "-5", true);
    peer.returns("boxedDouble", "java.lang.Double", "[2.5]", "2.5", true);
    let decimal = "12345678901234567890.123456789";
    peer.returns("decimal", "java.math.BigDecimal", &format!("[{decimal}]"), decimal, true);
    let integer = "1000000000000000000000000000000";
    peer.returns("bigInteger", "java.math.BigInteger", &format!("[{integer}]"), integer, false);
    peer.returns("add", "int,int", "[2,3]", "5", true);
    peer.returns("add", "II", "[2,3]", "5", true);
}

pub(crate) fn containers_and_objects(peer: &mut ProviderUnderTest<'_>) {
    let fastjson = peer.is_fastjson();
    peer.returns("bytes", "byte[]", "[\"AAH/fw==\"]", "\"AAH/fw==\"", false);
    peer.returns("int32s", "int[]", "[[1,-2,3]]", "[1,-2,3]", true);
    peer.returns("int64s", "long[]", "[[1,1099511627776]]", "[1,1099511627776]", true);
    peer.returns("textArray", "java.lang.String[]", "[[\"a\",\"b\"]]", "[\"a\",\"b\"]", true);
    peer.returns("texts", "java.util.List", "[[\"one\",\"two\"]]", "[\"one\",\"two\"]", true);
    peer.returns("texts", "java.util.List", "[[]]", "[]", true);
    peer.returns("textSet", "java.util.Set", "[[\"one\"]]", "[\"one\"]", true);
    peer.returns("counts", "java.util.Map", "[{\"k\":1,\"l\":-2}]", "{\"k\":1,\"l\":-2}", true);
    let nested = "[{\"a\":[1,null,true,{\"b\":\"c\"}],\"d\":0.5}]";
    // 2.6 itself fails at a null inside of a map in a generic call.
    let takes_nulls = peer.version != DubboVersion::V2_6;
    peer.returns("anyMap", "java.util.Map", nested, &nested[1..nested.len() - 1], takes_nulls);
    let (instant, millis) = ("\"2020-09-13T12:26:40.123Z\"", "1600000000123");
    let shown = if fastjson { millis } else { instant };
    for date in [instant, millis] {
        peer.returns("date", "java.util.Date", &format!("[{date}]"), shown, false);
    }
    peer.returns("color", "org.dubmesh.interop.Color", "[\"BLUE\"]", "\"BLUE\"", true);
    let born = if fastjson { "946684799123" } else { "\"1999-12-31T23:59:59.123Z\"" };
    persons(peer, born);
    if !fastjson && !peer.is_fastjson2() {
        values_of_the_jdk_by_a_generic_call(peer);
    }
}

/// Java's generic filter tells of these by their getters, and takes no text for most of them.
fn values_of_the_jdk_by_a_generic_call(peer: &mut ProviderUnderTest<'_>) {
    for (method, class, value) in [
        ("localDate", "java.time.LocalDate", "\"2024-02-29\""),
        ("localTime", "java.time.LocalTime", "\"13:05:59.000000001\""),
        ("dateTime", "java.time.LocalDateTime", "\"2024-02-29T13:05:59.123\""),
        ("instant", "java.time.Instant", "\"1969-12-31T23:59:59.500Z\""),
        ("duration", "java.time.Duration", "\"PT-1.5S\""),
        ("offsetDateTime", "java.time.OffsetDateTime", "\"2024-02-29T13:05:59-03:30\""),
        ("uuid", "java.util.UUID", "\"123e4567-e89b-12d3-a456-426614174000\""),
        ("locale", "java.util.Locale", "\"zh_CN\""),
    ] {
        let generic = ["x-dubbo-generic: true"];
        let answer = peer.call(method, Some(class), &generic, &format!("[{value}]"));
        let is_same = (answer.status, &*answer.body) == (200, value);
        peer.check(&format!("{method} by a generic call"), &answer, is_same);
    }
}

/// The person that `makePerson` makes, as an argument: inside of an object Java takes no text for
/// dates, enums and decimals by hessian2, so that they have to say what they are.
fn alice(peer: &ProviderUnderTest<'_>) -> String {
    let (born, color, balance) = if peer.is_fastjson() || peer.is_fastjson2() {
        ("946684799123", "\"GREEN\"", "12345678901234567890.99")
    } else {
        (
            r#"{"class":"java.util.Date","value":"1999-12-31T23:59:59.123Z"}"#,
            r#"{"class":"org.dubmesh.interop.Color","name":"GREEN"}"#,
            r#"{"class":"java.math.BigDecimal","value":12345678901234567890.99}"#,
        )
    };
    format!(
        r#"{{"name":"Alice","age":30,"id":7000000000,"active":true,"score":1.5,
        "balance":{balance},"born":{born},"color":{color},
        "address":{{"street":"Main Street 1","city":"Springfield","zip":12345}},
        "friends":[{{"class":"org.dubmesh.interop.Person","name":"Bob","age":42}}],
        "counts":{{"one":1,"many":1000000}}}}"#
    )
}

fn persons(peer: &mut ProviderUnderTest<'_>, born: &str) {
    const PERSON: &str = "org.dubmesh.interop.Person";
    let made = peer.call("makePerson", Some("java.lang.String,int"), &[], "[\"Alice\",30]");
    let (born, green) = (serde_json::from_str::<Value>(born).ok(), peer.green());
    // As a map of a generic call, an enum is its name.
    let is_green = |color: &Value| *color == green || color == "GREEN";
    let is_alice = |answer: &HttpResponse| {
        let json: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        answer.status == 200
            && json["name"] == "Alice"
            && json["address"]["zip"] == 12345
            && json["friends"][0]["name"] == "Bob"
            && json["counts"]["many"] == 1_000_000
            && is_green(&json["color"])
            && Some(&json["born"]) == born.as_ref()
            && answer.body.contains("12345678901234567890.99")
    };
    peer.check("makePerson", &made, is_alice(&made));
    let alice = alice(peer);
    let same = peer.call("person", Some(PERSON), &[], &format!("[{alice}]"));
    peer.check("a full person", &same, is_alice(&same));

    let sparse = peer.call("person", Some(PERSON), &[], "[{\"name\":\"Zoe\",\"age\":1}]");
    let is_zoe = |answer: &HttpResponse| {
        let json: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        answer.status == 200 && json["name"] == "Zoe" && json["age"] == 1
    };
    peer.check("a sparse person", &sparse, is_zoe(&sparse));
    let generic = peer.call("person", None, &[], "[{\"name\":\"Zoe\",\"age\":1}]");
    peer.check("a sparse person, generic", &generic, is_zoe(&generic));

    let type_header = "java.util.List<org.dubmesh.interop.Person>";
    // The generic call of Dubbo 2.6 takes no null in a list.
    let more = if peer.version == DubboVersion::V2_6 { "" } else { ",null" };
    let people = peer.call("people", Some(type_header), &[], &format!("[[{alice}{more}]]"));
    let json: Value = serde_json::from_str(&people.body).unwrap_or_default();
    let is_right = people.status == 200
        && json[0]["friends"][0]["age"] == 42
        && is_green(&json[0]["color"])
        && json[1].is_null();
    peer.check("people", &people, is_right);
    let twins = peer.call("twins", Some(PERSON), &[], "[{\"name\":\"Zoe\",\"age\":1}]");
    let json: Value = serde_json::from_str(&twins.body).unwrap_or_default();
    let is_right = json[0]["name"] == "Zoe" && (json[1] == json[0] || json[1]["$ref"] == "$[0]");
    peer.check("twins", &twins, is_right);
}

fn overloads(peer: &mut ProviderUnderTest<'_>) {
    peer.returns("echo", STRING, "[\"x\"]", "\"String x\"", false);
    peer.returns("echo", "int", "[4]", "4", false);
    peer.returns("echo", "long", "[4]", "-4", false);
    peer.returns("echo", "double", "[4]", "2.0", false);
    peer.returns("echo", "java.util.List", "[[\"x\"]]", "[\"x\"]", false);
    peer.returns(
        "echo",
        "java.lang.String,java.lang.String",
        "[\"x\",\"y\"]",
        "\"x and y\"",
        false,
    );
    peer.refuses("echo", "[4]", &["echo", "x-dubbo-parameter-types"]);
}

fn failures(peer: &mut ProviderUnderTest<'_>) {
    // A reply in fastjson does not name the class.
    let named = |class: &'static str| if peer.is_fastjson() { "" } else { class };
    let business = [named("org.dubmesh.interop.BusinessException"), "no luck"];
    let unchecked = [named("java.lang.IllegalStateException"), "no state"];
    for types in [Some(STRING), None] {
        peer.fails(("fail", types, "[\"no luck\"]"), (500, "exception"), &business);
        peer.fails(("failUnchecked", types, "[\"no state\"]"), (500, "exception"), &unchecked);
    }
    exceptions(peer);
    peer.fails(("missing", None, "[\"x\"]"), (404, "method_not_found"), &["missing"]);
    peer.is_missing("missing", STRING, "[\"x\"]");
    peer.fails(("missing", Some(""), "[]"), (404, "method_not_found"), &["missing"]);
    peer.is_missing("text", "int", "[1]");
    peer.fails(("add", Some("int,int"), "[1]"), (400, "bad_arguments"), &["2", "1"]);
    peer.fails(("add", Some("int,int"), "[1,\"x\"]"), (400, "bad_arguments"), &["argument 1"]);
    peer.refuses("add", "[1,2,3]", &["args.length"]);
    peer.refuses("int32", "[\"x\"]", &["NumberFormat"]);
    if !peer.is_fastjson() && !peer.is_fastjson2() {
        // Refused where Dubbo makes a date of it, and where it hands it to the method.
        peer.refuses("date", "[\"x\"]", &["Unparseable date"]);
        peer.refuses("person", "[\"x\"]", &["ClassCastException"]);
    }
    if peer.version >= DubboVersion::V3_2 && peer.has_variants && peer.serialization == "hessian2" {
        // A text for an `Integer`, of which only the provider knows.
        let call = ("person", Some("org.dubmesh.interop.Person"), "[{\"age\":\"x\"}]");
        peer.fails(call, (400, "bad_arguments"), &["For input string"]);
    }
    peer.fails(("text", Some(STRING), "[\"x\""), (400, "bad_request"), &["JSON"]);
    let unknown = post(peer.consumer.http(), "/com.acme.Nobody/text", &[], "[]");
    let is_right = (unknown.status, &*unknown.code()) == (404, "service_not_found");
    peer.check("a service that nobody offers", &unknown, is_right);
    // What is unknown only to the provider says where it is unknown.
    let missing = peer.call("missing", Some(STRING), &[], "[\"x\"]");
    let is_right = missing.member("endpoint") == peer.endpoint;
    peer.check(&format!("a method that is missing at {}", peer.endpoint), &missing, is_right);
}

/// Class, message, cause and fields of what a method throws.
fn exceptions(peer: &mut ProviderUnderTest<'_>) {
    let exception = |answer: &HttpResponse| -> Value {
        let error: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        error["exception"].clone()
    };
    // Some replies in fastjson do not name the class.
    let is_fastjson = peer.is_fastjson();
    let is = |told: &Value, class: &str| *told == class || is_fastjson && told.is_null();
    // fastjson as Dubbo 3 has it writes an empty text for a null one.
    let is_none = |told: &Value| told.is_null() || is_fastjson && *told == "";
    let answer = peer.call("fail", Some(STRING), &[], "[\"no luck\"]");
    let told = exception(&answer);
    let is_right = is(&told["class"], "org.dubmesh.interop.BusinessException")
        && told["message"] == "no luck"
        && told["cause"].is_null()
        && told["fields"] == serde_json::json!({"code": 42});
    peer.check("a declared exception by members", &answer, is_right);
    let answer = peer.call("failUnchecked", Some(STRING), &[], "[null]");
    let told = exception(&answer);
    let is_right = is(&told["class"], "java.lang.IllegalStateException")
        && is_none(&told["message"])
        && told["fields"] == serde_json::json!({});
    peer.check("an exception without a message", &answer, is_right);
    let answer = peer.call("failOutOfStock", Some(STRING), &[], "[\"none left\"]");
    let told = exception(&answer);
    let is_right = is(&told["class"], "org.dubmesh.interop.OutOfStockException")
        && told["message"] == "none left"
        && told["fields"]["warehouse"]["city"] == "Hamburg"
        && is(&told["cause"]["class"], "java.lang.IllegalArgumentException")
        && told["cause"]["message"] == "the cause";
    peer.check("an exception with a cause and an object", &answer, is_right);
    // A generic call tells no more than class and message of what was thrown, and no trace.
    for (method, body, class, message) in [
        ("fail", "[\"no luck\"]", "org.dubmesh.interop.BusinessException", "no luck".into()),
        ("failUnchecked", "[null]", "java.lang.IllegalStateException", Value::Null),
    ] {
        let answer = peer.call(method, None, &[], body);
        let told = exception(&answer);
        let is_message =
            told["message"] == message || message.is_null() && is_none(&told["message"]);
        let is_right = is(&told["class"], class) && is_message;
        peer.check(&format!("a generic exception of {method}"), &answer, is_right);
    }
}

/// Attachments whose names have capital letters, and that are not texts.
fn typed_attachments(peer: &mut ProviderUnderTest<'_>) {
    let object = r#"x-dubbo-attachments: {"traceId":"abc"}"#;
    let answer = peer.call("attachment", Some(STRING), &[object], "[\"traceId\"]");
    peer.check("an attachment in camel case", &answer, answer.body == "\"abc\"");
    let types = Some("java.lang.String,java.lang.String");
    let answer = peer.call("replyWithAttachment", types, &[], r#"["shadeOf","gr\u00fcn"]"#);
    let header = answer.header("x-dubbo-attachments").unwrap_or_default();
    let told: Value = serde_json::from_str(header).unwrap_or_default();
    peer.check("a reply's attachment in camel case", &answer, told["shadeOf"] == "grün");
    // 2.6 has texts alone.
    if peer.version == DubboVersion::V2_6 {
        return;
    }
    let object = r#"x-dubbo-attachments: {"n":5,"big":7000000000,"half":0.5,"yes":true}"#;
    for (name, expected) in [("n", "5"), ("big", "7000000000"), ("half", "0.5"), ("yes", "true")] {
        let answer = peer.call("attachment", Some(STRING), &[object], &format!("[\"{name}\"]"));
        peer.check(&format!("attachment {name}"), &answer, answer.body == expected);
    }
    let types = Some("java.lang.String,java.lang.Object");
    for value in ["5", "true", "[1,\"a\"]", "{\"a\":1}"] {
        let body = format!("[\"size\",{value}]");
        let answer = peer.call("replyWithObjectAttachment", types, &[], &body);
        let header = answer.header("x-dubbo-attachments").unwrap_or_default();
        let told: Value = serde_json::from_str(header).unwrap_or_default();
        let expected: Value = serde_json::from_str(value).unwrap_or_default();
        let what = format!("a reply's attachment {value}: {header}");
        peer.check(&what, &answer, answer.status == 200 && told["size"] == expected);
    }
}

pub(crate) fn context(peer: &mut ProviderUnderTest<'_>) {
    peer.returns("nothing", STRING, "[\"x\"]", "null", true);
    peer.returns("nullText", STRING, "[\"x\"]", "null", true);
    for body in ["[]", ""] {
        peer.returns("variant", "", body, "\"plain\"", true);
    }
    let colour = "x-dubbo-attachment-colour: red";
    for types in [Some(""), None] {
        let answer = peer.call("attachments", types, &[colour], "[]");
        let json: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        peer.check("an attachment", &answer, answer.status == 200 && json["colour"] == "red");
    }
    for method in ["replyWithAttachment", "nullWithAttachment"] {
        let types = Some("java.lang.String,java.lang.String");
        let answer = peer.call(method, types, &[], r#"["shade","dark red"]"#);
        let shade = answer.header("x-dubbo-attachment-shade");
        peer.check(method, &answer, answer.status == 200 && shade == Some("dark red"));
    }
    typed_attachments(peer);
    let blue = ["x-dubbo-service-group: blue", "x-dubbo-service-version: 2.0.0"];
    let variant = peer.call("variant", None, &blue, "[]");
    let is_right = match peer.has_variants {
        true => variant.body == "\"blue/2.0.0\"",
        false => variant.code() == "service_not_found",
    };
    peer.check("group and version", &variant, is_right);
    let green = peer.call("variant", None, &["x-dubbo-service-group: green"], "[]");
    let is_right = (green.status, &*green.code()) == (404, "service_not_found");
    peer.check("a group that nobody offers", &green, is_right);
}

fn sizes(peer: &mut ProviderUnderTest<'_>) {
    let big = 5 * 1024 * 1024;
    let answer = peer.call("textOfLen", Some("int"), &[], &format!("[{big}]"));
    let is_right = answer.status == 200 && answer.body.len() == big + 2;
    peer.check("a reply of 5 MiB", &answer, is_right);
    let text = "x".repeat(big);
    let answer = peer.call("text", Some(STRING), &[], &format!("[\"{text}\"]"));
    let is_right = answer.status == 200 && answer.body.len() == big + 2;
    peer.check("5 MiB there and back", &answer, is_right);
    let too_big = 8 * 1024 * 1024 + 1;
    peer.fails(("textOfLen", Some("int"), &format!("[{too_big}]")), (502, "reply_too_large"), &[]);
    // The connection is as good as before.
    peer.returns("text", STRING, "[\"after\"]", "\"after\"", false);
}

fn timeouts(peer: &mut ProviderUnderTest<'_>) {
    let started = Instant::now();
    let answer = peer.call("sleep", Some("long"), &["x-dubbo-timeout-ms: 100"], "[3000]");
    let took = started.elapsed();
    let is_right = (answer.status, &*answer.code()) == (504, "timeout")
        && (Duration::from_millis(100)..Duration::from_millis(2500)).contains(&took);
    peer.check(&format!("a timeout after {took:?}"), &answer, is_right);
    peer.returns("sleep", "long", "[1]", "1", false);
}
