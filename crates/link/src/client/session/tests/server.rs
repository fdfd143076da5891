//! What the server does: it answers what it reads, later, with what belongs to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use link_proto::{Config, Connection, Event, Payload, Reply, SendError, Status};
use rand::Rng;
use rand::rngs::StdRng;

use super::{MAX_MESSAGE_LEN, MAX_WINDOW, any_len, item_of, payload_of, seed_of};

/// Calls whose seeds can be divided by this are answered before their streams are done.
pub(super) const EARLY: u64 = 11;

pub(super) struct SimServer {
    pub(super) link: Connection<()>,
    pub(super) window: u32,
    /// Calls that were seen, by their seeds.
    pub(super) seen: BTreeSet<u64>,
    /// The last short call that came.
    last_short: u64,
    work: BTreeMap<u64, ServedCall>,
}

struct ServedCall {
    id: link_proto::CallId,
    seed: u64,
    done_at: Instant,
    /// Items to be sent, that were sent, and that came; and whether more are to come.
    n_down: u64,
    n_sent: u64,
    n_got: u64,
    is_open: bool,
}

/// How many items a streaming call has: up and down.
pub(super) fn n_items(seed: u64) -> (u64, u64) {
    (seed % 17, seed / 17 % 17)
}

impl SimServer {
    pub(super) fn new(rng: &mut StdRng, now: Instant) -> Self {
        let config = Config {
            max_message_len: MAX_MESSAGE_LEN,
            max_buffered_bytes: 150_000,
            window: rng.random_range(1..=MAX_WINDOW),
            stream_window: rng.random_range(16 << 10..100 << 10),
            handshake_timeout: Duration::from_secs(3600),
            ..Config::default()
        };
        let window = config.window;
        let link = Connection::server(config, now);
        let (seen, work) = (BTreeSet::new(), BTreeMap::new());
        Self { link, window, seen, last_short: 0, work }
    }

    pub(super) fn step(&mut self, now: Instant, rng: &mut StdRng) {
        if self.link.poll_timeout().is_some_and(|due| due <= now) {
            self.link.handle_timeout(now);
        }
        while let Some(event) = self.link.poll_event() {
            self.handle(event, now, rng);
        }
        if rng.random_bool(0.01) && self.link.peer().is_some() {
            let window = rng.random_range(0..MAX_WINDOW);
            self.window = self.window.max(window);
            self.link.set_window(window.max(1));
        }
        self.work_on(now, rng);
    }

    fn handle(&mut self, event: Event<()>, now: Instant, rng: &mut StdRng) {
        match event {
            Event::Defined { route, .. } => self.link.accept_route(route, 0),
            Event::Request { id, meta, payload, one_way, stream_in, stream_out, .. } => {
                let seed = seed_of(&payload);
                assert_eq!(payload_of(seed, payload.len()), payload, "another request");
                assert!(self.seen.insert(seed), "a call came twice");
                let seq: u64 = meta.value("seq").expect("its number").parse().unwrap();
                if payload.len() < 32_000 {
                    assert!(self.last_short < seq, "{seq} came after {}", self.last_short);
                    self.last_short = seq;
                }
                if !one_way {
                    let n_down = if stream_out { n_items(seed).1 } else { 0 };
                    let done_at = now + Duration::from_micros(rng.random_range(0..20_000));
                    let (n_sent, n_got, is_open) = (0, 0, stream_in);
                    let work = ServedCall { id, seed, done_at, n_down, n_sent, n_got, is_open };
                    self.work.insert(id.to_wire(), work);
                }
            }
            // Other handlers cannot be stopped, and answer nevertheless.
            Event::Cancelled { id } if rng.random_bool(0.5) => {
                self.work.remove(&id.to_wire());
            }
            Event::Item { id, payload, .. } => {
                if let Some(work) = self.work.get_mut(&id.to_wire()) {
                    assert_eq!(payload, item_of(work.seed, work.n_got), "another item");
                    work.n_got += 1;
                }
                self.link.item_taken(id, payload.len());
            }
            Event::ItemsEnd { id } => {
                if let Some(work) = self.work.get_mut(&id.to_wire()) {
                    assert_eq!(work.n_got, n_items(work.seed).0);
                    work.is_open = false;
                }
            }
            Event::Dead(error) => panic!("the server's side died: {error}"),
            _ => {}
        }
    }

    fn work_on(&mut self, now: Instant, rng: &mut StdRng) {
        let mut done = Vec::new();
        for (key, work) in &mut self.work {
            while work.n_sent < work.n_down {
                let item = item_of(work.seed + 1, work.n_sent);
                match self.link.send_item(work.id, 7, Payload::Bytes(item)) {
                    Ok(()) => work.n_sent += 1,
                    Err(SendError::NoStreamCredit) => break,
                    // Its caller gave up.
                    Err(_) => work.n_sent = work.n_down,
                }
            }
            let is_early = work.seed.is_multiple_of(EARLY);
            let is_done =
                !work.is_open && work.n_sent == work.n_down && !self.link.items_unsent(work.id);
            if work.done_at <= now && (is_early || is_done) {
                done.push(*key);
                if work.seed.is_multiple_of(31) {
                    self.link.respond(work.id, Reply::error(Status::SERVER_ERROR, "31"));
                    continue;
                }
                let payload = payload_of(work.seed + 1, any_len(rng)).into();
                self.link.respond(work.id, Reply { payload, codec: 7, ..Reply::new(Status::OK) });
            }
        }
        for key in done {
            self.work.remove(&key);
        }
    }
}
