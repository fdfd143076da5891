//! A worker: one thread, one event loop, and everything that its calls touch.
//!
//! Nothing here is shared with another worker, but for what the registry publishes and what the
//! admin listener reads. A call lives and dies on the worker that its connection was given to.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::TcpStream as StdStream;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dubbo_proto::ServiceKey;
use registry::{Registry, Subscription};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tracing::debug;

use crate::backend::{Backend, Backends};
use crate::cluster::Cluster;
use crate::config::{ClusterRules, ExportConfig};
use crate::error::{CallError, Code};
use crate::export::LinkSession;
use crate::ingress::dubbo::{DubboListener, DubboSession};
use crate::ingress::http::{HttpListener, HttpSession};
use crate::metrics::{Hub, OpenConnection};
use crate::resolve::definitions::Definitions;
use crate::route::RouteTable;
use crate::upstream::{Pool, Standing};

/// Services that one worker looks up; each costs a watch at the registry.
const MAX_CLUSTERS: usize = 1024;
/// How often idle things are looked for. Timeouts of connections are kept to this precision.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);
/// A service that has no endpoint is forgotten when nobody has asked for it this long.
const IDLE_CLUSTER_TTL: Duration = Duration::from_secs(30);

/// What the control thread tells a worker.
pub enum ToWorker {
    /// Serve a connection of an HTTP listener.
    Http(Accepted, Arc<HttpListener>),
    /// Serve a Dubbo consumer.
    Dubbo(Accepted, Arc<DubboListener>),
    /// Serve a link from another agent.
    Link(Accepted, Arc<link_proto::Config>),
    /// Make calls by these rules from now on.
    Rules(Arc<ClusterRules>),
    /// Take no new calls; stop as soon as those in flight are done.
    Drain,
}

/// A connection that was given to a worker, and what counts it until it is dropped.
pub struct Accepted {
    /// The connection.
    pub stream: StdStream,
    /// Counts it for its listener.
    pub open: OpenConnection,
    /// Counts it for its worker.
    pub load: Load,
}

/// One connection of a worker, for the acceptor to find the one that has fewest.
pub struct Load(Arc<AtomicUsize>);

impl Load {
    /// One more for the worker whose count this is.
    pub fn add(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a worker is made of.
pub struct WorkerSetup {
    /// The worker's number, from 0.
    pub index: usize,
    /// The agent's name.
    pub name: String,
    /// The registries of the configuration, in its order.
    pub registries: Vec<(String, Registry)>,
    /// How calls are made.
    pub rules: Arc<ClusterRules>,
    /// What is offered to other agents.
    pub exports: Vec<ExportConfig>,
    /// How well the app behind each export can be reached.
    pub app_health: Vec<AppHealth>,
    /// Where calls are counted.
    pub hub: Hub,
}

/// How many workers are connected to the app of an export. The control thread registers it only
/// while there is one.
pub type AppHealth = tokio::sync::watch::Sender<usize>;

/// One worker's state.
pub struct Worker {
    /// Its number, from 0.
    pub index: usize,
    registries: Vec<(String, Registry)>,
    rules: RefCell<Arc<ClusterRules>>,
    clusters: RefCell<HashMap<(usize, ServiceKey), ClusterEntry>>,
    /// The routes that callers have used.
    pub routes: RouteTable,
    /// What the called services look like.
    pub definitions: Definitions,
    pool: Rc<Pool>,
    backends: Rc<Backends>,
    hub: Hub,
    rules_epoch: Cell<u32>,
    http: RefCell<Vec<Weak<HttpSession>>>,
    dubbo: RefCell<Vec<Weak<DubboSession>>>,
    links: Links,
    n_open: Cell<usize>,
    draining: Cell<bool>,
}

/// The links that other agents have opened. Some may have ended.
type Links = Rc<RefCell<Vec<Weak<LinkSession>>>>;

struct ClusterEntry {
    cluster: Rc<Cluster>,
    updates: AbortHandle,
}

impl Drop for ClusterEntry {
    fn drop(&mut self) {
        self.updates.abort();
    }
}

impl Worker {
    /// Builds the worker. Must be called on the worker's runtime.
    pub fn new(setup: WorkerSetup) -> Rc<Self> {
        let pool = Rc::new(Pool::new(&setup.name));
        let links = Links::default();
        let backends = setup.exports.iter().zip(&setup.app_health).map(|(export, health)| {
            let backend = Rc::new(Backend::start(export, &pool, &setup.rules, &setup.hub));
            let report = report_health(Rc::clone(&backend), health.clone(), Rc::clone(&links));
            tokio::task::spawn_local(report);
            (export.service.to_string(), backend)
        });
        Rc::new(Self {
            index: setup.index,
            backends: Rc::new(backends.collect()),
            registries: setup.registries,
            rules: RefCell::new(setup.rules),
            clusters: RefCell::default(),
            routes: RouteTable::default(),
            definitions: Definitions::default(),
            pool,
            hub: setup.hub,
            rules_epoch: Cell::new(0),
            http: RefCell::default(),
            dubbo: RefCell::default(),
            links,
            n_open: Cell::new(0),
            draining: Cell::new(false),
        })
    }

    /// Serves until a drain is complete, or the control thread is gone.
    pub async fn run(self: Rc<Self>, mut inbox: mpsc::UnboundedReceiver<ToWorker>) {
        let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = inbox.recv() => match message {
                    Some(message) => self.handle(message),
                    None => return,
                },
                _ = sweep.tick() => self.sweep(),
            }
            if self.draining.get() && self.n_open.get() == 0 {
                return;
            }
        }
    }

    fn handle(self: &Rc<Self>, message: ToWorker) {
        match message {
            ToWorker::Http(accepted, listener) => self.serve_http(accepted, listener),
            ToWorker::Dubbo(accepted, listener) => self.serve_dubbo(accepted, listener),
            ToWorker::Link(accepted, config) => self.serve_link(accepted, &config),
            ToWorker::Rules(rules) => {
                for ((_, service), entry) in &*self.clusters.borrow() {
                    entry.cluster.set_policy(rules.policy(&service.interface));
                }
                *self.rules.borrow_mut() = rules;
                self.rules_epoch.set(self.rules_epoch.get().wrapping_add(1));
            }
            ToWorker::Drain => {
                self.draining.set(true);
                self.http.borrow().iter().filter_map(Weak::upgrade).for_each(|http| http.drain());
                self.dubbo
                    .borrow()
                    .iter()
                    .filter_map(Weak::upgrade)
                    .for_each(|dubbo| dubbo.drain());
                self.links.borrow().iter().filter_map(Weak::upgrade).for_each(|link| link.drain());
            }
        }
    }

    /// Ends the connections to endpoints, after what waits to be written.
    pub async fn close_connections(&self) {
        self.pool.close().await;
    }

    /// Whether no new calls are taken.
    pub fn is_draining(&self) -> bool {
        self.draining.get()
    }

    fn serve_http(self: &Rc<Self>, accepted: Accepted, listener: Arc<HttpListener>) {
        let session = HttpSession::new();
        if self.draining.get() {
            session.drain();
        }
        self.http.borrow_mut().push(Rc::downgrade(&session));
        let worker = Rc::clone(self);
        self.serve(accepted, async move |stream| {
            session.serve(worker, &listener, stream).await;
        });
    }

    fn serve_dubbo(self: &Rc<Self>, accepted: Accepted, listener: Arc<DubboListener>) {
        let session = DubboSession::new(self, listener);
        if self.draining.get() {
            session.drain();
        }
        self.dubbo.borrow_mut().push(Rc::downgrade(&session));
        self.serve(accepted, async move |stream| session.serve(stream).await);
    }

    fn serve_link(self: &Rc<Self>, accepted: Accepted, config: &link_proto::Config) {
        let session = LinkSession::new(config, Rc::clone(&self.backends));
        if self.draining.get() {
            session.drain();
        }
        self.links.borrow_mut().push(Rc::downgrade(&session));
        self.serve(accepted, async move |stream| {
            let ending = session.serve(stream).await;
            debug!(%ending, "link closed");
        });
    }

    fn serve(self: &Rc<Self>, accepted: Accepted, serve: impl AsyncFnOnce(TcpStream) + 'static) {
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let _counted = Counted::new(&worker.n_open);
            let tuned = TcpStream::from_std(accepted.stream)
                .and_then(|stream| link::socket::tune(&stream).map(|()| stream));
            match tuned {
                Ok(stream) => serve(stream).await,
                Err(error) => debug!(%error, "connection lost"),
            }
        });
    }

    fn sweep(&self) {
        let now = Instant::now();
        self.http.borrow_mut().retain(|session| match session.upgrade() {
            Some(session) => {
                session.check_time(now);
                true
            }
            None => false,
        });
        self.dubbo.borrow_mut().retain(|session| {
            session.upgrade().inspect(|session| session.check_time(now)).is_some()
        });
        self.links.borrow_mut().retain(|session| session.strong_count() != 0);
        self.definitions.sweep(&self.routes);
        self.clusters.borrow().values().for_each(|entry| entry.cluster.check_held(now));
        self.forget_idle_clusters(now);
    }

    /// A registry by its number.
    pub fn registry(&self, index: usize) -> Option<&Registry> {
        self.registries.get(index).map(|(_, registry)| registry)
    }

    fn forget_idle_clusters(&self, now: Instant) {
        let Some(since) = now.checked_sub(IDLE_CLUSTER_TTL) else { return };
        self.clusters.borrow_mut().retain(|_, entry| {
            let is_idle = entry.cluster.is_idle(since);
            if is_idle {
                entry.cluster.forget();
                self.routes.forget(&entry.cluster);
            }
            !is_idle
        });
    }

    /// Changes whenever the rules do.
    pub fn rules_epoch(&self) -> u32 {
        self.rules_epoch.get()
    }

    /// The app behind an exported service, and the longest that a call to it may take.
    pub fn backend(&self, service: &ServiceKey) -> Option<(Rc<Backend>, Duration)> {
        let backend = Rc::clone(self.backends.get(&service.to_string())?);
        let max_timeout = self.rules.borrow().policy(&service.interface).max_timeout;
        Some((backend, max_timeout))
    }

    /// The cluster of a service, if it was looked up in a registry before.
    pub fn known_cluster(&self, registry: usize, service: ServiceKey) -> Option<Rc<Cluster>> {
        let clusters = self.clusters.borrow();
        clusters.get(&(registry, service)).map(|entry| Rc::clone(&entry.cluster))
    }

    /// The cluster of a service, looked up in a registry from now on if it was not before.
    ///
    /// # Errors
    /// [`Code::Overloaded`] if too many services are looked up already.
    pub fn cluster(&self, registry: usize, service: ServiceKey) -> Result<Rc<Cluster>, CallError> {
        let mut clusters = self.clusters.borrow_mut();
        if let Some(entry) = clusters.get(&(registry, service.clone())) {
            return Ok(Rc::clone(&entry.cluster));
        }
        let Some((name, known)) = self.registries.get(registry) else {
            return Err(CallError::new(Code::Internal, "the listener has no registry"));
        };
        if MAX_CLUSTERS <= clusters.len() {
            let message = format!("{MAX_CLUSTERS} services are looked up already; try again later");
            return Err(CallError::new(Code::Overloaded, message));
        }
        let policy = self.rules.borrow().policy(&service.interface).clone();
        let pool = Rc::clone(&self.pool);
        let hub = self.hub.clone();
        let cluster = Rc::new(Cluster::new(service.clone(), name, &policy, pool, hub));
        let subscription = known.subscribe(&service);
        cluster.update(&subscription.current());
        let updates = tokio::task::spawn_local(follow(Rc::downgrade(&cluster), subscription));
        let entry = ClusterEntry { cluster: Rc::clone(&cluster), updates: updates.abort_handle() };
        clusters.insert((registry, service), entry);
        Ok(cluster)
    }
}

/// Counts a connection of the worker, also when its task ends in a panic.
struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn new(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Passes on what the registry says, until the cluster is forgotten.
async fn follow(cluster: Weak<Cluster>, subscription: Subscription) {
    let mut snapshots = subscription.snapshots();
    loop {
        let snapshot = snapshots.borrow_and_update().clone();
        match cluster.upgrade() {
            Some(cluster) => cluster.update(&snapshot),
            None => return,
        }
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}

/// Tells the control thread, and the agents on this worker's links, whether this worker reaches the
/// app. When another worker does, this one need not wait until its next attempt is due.
async fn report_health(backend: Rc<Backend>, health: AppHealth, links: Links) {
    let (mut counted, mut standing) = (false, backend.standing());
    let mut of_all = health.subscribe();
    loop {
        let changed = backend.changed();
        let before = std::mem::replace(&mut standing, backend.standing());
        let is_ready = standing == Standing::Ready;
        if before != standing {
            let links = links.borrow();
            links.iter().filter_map(Weak::upgrade).for_each(|link| link.app_changed(&backend));
        }
        if is_ready != counted {
            counted = is_ready;
            health.send_modify(|n_ready| match is_ready {
                true => *n_ready += 1,
                false => *n_ready -= 1,
            });
        }
        tokio::select! {
            () = changed => {}
            Ok(()) = of_all.changed() => {
                if !counted && 0 < *of_all.borrow_and_update() {
                    backend.connect_soon();
                }
            }
        }
    }
}
