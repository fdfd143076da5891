//! Services in etcd v3.
//!
//! **Keys.** Two layouts, see [`Layout`](crate::Layout):
//!
//! - *contest*: `/dubbomesh/{interface}/{host}:{port}` with the weight as its value.
//! - *Dubbo*: `/dubbo/{interface}/providers/{url}`, interface and URL percent-encoded, as Java and Go
//!   providers write it. All that counts is in the key; the value (in Java the lease's number)
//!   is not read. Our agents write `/dubbo/{interface}/agents/{url}`, a category where no Java
//!   consumer looks, with a URL `link://{host}:{port}/{interface}?version=..&group=..&for={app}`:
//!   the agent's endpoint *replaces* the plain `dubbo://` endpoint whose `host:port` equals `for`.
//!   The whole rule is in [`crate::listing`].
//!
//! Keys that cannot be read are skipped, with one warning each.
//!
//! **Reading.** Each subscribed service is read whole, at one revision, and watched from the next one.
//! Whatever breaks the watch (a lost connection, a compaction, a revoked permission, a server that
//! no longer answers) leads to reading it whole again. Until then the last known endpoints stay, marked
//! stale; an empty list counts only when it has been read. If etcd comes back *without its history*
//! (its revision has gone back), endpoints known before stay for
//! [`EtcdConfig::grace`](crate::EtcdConfig::grace), because their owners need a moment to register
//! again.
//!
//! **Names that may be made up.** Whether a service is there at all is told without a watch for it, from
//! a list of all services that is read and watched while somebody asks (`index.rs`).
//!
//! **Writing.** All registrations of a process hang on one lease, renewed three times per lifetime.
//! With each renewal etcd is asked whether the keys are still there; what is missing is written
//! again. A withdrawal deletes a key only if it still hangs on our lease, so that an agent that is
//! replaced does not remove the registration of its successor.
//!
//! **Definitions.** Dubbo's metadata report, if the estate has it in the same etcd, is read when it is needed:
//! `/dubbo/metadata/{interface}[/{version}][/{group}]/provider/{application}` = JSON.
//!
//! **Connection.** One connection to one member at a time, to the next member when it fails, with
//! jittered waits. A request at least every few seconds finds out that a member hangs or has lost its
//! quorum.

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use wire::Backoff;

use crate::config::EtcdConfig;
use crate::definitions::{Away, Document};
use crate::directory::Presence;
use crate::endpoint::{Registration, Snapshot};
use crate::error::RegistryError;
use crate::registry::{RegistryStatus, Withdraw};

use connection::Connection;
use follow::Follower;
use index::Index;
use layout::Keys;
use registrar::Registrar;
use settings::Settings;

mod connection;
mod follow;
mod index;
mod layout;
mod registrar;
mod report;
mod settings;

/// The first wait after something failed. A server that restarts is back in about this time.
const MIN_BACKOFF: Duration = Duration::from_millis(50);

/// The longest wait: an operator who has repaired the registry wants to see it used at once.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

fn new_backoff() -> Backoff {
    Backoff::new(MIN_BACKOFF, MAX_BACKOFF)
}

/// The handle on the tasks that talk to etcd.
#[derive(Debug)]
pub(crate) struct EtcdRegistry {
    keys: Keys,
    settings: Arc<Settings>,
    connection: Connection,
    registrar: Registrar,
    index: Index,
    connector: AbortHandle,
}

impl EtcdRegistry {
    pub(crate) fn open(config: EtcdConfig, runtime: &Handle) -> Result<Self, RegistryError> {
        let keys = Keys::new(&config.layout)?;
        let settings = Arc::new(Settings::new(config)?);
        let (connection, connector) = Connection::start(&settings, &keys, runtime);
        let registrar = Registrar::start(&settings, &connection, runtime);
        let index = Index::new(keys.clone(), connection.clone());
        Ok(Self { keys, settings, connection, registrar, index, connector })
    }

    /// Whether a service is in etcd at all, without a watch for it.
    pub(crate) fn presence(&self, wanted: &ServiceKey, runtime: &Handle) -> Presence {
        self.index.presence(wanted, runtime)
    }

    /// Waits until [`presence`](Self::presence) can tell.
    pub(crate) async fn settled(&self) {
        self.index.settled().await;
    }

    pub(crate) fn status(&self) -> watch::Receiver<RegistryStatus> {
        self.connection.status()
    }

    /// The task that keeps the snapshot of one service up to date.
    pub(crate) fn follow(
        &self,
        wanted: ServiceKey,
        snapshots: watch::Sender<Snapshot>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (keys, connection) = (self.keys.clone(), self.connection.clone());
        Follower::new(keys, connection, self.settings.grace, wanted, snapshots).run()
    }

    /// The documents of an interface in Dubbo's metadata report, the newest first.
    pub(crate) async fn definitions(
        &self,
        root: &str,
        interface: &str,
    ) -> Result<Vec<Document>, Away> {
        report::read(&self.connection, root, interface).await
    }

    pub(crate) fn register(
        &self,
        registration: &Registration,
    ) -> Result<(watch::Receiver<bool>, Withdraw), RegistryError> {
        let (key, value) = self.keys.write(registration)?;
        Ok(self.registrar.add(key, value))
    }
}

impl Drop for EtcdRegistry {
    fn drop(&mut self) {
        // Followers end with their subscriptions, and the registrar by itself once it has revoked
        // the lease.
        self.connector.abort();
    }
}
