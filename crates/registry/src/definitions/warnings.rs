//! What was said of a state, so that it is said again only when it changes. Pure.

use std::collections::BTreeSet;

/// The warnings about one state: as many as it has parts that are looked at.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    before: BTreeSet<String>,
    now: BTreeSet<String>,
}

impl Warnings {
    /// Something is wrong. Returns whether that is to be said: not if it was so before.
    #[must_use]
    pub(super) fn is_news(&mut self, what: &str) -> bool {
        self.now.insert(what.to_owned()) && !self.before.contains(what)
    }

    /// All of the state was looked at.
    pub(super) fn handle_end(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_wrong_is_said_once_and_what_comes_back_again() {
        let mut said = Warnings::default();
        let mut look = |wrong: &[&str]| {
            let news = wrong.iter().filter(|what| said.is_news(what)).count();
            said.handle_end();
            news
        };
        assert_eq!(look(&["a", "b"]), 2);
        assert_eq!(look(&["b", "a", "a"]), 0);
        assert_eq!(look(&["a", "c"]), 1);
        assert_eq!(look(&[]), 0);
        assert_eq!(look(&["a"]), 1);
    }
}
