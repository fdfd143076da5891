//! What one side of a link allows itself and its peer.

use crate::features;
use crate::header::{
    MAX_MESSAGE_LEN, MAX_NAME_LEN, MAX_ROUTES, MAX_STREAM_WINDOW, MAX_WINDOW, MIN_STREAM_WINDOW,
};
use std::time::Duration;

/// Limits and times of one side of a link. Values beyond a stated bound count as that bound.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who this side is, told to the peer; at most 1024 bytes, the rest is cut off.
    pub name: String,
    /// Longest payload that this side accepts, in bytes; at most 1 GiB.
    pub max_message_len: u32,
    /// Server: the window it grants at first. Client: most calls it will have in flight, whatever
    /// the server grants. 1 to 65536.
    pub window: u32,
    /// Server: most routes a client may define. At most 65536.
    pub max_routes: u32,
    /// When this many bytes wait to be written, a client refuses new calls and a server asks its
    /// driver to stop reading. One message may go over it.
    pub max_buffered_bytes: usize,
    /// Sum of the announced lengths of all messages that are being put together; a message that
    /// does not fit is refused, alone. At least `max_message_len`, or no such message could come.
    pub max_reassembly_bytes: usize,
    /// After this long without a byte from the peer a PING is sent. As the next three, from 1 ms
    /// to a day.
    pub keepalive: Duration,
    /// How long an unanswered PING may take until the peer counts as dead.
    pub ping_timeout: Duration,
    /// How long the peer's HELLO may take.
    pub handshake_timeout: Duration,
    /// Server: how long the parts of one request may take to come; its own deadline may be sooner.
    /// What came of a request that is late is freed.
    pub assembly_timeout: Duration,
    /// Features of this side, told to the peer: bits of [`features`]. Not [`features::LZ4`] by
    /// default.
    pub features: u64,
    /// Bytes of items, with 16 for each frame, that the peer may send on one stream before this
    /// side's app has taken some. 16 KiB to 16 MiB.
    pub stream_window: u32,
    /// Tells what compression costs, such as the thread's CPU time; `None`: nobody wants to know.
    pub cpu_clock: Option<fn() -> Duration>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: String::new(),
            max_message_len: 8 << 20,
            window: 1024,
            max_routes: 4096,
            max_buffered_bytes: 4 << 20,
            max_reassembly_bytes: 64 << 20,
            keepalive: Duration::from_secs(5),
            ping_timeout: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(10),
            assembly_timeout: Duration::from_secs(30),
            features: features::STREAMS,
            stream_window: 256 << 10,
            cpu_clock: None,
        }
    }
}

impl Config {
    /// The same with a PING after this much silence, and an end after three times as much.
    #[must_use]
    pub fn with_heartbeat(self, time: Duration) -> Self {
        Self { keepalive: time, ping_timeout: time.saturating_mul(2), ..self }
    }

    /// The same with every value inside its bound.
    pub(crate) fn bounded(mut self) -> Self {
        let cut = self.name.floor_char_boundary(MAX_NAME_LEN);
        self.name.truncate(cut);
        self.max_message_len = self.max_message_len.min(MAX_MESSAGE_LEN);
        self.window = self.window.clamp(1, MAX_WINDOW);
        self.stream_window = self.stream_window.clamp(MIN_STREAM_WINDOW, MAX_STREAM_WINDOW);
        self.max_routes = self.max_routes.min(MAX_ROUTES);
        // The upper bound keeps sums of instants and durations from overflowing.
        let Self { keepalive, ping_timeout, handshake_timeout, assembly_timeout, .. } = &mut self;
        for time in [keepalive, ping_timeout, handshake_timeout, assembly_timeout] {
            *time = (*time).clamp(Duration::from_millis(1), Duration::from_secs(86_400));
        }
        self.max_reassembly_bytes = self.max_reassembly_bytes.max(self.max_message_len as usize);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_beyond_their_bounds_are_cut() {
        let wild = Config {
            name: "é".repeat(600),
            max_message_len: u32::MAX,
            window: 0,
            max_routes: u32::MAX,
            max_reassembly_bytes: 0,
            stream_window: 0,
            keepalive: Duration::ZERO,
            ping_timeout: Duration::MAX,
            ..Config::default()
        };
        let config = wild.bounded();
        assert_eq!(config.name.len(), 1024);
        assert_eq!((config.window, config.max_routes), (1, MAX_ROUTES));
        assert_eq!(config.max_reassembly_bytes, 1 << 30);
        assert_eq!(config.stream_window, MIN_STREAM_WINDOW);
        assert_eq!(config.keepalive, Duration::from_millis(1));
        assert_eq!(config.ping_timeout, Duration::from_secs(86_400));
    }

    #[test]
    fn the_usual_heartbeat_ends_a_link_after_three_of_them() {
        let usual = Config::default();
        let config = usual.clone().with_heartbeat(Duration::from_secs(5));
        assert_eq!(config.keepalive, usual.keepalive);
        assert_eq!(config.ping_timeout, usual.ping_timeout);
    }
}
