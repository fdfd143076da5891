//! The short memory of an endpoint that has refused a call before anybody began it.
//!
//! Such an endpoint answers faster than any other, so every policy that looks at load or latency
//! would prefer it. It rests instead: first for [`FIRST`], then for twice as long each time it
//! refuses again, up to [`MAX`]. After a rest it gets one call, as a trial. One answer ends it all.
//!
//! Invariants:
//! - A rest is never longer than [`MAX`] and a quarter.
//! - At most one trial is begun per rest.

use std::time::{Duration, Instant};

use rand::Rng;

/// The first rest: long enough for the other side to say that it is leaving, or to come back.
const FIRST: Duration = Duration::from_millis(200);

/// The longest rest: what an endpoint that is back may wait for its first call while others work.
const MAX: Duration = Duration::from_secs(2);

/// Whether an endpoint rests, and until when.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rest {
    /// When the next trial may begin; `None` for an endpoint that takes calls as usual.
    until: Option<Instant>,
    /// The length of the last rest, before jitter.
    step: Duration,
    /// The call that shows whether the endpoint is back is under way.
    has_trial: bool,
}

impl Rest {
    /// Whether the endpoint has refused and not answered since.
    pub(crate) fn is_on(&self) -> bool {
        self.until.is_some()
    }

    /// Whether a call may go to the endpoint: it does not rest, or a trial is due.
    pub(crate) fn allows(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// A call was refused at `now`. Refusals of calls that were begun together count once.
    pub(crate) fn refused<R: Rng + ?Sized>(&mut self, now: Instant, rng: &mut R) {
        if !self.has_trial && !self.allows(now) {
            return;
        }
        self.has_trial = false;
        self.step = (self.step * 2).clamp(FIRST, MAX);
        // Callers that were refused in the same moment must not come back in the same moment.
        let rest = self.step.mul_f64(rng.random_range(0.75..1.25));
        self.until = now.checked_add(rest);
    }

    /// A call begins at `now`. If it is a trial, no second one begins for as long as a rest may last.
    pub(crate) fn begun(&mut self, now: Instant) {
        if self.is_on() && self.allows(now) {
            self.has_trial = true;
            self.until = now.checked_add(MAX);
        }
    }

    /// A call was answered.
    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    #[test]
    fn rests_grow_to_their_bound_and_end_with_an_answer() {
        let (mut rest, mut rng) = (Rest::default(), StdRng::seed_from_u64(1));
        let mut now = crate::test_start();
        let mut before = Duration::ZERO;
        for n in 0..10 {
            assert!(rest.allows(now));
            rest.refused(now, &mut rng);
            let length = rest.until.unwrap() - now;
            let expected = (FIRST * 2_u32.pow(n)).min(MAX);
            assert!((expected * 3 / 4..=expected * 5 / 4).contains(&length), "{length:?}");
            assert!(!rest.allows(now + length - Duration::from_nanos(1)));
            assert!(before <= MAX * 5 / 4);
            before = length;
            now += length;
        }
        rest.answered();
        assert!(!rest.is_on() && rest.allows(now));
        rest.refused(now, &mut rng);
        assert!(rest.until.unwrap() - now <= FIRST * 5 / 4, "it begins anew");
    }

    #[test]
    fn refusals_of_one_moment_count_once() {
        let (mut rest, mut rng) = (Rest::default(), StdRng::seed_from_u64(1));
        let now = crate::test_start();
        for _ in 0..100 {
            rest.refused(now, &mut rng);
        }
        assert!(rest.until.unwrap() - now <= FIRST * 5 / 4);
    }

    #[test]
    fn one_trial_a_rest() {
        let (mut rest, mut rng) = (Rest::default(), StdRng::seed_from_u64(1));
        let now = crate::test_start();
        rest.begun(now);
        assert!(!rest.is_on(), "a call to an endpoint that takes calls is no trial");
        rest.refused(now, &mut rng);
        let later = now + MAX;
        assert!(rest.allows(later));
        rest.begun(later);
        assert!(!rest.allows(later), "the trial has begun");
        rest.refused(later, &mut rng);
        rest.refused(later, &mut rng);
        assert!(rest.until.unwrap() - later <= FIRST * 2 * 5 / 4, "its refusal counts once");
    }
}
