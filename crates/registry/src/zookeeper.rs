//! Services in ZooKeeper, 3.5 to 3.9.
//!
//! **Nodes.** Dubbo's interface-level layout below an optional chroot:
//! `/{root}/{interface}/providers/{url}`, interface and URL percent-encoded. `root` is what Dubbo
//! calls the registry's `group`. All that counts is in a node's name; its data are not read. Our
//! agents write `/{root}/{interface}/agents/{url}`, where no Java consumer looks; what that means
//! is in [`crate::etcd`] and [`crate::listing`]. Names that cannot be read are skipped, with one
//! warning each.
//!
//! **Reading.** Each folder of a subscribed service is read whole, with a watch, which ZooKeeper
//! fires once. It is then read again, and only names that are new are taken apart. After a lost
//! connection everything is read again, and watched anew. A folder that is not there has a watch
//! on its coming. Until the list can be read the last known endpoints stay, marked stale. A folder
//! that may not be read (`folder.rs`) takes nothing away from what is in the others; it is read
//! again from time to time, and the list counts as stale meanwhile.
//!
//! **A history that got lost.** A server refuses clients that have seen more than itself. If all
//! of them do so, again and again, the history is lost: we begin anew, and endpoints known before
//! stay for [`ZooKeeperConfig::grace`](crate::ZooKeeperConfig::grace).
//!
//! **Names that may be made up.** Whether a service is there at all is told without a watch for
//! it, from the list of all interfaces that is read and watched while somebody asks (`index.rs`).
//!
//! **Writing.** All nodes of a process are ephemeral nodes of one session. A connection that gets
//! lost is made again for the same session, and then nothing has to be registered again. When the
//! session has expired, all is. A node of that name that belongs to another session is taken over,
//! once in each session of ours: as a rule it is what our predecessor, or our own last session,
//! has left behind, and would go with it later. A node that somebody took over from us is left to
//! its new owner, and so are nodes that belong to no session.
//!
//! **Definitions.** Dubbo's metadata report, if the estate has it in the same ZooKeeper, is read
//! when it is needed (`report.rs`).
//!
//! **Connection.** One connection to one server at a time, to the next server when it fails, with
//! jittered waits. The protocol is in `zookeeper-proto`.

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use tokio::runtime::Handle;
use tokio::sync::watch as watch_channel;

use crate::config::ZooKeeperConfig;
use crate::definitions::{Away, Document};
use crate::directory::Presence;
use crate::endpoint::{RegisterMode, Registration};
use crate::error::RegistryError;
use crate::layout::Paths;
use crate::layout::applications::ApplicationPaths;
use crate::lent::LentSession;
use crate::registrar::Registrar;
use crate::status::RegistryStatus;
use crate::store::{ApplicationParts, Applications, RuleWatch, Store, Wait, Watch, Withdraw};

use applications::ZooKeeperApplications;
use connection::SharedConnection;
use index::{ZooKeeperIndex, ZooKeeperReader};
use rule::ZooKeeperRule;
use session::ZooKeeperSession;
use settings::ZooKeeperSettings;
use watch::ZooKeeperWatch;

mod applications;
mod connection;
mod folder;
mod index;
mod instances;
mod machine;
mod node;
mod report;
mod rule;
mod session;
mod settings;
mod watch;

/// The handle on the tasks that talk to ZooKeeper.
#[derive(Debug)]
pub(crate) struct ZooKeeperRegistry {
    paths: Paths,
    settings: Arc<ZooKeeperSettings>,
    connection: SharedConnection,
    registrar: Registrar,
    index: ZooKeeperIndex,
    applications: Arc<ZooKeeperApplications>,
}

impl ZooKeeperRegistry {
    pub(crate) fn open(config: ZooKeeperConfig, runtime: &Handle) -> Result<Self, RegistryError> {
        let settings = Arc::new(ZooKeeperSettings::new(config)?);
        let paths = Paths::new(&settings.layout)?;
        let (connection, connector) = connection::start(&settings, runtime);
        // The session lives longer than this handle: it is ended in good order.
        let session =
            ZooKeeperSession { acl: settings.acl, wanted_timeout: settings.session_timeout };
        let session = LentSession::new(connection.clone(), session, [connector]);
        let registrar = Registrar::start(Box::new(session), runtime);
        let (grace, config) = (settings.grace, settings.applications.clone());
        let parts = ApplicationParts { grace, config };
        let applications = Arc::new(ZooKeeperApplications {
            paths: ApplicationPaths::new(&settings.chroot, &settings.applications)?,
            connection: connection.clone(),
            parts,
            registrar: registrar.clone(),
        });
        let mappings = applications.paths.mappings();
        let reader = ZooKeeperReader { paths: paths.clone(), mappings };
        let index = ZooKeeperIndex::new(reader, connection.clone(), runtime);
        Ok(Self { paths, settings, connection, registrar, index, applications })
    }
}

impl Store for ZooKeeperRegistry {
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
        let compare_every = self.settings.compare_every;
        Box::new(ZooKeeperWatch::new(paths, connection, &wanted.interface, compare_every))
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
        let path = self.paths.rule(name)?;
        Some(Box::new(ZooKeeperRule::new(path, self.connection.clone())))
    }

    fn register_mode(&self) -> RegisterMode {
        self.settings.applications.register
    }

    fn applications(&self) -> Option<Arc<dyn Applications>> {
        Some(Arc::clone(&self.applications) as Arc<dyn Applications>)
    }

    fn interfaces(&self) -> Wait<'_, Result<Vec<String>, Away>> {
        Box::pin(self.index.interfaces())
    }

    fn definitions<'a>(
        &'a self,
        root: &'a str,
        interface: &'a str,
    ) -> Wait<'a, Result<Vec<Document>, Away>> {
        Box::pin(async move {
            let root = format!("{}/{root}", self.settings.chroot);
            report::read(&self.connection, &root, interface).await
        })
    }
}
