//! A connection to a store that one task keeps, and lends to many. The task is told apart from
//! its users: they never decide that the connection is broken.
//!
//! `connector.rs` has the task, `watching.rs` the watches that begin again with each connection,
//! and `session.rs` the session that our entries belong to.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use crate::definitions::Away;
use crate::status::{RegistryStatus, StatusSender, note};

pub(crate) use connector::{ConnectionTerms, Connector, ConnectorTask, GOOD_AFTER, keep_connected};
pub(crate) use session::{LentSession, SessionKeeper};
pub(crate) use watching::{LentReader, LentWatch};

mod connector;
mod session;
mod watching;

/// A server that has taken a connection may be something else.
const UNANSWERED: &str = "connected, but there is no answer yet; is this the right port?";

/// What its users hold of a connection. Clones share it.
pub(crate) struct Lent<L> {
    live: watch::Receiver<Option<Arc<L>>>,
    status: StatusSender,
    name: ConnectionName,
    request_timeout: Duration,
    /// For watches that begin: each takes one.
    beginnings: Arc<Semaphore>,
}

/// Which connection it is, for the operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionName {
    pub(crate) store: &'static str,
    /// The part of the store that it is for, if a store has several.
    pub(crate) module: Option<&'static str>,
}

/// The connection was given up while somebody used it. The reason is in the status already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Lost;

/// What the task that keeps the connection holds of it.
#[derive(Debug)]
pub(crate) struct Lender<L> {
    sender: watch::Sender<Option<Arc<L>>>,
    lent: Lent<L>,
    /// Since when the connection of now is lent.
    since: Option<Instant>,
}

/// A connection that there is not yet.
fn lend<L>(name: ConnectionName, request_timeout: Duration, max_beginnings: usize) -> Lender<L> {
    let (sender, live) = watch::channel(None);
    let status = watch::Sender::new(RegistryStatus::new(false));
    let beginnings = Arc::new(Semaphore::new(max_beginnings));
    let lent = Lent { live, status, name, request_timeout, beginnings };
    Lender { sender, lent, since: None }
}

impl<L> Lent<L> {
    pub(crate) fn status(&self) -> watch::Receiver<RegistryStatus> {
        self.status.subscribe()
    }

    /// How long a request may take.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    /// The connection of now, if there is one.
    pub(crate) fn current(&self) -> Option<Arc<L>> {
        self.live.borrow().clone()
    }

    /// Waits until there is a connection. `None` if there will never be one again.
    pub(crate) async fn live(&self) -> Option<Arc<L>> {
        let mut live = self.live.clone();
        live.wait_for(Option::is_some).await.ok().and_then(|live| live.clone())
    }

    /// The same, but not for longer than a request may take.
    pub(crate) async fn live_within_timeout(&self) -> Option<Arc<L>> {
        timeout(self.request_timeout, self.live()).await.ok().flatten()
    }

    /// Waits until `live` has been given up.
    pub(crate) async fn lost(&self, live: &Arc<L>) {
        let is_other =
            |now: &Option<Arc<L>>| now.as_ref().is_none_or(|now| !Arc::ptr_eq(now, live));
        let mut receiver = self.live.clone();
        let _closed_counts_as_lost = receiver.wait_for(is_other).await;
    }

    /// Runs requests for as long as `live` is not given up.
    pub(crate) async fn while_live<T, E: From<Lost>>(
        &self,
        live: &Arc<L>,
        requests: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        tokio::select! {
            outcome = requests => outcome,
            () = self.lost(live) => Err(Lost.into()),
        }
    }

    /// Asks something once, for somebody who waits for it.
    ///
    /// # Errors
    /// There was no connection within the time of a request, it was lost meanwhile, or what the
    /// requests say.
    pub(crate) async fn ask_once<T, E: From<Lost> + Display>(
        &self,
        requests: impl AsyncFnOnce(Arc<L>) -> Result<T, E>,
    ) -> Result<T, Away> {
        let live = self.live_within_timeout().await.ok_or_else(|| self.away())?;
        let outcome = self.while_live(&live, requests(Arc::clone(&live))).await;
        outcome.map_err(|error| Away(error.to_string()))
    }

    /// Notes an error for the operator; true if it is not the one that was noted last.
    pub(crate) fn report(&self, error: &str) -> bool {
        self.status.send_if_modified(|status| {
            let is_new = status.last_error.as_deref() != Some(error);
            if is_new {
                status.last_error = Some(error.to_owned());
            }
            is_new
        })
    }

    /// Why the store cannot be asked now.
    pub(crate) fn away(&self) -> Away {
        let said = self.status.borrow().trouble().map(str::to_owned);
        Away(said.unwrap_or_else(|| format!("{} has not answered", self.name.store)))
    }
}

impl<L> Clone for Lent<L> {
    fn clone(&self) -> Self {
        Self {
            live: self.live.clone(),
            status: self.status.clone(),
            name: self.name,
            request_timeout: self.request_timeout,
            beginnings: Arc::clone(&self.beginnings),
        }
    }
}

impl<L> fmt::Debug for Lent<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("live", &self.live.borrow().is_some()).finish()
    }
}

impl<L> Lender<L> {
    /// Lends a connection that has answered; true if there was none before.
    pub(crate) fn give(&mut self, live: impl Into<Arc<L>>) -> bool {
        self.since = Some(Instant::now());
        self.sender.send_replace(Some(live.into()));
        self.lent.status.send_if_modified(|status| status.unanswered.take().is_some());
        note(&self.lent.status, true, None)
    }

    /// A server has taken the connection, and has not answered yet. Who gives up before anything
    /// has failed learns that.
    pub(crate) fn note_unanswered(&self, server: impl Display) {
        let ConnectionName { store, .. } = self.lent.name;
        self.lent.status.send_if_modified(|status| {
            status.unanswered = Some(format!("{store} at {server}: {UNANSWERED}"));
            true
        });
    }

    /// How long the connection is lent by now, if it is.
    pub(crate) fn lasted(&self) -> Option<Duration> {
        self.since.map(|since| since.elapsed())
    }

    /// Takes the connection back; returns how long it was lent, if it was.
    pub(crate) fn take_back(&mut self) -> Option<Duration> {
        self.sender.send_replace(None);
        let lasted = self.lasted();
        self.since = None;
        lasted
    }

    /// A connection, or a try to make one, has failed; says so once.
    fn handle_failure(&self, server: impl Display, error: &str) {
        let ConnectionName { store, module } = self.lent.name;
        let is_new = self.lent.report(&format!("{store} at {server}: {error}"));
        if note(&self.lent.status, false, None) || is_new {
            tracing::warn!(%server, module, %error, "{store} cannot be reached; what is known \
                                                     stays in use");
        }
    }
}

#[cfg(test)]
mod tests;
