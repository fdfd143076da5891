//! Services of a store that holds all of them in one piece, and tells of every change at once.

use std::collections::HashMap;
use std::sync::Arc;

use dubbo_proto::ServiceKey;
use tokio::sync::watch;

use crate::by_variant::ByVariant;
use crate::definitions::Away;
use crate::directory::{Directory, Presence, VariantKey};
use crate::endpoint::{Freshness, NotUsed, Unused};
use crate::layout::Entry;
use crate::listing::{Leftover, Listing};
use crate::similar::similar_names;
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
    /// The same by interface; of two with one address the later one counts.
    entries: HashMap<String, ByVariant>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: u64,
    pub(crate) interface: String,
    pub(crate) listing: Arc<Listing>,
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

/// The entries of each interface.
fn entries(rows: &[Row], leftovers: &[(String, Leftover)]) -> HashMap<String, ByVariant> {
    let mut entries = HashMap::<&str, Vec<Entry>>::new();
    for Row { interface, listing, .. } in rows {
        entries.entry(interface).or_default().push(Entry::Listing(Arc::clone(listing)));
    }
    for (interface, leftover) in leftovers {
        entries.entry(interface).or_default().push(leftover.clone().into());
    }
    let by_variant = |(interface, entries): (&str, Vec<_>)| {
        (interface.to_owned(), entries.into_iter().collect())
    };
    entries.into_iter().map(by_variant).collect()
}

impl Row {
    fn variant(&self) -> VariantKey {
        Some((self.listing.version.as_str().into(), self.listing.group.as_str().into()))
    }
}

impl Table {
    pub(crate) fn new(
        status: Freshness,
        rows: Vec<Row>,
        leftovers: Vec<(String, Leftover)>,
    ) -> Self {
        let directory = directory(&rows, &leftovers);
        let entries = entries(&rows, &leftovers);
        Self { status, rows, leftovers, directory, entries }
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
        for row in &mut rows {
            Arc::make_mut(&mut row.listing).endpoint.is_written = true;
        }
        Self::new(Freshness::Current, rows, leftovers)
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.directory.add(&row.interface, row.variant());
        let of_interface = self.entries.entry(row.interface.clone()).or_default();
        *of_interface = of_interface.with(Entry::Listing(Arc::clone(&row.listing)));
        self.rows.push(row);
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.rows.retain(|row| row.id != id);
        self.directory = directory(&self.rows, &self.leftovers);
        self.entries = entries(&self.rows, &self.leftovers);
    }

    /// The entries of a service, keyed by their order, and that there are a few others. If there
    /// are none, interfaces of similar names.
    fn items(&self, wanted: &ServiceKey) -> Vec<Item> {
        let Some(entries) = self.entries.get(&wanted.interface) else {
            return self.similar(wanted);
        };
        let item =
            |place: usize, entry| Item { key: place.to_be_bytes().to_vec(), read: Ok(Some(entry)) };
        let others = entries.others(wanted).into_iter().map(|it| {
            let (group, version) = it.entry.variant();
            item(it.place, Entry::Named { version: version.to_owned(), group: group.to_owned() })
        });
        let own = entries.of(wanted).into_iter().map(|it| item(it.place, it.entry.clone()));
        own.chain(others).collect()
    }

    fn similar(&self, wanted: &ServiceKey) -> Vec<Item> {
        let names = self.entries.keys().map(String::as_str);
        let ServiceKey { interface, version, group } = wanted;
        let hint = |name: &str| Leftover {
            version: version.clone(),
            group: group.clone(),
            unused: Unused { what: name.to_owned(), address: None, reason: NotUsed::SimilarName },
        };
        let item =
            |name: &str| Item { key: name.as_bytes().to_vec(), read: Ok(Some(hint(name).into())) };
        similar_names(interface, names).into_iter().map(item).collect()
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
                    refusal: None,
                }),
                // A part of the store may be read, and change the list, while another one is away.
                status @ Freshness::Stale => {
                    Ok(News::Known(Known { items: table.items(&self.wanted), status }))
                }
                Freshness::Pending => Err(StoreError::Away),
            }
        })
    }

    /// Who fills the table has reported it.
    fn report(&mut self, _error: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::parse_listing;
    use crate::missing::MAX_OTHERS;

    /// An estate may have a group for each tenant, and a watch for each group.
    #[test]
    fn a_watch_of_one_group_has_a_few_entries_of_others() {
        const N_GROUPS: u64 = 2000;
        let row = |id: u64| {
            let listing = parse_listing(&format!("dubbo://h:1/a.B?group=g{id}")).unwrap();
            Row { id, interface: "a.B".to_owned(), listing: listing.into(), url: String::new() }
        };
        let rows = (0..N_GROUPS).map(row).collect();
        let mut table = Table::new(Freshness::Current, rows, Vec::new());
        let n_items = |table: &Table, wanted: &str| table.items(&wanted.parse().unwrap()).len();
        for id in 0..N_GROUPS {
            assert_eq!(n_items(&table, &format!("g{id}/a.B")), 1 + MAX_OTHERS);
        }
        assert_eq!(n_items(&table, "*/a.B"), 2000);
        table.push(row(7));
        assert_eq!(n_items(&table, "g7/a.B"), 2 + MAX_OTHERS);
        table.remove(7);
        assert_eq!(n_items(&table, "g7/a.B"), MAX_OTHERS);
        assert_eq!(n_items(&table, "a.C"), 0);
    }

    #[test]
    fn a_watch_of_a_misspelt_name_has_what_may_be_meant() {
        let listing = parse_listing("dubbo://h:1/com.acme.Orders").unwrap();
        let interface = "com.acme.Orders".to_owned();
        let row = Row { id: 1, interface, listing: listing.into(), url: String::new() };
        let table = Table::new(Freshness::Current, vec![row], Vec::new());
        let items = table.items(&"com.acme.orders".parse().unwrap());
        let [Item { read: Ok(Some(Entry::Leftover(leftover))), .. }] = &items[..] else {
            panic!("{}", items.len());
        };
        assert_eq!(leftover.unused.what, "com.acme.Orders");
        assert_eq!(leftover.unused.reason, NotUsed::SimilarName);
        assert!(leftover.unused.is_hint());
        assert!(table.items(&"com.acme.Users".parse().unwrap()).is_empty());
    }
}
