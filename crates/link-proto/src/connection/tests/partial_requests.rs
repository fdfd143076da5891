//! Requests in parts: how long they may take, and what they take in memory.

use super::*;

const SECOND: Duration = Duration::from_secs(1);
/// Over 64 KiB, so that it goes in parts.
const LONG_LEN: usize = 1 << 20;

/// Sends the first part of a long request, and nothing after it.
fn begin(pair: &mut Pair, route: RouteId, timeout: Option<Duration>, one_way: bool) -> CallId {
    let payload = vec![7; LONG_LEN].into();
    let request = RequestOut { timeout, one_way, payload, ..RequestOut::new(route) };
    let deadline = timeout.map(|timeout| pair.now + timeout);
    let request = RequestOut { deadline, ..request };
    let before = pair.server.reassembly_bytes();
    let id = pair.client.send_request(pair.now, request, 1).unwrap();
    let out = pair.client.transmit();
    let body_len = Header::parse(out.first_chunk().unwrap()).body_len as usize;
    let mut first = out.split_to(16 + body_len);
    pair.server.handle_bytes(pair.now, &mut first).unwrap();
    assert_eq!(pair.server.reassembly_bytes(), before + LONG_LEN);
    let held = pair.server.assembly_held();
    assert!(0 < held && held < LONG_LEN, "what came, not what was announced: {held}");
    id
}

fn expect_freed(pair: &Pair) {
    let server = &pair.server;
    assert_eq!((server.in_flight(), server.reassembly_bytes(), server.assembly_held()), (0, 0, 0));
}

fn answer(pair: &mut Pair) -> (Status, String) {
    match &pair.at_client()[..] {
        [Event::Response { status, payload, .. }] => {
            (*status, String::from_utf8(payload.to_vec()).unwrap())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_that_stays_unfinished_ends_with_its_deadline() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    begin(&mut pair, route, Some(SECOND), false);
    let due = pair.server.poll_timeout().unwrap();
    assert!(due <= pair.now + SECOND, "the driver is to look when the call's time is over");
    pair.server.handle_timeout(pair.now + SECOND - Duration::from_millis(2));
    assert_eq!(pair.server.in_flight(), 1);
    pair.server.handle_timeout(pair.now + SECOND);
    expect_freed(&pair);
    let (status, text) = answer(&mut pair);
    assert_eq!(status, Status::TIMEOUT);
    assert!(text.ends_with(&format!("of the request's {LONG_LEN} bytes came within 1s")), "{text}");
}

#[test]
fn a_request_without_a_deadline_has_the_time_that_the_server_allows() {
    let server = Config { assembly_timeout: 3 * SECOND, ..Config::default() };
    for (timeout, one_way) in [(None, false), (None, true), (Some(3600 * SECOND), false)] {
        let (mut pair, route) = Pair::with_route(Config::default(), server.clone());
        begin(&mut pair, route, timeout, one_way);
        pair.server.handle_timeout(pair.now + 3 * SECOND);
        expect_freed(&pair);
        let events = pair.at_client();
        assert_eq!(events.is_empty(), one_way, "{events:?}");
    }
}

/// A part a second keeps a link alive, but no request.
#[test]
fn a_request_that_trickles_in_is_given_up_and_its_late_parts_are_dropped() {
    let server = Config { assembly_timeout: 5 * SECOND, ..Config::default() };
    let (mut pair, route) = Pair::with_route(Config::default(), server);
    let id = begin(&mut pair, route, None, false);
    let start = pair.now;
    for n in 1..10 {
        let now = start + n * SECOND;
        let mut part = BytesMut::new();
        let (kind, flags) = (FrameKind::Chunk as u8, flags::MORE);
        let header = Header { body_len: 1, kind, flags, id: id.to_wire(), ..Header::default() };
        part.put_slice(&header.to_bytes());
        part.put_u8(7);
        pair.server.handle_bytes(now, &mut part).unwrap();
        pair.server.handle_timeout(now);
        assert_eq!(pair.server.in_flight() == 0, n >= 5, "after {n} s");
    }
    expect_freed(&pair);
}

#[test]
fn requests_that_are_in_time_are_left_alone_when_others_are_late() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    for (slot, timeout_ms) in [(0, 3000_u32), (1, 1000), (2, 2000)] {
        let mut frame = BytesMut::new();
        let id = CallId::new(slot, 1).to_wire();
        let (kind, flags) = (FrameKind::Request as u8, flags::MORE);
        let header = Header { body_len: 16, kind, flags, id, ..Header::default() };
        frame.put_slice(&header.to_bytes());
        for field in [route.0, timeout_ms, 1 << 20, 0x7777_7777] {
            frame.put_u32(field);
        }
        pair.server.handle_bytes(pair.now, &mut frame).unwrap();
    }
    let start = pair.now;
    for n in 1..=3 {
        pair.server.handle_timeout(start + n * SECOND);
        assert_eq!(pair.server.in_flight(), 3 - n as usize);
    }
    expect_freed(&pair);
}

#[test]
fn the_largest_unfinished_request_makes_room_first() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    assert!(!pair.server.shed_parts("no memory"), "there is none");
    begin(&mut pair, route, None, false);
    assert!(pair.server.shed_parts("no memory"));
    expect_freed(&pair);
    assert_eq!(answer(&mut pair), (Status::OVERLOADED, "no memory".to_owned()));
    assert!(pair.server.poll_timeout().is_some());
    pair.server.handle_timeout(pair.now + Duration::from_millis(1));
}
