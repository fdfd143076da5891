//! Connections that have ended and are not closed yet.
//!
//! To close a socket costs a worker some twenty microseconds, most of them in the kernel. Where
//! thousands end at once, the calls of all others would wait for that. So a few are closed in each
//! turn of the event loop, and the calls that came meanwhile are served in between.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Ended;

/// Where the connections of one event loop go when they end. A clone is another handle to the
/// same.
#[derive(Clone, Debug, Default)]
pub struct Departures(Arc<DepartureQueue>);

#[derive(Debug, Default)]
struct DepartureQueue {
    /// As many as were open at most.
    waiting: Mutex<VecDeque<Ended>>,
    added: Notify,
}

impl Departures {
    /// Closes what has ended, for ever.
    pub async fn close_each(&self) {
        loop {
            let n_waiting = self.lock().len();
            for _ in 0..per_turn(n_waiting) {
                // Not while it is locked.
                let ended = self.lock().pop_front();
                drop(ended);
            }
            let is_empty = self.lock().is_empty();
            match is_empty {
                true => self.0.added.notified().await,
                // Sockets are looked at before this goes on.
                false => tokio::task::yield_now().await,
            }
        }
    }

    pub(crate) fn close(&self, ended: Ended) {
        self.lock().push_back(ended);
        self.0.added.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Ended>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many of `n_waiting` connections are closed in one turn of the event loop: a few, and of
/// a long queue more, so that it shrinks quickly, too.
fn per_turn(n_waiting: usize) -> usize {
    n_waiting.min(4 + n_waiting / 128)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::connection::Connection;

    #[tokio::test]
    async fn what_has_ended_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let departures = Departures::default();
        let (mut held, mut peers) = (Vec::new(), Vec::new());
        for _ in 0..10 {
            let mut connection =
                Connection::outgoing(TcpStream::connect(address).await.unwrap(), "test").unwrap();
            connection.close_by(&departures);
            held.push(connection);
            peers.push(listener.accept().await.unwrap().0);
        }
        held.clear();
        assert_eq!(departures.lock().len(), 10);
        let all_end = async {
            for mut peer in peers {
                assert_eq!(peer.read(&mut [0]).await.unwrap(), 0);
            }
        };
        tokio::select! {
            () = departures.close_each() => {}
            () = all_end => {}
        }
        assert!(departures.lock().is_empty());
    }
}
