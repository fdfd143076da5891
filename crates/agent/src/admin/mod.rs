//! The admin listener: metrics, health, and what the agent does, over HTTP/1.1, for operators and
//! orchestrators.
//!
//! Not the data plane: it runs on the control thread, and is slow compared to it. Invariants:
//! - It holds at most `MAX_CONNECTIONS` connections, none of them longer than
//!   `MAX_CONNECTION_AGE`, so that nobody who reaches it can use up the agent's memory.
//! - A new connection is always served: if there are as many as may be, the one that has been
//!   silent longest makes room. So nobody can keep health checks out by being silent.
//! - It changes nothing but what is logged, and that not for a web page.
//! - It answers only who calls it by a name that nobody else can give to this machine.
//! - It asks for no password: who reaches it may read all that it shows, which has no secrets in
//!   it.
//!
//! `pages` answers requests; [`Readiness`] is what `/readyz` tells.

mod counted;
mod describe;
mod pages;
mod readiness;
mod tap;

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use registry::Registry;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use wire::{BoundSocket, Connection, Files, Listener, ListenerLimits};

pub use self::describe::Describer;
pub use self::readiness::Readiness;
use crate::certificate_files::CertificateFiles;
use crate::config::Config;
use crate::inspect::Inspector;
use crate::journal::Journal;
use crate::metrics::Hub;

/// A few scrapers and people; an agent is asked by no more.
const MAX_CONNECTIONS: usize = 64;

/// A request head is one packet, and the address is a local one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest request head in bytes; hyper's own lower bound.
const MAX_HEAD_LEN: usize = 8 * 1024;

/// After this a connection ends with its current answer, so that one who reads slowly or never
/// does not keep a place for ever.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(120);

/// How long that last answer may take.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A registry of the configuration.
#[derive(Clone, Debug)]
pub struct NamedRegistry {
    /// Its name.
    pub name: String,
    /// What kind of registry it is, as the configuration has it.
    pub kind: &'static str,
    /// The registry.
    pub registry: Registry,
}

/// What the admin listener shows.
#[derive(Clone)]
pub struct AdminState {
    /// What `/metrics` renders.
    pub hub: Hub,
    /// What `/readyz` tells.
    pub readiness: Readiness,
    /// Names by which it may be called, beside addresses and the names of this machine for itself.
    pub hosts: Arc<[String]>,
    /// What workers are asked by.
    pub inspector: Inspector,
    /// The registries and what they are, in the order of the configuration.
    pub registries: Arc<[NamedRegistry]>,
    /// Looks for services in them.
    pub describer: Describer,
    /// The configuration in force.
    pub config: watch::Receiver<Arc<Config>>,
    /// What the files with certificates for registries have.
    pub certificate_files: CertificateFiles,
    /// What is logged; `None` if nobody can tell.
    pub log_level: Option<Arc<dyn LogLevel>>,
    /// Where calls can be looked on.
    pub journal: Journal,
    /// When the agent began.
    pub started: Instant,
}

/// What is logged, as far as it can be changed while the process runs.
pub trait LogLevel: Send + Sync {
    /// The filter in force, as `log.level` of the configuration has it.
    fn current(&self) -> String;
    /// Logs by another filter from now on.
    ///
    /// # Errors
    /// What is wrong with the filter; then nothing has changed.
    fn change(&self, filter: &str) -> Result<(), String>;
}

/// The listener to [`serve`]. It takes connections when those for calls are out of descriptors.
///
/// # Errors
/// What the operating system says.
pub fn listener(socket: BoundSocket, files: Files, hub: &Hub) -> std::io::Result<Listener> {
    let counts = hub.connections(&socket.address()?.to_string());
    // Room for the one that another has to leave for.
    let limits =
        ListenerLimits { max_connections: MAX_CONNECTIONS + 1, key: "the admin listener", files };
    Listener::new(socket, "admin", limits, counts)
}

/// Answers on `listener` until the future is dropped, which closes all connections.
pub async fn serve(mut listener: Listener, state: AdminState) {
    let mut tasks = JoinSet::new();
    let mut seats: Vec<AdminConnection> = Vec::new();
    loop {
        let stream = listener.accept().await;
        while tasks.try_join_next().is_some() {}
        seats.retain(|seat| !seat.task.is_finished());
        while MAX_CONNECTIONS <= tasks.len() {
            leave_longest_silent(&mut seats);
            // It has nothing to wait for, so this is soon.
            tasks.join_next().await;
        }
        let active = LastActive::new();
        let task = tasks.spawn(connection(stream, state.clone(), active.clone()));
        seats.push(AdminConnection { active, task });
    }
}

/// A connection that is being served.
struct AdminConnection {
    active: LastActive,
    task: AbortHandle,
}

/// When a connection was accepted, or brought its last request.
#[derive(Clone)]
struct LastActive(Arc<Mutex<Instant>>);

impl LastActive {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn note_request(&self) {
        *self.lock() = Instant::now();
    }

    fn at(&self) -> Instant {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the connection that has asked nothing for the longest time.
fn leave_longest_silent(seats: &mut Vec<AdminConnection>) {
    let oldest = seats.iter().enumerate().min_by_key(|(_, seat)| seat.active.at());
    if let Some((index, _)) = oldest {
        seats.swap_remove(index).task.abort();
        tracing::debug!(
            "admin: {MAX_CONNECTIONS} connections are open, which is the limit; closing the one \
             that has been silent longest"
        );
    }
}

async fn connection(stream: Connection, state: AdminState, active: LastActive) {
    let facts = stream.facts();
    let stream = match stream.secure().await {
        Ok(stream) => stream,
        Err(error) => return tracing::info!("{facts} is closed: {error}"),
    };
    let service = service_fn(|request| {
        active.note_request();
        let state = &state;
        async move { Ok::<_, Infallible>(pages::answer(state, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_LEN)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = match timeout(MAX_CONNECTION_AGE, connection.as_mut()).await {
        Ok(ended) => ended,
        Err(_) => {
            connection.as_mut().graceful_shutdown();
            end(connection).await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "admin: connection failed");
    }
}

/// Waits for the last answer of a connection, but not for ever.
async fn end(
    connection: impl Future<Output = Result<(), hyper::Error>>,
) -> Result<(), hyper::Error> {
    timeout(LAST_ANSWER_TIMEOUT, connection).await.unwrap_or(Ok(()))
}

#[cfg(test)]
mod tests;
