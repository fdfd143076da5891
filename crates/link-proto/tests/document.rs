//! The examples in `docs/link-protocol.md` are what the encoder really writes, and its tables
//! name the numbers that the code uses. `UPDATE_EXAMPLES=1` rewrites the examples.

#![expect(clippy::disallowed_methods, reason = "a test needs some instant to begin with")]

use bytes::BytesMut;
use link_proto::header::{FrameKind, Header, flags};
use link_proto::{
    Config, Connection, Credits, DefinedRoute, Event, GoAwayReason, PoolId, Reply, RequestOut,
    RouteDef, Status, features, header,
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
        ("pools", header::MAX_POOLS as usize),
        ("message limit", header::MAX_MESSAGE_LEN as usize),
        ("stream window", header::MAX_STREAM_WINDOW as usize),
        ("frames in a COMPRESSED", header::MAX_RAW_LEN),
    ] {
        let row = format!("| {what} | {limit} |");
        assert!(DOCUMENT.contains(&row), "no row {row}");
    }
}

#[test]
fn tables_name_the_kinds_and_flags_in_use() {
    for (feature, name) in
        [(features::STREAMS, "STREAMS"), (features::LZ4, "LZ4"), (features::CREDITS, "CREDITS")]
    {
        let row = format!("| `{feature:#04x}` | {name} |");
        assert!(DOCUMENT.contains(&row), "no row {row}");
    }
    for (kind, name, known_flags) in [
        (FrameKind::Hello, "HELLO", 0),
        (FrameKind::Define, "DEFINE", flags::ACK),
        (FrameKind::Request, "REQUEST", 0x1f),
        (FrameKind::Response, "RESPONSE", flags::MORE | flags::META),
        (FrameKind::Chunk, "CHUNK", flags::MORE),
        (FrameKind::Cancel, "CANCEL", 0),
        (FrameKind::Credit, "CREDIT", 0),
        (FrameKind::Ping, "PING", 0),
        (FrameKind::Pong, "PONG", 0),
        (FrameKind::GoAway, "GOAWAY", 0),
        (FrameKind::Item, "ITEM", flags::MORE | flags::END),
        (FrameKind::ItemCredit, "ITEM_CREDIT", 0),
        (FrameKind::Compressed, "COMPRESSED", 0),
        (FrameKind::Demand, "DEMAND", 0),
    ] {
        let kind = kind as u8;
        let row = format!("| {kind} | {name} ");
        let rows: Vec<_> = DOCUMENT.lines().filter(|line| line.starts_with(&row)).collect();
        assert!(!rows.is_empty(), "no row {row}");
        for bit in (0..6).map(|bit| 1 << bit) {
            let is_named = rows.iter().any(|row| row.contains(&format!("`{bit:#04x}`")));
            assert_eq!(is_named, known_flags & bit != 0, "{name}, flag {bit:#04x}");
            let is_taken = Header { kind, flags: bit, ..Header::default() }.check().is_ok();
            assert_eq!(is_taken, is_named, "{name}, flag {bit:#04x}");
        }
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
    server.accept_route(DefinedRoute::first(route), 2);
    say("accepted", server.transmit());
    client.handle_bytes(now, server.transmit()).unwrap();
    server.refuse_route(DefinedRoute::first(route), Status::NOT_FOUND_SERVICE, "not offered");
    say("refused", server.transmit());
    client.handle_bytes(now, server.transmit()).unwrap();
    server.accept_route(DefinedRoute::first(route), 2);
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
    let mut long = BytesMut::new();
    while !client.transmit().is_empty() {
        long.unsplit(client.transmit().split());
    }
    server.handle_bytes(now, &mut long.clone()).unwrap();
    let mut second = long.split_off(16 + 12 + 32_768);
    let mut third = second.split_off(16 + 32_768);
    long.truncate(16 + 12 + 4);
    second.truncate(16 + 4);
    say("long request, first part", &mut long);
    say("long request, second part", &mut second);
    say("long request, last part", &mut third);

    let streaming = RequestOut { stream_in: true, ..RequestOut::new(route) };
    let streaming = client.send_request(now, streaming, ()).unwrap();
    say("streaming request", client.transmit());
    server.handle_bytes(now, client.transmit()).unwrap();
    client.send_item(streaming, 2, b"\x03one".into()).unwrap();
    say("item", client.transmit());
    server.handle_bytes(now, client.transmit()).unwrap();
    server.item_taken(streaming, 4);
    for _ in 0..2 {
        let item = vec![0xab; 65_536];
        client.send_item(streaming, 2, item.into()).unwrap();
        server.handle_bytes(now, client.transmit()).unwrap();
        server.item_taken(streaming, 65_536);
    }
    say("item credit", server.transmit());
    client.handle_bytes(now, server.transmit()).unwrap();
    client.end_items(streaming).unwrap();
    say("end of items", client.transmit());
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
    examples.push(("compressed", compressed(now)));
    examples.extend(credits(now));
    examples
}

/// A route of a pool, and what both sides say of its credits.
fn credits(now: Instant) -> [(&'static str, BytesMut); 5] {
    let config = || Config { features: features::CREDITS, ..Config::default() };
    let mut client: Connection<()> = Connection::client(config(), now);
    let mut server: Connection<()> = Connection::server(config(), now);
    server.handle_bytes(now, client.transmit()).unwrap();
    client.handle_bytes(now, server.transmit()).unwrap();
    let route = client.define(&RouteDef::default()).unwrap();
    server.handle_bytes(now, client.transmit()).unwrap();
    let pool = PoolId(0);
    server.accept_route_of_pool(DefinedRoute::first(route), 2, pool);
    let accepted = std::mem::take(server.transmit());
    server.grant(pool, Credits::Limited(8));
    let limited = std::mem::take(server.transmit());
    server.grant(pool, Credits::Measured(8));
    let measured = std::mem::take(server.transmit());
    client.demand(pool, 3, 1);
    let demand = std::mem::take(client.transmit());
    server.grant(pool, Credits::Open);
    let open = std::mem::take(server.transmit());
    [
        ("accepted with a pool", accepted),
        ("credits", limited),
        ("measured credits", measured),
        ("demand", demand),
        ("open", open),
    ]
}

/// Requests that leave compressed.
fn compressed(now: Instant) -> BytesMut {
    let config = || Config { features: features::LZ4, ..Config::default() };
    let mut client: Connection<()> = Connection::client(config(), now);
    let mut server: Connection<()> = Connection::server(config(), now);
    server.handle_bytes(now, client.transmit()).unwrap();
    client.handle_bytes(now, server.transmit()).unwrap();
    let route = client.define(&RouteDef::default()).unwrap();
    server.handle_bytes(now, client.transmit()).unwrap();
    for _ in 0..2 {
        let payload = b"brick ".repeat(20);
        let request =
            RequestOut { codec: 2, payload: (&payload[..]).into(), ..RequestOut::new(route) };
        client.send_request(now, request, ()).unwrap();
    }
    std::mem::take(client.transmit())
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
