//! Which entries of a list were refused or left out: said once, and counted always. Pure.
//!
//! Invariant: what is remembered of keys that come and go has a bound, whatever a writer does.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::layout::BadEntry;
use crate::list_counts::ListCounts;
use crate::store::EntryKey;

/// Keys whose refusal is remembered: as many as a list has entries. Each takes 16 bytes.
const MAX_SAID: usize = 50_000;

/// What is refused or left out of one list.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// The hash of each key whose refusal was said, with that of its reason. Two keys of one hash
    /// cost a line of the log, at most.
    said: HashMap<u64, u64>,
    n_left_out: usize,
    counts: Arc<ListCounts>,
}

impl Refusals {
    /// Counts here from now on. Nothing was counted before.
    pub(crate) fn count_in(&mut self, counts: Arc<ListCounts>) {
        self.counts = counts;
    }

    /// An entry is refused that was not there before, or was something else. Returns whether that
    /// is to be said: not if it was, for this reason, and the key was never good since.
    #[must_use]
    pub(crate) fn handle_bad(&mut self, key: &EntryKey, error: &BadEntry) -> bool {
        self.counts.note_refused();
        let (key, reason) = (hash(key), hash(&error.to_string()));
        if self.said.len() >= MAX_SAID && !self.said.contains_key(&key) {
            self.said.clear();
        }
        self.said.insert(key, reason) != Some(reason)
    }

    /// An entry is good: what is wrong with it later is news.
    pub(crate) fn handle_good(&mut self, key: &EntryKey) {
        if !self.said.is_empty() {
            self.said.remove(&hash(key));
        }
    }

    /// So many entries are left out now. Returns whether that begins.
    #[must_use]
    pub(crate) fn handle_left_out(&mut self, n_left_out: usize) -> bool {
        let before = std::mem::replace(&mut self.n_left_out, n_left_out);
        self.counts.change_left_out(before, n_left_out);
        before == 0 && 0 < n_left_out
    }

    pub(crate) fn n_left_out(&self) -> usize {
        self.n_left_out
    }
}

impl Drop for Refusals {
    fn drop(&mut self) {
        self.counts.change_left_out(self.n_left_out, 0);
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_comes_and_goes_is_said_once_and_counted_each_time() {
        let (mut refusals, counts) = (Refusals::default(), Arc::new(ListCounts::default()));
        refusals.count_in(Arc::clone(&counts));
        let (key, other) = (b"k".to_vec(), b"l".to_vec());
        assert!(refusals.handle_bad(&key, &BadEntry::NoHost));
        assert!(!refusals.handle_bad(&key, &BadEntry::NoHost));
        assert!(refusals.handle_bad(&other, &BadEntry::NoHost));
        // Another reason is news, and so is the first one after it.
        assert!(refusals.handle_bad(&key, &BadEntry::NotText));
        assert!(refusals.handle_bad(&key, &BadEntry::NoHost));
        refusals.handle_good(&key);
        assert!(refusals.handle_bad(&key, &BadEntry::NoHost));
        assert_eq!(counts.refused(), 6);
    }

    #[test]
    fn a_writer_that_makes_up_keys_takes_no_memory() {
        let mut refusals = Refusals::default();
        for n in 0..2 * MAX_SAID + 1 {
            let _ = refusals.handle_bad(&n.to_be_bytes().to_vec(), &BadEntry::NoHost);
            assert!(refusals.said.len() <= MAX_SAID);
        }
    }

    #[test]
    fn what_is_left_out_counts_while_the_list_is_there() {
        let (mut refusals, counts) = (Refusals::default(), Arc::new(ListCounts::default()));
        refusals.count_in(Arc::clone(&counts));
        let said = [0, 3, 5, 0, 2].map(|n| (refusals.handle_left_out(n), counts.left_out()));
        assert_eq!(said, [(false, 0), (true, 3), (false, 5), (false, 0), (true, 2)]);
        drop(refusals);
        assert_eq!(counts.left_out(), 0);
    }
}
