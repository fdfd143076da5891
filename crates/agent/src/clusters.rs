//! The services that a worker calls, and how names that callers make up are kept from costing
//! much.
//!
//! A service is looked up by a watch at its registry. Some names without endpoints are watched as
//! well, so that they are found at once when somebody offers them. Beyond `MAX_UNSURE` of
//! them the registry is asked for the list of all its services: a name that is not in it costs
//! nothing, and one that is in it always gets its place.
//!
//! Invariants:
//! - Clusters without endpoints are at most `MAX_WITHOUT_ENDPOINTS`.
//! - Where the registry cannot list its services, new names are watched at a limited rate.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use dubbo_proto::ServiceKey;
use registry::{Presence, Registry, Subscription};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::cluster::Cluster;
use crate::error::{CallError, Code};
use crate::rule_documents::RuleDocuments;

/// Names without endpoints that are watched before the registry is asked for all its services:
/// typing errors, and services that are started later than their callers.
const MAX_UNSURE: usize = 32;
/// Clusters without endpoints; each costs a watch at the registry.
const MAX_WITHOUT_ENDPOINTS: usize = 1024;
/// Services of all registries that one worker calls. They exist, so callers cannot make them up.
const MAX_CLUSTERS: usize = 16_384;
/// Names that are watched per second where nothing says whether they exist.
const MAX_UNSURE_PER_SECOND: u32 = 50;
/// To take a list over takes a worker at most one in so many parts of its time and one more, if it
/// takes this long. No machine that stood still makes the next list wait longer than for this.
const REST_SHARE: u32 = 4;
const MIN_UPDATE_TIME: Duration = Duration::from_micros(250);
const MAX_UPDATE_TIME: Duration = Duration::from_millis(250);
/// A service that has no endpoint is forgotten when nobody has asked for it this long.
const IDLE_TTL: Duration = Duration::from_secs(30);

/// The services that one worker calls.
pub struct Clusters {
    /// The registries of the configuration, in its order.
    registries: Vec<(String, Registry)>,
    entries: RefCell<HashMap<(usize, ServiceKey), RunningCluster>>,
    unsure: Cell<Unsure>,
}

struct RunningCluster {
    cluster: Rc<Cluster>,
    updates: AbortHandle,
}

impl Drop for RunningCluster {
    fn drop(&mut self) {
        self.cluster.forget();
        self.updates.abort();
    }
}

/// What became of a look-up.
pub enum ClusterLookup {
    /// Its cluster, looked up now or before.
    Cluster(Rc<Cluster>),
    /// The registry is being asked for the list of its services.
    Asking,
}

/// Names that were watched on trust in the second that began then.
#[derive(Clone, Copy, Default)]
struct Unsure {
    since: Option<Instant>,
    n_names: u32,
}

/// How many services a worker calls.
#[derive(Clone, Copy)]
struct ClusterCounts {
    n_clusters: usize,
    /// Those of them that have no endpoint.
    n_without_endpoints: usize,
}

/// What is done about a service that was not called before.
#[derive(Debug, Eq, PartialEq)]
enum NewServiceAdmission {
    /// Its endpoints are watched from now on.
    Watch,
    /// The registry is being asked whether it exists.
    Ask,
    Refuse(WatchRefusal),
}

/// Why a service is not watched.
#[derive(Debug, Eq, PartialEq)]
enum WatchRefusal {
    /// The registry lists its services, and this one is not there.
    Absent,
    /// It exists, but a worker calls no more services than [`MAX_CLUSTERS`].
    Clusters,
    /// Nobody knows whether it exists, and so many have no endpoint.
    WithoutEndpoints(usize),
}

impl ClusterCounts {
    /// Decides about one more service. `presence` says whether the registry has it, and
    /// `may_trust` whether a name may be watched of which nobody knows that. Both are asked only
    /// if the answer depends on them.
    fn admit(
        self,
        presence: impl FnOnce() -> Presence,
        may_trust: impl FnOnce() -> bool,
    ) -> NewServiceAdmission {
        let n_without = self.n_without_endpoints;
        if n_without < MAX_UNSURE {
            return NewServiceAdmission::Watch;
        }
        match presence() {
            Presence::Offered if self.n_clusters < MAX_CLUSTERS => NewServiceAdmission::Watch,
            Presence::Offered => NewServiceAdmission::Refuse(WatchRefusal::Clusters),
            Presence::Absent => NewServiceAdmission::Refuse(WatchRefusal::Absent),
            Presence::Asking => NewServiceAdmission::Ask,
            Presence::Unknown if n_without < MAX_WITHOUT_ENDPOINTS && may_trust() => {
                NewServiceAdmission::Watch
            }
            Presence::Unknown => {
                NewServiceAdmission::Refuse(WatchRefusal::WithoutEndpoints(n_without))
            }
        }
    }
}

impl Unsure {
    /// Counts one more name, and says whether it may be watched in the second of `now`.
    fn may_trust(&mut self, now: Instant) -> bool {
        let is_over = |since| Duration::from_secs(1) <= now.saturating_duration_since(since);
        if self.since.is_none_or(is_over) {
            *self = Self { since: Some(now), n_names: 0 };
        }
        self.n_names += 1;
        self.n_names <= MAX_UNSURE_PER_SECOND
    }
}

impl Clusters {
    /// None yet, of these registries.
    pub fn new(registries: Vec<(String, Registry)>) -> Self {
        Self { registries, entries: RefCell::default(), unsure: Cell::default() }
    }

    /// All registries, in the order of the configuration.
    pub fn registries(&self) -> impl Iterator<Item = &Registry> {
        self.registries.iter().map(|(_, registry)| registry)
    }

    /// A registry by its number.
    pub fn registry(&self, index: usize) -> Option<&Registry> {
        self.registries.get(index).map(|(_, registry)| registry)
    }

    /// The name of a registry by its number.
    pub fn registry_name(&self, index: usize) -> &str {
        self.registries.get(index).map_or("", |(name, _)| name)
    }

    /// The cluster of a service, if it was looked up in a registry before.
    pub fn known(&self, registry: usize, service: ServiceKey) -> Option<Rc<Cluster>> {
        let entries = self.entries.borrow();
        entries.get(&(registry, service)).map(|entry| Rc::clone(&entry.cluster))
    }

    /// All clusters.
    pub fn each(&self, mut action: impl FnMut(&Rc<Cluster>)) {
        self.entries.borrow().values().for_each(|entry| action(&entry.cluster));
    }

    /// The cluster of a service. `make` makes a new one, for the registry of that name.
    ///
    /// # Errors
    /// [`Code::ServiceNotFound`] if the registry lists its services and this one is not there,
    /// [`Code::Overloaded`] if nobody can tell and too many of that kind are looked up already.
    pub fn find(
        &self,
        registry: usize,
        service: ServiceKey,
        make: impl FnOnce(&str, &ServiceKey) -> Cluster,
    ) -> Result<ClusterLookup, CallError> {
        let key = (registry, service);
        if let Some(entry) = self.entries.borrow().get(&key) {
            return Ok(ClusterLookup::Cluster(Rc::clone(&entry.cluster)));
        }
        let Some((name, known)) = self.registries.get(registry) else {
            return Err(CallError::new(Code::Internal, "the listener has no registry"));
        };
        if !self.admit(name, known, &key.1)? {
            return Ok(ClusterLookup::Asking);
        }
        let cluster = Rc::new(make(name, &key.1));
        let subscription = known.subscribe(&key.1);
        let mut documents = RuleDocuments::default();
        let current = subscription.current();
        documents.watch(known, cluster.rule_names(&current.endpoints));
        // Without rules nothing has to be waited for.
        if documents.is_without_rules() {
            cluster.update(&current);
        }
        let follower = Follower {
            cluster: Rc::downgrade(&cluster),
            registry: known.clone(),
            routing_changed: cluster.routing_changed(),
            documents,
        };
        let updates = tokio::task::spawn_local(follower.run(subscription));
        let entry =
            RunningCluster { cluster: Rc::clone(&cluster), updates: updates.abort_handle() };
        self.entries.borrow_mut().insert(key, entry);
        Ok(ClusterLookup::Cluster(cluster))
    }

    /// Whether a service may be watched; false while that is being found out.
    fn admit(
        &self,
        name: &str,
        registry: &Registry,
        service: &ServiceKey,
    ) -> Result<bool, CallError> {
        let may_trust = || {
            let mut unsure = self.unsure.get();
            let may_trust = unsure.may_trust(Instant::now());
            self.unsure.set(unsure);
            may_trust
        };
        let refused = match self.counts().admit(|| registry.presence(service), may_trust) {
            NewServiceAdmission::Watch => return Ok(true),
            NewServiceAdmission::Ask => return Ok(false),
            NewServiceAdmission::Refuse(refused) => refused,
        };
        let (code, message) = match refused {
            WatchRefusal::Clusters => (
                Code::Overloaded,
                format!(
                    "this worker calls {MAX_CLUSTERS} services, which is the limit; try again \
                     later"
                ),
            ),
            WatchRefusal::WithoutEndpoints(n_without) => (
                Code::Overloaded,
                format!(
                    "{n_without} services without an endpoint are being looked up, and registry \
                     {name:?} cannot list its services now; try again later"
                ),
            ),
            WatchRefusal::Absent => (
                Code::ServiceNotFound,
                format!(
                    "nobody offers {service} in registry {name:?}: its list of services has none \
                     of this interface, version and group; check them (dubmesh list shows what \
                     is registered)"
                ),
            ),
        };
        Err(CallError::new(code, message))
    }

    fn counts(&self) -> ClusterCounts {
        let entries = self.entries.borrow();
        let without = entries.values().filter(|entry| entry.cluster.is_without_endpoints());
        ClusterCounts { n_clusters: entries.len(), n_without_endpoints: without.count() }
    }

    /// Looks again at what is held, and forgets clusters that have no endpoint and that nobody
    /// asks for. `forgotten` is called for each of those.
    pub fn sweep(&self, now: Instant, mut forgotten: impl FnMut(&Rc<Cluster>)) {
        self.each(|cluster| cluster.check_endpoints(now));
        let Some(since) = now.checked_sub(IDLE_TTL) else { return };
        self.entries.borrow_mut().retain(|_, entry| {
            let is_idle = entry.cluster.is_idle(since);
            if is_idle {
                forgotten(&entry.cluster);
            }
            !is_idle
        });
    }
}

/// Passes on what the registry says: endpoints, and rules.
struct Follower {
    cluster: Weak<Cluster>,
    registry: Registry,
    routing_changed: Rc<Notify>,
    documents: RuleDocuments,
}

impl Follower {
    /// Runs until the cluster is forgotten.
    async fn run(mut self, subscription: Subscription) {
        let mut snapshots = subscription.snapshots();
        loop {
            let snapshot = snapshots.borrow_and_update().clone();
            let Some(cluster) = self.cluster.upgrade() else { return };
            self.documents.watch(&self.registry, cluster.rule_names(&snapshot.endpoints));
            drop(cluster);
            // A call must not go where a rule forbids it, only because the rule comes later.
            // A registry that is away, or has kept others waiting in vain, is not waited for.
            self.documents.settled().await;
            let rules = self.documents.read().await;
            let Some(cluster) = self.cluster.upgrade() else { return };
            if let Some(rules) = rules {
                cluster.set_rules(rules);
            }
            let began = Instant::now();
            cluster.update(&snapshot);
            drop(cluster);
            // Calls are not to wait for a long list again and again, however often it changes.
            let took = began.elapsed().min(MAX_UPDATE_TIME);
            if MIN_UPDATE_TIME <= took {
                tokio::time::sleep(took * REST_SHARE).await;
            }
            tokio::select! {
                changed = snapshots.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = self.documents.changed() => {}
                () = self.routing_changed.notified() => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
