//! The gates before the apps that are exported: one for each app, shared by all workers; and how
//! many threads an app says that it has, where it is registered.

use std::collections::BTreeMap;
use std::sync::Arc;

use dubbo_proto::ServiceKey;
use registry::{Endpoint, Registry};
use tokio::task::JoinSet;
use tracing::info;

use crate::config::{AppCapacity, AppConfig, Config, ExportConfig};
use crate::gate::SharedGate;
use crate::metrics::Hub;

/// The gates of a process, by app.
pub(super) struct Gates {
    hub: Hub,
    n_workers: usize,
    by_app: BTreeMap<String, Arc<SharedGate>>,
    watchers: JoinSet<()>,
}

impl Gates {
    pub(super) fn new(hub: Hub, n_workers: usize) -> Self {
        Self { hub, n_workers, by_app: BTreeMap::new(), watchers: JoinSet::new() }
    }

    /// The gate before the app of an export.
    pub(super) fn before(&mut self, export: &ExportConfig) -> Arc<SharedGate> {
        let (app, n_workers) = (export.app.address(), self.n_workers);
        let gate = self.by_app.entry(app);
        Arc::clone(gate.or_insert_with_key(|app| {
            Arc::new(SharedGate::new(app.clone(), export.capacity, n_workers))
        }))
    }

    /// Forgets the apps that are no longer exported, takes over the capacities of the others, and
    /// looks for what Dubbo apps say of themselves where nothing is configured.
    pub(super) fn follow(&mut self, config: &Config, registries: &[(String, Registry)]) {
        self.by_app.retain(|app, _| config.exports.iter().any(|it| it.app.address() == *app));
        self.watchers = JoinSet::new();
        for export in &config.exports {
            let gate = self.before(export);
            let capacity = config.capacity_of(gate.app());
            gate.configure(capacity);
            let Some((_, registry)) = registries.get(export.registry) else { continue };
            let is_dubbo = matches!(export.app, AppConfig::Dubbo { .. });
            if is_dubbo && capacity == AppCapacity::Registered {
                self.watchers.spawn(follow(gate, registry.clone(), export.service.clone()));
            }
        }
        self.hub.show_gates(self.by_app.values().cloned().collect());
    }
}

/// The last word holds while the app is not listed: an agent's entry may stand in for it.
async fn follow(gate: Arc<SharedGate>, registry: Registry, service: ServiceKey) {
    let subscription = registry.subscribe(&service);
    let mut snapshots = subscription.snapshots();
    loop {
        let endpoints = Arc::clone(&snapshots.borrow_and_update().endpoints);
        let is_app = |endpoint: &&Endpoint| endpoint.address() == gate.app();
        let threads = endpoints.iter().find(is_app).and_then(|endpoint| endpoint.threads);
        if let Some(threads) = threads
            && gate.set_registered(threads)
        {
            info!(app = gate.app(), threads, "the app has registered its threads");
        }
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}
