//! Faults that are injected into calls, to try out what their callers do then.

use std::time::Duration;

use rand::Rng;

/// Which faults are injected into how many calls.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FaultPolicy {
    /// How long calls are held up.
    pub delay: Duration,
    /// How many of a hundred are.
    pub delay_percent: u32,
    /// How many of a hundred fail.
    pub abort_percent: u32,
}

/// What is done to one call: first it is held up, then it fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fault {
    /// How long it is held up, if it is.
    pub delay: Option<Duration>,
    /// Whether it fails.
    pub is_aborted: bool,
}

impl FaultPolicy {
    /// What is done to a call. Both are drawn by themselves.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> Fault {
        let mut is_drawn = |percent: u32| rng.random_range(0..100) < percent;
        let is_delayed = is_drawn(self.delay_percent) && !self.delay.is_zero();
        let delay = is_delayed.then_some(self.delay);
        Fault { delay, is_aborted: is_drawn(self.abort_percent) }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn as_many_calls_as_wanted_get_faults() {
        let mut rng = StdRng::seed_from_u64(7);
        let delay = Duration::from_millis(5);
        let mut shares = |delay_percent, abort_percent| {
            let policy = FaultPolicy { delay, delay_percent, abort_percent };
            let drawn: Vec<Fault> = (0..10_000).map(|_| policy.draw(&mut rng)).collect();
            let n_delayed = drawn.iter().filter(|it| it.delay == Some(delay)).count();
            (n_delayed, drawn.iter().filter(|it| it.is_aborted).count())
        };
        assert_eq!((shares(0, 0), shares(100, 100)), ((0, 0), (10_000, 10_000)));
        let (n_delayed, n_aborted) = shares(20, 1);
        assert!((1800..2200).contains(&n_delayed) && (50..200).contains(&n_aborted));
        assert_eq!(FaultPolicy::default().draw(&mut rng), Fault { delay: None, is_aborted: false });
    }
}
