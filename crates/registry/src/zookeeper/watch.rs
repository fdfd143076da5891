//! The watch of one service: read its folders whole, then again whenever their watches fire.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::kept::MAX_ENTRIES;
use crate::layout::Paths;
use crate::lent::{LentReader, LentWatch};
use crate::store::{Change, Item, News};

use super::connection::{Live, SharedConnection, ZooKeeperError};
use super::folder::{Folder, Names};

/// The longest pause between two reads of a folder that changes all the time.
const MAX_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct ZooKeeperWatch {
    paths: Paths,
    /// Woken when one of the folders may have changed.
    wake: Arc<Notify>,
    folders: Vec<Folder>,
    /// What history was read, if any was.
    history: Option<u64>,
    /// Whether there are more names than an agent takes: then each change is a whole list, because
    /// what is left out depends on all names.
    is_over: bool,
    /// A long list is not read again at once, however quickly it changes: half of the time is left
    /// for others.
    next_read_at: Instant,
}

/// Names that are taken apart at most. Of these, the ones that can be used come first.
const MAX_PARSED: usize = 2 * MAX_ENTRIES;

/// What each URL has after its protocol, as it is in names.
const SCHEME_END: &str = "%3A%2F%2F";

impl ZooKeeperWatch {
    pub(super) fn new(
        paths: Paths,
        connection: SharedConnection,
        interface: &str,
        compare_every: Duration,
    ) -> LentWatch<Self> {
        let wake = Arc::new(Notify::new());
        let folders = paths.folders(interface).into_iter();
        let folders = folders.map(|path| Folder::new(path, &wake, compare_every)).collect();
        let (history, is_over) = (None, false);
        let next_read_at = Instant::now();
        let reader = Self { paths, wake, folders, history, is_over, next_read_at };
        LentWatch::new(connection, reader)
    }

    fn is_too_long(&self) -> bool {
        MAX_ENTRIES < self.folders.iter().map(|folder| folder.names().len()).sum()
    }

    /// Whether a folder may not be read.
    fn is_refused(&self) -> bool {
        self.folders.iter().any(|folder| folder.refusal().is_some())
    }

    /// All names, as they were read last. If there are too many, those that look like URLs come
    /// first.
    fn whole(&self, history_lost: bool) -> News {
        let names = self
            .folders
            .iter()
            .flat_map(|folder| folder.names().iter().map(|name| (folder.path(), name.as_str())));
        let mut names: Vec<_> = names.collect();
        if self.is_over {
            names.sort_by_key(|(_, name)| !name.contains(SCHEME_END));
        }
        let n_cut = names.len().saturating_sub(MAX_PARSED);
        let read = |(folder, name)| item(&self.paths, format!("{folder}/{name}").into_bytes());
        let items = names.into_iter().take(MAX_PARSED).map(read).collect();
        let refusal = self.folders.iter().find_map(Folder::refusal);
        let refusal = refusal.map(|refusal| refusal.to_error().to_string());
        News::Whole { items, n_cut, history_lost, refusal }
    }
}

/// What has changed in a folder since it had the names in `old`.
fn changes_since(old: &Names, folder: &Folder, paths: &Paths) -> Vec<Change> {
    let key = |name: &String| format!("{}/{name}", folder.path()).into_bytes();
    let gone = old.difference(folder.names()).map(|name| Change::Gone(key(name)));
    let new = folder.names().difference(old);
    gone.chain(new.map(|name| Change::Put(item(paths, key(name))))).collect()
}

fn item(paths: &Paths, key: Vec<u8>) -> Item {
    let read = paths.read(&key, &[]);
    Item { key, read }
}

impl LentReader for ZooKeeperWatch {
    type Live = Live;
    type News = News;
    type Error = ZooKeeperError;

    async fn begin(&mut self, live: &Arc<Live>) -> Result<News, ZooKeeperError> {
        let history_lost = self.history.is_some_and(|known| known != live.history);
        for folder in &mut self.folders {
            if history_lost {
                folder.handle_history_lost();
            }
            folder.read(live).await?;
        }
        // If no folder may be read, nothing is known, and that is not an empty list.
        let is_unread = self.history.is_none() && !self.folders.iter().any(Folder::is_there);
        if let Some(refusal) = self.folders.iter().find_map(Folder::refusal).filter(|_| is_unread) {
            return Err(refusal.to_error());
        }
        self.history = Some(live.history);
        self.is_over = self.is_too_long();
        Ok(self.whole(history_lost))
    }

    /// May be dropped only with the connection: what is half read is read again.
    async fn next(&mut self, live: &Arc<Live>) -> Result<News, ZooKeeperError> {
        loop {
            let (mut changes, was_refused) = (Vec::new(), self.is_refused());
            for folder in &mut self.folders {
                if !folder.is_due(live).await? {
                    continue;
                }
                sleep_until(self.next_read_at).await;
                let began = Instant::now();
                let old = folder.read(live).await?;
                let now = Instant::now();
                self.next_read_at = now + (now - began).min(MAX_PAUSE);
                changes.extend(changes_since(&old, folder, &self.paths));
            }
            let is_refused = self.is_refused();
            if !changes.is_empty() || was_refused != is_refused {
                let was_over = self.is_over;
                self.is_over = self.is_too_long();
                return Ok(match was_over || self.is_over || was_refused || is_refused {
                    true => self.whole(false),
                    false => News::Changes(changes),
                });
            }
            let next_look = self.folders.iter().map(Folder::next_look_at).min();
            let next_look = next_look.unwrap_or_else(|| Instant::now() + MAX_PAUSE);
            tokio::select! {
                () = self.wake.notified() => {}
                () = sleep_until(next_look) => {}
            }
        }
    }
}
