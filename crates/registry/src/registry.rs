//! The handle that callers hold, its subscriptions and its registrations.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use dubbo_proto::ServiceKey;
use dubbo_proto::application::Metadata;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use crate::application::{Announcer, ApplicationLevel, can_announce};
use crate::catalogue::{self, Catalogue};
use crate::config::RegistryConfig;
use crate::definitions::{
    Away, DefinitionInputs, DefinitionSources, DefinitionWatch, Definitions, Lookup,
    PendingDocuments,
};
use crate::directory::Presence;
use crate::endpoint::{EndpointKey, RegisterMode, Registration, Snapshot};
use crate::entry_list::ListFeed;
use crate::error::RegistryError;
use crate::list_counts::ListCounts;
use crate::patience::Patience;
use crate::remembered::Remembered;
use crate::rules::LostDocuments;
use crate::status::RegistryStatus;
use crate::store::{Store, Wait, Withdraw};
use crate::stores;

use self::feed::{ServiceFeed, count_changes};
use self::reporting::DefinitionReport;

pub use self::registered::Registered;
use self::rule::RuleFeed;
pub use self::rule::RuleSubscription;

mod feed;
mod registered;
mod reporting;
mod rule;

/// A registry that says nothing about a service for so long is taken to be away.
const LISTS_PATIENCE: Duration = Duration::from_secs(3);

/// A service registry. Clones share one connection, and one watch per service, or one per
/// interface where the store lists whole interfaces.
///
/// Watches, leases and reconnects run on the tokio runtime on which it was opened. When the last
/// clone, subscription and registration is gone, they end.
#[derive(Clone, Debug)]
pub struct Registry {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// What was listed last, if that is kept.
    remembered: Option<Arc<Remembered>>,
    store: Box<dyn Store>,
    runtime: Handle,
    status: watch::Receiver<RegistryStatus>,
    feeds: Mutex<HashMap<ServiceKey, Weak<ServiceFeed>>>,
    /// What feeds share, by what is listed.
    lists: Mutex<HashMap<ServiceKey, Weak<ListFeed>>>,
    rules: Mutex<HashMap<String, Weak<RuleFeed>>>,
    lists_patience: Arc<Patience>,
    rules_patience: Arc<Patience>,
    lost_rules: Arc<LostDocuments>,
    activity: Arc<Mutex<RegistryActivity>>,
    counts: Arc<ListCounts>,
    definitions: Definitions,
    /// The application level, if the store has it.
    applications: Option<ApplicationLevel>,
    announcer: Option<Announcer>,
}

/// What goes on in a registry, for metrics.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RegistryActivity {
    /// Services that are watched now.
    pub subscriptions: usize,
    /// Lists of endpoints that have arrived so far.
    pub changes: u64,
    /// When the last of them did.
    pub last_change: Option<SystemTime>,
    /// What is registered for these services and not used, at most
    /// [`MAX_UNUSED`](crate::MAX_UNUSED) of each.
    pub unused: usize,
    /// How often an entry of their lists, or a document about them, was refused, because it cannot
    /// be read.
    pub refused: u64,
    /// Entries of their lists that are left out now, because the lists are too long.
    pub left_out: u64,
}

impl Registry {
    /// Opens a registry. Must be called inside a tokio runtime, which then runs it.
    ///
    /// A registry that is away is not an error here: we keep trying, and
    /// [`status`](Self::status) tells.
    ///
    /// # Errors
    /// When the configuration cannot be right, whether or not the registry is there.
    pub fn open(config: RegistryConfig) -> Result<Self, RegistryError> {
        Self::open_with(config, DefinitionSources::default())
    }

    /// The same, where definitions of services are looked for in these places.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(
        config: RegistryConfig,
        sources: DefinitionSources,
    ) -> Result<Self, RegistryError> {
        Self::open_all(config, Definitions::new(sources), None)
    }

    /// The same, where what the registry lists is kept in the file at `snapshot`: as long as the
    /// registry cannot be reached after a start, what it listed last counts.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_remembering(
        config: RegistryConfig,
        sources: DefinitionSources,
        snapshot: PathBuf,
    ) -> Result<Self, RegistryError> {
        Self::open_all(config, Definitions::new(sources), Some(snapshot))
    }

    /// Whether something is known of what the registry listed before the start. Of several, one is
    /// enough.
    #[must_use]
    pub fn remembers(&self) -> bool {
        let Shared { remembered, store, .. } = &*self.shared;
        remembered.as_ref().is_some_and(|it| it.knows_any()) || store.remembers()
    }

    /// The same for one service whose definition has been looked for already.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_defined(config: RegistryConfig, lookup: Lookup) -> Result<Self, RegistryError> {
        Self::open_all(config, Definitions::fixed(lookup), None)
    }

    fn open_all(
        config: RegistryConfig,
        definitions: Definitions,
        snapshot: Option<PathBuf>,
    ) -> Result<Self, RegistryError> {
        let runtime = Handle::try_current().map_err(|_| RegistryError::NoRuntime)?;
        let store = stores::open(config, &runtime)?;
        Ok(Self::over(store, runtime, definitions, snapshot))
    }

    /// The registry over a store.
    pub(crate) fn over(
        store: Box<dyn Store>,
        runtime: Handle,
        mut definitions: Definitions,
        snapshot: Option<PathBuf>,
    ) -> Self {
        let status = store.status();
        let (feeds, lists, rules, activity) = Default::default();
        let counts = Arc::<ListCounts>::default();
        definitions.count_in(&counts);
        let source = store.applications();
        let announcer = source.clone().map(|source| Announcer::start(source, &runtime));
        let applications = source.map(|source| ApplicationLevel::new(source, &counts, &runtime));
        let remembered = snapshot.map(|path| Arc::new(Remembered::open(path, &runtime)));
        let rules_patience = Arc::new(Patience::new(store.rules_patience()));
        let shared = Shared {
            remembered,
            store,
            runtime,
            status,
            feeds,
            lists,
            rules,
            lists_patience: Arc::new(Patience::new(LISTS_PATIENCE)),
            rules_patience,
            lost_rules: Arc::default(),
            activity,
            counts,
            definitions,
            applications,
            announcer,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The interfaces that the store has entries of.
    pub(crate) fn interfaces(&self) -> Wait<'_, Result<Vec<String>, Away>> {
        self.shared.store.interfaces()
    }

    /// The documents about an interface that the registry holds, the newest first.
    pub(crate) fn documents<'a>(&'a self, interface: &'a str) -> PendingDocuments<'a> {
        let Shared { store, definitions, status, .. } = &*self.shared;
        // Nobody need wait for a registry that is away.
        let away = Some(status.borrow()).filter(|status| status.is_away());
        if let Some(reason) = away.and_then(|status| status.last_error.clone()) {
            return Box::pin(std::future::ready(Err(Away(reason))));
        }
        store.definitions(&definitions.sources().report_root, interface)
    }

    /// How long the lists of services are waited for.
    pub(crate) fn lists_patience(&self) -> &Arc<Patience> {
        &self.shared.lists_patience
    }

    /// How long documents with rules are waited for.
    pub(crate) fn rules_patience(&self) -> &Arc<Patience> {
        &self.shared.rules_patience
    }

    /// Watches the endpoints of a service. Subscriptions of the same service share one watch.
    ///
    /// In `service`, version and group may be `*`; see [`crate::listing`].
    pub fn subscribe(&self, service: &ServiceKey) -> Subscription {
        let mut feeds = self.shared.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        let known = feeds.get(service).and_then(Weak::upgrade);
        let feed = known.unwrap_or_else(|| {
            feeds.retain(|_, feed| 0 < feed.strong_count());
            let feed = Arc::new(self.start_feed(service));
            let (activity, patience) = (&self.shared.activity, &self.shared.lists_patience);
            let snapshots = feed.snapshots.clone();
            let arrivals = count_changes(snapshots, Arc::clone(activity), Arc::clone(patience));
            self.shared.runtime.spawn(arrivals);
            feeds.insert(service.clone(), Arc::downgrade(&feed));
            feed
        });
        Subscription { feed, registry: self.clone() }
    }

    /// Whether a service is in the registry at all. Costs no watch of its own, however many names
    /// are asked for: for those that a caller may have made up.
    #[must_use]
    pub fn presence(&self, service: &ServiceKey) -> Presence {
        let Shared { store, applications, .. } = &*self.shared;
        let is_provided = |level: &ApplicationLevel| level.is_provided(&service.interface);
        if applications.as_ref().is_some_and(is_provided) {
            return Presence::Offered;
        }
        match store.presence(service) {
            Presence::Unknown | Presence::Asking if self.has_remembered(service) => {
                Presence::Offered
            }
            presence => presence,
        }
    }

    fn has_remembered(&self, service: &ServiceKey) -> bool {
        self.shared.remembered.as_ref().is_some_and(|it| it.knows(service))
    }

    /// Waits until [`presence`](Self::presence) need not answer [`Presence::Asking`].
    pub async fn settled(&self) {
        self.shared.store.settled().await;
    }

    /// Reads once all that is registered, whatever its version and group: the interfaces whose
    /// name `is_wanted`, in their order. Nothing is kept up to date.
    ///
    /// # Errors
    /// Why the registry cannot be read.
    pub async fn catalogue(
        &self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Catalogue, RegistryError> {
        let (store, level) = (self.shared.store.as_ref(), self.shared.applications.as_ref());
        catalogue::read(store, level, is_wanted)
            .await
            .map_err(|reason| RegistryError::Unread { reason })
    }

    /// Looks for what the service looks like, and keeps looking. Nothing is looked for before the
    /// first call of this, and nothing of a service once every watch of it is dropped.
    pub fn definition(&self, service: &ServiceKey) -> DefinitionWatch {
        self.shared.definitions.watch(&self.shared.runtime, service, || {
            let subscription = self.subscribe(service);
            Box::new(WatchedService { subscription, interface: service.interface.clone() })
        })
    }

    /// Offers a service to the world until the result is withdrawn or dropped.
    ///
    /// Returns at once; the registration is made as soon as the registry is there, and made again
    /// whenever it gets lost. [`Registered::established`] tells when it is there.
    ///
    /// # Errors
    /// When this kind of registry or layout cannot hold the registration, or the address is
    /// of no use to others.
    pub fn register(&self, registration: &Registration) -> Result<Registered, RegistryError> {
        let endpoint = registration.endpoint.key();
        if !is_reachable(&endpoint) {
            return Err(RegistryError::BadAddress { address: endpoint.to_string() });
        }
        let (established, withdraw) = self.write(registration)?;
        let Shared { store, definitions, runtime, .. } = &*self.shared;
        let report = store.applications().and_then(|source| {
            DefinitionReport::start(definitions.folder(), source, registration, runtime)
        });
        let (withdraw, registry) = (Some(withdraw), self.clone());
        Ok(Registered { endpoint, established, withdraw, _report: report, _registry: registry })
    }

    /// Registers at the levels that the configuration wants.
    fn write(
        &self,
        registration: &Registration,
    ) -> Result<(watch::Receiver<bool>, Withdraw), RegistryError> {
        let Shared { store, announcer, runtime, .. } = &*self.shared;
        let announcer = announcer.as_ref().filter(|_| can_announce(registration));
        match (announcer, store.register_mode()) {
            (None, _) | (_, RegisterMode::Interface) => store.register(registration),
            (Some(announcer), RegisterMode::Instance) => Ok(announcer.add(registration)),
            (Some(announcer), RegisterMode::All) => {
                // Who may not write at application level is still found at the other one.
                let (established, withdraw) = store.register(registration)?;
                let (_, also_withdraw) = announcer.add(registration);
                Ok((established, both(withdraw, also_withdraw, runtime)))
            }
        }
    }

    /// The metadata of a revision of an application that is registered here, as Dubbo's consumers
    /// ask for them; `None` if there is no such revision.
    #[must_use]
    pub fn announced(&self, application: &str, revision: &str) -> Option<Arc<Metadata>> {
        match &self.shared.announcer {
            Some(announcer) => announcer.announced().metadata(application, revision),
            None => self.shared.store.announced(application, revision),
        }
    }

    /// Takes another configuration over while it runs; `false` if only a registry that is opened
    /// anew can have it. See [`RegistryConfig::can_become`].
    ///
    /// # Errors
    /// When the configuration is wrong. The old one then stays in force.
    pub fn reconfigure(&self, new: &RegistryConfig) -> Result<bool, RegistryError> {
        match new {
            RegistryConfig::Static(services) => self.shared.store.replace_list(services),
            _ => Ok(false),
        }
    }

    /// Ends the session of the registrations made here, and with it what is left of them. Without
    /// that, the session outlives the process for as long as the store keeps it. Nothing is
    /// registered from then on. The members of several registries are closed one by one.
    pub async fn close(&self) {
        self.shared.store.close().await;
    }

    /// How the registry itself does, for readiness checks and metrics.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<RegistryStatus> {
        self.shared.status.clone()
    }

    /// What goes on in the registry.
    #[must_use]
    pub fn activity(&self) -> RegistryActivity {
        let feeds = self.shared.feeds.lock().unwrap_or_else(PoisonError::into_inner);
        let subscriptions = feeds.values().filter(|feed| 0 < feed.strong_count()).count();
        let counted = self.shared.activity.lock().unwrap_or_else(PoisonError::into_inner);
        let (refused, left_out) = (self.shared.counts.refused(), self.shared.counts.left_out());
        RegistryActivity { subscriptions, refused, left_out, ..*counted }
    }
}

/// Withdraws in two places.
fn both(one: Withdraw, other: Withdraw, runtime: &Handle) -> Withdraw {
    let runtime = runtime.clone();
    Box::new(move |done| {
        let ((told, is_told), (also_told, is_also_told)) = (oneshot::channel(), oneshot::channel());
        one(told);
        other(also_told);
        runtime.spawn(async move {
            if is_told.await.is_ok() && is_also_told.await.is_ok() {
                let _ = done.send(());
            }
        });
    })
}

/// A watch of one service's endpoints. Ends when dropped.
#[derive(Clone, Debug)]
#[must_use = "the watch ends when the subscription is dropped"]
pub struct Subscription {
    feed: Arc<ServiceFeed>,
    registry: Registry,
}

impl Subscription {
    /// The list of now, and a wake-up for every change. The channel closes with the subscription.
    #[must_use]
    pub fn snapshots(&self) -> watch::Receiver<Snapshot> {
        self.feed.snapshots.clone()
    }

    /// The list of now.
    #[must_use]
    pub fn current(&self) -> Snapshot {
        self.feed.snapshots.borrow().clone()
    }
}

/// A service whose definition is looked for.
struct WatchedService {
    subscription: Subscription,
    interface: String,
}

impl DefinitionInputs for WatchedService {
    fn snapshots(&self) -> watch::Receiver<Snapshot> {
        self.subscription.snapshots()
    }

    fn reported(&self) -> PendingDocuments<'_> {
        self.subscription.registry.documents(&self.interface)
    }
}

/// Whether others can make use of the address: it names a host and a port.
fn is_reachable(endpoint: &EndpointKey) -> bool {
    let ip = endpoint.host.parse().map(|ip: std::net::IpAddr| ip.to_canonical());
    let unspecified = ip.is_ok_and(|ip| ip.is_unspecified());
    let has_host = endpoint.host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:".contains(c));
    !endpoint.host.is_empty() && has_host && !unspecified && endpoint.port != 0
}
