//! How long to wait before the next attempt. The one type for all that is tried again: connecting,
//! watching a registry, registering.

use std::time::Duration;

use rand::Rng;

/// No wait is shorter, so that no configuration makes a tight loop.
const SHORTEST: Duration = Duration::from_millis(1);

/// No wait is longer, so that no sum of it and an instant is beyond what the clock can tell.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Doubling waits with jitter, so that a thousand agents do not come back in the same moment.
#[derive(Clone, Debug)]
pub struct Backoff {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits that begin at `min` and double up to `max`. A `max` below `min` counts as `min`, and
    /// more than a day as a day.
    #[must_use]
    pub fn new(min: Duration, max: Duration) -> Self {
        let min = min.clamp(SHORTEST, LONGEST);
        Self { min, max: max.clamp(min, LONGEST), next: min }
    }

    /// Begins again at the shortest wait: the last attempt was a success.
    pub fn reset(&mut self) {
        self.next = self.min;
    }

    /// As [`Backoff::reset`], if what was reached lived longer than the next wait would be. One
    /// that breaks at once is not a success.
    pub fn note_lifetime(&mut self, lifetime: Duration) {
        if self.next < lifetime {
            self.reset();
        }
    }

    /// The wait before the next attempt: half to all of the current step.
    #[must_use]
    pub fn next_wait(&mut self) -> Duration {
        let step = self.next;
        self.next = step.saturating_mul(2).min(self.max);
        jitter(step)
    }
}

/// Half to all of `duration`.
#[must_use]
pub fn jitter(duration: Duration) -> Duration {
    duration.mul_f64(rand::rng().random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn doubles_up_to_its_bound() {
        let mut backoff = Backoff::new(50 * MS, 300 * MS);
        for step in [50, 100, 200, 300, 300] {
            let wait = backoff.next_wait();
            assert!((step * MS / 2..=step * MS).contains(&wait), "{wait:?} at {step} ms");
        }
        backoff.reset();
        assert!(backoff.next_wait() <= 50 * MS);
    }

    #[test]
    fn no_wait_is_longer_than_a_day() {
        for (min, max) in [(Duration::MAX, Duration::MAX), (MS, Duration::MAX)] {
            let mut backoff = Backoff::new(min, max);
            for _ in 0..100 {
                assert!(backoff.next_wait() <= LONGEST);
            }
            assert!(LONGEST / 2 <= backoff.next_wait());
        }
    }

    #[test]
    fn only_what_lived_long_enough_begins_it_again() {
        let mut backoff = Backoff::new(10 * MS, 1000 * MS);
        let _ = (backoff.next_wait(), backoff.next_wait());
        backoff.note_lifetime(40 * MS);
        assert!(20 * MS <= backoff.next_wait(), "40 ms is no longer than the wait of 40 ms");
        backoff.note_lifetime(81 * MS);
        assert!(backoff.next_wait() <= 10 * MS);
    }

    #[test]
    fn odd_bounds_neither_spin_nor_overflow() {
        let mut backoff = Backoff::new(Duration::ZERO, Duration::ZERO);
        assert!(SHORTEST / 2 <= backoff.next_wait());
        let mut backoff = Backoff::new(Duration::MAX / 4, Duration::MAX / 4);
        let _ = (backoff.next_wait(), backoff.next_wait());
    }
}
