//! Opens the registries, and tells readiness, metrics and log how they do.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use registry::{Registry, RegistryConfig, RegistryError, SeveralConfig, several};
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::StartError;
use crate::admin::{NamedRegistry, Readiness};
use crate::config::{Config, RegistryEntry};
use crate::metrics::Hub;

/// Opens the registries of the configuration. None of them needs to be there yet.
pub(super) fn open(config: &Config) -> Result<Vec<(String, Registry)>, StartError> {
    let mut opened = HashMap::new();
    // Those that are made of others come last.
    let (last, first): (Vec<_>, Vec<_>) = config.registries.iter().partition(|it| is_several(it));
    for entry in first.into_iter().chain(last) {
        let name = entry.name.clone();
        let registry = open_one(entry, &opened)
            .map_err(|source| StartError::Registry { name: name.clone(), source })?;
        opened.insert(name, registry);
    }
    let in_order = config.registries.iter();
    Ok(in_order.filter_map(|entry| opened.remove_entry(&entry.name)).collect())
}

/// The same with what they are, in the order of the configuration.
pub(super) fn with_kinds(
    config: &Config,
    registries: &[(String, Registry)],
) -> Arc<[NamedRegistry]> {
    let registries = config.registries.iter().zip(registries);
    let named = |(entry, (name, registry)): (&RegistryEntry, &(String, Registry))| NamedRegistry {
        name: name.clone(),
        kind: entry.kind(),
        registry: registry.clone(),
    };
    registries.map(named).collect()
}

fn is_several(entry: &RegistryEntry) -> bool {
    matches!(entry.config, RegistryConfig::Several(_))
}

fn open_one(
    entry: &RegistryEntry,
    opened: &HashMap<String, Registry>,
) -> Result<Registry, RegistryError> {
    let (config, definitions) = (entry.config.clone(), entry.definitions.clone());
    if let RegistryConfig::Several(config) = &config {
        return several(config, |name| opened.get(name).cloned(), definitions);
    }
    match entry.snapshot.clone() {
        Some(path) => Registry::open_remembering(config, definitions, path),
        None => Registry::open_with(config, definitions),
    }
}

/// Keeps an eye on the registries. The agent is not ready before each was reached once.
/// Those that another one is made of may be away, as long as that one can be reached.
pub(super) fn watch(
    config: &Config,
    registries: &[(String, Registry)],
    hub: &Hub,
    readiness: &Readiness,
    watchers: &mut JoinSet<()>,
) {
    for (name, registry) in registries {
        let part = format!("registry {name}");
        // With what it listed last, calls go on.
        if !registry.remembers() && !is_member(name, config) {
            readiness.block(&part, "has not been reached yet");
        }
        let watcher = RegistryWatcher {
            name: name.clone(),
            part,
            registry: registry.clone(),
            hub: hub.clone(),
            readiness: readiness.clone(),
        };
        watchers.spawn(watcher.run());
    }
}

fn is_member(name: &str, config: &Config) -> bool {
    config.registries.iter().any(|entry| match &entry.config {
        RegistryConfig::Several(SeveralConfig { of, .. }) => of.iter().any(|it| it == name),
        _ => false,
    })
}

struct RegistryWatcher {
    name: String,
    part: String,
    registry: Registry,
    hub: Hub,
    readiness: Readiness,
}

impl RegistryWatcher {
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
