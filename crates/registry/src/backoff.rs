//! How long to wait before the next try.

use std::time::Duration;

use rand::Rng;

/// The first wait. A server that restarts is back in about this time.
const FIRST: Duration = Duration::from_millis(50);

/// The longest wait: an operator who has repaired the registry wants to see it used at once.
const MAX: Duration = Duration::from_secs(5);

/// Doubling waits with jitter, so that a thousand agents do not come back in the same moment.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Backoff {
    /// After a success.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// The wait before the next try: half to all of the current step.
    pub(crate) fn next(&mut self) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(MAX);
        jitter(step)
    }
}

/// Half to all of `duration`.
pub(crate) fn jitter(duration: Duration) -> Duration {
    duration.mul_f64(rand::rng().random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_to_its_bound() {
        let mut backoff = Backoff::default();
        assert!((FIRST / 2..=FIRST).contains(&backoff.next()));
        for _ in 0..20 {
            assert!(backoff.next() <= MAX);
        }
        assert!(MAX / 2 <= backoff.next());
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
