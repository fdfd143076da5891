//! What an agent does with the definitions of services: typed calls where one tells the types, generic
//! ones where none does, and no harm by those that are broken.

mod support;

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use agent::Agent;
use registry::MemoryHub;
use support::{Behaviour, FakeProvider, SERVICE, call, consumer_with, register, wait_until};

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
