//! The session of this process in ZooKeeper, and the ephemeral nodes that go with it.
//!
//! Invariants:
//! - A node is deleted only while it belongs to our session.
//! - A node of another session is taken over only when an entry is written, never when entries are
//!   looked after: two who want the same node do not take it from each other for ever.

use std::time::Duration;

use dubbo_proto::application::add_application;
use zookeeper_proto::{Acl, Answer, Refusal, Request, Stat};

use crate::layout::{Placed, Value};
use crate::lent::SessionKeeper;

use super::connection::{Live, ZooKeeperError};

/// Nodes are looked after this many times in the life of a session.
const KEEPS: u32 = 3;

/// A node that changes this often while it is written is written later.
const MAX_TRIES: usize = 8;

pub(super) struct ZooKeeperSession {
    pub(super) acl: Acl,
    /// Until there is a session.
    pub(super) wanted_timeout: Duration,
}

async fn write(live: &Live, acl: Acl, entry: &Placed) -> Result<(), ZooKeeperError> {
    let path = entry.path.as_str();
    let data = || match &entry.value {
        Value::Text(text) => text.as_bytes().to_vec(),
        // All that counts is in the name.
        Value::Weight(_) | Value::SessionId | Value::Member(_) | Value::Document(_) => Vec::new(),
    };
    match &entry.value {
        Value::Member(name) => {
            return edit(live, acl, path, |text| add_application(text, name)).await;
        }
        Value::Document(new) => {
            let new = |text: &str| (*text != **new).then(|| new.to_string());
            return edit(live, acl, path, new).await;
        }
        Value::Weight(_) | Value::SessionId | Value::Text(_) => {}
    }
    for _ in 0..MAX_TRIES {
        let create =
            Request::Create { path: path.to_owned(), data: data(), acl, is_ephemeral: true };
        match live.ask(create).await? {
            Ok(_) => return Ok(()),
            Err(Refusal::NoNode) => {
                make_folders(live, acl, path).await?;
                continue;
            }
            Err(Refusal::NodeExists) => {}
            Err(refusal) => return Err(live.refused("registering", path, refusal)),
        }
        let Some(found) = stat(live, path).await? else { continue };
        if found.owner == live.session.id {
            if data().is_empty() || set_data(live, path, data(), found.version).await? {
                return Ok(());
            }
            continue;
        }
        if found.owner == 0 {
            tracing::info!(path, "somebody has registered this permanently; left as it is");
            return Ok(());
        }
        let (path_, data, version) = (path.to_owned(), data(), found.version);
        match live.ask(Request::TakeOver { path: path_, data, acl, version }).await? {
            Ok(_) => {
                tracing::info!(path, session = %format_args!("{:#x}", found.owner), "taken over");
                return Ok(());
            }
            Err(Refusal::NoNode | Refusal::BadVersion) => {}
            Err(refusal) => return Err(live.refused("taking over", path, refusal)),
        }
    }
    Err(ZooKeeperError::Unsteady)
}

/// Changes a text that others write, too, and that belongs to no session. `new` makes the new text
/// of the old one, or nothing if it is to stay.
async fn edit(
    live: &Live,
    acl: Acl,
    path: &str,
    new: impl Fn(&str) -> Option<String>,
) -> Result<(), ZooKeeperError> {
    for _ in 0..MAX_TRIES {
        let known = match live.ask(Request::Data { path: path.to_owned(), watcher: None }).await? {
            Ok(Answer::Data { data, stat }) => {
                Some((String::from_utf8_lossy(&data).into_owned(), stat.version))
            }
            Ok(_) | Err(Refusal::NoNode) => None,
            Err(refusal) => return Err(live.refused("reading", path, refusal)),
        };
        let text = known.as_ref().map_or("", |(text, _)| text);
        let Some(text) = new(text) else { return Ok(()) };
        if let Some((_, version)) = known {
            if set_data(live, path, text.into_bytes(), version).await? {
                return Ok(());
            }
            continue;
        }
        let (path_, data) = (path.to_owned(), text.into_bytes());
        match live.ask(Request::Create { path: path_, data, acl, is_ephemeral: false }).await? {
            Ok(_) => return Ok(()),
            Err(Refusal::NoNode) => make_folders(live, acl, path).await?,
            Err(Refusal::NodeExists) => {}
            Err(refusal) => return Err(live.refused("making", path, refusal)),
        }
    }
    Err(ZooKeeperError::Unsteady)
}

/// Whether it could be written: nobody else has done so meanwhile.
async fn set_data(
    live: &Live,
    path: &str,
    data: Vec<u8>,
    version: i32,
) -> Result<bool, ZooKeeperError> {
    match live.ask(Request::SetData { path: path.to_owned(), data, version }).await? {
        Ok(_) => Ok(true),
        Err(Refusal::NoNode | Refusal::BadVersion) => Ok(false),
        Err(refusal) => Err(live.refused("writing", path, refusal)),
    }
}

/// Makes what is above a node, from the top.
async fn make_folders(live: &Live, acl: Acl, path: &str) -> Result<(), ZooKeeperError> {
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at != 0);
    for folder in ends.filter_map(|at| path.get(..at)) {
        let create =
            Request::Create { path: folder.to_owned(), data: Vec::new(), acl, is_ephemeral: false };
        match live.ask(create).await? {
            Ok(_) | Err(Refusal::NodeExists) => {}
            // Who may not make nodes here may still do so further down.
            Err(Refusal::NoAuth) if stat(live, folder).await?.is_some() => {}
            Err(refusal) => return Err(live.refused("making", folder, refusal)),
        }
    }
    Ok(())
}

async fn delete(live: &Live, path: &str) -> Result<(), ZooKeeperError> {
    let Some(found) = stat(live, path).await? else { return Ok(()) };
    if found.owner != live.session.id {
        return Ok(());
    }
    let (path_, version) = (path.to_owned(), found.version);
    match live.ask(Request::Delete { path: path_, version }).await? {
        Ok(_) | Err(Refusal::NoNode | Refusal::BadVersion) => Ok(()),
        Err(refusal) => Err(live.refused("withdrawing", path, refusal)),
    }
}

async fn stat(live: &Live, path: &str) -> Result<Option<Stat>, ZooKeeperError> {
    match live.ask(Request::Exists { path: path.to_owned(), watcher: None }).await? {
        Ok(Answer::Stat(stat)) => Ok(Some(stat)),
        Ok(_) | Err(Refusal::NoNode) => Ok(None),
        Err(refusal) => Err(live.refused("looking for", path, refusal)),
    }
}

impl SessionKeeper for ZooKeeperSession {
    type Live = Live;
    type Error = ZooKeeperError;

    fn goes_on(old: &Live, new: &Live) -> bool {
        old.session.id == new.session.id
    }

    fn keep_interval(&self, live: Option<&Live>) -> Duration {
        live.map_or(self.wanted_timeout, |live| live.session.timeout) / KEEPS
    }

    async fn keep(&mut self, live: &Live, held: &[Placed]) -> Result<Vec<Placed>, ZooKeeperError> {
        let mut missing = Vec::new();
        for entry in held {
            // Of another session, it is a successor at the same address, and its to keep.
            if stat(live, &entry.path).await?.is_none() {
                missing.push(entry.clone());
            }
        }
        Ok(missing)
    }

    async fn put(&mut self, live: &Live, entry: &Placed) -> Result<(), ZooKeeperError> {
        write(live, self.acl, entry).await
    }

    async fn remove(&mut self, live: &Live, entry: &Placed) -> Result<(), ZooKeeperError> {
        delete(live, &entry.path).await
    }

    async fn close(&mut self, live: &Live) -> Result<(), ZooKeeperError> {
        live.ask(Request::Close).await.map(|_| ())
    }
}
