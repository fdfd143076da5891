//! The gates before the apps that are exported: one for each app, shared by all workers; and how
//! many threads an app says that it has, where it is registered.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use dubbo_proto::ServiceKey;
use registry::{Endpoint, Registry};
use tokio::task::JoinSet;
use tracing::info;

use crate::config::{AppCapacity, AppConfig, Config, ExportConfig};
use crate::gate::SharedGate;
use crate::metrics::Hub;

/// The gates of a process, by app.
pub(super) struct ProcessGates {
    hub: Hub,
    n_workers: usize,
    /// Calls may still be in an app that is no longer exported: they count if it is again.
    by_app: BTreeMap<String, Weak<SharedGate>>,
    /// Those of the apps that are exported.
    exported: Vec<Arc<SharedGate>>,
    watchers: JoinSet<()>,
}

impl ProcessGates {
    pub(super) fn new(hub: Hub, n_workers: usize) -> Self {
        let (by_app, exported) = Default::default();
        Self { hub, n_workers, by_app, exported, watchers: JoinSet::new() }
    }

    /// The gate before the app of an export.
    pub(super) fn before(&mut self, export: &ExportConfig) -> Arc<SharedGate> {
        let app = export.app.address();
        if let Some(gate) = self.by_app.get(&app).and_then(Weak::upgrade) {
            return gate;
        }
        let gate = Arc::new(SharedGate::new(app.clone(), export.capacity, self.n_workers));
        self.by_app.insert(app, Arc::downgrade(&gate));
        gate
    }

    /// Lets go of the apps that are no longer exported, takes over the capacities of the others,
    /// and looks for what Dubbo apps say of themselves where nothing is configured.
    pub(super) fn follow(&mut self, config: &Config, registries: &[(String, Registry)]) {
        let mut exported = BTreeMap::new();
        self.watchers = JoinSet::new();
        for export in &config.exports {
            let gate = self.before(export);
            exported.insert(gate.app().to_owned(), Arc::clone(&gate));
            let capacity = config.capacity_of(gate.app());
            gate.configure(capacity);
            let Some((_, registry)) = registries.get(export.registry) else { continue };
            let is_dubbo = matches!(export.app, AppConfig::Dubbo { .. });
            if is_dubbo && capacity == AppCapacity::Registered {
                self.watchers.spawn(follow(gate, registry.clone(), export.service.clone()));
            }
        }
        self.exported = exported.into_values().collect();
        self.hub.show_gates(self.exported.clone());
        self.by_app.retain(|_, gate| 0 < gate.strong_count());
    }
}

/// Where an agent stands in for the app, its entry has what the app has registered. The last word
/// holds while the app is not listed.
async fn follow(gate: Arc<SharedGate>, registry: Registry, service: ServiceKey) {
    let subscription = registry.subscribe(&service);
    let mut snapshots = subscription.snapshots();
    loop {
        let endpoints = Arc::clone(&snapshots.borrow_and_update().endpoints);
        let is_app = |endpoint: &&Endpoint| {
            let (host, port) = endpoint.provider();
            wire::address::join(host, port) == gate.app()
        };
        let threads = endpoints.iter().filter(is_app).find_map(|endpoint| endpoint.threads);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::testing::exporting;

    #[test]
    fn an_app_has_the_same_gate_again_while_anybody_uses_it() {
        let config = exporting("dubbo://127.0.0.1:1");
        let none = Config { exports: Vec::new(), ..config.clone() };
        let mut gates = ProcessGates::new(Hub::new(&Code::NAMES), 1);
        gates.follow(&config, &[]);
        // As a worker does whose calls are in the app.
        let used = gates.before(&config.exports[0]);
        gates.follow(&none, &[]);
        gates.follow(&config, &[]);
        assert!(Arc::ptr_eq(&used, &gates.before(&config.exports[0])));
        gates.follow(&none, &[]);
        drop(used);
        gates.follow(&none, &[]);
        assert!(gates.by_app.is_empty());
    }
}
