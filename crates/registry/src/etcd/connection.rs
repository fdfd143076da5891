//! The one connection to etcd, and the task that keeps it.
//!
//! Users of the connection never decide that it is broken: when something fails they call
//! [`Connection::suspect`], and the task finds out with a request of its own.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, GetOptions};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use wire::jitter;

use crate::error::RegistryError;
use crate::follow::new_backoff;
use crate::layout::Paths;
use crate::status::{RegistryStatus, StatusSender, note};
use crate::store::StoreError;

use super::settings::Settings;

/// How often a quiet connection is asked whether it is alive: a member that hangs is left after at
/// most this and a request's timeout.
const PROBE_INTERVAL: Duration = Duration::from_secs(3);

/// A connection that lasted this long was good: the next try need not wait long.
const GOOD_AFTER: Duration = Duration::from_secs(5);

/// A shared handle on the connection.
#[derive(Clone)]
pub(super) struct Connection {
    live: watch::Receiver<Option<Live>>,
    suspect: Arc<Notify>,
    status: StatusSender,
    request_timeout: Duration,
}

/// A connection that has answered.
#[derive(Clone)]
pub(super) struct Live {
    generation: u64,
    pub(super) client: Client,
}

/// Why a request failed.
#[derive(Debug)]
pub(super) enum EtcdError {
    Timeout {
        what: &'static str,
        after: Duration,
    },
    Client {
        what: &'static str,
        source: etcd_client::Error,
    },
    Config(RegistryError),
    /// The connection was given up while we used it; the reason is in the status already.
    Lost,
    /// etcd ended a watch.
    Ended {
        reason: String,
    },
    /// The history that a watch would need is compacted.
    Compacted,
    /// The lease has run out.
    LeaseLost,
}

impl Connection {
    /// Starts the task that connects and reconnects until it is aborted.
    pub(super) fn start(
        settings: &Arc<Settings>,
        paths: &Paths,
        runtime: &Handle,
    ) -> (Self, AbortHandle) {
        let (sender, live) = watch::channel(None);
        let connection = Self {
            live,
            suspect: Arc::default(),
            status: watch::Sender::new(RegistryStatus::new(false)),
            request_timeout: settings.request_timeout,
        };
        let connector = Connector {
            connection: connection.clone(),
            settings: Arc::clone(settings),
            probe_key: paths.root().to_owned(),
            sender,
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

    /// The same, but not for longer than a request may take.
    pub(super) async fn live_within_timeout(&self) -> Option<Live> {
        timeout(self.request_timeout, self.live()).await.ok().flatten()
    }

    /// Waits until `live` has been given up.
    pub(super) async fn lost(&self, live: &Live) {
        let is_other =
            |now: &Option<Live>| now.as_ref().is_none_or(|now| now.generation != live.generation);
        let mut receiver = self.live.clone();
        let _closed_counts_as_lost = receiver.wait_for(is_other).await;
    }

    /// Runs requests for as long as `live` is not given up.
    pub(super) async fn while_live<T>(
        &self,
        live: &Live,
        requests: impl Future<Output = Result<T, EtcdError>>,
    ) -> Result<T, EtcdError> {
        tokio::select! {
            outcome = requests => outcome,
            () = self.lost(live) => Err(EtcdError::Lost),
        }
    }

    /// Asks for a check of the connection, soon.
    fn suspect(&self) {
        self.suspect.notify_one();
    }

    /// What an error means for users of the store. One that may be the connection's has it
    /// checked.
    pub(super) fn store_error(&self, error: &EtcdError) -> StoreError {
        match error {
            EtcdError::Lost => StoreError::Away,
            EtcdError::Compacted => StoreError::Gap,
            error => {
                self.suspect();
                StoreError::Failed(error.to_string())
            }
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

    /// Waits for a request, but not for ever.
    pub(super) async fn request<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, EtcdError> {
        bounded(what, self.request_timeout, request).await
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("live", &self.live.borrow().is_some()).finish()
    }
}

async fn bounded<T>(
    what: &'static str,
    after: Duration,
    request: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, EtcdError> {
    match timeout(after, request).await {
        Ok(result) => result.map_err(|source| EtcdError::Client { what, source }),
        Err(_) => Err(EtcdError::Timeout { what, after }),
    }
}

struct Connector {
    connection: Connection,
    settings: Arc<Settings>,
    probe_key: String,
    sender: watch::Sender<Option<Live>>,
}

impl Connector {
    async fn run(self) {
        let mut backoff = new_backoff();
        let mut failed_urls = 0;
        let urls = &self.settings.urls;
        // Agents that start together spread over the members.
        let first = rand::random_range(0..urls.len());
        for (generation, url) in (0..).zip(urls.iter().cycle().skip(first)) {
            match self.connect(url).await {
                Ok(client) => {
                    failed_urls = 0;
                    let began = tokio::time::Instant::now();
                    let error = self.serve(url, Live { generation, client }).await;
                    self.note_failure(url, &error);
                    if GOOD_AFTER <= began.elapsed() {
                        backoff.reset();
                    }
                }
                Err(error) => {
                    self.note_failure(url, &error);
                    failed_urls += 1;
                    if failed_urls % urls.len() != 0 {
                        continue;
                    }
                }
            }
            tokio::time::sleep(backoff.next_wait()).await;
        }
    }

    /// Connects to one member and makes sure that it answers.
    async fn connect(&self, url: &str) -> Result<Client, EtcdError> {
        let options = self.settings.connect_options().map_err(EtcdError::Config)?;
        let connect = async {
            let client = Client::connect([url], Some(options)).await?;
            probe(&client, &self.probe_key).await?;
            Ok(client)
        };
        bounded("connecting", self.settings.connect_timeout, connect).await
    }

    /// Lends the connection out until it no longer answers; returns why.
    async fn serve(&self, url: &str, live: Live) -> EtcdError {
        let client = live.client.clone();
        self.sender.send_replace(Some(live));
        if note(&self.connection.status, true, None) {
            tracing::info!(%url, "connected to etcd");
        }
        let error = loop {
            let wait = jitter(PROBE_INTERVAL);
            let _either_way = timeout(wait, self.connection.suspect.notified()).await;
            let probe = probe(&client, &self.probe_key);
            if let Err(error) = self.connection.request("asking whether it is alive", probe).await {
                break error;
            }
        };
        self.sender.send_replace(None);
        error
    }

    fn note_failure(&self, url: &str, error: &EtcdError) {
        let text = format!("etcd at {url}: {error}");
        let is_new = self.connection.report(&text);
        let flipped = note(&self.connection.status, false, None);
        if is_new || flipped {
            tracing::warn!(%url, %error, "etcd cannot be reached; the last known endpoints stay in \
                                          use");
        }
    }
}

/// Reads one key. A user who may not read it shows by that very answer that etcd is alive.
async fn probe(client: &Client, key: &str) -> Result<(), etcd_client::Error> {
    let options = GetOptions::new().with_count_only();
    match client.kv_client().get(key, Some(options)).await {
        Err(etcd_client::Error::GRpcStatus(status)) if is_denied(status.message()) => Ok(()),
        result => result.map(|_| ()),
    }
}

fn is_denied(message: &str) -> bool {
    message.contains("permission denied")
}

impl fmt::Display for EtcdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout { what, after } => write!(f, "{what}: no answer within {after:?}"),
            Self::Client { what, source } => {
                write!(f, "{what}: ")?;
                write_source(f, source)
            }
            Self::Config(error) => write!(f, "{error}"),
            Self::Lost => f.write_str("the connection was lost"),
            Self::Ended { reason } => write!(f, "etcd ended the watch: {reason}"),
            Self::Compacted => f.write_str("the history is compacted"),
            Self::LeaseLost => f.write_str("the lease has run out"),
        }
    }
}

/// The message of a gRPC status, and whatever caused it: `transport error` alone helps nobody.
fn write_source(f: &mut fmt::Formatter<'_>, error: &etcd_client::Error) -> fmt::Result {
    let inner: Option<&(dyn Error + 'static)> = match error {
        etcd_client::Error::GRpcStatus(status) => Some(status),
        etcd_client::Error::TransportError(error) => Some(error),
        _ => None,
    };
    if let Some(words) = inner.and_then(|inner| wire::tls::words_of_cause(inner, "server")) {
        return f.write_str(&words);
    }
    let mut cause: Option<&dyn Error> = match error {
        etcd_client::Error::GRpcStatus(status) => {
            f.write_str(status.message())?;
            status.source()
        }
        etcd_client::Error::TransportError(error) => {
            write!(f, "{error}")?;
            error.source()
        }
        other => return write!(f, "{other}"),
    };
    let mut said = String::new();
    while let Some(error) = cause {
        let text = error.to_string();
        if let Some(alert) = refused_certificate(&text) {
            return write!(
                f,
                ": the server refused our certificate, or requires one, but none was shown \
                 ({alert})"
            );
        }
        if !said.contains(&text) {
            write!(f, ": {text}")?;
            said.push_str(&text);
        }
        cause = error.source();
    }
    Ok(())
}

/// The alert by which a server refuses a client's certificate. HTTP/2's errors keep the text alone
/// of what comes after the handshake, which is where TLS 1.3 has this alert.
fn refused_certificate(text: &str) -> Option<&str> {
    let (_, alert) = text.split_once("received fatal alert: ")?;
    (alert.contains("Certificate") || alert == "UnknownCA").then_some(alert)
}
