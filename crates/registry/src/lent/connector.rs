//! The task that keeps a store's connection: to one server at a time, to the next one when it
//! fails, with jittered waits.

use std::fmt::Display;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use wire::Backoff;

use crate::follow::new_backoff;

use super::{ConnectionName, Lender, Lent, lend};

/// A connection that lasted this long was good: the next try need not wait long.
pub(crate) const GOOD_AFTER: Duration = Duration::from_secs(5);

/// How a store connects.
pub(crate) trait Connector: Send + 'static {
    type Server: Display + Send + Sync + 'static;
    type Live: Send + Sync + 'static;

    /// Connects to a server, lends the connection out once it can be used, and returns why it is
    /// over. Limits the time that connecting takes.
    fn attempt(
        &mut self,
        server: &Self::Server,
        lender: &mut Lender<Self::Live>,
    ) -> impl Future<Output = String> + Send;
}

/// What is common to all connections of a store.
pub(crate) struct ConnectionTerms<S> {
    pub(crate) name: ConnectionName,
    /// At least one.
    pub(crate) servers: Vec<S>,
    /// What a user of the connection waits for it at most.
    pub(crate) request_timeout: Duration,
    /// How many watches may begin at the same time. An agent with hundreds of services has
    /// thousands: a server is not asked for all of them at once.
    pub(crate) max_beginnings: usize,
}

/// The task that keeps a connection, which ends with this.
#[derive(Debug)]
pub(crate) struct ConnectorTask(AbortHandle);

impl Drop for ConnectorTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts the task that connects, and connects again.
pub(crate) fn keep_connected<C: Connector>(
    connector: C,
    terms: ConnectionTerms<C::Server>,
    runtime: &Handle,
) -> (Lent<C::Live>, ConnectorTask) {
    let lender = lend(terms.name, terms.request_timeout, terms.max_beginnings);
    let lent = lender.lent.clone();
    let task = runtime.spawn(run(connector, terms.servers, lender));
    (lent, ConnectorTask(task.abort_handle()))
}

async fn run<C: Connector>(mut connector: C, servers: Vec<C::Server>, mut lender: Lender<C::Live>) {
    let mut rounds = Rounds::new(&servers);
    loop {
        let server = rounds.server();
        let error = connector.attempt(server, &mut lender).await;
        let lasted = lender.take_back();
        lender.handle_failure(server, &error);
        rounds.handle_end(lasted).await;
    }
}

/// In what order the members of a store are tried, and when.
struct Rounds<'a, S> {
    servers: &'a [S],
    next: usize,
    n_failed: usize,
    backoff: Backoff,
}

impl<'a, S> Rounds<'a, S> {
    /// Agents that start together spread over the members. There must be at least one.
    fn new(servers: &'a [S]) -> Self {
        let next = rand::random_range(0..servers.len());
        Self { servers, next, n_failed: 0, backoff: new_backoff() }
    }

    /// Whose turn it is.
    fn server(&self) -> &'a S {
        &self.servers[self.next % self.servers.len()]
    }

    /// A connection is over. Waits before the next try, except for members that have not been
    /// tried since one could be used. `lasted` is `None` for one that never could be.
    async fn handle_end(&mut self, lasted: Option<Duration>) {
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
