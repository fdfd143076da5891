//! The callers, and what they see.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use agent::args::ArgumentList;
use agent::client::Client;
use agent::config::ClusterPolicy;
use agent::invocation::{CallOrigin, Invocation};
use agent::route::RouteName;
use dubbo_proto::ServiceKey;
use hessian::transcode::JsonOptions;
use registry::{Endpoint, MemoryHub, Registration, Registry, RegistryConfig};
use wire::SocketOptions;

use super::{Callee, CongestionError, CongestionOutcome, LargeOutcome, Setting};
use crate::latencies::SharedHistogram;

/// A call that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(30);
/// As an agent's worker.
const TEND_INTERVAL: Duration = Duration::from_millis(100);

/// How much is called, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct LoadPlan {
    /// Callers, each with one call at a time.
    pub callers: u32,
    /// Characters of the text that is sent.
    pub request_len: usize,
    /// How long callers call before the measurement.
    pub warm_up: Duration,
    /// How long is measured.
    pub duration: Duration,
    /// Large calls beside them.
    pub large: Option<LargeLoad>,
}

/// Calls with large replies, that go on beside the others.
#[derive(Clone, Copy, Debug)]
pub struct LargeLoad {
    /// Callers, each with one call at a time.
    pub callers: u32,
    /// Characters of each reply.
    pub reply_len: usize,
}

/// Calls `callee` by connections that are made as `setting` says.
///
/// # Errors
/// Why nothing was measured.
pub fn measure(
    callee: &Callee,
    setting: &Setting,
    load: &LoadPlan,
) -> Result<CongestionOutcome, CongestionError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .map_err(CongestionError::Runtime)?;
    runtime.block_on(run(callee, setting, load))
}

async fn run(
    callee: &Callee,
    setting: &Setting,
    load: &LoadPlan,
) -> Result<CongestionOutcome, CongestionError> {
    let registry = Registry::open(RegistryConfig::Memory(MemoryHub::new()))?;
    let registration = Registration {
        service: callee.service.clone(),
        endpoint: Endpoint::new(callee.protocol, &callee.host, callee.port),
        methods: vec![callee.method.clone()],
        app_address: None,
    };
    let _registered = registry.register(&registration)?;
    let client = Client::new("dubmesh-bench", "the argument", registry, policy(setting));
    let client = Rc::new(client);
    let callers = |method: &str, argument: String| {
        let (client, service) = (Rc::clone(&client), callee.service.clone());
        let (latencies, errors) = (SharedHistogram::default(), Cell::default());
        Rc::new(Callers { client, service, method: method.into(), argument, latencies, errors })
    };
    let small = callers(&callee.method, format!("[\"{}\"]", "x".repeat(load.request_len)));
    let large =
        load.large.map(|it| (it, callers(&callee.large_method, format!("[\"{}\"]", it.reply_len))));
    small.call().await.map_err(CongestionError::Probe)?;
    if let Some((_, large)) = &large {
        large.call().await.map_err(CongestionError::Probe)?;
    }
    let begin = Instant::now() + load.warm_up;
    let end = begin + load.duration;
    let of_small = std::iter::repeat_n(&small, load.callers as usize);
    let of_large = large.iter().flat_map(|(it, all)| std::iter::repeat_n(all, it.callers as usize));
    let tasks: Vec<_> = of_small
        .chain(of_large)
        .map(|callers| {
            let callers = Rc::clone(callers);
            tokio::task::spawn_local(async move { callers.call_until(begin, end).await })
        })
        .collect();
    let mut tick = tokio::time::interval(TEND_INTERVAL);
    while Instant::now() < end {
        tick.tick().await;
        client.tend();
    }
    for task in tasks {
        // One that panicked shows in the log, and its calls are missing.
        let _ = task.await;
    }
    let summary = small.latencies.summary([0.5, 0.99]);
    let [p50, p99] = summary.percentiles;
    let large = large.map(|(_, large)| {
        let (summary, errors) = (large.latencies.summary([]), large.errors.get());
        LargeOutcome { calls: summary.n, errors, mean: summary.mean }
    });
    Ok(CongestionOutcome {
        calls: summary.n,
        seconds: load.duration.as_secs_f64(),
        errors: small.errors.get(),
        mean: summary.mean,
        p50,
        p99,
        large,
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

/// What all callers of one method share.
struct Callers {
    client: Rc<Client>,
    service: ServiceKey,
    method: Box<str>,
    argument: String,
    latencies: SharedHistogram,
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
        let Self { service, method, .. } = self;
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
            origin: CallOrigin::default(),
            clock: None,
            is_copy: false,
            not_at: None,
        };
        self.client.call(&invocation, &JsonOptions::default()).await.map(drop)
    }
}
