//! The watch of one document of Dubbo's configuration.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::store::{RuleWatch, StoreError, Wait};

use super::connection::{Live, SharedConnection, ZooKeeperError};
use super::node::Node;

pub(super) struct ZooKeeperRule {
    node: Node,
    connection: SharedConnection,
    live: Option<Arc<Live>>,
    wake: Arc<Notify>,
    is_read: bool,
}

impl ZooKeeperRule {
    pub(super) fn new(path: String, connection: SharedConnection) -> Self {
        let wake = Arc::new(Notify::new());
        Self { node: Node::new(path, &wake), connection, live: None, wake, is_read: false }
    }

    async fn advance(&mut self, live: &Arc<Live>) -> Result<Option<String>, ZooKeeperError> {
        while self.is_read && !self.node.has_changed() {
            self.wake.notified().await;
        }
        let data = self.node.data(live).await?;
        self.is_read = true;
        // Whoever wrote another encoding is told by the parser where it stops to make sense.
        Ok(data.map(|data| String::from_utf8_lossy(&data).into_owned()))
    }
}

impl RuleWatch for ZooKeeperRule {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(async {
            self.live = self.connection.live().await;
            self.live.is_some()
        })
    }

    fn next(&mut self) -> Wait<'_, Result<Option<String>, StoreError>> {
        Box::pin(async {
            let Some(live) = self.live.clone() else { return Err(StoreError::Away) };
            let connection = self.connection.clone();
            let outcome = connection.while_live(&live, self.advance(&live)).await;
            outcome.map_err(|error: ZooKeeperError| {
                (self.live, self.is_read) = (None, false);
                error.into()
            })
        })
    }
}
