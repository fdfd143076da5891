//! The application level in ZooKeeper.

use std::sync::Arc;
use std::time::SystemTime;

use dubbo_proto::ServiceKey;
use dubbo_proto::application::{Instance, Metadata};
use tokio::sync::watch;
use zookeeper_proto::{Answer, Refusal, Request};

use crate::definitions::Away;
use crate::layout::Placed;
use crate::layout::applications::ApplicationPaths;
use crate::registrar::Registrar;
use crate::store::{ApplicationParts, Applications, RuleWatch, Wait, Watch, Withdraw};

use super::connection::{Live, SharedConnection, bounded};
use super::instances::Instances;
use super::rule::ZooKeeperRule;

#[derive(Debug)]
pub(super) struct ZooKeeperApplications {
    pub(super) paths: ApplicationPaths,
    pub(super) connection: SharedConnection,
    pub(super) parts: ApplicationParts,
    pub(super) registrar: Registrar,
}

impl ZooKeeperApplications {
    async fn read(&self, application: &str, revision: &str) -> Result<Option<Vec<u8>>, Away> {
        let read = async |live: Arc<Live>| {
            for path in self.paths.reports(application, revision) {
                match live.ask(Request::Data { path: path.clone(), watcher: None }).await? {
                    Ok(Answer::Data { data, .. }) => return Ok(Some(data)),
                    Ok(_) | Err(Refusal::NoNode) => {}
                    Err(refusal) => return Err(live.refused("reading", &path, refusal)),
                }
            }
            Ok(None)
        };
        let what = "reading metadata";
        let read = async |live| bounded(&self.connection, what, read(live)).await;
        self.connection.ask_once(read).await
    }
}

impl Applications for ZooKeeperApplications {
    fn parts(&self) -> &ApplicationParts {
        &self.parts
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
