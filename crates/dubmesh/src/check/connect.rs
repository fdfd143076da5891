//! Whether what a configuration names is there: registries, apps, and addresses to listen on.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use agent::config::{Config, RegistryEntry};
use agent::control::free_addresses;
use doctor::counted;
use registry::{Registry, RegistryConfig};
use wire::Destination;

/// How long a registry may take to answer.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an app may take to accept a connection, with its TLS handshake.
const APP_TIMEOUT: Duration = Duration::from_secs(5);

/// What came of one attempt.
pub(super) struct ConnectAttempt {
    /// What was tried.
    pub(super) what: String,
    /// What was found, or what is wrong.
    pub(super) result: Result<String, String>,
}

/// Tries all that `config` names. `pids` are the agents that run with the same file: what they
/// listen on is taken.
pub(super) async fn try_all(config: &Config, pids: &[i32]) -> Vec<ConnectAttempt> {
    let mut attempts = Vec::new();
    // All at once: each may take its time.
    let registries: Vec<_> = config
        .registries
        .iter()
        .cloned()
        .map(|entry| tokio::task::spawn_local(async move { (registry(&entry).await, entry) }))
        .collect();
    for tried in registries {
        let Ok((result, entry)) = tried.await else { continue };
        let what = format!("registry {} ({})", entry.name, entry.config.kind());
        attempts.push(ConnectAttempt { what, result });
    }
    // Several services may be of one app.
    let mut apps: BTreeMap<String, (Destination, Vec<String>)> = BTreeMap::new();
    for export in &config.exports {
        let app = apps.entry(export.app.address());
        let (_, services) = app.or_insert_with(|| (export.app.destination(), Vec::new()));
        services.push(export.service.to_string());
    }
    for (address, (destination, services)) in apps {
        let what = format!("app {address} of {}", services.join(", "));
        attempts.push(ConnectAttempt { what, result: app(&destination).await });
    }
    for (address, bound) in free_addresses(config) {
        let result = match bound {
            Ok(()) => Ok("can be listened on".to_owned()),
            Err(_) if !pids.is_empty() => Ok(format!("taken; agent {} runs with this file", {
                pids.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")
            })),
            Err(error) => Err(error.to_string()),
        };
        attempts.push(ConnectAttempt { what: format!("address {address}"), result });
    }
    attempts
}

/// Connects to a registry as an agent does, and reads the names of all interfaces there.
async fn registry(entry: &RegistryEntry) -> Result<String, String> {
    if matches!(entry.config, RegistryConfig::Memory(_) | RegistryConfig::Static(_)) {
        return Ok("is inside the agent".to_owned());
    }
    if let RegistryConfig::Several(several) = &entry.config {
        return Ok(format!("is made of {}", several.of.join(", ")));
    }
    let started = Instant::now();
    let registry = Registry::open(entry.config.clone()).map_err(|error| error.to_string())?;
    let mut status = registry.status();
    let connected = status.wait_for(|status| status.connected);
    let connected = tokio::time::timeout(REGISTRY_TIMEOUT, connected).await.is_ok();
    if !connected {
        let why = registry.status().borrow().trouble().map(str::to_owned);
        let why = why.unwrap_or_else(|| "it does not answer".to_owned());
        return Err(format!("not connected within {REGISTRY_TIMEOUT:?}: {why}"));
    }
    let took = started.elapsed().as_millis();
    let n_interfaces = Cell::new(0_u64);
    let count = |_: &str| {
        n_interfaces.set(n_interfaces.get() + 1);
        false
    };
    let read = tokio::time::timeout(REGISTRY_TIMEOUT, registry.catalogue(count)).await;
    match read {
        Ok(Ok(_)) => {
            let n = n_interfaces.get();
            let registered = counted(n, "interface is registered", "interfaces are registered");
            Ok(format!("connected in {took} ms; {registered}"))
        }
        Ok(Err(error)) => Err(format!("connected in {took} ms, but {error}")),
        Err(_) => Err(format!("connected in {took} ms, but not read within {REGISTRY_TIMEOUT:?}")),
    }
}

/// Connects to an app.
async fn app(destination: &Destination) -> Result<String, String> {
    let started = Instant::now();
    let connected = destination.connect("check", APP_TIMEOUT).await;
    connected.map_err(|error| format!("{error}; start the app, or correct its address"))?;
    Ok(format!("connected in {} ms", started.elapsed().as_millis()))
}
