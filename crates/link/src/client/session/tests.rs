//! A session against the server's side of the protocol, over a network that cuts, delays and
//! breaks, with random callers, windows and limits, under a clock of its own.
//!
//! Each seed is one run and always the same one. A failing seed is printed; `SIM_SEED=n` runs it
//! alone, `SIM_SEEDS=n` runs so many (200 without it).
//!
//! Callers look at their calls only when they are woken, so that a lost wake-up is a call that
//! never ends.

mod callers;
mod server;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use link_proto::GoAwayReason;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use self::callers::SimulatedCall;
use self::server::SimServer;
use super::{CallEnd, CallKey, CallSlot, Phase, SessionEvent, SessionMachine};
use crate::client::config::{ClientConfig, WhenDown, WhenFull};
use wire::Machine;

const MAX_MESSAGE_LEN: u32 = 400_000;
const MAX_WINDOW: u32 = 24;

#[test]
fn every_call_has_exactly_one_outcome() {
    let number = |name| std::env::var(name).ok().and_then(|text: String| text.parse::<u64>().ok());
    let (first, n_seeds) = match number("SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("SIM_SEEDS").unwrap_or(200)),
    };
    let mut total = EventCounts::default();
    for seed in first..first + n_seeds {
        match std::panic::catch_unwind(|| Sim::new(seed).run()) {
            Ok(tally) => total.add(tally),
            Err(panic) => {
                eprintln!("failed with SIM_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{n_seeds} seeds from {first}: {total:?}");
    if n_seeds >= 100 {
        for what in WHATS {
            assert!(total.0.contains_key(what), "{what} never happened: {total:?}");
        }
    }
}

/// What is to happen in a run of many seeds, or it tests less than it seems to.
const WHATS: &[&str] = &[
    "answered",
    "refused",
    "sent one-way",
    "expired",
    "expired before a connection",
    "broken",
    "not begun",
    "unreachable",
    "full: calls",
    "full: bytes",
    "full: waiting",
    "elsewhere",
    "waited",
    "given up while waiting",
    "given up while out",
    "given up when done",
    "whole stream",
    "early end of a stream",
    "closed in good order",
    "server left in good order",
    "broke",
    "never connected",
];

/// How often each thing happened.
#[derive(Debug, Default)]
struct EventCounts(BTreeMap<&'static str, u64>);

impl EventCounts {
    fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    fn add(&mut self, other: Self) {
        for (what, n) in other.0 {
            *self.0.entry(what).or_default() += n;
        }
    }
}

/// One direction of the connection: bytes that arrive in order, later, in pieces.
#[derive(Default)]
struct Pipe {
    pieces: VecDeque<(Instant, Bytes)>,
    last: Option<Instant>,
    held_bytes: usize,
}

impl Pipe {
    /// Takes from `out` what a socket's buffer has room for.
    fn write(&mut self, out: &mut BytesMut, now: Instant, rng: &mut StdRng) {
        while !out.is_empty() && self.held_bytes < 60_000 {
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
        }
    }
}

struct Sim {
    rng: StdRng,
    now: Instant,
    config: Arc<ClientConfig>,
    session: SessionMachine,
    server: SimServer,
    is_connected: bool,
    /// How likely an attempt to connect ends in a step.
    haste: f64,
    /// The last attempt to connect failed.
    has_failed: bool,
    up: Pipe,
    down: Pipe,
    client_input: BytesMut,
    server_input: BytesMut,
    callers: Vec<SimulatedCall>,
    next_seq: u64,
    /// Latest call that is known to have been sent.
    last_sent: u64,
    /// The connection broke.
    is_broken: bool,
    tally: EventCounts,
}

impl Sim {
    fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let now = Instant::now();
        let config = Arc::new(config(&mut rng));
        Self {
            session: SessionMachine::new(Arc::clone(&config)),
            server: SimServer::new(&mut rng, now),
            haste: if rng.random_bool(0.3) { 0.005 } else { 0.05 },
            rng,
            now,
            config,
            is_connected: false,
            has_failed: false,
            up: Pipe::default(),
            down: Pipe::default(),
            client_input: BytesMut::new(),
            server_input: BytesMut::new(),
            callers: Vec::new(),
            next_seq: 1,
            last_sent: 0,
            is_broken: false,
            tally: EventCounts::default(),
        }
    }

    fn run(mut self) -> EventCounts {
        for _ in 0..self.rng.random_range(50..400) {
            self.step(true);
        }
        match self.rng.random_range(0..4) {
            0 => self.break_off(),
            1 => self.end_in_good_order(true),
            _ => self.end_in_good_order(false),
        }
        self.settle_callers();
        self.check_nothing_is_left();
        self.tally
    }

    fn break_off(&mut self) {
        self.tally.note(if self.is_connected { "broke" } else { "never connected" });
        self.is_broken = true;
        self.session.end(&"cable cut".into());
    }

    fn end_in_good_order(&mut self, by_server: bool) {
        if by_server && self.is_connected {
            self.server.link.go_away(GoAwayReason::SHUTDOWN);
            self.tally.note("server left in good order");
        } else {
            self.session.close();
            self.tally.note("closed in good order");
        }
        for n in 0..30_000 {
            if self.session.is_finished() || !self.is_connected && self.session.is_closed_and_idle()
            {
                break;
            }
            // Some callers do not know yet.
            self.step(n < 20);
        }
        let is_over = self.session.is_finished() || !self.is_connected;
        assert!(
            is_over && self.session.is_closed_and_idle(),
            "no end: {} left",
            self.callers.len()
        );
        let is_out = |slot: &CallSlot| matches!(slot, CallSlot::Out { .. } | CallSlot::Waiting(_));
        assert!(!self.session.calls.iter().any(|(_, slot)| is_out(slot)), "an end with calls out");
        self.session.end(&"closed".into());
    }

    fn step(&mut self, is_calling: bool) {
        self.now += Duration::from_micros(self.rng.random_range(0..800));
        if is_calling {
            self.act();
        }
        if !self.is_connected && self.rng.random_bool(self.haste) {
            self.connect();
        }
        self.carry();
        if self.session.poll_timeout().is_some_and(|due| due <= self.now) {
            self.session.handle_timeout(self.now);
        }
        self.server.step(self.now, &mut self.rng);
        self.wake();
        self.look();
        self.check_limits();
    }

    fn connect(&mut self) {
        if self.rng.random_bool(0.5) {
            self.has_failed = true;
            self.session.handle_connect_error("no route to host".into());
        } else {
            self.is_connected = true;
            self.session.handle_connected(self.now);
        }
    }

    fn carry(&mut self) {
        if !self.is_connected {
            return;
        }
        self.up.write(self.session.transmit(), self.now, &mut self.rng);
        if self.session.transmit().is_empty() {
            self.session.handle_written(self.now);
        }
        self.down.write(self.server.link.transmit(), self.now, &mut self.rng);
        if !self.server.link.is_congested() {
            self.up.read(self.now, &mut self.server_input);
            self.server.link.handle_bytes(self.now, &mut self.server_input).expect("a good client");
        }
        if !self.session.is_finished() {
            self.down.read(self.now, &mut self.client_input);
            self.session.handle_bytes(self.now, &mut self.client_input).expect("a good server");
        }
    }

    /// What the driver does with a session's events.
    fn wake(&mut self) {
        let max = self.rng.random_range(1..40);
        for _ in 0..max {
            match self.session.poll_event() {
                Some(SessionEvent::Wake(waker)) => waker.wake(),
                Some(SessionEvent::Ready) => self.has_failed = false,
                Some(SessionEvent::Leaving) => assert_ne!(self.session.phase, Phase::Open),
                Some(SessionEvent::Standing) => {}
                None => return,
            }
        }
    }

    /// Lets all callers see that the session is over.
    fn settle_callers(&mut self) {
        while self.session.has_events() {
            self.wake();
        }
        for _ in 0..1000 {
            self.look();
            if self.callers.is_empty() {
                return;
            }
        }
        panic!("{} calls have no outcome", self.callers.len());
    }

    fn check_limits(&mut self) {
        let session = &self.session;
        assert!(session.waiting.keys.len() <= self.config.max_waiting_calls);
        let (mut waiting_bytes, mut first_waiting) = (0, u64::MAX);
        let mut n_out = 0;
        for caller in &self.callers {
            match session.calls.get(caller.key) {
                Some(CallSlot::Waiting(parked)) => {
                    assert_eq!(seed_of(&parked.payload), caller.seed, "keys do not mix");
                    waiting_bytes += parked.payload.len();
                    first_waiting = first_waiting.min(caller.seq);
                }
                Some(CallSlot::Out { .. }) => {
                    n_out += 1;
                    self.last_sent = self.last_sent.max(caller.seq);
                }
                _ => {}
            }
        }
        assert!(self.last_sent < first_waiting, "{} overtook {first_waiting}", self.last_sent);
        assert_eq!(waiting_bytes, session.waiting.bytes);
        assert!(waiting_bytes <= self.config.max_waiting_bytes);
        assert!(n_out <= self.config.max_calls.min(self.server.window) as usize);
        if let Some(link) = &session.link {
            let most = self.config.max_bytes + MAX_MESSAGE_LEN as usize + 400_000;
            assert!(link.buffered_bytes() <= most, "{} bytes wait", link.buffered_bytes());
            assert!(n_out <= link.in_flight());
        }
        if self.rng.random_bool(0.8) {
            return;
        }
        let keys: BTreeSet<CallKey> = self.callers.iter().map(|caller| caller.key).collect();
        assert_eq!(keys.len(), self.callers.len(), "no two calls have one key");
        assert_eq!(keys, session.calls.iter().map(|(key, _)| key).collect());
    }

    fn check_nothing_is_left(&self) {
        let session = &self.session;
        assert!(session.calls.is_empty() && session.waiting.keys.is_empty());
        assert_eq!(session.waiting.bytes, 0);
        assert!(session.streams.is_empty(), "streams are left");
        assert!(!session.has_events() && session.link.is_none());
        assert_eq!(session.poll_timeout(), None);
    }
}

fn config(rng: &mut StdRng) -> ClientConfig {
    ClientConfig {
        max_calls: rng.random_range(1..=MAX_WINDOW),
        max_bytes: rng.random_range(10_000..150_000),
        when_full: if rng.random_bool(0.7) { WhenFull::Wait } else { WhenFull::Reject },
        when_down: if rng.random_bool(0.7) { WhenDown::Wait } else { WhenDown::Fail },
        max_waiting_calls: rng.random_range(0..60),
        max_waiting_bytes: rng.random_range(0..500_000),
        max_message_len: MAX_MESSAGE_LEN,
        keepalive: Duration::from_millis(20),
        ping_timeout: Duration::from_secs(60),
        ..ClientConfig::default()
    }
}

fn any_len(rng: &mut StdRng) -> usize {
    match rng.random_range(0..25) {
        0 => rng.random_range(60_000..70_000),
        1 => rng.random_range(70_000..390_000),
        2 | 3 => rng.random_range(1000..60_000),
        _ => rng.random_range(8..300),
    }
}

/// Bytes that show which call they belong to, and where.
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

/// An item of a stream: the `n`th of this call in this direction.
fn item_of(seed: u64, n: u64) -> Bytes {
    let len = if (seed ^ n).is_multiple_of(13) { 70_000 } else { 50 };
    payload_of(seed.wrapping_mul(31).wrapping_add(n), len)
}
