//! What a server may be told.

use std::sync::Arc;
use std::time::Duration;

use link_proto::header::{MAX_MESSAGE_LEN, MAX_WINDOW};

use crate::error::{SetupError, check_setting};
use crate::observe::Observer;
use crate::traffic::{Compression, Traffic};

/// What a server allows its callers. A server with a setting out of its range does not listen.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Who this program is, told to clients; for logs, not for trust.
    pub name: String,
    /// TLS; without it bytes go as they are.
    #[cfg(feature = "tls")]
    pub tls: Option<crate::tls::ServerTls>,
    /// Most calls in flight on one connection; 1 to 65536.
    pub max_calls_per_connection: u32,
    /// Most calls in flight in all; those beyond are answered "overloaded" at once. At least 1.
    pub max_calls: usize,
    /// Most connections; those beyond are closed at once. At least 1.
    pub max_connections: usize,
    /// Longest request that is taken, in bytes; at most 1 GiB.
    pub max_message_len: u32,
    /// Bytes of unfinished long requests that one connection may hold; never less than
    /// `max_message_len`.
    pub max_reassembly_bytes: usize,
    /// How long the parts of one long request may take to come; its own deadline may be sooner.
    /// What came of a request that is late is freed.
    pub assembly_timeout: Duration,
    /// Whether clients may have compressed what they send and are sent. It costs the server CPU
    /// time, and memory: up to a MiB for each connection while requests are read.
    pub compression: Compression,
    /// No more requests are read from a connection while so many bytes wait to be written to it.
    /// At least 1.
    pub max_buffered_bytes: usize,
    /// Threads for blocking handlers, at least 1; they are started when they are needed.
    pub blocking_threads: usize,
    /// Calls that may wait for such a thread; those beyond are answered "overloaded" at once.
    pub max_waiting_blocking: usize,
    /// How long the handshakes of a new connection may take.
    pub handshake_timeout: Duration,
    /// After so long without a byte from a client it is asked for a sign of life. More than a day
    /// counts as a day, here and for `ping_timeout`.
    pub keepalive: Duration,
    /// How long that sign may take until the connection counts as dead.
    pub ping_timeout: Duration,
    /// Gets the events of calls.
    pub observer: Option<Arc<dyn Observer>>,
    /// Adds up what goes through the connections.
    pub traffic: Option<Arc<Traffic>>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            #[cfg(feature = "tls")]
            tls: None,
            max_calls_per_connection: 4096,
            max_calls: 65_536,
            max_connections: 10_000,
            max_message_len: 8 << 20,
            max_reassembly_bytes: 64 << 20,
            assembly_timeout: Duration::from_secs(30),
            compression: Compression::None,
            max_buffered_bytes: 4 << 20,
            blocking_threads: 64,
            max_waiting_blocking: 1024,
            handshake_timeout: Duration::from_secs(10),
            keepalive: Duration::from_secs(5),
            ping_timeout: Duration::from_secs(10),
            observer: None,
            traffic: None,
        }
    }
}

impl ServerConfig {
    /// Whether every setting is in its range.
    pub(crate) fn check(&self) -> Result<(), SetupError> {
        let window = self.max_calls_per_connection as usize;
        let at_least_1 = 1..=usize::MAX;
        for (key, value, range) in [
            ("ServerConfig::max_calls_per_connection", window, 1..=MAX_WINDOW as usize),
            ("ServerConfig::max_calls", self.max_calls, at_least_1.clone()),
            ("ServerConfig::max_connections", self.max_connections, at_least_1.clone()),
            ("ServerConfig::max_buffered_bytes", self.max_buffered_bytes, at_least_1.clone()),
            ("ServerConfig::blocking_threads", self.blocking_threads, at_least_1),
            (
                "ServerConfig::max_message_len",
                self.max_message_len as usize,
                0..=MAX_MESSAGE_LEN as usize,
            ),
        ] {
            check_setting(key, value, range)?;
        }
        Ok(())
    }

    /// The same for a connection's state machine.
    pub(crate) fn link(&self) -> link_proto::Config {
        link_proto::Config {
            name: self.name.clone(),
            max_message_len: self.max_message_len,
            window: self.max_calls_per_connection,
            max_buffered_bytes: self.max_buffered_bytes,
            max_reassembly_bytes: self.max_reassembly_bytes,
            assembly_timeout: self.assembly_timeout,
            keepalive: self.keepalive,
            ping_timeout: self.ping_timeout,
            handshake_timeout: self.handshake_timeout,
            features: self.compression.features(),
            cpu_clock: self.traffic.as_ref().and(Traffic::CPU_CLOCK),
            ..link_proto::Config::default()
        }
    }
}
