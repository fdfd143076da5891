//! What a connection from a consumer may do and take.

use std::time::Duration;

use crate::{BodyLimits, DEFAULT_PAYLOAD_LIMIT};

/// Limits and times of a connection from a consumer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ServerConfig {
    /// A heartbeat is sent after this much silence; three times as much ends the connection.
    pub heartbeat: Duration,
    /// The longest body that the consumer may send. A longer one is refused and stepped over.
    pub max_body_len: usize,
    /// How long one request may take to come, from its first byte to its last. A consumer that
    /// takes longer loses its connection.
    pub body_timeout: Duration,
    /// The longest body of a reply.
    pub payload_limit: usize,
    /// Requests that may wait for their reply at once. One more is refused with
    /// [`Status::ServerThreadpoolExhausted`](crate::Status::ServerThreadpoolExhausted).
    pub max_in_flight: usize,
    /// Bytes that may wait to be written. A consumer that asks and never reads loses its
    /// connection here.
    pub max_buffered_bytes: usize,
    /// Bounds on what a body may hold.
    pub body: BodyLimits,
    /// Whether requests come as [`ServerEvent::Body`](crate::ServerEvent::Body), not looked into.
    pub pass_through: bool,
}

/// A request of exactly the payload limit may carry so much beside it.
const ATTACHMENTS_LEN: usize = 64 << 10;

impl ServerConfig {
    /// With another limit for bodies in both directions: the provider's `payload`.
    #[must_use]
    pub fn with_payload_limit(payload_limit: usize) -> Self {
        let max_body_len = payload_limit.saturating_add(ATTACHMENTS_LEN);
        Self { max_body_len, payload_limit, ..Self::default() }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(60),
            max_body_len: DEFAULT_PAYLOAD_LIMIT + ATTACHMENTS_LEN,
            // A body of the largest size on a line of 2 Mbit/s.
            body_timeout: Duration::from_secs(30),
            payload_limit: DEFAULT_PAYLOAD_LIMIT,
            max_in_flight: 65_536,
            // Eight of the longest replies.
            max_buffered_bytes: 8 * DEFAULT_PAYLOAD_LIMIT,
            body: BodyLimits::default(),
            pass_through: false,
        }
    }
}
