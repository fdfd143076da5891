//! Services of a store that holds all of them in one piece, and tells of every change at once.

use dubbo_proto::ServiceKey;
use tokio::sync::watch;

use crate::definitions::Away;
use crate::directory::{Directory, Presence, Variant};
use crate::endpoint::Freshness;
use crate::layout::Entry;
use crate::listing::{Leftover, Listing};
use crate::store::{Item, Known, News, StoreError, Wait, Watch};

/// All services of a store: memory and file.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) status: Freshness,
    rows: Vec<Row>,
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

    /// The interfaces that it has rows or leftovers of.
    pub(crate) fn interfaces(&self) -> Result<Vec<String>, Away> {
        match self.status {
            Freshness::Pending => Err(Away("its list cannot be read".to_owned())),
            Freshness::Current | Freshness::Stale => Ok(self.directory.interfaces()),
        }
    }

    /// A list that an operator has written.
    pub(crate) fn written(mut rows: Vec<Row>, leftovers: Vec<(String, Leftover)>) -> Self {
        rows.iter_mut().for_each(|row| row.listing.endpoint.is_written = true);
        Self::new(Freshness::Current, rows, leftovers)
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.directory.add(&row.interface, row.variant());
        self.rows.push(row);
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.rows.retain(|row| row.id != id);
        self.directory = directory(&self.rows, &self.leftovers);
    }

    /// The entries of a service, keyed by their place in the table: the later one counts.
    fn items(&self, wanted: &ServiceKey) -> Vec<Item> {
        let rows = self.rows.iter().filter(|row| row.interface == wanted.interface);
        let listings = rows.map(|row| Entry::Listing(row.listing.clone()));
        let leftovers = self.leftovers.iter().filter(|(name, _)| *name == wanted.interface);
        let leftovers = leftovers.map(|(_, leftover)| Entry::Leftover(leftover.clone()));
        let item = |(n, entry): (usize, Entry)| Item {
            key: n.to_be_bytes().to_vec(),
            read: Ok(Some(entry)),
        };
        listings.chain(leftovers).enumerate().map(item).collect()
    }
}

/// The watch of one service of a table.
pub(crate) struct TableWatch {
    table: watch::Receiver<Table>,
    wanted: ServiceKey,
}

impl TableWatch {
    pub(crate) fn new(table: watch::Receiver<Table>, wanted: &ServiceKey) -> Self {
        Self { table, wanted: wanted.clone() }
    }
}

impl Watch for TableWatch {
    fn known(&mut self) -> Option<Known> {
        let table = self.table.borrow_and_update();
        let status = table.status;
        let is_known = status != Freshness::Pending;
        is_known.then(|| Known { items: table.items(&self.wanted), status })
    }

    /// A table that is away says so itself, by its status.
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(async { self.table.has_changed().is_ok() })
    }

    fn next(&mut self) -> Wait<'_, Result<News, StoreError>> {
        Box::pin(async {
            if self.table.changed().await.is_err() {
                return Err(StoreError::Away);
            }
            let table = self.table.borrow_and_update();
            match table.status {
                Freshness::Current => Ok(News::Whole {
                    items: table.items(&self.wanted),
                    n_cut: 0,
                    history_lost: false,
                }),
                Freshness::Pending | Freshness::Stale => Err(StoreError::Away),
            }
        })
    }

    /// Who fills the table has reported it.
    fn report(&mut self, _error: &str) -> bool {
        false
    }
}
