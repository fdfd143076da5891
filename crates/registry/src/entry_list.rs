//! What a store has of an interface, kept once for all who subscribe to one of its versions and
//! groups.

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::by_variant::ByVariant;
use crate::endpoint::{Freshness, MAX_UNUSED};
use crate::follow::{FollowedList, follow};
use crate::kept::{Kept, shown_key};
use crate::layout::Entry;
use crate::list_counts::ListCounts;
use crate::listing::ANY;
use crate::store::Store;

/// The entries of an interface, or of one service if its store lists each by itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct EntryList {
    pub(crate) freshness: Freshness,
    pub(crate) entries: ByVariant,
    /// What cannot be read, and why. No more are shown: there may be thousands.
    pub(crate) bad: Arc<[(String, String)]>,
    /// Why the store does not tell the list, although it can be reached.
    pub(crate) refusal: Option<Arc<str>>,
}

/// The list as it is kept.
#[derive(Debug)]
pub(crate) struct KeptList(Kept<Entry>);

impl KeptList {
    /// `name` is for the operator.
    pub(crate) fn new(name: String, grace: Duration) -> Self {
        Self(Kept::new(name, grace, |entry| matches!(entry, Entry::Listing(_))))
    }
}

impl FollowedList<Entry> for KeptList {
    type Shown = EntryList;

    fn kept(&mut self) -> &mut Kept<Entry> {
        &mut self.0
    }

    fn show(&self) -> EntryList {
        let bad = self.0.bad().take(MAX_UNUSED);
        EntryList {
            freshness: self.0.freshness(),
            entries: self.0.entries().map(|(_, entry)| entry.clone()).collect(),
            bad: bad.map(|(key, error)| (shown_key(key), error.to_string())).collect(),
            refusal: self.0.refusal().map(Arc::from),
        }
    }
}

/// One list that is kept up to date, until this is dropped.
#[derive(Debug)]
pub(crate) struct ListFeed {
    list: watch::Receiver<EntryList>,
    task: AbortHandle,
}

impl Drop for ListFeed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ListFeed {
    /// `listed` is what [`listed_as`] says.
    pub(crate) fn start(
        store: &dyn Store,
        listed: &ServiceKey,
        counts: Arc<ListCounts>,
        runtime: &Handle,
    ) -> Self {
        let name = match listed.version == ANY && listed.group == ANY {
            true => listed.interface.clone(),
            false => listed.to_string(),
        };
        let (mut kept, mut watch) = (KeptList::new(name, store.grace()), store.watch(listed));
        kept.kept().count_in(counts);
        // What is known already shows at once, without a turn of the runtime.
        if let Some(known) = watch.known() {
            kept.kept().handle_known(known);
        }
        let (sender, list) = watch::channel(kept.show());
        let task = runtime.spawn(follow(watch, kept, sender.into()));
        Self { list, task: task.abort_handle() }
    }

    pub(crate) fn list(&self) -> watch::Receiver<EntryList> {
        self.list.clone()
    }
}

/// What is listed for a subscriber of `wanted`: all of its interface, if the store makes no
/// difference.
pub(crate) fn listed_as(store: &dyn Store, wanted: &ServiceKey) -> ServiceKey {
    let mut listed = wanted.clone();
    if store.lists_interfaces() {
        (listed.version, listed.group) = (ANY.to_owned(), ANY.to_owned());
    }
    listed
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::address::parse_listing;
    use crate::definitions::{Away, DefinitionSources, Definitions};
    use crate::directory::Presence;
    use crate::endpoint::Registration;
    use crate::error::RegistryError;
    use crate::registry::{Registry, Subscription};
    use crate::status::RegistryStatus;
    use crate::store::{Wait, Watch, Withdraw};
    use crate::table::{Row, Table, TableWatch};

    /// A store that lists whole interfaces.
    #[derive(Debug)]
    struct Interfaces {
        table: Arc<watch::Sender<Table>>,
        watched: Arc<Mutex<Vec<String>>>,
    }

    impl Store for Interfaces {
        fn status(&self) -> watch::Receiver<RegistryStatus> {
            watch::channel(RegistryStatus::new(true)).1
        }

        fn lists_interfaces(&self) -> bool {
            true
        }

        fn watch(&self, wanted: &ServiceKey) -> Box<dyn Watch> {
            self.watched.lock().unwrap().push(wanted.to_string());
            Box::new(TableWatch::new(self.table.subscribe(), wanted))
        }

        fn register(
            &self,
            _: &Registration,
        ) -> Result<(watch::Receiver<bool>, Withdraw), RegistryError> {
            Err(RegistryError::Fixed)
        }

        fn presence(&self, wanted: &ServiceKey) -> Presence {
            self.table.borrow().presence(wanted)
        }

        fn interfaces(&self) -> Wait<'_, Result<Vec<String>, Away>> {
            Box::pin(std::future::ready(self.table.borrow().interfaces()))
        }
    }

    fn row(port: u16, version: u64) -> Row {
        let url = format!("dubbo://h:{port}/a.B?version={version}");
        let listing = parse_listing(&url).unwrap().into();
        Row { id: version, interface: "a.B".to_owned(), listing, url }
    }

    /// Subscribers of all versions share one watch and one copy of each entry, and each hears of
    /// its own.
    #[tokio::test]
    async fn versions_of_an_interface_share_its_list() {
        const N_VERSIONS: u64 = 500;
        let rows = (0..N_VERSIONS).map(|version| row(1, version)).collect();
        let table = Arc::new(watch::Sender::new(Table::new(Freshness::Current, rows, Vec::new())));
        let watched = Arc::<Mutex<Vec<String>>>::default();
        let store = Interfaces { table: Arc::clone(&table), watched: Arc::clone(&watched) };
        let definitions = Definitions::new(DefinitionSources::default());
        let registry = Registry::over(Box::new(store), Handle::current(), definitions, None);
        let subscribe = |version| registry.subscribe(&format!("a.B:{version}").parse().unwrap());
        let subscriptions: Vec<Subscription> = (0..N_VERSIONS).map(subscribe).collect();
        assert_eq!(*watched.lock().unwrap(), ["*/a.B:*"]);
        for subscription in &subscriptions {
            assert_eq!(subscription.current().endpoints.len(), 1);
        }
        // The table has two, the list as it is kept one, and the list as it is shown one.
        let n_copies = |row: &Row| Arc::strong_count(&row.listing);
        assert!(table.borrow().rows().iter().all(|row| n_copies(row) <= 4));
        table.send_modify(|table| table.push(row(2, 7)));
        let mut snapshots = subscriptions[7].snapshots();
        snapshots.wait_for(|snapshot| snapshot.endpoints.len() == 2).await.unwrap();
        assert_eq!(subscriptions[8].current().endpoints.len(), 1);
        drop(subscriptions);
        let _again = subscribe(7);
        assert_eq!(watched.lock().unwrap().len(), 2, "a list that nobody wants is not kept");
    }
}
