//! The application level in ZooKeeper.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dubbo_proto::ServiceKey;
use dubbo_proto::application::{Instance, Metadata, Storage};
use tokio::sync::watch;
use zookeeper_proto::{Answer, Refusal, Request};

use crate::definitions::Away;
use crate::layout::Placed;
use crate::layout::applications::ApplicationPaths;
use crate::registrar::Registrar;
use crate::store::{Applications, RuleWatch, Wait, Watch, Withdraw};

use super::connection::{SharedConnection, bounded};
use super::instances::Instances;
use super::rule::ZooKeeperRule;
use super::settings::ZooKeeperSettings;

#[derive(Debug)]
pub(super) struct ZooKeeperApplications {
    pub(super) paths: ApplicationPaths,
    pub(super) settings: Arc<ZooKeeperSettings>,
    pub(super) connection: SharedConnection,
    pub(super) registrar: Registrar,
}

impl ZooKeeperApplications {
    async fn read(&self, application: &str, revision: &str) -> Result<Option<Vec<u8>>, Away> {
        let away = || Away("ZooKeeper cannot be reached".to_owned());
        let live = self.connection.live_within_timeout().await.ok_or_else(away)?;
        let read = async {
            for path in self.paths.reports(application, revision) {
                match live.ask(Request::Data { path: path.clone(), watcher: None }).await? {
                    Ok(Answer::Data { data, .. }) => return Ok(Some(data)),
                    Ok(_) | Err(Refusal::NoNode) => {}
                    Err(refusal) => return Err(live.refused("reading", &path, refusal)),
                }
            }
            Ok(None)
        };
        let read = bounded(&self.connection, "reading metadata", read).await;
        read.map_err(|error| Away(error.to_string()))
    }
}

impl Applications for ZooKeeperApplications {
    fn grace(&self) -> Duration {
        self.settings.grace
    }

    fn provided_by(&self) -> &BTreeMap<String, Vec<String>> {
        &self.settings.applications.provided_by
    }

    fn mapping(&self, interface: &str) -> Box<dyn RuleWatch> {
        Box::new(ZooKeeperRule::new(self.paths.mapping(interface), self.connection.clone()))
    }

    fn instances(&self, application: &str) -> Box<dyn Watch<Arc<Instance>>> {
        Box::new(Instances::new(self.paths.folder(application), self.connection.clone()))
    }

    fn report<'a>(
        &'a self,
        application: &'a str,
        revision: &'a str,
    ) -> Wait<'a, Result<Option<Vec<u8>>, Away>> {
        Box::pin(self.read(application, revision))
    }

    fn storage(&self) -> Storage {
        self.settings.applications.metadata
    }

    fn place_report(&self, metadata: &Metadata) -> Placed {
        self.paths.place_report(metadata)
    }

    fn place_definition(&self, service: &ServiceKey, application: &str, text: Arc<str>) -> Placed {
        self.paths.place_definition(service, application, text)
    }

    fn place_instance(&self, instance: &Instance) -> Placed {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let since_1970_ms = since_1970.unwrap_or_default().as_millis();
        let record = instance.curator_record(u64::try_from(since_1970_ms).unwrap_or(u64::MAX));
        self.paths.place_instance(instance, record)
    }

    fn place_mapping(&self, interface: &str, application: &str) -> Placed {
        self.paths.place_mapping(interface, application)
    }

    fn keep(&self, placed: Placed) -> (watch::Receiver<bool>, Withdraw) {
        self.registrar.add(placed)
    }
}
