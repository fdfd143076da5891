//! Discovery at application level, as Dubbo 3 has it: a *mapping* names the applications that
//! offer an interface, *instances* say where an application runs, and the *metadata* of their
//! revision say what it offers there.
//!
//! - [`Applications`] is what a store has to do for it: three things to read, and what to write.
//! - `find.rs` finds the endpoints of one interface: its mapping, and the applications it names.
//! - `feed.rs` follows one application, for all services that it offers: its instances, and the
//!   metadata of each of their revisions, which are fetched once.
//! - `ask.rs` asks an instance for its metadata, by Dubbo TCP.
//! - `unlisted.rs` asks all applications for their interfaces, for a store that has no list of
//!   them.
//! - `announce.rs` registers ours.
//!
//! Sources: `ServiceDiscoveryRegistry`, `ServiceInstancesChangedListener` and
//! `AbstractServiceDiscovery` in apache/dubbo 3.3.
//!
//! Invariants:
//! - What cannot be read is skipped, and its reason shows beside the endpoints. It takes nothing
//!   else away.
//! - An instance whose new metadata cannot be had keeps those that it had before.
//! - Each application is followed once, and each of its revisions fetched once.

mod announce;
mod ask;
mod feed;
mod find;
mod unlisted;

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use dubbo_proto::application::Instance;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::by_variant::ByVariant;
use crate::list_counts::ListCounts;
use crate::store::{Applications, EntryKey, Item};

use feed::InstanceFeed;

pub(crate) use announce::{Announcer, can_announce};
pub use unlisted::Unasked;
pub(crate) use unlisted::Unlisted;

/// What is found of one interface.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Found {
    /// Whether all that there is has been read, or has failed, once.
    pub(crate) is_settled: bool,
    pub(crate) entries: ByVariant,
}

/// The application level of one registry. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ApplicationLevel {
    source: Arc<dyn Applications>,
    runtime: Handle,
    feeds: Arc<Mutex<HashMap<String, Weak<InstanceFeed>>>>,
    findings: Arc<Mutex<HashMap<String, Weak<ApplicationSearch>>>>,
    /// Of all metadata together, in bytes.
    total_len: Arc<AtomicUsize>,
    counts: Arc<ListCounts>,
}

/// One interface that is looked for, until this is dropped.
#[derive(Debug)]
pub(crate) struct ApplicationSearch {
    found: watch::Receiver<Found>,
    task: AbortHandle,
}

impl Drop for ApplicationSearch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ApplicationSearch {
    pub(crate) fn found(&self) -> watch::Receiver<Found> {
        self.found.clone()
    }
}

impl ApplicationLevel {
    pub(crate) fn new(
        source: Arc<dyn Applications>,
        counts: &Arc<ListCounts>,
        runtime: &Handle,
    ) -> Self {
        let (feeds, findings, total_len) = Default::default();
        let counts = Arc::clone(counts);
        Self { source, runtime: runtime.clone(), feeds, findings, total_len, counts }
    }

    /// The interfaces that applications offer by what the configuration says.
    pub(crate) fn provided(&self) -> impl Iterator<Item = &String> {
        self.source.parts().config.provided_by.keys()
    }

    /// Whether the configuration says that some application offers an interface.
    pub(crate) fn is_provided(&self, interface: &str) -> bool {
        self.source.parts().config.provided_by.contains_key(interface)
    }

    /// Looks for an interface. Those who look for the same one share it.
    pub(crate) fn find(&self, interface: &str) -> Arc<ApplicationSearch> {
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        findings.get(interface).and_then(Weak::upgrade).unwrap_or_else(|| {
            findings.retain(|_, finding| 0 < finding.strong_count());
            let (sender, found) = watch::channel(Found::default());
            let finder = find::run(self.clone(), interface.to_owned(), sender);
            let task = self.runtime.spawn(finder).abort_handle();
            let finding = Arc::new(ApplicationSearch { found, task });
            findings.insert(interface.to_owned(), Arc::downgrade(&finding));
            finding
        })
    }

    /// The one feed of an application.
    fn feed(&self, application: &str) -> Arc<InstanceFeed> {
        let mut feeds = self.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.get(application).and_then(Weak::upgrade).unwrap_or_else(|| {
            feeds.retain(|_, feed| 0 < feed.strong_count());
            let Self { source, runtime, total_len, counts, .. } = self;
            let feed = InstanceFeed::start(source, application, total_len, counts, runtime);
            let feed = Arc::new(feed);
            feeds.insert(application.to_owned(), Arc::downgrade(&feed));
            feed
        })
    }
}

/// An instance, read.
pub(crate) fn item(key: EntryKey, record: &[u8]) -> Item<Arc<Instance>> {
    let read = Instance::parse(record).map(|instance| Some(Arc::new(instance)));
    Item { key, read: read.map_err(Into::into) }
}
