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
use tokio::task::AbortHandle;

use crate::cluster::Cluster;
use crate::error::{CallError, Code};

/// Names without endpoints that are watched before the registry is asked for all its services:
/// typing errors, and services that are started later than their callers.
const MAX_UNSURE: usize = 32;
/// Clusters without endpoints; each costs a watch at the registry.
const MAX_WITHOUT_ENDPOINTS: usize = 1024;
/// Services of all registries that one worker calls. They exist, so callers cannot make them up.
const MAX_CLUSTERS: usize = 16_384;
/// Names that are watched per second where nothing tells whether they exist.
const MAX_UNSURE_PER_SECOND: u32 = 50;
/// A service that has no endpoint is forgotten when nobody has asked for it this long.
const IDLE_TTL: Duration = Duration::from_secs(30);

/// The services that one worker calls.
pub struct Clusters {
    /// The registries of the configuration, in its order.
    registries: Vec<(String, Registry)>,
    entries: RefCell<HashMap<(usize, ServiceKey), Entry>>,
    unsure: Cell<Unsure>,
}

struct Entry {
    cluster: Rc<Cluster>,
    updates: AbortHandle,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.cluster.forget();
        self.updates.abort();
    }
}

/// What became of a look-up.
pub enum Found {
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

impl Clusters {
    /// None yet, of these registries.
    pub fn new(registries: Vec<(String, Registry)>) -> Self {
        Self { registries, entries: RefCell::default(), unsure: Cell::default() }
    }

    /// A registry by its number.
    pub fn registry(&self, index: usize) -> Option<&Registry> {
        self.registries.get(index).map(|(_, registry)| registry)
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
    ) -> Result<Found, CallError> {
        let key = (registry, service);
        if let Some(entry) = self.entries.borrow().get(&key) {
            return Ok(Found::Cluster(Rc::clone(&entry.cluster)));
        }
        let Some((name, known)) = self.registries.get(registry) else {
            return Err(CallError::new(Code::Internal, "the listener has no registry"));
        };
        if !self.admit(name, known, &key.1)? {
            return Ok(Found::Asking);
        }
        let cluster = Rc::new(make(name, &key.1));
        let subscription = known.subscribe(&key.1);
        cluster.update(&subscription.current());
        let updates = tokio::task::spawn_local(follow(Rc::downgrade(&cluster), subscription));
        let entry = Entry { cluster: Rc::clone(&cluster), updates: updates.abort_handle() };
        self.entries.borrow_mut().insert(key, entry);
        Ok(Found::Cluster(cluster))
    }

    /// Whether a service may be watched; false while that is being found out.
    fn admit(
        &self,
        name: &str,
        registry: &Registry,
        service: &ServiceKey,
    ) -> Result<bool, CallError> {
        let ClusterCounts { n_clusters, n_without_endpoints: n_without } = self.counts();
        if n_without < MAX_UNSURE {
            return Ok(true);
        }
        match registry.presence(service) {
            Presence::Offered if n_clusters < MAX_CLUSTERS => Ok(true),
            Presence::Offered => {
                let message =
                    format!("{MAX_CLUSTERS} services are called already; try again later");
                Err(CallError::new(Code::Overloaded, message))
            }
            Presence::Absent => Err(CallError::new(
                Code::ServiceNotFound,
                format!("nobody offers {service} in registry {name:?}"),
            )),
            Presence::Asking => Ok(false),
            Presence::Unknown if n_without < MAX_WITHOUT_ENDPOINTS && self.may_trust() => Ok(true),
            Presence::Unknown => {
                let message = format!(
                    "{n_without} services without an endpoint are looked up already, and registry \
                     {name:?} cannot list its services now; try again later"
                );
                Err(CallError::new(Code::Overloaded, message))
            }
        }
    }

    /// Whether one more name may be watched this second although nothing is known of it.
    fn may_trust(&self) -> bool {
        let (now, mut unsure) = (Instant::now(), self.unsure.get());
        let is_over = |since| Duration::from_secs(1) <= now.saturating_duration_since(since);
        if unsure.since.is_none_or(is_over) {
            unsure = Unsure { since: Some(now), n_names: 0 };
        }
        unsure.n_names += 1;
        self.unsure.set(unsure);
        unsure.n_names <= MAX_UNSURE_PER_SECOND
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

/// Passes on what the registry says, until the cluster is forgotten.
async fn follow(cluster: Weak<Cluster>, subscription: Subscription) {
    let mut snapshots = subscription.snapshots();
    loop {
        let snapshot = snapshots.borrow_and_update().clone();
        match cluster.upgrade() {
            Some(cluster) => cluster.update(&snapshot),
            None => return,
        }
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}
