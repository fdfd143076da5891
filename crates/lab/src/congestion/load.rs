//! The callers, and what they see.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use agent::args::ArgumentList;
use agent::client::Client;
use agent::config::ClusterPolicy;
use agent::invocation::{Invocation, Origin};
use agent::route::RouteName;
use hessian::transcode::JsonOptions;
use registry::{Endpoint, MemoryHub, Registration, Registry, RegistryConfig};
use wire::SocketOptions;

use super::{Callee, CongestionError, Outcome, Setting};
use crate::latencies::Latencies;

/// A call that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(30);
/// As an agent's worker.
const TEND_INTERVAL: Duration = Duration::from_millis(100);

/// How much is called, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Callers, each with one call at a time.
    pub callers: u32,
    /// Characters of the text that is sent.
    pub request_len: usize,
    /// How long callers call before the measurement.
    pub warm_up: Duration,
    /// How long is measured.
    pub duration: Duration,
}

/// Calls `callee` by connections that are made as `setting` says.
///
/// # Errors
/// Why nothing was measured.
pub fn measure(
    callee: &Callee,
    setting: &Setting,
    load: &Load,
) -> Result<Outcome, CongestionError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .map_err(CongestionError::Runtime)?;
    runtime.block_on(run(callee, setting, load))
}

async fn run(callee: &Callee, setting: &Setting, load: &Load) -> Result<Outcome, CongestionError> {
    let registry = Registry::open(RegistryConfig::Memory(MemoryHub::new()))?;
    let registration = Registration {
        service: callee.service.clone(),
        endpoint: Endpoint::new(callee.protocol, &callee.host, callee.port),
        methods: vec![callee.method.clone()],
        app_address: None,
    };
    let _registered = registry.register(&registration)?;
    let client = Client::new("dubmesh-bench", "the argument", registry, policy(setting));
    let argument = format!("[\"{}\"]", "x".repeat(load.request_len));
    let callers = Callers {
        client,
        callee: callee.clone(),
        argument,
        latencies: Latencies::default(),
        errors: Cell::default(),
    };
    callers.call().await.map_err(CongestionError::Probe)?;
    let callers = Rc::new(callers);
    let begin = Instant::now() + load.warm_up;
    let end = begin + load.duration;
    let tasks: Vec<_> = (0..load.callers)
        .map(|_| {
            let callers = Rc::clone(&callers);
            tokio::task::spawn_local(async move { callers.call_until(begin, end).await })
        })
        .collect();
    let mut tick = tokio::time::interval(TEND_INTERVAL);
    while Instant::now() < end {
        tick.tick().await;
        callers.client.tend();
    }
    for task in tasks {
        // One that panicked shows in the log, and its calls are missing.
        let _ = task.await;
    }
    let summary = callers.latencies.summary([0.5, 0.99]);
    let [p50, p99] = summary.percentiles;
    Ok(Outcome {
        calls: summary.n,
        seconds: load.duration.as_secs_f64(),
        errors: callers.errors.get(),
        mean: summary.mean,
        p50,
        p99,
    })
}

fn policy(setting: &Setting) -> ClusterPolicy {
    let (send_buffer_len, receive_buffer_len) = (setting.buffer_len, setting.buffer_len);
    ClusterPolicy {
        timeout: Some(TIMEOUT),
        connections: setting.connections,
        // What the provider can take is not the question here.
        endpoint_capacity: None,
        socket: SocketOptions { send_buffer_len, receive_buffer_len, ..SocketOptions::default() },
        ..ClusterPolicy::default()
    }
}

/// What all callers share.
struct Callers {
    client: Client,
    callee: Callee,
    argument: String,
    latencies: Latencies,
    errors: Cell<u64>,
}

impl Callers {
    async fn call_until(&self, begin: Instant, end: Instant) {
        while Instant::now() < end {
            let start = Instant::now();
            let result = self.call().await;
            let now = Instant::now();
            if now < begin || end < now {
                continue;
            }
            match result {
                Ok(()) => self.latencies.add(now - start),
                Err(_) => self.errors.set(self.errors.get() + 1),
            }
        }
    }

    async fn call(&self) -> Result<(), agent::error::CallError> {
        let Callee { service, method, .. } = &self.callee;
        let invocation = Invocation {
            name: RouteName {
                interface: &service.interface,
                version: &service.version,
                group: &service.group,
                method,
                types: Some("java.lang.String"),
                generic: None,
            },
            args: ArgumentList::json(self.argument.as_bytes())?,
            timeout: Some(TIMEOUT),
            timeout_key: "the timeout of the benchmark",
            attachments: Vec::new(),
            origin: Origin::default(),
            clock: None,
            is_copy: false,
        };
        self.client.call(&invocation, &JsonOptions::default()).await.map(drop)
    }
}
