//! A connection to a store that one task keeps, and lends to many. The task is told apart from
//! its users: they never decide that the connection is broken.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use wire::Backoff;

use crate::definitions::Away;
use crate::follow::new_backoff;
use crate::status::{RegistryStatus, StatusSender, note};

/// A connection that lasted this long was good: the next try need not wait long.
const GOOD_AFTER: Duration = Duration::from_secs(5);

/// What its users hold of a connection. Clones share it.
pub(crate) struct Lent<L> {
    live: watch::Receiver<Option<Arc<L>>>,
    status: StatusSender,
    request_timeout: Duration,
}

/// The connection was given up while somebody used it. The reason is in the status already.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Lost;

/// What the task that keeps the connection holds of it.
#[derive(Debug)]
pub(crate) struct Lender<L> {
    sender: watch::Sender<Option<Arc<L>>>,
    lent: Lent<L>,
}

/// A connection that there is not yet. `request_timeout` is what a user waits for it at most.
pub(crate) fn lend<L>(request_timeout: Duration) -> (Lender<L>, Lent<L>) {
    let (sender, live) = watch::channel(None);
    let status = watch::Sender::new(RegistryStatus::new(false));
    let lent = Lent { live, status, request_timeout };
    (Lender { sender, lent: lent.clone() }, lent)
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

    /// Why the store's services cannot be listed now.
    pub(crate) fn away(&self) -> Away {
        let said = self.status.borrow().last_error.clone();
        Away(said.unwrap_or_else(|| "its services cannot be listed".to_owned()))
    }
}

impl<L> Clone for Lent<L> {
    fn clone(&self) -> Self {
        let Self { live, status, request_timeout } = self;
        Self { live: live.clone(), status: status.clone(), request_timeout: *request_timeout }
    }
}

impl<L> fmt::Debug for Lent<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lent").field("live", &self.live.borrow().is_some()).finish()
    }
}

impl<L> Lender<L> {
    /// Lends a connection that has answered; true if there was none before.
    pub(crate) fn give(&self, live: L) -> bool {
        self.give_shared(Arc::new(live))
    }

    /// The same, where the lender goes on to use it, too.
    pub(crate) fn give_shared(&self, live: Arc<L>) -> bool {
        self.sender.send_replace(Some(live));
        note(&self.lent.status, true, None)
    }

    /// Takes the connection back.
    pub(crate) fn take_back(&self) {
        self.sender.send_replace(None);
    }

    /// A connection, or a try to make one, has failed; says so once. `store` is the store's name.
    pub(crate) fn handle_failure(&self, store: &str, server: impl Display, error: impl Display) {
        if self.note_failure(store, &server, &error) {
            tracing::warn!(%server, %error, "{store} cannot be reached; the last known endpoints \
                                             stay in use");
        }
    }

    /// The same, where the caller says so if it is true.
    pub(crate) fn note_failure(
        &self,
        store: &str,
        server: impl Display,
        error: impl Display,
    ) -> bool {
        let is_new = self.lent.report(&format!("{store} at {server}: {error}"));
        note(&self.lent.status, false, None) || is_new
    }
}

/// In what order the members of a store are tried, and when.
pub(crate) struct Rounds<'a, S> {
    servers: &'a [S],
    next: usize,
    n_failed: usize,
    backoff: Backoff,
}

impl<'a, S> Rounds<'a, S> {
    /// Agents that start together spread over the members. There must be at least one.
    pub(crate) fn new(servers: &'a [S]) -> Self {
        let next = rand::random_range(0..servers.len());
        Self { servers, next, n_failed: 0, backoff: new_backoff() }
    }

    /// Whose turn it is.
    pub(crate) fn server(&self) -> &'a S {
        &self.servers[self.next % self.servers.len()]
    }

    /// A connection is over. Waits before the next try, except for members that have not been
    /// tried since one could be used. `lasted` is `None` for one that never could be.
    pub(crate) async fn handle_end(&mut self, lasted: Option<Duration>) {
        self.next += 1;
        match lasted {
            Some(lasted) => {
                self.n_failed = 0;
                if GOOD_AFTER <= lasted {
                    self.backoff.reset();
                }
            }
            None => {
                self.n_failed += 1;
                if !self.n_failed.is_multiple_of(self.servers.len()) {
                    return;
                }
            }
        }
        tokio::time::sleep(self.backoff.next_wait()).await;
    }
}
