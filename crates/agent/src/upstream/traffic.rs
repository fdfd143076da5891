//! What all workers' connections to an endpoint carry, together.
//!
//! On a network that is shared, a worker that opens connections gets more of it, and others get
//! less. Whether a connection helps is therefore told by what all of them carry.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Addresses that are remembered before those are forgotten to which nobody is connected.
const MIN_ADDRESSES: usize = 64;

/// Bytes that came and went, by address; of all workers. Clones are handles to the same.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Arc<Mutex<Totals>>);

#[derive(Debug, Default)]
struct Totals {
    totals: HashMap<String, Weak<AtomicU64>>,
    max_len: usize,
}

impl Traffic {
    /// What counts the bytes of one endpoint's connections that have the same work.
    pub(super) fn of(&self, what: String) -> Arc<AtomicU64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(total) = all.totals.get(&what).and_then(Weak::upgrade) {
            return total;
        }
        if all.max_len <= all.totals.len() {
            all.totals.retain(|_, total| total.strong_count() != 0);
            all.max_len = (2 * all.totals.len()).max(MIN_ADDRESSES);
        }
        let total = Arc::<AtomicU64>::default();
        all.totals.insert(what, Arc::downgrade(&total));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_total_is_that_of_all_who_are_there() {
        let traffic = Traffic::default();
        let first = traffic.of("a".to_owned());
        assert!(Arc::ptr_eq(&first, &traffic.clone().of("a".to_owned())));
        assert!(!Arc::ptr_eq(&first, &traffic.of("b".to_owned())));
        for n in 0..1000 {
            traffic.of(n.to_string());
        }
        assert!(traffic.0.lock().unwrap().totals.len() <= 2 * MIN_ADDRESSES);
        assert!(Arc::ptr_eq(&first, &traffic.of("a".to_owned())));
    }
}
