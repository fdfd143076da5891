//! What a store says of single interfaces, asked for one after the other while somebody waits.
//!
//! For stores that list interfaces and do not say which versions and groups they have, or which
//! applications offer them.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::directory::Presence;
use crate::on_demand::Progress;

/// Answers that are kept at a time, and interfaces that are waited for.
const MAX_LEN: usize = 1000;

/// How long an answer counts as it is.
const FRESH: Duration = Duration::from_secs(5);

/// Questions and answers. `T` is what the store says of an interface.
#[derive(Debug)]
pub(crate) struct Lookups<T> {
    answers: HashMap<Box<str>, (Instant, T)>,
    waiting: BTreeSet<Box<str>>,
}

impl<T> Default for Lookups<T> {
    fn default() -> Self {
        Self { answers: HashMap::new(), waiting: BTreeSet::new() }
    }
}

impl<T> Lookups<T> {
    /// Whether an interface is there as the caller wants it: `offers` reads that from an answer,
    /// which counts as long as the store does not deny it.
    pub(crate) fn presence(
        &self,
        interface: &str,
        now: Instant,
        progress: Progress,
        offers: impl FnOnce(&T) -> bool,
    ) -> Presence {
        match self.answers.get(interface) {
            Some((_, answer)) if offers(answer) => Presence::Offered,
            Some((at, _)) if now < *at + FRESH => progress.denied(),
            _ if progress == Progress::Stale || MAX_LEN <= self.waiting.len() => Presence::Unknown,
            _ => Presence::Asking,
        }
    }

    /// Somebody waits for an answer. Returns whether nobody did before.
    pub(crate) fn ask(&mut self, interface: &str) -> bool {
        self.waiting.insert(interface.into())
    }

    /// Whether nobody waits for an answer, and everything else was read.
    pub(crate) fn is_settled(&self, progress: Progress) -> bool {
        progress != Progress::Reading && self.waiting.is_empty()
    }

    /// An interface that somebody waits for.
    pub(crate) fn next(&self) -> Option<Box<str>> {
        self.waiting.first().cloned()
    }

    /// What the store says of an interface now.
    pub(crate) fn answer(&mut self, interface: Box<str>, at: Instant, answer: T) {
        if MAX_LEN <= self.answers.len() {
            self.answers.clear();
        }
        self.waiting.remove(&interface);
        self.answers.insert(interface, (at, answer));
    }

    /// The store is away: nobody waits any more. Answers stay. Returns whether that is new.
    pub(crate) fn set_stale(&mut self, progress: &mut Progress) -> bool {
        let is_new = *progress != Progress::Stale || !self.waiting.is_empty();
        *progress = Progress::Stale;
        self.waiting.clear();
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_for_a_time_and_what_was_offered_for_longer() {
        let now = Instant::now();
        let mut lookups = Lookups::default();
        let presence = |lookups: &Lookups<bool>, at, progress| {
            lookups.presence("a.B", at, progress, |is_offered| *is_offered)
        };
        assert_eq!(presence(&lookups, now, Progress::Current), Presence::Asking);
        assert!(
            lookups.ask("a.B") && !lookups.ask("a.B") && !lookups.is_settled(Progress::Current)
        );
        assert_eq!(lookups.next().as_deref(), Some("a.B"));
        lookups.answer("a.B".into(), now, false);
        assert!(lookups.is_settled(Progress::Current) && !lookups.is_settled(Progress::Reading));
        assert_eq!(presence(&lookups, now, Progress::Current), Presence::Absent);
        assert_eq!(presence(&lookups, now, Progress::Stale), Presence::Unknown);
        assert_eq!(presence(&lookups, now + FRESH, Progress::Current), Presence::Asking);
        assert_eq!(presence(&lookups, now + FRESH, Progress::Stale), Presence::Unknown);
        lookups.answer("a.B".into(), now, true);
        assert_eq!(presence(&lookups, now + FRESH, Progress::Stale), Presence::Offered);
    }

    #[test]
    fn nobody_waits_for_a_store_that_is_away() {
        let (mut lookups, mut progress) = (Lookups::<bool>::default(), Progress::Current);
        lookups.ask("a.B");
        assert!(lookups.set_stale(&mut progress) && lookups.is_settled(progress));
        assert_eq!(progress, Progress::Stale);
        assert!(!lookups.set_stale(&mut progress));
        lookups.ask("a.B");
        assert!(lookups.set_stale(&mut progress));
    }

    #[test]
    fn questions_and_answers_are_bounded() {
        let now = Instant::now();
        let mut lookups = Lookups::default();
        for nth in 0..MAX_LEN {
            assert!(lookups.ask(&format!("made.Up{nth}")));
        }
        let presence = |lookups: &Lookups<bool>| {
            lookups.presence("a.B", now, Progress::Current, |is_offered| *is_offered)
        };
        assert_eq!(presence(&lookups), Presence::Unknown);
        while let Some(next) = lookups.next() {
            lookups.answer(next, now, false);
        }
        lookups.answer("a.B".into(), now, true);
        assert_eq!((lookups.answers.len(), presence(&lookups)), (1, Presence::Offered));
    }
}
