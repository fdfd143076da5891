//! Documents in a folder: `com.acme.Orders.json`, or several of one interface as
//! `com.acme.Orders@blue.json`. What a document is about it says itself; the name is only for
//! finding it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dubbo_proto::definition::MAX_DOCUMENT_LEN;
use wire::file::FileWork;

use super::{Away, DefinitionOrigin, Document, Unread};

/// The most variants of an interface.
const MAX_DOCUMENTS: usize = 64;

/// How long is waited for the file system.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// A folder of documents. Clones are handles to the same, and share one thread, so that a file
/// system that hangs takes no more.
#[derive(Clone, Debug)]
pub(crate) struct DocumentFolder {
    path: PathBuf,
    work: FileWork,
}

impl DocumentFolder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, work: FileWork::default() }
    }

    /// The documents of an interface, by name.
    pub(super) async fn documents(&self, interface: &str) -> Result<Vec<Document>, Away> {
        self.documents_within(READ_TIMEOUT, interface).await
    }

    async fn documents_within(
        &self,
        timeout: Duration,
        interface: &str,
    ) -> Result<Vec<Document>, Away> {
        let (path, interface) = (self.path.clone(), interface.to_owned());
        let read = self.work.run(timeout, move || read_now(&path, &interface)).await;
        let path = self.path.display();
        read.and_then(|read| read).map_err(|error| Away(format!("folder {path}: {error}")))
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
        documents.push(Document { origin: DefinitionOrigin::File(path), text });
    }
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn a_file_system_that_hangs_is_not_waited_for() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("a.B.json"), "{}").unwrap();
        let folder = DocumentFolder::new(place.path().to_owned());
        let (go_on, wait) = channel::<()>();
        let soon = Duration::from_millis(1);
        folder.work.run(soon, move || wait.recv()).await.unwrap_err();
        let late = folder.clone().documents_within(soon, "a.B").await;
        let path = place.path().display();
        let text = format!("folder {path}: the file system did not answer within 1ms");
        assert!(late.is_err_and(|Away(reason)| reason == text));
        drop(go_on);
        assert!(folder.documents("a.B").await.is_ok_and(|found| found.len() == 1));
    }
}
