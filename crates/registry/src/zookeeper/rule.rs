//! The watch of one document of Dubbo's configuration.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::lent::{LentReader, LentWatch};
use crate::store::DocumentNews;

use super::connection::{Live, SharedConnection, ZooKeeperError};
use super::node::Node;

pub(super) struct ZooKeeperRule {
    node: Node,
    wake: Arc<Notify>,
    /// What history was read, if any was.
    history: Option<u64>,
}

impl ZooKeeperRule {
    pub(super) fn new(path: String, connection: SharedConnection) -> LentWatch<Self> {
        let wake = Arc::new(Notify::new());
        let reader = Self { node: Node::new(path, &wake), wake, history: None };
        LentWatch::new(connection, reader)
    }

    async fn read(&mut self, live: &Arc<Live>) -> Result<Option<String>, ZooKeeperError> {
        let data = self.node.data(live).await?;
        // Whoever wrote another encoding is told by the parser where it stops to make sense.
        Ok(data.map(|data| String::from_utf8_lossy(&data).into_owned()))
    }
}

impl LentReader for ZooKeeperRule {
    type Live = Live;
    type News = DocumentNews;
    type Error = ZooKeeperError;

    async fn begin(&mut self, live: &Arc<Live>) -> Result<DocumentNews, ZooKeeperError> {
        let text = self.read(live).await?;
        let history_lost = self.history.is_some_and(|known| known != live.history);
        self.history = Some(live.history);
        Ok(DocumentNews::Whole { text, history_lost })
    }

    async fn next(&mut self, live: &Arc<Live>) -> Result<DocumentNews, ZooKeeperError> {
        while !self.node.has_changed() {
            self.wake.notified().await;
        }
        self.read(live).await.map(DocumentNews::Changed)
    }
}
