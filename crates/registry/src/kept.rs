//! What is known of a list of entries, whatever their store does. Time is an argument; nothing
//! here waits.
//!
//! Invariants:
//! - Only a list that was read takes entries away: being away never does.
//! - Entries of a history that got lost stay for the grace, and not longer. They stay, too, while
//!   the store is away again.
//! - Where there are too many entries, what cannot be used makes room for what can.
//! - What a new list has as it was stays what it was: its parameters are not there twice, however
//!   often a store tells the whole list.
//! - The list counts as current only while the store can be read and nothing is kept from a
//!   history that got lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::endpoint::Freshness;
use crate::layout::BadEntry;
use crate::list_counts::ListCounts;
use crate::refusals::Refusals;
use crate::store::{Change, EntryKey, Item, Known, News};

/// Entries of one list: more than any service has instances, and few enough for an agent's memory.
pub(crate) const MAX_ENTRIES: usize = 50_000;

/// As much of a key that cannot be read as anybody is shown.
const MAX_SHOWN_LEN: usize = 200;

/// A key for an operator, or its beginning.
pub(crate) fn shown_key(key: &[u8]) -> String {
    let end = key.len().min(MAX_SHOWN_LEN * char::MAX.len_utf8());
    let key = String::from_utf8_lossy(key.get(..end).unwrap_or_default());
    key.chars().take(MAX_SHOWN_LEN).collect()
}

/// The entries of one list.
#[derive(Debug)]
pub(crate) struct Kept<E> {
    /// What the list is of, for the operator.
    name: String,
    grace: Duration,
    /// Whether an entry of a history that got lost stays for a while.
    outlives: fn(&E) -> bool,
    /// All entries. `Ok(None)` for one that is not for us.
    entries: Entries<E>,
    /// Entries of a history that got lost, kept until their owners had time to register again.
    ghosts: BTreeMap<EntryKey, E>,
    ghosts_until: Option<Instant>,
    freshness: Freshness,
    /// Why the store does not tell the list, although it can be reached.
    refusal: Option<String>,
    max_entries: usize,
    /// Whether some entry may be one that cannot be used: no need to look for one otherwise.
    may_have_useless: bool,
    refusals: Refusals,
}

type Entries<E> = BTreeMap<EntryKey, Result<Option<E>, BadEntry>>;

fn is_usable<E>(read: &Result<Option<E>, BadEntry>) -> bool {
    matches!(read, Ok(Some(_)))
}

impl<E: Clone + PartialEq> Kept<E> {
    pub(crate) fn new(name: String, grace: Duration, outlives: fn(&E) -> bool) -> Self {
        Self {
            name,
            grace,
            outlives,
            entries: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            ghosts_until: None,
            freshness: Freshness::Pending,
            refusal: None,
            max_entries: MAX_ENTRIES,
            may_have_useless: false,
            refusals: Refusals::default(),
        }
    }

    /// Counts here what is refused and left out.
    pub(crate) fn count_in(&mut self, counts: Arc<ListCounts>) {
        self.refusals.count_in(counts);
    }

    /// What the list is of.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// How far the list can be trusted.
    pub(crate) fn freshness(&self) -> Freshness {
        match self.freshness {
            Freshness::Current if self.ghosts_until.is_some() => Freshness::Stale,
            freshness => freshness,
        }
    }

    /// The entries in use. Those of a history that got lost come first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&EntryKey, &E)> {
        let read = self.entries.iter();
        let read = read.filter_map(|(key, read)| Some((key, read.as_ref().ok()?.as_ref()?)));
        self.ghosts.iter().chain(read)
    }

    /// What cannot be read.
    pub(crate) fn bad(&self) -> impl Iterator<Item = (&EntryKey, &BadEntry)> {
        self.entries.iter().filter_map(|(key, read)| Some((key, read.as_ref().err()?)))
    }

    /// Why the store refuses to tell the list now.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// Takes over what a store knows without asking.
    pub(crate) fn handle_known(&mut self, known: Known<E>) {
        self.replace(known.items, 0);
        self.freshness = known.status;
    }

    pub(crate) fn handle_news(&mut self, news: News<E>, now: Instant) {
        self.refusal = None;
        match news {
            News::Whole { items, n_cut, history_lost, refusal } => {
                let before = self.replace(items, n_cut);
                if history_lost {
                    self.keep_as_ghosts(before, now);
                }
                let entries = &self.entries;
                self.ghosts.retain(|key, _| !entries.contains_key(key));
                if history_lost && !self.ghosts.is_empty() {
                    tracing::warn!(
                        list = self.name,
                        missing = self.ghosts.len(),
                        grace = ?self.grace,
                        "the registry came back without all of its history; what was known before \
                         stays in use for a while",
                    );
                }
                self.freshness = Freshness::Current;
                if let Some(reason) = refusal {
                    self.handle_refused(&reason);
                }
            }
            News::Known(known) => self.handle_known(known),
            News::Changes(changes) => {
                for change in changes {
                    self.apply(change);
                }
            }
        }
        if self.ghosts.is_empty() {
            self.ghosts_until = None;
        }
    }

    /// The store cannot be read: what is known stays.
    pub(crate) fn handle_away(&mut self) {
        self.refusal = None;
        if self.freshness == Freshness::Current {
            self.freshness = Freshness::Stale;
        }
    }

    /// The store can be reached, and does not tell the list, or a part of it: what is known stays.
    pub(crate) fn handle_refused(&mut self, reason: &str) {
        self.handle_away();
        self.refusal = Some(reason.chars().take(MAX_SHOWN_LEN).collect());
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.ghosts_until.filter(|_| self.freshness == Freshness::Current)
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|due| due <= now) {
            self.ghosts.clear();
            self.ghosts_until = None;
        }
    }

    /// Takes over a whole list, of which the store has cut off so many; returns the one before.
    fn replace(&mut self, mut items: Vec<Item<E>>, n_cut: usize) -> Entries<E> {
        let n_over = items.len().saturating_sub(self.max_entries);
        if 0 < n_over {
            items.sort_by_key(|item| !is_usable(&item.read));
        }
        self.leave_out(n_cut + n_over);
        for Item { key, read } in items.iter().take(self.max_entries) {
            self.say_if_bad(key, read);
        }
        let items = items.into_iter().take(self.max_entries);
        let kept = |Item { key, read }| match self.entries.get(&key) {
            Some(known) if *known == read => (key, known.clone()),
            _ => (key, read),
        };
        let entries = items.map(kept).collect();
        self.may_have_useless = true;
        std::mem::replace(&mut self.entries, entries)
    }

    /// So many entries are left out now. Says so when that begins.
    fn leave_out(&mut self, n_left_out: usize) {
        if self.refusals.handle_left_out(n_left_out) {
            tracing::warn!(
                list = self.name,
                left_out = n_left_out,
                max = self.max_entries,
                "the list has more entries than an agent takes; the rest is left out until the \
                 whole list is read again and has fewer. Remove entries of instances that are gone"
            );
        }
    }

    fn apply(&mut self, change: Change<E>) {
        match change {
            Change::Put(Item { key, read }) => {
                self.ghosts.remove(&key);
                let is_full = self.max_entries <= self.entries.len();
                if is_full && !self.entries.contains_key(&key) {
                    self.leave_out(self.refusals.n_left_out().saturating_add(1));
                    if !is_usable(&read) || !self.make_room() {
                        return;
                    }
                }
                self.say_if_bad(&key, &read);
                self.may_have_useless |= !is_usable(&read);
                self.entries.insert(key, read);
            }
            Change::Gone(key) => {
                self.ghosts.remove(&key);
                self.entries.remove(&key);
            }
        }
    }

    /// Leaves out an entry that cannot be used; `false` if there is none.
    fn make_room(&mut self) -> bool {
        if !self.may_have_useless {
            return false;
        }
        let useless = self.entries.iter().rev().find(|(_, read)| !is_usable(read));
        let useless = useless.map(|(key, _)| key.clone());
        self.may_have_useless = useless.is_some();
        useless.is_some_and(|key| self.entries.remove(&key).is_some())
    }

    /// A warning about an entry that is bad and was not so before. One that only went away in the
    /// meantime is worth no second one.
    fn say_if_bad(&mut self, key: &EntryKey, read: &Result<Option<E>, BadEntry>) {
        let Err(error) = read else { return self.refusals.handle_good(key) };
        let known = self.entries.get(key).and_then(|known| known.as_ref().err());
        if known != Some(error) && self.refusals.handle_bad(key, error) {
            tracing::warn!(key = shown_key(key), %error, "registry key skipped");
        }
    }

    fn keep_as_ghosts(&mut self, before: Entries<E>, now: Instant) {
        let usable = before.into_iter().filter_map(|(key, read)| Some((key, read.ok()??)));
        let outlives = self.outlives;
        self.ghosts.extend(usable.filter(|(_, entry)| outlives(entry)));
        self.ghosts_until = Some(now + self.grace);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(n: u8) -> Item<u8> {
        Item { key: vec![n], read: Ok(Some(n)) }
    }

    #[test]
    fn a_long_key_makes_no_long_line() {
        assert_eq!(shown_key(b"/a/b"), "/a/b");
        assert_eq!(shown_key("\u{1f600}".repeat(1 << 18).as_bytes()).chars().count(), 200);
        assert_eq!(shown_key(&[0xff; 1 << 20]).chars().count(), 200);
    }

    /// A writer gone wild must not take an agent's memory, nor what was known before.
    #[test]
    fn a_list_without_end_is_cut() {
        let mut kept = Kept::new("a.B".to_owned(), Duration::ZERO, |_| true);
        kept.max_entries = 3;
        let now = Instant::now();
        let whole =
            |items: Vec<_>| News::Whole { items, n_cut: 0, history_lost: false, refusal: None };
        let shown = |kept: &Kept<u8>| kept.entries().map(|(_, n)| *n).collect::<Vec<_>>();
        kept.handle_news(whole((1..=5).map(item).collect()), now);
        assert_eq!((shown(&kept), kept.refusals.n_left_out()), (vec![1, 2, 3], 2));
        // What is there may change, and what goes makes room.
        let changes = vec![Change::Put(item(6)), Change::Put(item(3)), Change::Gone(vec![1])];
        kept.handle_news(News::Changes(changes), now);
        assert_eq!((shown(&kept), kept.refusals.n_left_out()), (vec![2, 3], 3));
        kept.handle_news(News::Changes(vec![Change::Put(item(7))]), now);
        assert_eq!(shown(&kept), [2, 3, 7]);
        kept.handle_news(whole(vec![item(9)]), now);
        assert_eq!((shown(&kept), kept.refusals.n_left_out()), (vec![9], 0));
    }

    /// However much garbage there is, and wherever it is in the list.
    #[test]
    fn what_can_be_used_comes_before_what_cannot() {
        let mut kept = Kept::new("a.B".to_owned(), Duration::ZERO, |_| true);
        kept.max_entries = 3;
        let now = Instant::now();
        let bad = |n: u8| Item { key: vec![n], read: Err(BadEntry::NoHost) };
        let other = |n: u8| Item { key: vec![n], read: Ok(None) };
        let shown = |kept: &Kept<u8>| kept.entries().map(|(_, n)| *n).collect::<Vec<_>>();
        let items = vec![bad(1), bad(2), other(3), bad(4), item(8)];
        kept.handle_news(News::Whole { items, n_cut: 0, history_lost: false, refusal: None }, now);
        assert_eq!((shown(&kept), kept.refusals.n_left_out()), (vec![8], 2));
        let put = |items: Vec<_>| News::Changes(items.into_iter().map(Change::Put).collect());
        kept.handle_news(put(vec![bad(5), item(9), item(7), item(6)]), now);
        assert_eq!((shown(&kept), kept.refusals.n_left_out()), (vec![7, 8, 9], 6));
        // There is nothing to look for any more, until one of them goes bad.
        assert!(!kept.may_have_useless);
        kept.handle_news(put(vec![item(5), bad(8), item(4)]), now);
        assert_eq!((shown(&kept), kept.refusals.n_left_out()), (vec![4, 7, 9], 8));
    }

    /// A store that tells the whole list with each change must not make every reader keep it anew.
    #[test]
    fn what_is_as_it_was_stays_what_it_was() {
        let mut kept = Kept::new("a.B".to_owned(), Duration::ZERO, |_| true);
        let now = Instant::now();
        let item = |key: u8, text: &str| Item { key: vec![key], read: Ok(Some(Arc::from(text))) };
        let whole = |items: Vec<Item<Arc<str>>>| News::Whole {
            items,
            n_cut: 0,
            history_lost: false,
            refusal: None,
        };
        let shown = |kept: &Kept<Arc<str>>| {
            kept.entries().map(|(_, text)| Arc::clone(text)).collect::<Vec<_>>()
        };
        kept.handle_news(whole(vec![item(1, "x"), item(2, "y")]), now);
        let before = shown(&kept);
        kept.handle_news(whole(vec![item(1, "x"), item(2, "z")]), now);
        let after = shown(&kept);
        assert!(Arc::ptr_eq(&before[0], &after[0]));
        assert_eq!(&*after[1], "z");
    }

    /// A key that goes and comes back with the same fault is counted, and said once.
    #[test]
    fn a_bad_key_that_flaps_is_remembered() {
        let mut kept = Kept::<u8>::new("a.B".to_owned(), Duration::ZERO, |_| true);
        let counts = Arc::new(ListCounts::default());
        kept.count_in(Arc::clone(&counts));
        let bad = || Item { key: vec![1], read: Err(BadEntry::NoHost) };
        let flap = || vec![Change::Put(bad()), Change::Put(bad()), Change::Gone(vec![1])];
        for _ in 0..3 {
            kept.handle_news(News::Changes(flap()), Instant::now());
        }
        assert_eq!(counts.refused(), 3);
        assert!(!kept.refusals.handle_bad(&vec![1], &BadEntry::NoHost), "it is said already");
    }

    /// What the store itself has cut off is left out as well.
    #[test]
    fn what_a_store_cuts_off_counts_as_left_out() {
        let mut kept = Kept::new("a.B".to_owned(), Duration::ZERO, |_| true);
        kept.max_entries = 2;
        let items = (1..=3).map(item).collect();
        kept.handle_news(
            News::Whole { items, n_cut: 4, history_lost: false, refusal: None },
            Instant::now(),
        );
        assert_eq!(kept.refusals.n_left_out(), 5);
    }
}
