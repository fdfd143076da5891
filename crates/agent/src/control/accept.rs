//! Accepts connections and hands each to the worker that has fewest, so that four connections use
//! four workers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpListener;
use tracing::{debug, warn};

use super::WorkerHandle;
use crate::metrics::ConnectionStats;
use crate::worker::{Accepted, Load, ToWorker};

/// How long accepting rests when the process has run out of file descriptors or memory.
const REST: Duration = Duration::from_millis(50);

/// One listener.
pub(super) struct Acceptor<F> {
    pub(super) listener: TcpListener,
    pub(super) workers: Vec<WorkerHandle>,
    pub(super) stats: Arc<ConnectionStats>,
    pub(super) max_connections: usize,
    pub(super) to_worker: F,
}

impl<F: Fn(Accepted) -> ToWorker> Acceptor<F> {
    /// Accepts for ever.
    pub(super) async fn run(self) {
        let mut is_full = false;
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) if is_about_one_connection(&error) => {
                    debug!(%error, "a connection was lost before it was accepted");
                    continue;
                }
                Err(error) => {
                    warn!(%error, "cannot accept connections; trying again");
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            let has_room = usize::try_from(self.stats.n_open())
                .is_ok_and(|n_open| n_open < self.max_connections);
            if !has_room {
                self.stats.refused();
                if !is_full {
                    let limit = self.max_connections;
                    warn!(limit, "too many connections; further ones are closed at once");
                }
            } else if let Ok(stream) = stream.into_std() {
                self.hand_over(stream);
            }
            is_full = !has_room;
        }
    }

    fn hand_over(&self, stream: std::net::TcpStream) {
        let fewest = self.workers.iter().min_by_key(|worker| worker.load.load(Ordering::Relaxed));
        let Some(worker) = fewest else { return };
        let accepted =
            Accepted { stream, open: self.stats.accepted(), load: Load::add(&worker.load) };
        let _ = worker.inbox.send((self.to_worker)(accepted));
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
