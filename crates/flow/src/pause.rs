//! Who pauses: has calls, and gives no sign of life.
//!
//! Whoever answers calls gives signs of life all the time. One that is quiet for longer than its
//! answers are usually apart is asked for a sign, and pauses if the question stays open.

use std::time::{Duration, Instant};

/// How often those that have calls are looked at.
pub const LOOK_STEP: Duration = Duration::from_millis(5);
/// Who was heard within this time is not asked.
const QUIET: Duration = Duration::from_millis(10);
/// Who is quiet for this many times as long as its answers are usually apart is asked.
const TIMES_APART: u32 = 2;

/// How long somebody may be quiet before it is asked. It has `in_flight` calls, and each of them
/// takes `usual`.
#[must_use]
pub fn patience(usual: Duration, in_flight: u32) -> Duration {
    QUIET.max(usual / in_flight.max(1) * TIMES_APART)
}

/// Looks whether somebody pauses, and says so once.
#[derive(Clone, Copy, Debug, Default)]
pub struct PauseWatch {
    due: Option<Instant>,
    is_paused: bool,
}

impl PauseWatch {
    /// When to look next. In the past after a time without calls.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether it has said last that somebody pauses.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Takes in whether somebody pauses now, and returns that if it is news.
    pub fn look(&mut self, now: Instant, pauses: bool) -> Option<bool> {
        self.due = now.checked_add(LOOK_STEP);
        let is_news = std::mem::replace(&mut self.is_paused, pauses) != pauses;
        is_news.then_some(pauses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_start;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nobody_is_asked_while_answers_may_come_anyway() {
        assert_eq!(patience(Duration::ZERO, 0), 10 * MS);
        assert_eq!(patience(50 * MS, 100), 10 * MS);
        assert_eq!(patience(50 * MS, 2), 50 * MS);
        assert_eq!(patience(50 * MS, 1), 100 * MS);
    }

    #[test]
    fn a_pause_is_told_once_and_so_is_its_end() {
        let (now, mut watch) = (test_start(), PauseWatch::default());
        assert_eq!(watch.due(), None);
        assert_eq!(watch.look(now, false), None);
        assert_eq!(watch.due(), Some(now + LOOK_STEP));
        assert_eq!(watch.look(now, true), Some(true));
        assert_eq!(watch.look(now, true), None);
        assert!(watch.is_paused());
        assert_eq!(watch.look(now, false), Some(false));
        assert_eq!(watch.look(now, false), None);
    }
}
