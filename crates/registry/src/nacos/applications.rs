//! The application level in Nacos: applications are services by their own name, and mappings and
//! metadata are documents. Sources: `NacosServiceDiscovery` and `NacosMetadataReport`.

use std::sync::Arc;

use dubbo_proto::ServiceKey;
use dubbo_proto::application::{Instance as ApplicationInstance, Metadata};
use nacos_proto::{ConfigKey, Instance};
use tokio::sync::watch;

use crate::definitions::Away;
use crate::layout::{Placed, Value};
use crate::registrar::Registrar;
use crate::store::{ApplicationParts, Applications, RuleWatch, Wait, Watch, Withdraw};

use super::connection::SharedConnection;
use super::index::list_names;
use super::names;
use super::offers;
use super::rule::{self, MAPPING, NacosRule};
use super::settings::NacosSettings;
use super::watch::{NacosWatch, Wanted};

#[derive(Debug)]
pub(super) struct NacosApplications {
    pub(super) settings: Arc<NacosSettings>,
    pub(super) naming: SharedConnection,
    pub(super) documents: SharedConnection,
    pub(super) parts: ApplicationParts,
    pub(super) registrar: Registrar,
}

impl NacosApplications {
    /// The names of all applications.
    async fn names(&self) -> Result<Vec<String>, Away> {
        let group = &self.settings.applications.instances_root;
        let names = self.naming.ask_once(async |live| list_names(&live, group).await).await?;
        Ok(names.into_iter().filter(|name| names::is_application(name)).collect())
    }

    async fn read(&self, application: &str, revision: &str) -> Result<Option<Vec<u8>>, Away> {
        let key = report_key(application, revision);
        let document = self.documents.ask_once(async |live| rule::read(&live, &key).await).await?;
        Ok(document.map(|document| document.content.into_bytes()))
    }
}

/// The group is the revision, whatever group the report itself has.
fn report_key(application: &str, revision: &str) -> ConfigKey {
    ConfigKey { group: revision.to_owned(), data_id: application.to_owned() }
}

impl Applications for NacosApplications {
    fn parts(&self) -> &ApplicationParts {
        &self.parts
    }

    fn unlisted(&self) -> Wait<'_, Result<Vec<String>, Away>> {
        Box::pin(self.names())
    }

    fn mapping(&self, interface: &str) -> Box<dyn RuleWatch> {
        let key = ConfigKey { group: MAPPING.to_owned(), data_id: interface.to_owned() };
        Box::new(NacosRule::new(key, self.documents.clone()))
    }

    fn instances(&self, application: &str) -> Box<dyn Watch<Arc<ApplicationInstance>>> {
        let settings = Arc::clone(&self.settings);
        let group = &self.settings.applications.instances_root;
        let read = move |lists: &[_]| offers::instances(lists, &settings.clusters);
        let wanted = Wanted::Names(vec![application.to_owned()]);
        Box::new(NacosWatch::new(self.naming.clone(), group, wanted, Box::new(read)))
    }

    fn report<'a>(
        &'a self,
        application: &'a str,
        revision: &'a str,
    ) -> Wait<'a, Result<Option<Vec<u8>>, Away>> {
        Box::pin(self.read(application, revision))
    }

    fn place_report(&self, metadata: &Metadata) -> Placed {
        let key = report_key(&metadata.application, &metadata.revision);
        rule::placed(&key, metadata.to_json().into())
    }

    fn place_definition(&self, service: &ServiceKey, application: &str, text: Arc<str>) -> Placed {
        let ServiceKey { interface, version, group } = service;
        let data_id = format!("{interface}:{version}:{group}:provider:{application}");
        let group = self.settings.applications.metadata_root.clone();
        rule::placed(&ConfigKey { group, data_id }, text)
    }

    fn place_instance(&self, instance: &ApplicationInstance) -> Placed {
        let mut written = Instance::new(&instance.host, instance.port);
        written.cluster_name = Some(self.settings.cluster.clone());
        written.metadata.clone_from(&instance.metadata);
        if let Err(len) = offers::fit(&mut written) {
            let application = &instance.application;
            tracing::warn!(
                application,
                len,
                "the metadata of the instance are longer than Nacos \
                                              takes"
            );
        }
        let group = &self.settings.applications.instances_root;
        offers::placed(group, &instance.application, written)
    }

    fn place_mapping(&self, interface: &str, application: &str) -> Placed {
        Placed { path: interface.to_owned(), value: Value::Member(application.into()) }
    }

    fn keep(&self, placed: Placed) -> (watch::Receiver<bool>, Withdraw) {
        self.registrar.add(placed)
    }
}
