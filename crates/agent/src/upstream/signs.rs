//! What a connection shows of its peer, by the signs of life that came and the questions for one.

use std::time::{Duration, Instant};

use balance::Evidence;

/// A peer that was heard this lately need not be asked whether it answers.
const FRESH: Duration = Duration::from_secs(1);
/// A peer that leaves a question open this long does not answer: more than any pause that callers
/// would not notice themselves.
const SILENCE: Duration = Duration::from_secs(3);

/// What a connection knows of its peer's signs of life.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    /// When the last one came.
    pub heard_at: Instant,
    /// When the question was sent that is not answered, if there is one.
    pub unanswered_since: Option<Instant>,
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
        self.unanswered_since.is_none() && FRESH <= now.saturating_duration_since(self.heard_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_stays_open_means_silence() {
        let start = Instant::now();
        let asked = Signs { heard_at: start, unanswered_since: Some(start) };
        let moment = Duration::from_nanos(1);
        assert_eq!(asked.evidence(start + SILENCE - moment), Evidence::Answers);
        assert_eq!(asked.evidence(start + SILENCE), Evidence::Silent);
        // Without a question nobody is silent, however long ago it was heard.
        let heard = Signs { unanswered_since: None, ..asked };
        assert_eq!(heard.evidence(start + 10 * SILENCE), Evidence::Answers);
    }

    #[test]
    fn a_peer_is_asked_once_and_only_if_it_was_not_heard_lately() {
        let start = Instant::now();
        let heard = Signs { heard_at: start, unanswered_since: None };
        assert!(!heard.need_a_question(start + FRESH - Duration::from_nanos(1)));
        assert!(heard.need_a_question(start + FRESH));
        let asked = Signs { unanswered_since: Some(start + FRESH), ..heard };
        assert!(!asked.need_a_question(start + 2 * FRESH));
    }
}
