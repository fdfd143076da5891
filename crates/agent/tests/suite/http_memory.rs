//! What callers by HTTP make an agent hold is bounded, given back, and no trouble for others.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::support;
use crate::support::http2::{
    ACK, END_HEADERS, END_STREAM, GOAWAY, HEADERS, Http2, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use crate::support::{
    Behaviour, FakeProvider, Http, SERVICE, metric, register, request, wait_until,
};
use agent::{Agent, config};
use registry::{MemoryHub, RegistryConfig};

const MIB: usize = 1 << 20;

fn agent(hub: &MemoryHub, budget: usize, limits: &str) -> Agent {
    let text = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[agent]\nworkers = 2\nmemory_bytes = {budget}\n\
         [[registry]]\nname = \"main\"\nkind = \"file\"\npath = \"x\"\n\
         [defaults]\ntimeout_ms = 10000\nmax_reply_bytes = {}\n\
         [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:0\"\nmax_body_bytes = {}\n{limits}\n",
        budget / 2,
        budget / 2,
    );
    let mut config = config::parse(&text, "test.toml").unwrap_or_else(|error| panic!("{error}"));
    config.registries[0].config = RegistryConfig::Memory(hub.clone());
    Agent::start(config).unwrap()
}

fn used(agent: &Agent) -> usize {
    metric(agent, "dubmesh_memory_used_bytes").try_into().unwrap()
}

fn wait_until_free(agent: &Agent) {
    wait_until("the memory to be given back", || (used(agent) == 0).then_some(()));
}

const ECHO: &str = "x-dubbo-parameter-types: java.lang.String";

fn path() -> String {
    format!("/{SERVICE}/echo")
}

fn echo_request(len: usize) -> String {
    request(&path(), &[ECHO], &format!("[\"{}\"]", "x".repeat(len)))
}

fn caller(agent: &Agent) -> Http {
    let mut caller = Http::to(agent);
    wait_until("the first endpoint", || {
        caller.send(echo_request(1));
        (caller.read().status == 200).then_some(())
    });
    caller
}

/// Calls that must not fail, whatever others do.
fn expect_calls_pass(caller: &mut Http) {
    for len in 0..50 {
        caller.send(echo_request(len * 20));
        let answer = caller.read();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

struct World {
    _provider: FakeProvider,
    _registered: support::Registered,
    agent: Agent,
}

fn world(budget: usize, limits: &str) -> World {
    let (provider, hub) = (FakeProvider::start(Behaviour::Good), MemoryHub::new());
    let registered = register(&hub, provider.addr);
    let agent = agent(&hub, budget, limits);
    // Each worker has its own connection to the provider, and callers take turns among workers.
    let callers: Vec<Http> = (0..4).map(|_| caller(&agent)).collect();
    drop(callers);
    World { _provider: provider, _registered: registered, agent }
}

/// Whether the agent has closed the connection, whatever it said before.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut buffer = [0; 65536];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// 300 heads of 60 KB that do not end: 18 MB in a budget of 2.
#[test]
fn slow_heads_stay_within_the_budget() {
    let world = world(2 * MIB, "head_timeout_ms = 3000");
    let agent = &world.agent;
    let mut caller = caller(agent);
    let head = format!("POST / HTTP/1.1\r\nhost: x\r\nx-long: {}", "x".repeat(60_000));
    let mut attackers = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(agent.addresses().http[0]).unwrap();
        let _ = stream.write_all(head.as_bytes());
        attackers.push(stream);
        assert!(used(agent) <= 2 * MIB + 64 * 1024, "{}", used(agent));
    }
    expect_calls_pass(&mut caller);
    let refused = attackers.iter_mut().filter_map(|stream| {
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).ok().map(|()| start == *b"HTTP/1.1 503")
    });
    assert!(100 < refused.filter(|is_refused| *is_refused).count());
    wait_until("the slow ones to be closed", || attackers.iter_mut().all(is_closed).then_some(()));
    wait_until_free(agent);
}

/// 30 callers send 7 MiB at a time, into a budget of 32.
#[test]
fn bodies_beyond_the_budget_are_refused_with_a_word_on_when_to_come_again() {
    let world = world(32 * MIB, "");
    let mut caller = caller(&world.agent);
    let body = format!("[\"{}\"]", "x".repeat(7 * MIB));
    let text = request(&path(), &[ECHO], &body);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..30)
            .map(|_| {
                let mut http = Http::to(&world.agent);
                let text = &text;
                scope.spawn(move || {
                    // One that is refused need not read all.
                    let _ = http.0.write_all(text.as_bytes());
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| http.try_read()))
                        .ok()
                        .flatten()
                })
            })
            .collect();
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(1) {
            let used = used(&world.agent);
            assert!(used <= 33 * MIB, "{used}");
            expect_calls_pass(&mut caller);
        }
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    let n_good = answers.iter().flatten().filter(|answer| answer.status == 200).count();
    assert!(0 < n_good, "none of {}", answers.len());
    for answer in answers.iter().flatten().filter(|answer| answer.status != 200) {
        // On a machine that is busy otherwise one may be late.
        let is_known = ["overloaded", "reply_too_large", "timeout"].contains(&&*answer.code());
        assert!(is_known, "{answer:?}");
        let says_when = answer.head.contains("retry-after: 1");
        assert_eq!(answer.status == 503, says_when, "{answer:?}");
    }
    wait_until_free(&world.agent);
}

/// 30 peers announce 15 MiB each and send a KiB of it: a caller of the same address is not refused
/// for that.
#[test]
fn bodies_that_are_only_announced_hold_little() {
    let world = world(32 * MIB, "");
    let agent = &world.agent;
    let mut caller = caller(agent);
    let text = request(&path(), &[ECHO], &"x".repeat(15 * MIB));
    let mut attackers = Vec::new();
    for _ in 0..30 {
        let mut stream = TcpStream::connect(agent.addresses().http[0]).unwrap();
        stream.write_all(&text.as_bytes()[..1024]).unwrap();
        attackers.push(stream);
    }
    wait_until("the begin of all of them", || (MIB < used(agent)).then_some(()));
    assert!(used(agent) <= 4 * MIB, "{}", used(agent));
    caller.send(echo_request(7 * MIB));
    let answer = caller.read();
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// 20 callers ask for 1 MiB, again and again, and read nothing.
#[test]
fn callers_that_never_read_are_left() {
    let world =
        world(32 * MIB, "write_timeout_ms = 1500\nbody_timeout_ms = 2000\nidle_timeout_ms = 60000");
    let mut caller = caller(&world.agent);
    let all = Arc::new(echo_request(MIB).repeat(16));
    let attackers: Vec<_> = (0..20)
        .map(|_| {
            let stream = TcpStream::connect(world.agent.addresses().http[0]).unwrap();
            let (mut stream, all) = (stream, Arc::clone(&all));
            // As much as is taken, at most until the agent closes the connection.
            std::thread::spawn(move || (stream.write_all(all.as_bytes()).is_err(), stream))
        })
        .collect();
    while !attackers.iter().all(JoinHandle::is_finished) {
        assert!(used(&world.agent) <= 33 * MIB, "{}", used(&world.agent));
        expect_calls_pass(&mut caller);
    }
    let attackers: Vec<_> =
        attackers.into_iter().map(|attacker| attacker.join().unwrap()).collect();
    // Those for whom something waits are left; what is in sockets is not ours.
    wait_until_free(&world.agent);
    let mut attackers = attackers.into_iter();
    assert!(
        attackers.any(|(is_cut, mut stream)| is_cut || is_closed(&mut stream)),
        "nobody was left"
    );
}

/// 8 connections of 100 streams with 1,900 fields of a byte: what held 150 MB a connection.
#[test]
fn heads_that_unpack_to_much_are_refused_at_once() {
    let world = world(8 * MIB, "");
    let agent = &world.agent;
    let mut caller = caller(agent);
    let mut attackers: Vec<Http2> = (0..8).map(|_| Http2::to(agent, 65_535)).collect();
    let head = Http2::head(1900, &path());
    for attacker in &mut attackers {
        for stream in (1..200).step_by(2) {
            attacker.frame(HEADERS, END_HEADERS, stream, &head);
        }
        assert!(used(agent) <= 9 * MIB, "{}", used(agent));
    }
    expect_calls_pass(&mut caller);
    // Who goes on is left. One request is told why: the status is no common one, so it stands
    // there as text, in Huffman's code: "431".
    wait_until("the connections to end", || {
        attackers.iter_mut().all(|attacker| is_closed(&mut attacker.stream)).then_some(())
    });
    let mut once = Http2::to(agent, 65_535);
    once.frame(HEADERS, END_HEADERS, 1, &head);
    let (_, block) = once.next(HEADERS);
    assert!(block.starts_with(b"\x48\x83\x69\x90\xff"), "{block:02x?}");
    wait_until_free(agent);
}

/// PINGs, their answers, SETTINGS, and empty DATA: each costs us more than its sender.
#[test]
fn floods_of_frames_that_ask_for_nothing_end_their_connection() {
    let world = world(8 * MIB, "");
    let mut caller = caller(&world.agent);
    for (kind, flags, payload) in [
        (PING, 0, &[7; 8][..]),
        (PING, ACK, &[7; 8]),
        (SETTINGS, 0, &[0, 4, 0, 1, 0, 0]),
        (0, 0, &[]),
    ] {
        let mut attacker = Http2::to(&world.agent, 65_535);
        attacker.frame(HEADERS, END_HEADERS, 1, &Http2::head(0, &path()));
        for _ in 0..5_000 {
            attacker.frame(kind, flags, u32::from(kind == 0), payload);
        }
        wait_until("the connection to end", || is_closed(&mut attacker.stream).then_some(()));
        expect_calls_pass(&mut caller);
    }
    // Why, as long as the connection is not reset first.
    let mut attacker = Http2::to(&world.agent, 65_535);
    for _ in 0..=1_000 {
        attacker.frame(PING, 0, 0, &[7; 8]);
    }
    let (_, reason) = attacker.next(GOAWAY);
    assert_eq!(reason[4..8], [0, 0, 0, 11], "{reason:?}");
}

/// A caller may ask for a sign of life and cancel as often as it calls.
#[test]
fn frames_that_go_with_calls_are_no_flood() {
    let world = world(8 * MIB, "");
    let mut http2 = Http2::to(&world.agent, 65_535);
    for stream in (1..4_000).step_by(2) {
        http2.frame(PING, 0, 0, &[7; 8]);
        http2.frame(HEADERS, END_HEADERS, stream, &Http2::head(0, &path()));
        http2.frame(0, END_STREAM, stream, b"[\"x\"]");
        http2.frame(WINDOW_UPDATE, 0, 0, &1000_u32.to_be_bytes());
        http2.frame(WINDOW_UPDATE, 0, stream, &1000_u32.to_be_bytes());
        let (_, block) = http2.next(HEADERS);
        assert_eq!(block[0], 0x88, "status 200");
    }
}

/// Fields within the limit, on all streams that there may be, of calls that never end.
#[test]
fn heads_that_wait_are_counted() {
    let world = world(8 * MIB, "body_timeout_ms = 2000");
    let agent = &world.agent;
    let mut caller = caller(agent);
    let mut attackers: Vec<Http2> = (0..20).map(|_| Http2::to(agent, 65_535)).collect();
    for attacker in &mut attackers {
        for stream in (1..200).step_by(2) {
            attacker.frame(HEADERS, END_HEADERS, stream, &Http2::head(90, &path()));
        }
    }
    wait_until("the heads to be counted", || (MIB < used(agent)).then_some(()));
    assert!(used(agent) <= 8 * MIB, "{}", used(agent));
    expect_calls_pass(&mut caller);
    wait_until_free(agent);
}

/// Answers for which there is no window, on a connection that is kept alive by PINGs.
#[test]
fn answers_without_a_window_are_given_up() {
    let world = world(32 * MIB, "write_timeout_ms = 1000\nidle_timeout_ms = 1500");
    let agent = &world.agent;
    for window in [0, 1] {
        let mut attacker = Http2::to(agent, window);
        let body = format!("[\"{}\"]", "x".repeat(16_000));
        for stream in (1..41).step_by(2) {
            attacker.frame(HEADERS, END_HEADERS, stream, &Http2::head(0, &path()));
            attacker.frame(0, END_STREAM, stream, body.as_bytes());
        }
        wait_until("answers that wait", || (200_000 < used(agent)).then_some(()));
        wait_until("the connection to end in spite of PINGs", || {
            attacker.frame(PING, 0, 0, &[0; 8]);
            is_closed(&mut attacker.stream).then_some(())
        });
        wait_until_free(agent);
    }
}

/// One stream is stuck while others of its connection get on: it is reset, alone.
#[test]
fn a_stuck_stream_is_reset_alone() {
    let world = world(32 * MIB, "write_timeout_ms = 1000\nidle_timeout_ms = 1500");
    let mut http2 = Http2::to(&world.agent, 0);
    let call = |http2: &mut Http2, stream: u32, len: usize| {
        http2.frame(HEADERS, END_HEADERS, stream, &Http2::head(0, &path()));
        let body = format!("[\"{}\"]", "x".repeat(len));
        let mut pieces = body.as_bytes().chunks(16_000).peekable();
        while let Some(piece) = pieces.next() {
            let flags = if pieces.peek().is_none() { END_STREAM } else { 0 };
            http2.frame(0, flags, stream, piece);
        }
    };
    call(&mut http2, 1, 60_000);
    let started = Instant::now();
    let mut reset = None;
    for stream in (3..).step_by(2) {
        assert!(started.elapsed() < support::PATIENCE, "the stream was not reset");
        call(&mut http2, stream, 5_000);
        http2.frame(WINDOW_UPDATE, 0, stream, &10_000_u32.to_be_bytes());
        let mut len = 0;
        while len < 5_002 && reset.is_none() {
            match http2.next_of(&[0, RST_STREAM]) {
                (RST_STREAM, stream, _) => reset = Some(stream),
                (_, _, data) => len += data.len(),
            }
        }
        if reset.is_some() {
            break;
        }
    }
    assert_eq!(reset, Some(1));
    assert!(Duration::from_millis(900) < started.elapsed(), "{:?}", started.elapsed());
    wait_until_free(&world.agent);
}

/// What has been taken of an answer is still kept while the rest waits: it counts as long.
#[test]
fn an_answer_that_is_taken_in_part_counts_whole() {
    // Less than the agent lets a stream send before it is read.
    const LEN: usize = 240_000;
    const WINDOW: u32 = 100_000;
    let world = world(32 * MIB, "write_timeout_ms = 60000");
    let mut http2 = Http2::to(&world.agent, WINDOW);
    http2.frame(WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
    http2.frame(HEADERS, END_HEADERS, 1, &Http2::head(0, &path()));
    let body = format!("[\"{}\"]", "x".repeat(LEN));
    for part in body.as_bytes().chunks(16_000) {
        http2.frame(0, 0, 1, part);
    }
    http2.frame(0, END_STREAM, 1, b"");
    let mut len = 0;
    while len < WINDOW as usize {
        len += http2.next(0).1.len();
    }
    assert!(LEN - 8 * 1024 <= used(&world.agent), "{}", used(&world.agent));
    drop(http2);
    wait_until_free(&world.agent);
}

/// A peer that opens its window bit by bit gets its answer.
#[test]
fn an_answer_that_is_taken_slowly_arrives_whole() {
    let world = world(32 * MIB, "write_timeout_ms = 1000");
    let mut http2 = Http2::to(&world.agent, 20_000);
    let body = format!("[\"{}\"]", "x".repeat(16_300));
    http2.frame(HEADERS, END_HEADERS, 1, &Http2::head(0, &path()));
    http2.frame(0, END_STREAM, 1, body.as_bytes());
    let mut len = 0;
    while len < 16_302 {
        let (_, data) = http2.next(0);
        len += data.len();
    }
    assert_eq!(len, 16_302);
    wait_until_free(&world.agent);
}
