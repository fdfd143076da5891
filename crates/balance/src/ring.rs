//! The ring of consistent hashing, as Dubbo's `ConsistentHashLoadBalance` makes it.
//!
//! Each endpoint has many places on a ring of 2^32 points. A call has one point, and goes to the
//! endpoint whose place comes next. If an endpoint comes or goes, only its share of calls moves.
//!
//! Agents and Java consumers send the same key to the same endpoint: `tests/ring.rs` compares with
//! what Dubbo's own class picked.

use md5::{Digest, Md5};

use crate::endpoint::Slot;

/// Places of an endpoint on the ring, unless configured: Dubbo's `hash.nodes`.
pub const DEFAULT_NODES: u32 = 160;

/// Places come by four: one MD5 sum makes four of them.
const POINTS_PER_SUM: u32 = 4;

/// The places of all endpoints.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    /// Each point once, in ascending order, with the index of its endpoint.
    places: Vec<(u32, u32)>,
}

impl Ring {
    /// The ring of endpoints, by their addresses (`host:port`) in the order of their indexes.
    ///
    /// Each has `nodes` places, rounded down to a multiple of four, and at least four. Of two with
    /// the same place the later one has it.
    #[must_use]
    pub fn new<'a>(nodes: u32, addresses: impl IntoIterator<Item = &'a str>) -> Self {
        let n_sums = (nodes / POINTS_PER_SUM).max(1);
        let mut places = Vec::new();
        for (address, index) in addresses.into_iter().zip(0_u32..) {
            for number in 0..n_sums {
                let sum = Md5::new().chain_update(address).chain_update(number.to_string());
                let sum = sum.finalize();
                let (points, _) = sum.as_chunks();
                places.extend(points.iter().map(|point| (u32::from_le_bytes(*point), index)));
            }
        }
        // The later one comes first, and stays.
        places.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        places.dedup_by_key(|(point, _)| *point);
        Self { places }
    }

    /// The point of a key. Dubbo's key is the text of the arguments that count, one after the
    /// other.
    #[must_use]
    pub fn point(key: &str) -> u32 {
        let sum = Md5::digest(key);
        sum.first_chunk().map_or(0, |first: &[u8; 4]| u32::from_le_bytes(*first))
    }

    /// The index of the endpoint that comes next after `point` and that is `usable`: where a ring
    /// without the others would lead.
    pub fn pick(&self, point: u32, usable: impl Fn(u32) -> bool) -> Option<u32> {
        self.after(point).find(|index| usable(*index))
    }

    /// The endpoints of the places after `point`, once around.
    fn after(&self, point: u32) -> impl Iterator<Item = u32> + '_ {
        let start = self.places.partition_point(|(place, _)| *place < point);
        let (before, after) = self.places.split_at(start);
        after.iter().chain(before).map(|(_, index)| *index)
    }
}

/// Which endpoints of a balancer the places of a ring are.
#[derive(Clone, Debug, Default)]
pub struct Affinity {
    ring: Ring,
    slots: Vec<Slot>,
}

impl Affinity {
    /// Of the endpoints in these slots, by their addresses, with so many places each.
    #[must_use]
    pub fn new<'a>(nodes: u32, endpoints: impl IntoIterator<Item = (&'a str, Slot)>) -> Self {
        let (addresses, slots): (Vec<&str>, Vec<Slot>) = endpoints.into_iter().unzip();
        Self { ring: Ring::new(nodes, addresses), slots }
    }

    /// The endpoints in the order in which calls with this point prefer them, each once.
    pub(crate) fn order(&self, point: u32) -> impl Iterator<Item = Slot> + '_ {
        // The first one is nearly always taken.
        let mut seen = Vec::new();
        let next = self.ring.after(point).filter(move |index| {
            let is_new = !seen.contains(index);
            if is_new {
                seen.push(*index);
            }
            is_new
        });
        next.take(self.slots.len()).filter_map(|index| self.slots.get(index as usize).copied())
    }
}
