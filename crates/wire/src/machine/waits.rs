//! How long a connection waits for its peer in the midst of a message.
//!
//! A message that has begun to come and is not whole holds up all that the peer sends after it,
//! and so does one that the socket does not take. The share of the time that a connection spends
//! like this is how loaded it is.

use std::time::{Duration, Instant};

/// A peer that sends, or takes, nothing for so long has stopped: its process or the network does,
/// not this connection. Longer than a round trip to the other side of the world.
const STOPPED: Duration = Duration::from_millis(300);

/// What a connection has waited for so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waits {
    /// For the rest of a message of which the beginning has come.
    pub rest: Wait,
    /// For room in the socket, with bytes at hand that are to be written.
    pub room: Wait,
}

impl Waits {
    /// How long it has waited until `now`, for either.
    #[must_use]
    pub fn total(&self, now: Instant) -> Duration {
        self.rest.total(now) + self.room.total(now)
    }
}

/// A clock that runs while something is waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait {
    before: Duration,
    since: Option<Instant>,
}

impl Wait {
    /// Something is waited for from `now` on, or has been for longer.
    #[inline]
    pub fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Something has come, or went, at `now`; `goes_on` if more of the same is waited for.
    #[inline]
    pub fn progress(&mut self, now: Instant, goes_on: bool) {
        if self.since.is_none() && !goes_on {
            return;
        }
        self.before = self.total(now);
        self.since = goes_on.then_some(now);
    }

    /// Whether something is waited for.
    #[cfg(test)]
    pub(super) fn is_going_on(&self) -> bool {
        self.since.is_some()
    }

    /// How long it has waited until `now`. A time in which the peer has stopped does not count:
    /// the total may then be less than it was before.
    #[must_use]
    pub fn total(&self, now: Instant) -> Duration {
        let waited =
            self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.before + if waited < STOPPED { waited } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_while_something_is_waited_for_and_the_peer_goes_on() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut wait = Wait::default();
        wait.progress(start, false);
        assert!(!wait.is_going_on());
        assert_eq!(wait.total(start + ms(50)), ms(0));
        wait.progress(start + ms(50), true);
        assert_eq!(wait.total(start + ms(60)), ms(10));
        wait.progress(start + ms(70), true);
        wait.progress(start + ms(90), false);
        assert_eq!(wait.total(start + ms(500)), ms(40));
        // The peer stops for a second.
        wait.begin(start + ms(500));
        wait.begin(start + ms(700));
        assert_eq!(wait.total(start + ms(500) + STOPPED), ms(40));
        wait.progress(start + ms(1500), true);
        wait.progress(start + ms(1510), false);
        assert_eq!(wait.total(start + ms(1510)), ms(50));
    }
}
