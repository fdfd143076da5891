//! What a connection shows of its peer, by the signs of life that came and the questions for one.

use std::time::{Duration, Instant};

use balance::Evidence;

/// A peer that was heard this lately need not be asked whether it answers.
const FRESH: Duration = Duration::from_secs(1);
/// A peer that leaves a question open this long does not answer: more than any pause that callers
/// would not notice themselves.
const SILENCE: Duration = Duration::from_secs(3);

/// A question may get lost, so that a peer is asked again: first after so long, then each time
/// after twice as long, up to the longest time.
const ASK_AGAIN: Duration = Duration::from_millis(100);
const LONGEST_ASK_AGAIN: Duration = Duration::from_secs(5);

/// What a connection knows of its peer's signs of life.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    /// When the last one came.
    pub heard_at: Instant,
    /// When the first question was sent of those that are not answered, if there are any.
    pub unanswered_since: Option<Instant>,
    /// When the last question was sent, where questions may get lost.
    pub asked_at: Option<Instant>,
}

impl Signs {
    /// Whether a connection with these signs of life counts as one that answers.
    pub(super) fn evidence(self, now: Instant) -> Evidence {
        let is_silent = |since| SILENCE <= now.saturating_duration_since(since);
        match self.unanswered_since.is_some_and(is_silent) {
            true => Evidence::Silent,
            false => Evidence::Answers,
        }
    }

    /// Whether the peer, which has calls, is to be asked if it pauses.
    pub(super) fn hint_at_a_pause(self, now: Instant, quiet: Duration) -> bool {
        self.unanswered_since.is_none() && quiet <= now.saturating_duration_since(self.heard_at)
    }

    /// Whether the peer is to be asked for another one.
    pub(super) fn need_a_question(self, now: Instant) -> bool {
        match self.unanswered_since {
            Some(since) => self.need_a_further_question(now, since),
            None => FRESH <= now.saturating_duration_since(self.heard_at),
        }
    }

    /// Whether the peer, which leaves questions open since then, is to be asked again.
    pub(super) fn need_a_further_question(self, now: Instant, since: Instant) -> bool {
        self.asked_at.is_some_and(|asked_at| {
            let before = asked_at.saturating_duration_since(since);
            let wait = before.clamp(ASK_AGAIN, LONGEST_ASK_AGAIN);
            wait <= now.saturating_duration_since(asked_at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_stays_open_means_silence() {
        let start = Instant::now();
        let asked = Signs { heard_at: start, unanswered_since: Some(start), asked_at: Some(start) };
        let moment = Duration::from_nanos(1);
        assert_eq!(asked.evidence(start + SILENCE - moment), Evidence::Answers);
        assert_eq!(asked.evidence(start + SILENCE), Evidence::Silent);
        // Without a question nobody is silent, however long ago it was heard.
        let heard = Signs { unanswered_since: None, ..asked };
        assert_eq!(heard.evidence(start + 10 * SILENCE), Evidence::Answers);
    }

    #[test]
    fn a_peer_is_asked_if_it_was_not_heard_lately() {
        let start = Instant::now();
        let heard = Signs { heard_at: start, unanswered_since: None, asked_at: None };
        assert!(!heard.need_a_question(start + FRESH - Duration::from_nanos(1)));
        assert!(heard.need_a_question(start + FRESH));
    }

    /// How often it is asked in a time has a bound, and in a short time it is asked a few times.
    #[test]
    fn a_peer_that_leaves_a_question_open_is_asked_again_and_less_and_less() {
        let start = Instant::now();
        let mut signs =
            Signs { heard_at: start, unanswered_since: Some(start), asked_at: Some(start) };
        let mut asked = Vec::new();
        for ms in 0..20_000 {
            let now = start + Duration::from_millis(ms);
            if signs.need_a_question(now) {
                signs.asked_at = Some(now);
                asked.push(ms);
            }
        }
        assert_eq!(asked, [100, 200, 400, 800, 1600, 3200, 6400, 11_400, 16_400]);
        // Where no question is lost, one is enough.
        let sure = Signs { asked_at: None, ..signs };
        assert!(!sure.need_a_question(start + 100 * FRESH));
    }
}
