//! Sending a call once more in another form: in another serialization, without the types that a
//! definition shows, or with objects of other classes.
//!
//! Whether another form may help is for those to say who write the call. Whether it may be sent is
//! decided here.

use std::time::Instant;

use crate::Retry;

/// How often one call may still be rewritten, and until when.
#[derive(Clone, Copy, Debug)]
pub struct Rewrites {
    deadline: Instant,
    n_left: usize,
}

impl Rewrites {
    /// At most `max` further forms, until the call's deadline.
    #[must_use]
    pub const fn new(deadline: Instant, max: usize) -> Self {
        Self { deadline, n_left: max }
    }

    /// Whether a call that failed so may be sent in another form `now`; that form then counts.
    pub fn allow(&mut self, now: Instant, failure: Retry) -> bool {
        let is_allowed = failure.is_unbegun() && 0 < self.n_left && now <= self.deadline;
        self.n_left -= usize::from(is_allowed);
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_what_was_not_begun_is_rewritten() {
        let now = crate::test_start();
        for (failure, is_allowed) in [
            (Retry::Safe, true),
            (Retry::Elsewhere, true),
            (Retry::Rewritten, true),
            (Retry::IfIdempotent, false),
            (Retry::Never, false),
        ] {
            assert_eq!(Rewrites::new(now, 1).allow(now, failure), is_allowed, "{failure:?}");
        }
    }

    #[test]
    fn rewriting_ends_by_number_and_by_time() {
        let now = crate::test_start();
        let mut rewrites = Rewrites::new(now, 2);
        assert!(!rewrites.allow(now + Duration::from_nanos(1), Retry::Rewritten), "too late");
        assert!(rewrites.allow(now, Retry::Rewritten), "what was not allowed does not count");
        assert!(rewrites.allow(now, Retry::Rewritten));
        assert!(!rewrites.allow(now, Retry::Rewritten));
    }
}
