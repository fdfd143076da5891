//! What an agent does with the definitions of services: typed calls where one tells the types,
//! generic ones where none does, and no harm by those that are broken.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::support::{
    Behaviour, FakeProvider, SERVICE, call, consumer_with, register, register_with, wait_until,
};
use agent::Agent;
use registry::MemoryHub;

fn document(methods: &str) -> String {
    format!("{{\"canonicalName\":\"{SERVICE}\",\"methods\":[{methods}],\"types\":[]}}")
}

fn write(folder: &Path, text: &str) {
    fs::write(folder.join(format!("{SERVICE}.json")), text).unwrap();
}

fn started(folder: &Path, hub: &MemoryHub) -> Agent {
    let keys = format!("definitions = \"{}\"\nask_providers = false", folder.display());
    let agent = consumer_with(hub, &keys, "");
    wait_until("the first endpoint", || {
        (call(&agent, "nothing", &[], "[]").status == 200).then_some(())
    });
    agent
}

#[test]
fn types_come_from_a_document() {
    let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    write(
        folder.path(),
        &document(
            r#"{"name":"echo","parameterTypes":["java.lang.String"],"returnType":"java.lang.String"},
               {"name":"over","parameterTypes":["int"]},{"name":"over","parameterTypes":["long"]}"#,
        ),
    );
    let agent = started(folder.path(), &hub);
    // The provider returns a typed argument as it came, and says so of a generic call.
    assert_eq!(call(&agent, "echo", &[], "[\"x\"]").body, "\"x\"");
    assert_eq!(call(&agent, "hash", &[], "[\"x\"]").body, "\"generic hash\"");
    assert_eq!(
        call(&agent, "echo", &["x-dubbo-generic: true"], "[\"x\"]").body,
        "\"generic echo\""
    );
    for _ in 0..2 {
        let n_requests = provider.n_requests.load(Ordering::SeqCst);
        let ambiguous = call(&agent, "over", &[], "[1]");
        assert_eq!((ambiguous.status, &*ambiguous.code()), (400, "ambiguous_method"));
        let wrong = call(&agent, "echo", &[], "[1,2]");
        assert_eq!((wrong.status, &*wrong.code()), (400, "bad_arguments"));
        assert!(wrong.body.contains("echo(java.lang.String)"), "{wrong:?}");
        assert_eq!(provider.n_requests.load(Ordering::SeqCst), n_requests, "nothing was sent");
    }
    assert_eq!(call(&agent, "over", &[], "[7000000000]").status, 200);
}

/// What contradicts a scalar type that the definition tells: Java would make another value of it
/// in a generic call.
const CONTRADICTIONS: &[(&str, &str, &str)] = &[
    ("int32", "[3000000000]", "argument 0 (int): JSON at byte 0: 3000000000 is not an int"),
    ("int32", "[1.5]", "1.5 is not an int"),
    ("int32", "[\"a\"]", "\\\"a\\\" is not an int"),
    ("int32", "[null]", "null cannot become int"),
    ("int32", "[{}]", "an object cannot become int"),
    ("int8", "[300]", "300 is not a byte"),
    ("add", "[1.5,2]", "argument 0 (int): JSON at byte 0: 1.5 is not an int"),
    ("bool", "[\"yes\"]", "is not a boolean"),
    ("float32", "[1e39]", "1e39 is not a float"),
    ("float32", "[\"1e39\"]", "is not a float"),
    ("boxed", "[3000000000]", "3000000000 is not an int"),
    (
        "boxed",
        "[{\"class\":\"java.lang.Long\",\"value\":3000000000}]",
        "cannot become java.lang.Integer",
    ),
    ("ints", "[[1,3000000000]]", "JSON at byte 3: 3000000000 is not an int"),
    ("list", "[[1,2.5]]", "2.5 is not an int"),
    ("counts", "[{\"1\":40000}]", "40000 is not a short"),
    ("counts", "[{\"x\":4}]", "is not a long"),
    ("order", "[{\"id\":1.5}]", "1.5 is not an int"),
    ("order", "[{\"lines\":[[3000000000]]}]", "3000000000 is not an int"),
    // The first argument may be right where the second is not.
    ("both", "[\"x\",3000000000]", "argument 1 (int): JSON at byte 0: 3000000000 is not an int"),
    ("any", "[1,3000000000]", "3000000000 is not an int"),
    // An object that names a known class, where nothing is declared.
    ("object", "[{\"class\":\"com.acme.Order\",\"id\":1.5}]", "1.5 is not an int"),
    ("object", "[[{\"class\":\"com.acme.Order\",\"id\":1.5}]]", "1.5 is not an int"),
    ("raw", "[[{\"class\":\"com.acme.Order\",\"id\":1.5}]]", "1.5 is not an int"),
    ("order", "[{\"any\":{\"class\":\"com.acme.Order\",\"id\":1.5}}]", "1.5 is not an int"),
    ("order", "[[{\"class\":\"com.acme.Order\",\"id\":1.5}]]", "1.5 is not an int"),
    ("known", "[{\"class\":\"com.acme.Order\",\"id\":1.5}]", "1.5 is not an int"),
    // Numbers are no constants. What text is one, the provider knows.
    ("color", "[5]", "5 is not a value of com.acme.Color"),
    ("colors", "[[5]]", "5 is not a value of com.acme.Color"),
    ("order", "[{\"color\":7}]", "7 is not a value of com.acme.Color"),
    // Another kind of value inside of an argument.
    ("order", "[{\"lines\":7}]", "a number cannot become java.util.List"),
    ("colors", "[[[\"RED\"]]]", "an array cannot become com.acme.Color"),
    // Type arguments that mean nothing to the definition.
    (
        "object",
        "[{\"class\":\"com.acme.Order<com.acme.Color>\",\"id\":1}]",
        "what its type arguments mean",
    ),
];

fn shop_document() -> String {
    let methods = r#"{"name":"int32","parameterTypes":["int"]},{"name":"int8","parameterTypes":["byte"]},
        {"name":"add","parameterTypes":["int","int"]},{"name":"bool","parameterTypes":["boolean"]},
        {"name":"float32","parameterTypes":["float"]},{"name":"boxed","parameterTypes":["java.lang.Integer"]},
        {"name":"ints","parameterTypes":["int[]"]},{"name":"any","parameterTypes":["int[]"]},
        {"name":"list","parameterTypes":["java.util.List<java.lang.Integer>"]},
        {"name":"counts","parameterTypes":["java.util.Map<java.lang.Long,java.lang.Short>"]},
        {"name":"order","parameterTypes":["com.acme.Order"]},
        {"name":"object","parameterTypes":["java.lang.Object"]},
        {"name":"raw","parameterTypes":["java.util.List"]},
        {"name":"color","parameterTypes":["com.acme.Color"]},
        {"name":"colors","parameterTypes":["java.util.List<com.acme.Color>"]},
        {"name":"both","parameterTypes":["java.util.List<java.lang.String>","int"]}"#;
    let types = r#"{"type":"com.acme.Order","properties":{"id":"int","any":"java.lang.Object",
            "lines":"java.util.List<int[]>","color":"com.acme.Color"}},
        {"type":"com.acme.Color","enums":["RED","GREEN"]}"#;
    format!("{{\"canonicalName\":\"{SERVICE}\",\"methods\":[{methods}],\"types\":[{types}]}}")
}

/// However the call is made: with the definition's types, by a generic call, or by one that tells
/// the types.
#[test]
fn a_value_that_contradicts_a_known_scalar_type_never_leaves() {
    let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    write(folder.path(), &shop_document());
    let agent = started(folder.path(), &hub);
    let n_requests = provider.n_requests();
    for (method, body, words) in CONTRADICTIONS {
        for headers in [&[][..], &["x-dubbo-generic: true"], &["x-dubbo-generic: gson"]] {
            // Java packs arguments only where types tell.
            if *method == "any" && !headers.is_empty() {
                continue;
            }
            let answer = call(&agent, method, headers, body);
            assert_eq!((answer.status, &*answer.code()), (400, "bad_arguments"), "{answer:?}");
            assert!(answer.body.contains(words), "{words} in {answer:?}");
        }
    }
    let types = "x-dubbo-parameter-types: java.util.Map<java.lang.Long,java.lang.Short>";
    for generic in ["x-dubbo-generic: true", "x-dubbo-generic: gson", "x-other: 1"] {
        let answer = call(&agent, "told", &[types, generic], "[{\"1\":40000}]");
        assert_eq!((answer.status, &*answer.code()), (400, "bad_arguments"), "{answer:?}");
    }
    for (types, body) in [
        ("java.lang.Object", "[{\"class\":\"com.acme.Order\",\"id\":1.5}]"),
        ("java.util.List", "[[{\"class\":\"com.acme.Order\",\"id\":1.5}]]"),
    ] {
        let types = format!("x-dubbo-parameter-types: {types}");
        let answer = call(&agent, "told", &[&types], body);
        assert_eq!((answer.status, &*answer.code()), (400, "bad_arguments"), "{answer:?}");
    }
    assert_eq!(provider.n_requests(), n_requests, "nothing was sent");
    let told = call(&agent, "int32", &[], "[3000000000]").body;
    assert!(
        told.contains("the types come from") && told.contains("x-dubbo-parameter-types"),
        "{told}"
    );
}

/// A definition that is out of date: what it calls a list or an object is another one's affair.
#[test]
fn a_value_of_another_kind_than_a_collection_or_class_goes_by_a_generic_call() {
    let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    write(folder.path(), &shop_document());
    let agent = started(folder.path(), &hub);
    for (method, body) in [
        ("list", "[\"x\"]"),
        ("counts", "[[1]]"),
        ("order", "[7]"),
        ("both", "[\"x\",7]"),
        ("color", "[[5]]"),
        ("known", "[{\"class\":\"com.acme.Order\",\"id\":7}]"),
    ] {
        let expected = format!("\"generic {method}\"");
        assert_eq!(call(&agent, method, &[], body).body, expected, "{method} {body}");
    }
}

/// What `toString` of the constants gives, as Dubbo's definitions list it, need not be names.
fn enums_document() -> String {
    let methods = r#"{"name":"color","parameterTypes":["com.acme.Color"]},
        {"name":"tint","parameterTypes":["com.acme.Shop$Tint"]},
        {"name":"order","parameterTypes":["com.acme.Order"]},
        {"name":"tints","parameterTypes":["java.util.Map<com.acme.Shop$Tint,java.lang.Long>"]}"#;
    let types = r#"{"type":"com.acme.Order","properties":{"color":"com.acme.Color",
            "note":"java.lang.String"}},
        {"type":"com.acme.Color","enums":["RED","GREEN"]},
        {"type":"com.acme.Shop$Tint","enums":["light","dark"]}"#;
    format!("{{\"canonicalName\":\"{SERVICE}\",\"methods\":[{methods}],\"types\":[{types}]}}")
}

fn caller_of_enums(params: &[(&str, &str)]) -> impl Fn(&str, &str) -> (u16, String) {
    let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
    let provider = FakeProvider::start(Behaviour::Enums);
    let registered = register_with(&hub, provider.addr, params);
    write(folder.path(), &enums_document());
    // Each worker learns for itself.
    let keys = format!("definitions = \"{}\"\nask_providers = false", folder.path().display());
    let agent = consumer_with(&hub, &keys, "");
    wait_until("the first endpoint", || {
        (call(&agent, "nothing", &[], "[]").status == 200).then_some(())
    });
    move |method, body| {
        let _alive = (&provider, &registered, &folder, &hub);
        let answer = call(&agent, method, &[], body);
        (answer.status, answer.body)
    }
}

/// Dubbo 2 would call the method with null if a text is no name.
#[test]
fn a_constant_goes_in_a_generic_call_until_an_answer_has_proved_its_name() {
    let call = caller_of_enums(&[("release", "2.7.23")]);
    let is_generic = |method, body| match call(method, body) {
        (200, body) => body == format!("\"generic {method}\""),
        other => panic!("{method} {body}: {other:?}"),
    };
    // However many workers there are, one has had the constant before in the end.
    for (method, body) in [
        ("color", "[\"RED\"]"),
        ("color", "[{\"name\":\"GREEN\"}]"),
        ("order", "[{\"color\":\"RED\"}]"),
        // It is not listed, and a name.
        ("tint", "[\"DARK\"]"),
        ("tints", "[{\"DARK\":1}]"),
    ] {
        assert!(is_generic(method, body), "{method} {body}");
        wait_until("a typed call", || (!is_generic(method, body)).then_some(()));
    }
    for _ in 0..3 {
        let (status, body) = call("color", "[\"PURPLE\"]");
        assert_eq!(status, 400, "{body}");
        assert!(body.contains("is not a value of com.acme.Color (RED, GREEN)"), "{body}");
        let (status, body) = call("tint", "[\"dark\"]");
        assert_eq!(status, 400, "{body}");
        assert!(body.contains("send the name of the constant"), "{body}");
        assert!(!body.contains("x-dubbo-parameter-types"), "{body}");
    }
}

/// Java makes no `EnumSet` of what is in a generic call, for example.
#[test]
fn a_listed_constant_goes_as_it_is_in_a_call_that_cannot_be_generic() {
    let call = caller_of_enums(&[("release", "2.7.23")]);
    for _ in 0..2 {
        let (status, body) = call("order", "[{\"color\":\"RED\",\"note\":\"unset\"}]");
        assert_eq!((status, body.contains("unset")), (200, true), "{body}");
        let (status, body) = call("order", "[{\"color\":\"DARK\",\"note\":\"unset\"}]");
        assert_eq!((status, body.contains("Failed to set pojo")), (400, true), "{body}");
    }
}

/// A provider that refuses what it cannot read needs no proof, and one whose answer would be
/// another gets none for texts that are written like names.
#[test]
fn where_names_need_no_proof_nothing_is_generic() {
    for params in [&[("release", "3.3.6"), ("serialization", "hessian2")][..], &[]] {
        let call = caller_of_enums(params);
        for body in ["[\"RED\"]", "[\"GREEN\"]"] {
            assert_ne!(call("color", body).1, "\"generic color\"", "{params:?}");
        }
        let is_generic = call("tint", "[\"light\"]").1 == "\"generic tint\"";
        assert_eq!(is_generic, params.is_empty());
        assert_eq!(call("color", "[\"PURPLE\"]").0, 400, "{params:?}");
    }
}

#[test]
fn broken_documents_do_no_harm() {
    for text in ["{", "[]", "{\"methods\":7}", &"[".repeat(100_000), &" ".repeat(3 << 20)] {
        let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
        let provider = FakeProvider::start(Behaviour::Good);
        let _registered = register(&hub, provider.addr);
        write(folder.path(), text);
        let agent = started(folder.path(), &hub);
        assert_eq!(call(&agent, "hash", &[], "[\"x\"]").body, "\"generic hash\"");
    }
}

/// A provider that never answers telnet holds up nobody for long.
#[test]
fn a_silent_provider_is_not_waited_for() {
    let hub = MemoryHub::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let provider = FakeProvider::start(Behaviour::Good);
    // By its address the silent one is asked first.
    let _registered =
        [silent.local_addr().unwrap(), provider.addr].map(|addr| register(&hub, addr));
    let agent = consumer_with(&hub, "", "");
    wait_until("an answer", || {
        let answer = call(&agent, "hash", &["x-dubbo-timeout-ms: 3000"], "[\"x\"]");
        (answer.body == "\"generic hash\"").then_some(())
    });
}

/// A provider, as it is registered: with its methods, or without.
const LISTED: [(&str, &str); 2] = [("methods", "echo,int32,nothing"), ("release", "3.3.6")];

/// What one caller sends that the provider cannot read says nothing against the types, whether the
/// provider can be asked about them or not.
#[test]
fn one_callers_argument_takes_no_definition_away() {
    for params in [&LISTED[..], &[]] {
        let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
        let provider = FakeProvider::start(Behaviour::Picky);
        let _registered = register_with(&hub, provider.addr, params);
        let method = r#"{"name":"echo","parameterTypes":["java.lang.String"]}"#;
        write(folder.path(), &document(method));
        let agent = started(folder.path(), &hub);
        for _ in 0..8 {
            // Each of the two workers is asked sooner or later.
            assert_eq!(call(&agent, "echo", &[], "[\"x\"]").body, "\"x\"");
            let other = call(&agent, "echo", &[], "[\"unreadable\"]");
            assert_eq!(other.body, "\"generic echo\"");
            assert_eq!(call(&agent, "echo", &[], "[\"x\"]").body, "\"x\"");
        }
    }
}

/// Where the provider says that it has no method with the types, its own classes count.
#[test]
fn types_that_a_provider_does_not_know_count_for_nothing() {
    let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
    let provider = FakeProvider::start(Behaviour::Changed);
    let _registered = register_with(&hub, provider.addr, &LISTED);
    write(folder.path(), &document(r#"{"name":"int32","parameterTypes":["int"]}"#));
    let agent = started(folder.path(), &hub);
    wait_until("both workers' word on the types", || {
        assert_eq!(call(&agent, "int32", &[], "[1]").body, "\"generic int32\"");
        let n_requests = provider.n_requests();
        (0..8).all(|_| call(&agent, "int32", &[], "[3000000000]").status == 200).then_some(())?;
        (provider.n_requests() == n_requests + 8).then_some(())
    });
}

/// What is declared as an `Object` may be an object of a class that the definition knows.
#[test]
fn a_definition_counts_for_objects_that_name_their_class_where_anything_is_declared() {
    let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    write(folder.path(), &shop_document());
    let agent = started(folder.path(), &hub);
    for ty in
        ["java.lang.Object", "java.util.List", "java.util.Map<java.lang.String,java.lang.Object>"]
    {
        let order = r#"{"class":"com.acme.Order","id":1}"#;
        let value = match ty {
            "java.lang.Object" => order.to_owned(),
            "java.util.List" => format!("[{order}]"),
            _ => format!("{{\"k\":{order}}}"),
        };
        let header = format!("x-dubbo-parameter-types: {ty}");
        let answer = call(&agent, "echo", &[&header], &format!("[{value}]"));
        assert!(answer.status == 200 && answer.body.contains("\"id\":1"), "{ty}: {answer:?}");
        let wrong = value.replace(":1}", ":1.5}");
        let answer = call(&agent, "echo", &[&header], &format!("[{wrong}]"));
        assert_eq!((answer.status, &*answer.code()), (400, "bad_arguments"), "{ty}: {answer:?}");
    }
}
