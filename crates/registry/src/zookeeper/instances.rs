//! The watch of an application's instances: the list of their nodes, and what is written in each.
//!
//! Invariants:
//! - A node that cannot be read takes no other one away.
//! - Half of the time is left for others, however quickly the nodes change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::application::Instance;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use wire::jitter;

use crate::application::item;
use crate::kept::MAX_ENTRIES;
use crate::layout::BadEntry;
use crate::lent::{LentReader, LentWatch};
use crate::store::{Change, Item, News};

use super::connection::{Live, SharedConnection, ZooKeeperError, is_about_node};
use super::node::Node;

/// Nodes that are read at the same time.
const MAX_ASKED: usize = 64;

/// The longest pause between two reads of nodes that change all the time.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// How often a node is tried again that may not be read: nobody tells of a new access list.
const RETRY_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Instances {
    /// Woken when the folder or one of its nodes may have changed.
    wake: Arc<Notify>,
    folder: Node,
    nodes: BTreeMap<String, InstanceNode>,
    history: Option<u64>,
    /// When something may be read again.
    next_read_at: Instant,
    retry_at: Instant,
}

struct InstanceNode {
    node: Node,
    is_refused: bool,
}

type Changes = Vec<Change<Arc<Instance>>>;

impl Instances {
    pub(super) fn new(folder: String, connection: SharedConnection) -> LentWatch<Self> {
        let wake = Arc::new(Notify::new());
        let folder = Node::new(folder, &wake);
        let (nodes, history) = (BTreeMap::new(), None);
        let (next_read_at, retry_at) = (Instant::now(), Instant::now());
        let reader = Self { wake, folder, nodes, history, next_read_at, retry_at };
        LentWatch::new(connection, reader)
    }

    /// Reads the list of nodes, and those that are new. Returns how many are left out.
    async fn read_folder(
        &mut self,
        live: &Arc<Live>,
        changes: &mut Changes,
    ) -> Result<usize, ZooKeeperError> {
        let names = self.folder.names(live).await?;
        let mut before = std::mem::take(&mut self.nodes);
        let (known, new): (Vec<_>, Vec<_>) =
            names.into_iter().partition(|name| before.contains_key(name));
        self.nodes.extend(known.into_iter().filter_map(|name| before.remove_entry(&name)));
        let n_new = MAX_ENTRIES.saturating_sub(self.nodes.len()).min(new.len());
        let n_cut = new.len() - n_new;
        let node = |name: &String| Node::new(format!("{}/{name}", self.folder.path), &self.wake);
        let new = new.into_iter().take(n_new).map(|name| {
            let node = node(&name);
            (name, InstanceNode { node, is_refused: false })
        });
        let mut new: Vec<_> = new.collect();
        read_all(new.iter_mut().map(|(_, node)| node), live, changes).await?;
        self.nodes.extend(new);
        let gone = before.into_values().map(|it| Change::Gone(it.node.path.clone().into_bytes()));
        changes.extend(gone);
        Ok(n_cut)
    }

    /// Reads the nodes that may have changed, and those that could not be read some time ago.
    async fn read_changed(
        &mut self,
        live: &Arc<Live>,
        changes: &mut Changes,
    ) -> Result<(), ZooKeeperError> {
        let now = Instant::now();
        let is_retry = self.retry_at <= now;
        if is_retry {
            self.retry_at = now + jitter(RETRY_EVERY);
        }
        let is_due = |it: &&mut InstanceNode| it.node.has_changed() || is_retry && it.is_refused;
        read_all(self.nodes.values_mut().filter(is_due), live, changes).await
    }
}

async fn read_all(
    nodes: impl Iterator<Item = &mut InstanceNode>,
    live: &Arc<Live>,
    changes: &mut Changes,
) -> Result<(), ZooKeeperError> {
    let reads: Vec<_> = nodes.map(|node| node.read(live)).collect();
    let read: Vec<_> = stream::iter(reads).buffered(MAX_ASKED).try_collect().await?;
    changes.extend(read.into_iter().flatten());
    Ok(())
}

impl InstanceNode {
    /// What is written in it. One that has gone will be missing in the list, too.
    async fn read(
        &mut self,
        live: &Arc<Live>,
    ) -> Result<Option<Change<Arc<Instance>>>, ZooKeeperError> {
        let record = self.node.data(live).await;
        let key = self.node.path.clone().into_bytes();
        self.is_refused = false;
        let item = match record {
            Ok(Some(record)) => item(key, &record),
            Ok(None) => return Ok(None),
            Err(ZooKeeperError::Refused { refusal, .. }) if is_about_node(refusal) => {
                self.is_refused = true;
                let read = Err(BadEntry::Refused { reason: refusal.to_string() });
                Item { key, read }
            }
            Err(error) => return Err(error),
        };
        Ok(Some(Change::Put(item)))
    }
}

impl LentReader for Instances {
    type Live = Live;
    type News = News<Arc<Instance>>;
    type Error = ZooKeeperError;

    async fn begin(&mut self, live: &Arc<Live>) -> Result<News<Arc<Instance>>, ZooKeeperError> {
        self.nodes.clear();
        let _ = self.folder.has_changed();
        self.retry_at = Instant::now() + jitter(RETRY_EVERY);
        let mut changes = Vec::new();
        let n_cut = self.read_folder(live, &mut changes).await?;
        let put = |change| match change {
            Change::Put(item) => Some(item),
            Change::Gone(_) => None,
        };
        let items = changes.into_iter().filter_map(put).collect();
        let history_lost = self.history.is_some_and(|known| known != live.history);
        self.history = Some(live.history);
        Ok(News::Whole { items, n_cut, history_lost, refusal: None })
    }

    /// May be dropped only with the connection: what is half read is read again.
    async fn next(&mut self, live: &Arc<Live>) -> Result<News<Arc<Instance>>, ZooKeeperError> {
        loop {
            sleep_until(self.next_read_at).await;
            let began = Instant::now();
            let mut changes = Vec::new();
            if self.folder.has_changed() {
                self.read_folder(live, &mut changes).await?;
            }
            self.read_changed(live, &mut changes).await?;
            let now = Instant::now();
            self.next_read_at = now + (now - began).min(MAX_PAUSE);
            if !changes.is_empty() {
                return Ok(News::Changes(changes));
            }
            let any_refused = self.nodes.values().any(|it| it.is_refused);
            tokio::select! {
                () = self.wake.notified() => {}
                () = sleep_until(self.retry_at), if any_refused => {}
            }
        }
    }
}
