//! The one connection to ZooKeeper, and the task that keeps it and its session.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use wire::{Destination, Ending, SharedMachine, SyncConn, drive};
use zookeeper_proto::{Answer, Broken, Event, Identity, Refusal, Request, Session};

use crate::lent::{
    ConnectionName, ConnectionTerms, Connector, ConnectorTask, Lender, Lent, Lost, keep_connected,
};
use crate::store::StoreError;

use super::machine::{ChangedWatcher, ClientMachine};
use super::settings::ZooKeeperSettings;

/// All servers have to refuse what we know this often, and for so long, before we take their
/// history for lost. A server that starts up, or lags behind, does so for a moment, too.
const MAX_REFUSED_ROUNDS: usize = 3;
const MIN_REFUSED_TIME: Duration = Duration::from_secs(2);

/// Services and rules that are read at the same time. Each takes a few small requests. A server
/// stops reading once 1,000 requests of all its clients wait (`globalOutstandingLimit`).
const MAX_READS: usize = 256;

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

/// Starts the task that connects, and connects again.
pub(super) fn start(
    settings: &Arc<ZooKeeperSettings>,
    runtime: &Handle,
) -> (SharedConnection, ConnectorTask) {
    let terms = ConnectionTerms {
        name: ConnectionName { store: "ZooKeeper", module: None },
        servers: settings.servers.clone(),
        request_timeout: settings.request_timeout,
        max_beginnings: MAX_READS,
    };
    let connector =
        ZooKeeperConnector { settings: Arc::clone(settings), memory: Memory::default() };
    keep_connected(connector, terms, runtime)
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

struct ZooKeeperConnector {
    settings: Arc<ZooKeeperSettings>,
    memory: Memory,
}

impl Connector for ZooKeeperConnector {
    type Server = Destination;
    type Live = Live;

    async fn attempt(&mut self, server: &Destination, lender: &mut Lender<Live>) -> String {
        if let Some(tls) = &self.settings.tls {
            tls.renew(self.settings.connect_timeout).await;
        }
        let identities = match self.settings.identities().await {
            Ok(identities) => identities,
            Err(error) => return error.to_string(),
        };
        let stream = match server.connect("zookeeper", self.settings.connect_timeout).await {
            Ok(stream) => stream,
            Err(error) => return error.to_string(),
        };
        lender.note_unanswered(server);
        let machine = zookeeper_proto::Connection::new(self.greeting(identities), Instant::now());
        let client = Arc::new(SyncConn::new(ClientMachine(machine)));
        let (mut was_ready, mut has_expired) = (false, false);
        let ending = {
            let memory = &mut self.memory;
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
        let broken = client.lock(|machine| {
            let broken = machine.0.broken();
            self.memory.last_zxid = self.memory.last_zxid.max(machine.0.last_zxid());
            machine.0.abandon();
            broken
        });
        if has_expired {
            self.memory.session = None;
            return "the session has expired".to_owned();
        }
        self.error(&ending, broken, was_ready)
    }
}

impl ZooKeeperConnector {
    fn greeting(&self, identities: Vec<Identity>) -> zookeeper_proto::Settings {
        zookeeper_proto::Settings {
            session: self.memory.session,
            session_timeout: self.settings.session_timeout,
            last_zxid: self.memory.last_zxid,
            identities,
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
            (Ending::Finished, Some(broken @ Broken::AuthFailed)) => broken.to_string(),
            (Ending::Finished, Some(broken)) if !was_ready => {
                format!(
                    "connected, but it does not answer as ZooKeeper does: {broken}; is this \
                         the right port?"
                )
            }
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
                 agent has seen, wants TLS, has too many connections (maxClientCnxns), or is no \
                 ZooKeeper"
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
