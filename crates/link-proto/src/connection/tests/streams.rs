//! Tests of streams of items beside calls, two sides back to back.

use super::*;
use crate::features;

const ITEM_MAX: usize = 300_000;

fn config() -> Config {
    Config {
        stream_window: 20_000,
        max_message_len: 300_000,
        max_reassembly_bytes: 400_000,
        ..Config::default()
    }
}

fn no_streams() -> Config {
    Config { features: 0, ..Config::default() }
}

impl Pair {
    /// Begins a call that streams both ways.
    fn stream(&mut self, route: RouteId, token: u32) -> CallId {
        let request = RequestOut { stream_in: true, stream_out: true, ..RequestOut::new(route) };
        self.client.send_request(self.now, request, token).unwrap()
    }

    /// Two sides with one open call that streams both ways.
    fn with_stream() -> (Self, CallId) {
        let (mut pair, route) = Self::with_route(config(), config());
        let id = pair.stream(route, 1);
        let events = pair.at_server();
        assert!(
            matches!(events[..], [Event::Request { stream_in: true, stream_out: true, .. }]),
            "{events:?}"
        );
        (pair, id)
    }

    /// Carries everything both ways; the events of both sides.
    fn turn(&mut self) -> (Vec<Event<()>>, Vec<Event<u32>>) {
        (self.at_server(), self.at_client())
    }

    fn assert_no_calls(&self) {
        for n in [
            self.client.in_flight(),
            self.server.in_flight(),
            self.client.reassembly_bytes(),
            self.server.reassembly_bytes(),
        ] {
            assert_eq!(n, 0);
        }
        self.client.check_invariants();
        self.server.check_invariants();
    }
}

fn item(len: usize) -> Payload<'static> {
    vec![len.to_le_bytes()[0]; len].into()
}

fn item_frame(id: CallId, flags: u8, body: &[u8]) -> BytesMut {
    frame(FrameKind::Item, flags, id.to_wire(), body)
}

#[test]
fn items_go_both_ways_until_the_answer() {
    let (mut pair, id) = Pair::with_stream();
    pair.client.send_item(id, 7, b"one".into()).unwrap();
    pair.client.send_item(id, 8, b"".into()).unwrap();
    pair.server.send_item(id, 9, b"echo".into()).unwrap();
    pair.client.end_items(id).unwrap();
    assert_eq!(pair.client.end_items(id), Err(SendError::NoSuchStream));
    assert_eq!(pair.client.send_item(id, 7, b"".into()), Err(SendError::NoSuchStream));
    assert_eq!(pair.server.end_items(id), Err(SendError::NoSuchStream), "it answers instead");
    let (at_server, at_client) = pair.turn();
    let [
        Event::Item { id: first, codec: 7, payload: one },
        Event::Item { codec: 8, payload: empty, .. },
        Event::ItemsEnd { id: end },
    ] = &at_server[..]
    else {
        panic!("{at_server:?}");
    };
    assert_eq!((*first, *end, &one[..], &empty[..]), (id, id, &b"one"[..], &b""[..]));
    let [Event::Item { codec: 9, payload, .. }] = &at_client[..] else {
        panic!("{at_client:?}");
    };
    assert_eq!(payload, "echo");

    pair.server.send_item(id, 0, b"last".into()).unwrap();
    pair.server.respond(id, Reply { payload: b"sum".into(), ..Reply::new(Status::OK) });
    assert_eq!(pair.server.send_item(id, 0, b"late".into()), Err(SendError::NoSuchStream));
    let events = pair.at_client();
    assert!(
        matches!(events[..], [Event::Item { .. }, Event::Response { token: 1, .. }]),
        "{events:?}"
    );
    pair.client.item_taken(id, 4);
    assert_eq!(pair.client.send_item(id, 0, b"late".into()), Err(SendError::NoSuchStream));
    assert!(!pair.client.can_send_item(id) && !pair.client.items_unsent(id));
    pair.assert_no_calls();
}

#[test]
fn streams_go_in_the_directions_that_the_request_says() {
    let (mut pair, route) = Pair::with_route(config(), config());
    for (stream_in, stream_out) in [(true, false), (false, true), (false, false)] {
        let request = RequestOut { stream_in, stream_out, ..RequestOut::new(route) };
        let id = pair.client.send_request(pair.now, request, 1).unwrap();
        let events = pair.at_server();
        let [Event::Request { stream_in: seen_in, stream_out: seen_out, .. }] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!((*seen_in, *seen_out), (stream_in, stream_out));
        assert_eq!(pair.client.can_send_item(id), stream_in);
        assert_eq!(pair.server.can_send_item(id), stream_out);
        assert_eq!(pair.client.send_item(id, 0, item(1)).is_ok(), stream_in);
        assert_eq!(pair.client.end_items(id).is_ok(), stream_in);
        assert_eq!(pair.server.send_item(id, 0, item(1)).is_ok(), stream_out);
        let (at_server, at_client) = pair.turn();
        assert_eq!(at_server.len(), if stream_in { 2 } else { 0 });
        assert_eq!(at_client.len(), usize::from(stream_out));
        pair.client.cancel(id);
        assert_eq!(pair.at_server().len(), 1, "the CANCEL");
    }
    pair.assert_no_calls();
}

#[test]
fn a_side_without_the_feature_sees_nothing_of_it() {
    for (client, server) in [(no_streams(), config()), (config(), no_streams())] {
        let (mut pair, route) = Pair::with_route(client, server);
        for (stream_in, stream_out) in [(true, false), (false, true)] {
            let request = RequestOut { stream_in, stream_out, ..RequestOut::new(route) };
            let refused = pair.client.send_request(pair.now, request, 5);
            assert_eq!(refused, Err((5, SendError::NoStreams)));
        }
        let id = pair.send(route, b"", 1);
        pair.at_server();
        assert_eq!(pair.client.send_item(id, 0, item(1)), Err(SendError::NoSuchStream));
        let error = fail_server(&mut pair, item_frame(id, 0, b""));
        assert_eq!(error, LinkError::UnknownKind { kind: 11 });
    }
    let (mut pair, _) = Pair::with_route(no_streams(), no_streams());
    let request = frame(FrameKind::Request, flags::STREAM_OUT, 0, &[0; 8]);
    let error = fail_server(&mut pair, request);
    assert_eq!(error, LinkError::UnknownFlags { kind: 3, flags: 0x10 });
    assert_eq!(pair.server.peer().unwrap().features & features::STREAMS, 0);
}

#[test]
fn one_way_calls_have_no_streams() {
    let (mut pair, route) = Pair::with_route(config(), config());
    let request = RequestOut { one_way: true, stream_in: true, ..RequestOut::new(route) };
    let refused = pair.client.send_request(pair.now, request, 5);
    assert_eq!(refused, Err((5, SendError::OneWayStream)));
    let error =
        fail_server(&mut pair, frame(FrameKind::Request, flags::ONE_WAY | 0x18, 0, &[0; 8]));
    assert_eq!(error, LinkError::UnknownFlags { kind: 3, flags: 0x18 });
}

#[test]
fn a_slow_consumer_holds_its_sender_only() {
    let (mut pair, id) = Pair::with_stream();
    let mut n_sent = 0;
    while pair.client.can_send_item(id) {
        pair.client.send_item(id, 0, item(984)).unwrap();
        n_sent += 1;
    }
    assert_eq!(n_sent, 20, "each costs 1000 bytes of the window");
    assert_eq!(pair.client.send_item(id, 0, item(1)), Err(SendError::NoStreamCredit));
    let other = pair.stream(RouteId(0), 2);
    pair.client.send_item(other, 0, item(1)).unwrap();
    assert_eq!(pair.at_server().len(), 22);
    for _ in 0..10 {
        assert!(pair.at_client().is_empty());
        pair.server.item_taken(id, 984);
    }
    assert!(matches!(pair.at_client()[..], [Event::Writable { id: seen }] if seen == id));
    assert!(pair.client.can_send_item(id));
    pair.client.send_item(id, 0, item(20_000)).expect("overdrawn by one frame");
    assert!(!pair.client.can_send_item(id) && !pair.client.items_unsent(id));
}

#[test]
fn long_items_take_turns_and_wait_for_credit() {
    let (mut pair, id) = Pair::with_stream();
    pair.client.send_item(id, 4, item(ITEM_MAX)).unwrap();
    assert!(pair.client.items_unsent(id) && !pair.client.can_send_item(id));
    assert!(pair.client.transmit().len() <= 33_000, "no more than the window and a frame");
    pair.send(RouteId(0), b"short", 2);
    let size = "an item must not make a server stop reading";
    assert!(pair.client.buffered_bytes() < 34_000, "{size}");
    let mut n_requests = 0;
    let mut turns = 0;
    loop {
        let (at_server, at_client) = pair.turn();
        n_requests += at_server.iter().filter(|e| matches!(e, Event::Request { .. })).count();
        turns += 1;
        if let Some(Event::Item { codec: 4, payload, .. }) = at_server.last() {
            assert_eq!((payload.len(), n_requests), (ITEM_MAX, 1));
            assert!(at_client.is_empty());
            break;
        }
        assert!(pair.server.reassembly_bytes() > 0);
    }
    assert!(turns > 5, "{turns}");
    assert!(!pair.client.items_unsent(id));
    // Its parts were given back, but more comes only when all of it was taken.
    while pair.client.can_send_item(id) {
        pair.client.send_item(id, 0, item(4000)).unwrap();
    }
    assert!(pair.at_server().len() <= 6);
    pair.server.item_taken(id, ITEM_MAX);
    assert!(matches!(pair.at_client()[..], [Event::Writable { .. }]));
    assert_eq!(pair.server.reassembly_bytes(), 0);
}

#[test]
fn items_wait_behind_a_long_request() {
    let (mut pair, route) = Pair::with_route(config(), config());
    let payload = vec![1; 250_000].into();
    let request = RequestOut { payload, stream_in: true, ..RequestOut::new(route) };
    let id = pair.client.send_request(pair.now, request, 1).unwrap();
    pair.client.send_item(id, 0, item(10)).unwrap();
    pair.client.end_items(id).unwrap();
    assert!(pair.client.items_unsent(id));
    let events = pair.at_server();
    assert!(
        matches!(events[..], [Event::Request { .. }, Event::Item { .. }, Event::ItemsEnd { .. }]),
        "{events:?}"
    );
    assert!(!pair.client.items_unsent(id));

    // The same when the request is flushed because its route gets another meaning.
    let payload = vec![1; 250_000].into();
    let request = RequestOut { payload, stream_in: true, ..RequestOut::new(route) };
    let id = pair.client.send_request(pair.now, request, 2).unwrap();
    pair.client.send_item(id, 0, item(10)).unwrap();
    pair.client.redefine(route, &RouteDef::default()).unwrap();
    let events = pair.at_server();
    assert!(
        matches!(events[..], [Event::Request { .. }, Event::Defined { .. }, Event::Item { .. }]),
        "{events:?}"
    );
}

#[test]
fn an_answer_ends_everything_and_late_frames_are_dropped() {
    let (mut pair, id) = Pair::with_stream();
    pair.server.send_item(id, 0, item(ITEM_MAX)).unwrap();
    pair.client.send_item(id, 0, item(ITEM_MAX)).unwrap();
    assert!(pair.at_server().is_empty(), "the item is on its way");
    // Parts for the client are in the buffer, too; the rest is dropped.
    assert!(!pair.server.transmit().is_empty());
    let mut late = pair.client.transmit().split();
    pair.server.respond(id, Reply { payload: item(100_000), ..Reply::new(Status::OK) });
    assert!(!pair.server.items_unsent(id));
    pair.server.handle_bytes(pair.now, &mut late).unwrap();
    pair.server.handle_bytes(pair.now, &mut item_frame(id, 0, b"x")).unwrap();
    let credit = frame(FrameKind::ItemCredit, 0, id.to_wire(), &[0, 0, 0, 1]);
    pair.server.handle_bytes(pair.now, &mut credit.clone()).unwrap();
    let events = pair.at_client();
    assert!(matches!(events[..], [Event::Response { .. }]), "{events:?}");
    pair.client.handle_bytes(pair.now, &mut item_frame(id, 0, b"x")).unwrap();
    pair.client.handle_bytes(pair.now, &mut credit.clone()).unwrap();
    assert!(pair.turn().0.is_empty());
    pair.assert_no_calls();
}

#[test]
fn cancel_expiry_and_drain_free_streams() {
    for end in 0..4 {
        let (mut pair, route) = Pair::with_route(config(), config());
        let deadline = Some(pair.now + Duration::from_secs(1));
        let request =
            RequestOut { stream_in: true, stream_out: true, deadline, ..RequestOut::new(route) };
        let id = pair.client.send_request(pair.now, request, 1).unwrap();
        pair.at_server();
        pair.client.send_item(id, 0, item(ITEM_MAX)).unwrap();
        pair.server.send_item(id, 0, item(ITEM_MAX)).unwrap();
        pair.turn();
        assert!(pair.client.reassembly_bytes() > 0 && pair.server.reassembly_bytes() > 0);
        match end {
            0 => assert_eq!(pair.client.cancel(id), Some(1)),
            1 => pair.client.handle_timeout(pair.now + Duration::from_secs(2)),
            2 => assert_eq!(pair.client.drain_pending().count(), 1),
            _ => {
                pair.server
                    .handle_bytes(pair.now, &mut frame(FrameKind::Pong, 0, 0, b""))
                    .unwrap_err();
                assert!(pair.client.handle_bytes(pair.now, pair.server.transmit()).is_err());
                assert_eq!(pair.client.drain_pending().count(), 1);
            }
        }
        if end < 2 {
            pair.turn();
        } else {
            assert_eq!(pair.server.drain_pending().count(), 0);
        }
        pair.assert_no_calls();
        for can_send in [pair.client.can_send_item(id), pair.server.can_send_item(id)] {
            assert!(!can_send);
        }
    }
}

#[test]
fn an_item_that_cannot_be_taken_ends_its_call_only() {
    let (mut pair, id) = Pair::with_stream();
    let refused = pair.client.send_item(id, 0, item(ITEM_MAX + 1));
    assert_eq!(refused, Err(SendError::TooLarge { len: ITEM_MAX + 1, max: ITEM_MAX }));

    // Two unfinished items with more than the budget.
    let other = pair.stream(RouteId(0), 2);
    pair.at_server();
    for id in [id, other] {
        pair.client.send_item(id, 0, item(ITEM_MAX)).unwrap();
    }
    let mut events = pair.turn();
    while pair.server.reassembly_bytes() != 0 && events.1.is_empty() {
        let (at_server, at_client) = pair.turn();
        events.0.extend(at_server);
        events.1.extend(at_client);
    }
    let (at_server, at_client) = events;
    assert!(at_server.iter().any(|e| matches!(e, Event::Cancelled { .. })), "{at_server:?}");
    let [Event::Response { status: Status::TOO_LARGE, payload, .. }] = &at_client[..] else {
        panic!("{at_client:?}");
    };
    assert!(payload.starts_with(b"no room for an item of"), "{payload:?}");

    // The server sends too much to the client.
    let (mut pair, id) = Pair::with_stream();
    let other = pair.stream(RouteId(0), 2);
    pair.at_server();
    for id in [id, other] {
        pair.server.send_item(id, 0, item(ITEM_MAX)).unwrap();
    }
    let (mut at_server, mut at_client) = (Vec::new(), Vec::new());
    while at_client.is_empty() {
        at_client.extend(pair.at_client());
        at_server.extend(pair.at_server());
    }
    assert!(matches!(at_client[..], [Event::Response { status: Status::TOO_LARGE, .. }]));
    at_server.extend(pair.at_server());
    assert!(matches!(at_server[..], [Event::Cancelled { .. }]), "{at_server:?}");
    assert_eq!((pair.client.in_flight(), pair.server.in_flight()), (1, 1));
}

#[test]
fn frames_that_must_not_come_fail_the_link() {
    let credit =
        |id: CallId, len: u32| frame(FrameKind::ItemCredit, 0, id.to_wire(), &len.to_be_bytes());
    let (mut pair, id) = Pair::with_stream();
    let window = LinkError::CreditBeyondWindow { credit: 20_001, window: 20_000 };
    assert_eq!(fail_server(&mut pair, credit(id, 1)), window);

    let (mut pair, id) = Pair::with_stream();
    let mut overdrawn = item_frame(id, 0, &[0; 20_000]);
    overdrawn.extend_from_slice(&item_frame(id, 0, b""));
    let rule = "sent without credit";
    assert_eq!(fail_server(&mut pair, overdrawn), LinkError::BadItem { rule });

    for kind in [FrameKind::Item, FrameKind::ItemCredit] {
        let (mut pair, route) = Pair::with_route(config(), config());
        let unary = pair.send(route, b"", 1);
        pair.at_server();
        let bytes = frame(kind, 0, unary.to_wire(), &[0, 0, 0, 1]);
        let unexpected = LinkError::Unexpected { kind: kind as u8 };
        let at_client = pair.client.handle_bytes(pair.now, &mut bytes.clone());
        assert_eq!(at_client, Err(unexpected));
        assert_eq!(fail_server(&mut pair, bytes), unexpected);
    }

    let (mut pair, id) = Pair::with_stream();
    let mut end = item_frame(id, flags::END, b"");
    let error = pair.client.handle_bytes(pair.now, &mut end).unwrap_err();
    assert_eq!(error, LinkError::BadItem { rule: "only a client ends its items" });

    let (mut pair, id) = Pair::with_stream();
    let mut answered = frame(FrameKind::Response, flags::MORE, id.to_wire(), &[0, 0, 0, 9, 1]);
    answered.extend_from_slice(&item_frame(id, 0, b""));
    let error = pair.client.handle_bytes(pair.now, &mut answered).unwrap_err();
    assert_eq!(error, LinkError::Unexpected { kind: 11 }, "an item after the answer");
}

#[test]
fn an_orderly_end_waits_for_streams() {
    let (mut pair, id) = Pair::with_stream();
    pair.client.go_away(GoAwayReason::SHUTDOWN);
    pair.server.go_away(GoAwayReason::SHUTDOWN);
    pair.turn();
    pair.client.send_item(id, 0, item(10)).unwrap();
    pair.server.send_item(id, 0, item(10)).unwrap();
    let (at_server, at_client) = pair.turn();
    assert!(matches!(at_server[..], [Event::Item { .. }]));
    assert!(matches!(at_client[..], [Event::Item { .. }]));
    assert!(!pair.client.is_finished() && !pair.server.is_finished());
    pair.server.respond(id, Reply::new(Status::OK));
    pair.turn();
    pair.turn();
    assert!(pair.client.is_finished() && pair.server.is_finished());
}

/// A peer that does not read cannot make this side keep credits for ever.
#[test]
fn credit_and_items_wait_for_room_in_the_buffer() {
    let (mut pair, id) = Pair::with_stream();
    let route = RouteId(0);
    pair.send(route, vec![1; 60_000], 9);
    let unary = CallId::new(1, 0);
    pair.at_server();
    for token in 10..15 {
        pair.send(route, vec![1; 60_000], token);
    }
    assert!(pair.client.buffered_bytes() > 256 * 1024);
    let before = pair.client.buffered_bytes();
    pair.client.send_item(id, 0, item(10)).unwrap();
    assert!(pair.client.items_unsent(id), "it waits for its turn");
    pair.server.send_item(id, 0, item(20_000)).unwrap();
    let at_client = pair.at_client();
    assert!(matches!(at_client[..], [Event::Item { .. }]), "{at_client:?}");
    pair.client.item_taken(id, 20_000);
    assert_eq!(pair.client.buffered_bytes(), before, "so does the credit");
    let at_server = pair.at_server();
    assert!(at_server.iter().any(|event| matches!(event, Event::Writable { .. })));
    assert!(at_server.iter().any(|event| matches!(event, Event::Item { .. })));
    assert!(pair.client.has_events());
    assert!(matches!(pair.client.poll_event(), Some(Event::Writable { .. })));
    pair.server.respond(unary, Reply::new(Status::OK));
}
