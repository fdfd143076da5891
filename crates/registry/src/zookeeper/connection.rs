//! The one connection to ZooKeeper, and the task that keeps it and its session.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use wire::{Destination, Ending, SharedMachine, SyncConn, drive};
use zookeeper_proto::{Answer, Broken, Event, Refusal, Request, Session};

use crate::lent::{Lender, Lent, Lost, Rounds, lend};
use crate::store::StoreError;

use super::machine::{ChangedWatcher, ClientMachine};
use super::settings::ZooKeeperSettings;

/// All servers have to refuse what we know this often, and for so long, before we take their
/// history for lost. A server that starts up, or lags behind, does so for a moment, too.
const MAX_REFUSED_ROUNDS: usize = 3;
const MIN_REFUSED_TIME: Duration = Duration::from_secs(2);

/// A shared handle on the connection.
pub(super) type SharedConnection = Lent<Live>;

/// A connection whose session is there.
pub(super) struct Live {
    pub(super) session: Session,
    /// Changes when the servers have lost their history.
    pub(super) history: u64,
    client: Arc<SyncConn<ClientMachine>>,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ZooKeeperError {
    // The reason comes first: a path may be longer than what a log shows of an error.
    #[error("{refusal} ({what} {path})")]
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

/// Starts the task that connects and reconnects until it is aborted.
pub(super) fn start(
    settings: &Arc<ZooKeeperSettings>,
    runtime: &Handle,
) -> (SharedConnection, AbortHandle) {
    let (lender, connection) = lend(settings.request_timeout);
    let connector = Connector { settings: Arc::clone(settings), lender, memory: Memory::default() };
    (connection, runtime.spawn(connector.run()).abort_handle())
}

/// Waits for requests, but not for longer than one may take.
pub(super) async fn bounded<T>(
    connection: &SharedConnection,
    what: &'static str,
    requests: impl Future<Output = Result<T, ZooKeeperError>>,
) -> Result<T, ZooKeeperError> {
    let after = connection.request_timeout();
    let outcome = tokio::time::timeout(after, requests).await;
    outcome.unwrap_or(Err(ZooKeeperError::Timeout { what, after }))
}

impl From<Lost> for ZooKeeperError {
    fn from(Lost: Lost) -> Self {
        Self::Lost
    }
}

/// Whether a refusal is about one node alone, and not about the session.
pub(super) fn is_about_node(refusal: Refusal) -> bool {
    !matches!(refusal, Refusal::SessionExpired | Refusal::SessionMoved)
}

/// What an error means for users of the store.
impl From<ZooKeeperError> for StoreError {
    fn from(error: ZooKeeperError) -> Self {
        match error {
            ZooKeeperError::Lost => Self::Away,
            ZooKeeperError::Unsteady => Self::Gap,
            ZooKeeperError::Refused {
                refusal: Refusal::SessionExpired | Refusal::SessionMoved,
                ..
            } => Self::Away,
            error => Self::Failed(error.to_string()),
        }
    }
}

impl Live {
    /// Sends a request and waits for its answer. The connection bounds the time.
    pub(super) async fn ask(
        &self,
        request: Request<ChangedWatcher>,
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
        f.debug_struct("Live").field("session", &self.session).finish_non_exhaustive()
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
    settings: Arc<ZooKeeperSettings>,
    lender: Lender<Live>,
    memory: Memory,
}

impl Connector {
    async fn run(mut self) {
        let settings = Arc::clone(&self.settings);
        let mut rounds = Rounds::new(&settings.servers);
        loop {
            let (server, began) = (rounds.server(), Instant::now());
            let attempt = self.attempt(server).await;
            self.lender.handle_failure("ZooKeeper", server, &attempt.error);
            rounds.handle_end(attempt.was_ready.then(|| began.elapsed())).await;
        }
    }

    /// Connects to one server, and lends the connection out until it ends.
    async fn attempt(&mut self, server: &Destination) -> Attempt {
        if let Some(tls) = &self.settings.tls
            && let Err(error) = tls.reload_within(self.settings.connect_timeout / 2).await
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
            let (memory, lender) = (&mut self.memory, &self.lender);
            drive(stream, &*client, |event| match event {
                Event::Ready { session } => {
                    was_ready = true;
                    (memory.session, memory.n_refused) = (Some(session), 0);
                    memory.refused_since = None;
                    let (client, history) = (Arc::clone(&client), memory.history);
                    if lender.give(Live { session, history, client }) {
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
        self.lender.take_back();
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
                         seen; starting over"
                    );
                }
                "the server hung up instead of answering: it is starting, lags behind what this \
                 agent has seen, wants TLS, or has too many connections (maxClientCnxns)"
                    .to_owned()
            }
            (ending, _) => ending.to_string(),
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
    /// A log shows the front of an error, and a path may be longer than that.
    #[test]
    fn an_error_says_the_reason_before_the_path() {
        let path = format!("/dubbo/a.B/providers/{}", "x".repeat(2_000));
        let error = ZooKeeperError::Refused { what: "registering", path, refusal: Refusal::NoAuth };
        let shown: String = error.to_string().chars().take(200).collect();
        assert!(shown.contains("NoAuth") && shown.contains("registering /dubbo/a.B/"), "{shown}");
    }
}
