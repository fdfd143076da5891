//! Calls to real Dubbo providers: of both versions, in each serialization that we write, straight
//! and through a provider's agent, in both layouts of etcd.
//!
//! The same list of calls is made each time. What may differ is said by [`Peer`].

mod interop_support;

use std::ffi::OsString;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use interop_harness::{DubboVersion, Etcd, JavaProvider, ProviderOptions, free_port};
use interop_support::{
    Agent, Answer, Consumer, HELLO, Layout, Offer, PATIENCE, SESSION, TYPES, encoded, java_hash,
    post, wait_until,
};
use serde_json::Value;

/// One way to a provider.
struct Peer<'a> {
    consumer: &'a Agent,
    version: DubboVersion,
    serialization: &'a str,
    /// Whether groups and versions exist.
    has_variants: bool,
    /// Where the consumer's agent sends its calls.
    endpoint: String,
    /// What did not go as expected.
    wrong: Vec<String>,
}

const TYPE_HEADER: &str = "x-dubbo-parameter-types: ";

impl Peer<'_> {
    fn is_fastjson(&self) -> bool {
        self.serialization == "fastjson"
    }

    /// An enum in a field has its number there, and objects say nothing of what is 0 or false.
    fn is_fastjson2(&self) -> bool {
        self.serialization == "fastjson2"
    }

    fn green(&self) -> Value {
        if self.is_fastjson2() { 1.into() } else { "GREEN".into() }
    }

    /// Calls a method of the `TypesService`; without types it is Dubbo's generic call.
    fn call(&self, method: &str, types: Option<&str>, more: &[&str], body: &str) -> Answer {
        let types = types.map(|types| format!("{TYPE_HEADER}{types}"));
        let headers: Vec<&str> = types.as_deref().into_iter().chain(more.iter().copied()).collect();
        post(self.consumer.http(), &format!("/{TYPES}/{method}"), &headers, body)
    }

    fn check(&mut self, what: &str, answer: &Answer, is_right: bool) {
        if !is_right {
            let mut text = format!("{what}: {} {}", answer.status, answer.body);
            text.truncate(text.floor_char_boundary(600));
            self.wrong.push(text);
        }
    }

    /// Calls with the types told, then without them where `generic` is another expected value.
    fn returns(&mut self, method: &str, types: &str, body: &str, expected: &str, generic: bool) {
        for types in [Some(types), None].into_iter().take(1 + usize::from(generic)) {
            let answer = self.call(method, types, &[], body);
            let is_right = answer.status == 200 && is_same(&answer.body, expected);
            self.check(&format!("{method} {types:?} {body} = {expected}"), &answer, is_right);
        }
    }

    /// Calls and expects an error with this status and code whose message has all `parts`.
    fn fails(
        &mut self,
        (method, types, body): (&str, Option<&str>, &str),
        (status, code): (u16, &str),
        parts: &[&str],
    ) {
        let answer = self.call(method, types, &[], body);
        let message = answer.member("message");
        let is_right = (answer.status, &*answer.code()) == (status, code)
            && parts.iter().all(|part| message.contains(part));
        let what = format!("{method} {types:?} {body} fails with {status} {code} {parts:?}");
        self.check(&what, &answer, is_right);
    }

    /// Calls without types and expects an error about the arguments. Over the telnet of 2.6 an agent may know
    /// better itself.
    fn refuses(&mut self, method: &str, body: &str, parts: &[&str]) {
        if self.version != DubboVersion::V2_6 {
            return self.fails((method, None, body), (400, "bad_arguments"), parts);
        }
        let answer = self.call(method, None, &[], body);
        let is_right = ["bad_arguments", "ambiguous_method"].contains(&&*answer.code());
        self.check(&format!("{method} {body} is refused"), &answer, is_right);
    }

    /// Calls a method with types that the provider does not know it with.
    fn is_missing(&mut self, method: &str, types: &str, body: &str) {
        let (call, missing) = ((method, Some(types), body), (404, "method_not_found"));
        match self.version {
            // 2.6 takes the only method of a name, whatever the types.
            DubboVersion::V2_6 if method != "missing" => {}
            DubboVersion::V2_6 | DubboVersion::V2_7 => self.fails(call, missing, &[method]),
            // Dubbo 3 takes no notice of why it cannot read a request. In Dubbo's layout, where groups and versions
            // are, the methods of its own registration tell, and it is asked.
            DubboVersion::V3_2 | DubboVersion::V3_3 if !self.has_variants => {
                let parts = [method, "no such service, method"];
                self.fails(call, (400, "provider_rejected"), &parts);
            }
            DubboVersion::V3_2 | DubboVersion::V3_3 if method == "missing" => {
                self.fails(call, missing, &["no method missing", "it has ", "boxedInt"]);
            }
            DubboVersion::V3_2 | DubboVersion::V3_3 => {
                let what = format!("no {method}({types})");
                self.fails(call, missing, &[&what]);
            }
        }
    }

    fn form(&self, fields: &str) -> Answer {
        post(self.consumer.http(), "/", &[], fields)
    }
}

/// Texts that are equal, or JSON values that are.
fn is_same(body: &str, expected: &str) -> bool {
    let parse = |text| serde_json::from_str::<Value>(text).ok();
    // Numbers too long for a double have to be equal to the letter.
    let is_exact = expected.bytes().filter(u8::is_ascii_digit).count() < 16 || expected.len() > 60;
    body == expected || (is_exact && parse(body).is_some_and(|body| Some(body) == parse(expected)))
}

const STRING: &str = "java.lang.String";

fn all_calls(peer: &mut Peer<'_>) {
    contest_form(peer);
    texts_and_numbers(peer);
    containers_and_objects(peer);
    overloads(peer);
    failures(peer);
    context(peer);
    sizes(peer);
    timeouts(peer);
}

fn contest_form(peer: &mut Peer<'_>) {
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

fn texts_and_numbers(peer: &mut Peer<'_>) {
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

fn containers_and_objects(peer: &mut Peer<'_>) {
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
fn values_of_the_jdk_by_a_generic_call(peer: &mut Peer<'_>) {
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
fn alice(peer: &Peer<'_>) -> String {
    let (born, color, balance) = if peer.is_fastjson() {
        ("946684799123", "\"GREEN\"", "12345678901234567890.99")
    } else if peer.is_fastjson2() {
        ("\"1999-12-31T23:59:59.123Z\"", "\"GREEN\"", "12345678901234567890.99")
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

fn persons(peer: &mut Peer<'_>, born: &str) {
    const PERSON: &str = "org.dubmesh.interop.Person";
    let made = peer.call("makePerson", Some("java.lang.String,int"), &[], "[\"Alice\",30]");
    let json: Value = serde_json::from_str(&made.body).unwrap_or_default();
    let is_right = made.status == 200
        && json["name"] == "Alice"
        && json["address"]["zip"] == 12345
        && json["friends"][0]["name"] == "Bob"
        && json["counts"]["many"] == 1_000_000
        && json["color"] == peer.green()
        && Some(&json["born"]) == serde_json::from_str(born).ok().as_ref()
        && made.body.contains("12345678901234567890.99");
    peer.check("makePerson", &made, is_right);
    let alice = alice(peer);
    let same = peer.call("person", Some(PERSON), &[], &format!("[{alice}]"));
    peer.check("a full person", &same, (same.status, &same.body) == (200, &made.body));

    let sparse = peer.call("person", Some(PERSON), &[], "[{\"name\":\"Zoe\",\"age\":1}]");
    let is_zoe = |answer: &Answer| {
        let json: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        answer.status == 200 && json["name"] == "Zoe" && json["age"] == 1
    };
    peer.check("a sparse person", &sparse, is_zoe(&sparse));
    let generic = peer.call("person", None, &[], "[{\"name\":\"Zoe\",\"age\":1}]");
    peer.check("a sparse person, generic", &generic, is_zoe(&generic));

    let type_header = "java.util.List<org.dubmesh.interop.Person>";
    let people = peer.call("people", Some(type_header), &[], &format!("[[{alice},null]]"));
    let json: Value = serde_json::from_str(&people.body).unwrap_or_default();
    let is_right = people.status == 200
        && json[0]["friends"][0]["age"] == 42
        && json[0]["color"] == peer.green()
        && json[1].is_null();
    peer.check("people", &people, is_right);
    let twins = peer.call("twins", Some(PERSON), &[], "[{\"name\":\"Zoe\",\"age\":1}]");
    let json: Value = serde_json::from_str(&twins.body).unwrap_or_default();
    let is_right = json[0]["name"] == "Zoe" && (json[1] == json[0] || json[1]["$ref"] == "$[0]");
    peer.check("twins", &twins, is_right);
}

fn overloads(peer: &mut Peer<'_>) {
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

fn failures(peer: &mut Peer<'_>) {
    // A reply in fastjson does not name the class.
    let named = |class: &'static str| if peer.is_fastjson() { "" } else { class };
    let business = [named("org.dubmesh.interop.BusinessException"), "no luck"];
    let unchecked = [named("java.lang.IllegalStateException"), "no state"];
    for types in [Some(STRING), None] {
        peer.fails(("fail", types, "[\"no luck\"]"), (500, "exception"), &business);
        peer.fails(("failUnchecked", types, "[\"no state\"]"), (500, "exception"), &unchecked);
    }
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
        // A text for an `Integer`: Dubbo 3 only says that it cannot read the request.
        let call = ("person", Some("org.dubmesh.interop.Person"), "[{\"age\":\"x\"}]");
        let parts = ["has person(org.dubmesh.interop.Person)", "cannot read the arguments"];
        peer.fails(call, (400, "bad_arguments"), &parts);
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

fn context(peer: &mut Peer<'_>) {
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

fn sizes(peer: &mut Peer<'_>) {
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

fn timeouts(peer: &mut Peer<'_>) {
    let started = Instant::now();
    let answer = peer.call("sleep", Some("long"), &["x-dubbo-timeout-ms: 100"], "[3000]");
    let took = started.elapsed();
    let is_right = (answer.status, &*answer.code()) == (504, "timeout")
        && (Duration::from_millis(100)..Duration::from_millis(2500)).contains(&took);
    peer.check(&format!("a timeout after {took:?}"), &answer, is_right);
    peer.returns("sleep", "long", "[1]", "1", false);
}

/// A provider that has registered itself, called straight, then through its agent by each layout.
fn check_provider(version: DubboVersion, serialization: &str) {
    let etcd = Etcd::start().unwrap();
    let (java, consumers) = thread::scope(|scope| {
        let java = scope.spawn(|| {
            let options = ProviderOptions {
                serialization: serialization.to_owned(),
                registry: version.has_etcd().then(|| format!("etcd://{}", etcd.addr())),
                registry_session: SESSION,
                hash_sleep: Duration::ZERO,
                jvm_args: if serialization == "fastjson2" { only_fastjson2() } else { Vec::new() },
                ..ProviderOptions::default()
            };
            JavaProvider::start(version, options).unwrap()
        });
        let consumers = [Layout::Dubbo, Layout::Contest]
            .map(|layout| Consumer { etcd: &etcd, layout, extra: "" })
            .map(|consumer| scope.spawn(move || consumer.start()))
            .map(|started| started.join().unwrap());
        (java.join().unwrap(), consumers)
    });
    let [straight, contest] = &consumers;
    let mut wrong = Vec::new();
    let mut check = |way: &str, consumer: &Agent, layout: Layout, endpoint: String| {
        wait_until_calls_go_to(consumer, &endpoint);
        let has_variants = layout == Layout::Dubbo;
        let mut peer =
            Peer { consumer, version, serialization, has_variants, endpoint, wrong: Vec::new() };
        all_calls(&mut peer);
        wrong.extend(peer.wrong.into_iter().map(|text| format!("{way}: {text}")));
    };
    if version.has_etcd() {
        check("straight", straight, Layout::Dubbo, java.addr().to_string());
    } else {
        let folder = tempfile::tempdir().unwrap();
        let straight = listing(&java, folder.path());
        check("straight, from a file", &straight, Layout::Dubbo, java.addr().to_string());
    }
    let serialization = match (version, serialization) {
        (DubboVersion::V3_2 | DubboVersion::V3_3, "fastjson") => "fastjson-sized",
        _ => serialization,
    };
    let ways = [
        ("by an agent in the contest's layout", contest, Layout::Contest),
        ("by an agent beside the provider's own entry", straight, Layout::Dubbo),
    ];
    for (way, consumer, layout) in ways {
        let agent = Offer { etcd: &etcd, layout, app: java.url(), serialization }.start();
        check(way, consumer, layout, agent.link().to_string());
    }
    assert!(wrong.is_empty(), "{} calls went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// An agent that knows a provider from a file.
fn listing(java: &JavaProvider, folder: &Path) -> Agent {
    let file = folder.join("services.toml");
    let variant = "group = \"blue\"\nversion = \"2.0.0\"\n";
    let mut services = String::new();
    for (interface, more) in [(HELLO, ""), (TYPES, ""), (TYPES, variant)] {
        let endpoint = java.url();
        services += &format!(
            "[[service]]\ninterface = \"{interface}\"\n{more}endpoints = [\"{endpoint}\"]\n"
        );
    }
    std::fs::write(&file, services).unwrap();
    let config = format!(
        "[agent]\nname = \"listing\"\nworkers = 2\n[log]\nformat = \"json\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[[registry]]\nkind = \"file\"\npath = {file:?}\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:{}\"\n\
         [defaults]\ntimeout_ms = 20000\n",
        free_port()
    );
    Agent::start("listing", &config)
}

/// An error tells where it happened: the consumer's agent may still know another way.
fn wait_until_calls_go_to(consumer: &Agent, endpoint: &str) {
    let http = consumer.http();
    for interface in [TYPES, HELLO] {
        interop_harness::wait_until(&format!("calls that go to {endpoint}"), PATIENCE, || {
            let types = format!("{TYPE_HEADER}int");
            post(http, &format!("/{interface}/missing"), &[&types], "[1]").member("endpoint")
                == endpoint
        });
    }
    wait_until("a first answer", || {
        post(http, &format!("/{TYPES}/variant"), &[], "[]").status == 200
    });
}

#[test]
fn dubbo_2_6_by_hessian2() {
    check_provider(DubboVersion::V2_6, "hessian2");
}

#[test]
fn dubbo_3_2_by_hessian2() {
    check_provider(DubboVersion::V3_2, "hessian2");
}

#[test]
fn dubbo_2_7_by_hessian2() {
    check_provider(DubboVersion::V2_7, "hessian2");
}

#[test]
fn dubbo_2_7_by_fastjson() {
    check_provider(DubboVersion::V2_7, "fastjson");
}

#[test]
fn dubbo_3_3_by_hessian2() {
    check_provider(DubboVersion::V3_3, "hessian2");
}

#[test]
fn dubbo_3_3_by_fastjson() {
    check_provider(DubboVersion::V3_3, "fastjson");
}

/// This provider permits nothing else.
#[test]
fn dubbo_3_3_by_fastjson2() {
    check_provider(DubboVersion::V3_3, "fastjson2");
}

/// A provider whose registration prefers both, as Dubbo 3.2 and 3.3 do where nobody has chosen: it is
/// called by hessian2.
#[test]
fn dubbo_3_3_that_prefers_both() {
    let etcd = Etcd::start().unwrap();
    let options = ProviderOptions {
        serialization: "fastjson2".to_owned(),
        registry: Some(format!("etcd://{}", etcd.addr())),
        registry_session: SESSION,
        jvm_args: vec!["-Ddubbo.protocol.prefer-serialization=fastjson2,hessian2".into()],
        ..ProviderOptions::default()
    };
    let java = JavaProvider::start(DubboVersion::V3_3, options).unwrap();
    let consumer = Consumer { etcd: &etcd, layout: Layout::Dubbo, extra: "" }.start();
    let endpoint = java.addr().to_string();
    wait_until_calls_go_to(&consumer, &endpoint);
    let (version, serialization) = (DubboVersion::V3_3, "hessian2");
    let (consumer, has_variants, wrong) = (&consumer, true, Vec::new());
    let mut peer = Peer { consumer, version, serialization, has_variants, endpoint, wrong };
    containers_and_objects(&mut peer);
    context(&mut peer);
    assert!(peer.wrong.is_empty(), "{}", peer.wrong.join("\n"));
    assert!(!consumer.tail().contains("serialization refused"));
}

/// Endpoints that tell nothing, or a lie: the provider permits fastjson2 alone.
#[test]
fn serializations_that_a_provider_refuses_are_not_used_again() {
    let options = ProviderOptions {
        serialization: "fastjson2".to_owned(),
        jvm_args: only_fastjson2(),
        ..ProviderOptions::default()
    };
    let java = JavaProvider::start(DubboVersion::V3_3, options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, params) in [("silent", ""), ("lying", "?serialization=hessian2")] {
        let file = folder.path().join(name);
        let service = format!(
            "[[service]]\ninterface = \"{TYPES}\"\nendpoints = [\"dubbo://{}{params}\"]\n",
            java.addr()
        );
        std::fs::write(&file, service).unwrap();
        let config = format!(
            "[agent]\nname = \"{name}\"\nworkers = 1\n[log]\nformat = \"json\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[[registry]]\nkind = \"file\"\npath = {file:?}\n\
             [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n\
             [defaults]\ntimeout_ms = 20000\n"
        );
        let agent = Agent::start(name, &config);
        let call = |method: &str, types: &str, body: &str| {
            let types = format!("{TYPE_HEADER}{types}");
            post(agent.http(), &format!("/{TYPES}/{method}"), &[&types], body)
        };
        for number in 0..5 {
            let answer = call("int32", "int", &format!("[{number}]"));
            assert_eq!((answer.status, answer.body), (200, number.to_string()), "{name}");
        }
        // What it cannot read for another reason is told, and changes nothing.
        for _ in 0..2 {
            let missing = call("missing", "int", "[1]");
            assert_eq!((missing.status, &*missing.code()), (400, "provider_rejected"), "{name}");
        }
        assert_eq!(call("int32", "int", "[7]").body, "7");
        assert_eq!(agent.tail().matches("serialization refused").count(), 1, "{}", agent.tail());
    }
}

/// What arguments say by references and by enums in their long form arrives by fastjson2 as it does by hessian2.
#[test]
fn references_and_enums_by_fastjson2() {
    let options = ProviderOptions {
        serialization: "fastjson2".to_owned(),
        jvm_args: only_fastjson2(),
        ..ProviderOptions::default()
    };
    let java = JavaProvider::start(DubboVersion::V3_3, options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let agent = listing(&java, folder.path());
    wait_until_calls_go_to(&agent, &java.addr().to_string());
    let call = |method: &str, types: &str, body: &str| {
        let headers = [&*format!("{TYPE_HEADER}{types}"), "x-dubbo-json: refs=path; class=yes"];
        let answer = post(agent.http(), &format!("/{TYPES}/{method}"), &headers, body);
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        answer.body
    };
    let shared =
        r#"[[{"name":"A","age":1},{"$ref":"$[0]"},{"name":"B","friends":[{"$ref":"$[0]"}]}]]"#;
    for (method, types) in
        [("people", "java.util.List<org.dubmesh.interop.Person>"), ("any", "java.lang.Object")]
    {
        let shared = match method {
            "any" => {
                shared.replace(r#"{"name""#, r#"{"class":"org.dubmesh.interop.Person","name""#)
            }
            _ => shared.to_owned(),
        };
        let answer = call(method, types, &shared);
        assert_eq!(answer.matches(r#"{"$ref":"$[0]"}"#).count(), 2, "{method}: {answer}");
    }
    let green = r#"{"class":"org.dubmesh.interop.Color","name":"GREEN"}"#;
    assert_eq!(call("any", "java.lang.Object", green), "\"GREEN\"");
    assert_eq!(call("color", "org.dubmesh.interop.Color", green), "\"GREEN\"");
    let person = format!(r#"{{"name":"A","color":{green}}}"#);
    let answer = call("person", "org.dubmesh.interop.Person", &person);
    assert!(answer.contains(r#""color":1"#), "{answer}");
}

/// Neither Dubbo's own preference nor its default, hessian2, is left.
fn only_fastjson2() -> Vec<OsString> {
    ["-Ddubbo.protocol.prefer-serialization=fastjson2", "-DDUBBO_DEFAULT_SERIALIZATION=fastjson2"]
        .map(OsString::from)
        .into()
}
