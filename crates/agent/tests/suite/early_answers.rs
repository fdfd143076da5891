//! Requests that are answered before all of them has come: the caller finds the answer, and costs
//! little.

use std::io::{ErrorKind, Write};
use std::time::Duration;

use agent::{Agent, config};
use registry::{MemoryHub, RegistryConfig};

use crate::support::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2, PING, RST_STREAM};
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, consumer, register, request, wait_until,
};

const MIB: usize = 1 << 20;

fn path() -> String {
    format!("/{SERVICE}/echo")
}

/// Many clients send all of a request before they look for an answer.
#[test]
fn who_sends_all_of_a_refused_request_finds_the_answer() {
    let hub = MemoryHub::new();
    let agent = consumer(&hub, "max_body_bytes = 10000\nmax_head_bytes = 16384");
    let long = "x".repeat(12 * MIB);
    let chunks = format!("100000\r\n{}\r\n", &long[..MIB]).repeat(12);
    let chunked = format!(
        "POST {} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n",
        path()
    );
    for (text, status) in [
        (request(&path(), &[STRING], &long), 413),
        (chunked, 413),
        (request(&path(), &["content-encoding: gzip"], &long), 415),
        (request(&path(), &[STRING], &long).replacen("POST", "PUT", 1), 405),
        (request(&path(), &[&format!("x-long: {}", &long[..MIB / 2])], "[]"), 431),
    ] {
        let mut http = Http::to(&agent);
        http.0.write_all(text.as_bytes()).unwrap_or_else(|error| panic!("{status}: {error}"));
        let answer = http.read();
        assert_eq!(answer.status, status);
        assert!(answer.head.contains("\r\nconnection: close\r\n"), "{answer:?}");
        assert!(http.try_read().is_none(), "the connection is closed");
    }
}

/// What came along with its head is no reason to end the connection.
#[test]
fn a_short_request_that_is_refused_leaves_the_connection_open() {
    let hub = MemoryHub::new();
    let agent = consumer(&hub, "");
    let mut http = Http::to(&agent);
    for (text, status) in [
        (request(&path(), &["content-encoding: gzip"], "[1]"), 415),
        (request(&path(), &[STRING], "[1]").replacen("POST", "PUT", 1), 405),
        (request(&path(), &["x-dubbo-timeout-ms: soon"], "[1]"), 400),
        (format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", path()), 405),
    ] {
        http.send(&text);
        let answer = http.read();
        assert_eq!(answer.status, status, "{text}");
        assert!(!answer.head.contains("\r\nconnection:"), "{answer:?}");
    }
}

/// Debian's curl shows no answer if the stream is reset on which it still sends.
#[test]
fn a_refused_request_of_http2_is_answered_and_not_reset() {
    let hub = MemoryHub::new();
    let agent = consumer(&hub, "");
    let mut http2 = Http2::to(&agent, 1 << 16);
    let wrong = b"\0\x12x-dubbo-timeout-ms\x04soon";
    let head = [&*Http2::head(0, &path()), wrong].concat();
    for stream in [1, 3] {
        http2.frame(HEADERS, END_HEADERS, stream, &head);
        assert_eq!(http2.next_of(&[HEADERS, RST_STREAM]).0, HEADERS);
        for _ in 0..3 {
            http2.frame(DATA, 0, stream, &[b'x'; 16_000]);
        }
        http2.frame(DATA, END_STREAM, stream, b"x");
        http2.frame(PING, 0, 0, &[0; 8]);
        assert_eq!(http2.next_of(&[PING, RST_STREAM]).0, PING);
    }
}

/// A caller who neither sends the rest nor resets the stream keeps it for a moment only: else
/// refused requests would fill the connection.
#[test]
fn refused_requests_of_http2_that_stay_open_are_let_go() {
    let hub = MemoryHub::new();
    let agent = consumer(&hub, "");
    let mut http2 = Http2::to(&agent, 1 << 16);
    let wrong = b"\0\x12x-dubbo-timeout-ms\x04soon";
    let head = [&*Http2::head(0, &path()), wrong].concat();
    // As many as may be open at a time.
    for stream in (1..200).step_by(2) {
        http2.frame(HEADERS, END_HEADERS, stream, &head);
    }
    for _ in 0..100 {
        let (stream, _) = http2.next(RST_STREAM);
        assert!(stream < 200);
    }
    http2.frame(HEADERS, END_HEADERS | END_STREAM, 201, &head);
    assert_eq!(http2.next(HEADERS).0, 201);
}

/// The agent neither reads without end, nor keeps the connection for ever.
#[test]
fn who_sends_more_than_a_refused_request_is_let_go() {
    let hub = MemoryHub::new();
    let agent = consumer(&hub, "max_body_bytes = 10000");
    let mut http = Http::to(&agent);
    let text = request(&path(), &[STRING], &"x".repeat(MIB));
    http.send(&text);
    http.0.set_nonblocking(true).unwrap();
    let (mut n_more, more) = (0, vec![b'x'; MIB]);
    wait_until("the end of the connection", || match http.0.write(&more) {
        Ok(len) => {
            n_more += len;
            None
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(_) => Some(()),
    });
    assert!(n_more < 64 * MIB, "{n_more} bytes were taken: more than buffers of sockets hold");
}

/// A long body for which there is no memory is refused when it is announced.
#[test]
fn a_body_without_a_chance_is_refused_before_it_comes() {
    let (hub, provider) = (MemoryHub::new(), FakeProvider::start(Behaviour::Good));
    let _registered = register(&hub, provider.addr);
    let agent = agent_with_budget(&hub, 4 * MIB);
    let announce = |len: usize| {
        let mut http = Http::to(&agent);
        let head = format!("POST {} HTTP/1.1\r\nhost: x\r\n{STRING}\r\n", path());
        http.send(format!("{head}content-length: {len}\r\n\r\n"));
        http
    };
    let mut half = announce(2 * MIB);
    half.send("x".repeat(3 * MIB / 2));
    let answer = wait_until("a refusal", || {
        let mut other = announce(2 * MIB);
        other.0.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        // While there is room for it, it is waited for.
        let mut begin = [0];
        matches!(other.0.peek(&mut begin), Ok(1)).then(|| other.read())
    });
    assert_eq!((answer.status, &*answer.code()), (503, "overloaded"), "{answer:?}");
    assert!(answer.body.contains("memory_bytes"), "{answer:?}");
    half.send("x".repeat(MIB / 2));
    assert_eq!(half.read().status, 400, "it was read to its end");
}

fn agent_with_budget(hub: &MemoryHub, budget: usize) -> Agent {
    let text = format!(
        "[agent]\nworkers = 1\nmemory_bytes = {budget}\n[defaults]\nmax_reply_bytes = {half}\n\
         [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\nmax_body_bytes = {half}\n",
        half = budget / 2,
    );
    let mut config = config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    config.registries[0].config = RegistryConfig::Memory(hub.clone());
    Agent::start(config).unwrap()
}
