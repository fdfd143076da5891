//! Offers services.
//!
//! Files: `service` is what is offered; `handshake` comes before a client's connection, which is
//! `session`; `call_batch` begins the calls that came together; `handler_call` keeps a handler's
//! panics in its call; `pool` has the threads for handlers that may block.

mod call_batch;
mod config;
mod context;
mod handler_call;
mod handshake;
mod in_place;
mod observed_call;
mod pool;
mod service;
mod session;
mod streams;

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use wire::{Connection, ConnectionCounts, Files, ListenerLimits};

pub use config::ServerConfig;
pub use context::{Context, Peer};
pub use service::Service;

use crate::error::{SetupError, check_runtime};
use crate::socket;
use pool::ThreadPool;
use session::ServerSession;

/// Sessions that have ended stay in the list until there are so many more of them than tasks.
const MAX_ENDED_SESSIONS: usize = 64;

/// A server that is being put together.
///
/// ```no_run
/// # async fn example(greeter: link::Service) -> Result<(), link::SetupError> {
/// let server = link::Server::new().offer(greeter).listen("127.0.0.1:7000").await?;
/// // ...
/// server.shutdown(std::time::Duration::from_secs(10)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Server {
    config: ServerConfig,
    services: Vec<Service>,
}

/// What all connections of a server share.
pub(crate) struct Shared {
    pub config: ServerConfig,
    pub services: HashMap<String, Service>,
    pub calls: RunningCalls,
    pub pool: ThreadPool,
    connections: Arc<ConnectionCounts>,
    #[cfg(feature = "tls")]
    n_failed_handshakes: AtomicUsize,
}

/// The calls at work in a server, and how many there may be.
pub(crate) struct RunningCalls {
    max: usize,
    n_running: AtomicUsize,
    /// Told when none is left.
    idle: Notify,
}

impl RunningCalls {
    fn new(max: usize) -> Self {
        Self { max, n_running: AtomicUsize::new(0), idle: Notify::new() }
    }

    /// Counts up to `n` calls as at work; gives how many there was room for.
    pub(crate) fn take(&self, n: usize) -> usize {
        let before = self.n_running.fetch_add(n, Ordering::SeqCst);
        let n_taken = self.max.saturating_sub(before).min(n);
        if n_taken < n {
            self.give_back(n - n_taken);
        }
        n_taken
    }

    pub(crate) fn give_back(&self, n: usize) {
        if self.n_running.fetch_sub(n, Ordering::SeqCst) == n {
            self.idle.notify_waiters();
        }
    }

    async fn none_left(&self) {
        loop {
            let idle = self.idle.notified();
            if self.n_running.load(Ordering::SeqCst) == 0 {
                return;
            }
            idle.await;
        }
    }
}

impl Server {
    /// A server without services.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with other settings.
    pub fn with_config(config: ServerConfig) -> Self {
        Self { config, services: Vec::new() }
    }

    /// Offers a service. [`Server::listen`] fails if two have one name.
    #[must_use]
    pub fn offer(mut self, service: Service) -> Self {
        self.services.push(service);
        self
    }

    /// Begins to take calls, on the tokio runtime that this is called on. Port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be listened on, a setting is out of its range, there is no runtime here,
    /// or names of services or methods clash.
    pub async fn listen(
        self,
        address: impl ToSocketAddrs + ToString,
    ) -> Result<Listening, SetupError> {
        self.config.check()?;
        check_runtime()?;
        let services = by_name(self.services)?;
        let text = address.to_string();
        let fail = |source| SetupError::Listen { address: text.clone(), source };
        let found = address.to_socket_addrs().map_err(fail)?.next();
        let address = found.ok_or_else(|| SetupError::Address(text.clone()))?;
        let socket = socket::listen(address).map_err(fail)?;
        let address = socket.local_addr().map_err(fail)?;
        let shared = Arc::new(Shared {
            calls: RunningCalls::new(self.config.max_calls),
            pool: ThreadPool::new(self.config.blocking_threads, self.config.max_waiting_blocking),
            services,
            config: self.config,
            connections: Arc::default(),
            #[cfg(feature = "tls")]
            n_failed_handshakes: AtomicUsize::new(0),
        });
        let limits = ListenerLimits {
            max_connections: shared.config.max_connections,
            key: "ServerConfig::max_connections",
            files: Files::of_process(),
        };
        let counts = Arc::clone(&shared.connections);
        let listener = wire::Listener::new(socket, "link", limits, counts).map_err(fail)?;
        let (leave, leaving) = watch::channel(false);
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared), leaving));
        Ok(Listening { address, shared, leave, accepting: Some(accepting) })
    }
}

/// The services by their names, if each may be offered.
fn by_name(services: Vec<Service>) -> Result<HashMap<String, Service>, SetupError> {
    let mut by_name = HashMap::with_capacity(services.len());
    for mut service in services {
        if let Some(mistake) = service.mistake.take() {
            return Err(mistake);
        }
        if let Some(same) = by_name.insert(service.name.clone(), service) {
            return Err(SetupError::TwoServices(same.name));
        }
    }
    Ok(by_name)
}

/// A server that takes calls. Dropping it ends it at once, and with it the calls at work.
pub struct Listening {
    address: SocketAddr,
    shared: Arc<Shared>,
    leave: watch::Sender<bool>,
    accepting: Option<JoinHandle<()>>,
}

impl Listening {
    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Calls that are at work.
    pub fn n_calls(&self) -> usize {
        self.shared.calls.n_running.load(Ordering::SeqCst)
    }

    /// Connections that are open.
    pub fn n_connections(&self) -> usize {
        usize::try_from(self.shared.connections.n_open()).unwrap_or(usize::MAX)
    }

    /// Connections so far that ended because TLS could not be set up with the client.
    #[cfg(feature = "tls")]
    pub fn n_failed_handshakes(&self) -> usize {
        self.shared.n_failed_handshakes.load(Ordering::Relaxed)
    }

    /// Takes no more connections and calls, lets those at work end, and closes. Whatever has not
    /// ended after `grace` is broken off. Says whether nothing was.
    pub async fn shutdown(mut self, grace: Duration) -> bool {
        self.leave.send_replace(true);
        let Some(mut accepting) = self.accepting.take() else {
            return true;
        };
        let ended = async {
            let _ = (&mut accepting).await;
            self.shared.calls.none_left().await;
        };
        let is_clean = tokio::time::timeout(grace, ended).await.is_ok();
        accepting.abort();
        is_clean
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            accepting.abort();
        }
    }
}

/// Takes connections until the server is to leave, and then waits for them to end.
async fn accept(
    mut listener: wire::Listener,
    shared: Arc<Shared>,
    mut leaving: watch::Receiver<bool>,
) {
    let mut tasks = JoinSet::new();
    let mut sessions: Vec<Weak<ServerSession>> = Vec::new();
    loop {
        let connection = tokio::select! {
            connection = listener.accept() => connection,
            Some(_) = tasks.join_next() => continue,
            _ = leaving.wait_for(|leaving| *leaving) => break,
        };
        if tasks.len() + MAX_ENDED_SESSIONS < sessions.len() {
            sessions.retain(|session| session.strong_count() != 0);
        }
        sessions.push(open(&shared, connection, &mut tasks, &leaving));
    }
    drop(listener);
    sessions.iter().filter_map(Weak::upgrade).for_each(|session| session.leave());
    while tasks.join_next().await.is_some() {}
}

/// Begins a session.
fn open(
    shared: &Arc<Shared>,
    connection: Connection,
    tasks: &mut JoinSet<()>,
    leaving: &watch::Receiver<bool>,
) -> Weak<ServerSession> {
    let session = ServerSession::new(Arc::clone(shared));
    let weak = Arc::downgrade(&session);
    let (shared, leaving) = (Arc::clone(shared), leaving.clone());
    tasks.spawn(async move {
        if let Some((stream, peer)) = handshake::shake(&shared, connection, leaving).await {
            session.serve(stream, peer).await;
        }
    });
    weak
}
