//! Watches over a lent connection: each begins again with a new one, and after an error.

use std::sync::Arc;

use crate::store::{DocumentNews, News, RuleWatch, StoreError, Wait, Watch};

use super::{Lent, Lost};

/// How a store reads something whole, and follows its changes.
pub(crate) trait LentReader: Send {
    type Live: Send + Sync;
    type News: Send;
    type Error: From<Lost> + Into<StoreError> + Send;

    /// Reads all, on a new connection or after an error. Dropped, as [`next`](Self::next) is, when
    /// the connection is lost or nobody wants to know any more.
    fn begin(
        &mut self,
        live: &Arc<Self::Live>,
    ) -> impl Future<Output = Result<Self::News, Self::Error>> + Send;

    /// Waits for what comes after what was read or told last.
    fn next(
        &mut self,
        live: &Arc<Self::Live>,
    ) -> impl Future<Output = Result<Self::News, Self::Error>> + Send;

    /// An error, or the connection is lost.
    fn handle_end(&mut self) {}
}

/// A watch of what the reader reads.
pub(crate) struct LentWatch<R: LentReader> {
    connection: Lent<R::Live>,
    live: Option<Arc<R::Live>>,
    /// Whether the reader has read all on this connection.
    has_begun: bool,
    pub(crate) reader: R,
}

impl<R: LentReader> LentWatch<R> {
    pub(crate) fn new(connection: Lent<R::Live>, reader: R) -> Self {
        Self { connection, live: None, has_begun: false, reader }
    }

    async fn wait_until_live(&mut self) -> bool {
        self.live = self.connection.live().await;
        self.live.is_some()
    }

    async fn advance(&mut self) -> Result<R::News, StoreError> {
        let Some(live) = &self.live else { return Err(StoreError::Away) };
        let next = async {
            if self.has_begun {
                return self.reader.next(live).await;
            }
            let _in_turn = self.connection.beginnings.acquire().await;
            // It is large, and a watch rests without it: there may be thousands.
            Box::pin(self.reader.begin(live)).await
        };
        let outcome: Result<_, R::Error> = self.connection.while_live(live, next).await;
        self.has_begun = outcome.is_ok();
        outcome.map_err(|error| {
            self.live = None;
            self.reader.handle_end();
            error.into()
        })
    }
}

impl<E, R: LentReader<News = News<E>>> Watch<E> for LentWatch<R> {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(self.wait_until_live())
    }

    fn next(&mut self) -> Wait<'_, Result<News<E>, StoreError>> {
        Box::pin(self.advance())
    }

    fn report(&mut self, error: &str) -> bool {
        self.connection.report(error)
    }
}

impl<R: LentReader<News = DocumentNews>> RuleWatch for LentWatch<R> {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(self.wait_until_live())
    }

    fn next(&mut self) -> Wait<'_, Result<DocumentNews, StoreError>> {
        Box::pin(self.advance())
    }
}
