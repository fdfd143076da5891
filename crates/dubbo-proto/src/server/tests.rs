//! The server against bytes that a consumer might send.

use std::time::Duration;

use super::*;
use crate::frame::{self, Header};
use crate::test_clock::start;
use crate::{ProtoError, RequestHead, RequestTemplate};

const HEAD: RequestHead<'_> =
    RequestHead { path: "a.B", version: "", method: "m", descriptor: "I" };

fn server(config: ServerConfig, now: Instant) -> ServerConnection {
    ServerConnection::new(config, now)
}

fn request(n: u32, two_way: bool) -> BytesMut {
    let template = RequestTemplate::new(Serialization::Hessian2, &HEAD, &[]).unwrap();
    let mut out = BytesMut::new();
    template.encode(RequestId::without_slot(n), two_way, b"\x91", &[], &mut out).unwrap();
    out
}

fn bad_request(serialization: Serialization, two_way: bool) -> BytesMut {
    let header = Header {
        is_request: true,
        two_way,
        is_event: false,
        serialization,
        status: 0,
        id: 5,
        body_len: 3,
    };
    [&header.encode()[..], b"bad"].concat()[..].into()
}

fn next_frame(server: &mut ServerConnection) -> Frame {
    frame::decode(server.transmit(), 1 << 20).unwrap().expect("a frame to the consumer")
}

fn next_request(server: &mut ServerConnection) -> (ReplyTo, bool, Request) {
    match server.poll_event() {
        Some(ServerEvent::Request { to, two_way, request }) => (to, two_way, *request),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_broken_request_does_not_hurt_the_others() {
    let now = start();
    let mut server = server(ServerConfig::default(), now);
    let hessian = Serialization::Hessian2;
    let parts = [
        request(1, true),
        bad_request(hessian, true),
        bad_request(hessian, false),
        bad_request(Serialization::Other(8), true),
        request(2, false),
    ];
    let mut input = parts.concat()[..].into();
    server.handle_bytes(now, &mut input).unwrap();
    for n in 1..=2 {
        let (to, two_way, request) = next_request(&mut server);
        assert_eq!((to.id, two_way), (RequestId::without_slot(n).get(), n == 1));
        assert_eq!((request.method(), request.args()), ("m", &b"\x91"[..]));
    }
    assert!(server.poll_event().is_none());
    for text in ["cannot read dubbo version: ", "serialization 8 is not supported"] {
        let frame = next_frame(&mut server);
        assert_eq!((frame.header.status, frame.header.id), (40, 5));
        assert_eq!(frame.header.serialization, hessian);
        let said = crate::error_text(hessian, &frame.body);
        assert!(said.starts_with(text), "{said}");
    }
    assert!(server.transmit().is_empty());
    assert_eq!((server.stats().bad_requests, server.in_flight()), (3, 1));
}

/// What comes of a portion is done before the next one, however much a read has brought.
#[test]
fn many_frames_are_handled_in_portions() {
    let now = start();
    let mut server = server(ServerConfig { pass_through: true, ..ServerConfig::default() }, now);
    let many = u32::try_from(2 * MAX_FRAMES + 1).unwrap();
    let mut input: BytesMut = (0..many).flat_map(|n| request(n, n % 2 == 0)).collect();
    let mut portion = |server: &mut ServerConnection, is_last: bool| {
        server.handle_bytes(now, &mut input).unwrap();
        assert_eq!((server.has_backlog(), input.is_empty()), (!is_last, is_last));
        if !is_last {
            let len = input.len();
            assert_eq!(server.shed_frame(now, &mut input, "full"), Ok(false));
            assert_eq!(input.len(), len, "what is whole stays");
            let late = now + server.config.body_timeout;
            assert!(server.unfinished.overdue(late).is_none(), "the consumer is not late");
        }
        std::iter::from_fn(|| server.poll_event()).count()
    };
    let n_events = [false, false, true].map(|is_last| portion(&mut server, is_last));
    assert_eq!(n_events, [MAX_FRAMES, MAX_FRAMES, 1]);
}

/// A driver that does not read for a while says so, and the consumer is not blamed for it.
#[test]
fn a_consumer_that_is_not_read_is_not_late() {
    let now = start();
    let config = ServerConfig { body_timeout: Duration::from_secs(3), ..ServerConfig::default() };
    let (mut held, mut read) = (server(config, now), server(config, now));
    let mut later = now;
    for server in [&mut held, &mut read] {
        server.handle_bytes(now, &mut request(1, true).split_to(20)).unwrap();
    }
    for _ in 0..200 {
        later += Duration::from_secs(2);
        held.note_unread(later);
        held.handle_timeout(later);
        read.handle_timeout(later);
    }
    assert!(!held.is_finished() && read.is_finished());
}

#[test]
fn replies_carry_id_and_status() {
    let now = start();
    let mut server = server(ServerConfig { payload_limit: 100, ..ServerConfig::default() }, now);
    let to = ReplyTo { id: 8, serialization: Serialization::Hessian2, takes_attachments: true };
    server.reply(now, to, ReplyKind::Value, b"\x91", &[]).unwrap();
    server.reply_error(now, to, Status::ServiceNotFound, "none").unwrap();
    server.reply_body(now, to, Status::Ok, b"\x92").unwrap();
    server.reply(now, to, ReplyKind::Value, &[b'N'; 200], &[]).unwrap();
    for (status, body) in [(20, &b"\x91\x91"[..]), (60, b"\x04none"), (20, b"\x92")] {
        let frame = next_frame(&mut server);
        assert_eq!((frame.header.status, frame.header.id, &frame.body[..]), (status, 8, body));
    }
    let frame = next_frame(&mut server);
    assert_eq!(frame.header.status, 25, "the consumer is told that the result was too long");
}

#[test]
fn too_many_requests_are_refused_one_by_one() {
    let now = start();
    let mut server = server(ServerConfig { max_in_flight: 2, ..ServerConfig::default() }, now);
    let mut input = [request(1, true), request(2, true), request(3, true), request(4, false)]
        .concat()[..]
        .into();
    server.handle_bytes(now, &mut input).unwrap();
    let (to, ..) = next_request(&mut server);
    let frame = next_frame(&mut server);
    assert_eq!((frame.header.status, frame.header.id), (100, RequestId::without_slot(3).get()));
    assert_eq!((server.in_flight(), server.stats().refused_requests), (2, 1));
    server.reply(now, to, ReplyKind::Null, b"", &[]).unwrap();
    server.abandon();
    assert_eq!(server.in_flight(), 0);
}

#[test]
fn consumers_that_never_read_lose_their_connection() {
    let now = start();
    let config = ServerConfig { max_buffered_bytes: 1000, ..ServerConfig::default() };
    let mut server = server(config, now);
    let to = ReplyTo { id: 8, serialization: Serialization::Hessian2, takes_attachments: true };
    assert!(server.wants_input());
    server.reply(now, to, ReplyKind::Value, &[b'N'; 600], &[]).unwrap();
    assert!(!server.wants_input());
    server.reply(now, to, ReplyKind::Value, &[b'N'; 600], &[]).unwrap();
    let error = server.reply(now, to, ReplyKind::Null, b"", &[]).unwrap_err();
    assert!(matches!(error, ProtoError::OutputFull { max: 1000, .. }));
    assert!(server.is_finished());
    assert_eq!(server.handle_bytes(now, &mut request(1, true)), Ok(()));
    assert!(server.poll_event().is_none());
}

#[test]
fn silent_consumers_are_asked_and_left() {
    let now = start();
    let mut server = server(ServerConfig::default(), now);
    let minute = Duration::from_secs(60);
    for n in 1..3 {
        assert_eq!(server.poll_timeout(), Some(now + n * minute));
        server.handle_timeout(now + n * minute);
        let frame = next_frame(&mut server);
        assert!(frame.header.is_request && frame.header.is_event && frame.header.two_way);
    }
    server.handle_timeout(now + 3 * minute);
    assert!(matches!(server.poll_event(), Some(ServerEvent::Dead(_))));
    assert!(server.is_finished());
    assert_eq!(server.poll_timeout(), None);
    server.send_readonly(now);
    assert!(server.transmit().is_empty());
}

#[test]
fn long_requests_are_refused_and_stepped_over() {
    let now = start();
    let mut server = server(ServerConfig { max_body_len: 100, ..ServerConfig::default() }, now);
    let long = |id, two_way| {
        let header = Header {
            is_request: true,
            two_way,
            is_event: false,
            serialization: Serialization::Fastjson,
            status: 0,
            id,
            body_len: 5000,
        };
        [&header.encode()[..], &[b'"'; 5000]].concat()
    };
    let parts = [&long(7, true)[..], &long(8, false), &request(1, true)];
    for piece in parts.concat().chunks(900) {
        let mut input = piece.into();
        server.handle_bytes(now, &mut input).unwrap();
        assert!(input.len() <= frame::HEADER_LEN, "nothing long is kept");
    }
    let frame = next_frame(&mut server);
    assert_eq!((frame.header.status, frame.header.id), (40, 7));
    assert_eq!(
        crate::error_text(Serialization::Fastjson, &frame.body),
        "Data length too large: 5000, max payload: 100; nothing was called"
    );
    for _ in 0..2 {
        let told = server.poll_event();
        assert!(matches!(told, Some(ServerEvent::TooLong { len: 5000 })), "{told:?}");
    }
    assert_eq!(next_request(&mut server).0.id, RequestId::without_slot(1).get());
    assert!(server.transmit().is_empty());
    assert_eq!(server.stats().bad_requests, 2);
}

#[test]
fn bodies_are_handed_out_unread() {
    let now = start();
    let mut server = server(ServerConfig { pass_through: true, ..ServerConfig::default() }, now);
    let mut input = bad_request(Serialization::Other(8), true);
    server.handle_bytes(now, &mut input).unwrap();
    match server.poll_event() {
        Some(ServerEvent::Body { to, two_way: true, body }) => {
            assert_eq!((&body[..], to.serialization), (&b"bad"[..], Serialization::Other(8)));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(server.in_flight(), 1);
}

/// While nothing is read because the consumer takes no answers, it cannot show that it lives.
#[test]
fn a_consumer_that_is_not_read_does_not_count_as_silent() {
    let now = start();
    let second = Duration::from_secs(1);
    let config =
        ServerConfig { heartbeat: second, max_buffered_bytes: 1000, ..ServerConfig::default() };
    let mut server = server(config, now);
    let to = ReplyTo { id: 8, serialization: Serialization::Hessian2, takes_attachments: true };
    server.reply(now, to, ReplyKind::Value, &[b'N'; 600], &[]).unwrap();
    for n in 1..=10 {
        server.handle_timeout(now + n * second);
        assert!(!server.is_finished(), "after {n} s");
    }
    server.transmit().clear();
    for n in 11..=13 {
        assert!(!server.is_finished(), "after {n} s");
        server.handle_timeout(now + n * second);
    }
    assert!(server.is_finished(), "it is read, and silent");
}

/// A request that never becomes whole: silent, or a byte a second.
#[test]
fn an_unfinished_request_has_a_deadline() {
    let now = start();
    let second = Duration::from_secs(1);
    for trickles in [false, true] {
        let config = ServerConfig { body_timeout: 5 * second, ..ServerConfig::default() };
        let mut server = server(config, now);
        let whole = request(2, true);
        // One whole request, and the beginning of another.
        let mut input = [&request(1, true)[..], &whole[..20]].concat()[..].into();
        server.handle_bytes(now, &mut input).unwrap();
        assert_eq!(server.poll_timeout(), Some(now + 5 * second));
        for n in 1..5 {
            let now = now + n * second;
            if trickles {
                input.extend_from_slice(&whole[19 + n as usize..20 + n as usize]);
                server.handle_bytes(now, &mut input).unwrap();
            }
            server.handle_timeout(now);
            assert!(!server.is_finished(), "after {n} s");
        }
        server.handle_timeout(now + 5 * second);
        assert!(server.is_finished());
        assert!(matches!(server.poll_event(), Some(ServerEvent::Request { .. })));
        let dead = server.poll_event();
        let Some(ServerEvent::Dead(DeadReason::Unfinished { time })) = dead else {
            panic!("{dead:?}")
        };
        assert_eq!(time, 5 * second);
    }
}

#[test]
fn requests_that_come_one_after_the_other_each_have_their_time() {
    let now = start();
    let second = Duration::from_secs(1);
    let config = ServerConfig { body_timeout: 5 * second, ..ServerConfig::default() };
    let mut server = server(config, now);
    let (whole, mut input) = (request(1, false), BytesMut::new());
    // Never between two frames: each read ends one and begins the next.
    for n in 0..20 {
        let now = now + n * 4 * second;
        let rest = if n == 0 { &[][..] } else { &whole[20..] };
        input.extend_from_slice(&[rest, &whole[..20]].concat());
        server.handle_bytes(now, &mut input).unwrap();
        server.handle_timeout(now + 4 * second);
        assert!(!server.is_finished(), "{n}");
    }
    input.extend_from_slice(&whole[20..]);
    server.handle_bytes(now + 80 * second, &mut input).unwrap();
    server.handle_timeout(now + 86 * second);
    assert!(!server.is_finished(), "nothing is unfinished");
}

/// The rest of a body that is skipped is waited for no longer than one that is read.
#[test]
fn a_long_request_that_is_stepped_over_has_a_deadline() {
    let now = start();
    let mut server = server(ServerConfig { max_body_len: 10, ..ServerConfig::default() }, now);
    server.handle_bytes(now, &mut request(1, true)[..20].into()).unwrap();
    server.handle_timeout(now + ServerConfig::default().body_timeout);
    assert!(server.is_finished());
}

#[test]
fn a_request_is_shed_before_it_is_whole() {
    let now = start();
    let mut server = server(ServerConfig::default(), now);
    let whole = request(7, true);
    let mut input = whole[..16].into();
    server.handle_bytes(now, &mut input).unwrap();
    assert_eq!(server.shed_frame(now, &mut input, "no memory"), Ok(false), "no byte of the body");
    input.extend_from_slice(&whole[16..20]);
    assert_eq!(server.shed_frame(now, &mut input, "no memory"), Ok(true));
    assert_eq!(input.capacity(), 0, "its memory is given back");
    let frame = next_frame(&mut server);
    assert_eq!((frame.header.status, frame.header.id), (100, RequestId::without_slot(7).get()));
    assert_eq!(crate::error_text(Serialization::Hessian2, &frame.body), "no memory");
    // The rest is skipped, and the next request is as good as any.
    input.extend_from_slice(&[&whole[20..], &request(8, true)].concat());
    server.handle_bytes(now, &mut input).unwrap();
    assert_eq!(next_request(&mut server).0.id, RequestId::without_slot(8).get());
    assert_eq!(server.in_flight(), 1);
}
