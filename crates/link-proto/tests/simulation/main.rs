//! Two peers over a network that cuts, delays and breaks, with random calls, cancels, deadlines
//! and windows, under a clock of its own.
//!
//! Each seed is one run and always the same one. A failing seed is printed; `SIM_SEED=n` runs it
//! alone, `SIM_SEEDS=n` runs so many (300 without it).
//!
//! What must hold: every call ends exactly once and with the answer that belongs to it; a stream
//! brings exactly its items, in order, unless its call ends before; nothing is left behind; no
//! limit is ever passed.

#![expect(
    clippy::disallowed_methods,
    reason = "the simulated clock needs an instant to begin with"
)]

mod streams;

use bytes::{Buf, Bytes, BytesMut};
use link_proto::{
    CallId, Config, Connection, Event, GoAwayReason, Payload, Reply, RequestOut, RouteDef, RouteId,
    SendError, Status, features,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use streams::{DOWN, Flow, Sent, UP};

const MAX_MESSAGE_LEN: u32 = 400_000;
const MAX_WINDOW: u32 = 24;

#[test]
fn every_call_ends_exactly_once() {
    let number = |name| std::env::var(name).ok().and_then(|s: String| s.parse::<u64>().ok());
    let (first, n_seeds) = match number("SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("SIM_SEEDS").unwrap_or(300)),
    };
    let mut total = OutcomeCounts::default();
    for seed in first..first + n_seeds {
        let run = std::panic::catch_unwind(|| Sim::new(seed).run());
        match run {
            Ok(tally) => total.add(tally),
            Err(panic) => {
                eprintln!("failed with SIM_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{n_seeds} seeds from {first}: {total:?}");
    if n_seeds >= 100 {
        total.assert_everything_happened();
    }
}

/// How often each thing happened, so that a run that tests nothing is seen.
#[derive(Debug, Default)]
struct OutcomeCounts {
    answered: u64,
    long: u64,
    errors: u64,
    refused: u64,
    expired: u64,
    cancelled: u64,
    broken: u64,
    one_way: u64,
    no_credit: u64,
    buffer_full: u64,
    links: u64,
    orderly_ends: u64,
    pauses: u64,
    /// Streaming calls that were begun, and those that ended with all of their items.
    streams: u64,
    whole_streams: u64,
    items: u64,
    no_streams: u64,
    /// A sender of items had to wait, and was told when it could go on.
    waits: u64,
    early_answers: u64,
    /// Bytes that were saved by compression.
    saved: u64,
}

impl OutcomeCounts {
    fn fields(&mut self) -> [&mut u64; 20] {
        [
            &mut self.answered,
            &mut self.long,
            &mut self.errors,
            &mut self.refused,
            &mut self.expired,
            &mut self.cancelled,
            &mut self.broken,
            &mut self.one_way,
            &mut self.no_credit,
            &mut self.buffer_full,
            &mut self.links,
            &mut self.orderly_ends,
            &mut self.pauses,
            &mut self.streams,
            &mut self.whole_streams,
            &mut self.items,
            &mut self.no_streams,
            &mut self.waits,
            &mut self.early_answers,
            &mut self.saved,
        ]
    }

    fn add(&mut self, mut other: OutcomeCounts) {
        for (sum, n) in self.fields().into_iter().zip(other.fields()) {
            *sum += *n;
        }
    }

    fn assert_everything_happened(&mut self) {
        let text = format!("{self:?}");
        assert!(self.fields().into_iter().all(|n| *n > 0), "{text}");
    }
}

/// One direction of a connection: bytes that arrive in order, later, in pieces.
#[derive(Default)]
struct Pipe {
    pieces: VecDeque<(Instant, Bytes)>,
    last: Option<Instant>,
    held_bytes: usize,
}

impl Pipe {
    /// Takes from `out` what a socket's buffer has room for.
    fn write(&mut self, out: &mut BytesMut, now: Instant, rng: &mut StdRng) {
        while !out.is_empty() && self.held_bytes < 100_000 {
            let max = if rng.random_bool(0.2) { 20 } else { 40_000 };
            let len = rng.random_range(1..=max.min(out.len()));
            let delay = Duration::from_micros(rng.random_range(0..3000));
            let at = self.last.map_or(now + delay, |last| last.max(now + delay));
            self.last = Some(at);
            self.held_bytes += len;
            self.pieces.push_back((at, out.split_to(len).freeze()));
        }
    }

    fn read(&mut self, now: Instant, input: &mut BytesMut) {
        while let Some((_, piece)) = self.pieces.pop_front_if(|(at, _)| *at <= now) {
            self.held_bytes -= piece.len();
            input.extend_from_slice(&piece);
            if input.len() > 200_000 {
                break;
            }
        }
    }
}

/// What the client knows of a call: for the one answer that belongs to it.
struct ClientCall {
    id: Option<CallId>,
    seed: u64,
    has_deadline: bool,
}

/// What the server does with a call, decided by the call's seed, which is in its payload.
struct ServerCall {
    id: CallId,
    seed: u64,
    done_at: Instant,
}

struct Sim {
    rng: StdRng,
    now: Instant,
    client: Connection<u64>,
    server: Connection<()>,
    up: Pipe,
    down: Pipe,
    client_input: BytesMut,
    server_input: BytesMut,
    routes: Vec<RouteId>,
    calls: BTreeMap<u64, ClientCall>,
    work: Vec<ServerCall>,
    /// Streaming calls as the client sees them, by token, and as the server does, by id.
    client_flows: BTreeMap<u64, Flow>,
    server_flows: BTreeMap<u64, (Flow, ServerCall)>,
    windows: [u32; 2],
    next_token: u64,
    largest_window: u32,
    client_paused: bool,
    /// Calls are still made; cleared for the orderly end.
    calling: bool,
    tally: OutcomeCounts,
}

impl Sim {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let now = Instant::now();
        let client = Connection::client(config(&mut rng), now);
        let server = Connection::server(config(&mut rng), now);
        let mut sim = Self {
            rng,
            now,
            client,
            server,
            up: Pipe::default(),
            down: Pipe::default(),
            client_input: BytesMut::new(),
            server_input: BytesMut::new(),
            routes: Vec::new(),
            calls: BTreeMap::new(),
            work: Vec::new(),
            client_flows: BTreeMap::new(),
            server_flows: BTreeMap::new(),
            windows: [0; 2],
            next_token: 0,
            largest_window: 0,
            client_paused: false,
            calling: true,
            tally: OutcomeCounts::default(),
        };
        sim.connect();
        sim
    }

    fn connect(&mut self) {
        self.count_compression();
        self.tally.links += 1;
        let configs = [config(&mut self.rng), config(&mut self.rng)];
        self.windows = [configs[0].stream_window, configs[1].stream_window];
        let [client, server] = configs;
        self.client = Connection::client(client, self.now);
        self.server = Connection::server(server, self.now);
        self.largest_window = u32::try_from(self.server.window()).unwrap();
        (self.up, self.down) = (Pipe::default(), Pipe::default());
        self.client_input.clear();
        self.server_input.clear();
        self.routes.clear();
        self.work.clear();
        self.client_flows.clear();
        self.server_flows.clear();
        self.client_paused = false;
    }

    fn run(mut self) -> OutcomeCounts {
        let n_steps = self.rng.random_range(100..1000);
        for _ in 0..n_steps {
            self.step();
        }
        self.calling = false;
        self.client_paused = false;
        match self.rng.random_range(0..3) {
            0 => self.client.go_away(GoAwayReason::SHUTDOWN),
            1 => self.server.go_away(GoAwayReason::SHUTDOWN),
            _ => {
                self.client.go_away(GoAwayReason::IDLE);
                self.server.go_away(GoAwayReason::IDLE);
            }
        }
        for _ in 0..20_000 {
            if self.client.is_finished() && self.server.is_finished() {
                break;
            }
            self.step();
        }
        assert!(
            self.client.is_finished() && self.server.is_finished(),
            "no end in good order: client {} calls, {} bytes out, server {} calls, {} bytes out, {} at work",
            self.client.in_flight(),
            self.client.buffered_bytes(),
            self.server.in_flight(),
            self.server.buffered_bytes(),
            self.work.len(),
        );
        assert_eq!((self.client.failure(), self.server.failure()), (None, None));
        self.tally.orderly_ends += 1;
        assert!(self.calls.is_empty(), "{} calls never ended", self.calls.len());
        for (n, what) in [
            (self.client.in_flight(), "client's calls"),
            (self.server.in_flight(), "server's calls"),
            (self.client.reassembly_bytes(), "client's parts"),
            (self.server.reassembly_bytes(), "server's parts"),
            (self.client.buffered_bytes(), "client's output"),
            (self.server.buffered_bytes(), "server's output"),
        ] {
            assert_eq!(n, 0, "{what} left behind");
        }
        self.count_compression();
        self.tally
    }

    /// What a link compressed, when it is over.
    fn count_compression(&mut self) {
        for done in [self.client.compression(), self.server.compression()].into_iter().flatten() {
            self.tally.saved += done.raw_out_bytes - done.packed_out_bytes;
        }
    }

    fn step(&mut self) {
        self.now += Duration::from_micros(self.rng.random_range(0..800));
        if self.calling {
            self.act();
        }
        self.finish_work();
        self.stream();
        self.carry();
        for due in [self.client.poll_timeout(), self.server.poll_timeout()] {
            if due.is_some_and(|due| due <= self.now) {
                self.client.handle_timeout(self.now);
                self.server.handle_timeout(self.now);
            }
        }
        self.client_events();
        self.server_events();
        self.check_limits();
        if self.calling && self.rng.random_bool(0.001) {
            self.break_connection();
        }
    }

    /// Something that an app or an operator does.
    fn act(&mut self) {
        match self.rng.random_range(0..100) {
            0..50 => self.send(),
            50..53 => self.cancel_one(),
            53 => {
                let window = self.rng.random_range(0..MAX_WINDOW);
                self.largest_window = self.largest_window.max(window);
                self.server.set_window(window);
            }
            54 if self.routes.len() < 6 => {
                let def = RouteDef { method: "later".into(), ..RouteDef::default() };
                self.routes.extend(self.client.define(&def));
            }
            55 if self.routes.len() > 2 => {
                let def = RouteDef { method: "again".into(), ..RouteDef::default() };
                self.client.redefine(self.routes[1], &def).expect("a route of this link");
            }
            56 => {
                self.tally.pauses += 1;
                self.client_paused = !self.client_paused;
            }
            _ => {}
        }
    }

    fn send(&mut self) {
        if self.routes.is_empty() {
            return;
        }
        let route = self.routes[self.rng.random_range(0..self.routes.len())];
        let token = self.next_token;
        let seed = self.rng.random();
        let one_way = self.rng.random_bool(0.1);
        let deadline = self
            .rng
            .random_bool(0.5)
            .then(|| self.now + Duration::from_micros(self.rng.random_range(0..60_000)));
        let payload = payload_of(seed, any_len(&mut self.rng));
        let is_long = payload.len() > 70_000;
        let meta: &[(&str, &str)] = if seed.is_multiple_of(3) { &[("seed", "three")] } else { &[] };
        let codec = codec_of(seed);
        let [stream_in, stream_out] = match self.rng.random_range(0..8) {
            0 if !one_way => [true, false],
            1 if !one_way => [false, true],
            2 if !one_way => [true, true],
            _ => [false, false],
        };
        let payload = Payload::Bytes(payload);
        let request = RequestOut {
            route,
            deadline,
            timeout: None,
            meta,
            codec,
            one_way,
            stream_in,
            stream_out,
            timed: false,
            payload,
        };
        match self.client.send_request(self.now, request, token) {
            Ok(_) if one_way => self.tally.one_way += 1,
            Ok(id) => {
                self.tally.long += u64::from(is_long);
                let call = ClientCall { id: Some(id), seed, has_deadline: deadline.is_some() };
                self.calls.insert(token, call);
                if stream_in || stream_out {
                    self.tally.streams += 1;
                    let (up, down) = (stream_in.then_some(UP), stream_out.then_some(DOWN));
                    self.client_flows.insert(token, Flow::new(id, seed, up, down));
                }
            }
            Err((back, error)) => {
                assert_eq!(back, token);
                match error {
                    SendError::NoCredit => self.tally.no_credit += 1,
                    SendError::BufferFull => self.tally.buffer_full += 1,
                    SendError::NoStreams => self.tally.no_streams += 1,
                    SendError::TooLarge { .. } | SendError::Closing | SendError::NotReady => {}
                    other => panic!("{other}"),
                }
            }
        }
        self.next_token += 1;
    }

    fn cancel_one(&mut self) {
        let Some(index) = self.calls.len().checked_sub(1) else {
            return;
        };
        let index = self.rng.random_range(0..=index);
        let (&token, call) = self.calls.iter().nth(index).expect("below the length");
        let id = call.id.expect("an id of this link");
        assert_eq!(self.client.cancel(id), Some(token));
        assert_eq!(self.client.cancel(id), None, "only once");
        self.calls.remove(&token);
        self.client_flows.remove(&token);
        self.tally.cancelled += 1;
    }

    /// What the apps do with the items of their streams.
    fn stream(&mut self) {
        for flow in self.client_flows.values_mut() {
            match flow.send(&mut self.client, &mut self.rng) {
                Sent::Items(n) => self.tally.items += n,
                Sent::Ended => unreachable!("its answer has not come: {}", flow.seed),
            }
            flow.end(&mut self.client);
            flow.take(&mut self.client, &mut self.rng);
        }
        let mut done = Vec::new();
        for (key, (flow, work)) in &mut self.server_flows {
            flow.take(&mut self.server, &mut self.rng);
            match flow.send(&mut self.server, &mut self.rng) {
                Sent::Items(n) => self.tally.items += n,
                Sent::Ended => done.push((*key, false)),
            }
            if self.rng.random_bool(0.002) {
                self.tally.early_answers += 1;
                self.server.respond(flow.id, Reply::error(Status::SERVER_ERROR, "early"));
                done.push((*key, false));
            } else if flow.has_sent_all()
                && flow.saw_end()
                && !self.server.items_unsent(flow.id)
                && work.done_at <= self.now
            {
                done.push((*key, true));
            }
        }
        for (key, answers) in done {
            if let Some((_, work)) = self.server_flows.remove(&key)
                && answers
            {
                self.work.push(work);
            }
        }
    }

    fn carry(&mut self) {
        self.up.write(self.client.transmit(), self.now, &mut self.rng);
        if self.client.is_finished() {
            // Its socket is closed: what the server still writes goes nowhere.
            self.server.transmit().clear();
        }
        self.down.write(self.server.transmit(), self.now, &mut self.rng);
        if !self.server.is_congested() && !self.server.is_finished() {
            self.up.read(self.now, &mut self.server_input);
            self.server.handle_bytes(self.now, &mut self.server_input).expect("a good client");
        }
        if !self.client_paused && !self.client.is_finished() {
            self.down.read(self.now, &mut self.client_input);
            self.client.handle_bytes(self.now, &mut self.client_input).expect("a good server");
        }
    }

    fn client_events(&mut self) {
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::Ready(_) => {
                    for _ in 0..3 {
                        self.routes.extend(self.client.define(&RouteDef::default()));
                    }
                }
                Event::Response { token, status, codec, meta, payload } => {
                    let call = self.calls.remove(&token).expect("an open call");
                    if let Some(flow) = self.client_flows.remove(&token)
                        && status == Status::OK
                    {
                        flow.assert_received_all();
                        assert!(flow.has_sent_all(), "the server saw all");
                        self.tally.whole_streams += 1;
                    }
                    self.check_answer(&call, status, codec, meta.value("seed"), &payload);
                }
                Event::Expired { token } => {
                    let call = self.calls.remove(&token).expect("an open call");
                    assert!(call.has_deadline);
                    self.client_flows.remove(&token);
                    self.tally.expired += 1;
                }
                Event::Item { id, codec, payload } => {
                    // An item may still be here although its call was just given up.
                    if let Some(flow) = self.client_flow(id) {
                        flow.receive(codec, &payload);
                    }
                }
                Event::Writable { id } => {
                    self.tally.waits += 1;
                    if let Some(flow) = self.client_flow(id) {
                        flow.writable();
                    }
                }
                Event::Dead(error) => panic!("the client's side died: {error}"),
                Event::RouteAccepted { .. }
                | Event::RouteRefused { .. }
                | Event::Window(_)
                | Event::GoAway { .. } => {}
                other => panic!("not for a client: {other:?}"),
            }
        }
    }

    fn client_flow(&mut self, id: CallId) -> Option<&mut Flow> {
        self.client_flows.values_mut().find(|flow| flow.id == id)
    }

    fn check_answer(
        &mut self,
        call: &ClientCall,
        status: Status,
        codec: u8,
        meta: Option<&str>,
        payload: &Bytes,
    ) {
        match status {
            Status::OK => {
                self.tally.answered += 1;
                assert_eq!(payload_of(call.seed + 1, payload.len()), *payload, "another answer");
                assert_eq!(codec, codec_of(call.seed));
                assert_eq!(meta, call.seed.is_multiple_of(5).then_some("five"));
            }
            Status::REFUSED | Status::OVERLOADED | Status::NOT_FOUND_SERVICE => {
                self.tally.refused += 1;
            }
            Status::TOO_LARGE | Status::SERVER_ERROR => self.tally.errors += 1,
            other => panic!("{other}"),
        }
    }

    fn server_events(&mut self) {
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::Defined { route, .. } if self.rng.random_bool(0.2) => {
                    self.server.refuse_route(route, Status::NOT_FOUND_SERVICE, "not here");
                }
                Event::Defined { route, .. } => self.server.accept_route(route, 2),
                Event::Request {
                    id, codec, meta, payload, one_way, stream_in, stream_out, ..
                } => {
                    let seed = seed_of(&payload);
                    assert_eq!(payload_of(seed, payload.len()), payload, "another request");
                    assert_eq!(codec, codec_of(seed));
                    assert_eq!(meta.value("seed"), seed.is_multiple_of(3).then_some("three"));
                    let time = Duration::from_micros(self.rng.random_range(0..20_000));
                    let done_at = self.now + time;
                    let work = ServerCall { id, seed, done_at };
                    if stream_in || stream_out {
                        let (down, up) = (stream_out.then_some(DOWN), stream_in.then_some(UP));
                        let flow = Flow::new(id, seed, down, up);
                        self.server_flows.insert(id.to_wire(), (flow, work));
                    } else if !one_way {
                        self.work.push(work);
                    }
                }
                Event::Cancelled { id } => {
                    let n_before = self.work.len() + self.server_flows.len();
                    // Some handlers cannot be stopped, and answer nevertheless.
                    if self.rng.random_bool(0.5) {
                        self.work.retain(|work| work.id != id);
                        self.server_flows.remove(&id.to_wire());
                        let n_left = self.work.len() + self.server_flows.len();
                        assert_eq!(n_left + 1, n_before, "an open call");
                    }
                }
                Event::Item { id, codec, payload } => {
                    if let Some((flow, _)) = self.server_flows.get_mut(&id.to_wire()) {
                        flow.receive(codec, &payload);
                    }
                }
                Event::ItemsEnd { id } => {
                    if let Some((flow, _)) = self.server_flows.get_mut(&id.to_wire()) {
                        flow.items_end();
                    }
                }
                Event::Writable { id } => {
                    self.tally.waits += 1;
                    if let Some((flow, _)) = self.server_flows.get_mut(&id.to_wire()) {
                        flow.writable();
                    }
                }
                Event::Dead(error) => panic!("the server's side died: {error}"),
                Event::Ready(_) | Event::GoAway { .. } => {}
                other => panic!("not for a server: {other:?}"),
            }
        }
    }

    fn finish_work(&mut self) {
        let now = self.now;
        for work in self.work.extract_if(.., |work| work.done_at <= now) {
            if work.seed.is_multiple_of(31) {
                self.server.respond(work.id, Reply::error(Status::SERVER_ERROR, "31"));
                continue;
            }
            let payload = payload_of(work.seed + 1, any_len(&mut self.rng)).into();
            let meta: &[(&str, &str)] =
                if work.seed.is_multiple_of(5) { &[("seed", "five")] } else { &[] };
            let codec = codec_of(work.seed);
            self.server.respond(work.id, Reply { status: Status::OK, codec, meta, payload });
        }
    }

    fn break_connection(&mut self) {
        let tokens: Vec<u64> = self.client.drain_pending().collect();
        let open: Vec<u64> = self.calls.keys().copied().collect();
        let mut sorted = tokens.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, open, "each open call comes back once");
        self.tally.broken += open.len() as u64;
        self.calls.clear();
        assert_eq!(self.server.drain_pending().count(), 0);
        for n in [self.client.in_flight(), self.server.in_flight()] {
            assert_eq!(n, 0);
        }
        assert_eq!(self.client.reassembly_bytes() + self.server.reassembly_bytes(), 0);
        self.connect();
    }

    fn check_limits(&self) {
        let max = self.largest_window as usize;
        assert!(self.client.in_flight() <= max && self.server.in_flight() <= max);
        let message = MAX_MESSAGE_LEN as usize + 1000;
        // Items go past their turn while the buffer has less than 256 KiB.
        let items = 256 * 1024 + 66_000;
        assert!(self.client.buffered_bytes() <= 150_000 + message + items);
        // A server answers what it has taken; then it reads no more.
        assert!(self.server.buffered_bytes() <= 150_000 + (max + 1) * message + items);
        self.client_flows.values().for_each(|flow| flow.check_limits(self.windows[0]));
        self.server_flows.values().for_each(|(flow, _)| flow.check_limits(self.windows[1]));
        for side in [self.client.reassembly_bytes(), self.server.reassembly_bytes()] {
            assert!(side <= 600_000);
        }
        let waiting = self.calls.len();
        assert!(waiting <= self.client.in_flight(), "{waiting}");
    }
}

fn config(rng: &mut StdRng) -> Config {
    Config {
        max_message_len: MAX_MESSAGE_LEN,
        max_reassembly_bytes: 600_000,
        max_buffered_bytes: 150_000,
        window: rng.random_range(1..=MAX_WINDOW),
        features: any_features(rng),
        stream_window: rng.random_range(16 << 10..100 << 10),
        keepalive: Duration::from_millis(20),
        ping_timeout: Duration::from_secs(60),
        ..Config::default()
    }
}

fn any_features(rng: &mut StdRng) -> u64 {
    let streams = if rng.random_bool(0.05) { 0 } else { features::STREAMS };
    streams | if rng.random_bool(0.6) { features::LZ4 } else { 0 }
}

fn any_len(rng: &mut StdRng) -> usize {
    match rng.random_range(0..20) {
        0 => rng.random_range(60_000..70_000),
        1 => rng.random_range(70_000..420_000),
        2 => rng.random_range(1000..60_000),
        _ => rng.random_range(8..300),
    }
}

/// Bytes that show which call they belong to, and where: a block of 1016 bytes again and again,
/// so that no chunk looks like another.
fn payload_of(seed: u64, len: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(len.max(1016) * 2);
    let mut word = seed;
    while bytes.len() < 1016 {
        bytes.extend_from_slice(&word.to_be_bytes());
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1);
    }
    while bytes.len() < len {
        bytes.extend_from_within(..);
    }
    bytes.truncate(len);
    bytes.into()
}

fn seed_of(payload: &Bytes) -> u64 {
    payload.clone().get_u64()
}

fn codec_of(seed: u64) -> u8 {
    seed.to_be_bytes()[3]
}
