//! The control thread: everything that is slow. It opens registries, accepts connections and
//! hands them to workers, keeps registrations in step with the app's health, serves the admin
//! listener, and carries out reloads and drains.
//!
//! Invariant: nothing on the path of a call waits for this thread, but for the first call of a
//! service, which waits for the registry's first word.

mod certificates;
mod clock;
mod exports;
mod gates;
mod listeners;
mod registries;
mod start_error;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tracing::{debug, error, info, warn};
use wire::file::FileWork;
use wire::{Budget, ConnectionCounts, Files, Group, ListenerLimits, Loads};

use self::clock::check_clock;
use self::exports::Exports;
use self::listeners::BoundListener;
pub use self::listeners::{BoundListeners, free_addresses};
pub use self::start_error::StartError;
use crate::admin::{AdminState, Describer, LogLevel, NamedRegistry, Readiness};
use crate::certificate_files::CertificateFiles;
use crate::config::{Config, ReloadPlan};
use crate::error::Code;
use crate::gate::DirectGates;
use crate::inspect::{self, Inspector};
use crate::journal::Journal;
use crate::listening::{ListenerSetup, PlannedListener};
use crate::metrics::Hub;
use crate::offload::{self, Threads};
use crate::traffic::Traffic;
use crate::worker::{ListenerProtocol, ToWorker, Worker, WorkerSetup};

/// How long an agent that ends waits for its access log to take the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How long an agent that ends waits until its sessions in the registries are over.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long a reload waits for the file system that has the access log.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// What the agent's owner wants.
pub enum ControlCommand {
    /// Take over another configuration, as far as that is possible while running.
    Reload(Box<Config>, oneshot::Sender<ReloadPlan>),
    /// Stop in order.
    Drain(oneshot::Sender<DrainSummary>),
    /// Stop at once.
    Stop,
}

/// How a drain went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DrainSummary {
    /// Whether every call in flight was answered in time.
    pub complete: bool,
    /// Connections of callers that were still open when the time was over, and were cut off.
    pub cut_off: u64,
    /// How long it took.
    pub took: Duration,
}

/// A worker thread as the control thread knows it.
#[derive(Clone)]
pub struct WorkerHandle {
    inbox: mpsc::UnboundedSender<ToWorker>,
}

/// Runs the control thread until it is told to stop.
pub fn run(
    config: Config,
    listeners: BoundListeners,
    log_level: Option<Arc<dyn LogLevel>>,
    threads: &Threads,
    inbox: mpsc::UnboundedReceiver<ControlCommand>,
    ready: &std::sync::mpsc::Sender<Result<(), StartError>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error.into()))),
    };
    runtime.block_on(async {
        match Control::start(config, listeners, log_level, threads) {
            Ok(control) => {
                let _ = ready.send(Ok(()));
                control.serve(inbox).await;
            }
            Err(error) => drop(ready.send(Err(error))),
        }
    });
}

struct Control {
    config: Config,
    workers: Vec<WorkerHandle>,
    loads: Loads,
    files: Files,
    /// Complete when their worker has ended.
    ends: Vec<oneshot::Receiver<()>>,
    exports: Exports,
    readiness: Readiness,
    /// What the registries are, for those who ask.
    registries: Arc<[NamedRegistry]>,
    /// The configuration in force, for those who ask.
    shown: watch::Sender<Arc<Config>>,
    certificate_files: CertificateFiles,
    /// Opens the access log, where everybody else is served.
    file_work: FileWork,
    log_level: Option<Arc<dyn LogLevel>>,
    journal: Journal,
    started: Instant,
    connections: Vec<Arc<ConnectionCounts>>,
    /// Acceptors: aborted to stop accepting.
    accepting: JoinSet<()>,
    /// The admin listener and watchers, which live as long as the thread.
    helpers: JoinSet<()>,
}

impl Control {
    fn start(
        config: Config,
        listeners: BoundListeners,
        log_level: Option<Arc<dyn LogLevel>>,
        threads: &Threads,
    ) -> Result<Self, StartError> {
        check_clock(SystemTime::now())?;
        let files = reserve_files(&config)?;
        make_room(files, &listeners);
        let (hub, journal) = (Hub::new(&Code::NAMES), Journal::default());
        journal.log_to(&config.access_log)?;
        journal.sample_stages(config.process.stage_sample);
        hub.show_journal(journal.clone());
        let loads = Loads::new(config.process.workers);
        hub.show_loads(loads.clone());
        let budget = Budget::new(config.process.memory_len);
        hub.show_memory(budget.clone());
        info!(memory_bytes = budget.limit(), "limit of the memory that connections may use");
        let direct_gates = Arc::new(DirectGates::new(config.process.workers.get()));
        hub.show_direct_gates(&direct_gates);
        let (endpoints, traffic, mut helpers) = (Group::new(), Traffic::default(), JoinSet::new());
        hub.show_traffic(&traffic);
        let (registries, readiness) = (registries::open(&config)?, Readiness::new());
        let addresses = &listeners.addresses;
        let (known, ready) = (registries.clone(), readiness.clone());
        let mut exports = Exports::new(&config, addresses, known, ready, hub.clone());
        exports.follow_apps(&config);
        let offers: Vec<_> = config.exports.iter().map(|export| exports.offer(export)).collect();
        let own_ingresses = Arc::new(listeners::own_ingresses(&config, addresses));
        let setup = |index| WorkerSetup {
            index,
            name: config.process.name.clone(),
            registries: registries.clone(),
            rules: Arc::new(config.clusters.clone()),
            exports: offers.clone(),
            hub: hub.clone(),
            journal: journal.clone(),
            budget: budget.clone(),
            endpoints: Arc::clone(&endpoints),
            threads: threads.clone(),
            direct_gates: Arc::clone(&direct_gates),
            traffic: traffic.clone(),
            own_ingresses: Arc::clone(&own_ingresses),
        };
        let started = (0..config.process.workers.get()).map(|index| start_worker(setup(index)));
        let (workers, ends) = started.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        registries::watch(&config, &registries, &hub, &readiness, &mut helpers);
        let mut control = Self {
            exports,
            connections: Vec::new(),
            accepting: JoinSet::new(),
            helpers,
            registries: registries::with_kinds(&config, &registries),
            shown: watch::Sender::new(Arc::new(config.clone())),
            certificate_files: CertificateFiles::default(),
            file_work: FileWork::default(),
            log_level,
            journal,
            started: Instant::now(),
            config,
            workers,
            loads,
            files,
            ends,
            readiness,
        };
        control.open_listeners(listeners, &hub)?;
        control.exports.start(offers, &control.workers);
        Ok(control)
    }

    fn open_listeners(&mut self, bound: BoundListeners, hub: &Hub) -> Result<(), StartError> {
        for listener in bound.listeners {
            self.open_listener(listener, hub)?;
        }
        if let Some(listener) = bound.admin {
            info!(listen = %listener.address()?, "serving metrics and health");
            let hosts = self.config.admin.as_ref().map_or(&[][..], |admin| &admin.hosts).into();
            let state = AdminState {
                hub: hub.clone(),
                readiness: self.readiness.clone(),
                hosts,
                inspector: self.inspector(),
                registries: self.registries.clone(),
                describer: Describer::new(self.registries.clone()),
                config: self.shown.subscribe(),
                certificate_files: self.certificate_files.clone(),
                log_level: self.log_level.clone(),
                journal: self.journal.clone(),
                started: self.started,
            };
            let listener = crate::admin::listener(listener, self.files.reserve_half(), hub)?;
            let tls = self.config.admin.as_ref().and_then(|admin| admin.tls.as_ref());
            let listener = listener.secured(tls.map(|tls| tls.secured.clone()));
            self.helpers.spawn(crate::admin::serve(listener, state));
        }
        Ok(())
    }

    fn watch_certificates(&mut self) {
        let tell = |problem| warn!(%problem, "a certificate has to be renewed");
        let (shown, files) = (self.shown.subscribe(), self.certificate_files.clone());
        self.helpers.spawn(certificates::watch(shown, files, certificates::EVERY, tell));
    }

    fn inspector(&self) -> Inspector {
        Inspector::new(self.workers.iter().cloned().map(|worker| -> inspect::QuestionSender {
            // One that has ended drops the question, which tells whoever asks.
            Box::new(move |question| drop(worker.inbox.send(ToWorker::Inspect(question))))
        }))
    }

    fn open_listener(&mut self, bound: BoundListener, hub: &Hub) -> Result<(), StartError> {
        let BoundListener { socket, address, planned } = bound;
        let PlannedListener { protocol, max_connections, max_connections_key: key, .. } = planned;
        let tls = planned.tls.is_some();
        info!(listen = %address, protocol, tls, "taking calls");
        let agent_name = &self.config.process.name;
        let name = address.to_string();
        let around = ListenerSetup { agent_name, address, n_workers: self.workers.len(), hub };
        let served_by = (planned.open)(&around);
        let limits = ListenerLimits { max_connections, key, files: self.files };
        let counts = hub.connections(&name);
        self.connections.push(Arc::clone(&counts));
        let listener = wire::Listener::new(socket, protocol, limits, counts)?;
        let listener = listener.secured(planned.tls);
        let (workers, loads) = (self.workers.clone(), self.loads.clone());
        self.accepting.spawn(hand_out(listener, workers, loads, served_by));
        Ok(())
    }

    async fn serve(mut self, mut inbox: mpsc::UnboundedReceiver<ControlCommand>) {
        self.watch_certificates();
        loop {
            let command = tokio::select! {
                command = inbox.recv() => command,
                nth = first_end(&mut self.ends) => {
                    // Its connections are lost, and new ones would be given to it. Whoever started
                    // the process learns that it has to be started again.
                    error!(worker = nth, "a worker ended because of a bug in the agent; the agent \
                                          stops; please report this");
                    return;
                }
            };
            let Some(command) = command else { return };
            match command {
                ControlCommand::Reload(config, reply) => {
                    let plan = self.reload(*config).await;
                    let _ = reply.send(plan);
                }
                ControlCommand::Drain(reply) => {
                    let summary = self.drain(&mut inbox).await;
                    self.close_registries().await;
                    self.journal.close(LAST_LINES);
                    let _ = reply.send(summary);
                    return;
                }
                ControlCommand::Stop => return self.journal.close(LAST_LINES),
            }
        }
    }

    async fn reload(&mut self, mut new: Config) -> ReloadPlan {
        let before = self.config.certificates_in_use();
        self.config.renew_tls(&mut new);
        let exchanged = before.exchanged(&self.config.certificates_in_use());
        let mut plan = self.config.reload_difference(&new);
        plan.changed.extend(exchanged);
        let rules = Arc::new(new.clusters.clone());
        for worker in &self.workers {
            let _ = worker.inbox.send(ToWorker::Rules(Arc::clone(&rules)));
        }
        for (index, wanted) in self.config.list_changes(&new) {
            let NamedRegistry { name, registry, .. } = &self.registries[index];
            match registry.reconfigure(&wanted.config) {
                Ok(_) => self.config.registries[index].config = wanted.config.clone(),
                Err(error) => warn!(registry = name, %error, "the list stays as it was"),
            }
        }
        for change in self.config.export_changes(&new).into_iter().flatten() {
            self.config.take_over(&change);
            self.exports.change(change);
        }
        self.exports.follow_apps(&self.config);
        self.config.clusters = new.clusters;
        self.config.log = new.log;
        self.journal.sample_stages(new.process.stage_sample);
        self.config.process.stage_sample = new.process.stage_sample;
        // Also where it is the same: a file that was moved away is left alone.
        let (journal, log) = (self.journal.clone(), new.access_log.clone());
        let error = match self.file_work.run(LOG_PATIENCE, move || journal.log_to(&log)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("{error}; the access log stays as it was")),
            Err(error) => {
                Some(format!("the access log stays as it was until it can be opened: {error}"))
            }
        };
        match error {
            None => self.config.access_log = new.access_log,
            Some(error) => {
                warn!("{error}");
                plan.failed("access_log");
            }
        }
        self.shown.send_replace(Arc::new(self.config.clone()));
        plan
    }

    /// Withdraws first, so that nobody is sent here any more; then lets what is here finish.
    async fn drain(&mut self, inbox: &mut mpsc::UnboundedReceiver<ControlCommand>) -> DrainSummary {
        let started = Instant::now();
        let timeout = self.config.process.drain_timeout;
        info!(?timeout, "draining");
        self.readiness.drain();
        self.exports.withdraw().await;
        self.accepting.shutdown().await;
        for worker in &self.workers {
            let _ = worker.inbox.send(ToWorker::Drain);
        }
        let ends = std::mem::take(&mut self.ends);
        let all = async {
            for end in ends {
                let _ = end.await;
            }
        };
        let left = timeout.saturating_sub(started.elapsed()).max(Duration::from_millis(1));
        let complete = tokio::select! {
            () = all => true,
            () = tokio::time::sleep(left) => false,
            _ = inbox.recv() => false,
        };
        let cut_off = self.connections.iter().map(|counts| counts.n_open()).sum();
        if !complete {
            warn!(
                cut_off,
                "the drain timeout (drain_ms) is over; closing the remaining connections"
            );
        }
        DrainSummary { complete, cut_off, took: started.elapsed() }
    }

    /// Ends our sessions there, which are empty by now: they would outlive the process.
    async fn close_registries(&self) {
        let close = join_all(self.registries.iter().map(|it| it.registry.close()));
        if tokio::time::timeout(LAST_WORDS, close).await.is_err() {
            debug!("a registry cannot be reached; our session there ends by itself");
        }
    }
}

/// The number of the first worker that ends.
async fn first_end(ends: &mut [oneshot::Receiver<()>]) -> usize {
    poll_fn(|cx| {
        let mut ends = ends.iter_mut();
        match ends.position(|end| Pin::new(end).poll(cx).is_ready()) {
            Some(nth) => Poll::Ready(nth),
            None => Poll::Pending,
        }
    })
    .await
}

/// How many file descriptors there are for connections.
fn reserve_files(config: &Config) -> Result<Files, StartError> {
    let mut files = Files::of_process();
    if let Some(reserved) = config.process.reserved_files {
        files = files.reserve(reserved);
    }
    let (limit, reserved) = (files.limit(), files.reserved());
    if limit <= reserved {
        return Err(StartError::Files { limit, reserved });
    }
    Ok(files)
}

/// Has the kernel make room for all who may connect, while nobody does. That takes milliseconds
/// which nothing waits for.
fn make_room(files: Files, bound: &BoundListeners) {
    let listeners = bound.listeners.iter();
    let n: usize = listeners.map(|listener| listener.planned.max_connections).sum();
    let make = move || {
        if let Err(error) = files.make_room(u64::try_from(n).unwrap_or(u64::MAX)) {
            debug!(%error, "there is no room for file descriptors yet");
        }
    };
    drop(std::thread::Builder::new().name("descriptors".to_owned()).spawn(make));
}

/// Gives each new connection to the worker that has fewest, for ever.
async fn hand_out(
    mut listener: wire::Listener,
    workers: Vec<WorkerHandle>,
    loads: Loads,
    protocol: Arc<dyn ListenerProtocol>,
) {
    loop {
        let connection = listener.accept_detached().await;
        let assigned = loads.assign();
        let worker = &workers[assigned.worker()];
        let connection = connection.assigned(assigned);
        let _ = worker.inbox.send(ToWorker::Serve(connection, Arc::clone(&protocol)));
    }
}

fn start_worker(setup: WorkerSetup) -> Result<(WorkerHandle, oneshot::Receiver<()>), StartError> {
    let (inbox, messages) = mpsc::unbounded_channel();
    let (end, ended) = oneshot::channel::<()>();
    let runtime_ready = std::sync::mpsc::channel();
    let name = format!("worker-{}", setup.index);
    std::thread::Builder::new().name(name).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_start(offload::give_way)
            .build_local(tokio::runtime::LocalOptions::default());
        match runtime {
            Ok(runtime) => {
                let _ = runtime_ready.0.send(Ok(()));
                runtime.block_on(async { Worker::new(setup).run(messages).await });
            }
            Err(error) => drop(runtime_ready.0.send(Err(error))),
        }
        drop(end);
    })?;
    runtime_ready.1.recv().map_err(|_| StartError::Lost)??;
    Ok((WorkerHandle { inbox }, ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_worker_that_ends_is_noticed() {
        let (senders, mut ends): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel()).unzip();
        let mut senders = senders.into_iter();
        let (_first, second, _third) = (senders.next(), senders.next(), senders.next());
        tokio::select! {
            biased;
            nth = first_end(&mut ends) => panic!("{nth} is there"),
            () = std::future::ready(()) => {}
        }
        // As a thread that unwinds does.
        drop(second);
        assert_eq!(first_end(&mut ends).await, 1);
    }
}
