//! The application level in ZooKeeper.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use dubbo_proto::ServiceKey;
use dubbo_proto::application::{Instance, Metadata, Storage};
use tokio::sync::{Notify, watch};
use zookeeper_proto::{Answer, Refusal, Request};

use crate::application::item;
use crate::definitions::Away;
use crate::layout::Placed;
use crate::layout::applications::ApplicationPaths;
use crate::registrar::Registrar;
use crate::store::{Applications, Change, News, RuleWatch, StoreError, Wait, Watch, Withdraw};

use super::connection::{Connection, Live, ZooKeeperError, bounded};
use super::node::Node;
use super::rule::ZooKeeperRule;
use super::settings::Settings;

#[derive(Debug)]
pub(super) struct ZooKeeperApplications {
    pub(super) paths: ApplicationPaths,
    pub(super) settings: Arc<Settings>,
    pub(super) connection: Connection,
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

/// The watch of an application's instances: the list of their nodes, and what is written in each.
struct Instances {
    connection: Connection,
    live: Option<Arc<Live>>,
    /// Woken when the folder or one of its nodes may have changed.
    wake: Arc<Notify>,
    folder: Node,
    nodes: BTreeMap<String, Node>,
    is_whole: bool,
    history: Option<u64>,
}

impl Instances {
    fn new(folder: String, connection: Connection) -> Self {
        let wake = Arc::new(Notify::new());
        let folder = Node::new(folder, &wake);
        let (live, nodes, is_whole, history) = (None, BTreeMap::new(), false, None);
        Self { connection, live, wake, folder, nodes, is_whole, history }
    }

    /// One step ahead. May be dropped only with the connection: what is half read is read again.
    async fn advance(&mut self, live: &Arc<Live>) -> Result<News<Arc<Instance>>, ZooKeeperError> {
        if !self.is_whole {
            self.nodes.clear();
            let _ = self.folder.has_changed();
            let put = |change| match change {
                Change::Put(item) => Some(item),
                Change::Gone(_) => None,
            };
            let changes = self.read_folder(live).await?;
            let items = changes.into_iter().filter_map(put).collect();
            let history_lost = self.history.is_some_and(|known| known != live.history);
            (self.history, self.is_whole) = (Some(live.history), true);
            return Ok(News::Whole { items, n_cut: 0, history_lost });
        }
        loop {
            let mut changes = Vec::new();
            if self.folder.has_changed() {
                changes = self.read_folder(live).await?;
            }
            for node in self.nodes.values_mut() {
                if node.has_changed() {
                    changes.extend(read(node, live).await?);
                }
            }
            if !changes.is_empty() {
                return Ok(News::Changes(changes));
            }
            self.wake.notified().await;
        }
    }

    /// Reads the list of nodes, and those that are new.
    async fn read_folder(
        &mut self,
        live: &Arc<Live>,
    ) -> Result<Vec<Change<Arc<Instance>>>, ZooKeeperError> {
        let names = self.folder.names(live).await?;
        let mut before = std::mem::take(&mut self.nodes);
        let mut changes = Vec::new();
        for name in names {
            if let Some(known) = before.remove(&name) {
                self.nodes.insert(name, known);
                continue;
            }
            let mut node = Node::new(format!("{}/{name}", self.folder.path), &self.wake);
            changes.extend(read(&mut node, live).await?);
            self.nodes.insert(name, node);
        }
        let gone = before.into_values().map(|node| Change::Gone(node.path.clone().into_bytes()));
        changes.extend(gone);
        Ok(changes)
    }
}

/// What is written in a node. One that has gone will be missing in the list, too.
async fn read(
    node: &mut Node,
    live: &Arc<Live>,
) -> Result<Option<Change<Arc<Instance>>>, ZooKeeperError> {
    let record = node.data(live).await?;
    let key = node.path.clone().into_bytes();
    Ok(record.map(|record| Change::Put(item(key, &record))))
}

impl Watch<Arc<Instance>> for Instances {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(async {
            self.live = self.connection.live().await;
            self.live.is_some()
        })
    }

    fn next(&mut self) -> Wait<'_, Result<News<Arc<Instance>>, StoreError>> {
        Box::pin(async {
            let Some(live) = self.live.clone() else { return Err(StoreError::Away) };
            let connection = self.connection.clone();
            let outcome = connection.while_live(&live, self.advance(&live)).await;
            outcome.map_err(|error: ZooKeeperError| {
                (self.live, self.is_whole) = (None, false);
                error.into()
            })
        })
    }

    fn report(&mut self, error: &str) -> bool {
        self.connection.report(error)
    }
}
