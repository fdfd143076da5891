//! The registry inside one process: a hub that hands registrations to subscriptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dubbo_proto::ServiceKey;
use tokio::sync::watch;

use crate::address;
use crate::directory::{Directory, Presence, Variant};
use crate::endpoint::{Freshness, Registration, Snapshot};
use crate::listing::{Leftover, Listing, resolve, unused};

/// Everything that is registered in one process. Clones share it.
#[derive(Clone, Debug)]
pub struct MemoryHub {
    table: watch::Sender<Table>,
    next_id: Arc<AtomicU64>,
}

impl Default for MemoryHub {
    fn default() -> Self {
        let table = Table::new(Freshness::Current, Vec::new(), Vec::new());
        Self { table: watch::Sender::new(table), next_id: Arc::default() }
    }
}

impl MemoryHub {
    /// A hub without services.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The URLs of all that is registered now.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.table.borrow().rows.iter().map(|row| row.url.clone()).collect()
    }

    pub(crate) fn table(&self) -> watch::Receiver<Table> {
        self.table.subscribe()
    }

    /// Returns the number under which `remove` finds it.
    pub(crate) fn insert(&self, registration: &Registration) -> u64 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let interface = registration.service.interface.clone();
        // Through the form of a URL, so that what is said and what is not is the same everywhere.
        let url = address::url(registration);
        let text = url.to_string();
        if let Some(listing) = address::listing(url) {
            let row = Row { id, interface, listing, url: text };
            self.table.send_modify(|table| {
                table.directory.add(&row.interface, row.variant());
                table.rows.push(row);
            });
        }
        id
    }

    pub(crate) fn remove(&self, id: u64) {
        self.table.send_modify(|table| {
            table.rows.retain(|row| row.id != id);
            table.directory = directory(&table.rows, &table.leftovers);
        });
    }
}

/// All services of a registry that is small enough to hold in one piece: memory and file.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) status: Freshness,
    pub(crate) rows: Vec<Row>,
    /// What is registered beside the rows and cannot be used, by interface.
    leftovers: Vec<(String, Leftover)>,
    /// Of rows and leftovers.
    directory: Directory,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) interface: String,
    pub(crate) listing: Listing,
    /// As it was written.
    pub(crate) url: String,
}

fn directory(rows: &[Row], leftovers: &[(String, Leftover)]) -> Directory {
    let mut directory = Directory::default();
    rows.iter().for_each(|row| directory.add(&row.interface, row.variant()));
    for (interface, Leftover { version, group, .. }) in leftovers {
        directory.add(interface, Some((version.as_str().into(), group.as_str().into())));
    }
    directory
}

impl Row {
    fn variant(&self) -> Variant {
        Some((self.listing.version.as_str().into(), self.listing.group.as_str().into()))
    }
}

impl Table {
    pub(crate) fn new(
        status: Freshness,
        rows: Vec<Row>,
        leftovers: Vec<(String, Leftover)>,
    ) -> Self {
        Self { status, directory: directory(&rows, &leftovers), rows, leftovers }
    }

    pub(crate) fn presence(&self, wanted: &ServiceKey) -> Presence {
        match self.status {
            _ if self.directory.is_full() => Presence::Unknown,
            _ if self.directory.offers(wanted) => Presence::Offered,
            Freshness::Current => Presence::Absent,
            Freshness::Pending | Freshness::Stale => Presence::Unknown,
        }
    }

    pub(crate) fn snapshot(&self, wanted: &ServiceKey) -> Snapshot {
        let of_interface = self.rows.iter().filter(|row| row.interface == wanted.interface);
        let endpoints = resolve(wanted, of_interface.map(|row| &row.listing));
        let leftovers = self.leftovers.iter().filter(|(name, _)| *name == wanted.interface);
        let unused = unused(wanted, leftovers.map(|(_, leftover)| leftover));
        Snapshot { status: self.status, endpoints, unused }
    }
}

/// Keeps the snapshot of one service up to date until the table's owner is gone.
pub(crate) async fn follow(
    mut table: watch::Receiver<Table>,
    wanted: ServiceKey,
    snapshots: watch::Sender<Snapshot>,
) {
    while table.changed().await.is_ok() {
        let snapshot = table.borrow_and_update().snapshot(&wanted);
        publish(&snapshots, snapshot);
    }
}

/// Wakes the subscribers only if something has changed.
pub(crate) fn publish(snapshots: &watch::Sender<Snapshot>, snapshot: Snapshot) {
    snapshots.send_if_modified(|current| {
        let changed = *current != snapshot;
        *current = snapshot;
        changed
    });
}
