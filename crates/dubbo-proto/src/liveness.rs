//! When to send a heartbeat, and when to give up on a silent peer.
//!
//! Nothing here is set again by each read or write: the next look at the clock stays where it is,
//! and finds out then whether it came too early. So a busy connection moves no timer.

use std::time::{Duration, Instant};

/// How many heartbeats without a byte from the peer end a connection. Dubbo's own factor.
const SILENT_HEARTBEATS: u32 = 3;

#[derive(Debug)]
pub(crate) struct Liveness {
    heartbeat: Duration,
    last_read: Instant,
    last_write: Instant,
    last_heartbeat: Instant,
    /// When the first heartbeat was sent of those to which nothing has come.
    unanswered_since: Option<Instant>,
    next_look: Instant,
}

/// What a look at the clock found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum LivenessAction {
    Nothing,
    SendHeartbeat,
    Silent(Duration),
}

impl Liveness {
    pub(crate) fn new(heartbeat: Duration, now: Instant) -> Self {
        let next_look = now + heartbeat;
        Self {
            heartbeat,
            last_read: now,
            last_write: now,
            last_heartbeat: now,
            unanswered_since: None,
            next_look,
        }
    }

    pub(crate) const fn heard(&mut self, now: Instant) {
        self.last_read = now;
        self.unanswered_since = None;
    }

    pub(crate) const fn wrote(&mut self, now: Instant) {
        self.last_write = now;
    }

    /// When something was read last.
    pub(crate) const fn heard_at(&self) -> Instant {
        self.last_read
    }

    /// A heartbeat is sent, in or out of turn.
    pub(crate) fn asked(&mut self, now: Instant) {
        // What has come at this instant may be the answer.
        if self.last_read < now {
            self.unanswered_since.get_or_insert(now);
        }
        self.last_heartbeat = now;
        self.last_write = now;
    }

    /// When the first heartbeat was sent of those to which nothing has come, if there are any.
    pub(crate) const fn unanswered_since(&self) -> Option<Instant> {
        self.unanswered_since
    }

    /// When a heartbeat was sent last.
    pub(crate) const fn asked_at(&self) -> Instant {
        self.last_heartbeat
    }

    pub(crate) const fn next_look(&self) -> Instant {
        self.next_look
    }

    /// A heartbeat is due when nothing was read, or nothing written, for one interval.
    pub(crate) fn look(&mut self, now: Instant) -> LivenessAction {
        if now < self.next_look {
            return LivenessAction::Nothing;
        }
        let silence = now.saturating_duration_since(self.last_read);
        let silence_limit = self.heartbeat * SILENT_HEARTBEATS;
        if silence_limit <= silence {
            return LivenessAction::Silent(silence);
        }
        let idle_since = self.last_read.min(self.last_write).max(self.last_heartbeat);
        let due = idle_since + self.heartbeat;
        let found = if due <= now {
            self.asked(now);
            LivenessAction::SendHeartbeat
        } else {
            LivenessAction::Nothing
        };
        let next_heartbeat = if due <= now { now + self.heartbeat } else { due };
        self.next_look = next_heartbeat.min(self.last_read + silence_limit);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::start;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn idle_connection_asks_twice_and_gives_up() {
        let now = start();
        let mut liveness = Liveness::new(SECOND, now);
        assert_eq!(liveness.next_look(), now + SECOND);
        assert_eq!(liveness.look(now + SECOND / 2), LivenessAction::Nothing);
        assert_eq!(liveness.look(now + SECOND), LivenessAction::SendHeartbeat);
        assert_eq!(liveness.next_look(), now + 2 * SECOND);
        assert_eq!(liveness.look(now + 2 * SECOND), LivenessAction::SendHeartbeat);
        assert_eq!(liveness.next_look(), now + 3 * SECOND);
        assert_eq!(liveness.look(now + 3 * SECOND), LivenessAction::Silent(3 * SECOND));
    }

    #[test]
    fn busy_connection_is_left_alone() {
        let now = start();
        let mut liveness = Liveness::new(SECOND, now);
        for n in 1..50 {
            let now = now + n * SECOND / 10;
            liveness.heard(now);
            liveness.wrote(now);
            assert_eq!(liveness.look(now), LivenessAction::Nothing);
            assert!(liveness.next_look() > now);
        }
    }

    #[test]
    fn a_question_is_open_until_something_is_heard() {
        let now = start();
        let mut liveness = Liveness::new(SECOND, now);
        assert_eq!(liveness.unanswered_since(), None);
        liveness.asked(now + SECOND / 2);
        assert_eq!(liveness.unanswered_since(), Some(now + SECOND / 2));
        assert_eq!(
            liveness.look(now + SECOND),
            LivenessAction::Nothing,
            "it counts as the heartbeat"
        );
        liveness.heard(now + SECOND);
        assert_eq!((liveness.unanswered_since(), liveness.heard_at()), (None, now + SECOND));
    }

    #[test]
    fn peer_that_only_listens_is_asked() {
        let now = start();
        let mut liveness = Liveness::new(SECOND, now);
        liveness.wrote(now + SECOND / 2);
        assert_eq!(liveness.look(now + SECOND), LivenessAction::SendHeartbeat);
        liveness.heard(now + SECOND * 3 / 2);
        assert_eq!(liveness.look(now + 2 * SECOND), LivenessAction::SendHeartbeat);
    }
}
