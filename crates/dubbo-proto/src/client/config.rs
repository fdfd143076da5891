//! What a connection toward a provider may hold, and for how long.

use std::time::{Duration, Instant};

use crate::DEFAULT_PAYLOAD_LIMIT;

/// Limits and times of a connection toward a provider.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClientConfig {
    /// A heartbeat is sent after this much silence; three times as much ends the connection.
    pub heartbeat: Duration,
    /// The provider is asked for a sign of life at once, and no call is taken before one has come
    /// or this time is over: for one in whose place something else may accept connections.
    pub asks_first: Option<Duration>,
    /// The longest body that the provider may send. The call of a longer one fails.
    pub max_body_len: usize,
    /// How long one answer may take to come, from its first byte to its last. A provider that
    /// takes longer loses its connection.
    pub body_timeout: Duration,
    /// The longest body that is sent as it is.
    pub max_request_len: usize,
    /// Calls that may wait for their reply at once.
    pub max_in_flight: usize,
    /// Bytes that may wait to be written before a request is refused. Short requests, of up to 4
    /// KiB, are taken until twice as many wait: who sends long ones leaves room for those who do
    /// not.
    pub max_buffered_bytes: usize,
    /// Whether the provider is told how much time a call has left, by the attachment `_TO`. A
    /// request that another consumer wrote is sent as it is all the same.
    pub tells_time_left: bool,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            // Dubbo's own.
            heartbeat: Duration::from_secs(60),
            asks_first: None,
            // A reply of exactly the payload limit may carry attachments beside it.
            max_body_len: DEFAULT_PAYLOAD_LIMIT + (64 << 10),
            // A body of the largest size on a line of 2 Mbit/s.
            body_timeout: Duration::from_secs(30),
            max_request_len: DEFAULT_PAYLOAD_LIMIT + (64 << 10),
            // Far over what 200 threads of a provider can work on.
            max_in_flight: 65_536,
            // Two of the longest requests, and room for many small ones.
            max_buffered_bytes: 2 * DEFAULT_PAYLOAD_LIMIT + (1 << 20),
            // As Dubbo: `enable-timeout-countdown` is off.
            tells_time_left: false,
        }
    }
}

/// When a call is given up.
#[derive(Clone, Copy, Debug)]
pub struct CallDeadline {
    /// When.
    pub at: Instant,
    /// Whether the provider is told how long that is, if it is told of any call.
    pub is_told: bool,
}

impl From<Instant> for CallDeadline {
    fn from(at: Instant) -> Self {
        Self { at, is_told: true }
    }
}
