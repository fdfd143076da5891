//! Documents in a folder: `com.acme.Orders.json`, or several of one interface as
//! `com.acme.Orders@blue.json`. What a document is about it says itself; the name is only for
//! finding it.

use std::io;
use std::path::{Path, PathBuf};

use dubbo_proto::definition::MAX_DOCUMENT_LEN;

use super::{Away, Document, Origin, Unread};

/// The most variants of an interface.
const MAX_DOCUMENTS: usize = 64;

/// The documents of an interface, by name.
pub(super) async fn read(folder: PathBuf, interface: &str) -> Result<Vec<Document>, Away> {
    let interface = interface.to_owned();
    let read = move || read_now(&folder, &interface).map_err(|error| (folder, error));
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(documents)) => Ok(documents),
        Ok(Err((folder, error))) => Err(Away(format!("folder {}: {error}", folder.display()))),
        Err(_) => Err(Away("the runtime is shutting down".to_owned())),
    }
}

fn read_now(folder: &Path, interface: &str) -> io::Result<Vec<Document>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stem = name.strip_suffix(".json");
        if stem.is_some_and(|stem| stem.split('@').next() == Some(interface)) {
            paths.push(path);
        }
    }
    paths.sort();
    paths.truncate(MAX_DOCUMENTS);
    let mut documents = Vec::new();
    for path in paths {
        let len = std::fs::metadata(&path)?.len();
        let text = match MAX_DOCUMENT_LEN as u64 {
            max_len if max_len < len => Err(Unread::TooLong),
            max_len => Ok(wire::file::read(&path, max_len)?),
        };
        documents.push(Document { origin: Origin::File(path), text });
    }
    Ok(documents)
}
