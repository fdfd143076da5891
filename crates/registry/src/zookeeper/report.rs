//! Dubbo's metadata report: the service definitions that providers put into ZooKeeper.
//!
//! A document is at `/{root}/metadata/{interface}[/{version}][/{group}]/provider/{application}`.
//! Version and group are each left out if there is none, so that one of both alone cannot be told
//! from the other. The document tells them too: all of an interface are read, and those of the
//! service chosen. Source: `ZookeeperMetadataReport` and `BaseServiceMetadataIdentifier` in
//! apache/dubbo 2.7 and 3.3.

use dubbo_proto::url::encode_key;
use zookeeper_proto::{Answer, Refusal, Request};

use super::connection::{Connection, Live, ZooKeeperError, bounded};
use crate::definitions::{Away, Document, Origin};

/// The most documents of one interface: its variants, and the applications that offer them.
const MAX_DOCUMENTS: usize = 64;

/// The most folders of one interface that are looked into.
const MAX_FOLDERS: usize = 256;

/// Version and group, which may both be missing.
const MAX_DEPTH: usize = 2;

/// The longest documents of one interface together; a node holds 1 MiB unless ZooKeeper is told
/// otherwise.
const MAX_TOTAL_LEN: usize = 16 << 20;

const PROVIDER: &str = "provider";

/// The documents of an interface, the newest first. `root` has a slash in front.
pub(super) async fn read(
    connection: &Connection,
    root: &str,
    interface: &str,
) -> Result<Vec<Document>, Away> {
    let away = || Away("ZooKeeper cannot be reached".to_owned());
    let live = connection.live_within_timeout().await.ok_or_else(away)?;
    let top = format!("{root}/metadata/{}", encode_key(interface));
    let documents = bounded(connection, "reading the metadata report", documents(&live, top)).await;
    documents.map_err(|error| Away(error.to_string()))
}

async fn documents(live: &Live, top: String) -> Result<Vec<Document>, ZooKeeperError> {
    let (mut found, mut total_len) = (Vec::new(), 0);
    for path in paths(live, top).await? {
        let answer = live.ask(Request::Data { path: path.clone(), watcher: None }).await?;
        let (data, stat) = match answer {
            Ok(Answer::Data { data, stat }) => (data, stat),
            Ok(_) | Err(Refusal::NoNode) => continue,
            Err(refusal) => return Err(live.refused("reading", &path, refusal)),
        };
        total_len += data.len();
        if MAX_TOTAL_LEN < total_len {
            tracing::warn!(path, "this definition and further ones of its interface are too long");
            break;
        }
        found.push((stat.changed_zxid, Document { origin: Origin::Report(path), text: data }));
    }
    found.sort_by_key(|(changed_zxid, _)| std::cmp::Reverse(*changed_zxid));
    Ok(found.into_iter().map(|(_, document)| document).collect())
}

/// Where the documents of an interface are.
async fn paths(live: &Live, top: String) -> Result<Vec<String>, ZooKeeperError> {
    let (mut paths, mut folders, mut n_folders) = (Vec::new(), vec![(top, 0)], 0);
    while let Some((folder, depth)) = folders.pop() {
        n_folders += 1;
        if MAX_FOLDERS < n_folders || MAX_DOCUMENTS <= paths.len() {
            break;
        }
        for name in children(live, &folder).await? {
            let path = format!("{folder}/{name}");
            if name == PROVIDER {
                let applications = children(live, &path).await?;
                paths.extend(applications.iter().map(|name| format!("{path}/{name}")));
            } else if depth < MAX_DEPTH {
                folders.push((path, depth + 1));
            }
        }
    }
    paths.truncate(MAX_DOCUMENTS);
    Ok(paths)
}

async fn children(live: &Live, folder: &str) -> Result<Vec<String>, ZooKeeperError> {
    let request = Request::Children { path: folder.to_owned(), watcher: None };
    match live.ask(request).await? {
        Ok(Answer::Children { names, .. }) => Ok(names),
        Ok(_) | Err(Refusal::NoNode) => Ok(Vec::new()),
        Err(refusal) => Err(live.refused("reading", folder, refusal)),
    }
}
