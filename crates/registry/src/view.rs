//! What a subscriber of one service sees: what its store has of it, and what is found at
//! application level.

use std::time::Duration;

use dubbo_proto::ServiceKey;
use tokio::sync::watch;

use crate::application::Found;
use crate::endpoint::{Freshness, MAX_UNUSED, NotUsed, Snapshot, Unused};
use crate::follow::Followed;
use crate::kept::{Kept, shown_key};
use crate::layout::Entry;
use crate::listing::{Leftover, resolve, unused};
use crate::missing::complete;
use crate::remembered::Fallback;
use crate::store::Wait;

/// What cannot be read if the store refuses to tell the entries of a service.
const LIST: &str = "the list of its providers";

/// The entries of one service, and what a subscriber sees of them.
#[derive(Debug)]
pub(crate) struct View {
    wanted: ServiceKey,
    kept: Kept<Entry>,
    /// What is found at application level, if the store has that.
    found: Option<watch::Receiver<Found>>,
    /// What is shown as long as nothing is known.
    fallback: Option<Fallback>,
}

impl View {
    pub(crate) fn new(
        wanted: ServiceKey,
        grace: Duration,
        found: Option<watch::Receiver<Found>>,
        fallback: Option<Fallback>,
    ) -> Self {
        let outlives = |entry: &Entry| matches!(entry, Entry::Listing(_));
        let kept = Kept::new(wanted.to_string(), grace, outlives);
        Self { wanted, kept, found, fallback }
    }

    /// What a subscriber sees.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let found = self.found.as_ref().map(watch::Receiver::borrow);
        let (is_settled, found) = match &found {
            Some(found) => (found.is_settled, &*found.entries),
            None => (true, &[][..]),
        };
        // Nobody is to see half of a list first.
        let status = if is_settled { self.kept.freshness() } else { Freshness::Pending };
        let fallback = self.fallback.as_ref().filter(|_| status == Freshness::Pending);
        if let Some(snapshot) = fallback.and_then(Fallback::snapshot) {
            return snapshot;
        }
        // Of two with one address, the last one counts. What the provider has written for this
        // service says more than what it has written for all of its services.
        let entries = || found.iter().chain(self.kept.entries().map(|(_, entry)| entry));
        let listed = entries().filter_map(|entry| match entry {
            Entry::Listing(listing) => Some(listing),
            Entry::Leftover(_) | Entry::Named { .. } => None,
        });
        let leftovers = entries().filter_map(|entry| match entry {
            Entry::Leftover(leftover) => Some(leftover),
            Entry::Listing(_) | Entry::Named { .. } => None,
        });
        // No more are shown: there may be thousands, with each change.
        let bad = self.kept.bad().take(MAX_UNUSED);
        let bad = bad.map(|(key, error)| self.unreadable(shown_key(key), error.to_string()));
        let refused =
            self.kept.refusal().map(|error| self.unreadable(LIST.to_owned(), error.to_owned()));
        let bad: Vec<_> = refused.into_iter().chain(bad).collect();
        let endpoints = resolve(&self.wanted, listed);
        let unused = unused(&self.wanted, leftovers.chain(&bad));
        let unused = complete(&self.wanted, !endpoints.is_empty(), entries(), unused);
        Snapshot { status, endpoints, unused: unused.into() }
    }

    /// Nobody knows for which version and group it was meant, so every subscriber hears of it.
    fn unreadable(&self, what: String, error: String) -> Leftover {
        let unused = Unused { what, address: None, reason: NotUsed::Unreadable(error) };
        let ServiceKey { version, group, .. } = self.wanted.clone();
        Leftover { version, group, unused }
    }
}

impl Followed<Entry> for View {
    type Shown = Snapshot;

    fn kept(&mut self) -> &mut Kept<Entry> {
        &mut self.kept
    }

    fn show(&self) -> Snapshot {
        self.snapshot()
    }

    fn changed(&mut self) -> Wait<'_, ()> {
        Box::pin(async {
            let is_open = match &mut self.found {
                Some(found) => found.changed().await.is_ok(),
                None => false,
            };
            if !is_open {
                std::future::pending::<()>().await;
            }
        })
    }
}

#[cfg(test)]
mod tests;
