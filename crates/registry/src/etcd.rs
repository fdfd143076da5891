//! Services in etcd v3.
//!
//! **Keys.** Two layouts, see [`Layout`]:
//!
//! - *contest*: `/dubbomesh/{interface}/{host}:{port}` with the weight as its value.
//! - *Dubbo*: `/dubbo/{interface}/providers/{url}`, interface and URL percent-encoded, as Java and
//!   Go providers write it. All that counts is in the key; the value (in Java the lease's number)
//!   is not read. Our agents write `/dubbo/{interface}/agents/{url}`, a category where no Java
//!   consumer looks, with a URL `link://{host}:{port}/{interface}?version=..&group=..&for={app}`:
//!   the agent's endpoint *replaces* the plain `dubbo://` endpoint whose `host:port` equals `for`.
//!   The whole rule is in [`crate::listing`].
//!
//! Keys that cannot be read are skipped, with one warning each.
//!
//! **Reading.** Each subscribed service is read whole, at one revision, and watched from the next
//! one. Whatever breaks the watch (a lost connection, a compaction, a revoked permission, a server
//! that no longer answers) leads to reading it whole again. Until then the last known endpoints
//! stay, marked stale; an empty list counts only when it has been read. If etcd comes back
//! *without its history* (its revision has gone back), endpoints known before stay for
//! [`EtcdConfig::grace`](crate::EtcdConfig::grace), because their owners need a moment to register
//! again.
//!
//! **Names that may be made up.** Whether a service is there at all is told without a watch for
//! it, from a list of all services that is read and watched while somebody asks (`index.rs`).
//!
//! **Writing.** All registrations of a process hang on one lease, renewed three times per
//! lifetime. With each renewal etcd is asked whether the keys are still there; what is missing is
//! written again. A withdrawal deletes a key only if it still hangs on our lease, so that an agent
//! that is replaced does not remove the registration of its successor.
//!
//! **Definitions.** Dubbo's metadata report, if the estate has it in the same etcd, is read when
//! it is needed: `/dubbo/metadata/{interface}[/{version}][/{group}]/provider/{application}` =
//! JSON.
//!
//! **Rules.** Documents of Dubbo's configuration are watched key by key:
//! `/dubbo/config/dubbo/{name}`.
//!
//! **Watches.** All are on one stream of the connection (`stream.rs`); `dispatch.rs` knows who is
//! told what.
//!
//! **Connection.** One connection to one member at a time, to the next member when it fails, with
//! jittered waits. A request at least every few seconds finds out that a member hangs or has lost
//! its quorum.

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use tokio::runtime::Handle;
use tokio::sync::watch as watch_channel;

use crate::config::EtcdConfig;
use crate::definitions::{Away, Document};
use crate::directory::Presence;
use crate::endpoint::{RegisterMode, Registration};
use crate::error::RegistryError;
use crate::layout::applications::ApplicationPaths;
use crate::layout::{Layout, Paths};
use crate::lent::{ConnectorTask, LentSession};
use crate::registrar::Registrar;
use crate::status::RegistryStatus;
use crate::store::{ApplicationParts, Applications, RuleWatch, Store, Wait, Watch, Withdraw};

use applications::EtcdApplications;
use connection::SharedConnection;
use index::{EtcdIndex, EtcdReader};
use rule::EtcdRule;
use session::EtcdSession;
use settings::EtcdSettings;
use watch::EtcdWatch;

mod applications;
mod connection;
mod dispatch;
mod index;
mod report;
mod rule;
mod session;
mod settings;
mod stream;
mod watch;

/// The handle on the tasks that talk to etcd.
#[derive(Debug)]
pub(crate) struct EtcdRegistry {
    paths: Paths,
    settings: Arc<EtcdSettings>,
    connection: SharedConnection,
    registrar: Registrar,
    index: EtcdIndex,
    /// The contest's layout has none.
    applications: Option<Arc<EtcdApplications>>,
    _connector: ConnectorTask,
}

impl EtcdRegistry {
    pub(crate) fn open(config: EtcdConfig, runtime: &Handle) -> Result<Self, RegistryError> {
        let paths = Paths::new(&config.layout)?;
        let settings = Arc::new(EtcdSettings::new(config)?);
        let (connection, connector) = connection::start(&settings, &paths, runtime);
        let session = EtcdSession { ttl_s: settings.lease_ttl_s, lease: None };
        let session = LentSession::new(connection.clone(), session, []);
        let registrar = Registrar::start(Box::new(session), runtime);
        let (grace, config) = (settings.grace, settings.applications.clone());
        let parts = ApplicationParts { grace, config };
        let applications = match &settings.layout {
            Layout::Contest { .. } => None,
            Layout::Dubbo { .. } => Some(Arc::new(EtcdApplications {
                paths: ApplicationPaths::new("", &settings.applications)?,
                connection: connection.clone(),
                parts,
                registrar: registrar.clone(),
            })),
        };
        let mappings = applications.as_ref().map(|it| it.paths.mappings() + "/");
        let reader = EtcdReader { paths: paths.clone(), mappings };
        let index = EtcdIndex::new(reader, connection.clone(), runtime);
        // Watches end with their subscriptions, and the registrar by itself once it has revoked
        // the lease.
        let _connector = connector;
        Ok(Self { paths, settings, connection, registrar, index, applications, _connector })
    }
}

impl Store for EtcdRegistry {
    fn status(&self) -> watch_channel::Receiver<RegistryStatus> {
        self.connection.status()
    }

    fn grace(&self) -> Duration {
        self.settings.grace
    }

    fn lists_interfaces(&self) -> bool {
        true
    }

    fn watch(&self, wanted: &ServiceKey) -> Box<dyn Watch> {
        let (paths, connection) = (self.paths.clone(), self.connection.clone());
        Box::new(EtcdWatch::of_service(paths, connection, &wanted.interface))
    }

    fn register(
        &self,
        registration: &Registration,
    ) -> Result<(watch_channel::Receiver<bool>, Withdraw), RegistryError> {
        Ok(self.registrar.add(self.paths.place(registration)?))
    }

    fn close(&self) -> Wait<'_, ()> {
        Box::pin(self.registrar.close())
    }

    fn presence(&self, wanted: &ServiceKey) -> Presence {
        self.index.presence(wanted)
    }

    fn settled(&self) -> Wait<'_, ()> {
        Box::pin(self.index.settled())
    }

    fn rule(&self, name: &str) -> Option<Box<dyn RuleWatch>> {
        let key = self.paths.rule(name)?;
        Some(Box::new(EtcdRule::new(key, self.connection.clone())))
    }

    fn register_mode(&self) -> RegisterMode {
        self.settings.applications.register
    }

    fn applications(&self) -> Option<Arc<dyn Applications>> {
        let applications = self.applications.as_ref();
        applications.map(|it| Arc::clone(it) as Arc<dyn Applications>)
    }

    fn interfaces(&self) -> Wait<'_, Result<Vec<String>, Away>> {
        Box::pin(self.index.interfaces())
    }

    fn definitions<'a>(
        &'a self,
        root: &'a str,
        interface: &'a str,
    ) -> Wait<'a, Result<Vec<Document>, Away>> {
        Box::pin(report::read(&self.connection, root, interface))
    }
}
