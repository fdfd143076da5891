//! Tests of single rules of the state machine, two sides back to back.

#![expect(clippy::disallowed_methods, reason = "a test needs some instant to begin with")]

use super::*;
use crate::header::{FrameKind, Header, flags};
use crate::{Event, Meta, Payload};
use bytes::{Buf, BufMut, Bytes};
use std::time::Duration;

mod compressed;
mod credits;
mod floods;
mod in_place;
mod partial_requests;
mod streams;

struct Pair {
    client: Connection<u32>,
    server: Connection<()>,
    now: Instant,
}

impl Pair {
    /// Two sides that have said HELLO, with their first events taken.
    fn new(client: Config, server: Config) -> Self {
        let now = Instant::now();
        let (client, server) = (Connection::client(client, now), Connection::server(server, now));
        let mut pair = Self { client, server, now };
        assert!(matches!(pair.at_server()[..], [Event::Ready(_)]));
        assert!(matches!(pair.at_client()[..], [Event::Ready(_)]));
        pair
    }

    fn with_route(client: Config, server: Config) -> (Self, RouteId) {
        let mut pair = Self::new(client, server);
        let route = pair.client.define(&RouteDef::default()).unwrap();
        assert!(matches!(pair.at_server()[..], [Event::Defined { .. }]));
        pair.server.accept_route(DefinedRoute::first(route), 2);
        let events = pair.at_client();
        assert!(matches!(events[..], [Event::RouteAccepted { codec: 2, .. }]), "{events:?}");
        (pair, route)
    }

    /// Carries all bytes over, and gives the events they caused.
    fn at_server(&mut self) -> Vec<Event<()>> {
        let mut events = Vec::new();
        while !self.client.transmit().is_empty() {
            self.server.handle_bytes(self.now, self.client.transmit()).unwrap();
            events.extend(std::iter::from_fn(|| self.server.poll_event()));
        }
        events.extend(std::iter::from_fn(|| self.server.poll_event()));
        events
    }

    fn at_client(&mut self) -> Vec<Event<u32>> {
        let mut events = Vec::new();
        while !self.server.transmit().is_empty() {
            self.client.handle_bytes(self.now, self.server.transmit()).unwrap();
            events.extend(std::iter::from_fn(|| self.client.poll_event()));
        }
        events.extend(std::iter::from_fn(|| self.client.poll_event()));
        events
    }

    fn send(&mut self, route: RouteId, payload: impl Into<Payload<'static>>, token: u32) -> CallId {
        let request = RequestOut { payload: payload.into(), ..RequestOut::new(route) };
        self.client.send_request(self.now, request, token).unwrap()
    }
}

fn frame(kind: FrameKind, flags: u8, id: u64, body: &[u8]) -> BytesMut {
    let body_len = u32::try_from(body.len()).unwrap();
    let header = Header { body_len, kind: kind as u8, flags, id, ..Header::default() };
    let mut out = BytesMut::from(&header.to_bytes()[..]);
    out.put_slice(body);
    out
}

/// A REQUEST on route 0.
fn request_frame(slot: u32, generation: u32) -> BytesMut {
    frame(FrameKind::Request, 0, CallId::new(slot, generation).to_wire(), &[0; 8])
}

fn fail_server(pair: &mut Pair, mut bytes: BytesMut) -> LinkError {
    let error = pair.server.handle_bytes(pair.now, &mut bytes).unwrap_err();
    assert!(bytes.is_empty());
    let events: Vec<_> = std::iter::from_fn(|| pair.server.poll_event()).collect();
    assert!(matches!(events.last(), Some(Event::Dead(e)) if *e == error), "{events:?}");
    assert_eq!(pair.server.in_flight(), 0);
    error
}

#[test]
fn a_call_carries_everything_both_ways() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    let request = RequestOut {
        route,
        deadline: Some(pair.now + Duration::from_millis(1500)),
        meta: &[("traceparent", "00-ab"), ("k", "")],
        codec: 7,
        payload: Bytes::from_static(b"args").into(),
        ..RequestOut::new(route)
    };
    let sent = pair.client.send_request(pair.now, request, 9).unwrap();
    assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (1, 0));
    let events = pair.at_server();
    let [Event::Request { id, codec: 7, timeout, meta, payload, one_way: false, .. }] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(*id, sent);
    assert_eq!(*timeout, Some(Duration::from_millis(1500)));
    assert_eq!(meta.iter().collect::<Vec<_>>(), [("traceparent", "00-ab"), ("k", "")]);
    assert_eq!(payload, "args");
    assert_eq!(pair.server.in_flight(), 1);

    let reply = Reply { codec: 3, meta: &[("a", "b")], ..Reply::error(Status(200), "what") };
    pair.server.respond(*id, reply.clone());
    pair.server.respond(*id, reply);
    let events = pair.at_client();
    let [Event::Response { token: 9, status: Status(200), codec: 3, meta, payload }] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!((meta.value("a"), &payload[..]), (Some("b"), &b"what"[..]));
    assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (0, 0));
}

#[test]
fn nothing_is_sent_before_the_peers_hello() {
    let now = Instant::now();
    let mut client: Connection<u32> = Connection::client(Config::default(), now);
    assert_eq!(client.define(&RouteDef::default()), Err(SendError::NotReady));
    let refused = client.send_request(now, RequestOut::new(RouteId(0)), 1);
    assert_eq!(refused, Err((1, SendError::NotReady)));
    assert!(!client.is_accepting());
}

#[test]
fn window_bounds_calls_in_flight() {
    let small = Config { window: 2, ..Config::default() };
    let (mut pair, route) = Pair::with_route(Config::default(), small);
    pair.send(route, b"", 0);
    let second = pair.send(route, b"", 1);
    let refused = pair.client.send_request(pair.now, RequestOut::new(route), 2);
    assert_eq!(refused, Err((2, SendError::NoCredit)));
    assert_eq!(pair.client.cancel(second), Some(1), "an ended call gives its credit back");
    pair.send(route, b"", 2);
    pair.at_server();

    pair.server.set_window(3);
    assert!(matches!(pair.at_client()[..], [Event::Window(3)]));
    pair.send(route, b"", 3);
    assert_eq!(pair.client.can_send(), Err(SendError::NoCredit));
    pair.server.set_window(0);
    assert!(matches!(pair.at_client()[..], [Event::Window(0)]));
    assert_eq!((pair.client.window(), pair.client.in_flight()), (0, 3));
    assert_eq!(pair.at_server().len(), 1, "what was sent under the larger window is taken");
}

#[test]
fn a_window_set_before_the_handshake_follows_it() {
    let now = Instant::now();
    let mut client: Connection<u32> = Connection::client(Config::default(), now);
    let mut server: Connection<()> = Connection::server(Config::default(), now);
    server.set_window(3);
    client.handle_bytes(now, server.transmit()).unwrap();
    assert_eq!(client.window(), 1024, "nothing but HELLO is sent before the client's HELLO");
    server.handle_bytes(now, client.transmit()).unwrap();
    client.handle_bytes(now, server.transmit()).unwrap();
    assert_eq!(client.window(), 3);
}

#[test]
fn own_bound_holds_whatever_the_server_grants() {
    let (pair, _) = Pair::with_route(Config { window: 5, ..Config::default() }, Config::default());
    assert_eq!(pair.client.window(), 5);
}

#[test]
fn late_answers_find_nothing() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    let first = pair.send(route, b"", 1);
    pair.at_server();
    pair.server.respond(first, Reply::new(Status::OK));
    assert_eq!(pair.client.cancel(first), Some(1));
    assert_eq!(pair.client.cancel(first), None);
    let second = pair.send(route, b"", 2);
    assert_eq!(first.slot(), second.slot());
    assert_ne!(first, second);
    assert!(pair.at_client().is_empty(), "the answer to the first call");
    assert_eq!(pair.at_server().len(), 1, "the CANCEL came too late to be an event");
    pair.server.respond(first, Reply::new(Status::OK));
    assert!(pair.at_client().is_empty());
    pair.server.respond(second, Reply::new(Status::OK));
    assert!(matches!(pair.at_client()[..], [Event::Response { token: 2, .. }]));
}

#[test]
fn deadline_ends_a_call_and_tells_the_server() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    let start = pair.now;
    for (token, ms) in [(1, 300), (2, 100), (3, 200)] {
        let deadline = Some(start + Duration::from_millis(ms));
        let request = RequestOut { deadline, ..RequestOut::new(route) };
        pair.client.send_request(start, request, token).unwrap();
    }
    pair.send(route, b"", 4);
    pair.at_server();
    assert_eq!(pair.client.poll_timeout(), Some(start + Duration::from_millis(100)));
    pair.client.handle_timeout(start + Duration::from_millis(99));
    assert!(pair.client.poll_event().is_none());
    pair.client.handle_timeout(start + Duration::from_millis(200));
    assert!(matches!(pair.client.poll_event(), Some(Event::Expired { token: 2 })));
    assert!(matches!(pair.client.poll_event(), Some(Event::Expired { token: 3 })));
    assert!(pair.client.poll_event().is_none());
    assert_eq!(pair.client.poll_timeout(), Some(start + Duration::from_millis(300)));
    let events = pair.at_server();
    assert!(matches!(events[..], [Event::Cancelled { .. }, Event::Cancelled { .. }]));
    assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (2, 2));
}

#[test]
fn one_way_calls_take_no_slot_for_long() {
    let small = Config { window: 1, ..Config::default() };
    let (mut pair, route) = Pair::with_route(Config::default(), small);
    for len in [10, 200_000, 10] {
        let payload = vec![1; len].into();
        let request = RequestOut { one_way: true, payload, ..RequestOut::new(route) };
        pair.client.send_request(pair.now, request, 1).unwrap();
        let is_long = usize::from(len > 100_000);
        assert_eq!(pair.client.in_flight(), is_long, "until its chunks are out");
        let events = pair.at_server();
        let [Event::Request { id, payload, one_way: true, .. }] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(payload.len(), len);
        pair.server.respond(*id, Reply::new(Status::OK));
        assert!(pair.at_client().is_empty());
        assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (0, 0));
    }
}

#[test]
fn a_server_that_leaves_still_takes_one_way_calls() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    for (one_way, token) in [(true, 1), (false, 2)] {
        let request = RequestOut { one_way, ..RequestOut::new(route) };
        pair.client.send_request(pair.now, request, token).unwrap();
    }
    // Both were sent before the client could know.
    pair.server.go_away(GoAwayReason::SHUTDOWN);
    let events = pair.at_server();
    assert!(matches!(events[..], [Event::Request { one_way: true, .. }]), "{events:?}");
    let events = pair.at_client();
    let [Event::GoAway { .. }, Event::Response { token: 2, status: Status::REFUSED, .. }] =
        events[..]
    else {
        panic!("{events:?}");
    };
}

#[test]
fn short_messages_overtake_long_ones() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    let ids: Vec<_> = (0..3).map(|token| pair.send(route, b"", token)).collect();
    pair.at_server();
    let long = Bytes::from(vec![5; 5 << 20]);
    for id in &ids[..2] {
        pair.server.respond(*id, Reply { payload: long.clone().into(), ..Reply::new(Status::OK) });
    }
    assert!(pair.server.transmit().len() < 100 * 1024);
    pair.server.respond(ids[2], Reply::new(Status::OK));
    pair.client.handle_bytes(pair.now, pair.server.transmit()).unwrap();
    assert!(matches!(pair.client.poll_event(), Some(Event::Response { token: 2, .. })));
    assert_eq!(pair.client.reassembly_bytes(), 10 << 20);
    let events = pair.at_client();
    let whole =
        events.iter().all(|e| matches!(e, Event::Response { payload, .. } if *payload == long));
    assert!(whole && events.len() == 2);
    assert_eq!((pair.client.reassembly_bytes(), pair.server.in_flight()), (0, 0));
}

#[test]
fn long_messages_do_not_starve_among_short_ones() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    pair.send(route, vec![1; 100_000], 0);
    let mut n_short = 1;
    // The socket takes nothing, and more than a buffer of short calls waits all the time.
    while pair.client.buffered_bytes() < 1 << 20 {
        pair.send(route, vec![2; 10_000], n_short);
        n_short += 1;
        pair.client.transmit();
    }
    pair.server.handle_bytes(pair.now, pair.client.transmit()).unwrap();
    let long = std::iter::from_fn(|| pair.server.poll_event())
        .position(|e| matches!(e, Event::Request { payload, .. } if payload.len() == 100_000));
    assert!(long.is_some_and(|index| index < 90), "{long:?}");
}

#[test]
fn a_message_over_the_limit_hurts_only_its_call() {
    let small = Config { max_message_len: 100_000, ..Config::default() };
    // Both sides tell their limit, so each refuses by itself.
    let (mut pair, route) = Pair::with_route(small.clone(), small);
    let request = RequestOut { payload: vec![0; 100_001].into(), ..RequestOut::new(route) };
    let refused = pair.client.send_request(pair.now, request, 1);
    assert_eq!(refused, Err((1, SendError::TooLarge { len: 100_001, max: 100_000 })));
    let id = pair.send(route, vec![0; 100_000], 2);
    assert_eq!(pair.at_server().len(), 1);
    pair.server.respond(id, Reply { payload: vec![0; 100_001].into(), ..Reply::new(Status::OK) });
    let events = pair.at_client();
    let [Event::Response { token: 2, status: Status::TOO_LARGE, payload, .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(payload, "answer of 100001 bytes is over the caller's limit of 100000");
}

#[test]
fn a_peer_that_ignores_the_limit_is_told() {
    let small = Config { max_message_len: 100_000, ..Config::default() };
    let (mut pair, _) = Pair::with_route(Config::default(), small);
    let body = [&[0; 8][..], &100_001_u32.to_be_bytes(), b"part"].concat();
    let mut bytes = frame(FrameKind::Request, flags::MORE, 0, &body);
    bytes.unsplit(frame(FrameKind::Chunk, flags::MORE, 0, b"more"));
    bytes.unsplit(frame(FrameKind::Chunk, 0, 0, b"last"));
    bytes.unsplit(request_frame(0, 1));
    pair.server.handle_bytes(pair.now, &mut bytes).unwrap();
    assert!(matches!(pair.server.poll_event(), Some(Event::Request { .. })), "the link goes on");
    let answer = Header::parse(pair.server.transmit().first_chunk().unwrap());
    assert_eq!((answer.kind, answer.status), (FrameKind::Response as u8, Status::TOO_LARGE.0));
    assert_eq!(pair.server.reassembly_bytes(), 0);
}

#[test]
fn reassembly_has_one_budget_per_link() {
    let config =
        Config { max_message_len: 300_000, max_reassembly_bytes: 500_000, ..Config::default() };
    let (mut pair, route) = Pair::with_route(config.clone(), config);
    for token in [1, 2] {
        pair.send(route, vec![0; 300_000], token);
    }
    let events = pair.at_server();
    assert!(matches!(events[..], [Event::Request { .. }]));
    let events = pair.at_client();
    let is_safe = matches!(&events[..],
        [Event::Response { status, token: 2, .. }] if status.is_not_begun());
    assert!(is_safe, "{events:?}");
    assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (1, 1));

    // The same on the way back: the call was done, so the error must not say otherwise.
    pair.send(route, b"", 3);
    let [Event::Request { id, .. }] = pair.at_server()[..] else { panic!() };
    for id in [CallId::new(0, 0), id] {
        let payload = vec![0; 300_000].into();
        pair.server.respond(id, Reply { payload, ..Reply::new(Status::OK) });
    }
    let events = pair.at_client();
    let [Event::Response { token: 3, status, .. }, Event::Response { token: 1, .. }] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(*status, Status::TOO_LARGE);
    pair.at_server();
    assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (0, 0));
    assert_eq!((pair.client.reassembly_bytes(), pair.client.buffered_bytes()), (0, 0));
}

#[test]
fn cancel_in_the_midst_of_a_long_request_or_answer() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    let unseen = pair.send(route, vec![0; 1 << 20], 1);
    assert_eq!(pair.client.cancel(unseen), Some(1));
    assert_eq!(pair.client.buffered_bytes(), 0, "the server never hears of it");

    let half_sent = pair.send(route, vec![0; 1 << 20], 2);
    pair.server.handle_bytes(pair.now, pair.client.transmit()).unwrap();
    assert_eq!(pair.server.reassembly_bytes(), 1 << 20);
    assert_eq!(pair.client.cancel(half_sent), Some(2));
    assert!(pair.at_server().is_empty(), "the driver never heard of it");
    assert_eq!((pair.server.reassembly_bytes(), pair.server.in_flight()), (0, 0));

    let half_answered = pair.send(route, b"", 3);
    pair.at_server();
    let payload = vec![0; 1 << 20].into();
    let reply = Reply { payload, ..Reply::new(Status::OK) };
    assert!(pair.server.respond(half_answered, reply));
    assert!(!pair.server.respond(half_answered, Reply::new(Status::OK)), "it was answered");
    pair.client.handle_bytes(pair.now, pair.server.transmit()).unwrap();
    assert_eq!(pair.client.reassembly_bytes(), 1 << 20);
    assert_eq!(pair.client.cancel(half_answered), Some(3));
    pair.send(route, b"", 4);
    assert_eq!(pair.at_server().len(), 1, "the new call in the same slot");
    assert!(!pair.server.respond(half_answered, Reply::new(Status::OK)), "it was given up");
    assert_eq!(pair.server.buffered_bytes(), 0);
    assert!(pair.at_client().is_empty());
    assert_eq!(pair.client.reassembly_bytes(), 0);
}

#[test]
fn refused_routes_answer_by_themselves_until_accepted() {
    let mut pair = Pair::new(Config::default(), Config::default());
    let def = RouteDef { service: "a/b:1".into(), ..RouteDef::default() };
    let route = pair.client.define(&def).unwrap();
    pair.send(route, b"", 1);
    let events = pair.at_server();
    let [Event::Defined { def: seen, .. }, Event::Request { .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(**seen, def);
    pair.server.refuse_route(DefinedRoute::first(route), Status::NOT_FOUND_SERVICE, "no a/b:1");
    let events = pair.at_client();
    let [Event::RouteRefused { status: Status::NOT_FOUND_SERVICE, text, .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(text, "no a/b:1");
    pair.send(route, b"", 2);
    assert!(pair.at_server().is_empty());
    let events = pair.at_client();
    assert!(matches!(
        &events[..],
        [Event::Response { token: 2, status: Status::NOT_FOUND_SERVICE, .. }]
    ));
    pair.server.accept_route(DefinedRoute::first(route), 2);
    assert!(matches!(pair.at_client()[..], [Event::RouteAccepted { .. }]));
    pair.send(route, b"", 3);
    assert_eq!(pair.at_server().len(), 1);
}

#[test]
fn routes_are_dense_and_bounded() {
    let few = Config { max_routes: 2, ..Config::default() };
    let mut pair = Pair::new(Config::default(), few);
    let def = RouteDef::default();
    assert_eq!(pair.client.define(&def), Ok(RouteId(0)));
    assert_eq!(pair.client.define(&def), Ok(RouteId(1)));
    assert_eq!(pair.client.define(&def), Err(SendError::RoutesFull { max: 2 }));
    let unknown = pair.client.send_request(pair.now, RequestOut::new(RouteId(2)), 1);
    assert_eq!(unknown, Err((1, SendError::UnknownRoute)));
    pair.at_server();
    let mut bytes = BytesMut::new();
    crate::route::encode(&def, 2, 0, &mut bytes).unwrap();
    let error = fail_server(&mut pair, bytes);
    assert_eq!(error, LinkError::BadRouteNumber { route: 2, expected: 2, max: 2 });
}

#[test]
fn a_number_changes_hands_without_mixing_calls_or_answers() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    pair.send(route, vec![1; 300_000], 1);
    let new = RouteDef { method: "new".into(), ..RouteDef::default() };
    pair.server.accept_route(DefinedRoute::first(route), 9);
    pair.client.redefine(route, &new).unwrap();
    pair.send(route, b"", 2);
    let events = pair.at_server();
    let [Event::Request { payload, .. }, Event::Defined { def, .. }, Event::Request { .. }] =
        &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!((payload.len(), def.method.as_str()), (300_000, "new"));
    assert!(pair.at_client().is_empty(), "not about the new route");
    pair.server.accept_route(DefinedRoute { id: route, round: 1 }, 6);
    assert!(matches!(pair.at_client()[..], [Event::RouteAccepted { codec: 6, .. }]));
    let unknown = pair.client.redefine(RouteId(1), &new);
    assert_eq!(unknown, Err(SendError::UnknownRoute));
}

/// Definitions may come faster than the driver answers them.
#[test]
fn an_answer_to_an_older_definition_leaves_the_newer_one_alone() {
    let mut pair = Pair::new(Config::default(), Config::default());
    let route = pair.client.define(&RouteDef::default()).unwrap();
    pair.client.redefine(route, &RouteDef::default()).unwrap();
    let events = pair.at_server();
    let [Event::Defined { route: old, .. }, Event::Defined { route: new, .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!((old.id, old.round, new.id, new.round), (route, 0, route, 1));
    pair.server.refuse_route(*old, Status::NOT_FOUND_METHOD, "no such method");
    let header = crate::header::Header::parse(pair.server.transmit().first_chunk().unwrap());
    assert_eq!(header.id, 0, "the count of the definition that is answered");
    assert!(pair.at_client().is_empty(), "not about the newer definition");
    pair.send(route, b"", 1);
    assert!(matches!(pair.at_server()[..], [Event::Request { .. }]), "nobody has refused it");
    pair.server.refuse_route(*new, Status::NOT_FOUND_SERVICE, "no such service");
    assert!(matches!(pair.at_client()[..], [Event::RouteRefused { .. }]));
    pair.server.accept_route(*old, 2);
    pair.send(route, b"", 2);
    assert!(pair.at_server().is_empty(), "the newer definition stays refused");
}

#[test]
fn server_goes_away_in_good_order() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    let begun = pair.send(route, b"", 1);
    pair.at_server();
    pair.send(route, b"", 2);
    pair.server.go_away(GoAwayReason::SHUTDOWN);
    pair.server.go_away(GoAwayReason::SHUTDOWN);
    assert!(!pair.server.is_accepting());
    assert!(pair.at_server().is_empty(), "sent before the client knew: refused");
    let events = pair.at_client();
    let [
        Event::GoAway { reason: GoAwayReason::SHUTDOWN, .. },
        Event::Response { token: 2, status, .. },
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert!(status.is_not_begun());
    let refused = pair.client.send_request(pair.now, RequestOut::new(route), 3);
    assert_eq!(refused, Err((3, SendError::Closing)));
    assert!(!pair.client.is_finished() && !pair.server.is_finished());
    pair.server.respond(begun, Reply::new(Status::OK));
    assert!(matches!(pair.at_client()[..], [Event::Response { token: 1, .. }]));
    assert!(!pair.client.is_finished(), "its GOAWAY is still to be written");
    let events = pair.at_server();
    assert!(matches!(events[..], [Event::GoAway { .. }]), "{events:?}");
    assert!(pair.client.is_finished() && pair.server.is_finished());
}

#[test]
fn client_goes_away_when_its_calls_have_ended() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    let id = pair.send(route, vec![1; 200_000], 1);
    pair.client.go_away(GoAwayReason::IDLE);
    assert_eq!(pair.at_server().len(), 1);
    assert!(!pair.client.is_finished());
    pair.server.respond(id, Reply::new(Status::OK));
    pair.at_client();
    assert!(matches!(pair.at_server()[..], [Event::GoAway { reason: GoAwayReason::IDLE, .. }]));
    assert!(pair.client.is_finished() && !pair.server.is_finished());
    let mut bytes = pair.server.transmit().split();
    assert!(pair.server.is_finished());
    // A driver that is late with closing finds nothing more to do.
    pair.client.handle_bytes(pair.now, &mut bytes).unwrap();
    pair.server.handle_bytes(pair.now, &mut request_frame(0, 9)).unwrap();
    pair.server.handle_timeout(pair.now + Duration::from_secs(100));
    assert!(pair.server.poll_event().is_none() && pair.client.poll_event().is_none());
    assert!(pair.server.is_finished() && pair.server.poll_timeout().is_none());
}

#[test]
fn a_client_that_has_left_sends_no_requests() {
    let (mut pair, _) = Pair::with_route(Config::default(), Config::default());
    pair.client.go_away(GoAwayReason::IDLE);
    pair.at_server();
    let error = fail_server(&mut pair, request_frame(0, 9));
    assert_eq!(error, LinkError::Unexpected { kind: FrameKind::Request as u8 });
}

#[test]
fn a_large_buffer_is_given_back() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    for token in 0..40 {
        pair.send(route, vec![0; 60_000], token);
    }
    pair.at_server();
    assert!(pair.client.transmit().is_empty());
    assert!(pair.client.transmit().try_reclaim(0));
    assert_eq!(pair.client.transmit().capacity(), 0);
}

#[test]
fn silence_is_asked_then_taken_for_death() {
    let mut pair = Pair::new(Config::default(), Config::default());
    let at = |pair: &Pair, s| pair.now + Duration::from_secs(s);
    assert_eq!(pair.client.poll_timeout(), Some(at(&pair, 5)));
    pair.client.handle_timeout(at(&pair, 4));
    assert!(pair.client.transmit().is_empty());
    pair.client.handle_timeout(at(&pair, 5));
    assert!(pair.at_server().is_empty(), "a PING is no event");
    assert_eq!(pair.client.poll_timeout(), Some(at(&pair, 15)));
    // The answer comes: all begins again.
    pair.now = at(&pair, 6);
    assert!(pair.at_client().is_empty());
    let answered = pair.now;
    let at = |s| answered + Duration::from_secs(s);
    assert_eq!(pair.client.poll_timeout(), Some(at(5)));
    // Traffic does not move the alarm; when it comes it is set again.
    pair.now = at(3);
    pair.server.set_window(9);
    assert_eq!(pair.at_client().len(), 1);
    assert_eq!(pair.client.poll_timeout(), Some(at(5)));
    pair.client.handle_timeout(at(5));
    assert_eq!(pair.client.poll_timeout(), Some(at(8)));
    pair.client.handle_timeout(at(8));
    assert_eq!(pair.client.poll_timeout(), Some(at(18)));
    pair.client.handle_timeout(at(17));
    assert!(pair.client.poll_event().is_none());
    pair.client.handle_timeout(at(18));
    assert!(matches!(pair.client.poll_event(), Some(Event::Dead(LinkError::PeerSilent))));
    assert!(pair.client.is_finished() && pair.client.poll_timeout().is_none());
}

#[test]
fn handshake_has_its_time() {
    let now = Instant::now();
    let mut server: Connection<()> = Connection::server(Config::default(), now);
    server.handle_timeout(now + Duration::from_secs(10));
    assert!(matches!(server.poll_event(), Some(Event::Dead(LinkError::HandshakeTimeout))));
    assert!(!server.is_finished());
    server.transmit().clear();
    assert!(server.is_finished());
}

/// What is in the buffer is before all that comes now; the rest of a long message is not.
#[test]
fn short_messages_overtake_what_has_not_had_its_turn() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    let ids: Vec<_> = (0..2).map(|token| pair.send(route, b"", token)).collect();
    pair.at_server();
    let mut respond = |id, len| {
        pair.server.respond(id, Reply { payload: vec![0; len].into(), ..Reply::new(Status::OK) });
        (pair.server.overtakable_bytes(), pair.server.transmit().len())
    };
    let (queued, taken) = respond(ids[0], 500_000);
    assert!(queued == 500_000 && 0 < taken && taken < 500_000, "{queued} {taken}");
    let (still_queued, more_taken) = respond(ids[1], 100);
    assert!(still_queued < 500_000 && taken + 100 <= more_taken, "{still_queued} {more_taken}");
}

#[test]
fn a_client_that_reads_nothing_is_not_read_from() {
    let server = Config { max_buffered_bytes: 50_000, ..Config::default() };
    let (mut pair, route) = Pair::with_route(Config::default(), server);
    let ids: Vec<_> = (0..2).map(|token| pair.send(route, b"", token)).collect();
    pair.at_server();
    assert!(!pair.server.is_congested());
    pair.server
        .respond(ids[0], Reply { payload: vec![0; 60_000].into(), ..Reply::new(Status::OK) });
    assert!(pair.server.is_congested() && !pair.client.is_congested());
    // PINGs of such a peer make nothing grow.
    let before = pair.server.buffered_bytes();
    let mut ping = frame(FrameKind::Ping, 0, 0, &[0; 8]);
    pair.server.handle_bytes(pair.now, &mut ping).unwrap();
    assert_eq!(pair.server.buffered_bytes(), before);
    // As long as the socket takes bytes, the peer counts as alive.
    let s = |s| Duration::from_secs(s);
    pair.server.handle_timeout(pair.now + s(5));
    pair.server.transmit().advance(1000);
    pair.server.handle_timeout(pair.now + s(15));
    assert_eq!(pair.server.failure(), None);
    pair.server.handle_timeout(pair.now + s(25));
    assert_eq!(pair.server.failure(), Some(LinkError::PeerSilent));
}

#[test]
fn a_full_buffer_refuses_calls() {
    let client = Config { max_buffered_bytes: 50_000, ..Config::default() };
    let (mut pair, route) = Pair::with_route(client, Config::default());
    pair.send(route, vec![0; 1 << 20], 1);
    let refused = pair.client.send_request(pair.now, RequestOut::new(route), 2);
    assert_eq!(refused, Err((2, SendError::BufferFull)));
    pair.at_server();
    pair.send(route, b"", 2);
}

#[test]
fn a_broken_connection_gives_all_tokens_back() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    let first = pair.send(route, b"", 1);
    pair.send(route, vec![0; 1 << 20], 2);
    let one_way =
        RequestOut { one_way: true, payload: vec![0; 1 << 20].into(), ..RequestOut::new(route) };
    pair.client.send_request(pair.now, one_way, 3).unwrap();
    let tokens: Vec<u32> = pair.client.drain_pending().collect();
    assert_eq!(tokens, [1, 2]);
    assert_eq!((pair.client.in_flight(), pair.client.buffered_bytes()), (0, 0));
    assert!(pair.client.is_finished());
    assert_eq!(pair.client.cancel(first), None);
    assert_eq!(pair.client.can_send(), Err(SendError::Closing));
    assert_eq!(pair.client.drain_pending().count(), 0);
}

#[test]
fn requests_keep_to_their_slots() {
    let small = Config { window: 4, ..Config::default() };
    let fresh = || Pair::with_route(Config::default(), small.clone()).0;
    let error = fail_server(&mut fresh(), request_frame(4, 0));
    assert_eq!(error, LinkError::SlotBeyondWindow { slot: 4, window: 4 });
    let mut pair = fresh();
    pair.server.handle_bytes(pair.now, &mut request_frame(3, 0)).unwrap();
    let error = fail_server(&mut pair, request_frame(3, 1));
    assert_eq!(error, LinkError::SlotBusy { slot: 3 });
    let bytes = frame(FrameKind::Request, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
    let error = fail_server(&mut fresh(), bytes);
    assert_eq!(error, LinkError::UnknownRoute { route: 1, defined: 1 });
}

#[test]
fn an_error_is_told_to_the_peer() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    pair.send(route, b"", 1);
    pair.at_server();
    fail_server(&mut pair, frame(FrameKind::Credit, 0, 0, &[0; 8]));
    assert!(!pair.server.is_finished(), "until its GOAWAY is written");
    let error = pair.client.handle_bytes(pair.now, pair.server.transmit()).unwrap_err();
    assert_eq!(error, LinkError::PeerFailed { reason: 128 });
    let events: Vec<_> = std::iter::from_fn(|| pair.client.poll_event()).collect();
    let [Event::GoAway { reason: GoAwayReason::PROTOCOL_ERROR, text }, Event::Dead(_)] =
        &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(text, "unexpected frame of kind 0x07");
    assert!(pair.server.is_finished() && pair.client.is_finished());
    assert_eq!(pair.client.drain_pending().collect::<Vec<_>>(), [1]);
    let again = pair.client.handle_bytes(pair.now, &mut BytesMut::from("x"));
    assert_eq!(again, Err(error));
}

#[test]
fn frames_that_are_not_for_this_side_are_refused() {
    let ack = frame(FrameKind::Define, flags::ACK, 0, &[0; 4]);
    for bytes in [frame(FrameKind::Response, 0, 0, b""), ack, frame(FrameKind::Hello, 0, 0, b"")] {
        let (mut pair, _) = Pair::with_route(Config::default(), Config::default());
        assert!(matches!(fail_server(&mut pair, bytes), LinkError::Unexpected { .. }));
    }
    let define = frame(FrameKind::Define, 0, 0, &[0; 12]);
    for mut bytes in [request_frame(0, 0), frame(FrameKind::Cancel, 0, 0, b""), define] {
        let (mut pair, _) = Pair::with_route(Config::default(), Config::default());
        let result = pair.client.handle_bytes(pair.now, &mut bytes);
        assert!(matches!(result, Err(LinkError::Unexpected { .. })));
    }
}

#[test]
fn optional_frames_are_skipped() {
    let (mut pair, _) = Pair::with_route(Config::default(), Config::default());
    let header = Header { body_len: 3, kind: 0x81, flags: 0xff, ..Header::default() };
    let mut bytes = BytesMut::from(&header.to_bytes()[..]);
    bytes.put_slice(b"abc");
    bytes.unsplit(request_frame(0, 0));
    pair.server.handle_bytes(pair.now, &mut bytes).unwrap();
    let event = pair.server.poll_event();
    assert!(matches!(event, Some(Event::Request { meta, .. }) if meta == Meta::default()));
}

#[test]
fn something_else_on_the_port_is_named() {
    for (bytes, words) in [
        (
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            "of kind 0x2f, expected HELLO: the peer seems to speak HTTP",
        ),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "the peer seems to speak HTTP"),
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00\x00\x00",
            "the peer speaks TLS",
        ),
        (
            b"\xda\xbb\xc2\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00",
            "Dubbo's own protocol",
        ),
        (&[0xff; 32], "is the peer a link?"),
    ] {
        let mut pair = Pair::new(Config::default(), Config::default());
        pair.server = Connection::server(Config::default(), pair.now);
        let error = fail_server(&mut pair, BytesMut::from(bytes));
        assert!(matches!(error, LinkError::NotHello { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// A side may ask sooner than the keepalive does, one question at a time.
#[test]
fn a_peer_that_is_asked_answers_or_counts_as_silent() {
    let mut pair = Pair::new(Config::default(), Config::default());
    let heard_at = pair.client.heard_at();
    pair.now += Duration::from_secs(1);
    let asked_at = pair.now;
    for _ in 0..3 {
        pair.client.ask(pair.now);
        assert_eq!(pair.client.unanswered_since(), Some(asked_at));
        pair.now += Duration::from_millis(100);
    }
    assert_eq!(pair.client.transmit().len(), 16 + 8, "one PING");
    assert_eq!(pair.client.heard_at(), heard_at);
    assert!(pair.at_server().is_empty() && pair.at_client().is_empty());
    assert_eq!((pair.client.unanswered_since(), pair.client.heard_at()), (None, pair.now));

    // Nobody answers the next one: the link ends as it does after a PING of the keepalive.
    pair.client.ask(pair.now);
    pair.now += Config::default().ping_timeout;
    assert_eq!(pair.client.poll_timeout(), Some(pair.now));
    pair.client.handle_timeout(pair.now);
    assert!(matches!(pair.client.poll_event(), Some(Event::Dead(LinkError::PeerSilent))));
}

/// The server may answer a route again whenever it changes its mind; the last answer holds.
#[test]
fn a_route_is_refused_and_accepted_again() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    for _ in 0..2 {
        pair.server.refuse_route(
            DefinedRoute::first(route),
            Status::UPSTREAM_UNREACHABLE,
            "the app cannot be reached",
        );
        let events = pair.at_client();
        let status = Status::UPSTREAM_UNREACHABLE;
        assert!(matches!(events[..], [Event::RouteRefused { status: it, .. }] if it == status));
        pair.send(route, b"crossed".to_vec(), 1);
        assert!(pair.at_server().is_empty(), "refused without the driver");
        let events = pair.at_client();
        assert!(
            matches!(events[..], [Event::Response { token: 1, status: it, .. }] if it == status)
        );

        pair.server.accept_route(DefinedRoute::first(route), 2);
        assert!(matches!(pair.at_client()[..], [Event::RouteAccepted { codec: 2, .. }]));
        pair.send(route, b"taken".to_vec(), 2);
        let events = pair.at_server();
        let [Event::Request { id, .. }] = events[..] else { panic!("{events:?}") };
        pair.server.respond(id, Reply::new(Status::OK));
        assert!(matches!(pair.at_client()[..], [Event::Response { token: 2, .. }]));
    }
}

/// A server that does not know the flag skips it: its bit is one of the optional ones.
#[test]
fn a_caller_may_ask_for_the_time_of_the_app() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    for timed in [true, false] {
        let request = RequestOut { timed, payload: b"x".into(), ..RequestOut::new(route) };
        pair.client.send_request(pair.now, request, 1).unwrap();
        let events = pair.at_server();
        let [Event::Request { id, timed: asked, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!(*asked, timed);
        // Metadata in an answer is as old as the protocol.
        let meta = if timed { &[("app-us", "7")][..] } else { &[] };
        pair.server.respond(*id, Reply { meta, ..Reply::new(Status::OK) });
        let events = pair.at_client();
        let [Event::Response { meta, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!(meta.value("app-us"), timed.then_some("7"));
    }
    assert_eq!(flags::TIMED & flags::MUST_UNDERSTAND, 0);
}
