//! The client against bytes that a provider might send.

use std::time::Duration;

use super::*;
use crate::test_clock::start;
use crate::{FrameError, ReplyKind, RequestHead, RequestTemplate};

const SECOND: Duration = Duration::from_secs(1);

fn template() -> RequestTemplate {
    let head = RequestHead { path: "a.B", version: "", method: "m", descriptor: "I" };
    RequestTemplate::new(Serialization::Hessian2, &head, &[("path", "a.B")]).unwrap()
}

fn client(now: Instant) -> ClientConnection<u32> {
    ClientConnection::new(ClientConfig::default(), now)
}

/// Sends a call with a deadline of one second, and forgets its bytes.
fn call(client: &mut ClientConnection<u32>, now: Instant, token: u32) -> RequestId {
    let id = client.send(now, &template(), b"\x91", &[], now + SECOND, token).unwrap();
    client.transmit().clear();
    id
}

fn frame_of(flags: u8, status: u8, id: u64, body: &[u8]) -> BytesMut {
    let mut out = BytesMut::from(&[0xda, 0xbb, flags, status][..]);
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
    out.extend_from_slice(body);
    out
}

fn reply_to(id: RequestId) -> BytesMut {
    let mut out = BytesMut::new();
    let to =
        ReplyTo { id: id.get(), serialization: Serialization::Hessian2, takes_attachments: false };
    reply::encode_reply(to, ReplyKind::Null, b"", &[], 100, &mut out).unwrap();
    out
}

fn events(client: &mut ClientConnection<u32>) -> Vec<ClientEvent<u32>> {
    std::iter::from_fn(|| client.poll_event()).collect()
}

#[test]
fn replies_find_their_calls_in_any_order() {
    let now = start();
    let mut client = client(now);
    let ids: Vec<_> = (0..10).map(|token| call(&mut client, now, token)).collect();
    let mut input = BytesMut::new();
    for id in ids.iter().rev() {
        input.extend_from_slice(&reply_to(*id));
    }
    client.handle_bytes(now, &mut input).unwrap();
    let tokens: Vec<_> = events(&mut client)
        .into_iter()
        .map(|event| match event {
            ClientEvent::Reply { token, status: Status::Ok, body, .. } => {
                assert_eq!(body, b"\x92"[..]);
                token
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(tokens, (0..10).rev().collect::<Vec<_>>());
    assert_eq!((client.in_flight(), input.len()), (0, 0));
}

#[test]
fn late_replies_are_dropped_and_never_answer_another_call() {
    let now = start();
    let mut client = client(now);
    let id = call(&mut client, now, 1);
    assert_eq!(client.poll_timeout(), Some(now + SECOND));
    client.handle_timeout(now + SECOND);
    assert_eq!(events(&mut client), [ClientEvent::Expired { token: 1 }]);

    let next = call(&mut client, now + SECOND, 2);
    let cancelled = call(&mut client, now + SECOND, 3);
    assert_eq!(client.cancel(cancelled), Some(3));
    assert_eq!(client.cancel(cancelled), None);
    for stale in [id, cancelled, RequestId::without_slot(1)] {
        client.handle_bytes(now, &mut reply_to(stale)).unwrap();
    }
    assert_eq!((events(&mut client), client.stats().stale_replies), (vec![], 3));
    client.handle_bytes(now, &mut reply_to(next)).unwrap();
    // Twice: the second is as stale as the others.
    client.handle_bytes(now, &mut reply_to(next)).unwrap();
    assert!(matches!(events(&mut client)[..], [ClientEvent::Reply { token: 2, .. }]));
    assert_eq!((client.stats().given_up, client.stats().stale_replies), (2, 4));
}

#[test]
fn heartbeats_of_every_shape_are_answered_in_kind() {
    let now = start();
    let cases: [(u8, &[u8], &[u8]); 7] = [
        (0xe2, b"N", b"N"),
        (0xe2, b"", b"N"),
        (0xe2, b"\x00", b"N"),
        (0xe6, b"null\n", b"null\n"),
        (0xf7, &[0, 0, 0, 1, 0xaf], &[0, 0, 0, 1, 0xaf]),
        (0xe8, b"\x00", b""),
        (0xe2, b"\x0aheartbeat!", b"N"),
    ];
    for (flags, body, answer) in cases {
        let mut client = client(now);
        client.handle_bytes(now, &mut frame_of(flags, 0, 5, body)).unwrap();
        let expected = frame_of(flags & 0x3f, 20, 5, answer);
        assert_eq!(client.transmit(), &expected);
        assert_eq!((events(&mut client), client.is_accepting()), (vec![], true));
    }
    // One-way events and answers get none.
    let mut client = client(now);
    client.handle_bytes(now, &mut frame_of(0xa2, 0, 5, b"N")).unwrap();
    client.handle_bytes(now, &mut frame_of(0x22, 20, 5, b"N")).unwrap();
    assert!(client.transmit().is_empty());
}

#[test]
fn silence_is_asked_about_and_ends_the_connection() {
    let now = start();
    let mut client = client(now);
    call(&mut client, now, 1);
    client.handle_timeout(now + SECOND);
    let mut at = now;
    for n in 1..=2 {
        at += Duration::from_secs(60);
        client.handle_timeout(at);
        assert_eq!(client.transmit()[..4], [0xda, 0xbb, 0xe2, 0]);
        assert_eq!(client.transmit()[16..], b"N"[..]);
        client.transmit().clear();
        assert_eq!(client.stats().heartbeats_sent, n);
    }
    call(&mut client, at, 2);
    events(&mut client);
    client.handle_timeout(at + Duration::from_secs(60));
    let silence = Duration::from_secs(180);
    let dead = ClientEvent::Dead(DeadReason::Silent { silence });
    assert_eq!(events(&mut client), [ClientEvent::Expired { token: 2 }, dead]);
    assert!(client.is_finished() && !client.is_accepting());
    assert_eq!(client.poll_timeout(), None);
}

/// What takes connections where a provider was silent need not be the provider.
#[test]
fn no_call_is_taken_before_the_sign_of_life_that_was_asked_for() {
    let now = start();
    let config = ClientConfig { asks_first: Some(Duration::MAX), ..ClientConfig::default() };
    let mut client = ClientConnection::new(config, now);
    assert_eq!(client.transmit()[..4], [0xda, 0xbb, 0xe2, 0]);
    client.transmit().clear();
    let refused = client.send(now, &template(), b"\x91", &[], now + SECOND, 1);
    assert_eq!(refused, Err((1, SendError::NotAccepting)));
    client.handle_bytes(now, &mut BytesMut::new()).unwrap();
    assert!(!client.is_accepting(), "nothing has come");
    let mut heartbeat = frame_of(0x22, 20, 5, b"N");
    let mut rest = heartbeat.split_off(10);
    client.handle_bytes(now, &mut heartbeat).unwrap();
    assert!(!client.is_accepting() && !client.has_answered(), "bytes may be anything");
    heartbeat.unsplit(rest.split());
    client.handle_bytes(now, &mut heartbeat).unwrap();
    assert!(client.is_accepting() && client.has_answered());
    client.handle_bytes(now, &mut frame_of(0x22, 20, 5, b"N")).unwrap();
    assert_eq!(events(&mut client), [ClientEvent::Alive], "once");
    assert!(client.is_accepting());
    assert_eq!(client.stats().heartbeats_heard, 2);

    let mut silent = ClientConnection::<u32>::new(config, now);
    for n in 1..=3 {
        silent.handle_timeout(now + n * Duration::from_secs(60));
    }
    let silence = Duration::from_secs(180);
    assert_eq!(events(&mut silent), [ClientEvent::Dead(DeadReason::Silent { silence })]);

    let patient = ClientConfig { asks_first: Some(SECOND), ..config };
    let mut client = ClientConnection::<u32>::new(patient, now);
    assert_eq!(client.poll_timeout(), Some(now + SECOND));
    client.handle_timeout(now + SECOND - Duration::from_nanos(1));
    assert!(!client.is_accepting());
    client.handle_timeout(now + SECOND);
    assert!(client.is_accepting() && !client.has_answered());
    assert_eq!(events(&mut client), [ClientEvent::Alive]);
    assert!(now + SECOND < client.poll_timeout().unwrap());
}

#[test]
fn readonly_stops_new_calls_and_tells_once() {
    let now = start();
    let mut client = client(now);
    let id = call(&mut client, now, 1);
    let readonly = frame_of(0xa2, 0, 7, b"\x01R");
    let writeable = frame_of(0xa2, 0, 8, b"\x01W");
    let mut both = [&readonly[..], &readonly, &writeable, &readonly].concat()[..].into();
    client.handle_bytes(now, &mut both).unwrap();
    assert_eq!(events(&mut client), [ClientEvent::ReadOnly]);
    let refused = client.send(now, &template(), b"\x91", &[], now, 2);
    assert_eq!(refused, Err((2, SendError::NotAccepting)));
    client.handle_bytes(now, &mut reply_to(id)).unwrap();
    assert_eq!(events(&mut client).len(), 1, "calls in flight are still answered");
    client.handle_bytes(now, &mut writeable.clone()).unwrap();
    assert_eq!(events(&mut client), [ClientEvent::Writeable]);
    call(&mut client, now, 3);
}

#[test]
fn limits_refuse_calls_before_anything_is_written() {
    let now = start();
    let config =
        ClientConfig { max_in_flight: 2, max_buffered_bytes: 200, ..ClientConfig::default() };
    let mut client = ClientConnection::new(config, now);
    call(&mut client, now, 1);
    call(&mut client, now, 2);
    let refused = client.send(now, &template(), b"\x91", &[], now, 3);
    assert_eq!(refused, Err((3, SendError::TooManyInFlight { max: 2 })));
    assert!(client.transmit().is_empty());

    while client.send_one_way(now, &template(), b"\x91", &[]).is_ok() {}
    let buffered = client.transmit().len();
    let full = Err(SendError::BufferFull { buffered, max: 400 });
    assert_eq!(client.send_one_way(now, &template(), b"\x91", &[]), full);
    assert!((400..500).contains(&buffered));
    // A provider that asks and never reads ends its connection.
    let error = client.handle_bytes(now, &mut frame_of(0xe2, 0, 5, b"N")).unwrap_err();
    assert_eq!(error, ProtoError::OutputFull { buffered, max: 400 });
    assert!(client.is_finished());
    assert_eq!(client.drain_pending().collect::<Vec<_>>(), [1, 2]);
}

/// A provider that asks and reads nothing has no memory taken for it.
#[test]
fn what_a_provider_asks_without_reading_is_answered_up_to_a_limit() {
    for asked in [frame_of(0xe2, 0, 5, b"N"), frame_of(0xc2, 0, 5, b"N")] {
        let now = start();
        let mut client = client(now);
        for _ in 0..100_000 {
            client.handle_bytes(now, &mut asked.clone()).unwrap();
        }
        let waiting_len = client.transmit().len();
        assert!((MAX_UNASKED_LEN..MAX_UNASKED_LEN + 1000).contains(&waiting_len), "{waiting_len}");
        client.transmit().clear();
        client.handle_bytes(now, &mut asked.clone()).unwrap();
        assert!(!client.transmit().is_empty(), "once it has read, it is answered again");
    }
}

/// Who sends long requests to a provider that does not read fills its own half of the buffer.
#[test]
fn long_requests_leave_room_for_short_ones() {
    let now = start();
    let config = ClientConfig { max_buffered_bytes: 1 << 20, ..ClientConfig::default() };
    let mut client = ClientConnection::<u64>::new(config, now);
    let body = vec![b'x'; 64 << 10];
    let one_way = |client: &mut ClientConnection<u64>, len| {
        client.send_body_one_way(now, Serialization::Hessian2, &body[..len])
    };
    while one_way(&mut client, 64 << 10).is_ok() {}
    let buffered = client.buffered_bytes();
    assert!((1 << 20..(1 << 20) + (65 << 10)).contains(&buffered), "{buffered}");
    assert_eq!(one_way(&mut client, 5000), Err(SendError::BufferFull { buffered, max: 1 << 20 }));
    for _ in 0..100 {
        one_way(&mut client, 4096).unwrap();
    }
    while one_way(&mut client, 4096).is_ok() {}
    let buffered = client.buffered_bytes();
    assert!((2 << 20..(2 << 20) + 5000).contains(&buffered), "{buffered}");
}

#[test]
fn refused_encodings_give_the_token_back() {
    let now = start();
    let mut client = client(now);
    let small = template().with_payload_limit(10);
    let (token, error) = client.send(now, &small, b"\x91", &[], now, 9).unwrap_err();
    assert!(matches!(error, SendError::Encode(ProtoError::PayloadTooLong { max: 10, .. })));
    assert_eq!((token, client.in_flight(), client.transmit().len()), (9, 0, 0));
    let long = vec![0; ClientConfig::default().max_request_len + 1];
    assert!(client.send_body(now, Serialization::Hessian2, &long, now, 9).is_err());
}

#[test]
fn whole_bodies_are_passed_on_under_our_id() {
    let now = start();
    let mut client = client(now);
    let serialization = Serialization::Fastjson2;
    let id = client.send_body(now, serialization, b"body", now + SECOND, 4).unwrap();
    assert_eq!(client.transmit(), &frame_of(0xd7, 0, id.get(), b"body"));
    client.transmit().clear();
    let id = client.send_body_one_way(now, serialization, b"body").unwrap();
    assert_eq!(client.transmit(), &frame_of(0x97, 0, id.get(), b"body"));
    assert_eq!(client.in_flight(), 1);
}

#[test]
fn callbacks_are_refused_with_a_reply() {
    let now = start();
    let mut client = client(now);
    client.handle_bytes(now, &mut frame_of(0x82, 0, 3, b"one way")).unwrap();
    assert!(client.transmit().is_empty());
    client.handle_bytes(now, &mut frame_of(0xc2, 0, 3, b"two way")).unwrap();
    assert_eq!(client.transmit()[..4], [0xda, 0xbb, 0x02, 40]);
    assert_eq!(client.stats().refused_requests, 2);
}

#[test]
fn lost_framing_ends_the_connection() {
    let now = start();
    let mut client = client(now);
    call(&mut client, now, 1);
    let error = client.handle_bytes(now, &mut b"HTTP/1.1 400 Bad Request"[..].into());
    assert_eq!(error, Err(ProtoError::Frame(FrameError::BadMagic { found: 0x4854 })));
    assert!(client.is_finished());
    let mut more = reply_to(RequestId::without_slot(0));
    assert_eq!(client.handle_bytes(now, &mut more), Ok(()));
    assert!(more.is_empty());
    assert_eq!(client.drain_pending().collect::<Vec<_>>(), [1]);
}

#[test]
fn closing_keeps_what_waits_to_be_written() {
    let now = start();
    let mut client = client(now);
    client.send(now, &template(), b"\x91", &[], now, 1).unwrap();
    client.close();
    assert!(client.is_finished() && !client.transmit().is_empty() && !client.is_accepting());
}

#[test]
fn one_long_reply_fails_one_call() {
    let now = start();
    let config = ClientConfig { max_body_len: 100, ..ClientConfig::default() };
    let mut client = ClientConnection::new(config, now);
    let ids: Vec<RequestId> = (0..2)
        .map(|n| client.send(now, &template(), b"\x91", &[], now + SECOND, n).unwrap())
        .collect();
    let bytes = [
        &frame_of(0x02, 20, ids[0].get(), &[b'N'; 3000])[..],
        &frame_of(0x02, 20, 99, &[b'N'; 3000]),
        &reply_to(ids[1]),
    ];
    for piece in bytes.concat().chunks(700) {
        client.handle_bytes(now, &mut piece.into()).unwrap();
    }
    assert_eq!(client.poll_event(), Some(ClientEvent::TooLong { token: 0, len: 3000, max: 100 }));
    assert!(matches!(client.poll_event(), Some(ClientEvent::Reply { token: 1, .. })));
    assert_eq!((client.in_flight(), client.stats().stale_replies), (0, 1));
}

#[test]
fn an_unfinished_answer_has_a_deadline() {
    let now = start();
    let mut client = client(now);
    let id = call(&mut client, now, 1);
    let reply = frame_of(0x02, 20, id.get(), b"\x91\x03abc");
    let mut input = reply[..18].into();
    client.handle_bytes(now, &mut input).unwrap();
    let time = ClientConfig::default().body_timeout;
    assert!(client.poll_timeout() <= Some(now + time));
    client.handle_timeout(now + time - SECOND);
    assert_eq!(events(&mut client), [ClientEvent::Expired { token: 1 }]);
    client.handle_timeout(now + time);
    let dead = ClientEvent::Dead(DeadReason::Unfinished { time });
    assert_eq!(events(&mut client), [dead]);
    assert!(client.is_finished());
}

#[test]
fn an_answer_is_shed_before_it_is_whole() {
    let now = start();
    let mut client = client(now);
    let (first, second) = (call(&mut client, now, 1), call(&mut client, now, 2));
    let reply = frame_of(0x02, 20, first.get(), b"\x91\x03abc");
    let mut input = reply[..17].into();
    client.handle_bytes(now, &mut input).unwrap();
    assert_eq!(client.shed_frame(&mut input), Ok(true));
    let shed = ClientEvent::Shed { token: 1, len: reply.len() - 16 };
    assert_eq!((events(&mut client), input.capacity()), (vec![shed], 0));
    input.extend_from_slice(&[&reply[17..], &reply_to(second)].concat());
    client.handle_bytes(now, &mut input).unwrap();
    assert!(matches!(events(&mut client)[..], [ClientEvent::Reply { token: 2, .. }]));
}
