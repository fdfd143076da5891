//! What is known of one service, whatever its store does. Time is an argument; nothing here waits.
//!
//! Invariants:
//! - Only a list that was read takes endpoints away: being away never does.
//! - Entries of a history that got lost stay for the grace, and not longer. They stay, too, while
//!   the store is away again.
//! - The list counts as current only while the store can be read and nothing is kept from a
//!   history that got lost.

use std::collections::BTreeMap;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use tokio::time::Instant;

use crate::endpoint::{Freshness, NotUsed, Snapshot, Unused};
use crate::layout::{BadEntry, Entry};
use crate::listing::{Leftover, Listing, resolve, unused};
use crate::store::{Change, EntryKey, Item, Known, News};

/// As much of a key that cannot be read as callers are shown.
const MAX_SHOWN_LEN: usize = 200;

/// The entries of one service, and what a subscriber sees of them.
#[derive(Debug)]
pub(crate) struct View {
    wanted: ServiceKey,
    grace: Duration,
    /// All entries. `None` for one that is not for us.
    entries: BTreeMap<EntryKey, Option<Entry>>,
    /// Endpoints of a history that got lost, kept until their owners had time to register again.
    ghosts: BTreeMap<EntryKey, Listing>,
    ghosts_until: Option<Instant>,
    freshness: Freshness,
}

impl View {
    pub(crate) fn new(wanted: ServiceKey, grace: Duration) -> Self {
        Self {
            wanted,
            grace,
            entries: BTreeMap::new(),
            ghosts: BTreeMap::new(),
            ghosts_until: None,
            freshness: Freshness::Pending,
        }
    }

    pub(crate) fn wanted(&self) -> &ServiceKey {
        &self.wanted
    }

    /// Takes over what a store knows without asking.
    pub(crate) fn handle_known(&mut self, known: Known) {
        self.replace(known.items);
        self.freshness = if known.is_current { Freshness::Current } else { Freshness::Stale };
    }

    pub(crate) fn handle_news(&mut self, news: News, now: Instant) {
        match news {
            News::Whole { items, history_lost } => {
                let before = self.replace(items);
                if history_lost {
                    self.keep_as_ghosts(before, now);
                }
                let entries = &self.entries;
                self.ghosts.retain(|key, _| !entries.contains_key(key));
                self.freshness = Freshness::Current;
            }
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
        if self.freshness == Freshness::Current {
            self.freshness = Freshness::Stale;
        }
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

    /// What a subscriber sees.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let status = match self.freshness {
            Freshness::Current if self.ghosts_until.is_some() => Freshness::Stale,
            freshness => freshness,
        };
        // The living come last: of two with one address, the last one counts.
        let listed = self.entries.values().flatten().filter_map(|entry| match entry {
            Entry::Listing(listing) => Some(listing),
            Entry::Leftover(_) => None,
        });
        let leftovers = self.entries.values().flatten().filter_map(|entry| match entry {
            Entry::Leftover(leftover) => Some(leftover),
            Entry::Listing(_) => None,
        });
        let endpoints = resolve(&self.wanted, self.ghosts.values().chain(listed));
        let unused = unused(&self.wanted, leftovers);
        Snapshot { status, endpoints, unused }
    }

    /// Takes over a whole list; returns the one before.
    fn replace(&mut self, items: Vec<Item>) -> BTreeMap<EntryKey, Option<Entry>> {
        let mut entries = BTreeMap::new();
        for Item { key, read } in items {
            let entry = self.entry(&key, read);
            entries.insert(key, entry);
        }
        std::mem::replace(&mut self.entries, entries)
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Put(Item { key, read }) => {
                self.ghosts.remove(&key);
                let entry = self.entry(&key, read);
                self.entries.insert(key, entry);
            }
            Change::Gone(key) => {
                self.ghosts.remove(&key);
                self.entries.remove(&key);
            }
        }
    }

    /// One entry, with a warning if it is bad and was not so before.
    fn entry(&self, key: &EntryKey, read: Result<Option<Entry>, BadEntry>) -> Option<Entry> {
        let error = match read {
            Ok(entry) => return entry,
            Err(error) => error,
        };
        let entry = Some(Entry::Leftover(self.unreadable(key, &error)));
        if self.entries.get(key) != Some(&entry) {
            let key = String::from_utf8_lossy(key);
            tracing::warn!(%key, %error, "registry key skipped");
        }
        entry
    }

    /// Nobody knows for which version and group it was meant, so every subscriber hears of it.
    fn unreadable(&self, key: &[u8], error: &BadEntry) -> Leftover {
        let key = String::from_utf8_lossy(key);
        let what = key.chars().take(MAX_SHOWN_LEN).collect();
        let unused = Unused { what, address: None, reason: NotUsed::Unreadable(error.to_string()) };
        let ServiceKey { version, group, .. } = self.wanted.clone();
        Leftover { version, group, unused }
    }

    fn keep_as_ghosts(&mut self, before: BTreeMap<EntryKey, Option<Entry>>, now: Instant) {
        tracing::warn!(
            service = %self.wanted,
            grace = ?self.grace,
            "the registry came back without its history; endpoints known before stay in use for a \
             while",
        );
        let usable = before.into_iter().filter_map(|(key, entry)| match entry? {
            Entry::Listing(listing) => Some((key, listing)),
            Entry::Leftover(_) => None,
        });
        self.ghosts.extend(usable);
        self.ghosts_until = Some(now + self.grace);
    }
}

#[cfg(test)]
mod tests;
