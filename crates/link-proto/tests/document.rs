//! The examples in `docs/link-protocol.md` are what the encoder really writes, and its tables
//! name the numbers that the code uses. `UPDATE_EXAMPLES=1` rewrites the examples.

#![expect(clippy::disallowed_methods, reason = "a test needs some instant to begin with")]

use bytes::BytesMut;
use link_proto::{
    Config, Connection, Event, GoAwayReason, Reply, RequestOut, RouteDef, Status, header,
};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

const DOCUMENT: &str = include_str!("../../../docs/link-protocol.md");

#[test]
fn examples_are_what_the_encoder_writes() {
    let mut updated = DOCUMENT.to_owned();
    for (name, bytes) in examples() {
        let marker = format!("<!-- example: {name} -->\n```text\n");
        let start = updated.find(&marker).unwrap_or_else(|| panic!("no example {name}"));
        let start = start + marker.len();
        let end = start + updated[start..].find("```").expect("a block has an end");
        updated.replace_range(start..end, &dump(&bytes));
    }
    if std::env::var_os("UPDATE_EXAMPLES").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/link-protocol.md");
        std::fs::write(path, &updated).unwrap();
    } else {
        assert!(updated == DOCUMENT, "run with UPDATE_EXAMPLES=1, then read the difference");
    }
    assert_eq!(DOCUMENT.matches("<!-- example:").count(), examples().len());
}

#[test]
fn tables_name_the_numbers_in_use() {
    for status in (0..=255).map(Status).filter(|status| status.name() != "UNKNOWN") {
        let row = format!("| {} | {} |", status.0, status.name());
        assert!(DOCUMENT.contains(&row), "no row {row}");
        let row = DOCUMENT.lines().find(|line| line.starts_with(&row)).unwrap_or_default();
        assert_eq!(row.ends_with("| yes |"), status.is_not_begun(), "{row}");
    }
    for (name, reason) in [
        ("SHUTDOWN", GoAwayReason::SHUTDOWN),
        ("IDLE", GoAwayReason::IDLE),
        ("PROTOCOL_ERROR", GoAwayReason::PROTOCOL_ERROR),
        ("NO_COMMON_VERSION", GoAwayReason::NO_COMMON_VERSION),
        ("SILENT", GoAwayReason::SILENT),
    ] {
        let row = format!("| {} | {name} |", reason.0);
        assert!(DOCUMENT.contains(&row), "no row {row}");
    }
    for (what, limit) in [
        ("body of any frame", header::MAX_BODY_LEN),
        ("body of a HELLO", header::MAX_HELLO_LEN),
        ("payload in one frame", header::MAX_PART_LEN),
        ("metadata of a message", header::MAX_META_LEN),
        ("entries in metadata", header::MAX_META_ENTRIES),
        ("service key, method, peer name", header::MAX_NAME_LEN),
        ("parameter descriptor", header::MAX_DESCRIPTOR_LEN),
        ("text in GOAWAY and ACK", header::MAX_TEXT_LEN),
        ("window", header::MAX_WINDOW as usize),
        ("routes", header::MAX_ROUTES as usize),
        ("message limit", header::MAX_MESSAGE_LEN as usize),
    ] {
        let row = format!("| {what} | {limit} |");
        assert!(DOCUMENT.contains(&row), "no row {row}");
    }
}

/// Names and bytes of all examples, as two sides would say them.
fn examples() -> Vec<(&'static str, BytesMut)> {
    let now = Instant::now();
    let named = |name: &str| Config { name: name.into(), ..Config::default() };
    let mut client: Connection<()> = Connection::client(named("agent-1"), now);
    let mut server: Connection<()> = Connection::server(named("agent-2"), now);
    let mut examples = Vec::new();

    let mut say = |name, bytes: &mut BytesMut| examples.push((name, bytes.clone()));
    say("client hello", client.transmit());
    server.handle_bytes(now, client.transmit()).unwrap();
    say("server hello", server.transmit());
    client.handle_bytes(now, server.transmit()).unwrap();

    let def = RouteDef {
        service: "g/demo.Hello:1.0".into(),
        method: "hash".into(),
        descriptor: "Ljava/lang/String;".into(),
        attachments: vec![("path".into(), "demo.Hello".into())],
    };
    let route = client.define(&def).unwrap();
    say("define", client.transmit());
    server.handle_bytes(now, client.transmit()).unwrap();
    server.accept_route(route, 2);
    say("accepted", server.transmit());
    client.handle_bytes(now, server.transmit()).unwrap();
    server.refuse_route(route, Status::NOT_FOUND_SERVICE, "not offered");
    say("refused", server.transmit());
    client.handle_bytes(now, server.transmit()).unwrap();
    server.accept_route(route, 2);
    client.handle_bytes(now, server.transmit()).unwrap();

    let plain = RequestOut { codec: 2, payload: b"\x02hi".into(), ..RequestOut::new(route) };
    client.send_request(now, plain, ()).unwrap();
    say("request", client.transmit());
    server.handle_bytes(now, client.transmit()).unwrap();
    let request = RequestOut {
        deadline: Some(now + Duration::from_millis(1500)),
        meta: &[("k", "v1")],
        codec: 2,
        payload: b"\x02hi".into(),
        ..RequestOut::new(route)
    };
    let second = client.send_request(now, request, ()).unwrap();
    say("request with metadata", client.transmit());
    server.handle_bytes(now, client.transmit()).unwrap();

    let ids: Vec<_> = std::iter::from_fn(|| server.poll_event())
        .filter_map(|event| if let Event::Request { id, .. } = event { Some(id) } else { None })
        .collect();
    server.respond(
        ids[0],
        Reply { codec: 2, payload: b"\x05hello".into(), ..Reply::new(Status::OK) },
    );
    say("response", server.transmit());
    client.handle_bytes(now, server.transmit()).unwrap();
    client.cancel(second).unwrap();
    say("cancel", client.transmit());
    server.handle_bytes(now, client.transmit()).unwrap();

    // The slot of the call that ended last is used again, with its next generation.
    let third = client.send_request(now, RequestOut::new(route), ()).unwrap();
    assert_eq!(third.to_wire(), 0x1_0000_0001);
    server.handle_bytes(now, client.transmit()).unwrap();
    server.respond(third, Reply::error(Status::OVERLOADED, "pool is full"));
    say("error response", server.transmit());
    client.handle_bytes(now, server.transmit()).unwrap();

    let long = RequestOut { payload: vec![0xab; 65_540].into(), ..RequestOut::new(route) };
    client.send_request(now, long, ()).unwrap();
    let mut long = client.transmit().clone();
    let mut second = long.split_off(16 + 12 + 32_768);
    let mut third = second.split_off(16 + 32_768);
    long.truncate(16 + 12 + 4);
    second.truncate(16 + 4);
    say("long request, first part", &mut long);
    say("long request, second part", &mut second);
    say("long request, last part", &mut third);
    server.handle_bytes(now, client.transmit()).unwrap();

    server.set_window(16);
    say("credit", server.transmit());
    client.handle_bytes(now, server.transmit()).unwrap();
    client.handle_timeout(now + Config::default().keepalive);
    say("ping", client.transmit());
    server.handle_bytes(now, client.transmit()).unwrap();
    say("pong", server.transmit());
    client.handle_bytes(now, server.transmit()).unwrap();
    server.go_away(GoAwayReason::SHUTDOWN);
    say("go away", server.transmit());
    examples
}

/// Sixteen bytes a line: offset, hexadecimal, text.
fn dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (index, line) in bytes.chunks(16).enumerate() {
        write!(out, "{:04x} ", index * 16).unwrap();
        for byte in line {
            write!(out, " {byte:02x}").unwrap();
        }
        out.push_str(&"   ".repeat(16 - line.len()));
        out.push_str("  ");
        let is_text = |byte: &u8| (0x20..0x7f).contains(byte);
        out.extend(line.iter().map(|byte| if is_text(byte) { char::from(*byte) } else { '.' }));
        let len = out.trim_end().len();
        out.truncate(len);
        out.push('\n');
    }
    out
}
