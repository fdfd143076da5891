//! When a call that an app's thread pool rejected is offered to the same app again.
//!
//! A thread of a Dubbo provider writes its answer before it is back in its pool, and a pool
//! without a queue rejects the call that comes in between. Nothing has begun then, and the thread
//! is back within a moment. A pool that is full for another reason must not be asked again and
//! again: such a reason lasts, while late threads belong to answers that have just come. So
//! answers pay for the repeats.
//!
//! Invariants:
//! - A call is repeated no more often than [`WAITS`] has entries, and never after its deadline.
//! - All calls together are repeated no more often than [`FIRST_BUDGET`], and [`PER_ANSWER`] times
//!   for each answer.

use std::time::{Duration, Instant};

/// How long to wait before each repeat. The way there and back gives a thread time enough mostly;
/// a busy machine takes longer.
const WAITS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(4),
    Duration::from_millis(8),
];
/// What an answer pays for. Its thread may be late by more than one wait.
const PER_ANSWER: u32 = 2;
/// Repeats that nobody has paid for.
const FIRST_BUDGET: u32 = 16;
/// The most that can be saved up: what a pool that is full for long is asked in vain.
const MAX_BUDGET: u32 = 64;

/// How often one call was repeated.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Repeats(u8);

/// What is left for the repeats of all calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RepeatBudget(u32);

impl Repeats {
    /// When the call is made again that was just rejected; `None` if it is not. It is paid for
    /// then.
    pub(crate) fn next(
        &mut self,
        now: Instant,
        deadline: Instant,
        budget: &mut RepeatBudget,
    ) -> Option<Instant> {
        let at = now + *WAITS.get(usize::from(self.0))?;
        if deadline <= at || !budget.take() {
            return None;
        }
        self.0 += 1;
        Some(at)
    }
}

impl RepeatBudget {
    /// Nobody has answered yet.
    pub(crate) const fn new() -> Self {
        Self(FIRST_BUDGET)
    }

    /// So many calls were answered.
    pub(crate) fn answered(&mut self, n: u32) {
        self.0 = n.saturating_mul(PER_ANSWER).saturating_add(self.0).min(MAX_BUDGET);
    }

    fn take(&mut self) -> bool {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or_default();
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_call_is_repeated_a_few_times_and_not_after_its_deadline() {
        let now = crate::test_start();
        let mut budget = RepeatBudget::new();
        let mut repeats = Repeats::default();
        let waits: Vec<Duration> =
            std::iter::from_fn(|| repeats.next(now, now + 500 * MS, &mut budget))
                .map(|at| at - now)
                .collect();
        assert_eq!(waits, WAITS);
        let mut short = Repeats::default();
        let n = std::iter::from_fn(|| short.next(now, now + 2 * MS, &mut budget)).count();
        assert_eq!(n, 2, "at once, and after a millisecond");
    }

    proptest! {
        /// Whatever comes in which order, answers pay for the repeats.
        #[test]
        fn repeats_are_bounded_by_answers(steps in vec((any::<bool>(), 0..100_u32), 0..500)) {
            let now = crate::test_start();
            let mut budget = RepeatBudget::new();
            let (mut n_answers, mut n_repeats) = (0, 0);
            for (is_answered, n) in steps {
                match is_answered {
                    true => {
                        budget.answered(n);
                        n_answers += n;
                    }
                    false => for _ in 0..n {
                        let again = Repeats::default().next(now, now + MS, &mut budget);
                        n_repeats += u32::from(again.is_some());
                    },
                }
                prop_assert!(n_repeats <= FIRST_BUDGET + PER_ANSWER * n_answers);
                prop_assert!(budget.0 <= MAX_BUDGET);
            }
        }
    }
}
