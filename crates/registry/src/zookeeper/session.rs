//! The session of this process in ZooKeeper, and the ephemeral nodes that go with it.
//!
//! Invariants:
//! - A node is deleted only while it belongs to our session.
//! - A node of another session is taken over only when an entry is written, never when entries are
//!   looked after: two who want the same node do not take it from each other for ever.

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::application::add_application;
use tokio::task::AbortHandle;
use zookeeper_proto::{Acl, Answer, Refusal, Request, Stat};

use crate::layout::{Placed, Value};
use crate::store::{StoreError, StoreSession, Wait};

use super::connection::{Live, SharedConnection, ZooKeeperError, bounded};
use super::settings::ZooKeeperSettings;

/// Nodes are looked after this many times in the life of a session.
const KEEPS: u32 = 3;

/// A node that changes this often while it is written is written later.
const MAX_TRIES: usize = 8;

pub(super) struct ZooKeeperSession {
    connection: SharedConnection,
    acl: Acl,
    /// Until there is a session.
    wanted_timeout: Duration,
    live: Option<Arc<Live>>,
    /// The session that our nodes belong to, as far as we know.
    session_id: Option<i64>,
    /// Ends with this.
    connector: AbortHandle,
}

impl ZooKeeperSession {
    pub(super) fn new(
        settings: &Arc<ZooKeeperSettings>,
        connection: &SharedConnection,
        connector: AbortHandle,
    ) -> Self {
        Self {
            connection: connection.clone(),
            acl: settings.acl,
            wanted_timeout: settings.session_timeout,
            live: None,
            session_id: None,
            connector,
        }
    }

    /// The connection, if it is still that of the session with our nodes.
    fn live(&mut self) -> Result<Arc<Live>, StoreError> {
        let live = self.live.clone().ok_or(StoreError::Away)?;
        let known = self.session_id.replace(live.session.id);
        match known {
            Some(known) if known != live.session.id => Err(StoreError::SessionLost),
            _ => Ok(live),
        }
    }
}

/// Those of our nodes that nobody has any more.
async fn missing(live: &Live, held: &[Placed]) -> Result<Vec<Placed>, ZooKeeperError> {
    let mut missing = Vec::new();
    for entry in held {
        // Of another session, it is a successor at the same address, and its to keep.
        if stat(live, &entry.path).await?.is_none() {
            missing.push(entry.clone());
        }
    }
    Ok(missing)
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

impl StoreSession for ZooKeeperSession {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(async {
            self.live = self.connection.live().await;
            self.live.is_some()
        })
    }

    fn lost(&mut self) -> Wait<'_, ()> {
        Box::pin(async {
            if let Some(live) = &self.live {
                self.connection.lost(live).await;
            }
        })
    }

    fn keep_interval(&self) -> Duration {
        let granted = self.live.as_ref().map(|live| live.session.timeout);
        granted.unwrap_or(self.wanted_timeout) / KEEPS
    }

    fn keep<'a>(&'a mut self, held: &'a [Placed]) -> Wait<'a, Result<Vec<Placed>, StoreError>> {
        Box::pin(async {
            let live = self.live()?;
            Ok(self.connection.while_live(&live, missing(&live, held)).await?)
        })
    }

    fn put<'a>(&'a mut self, entry: &'a Placed) -> Wait<'a, Result<(), StoreError>> {
        Box::pin(async {
            let live = self.live()?;
            let write = write(&live, self.acl, entry);
            Ok(self.connection.while_live(&live, write).await?)
        })
    }

    fn remove<'a>(&'a mut self, entry: &'a Placed) -> Wait<'a, Result<(), StoreError>> {
        Box::pin(async {
            let live = self.live()?;
            Ok(self.connection.while_live(&live, delete(&live, &entry.path)).await?)
        })
    }

    fn close(&mut self) -> Wait<'_, ()> {
        Box::pin(async {
            let Some(live) = self.connection.current() else { return };
            let close = async { live.ask(Request::Close).await.map(|_| ()) };
            if let Err(error) = bounded(&self.connection, "ending the session", close).await {
                tracing::debug!(%error, "registrations end with their session");
            }
        })
    }

    fn report(&mut self, error: &str) -> bool {
        self.connection.report(error)
    }
}

impl Drop for ZooKeeperSession {
    fn drop(&mut self) {
        self.connector.abort();
    }
}
