//! The one accept loop: takes connections within the limits of a listener and of the process.
//!
//! Invariants:
//! - A listener never has more than `max_connections` open; further ones are closed at once.
//! - The file descriptors that the process keeps for itself are not given to those who connect.
//! - What callers can cause is logged at most once in [`LOG_INTERVAL`], with a count.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{debug, warn};

use self::accepting::Accepting;
use crate::connection::{Connection, Detached, DetachedSocket, Peer, Secured};
use crate::connection_counts::ConnectionCounts;
use crate::descriptors::Files;
use crate::listen_address::{BoundSocket, ListenAddress};

mod accepting;

/// How long accepting rests after the operating system refused to give a connection, most often
/// for lack of file descriptors: trying again at once would only use up a core.
const REST: Duration = Duration::from_millis(50);
/// The least time between two log lines about refused connections.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What a listener may take.
#[derive(Clone, Debug)]
pub struct ListenerLimits {
    /// Connections open at once.
    pub max_connections: usize,
    /// Where `max_connections` is set, for messages: `ingress.max_connections`.
    pub key: &'static str,
    /// The process's file descriptors.
    pub files: Files,
}

/// Accepts connections of one address.
#[derive(Debug)]
pub struct Listener {
    socket: Accepting,
    address: ListenAddress,
    carries: &'static str,
    limits: ListenerLimits,
    counts: Arc<ConnectionCounts>,
    secured: Option<Secured>,
    rest_until: Option<Instant>,
    refused: UnloggedRefusals,
}

/// Why a connection is closed as soon as it is accepted.
enum AcceptRefusal {
    Full,
    NoFiles,
}

impl Listener {
    /// A listener for connections that carry one protocol. Must be called on a runtime.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(
        socket: impl Into<BoundSocket>,
        carries: &'static str,
        limits: ListenerLimits,
        counts: Arc<ConnectionCounts>,
    ) -> io::Result<Self> {
        let socket = socket.into();
        let address = socket.address()?;
        let socket = Accepting::new(socket)?;
        let refused = UnloggedRefusals::default();
        Ok(Self {
            socket,
            address,
            carries,
            limits,
            counts,
            secured: None,
            rest_until: None,
            refused,
        })
    }

    /// The same, for clients that speak TLS: who serves a connection begins by
    /// `Connection::secure`.
    #[must_use]
    pub fn secured(self, secured: Option<Secured>) -> Self {
        Self { secured, ..self }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// The next connection that there is room for. Others are closed meanwhile.
    ///
    /// Nothing is lost if the future is dropped before it is ready.
    pub async fn accept(&mut self) -> Connection {
        loop {
            let detached = self.accept_detached().await;
            let facts = detached.facts();
            match detached.attach() {
                Ok(connection) => return connection,
                Err(error) => debug!(%error, "{facts} was lost as it was accepted"),
            }
        }
    }

    /// The same for another event loop.
    pub async fn accept_detached(&mut self) -> Detached {
        loop {
            if let Some(rest_until) = self.rest_until {
                tokio::time::sleep_until(rest_until.into()).await;
                self.rest_until = None;
            }
            let (socket, peer) = match self.socket.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.handle_error(&error);
                    continue;
                }
            };
            if let Err(refusal) = self.check(&socket) {
                self.refuse(&refusal, peer);
                continue;
            }
            let (secured, open) = (self.secured.clone(), self.counts.open());
            return Detached::accepted(socket, peer, self.carries, secured, open);
        }
    }

    fn check(&self, socket: &DetachedSocket) -> Result<(), AcceptRefusal> {
        let is_full = usize::try_from(self.counts.n_open())
            .map_or(true, |n_open| self.limits.max_connections <= n_open);
        if is_full {
            return Err(AcceptRefusal::Full);
        }
        if !self.limits.files.has_room_for(socket) {
            return Err(AcceptRefusal::NoFiles);
        }
        Ok(())
    }

    #[cold]
    fn refuse(&mut self, refusal: &AcceptRefusal, peer: Peer) {
        match refusal {
            AcceptRefusal::Full => self.counts.note_full(),
            AcceptRefusal::NoFiles => self.counts.note_no_files(),
        }
        let Some(n_refused) = self.refused.note(Instant::now()) else { return };
        let reason = Reason { refusal, limits: &self.limits };
        let carries = self.carries;
        warn!(carries, %peer, n_refused, "connections are closed as they are accepted: {reason}");
    }

    fn handle_error(&mut self, error: &io::Error) {
        if is_about_one_connection(error) {
            debug!(%error, "a connection was lost before it was accepted");
            return;
        }
        let now = Instant::now();
        self.rest_until = Some(now + REST);
        if let Some(n_failed) = self.refused.note(now) {
            warn!(carries = self.carries, %error, n_failed, "cannot accept connections; trying again");
        }
    }
}

struct Reason<'a> {
    refusal: &'a AcceptRefusal,
    limits: &'a ListenerLimits,
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListenerLimits { max_connections, key, files } = self.limits;
        match self.refusal {
            AcceptRefusal::Full => {
                write!(f, "{max_connections} are open, the limit of {key}; raise it")
            }
            AcceptRefusal::NoFiles => write!(
                f,
                "of the process's {} file descriptors, {} are reserved for endpoints, registries and \
                 files; raise the limit (ulimit -n, or LimitNOFILE of systemd)",
                files.limit(),
                files.reserved()
            ),
        }
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

/// Refused connections that no line of the log has told yet.
#[derive(Debug, Default)]
struct UnloggedRefusals {
    n_untold: u64,
    told_at: Option<Instant>,
}

impl UnloggedRefusals {
    /// One more. Gives how many a line should tell now, if it is time for one.
    fn note(&mut self, now: Instant) -> Option<u64> {
        self.n_untold += 1;
        let is_early =
            self.told_at.is_some_and(|told| now.saturating_duration_since(told) < LOG_INTERVAL);
        if is_early {
            return None;
        }
        self.told_at = Some(now);
        Some(std::mem::take(&mut self.n_untold))
    }
}

#[cfg(test)]
mod tests;
