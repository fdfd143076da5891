//! A peer that sends what costs it little, and reads nothing.

use super::super::frames::MAX_EVENTS;
use super::super::owed::MAX_DIRECT_LEN;
use super::*;
use crate::header::HEADER_LEN;
use crate::{Credits, PoolId, features};

/// So many bytes of PONGs and DEMANDs may wait, whatever else may.
const MAX_ANSWERS_LEN: usize = MAX_DIRECT_LEN + 4 * HEADER_LEN;

/// With room for messages without end.
fn roomy() -> Config {
    Config { features: features::CREDITS, max_buffered_bytes: usize::MAX, ..Config::default() }
}

/// All that waits to be written, and is read by nobody.
fn take_all<T>(side: &mut Connection<T>) -> BytesMut {
    let mut all = BytesMut::new();
    while !side.transmit().is_empty() {
        all.unsplit(side.transmit().split());
    }
    all
}

fn flood_with_pings<T>(side: &mut Connection<T>, now: Instant) {
    take_all(side);
    for n in 0..100_000_u64 {
        side.handle_bytes(now, &mut frame(FrameKind::Ping, 0, 0, &n.to_be_bytes())).unwrap();
    }
    let is_server = matches!(side.side, ConnectionSide::Server(_));
    assert_eq!(side.is_congested(), is_server, "a server reads no more");
    let waiting_len = side.transmit().len();
    assert!(waiting_len <= MAX_ANSWERS_LEN, "{waiting_len} bytes of PONGs wait");
    let mut pongs = take_all(side);
    let last = pongs.split_off(pongs.len() - 8);
    assert_eq!(last, &99_999_u64.to_be_bytes()[..], "the newest PING is answered");
    assert!(!side.is_congested(), "and more is read");
    side.handle_bytes(now, &mut frame(FrameKind::Ping, 0, 0, &[7; 8])).unwrap();
    assert_eq!(
        take_all(side),
        frame(FrameKind::Pong, 0, 0, &[7; 8]),
        "and so is the next, at once"
    );
}

#[test]
fn pings_of_a_peer_that_does_not_read_are_answered_by_the_newest_pong() {
    let mut pair = Pair::new(roomy(), roomy());
    flood_with_pings(&mut pair.client, pair.now);
    flood_with_pings(&mut pair.server, pair.now);
}

#[test]
fn demands_that_a_server_causes_are_those_of_now() {
    let mut pair = Pair::new(roomy(), roomy());
    take_all(&mut pair.client);
    for n in 0..100_000 {
        pair.client.demand(PoolId(n % 3), n, n);
    }
    let waiting_len = pair.client.transmit().len();
    assert!(waiting_len <= MAX_ANSWERS_LEN, "{waiting_len} bytes of DEMANDs wait");
    let events = pair.at_server();
    let newest = |pool: u32| {
        events.iter().rev().find_map(|event| match event {
            Event::Demand { pool: of, n_waiting, n_seen } if of.0 == pool => {
                Some((*n_waiting, *n_seen))
            }
            _ => None,
        })
    };
    assert_eq!([0, 1, 2].map(newest), [99_999, 99_997, 99_998].map(|n| Some((n, n))));
    pair.client.demand(PoolId(0), 1, 2);
    assert!(matches!(pair.at_server()[..], [Event::Demand { n_waiting: 1, n_seen: 2, .. }]));
}

#[test]
fn a_client_that_leaves_says_nothing_behind_its_goaway() {
    let mut pair = Pair::new(roomy(), roomy());
    for n in 0..10_000 {
        pair.client.demand(PoolId(0), n, n);
    }
    pair.client.go_away(GoAwayReason::SHUTDOWN);
    let all = take_all(&mut pair.client);
    let mut left = pair.server.handle_bytes(pair.now, &mut all.clone());
    assert_eq!(left, Ok(()));
    while pair.server.poll_event().is_some() {}
    let mut none = BytesMut::new();
    left = pair.server.handle_bytes(pair.now, &mut none);
    assert_eq!(left, Ok(()));
}

/// A CREDIT is 24 bytes, and its event several times as long.
#[test]
fn frames_are_handled_as_fast_as_their_events_are_taken() {
    let mut pair = Pair::new(roomy(), roomy());
    for _ in 0..10_000 {
        pair.server.grant(PoolId(1), Credits::Limited(5));
    }
    let mut input = take_all(&mut pair.server);
    let mut n_events = 0;
    while !input.is_empty() {
        pair.client.handle_bytes(pair.now, &mut input).unwrap();
        assert_eq!(pair.client.has_backlog(), !input.is_empty());
        let taken = std::iter::from_fn(|| pair.client.poll_event()).count();
        assert!(taken <= MAX_EVENTS, "{taken}");
        n_events += taken;
    }
    assert_eq!(n_events, 10_000);
}
