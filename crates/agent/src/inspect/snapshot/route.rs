//! A route, as it is shown.

use serde::{Deserialize, Serialize};

use super::WorkerSnapshot;

/// One method of a service, with one list of parameter types, as callers have used it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RouteSnapshot {
    /// The service.
    pub service: String,
    /// The registry of its endpoints.
    pub registry: String,
    /// The method; `*` for all calls of Dubbo consumers, which are passed on unread.
    pub method: String,
    /// The JVM descriptors of its parameters; empty if the provider finds the method by its name.
    pub types: String,
    /// `direct`, `generic`, or `whole` for calls that are passed on unread.
    pub call: String,
    /// The serializations that its endpoints are written to in. Empty if that is their callers'
    /// choice.
    pub serializations: Vec<String>,
    /// What holds for its method besides, by `[[cluster.method]]`; faults that are injected stand
    /// first.
    #[serde(default)]
    pub method_policy: Vec<String>,
    /// Calls so far. Routes that nobody uses may make room for others, and then begin again.
    pub calls: u64,
    /// How many workers know it.
    pub workers: usize,
}

impl WorkerSnapshot for RouteSnapshot {
    type Key = (String, String, String, String, String);
    const IS_SHARED: bool = true;

    fn key(&self) -> Self::Key {
        let Self { service, registry, method, types, call, .. } = self;
        (service.clone(), method.clone(), types.clone(), call.clone(), registry.clone())
    }

    fn merge(&mut self, other: Self) {
        self.calls += other.calls;
        self.workers += other.workers;
        for serialization in other.serializations {
            if !self.serializations.contains(&serialization) {
                self.serializations.push(serialization);
            }
        }
    }
}
