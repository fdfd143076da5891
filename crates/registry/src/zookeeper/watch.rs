//! The watch of one service: read its folders whole, then again whenever their watches fire.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::kept::MAX_ENTRIES;
use crate::layout::Paths;
use crate::store::{Change, Item, News, StoreError, Wait, Watch};

use super::connection::{Live, SharedConnection, ZooKeeperError};
use super::node::Node;

/// The longest pause between two reads of a folder that changes all the time.
const MAX_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct ZooKeeperWatch {
    paths: Paths,
    connection: SharedConnection,
    wanted: ServiceKey,
    live: Option<Arc<Live>>,
    /// Woken when one of the folders may have changed.
    wake: Arc<Notify>,
    folders: Vec<(Node, Names)>,
    is_whole: bool,
    /// What history was read, if any was.
    history: Option<u64>,
    /// Whether there are more names than an agent takes: then each change is a whole list, because
    /// what is left out depends on all names.
    is_over: bool,
    /// A long list is not read again at once, however quickly it changes: half of the time is left
    /// for others.
    next_read_at: Instant,
}

/// The names in a folder, as they were read last.
type Names = BTreeSet<String>;

/// Names that are taken apart at most. Of these, the ones that can be used come first.
const MAX_PARSED: usize = 2 * MAX_ENTRIES;

/// What each URL has after its protocol, as it is in names.
const SCHEME_END: &str = "%3A%2F%2F";

impl ZooKeeperWatch {
    pub(super) fn new(paths: Paths, connection: SharedConnection, wanted: ServiceKey) -> Self {
        let wake = Arc::new(Notify::new());
        let folders = paths.folders(&wanted.interface).into_iter();
        let folders = folders.map(|path| (Node::new(path, &wake), Names::new())).collect();
        let (live, next_read_at) = (None, Instant::now());
        let (is_whole, history, is_over) = (false, None, false);
        Self {
            paths,
            connection,
            wanted,
            live,
            wake,
            folders,
            is_whole,
            history,
            is_over,
            next_read_at,
        }
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
                let was_over = self.is_over;
                self.is_over = self.is_too_long();
                return Ok(match was_over || self.is_over {
                    true => self.whole(false),
                    false => News::Changes(changes),
                });
            }
            self.wake.notified().await;
        }
    }

    async fn read_all(&mut self, live: &Arc<Live>) -> Result<News, ZooKeeperError> {
        for (folder, names) in &mut self.folders {
            let _ = folder.has_changed();
            *names = folder.names(live).await?.into_iter().collect();
        }
        let history_lost = self.history.is_some_and(|known| known != live.history);
        (self.history, self.is_whole) = (Some(live.history), true);
        self.is_over = self.is_too_long();
        Ok(self.whole(history_lost))
    }

    fn is_too_long(&self) -> bool {
        MAX_ENTRIES < self.folders.iter().map(|(_, names)| names.len()).sum()
    }

    /// All names, as they were read last. If there are too many, those that look like URLs come
    /// first.
    fn whole(&self, history_lost: bool) -> News {
        let names = self.folders.iter().flat_map(|(folder, names)| {
            names.iter().map(|name| (folder.path.as_str(), name.as_str()))
        });
        let mut names: Vec<_> = names.collect();
        if self.is_over {
            names.sort_by_key(|(_, name)| !name.contains(SCHEME_END));
        }
        let n_cut = names.len().saturating_sub(MAX_PARSED);
        let read = |(folder, name)| {
            item(&self.paths, &self.wanted, format!("{folder}/{name}").into_bytes())
        };
        let items = names.into_iter().take(MAX_PARSED).map(read).collect();
        News::Whole { items, n_cut, history_lost }
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
