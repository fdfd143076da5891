//! A folder of a service, which may be closed to us: an agent with a user makes folders that
//! others may not read.
//!
//! Invariant: only a folder that was read loses names, unless the servers have lost their history.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use wire::{Backoff, jitter};
use zookeeper_proto::Refusal;

use super::connection::{Live, ZooKeeperError, is_about_node};
use super::node::Node;

/// When a folder is read again that may not be read: nobody tells of a new access list.
const MIN_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(30);

/// The names in a folder.
pub(super) type Names = BTreeSet<String>;

/// Why a folder may not be read.
#[derive(Clone, Copy)]
pub(super) struct FolderRefusal<'a> {
    path: &'a str,
    refusal: Refusal,
}

impl FolderRefusal<'_> {
    pub(super) fn to_error(self) -> ZooKeeperError {
        let Self { path, refusal } = self;
        ZooKeeperError::Refused { what: "reading", path: path.to_owned(), refusal }
    }
}

pub(super) struct Folder {
    node: Node,
    /// As they were read last.
    names: Names,
    refusal: Option<Refusal>,
    backoff: Backoff,
    compare_every: Duration,
    /// When it is read or compared again, whether or not it has changed.
    next_look_at: Instant,
}

impl Folder {
    pub(super) fn new(path: String, wake: &Arc<Notify>, compare_every: Duration) -> Self {
        let (node, backoff) = (Node::new(path, wake), Backoff::new(MIN_RETRY, MAX_RETRY));
        let (names, refusal, next_look_at) = (Names::new(), None, Instant::now());
        Self { node, names, refusal, backoff, compare_every, next_look_at }
    }

    pub(super) fn path(&self) -> &str {
        &self.node.path
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Why it may not be read, if that is so.
    pub(super) fn refusal(&self) -> Option<FolderRefusal<'_>> {
        Some(FolderRefusal { path: self.path(), refusal: self.refusal? })
    }

    /// Whether there is such a folder, as far as it may be read.
    pub(super) fn is_there(&self) -> bool {
        self.refusal.is_none() && self.node.has_existed()
    }

    /// When it is to be looked at, even if nothing is told.
    pub(super) fn next_look_at(&self) -> Instant {
        self.next_look_at
    }

    /// The servers have lost what was read.
    pub(super) fn handle_history_lost(&mut self) {
        self.names.clear();
    }

    /// Whether it is to be read.
    pub(super) async fn is_due(&mut self, live: &Live) -> Result<bool, ZooKeeperError> {
        if self.node.has_changed() {
            return Ok(true);
        }
        if Instant::now() < self.next_look_at {
            return Ok(false);
        }
        self.next_look_at = Instant::now() + jitter(self.compare_every);
        Ok(self.refusal.is_some() || self.node.has_untold(live).await?)
    }

    /// Reads the names; returns those before. One that may not be read keeps its names.
    pub(super) async fn read(&mut self, live: &Arc<Live>) -> Result<Names, ZooKeeperError> {
        let _ = self.node.has_changed();
        let before = self.names.clone();
        match self.node.names(live).await {
            Ok(names) => {
                self.names = names.into_iter().collect();
                self.refusal = None;
                self.backoff.reset();
                self.next_look_at = Instant::now() + jitter(self.compare_every);
            }
            Err(ZooKeeperError::Refused { refusal, .. }) if is_about_node(refusal) => {
                // Once, until it can be read or something else is wrong with it.
                if self.refusal.replace(refusal) != Some(refusal) {
                    let path = self.path();
                    tracing::warn!(path, %refusal, "the folder cannot be read and counts as it was \
                                                    known before");
                }
                self.next_look_at = Instant::now() + self.backoff.next_wait();
            }
            Err(error) => return Err(error),
        }
        Ok(before)
    }
}
