//! The one connection to ZooKeeper, and the task that keeps it and its session.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use wire::{Destination, Ending, Share, SyncConn, drive};
use zookeeper_proto::{Answer, Broken, Event, Refusal, Request, Session};

use crate::follow::new_backoff;
use crate::status::{RegistryStatus, StatusSender, note};
use crate::store::StoreError;

use super::machine::{ClientMachine, Told};
use super::settings::Settings;

/// A connection that lasted this long was good: the next try need not wait long.
const GOOD_AFTER: Duration = Duration::from_secs(5);

/// All servers have to refuse what we know this often, and for so long, before we take their
/// history for lost. A server that starts up, or lags behind, does so for a moment, too.
const MAX_REFUSED_ROUNDS: usize = 3;
const MIN_REFUSED_TIME: Duration = Duration::from_secs(2);

/// A shared handle on the connection.
#[derive(Clone)]
pub(super) struct Connection {
    live: watch::Receiver<Option<Live>>,
    status: StatusSender,
    request_timeout: Duration,
}

/// A connection whose session is there.
#[derive(Clone)]
pub(super) struct Live {
    generation: u64,
    pub(super) session: Session,
    /// Changes when the servers have lost their history.
    pub(super) history: u64,
    client: Arc<SyncConn<ClientMachine>>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ZooKeeperError {
    #[error("{what} {path}: {refusal}")]
    Refused { what: &'static str, path: String, refusal: Refusal },
    #[error("{what}: no answer within {after:?}")]
    Timeout { what: &'static str, after: Duration },
    /// The connection was given up while we used it; the reason is in the status.
    #[error("the connection was lost")]
    Lost,
    /// It changes while it is read.
    #[error("it changes too quickly")]
    Unsteady,
}

impl Connection {
    /// Starts the task that connects and reconnects until it is aborted.
    pub(super) fn start(settings: &Arc<Settings>, runtime: &Handle) -> (Self, AbortHandle) {
        let (sender, live) = watch::channel(None);
        let status = watch::Sender::new(RegistryStatus::new(false));
        let connection = Self { live, status, request_timeout: settings.request_timeout };
        let connector = Connector {
            connection: connection.clone(),
            settings: Arc::clone(settings),
            sender,
            memory: Memory::default(),
        };
        (connection, runtime.spawn(connector.run()).abort_handle())
    }

    pub(super) fn status(&self) -> watch::Receiver<RegistryStatus> {
        self.status.subscribe()
    }

    /// Waits until there is a connection. `None` if there will never be one again.
    pub(super) async fn live(&self) -> Option<Live> {
        let mut live = self.live.clone();
        live.wait_for(Option::is_some).await.ok().and_then(|live| live.clone())
    }

    /// The connection of now, if there is one.
    pub(super) fn current(&self) -> Option<Live> {
        self.live.borrow().clone()
    }

    /// Waits for a connection, but not for longer than a request may take.
    pub(super) async fn live_within_timeout(&self) -> Option<Live> {
        tokio::time::timeout(self.request_timeout, self.live()).await.ok().flatten()
    }

    /// Waits until `live` has been given up.
    pub(super) async fn lost(&self, live: &Live) {
        let is_other =
            |now: &Option<Live>| now.as_ref().is_none_or(|now| now.generation != live.generation);
        let mut receiver = self.live.clone();
        let _closed_counts_as_lost = receiver.wait_for(is_other).await;
    }

    /// Waits for a request, but not for ever.
    pub(super) async fn bounded<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = Result<T, ZooKeeperError>>,
    ) -> Result<T, ZooKeeperError> {
        let after = self.request_timeout;
        let outcome = tokio::time::timeout(after, request).await;
        outcome.unwrap_or(Err(ZooKeeperError::Timeout { what, after }))
    }

    /// What an error means for users of the store.
    pub(super) fn store_error(&self, error: &ZooKeeperError) -> StoreError {
        match error {
            ZooKeeperError::Lost => StoreError::Away,
            ZooKeeperError::Unsteady => StoreError::Gap,
            ZooKeeperError::Refused {
                refusal: Refusal::SessionExpired | Refusal::SessionMoved,
                ..
            } => StoreError::Away,
            error => StoreError::Failed(error.to_string()),
        }
    }

    /// Notes an error for the operator; true if it is not the one that was noted last.
    pub(super) fn report(&self, error: &str) -> bool {
        self.status.send_if_modified(|status| {
            let is_new = status.last_error.as_deref() != Some(error);
            if is_new {
                status.last_error = Some(error.to_owned());
            }
            is_new
        })
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("live", &self.live.borrow().is_some()).finish()
    }
}

impl Live {
    /// Sends a request and waits for its answer. The connection bounds the time.
    pub(super) async fn ask(
        &self,
        request: Request<Told>,
    ) -> Result<Result<Answer, Refusal>, ZooKeeperError> {
        let (to, answer) = oneshot::channel();
        self.client.with(|machine| machine.0.send(request, to, Instant::now()));
        answer.await.map_err(|_| ZooKeeperError::Lost)
    }

    /// An error that says what was refused.
    pub(super) fn refused(
        &self,
        what: &'static str,
        path: &str,
        refusal: Refusal,
    ) -> ZooKeeperError {
        ZooKeeperError::Refused { what, path: path.to_owned(), refusal }
    }

    /// Somebody does not want to know of changes at `path` any more.
    pub(super) fn handle_unwanted(&self, path: &str) {
        self.client.with(|machine| machine.0.handle_unwanted(path, Instant::now()));
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("generation", &self.generation).finish_non_exhaustive()
    }
}

/// What outlives a connection.
#[derive(Debug, Default)]
struct Memory {
    session: Option<Session>,
    last_zxid: i64,
    history: u64,
    /// How often in a row a server has hung up instead of answering the handshake.
    n_refused: usize,
    refused_since: Option<Instant>,
}

impl Memory {
    /// A server has closed the connection without an answer: as a rule, because it knows less than
    /// we do. After a while, we forget what we know; returns whether that is now.
    fn handle_refused(&mut self, n_servers: usize, now: Instant) -> bool {
        self.n_refused += 1;
        let since = *self.refused_since.get_or_insert(now);
        let is_over = MAX_REFUSED_ROUNDS * n_servers <= self.n_refused
            && MIN_REFUSED_TIME <= now.saturating_duration_since(since);
        if is_over && self.last_zxid != 0 {
            *self = Self { history: self.history + 1, ..Self::default() };
            return true;
        }
        false
    }
}

/// How a try to use a server went.
struct Attempt {
    error: String,
    was_ready: bool,
}

struct Connector {
    connection: Connection,
    settings: Arc<Settings>,
    sender: watch::Sender<Option<Live>>,
    memory: Memory,
}

impl Connector {
    async fn run(mut self) {
        let mut backoff = new_backoff();
        let mut n_failed = 0;
        let settings = Arc::clone(&self.settings);
        let servers = &settings.servers;
        // Agents that start together spread over the servers.
        let first = rand::random_range(0..servers.len());
        for (generation, server) in (0..).zip(servers.iter().cycle().skip(first)) {
            let began = Instant::now();
            let attempt = self.attempt(server, generation).await;
            self.note_failure(server, &attempt.error);
            if attempt.was_ready {
                n_failed = 0;
                if GOOD_AFTER <= began.elapsed() {
                    backoff.reset();
                }
            } else {
                n_failed += 1;
                if n_failed % servers.len() != 0 {
                    continue;
                }
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    /// Connects to one server, and lends the connection out until it ends.
    async fn attempt(&mut self, server: &Destination, generation: u64) -> Attempt {
        if let Some(tls) = &self.settings.tls
            && let Err(error) = tls.reload()
        {
            // The ones that were read before stay in use.
            tracing::warn!(%error, "cannot read the certificates for ZooKeeper again");
        }
        let stream = match server.connect("zookeeper", self.settings.connect_timeout).await {
            Ok(stream) => stream,
            Err(error) => return Attempt { error: error.to_string(), was_ready: false },
        };
        let machine = zookeeper_proto::Connection::new(self.greeting(), Instant::now());
        let client = Arc::new(SyncConn::new(ClientMachine(machine)));
        let (mut was_ready, mut has_expired) = (false, false);
        let ending = {
            let (memory, sender) = (&mut self.memory, &self.sender);
            let status = &self.connection.status;
            drive(stream, &*client, |event| match event {
                Event::Ready { session } => {
                    was_ready = true;
                    (memory.session, memory.n_refused) = (Some(session), 0);
                    memory.refused_since = None;
                    let (client, history) = (Arc::clone(&client), memory.history);
                    sender.send_replace(Some(Live { generation, session, history, client }));
                    if note(status, true, None) {
                        let session_timeout = session.timeout;
                        tracing::info!(%server, ?session_timeout, "connected to ZooKeeper");
                    }
                }
                Event::Expired => has_expired = true,
                // Who has asked may have gone.
                Event::Answered { to, outcome } => drop(to.send(outcome)),
                Event::Fired(told) => told.fire(),
            })
            .await
        };
        self.sender.send_replace(None);
        let broken = client.lock(|machine| {
            let broken = machine.0.broken();
            self.memory.last_zxid = self.memory.last_zxid.max(machine.0.last_zxid());
            machine.0.abandon();
            broken
        });
        if has_expired {
            self.memory.session = None;
            return Attempt { error: "the session has expired".to_owned(), was_ready };
        }
        let error = self.error(&ending, broken, was_ready);
        Attempt { error, was_ready }
    }

    fn greeting(&self) -> zookeeper_proto::Settings {
        zookeeper_proto::Settings {
            session: self.memory.session,
            session_timeout: self.settings.session_timeout,
            last_zxid: self.memory.last_zxid,
            identities: self.settings.identities.clone(),
            max_frame_len: self.settings.max_frame_len,
            answer_timeout: self.settings.request_timeout,
        }
    }

    /// Why the connection has ended, for the operator.
    fn error(
        &mut self,
        ending: &Ending<Broken>,
        broken: Option<Broken>,
        was_ready: bool,
    ) -> String {
        match (ending, broken) {
            (Ending::Finished, Some(broken)) => broken.to_string(),
            (Ending::PeerClosed | Ending::Io(_), None) if !was_ready => {
                let n_servers = self.settings.servers.len();
                if self.memory.handle_refused(n_servers, Instant::now()) {
                    tracing::warn!(
                        "ZooKeeper has lost its history: every server refuses what this agent has \
                         seen; beginning anew"
                    );
                }
                "the server hung up instead of answering: it is starting, lags behind what this \
                 agent has seen, wants TLS, or has too many connections (maxClientCnxns)"
                    .to_owned()
            }
            (ending, _) => ending.to_string(),
        }
    }

    fn note_failure(&self, server: &Destination, error: &str) {
        let text = format!("ZooKeeper at {server}: {error}");
        let is_new = self.connection.report(&text);
        let flipped = note(&self.connection.status, false, None);
        if is_new || flipped {
            tracing::warn!(%server, %error, "ZooKeeper cannot be reached; the last known \
                                             endpoints stay in use");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_forgotten_only_after_all_servers_have_refused_it_for_a_while() {
        let began = Instant::now();
        let fresh = || Memory { last_zxid: 9, ..Memory::default() };
        let mut memory = fresh();
        let refusals = |memory: &mut Memory, n: usize, at: Instant| {
            (0..n).filter(|_| memory.handle_refused(2, at)).count()
        };
        assert_eq!(refusals(&mut memory, 100, began), 0, "too soon");
        let mut memory = fresh();
        let late = began + MIN_REFUSED_TIME;
        assert_eq!(refusals(&mut memory, 1, began), 0);
        assert_eq!(refusals(&mut memory, 4, late), 0, "too seldom");
        assert_eq!(refusals(&mut memory, 1, late), 1);
        assert_eq!((memory.last_zxid, memory.history, memory.n_refused), (0, 1, 0));
        assert_eq!(refusals(&mut memory, 100, late + MIN_REFUSED_TIME), 0, "nothing to forget");
    }
}
