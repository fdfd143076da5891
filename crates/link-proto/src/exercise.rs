//! Drives one side with any bytes, for fuzzing and for the tests of hostile input.

use crate::{
    Config, Connection, Event, Payload, PeerHello, Reply, RequestOut, RouteDef, Status, features,
    header, hello,
};
use bytes::{Buf, BytesMut};
use std::time::{Duration, Instant};

/// Small limits, so that short inputs reach them.
fn config() -> Config {
    Config {
        max_message_len: 300_000,
        max_reassembly_bytes: 600_000,
        max_buffered_bytes: 10_000,
        max_routes: 8,
        window: 8,
        stream_window: header::MIN_STREAM_WINDOW,
        features: features::STREAMS | features::LZ4 | features::CREDITS,
        ..Config::default()
    }
}

/// A server is fed `data`, after a client's HELLO if the first byte is odd, in pieces as long as
/// the second byte says, and answers whatever it gets. On a call with streams it echoes items,
/// takes most of them, and answers after the last.
pub fn server_bytes(data: &[u8], now: Instant) {
    let mut server: Connection<()> = Connection::server(config(), now);
    feed(&mut server, data, now, |server, event| match event {
        Event::Defined { route, .. } if route.id.index() % 2 == 0 => server.accept_route(route, 2),
        Event::Defined { route, .. } => {
            server.refuse_route(route, Status::NOT_FOUND_SERVICE, "no such service");
        }
        Event::Request { id, stream_in, stream_out, .. } if stream_in || stream_out => {
            assert!(stream_out || !server.can_send_item(id));
            let _ = server.send_item(id, 1, Payload::Bytes(vec![5; 100_000].into()));
        }
        Event::Item { id, payload, codec } => {
            if payload.first() != Some(&0) {
                server.item_taken(id, payload.len());
            }
            let _ = server.send_item(id, codec, payload.into());
        }
        Event::ItemsEnd { id } => {
            server.respond(id, Reply::new(Status::OK));
        }
        Event::Writable { id } => {
            let _ = server.send_item(id, 2, b"more".into());
        }
        Event::Request { id, payload, meta, .. } => {
            let n_meta = meta.iter().count();
            assert!(n_meta <= crate::header::MAX_META_ENTRIES);
            if payload.first() != Some(&0) {
                let payload = payload.repeat(1 + n_meta).into();
                server.respond(id, Reply { payload, ..Reply::new(Status::OK) });
            }
        }
        _ => {}
    });
}

/// As [`server_bytes`], but a client with some calls in flight, one of them long and three
/// with streams, is fed.
pub fn client_bytes(data: &[u8], now: Instant) {
    let mut client: Connection<u32> = Connection::client(config(), now);
    let mut n_calls = 0;
    let mut seen = Vec::new();
    feed(&mut client, data, now, |client, event| match event {
        Event::Ready(PeerHello { .. }) => {
            let Ok(route) = client.define(&RouteDef::default()) else {
                return;
            };
            let mut streams = Vec::new();
            for (len, streaming) in [(10, true), (10, false), (20, true), (100_000, true)] {
                let request = RequestOut {
                    payload: vec![7; len].into(),
                    stream_in: streaming,
                    stream_out: streaming,
                    ..RequestOut::new(route)
                };
                if let Ok(id) = client.send_request(now, request, n_calls) {
                    n_calls += 1;
                    streams.push(id);
                }
            }
            for id in streams {
                for len in [0, 50_000, 10] {
                    let _ = client.send_item(id, 3, vec![7; len].into());
                }
                if id.slot() == 0 {
                    let _ = client.end_items(id);
                }
            }
        }
        Event::Item { id, payload, .. } if payload.first() != Some(&0) => {
            client.item_taken(id, payload.len());
        }
        Event::Writable { id } => {
            let _ = client.send_item(id, 2, b"more".into());
        }
        Event::Response { token, .. } | Event::Expired { token } => seen.push(token),
        _ => {}
    });
    seen.extend(client.drain_pending());
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..n_calls), "each call ends once");
}

fn feed<T>(
    side: &mut Connection<T>,
    data: &[u8],
    now: Instant,
    mut on_event: impl FnMut(&mut Connection<T>, Event<T>),
) {
    let (mode, data) = data.split_first().unwrap_or((&1, &[]));
    let (piece_len, data) = data.split_first().unwrap_or((&255, &[]));
    let mut input = BytesMut::new();
    if mode % 2 == 1 {
        hello::encode(&config(), true, &mut input);
    }
    let mut pieces = data.chunks(usize::from(*piece_len).max(1));
    loop {
        let result = side.handle_bytes(now, &mut input);
        while let Some(event) = side.poll_event() {
            on_event(side, event);
        }
        if mode & 2 == 0 {
            let written = side.transmit().len().min(5_000);
            side.transmit().advance(written);
        }
        side.check_invariants();
        assert!(side.in_flight() <= 8 && side.reassembly_bytes() <= 600_000);
        if result.is_err() || side.is_congested() {
            break;
        }
        if side.has_backlog() {
            continue;
        }
        let Some(piece) = pieces.next() else {
            break;
        };
        input.extend_from_slice(piece);
    }
    side.handle_timeout(now + Duration::from_secs(5));
    side.handle_timeout(now + Duration::from_secs(30));
}
