//! Who pauses: has calls, and gives no sign of life.
//!
//! Whoever answers calls gives signs of life all the time. One that is quiet for longer than its
//! answers are usually apart is asked for a sign, and pauses if the question stays open.

use std::time::{Duration, Instant};

/// How often those are looked at that pause, or of which nobody knows when they may.
pub const LOOK_STEP: Duration = Duration::from_millis(5);
/// Looks are so far apart at least.
const LEAST_STEP: Duration = Duration::from_millis(1);
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

/// Somebody who pauses gets a call as a trial after so long, then after twice as long each time,
/// up to the longest time: it may answer calls, and no questions.
const FIRST_TRIAL: Duration = Duration::from_secs(5);
const LONGEST_TRIAL: Duration = Duration::from_secs(60);

/// A pause that is under way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pause {
    /// When it began.
    pub since: Instant,
    trial_at: Instant,
    wait: Duration,
}

impl Pause {
    /// One that has begun then.
    #[must_use]
    pub fn begun(since: Instant) -> Self {
        Self { since, trial_at: since + FIRST_TRIAL, wait: FIRST_TRIAL }
    }

    /// Whether a call may go there as a trial.
    #[must_use]
    pub fn is_trial_due(&self, now: Instant) -> bool {
        self.trial_at <= now
    }

    /// A call goes there now: if it shows nothing, the next trial is due later.
    #[must_use]
    pub fn tried(self, now: Instant) -> Self {
        if !self.is_trial_due(now) {
            return self;
        }
        let wait = (self.wait * 2).min(LONGEST_TRIAL);
        Self { trial_at: now + wait, wait, ..self }
    }
}

/// What a look at somebody has shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PauseLook {
    /// Since when it pauses, if it does.
    pub since: Option<Instant>,
    /// When the next look may show something else.
    pub due: Instant,
}

impl PauseLook {
    /// It pauses since then.
    #[must_use]
    pub fn pauses(now: Instant, since: Instant) -> Self {
        Self { since: Some(since), due: now + LOOK_STEP }
    }

    /// It does not, and that may change at any time.
    #[must_use]
    pub fn works(now: Instant) -> Self {
        Self::works_until(now, now + LOOK_STEP)
    }

    /// It does not, and no look before then can show that it does.
    #[must_use]
    pub fn works_until(now: Instant, until: Instant) -> Self {
        Self { since: None, due: until.max(now + LEAST_STEP) }
    }

    /// It was heard then, and is not asked yet. It will be once it was quiet for long enough,
    /// which more calls make less.
    #[must_use]
    pub fn heard(now: Instant, heard_at: Instant) -> Self {
        match heard_at + QUIET {
            quiet_at if now < quiet_at => Self::works_until(now, quiet_at),
            _ => Self::works(now),
        }
    }
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

    /// Takes in what a look has shown, and returns whether somebody pauses now if that is news.
    pub fn look(&mut self, look: PauseLook) -> Option<bool> {
        let pauses = look.since.is_some();
        self.due = Some(look.due);
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
    fn a_pause_has_trials_further_and_further_apart() {
        let since = test_start();
        let mut pause = Pause::begun(since);
        assert_eq!(pause.tried(since + MS), pause, "calls that nobody else can take are none");
        let mut trials = Vec::new();
        for second in 0..200 {
            let now = since + second * 1000 * MS;
            if pause.is_trial_due(now) {
                pause = pause.tried(now);
                assert!(!pause.is_trial_due(now), "one call at a time");
                trials.push(second);
            }
        }
        assert_eq!(trials, [5, 15, 35, 75, 135, 195]);
        assert_eq!(pause.since, since);
    }

    #[test]
    fn a_pause_is_told_once_and_so_is_its_end() {
        let (now, mut watch) = (test_start(), PauseWatch::default());
        assert_eq!(watch.due(), None);
        let (works, pauses) = (PauseLook::works(now), PauseLook::pauses(now, now));
        assert_eq!(watch.look(works), None);
        assert_eq!(watch.due(), Some(now + LOOK_STEP));
        assert_eq!(watch.look(pauses), Some(true));
        assert_eq!(watch.look(pauses), None);
        assert!(watch.is_paused());
        assert_eq!(watch.look(works), Some(false));
        assert_eq!(watch.look(works), None);
    }

    /// Whoever is heard all the time is looked at half as often as who is quiet, and is asked to
    /// the millisecond.
    #[test]
    fn a_look_is_due_when_it_may_show_something() {
        let now = test_start() + 100 * MS;
        for (heard, due) in [(0, 10), (3, 7), (9, 1), (10, 5), (50, 5)] {
            let look = PauseLook::heard(now, now - heard * MS);
            assert_eq!((look.since, look.due - now), (None, due * MS), "heard {heard} ms ago");
        }
        assert_eq!(PauseLook::works_until(now, now).due, now + LEAST_STEP, "not again and again");
    }
}
