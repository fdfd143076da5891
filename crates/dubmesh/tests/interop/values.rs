//! Values that proptest makes up, sent to real Java services that return them: what comes back is
//! the same.
//!
//! One agent and one provider answer all of them; a value that comes back wrong is printed with
//! its call.

use std::fs;
use std::path::Path;

use crate::support::{Agent, Http, TYPES, speaking, wait_until};
use hessian::Limits;
use hessian::check::canonical;
use hessian::json::{JsonError, JsonKind, JsonReader};
use interop_harness::{DubboVersion, JavaProvider, free_port};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value};

/// Values of each kind. They all take a second or two.
const N_VALUES: usize = 60;

/// An argument as JSON, and the JSON that has to come back.
type Pair = (String, String);

fn text() -> impl Strategy<Value = String> {
    let chars = vec(any::<char>(), 0..40).prop_map(String::from_iter);
    let text = prop_oneof![4 => "\\PC{0,30}", 2 => chars, 1 => "[a-z😀é]{900,1100}"];
    text.prop_map(|text: String| serde_json::Value::from(text).to_string())
}

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|value| value.to_string()),
        (-300_000..300_000i32).prop_map(|value| value.to_string()),
        any::<f64>().prop_filter("JSON", |value| value.is_finite()).prop_map(|v| format!("{v:e}")),
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?",
    ]
}

fn join(items: &[String]) -> String {
    items.join(",")
}

/// Any JSON value. No member is called `class`, which says what a value is in Java.
fn anything() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        1 => Just("null".to_owned()),
        1 => any::<bool>().prop_map(|value| value.to_string()),
        4 => number(),
        4 => text(),
    ];
    scalar.prop_recursive(4, 60, 8, |inner| {
        let members = proptest::collection::btree_map(text(), inner.clone(), 0..6);
        prop_oneof![
            vec(inner, 0..8).prop_map(|items| format!("[{}]", join(&items))),
            members.prop_map(|members| {
                let members: Vec<_> = members
                    .into_iter()
                    .filter(|(key, _)| key != "\"class\"")
                    .map(|(key, value)| format!("{key}:{value}"))
                    .collect();
                format!("{{{}}}", join(&members))
            }),
        ]
    })
}

fn same(text: String) -> Pair {
    (text.clone(), text)
}

fn nullable<T: Clone + std::fmt::Debug + 'static>(
    strategy: impl Strategy<Value = T> + 'static,
    none: T,
) -> impl Strategy<Value = T> {
    prop_oneof![4 => strategy, 1 => Just(none)]
}

/// Milliseconds of a year that has four digits, and their ISO text.
fn date() -> impl Strategy<Value = (i64, String)> {
    (-62_000_000_000_000..253_000_000_000_000i64).prop_map(|ms| {
        let mut out = Vec::new();
        hessian::transcode::time::write_ms(&mut out, ms);
        (ms, format!("\"{}\"", String::from_utf8(out).unwrap()))
    })
}

fn decimal() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?"
}

/// A `Person` with friends. Fields without generic arguments need the long form for dates and
/// decimals.
fn person(depth: u32) -> BoxedStrategy<Pair> {
    let null = || "null".to_owned();
    let friends = match depth {
        0 => Just((null(), null())).boxed(),
        _ => vec(person(depth - 1), 0..3)
            .prop_map(|friends| {
                let (sent, back): (Vec<_>, Vec<_>) = friends.into_iter().unzip();
                (format!("[{}]", join(&sent)), format!("[{}]", join(&back)))
            })
            .boxed(),
    };
    let balance = decimal().prop_map(|text| {
        (format!("{{\"class\":\"java.math.BigDecimal\",\"value\":\"{text}\"}}"), text)
    });
    let born = date()
        .prop_map(|(ms, iso)| (format!("{{\"class\":\"java.util.Date\",\"value\":{ms}}}"), iso));
    let color = "RED|GREEN|BLUE".prop_map(|name| {
        let class = "org.dubmesh.interop.Color";
        (format!("{{\"class\":\"{class}\",\"name\":\"{name}\"}}"), format!("\"{name}\""))
    });
    let address = (nullable(text(), null()), any::<i32>()).prop_map(|(street, zip)| {
        let rest = format!("\"street\":{street},\"city\":null,\"zip\":{zip}}}");
        (format!("{{\"class\":\"org.dubmesh.interop.Address\",{rest}"), format!("{{{rest}"))
    });
    let none = || (null(), null());
    let plain = (nullable(text(), null()), any::<i32>(), any::<i64>(), any::<bool>(), -1e9..1e9f64);
    let objects = (
        nullable(balance, none()),
        nullable(born, none()),
        nullable(color, none()),
        nullable(address, none()),
        friends,
    );
    (plain, objects, nullable(counts(), null()))
        .prop_map(|((name, age, id, active, score), (balance, born, color, address, friends), counts)| {
            let write = |class: &str, pick: fn(&Pair) -> &str| {
                let [balance, born, color, address, friends] =
                    [&balance, &born, &color, &address, &friends].map(pick);
                // Java has a Long here, which does not take an Integer.
                format!(
                    "{{{class}\"name\":{name},\"age\":{age},\"id\":{id},\"active\":{active},\"score\":{score:?},\
                     \"balance\":{balance},\"born\":{born},\"color\":{color},\"address\":{address},\
                     \"friends\":{friends},\"counts\":{counts}}}"
                )
            };
            (write("\"class\":\"org.dubmesh.interop.Person\",", |pair| &pair.0), write("", |pair| &pair.1))
        })
        .boxed()
}

fn counts() -> impl Strategy<Value = String> {
    proptest::collection::btree_map(text(), any::<i32>(), 0..4).prop_map(|counts| {
        let members: Vec<_> = counts
            .iter()
            .filter(|(key, _)| *key != "\"class\"")
            .map(|(key, value)| format!("{key}:{value}"))
            .collect();
        format!("{{{}}}", join(&members))
    })
}

fn list(element: impl Strategy<Value = Pair>) -> impl Strategy<Value = Pair> {
    vec(element, 0..6).prop_map(|items| {
        let (sent, back): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        (format!("[{}]", join(&sent)), format!("[{}]", join(&back)))
    })
}

/// What is called, with which type, and with values of which kind.
fn kinds() -> Vec<(&'static str, &'static str, BoxedStrategy<Pair>)> {
    let numbered =
        proptest::collection::btree_map(any::<i32>(), person(0), 0..5).prop_map(|people| {
            let write = |pick: fn(&Pair) -> &str| {
                let members: Vec<_> =
                    people.iter().map(|(key, pair)| format!("\"{key}\":{}", pick(pair))).collect();
                format!("{{{}}}", join(&members))
            };
            (write(|pair| &pair.0), write(|pair| &pair.1))
        });
    let date_time = date().prop_map(|(_, iso)| {
        let text = iso.trim_end_matches("Z\"").to_owned();
        // Java leaves out seconds and fractions that are zero.
        let short = text.strip_suffix(".000").unwrap_or(&text);
        let short = short.strip_suffix(":00").filter(|_| short.len() < text.len()).unwrap_or(short);
        (format!("{text}\""), format!("{short}\""))
    });
    let dates = date().prop_map(|(ms, iso)| (ms.to_string(), iso));
    vec![
        ("any", "java.lang.Object", anything().prop_map(same).boxed()),
        ("text", "java.lang.String", text().prop_map(same).boxed()),
        ("int64", "long", any::<i64>().prop_map(|v| same(v.to_string())).boxed()),
        ("decimal", "java.math.BigDecimal", decimal().prop_map(same).boxed()),
        (
            "decimals",
            "java.util.List<java.math.BigDecimal>",
            list(decimal().prop_map(same)).boxed(),
        ),
        ("dates", "java.util.List<java.util.Date>", list(dates).boxed()),
        ("dateTimes", "java.util.List<java.time.LocalDateTime>", list(date_time).boxed()),
        (
            "counts",
            "java.util.Map<java.lang.String,java.lang.Integer>",
            counts().prop_map(same).boxed(),
        ),
        (
            "numbered",
            "java.util.Map<java.lang.Integer,org.dubmesh.interop.Person>",
            numbered.boxed(),
        ),
        ("person", "org.dubmesh.interop.Person", person(2)),
        ("people", "java.util.List<org.dubmesh.interop.Person>", list(person(1)).boxed()),
    ]
}

/// What a serialization keeps of a value.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Wire {
    Hessian2,
    /// Fields that are 0, false or null are left out, and enums in fields are their numbers.
    Fastjson2,
    /// The provider itself writes the JSON: dates are numbers. Names that begin with `$` and `@`
    /// mean something to it.
    Fastjson {
        /// 2.7 leaves out what is null in objects.
        keeps_nulls: bool,
    },
}

impl Wire {
    fn name(self) -> &'static str {
        match self {
            Self::Hessian2 => "hessian2",
            Self::Fastjson2 => "fastjson2",
            Self::Fastjson { .. } => "fastjson",
        }
    }

    fn has(self, method: &str) -> bool {
        let is_plain = ["any", "text", "int64", "decimal", "decimals", "counts"].contains(&method);
        !matches!(self, Self::Fastjson { .. }) || is_plain
    }

    fn is_same(self, method: &str, answer: &str, expected: &str) -> bool {
        let kept = |text: &str| {
            let mut value = tree(text)?;
            match self {
                Self::Fastjson2 if ["person", "people", "numbered"].contains(&method) => {
                    leave_out_defaults(&mut value);
                }
                Self::Fastjson { keeps_nulls: false } => leave_out_nulls(&mut value),
                _ => {}
            }
            Some(value)
        };
        kept(answer).is_some() && kept(answer) == kept(expected)
    }
}

/// The parts of a JSON text; numbers as texts in the form that is the same for equal ones.
fn tree(text: &str) -> Option<Value> {
    fn value(reader: &mut JsonReader<'_>) -> Result<Value, JsonError> {
        Ok(match reader.peek()? {
            JsonKind::Array => {
                let (mut items, mut array) = (Vec::new(), reader.begin_array()?);
                while reader.next_element(&mut array)? {
                    items.push(value(reader)?);
                }
                items.into()
            }
            JsonKind::Object => {
                let (mut members, mut object) = (Map::new(), reader.begin_object()?);
                while let Some(name) = reader.next_key(&mut object)? {
                    members.insert(name.into_owned(), value(reader)?);
                }
                members.into()
            }
            JsonKind::String => reader.read_string()?.into(),
            JsonKind::Bool => reader.read_bool()?.into(),
            JsonKind::Null => reader.read_null().map(|()| Value::Null)?,
            JsonKind::Number => number_text(reader.skip_value()?),
        })
    }
    let limits = Limits { max_items: usize::MAX, ..Limits::default() };
    let mut reader = JsonReader::new(text.as_bytes(), limits);
    let value = value(&mut reader).ok()?;
    reader.finish().ok().map(|()| value)
}

fn number_text(number: &[u8]) -> Value {
    let text = canonical(number).expect("a number that was read already");
    format!("number {}", text.escape_ascii()).into()
}

/// Without members that are null, 0 or false, and with the colors as numbers.
fn leave_out_defaults(value: &mut Value) {
    let defaults = [Value::Null, false.into(), number_text(b"0")];
    walk(value, &|members| {
        if let Some(color) = members.get_mut("color") {
            let number = ["RED", "GREEN", "BLUE"].iter().position(|name| color == name);
            if let Some(number) = number {
                *color = number_text(number.to_string().as_bytes());
            }
        }
        members.retain(|_, value| !defaults.contains(value));
    });
}

fn leave_out_nulls(value: &mut Value) {
    walk(value, &|members| members.retain(|_, value| !value.is_null()));
}

fn walk(value: &mut Value, change: &impl Fn(&mut Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, change)),
        Value::Object(members) => {
            members.values_mut().for_each(|value| walk(value, change));
            change(members);
        }
        _ => {}
    }
}

/// Values that stand at a border of some kind, as any object.
fn borders(wire: Wire) -> Vec<String> {
    let numbers = [
        "0,-0.0,127,-129,32768,2147483647,2147483648,-2147483648,-2147483649",
        "9007199254740991,9007199254740992,9007199254740993,-9007199254740993",
        "9223372036854775807,9223372036854775808,-9223372036854775808,-9223372036854775809",
        "18446744073709551616,1e308,1.7976931348623157e308,4.9e-324,1e-7,0.1,99.8",
        "99.80000305175781,0.1234567890123456789,1234567890123456789.123456789",
        "123456789012345678901234567890,1e-400,1.5e400",
    ];
    let keys =
        r#"{"":1,"a.b":2,"[0]":3,"\"":4,"\u0000\n":5,"\ud83d\ude00":6,"null":7,"1":8,"é ":9"#;
    let special = r#","$ref":"$","$":1,"@type":1,"..":3}"#;
    let special = if matches!(wire, Wire::Fastjson { .. }) { "}" } else { special };
    let texts =
        r#"["\u0000\u001f\u007f\u0080\u07ff\u0800\uffff\ud83d\ude00","2024-02-29","NaN","","$"]"#;
    vec![
        format!("[{}]", numbers.join(",")),
        format!("{keys}{special}"),
        texts.to_owned(),
        format!("\"{}\"", "😀é".repeat(20_000)),
        // One level less than the limit, for the argument is an element of a list.
        format!("{}1{}", "[{\"k\":".repeat(31), "}]".repeat(31)),
        format!("[{}0]", "1,".repeat(100_000)),
        format!("[{}{{}}]", "{\"a\":[]},".repeat(20_000)),
        r#"[[],{},[[]],[{}],{"a":{}},null,true,false]"#.to_owned(),
    ]
}

fn every_value_comes_back(version: DubboVersion, wire: Wire) {
    let java = JavaProvider::start(version, speaking(wire.name())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let agent = agent_for(&java, version, wire, folder.path());
    let mut runner = TestRunner::deterministic();
    let mut http = Http::to(agent.http());
    let mut wrong = Vec::new();
    let mut check = |method: &str, types: &str, sent: &str, back: &str| {
        let header = format!("x-dubbo-parameter-types: {types}");
        let path = format!("/{TYPES}/{method}");
        let answer = http.post(&path, &[&header], &format!("[{sent}]")).unwrap();
        if answer.status != 200 || !wire.is_same(method, &answer.body, back) {
            let status = answer.status;
            wrong.push(format!("{method} {sent:.600}\n  got {status} {:.600}", answer.body));
        }
    };
    for value in borders(wire) {
        check("any", "java.lang.Object", &value, &value);
    }
    for (method, types, strategy) in kinds().into_iter().filter(|(method, ..)| wire.has(method)) {
        for _ in 0..N_VALUES {
            let (sent, back) = strategy.new_tree(&mut runner).unwrap().current();
            check(method, types, &sent, &back);
        }
    }
    if wire == Wire::Hessian2 {
        options_reach_the_agent(&mut http, &mut wrong);
    }
    if matches!(wire, Wire::Fastjson { .. }) {
        fastjson_gets_what_it_reads(&mut http, &mut wrong);
    }
    let n_wrong = wrong.len();
    wrong.truncate(5);
    assert!(wrong.is_empty(), "{n_wrong} values went wrong, as:\n{}", wrong.join("\n"));
}

/// The options of the JSON mapping, by header and by URL.
fn options_reach_the_agent(http: &mut Http, wrong: &mut Vec<String>) {
    let zoe = "[{\"name\":\"Zoe\",\"age\":1,\"id\":7}]";
    let person = "x-dubbo-parameter-types: org.dubmesh.interop.Person";
    let mut check = |path: &str, headers: &[&str], body: &str, status: u16, parts: &[&str]| {
        let answer = http.post(&format!("/{TYPES}/{path}"), headers, body).unwrap();
        if answer.status != status || !parts.iter().all(|part| answer.body.contains(part)) {
            wrong.push(format!("{path} {headers:?}: {} {}", answer.status, answer.body));
        }
    };
    // The second twin is the first.
    check("twins?json=refs=path", &[person], zoe, 200, &["{\"$ref\":\"$[0]\"}"]);
    let longs = "x-dubbo-json: longs=text@org.dubmesh.interop.Person.id; class=yes";
    let parts = ["\"id\":\"7\"", "{\"class\":\"org.dubmesh.interop.Person\"", "\"age\":1"];
    check("person", &[person, longs], zoe, 200, &parts);
    let dates = "x-dubbo-json: dates=millis";
    let types = "x-dubbo-parameter-types: java.util.Date";
    check("date", &[types, dates], "[\"1970-01-01T00:00:01Z\"]", 200, &["1000"]);
    let types = "x-dubbo-parameter-types: java.lang.Object";
    let cycle = "[{\"self\":{\"$ref\":\"$\"},\"list\":[1],\"again\":{\"$ref\":\"$.list\"}}]";
    let parts = ["\"self\":{\"$ref\":\"$\"}", "[1]", "{\"$ref\":\"$."];
    check("any?json=refs%3Dpath", &[types], cycle, 200, &parts);
    check("any", &[types, "x-dubbo-json: dates=never"], "[1]", 400, &["iso or millis"]);
}

/// Names that mean something to fastjson never reach it, and values come in a form that it reads.
fn fastjson_gets_what_it_reads(http: &mut Http, wrong: &mut Vec<String>) {
    let mut check = |method: &str, types: &str, sent: &str, status: u16, part: &str| {
        let header = format!("x-dubbo-parameter-types: {types}");
        let answer = http.post(&format!("/{TYPES}/{method}"), &[&header], sent).unwrap();
        if answer.status != status || !answer.body.contains(part) {
            wrong.push(format!("{method} {sent}: {} {}", answer.status, answer.body));
        }
    };
    for name in [r#""@type":"java.util.Date","val":5"#, r#""\u0040type":"a.B""#, r#""$ref":"$""#] {
        for sent in [format!("[{{{name}}}]"), format!("[{{\"a\":[{{\"b\":1,{name}}}]}}]")] {
            check("any", "java.lang.Object", &sent, 400, "fastjson takes the names");
        }
    }
    let date = r#"["2024-02-29T13:05:59.123456789Z"]"#;
    check("date", "java.util.Date", date, 200, "1709211959123");
    let date = r#"[{"class":"java.util.Date","value":7}]"#;
    check("date", "java.util.Date", date, 200, "7");
}

/// An agent that knows the provider from a file in `folder`.
fn agent_for(java: &JavaProvider, version: DubboVersion, wire: Wire, folder: &Path) -> Agent {
    // The release says which framing fastjson has.
    let release = if version == DubboVersion::V3_3 { "3.3.6" } else { "2.7.23" };
    let url = format!("{}?serialization={}&release={release}", java.url(), wire.name());
    let (port, path) = (free_port(), folder.join("services.toml"));
    let services = format!("[[service]]\ninterface = \"{TYPES}\"\nendpoints = [\"{url}\"]\n");
    fs::write(&path, services).unwrap();
    let agent = Agent::start(
        "consumer",
        &format!(
            "[agent]\nname = \"consumer\"\nworkers = 1\n[log]\nformat = \"json\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n\
             [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:{port}\"\n\
             [[registry]]\nkind = \"file\"\npath = \"{}\"\n\
             [defaults]\ntimeout_ms = 20000\n",
            path.display()
        ),
    );
    wait_until("a first answer", || {
        let answer = Http::to(agent.http()).post(&format!("/{TYPES}/variant"), &[], "[]");
        answer.is_ok_and(|answer| answer.status == 200)
    });
    agent
}

#[test]
fn values_come_back_from_dubbo_2_7() {
    every_value_comes_back(DubboVersion::V2_7, Wire::Hessian2);
}

#[test]
fn values_come_back_from_dubbo_2_7_by_fastjson() {
    every_value_comes_back(DubboVersion::V2_7, Wire::Fastjson { keeps_nulls: false });
}

#[test]
fn values_come_back_from_dubbo_3_3() {
    every_value_comes_back(DubboVersion::V3_3, Wire::Hessian2);
}

#[test]
fn values_come_back_from_dubbo_3_3_by_fastjson2() {
    every_value_comes_back(DubboVersion::V3_3, Wire::Fastjson2);
}

#[test]
fn values_come_back_from_dubbo_3_3_by_fastjson() {
    every_value_comes_back(DubboVersion::V3_3, Wire::Fastjson { keeps_nulls: true });
}
