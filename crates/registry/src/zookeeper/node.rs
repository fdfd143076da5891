//! Reading a node with a watch on it, whether or not it exists.

use std::sync::Arc;

use tokio::sync::Notify;
use zookeeper_proto::{Answer, Refusal, Request};

use super::connection::{Live, ZooKeeperError};
use super::machine::{Changed, ChangedWatcher};

/// A node that comes and goes this often while it is read is read again later.
const MAX_TRIES: usize = 8;

/// A node, and the watch on it. The watch is taken back when this is dropped.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) path: String,
    /// `None` only while this is dropped.
    changed: Option<Arc<Changed>>,
    live: Option<Arc<Live>>,
    /// The last change of the names that were read; `None` if it did not exist.
    names_zxid: Option<i64>,
}

impl Node {
    /// `wake` is called when the node may have changed since it was read.
    pub(super) fn new(path: String, wake: &Arc<Notify>) -> Self {
        Self { path, changed: Some(Changed::new(wake)), live: None, names_zxid: None }
    }

    /// Whether it may have changed since it was read.
    pub(super) fn has_changed(&self) -> bool {
        self.changed.as_ref().is_some_and(|changed| changed.take())
    }

    /// The names below it, none if it does not exist. From now on, changes of them are told.
    pub(super) async fn names(&mut self, live: &Arc<Live>) -> Result<Vec<String>, ZooKeeperError> {
        let children = |path, watcher| Request::Children { path, watcher };
        let (names, zxid) = match self.read(live, children).await? {
            Some(Answer::Children { names, stat }) => (names, Some(stat.children_zxid)),
            _ => (Vec::new(), None),
        };
        self.names_zxid = zxid;
        Ok(names)
    }

    /// Whether it existed when its names were read last.
    pub(super) fn has_existed(&self) -> bool {
        self.names_zxid.is_some()
    }

    /// Whether its names have changed since they were read, and nobody may have told: a server
    /// tells nothing of a node to who may not read it at that moment.
    pub(super) async fn has_untold(&self, live: &Live) -> Result<bool, ZooKeeperError> {
        match live.ask(Request::Exists { path: self.path.clone(), watcher: None }).await? {
            Ok(Answer::Stat(stat)) => Ok(self.names_zxid != Some(stat.children_zxid)),
            Err(Refusal::NoNode) => Ok(self.names_zxid.is_some()),
            // To read it says why.
            Ok(_) | Err(_) => Ok(true),
        }
    }

    /// What is written in it, if it exists. From now on, changes of that are told.
    pub(super) async fn data(
        &mut self,
        live: &Arc<Live>,
    ) -> Result<Option<Vec<u8>>, ZooKeeperError> {
        match self.read(live, |path, watcher| Request::Data { path, watcher }).await? {
            Some(Answer::Data { data, .. }) => Ok(Some(data)),
            _ => Ok(None),
        }
    }

    async fn read(
        &mut self,
        live: &Arc<Live>,
        request: impl Fn(String, Option<ChangedWatcher>) -> Request<ChangedWatcher>,
    ) -> Result<Option<Answer>, ZooKeeperError> {
        let told = || self.changed.as_ref().map(ChangedWatcher::new);
        self.live = Some(Arc::clone(live));
        for _ in 0..MAX_TRIES {
            match live.ask(request(self.path.clone(), told())).await? {
                Ok(answer) => return Ok(Some(answer)),
                Err(Refusal::NoNode) => {}
                Err(refusal) => return Err(live.refused("reading", &self.path, refusal)),
            }
            let (path, watcher) = (self.path.clone(), told());
            match live.ask(Request::Exists { path, watcher }).await? {
                // It has come in between.
                Ok(_) => {}
                Err(Refusal::NoNode) => return Ok(None),
                Err(refusal) => return Err(live.refused("looking for", &self.path, refusal)),
            }
        }
        Err(ZooKeeperError::Unsteady)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.changed = None;
        if let Some(live) = &self.live {
            live.handle_unwanted(&self.path);
        }
    }
}
