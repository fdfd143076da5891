//! Offers services.
//!
//! Files: `service` is what is offered; `handshake` comes before a client's connection, which is
//! `session`; `slice` begins the calls that came together; `pool` has the threads for handlers that
//! may block.

mod config;
mod context;
mod handshake;
mod in_place;
mod pool;
mod service;
mod session;
mod slice;
mod streams;
mod watched;

use std::collections::HashMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};

pub use config::ServerConfig;
pub use context::{Context, Peer};
pub use service::Service;

use crate::error::SetupError;
use crate::socket;
use pool::Pool;
use session::Session;

/// Pause after the operating system refused to give a connection, such as for want of files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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
    services: HashMap<String, Service>,
}

/// What all connections of a server share.
pub(crate) struct Shared {
    pub config: ServerConfig,
    pub services: HashMap<String, Service>,
    pub calls: Calls,
    pub pool: Pool,
    n_connections: AtomicUsize,
    #[cfg(feature = "tls")]
    n_failed_handshakes: AtomicUsize,
}

/// The calls at work in a server, and how many there may be.
pub(crate) struct Calls {
    max: usize,
    n_running: AtomicUsize,
    /// Told when none is left.
    idle: Notify,
}

impl Calls {
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
        Self { config, services: HashMap::new() }
    }

    /// Offers a service. One of the same name is replaced.
    #[must_use]
    pub fn offer(mut self, service: Service) -> Self {
        self.services.insert(service.name.clone(), service);
        self
    }

    /// Begins to take calls, on the tokio runtime that this is called on. Port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn listen(
        self,
        address: impl ToSocketAddrs + ToString,
    ) -> Result<Listening, SetupError> {
        let text = address.to_string();
        let fail = |source| SetupError::Listen { address: text.clone(), source };
        let found = address.to_socket_addrs().map_err(fail)?.next();
        let address = found.ok_or_else(|| SetupError::Address(text.clone()))?;
        let listener = socket::listen(address).and_then(TcpListener::from_std).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let shared = Arc::new(Shared {
            calls: Calls::new(self.config.max_calls),
            pool: Pool::new(self.config.blocking_threads, self.config.max_waiting_blocking),
            services: self.services,
            config: self.config,
            n_connections: AtomicUsize::new(0),
            #[cfg(feature = "tls")]
            n_failed_handshakes: AtomicUsize::new(0),
        });
        let (leave, leaving) = watch::channel(false);
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared), leaving));
        Ok(Listening { address, shared, leave, accepting: Some(accepting) })
    }
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
        self.shared.n_connections.load(Ordering::SeqCst)
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
async fn accept(listener: TcpListener, shared: Arc<Shared>, mut leaving: watch::Receiver<bool>) {
    let mut tasks = JoinSet::new();
    let sessions: Mutex<Vec<Weak<Session>>> = Mutex::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = tasks.join_next() => continue,
            _ = leaving.wait_for(|leaving| *leaving) => break,
        };
        match accepted {
            Ok((stream, address)) => {
                if let Some(session) = open(&shared, stream, address, &mut tasks, &leaving) {
                    let mut sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
                    sessions.retain(|session| session.strong_count() != 0);
                    sessions.push(Arc::downgrade(&session));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; trying again");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let sessions = sessions.into_inner().unwrap_or_else(PoisonError::into_inner);
    sessions.iter().filter_map(Weak::upgrade).for_each(|session| session.leave());
    while tasks.join_next().await.is_some() {}
}

/// Begins a session, if there may be one more.
fn open(
    shared: &Arc<Shared>,
    stream: TcpStream,
    address: SocketAddr,
    tasks: &mut JoinSet<()>,
    leaving: &watch::Receiver<bool>,
) -> Option<Arc<Session>> {
    if shared.n_connections.load(Ordering::SeqCst) >= shared.config.max_connections {
        tracing::warn!(client = %address, "there are as many connections as may be; closing this one");
        return None;
    }
    if let Err(error) = socket::tune(&stream) {
        tracing::debug!(client = %address, %error, "the connection ended at once");
        return None;
    }
    let session = Session::new(Arc::clone(shared));
    shared.n_connections.fetch_add(1, Ordering::SeqCst);
    let open = Open(Arc::clone(shared));
    let (running, leaving) = (Arc::clone(&session), leaving.clone());
    tasks.spawn(async move {
        if let Some((stream, peer)) = handshake::shake(&open.0, stream, address, leaving).await {
            running.serve(stream, peer).await;
        }
    });
    Some(session)
}

/// Counts a connection as open until it is dropped.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.n_connections.fetch_sub(1, Ordering::SeqCst);
    }
}
