//! Objects that name their class, in calls that tell no types and of services that no definition
//! describes: the provider finds the method, and makes the objects itself, as for Java's own
//! generic callers.

use std::fs;
use std::thread;

use crate::support::{Agent, HttpResponse, post, speaking, wait_until};
use interop_harness::{DubboVersion, JavaProvider, ProviderOptions};

const SHOP: &str = "org.dubmesh.interop.ShopService";

/// A provider, and an agent that knows nothing of its services but its address.
struct ProviderAndAgent {
    version: DubboVersion,
    serialization: &'static str,
    agent: Agent,
    _java: JavaProvider,
    _folder: tempfile::TempDir,
}

impl ProviderAndAgent {
    fn start(version: DubboVersion, serialization: &'static str) -> Self {
        Self::with(version, serialization, false)
    }

    /// The same; the agent may know the documents that Dubbo's own builder makes.
    fn with(version: DubboVersion, serialization: &'static str, is_told: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let definitions = is_told.then(|| folder.path().to_owned());
        let options = ProviderOptions { definitions, ..speaking(serialization) };
        let java = JavaProvider::start(version, options).unwrap();
        let known = match is_told {
            true => format!("definitions = \"{}\"\n", folder.path().display()),
            false => String::new(),
        };
        let path = folder.path().join("services.toml");
        let url = format!("{}?serialization={serialization}", java.url());
        let services = format!("[[service]]\ninterface = \"{SHOP}\"\nendpoints = [\"{url}\"]\n");
        fs::write(&path, services).unwrap();
        let config = format!(
            "[agent]\nworkers = 1\n[log]\nformat = \"json\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [[registry]]\nkind = \"file\"\npath = \"{}\"\nask_providers = false\n{known}\
             [defaults]\ntimeout_ms = 20000\nserialization = \"{serialization}\"\n\
             [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n",
            path.display()
        );
        let agent = Agent::start("consumer", &config);
        let fixture = Self { version, serialization, agent, _java: java, _folder: folder };
        wait_until("a first answer", || fixture.call("level", &[], "\"LOW\"").body == "\"LOW1\"");
        fixture
    }

    fn call(&self, method: &str, headers: &[&str], body: &str) -> HttpResponse {
        post(self.agent.http(), &format!("/{SHOP}/{method}"), headers, body)
    }

    /// Calls twice, for the second call goes by what the first has found out.
    fn wrong(&self, calls: &[(&str, String, &str)]) -> Vec<String> {
        let twice = calls.iter().flat_map(|call| [call, call]);
        let answers = twice.map(|call| (call, self.call(call.0, &[], &call.1)));
        let is_wrong = |((_, _, expected), answer): &(&(&str, String, &str), HttpResponse)| {
            answer.status != 200 || answer.body != format!("\"{expected}\"")
        };
        let who = format!("{:?} by {}", self.version, self.serialization);
        answers
            .filter(is_wrong)
            .map(|((method, body, expected), answer)| {
                format!(
                    "{who}: {method} {body}\n  is {} {}\n  not \"{expected}\"",
                    answer.status, answer.body
                )
            })
            .collect()
    }
}

/// A book of 3 pages with all that JSON alone does not tell, and a cover and parts that are items
/// of their own. Dubbo 2.6 makes no `LocalDate` of a text.
fn book(version: DubboVersion) -> String {
    let day = match version {
        DubboVersion::V2_6 => r#"{"class":"java.time.LocalDate","value":"2024-02-29"}"#,
        _ => "\"2024-02-29\"",
    };
    format!(
        r#"{{"class":"org.dubmesh.interop.Book","code":"a","price":19.95,"made":1000,"day":{day},"level":"HIGH",
           "pages":3,"cover":{{"code":"c","price":2.5}},
           "parts":[{{"code":"p"}},{{"class":"org.dubmesh.interop.Book","pages":7,"price":"1.10"}}]}}"#
    )
}

const BOOK: &str = "Book{a price 19.95 made 1000 day 2024-60 rank 9 Item{p} Book{null price 1.10}*7}*3+Item{c price 2.5}";

fn objects(fixture: &ProviderAndAgent) -> Vec<String> {
    let book = book(fixture.version);
    let all = format!("{BOOK};Item{{x}};");
    let shelf = format!("s={all}");
    let any = format!("list[{BOOK} map{{a=Integer 1 }} ]");
    fixture.wrong(&[
        ("put", book.clone(), BOOK),
        ("any", book.clone(), BOOK),
        ("putAll", format!(r#"[[{book},{{"code":"x"}}]]"#), &all),
        ("putArray", format!(r#"[[{book},{{"code":"x"}}]]"#), &all),
        ("shelves", format!(r#"{{"s":[{book},{{"code":"x"}}]}}"#), &shelf),
        ("anyOf", format!(r#"[[{book},{{"a":1}}]]"#), &any),
        ("level", r#"{"class":"org.dubmesh.interop.Level","name":"HIGH"}"#.to_owned(), "HIGH9"),
        ("any", r#"{"class":"org.dubmesh.interop.Level","name":"HIGH"}"#.to_owned(), " HIGH"),
    ])
}

/// What a class of the JDK makes of a value.
fn values(fixture: &ProviderAndAgent) -> Vec<String> {
    let item = r#"{"class":"org.dubmesh.interop.Item","made":{"class":"java.util.Date","value":"2024-02-29T00:00:00Z"},
        "day":{"class":"java.time.LocalDate","value":"2024-02-29"},
        "price":{"class":"java.math.BigDecimal","value":19.90},
        "parts":{"class":"java.util.LinkedList<org.dubmesh.interop.Item>","value":[{"code":"p"}]}}"#;
    let made = "Item{null price 19.90 made 1709164800000 day 2024-60 Item{p}}";
    let any = r#"[[{"class":"java.util.Date","value":1000},{"class":"java.math.BigDecimal","value":1.10},
        {"class":"java.lang.Long","value":7},{"class":"java.time.LocalDate","value":"2024-02-29"},
        {"class":"org.dubmesh.interop.Item[]","value":[{"code":"x"}]},
        {"class":"java.util.TreeMap","b":{"class":"org.dubmesh.interop.Item","code":"x"}},
        {"class":"java.util.ArrayList<org.dubmesh.interop.Item>","value":[{"code":"y"}]}]]"#;
    let expected = match fixture.serialization {
        "hessian2" => {
            "list[Date 1000 BigDecimal 1.10 Long 7 LocalDate 2024-02-29 Object[]list[Item{x} ] map{b=Item{x} } \
             list[Item{y} ] ]"
        }
        "fastjson2" => {
            "list[Date 1000 BigDecimal 1.10 Long 7 LocalDate 2024-02-29 list[Item{x} ] map{b=Item{x} } \
             list[Item{y} ] ]"
        }
        // Its text tells numbers and texts alone, and dates by a setter; a field's or parameter's
        // type makes the rest of them.
        _ => {
            "list[Date 1000 BigDecimal 1.10 Integer 7 String 2024-02-29 list[Item{x} ] map{b=Item{x} } \
             list[Item{y} ] ]"
        }
    };
    let is_text = fixture.serialization == "fastjson";
    let by_type = [("put", item.to_owned(), made), ("anyOf", any.to_owned(), expected)];
    let uuid =
        r#"{"class":"java.util.UUID","value":"00000000-0000-0001-0000-000000000002"}"#.to_owned();
    let shown = if is_text { "String" } else { "UUID" };
    let shown = format!("{shown} 00000000-0000-0001-0000-000000000002");
    let mut wrong = fixture.wrong(&by_type);
    wrong.extend(fixture.wrong(&[("any", uuid, &shown)]));
    wrong
}

const ITEM: &str = "org.dubmesh.interop.Item";

/// The same with the types of the parameters: as long as nobody tells of their fields, the
/// provider makes the objects.
fn declared(fixture: &ProviderAndAgent) -> Vec<String> {
    let book = book(fixture.version);
    let size = r#"{"width":3,"unit":"cm","weight":{"class":"java.math.BigDecimal","value":1.50}}"#;
    let reads_records =
        fixture.version == DubboVersion::V3_3 || fixture.serialization == "fastjson2";
    let made = r#"{"code":"a","price":1.5,"made":"2024-02-29 13:05:59","level":"HIGH"}"#;
    let calls = [
        ("put", ITEM, book.clone(), "\"Book{"),
        ("put", ITEM, made.to_owned(), "\"Item{a price 1.5 made 17"),
        ("any", "java.lang.Object", book.clone(), "\"Book{a price 19.95 made 1000"),
        ("putAll", "java.util.List<org.dubmesh.interop.Item>", format!("[[{made}]]"), "\"Item{a"),
        ("putArray", "org.dubmesh.interop.Item[]", format!("[[{book}]]"), "\"Book{a price 19.95"),
        ("anyOf", "java.util.List", format!("[[{book}]]"), "\"list[Book{a price 19.95"),
        ("level", "org.dubmesh.interop.Level", "\"HIGH\"".to_owned(), "\"HIGH9"),
        ("put", ITEM, "null".to_owned(), "null"),
        // A record is written as an object, which its parameter names.
        ("size", "org.dubmesh.interop.Size", size.to_owned(), "\"Size{3cm 1.50"),
    ];
    let is_tried = |method: &str| match method {
        "size" => reads_records,
        _ => true,
    };
    let mut wrong = Vec::new();
    for (method, types, body, expected) in &calls {
        let header = format!("x-dubbo-parameter-types: {types}");
        for _ in 0..if is_tried(method) { 2 } else { 0 } {
            let answer = fixture.call(method, &[&header], body);
            let is_right = match *expected {
                "null" => answer.status != 400,
                _ => answer.status == 200 && answer.body.starts_with(expected),
            };
            if !is_right {
                wrong.push(format!("{:?}: {method} {types} {body}: {answer:?}", fixture.version));
            }
        }
    }
    wrong
}

/// Dubbo's generic call sets field after field, which a record does not have set. What can be made
/// of it is made.
fn records(fixture: &ProviderAndAgent) -> Vec<String> {
    let size = r#"{"class":"org.dubmesh.interop.Size","width":3,"unit":"cm",
        "weight":{"class":"java.math.BigDecimal","value":1.50},
        "items":[{"class":"org.dubmesh.interop.Book","pages":2}]}"#;
    let reads_records =
        fixture.version == DubboVersion::V3_3 || fixture.serialization == "fastjson2";
    if reads_records {
        let book = book(fixture.version);
        let both = format!("list[Size{{3cm 1.50 Book{{null}}*2}} {BOOK} ]");
        return fixture.wrong(&[
            ("size", size.to_owned(), "Size{3cm 1.50 Book{null}*2}"),
            ("any", size.to_owned(), "Size{3cm 1.50 Book{null}*2}"),
            ("anyOf", format!("[[{size},{book}]]"), &both),
        ]);
    }
    // The others know no records; 2.6 does not even say why it makes none.
    let answer = fixture.call("size", &[], size);
    let words = match fixture.version {
        DubboVersion::V2_6 => "bad_arguments",
        _ => "org.dubmesh.interop.Size is a record",
    };
    let is_right = answer.status == 400 && answer.body.contains(words);
    if is_right { Vec::new() } else { vec![format!("{:?}: a record: {answer:?}", fixture.version)] }
}

fn refusals(fixture: &ProviderAndAgent) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut fails = |method: &str, body: &str, parts: &[&str]| {
        let answer = fixture.call(method, &[], body);
        if answer.status != 400 || !parts.iter().all(|part| answer.body.contains(part)) {
            wrong.push(format!("{:?}: {method} {body}: {answer:?}", fixture.version));
        }
    };
    if matches!(fixture.version, DubboVersion::V3_2 | DubboVersion::V3_3) {
        let parts = ["bad_arguments", "com.acme.Nothing", "allow list", "serialize.allowlist"];
        fails("put", r#"{"class":"com.acme.Nothing","code":"x"}"#, &parts);
        let parts = [r#"\"class\":\"org.dubmesh.interop.Size\""#, "x-dubbo-parameter-types"];
        fails("size", r#"{"width":3,"unit":"cm"}"#, &parts);
    }
    fails("put", r#"{"class":"org.dubmesh.interop.Item","made":"yesterday"}"#, &["yesterday"]);
    fails("put", r#"{"class":"a b"}"#, &["bad_arguments", "the name of a class"]);
    wrong
}

fn check(version: DubboVersion) {
    let wrong: Vec<String> = thread::scope(|scope| {
        let checks: Vec<_> = version
            .serializations()
            .iter()
            // That of Dubbo 3 under the same number is an extension, and read in the same way.
            .filter(|name| **name != "fastjson" || version == DubboVersion::V2_7)
            .map(|&serialization| {
                scope.spawn(move || {
                    let fixture = ProviderAndAgent::start(version, serialization);
                    let checks = [objects, values, declared, records, refusals];
                    checks.into_iter().flat_map(|check| check(&fixture)).collect::<Vec<_>>()
                })
            })
            .collect();
        checks.into_iter().flat_map(|check| check.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} calls went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn objects_that_name_their_class_reach_dubbo_2_6() {
    check(DubboVersion::V2_6);
}

#[test]
fn objects_that_name_their_class_reach_dubbo_2_7() {
    check(DubboVersion::V2_7);
}

#[test]
fn objects_that_name_their_class_reach_dubbo_3_2() {
    check(DubboVersion::V3_2);
}

#[test]
fn objects_that_name_their_class_reach_dubbo_3_3() {
    check(DubboVersion::V3_3);
}

const PAGE_OF_ITEMS: &str =
    "x-dubbo-parameter-types: org.dubmesh.interop.Page<org.dubmesh.interop.Item>";

/// With the fields of `Page` known, the types between < and > count for what it holds: the class
/// goes out alone, its elements as what they are. Dubbo's own documents tell of `List<T>`, but of
/// no type parameter by itself.
fn type_arguments(version: DubboVersion, serialization: &'static str) -> Vec<String> {
    let fixture = ProviderAndAgent::with(version, serialization, true);
    let item = r#"{"code":"a","price":1.10,"made":"1970-01-01T00:00:01Z","day":"2024-02-29","level":"HIGH"}"#;
    let shown = "Item{a price 1.10 made 1000 day 2024-60 rank 9}";
    let book = r#"{"class":"org.dubmesh.interop.Book","price":2.5,"pages":3}"#;
    let body = format!(
        r#"{{"number":1,"items":[{item},{book},null],"byName":{{"n":{item}}},
           "next":{{"number":2,"items":[{item}]}}}}"#
    );
    let expected =
        format!("\"page 1 {shown};Book{{null price 2.5}}*3;null; n={shown} page 2 {shown};\"");
    let mut wrong = Vec::new();
    let mut check = |headers: &[&str], body: &str, is_right: &dyn Fn(&HttpResponse) -> bool| {
        for _ in 0..2 {
            let answer = fixture.call("page", headers, body);
            if !is_right(&answer) {
                wrong.push(format!(
                    "{version:?} by {serialization}: {headers:?} {body}\n  {answer:?}\n  {expected}"
                ));
            }
        }
    };
    check(&[PAGE_OF_ITEMS], &body, &|answer| answer.body == expected);
    // What does not fit an element's field is refused with its place.
    check(&[PAGE_OF_ITEMS], r#"{"items":[{"made":"soon"}]}"#, &|answer| {
        answer.status == 400 && answer.body.contains("argument 0") && answer.body.contains("soon")
    });
    for (types, words) in [
        ("Page<Item>", "Page has no package"),
        ("String", "did you mean java.lang.String?"),
        ("org.dubmesh.interop.Page<T>", "T has no package"),
        ("org.dubmesh.interop.Page<java.lang.Long,java.lang.Long>", "takes 1 types"),
        ("org.dubmesh.interop.Item<java.lang.Long>", "org.dubmesh.interop.Item"),
        ("org.dubmesh.interop.Page<org.dubmesh.interop.Item", "ends too early"),
    ] {
        let header = format!("x-dubbo-parameter-types: {types}");
        check(&[&header], &body, &|answer| answer.status == 400 && answer.body.contains(words));
    }
    wrong
}

#[test]
fn types_between_angle_brackets_count() {
    let wrong: Vec<String> = thread::scope(|scope| {
        let checks = [
            (DubboVersion::V2_7, "hessian2"),
            (DubboVersion::V3_3, "hessian2"),
            (DubboVersion::V3_3, "fastjson2"),
        ]
        .map(|(version, serialization)| {
            scope.spawn(move || type_arguments(version, serialization))
        });
        checks.into_iter().flat_map(|check| check.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} calls went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Where nothing tells of `Page`, nobody can say which of its fields the types are of. Java's own
/// generic call makes no elements of a `List<T>` either. Objects that name their class need nobody
/// to tell.
#[test]
fn types_between_angle_brackets_are_refused_where_nothing_tells_what_they_mean() {
    let fixture = ProviderAndAgent::start(DubboVersion::V3_3, "hessian2");
    let refused = fixture.call("page", &[PAGE_OF_ITEMS], r#"{"items":[{"code":"x"}]}"#);
    assert_eq!((refused.status, &*refused.code()), (400, "bad_arguments"), "{refused:?}");
    assert!(refused.body.contains("which fields of org.dubmesh.interop.Page"), "{refused:?}");
    let body =
        r#"{"number":1,"items":[{"class":"org.dubmesh.interop.Item","code":"x","price":2.5}]}"#;
    let named = fixture.call("page", &[], body);
    assert_eq!(named.body, "\"page 1 Item{x price 2.5};\"", "{named:?}");
}

/// By fastjson, Dubbo 2.6 reads an argument by the bare class of its parameter, so that the
/// elements are maps: Java's own consumers, who write no class names, get a `ClassCastException`,
/// too. Objects that name their class in a generic call become what they are.
#[test]
fn elements_reach_dubbo_2_6_by_fastjson_where_they_name_their_class() {
    let fixture = ProviderAndAgent::start(DubboVersion::V2_6, "fastjson");
    let item = |code: &str| format!(r#"{{"class":"org.dubmesh.interop.Item","code":"{code}"}}"#);
    let page = format!(r#"{{"number":1,"items":[{}],"byName":{{"k":{}}}}}"#, item("x"), item("y"));
    let all = format!("[[{},{}]]", item("x"), item("y"));
    let wrong = fixture.wrong(&[
        ("page", page.clone(), "page 1 Item{x}; k=Item{y}"),
        ("putAll", all, "Item{x};Item{y};"),
        // Java finds out itself what a list that it declares holds.
        ("putAll", r#"[[{"code":"x"}]]"#.to_owned(), "Item{x};"),
    ]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let typed = fixture.call(
        "page",
        &["x-dubbo-parameter-types: org.dubmesh.interop.Page"],
        r#"{"number":1,"items":[{"code":"x"}]}"#,
    );
    assert!(typed.status != 200 && typed.body.contains("ClassCastException"), "{typed:?}");
}
