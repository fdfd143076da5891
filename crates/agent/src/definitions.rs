//! The definitions of the services that a worker calls.
//!
//! Nothing is looked for before the first call that could use it, and nothing of it is on the path
//! of later calls: the worker's sweep notices what has changed, and forgets the routes that were
//! made of it.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use registry::{Definition, DefinitionWatch, Registry};

use crate::cluster::Cluster;
use crate::routes::RouteTable;

/// What one worker knows.
#[derive(Default)]
pub struct WorkerDefinitions {
    entries: RefCell<Vec<WatchedDefinition>>,
}

struct WatchedDefinition {
    cluster: Weak<Cluster>,
    watch: DefinitionWatch,
}

impl WorkerDefinitions {
    /// The definition of the cluster's service; the first time it is waited for, but not longer
    /// than `patience`.
    pub async fn get(
        &self,
        registry: &Registry,
        cluster: &Rc<Cluster>,
        patience: Duration,
    ) -> Option<Arc<Definition>> {
        let mut watch = self.watch(registry, cluster);
        let settled = tokio::time::timeout(patience, watch.settled()).await.ok();
        settled.and_then(|lookup| lookup.found().cloned())
    }

    /// Asks for another look at a definition that seems to be out of date.
    pub fn suspect(&self, registry: &Registry, cluster: &Rc<Cluster>) {
        self.watch(registry, cluster).suspect();
    }

    fn watch(&self, registry: &Registry, cluster: &Rc<Cluster>) -> DefinitionWatch {
        let mut entries = self.entries.borrow_mut();
        let is_of_cluster =
            |entry: &&WatchedDefinition| std::ptr::eq(entry.cluster.as_ptr(), &**cluster);
        if let Some(entry) = entries.iter().find(is_of_cluster) {
            return entry.watch.clone();
        }
        let mut watch = registry.definition(&cluster.service);
        // What is known by now makes the first routes; only what comes later is a change.
        let _ = watch.current();
        entries.push(WatchedDefinition { cluster: Rc::downgrade(cluster), watch: watch.clone() });
        watch
    }

    /// Forgets the routes of services whose definition has changed, and the services that are
    /// gone.
    pub fn sweep(&self, routes: &RouteTable) {
        self.entries.borrow_mut().retain_mut(|entry| {
            let Some(cluster) = entry.cluster.upgrade() else { return false };
            if entry.watch.has_changed() {
                let _ = entry.watch.current();
                routes.forget(&cluster);
            }
            true
        });
    }
}
