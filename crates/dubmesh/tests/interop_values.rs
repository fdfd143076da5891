//! Values that proptest makes up, sent to real Java services that return them: what comes back is the same.
//!
//! One agent and one provider answer all of them; a value that comes back wrong is printed with its call.

mod interop_support;

use std::fs;
use std::path::Path;

use hessian::check::canonical;
use interop_harness::{DubboVersion, JavaProvider, ProviderOptions, free_port};
use interop_support::{Agent, Http, TYPES, wait_until};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

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

/// A `Person` with friends. Fields without generic arguments need the long form for dates and decimals.
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

fn every_value_comes_back(version: DubboVersion) {
    let java = JavaProvider::start(version, ProviderOptions::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let agent = agent_for(&java, folder.path());
    let mut runner = TestRunner::deterministic();
    let mut http = Http::to(agent.http());
    let mut wrong = Vec::new();
    for (method, types, strategy) in kinds() {
        let header = format!("x-dubbo-parameter-types: {types}");
        for _ in 0..N_VALUES {
            let (sent, back) = strategy.new_tree(&mut runner).unwrap().current();
            let path = format!("/{TYPES}/{method}");
            let answer = http.post(&path, &[&header], &format!("[{sent}]")).unwrap();
            if answer.status != 200
                || canonical(answer.body.as_bytes()) != canonical(back.as_bytes())
            {
                wrong.push(format!("{method} {sent}\n  got {} {}", answer.status, answer.body));
            }
        }
    }
    options_reach_the_agent(&mut http, &mut wrong);
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

/// An agent that knows the provider from a file in `folder`.
fn agent_for(java: &JavaProvider, folder: &Path) -> Agent {
    let (port, url, path) = (free_port(), java.url(), folder.join("services.toml"));
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
    every_value_comes_back(DubboVersion::V2_7);
}

#[test]
fn values_come_back_from_dubbo_3_3() {
    every_value_comes_back(DubboVersion::V3_3);
}
