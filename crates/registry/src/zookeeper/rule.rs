//! The watch of one document of Dubbo's configuration.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::lent::{LentReader, LentWatch};

use super::connection::{Live, SharedConnection, ZooKeeperError};
use super::node::Node;

pub(super) struct ZooKeeperRule {
    node: Node,
    wake: Arc<Notify>,
}

impl ZooKeeperRule {
    pub(super) fn new(path: String, connection: SharedConnection) -> LentWatch<Self> {
        let wake = Arc::new(Notify::new());
        let reader = Self { node: Node::new(path, &wake), wake };
        LentWatch::new(connection, reader)
    }
}

impl LentReader for ZooKeeperRule {
    type Live = Live;
    type News = Option<String>;
    type Error = ZooKeeperError;

    async fn begin(&mut self, live: &Arc<Live>) -> Result<Option<String>, ZooKeeperError> {
        let data = self.node.data(live).await?;
        // Whoever wrote another encoding is told by the parser where it stops to make sense.
        Ok(data.map(|data| String::from_utf8_lossy(&data).into_owned()))
    }

    async fn next(&mut self, live: &Arc<Live>) -> Result<Option<String>, ZooKeeperError> {
        while !self.node.has_changed() {
            self.wake.notified().await;
        }
        self.begin(live).await
    }
}
