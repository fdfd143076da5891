//! The watch of one service: read its folders whole, then again whenever their watches fire.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::layout::Paths;
use crate::store::{Change, Item, News, StoreError, Wait, Watch};

use super::connection::{Connection, Live, ZooKeeperError};
use super::node::Node;

/// The longest pause between two reads of a folder that changes all the time.
const MAX_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct ZooKeeperWatch {
    paths: Paths,
    connection: Connection,
    wanted: ServiceKey,
    live: Option<Arc<Live>>,
    /// Woken when one of the folders may have changed.
    wake: Arc<Notify>,
    folders: Vec<(Node, Names)>,
    is_whole: bool,
    /// What history was read, if any was.
    history: Option<u64>,
    /// A long list is not read again at once, however quickly it changes: half of the time is left
    /// for others.
    next_read_at: Instant,
}

/// The names in a folder, as they were read last.
type Names = BTreeSet<String>;

impl ZooKeeperWatch {
    pub(super) fn new(paths: Paths, connection: Connection, wanted: ServiceKey) -> Self {
        let wake = Arc::new(Notify::new());
        let folders = paths.folders(&wanted.interface).into_iter();
        let folders = folders.map(|path| (Node::new(path, &wake), Names::new())).collect();
        let (live, next_read_at) = (None, Instant::now());
        let (is_whole, history) = (false, None);
        Self { paths, connection, wanted, live, wake, folders, is_whole, history, next_read_at }
    }

    /// One step ahead. May be dropped only with the connection: what is half read is read again.
    async fn advance(&mut self, live: &Arc<Live>) -> Result<News, ZooKeeperError> {
        if !self.is_whole {
            return self.read_all(live).await;
        }
        loop {
            let mut changes = Vec::new();
            for (folder, names) in &mut self.folders {
                if !folder.has_changed() {
                    continue;
                }
                tokio::time::sleep_until(self.next_read_at).await;
                let began = Instant::now();
                let new: Names = folder.names(live).await?.into_iter().collect();
                let now = Instant::now();
                self.next_read_at = now + (now - began).min(MAX_PAUSE);
                let old = std::mem::replace(names, new);
                let key = |name: &String| format!("{}/{name}", folder.path).into_bytes();
                changes.extend(old.difference(names).map(|name| Change::Gone(key(name))));
                let put = |name| Change::Put(item(&self.paths, &self.wanted, key(name)));
                changes.extend(names.difference(&old).map(put));
            }
            if !changes.is_empty() {
                return Ok(News::Changes(changes));
            }
            self.wake.notified().await;
        }
    }

    async fn read_all(&mut self, live: &Arc<Live>) -> Result<News, ZooKeeperError> {
        let mut items = Vec::new();
        for (folder, names) in &mut self.folders {
            let _ = folder.has_changed();
            *names = folder.names(live).await?.into_iter().collect();
            let key = |name: &String| format!("{}/{name}", folder.path).into_bytes();
            let read = |name| item(&self.paths, &self.wanted, key(name));
            items.extend(names.iter().map(read));
        }
        let history_lost = self.history.is_some_and(|known| known != live.history);
        (self.history, self.is_whole) = (Some(live.history), true);
        Ok(News::Whole { items, n_cut: 0, history_lost })
    }
}

fn item(paths: &Paths, wanted: &ServiceKey, key: Vec<u8>) -> Item {
    let read = paths.read(wanted, &key, &[]);
    Item { key, read }
}

impl Watch for ZooKeeperWatch {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(async {
            self.live = self.connection.live().await;
            self.live.is_some()
        })
    }

    fn next(&mut self) -> Wait<'_, Result<News, StoreError>> {
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
