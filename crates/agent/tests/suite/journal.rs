//! What is told of calls: in the access log, and to those who tap.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::support;
use crate::support::dubbo::DubboConsumer;
use crate::support::http_app::{Does, TestApp};
use crate::support::http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Http2, PING, RST_STREAM,
};
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, block_on, call, consumer,
    consumer_with_metrics, dubbo_consumer, metric, register, register_link, start, wait_until,
};
use agent::journal::MAX_TAPS;
use agent::{Agent, config};
use registry::{MemoryHub, RegistryConfig};
use serde_json::Value;

const ECHO: &str = "[\"x\"]";
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn good() -> FakeProvider {
    FakeProvider::start(Behaviour::Good)
}

/// The lines of an access log, once there are so many.
fn lines(path: &Path, n_lines: usize) -> Vec<Value> {
    wait_until("lines", || {
        let text = fs::read_to_string(path).ok()?;
        let read = |line: &str| serde_json::from_str(line).unwrap();
        let lines: Vec<Value> = text.lines().map(read).collect();
        (n_lines <= lines.len()).then_some(lines)
    })
}

fn log(path: &Path, calls: &str) -> String {
    format!("[access_log]\ncalls = \"{calls}\"\nformat = \"json\"\npath = \"{}\"\n", path.display())
}

fn drain(agent: Agent) {
    assert!(block_on(agent.drain()).unwrap().complete);
}

/// Makes one call that is answered.
fn answered(agent: &Agent) {
    let ok = || (call(agent, "echo", &[STRING], ECHO).status == 200).then_some(());
    wait_until("an answer", ok);
}

#[test]
fn every_call_by_http_has_a_line() {
    let (folder, hub, provider) = (tempfile::tempdir().unwrap(), MemoryHub::new(), good());
    let _registered = register(&hub, provider.addr);
    let path = folder.path().join("access.log");
    let agent = consumer(&hub, &log(&path, "all"));
    let trace = format!("traceparent: {TRACE}");
    wait_until("an answer", || {
        (call(&agent, "echo", &[STRING, &trace], ECHO).status == 200).then_some(())
    });
    assert_eq!(call(&agent, "echo", &[STRING], "[").status, 400);
    Http::to(&agent).post("/", &[], "nonsense");
    drain(agent);
    let all = lines(&path, 3);
    let line = all.iter().find(|line| line["code"] == "ok").unwrap();
    let endpoint = provider.addr.to_string();
    for (key, value) in [
        ("protocol", "http"),
        ("service", SERVICE),
        ("method", "echo"),
        ("endpoint", &endpoint),
        ("trace", TRACE),
    ] {
        assert_eq!(line[key], value, "{key} of {line}");
    }
    assert_eq!(line["request_bytes"], ECHO.len());
    assert!(0 < line["reply_bytes"].as_u64().unwrap(), "{line}");
    assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    assert!(0.0 < line["ms"].as_f64().unwrap(), "{line}");
    assert!(line.get("arguments").is_none(), "{line}");
    // Requests that make no call are told of, too.
    let bad: Vec<&Value> = all.iter().filter(|line| line["code"] == "bad_request").collect();
    assert!(2 <= bad.len(), "{all:?}");
    assert!(bad[0]["message"].as_str().unwrap().contains("not JSON"), "{bad:?}");
}

/// A request that is refused before it is read is told of with what is known of it.
#[test]
fn a_request_that_is_not_read_is_named() {
    let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
    let path = folder.path().join("access.log");
    let limits = "max_body_bytes = 100\nbody_timeout_ms = 50\n";
    let agent = consumer(&hub, &format!("{limits}{}", log(&path, "all")));
    let long = format!("[\"{}\"]", "x".repeat(200));
    let of = [STRING, "x-dubbo-service-version: 1.0"];
    assert_eq!(Http::to(&agent).post(&format!("/{SERVICE}/echo"), &of, &long).status, 413);
    let mut late = Http::to(&agent);
    let head = format!("POST /{SERVICE}/slow HTTP/1.1\r\nhost: a\r\n");
    late.send(format!("{head}transfer-encoding: chunked\r\n\r\n5\r\n[\"abc\r\n"));
    assert_eq!(late.read().status, 408);
    let mut get = Http::to(&agent);
    get.send("GET /favicon.ico HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(get.read().status, 405);
    drain(agent);
    let all = lines(&path, 3);
    let line = |code: &str| all.iter().find(|line| line["code"] == code).unwrap();
    let called =
        |line: &Value| [&line["service"], &line["method"], &line["path"]].map(Clone::clone);
    let too_long = line("body_too_large");
    let of_version = format!("{SERVICE}:1.0");
    assert_eq!(called(too_long), [Value::from(of_version), "echo".into(), Value::Null]);
    assert_eq!(too_long["request_bytes"], long.len());
    let late = line("request_timeout");
    assert_eq!(called(late), [SERVICE.into(), "slow".into(), Value::Null]);
    assert_eq!(late["request_bytes"], 5, "so much has come");
    assert_eq!(
        called(line("method_not_allowed")),
        [Value::Null, Value::Null, "/favicon.ico".into()]
    );
}

/// What the parser refuses never becomes a request, and is answered all the same.
#[test]
fn a_request_whose_head_is_refused_has_a_line() {
    let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
    let path = folder.path().join("access.log");
    let limits = "max_head_bytes = 16384\nhead_timeout_ms = 300\n";
    let agent = consumer_with_metrics(&hub, &format!("{limits}{}", log(&path, "failed")));
    let two_lengths = "host: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n";
    let echo = format!("POST /{SERVICE}/echo?json=longs=text HTTP/1.1\r\n");
    let long = format!("x-pad: {}\r\n\r\n", "y".repeat(20_000));
    let good = format!("POST /{SERVICE}/echo HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n[]");
    let sent = [
        (format!("{echo}{two_lengths}"), 400, "bad_request", (SERVICE.into(), Value::Null)),
        (
            "B@D /metrics HTTP/1.1\r\nhost: a\r\n\r\n".into(),
            400,
            "bad_request",
            (Value::Null, "/metrics".into()),
        ),
        ("nonsense\r\n\r\n".into(), 400, "bad_request", (Value::Null, Value::Null)),
        (format!("{echo}{long}"), 431, "head_too_large", (Value::Null, Value::Null)),
        ("GE".into(), 408, "request_timeout", (Value::Null, Value::Null)),
        (format!("{echo}host"), 408, "request_timeout", (SERVICE.into(), Value::Null)),
    ];
    for (request, status, code, _) in &sent {
        let mut http = Http::to(&agent);
        http.send(request);
        let answer = http.read();
        assert_eq!(answer.status, *status, "{request:.100}: {answer:?}");
        assert!(answer.body.contains(code), "{answer:?}");
    }
    // Behind a request in the same read, hyper answers it.
    let mut http = Http::to(&agent);
    http.send(format!("{good}nonsense\r\n\r\n"));
    assert_eq!([http.read().status, http.read().status], [404, 400]);
    drop(http);
    // Whoever asks for nothing has no line.
    let listener = agent.addresses().http[0];
    drop(TcpStream::connect(listener).unwrap());
    for (code, n) in [("bad_request", 4), ("head_too_large", 1), ("request_timeout", 2)] {
        let labels = format!("listener=\"{listener}\",code=\"{code}\"");
        let counted = format!("dubmesh_ingress_calls_total{{{labels}}}");
        wait_until("they are counted", || (metric(&agent, &counted) == n).then_some(()));
    }
    let in_flight = format!("dubmesh_ingress_in_flight{{listener=\"{listener}\"}}");
    assert_eq!(metric(&agent, &in_flight), 0);
    drain(agent);
    let all = lines(&path, sent.len() + 2);
    assert_eq!(all.len(), sent.len() + 2, "{all:?}");
    // Each worker tells of its own.
    let of = |code: &str, service: &Value, path: &Value| format!("{code} {service} {path}");
    let mut expected: Vec<String> =
        sent.iter().map(|(_, _, code, (service, path))| of(code, service, path)).collect();
    expected.extend([of("bad_request", &Value::Null, &Value::Null)]);
    expected.extend([of("service_not_found", &SERVICE.into(), &Value::Null)]);
    let mut found: Vec<String> = Vec::new();
    for line in &all {
        let [service, path] = [&line["service"], &line["path"]];
        found.push(of(line["code"].as_str().unwrap(), service, path));
        assert!(line["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
        assert_eq!(line["protocol"], "http", "{line}");
    }
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    let says = |what: &str| all.iter().any(|it| it["message"].as_str().unwrap().contains(what));
    assert!(says("wherever it is repeated: invalid content-length"), "{all:?}");
    assert!(says("(max_head_bytes): message head is too large"), "{all:?}");
}

/// What h2 refuses never becomes a request either.
#[test]
fn a_request_of_http2_whose_head_is_refused_has_a_line() {
    let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
    let path = folder.path().join("access.log");
    let agent = consumer(&hub, &log(&path, "failed"));
    let mut http2 = Http2::to(&agent, 1 << 16);
    let good = Http2::head(0, "/com.acme.Nobody/echo");
    let field = |name: &str| {
        let len = u8::try_from(name.len()).unwrap();
        [&[0, len], name.as_bytes(), b"\x01x"].concat()
    };
    // A field that only HTTP/1 has; one in two frames, of which the second comes later.
    let broken = [&*good, &field("connection")].concat();
    http2.frame(HEADERS, END_HEADERS | END_STREAM, 1, &broken);
    assert_eq!(http2.next(RST_STREAM).0, 1);
    http2.frame(HEADERS, END_STREAM, 3, &good);
    http2.frame(CONTINUATION, END_HEADERS, 3, &field("upgrade"));
    assert_eq!(http2.next(RST_STREAM).0, 3);
    // A call that is answered, and one with trailers.
    http2.frame(HEADERS, END_HEADERS | END_STREAM, 5, &good);
    assert_eq!(http2.next(HEADERS).0, 5);
    http2.frame(HEADERS, END_HEADERS, 7, &good);
    http2.frame(DATA, 0, 7, b"[1]");
    http2.frame(HEADERS, END_HEADERS | END_STREAM, 7, &field("x-sum"));
    assert_eq!(http2.next(HEADERS).0, 7);
    // Requests that are given up at once were none that is refused.
    for stream in (9..49).step_by(2) {
        http2.frame(HEADERS, END_HEADERS, stream, &good);
        http2.frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]);
    }
    http2.frame(PING, 0, 0, &[0; 8]);
    http2.next(PING);
    drop(http2);
    drain(agent);
    let all = lines(&path, 4);
    let is_refused = |line: &&Value| {
        let message = line["message"].as_str().unwrap();
        message.contains("request of HTTP/2 was refused") && line["code"] == "bad_request"
    };
    let refused: Vec<&Value> = all.iter().filter(is_refused).collect();
    assert_eq!(refused.len(), 2, "{all:?}");
    assert!(refused[0]["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{refused:?}");
    assert_eq!(all.iter().filter(|line| line["code"] == "service_not_found").count(), 2);
}

/// Of a long request of Dubbo's only the header is read.
#[test]
fn a_dubbo_request_that_is_too_long_has_a_line() {
    let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
    let path = folder.path().join("access.log");
    let agent = dubbo_consumer(&hub, &format!("max_body_bytes = 10000\n{}", log(&path, "failed")));
    let mut consumer = DubboConsumer::to(&agent);
    let answer = consumer.call("echo", &"x".repeat(20_000), &[]);
    assert_eq!(answer.status, dubbo_proto::Status::BadRequest);
    drain(agent);
    let all = lines(&path, 1);
    assert_eq!((&all[0]["protocol"], &all[0]["code"]), (&"dubbo".into(), &"body_too_large".into()));
    assert!(20_000 < all[0]["request_bytes"].as_u64().unwrap(), "{all:?}");
}

/// One call has a line at each agent that it passes, under the same trace.
#[test]
fn a_call_from_dubbo_over_a_link_has_a_line_at_both_agents() {
    let (folder, hub, app) = (tempfile::tempdir().unwrap(), MemoryHub::new(), good());
    let (near, far) = (folder.path().join("near"), folder.path().join("far"));
    let export = format!("interface = \"{SERVICE}\"\napp = \"dubbo://{}\"\n", app.addr);
    let provider = support::exporting(&hub, &format!("{export}{}", log(&far, "all")));
    let _registered = register_link(&hub, provider.addresses().link.unwrap());
    let agent = dubbo_consumer(&hub, &log(&near, "all"));
    let mut consumer = DubboConsumer::to(&agent);
    wait_until("an answer", || {
        let answer = consumer.call("attached", "x", &[("traceparent", TRACE)]);
        (answer.status == dubbo_proto::Status::Ok).then_some(())
    });
    drain(agent);
    drain(provider);
    let is_ok = |line: &&Value| line["code"] == "ok";
    for (path, protocol, endpoint) in
        [(&near, "dubbo", "127.0.0.1"), (&far, "link", &*app.addr.to_string())]
    {
        let all = lines(path, 1);
        let line = all.iter().find(is_ok).unwrap_or_else(|| panic!("{all:?}"));
        assert_eq!((&line["protocol"], &line["service"]), (&protocol.into(), &SERVICE.into()));
        assert_eq!((&line["method"], &line["trace"]), (&"attached".into(), &TRACE.into()));
        assert!(line["endpoint"].as_str().unwrap().starts_with(endpoint), "{line}");
    }
}

/// Callers who do not know the types of a method send `$invoke`.
#[test]
fn the_method_of_a_generic_call_is_told_at_the_provider() {
    let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
    let app = TestApp::start(|request| Does::json(request.body.clone()));
    let path = folder.path().join("access.log");
    let export = format!("interface = \"{SERVICE}\"\napp = \"http://{}\"\n", app.addr);
    let provider = support::exporting(&hub, &format!("{export}{}", log(&path, "all")));
    let agent = consumer(&hub, "");
    wait_until("an answer", || (call(&agent, "find", &[], ECHO).status == 200).then_some(()));
    drain(agent);
    drain(provider);
    let all = lines(&path, 1);
    let line = all.last().unwrap();
    assert_eq!((&line["protocol"], &line["code"]), (&"link".into(), &"ok".into()));
    assert_eq!(line["method"], "find", "{all:?}");
}

#[test]
fn a_call_that_its_caller_gives_up_is_told_as_cancelled() {
    let (folder, hub) = (tempfile::tempdir().unwrap(), MemoryHub::new());
    let silent = FakeProvider::start(Behaviour::Hang);
    let _registered = register(&hub, silent.addr);
    let path = folder.path().join("access.log");
    let agent = consumer(&hub, &log(&path, "failed"));
    let mut http = Http::to(&agent);
    wait_until("a request at the provider", || {
        http = Http::to(&agent);
        http.send(support::request(&format!("/{SERVICE}/echo"), &[STRING], ECHO));
        thread::sleep(Duration::from_millis(20));
        (0 < silent.n_requests()).then_some(())
    });
    drop(http);
    let all = lines(&path, 1);
    assert_eq!(all.last().unwrap()["code"], "cancelled", "{all:?}");
}

#[test]
fn only_what_is_wanted_is_written_and_a_reload_changes_that() {
    let (folder, hub, provider) = (tempfile::tempdir().unwrap(), MemoryHub::new(), good());
    let _registered = register(&hub, provider.addr);
    let path = folder.path().join("access.log");
    let text = |calls: &str| {
        format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 1\n[[registry]]\nname = \
             \"main\"\nkind = \"file\"\npath = \"x\"\n[[ingress]]\nprotocol = \"http\"\nlisten = \
             \"127.0.0.1:0\"\n{}",
            log(&path, calls)
        )
    };
    let agent = start(&text("off"), &hub);
    answered(&agent);
    assert!(!path.exists(), "it is off");
    let reload = |calls: &str| {
        let mut new = config::parse(&text(calls), "test.toml").unwrap();
        for registry in &mut new.registries {
            registry.config = RegistryConfig::Memory(hub.clone());
        }
        block_on(agent.reload(new)).unwrap()
    };
    let plan = reload("failed");
    assert!(plan.changed.contains(&"access_log".to_owned()), "{plan:?}");
    answered(&agent);
    assert_eq!(call(&agent, "echo", &[STRING], "[").status, 400);
    assert_eq!(lines(&path, 1).len(), 1);
    // A reload leaves a file alone that was moved away, as log rotation does.
    let moved = folder.path().join("moved");
    fs::rename(&path, &moved).unwrap();
    reload("all");
    answered(&agent);
    assert_eq!(lines(&path, 1)[0]["code"], "ok");
    assert_eq!(lines(&moved, 1).len(), 1);
    wait_until("a count", || {
        (metric(&agent, "dubmesh_access_log_lines_total{result=\"written\"}") == 2).then_some(())
    });
    assert_eq!(metric(&agent, "dubmesh_access_log_lines_total{result=\"lost\"}"), 0);
}

#[test]
fn a_log_that_cannot_be_opened_stops_the_start_and_not_a_reload() {
    let (hub, provider) = (MemoryHub::new(), good());
    let _registered = register(&hub, provider.addr);
    let text = |log: &str| {
        format!(
            "[admin]\nenabled = false\n[agent]\nworkers = 1\n[[registry]]\nname = \"main\"\nkind = \
             \"file\"\npath = \"x\"\n[[ingress]]\nprotocol = \"http\"\nlisten = \
             \"127.0.0.1:0\"\n{log}"
        )
    };
    let bad = text(&log(Path::new("/nowhere/at/all"), "all"));
    let error = Agent::start(config::parse(&bad, "test.toml").unwrap()).err().unwrap();
    assert!(error.to_string().contains("access_log.path"), "{error}");
    let agent = start(&text(""), &hub);
    let mut new = config::parse(&bad, "test.toml").unwrap();
    for registry in &mut new.registries {
        registry.config = RegistryConfig::Memory(hub.clone());
    }
    block_on(agent.reload(new)).unwrap();
    answered(&agent);
}

/// One who looks on.
struct Tap(BufReader<TcpStream>);

impl Tap {
    fn open(admin: SocketAddr, query: &str) -> Self {
        let mut stream = TcpStream::connect(admin).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let request = format!("GET /tap?{query} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        Self(BufReader::new(stream))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "it has ended");
        line.trim_end().to_owned()
    }

    /// The status line of the answer, after whose head and first, empty line the calls come.
    fn status(&mut self) -> String {
        let status = self.line();
        while !self.line().is_empty() {}
        status
    }

    fn next(&mut self) -> Value {
        loop {
            let line = self.line();
            if line.starts_with('{') {
                return serde_json::from_str(&line).unwrap();
            }
        }
    }
}

#[test]
fn one_who_taps_sees_the_calls_that_he_asked_for() {
    let (hub, provider) = (MemoryHub::new(), good());
    let _registered = register(&hub, provider.addr);
    let agent = consumer_with_metrics(&hub, "");
    let admin = agent.addresses().admin.unwrap();
    answered(&agent);
    let mut tap = Tap::open(admin, &format!("service={SERVICE}&method=echo"));
    let mut failures = Tap::open(admin, "failed");
    for tap in [&mut tap, &mut failures] {
        assert_eq!(tap.status(), "HTTP/1.1 200 OK");
        // The first piece of the body has come, so that calls are shown from now on.
        tap.line();
    }
    call(&agent, "other", &[STRING], ECHO);
    answered(&agent);
    assert_eq!(call(&agent, "echo", &[STRING], "[").status, 400);
    let seen = tap.next();
    assert_eq!((&seen["method"], &seen["code"]), (&"echo".into(), &"ok".into()));
    let code = wait_until("a failure", || {
        let code = failures.next()["code"].clone();
        (code == "bad_request").then_some(code)
    });
    assert_eq!(code, "bad_request");
}

#[test]
fn arguments_are_for_those_whom_the_operator_trusts() {
    let (hub, provider) = (MemoryHub::new(), good());
    let _registered = register(&hub, provider.addr);
    let shy = consumer_with_metrics(&hub, "");
    let mut tap = Tap::open(shy.addresses().admin.unwrap(), "arguments=true");
    assert_eq!(tap.status(), "HTTP/1.1 403 Forbidden");
    let text = "[admin]\nlisten = \"127.0.0.1:0\"\ntap_arguments = true\n[agent]\nworkers = 1\n\
                [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n[[ingress]]\n\
                protocol = \"http\"\nlisten = \"127.0.0.1:0\"\n[[ingress]]\nprotocol = \"dubbo\"\n\
                listen = \"127.0.0.1:0\"\n";
    let open = start(text, &hub);
    let admin = open.addresses().admin.unwrap();
    let mut tap = Tap::open(admin, "arguments=true");
    let mut without = Tap::open(admin, "");
    for tap in [&mut tap, &mut without] {
        assert_eq!(tap.status(), "HTTP/1.1 200 OK");
        tap.line();
    }
    answered(&open);
    assert_eq!(tap.next()["arguments"], ECHO);
    assert_eq!(without.next().get("arguments"), None, "it was not asked for");
    let mut consumer = DubboConsumer::to(&open);
    wait_until("an answer", || {
        let answer = consumer.call("echo", "of dubbo", &[]);
        (answer.status == dubbo_proto::Status::Ok).then_some(())
    });
    let of_dubbo = wait_until("a call by Dubbo", || {
        let seen = tap.next();
        (seen["protocol"] == "dubbo" && seen["code"] == "ok").then_some(seen)
    });
    assert_eq!(of_dubbo["arguments"], "[\"of dubbo\"]");
}

#[test]
fn so_many_may_look_on_and_one_who_leaves_makes_room() {
    let hub = MemoryHub::new();
    let agent = consumer_with_metrics(&hub, "");
    let admin = agent.addresses().admin.unwrap();
    let mut taps: Vec<Tap> = (0..MAX_TAPS).map(|_| Tap::open(admin, "")).collect();
    for tap in &mut taps {
        assert_eq!(tap.status(), "HTTP/1.1 200 OK");
    }
    let mut further = Tap::open(admin, "");
    assert_eq!(further.line(), "HTTP/1.1 503 Service Unavailable");
    assert_eq!(Tap::open(admin, "sample=0").line(), "HTTP/1.1 400 Bad Request");
    taps.clear();
    wait_until("room", || (Tap::open(admin, "").line() == "HTTP/1.1 200 OK").then_some(()));
}
