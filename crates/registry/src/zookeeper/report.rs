//! Dubbo's metadata report: the service definitions that providers put into ZooKeeper.
//!
//! A document is at `/{root}/metadata/{interface}[/{version}][/{group}]/provider/{application}`.
//! Version and group are each left out if there is none, so that one of both alone cannot be told
//! from the other. The document tells them too: all of an interface are read, and those of the
//! service chosen. Source: `ZookeeperMetadataReport` and `BaseServiceMetadataIdentifier` in
//! apache/dubbo 2.7 and 3.3.
//!
//! Lengths are asked for first. A document that is too long, or that may not be read, is told as
//! such, and takes no other one away.

use std::sync::Arc;

use dubbo_proto::url::encode_key;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use zookeeper_proto::{Answer, Refusal, Request, Stat};

use super::connection::{Live, SharedConnection, ZooKeeperError, bounded, is_about_node};
use crate::definitions::{Away, DefinitionOrigin, Document, ReadAllowance, Unread};

/// The most documents of one interface: its variants, and the applications that offer them.
const MAX_DOCUMENTS: usize = 64;

/// The most nodes that are looked at for the newest ones.
const MAX_NODES: usize = 1024;

/// The most folders of one interface that are looked into.
const MAX_FOLDERS: usize = 256;

/// Version and group, which may both be missing.
const MAX_DEPTH: usize = 2;

/// Nodes that are asked for at the same time.
const MAX_ASKED: usize = 64;

const PROVIDER: &str = "provider";

/// The documents of an interface, the newest first. `root` has a slash in front.
pub(super) async fn read(
    connection: &SharedConnection,
    root: &str,
    interface: &str,
) -> Result<Vec<Document>, Away> {
    let top = format!("{root}/metadata/{}", encode_key(interface));
    let read = async |live: Arc<Live>| {
        bounded(connection, "reading the metadata report", documents(&live, top)).await
    };
    connection.ask_once(read).await
}

async fn documents(live: &Live, top: String) -> Result<Vec<Document>, ZooKeeperError> {
    let FoundDocuments { paths, mut documents } = find(live, top).await?;
    let stats = stream::iter(paths).map(|path| stat(live, path)).buffered(MAX_ASKED);
    let mut nodes = Vec::new();
    for found in stats.try_collect::<Vec<_>>().await?.into_iter().flatten() {
        match found {
            Ok(node) => nodes.push(node),
            Err(document) => documents.push(document),
        }
    }
    nodes.sort_by_key(|(_, stat)| std::cmp::Reverse(stat.changed_zxid));
    nodes.truncate(MAX_DOCUMENTS);
    let mut allowance = ReadAllowance::default();
    for (path, stat) in nodes {
        let text = match allowance.take(stat.data_len) {
            Ok(()) => match live.ask(Request::Data { path: path.clone(), watcher: None }).await? {
                Ok(Answer::Data { data, .. }) => Ok(data),
                Ok(_) | Err(Refusal::NoNode) => continue,
                Err(refusal) => Err(unread(live, &path, refusal)?),
            },
            Err(unread) => Err(unread),
        };
        documents.push(Document { origin: DefinitionOrigin::Report(path), text });
    }
    Ok(documents)
}

/// A node with its length and its age, if it is still there; or that it may not be read.
async fn stat(
    live: &Live,
    path: String,
) -> Result<Option<Result<(String, Stat), Document>>, ZooKeeperError> {
    match live.ask(Request::Exists { path: path.clone(), watcher: None }).await? {
        Ok(Answer::Stat(stat)) => Ok(Some(Ok((path, stat)))),
        Ok(_) | Err(Refusal::NoNode) => Ok(None),
        Err(refusal) => {
            let text = Err(unread(live, &path, refusal)?);
            Ok(Some(Err(Document { origin: DefinitionOrigin::Report(path), text })))
        }
    }
}

/// Why a node is not read, if that says nothing about the others.
fn unread(live: &Live, path: &str, refusal: Refusal) -> Result<Unread, ZooKeeperError> {
    match is_about_node(refusal) {
        true => Ok(Unread::Refused(refusal.to_string())),
        false => Err(live.refused("reading", path, refusal)),
    }
}

/// Where the documents of an interface are, and what may not be looked into.
struct FoundDocuments {
    paths: Vec<String>,
    documents: Vec<Document>,
}

async fn find(live: &Live, top: String) -> Result<FoundDocuments, ZooKeeperError> {
    let (mut paths, mut documents) = (Vec::new(), Vec::new());
    let (mut folders, mut n_folders) = (vec![(top, 0)], 0);
    while let Some((folder, depth)) = folders.pop() {
        n_folders += 1;
        if MAX_FOLDERS < n_folders || MAX_NODES <= paths.len() {
            break;
        }
        for name in children(live, &folder, &mut documents).await? {
            let path = format!("{folder}/{name}");
            if name == PROVIDER {
                let applications = children(live, &path, &mut documents).await?;
                paths.extend(applications.iter().map(|name| format!("{path}/{name}")));
            } else if depth < MAX_DEPTH {
                folders.push((path, depth + 1));
            }
        }
    }
    paths.truncate(MAX_NODES);
    Ok(FoundDocuments { paths, documents })
}

/// The names in a folder. One that may not be read is told as a document that cannot be.
async fn children(
    live: &Live,
    folder: &str,
    documents: &mut Vec<Document>,
) -> Result<Vec<String>, ZooKeeperError> {
    let request = Request::Children { path: folder.to_owned(), watcher: None };
    match live.ask(request).await? {
        Ok(Answer::Children { names, .. }) => Ok(names),
        Ok(_) | Err(Refusal::NoNode) => Ok(Vec::new()),
        Err(refusal) => {
            let text = Err(unread(live, folder, refusal)?);
            documents.push(Document { origin: DefinitionOrigin::Report(folder.to_owned()), text });
            Ok(Vec::new())
        }
    }
}
