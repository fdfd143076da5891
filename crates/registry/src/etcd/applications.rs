//! The application level in etcd.

use std::sync::Arc;

use dubbo_proto::ServiceKey;
use dubbo_proto::application::{Instance, Metadata};
use tokio::sync::watch;

use crate::application::item;
use crate::definitions::Away;
use crate::layout::Placed;
use crate::layout::applications::ApplicationPaths;
use crate::registrar::Registrar;
use crate::store::{ApplicationParts, Applications, RuleWatch, Wait, Watch, Withdraw};

use super::connection::{EtcdError, Live, SharedConnection};
use super::rule::EtcdRule;
use super::watch::EtcdWatch;

/// The longest answer: metadata of 4 MiB, and some room.
const MAX_MESSAGE_LEN: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct EtcdApplications {
    pub(super) paths: ApplicationPaths,
    pub(super) connection: SharedConnection,
    pub(super) parts: ApplicationParts,
    pub(super) registrar: Registrar,
}

impl EtcdApplications {
    async fn read(&self, application: &str, revision: &str) -> Result<Option<Vec<u8>>, Away> {
        let read = async |live: Arc<Live>| {
            for path in self.paths.reports(application, revision) {
                let mut client = live.kv_client().max_decoding_message_size(MAX_MESSAGE_LEN);
                let answer = live.request("reading metadata", client.get(path, None)).await?;
                if let Some(kv) = answer.kvs().first() {
                    return Ok::<_, EtcdError>(Some(kv.value().to_vec()));
                }
            }
            Ok(None)
        };
        self.connection.ask_once(read).await
    }
}

impl Applications for EtcdApplications {
    fn parts(&self) -> &ApplicationParts {
        &self.parts
    }

    fn mapping(&self, interface: &str) -> Box<dyn RuleWatch> {
        Box::new(EtcdRule::new(self.paths.mapping(interface), self.connection.clone()))
    }

    fn instances(&self, application: &str) -> Box<dyn Watch<Arc<Instance>>> {
        let prefixes = vec![self.paths.folder(application) + "/"];
        let read = |key: &[u8], value: &[u8]| item(key.to_vec(), value);
        Box::new(EtcdWatch::new(prefixes, read, self.connection.clone()))
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
        self.paths.place_instance(instance, instance.plain_record())
    }

    fn place_mapping(&self, interface: &str, application: &str) -> Placed {
        self.paths.place_mapping(interface, application)
    }

    fn keep(&self, placed: Placed) -> (watch::Receiver<bool>, Withdraw) {
        self.registrar.add(placed)
    }
}
