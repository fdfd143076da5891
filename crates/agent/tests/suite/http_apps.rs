//! Apps that speak HTTP, behind the interface of a Java service: over a link, as other agents call
//! them.

use std::net::SocketAddr;

use crate::support::dubbo::{DubboConsumer, body};
use crate::support::http_app::{Does, TestApp};
use crate::support::{
    Http, HttpResponse, SERVICE, STRING, call, consumer, dubbo_consumer, dubbo_exporting,
    exporting, request, wait_until,
};
use agent::Agent;
use dubbo_proto::{Serialization, Status};
use registry::MemoryHub;

/// A consumer's agent, and one that exports `app` with these further lines.
struct HttpAppMesh {
    consumer: Agent,
    _exporting: Agent,
}

fn mesh(app: &TestApp, lines: &str) -> HttpAppMesh {
    let hub = MemoryHub::new();
    let addr = app.addr;
    let exporting =
        exporting(&hub, &format!("interface = \"{SERVICE}\"\napp = \"http://{addr}\"\n{lines}\n"));
    let consumer = consumer(&hub, "");
    wait_until("the export", || {
        (call(&consumer, "$echo", &["x-dubbo-parameter-types: java.lang.Object"], "[1]").status
            == 200)
            .then_some(())
    });
    HttpAppMesh { consumer, _exporting: exporting }
}

impl HttpAppMesh {
    fn call(&self, method: &str, types: &str, body: &str) -> HttpResponse {
        let types = format!("x-dubbo-parameter-types: {types}");
        call(&self.consumer, method, &[&types, "x-dubbo-timeout-ms: 30000"], body)
    }
}

/// A consumer by Dubbo, once the app answers its method `ready`.
fn connected(address: SocketAddr) -> DubboConsumer {
    let mut consumer = DubboConsumer::connect(address);
    wait_until("the app", || (consumer.call("ready", "x", &[]).status == Status::Ok).then_some(()));
    consumer
}

#[test]
fn without_a_table_every_method_is_a_post() {
    let app = TestApp::start(|request| Does::json(request.body.clone()));
    let mesh = mesh(&app, "");
    let answer = mesh.call("add", "long,java.lang.String", "[9007199254740993, \"snö\"]");
    assert_eq!((answer.status, &*answer.body), (200, "[9007199254740993,\"snö\"]"));
    let request = app.last();
    assert_eq!((&*request.method, &*request.path), ("POST", &*format!("/{SERVICE}/add")));
    assert_eq!(request.header("x-dubbo-parameter-types"), Some("long,java.lang.String"));
    let generic = call(&mesh.consumer, "anything", &[], "[{\"a\":[true]}]");
    assert_eq!((generic.status, &*generic.body), (200, "[{\"a\":[true]}]"), "{generic:?}");
    let types = app.last().header("x-dubbo-parameter-types").map(str::to_owned);
    assert_eq!(types, None, "they are unknown");
    assert_eq!(call(&mesh.consumer, "anything", &[], "[]").status, 200);
    assert_eq!(app.last().header("x-dubbo-parameter-types"), Some(""), "there are no arguments");
    assert_eq!(call(&mesh.consumer, "none", &[STRING], "[\"x\"]").body, "[\"x\"]");
}

#[test]
fn a_table_says_what_methods_become() {
    let app = TestApp::start(|request| match &*request.path {
        "/users/7" => Does::json(r#"{"id":7,"born":"1970-01-01T00:00:00Z"}"#),
        "/users/8" => Does::status(404, "{\"message\":\"no user 8\"}"),
        _ => Does::status(500, "{\"detail\":\"it broke\"}"),
    });
    let mesh = mesh(
        &app,
        "errors = { 404 = 'com.acme.NoUser' }\n\
         [[export.class]]\nname = 'com.acme.User'\nfields = { born = 'java.util.Date' }\n\
         [[export.method]]\nname = 'find'\ntypes = ['long']\nparams = ['id']\n\
         path = 'GET /users/{id}'\nreturns = 'com.acme.User'",
    );
    let answer = mesh.call("find", "long", "[7]");
    assert_eq!(
        (answer.status, &*answer.body),
        (200, r#"{"id":7,"born":"1970-01-01T00:00:00.000Z"}"#)
    );
    // The agent knows the types, as a Java provider does.
    assert_eq!(call(&mesh.consumer, "find", &[], "[7]").status, 200);
    for (id, status, code, said) in [
        ("[8]", 500, "exception", "com.acme.NoUser: no user 8"),
        ("[9]", 500, "exception", "java.lang.RuntimeException: it broke"),
        ("[]", 400, "bad_arguments", ""),
    ] {
        let answer = mesh.call("find", "long", id);
        assert_eq!((answer.status, &*answer.code()), (status, code), "{answer:?}");
        assert!(answer.body.contains(said), "{answer:?}");
    }
    // One mistake has one code, whichever side of the link finds it.
    let answer = call(&mesh.consumer, "find", &[], "[7,8]");
    assert_eq!((answer.status, &*answer.code()), (400, "bad_arguments"), "{answer:?}");
    assert!(answer.body.contains("takes 1 argument(s), 2 given"), "{answer:?}");
    let answer = mesh.call("find", "int", "[7]");
    assert_eq!((answer.status, &*answer.code()), (404, "method_not_found"), "{answer:?}");
    assert!(answer.body.contains("the app has find(long)"), "{answer:?}");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers = [
        "x-dubbo-parameter-types: long",
        "x-dubbo-attachment-user: ann",
        &format!("traceparent: {trace}"),
    ];
    call(&mesh.consumer, "find", &headers, "[7]");
    assert_eq!(app.last().header("x-dubbo-attachment-user"), Some("ann"));
    assert_eq!(app.last().header("traceparent"), Some(trace));
}

#[test]
fn large_calls_and_hanging_ones_do_not_disturb_others() {
    let app = TestApp::start(|request| match request.path.ends_with("hang") {
        true => Does::Hang,
        false => Does::json(request.body.clone()),
    });
    let mesh = mesh(&app, "");
    let path = format!("/{SERVICE}/hang");
    let mut hanging = Http::to(&mesh.consumer);
    hanging.send(request(&path, &[STRING, "x-dubbo-timeout-ms: 300"], "[\"x\"]"));
    let large = format!("[\"{}\"]", "ö".repeat(1 << 20));
    let answer = mesh.call("echo", "java.lang.String", &large);
    assert_eq!((answer.status, answer.body.len()), (200, large.len()));
    let answer = hanging.read();
    assert_eq!((answer.status, &*answer.code()), (504, "timeout"));
    // Who gives up is not answered, and the app sees that its connection is closed.
    let count = || app.n_closed.load(std::sync::atomic::Ordering::SeqCst);
    wait_until("the end of the first call", || (2 <= app.requests().len()).then_some(()));
    let before = count();
    let mut leaving = Http::to(&mesh.consumer);
    leaving.send(request(&path, &[STRING, "x-dubbo-timeout-ms: 60000"], "[\"x\"]"));
    wait_until("the request", || (3 <= app.requests().len()).then_some(()));
    drop(leaving);
    wait_until("the end of the call", || (before < count()).then_some(()));
}

/// A one-way call reaches the app, straight from a consumer and over a link, and nothing comes
/// back for it.
#[test]
fn one_way_calls_are_made_and_not_answered() {
    let app = TestApp::start(|request| match request.path.ends_with("fail") {
        true => Does::status(500, "no"),
        false => Does::json("1"),
    });
    let hub = MemoryHub::new();
    let export = format!("interface = \"{SERVICE}\"\napp = \"http://{}\"", app.addr);
    let exporting = dubbo_exporting(&hub, &export);
    let ingress = dubbo_consumer(&hub, "");
    for address in [exporting.addresses().dubbo_exports.unwrap(), ingress.addresses().dubbo[0]] {
        let mut consumer = connected(address);
        for method in ["note", "fail"] {
            let noted = || app.requests().iter().filter(|it| it.path.ends_with(method)).count();
            let before = noted();
            consumer.send_one_way(Serialization::Hessian2, &body(SERVICE, method, "x", &[]));
            wait_until("the one-way call", || (noted() == before + 1).then_some(()));
        }
        // The next answer is that of the next call.
        consumer.send(Serialization::Hessian2, &body(SERVICE, "after", "x", &[]), 77);
        let (token, answer) = consumer.answer();
        assert_eq!((token, answer.status), (77, Status::Ok));
        assert!(consumer.events.is_empty(), "{:?}", consumer.events);
    }
}

/// Numbers and booleans that a Dubbo consumer attaches reach the app as what they are, straight
/// and over a link.
#[test]
fn an_app_gets_attachments_that_are_no_texts() {
    let app = TestApp::start(|_| Does::json("1"));
    let hub = MemoryHub::new();
    let export = format!("interface = \"{SERVICE}\"\napp = \"http://{}\"", app.addr);
    let exporting = dubbo_exporting(&hub, &export);
    let ingress = dubbo_consumer(&hub, "");
    let typed = [("traceId", "aB"), ("\u{1}n", "5"), ("\u{1}d", "1.5"), ("\u{1}yes", "true")];
    for address in [exporting.addresses().dubbo_exports.unwrap(), ingress.addresses().dubbo[0]] {
        let mut consumer = connected(address);
        assert_eq!(consumer.call("echo", "x", &typed).status, Status::Ok);
        let expected = r#"{"traceId":"aB","n":5,"d":1.5,"yes":true}"#;
        assert_eq!(app.last().header("x-dubbo-attachments"), Some(expected));
    }
}

/// A timeout that the app, or its agent, speaks of is told as it came: the caller's own is
/// another.
#[test]
fn a_timeout_that_comes_as_a_reply_is_told_as_it_is() {
    let app = TestApp::start(|request| match &*request.path {
        path if path.ends_with("late") => Does::status(504, r#"{"message":"the disk is slow"}"#),
        path if path.ends_with("hang") => Does::Hang,
        _ => Does::json("1"),
    });
    let hub = MemoryHub::new();
    let export = format!(
        "interface = \"{SERVICE}\"\napp = \"http://{}\"\nerrors = {{ 504 = \"timeout\" }}\n\
         [[export.method]]\nname = \"ready\"\n[[export.method]]\nname = \"late\"\n\
         [[export.method]]\nname = \"hang\"\ntimeout_ms = 50",
        app.addr
    );
    let exporting = dubbo_exporting(&hub, &export);
    let ingress = dubbo_consumer(&hub, "");
    for address in [exporting.addresses().dubbo_exports.unwrap(), ingress.addresses().dubbo[0]] {
        let mut consumer = connected(address);
        for (method, words) in [("late", "the disk is slow"), ("hang", "within 50 ms (timeout_ms")]
        {
            let answer = consumer.call(method, "x", &[("timeout", "5000")]);
            assert_ne!(answer.status, Status::Ok);
            assert!(answer.text().contains(words), "{}", answer.text());
        }
    }
}

/// A service is there while its app is, and a restart of the app is no more than a pause.
#[test]
fn an_app_that_goes_away_and_comes_back() {
    let app = TestApp::start(|request| Does::json(request.body.clone()));
    let mesh = mesh(&app, "health = '/up'\nhealth_interval_ms = 20");
    let echo = || mesh.call("echo", "int", "[1]");
    assert_eq!(echo().status, 200);
    let addr = app.addr;
    drop(app);
    // The first call may still meet a connection that is just being closed.
    wait_until("the refusal", || {
        let code = echo().code();
        matches!(&*code, "unreachable" | "no_endpoint").then_some(())
    });
    wait_until("the withdrawal", || (echo().code() == "no_endpoint").then_some(()));
    let _app = TestApp::start_at(addr, |request| Does::json(request.body.clone()));
    wait_until("the app to be found again", || (echo().status == 200).then_some(()));
}
