//! The one connection to etcd.
//!
//! Users of the connection never decide that it is broken: what fails has it checked, and the task
//! that keeps it finds out with a request of its own.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, GetOptions, KvClient, LeaseClient};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::timeout;
use wire::file::FileWork;
use wire::jitter;

use crate::error::RegistryError;
use crate::grpc_words::{with_causes, words_of};
use crate::layout::Paths;
use crate::lent::{
    ConnectionName, ConnectionTerms, Connector, ConnectorTask, Lender, Lent, Lost, keep_connected,
};
use crate::store::StoreError;

use super::settings::EtcdSettings;
use super::stream::Watches;

/// How often a quiet connection is asked whether it is alive: a member that hangs is left after at
/// most this and a request's timeout.
const PROBE_INTERVAL: Duration = Duration::from_secs(3);

/// Services and rules that are read at the same time.
const MAX_READS: usize = 32;

/// A shared handle on the connection.
pub(super) type SharedConnection = Lent<Live>;

/// A connection that has answered.
pub(super) struct Live {
    client: Client,
    watches: Watches,
    request_timeout: Duration,
    suspect: Arc<Notify>,
}

impl Live {
    fn new(client: Client, request_timeout: Duration) -> Self {
        let suspect = Arc::new(Notify::new());
        let watches = Watches::new(client.clone(), request_timeout, Arc::clone(&suspect));
        Self { client, watches, request_timeout, suspect }
    }

    pub(super) fn kv_client(&self) -> KvClient {
        self.client.kv_client()
    }

    pub(super) fn lease_client(&self) -> LeaseClient {
        self.client.lease_client()
    }

    /// All that is watched by it.
    pub(super) const fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Waits for a request, but not for ever. One that fails has the connection checked.
    pub(super) async fn request<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, EtcdError> {
        let outcome = bounded(what, self.request_timeout, request).await;
        outcome.inspect_err(|_| self.suspect.notify_one())
    }
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
    /// The server ended a connection by TLS on which we show no certificate. It may have said why,
    /// but what it says can be overtaken by the end.
    CutOff(Box<Self>),
    Config(RegistryError),
    /// The certificates could not be read in time.
    Files(io::Error),
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

impl EtcdError {
    fn is_lease_lost(&self) -> bool {
        match self {
            Self::LeaseLost => true,
            // What the client makes of a lifetime of 0.
            Self::Client { source: etcd_client::Error::LeaseKeepAliveError(_), .. } => true,
            Self::Client { source: etcd_client::Error::GRpcStatus(status), .. } => {
                status.message().contains("lease not found")
            }
            _ => false,
        }
    }
}

/// What an error means for users of the store.
impl From<EtcdError> for StoreError {
    fn from(error: EtcdError) -> Self {
        match error {
            EtcdError::Lost => Self::Away,
            EtcdError::Compacted => Self::Gap,
            error if error.is_lease_lost() => Self::SessionLost,
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<Lost> for EtcdError {
    fn from(Lost: Lost) -> Self {
        Self::Lost
    }
}

/// Starts the task that connects, and connects again.
pub(super) fn start(
    settings: &Arc<EtcdSettings>,
    paths: &Paths,
    runtime: &Handle,
) -> (SharedConnection, ConnectorTask) {
    let terms = ConnectionTerms {
        name: ConnectionName { store: "etcd", module: None },
        servers: settings.urls.clone(),
        request_timeout: settings.request_timeout,
        max_beginnings: MAX_READS,
    };
    let (settings, probe_key) = (Arc::clone(settings), paths.root().to_owned());
    let connector = EtcdConnector { settings, probe_key, files: FileWork::default() };
    keep_connected(connector, terms, runtime)
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

struct EtcdConnector {
    settings: Arc<EtcdSettings>,
    probe_key: String,
    /// Reads the certificates.
    files: FileWork,
}

impl Connector for EtcdConnector {
    type Server = String;
    type Live = Live;

    async fn attempt(&mut self, url: &String, lender: &mut Lender<Live>) -> String {
        let error = match self.connect(url).await {
            Ok(client) => self.serve(url, client, lender).await,
            Err(error) => error,
        };
        error.to_string()
    }
}

impl EtcdConnector {
    /// Connects to one member and makes sure that it answers.
    async fn connect(&self, url: &str) -> Result<Client, EtcdError> {
        let (settings, after) = (Arc::clone(&self.settings), self.settings.connect_timeout);
        let options = self.files.run(after, move || settings.connect_options()).await;
        let options = options.map_err(EtcdError::Files)?.map_err(EtcdError::Config)?;
        let connect = async {
            let client = Client::connect([url], Some(options)).await?;
            probe(&client, &self.probe_key).await?;
            Ok(client)
        };
        let connected = bounded("connecting", self.settings.connect_timeout, connect).await;
        connected.map_err(|error| match self.settings.shows_nothing() && is_cut_off(&error) {
            true => EtcdError::CutOff(Box::new(error)),
            false => error,
        })
    }

    /// Lends the connection out until it no longer answers; returns why.
    async fn serve(&self, url: &str, client: Client, lender: &mut Lender<Live>) -> EtcdError {
        let request_timeout = self.settings.request_timeout;
        let live = Live::new(client.clone(), request_timeout);
        let suspect = Arc::clone(&live.suspect);
        if lender.give(live) {
            tracing::info!(%url, "connected to etcd");
        }
        loop {
            let wait = jitter(PROBE_INTERVAL);
            let _either_way = timeout(wait, suspect.notified()).await;
            let probe = probe(&client, &self.probe_key);
            if let Err(error) = bounded("asking whether it is alive", request_timeout, probe).await
            {
                return error;
            }
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

/// Whether a connection was made and then ended, without a word that TLS knows.
fn is_cut_off(error: &EtcdError) -> bool {
    let EtcdError::Client { .. } = error else { return false };
    let text = error.to_string().to_lowercase();
    let is_any = |words: &[&str]| words.iter().any(|words| text.contains(words));
    is_any(&["broken pipe", "connection closed", "connection reset", "unexpected eof"])
        && !is_any(&["certificate"])
}

impl fmt::Display for EtcdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout { what, after } => write!(f, "{what}: no answer within {after:?}"),
            Self::Client { what, source } => write!(f, "{what}: {}", words(source)),
            Self::CutOff(error) => write!(
                f,
                "{error}; perhaps the server requires a certificate, and none is shown: set \
                 cert_file and key_file"
            ),
            Self::Config(error) => write!(f, "{error}"),
            Self::Files(error) => write!(f, "cannot read the certificates: {error}"),
            Self::Lost => f.write_str("the connection was lost"),
            Self::Ended { reason } => write!(f, "etcd ended the watch: {reason}"),
            Self::Compacted => f.write_str("the history is compacted"),
            Self::LeaseLost => f.write_str("the lease has run out"),
        }
    }
}

/// What the server says, and whatever caused it: `transport error` alone helps nobody.
fn words(error: &etcd_client::Error) -> String {
    match error {
        etcd_client::Error::GRpcStatus(status) => with_causes(status.message(), status),
        etcd_client::Error::TransportError(error) => words_of(error),
        other => other.to_string(),
    }
}
