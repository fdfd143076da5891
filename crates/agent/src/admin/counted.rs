//! Pages of what is counted for all workers in one place: methods, listeners, the process.

use std::time::Duration;

use dubbo_proto::ServiceKey;
use http::StatusCode;
use serde::Serialize;
use wire::{CpuThrottling, CpuWait};

use super::AdminState;
use super::pages::{PageResponse, json, text};
use crate::inspect::Filter;
use crate::inspect::snapshot::{
    CpuThrottlingSnapshot, ListenerSnapshot, MemorySnapshot, MethodSnapshot, Page, ProcessSnapshot,
};
use crate::metrics::{ListenerFigures, MethodCalls, ProcessFigures};

pub(super) fn methods(state: &AdminState, query: &str) -> PageResponse {
    let filter = match Filter::of_query(query, &["service"]) {
        Ok(filter) => filter,
        Err(problem) => return text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    };
    let is_wanted =
        |name: &str| name.parse::<ServiceKey>().is_ok_and(|key| filter.has_service(&key, name));
    let describe = |MethodCalls { service, method, calls }| MethodSnapshot {
        service,
        method,
        calls: calls.into(),
    };
    json(&first(state.hub.methods(is_wanted), filter.limit, describe))
}

pub(super) fn listeners(state: &AdminState, query: &str) -> PageResponse {
    let filter = match Filter::of_query(query, &[]) {
        Ok(filter) => filter,
        Err(problem) => return text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    };
    let describe = |ListenerFigures { listener, connections, calls }| ListenerSnapshot {
        listener,
        open: connections.n_open(),
        accepted: connections.n_accepted(),
        refused_full: connections.n_refused_full(),
        refused_no_files: connections.n_refused_no_files(),
        calls: calls.map(Into::into),
    };
    json(&first(state.hub.listeners(), filter.limit, describe))
}

fn first<T, S: Serialize>(all: Vec<T>, limit: usize, describe: impl Fn(T) -> S) -> Page<S> {
    let total = all.len();
    let items: Vec<S> = all.into_iter().take(limit).map(describe).collect();
    Page { total, truncated: items.len() < total, silent_workers: Vec::new(), items }
}

pub(super) fn process(state: &AdminState) -> ProcessSnapshot {
    let ProcessFigures { cpu, resident_bytes, open_files, max_files, lag, usual_lag, memory } =
        state.hub.process();
    let CpuWait { run_queue, throttling } = CpuWait::own();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let throttling = throttling.map(|CpuThrottling { n_periods, n_throttled }| {
        CpuThrottlingSnapshot { periods: n_periods, throttled: n_throttled }
    });
    ProcessSnapshot {
        cpu_ms: cpu.map(ms),
        run_queue_ms: run_queue.map(ms),
        cpu_throttling: throttling,
        lag_ms: lag.map(ms),
        usual_lag_ms: usual_lag.map(ms),
        resident_bytes,
        open_files,
        max_files,
        memory: memory.map(|budget| MemorySnapshot {
            used_bytes: budget.used(),
            limit_bytes: budget.limit(),
            refused: budget.refused(),
        }),
    }
}
