//! Reading a folder with a watch on it, whether or not it exists.

use std::sync::Arc;

use tokio::sync::Notify;
use zookeeper_proto::{Answer, Refusal, Request};

use super::connection::{Live, ZooKeeperError};
use super::machine::{Changed, Told};

/// A folder that comes and goes this often while it is read is read again later.
const MAX_TRIES: usize = 8;

/// A folder, and the watch on it. The watch is taken back when this is dropped.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: String,
    /// `None` only while this is dropped.
    changed: Option<Arc<Changed>>,
    live: Option<Live>,
}

impl Folder {
    /// `wake` is called when the folder may have changed since it was read.
    pub(super) fn new(path: String, wake: &Arc<Notify>) -> Self {
        Self { path, changed: Some(Changed::new(wake)), live: None }
    }

    /// Whether it may have changed since it was read.
    pub(super) fn has_changed(&self) -> bool {
        self.changed.as_ref().is_some_and(|changed| changed.take())
    }

    /// The names in it, none if it does not exist. From now on, changes are told.
    pub(super) async fn read(&mut self, live: &Live) -> Result<Vec<String>, ZooKeeperError> {
        let told = || self.changed.as_ref().map(Told::new);
        self.live = Some(live.clone());
        for _ in 0..MAX_TRIES {
            let (path, watcher) = (self.path.clone(), told());
            match live.ask(Request::Children { path, watcher }).await? {
                Ok(Answer::Children { names, .. }) => return Ok(names),
                Ok(_) | Err(Refusal::NoNode) => {}
                Err(refusal) => return Err(live.refused("reading", &self.path, refusal)),
            }
            let (path, watcher) = (self.path.clone(), told());
            match live.ask(Request::Exists { path, watcher }).await? {
                // It has come in between.
                Ok(_) => {}
                Err(Refusal::NoNode) => return Ok(Vec::new()),
                Err(refusal) => return Err(live.refused("looking for", &self.path, refusal)),
            }
        }
        Err(ZooKeeperError::Unsteady)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.changed = None;
        if let Some(live) = &self.live {
            live.handle_unwanted(&self.path);
        }
    }
}
