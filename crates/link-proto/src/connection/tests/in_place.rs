//! Calls that are answered and taken while bytes are read.

use super::*;
use crate::InPlace;
use proptest::prelude::*;

/// Answers with the arguments, so many times over as the first byte says; leaves 255 to the
/// ordinary way.
#[derive(Default)]
struct Repeat {
    n_answered: usize,
}

impl InPlace<()> for Repeat {
    fn takes_requests(&self) -> bool {
        true
    }

    fn request(
        &mut self,
        _: RouteId,
        codec: u8,
        args: &[u8],
        reply: &mut BytesMut,
    ) -> Option<(Status, u8)> {
        let times = args.first().copied().unwrap_or(1);
        for _ in 0..times {
            reply.extend_from_slice(args);
        }
        if times == 255 {
            return None;
        }
        self.n_answered += 1;
        Some((Status::OK, codec))
    }
}

type TakenAnswer = (u32, Status, u8, Vec<u8>);

#[derive(Default)]
struct Taken(Vec<TakenAnswer>);

impl InPlace<u32> for Taken {
    fn takes_responses(&self) -> bool {
        true
    }

    fn response(&mut self, token: u32, status: Status, codec: u8, payload: &[u8]) {
        self.0.push((token, status, codec, payload.to_vec()));
    }
}

impl Pair {
    /// As `at_server`, with whoever answers in place.
    fn answer(&mut self, in_place: &mut Repeat) -> Vec<Event<()>> {
        let input = self.client.transmit();
        self.server.handle_bytes_with(self.now, input, in_place).unwrap();
        std::iter::from_fn(|| self.server.poll_event()).collect()
    }

    fn take(&mut self) -> (Vec<TakenAnswer>, Vec<Event<u32>>) {
        let mut taken = Taken::default();
        while !self.server.transmit().is_empty() {
            let input = self.server.transmit();
            self.client.handle_bytes_with(self.now, input, &mut taken).unwrap();
        }
        (taken.0, std::iter::from_fn(|| self.client.poll_event()).collect())
    }
}

#[test]
fn a_plain_call_is_answered_and_taken_without_an_event() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    pair.send(route, &[2, 7], 41);
    pair.send(route, &[], 42);
    assert!(pair.answer(&mut Repeat::default()).is_empty());
    assert_eq!((pair.server.in_flight(), pair.client.in_flight()), (0, 2));
    let (taken, events) = pair.take();
    assert!(events.is_empty());
    assert_eq!(taken[0], (41, Status::OK, 0, vec![2, 7, 2, 7]));
    assert_eq!(taken[1], (42, Status::OK, 0, vec![]));
    assert_eq!(pair.client.in_flight(), 0);
}

#[test]
fn what_is_not_wanted_comes_as_an_event() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    pair.send(route, &[255, 1], 1);
    let meta = RequestOut { meta: &[("a", "b")], payload: (&[1]).into(), ..RequestOut::new(route) };
    pair.client.send_request(pair.now, meta, 2).unwrap();
    pair.send(route, vec![1; 100_000], 3);
    let mut repeat = Repeat::default();
    let mut events = pair.answer(&mut repeat);
    while !pair.client.transmit().is_empty() {
        events.extend(pair.answer(&mut repeat));
    }
    assert_eq!(repeat.n_answered, 0);
    let ids: Vec<_> = events
        .iter()
        .map(|event| match event {
            Event::Request { id, .. } => *id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids.len(), 3);
    for id in ids {
        pair.server.respond(id, Reply::new(Status::OK));
    }
    assert_eq!(pair.take().0.len(), 3);
}

#[test]
fn a_long_answer_leaves_in_chunks() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    let args = [vec![200], vec![3; 999]].concat();
    pair.send(route, args.clone(), 1);
    assert!(pair.answer(&mut Repeat::default()).is_empty());
    assert_eq!(pair.server.in_flight(), 1);
    let (taken, events) = pair.take();
    assert!(taken.is_empty());
    let [Event::Response { token: 1, payload, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(payload[..], args.repeat(200));
    assert_eq!(pair.server.in_flight(), 0);
}

#[test]
fn an_answer_over_the_callers_limit_is_an_error() {
    let client = Config { max_message_len: 1000, ..Config::default() };
    let (mut pair, route) = Pair::with_route(client, Config::default());
    pair.send(route, vec![11; 100], 1);
    assert!(pair.answer(&mut Repeat::default()).is_empty());
    assert_eq!(pair.take().0[0].1, Status::TOO_LARGE);
}

#[test]
fn a_client_that_does_not_read_is_answered_by_events() {
    let server = Config { max_buffered_bytes: 1000, ..Config::default() };
    let (mut pair, route) = Pair::with_route(Config::default(), server);
    for token in 0..100 {
        pair.send(route, vec![1; 100], token);
    }
    let mut repeat = Repeat::default();
    let n_events = pair.answer(&mut repeat).len();
    assert_eq!(repeat.n_answered + n_events, 100);
    assert!(repeat.n_answered <= 10, "{} answers", repeat.n_answered);
    assert!(pair.server.is_congested());
}

#[test]
fn a_refused_route_and_a_closing_server_answer_as_ever() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    pair.server.refuse_route(
        DefinedRoute::first(route),
        Status::NOT_FOUND_METHOD,
        "no such method",
    );
    pair.send(route, &[1], 1);
    let mut repeat = Repeat::default();
    assert!(pair.answer(&mut repeat).is_empty());
    pair.server.accept_route(DefinedRoute::first(route), 0);
    pair.server.go_away(GoAwayReason::SHUTDOWN);
    pair.send(route, &[1], 2);
    assert!(pair.answer(&mut repeat).is_empty());
    let statuses: Vec<_> = pair.take().0.iter().map(|taken| taken.1).collect();
    assert_eq!(statuses, [Status::NOT_FOUND_METHOD, Status::REFUSED]);
    assert_eq!(repeat.n_answered, 0);
}

#[test]
fn a_slot_that_is_taken_is_the_peers_mistake() {
    let (mut pair, _) = Pair::with_route(Config::default(), Config::default());
    let mut input = request_frame(0, 0);
    let mut ordinary = pair.server.handle_bytes(pair.now, &mut input);
    assert_eq!(ordinary, Ok(()));
    input = request_frame(0, 1);
    ordinary = pair.server.handle_bytes_with(pair.now, &mut input, &mut Repeat::default());
    assert_eq!(ordinary, Err(LinkError::SlotBusy { slot: 0 }));
}

#[test]
fn a_one_way_call_gets_no_answer() {
    let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
    let request = RequestOut { one_way: true, payload: (&[3]).into(), ..RequestOut::new(route) };
    pair.client.send_request(pair.now, request, 9).unwrap();
    let mut repeat = Repeat::default();
    assert!(pair.answer(&mut repeat).is_empty());
    assert_eq!(repeat.n_answered, 1);
    assert!(pair.server.transmit().is_empty());
}

proptest! {
    /// Calls of all kinds, cut anywhere: each is answered once, with what it asked for.
    #[test]
    fn cuts_and_kinds_do_not_matter(
        calls in proptest::collection::vec((0_u8..4, 0_usize..90_000, any::<bool>()), 1..20),
        cut_len in 1_usize..70_000,
    ) {
        let (mut pair, route) = Pair::with_route(Config::default(), Config::default());
        for (token, (times, len, has_meta)) in (0..).zip(&calls) {
            let payload = vec![*times; *len];
            let meta: &[(&str, &str)] = if *has_meta { &[("k", "v")] } else { &[] };
            let request = RequestOut { meta, payload: payload.into(), ..RequestOut::new(route) };
            pair.client.send_request(pair.now, request, token).unwrap();
        }
        let (mut repeat, mut input) = (Repeat::default(), BytesMut::new());
        let (mut taken, mut back) = (Taken::default(), BytesMut::new());
        let mut answered = vec![None; calls.len()];
        loop {
            let sent = pair.client.transmit();
            let len = cut_len.min(sent.len());
            input.extend_from_slice(&sent.split_to(len));
            pair.server.handle_bytes_with(pair.now, &mut input, &mut repeat).unwrap();
            while let Some(event) = pair.server.poll_event() {
                let Event::Request { id, payload, .. } = event else { panic!("{event:?}") };
                let times = usize::from(payload.first().copied().unwrap_or(1));
                let payload = payload.repeat(times).into();
                pair.server.respond(id, Reply { payload, ..Reply::new(Status::OK) });
            }
            let sent_back = pair.server.transmit();
            let back_len = cut_len.min(sent_back.len());
            back.extend_from_slice(&sent_back.split_to(back_len));
            pair.client.handle_bytes_with(pair.now, &mut back, &mut taken).unwrap();
            let events = std::iter::from_fn(|| pair.client.poll_event()).map(|event| match event {
                Event::Response { token, payload, .. } => (token, payload.to_vec()),
                other => panic!("{other:?}"),
            });
            let events: Vec<_> = events.collect();
            let taken = taken.0.drain(..).map(|(token, _, _, payload)| (token, payload));
            for (token, payload) in taken.chain(events) {
                let place = &mut answered[token as usize];
                prop_assert!(place.replace(payload.len()).is_none(), "answered twice");
            }
            if len == 0 && back_len == 0 {
                break;
            }
        }
        let expected: Vec<_> =
            calls.iter().map(|(times, len, _)| Some(usize::from(*times) * len)).collect();
        prop_assert_eq!(answered, expected);
        prop_assert_eq!(pair.client.in_flight(), 0);
        prop_assert_eq!(pair.server.in_flight(), 0);
    }
}

/// Frames inside of a compressed one are handled as any others.
#[test]
fn calls_in_a_compressed_frame_are_handled_in_place() {
    let features = crate::features::LZ4;
    let config = || Config { features, ..Config::default() };
    let (mut pair, route) = Pair::with_route(config(), config());
    for token in 0..60 {
        pair.send(route, vec![2, 7, 7, 7], token);
    }
    let mut repeat = Repeat::default();
    assert!(pair.answer(&mut repeat).is_empty());
    assert_eq!((repeat.n_answered, pair.server.in_flight()), (60, 0));
    let (taken, events) = pair.take();
    assert!(events.is_empty());
    assert_eq!(taken.len(), 60);
    assert!(taken.iter().all(|answer| answer.3 == [2, 7, 7, 7, 2, 7, 7, 7]));
    let [up, down] = [pair.client.compression(), pair.server.compression()].map(Option::unwrap);
    assert!(0 < up.raw_out_bytes && 0 < down.raw_out_bytes);
}
