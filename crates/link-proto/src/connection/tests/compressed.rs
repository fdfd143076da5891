//! Compressed frames between two sides.

use super::*;
use crate::features;
use crate::header::MAX_RAW_LEN;

fn packing() -> Config {
    Config { features: features::STREAMS | features::LZ4, ..Config::default() }
}

/// A COMPRESSED frame with these bytes in it.
fn compressed(raw: &[u8]) -> BytesMut {
    let raw_len = u32::try_from(raw.len()).unwrap();
    let body = [&raw_len.to_be_bytes()[..], &lz4_flex::block::compress(raw)].concat();
    frame(FrameKind::Compressed, 0, 0, &body)
}

/// Kinds of the frames that wait to be written.
fn kinds(bytes: &[u8]) -> Vec<u8> {
    let (mut kinds, mut rest) = (Vec::new(), bytes);
    while let Some((head, after)) = rest.split_first_chunk() {
        let header = Header::parse(head);
        kinds.push(header.kind);
        rest = &after[header.body_len as usize..];
    }
    kinds
}

#[test]
fn many_frames_leave_as_one() {
    let (mut pair, route) = Pair::with_route(packing(), packing());
    for token in 0..100 {
        pair.send(route, b"much the same every time", token);
    }
    assert_eq!(kinds(pair.client.transmit()), [FrameKind::Compressed as u8]);
    assert!(pair.client.buffered_bytes() < 1500);
    let events = pair.at_server();
    assert_eq!(events.len(), 100);
    for event in events {
        let Event::Request { id, payload, .. } = event else { panic!("{event:?}") };
        assert_eq!(payload, "much the same every time");
        pair.server.respond(id, Reply { payload: payload.into(), ..Reply::new(Status::OK) });
    }
    assert_eq!(kinds(pair.server.transmit()), [FrameKind::Compressed as u8]);
    assert_eq!(pair.at_client().len(), 100);
    let (up, down) = (pair.client.compression().unwrap(), pair.server.compression().unwrap());
    assert_eq!((up.raw_out_bytes, up.packed_out_bytes), (down.raw_in_bytes, down.packed_in_bytes));
    assert_eq!((up.raw_in_bytes, up.packed_in_bytes), (down.raw_out_bytes, down.packed_out_bytes));
    assert_eq!(up.raw_out_bytes, 100 * (16 + 8 + 24));
    assert!(up.raw_out_bytes > 3 * up.packed_out_bytes, "{up:?}");
}

/// A side without the feature is sent nothing that it does not know, and knows nothing of it.
#[test]
fn one_side_alone_does_not_compress() {
    for (client, server) in [(packing(), Config::default()), (Config::default(), packing())] {
        let (mut pair, route) = Pair::with_route(client, server);
        for token in 0..100 {
            pair.send(route, b"much the same every time", token);
        }
        assert_eq!(kinds(pair.client.transmit()), [FrameKind::Request as u8; 100]);
        assert_eq!(pair.at_server().len(), 100);
        assert_eq!((pair.client.compression(), pair.server.compression()), (None, None));
        let error = fail_server(&mut pair, compressed(&request_frame(200, 0)));
        assert_eq!(error, LinkError::UnknownKind { kind: 13 });
    }
}

/// A driver that had written a part of the HELLO when frames began to be compressed.
#[test]
fn what_was_begun_before_goes_on_as_it_is() {
    let now = Instant::now();
    let mut client: Connection<u32> = Connection::client(packing(), now);
    let mut server: Connection<()> = Connection::server(packing(), now);
    let mut input = client.transmit().split_to(5);
    client.handle_bytes(now, server.transmit()).unwrap();
    let route = client.define(&RouteDef::default()).unwrap();
    for token in 0..50 {
        let request = RequestOut { payload: b"the same".into(), ..RequestOut::new(route) };
        client.send_request(now, request, token).unwrap();
    }
    assert!(client.core.outbox.take_progress());
    while !client.transmit().is_empty() {
        input.unsplit(client.transmit().split());
    }
    assert!(client.core.outbox.take_progress() && client.buffered_bytes() == 0);
    assert_eq!(kinds(&input), [FrameKind::Hello as u8, FrameKind::Compressed as u8]);
    server.handle_bytes(now, &mut input).unwrap();
    assert_eq!(std::iter::from_fn(|| server.poll_event()).count(), 52);
}

#[test]
fn rules_are_named() {
    let nested = compressed(&compressed(&request_frame(0, 0)));
    let cut = request_frame(0, 0);
    let two_and_a_half = [&cut[..], &request_frame(1, 0), &cut[..20]].concat();
    for (bytes, told) in [
        (nested, "bad COMPRESSED of 36 bytes: it must not hold another one"),
        (compressed(&cut[..23]), "bad COMPRESSED of 23 bytes: it must hold whole frames"),
        (compressed(&cut[..7]), "bad COMPRESSED of 7 bytes: it must hold whole frames"),
        (compressed(&two_and_a_half), "bad COMPRESSED of 68 bytes: it must hold whole frames"),
        (compressed(&frame(FrameKind::Hello, 0, 0, b"")), "unexpected frame of kind 0x01"),
        (compressed(&frame(FrameKind::Response, 0, 0, b"")), "unexpected frame of kind 0x04"),
        (
            compressed(&vec![0; MAX_RAW_LEN + 1]),
            "frame of kind 0x0d: raw length is 131089, over the limit of 131088",
        ),
    ] {
        let (mut pair, _) = Pair::with_route(packing(), packing());
        let error = fail_server(&mut pair, bytes);
        assert_eq!(error.to_string(), told);
    }
    let now = Instant::now();
    let mut server: Connection<()> = Connection::server(packing(), now);
    let error = server.handle_bytes(now, &mut compressed(&cut)).unwrap_err();
    assert!(matches!(error, LinkError::NotHello { kind: 13, .. }), "{error}");
}

/// A few KiB that unpack to a lot are handled a little at a time, and all of it in the end.
#[test]
fn what_unpacks_to_a_lot_waits() {
    let (mut pair, _) = Pair::with_route(packing(), packing());
    // So long that there is no limit to their number.
    let one_way = frame(FrameKind::Request, flags::ONE_WAY, 0, &[0; 4000]);
    let per_frame = MAX_RAW_LEN / one_way.len();
    let mut input = BytesMut::new();
    for _ in 0..50 {
        input.extend_from_slice(&compressed(&one_way.repeat(per_frame)));
    }
    assert!(input.len() < 50 * 1000);
    let (mut n_calls, mut n_events) = (0, 0);
    loop {
        pair.server.handle_bytes(pair.now, &mut input).unwrap();
        let n_at_once = std::iter::from_fn(|| pair.server.poll_event()).count();
        assert!(n_at_once <= 9 * per_frame, "{n_at_once}");
        (n_calls, n_events) = (n_calls + 1, n_events + n_at_once);
        assert_eq!(pair.server.has_backlog(), !input.is_empty());
        if !pair.server.has_backlog() {
            break;
        }
    }
    assert_eq!((n_calls, n_events), (6, 50 * per_frame));
}
