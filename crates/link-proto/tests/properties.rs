//! Properties of the protocol from outside: cuts do not matter, any mix of long and short
//! messages arrives whole, and no bytes whatever make a side panic or pass a limit.

#![expect(clippy::disallowed_methods, reason = "a test needs some instant to begin with")]

use bytes::{Bytes, BytesMut};
use link_proto::{
    CallId, Config, Connection, Event, Reply, RequestOut, RouteDef, RouteId, Status, exercise,
    features,
};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Both sides compress if `lz4` says so.
fn ready_pair(now: Instant, lz4: bool) -> (Connection<usize>, Connection<()>, RouteId) {
    let features = features::STREAMS | if lz4 { features::LZ4 } else { 0 };
    let config = Config { max_buffered_bytes: 64 << 20, features, ..Config::default() };
    ready_with(config.clone(), config, now)
}

fn ready_with(
    client: Config,
    server: Config,
    now: Instant,
) -> (Connection<usize>, Connection<()>, RouteId) {
    let mut client = Connection::client(client, now);
    let mut server = Connection::server(server, now);
    server.handle_bytes(now, client.transmit()).unwrap();
    client.handle_bytes(now, server.transmit()).unwrap();
    let route = client.define(&RouteDef::default()).unwrap();
    (client, server, route)
}

/// All that a side wants to say, in one piece.
fn all_bytes<T>(side: &mut Connection<T>) -> BytesMut {
    let mut all = BytesMut::new();
    while !side.transmit().is_empty() {
        all.unsplit(side.transmit().split());
    }
    all
}

/// Feeds `bytes` in pieces whose lengths are `cuts`, again and again.
fn feed<T>(side: &mut Connection<T>, now: Instant, bytes: &[u8], cuts: &[usize]) -> Vec<Event<T>> {
    let (mut input, mut rest, mut events) = (BytesMut::new(), bytes, Vec::new());
    for cut in cuts.iter().cycle() {
        let (piece, after) = rest.split_at((*cut).min(rest.len()));
        input.extend_from_slice(piece);
        side.handle_bytes(now, &mut input).unwrap();
        events.extend(std::iter::from_fn(|| side.poll_event()));
        rest = after;
        if rest.is_empty() && !side.has_backlog() {
            break;
        }
    }
    assert!(input.is_empty());
    events
}

fn message(seed: usize, len: usize) -> Bytes {
    let byte = u8::try_from(seed % 251).unwrap();
    (0..len).map(|i| byte ^ u8::try_from(i % 253).unwrap()).collect()
}

fn any_len() -> impl Strategy<Value = usize> {
    prop_oneof![
        8 => 0..300_usize,
        1 => 65_000..66_000_usize,
        1 => 30_000..300_000_usize,
        1 => Just(65_536_usize),
        1 => Just(65_537_usize),
    ]
}

/// One side of a call that streams both ways.
struct Flow {
    id: CallId,
    to_send: VecDeque<Bytes>,
    expected: VecDeque<Bytes>,
    untaken: VecDeque<usize>,
    saw_end: bool,
}

impl Flow {
    fn new(id: CallId, to_send: &[Bytes], expected: &[Bytes]) -> Self {
        let (to_send, expected) = (to_send.to_vec().into(), expected.to_vec().into());
        Self { id, to_send, expected, untaken: VecDeque::new(), saw_end: false }
    }

    /// Takes up to `n` items and sends what then can be sent.
    fn step<T>(&mut self, side: &mut Connection<T>, n: usize) {
        for len in self.untaken.drain(..n.min(self.untaken.len())) {
            side.item_taken(self.id, len);
        }
        while side.can_send_item(self.id)
            && let Some(payload) = self.to_send.pop_front()
        {
            side.send_item(self.id, 0, payload.into()).unwrap();
        }
    }

    fn receive(&mut self, payload: &Bytes) {
        assert!(self.expected.pop_front().is_some_and(|expected| expected == *payload));
        self.untaken.push_back(payload.len());
    }
}

/// Feeds what one side said to the other, and gives each flow its items and its end.
fn feed_flows<T>(
    side: &mut Connection<T>,
    flows: &mut [Flow],
    now: Instant,
    bytes: &[u8],
    cuts: &[usize],
) {
    for event in feed(side, now, bytes, cuts) {
        match event {
            Event::Item { id, payload, .. } => {
                flows.iter_mut().find(|flow| flow.id == id).unwrap().receive(&payload);
            }
            Event::ItemsEnd { id } => {
                flows.iter_mut().find(|flow| flow.id == id).unwrap().saw_end = true;
            }
            Event::Response { status, .. } => assert_eq!(status, Status::OK),
            _ => {}
        }
    }
}

fn any_meta() -> impl Strategy<Value = Vec<(String, String)>> {
    vec((".{0,9}", ".{0,30}"), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Where the network cuts the bytes changes nothing, and long and short messages arrive
    /// whole in both directions whatever their mix.
    #[test]
    fn messages_arrive_whole_through_any_cuts(
        lens in vec((any_len(), any_len(), any_meta(), any::<bool>()), 1..12),
        cuts in vec(prop_oneof![1..40_usize, 1000..100_000_usize], 1..9),
        lz4 in any::<bool>(),
    ) {
        let now = Instant::now();
        let (mut client, mut server, route) = ready_pair(now, lz4);
        for (token, (len, _, meta, one_way)) in lens.iter().enumerate() {
            let meta: Vec<_> = meta.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            let payload = message(token, *len).into();
            let request =
                RequestOut { meta: &meta, payload, one_way: *one_way, ..RequestOut::new(route) };
            client.send_request(now, request, token).unwrap();
        }
        let up = all_bytes(&mut client);
        let mut seen = BTreeMap::new();
        for event in feed(&mut server, now, &up, &cuts) {
            let Event::Request { id, meta, payload, one_way, .. } = event else { continue };
            let token = (0..lens.len())
                .find(|t| !seen.contains_key(t) && message(*t, lens[*t].0) == payload)
                .expect("a request that was sent");
            let entries: Vec<(String, String)> =
                meta.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
            seen.insert(token, (entries, one_way));
            let payload = message(token + 100, lens[token].1).into();
            server.respond(id, Reply { payload, ..Reply::new(Status::OK) });
        }
        prop_assert_eq!(seen.len(), lens.len());
        let down = all_bytes(&mut server);
        let mut n_answers = 0;
        for event in feed(&mut client, now, &down, &cuts) {
            let Event::Response { payload, .. } = event else { continue };
            let answered = (0..lens.len()).any(|t| message(t + 100, lens[t].1) == payload);
            prop_assert!(answered);
            n_answers += 1;
        }
        prop_assert_eq!(n_answers, lens.iter().filter(|(.., one_way)| !one_way).count());
        prop_assert_eq!((client.in_flight(), server.in_flight()), (0, 0));
    }

    /// Items arrive whole and in order in both directions, whatever their lengths, the windows,
    /// the cuts, and the pace at which they are taken.
    #[test]
    fn items_arrive_in_order_through_any_cuts(
        lens in vec((vec(any_len(), 0..8), vec(any_len(), 0..8)), 1..4),
        windows in (16_384..100_000_u32, 16_384..100_000_u32),
        lz4 in any::<bool>(),
        cuts in vec(prop_oneof![1..40_usize, 1000..100_000_usize], 1..9),
        paces in vec(0..4_usize, 1..9),
    ) {
        let now = Instant::now();
        let features = features::STREAMS | if lz4 { features::LZ4 } else { 0 };
        let side = |stream_window| Config { stream_window, features, ..Config::default() };
        let (mut client, mut server, route) = ready_with(side(windows.0), side(windows.1), now);
        let (mut above, mut below) = (Vec::new(), Vec::new());
        for (token, (up, down)) in lens.iter().enumerate() {
            let [up, down] = [up, down]
                .map(|lens| lens.iter().map(|len| message(token + len, *len)).collect::<Vec<_>>());
            let request =
                RequestOut { stream_in: true, stream_out: true, ..RequestOut::new(route) };
            let id = client.send_request(now, request, token).unwrap();
            above.push(Flow::new(id, &up, &down));
            below.push(Flow::new(id, &down, &up));
        }
        for pace in paces.iter().chain(&[1]).cycle().take(1000) {
            for flow in &mut above {
                flow.step(&mut client, *pace);
                if flow.to_send.is_empty() {
                    let _ = client.end_items(flow.id);
                }
            }
            let bytes = all_bytes(&mut client);
            feed_flows(&mut server, &mut below, now, &bytes, &cuts);
            for flow in &mut below {
                flow.step(&mut server, *pace);
                if flow.to_send.is_empty() && flow.saw_end && !server.items_unsent(flow.id) {
                    server.respond(flow.id, Reply::new(Status::OK));
                }
            }
            let bytes = all_bytes(&mut server);
            feed_flows(&mut client, &mut above, now, &bytes, &cuts);
            if client.in_flight() == 0 {
                break;
            }
        }
        prop_assert_eq!((client.in_flight(), server.in_flight()), (0, 0));
        prop_assert!(above.iter().chain(&below).all(|flow| flow.expected.is_empty()));
        prop_assert_eq!(client.reassembly_bytes() + server.reassembly_bytes(), 0);
    }

    /// Metadata of a request comes out as it went in.
    #[test]
    fn metadata_round_trips(meta in any_meta()) {
        let now = Instant::now();
        let (mut client, mut server, route) = ready_pair(now, true);
        let entries: Vec<_> = meta.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let request = RequestOut { meta: &entries, ..RequestOut::new(route) };
        client.send_request(now, request, 0).unwrap();
        let bytes = all_bytes(&mut client);
        let events = feed(&mut server, now, &bytes, &[1000]);
        let Some(Event::Request { meta: seen, .. }) = events.last() else { panic!("{events:?}") };
        prop_assert_eq!(seen.iter().collect::<Vec<_>>(), entries);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Bytes without any sense.
    #[test]
    fn hostile_bytes_never_panic(data in vec(any::<u8>(), 0..400)) {
        let now = Instant::now();
        exercise::server_bytes(&data, now);
        exercise::client_bytes(&data, now);
    }

    /// Frames that make some sense: each field is right more often than not.
    #[test]
    fn hostile_frames_never_panic(
        frames in vec((hostile_header(), vec(prop_oneof![3 => 0..4_u8, 1 => any::<u8>()], 0..40)), 1..20),
        piece_len in any::<u8>(),
        writes in any::<bool>(),
        packs in any::<bool>(),
    ) {
        let now = Instant::now();
        let mut data = vec![if writes { 1 } else { 3 }, piece_len];
        // Two good routes for the server to begin with; a client refuses them at once.
        let define = |route| [&[0, 0, 0, 12, 2, 0, 0, 0][..], &[0; 11], &[route], &[0; 8]].concat();
        // Then, now and then, a call with streams in both directions.
        let stream = [&[0, 0, 0, 8, 3, 0x18, 0, 0][..], &[0; 16]].concat();
        for with_routes in [true, false] {
            data.truncate(2);
            if with_routes {
                data.extend([define(0), define(1), stream.clone()].concat());
            }
            for ((kind, flags, status, slot, skew), body) in &frames {
                let len = u32::try_from(body.len()).unwrap().wrapping_add_signed(*skew);
                data.extend(len.to_be_bytes());
                data.extend([*kind, *flags, 0, *status, 0, 0, 0, 0, 0, 0, 0, *slot]);
                data.extend(body);
            }
            if packs {
                let frames = data.split_off(2);
                data.extend(compressed(&frames));
            }
            exercise::server_bytes(&data, now);
            exercise::client_bytes(&data, now);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Good bytes of one side, with some of them changed on the way.
    #[test]
    fn damaged_bytes_never_panic(
        lens in vec(prop_oneof![5 => 0..100_usize, 1 => 65_000..200_000_usize], 1..6),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        near_front in any::<bool>(),
        piece_len in any::<u8>(),
        lz4 in any::<bool>(),
    ) {
        let now = Instant::now();
        let (mut client, mut server, route) = ready_pair(now, lz4);
        for (token, len) in lens.iter().enumerate() {
            let payload = message(token, *len).into();
            let request = RequestOut { meta: &[("k", "v")], payload, ..RequestOut::new(route) };
            client.send_request(now, request, token).unwrap();
        }
        let up = all_bytes(&mut client);
        for event in feed(&mut server, now, &up, &[5000]) {
            if let Event::Request { id, payload, .. } = event {
                server.respond(id, Reply { payload: payload.into(), ..Reply::new(Status::OK) });
            }
        }
        let damage = |bytes: &[u8]| {
            let mut data = [&[1, piece_len.max(100)], bytes].concat();
            for (index, byte) in &flips {
                let end = if near_front { data.len().min(100) } else { data.len() };
                data[2..end][index.index(end - 2)] ^= byte;
            }
            data
        };
        exercise::server_bytes(&damage(&up), now);
        exercise::client_bytes(&damage(&all_bytes(&mut server)), now);
    }
}

/// A COMPRESSED frame with these bytes in it.
fn compressed(raw: &[u8]) -> Vec<u8> {
    let number = |len: usize| u32::try_from(len).unwrap().to_be_bytes();
    let block = lz4_flex::block::compress(raw);
    [&number(4 + block.len())[..], &[13], &[0; 11], &number(raw.len()), &block].concat()
}

fn hostile_header() -> impl Strategy<Value = (u8, u8, u8, u8, i32)> {
    let skew = prop_oneof![30 => Just(0), 1 => -3..3_i32];
    (
        prop_oneof![30 => 3..7_u8, 20 => 11..13_u8, 5 => 1..14_u8, 1 => any::<u8>()],
        prop_oneof![20 => 0..8_u8, 8 => (1..4_u8).prop_map(|n| n << 3), 1 => any::<u8>()],
        prop_oneof![5 => Just(0), 1 => any::<u8>()],
        0..10_u8,
        skew,
    )
}
