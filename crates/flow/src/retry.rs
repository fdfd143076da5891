//! What a failure says about another try.

/// Whether a failed call may be made again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Retry {
    /// Nothing has begun: it is safe at once, on another endpoint.
    Safe,
    /// Nothing has begun: another endpoint may know better, but the same would say the same.
    Elsewhere,
    /// Nothing has begun, because the call could not be read or written: every endpoint would say
    /// the same, unless the call is written in another form.
    Rewritten,
    /// It may have been carried out; only an idempotent call may be made again.
    IfIdempotent,
    /// It would fail again.
    Never,
}

impl Retry {
    /// Whether the call may be offered to another endpoint as it is.
    #[must_use]
    pub const fn allows_another_endpoint(self) -> bool {
        matches!(self, Self::Safe | Self::Elsewhere)
    }

    /// What it says of one method: a call that may run twice goes elsewhere where another one is
    /// not made again. `is_idempotent` is asked only if that decides.
    #[must_use]
    pub fn for_method(self, is_idempotent: impl FnOnce() -> bool) -> Self {
        match self {
            Self::IfIdempotent if is_idempotent() => Self::Elsewhere,
            other => other,
        }
    }

    /// Whether it is certain that nobody has begun the call.
    #[must_use]
    pub const fn is_unbegun(self) -> bool {
        matches!(self, Self::Safe | Self::Elsewhere | Self::Rewritten)
    }

    /// Whether it is worth the caller's while to make the same call again.
    #[must_use]
    pub const fn is_worth_repeating(self) -> bool {
        matches!(self, Self::Safe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_that_may_run_twice_goes_on_after_it_may_have_run() {
        assert_eq!(Retry::IfIdempotent.for_method(|| true), Retry::Elsewhere);
        assert_eq!(Retry::IfIdempotent.for_method(|| false), Retry::IfIdempotent);
        for retry in [Retry::Safe, Retry::Elsewhere, Retry::Rewritten, Retry::Never] {
            assert_eq!(retry.for_method(|| panic!("nobody need know")), retry);
        }
    }

    #[test]
    fn what_may_go_elsewhere_was_not_begun() {
        let rows = [
            (Retry::Safe, true, true, true),
            (Retry::Elsewhere, true, true, false),
            (Retry::Rewritten, false, true, false),
            (Retry::IfIdempotent, false, false, false),
            (Retry::Never, false, false, false),
        ];
        for (retry, elsewhere, unbegun, repeating) in rows {
            assert_eq!(retry.allows_another_endpoint(), elsewhere, "{retry:?}");
            assert_eq!(retry.is_unbegun(), unbegun, "{retry:?}");
            assert_eq!(retry.is_worth_repeating(), repeating, "{retry:?}");
        }
    }
}
