//! Calls that fail: each failure has its own clear answer, and nobody else is disturbed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support;
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, STRING, call, consumer, free_addr, provider_agent,
    register, request, wait_until,
};
use registry::MemoryHub;

#[test]
fn requests_that_make_no_sense() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = consumer(&hub, "max_body_bytes = 10000\nmax_head_bytes = 16384");
    let path = format!("/{SERVICE}/echo");
    let get = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    let cases = [
        (get, 405, "method_not_allowed"),
        (request("/nothing-here", &[], "[]"), 404, "no_route"),
        (request("//", &[], "[]"), 404, "no_route"),
        (request("/bad interface!/x", &[], "[]").replace("bad ", "bad%20"), 400, "bad_request"),
        (request("/com.acme.Nobody/echo", &[], "[1]"), 404, "service_not_found"),
        (request(&path, &[STRING], "[\"a\""), 400, "bad_request"),
        (request(&path, &[STRING], "[\"a\"] x"), 400, "bad_request"),
        (request(&path, &[STRING], "[\"a\", 1]"), 400, "bad_arguments"),
        (request(&path, &[STRING], "[]"), 400, "bad_arguments"),
        (request(&path, &["x-dubbo-parameter-types: int"], "[\"a\"]"), 400, "bad_arguments"),
        (request(&path, &["x-dubbo-parameter-types: <<"], "[1]"), 400, "bad_request"),
        (request(&path, &["x-dubbo-timeout-ms: soon"], "[1]"), 400, "bad_request"),
        (request(&path, &["content-encoding: gzip"], "[1]"), 415, "unsupported_media_type"),
        (request("/", &[], "interface=a.B"), 400, "bad_request"),
        (request("/", &[], ""), 400, "bad_request"),
        (
            request(&path, &[STRING], &format!("[\"{}\"]", "x".repeat(20_000))),
            413,
            "body_too_large",
        ),
    ];
    for (request, status, code) in cases {
        let mut http = Http::to(&agent);
        http.send(&request);
        let answer = http.try_read().unwrap_or_else(|| panic!("no answer to {request:.200}"));
        assert_eq!((answer.status, &*answer.code()), (status, code), "{request}\n{answer:?}");
    }
    for (broken, status) in [
        ("POST\r\n\r\n".to_owned(), 400),
        ("\x16\x03\x01\x02\x00\x01\r\n\r\n".to_owned(), 400),
        (request(&path, &["content-length: x"], "[]"), 400),
        (request(&path, &[&format!("x-long: {}", "y".repeat(40_000))], "[]"), 431),
    ] {
        let mut http = Http::to(&agent);
        http.send(&broken);
        let answer = http.try_read().unwrap_or_else(|| panic!("no answer to {broken:.200}"));
        assert_eq!(answer.status, status, "{broken}");
    }
    assert_eq!(call(&agent, "echo", &[STRING], "[\"still here\"]").status, 200);
}

#[test]
fn a_body_without_a_length_is_cut_off_at_the_limit() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = consumer(&hub, "max_body_bytes = 10000");
    let mut http = Http::to(&agent);
    let head = format!("POST /{SERVICE}/echo HTTP/1.1\r\nhost: x\r\n");
    http.send(format!("{head}transfer-encoding: chunked\r\n\r\n"));
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    for _ in 0..4 {
        http.send(&chunk);
    }
    assert_eq!(http.read().status, 413);
}

/// What is announced counts: nobody waits for it.
#[test]
fn a_chunk_that_is_longer_than_the_limit_is_refused_when_it_is_announced() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent = consumer(&hub, "max_body_bytes = 10000\nbody_timeout_ms = 600000");
    let head = format!(
        "POST /{SERVICE}/echo HTTP/1.1\r\nhost: x\r\n{STRING}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let refuses = |pieces: &[&str]| {
        let mut http = Http::to(&agent);
        // A first request on the connection is read in another way than a later one.
        for n_before in 0..2 {
            for _ in 0..n_before {
                http.send(request(&format!("/{SERVICE}/nothing"), &[], "[]"));
                assert_eq!(http.read().status, 200);
            }
            for (index, piece) in pieces.iter().enumerate() {
                http.send(piece);
                if index + 1 < pieces.len() {
                    // Read apart from what follows, or not: either has to do.
                    std::thread::yield_now();
                }
            }
            let answer = http.read();
            assert_eq!((answer.status, &*answer.code()), (413, "body_too_large"), "{pieces:?}");
            http = Http::to(&agent);
        }
    };
    refuses(&[&format!("{head}ffffffffffffffff\r\n")]);
    refuses(&[&format!("{head}ffffffffffffffff\r\nabc")]);
    refuses(&[&head, "ffffffffffffffff\r\n"]);
    refuses(&[&head, "ffff", "ffffffffffff\r", "\n"]);
    refuses(&[&head, "3\r\n\"a\"\r\n", "2711\r\n"]);
    refuses(&[&format!("{head}3\r\n\"a\"\r\n270e\r\n")]);
    // What looks like a length in the data is none.
    let mut http = Http::to(&agent);
    http.send(head.replace(STRING, "x-dubbo-parameter-types: long"));
    http.send("e\r\n[\r\n99999999\r\n]\r\n0\r\n\r\n");
    let answer = http.read();
    assert_eq!((answer.status, &*answer.body), (200, "99999999"));
    assert_eq!(http.post(&format!("/{SERVICE}/nothing"), &[], "[]").status, 200);
}

#[test]
fn a_request_that_dawdles_is_told_so() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let _registered = register(&hub, provider.addr);
    let agent =
        consumer(&hub, "head_timeout_ms = 300\nbody_timeout_ms = 300\nidle_timeout_ms = 600");
    let path = format!("/{SERVICE}/echo");
    let whole = request(&path, &[STRING], "[\"a\"]");

    let mut silent = Http::to(&agent);
    let mut in_head = Http::to(&agent);
    in_head.send(&whole[..30]);
    let mut in_body = Http::to(&agent);
    in_body.send(&whole[..whole.len() - 2]);
    let mut after_one = Http::to(&agent);
    after_one.send(&whole);
    assert_eq!(after_one.read().status, 200);
    after_one.send(&whole[..30]);
    for http in [&mut silent, &mut in_head, &mut in_body, &mut after_one] {
        let answer = http.read();
        assert_eq!((answer.status, &*answer.code()), (408, "request_timeout"));
        assert!(http.try_read().is_none(), "the connection is closed");
    }

    let mut idle = Http::to(&agent);
    idle.send(&whole);
    assert_eq!(idle.read().status, 200);
    assert!(idle.try_read().is_none(), "an idle connection is closed without a word");
}

/// A provider that misbehaves in some way, directly and behind its agent.
#[test]
fn providers_that_misbehave() {
    for (behaviour, status, code) in [
        (Behaviour::Hang, 504, "timeout"),
        (Behaviour::Garbage, 502, "connection_broken"),
        (Behaviour::BrokenValue, 502, "bad_reply"),
        (Behaviour::BrokenKind, 502, "bad_reply"),
        (Behaviour::Close, 502, "connection_broken"),
        (Behaviour::Busy, 503, "thread_pool_exhausted"),
        (Behaviour::Leaving, 404, "method_not_found"),
        (Behaviour::Starting, 400, "provider_rejected"),
    ] {
        for with_agent in [false, true] {
            let hub = MemoryHub::new();
            let provider = FakeProvider::start(behaviour);
            let (registered, behind) = match with_agent {
                false => (Some(register(&hub, provider.addr)), None),
                true => (None, Some(provider_agent(&hub, provider.addr))),
            };
            let agent = consumer(&hub, "");
            let answer = wait_until("a call that reaches the provider", || {
                let headers = [STRING, "x-dubbo-timeout-ms: 500"];
                let answer = call(&agent, "echo", &headers, "[\"x\"]");
                (0 < provider.n_requests()).then_some(answer)
            });
            let seen = (answer.status, answer.code());
            assert_eq!(seen, (status, code.to_owned()), "{behaviour:?} {with_agent} {answer:?}");
            assert!(answer.body.contains("\"endpoint\":\"127.0.0.1:"), "{answer:?}");
            if code == "timeout" {
                let words = "within 500 ms (the caller's timeout); raise it by x-dubbo-timeout-ms";
                assert!(answer.body.contains(words), "{answer:?}");
            }
            drop((registered, behind));
        }
    }
}

#[test]
fn one_bad_provider_does_not_disturb_calls_to_a_good_one() {
    for behaviour in [Behaviour::Busy, Behaviour::Leaving, Behaviour::Starting] {
        let hub = MemoryHub::new();
        let (good, bad) = (FakeProvider::start(Behaviour::Good), FakeProvider::start(behaviour));
        let _registered = [register(&hub, good.addr), register(&hub, bad.addr)];
        let agent = consumer(&hub, "");
        for n in 0..200 {
            let answer = call(&agent, "echo", &[STRING], &format!("[\"{n}\"]"));
            assert_eq!(answer.status, 200, "a refused call is offered to the other: {answer:?}");
        }
        assert!(0 < bad.n_requests(), "the {behaviour:?} one was tried");
    }
}

#[test]
fn nobody_listens() {
    let hub = MemoryHub::new();
    let _registered = register(&hub, free_addr());
    let agent = consumer(&hub, "");
    let answer = call(&agent, "echo", &[STRING], "[\"x\"]");
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(["unreachable", "no_endpoint"].contains(&&*answer.code()), "{answer:?}");
    assert!(answer.head.contains("retry-after"));
}

#[test]
fn a_provider_that_was_killed_is_found_again() {
    for with_agent in [false, true] {
        let hub = MemoryHub::new();
        let provider = FakeProvider::start(Behaviour::Good);
        let addr = provider.addr;
        let (_registered, _behind) = match with_agent {
            false => (Some(register(&hub, addr)), None),
            true => (None, Some(provider_agent(&hub, addr))),
        };
        let agent = consumer(&hub, "");
        let works = || call(&agent, "echo", &[STRING], "[\"x\"]").status == 200;
        wait_until("the first answer", || works().then_some(()));
        provider.kill();
        wait_until("an error", || (!works()).then_some(()));
        let _again = FakeProvider::start_at(addr, Behaviour::Good);
        wait_until("an answer again", || works().then_some(()));
    }
}

/// Three provider's agents; one after the other leaves while calls run. No call may fail.
#[test]
fn an_orderly_leave_fails_no_call() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let mut leaving: Vec<_> = (0..3).map(|_| provider_agent(&hub, provider.addr)).collect();
    let agent = consumer(&hub, "");
    wait_until("the first answer", || {
        (call(&agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    let (stop, n_calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut http = Http::to(&agent);
                while !stop.load(Ordering::SeqCst) {
                    let answer = http.post(&format!("/{SERVICE}/echo"), &[STRING], "[\"x\"]");
                    assert_eq!(answer.status, 200, "{answer:?}");
                    n_calls.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for _ in 0..2 {
            let before = n_calls.load(Ordering::SeqCst);
            wait_until("calls", || (before + 500 < n_calls.load(Ordering::SeqCst)).then_some(()));
            let summary = support::block_on(leaving.remove(0).drain()).unwrap();
            assert!(summary.complete, "{summary:?}");
        }
        let before = n_calls.load(Ordering::SeqCst);
        wait_until("calls", || (before + 500 < n_calls.load(Ordering::SeqCst)).then_some(()));
        stop.store(true, Ordering::SeqCst);
    });
}

/// Whatever connects to the link's port: it is told off and cut off, and others are not disturbed.
#[test]
fn strangers_on_the_link() {
    use std::io::{Read, Write};
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Good);
    let behind = provider_agent(&hub, provider.addr);
    let agent = consumer(&hub, "");
    wait_until("the first answer", || {
        (call(&agent, "echo", &[STRING], "[\"x\"]").status == 200).then_some(())
    });
    let zeros = vec![0; 100_000];
    let ones = vec![0xff; 100_000];
    for bytes in [&b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..], &zeros, &ones] {
        let mut stranger = Http::connect(behind.addresses().link.unwrap()).0;
        // It may be cut off before it has sent everything.
        let _ = stranger.write_all(bytes);
        let mut told = Vec::new();
        let _ = stranger.read_to_end(&mut told);
        let answer = call(&agent, "echo", &[STRING], "[\"x\"]");
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// A drain answers what has been begun, and closes what is idle.
#[test]
fn a_drain_answers_what_is_in_flight() {
    let hub = MemoryHub::new();
    let provider = FakeProvider::start(Behaviour::Hang);
    let _registered = register(&hub, provider.addr);
    let agent = consumer(&hub, "");
    let addr = agent.addresses().http[0];
    let mut idle = Http::connect(addr);
    let mut waiting = Http::connect(addr);
    let path = format!("/{SERVICE}/echo");
    waiting.send(request(&path, &[STRING, "x-dubbo-timeout-ms: 800"], "[\"x\"]"));
    wait_until("the request", || (0 < provider.n_requests()).then_some(()));
    let summary = support::block_on(agent.drain()).unwrap();
    assert!(summary.complete, "{summary:?}");
    assert_eq!(waiting.read().status, 504);
    assert!(idle.try_read().is_none());
}
