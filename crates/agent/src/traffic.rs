//! What all workers' connections to an endpoint carry, together, and how many there are.
//!
//! On a network that is shared, a worker that opens connections gets more of it, and others get
//! less. Whether a connection helps is therefore told by what all of them carry.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Addresses that are remembered before those are forgotten to which nobody is connected.
const MIN_ADDRESSES: usize = 64;

/// What endpoints' connections carry, of all workers. Clones are handles to the same.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Arc<Mutex<Endpoints>>);

#[derive(Debug, Default)]
struct Endpoints {
    /// By what those have in common that share connections.
    known: HashMap<String, Weak<EndpointTraffic>>,
    max_len: usize,
}

/// What the connections to one endpoint carry.
#[derive(Debug, Default)]
pub struct EndpointTraffic {
    address: String,
    /// Bytes that came and went on those that have short messages.
    pub(crate) short: Arc<AtomicU64>,
    /// The same of those that have long ones.
    pub(crate) long: Arc<AtomicU64>,
    n_open: AtomicU64,
}

/// One connection that is open.
pub(crate) struct ConnectedEndpoint<'a>(&'a EndpointTraffic);

impl EndpointTraffic {
    /// One more is open, until the result is dropped.
    pub(crate) fn open(&self) -> ConnectedEndpoint<'_> {
        self.n_open.fetch_add(1, Relaxed);
        ConnectedEndpoint(self)
    }
}

impl Drop for ConnectedEndpoint<'_> {
    fn drop(&mut self) {
        self.0.n_open.fetch_sub(1, Relaxed);
    }
}

impl Traffic {
    /// That of the endpoint at `address`; `key` is what those have in common that share
    /// connections.
    pub(crate) fn of(&self, key: String, address: String) -> Arc<EndpointTraffic> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(traffic) = all.known.get(&key).and_then(Weak::upgrade) {
            return traffic;
        }
        if all.max_len <= all.known.len() {
            all.known.retain(|_, traffic| traffic.strong_count() != 0);
            all.max_len = (2 * all.known.len()).max(MIN_ADDRESSES);
        }
        let traffic = Arc::new(EndpointTraffic { address, ..EndpointTraffic::default() });
        all.known.insert(key, Arc::downgrade(&traffic));
        traffic
    }

    /// How many connections are open, by address.
    #[must_use]
    pub fn n_open(&self) -> BTreeMap<String, u64> {
        let mut n_open = BTreeMap::new();
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for traffic in all.known.values().filter_map(Weak::upgrade) {
            let n = traffic.n_open.load(Relaxed);
            match n_open.get_mut(&traffic.address) {
                Some(sum) => *sum += n,
                None => drop(n_open.insert(traffic.address.clone(), n)),
            }
        }
        n_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_is_that_of_all_who_are_there() {
        let traffic = Traffic::default();
        let of = |key: &str| traffic.clone().of(key.to_owned(), "a:1".to_owned());
        let first = of("a");
        assert!(Arc::ptr_eq(&first, &of("a")));
        assert!(!Arc::ptr_eq(&first, &of("b")));
        for n in 0..1000 {
            of(&n.to_string());
        }
        assert!(traffic.0.lock().unwrap().known.len() <= 2 * MIN_ADDRESSES);
        assert!(Arc::ptr_eq(&first, &of("a")));
    }

    #[test]
    fn connections_count_while_they_are_open() {
        let traffic = Traffic::default();
        let of = |key: &str, address: &str| traffic.of(key.to_owned(), address.to_owned());
        let (plain, secured) = (of("a:1", "a:1"), of("a:1 by TLS", "a:1"));
        let idle = of("b:1", "b:1");
        let open = [plain.open(), plain.open(), secured.open()];
        let counts = |n| BTreeMap::from([("a:1".to_owned(), n), ("b:1".to_owned(), 0)]);
        assert_eq!(traffic.n_open(), counts(3));
        drop(open);
        assert_eq!(traffic.n_open(), counts(0));
        drop((plain, secured, idle));
        assert!(traffic.n_open().is_empty());
    }
}
