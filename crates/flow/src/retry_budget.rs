//! How many further attempts there may be for all calls together.
//!
//! Invariant: of `n` calls there are at most [`FLOOR`] and `percent` in a hundred of `n` further
//! attempts, so that retries cannot multiply the load of a cluster that fails.

/// Further attempts that are allowed before any call has paid for them.
const FLOOR: u64 = 10;

/// The most that can be saved up, in attempts: a quiet hour must not pay for a storm.
const MAX_SAVED: u64 = 1000;

/// What an attempt costs. A call pays as many as the budget has percent.
const COST: u64 = 100;

/// What is left for further attempts.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    /// `None` if there is no limit.
    percent: Option<u32>,
    saved: u64,
}

impl RetryBudget {
    /// A budget of `percent` further attempts for a hundred calls; `None` means no limit, and 0
    /// none at all.
    #[must_use]
    pub const fn new(percent: Option<u32>) -> Self {
        let saved = if matches!(percent, Some(0)) { 0 } else { FLOOR * COST };
        Self { percent, saved }
    }

    /// What it was made of.
    #[must_use]
    pub const fn percent(&self) -> Option<u32> {
        self.percent
    }

    /// A call begins.
    #[inline]
    pub fn call(&mut self) {
        if let Some(percent) = self.percent {
            self.saved = (self.saved + u64::from(percent)).min(MAX_SAVED * COST);
        }
    }

    /// Whether a call may have a further attempt, which is paid for then.
    pub fn take(&mut self) -> bool {
        if self.percent.is_none() {
            return true;
        }
        let is_enough = COST <= self.saved;
        if is_enough {
            self.saved -= COST;
        }
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes in which order, retries stay a share of the calls.
        #[test]
        fn retries_are_bounded_by_calls(percent in 0..=100_u32, steps in vec(any::<bool>(), 0..2000)) {
            let mut budget = RetryBudget::new(Some(percent));
            let (mut n_calls, mut n_retries) = (0_u64, 0_u64);
            for is_call in steps {
                match is_call {
                    true => {
                        budget.call();
                        n_calls += 1;
                    }
                    false => n_retries += u64::from(budget.take()),
                }
                let floor = if percent == 0 { 0 } else { FLOOR };
                prop_assert!(n_retries * 100 <= floor * 100 + n_calls * u64::from(percent));
            }
        }
    }

    #[test]
    fn what_was_saved_is_bounded_and_no_limit_is_none() {
        let mut budget = RetryBudget::new(Some(100));
        (0..10 * MAX_SAVED).for_each(|_| budget.call());
        let n = (0..).take_while(|_| budget.take()).count();
        assert_eq!(n as u64, MAX_SAVED);
        let mut unlimited = RetryBudget::new(None);
        assert!((0..100_000).all(|_| unlimited.take()));
    }
}
