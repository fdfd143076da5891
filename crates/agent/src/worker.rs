//! A worker: one thread, one event loop, and everything that its calls touch.
//!
//! Nothing here is shared with another worker, but for what the registry publishes and what the
//! admin listener reads. A call lives and dies on the worker that its connection was given to.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dubbo_proto::ServiceKey;
use registry::Registry;
use tokio::sync::{Notify, mpsc};
use tracing::{debug, info};
use wire::{Account, Budget, Connection, Departures, Detached, Group};

use self::arrivals::Arrivals;
use self::turns::{InTurn, SessionTurns, Who};
use crate::backend::{Backend, Backends, GateSetup, WorkerGates};
use crate::config::{ClusterRules, ExportConfig};
use crate::connections::{Connections, Direction, Session};
use crate::error::CallError;
use crate::gate::{DirectGates, LONGEST_WORK, OwnGates, SharedGate};
use crate::inspect::Question;
use crate::journal::Journal;
use crate::memory::Memory;
use crate::metrics::{Hub, LagMeter};
use crate::offload::Threads;
use crate::outbound::Outbound;
use crate::own_ingresses::OwnIngresses;
use crate::traffic::Traffic;
use crate::upstream::{PoolSetup, Standing, UpstreamPool};

mod arrivals;
mod by_origin;
mod core_time;
mod inspect;
mod new_time;
mod turns;

/// How often idle things are looked for. Timeouts of connections are kept to this precision.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// A worker with more connections than this keeps as little as it can for those that are idle.
const CROWD_LEN: usize = 1_000;

/// What is spoken on the connections of one listener, with its settings. All workers share it.
pub trait ListenerProtocol: Send + Sync {
    /// Makes the session of a connection, and serves it by [`Worker::run_session`].
    fn serve(self: Arc<Self>, worker: &Rc<Worker>, connection: Detached);
}

/// What the control thread tells a worker.
pub enum ToWorker {
    /// Serve a connection that was accepted for it.
    Serve(Detached, Arc<dyn ListenerProtocol>),
    /// Make calls by these rules from now on.
    Rules(Arc<ClusterRules>),
    /// Offer a service by this app, in place of what offers it now.
    Offer(OfferedExport),
    /// Offer the service no longer, unless another offer has taken the place of this one.
    Withdraw(ServiceKey, u64),
    /// Say what you do.
    Inspect(Question),
    /// Take no new calls; stop as soon as those in flight are done.
    Drain,
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
    pub exports: Vec<OfferedExport>,
    /// Where calls are counted.
    pub hub: Hub,
    /// Where calls are told of.
    pub journal: Journal,
    /// What connections may hold.
    pub budget: Budget,
    /// What those to endpoints hold, of all workers.
    pub endpoints: Arc<Group>,
    /// What works on long messages, of all workers.
    pub threads: Threads,
    /// What keeps endpoints from more calls than they can take, of all workers.
    pub direct_gates: Arc<DirectGates>,
    /// What connections to endpoints carry, of all workers.
    pub traffic: Traffic,
    /// Where calls come back that the agent sends there.
    pub own_ingresses: Arc<OwnIngresses>,
}

/// A service that is offered.
#[derive(Clone)]
pub struct OfferedExport {
    /// What is offered, by which app.
    pub export: ExportConfig,
    /// Tells the offers of a service apart.
    pub generation: u64,
    /// Where workers say whether they reach the app.
    pub health: AppHealth,
    /// What all workers share of the gate before the app.
    pub gate: Arc<SharedGate>,
}

/// How many workers are connected to the app of an export. The control thread registers it only
/// while there is one.
pub type AppHealth = tokio::sync::watch::Sender<usize>;

/// A connection that is not served yet.
struct Arrival {
    connection: Detached,
    protocol: Arc<dyn ListenerProtocol>,
    /// A drain waits for it.
    _counted: OpenConnectionGuard,
}

/// One worker's state.
pub struct Worker {
    /// Its number, from 0.
    pub index: usize,
    /// What its calls to other services go by.
    pub outbound: Rc<Outbound>,
    /// Where calls are told of.
    pub journal: Journal,
    /// This worker's part of the budget.
    pub memory: Rc<Memory>,
    backends: Rc<Backends>,
    gates: WorkerGates,
    threads: Threads,
    rules_epoch: Cell<u32>,
    connections: Connections,
    arrivals: Arrivals<Arrival>,
    departures: Departures,
    turns: Rc<SessionTurns>,
    /// Accepted connections that have not ended.
    n_open: Cell<usize>,
    /// Notes how late the event loop comes.
    lag: LagMeter,
    /// The last connection has ended.
    is_idle: Notify,
    /// A drain begins.
    drains: Notify,
}

impl Worker {
    /// Builds the worker. Must be called on the worker's runtime.
    pub fn new(setup: WorkerSetup) -> Rc<Self> {
        let memory = Rc::new(Memory::new(setup.budget, setup.endpoints));
        let connections = Connections::default();
        let pool = UpstreamPool::new(PoolSetup {
            agent_name: &setup.name,
            memory: Rc::clone(&memory),
            threads: setup.threads.clone(),
            connections: connections.clone(),
            gates: OwnGates::new(setup.direct_gates, setup.index),
            traffic: setup.traffic,
            own_ingresses: setup.own_ingresses,
        });
        let pool = Rc::new(pool);
        let turns = Rc::new(SessionTurns::new(pool.n_in_line()));
        let lag = setup.hub.lag_meter(setup.index);
        let worker = Rc::new(Self {
            index: setup.index,
            backends: Rc::default(),
            gates: WorkerGates::default(),
            outbound: Outbound::new(setup.registries, setup.rules, pool, setup.hub).into(),
            journal: setup.journal,
            memory,
            threads: setup.threads,
            rules_epoch: Cell::new(0),
            connections,
            arrivals: Arrivals::new(),
            departures: Departures::default(),
            turns,
            n_open: Cell::new(0),
            lag,
            is_idle: Notify::new(),
            drains: Notify::new(),
        });
        for offer in &setup.exports {
            worker.offer(offer);
        }
        worker
    }

    /// Offers a service from now on. Calls that are with the app that offered it before stay
    /// there.
    fn offer(&self, offer: &OfferedExport) {
        let gate = GateSetup { shared: &offer.gate, worker: self.index, gates: &self.gates };
        let backend = Rc::new(self.outbound.backend(&offer.export, &gate));
        let connections = self.connections.clone();
        let report = report_health(Rc::clone(&backend), offer.health.clone(), connections);
        tokio::task::spawn_local(report);
        self.backends.offer(offer.generation, &backend);
        self.exports_changed(&backend.service);
    }

    fn exports_changed(&self, service: &ServiceKey) {
        self.rules_epoch.set(self.rules_epoch.get().wrapping_add(1));
        self.connections.app_changed(service);
    }

    /// Serves until a drain is complete, or the control thread is gone.
    pub async fn run(self: Rc<Self>, mut inbox: mpsc::UnboundedReceiver<ToWorker>) {
        let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let serve = |arrival| {
            let Arrival { connection, protocol, _counted } = arrival;
            protocol.serve(&self, connection);
        };
        let must_wait = |origin| self.turns.is_full_from(origin);
        let may_hurry = |origin| self.turns.may_hurry(origin);
        let mut begin = pin!(self.arrivals.begin_each(serve, must_wait, may_hurry));
        let mut call = pin!(self.turns.call_each());
        let mut close = pin!(self.departures.close_each());
        loop {
            tokio::select! {
                message = inbox.recv() => match message {
                    Some(message) => self.handle(message),
                    None => return,
                },
                due = sweep.tick() => {
                    let now = Instant::now();
                    self.lag.note(now, now.saturating_duration_since(due.into_std()));
                    self.sweep();
                }
                () = &mut begin => {}
                () = &mut close => {}
                () = &mut call => {}
                () = self.is_idle.notified() => {}
            }
            if self.is_draining() && self.n_open.get() == 0 {
                return;
            }
        }
    }

    fn handle(self: &Rc<Self>, message: ToWorker) {
        match message {
            ToWorker::Serve(connection, protocol) => {
                let _counted = OpenConnectionGuard::new(self);
                let origin = connection.facts().peer.ip().into();
                self.arrivals.push(origin, Arrival { connection, protocol, _counted });
            }
            ToWorker::Rules(rules) => {
                self.outbound.set_rules(rules);
                self.rules_epoch.set(self.rules_epoch.get().wrapping_add(1));
            }
            ToWorker::Offer(offer) => self.offer(&offer),
            ToWorker::Withdraw(service, generation) => {
                if self.backends.withdraw(&service, generation) {
                    self.exports_changed(&service);
                }
            }
            ToWorker::Inspect(question) => self.answer(question),
            ToWorker::Drain => {
                self.outbound.stop();
                self.drains.notify_waiters();
                self.connections.drain();
            }
        }
    }

    /// Ends the connections to endpoints, after what waits to be written; the failure of one that
    /// broke before.
    pub async fn close_connections(&self) -> Option<CallError> {
        self.outbound.close().await
    }

    /// Whether there are so many connections that what an idle one holds matters.
    pub fn is_crowded(&self) -> bool {
        CROWD_LEN < self.n_open.get()
    }

    /// Whether no new calls are taken.
    pub fn is_draining(&self) -> bool {
        self.outbound.is_stopped()
    }

    /// Puts a session into the table, and serves its connection to the end. A handshake by TLS
    /// draws from the connection's account.
    pub fn run_session<S: Session + 'static>(
        self: &Rc<Self>,
        connection: Detached,
        account: Rc<Account>,
        session: &Rc<S>,
        serve: impl AsyncFnOnce(Connection) + 'static,
    ) {
        if self.is_draining() {
            session.drain();
        }
        let (facts, meter) = (connection.facts(), connection.meter());
        let who = Who::new(facts.peer.ip().into(), Rc::<S>::clone(session));
        self.connections.add(facts, meter, Direction::Downstream, session);
        // From now on, not from when the task first runs: a drain must not miss it.
        let counted = OpenConnectionGuard::new(self);
        let worker = Rc::clone(self);
        let serve = async move {
            let _counted = counted;
            let facts = connection.facts();
            match connection.attach() {
                Ok(mut connection) => {
                    connection.close_by(&worker.departures);
                    if let Some(connection) = secure(connection, &account, &worker).await {
                        serve(connection).await;
                    }
                }
                Err(error) => debug!(%error, "{facts} was lost as it was accepted"),
            }
            worker.arrivals.note_end();
            debug!(age = ?facts.age(), "{facts} has ended");
        };
        tokio::task::spawn_local(InTurn::new(serve, &self.turns, who));
    }

    fn sweep(&self) {
        let now = Instant::now();
        self.connections.sweep(now);
        self.outbound.sweep(now);
    }

    /// Changes whenever the rules do, or what is exported.
    pub fn rules_epoch(&self) -> u32 {
        self.rules_epoch.get()
    }

    /// The app behind an exported service, and the longest that a call to it may take.
    pub fn backend(&self, service: &ServiceKey) -> Option<(Rc<Backend>, Duration)> {
        let backend = self.backends.get(&service.to_string())?;
        let max_timeout = self.outbound.policy(&service.interface).max_timeout;
        Some((backend, max_timeout))
    }

    /// What works on long messages.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// What this agent exports.
    pub fn backends(&self) -> Rc<Backends> {
        Rc::clone(&self.backends)
    }
}

/// Has a client shake hands, if the listener speaks TLS. `None` if it fails, or the worker drains
/// meanwhile.
async fn secure(
    connection: Connection,
    account: &Rc<Account>,
    worker: &Worker,
) -> Option<Connection> {
    if !connection.is_unsecured() {
        return Some(connection);
    }
    let facts = connection.facts();
    let drains = worker.drains.notified();
    if worker.is_draining() {
        return None;
    }
    tokio::select! {
        secured = connection.secure_by(account) => match secured {
            Ok(connection) => Some(connection),
            Err(error) => {
                info!("{facts} is closed: {error}");
                None
            }
        },
        () = drains => None,
    }
}

/// Counts a connection of the worker, also when its task ends in a panic.
struct OpenConnectionGuard(Rc<Worker>);

impl OpenConnectionGuard {
    fn new(worker: &Rc<Worker>) -> Self {
        worker.n_open.set(worker.n_open.get() + 1);
        Self(Rc::clone(worker))
    }
}

impl Drop for OpenConnectionGuard {
    fn drop(&mut self) {
        let Self(worker) = self;
        worker.n_open.set(worker.n_open.get() - 1);
        if worker.n_open.get() == 0 {
            worker.is_idle.notify_one();
        }
    }
}

/// Tells the control thread, and the agents on this worker's links, whether this worker reaches
/// the app, for as long as the app offers the service. When another worker does, this one need not
/// wait until its next attempt is due.
async fn report_health(backend: Rc<Backend>, health: AppHealth, connections: Connections) {
    let (mut counted, mut standing) = (false, backend.standing());
    let mut of_all = health.subscribe();
    loop {
        let changed = backend.changed();
        let before = std::mem::replace(&mut standing, backend.standing());
        let is_ready = standing == Standing::Ready;
        if before != standing {
            connections.app_changed(&backend.service);
        }
        if is_ready != counted {
            counted = is_ready;
            health.send_modify(|n_ready| match is_ready {
                true => *n_ready += 1,
                false => *n_ready -= 1,
            });
        }
        if backend.withdrawn_at().is_some() {
            // By its connections, the gate knows which calls the app still works on.
            return tokio::time::sleep(LONGEST_WORK).await;
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

#[cfg(test)]
mod tests;
