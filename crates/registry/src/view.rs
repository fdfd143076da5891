//! What a subscriber of one service sees: what its store has of it, and what is found at
//! application level.

use std::sync::Arc;

use dubbo_proto::ServiceKey;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::application::Found;
use crate::endpoint::{Freshness, NotUsed, Snapshot, Unused};
use crate::entry_list::EntryList;
use crate::follow::{open_change, publish, rest_after};
use crate::layout::Entry;
use crate::listing::{Leftover, resolve, unused};
use crate::missing::complete;
use crate::remembered::Fallback;

/// What cannot be read if the store refuses to tell the entries of a service.
const LIST: &str = "the list of its providers";

/// What a subscriber sees of the lists that he shares with others.
#[derive(Debug)]
pub(crate) struct View {
    wanted: ServiceKey,
    list: watch::Receiver<EntryList>,
    /// What is found at application level, if the store has that.
    found: Option<watch::Receiver<Found>>,
    /// What is shown as long as nothing is known.
    fallback: Option<Fallback>,
}

impl View {
    pub(crate) fn new(
        wanted: ServiceKey,
        list: watch::Receiver<EntryList>,
        found: Option<watch::Receiver<Found>>,
        fallback: Option<Fallback>,
    ) -> Self {
        Self { wanted, list, found, fallback }
    }

    /// Shows what there is, until its task is aborted.
    pub(crate) async fn run(mut self, shown: Arc<watch::Sender<Snapshot>>) {
        loop {
            let began = Instant::now();
            publish(&shown, self.snapshot());
            sleep_until(rest_after(began, Instant::now())).await;
            self.changed().await;
        }
    }

    /// What a subscriber sees.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let list = self.list.borrow().clone();
        let found = self.found.as_ref().map(|found| found.borrow().clone());
        // Nobody is to see half of a list first.
        let is_settled = found.as_ref().is_none_or(|found| found.is_settled);
        let status = if is_settled { list.freshness } else { Freshness::Pending };
        let fallback = self.fallback.as_ref().filter(|_| status == Freshness::Pending);
        if let Some(snapshot) = fallback.and_then(Fallback::snapshot) {
            return snapshot;
        }
        // Of two with one address, the last one counts. What the provider has written for this
        // service says more than what it has written for all of its services.
        let both = || found.iter().map(|found| &found.entries).chain([&list.entries]);
        let entries: Vec<_> = both().flat_map(|it| it.of(&self.wanted)).collect();
        let listed = entries.iter().filter_map(|it| match &it.entry {
            Entry::Listing(listing) => Some(&**listing),
            Entry::Leftover(_) | Entry::Named { .. } => None,
        });
        let leftovers = entries.iter().filter_map(|it| match &it.entry {
            Entry::Leftover(leftover) => Some(&**leftover),
            Entry::Listing(_) | Entry::Named { .. } => None,
        });
        let refused = list.refusal.iter().map(|error| self.unreadable(LIST, error));
        let bad = list.bad.iter().map(|(key, error)| self.unreadable(key, error));
        let bad: Vec<_> = refused.chain(bad).collect();
        let endpoints = resolve(&self.wanted, listed);
        let unused = unused(&self.wanted, leftovers.chain(&bad));
        let others: Vec<_> = both().flat_map(|it| it.others(&self.wanted)).collect();
        let others = others.iter().filter_map(|it| it.entry.other_variant(&self.wanted));
        let unused = complete(&self.wanted, !endpoints.is_empty(), others, unused);
        Snapshot { status, endpoints, unused: unused.into() }
    }

    /// Nobody knows for which version and group it was meant, so every subscriber hears of it.
    fn unreadable(&self, what: &str, error: &str) -> Leftover {
        let reason = NotUsed::Unreadable(error.to_owned());
        let unused = Unused { what: what.to_owned(), address: None, reason };
        let ServiceKey { version, group, .. } = self.wanted.clone();
        Leftover { version, group, unused }
    }

    /// Waits until something has changed.
    async fn changed(&mut self) {
        let Self { list, found, .. } = self;
        let found = async {
            match found {
                Some(found) => open_change(found).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = open_change(list) => {}
            () = found => {}
        }
    }
}

#[cfg(test)]
mod tests;
