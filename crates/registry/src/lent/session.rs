//! A session over a lent connection, which may outlive the connection or end with it.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use crate::layout::Placed;
use crate::store::{StoreError, StoreSession, Wait};

use super::{ConnectorTask, Lent, Lost};

/// How a store keeps the entries of a session. The methods are those of [`StoreSession`].
pub(crate) trait SessionKeeper: Send {
    type Live: Send + Sync;
    type Error: From<Lost> + Into<StoreError> + Display + Send;

    /// Whether a session of the connection `old` goes on with a later one.
    fn goes_on(old: &Self::Live, new: &Self::Live) -> bool;

    /// The session is over, and all of its entries with it.
    fn handle_end(&mut self) {}

    fn keep_interval(&self, live: Option<&Self::Live>) -> Duration;

    fn keep(
        &mut self,
        live: &Self::Live,
        held: &[Placed],
    ) -> impl Future<Output = Result<Vec<Placed>, Self::Error>> + Send;

    fn put(
        &mut self,
        live: &Self::Live,
        entry: &Placed,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    fn remove(
        &mut self,
        live: &Self::Live,
        entry: &Placed,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    fn close(&mut self, live: &Self::Live) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// The session of a keeper.
pub(crate) struct LentSession<K: SessionKeeper> {
    connection: Lent<K::Live>,
    /// The last one stays, so that closing can still try.
    live: Option<Arc<K::Live>>,
    /// The connection that our entries were last written or looked after by.
    owner: Option<Arc<K::Live>>,
    pub(super) keeper: K,
    _connectors: Vec<ConnectorTask>,
}

impl<K: SessionKeeper> LentSession<K> {
    /// `connectors` end with the session.
    pub(crate) fn new(
        connection: Lent<K::Live>,
        keeper: K,
        connectors: impl Into<Vec<ConnectorTask>>,
    ) -> Self {
        let (live, owner, _connectors) = (None, None, connectors.into());
        Self { connection, live, owner, keeper, _connectors }
    }

    /// The connection, if the session with our entries goes on with it.
    fn live(&mut self) -> Result<Arc<K::Live>, StoreError> {
        let live = self.live.clone().ok_or(StoreError::Away)?;
        match self.owner.replace(Arc::clone(&live)) {
            Some(owner) if !K::goes_on(&owner, &live) => {
                self.keeper.handle_end();
                Err(StoreError::SessionLost)
            }
            _ => Ok(live),
        }
    }

    fn outcome<T>(&mut self, outcome: Result<T, K::Error>) -> Result<T, StoreError> {
        let outcome = outcome.map_err(Into::into);
        if matches!(outcome, Err(StoreError::SessionLost)) {
            self.keeper.handle_end();
        }
        outcome
    }
}

impl<K: SessionKeeper> StoreSession for LentSession<K> {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(async {
            let live = self.connection.live().await;
            let is_there = live.is_some();
            self.live = live.or(self.live.take());
            is_there
        })
    }

    fn lost(&mut self) -> Wait<'_, ()> {
        Box::pin(async {
            if let Some(live) = &self.live {
                self.connection.lost(live).await;
            }
        })
    }

    fn keep_interval(&self) -> Duration {
        self.keeper.keep_interval(self.live.as_deref())
    }

    fn keep<'a>(&'a mut self, held: &'a [Placed]) -> Wait<'a, Result<Vec<Placed>, StoreError>> {
        Box::pin(async {
            let live = self.live()?;
            let kept = self.connection.while_live(&live, self.keeper.keep(&live, held)).await;
            self.outcome(kept)
        })
    }

    fn put<'a>(&'a mut self, entry: &'a Placed) -> Wait<'a, Result<(), StoreError>> {
        Box::pin(async {
            let live = self.live()?;
            let put = self.connection.while_live(&live, self.keeper.put(&live, entry)).await;
            self.outcome(put)
        })
    }

    fn remove<'a>(&'a mut self, entry: &'a Placed) -> Wait<'a, Result<(), StoreError>> {
        Box::pin(async {
            let live = self.live()?;
            let removed = self.connection.while_live(&live, self.keeper.remove(&live, entry)).await;
            self.outcome(removed)
        })
    }

    fn close(&mut self) -> Wait<'_, ()> {
        Box::pin(async {
            self.live = self.connection.current().or(self.live.take());
            let Some(live) = self.live.clone() else { return };
            let _noted_if_it_is_another_session = self.live();
            if let Err(error) = self.keeper.close(&live).await {
                tracing::debug!(%error, "registrations end with their session");
            }
        })
    }

    fn report(&mut self, error: &str) -> bool {
        self.connection.report(error)
    }
}
