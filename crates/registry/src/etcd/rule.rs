//! The watch of one document of Dubbo's configuration.

use std::sync::Arc;

use etcd_client::{EventType, WatchOptions};

use crate::store::{RuleWatch, StoreError, Wait};

use super::connection::{EtcdError, Live, SharedConnection};
use super::stream::{OpenWatch, Range};

pub(super) struct EtcdRule {
    key: String,
    connection: SharedConnection,
    live: Option<Arc<Live>>,
    /// Open from the revision after the one that was read.
    open: Option<OpenWatch>,
}

impl EtcdRule {
    pub(super) fn new(key: String, connection: SharedConnection) -> Self {
        Self { key, connection, live: None, open: None }
    }

    /// One step ahead. May be dropped at any time: what is half read is read again.
    pub(super) async fn advance(&mut self, live: &Live) -> Result<Option<String>, EtcdError> {
        // A request is large, and a watch rests without one: there may be thousands.
        let Some(open) = &mut self.open else { return Box::pin(self.read(live)).await };
        loop {
            let message = open.message().await?;
            if let Some(last) = message.events().last() {
                let kv = last.kv().filter(|_| last.event_type() == EventType::Put);
                return Ok(kv.map(|kv| text(kv.value())));
            }
        }
    }

    /// Reads the document, and begins to watch it.
    async fn read(&mut self, live: &Live) -> Result<Option<String>, EtcdError> {
        let mut reader = live.kv_client();
        let get = reader.get(self.key.as_str(), None);
        let answer = self.connection.read("reading a rule", get).await?;
        let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
        let options = WatchOptions::new().with_start_revision(revision + 1).with_fragment();
        let range = Range { key: self.key.clone(), options };
        self.open = Some(live.watches().open(vec![range]).await?);
        Ok(answer.kvs().first().map(|kv| text(kv.value())))
    }
}

/// Whoever wrote another encoding is told by the parser where it stops to make sense.
fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

impl RuleWatch for EtcdRule {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(async {
            self.live = self.connection.lent.live().await;
            self.live.is_some()
        })
    }

    fn next(&mut self) -> Wait<'_, Result<Option<String>, StoreError>> {
        Box::pin(async {
            let Some(live) = self.live.clone() else { return Err(StoreError::Away) };
            let connection = self.connection.clone();
            let outcome = connection.lent.while_live(&live, self.advance(&live)).await;
            outcome.map_err(|error| {
                (self.live, self.open) = (None, None);
                connection.store_error(&error)
            })
        })
    }
}
