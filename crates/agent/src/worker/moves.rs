//! Connections that go to another worker.
//!
//! The work of a few connections is done with less time by one worker than by several
//! ([`flow::worker_count`]). Which workers are used changes with the load, and connections follow.
//!
//! Invariant: a connection goes between two requests. Nothing of it is left behind but what the
//! kernel has, which goes with its socket.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc::WeakUnboundedSender;
use tracing::debug;
use wire::{Assigned, Connection, Loads};

use super::{ListenerProtocol, ToWorker};

/// The way from one worker to the others.
#[derive(Clone)]
pub struct Moves {
    from: usize,
    loads: Loads,
    /// Of all workers. They end when the control thread is gone, whoever else knows them.
    inboxes: Arc<[WeakUnboundedSender<ToWorker>]>,
}

impl Moves {
    /// The way from the worker with this number.
    pub fn new(from: usize, loads: Loads, inboxes: Arc<[WeakUnboundedSender<ToWorker>]>) -> Self {
        Self { from, loads, inboxes }
    }

    /// No way: there is one worker.
    pub fn none() -> Self {
        Self::new(0, Loads::new(NonZeroUsize::MIN), Arc::default())
    }

    /// Whether connections have to leave the worker.
    #[inline]
    pub fn are_due(&self) -> bool {
        self.loads.has_leaving(self.from)
    }

    /// Gives a connection without TLS to a worker that is used, which goes on serving it by
    /// `protocol`. It comes back if none has to leave any more.
    pub fn send(
        &self,
        connection: Connection,
        protocol: Arc<dyn ListenerProtocol>,
    ) -> Option<Connection> {
        let Some(assigned) = self.loads.reassign(self.from) else { return Some(connection) };
        self.send_to(assigned, connection, protocol, Bytes::new());
        None
    }

    /// Gives one that was thought to be able to leave later, and is not, to the worker that has
    /// fewest. `start` is what was read of it. Both come back if it has been with the right one.
    pub fn settle(
        &self,
        connection: Connection,
        protocol: Arc<dyn ListenerProtocol>,
        start: Bytes,
    ) -> Option<(Connection, Bytes)> {
        let n_workers = self.inboxes.len();
        if n_workers <= self.loads.n_used() || connection.is_tls() {
            return Some((connection, start));
        }
        let assigned = self.loads.assign();
        if assigned.worker() == self.from {
            return Some((connection, start));
        }
        self.send_to(assigned, connection, protocol, start);
        None
    }

    fn send_to(
        &self,
        assigned: Assigned,
        connection: Connection,
        protocol: Arc<dyn ListenerProtocol>,
        start: Bytes,
    ) {
        let (facts, to) = (connection.facts(), assigned.worker());
        let inbox = self.inboxes.get(to).and_then(WeakUnboundedSender::upgrade);
        match (connection.detach(assigned), inbox) {
            (Ok(connection), Some(inbox)) => {
                drop(inbox.send(ToWorker::TakeOver(connection, protocol, start)));
            }
            (Ok(_), None) => debug!("{facts} is closed: the agent stops"),
            (Err(error), _) => debug!(%error, "{facts} was lost on its way to worker {to}"),
        }
    }
}
