//! Calls that tell no types, to real Dubbo providers: by a definition from each place where an
//! estate may have it, and without any.

use std::fs;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use crate::support::{Agent, HttpResponse, SESSION, TYPES, post, wait_until};
use interop_harness::{DubboVersion, Etcd, JavaProvider, ProviderOptions};
use serde_json::Value;

const PEOPLE: &str = "org.dubmesh.interop.PeopleService";

/// Where the agent learns what the services look like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum DefinitionSource {
    /// The providers themselves have put it into etcd.
    Report,
    /// A folder with the documents that Dubbo's own builder makes.
    Folder,
    /// The providers tell by telnet; of classes they say nothing.
    Telnet,
    /// Nowhere.
    Nothing,
}

impl DefinitionSource {
    /// Whether the fields of classes are known.
    fn has_classes(self) -> bool {
        matches!(self, Self::Report | Self::Folder)
    }

    fn has_methods(self) -> bool {
        self != Self::Nothing
    }
}

/// The sources that a version of Dubbo has. interop/README.md says what the others lack.
fn sources(version: DubboVersion) -> Vec<DefinitionSource> {
    match version {
        DubboVersion::V2_6 => {
            vec![DefinitionSource::Folder, DefinitionSource::Telnet, DefinitionSource::Nothing]
        }
        DubboVersion::V2_7 => {
            vec![
                DefinitionSource::Report,
                DefinitionSource::Folder,
                DefinitionSource::Telnet,
                DefinitionSource::Nothing,
            ]
        }
        DubboVersion::V3_2 | DubboVersion::V3_3 => {
            vec![DefinitionSource::Report, DefinitionSource::Folder, DefinitionSource::Nothing]
        }
    }
}

struct AgentUnderTest<'a> {
    agent: &'a Agent,
    version: DubboVersion,
    source: DefinitionSource,
    wrong: Vec<String>,
}

impl AgentUnderTest<'_> {
    fn call(&self, interface: &str, method: &str, headers: &[&str], body: &str) -> HttpResponse {
        post(self.agent.http(), &format!("/{interface}/{method}"), headers, body)
    }

    fn check(&mut self, what: &str, answer: &HttpResponse, is_right: bool) {
        if !is_right {
            let mut text = format!("{:?}: {what}: {} {}", self.source, answer.status, answer.body);
            text.truncate(text.floor_char_boundary(700));
            self.wrong.push(text);
        }
    }

    /// Calls twice, for the second call goes by what the first has found out.
    fn returns(&mut self, (interface, method): (&str, &str), body: &str, expected: &str) {
        for _ in 0..2 {
            let answer = self.call(interface, method, &[], body);
            let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
            let is_same = answer.body == expected || parse(&answer.body) == parse(expected);
            self.check(
                &format!("{method} {body} = {expected}"),
                &answer,
                answer.status == 200 && is_same,
            );
        }
    }

    fn fails(
        &mut self,
        (interface, method): (&str, &str),
        body: &str,
        status: u16,
        parts: &[&str],
    ) {
        for _ in 0..2 {
            let answer = self.call(interface, method, &[], body);
            let is_right =
                answer.status == status && parts.iter().all(|part| answer.body.contains(part));
            self.check(&format!("{method} {body} fails: {status} {parts:?}"), &answer, is_right);
        }
    }
}

fn all_calls(peer: &mut AgentUnderTest<'_>) {
    argument_lists(peer);
    overloads(peer);
    contradictions(peer);
    objects(peer);
    generic_modes(peer);
    generic_numbers(peer);
    failures(peer);
}

fn argument_lists(peer: &mut AgentUnderTest<'_>) {
    for body in ["[]", ""] {
        peer.returns((TYPES, "variant"), body, "\"plain\"");
        peer.returns((PEOPLE, "greet"), body, "\"nobody\"");
    }
    peer.returns((TYPES, "text"), "[null]", "null");
    peer.returns((TYPES, "text"), "null", "null");
    peer.returns((TYPES, "boxedInt"), "[null]", "null");
    peer.returns((TYPES, "add"), "[2,3]", "5");
    peer.returns((TYPES, "texts"), "[[\"a\",\"b\"]]", "[\"a\",\"b\"]");
    peer.returns((PEOPLE, "join"), "[[\"a\",\"b\",\"c\"]]", "\"a-b-c\"");
    if peer.source.has_methods() {
        peer.returns((PEOPLE, "join"), "[\"a\",\"b\",\"c\"]", "\"a-b-c\"");
        peer.returns((PEOPLE, "join"), "[\"a\"]", "\"a\"");
        peer.returns((PEOPLE, "join"), "[]", "\"\"");
        // A float travels as a double; its digits come right by the type of the result.
        peer.returns((TYPES, "float32"), "[99.8]", "99.8");
        peer.fails((TYPES, "add"), "[1,2,3]", 400, &["bad_arguments", "add(int, int)"]);
    }
}

fn overloads(peer: &mut AgentUnderTest<'_>) {
    if !peer.source.has_methods() {
        let parts = ["bad_arguments", "x-dubbo-parameter-types"];
        return peer.fails((TYPES, "echo"), "[4]", 400, &parts);
    }
    peer.returns((TYPES, "echo"), "[\"x\"]", "\"String x\"");
    peer.returns((TYPES, "echo"), "[\"x\",\"y\"]", "\"x and y\"");
    peer.returns((TYPES, "echo"), "[4.5]", "2.25");
    peer.returns((TYPES, "echo"), "[7000000000]", "-7000000000");
    peer.returns((TYPES, "echo"), "[[\"x\"]]", "[\"x\"]");
    let parts = ["ambiguous_method", "echo(int)", "echo(long)", "x-dubbo-parameter-types"];
    peer.fails((TYPES, "echo"), "[4]", 400, &parts);
    peer.fails((TYPES, "echo"), "[\"x\",{}]", 400, &["bad_arguments", "argument 1"]);
    peer.returns((PEOPLE, "greet"), "[\"x\"]", "\"name x\"");
    peer.returns((PEOPLE, "greet"), "[\"hello\",{\"name\":\"A\"}]", "\"hello A\"");
    if peer.source.has_classes() {
        peer.returns((PEOPLE, "greet"), "[{\"name\":\"A\",\"age\":1}]", "\"person A\"");
        peer.returns((PEOPLE, "greet"), "[{\"city\":\"B\"}]", "\"address B\"");
        peer.returns((PEOPLE, "greet"), "[[{\"name\":\"A\"}]]", "\"1 people, first A\"");
        peer.fails((PEOPLE, "greet"), "[{}]", 400, &["ambiguous_method", "greet(org.dubmesh"]);
    }
}

/// Values that a known scalar type does not have. In a generic call Java would cut them off, and
/// succeed.
fn contradictions(peer: &mut AgentUnderTest<'_>) {
    let scalars = [
        ("int32", "int", "[3000000000]", "3000000000 is not an int"),
        ("int32", "int", "[1.5]", "1.5 is not an int"),
        ("int8", "byte", "[300]", "300 is not a byte"),
        ("add", "int,int", "[1.5,2]", "1.5 is not an int"),
        (
            "add",
            "int,int",
            "[\"a\",\"b\"]",
            "argument 0 (int): JSON at byte 0: \\\"a\\\" is not an int",
        ),
        ("bool", "boolean", "[\"yes\"]", "is not a boolean"),
        ("boxedInt", "java.lang.Integer", "[3000000000]", "3000000000 is not an int"),
        ("float32", "float", "[\"1e39\"]", "is not a float"),
        ("int32s", "int[]", "[[1,3000000000]]", "3000000000 is not an int"),
        ("bytes", "byte[]", "[[300]]", "300 is not a byte"),
    ];
    let containers = [
        ("counts", "java.util.Map<java.lang.String,java.lang.Integer>", "[{\"a\":3000000000}]"),
        ("names", "java.util.Map<java.lang.Integer,java.lang.String>", "[{\"3000000000\":\"a\"}]"),
        ("person", "org.dubmesh.interop.Person", "[{\"age\":1.5}]"),
        ("people", "java.util.List<org.dubmesh.interop.Person>", "[[{\"age\":3000000000}]]"),
    ];
    let containers = containers.map(|(method, types, body)| (method, types, body, "is not an int"));
    for (method, types, body, words) in scalars.into_iter().chain(containers) {
        let parts = ["bad_arguments", words];
        let has_fields = types.contains("Person");
        let is_known = if types.contains("java.util") || has_fields {
            peer.source.has_classes()
        } else {
            peer.source.has_methods()
        };
        if is_known {
            peer.fails((TYPES, method), body, 400, &parts);
        }
        // The caller's own types count, however the call is made.
        if has_fields && !is_known {
            continue;
        }
        let types = format!("x-dubbo-parameter-types: {types}");
        for generic in ["x-dubbo-generic: true", "x-dubbo-generic: gson", "x-other: 1"] {
            let answer = peer.call(TYPES, method, &[&types, generic], body);
            let is_right =
                answer.status == 400 && parts.iter().all(|part| answer.body.contains(part));
            peer.check(&format!("{method} {body} with {types} {generic}"), &answer, is_right);
        }
    }
    // Java takes what is not a value of an enum for null, but in a generic call.
    peer.fails((TYPES, "color"), "[\"PURPLE\"]", 400, &["bad_arguments", "PURPLE"]);
    if peer.source.has_classes() {
        let types = "x-dubbo-parameter-types: org.dubmesh.interop.Color";
        let answer = peer.call(TYPES, "color", &[types], "[\"PURPLE\"]");
        let is_right = answer.status == 400 && answer.body.contains("(RED, GREEN, BLUE)");
        peer.check("a value that an enum does not have", &answer, is_right);
    }
    if peer.source.has_methods() {
        peer.returns((TYPES, "int32"), "[\"7\"]", "7");
        peer.returns((TYPES, "int64"), "[9.007199254740993e15]", "9007199254740993");
    }
}

/// A person with a field of each kind that JSON cannot tell by itself.
const ALICE: &str = r#"{"name":"Alice","age":30,"id":7,"active":true,"score":2,"balance":1.10,
    "born":"1999-12-31T23:59:59.123Z","color":"GREEN","address":{"city":"Springfield","zip":12345},
    "friends":[{"name":"Bob","color":"RED","born":"2000-01-01"}],"counts":{"one":1}}"#;

fn objects(peer: &mut AgentUnderTest<'_>) {
    if peer.source.has_classes() {
        peer.returns((TYPES, "color"), "[\"BLUE\"]", "\"BLUE\"");
        peer.returns((TYPES, "date"), "[\"2020-01-01\"]", "\"2020-01-01T00:00:00.000Z\"");
        let is_alice = |json: &Value| {
            json["name"] == "Alice"
                && json["born"] == "1999-12-31T23:59:59.123Z"
                && json["color"] == "GREEN"
                && json["id"] == 7
                && json["address"]["zip"] == 12345
                && json["friends"][0]["born"] == "2000-01-01T00:00:00.000Z"
                && json["friends"][0]["color"] == "RED"
                && json["counts"]["one"] == 1
        };
        let same = peer.call(TYPES, "person", &[], &format!("[{ALICE}]"));
        let json: Value = serde_json::from_str(&same.body).unwrap_or_default();
        let is_exact = same.body.contains("\"balance\":1.10");
        peer.check("a full person", &same, is_alice(&json) && is_exact);
        let people = peer.call(TYPES, "people", &[], &format!("[[{ALICE},null]]"));
        let json: Value = serde_json::from_str(&people.body).unwrap_or_default();
        peer.check("a list of people", &people, is_alice(&json[0]) && json[1].is_null());
        let directory = peer.call(PEOPLE, "directory", &[], &format!("[{{\"a\":{ALICE}}}]"));
        let json: Value = serde_json::from_str(&directory.body).unwrap_or_default();
        peer.check("a map of people", &directory, is_alice(&json["a"]) && json["a"]["age"] == 31);
        let lead = "[{\"name\":\"A\",\"since\":\"2021-06-01\"}]";
        peer.returns((PEOPLE, "lead"), lead, "\"A since 2021\"");
    }
    // Without the fields of classes the provider makes the objects, which takes no text for a
    // date.
    let zoe = peer.call(TYPES, "person", &[], "[{\"name\":\"Zoe\",\"color\":\"RED\",\"age\":1}]");
    let json: Value = serde_json::from_str(&zoe.body).unwrap_or_default();
    let is_right = json["name"] == "Zoe" && json["color"] == "RED" && json["age"] == 1;
    peer.check("a person with an enum", &zoe, is_right);
    peer.returns((PEOPLE, "kind"), "[{\"name\":\"A\"}]", "\"Person\"");
    let employee = r#"[{"class":"org.dubmesh.interop.Employee","name":"A","company":"B"}]"#;
    peer.returns((PEOPLE, "kind"), employee, "\"Employee of B\"");
}

fn generic_modes(peer: &mut AgentUnderTest<'_>) {
    // 2.6 takes gson for true, and a text for a person.
    let n_modes = if peer.version == DubboVersion::V2_6 { 1 } else { 2 };
    for mode in ["true", "gson"].into_iter().take(n_modes) {
        let header = format!("x-dubbo-generic: {mode}");
        let person =
            peer.call(TYPES, "person", &[&header], "[{\"name\":\"Zoe\",\"color\":\"RED\"}]");
        let json: Value = serde_json::from_str(&person.body).unwrap_or_default();
        let is_right = json["name"] == "Zoe" && json["color"] == "RED";
        peer.check(&format!("generic={mode}"), &person, is_right);
        let types = "x-dubbo-parameter-types: long";
        let echo = peer.call(TYPES, "echo", &[&header, types], "[4]");
        peer.check(&format!("generic={mode} with types"), &echo, echo.body == "-4");
    }
    let wrong = peer.call(TYPES, "text", &["x-dubbo-generic: bean"], "[\"x\"]");
    peer.check("a mode that is not there", &wrong, wrong.status == 400);
}

/// Numbers that Java's generic call would change are written so that it does not, or refused.
fn generic_numbers(peer: &mut AgentUnderTest<'_>) {
    let generic = "x-dubbo-generic: true";
    // The type has to be known: from elsewhere nothing tells that it is a `BigInteger`.
    let beyond = match peer.source.has_methods() {
        true => (200, "18446744073709551617"),
        false => (400, "is not a number that a generic call can carry"),
    };
    for (method, body, (status, expected)) in [
        ("decimal", "[19.90]", (200, "19.90")),
        ("decimals", "[[19.90,1.5,100]]", (200, "[19.90,1.5,100")),
        ("float64", "[19.90]", (200, "19.9")),
        ("int64", "[9007199254740993]", (200, "9007199254740993")),
        ("bigInteger", "[9223372036854775807]", (200, "9223372036854775807")),
        ("bigInteger", "[18446744073709551617]", beyond),
        ("anyMap", "[{\"a\":1.10}]", (200, "1.10")),
    ] {
        let answer = peer.call(TYPES, method, &[generic], body);
        let is_right = answer.status == status && answer.body.contains(expected);
        peer.check(&format!("generic {method} {body} = {expected}"), &answer, is_right);
    }
    if peer.source.has_methods() {
        let answer = peer.call(TYPES, "decimal", &[generic], "[9007199254740993]");
        peer.check("a generic decimal", &answer, answer.body == "9007199254740993");
    }
    let types = "x-dubbo-parameter-types: java.math.BigInteger";
    let answer = peer.call(TYPES, "bigInteger", &[generic, types], "[18446744073709551617]");
    peer.check("a typed BigInteger", &answer, answer.body == "18446744073709551617");
}

fn failures(peer: &mut AgentUnderTest<'_>) {
    // One mistake has one code, whatever the provider and whoever finds it.
    for (method, body) in
        [("add", "[1,2,3]"), ("add", "[1]"), ("text", "[]"), ("text", "[\"a\",\"b\"]")]
    {
        peer.fails((TYPES, method), body, 400, &["bad_arguments"]);
    }
    peer.fails((TYPES, "txt"), "[]", 404, &["method_not_found"]);
    if peer.version.has_etcd() {
        let parts = ["method_not_found", "did you mean text?", "textArray", "makePerson"];
        peer.fails((TYPES, "txt"), "[\"x\"]", 404, &parts);
        let parts = ["method_not_found", "it has add, "];
        peer.fails((TYPES, "nothingLikeIt"), "[\"x\"]", 404, &parts);
    } else {
        // A file lists no methods: the provider itself has to know.
        peer.fails((TYPES, "txt"), "[\"x\"]", 404, &["method_not_found", "txt"]);
    }
    let parts = ["exception", "org.dubmesh.interop.BusinessException: no luck for A"];
    peer.fails((PEOPLE, "fail"), "[{\"name\":\"A\"}]", 500, &parts);
    peer.fails((TYPES, "failUnchecked"), "[\"x\"]", 500, &["java.lang.IllegalStateException: x"]);
    let header = "x-dubbo-generic: true";
    let answer = peer.call(PEOPLE, "fail", &[header], "[{\"name\":\"A\"}]");
    let is_right = answer.status == 500 && answer.body.contains("BusinessException: no luck for A");
    peer.check("a generic exception", &answer, is_right);
}

/// A provider, and the folder with the documents of its services.
struct ProviderWithDefinitions {
    version: DubboVersion,
    etcd: Etcd,
    java: JavaProvider,
    folder: tempfile::TempDir,
}

impl ProviderWithDefinitions {
    fn start(version: DubboVersion) -> Self {
        let etcd = Etcd::start().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let url = format!("etcd://{}", etcd.addr());
        let options = ProviderOptions {
            registry: version.has_etcd().then(|| url.clone()),
            metadata: version.has_etcd().then(|| url.clone()),
            definitions: version.has_etcd().then(|| folder.path().to_owned()),
            telnet: (version == DubboVersion::V2_7).then(|| "ls".to_owned()),
            registry_session: SESSION,
            hash_sleep: Duration::ZERO,
            ..ProviderOptions::default()
        };
        let java = JavaProvider::start(version, options).unwrap();
        if !version.has_etcd() {
            // 2.6 has no builder of documents; those of 2.7 are about the same services.
            let definitions = Some(folder.path().to_owned());
            let options = ProviderOptions { definitions, ..ProviderOptions::default() };
            JavaProvider::start(DubboVersion::V2_7, options).unwrap();
            let services = [TYPES, PEOPLE].map(|interface| {
                format!(
                    "[[service]]\ninterface = \"{interface}\"\nendpoints = [\"{}\"]\n",
                    java.url()
                )
            });
            fs::write(folder.path().join("services.toml"), services.concat()).unwrap();
        }
        Self { version, etcd, java, folder }
    }

    fn agent(&self, source: DefinitionSource) -> Agent {
        let folder = self.folder.path().display();
        let kind = match self.version.has_etcd() {
            true => format!("kind = \"etcd\"\nendpoints = [\"{}\"]", self.etcd.client_url()),
            false => format!("kind = \"file\"\npath = \"{folder}/services.toml\""),
        };
        let root = if self.version.has_etcd() { "metadata_root = \"none\"\n" } else { "" };
        let keys = match source {
            DefinitionSource::Report => "ask_providers = false".to_owned(),
            DefinitionSource::Folder => {
                format!("{root}ask_providers = false\ndefinitions = \"{folder}\"")
            }
            DefinitionSource::Telnet => root.to_owned(),
            DefinitionSource::Nothing => format!("{root}ask_providers = false"),
        };
        let config = format!(
            "[agent]\nworkers = 2\n[log]\nformat = \"json\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [[registry]]\n{kind}\n{keys}\n[defaults]\ntimeout_ms = 20000\n\
             [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\n"
        );
        Agent::start("consumer", &config)
    }
}

fn check_version(version: DubboVersion) {
    let provider = ProviderWithDefinitions::start(version);
    let wrong: Vec<String> = thread::scope(|scope| {
        let checks: Vec<_> = sources(version)
            .into_iter()
            .map(|source| {
                let provider = &provider;
                scope.spawn(move || {
                    let agent = provider.agent(source);
                    for interface in [TYPES, PEOPLE] {
                        wait_until("the first endpoint", || {
                            let path = format!("/{interface}/toString");
                            let types = "x-dubbo-parameter-types: ";
                            post(agent.http(), &path, &[types], "[]").code() != "service_not_found"
                        });
                    }
                    let mut peer =
                        AgentUnderTest { agent: &agent, version, source, wrong: Vec::new() };
                    all_calls(&mut peer);
                    peer.wrong
                })
            })
            .collect();
        checks.into_iter().flat_map(|check| check.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} calls went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn dubbo_2_6_without_types() {
    check_version(DubboVersion::V2_6);
}

#[test]
fn dubbo_3_2_without_types() {
    check_version(DubboVersion::V3_2);
}

#[test]
fn dubbo_2_7_without_types() {
    check_version(DubboVersion::V2_7);
}

#[test]
fn dubbo_3_3_without_types() {
    check_version(DubboVersion::V3_3);
}

/// A wrong document never makes a method uncallable. A document that was corrected counts.
fn a_definition_may_be_wrong(version: DubboVersion) {
    let provider = ProviderWithDefinitions::start(version);
    let path = provider.folder.path().join(format!("{TYPES}.json"));
    let good = fs::read_to_string(&path).unwrap();
    let wrong = good.replace(
        r#""name":"text","parameterTypes":["java.lang.String"]"#,
        r#""name":"text","parameterTypes":["java.util.List\u003cjava.lang.String\u003e"]"#,
    );
    assert_ne!(wrong, good);
    fs::write(&path, wrong).unwrap();
    let agent = provider.agent(DefinitionSource::Folder);
    let call = |body: &str| post(agent.http(), &format!("/{TYPES}/text"), &[], body);
    wait_until("a first answer", || call("[null]").status == 200);
    // What the document says does not fit this provider: a generic call follows.
    assert_eq!(call("[null]").body, "null");
    assert_eq!(call("[\"x\"]").body, "\"x\"");
    // A method that is not in the document, but registered.
    let gone = good.replace(r#""name":"text","#, r#""name":"gone","#);
    fs::write(&path, gone).unwrap();
    assert_eq!(call("[\"x\"]").body, "\"x\"");
    // The refusal has made the agent look again, and again the document counts.
    fs::write(&path, &good).unwrap();
    let date = || post(agent.http(), &format!("/{TYPES}/date"), &[], "[\"2020-01-01\"]").body;
    wait_until("the better document", || date() == "\"2020-01-01T00:00:00.000Z\"");
    // Without a look at the types the second argument would not be one.
    let sum = post(agent.http(), &format!("/{TYPES}/add"), &[], "[1,\"x\"]");
    assert_eq!((sum.status, &*sum.code()), (400, "bad_arguments"), "{sum:?}");
    assert!(sum.body.contains("argument 1 (int)"), "{sum:?}");
}

#[test]
fn a_wrong_definition_of_2_7_makes_nothing_uncallable() {
    a_definition_may_be_wrong(DubboVersion::V2_7);
}

#[test]
fn a_wrong_definition_of_3_3_makes_nothing_uncallable() {
    a_definition_may_be_wrong(DubboVersion::V3_3);
}

fn dubmesh(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dubmesh")).args(args).output().unwrap()
}

/// The commands for people, with a real provider.
#[test]
fn services_are_described_and_calls_shown() {
    let provider = ProviderWithDefinitions::start(DubboVersion::V2_7);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let registry = format!("etcd://{}", provider.etcd.addr());
    let described = dubmesh(&["describe", TYPES, "--registry", &registry]);
    let shown = text(&described.stdout);
    for part in [
        "metadata report /dubbo/metadata/org.dubmesh.interop.TypesService/provider/interop-provider",
        "java.util.List<org.dubmesh.interop.Person> people(java.util.List<org.dubmesh.interop.Person>)",
        "enum org.dubmesh.interop.Color { RED, GREEN, BLUE }",
        "    java.util.Date born",
        &format!("{}  release 2.7.23", provider.java.url()),
        "serialization hessian2, weight 100",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let told = dubmesh(&["describe", PEOPLE, "--url", &provider.java.url(), "--json"]);
    let json: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(json["definition"], format!("telnet of provider {}", provider.java.addr()));
    assert_eq!(json["methods"].as_array().unwrap().len(), 11);
    assert_eq!(json["endpoints"][0]["url"], provider.java.url());
    let nobody = dubmesh(&["describe", "com.acme.Nobody", "--registry", &registry]);
    assert_eq!(nobody.status.code(), Some(3));

    let place = ["--registry", &registry, "--timeout-ms", "20000"];
    let verbose = [&["call", TYPES, "echo", "[\"x\"]", "--verbose"][..], &place].concat();
    let called = dubmesh(&verbose);
    assert_eq!(text(&called.stdout), "\"String x\"\n", "{}", text(&called.stderr));
    let shown = text(&called.stderr);
    for part in [
        "definition: metadata report",
        &format!("endpoint: {}", provider.java.url()),
        &format!("--> {} at", provider.java.addr()),
        "  method        echo\n  types         Ljava/lang/String;\n  argument 0    \"x\"",
        "  00000000  da bb c2 00 00 00 00 01",
        "status 20 OK",
        "  value         \"String x\"",
        "the call took",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    for (args, status, words) in [
        (&["call", TYPES, "echo", "[4]"][..], 2, "ambiguous_method"),
        (&["call", TYPES, "echo", "[4]", "--types", "int"], 0, "4"),
        (&["call", TYPES, "echo", "[4]", "--types", "long", "--generic", "true"], 0, "-4"),
        (&["call", TYPES, "txt", "[\"x\"]"], 3, "did you mean text?"),
        (&["call", TYPES, "variant", "--group", "blue", "--version", "2.0.0"], 0, "blue/2.0.0"),
        (&["call", TYPES, "attachments", "--attachment", "colour=red"], 0, "\"colour\":\"red\""),
        (&["call", PEOPLE, "fail", "{\"name\":\"A\"}"], 1, "BusinessException: no luck for A"),
        (&["call", PEOPLE, "fail", "{\"name\":\"A\"}"], 1, "\"fields\":{\"code\":42}"),
        (
            &["call", TYPES, "attachments", "--attachments", "{\"traceId\":\"a\"}"],
            0,
            "\"traceId\":\"a\"",
        ),
    ] {
        let output = dubmesh(&[args, &place].concat());
        let all = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {all}");
        assert!(all.contains(words), "{args:?}: {all}");
    }
}
