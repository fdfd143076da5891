//! The embedded provider on sockets: worker threads, connections, and the work that calls take.
//!
//! Invariants:
//! - Without work, a call is answered inside the event that brings it: no task, no allocation, and
//!   one write for all answers of a turn.
//! - With work, one queue in the order of the ends and one timer serve all calls.
//! - At most `threads` calls are worked on at once, over all connections and workers.

mod job;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use dubbo_proto::{
    ProtoError, ReplyKind, ReplyTo, Request, ServerConfig, ServerConnection, ServerEvent,
    ServiceKey, Status,
};
use rand::Rng;
use tokio::sync::{Notify, mpsc, oneshot};
use tracing::{debug, warn};
use wire::{Conn, Detached, Files, ListenError, Listener, ListenerLimits, Loads, Machine, drive};

use self::job::Job;
use super::service::{HelloService, RequestRefusal};

/// How long calls in flight may take to finish when the provider ends.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// A consumer has heard that the provider is leaving when it has been silent this long.
const QUIET: Duration = Duration::from_millis(100);

/// What a provider offers, and how much of it.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What it offers.
    pub service: ServiceKey,
    /// Calls that it works on at once; others are rejected.
    pub threads: NonZeroUsize,
    /// How long calls take: any time of these is as likely as any other.
    pub work: RangeInclusive<Duration>,
    /// Threads that serve connections.
    pub workers: NonZeroUsize,
    /// The longest body of a request or reply, in bytes: Dubbo's `payload`.
    pub payload_limit: usize,
}

/// Why a provider did not start.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Its address cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A thread or an event loop could not be made.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// What a provider has done so far.
#[derive(Debug, Default)]
pub struct Counts {
    received: AtomicU64,
    answered: AtomicU64,
    rejected: AtomicU64,
}

impl Counts {
    /// Calls that came.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Calls that were carried out.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Calls that were rejected because all threads were busy.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }
}

/// A running provider. Dropping it cuts its connections; [`Provider::drain`] ends it in order.
pub struct Provider {
    addr: SocketAddr,
    counts: Arc<Counts>,
    workers: Vec<WorkerHandle>,
}

struct WorkerHandle {
    inbox: mpsc::UnboundedSender<ToWorker>,
    thread: JoinHandle<()>,
}

enum ToWorker {
    Serve(Detached),
    /// Answered with whether all calls in flight were answered.
    Drain(oneshot::Sender<bool>),
}

impl Provider {
    /// Binds the listener and starts the threads.
    ///
    /// # Errors
    /// [`ProviderError`], such as that the address is in use.
    pub fn start(config: &ProviderConfig) -> Result<Self, ProviderError> {
        let listener = wire::listen(config.listen, "--listen")?;
        let addr = listener.local_addr()?;
        let counts = Arc::<Counts>::default();
        let busy = Arc::<AtomicUsize>::default();
        let inboxes: Vec<_> =
            (0..config.workers.get()).map(|_| mpsc::unbounded_channel()).collect();
        let weak = inboxes.iter().map(|(inbox, _)| inbox.downgrade()).collect();
        // The first worker accepts for all of them.
        let mut acceptor = Some((listener, weak, Loads::new(config.workers)));
        let mut workers = Vec::new();
        for (index, (inbox, messages)) in inboxes.into_iter().enumerate() {
            let shared = ProviderSetup {
                service: HelloService::new(config.service.clone()),
                threads: config.threads.get(),
                work: config.work.clone(),
                payload_limit: config.payload_limit,
                addr,
                busy: Arc::clone(&busy),
                counts: Arc::clone(&counts),
            };
            let thread = start_worker(index, shared, acceptor.take(), messages)?;
            workers.push(WorkerHandle { inbox, thread });
        }
        Ok(Self { addr, counts, workers })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it has done so far.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// Tells all consumers that it is leaving, answers what is in flight, and ends. Returns
    /// whether every call was answered.
    pub async fn drain(self) -> bool {
        let mut ends = Vec::new();
        for worker in &self.workers {
            let (done, end) = oneshot::channel();
            let _ = worker.inbox.send(ToWorker::Drain(done));
            ends.push(end);
        }
        let mut complete = true;
        for end in ends {
            complete &= end.await.unwrap_or(false);
        }
        for worker in self.workers {
            drop(worker.inbox);
            // It has nothing left to do but to return.
            complete &= worker.thread.join().is_ok();
        }
        complete
    }
}

type Acceptor = (TcpListener, Vec<mpsc::WeakUnboundedSender<ToWorker>>, Loads);

fn start_worker(
    index: usize,
    shared: ProviderSetup,
    acceptor: Option<Acceptor>,
    messages: mpsc::UnboundedReceiver<ToWorker>,
) -> io::Result<JoinHandle<()>> {
    let (ready, started) = std::sync::mpsc::channel();
    let thread =
        std::thread::Builder::new().name(format!("provider-{index}")).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build_local(tokio::runtime::LocalOptions::default());
            match runtime {
                Ok(runtime) => {
                    let _ = ready.send(Ok(()));
                    runtime.block_on(Rc::new(ProviderWorker::new(shared)).run(acceptor, messages));
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
    started.recv().map_err(io::Error::other)??;
    Ok(thread)
}

/// Gives each new connection to the worker that has fewest.
async fn accept(
    mut listener: Listener,
    workers: Vec<mpsc::WeakUnboundedSender<ToWorker>>,
    loads: Loads,
) {
    loop {
        let connection = listener.accept_detached().await;
        let assigned = loads.assign();
        let Some(worker) = workers[assigned.worker()].upgrade() else { return };
        let _ = worker.send(ToWorker::Serve(connection.assigned(assigned)));
    }
}

/// A provider for trying things out takes what the process can.
fn listener(socket: TcpListener) -> io::Result<Listener> {
    let files = Files::of_process();
    let limits = ListenerLimits { max_connections: usize::MAX, key: "the provider", files };
    Listener::new(socket, "dubbo", limits, Arc::default())
}

/// [`ServerConnection`] as the driver sees it.
struct DubboServer(ServerConnection);

impl Machine for DubboServer {
    type Event = ServerEvent;
    type Error = ProtoError;

    fn handle_bytes(&mut self, now: Instant, input: &mut BytesMut) -> Result<(), ProtoError> {
        self.0.handle_bytes(now, input)
    }
    fn has_backlog(&self) -> bool {
        self.0.has_backlog()
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.0.handle_timeout(now);
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }
    fn poll_event(&mut self) -> Option<ServerEvent> {
        self.0.poll_event()
    }
    fn transmit(&mut self) -> &mut BytesMut {
        self.0.transmit()
    }
    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
    fn wants_input(&self) -> bool {
        self.0.wants_input()
    }
}

/// What every worker of a provider has the same of.
struct ProviderSetup {
    service: HelloService,
    threads: usize,
    work: RangeInclusive<Duration>,
    payload_limit: usize,
    addr: SocketAddr,
    busy: Arc<AtomicUsize>,
    counts: Arc<Counts>,
}

struct ProviderWorker {
    shared: ProviderSetup,
    conns: RefCell<Vec<Conn<DubboServer>>>,
    /// A connection has ended.
    ended: Notify,
    scratch: RefCell<Vec<u8>>,
    jobs: RefCell<BinaryHeap<Reverse<Job>>>,
    /// A job of `jobs` is due before all others.
    has_earlier_job: Notify,
    draining: Cell<bool>,
}

impl ProviderWorker {
    fn new(shared: ProviderSetup) -> Self {
        Self {
            shared,
            conns: RefCell::default(),
            ended: Notify::new(),
            scratch: RefCell::default(),
            jobs: RefCell::default(),
            has_earlier_job: Notify::new(),
            draining: Cell::new(false),
        }
    }

    async fn run(
        self: Rc<Self>,
        acceptor: Option<Acceptor>,
        mut messages: mpsc::UnboundedReceiver<ToWorker>,
    ) {
        let worker = Rc::clone(&self);
        tokio::task::spawn_local(async move { worker.work().await });
        let accepting = acceptor.and_then(|(socket, workers, loads)| match listener(socket) {
            Ok(listener) => Some(tokio::task::spawn_local(accept(listener, workers, loads))),
            Err(error) => {
                warn!(%error, "the provider cannot accept connections");
                None
            }
        });
        while let Some(message) = messages.recv().await {
            match message {
                ToWorker::Serve(stream) => self.serve(stream),
                ToWorker::Drain(done) => {
                    if let Some(accepting) = accepting {
                        accepting.abort();
                    }
                    let _ = done.send(self.drain().await);
                    return;
                }
            }
        }
    }

    fn serve(self: &Rc<Self>, connection: Detached) {
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let stream = match connection.attach() {
                Ok(stream) => stream,
                Err(error) => return debug!(%error, "connection lost"),
            };
            let now = Instant::now();
            let config = ServerConfig::with_payload_limit(worker.shared.payload_limit);
            let conn = Conn::new(DubboServer(ServerConnection::new(config, now)));
            worker.conns.borrow_mut().push(conn.clone());
            if worker.draining.get() {
                conn.with(|server| server.0.send_readonly(now));
            }
            let ending = drive(stream, &conn, |event| worker.on_event(&conn, event)).await;
            debug!(%ending, "connection closed");
            worker.conns.borrow_mut().retain(|other| !other.is_same(&conn));
            worker.ended.notify_waiters();
        });
    }

    fn on_event(&self, conn: &Conn<DubboServer>, event: ServerEvent) {
        match event {
            ServerEvent::Request { to, two_way, request } => {
                self.shared.counts.received.fetch_add(1, Ordering::Relaxed);
                if self.shared.work.end().is_zero() {
                    self.answer(conn, to, two_way, &request);
                } else {
                    self.begin(conn, to, two_way, &request);
                }
            }
            // Only a connection that passes requests on hands out whole bodies.
            ServerEvent::Body { .. } | ServerEvent::TooLong { .. } => {}
            ServerEvent::Dead(reason) => debug!(?reason, "consumer is gone"),
        }
    }

    /// Answers at once.
    fn answer(&self, conn: &Conn<DubboServer>, to: ReplyTo, two_way: bool, request: &Request) {
        let mut value = self.scratch.borrow_mut();
        value.clear();
        let result = self.shared.service.answer(request, &mut value);
        self.shared.counts.answered.fetch_add(1, Ordering::Relaxed);
        if two_way {
            reply(conn, Instant::now(), to, &result, &value);
        }
    }

    /// Begins to work on a call, if there is a thread for it.
    fn begin(&self, conn: &Conn<DubboServer>, to: ReplyTo, two_way: bool, request: &Request) {
        let ProviderSetup { service, threads, work, addr, busy, counts, .. } = &self.shared;
        let now = Instant::now();
        if *threads <= busy.fetch_add(1, Ordering::Relaxed) {
            busy.fetch_sub(1, Ordering::Relaxed);
            counts.rejected.fetch_add(1, Ordering::Relaxed);
            let all = match threads {
                1 => "its only thread is busy".to_owned(),
                n => format!("all of its {n} threads are busy"),
            };
            let text = format!("the thread pool of {addr} is exhausted: {all}");
            let status = Status::ServerThreadpoolExhausted;
            if two_way {
                reply(conn, now, to, &Err(RequestRefusal { status, text }), &[]);
            }
            return;
        }
        let mut value = Vec::new();
        let result = service.answer(request, &mut value);
        let due = now + rand::rng().random_range(work.clone());
        let job = Job { due, conn: conn.clone(), to, two_way, result, value };
        let mut jobs = self.jobs.borrow_mut();
        if jobs.peek().is_none_or(|Reverse(first)| due < first.due) {
            self.has_earlier_job.notify_one();
        }
        jobs.push(Reverse(job));
    }

    /// Ends calls when their time has come, for ever.
    async fn work(&self) {
        loop {
            let due = self.jobs.borrow().peek().map(|Reverse(job)| job.due);
            let Some(due) = due else {
                self.has_earlier_job.notified().await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(due.into()) => self.finish_due(Instant::now()),
                () = self.has_earlier_job.notified() => {}
            }
        }
    }

    fn finish_due(&self, now: Instant) {
        let mut jobs = self.jobs.borrow_mut();
        while jobs.peek().is_some_and(|Reverse(job)| job.due <= now) {
            let Some(Reverse(job)) = jobs.pop() else { return };
            self.shared.busy.fetch_sub(1, Ordering::Relaxed);
            self.shared.counts.answered.fetch_add(1, Ordering::Relaxed);
            if job.two_way {
                reply(&job.conn, now, job.to, &job.result, &job.value);
            }
        }
    }

    /// Ends all connections in order; `true` if nothing was in flight any more.
    async fn drain(&self) -> bool {
        self.draining.set(true);
        let begun = Instant::now();
        for conn in &*self.conns.borrow() {
            conn.with(|server| server.0.send_readonly(begun));
        }
        let mut n_received = self.shared.counts.received();
        loop {
            // What crossed the announcement on its way is still served.
            let _ = tokio::time::timeout(QUIET, self.until_no_conns()).await;
            let n_before = std::mem::replace(&mut n_received, self.shared.counts.received());
            let is_quiet = n_before == n_received || self.conns.borrow().is_empty();
            if (is_quiet && self.n_in_flight() == 0) || DRAIN_TIMEOUT < begun.elapsed() {
                break;
            }
        }
        let complete = self.n_in_flight() == 0;
        for conn in &*self.conns.borrow() {
            conn.with(|server| server.0.close());
        }
        let _ = tokio::time::timeout(QUIET, self.until_no_conns()).await;
        complete
    }

    fn n_in_flight(&self) -> usize {
        self.conns.borrow().iter().map(|conn| conn.look(|server| server.0.in_flight())).sum()
    }

    async fn until_no_conns(&self) {
        while !self.conns.borrow().is_empty() {
            self.ended.notified().await;
        }
    }
}

fn reply(
    conn: &Conn<DubboServer>,
    now: Instant,
    to: ReplyTo,
    result: &Result<ReplyKind, RequestRefusal>,
    value: &[u8],
) {
    let replied = conn.with(|server| match result {
        Ok(kind) => server.0.reply(now, to, *kind, value, &[]),
        Err(refusal) => server.0.reply_error(now, to, refusal.status, &refusal.text),
    });
    if let Err(error) = replied {
        // The connection is finished, and its driver closes it.
        debug!(%error, "a consumer does not read its replies");
    }
}

#[cfg(test)]
mod tests;
