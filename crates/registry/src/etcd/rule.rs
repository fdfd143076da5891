//! The watch of one document of Dubbo's configuration.

use std::sync::Arc;

use etcd_client::{EventType, WatchOptions};

use crate::lent::{LentReader, LentWatch};
use crate::store::DocumentNews;

use super::connection::{EtcdError, Live, SharedConnection};
use super::stream::{OpenWatch, Range};

pub(super) struct EtcdRule {
    key: String,
    /// Open from the revision after the one that was read.
    open: Option<OpenWatch>,
    /// The last revision that was heard of.
    revision: i64,
}

impl EtcdRule {
    pub(super) fn new(key: String, connection: SharedConnection) -> LentWatch<Self> {
        LentWatch::new(connection, Self { key, open: None, revision: 0 })
    }
}

/// Whoever wrote another encoding is told by the parser where it stops to make sense.
fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

impl LentReader for EtcdRule {
    type Live = Live;
    type News = DocumentNews;
    type Error = EtcdError;

    /// Reads the document, and begins to watch it.
    async fn begin(&mut self, live: &Arc<Live>) -> Result<DocumentNews, EtcdError> {
        let mut reader = live.kv_client();
        let get = reader.get(self.key.as_str(), None);
        let answer = live.request("reading a rule", get).await?;
        let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        let options = WatchOptions::new().with_start_revision(revision + 1).with_fragment();
        let range = Range { key: self.key.clone(), options };
        self.open = Some(live.watches().open(vec![range]).await?);
        let history_lost = revision < self.revision;
        self.revision = revision;
        let text = answer.kvs().first().map(|kv| text(kv.value()));
        Ok(DocumentNews::Whole { text, history_lost })
    }

    async fn next(&mut self, _: &Arc<Live>) -> Result<DocumentNews, EtcdError> {
        let Some(open) = &mut self.open else { return Err(EtcdError::Compacted) };
        loop {
            let message = open.message().await?;
            let revision = message.header().map_or(0, etcd_client::ResponseHeader::revision);
            self.revision = self.revision.max(revision);
            if let Some(last) = message.events().last() {
                let kv = last.kv().filter(|_| last.event_type() == EventType::Put);
                return Ok(DocumentNews::Changed(kv.map(|kv| text(kv.value()))));
            }
        }
    }

    fn handle_end(&mut self) {
        self.open = None;
    }
}
