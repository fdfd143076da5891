//! Opens the registries, and tells readiness, metrics and log how they do.

use std::time::Duration;

use registry::Registry;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::StartError;
use crate::admin::Readiness;
use crate::config::{Config, RegistryEntry};
use crate::metrics::Hub;

/// Opens the registries of the configuration. None of them needs to be there yet.
pub(super) fn open(config: &Config) -> Result<Vec<(String, Registry)>, StartError> {
    let open = |entry: &RegistryEntry| {
        let name = entry.name.clone();
        let (config, definitions) = (entry.config.clone(), entry.definitions.clone());
        let opened = match entry.snapshot.clone() {
            Some(path) => Registry::open_remembering(config, definitions, path),
            None => Registry::open_with(config, definitions),
        };
        match opened {
            Ok(registry) => Ok((name, registry)),
            Err(source) => Err(StartError::Registry { name, source }),
        }
    };
    config.registries.iter().map(open).collect()
}

/// Keeps an eye on the registries. The agent is not ready before each was reached once.
pub(super) fn watch(
    registries: &[(String, Registry)],
    hub: &Hub,
    readiness: &Readiness,
    watchers: &mut JoinSet<()>,
) {
    for (name, registry) in registries {
        let part = format!("registry {name}");
        // With what it listed last, calls go on.
        if !registry.remembers() {
            readiness.block(&part, "has not been reached yet");
        }
        let watcher = Watcher {
            name: name.clone(),
            part,
            registry: registry.clone(),
            hub: hub.clone(),
            readiness: readiness.clone(),
        };
        watchers.spawn(watcher.run());
    }
}

struct Watcher {
    name: String,
    part: String,
    registry: Registry,
    hub: Hub,
    readiness: Readiness,
}

impl Watcher {
    /// An agent that was ready stays so while a registry is away: it goes on with what it knows.
    async fn run(self) {
        let stats = self.hub.registry(&self.name);
        let mut status = self.registry.status();
        let mut was_connected = false;
        loop {
            let now = status.borrow_and_update().clone();
            stats.set_connected(now.connected);
            if now.connected && !was_connected {
                self.readiness.clear(&self.part);
                info!(registry = self.name, "registry can be reached");
            } else if was_connected && !now.connected {
                let error = now.last_error.as_deref().unwrap_or("unknown");
                warn!(
                    registry = self.name,
                    error,
                    "the registry cannot be reached; the known \
                    endpoints stay in use"
                );
            }
            was_connected = now.connected;
            loop {
                stats.set_activity(&self.registry.activity());
                // The counts are as old as this at most.
                match tokio::time::timeout(Duration::from_secs(1), status.changed()).await {
                    Ok(Ok(())) => break,
                    Ok(Err(_)) => return,
                    Err(_) => {}
                }
            }
        }
    }
}
