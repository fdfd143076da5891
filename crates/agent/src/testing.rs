//! What unit tests of a worker's parts have in common. Endpoints and apps are at addresses where
//! nothing listens, so that a test decides itself what they would answer.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dubbo_proto::{Serialization, ServiceKey};
use registry::{MemoryHub, Registry, RegistryConfig};
use tokio::sync::watch;
use tokio::task::LocalSet;
use wire::{Account, Budget, Group};

use crate::config::{
    self, AppCapacity, AppConfig, ClusterPolicy, ClusterRules, Config, ExportConfig,
};
use crate::connections::Connections;
use crate::error::Code;
use crate::facts::CallFacts;
use crate::gate::{DirectGates, OwnGates, SharedGate};
use crate::journal::Journal;
use crate::memory::Memory;
use crate::metrics::Hub;
use crate::offload::Threads;
use crate::traffic::Traffic;
use crate::upstream::{PoolSetup, UpstreamPool};
use crate::worker::{OfferedExport, WorkerSetup};

/// A host and port where nothing listens.
pub(crate) const NOWHERE: (&str, u16) = ("127.0.0.1", 1);

/// Longest time that anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The configuration of an agent that exports one service of an app, at an address where nothing
/// listens.
pub(crate) fn exporting(app: &str) -> Config {
    let text = format!(
        "[[registry]]
        kind = 'etcd'
        [link]
        listen = '127.0.0.1:2'
        [[export]]
        interface = 'com.acme.Echo'
        app = '{app}'"
    );
    config::parse(&text, "test.toml").unwrap()
}

/// Runs a test where upstreams can begin to connect. They get no further, unless the test waits.
pub(crate) fn on_worker(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test());
}

/// Upstreams that may hold as much as they like.
pub(crate) fn pool() -> Rc<UpstreamPool> {
    let memory = Rc::new(Memory::new(Budget::new(usize::MAX), Group::new()));
    let gates = OwnGates::new(Arc::new(DirectGates::new(1)), 0);
    Rc::new(UpstreamPool::new(PoolSetup {
        agent_name: "test",
        memory,
        threads: Threads::one_per_core(),
        connections: Connections::default(),
        gates,
        traffic: Traffic::default(),
        own_ingresses: Arc::default(),
    }))
}

/// The parts of a worker that knows an empty registry.
pub(crate) fn worker_setup(exports: Vec<OfferedExport>) -> WorkerSetup {
    let registry = Registry::open(RegistryConfig::Memory(MemoryHub::new())).unwrap();
    WorkerSetup {
        index: 0,
        name: "test".to_owned(),
        registries: vec![("main".to_owned(), registry)],
        rules: Arc::new(ClusterRules { default: ClusterPolicy::default(), rules: Vec::new() }),
        exports,
        hub: Hub::new(&Code::NAMES),
        journal: Journal::default(),
        budget: Budget::new(usize::MAX),
        endpoints: Group::new(),
        threads: Threads::one_per_core(),
        direct_gates: Arc::new(DirectGates::new(1)),
        traffic: Traffic::default(),
        own_ingresses: Arc::default(),
    }
}

/// A service of a Dubbo app that nobody can reach.
pub(crate) fn offer(interface: &str, generation: u64) -> OfferedExport {
    let (host, port) = NOWHERE;
    let serialization = Serialization::DEFAULT;
    let app = AppConfig::Dubbo { host: host.to_owned(), port, tls: None, serialization };
    let service = ServiceKey::new(interface, "", "").unwrap();
    let capacity = AppCapacity::Known(200);
    OfferedExport {
        gate: Arc::new(SharedGate::new(app.address(), capacity, 1)),
        export: ExportConfig { service, app, registry: 0, weight: 1, capacity },
        generation,
        health: watch::Sender::new(0),
    }
}

/// The account of a connection that may hold as much as it likes.
pub(crate) fn account() -> Rc<Account> {
    Memory::new(Budget::new(usize::MAX), Group::new()).endpoint().account()
}

/// Lets tasks run until `look` finds what it looks for.
pub(crate) async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "nothing within {PATIENCE:?}");
        tokio::task::yield_now().await;
    }
}

/// A call of which rules see no more than its headers.
pub(crate) struct HeaderFacts(pub(crate) &'static [(&'static str, &'static str)]);

/// A call of which rules see nothing.
pub(crate) const NO_FACTS: HeaderFacts = HeaderFacts(&[]);

impl CallFacts for HeaderFacts {
    fn method(&self) -> Cow<'_, str> {
        "echo".into()
    }

    fn attachment(&self, _: &str) -> Option<Cow<'_, str>> {
        None
    }

    fn argument(&self, _: usize) -> Option<Cow<'_, str>> {
        None
    }

    fn member(&self, _index: usize, _path: &[String]) -> Option<Cow<'_, str>> {
        None
    }

    fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.0.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).into())
    }
}
