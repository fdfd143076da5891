//! Services in Nacos 2.x and 3.x, by gRPC.
//!
//! **Names.** Dubbo's interface level: the service `providers:{interface}:{version}:{group}`, as
//! Dubbo's own providers register, in one namespace and one group of Nacos. Our agents register as
//! `agents:{interface}:{version}:{group}`, where no Java consumer looks; what that means is in
//! [`crate::etcd`] and [`crate::listing`]. An instance's metadata are the parameters of Dubbo's
//! URL. `names.rs` and `offers.rs` know all this.
//!
//! **Reading.** Each service is subscribed to, and the server pushes its whole list whenever it
//! changes. A subscription ends with its connection, and is made anew. An instance that is not
//! enabled is not used. One that is not healthy is used only if none is. A weight that an operator
//! gives it multiplies the provider's own.
//!
//! **A history that got lost.** All that a server holds of us and of others belongs to
//! connections, and a server that has just started may not have heard of everybody yet. After each
//! new connection, endpoints known before stay for [`NacosConfig::grace`](crate::NacosConfig).
//!
//! **Registering.** Instances end with their connection. They are registered again after each new
//! one, and it is looked for them from time to time. Metadata are kept below the 1,024 characters
//! that servers take: the names of methods are left out, for a start.
//!
//! **Documents.** Rules, mappings, metadata and service definitions are documents of Nacos'
//! configuration, on a connection of their own (`rule.rs`, `report.rs`).
//!
//! **Connection.** A user logs in by HTTP (`login.rs`); an access key signs each question. The
//! messages are in `nacos-proto`.

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use nacos_proto::{ConfigKey, Module};
use tokio::runtime::Handle;
use tokio::sync::watch as watch_channel;

use crate::config::NacosConfig;
use crate::definitions::{Away, Document};
use crate::directory::Presence;
use crate::endpoint::{RegisterMode, Registration};
use crate::error::RegistryError;
use crate::lent::LentSession;
use crate::registrar::Registrar;
use crate::status::RegistryStatus;
use crate::store::{ApplicationParts, Applications, RuleWatch, Store, Wait, Watch, Withdraw};

use applications::NacosApplications;
use connection::SharedConnection;
use index::{NacosIndex, NacosReader};
use login::Login;
use rule::{NacosRule, RULES};
use session::NacosSession;
use settings::NacosSettings;
use watch::{NacosWatch, Wanted};

mod applications;
mod channel;
mod connection;
mod error;
mod hub;
mod index;
mod login;
mod names;
mod offers;
mod report;
mod rule;
mod session;
mod settings;
mod watch;

/// The handle on the tasks that talk to Nacos.
#[derive(Debug)]
pub(crate) struct NacosRegistry {
    settings: Arc<NacosSettings>,
    naming: SharedConnection,
    documents: SharedConnection,
    registrar: Registrar,
    index: NacosIndex,
    applications: Arc<NacosApplications>,
}

impl NacosRegistry {
    pub(crate) fn open(config: NacosConfig, runtime: &Handle) -> Result<Self, RegistryError> {
        let settings = Arc::new(NacosSettings::new(config)?);
        let login = Arc::new(Login::new(&settings));
        let start = |module| connection::start(module, &settings, &login, runtime);
        let ((naming, of_naming), (documents, of_documents)) =
            (start(Module::Naming), start(Module::Config));
        // The session lives longer than this handle: it is ended in good order.
        let connectors = [of_naming, of_documents];
        let session = NacosSession::new(&documents, settings.keep_every);
        let session = LentSession::new(naming.clone(), session, connectors);
        let registrar = Registrar::start(Box::new(session), runtime);
        let (grace, config) = (settings.grace, settings.applications.clone());
        let parts = ApplicationParts { grace, config };
        let applications = Arc::new(NacosApplications {
            settings: Arc::clone(&settings),
            naming: naming.clone(),
            documents: documents.clone(),
            parts,
            registrar: registrar.clone(),
        });
        let index = NacosIndex::new(
            NacosReader { group: settings.group.clone(), documents: documents.clone() },
            naming.clone(),
            runtime,
        );
        Ok(Self { settings, naming, documents, registrar, index, applications })
    }
}

impl Store for NacosRegistry {
    fn status(&self) -> watch_channel::Receiver<RegistryStatus> {
        self.naming.status()
    }

    fn grace(&self) -> Duration {
        self.settings.grace
    }

    fn watch(&self, wanted: &ServiceKey) -> Box<dyn Watch> {
        let settings = Arc::clone(&self.settings);
        let read = move |lists: &[_]| offers::entries(lists, &settings.clusters);
        let names = match names::is_concrete(wanted) {
            true => Wanted::Service(wanted.clone()),
            false => Wanted::Listed(wanted.clone()),
        };
        let group = &self.settings.group;
        Box::new(NacosWatch::new(self.naming.clone(), group, names, Box::new(read)))
    }

    fn register(
        &self,
        registration: &Registration,
    ) -> Result<(watch_channel::Receiver<bool>, Withdraw), RegistryError> {
        let NacosSettings { group, cluster, .. } = &*self.settings;
        Ok(self.registrar.add(offers::place(registration, group, cluster)?))
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
        if !rule::is_data_id(name) {
            return None;
        }
        let key = ConfigKey { group: RULES.to_owned(), data_id: name.to_owned() };
        Some(Box::new(NacosRule::new(key, self.documents.clone())))
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
        let group = &self.settings.group;
        Box::pin(report::read(&self.naming, &self.documents, group, root, interface))
    }
}
