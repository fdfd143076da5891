//! What is counted seldom enough to be shared by all threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use registry::RegistryActivity;

/// How a registry does.
#[derive(Debug, Default)]
pub struct RegistryStats {
    pub(super) connected: AtomicBool,
    pub(super) subscriptions: AtomicU64,
    pub(super) registrations: AtomicU64,
    pub(super) changes: AtomicU64,
    pub(super) unused: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) left_out: AtomicU64,
    /// Seconds since 1970; 0 if there was none.
    pub(super) last_change: AtomicU64,
}

impl RegistryStats {
    /// Whether the registry can be reached.
    pub fn set_connected(&self, connected: bool) {
        self.connected.store(connected, Relaxed);
    }

    /// What the registry itself has counted.
    pub fn set_activity(&self, activity: &RegistryActivity) {
        self.subscriptions.store(activity.subscriptions as u64, Relaxed);
        self.changes.store(activity.changes, Relaxed);
        self.unused.store(activity.unused as u64, Relaxed);
        self.refused.store(activity.refused, Relaxed);
        self.left_out.store(activity.left_out, Relaxed);
        self.last_change.store(activity.last_change.map_or(0, unix_seconds), Relaxed);
    }

    /// One more service is registered in it by us.
    pub fn registered(&self) {
        self.registrations.fetch_add(1, Relaxed);
    }

    /// One of our services is registered in it no more.
    pub fn withdrawn(&self) {
        self.registrations.fetch_sub(1, Relaxed);
    }
}

/// Whole seconds since 1970.
pub(super) fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Something shared per name. Names come from the configuration, which bounds them.
#[derive(Debug)]
pub(super) struct PerName<T>(Mutex<BTreeMap<String, Arc<T>>>);

impl<T> Default for PerName<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Default> PerName<T> {
    /// The one of this name, made when it is asked for first.
    pub(super) fn of(&self, name: &str) -> Arc<T> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(name.to_owned()).or_default())
    }

    /// All, in the order of their names.
    pub(super) fn all(&self) -> Vec<(String, Arc<T>)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(name, it)| (name.clone(), Arc::clone(it))).collect()
    }
}
