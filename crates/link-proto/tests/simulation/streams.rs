//! What the apps on both sides do with one streaming call: send the items that its seed says,
//! check those that come, and take them sooner or later.
//!
//! A sender that was told to wait sends nothing until [`Event::Writable`](link_proto::Event)
//! comes, so one that is never told shows as a call that does not end.

use crate::{MAX_MESSAGE_LEN, codec_of, payload_of};
use bytes::Bytes;
use link_proto::{CallId, Connection, Payload, SendError, header};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;

/// Items up the link, from the client.
pub(crate) const UP: u64 = 1;
/// Items down the link.
pub(crate) const DOWN: u64 = 2;

/// One side of a streaming call.
pub(crate) struct Flow {
    pub(crate) id: CallId,
    pub(crate) seed: u64,
    /// Direction in which this side sends, if it does.
    sends: Option<u64>,
    receives: Option<u64>,
    n_sent: u64,
    n_received: u64,
    /// Told to wait for a `Writable`.
    waits: bool,
    said_end: bool,
    saw_end: bool,
    /// Lengths of the items that were not taken.
    untaken: VecDeque<usize>,
    untaken_cost: usize,
    saw_long: bool,
    /// How likely an item is taken in a step.
    speed: f64,
}

/// How a round of sending went.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Sent {
    /// So many items.
    Items(u64),
    /// The call has ended.
    Ended,
}

/// What is known beforehand of a stream in one direction: how many items it has.
fn n_items(seed: u64, direction: u64) -> u64 {
    StdRng::seed_from_u64(seed ^ direction).random_range(0..20)
}

/// Codec and payload of one item.
fn item(seed: u64, direction: u64, index: u64) -> (u8, Bytes) {
    let mut rng = StdRng::seed_from_u64(seed ^ (direction << 8) ^ (index << 16));
    let len = match rng.random_range(0..20) {
        0 => rng.random_range(65_000..70_000),
        1 => rng.random_range(70_000..MAX_MESSAGE_LEN as usize),
        2..5 => rng.random_range(1000..40_000),
        _ => rng.random_range(0..300),
    };
    let seed = rng.random();
    (codec_of(seed), payload_of(seed, len))
}

impl Flow {
    pub(crate) fn new(id: CallId, seed: u64, sends: Option<u64>, receives: Option<u64>) -> Self {
        let speed = if seed.is_multiple_of(4) { 0.05 } else { 0.9 };
        Self {
            id,
            seed,
            sends,
            receives,
            n_sent: 0,
            n_received: 0,
            waits: false,
            said_end: false,
            saw_end: false,
            untaken: VecDeque::new(),
            untaken_cost: 0,
            saw_long: false,
            speed,
        }
    }

    /// Sends some items, as far as the machine lets it.
    pub(crate) fn send<T>(&mut self, side: &mut Connection<T>, rng: &mut StdRng) -> Sent {
        let Some(direction) = self.sends else {
            return Sent::Items(0);
        };
        let n_before = self.n_sent;
        while !self.waits && self.n_sent < n_items(self.seed, direction) && rng.random_bool(0.5) {
            let (codec, payload) = item(self.seed, direction, self.n_sent);
            let could = side.can_send_item(self.id);
            match side.send_item(self.id, codec, Payload::Bytes(payload)) {
                Ok(()) => assert!(could),
                Err(SendError::NoSuchStream) => return Sent::Ended,
                Err(other) => panic!("not told to wait: {other}"),
            }
            self.n_sent += 1;
            self.waits = !side.can_send_item(self.id);
        }
        Sent::Items(self.n_sent - n_before)
    }

    /// Client: says the end after the last item, once.
    pub(crate) fn end<T>(&mut self, side: &mut Connection<T>) {
        if self.has_sent_all() && self.sends.is_some() && !self.said_end {
            side.end_items(self.id).expect("an open stream");
            self.said_end = true;
        }
    }

    pub(crate) fn has_sent_all(&self) -> bool {
        self.sends.is_none_or(|direction| self.n_sent == n_items(self.seed, direction))
    }

    /// Whether all that the peer sends is here, as a server knows it.
    pub(crate) fn saw_end(&self) -> bool {
        self.receives.is_none() || self.saw_end
    }

    pub(crate) fn writable(&mut self) {
        assert!(self.waits, "told without having to wait");
        self.waits = false;
    }

    pub(crate) fn receive(&mut self, codec: u8, payload: &Bytes) {
        let direction = self.receives.expect("a stream in this direction");
        assert!(!self.saw_end, "after the end");
        assert!(self.n_received < n_items(self.seed, direction), "an item too many");
        let (expected_codec, expected) = item(self.seed, direction, self.n_received);
        assert!(codec == expected_codec && *payload == expected, "another item");
        self.n_received += 1;
        self.saw_long |= payload.len() > header::MAX_PART_LEN;
        self.untaken_cost += payload.len() + header::HEADER_LEN;
        self.untaken.push_back(payload.len());
    }

    pub(crate) fn items_end(&mut self) {
        assert!(!self.saw_end, "the end comes once");
        self.saw_end = true;
        self.assert_received_all();
    }

    pub(crate) fn assert_received_all(&self) {
        let n_expected = self.receives.map_or(0, |direction| n_items(self.seed, direction));
        assert_eq!(self.n_received, n_expected, "items got lost");
    }

    /// Takes an item, perhaps.
    pub(crate) fn take<T>(&mut self, side: &mut Connection<T>, rng: &mut StdRng) {
        while !self.untaken.is_empty() && rng.random_bool(self.speed) {
            let len = self.untaken.pop_front().expect("not empty");
            self.untaken_cost -= len + header::HEADER_LEN;
            side.item_taken(self.id, len);
        }
    }

    /// What was not taken is within the window, one frame, and one long item.
    pub(crate) fn check_limits(&self, window: u32) {
        let frame = header::MAX_PART_LEN + header::HEADER_LEN;
        let long = if self.saw_long { MAX_MESSAGE_LEN as usize + header::HEADER_LEN } else { 0 };
        let max = window as usize + frame + long;
        assert!(self.untaken_cost < max, "{} of {max} bytes wait", self.untaken_cost);
    }
}
