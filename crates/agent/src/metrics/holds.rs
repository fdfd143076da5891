//! Endpoints that are in use although their registry no longer lists them, by service.
//!
//! Every worker holds by itself what it is connected to. An endpoint counts once, however many
//! workers hold it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What all workers hold. Changes are rare, so they share it behind a lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Holds(Arc<Mutex<BTreeMap<String, Hold>>>);

#[derive(Debug, Default)]
struct Hold {
    /// How many workers hold an endpoint, by address.
    endpoints: BTreeMap<String, usize>,
    is_announced: bool,
}

/// An endpoint that one worker holds, until it is dropped.
#[derive(Debug)]
pub struct HeldEndpoint {
    all: Holds,
    service: String,
    address: String,
}

impl Holds {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, service: &str, address: &str) -> HeldEndpoint {
        let mut all = self.lock();
        let hold = all.entry(service.to_owned()).or_default();
        *hold.endpoints.entry(address.to_owned()).or_default() += 1;
        HeldEndpoint { all: self.clone(), service: service.to_owned(), address: address.to_owned() }
    }

    /// Whether the operator is to be told now that endpoints of a service are held.
    pub(super) fn announce(&self, service: &str) -> bool {
        let mut all = self.lock();
        all.get_mut(service).is_some_and(|hold| !std::mem::replace(&mut hold.is_announced, true))
    }

    /// Forgets a service of which nothing is held any more; true if the operator has been told
    /// that something was.
    pub(super) fn end(&self, service: &str) -> bool {
        let mut all = self.lock();
        let is_over = all.get(service).is_some_and(|hold| hold.endpoints.is_empty());
        is_over && all.remove(service).is_some_and(|hold| hold.is_announced)
    }

    /// How many endpoints are held, by service.
    pub(super) fn counts(&self) -> Vec<(String, u64)> {
        let all = self.lock();
        all.iter().map(|(service, hold)| (service.clone(), hold.endpoints.len() as u64)).collect()
    }
}

impl Drop for HeldEndpoint {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        let Some(hold) = all.get_mut(&self.service) else { return };
        let Some(n_workers) = hold.endpoints.get_mut(&self.address) else { return };
        *n_workers -= 1;
        if *n_workers == 0 {
            hold.endpoints.remove(&self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_counts_once_and_is_told_of_once() {
        let holds = Holds::default();
        assert!(!holds.announce("a.B"), "nothing is held");
        let of_two_workers = [holds.add("a.B", "h:1"), holds.add("a.B", "h:1")];
        let another = holds.add("a.B", "h:2");
        assert_eq!(holds.counts(), [("a.B".to_owned(), 2)]);
        assert!(holds.announce("a.B") && !holds.announce("a.B"));
        drop(of_two_workers);
        assert_eq!(holds.counts(), [("a.B".to_owned(), 1)]);
        assert!(!holds.end("a.B"), "one is left");
        drop(another);
        assert!(holds.end("a.B") && !holds.end("a.B"));
        assert_eq!(holds.counts(), []);
    }
}
