//! What a client may be told.

use std::sync::Arc;
use std::time::Duration;

use link_proto::header::{MAX_MESSAGE_LEN, MAX_WINDOW};

use crate::error::{SetupError, check_setting};
use crate::observe::Observer;
use crate::traffic::{Compression, Traffic};

/// How a client connects, and what it allows itself. Limits are per connection. A client with a
/// setting out of its range is not made.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Who this program is, told to the server; for logs, not for trust.
    pub name: String,
    /// How many connections there are.
    pub connections: Connections,
    /// TLS; without it bytes go as they are.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::ClientTls>,
    /// Codec number for all methods that know it; 0 leaves each method its own preference.
    pub codec: u8,
    /// Time of a call that does not say it itself. `None`: calls wait until the connection ends.
    /// Zero: calls fail at once.
    pub timeout: Option<Duration>,
    /// Most calls in flight; the server may allow fewer. 1 to 65536.
    pub max_calls: u32,
    /// Calls are not sent while so many bytes wait to be written; at least 1.
    pub max_bytes: usize,
    /// What becomes of a call for which there is no room.
    pub when_full: WhenFull,
    /// What becomes of a call while the server cannot be reached.
    pub when_down: WhenDown,
    /// Most calls that wait for room or for a connection, and the bytes of their arguments.
    pub max_waiting_calls: usize,
    /// See [`ClientConfig::max_waiting_calls`].
    pub max_waiting_bytes: usize,
    /// Longest reply that is taken, in bytes; at most 1 GiB.
    pub max_message_len: u32,
    /// Whether to compress what is sent and have the server do the same, where it allows that and
    /// where it is worth it.
    pub compression: Compression,
    /// How long connecting may take, name resolution and handshakes included. The link's own
    /// handshake may take a day at most.
    pub connect_timeout: Duration,
    /// Pause before the second attempt to connect; each further one doubles it, up to the next.
    pub min_backoff: Duration,
    /// Longest pause between two attempts; more than a day counts as a day.
    pub max_backoff: Duration,
    /// After so long without a byte from the server it is asked for a sign of life. More than a
    /// day counts as a day, here and for `ping_timeout`.
    pub keepalive: Duration,
    /// How long that sign may take until the connection counts as dead.
    pub ping_timeout: Duration,
    /// Gets the events of calls.
    pub observer: Option<Arc<dyn Observer>>,
    /// Adds up what goes through the connections.
    pub traffic: Option<Arc<Traffic>>,
}

/// How many connections a client keeps to its server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Connections {
    /// So many, from the beginning; 1 to 64.
    Fixed(usize),
    /// One, and another whenever calls keep waiting to be written on all of them; up to `max`.
    Auto {
        /// Most connections; 1 to 64.
        max: usize,
    },
}

/// What becomes of a call for which there is no room.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WhenFull {
    /// It waits until there is room, or its time is over.
    Wait,
    /// It fails at once.
    Reject,
}

/// What becomes of a call while the server cannot be reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WhenDown {
    /// It waits for a connection, or until its time is over.
    Wait,
    /// It fails at once if the last attempt to connect has failed.
    Fail,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            connections: Connections::Auto { max: 4 },
            #[cfg(feature = "tls")]
            tls: None,
            codec: 0,
            timeout: Some(Duration::from_secs(10)),
            max_calls: 4096,
            max_bytes: 4 << 20,
            when_full: WhenFull::Wait,
            when_down: WhenDown::Wait,
            max_waiting_calls: 65_536,
            max_waiting_bytes: 64 << 20,
            max_message_len: 8 << 20,
            compression: Compression::None,
            connect_timeout: Duration::from_secs(5),
            min_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(5),
            keepalive: Duration::from_secs(5),
            ping_timeout: Duration::from_secs(10),
            observer: None,
            traffic: None,
        }
    }
}

impl ClientConfig {
    /// The same for the connection's state machine.
    #[must_use]
    pub fn link(&self) -> link_proto::Config {
        link_proto::Config {
            name: self.name.clone(),
            max_message_len: self.max_message_len,
            window: self.max_calls,
            max_buffered_bytes: self.max_bytes,
            max_reassembly_bytes: (self.max_message_len as usize).saturating_mul(8),
            keepalive: self.keepalive,
            ping_timeout: self.ping_timeout,
            handshake_timeout: self.connect_timeout,
            features: self.compression.features(),
            cpu_clock: self.traffic.as_ref().and(Traffic::CPU_CLOCK),
            ..link_proto::Config::default()
        }
    }

    /// Most connections.
    pub(crate) fn max_connections(&self) -> usize {
        match self.connections {
            Connections::Fixed(n) | Connections::Auto { max: n } => n,
        }
    }

    /// Whether every setting is in its range.
    pub(crate) fn check(&self) -> Result<(), SetupError> {
        let (max_calls, max_message_len) = (self.max_calls, self.max_message_len);
        for (key, value, range) in [
            ("ClientConfig::connections", self.max_connections(), 1..=MAX_CONNECTIONS),
            ("ClientConfig::max_calls", max_calls as usize, 1..=MAX_WINDOW as usize),
            ("ClientConfig::max_bytes", self.max_bytes, 1..=usize::MAX),
            (
                "ClientConfig::max_message_len",
                max_message_len as usize,
                0..=MAX_MESSAGE_LEN as usize,
            ),
        ] {
            check_setting(key, value, range)?;
        }
        Ok(())
    }
}

/// More connections to one server than this are a mistake.
const MAX_CONNECTIONS: usize = 64;
