//! How loaded a connection is by what it sends, as the kernel sees it.
//!
//! The socket takes messages for as long as its buffer has room, and says no more until half of
//! that is free again. How fast they leave it, and what holds them up, only the kernel knows.

use std::time::Duration;

use wire::TcpInfo;

/// What the kernel says of a connection.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct SendProgress {
    /// Bytes that the peer has confirmed.
    acked: u64,
    /// Bytes that wait to be sent.
    not_sent: u32,
    /// How long the peer has had no room for more, in microseconds.
    window_limited_us: u64,
}

impl SendProgress {
    /// `None` if the kernel does not say.
    pub(super) fn of(info: &TcpInfo) -> Option<Self> {
        Some(Self {
            acked: info.acked_bytes()?,
            not_sent: info.not_sent_bytes()?,
            window_limited_us: info.window_limited_us().unwrap_or_default(),
        })
    }

    /// Whether bytes wait to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.not_sent != 0
    }

    /// For how much of the `time` since `before` messages waited for those before them. A peer
    /// that takes nothing at all has stopped, and another connection to it would help nobody.
    pub(super) fn busy_since(&self, before: &Self, time: Duration) -> Duration {
        if self.acked <= before.acked {
            return Duration::ZERO;
        }
        if self.has_unsent() && before.has_unsent() {
            return time;
        }
        let limited_us = self.window_limited_us.saturating_sub(before.window_limited_us);
        Duration::from_micros(limited_us).min(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_in_the_kernel_counts_while_the_peer_takes_something() {
        let time = Duration::from_millis(100);
        let sending = |acked, not_sent, window_limited_us| SendProgress {
            acked,
            not_sent,
            window_limited_us,
        };
        let before = sending(1000, 50_000, 500_000);
        for (now, busy_ms) in [
            // Something was unsent all the time.
            (sending(2000, 40_000, 500_000), 100),
            // The peer has stopped.
            (sending(1000, 50_000, 600_000), 0),
            // All was sent; for some of the time the peer had no room.
            (sending(60_000, 0, 530_000), 30),
            (sending(60_000, 0, 500_000), 0),
            (sending(60_000, 0, 900_000), 100),
            // It is another connection.
            (sending(10, 0, 0), 0),
        ] {
            assert_eq!(now.busy_since(&before, time), Duration::from_millis(busy_ms), "{now:?}");
        }
    }
}
