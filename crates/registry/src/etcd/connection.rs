//! The one connection to etcd, and the task that keeps it.
//!
//! Users of the connection never decide that it is broken: when something fails they call
//! [`SharedConnection::suspect`], and the task finds out with a request of its own.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, GetOptions, KvClient, LeaseClient};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};
use wire::file::FileWork;
use wire::jitter;

use crate::error::RegistryError;
use crate::layout::Paths;
use crate::lent::{Lender, Lent, Lost, Rounds, lend};
use crate::store::StoreError;

use super::settings::EtcdSettings;
use super::stream::Watches;

/// How often a quiet connection is asked whether it is alive: a member that hangs is left after at
/// most this and a request's timeout.
const PROBE_INTERVAL: Duration = Duration::from_secs(3);

/// Services and rules that are read at the same time.
const MAX_READS: usize = 32;

/// A connection that has answered.
pub(super) struct Live {
    client: Client,
    watches: Watches,
}

impl Live {
    fn new(client: Client, request_timeout: Duration) -> Self {
        let watches = Watches::new(client.clone(), request_timeout);
        Self { client, watches }
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
}

/// A shared handle on the connection.
#[derive(Clone, Debug)]
pub(super) struct SharedConnection {
    pub(super) lent: Lent<Live>,
    suspect: Arc<Notify>,
    reads: Arc<Semaphore>,
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

impl SharedConnection {
    /// Starts the task that connects and reconnects until it is aborted.
    pub(super) fn start(
        settings: &Arc<EtcdSettings>,
        paths: &Paths,
        runtime: &Handle,
    ) -> (Self, AbortHandle) {
        let (lender, lent) = lend(settings.request_timeout);
        let reads = Arc::new(Semaphore::new(MAX_READS));
        let connection = Self { lent, suspect: Arc::default(), reads };
        let connector = Connector {
            connection: connection.clone(),
            settings: Arc::clone(settings),
            probe_key: paths.root().to_owned(),
            lender,
            files: FileWork::default(),
        };
        (connection, runtime.spawn(connector.run()).abort_handle())
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

    /// Waits for a request, but not for ever.
    pub(super) async fn request<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, EtcdError> {
        bounded(what, self.lent.request_timeout(), request).await
    }

    /// The same for what is read at the beginning of each watch. An agent with hundreds of
    /// services has thousands of these: etcd is not asked for all of them at once.
    pub(super) async fn read<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, EtcdError> {
        // Whoever holds a permit gives it back within the time of a request.
        let _permit = self.reads.acquire().await;
        self.request(what, request).await
    }
}

impl From<Lost> for EtcdError {
    fn from(Lost: Lost) -> Self {
        Self::Lost
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
    connection: SharedConnection,
    settings: Arc<EtcdSettings>,
    probe_key: String,
    lender: Lender<Live>,
    /// Reads the certificates.
    files: FileWork,
}

impl Connector {
    async fn run(self) {
        let mut rounds = Rounds::new(&self.settings.urls);
        loop {
            let url = rounds.server();
            let (error, lasted) = match self.connect(url).await {
                Ok(client) => {
                    let began = Instant::now();
                    (self.serve(url, client).await, Some(began.elapsed()))
                }
                Err(error) => (error, None),
            };
            self.lender.handle_failure("etcd", url, &error);
            rounds.handle_end(lasted).await;
        }
    }

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
    async fn serve(&self, url: &str, client: Client) -> EtcdError {
        let request_timeout = self.settings.request_timeout;
        if self.lender.give(Live::new(client.clone(), request_timeout)) {
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
        self.lender.take_back();
        error
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
            Self::Client { what, source } => {
                write!(f, "{what}: ")?;
                write_source(f, source)
            }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;
    use futures_util::future::join_all;

    use super::*;
    use crate::config::EtcdConfig;
    use crate::layout::Layout;

    #[tokio::test]
    async fn so_many_are_read_at_a_time_and_each_has_its_turn() {
        let config = EtcdConfig::new(["http://127.0.0.1:1".to_owned()], Layout::contest());
        let settings = Arc::new(EtcdSettings::new(config).unwrap());
        let paths = Paths::new(&Layout::contest()).unwrap();
        let (connection, connector) =
            SharedConnection::start(&settings, &paths, &Handle::current());
        connector.abort();
        let (n_begun, gate) = (AtomicUsize::new(0), Semaphore::new(0));
        let read = |_| {
            connection.read("reading", async {
                n_begun.fetch_add(1, Ordering::Relaxed);
                let _permit = gate.acquire().await;
                Ok(())
            })
        };
        let mut all = Box::pin(join_all((0..3 * MAX_READS).map(read)));
        assert!(all.as_mut().now_or_never().is_none());
        assert_eq!(n_begun.load(Ordering::Relaxed), MAX_READS);
        gate.close();
        assert!(all.await.iter().all(Result::is_ok));
        assert_eq!(n_begun.load(Ordering::Relaxed), 3 * MAX_READS);
    }
}
