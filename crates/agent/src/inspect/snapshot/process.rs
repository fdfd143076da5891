//! What is shown of the process, of its listeners and of what their callers saw.

use serde::{Deserialize, Serialize};

use super::CallsSnapshot;

/// What the process uses, and whether it gets it. What the kernel does not say is null.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct ProcessSnapshot {
    /// User and system time since it began, in milliseconds.
    pub cpu_ms: Option<f64>,
    /// How long its threads waited for a processor, together, in milliseconds.
    pub run_queue_ms: Option<f64>,
    /// How its control group was held to its quota of CPU time, if it has one.
    pub cpu_throttling: Option<CpuThrottlingSnapshot>,
    /// How late the event loop of a worker was in the last ten seconds, at worst, in milliseconds.
    pub lag_ms: Option<f64>,
    /// How late one was at least once in most of these seconds.
    pub usual_lag_ms: Option<f64>,
    /// Resident memory.
    pub resident_bytes: Option<u64>,
    /// File descriptors that are open.
    pub open_files: Option<u64>,
    /// Most file descriptors that may be open.
    pub max_files: Option<u64>,
    /// The budget of memory for connections.
    pub memory: Option<MemorySnapshot>,
}

/// How a control group was held to its quota of CPU time, since it was made.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct CpuThrottlingSnapshot {
    /// Periods in which it ran.
    pub periods: u64,
    /// Those of them in which its quota was used up.
    pub throttled: u64,
}

/// The budget of memory for connections.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct MemorySnapshot {
    /// Bytes that are held.
    pub used_bytes: usize,
    /// The most: `memory_bytes` of `[agent]`.
    pub limit_bytes: usize,
    /// How often a connection asked for more and was refused.
    pub refused: u64,
}

/// A listener, and the calls that it took.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ListenerSnapshot {
    /// Its address.
    pub listener: String,
    /// Connections that are open.
    pub open: u64,
    /// Connections that it has accepted.
    pub accepted: u64,
    /// Connections that it closed at once, because it had `max_connections`.
    pub refused_full: u64,
    /// Connections that it closed at once, because only reserved file descriptors were left.
    pub refused_no_files: u64,
    /// Its calls, as their callers saw them: each counts once. Null for a listener that takes
    /// none.
    pub calls: Option<CallsSnapshot>,
}

/// A method of a service that was called over HTTP.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct MethodSnapshot {
    /// The service.
    pub service: String,
    /// The method; `other` for calls of which it is not known whether the service has theirs.
    pub method: String,
    /// Its calls, as their callers saw them, after all attempts: each counts once.
    pub calls: CallsSnapshot,
}

/// Which program this is.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct VersionSnapshot {
    /// Always `dubmesh`.
    pub program: String,
    /// Its version.
    pub version: String,
    /// What this agent calls itself.
    pub agent: String,
    /// The number of its process.
    pub pid: u32,
    /// How long it has run, in seconds.
    pub uptime_s: u64,
}
