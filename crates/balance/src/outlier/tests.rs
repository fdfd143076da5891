//! Ejections of one endpoint, event by event.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn rng() -> StdRng {
    StdRng::seed_from_u64(1)
}

/// One endpoint, and whose calls end at once.
struct Endpoint {
    outlier: Outlier,
    policy: OutlierPolicy,
    now: Instant,
}

impl Endpoint {
    fn new(policy: OutlierPolicy) -> Self {
        Self { outlier: Outlier::default(), policy, now: crate::test_start() }
    }

    /// A call that ends at once, a little after the one before.
    fn call(&mut self, verdict: Verdict) -> EjectionChange {
        self.now += MOMENT;
        let began_out = self.outlier.begun(&self.policy, self.now);
        self.end(verdict, began_out)
    }

    fn end(&mut self, verdict: Verdict, began_out: bool) -> EjectionChange {
        let call = EndedCall { verdict, began_out };
        self.outlier.ended(&self.policy, self.now, call, true, rng)
    }

    /// Lets the time pass until the next trial, and returns how long that was.
    fn await_trial(&mut self) -> Duration {
        let until = self.outlier.ejection().unwrap().until;
        let length = until - self.now;
        self.now = until;
        length
    }
}

fn is_about(length: Duration, expected: Duration) -> bool {
    (expected * 3 / 4..=expected * 5 / 4).contains(&length)
}

#[test]
fn rests_after_refusals_grow_to_their_bound_and_end_with_an_answer() {
    let mut endpoint = Endpoint::new(OutlierPolicy::default());
    for n in 0..10 {
        assert!(endpoint.outlier.allows(endpoint.now));
        assert_eq!(endpoint.call(Verdict::Refused), EjectionChange::Out);
        assert!(!endpoint.outlier.is_counted(), "who refuses may be out beyond the share");
        let length = endpoint.await_trial();
        assert!(is_about(length, (FIRST_REST * 2_u32.pow(n)).min(MAX_REST)), "{length:?}");
    }
    assert_eq!(endpoint.call(Verdict::Answered), EjectionChange::Back);
    assert_eq!(endpoint.outlier.ramp(endpoint.now).map(|_| ()), None, "it had nothing to prove");
    endpoint.call(Verdict::Refused);
    assert!(is_about(endpoint.await_trial(), FIRST_REST), "it begins anew");
}

#[test]
fn refusals_of_one_moment_count_once() {
    let mut endpoint = Endpoint::new(OutlierPolicy::default());
    for _ in 0..100 {
        endpoint.end(Verdict::Refused, false);
    }
    assert!(is_about(endpoint.await_trial(), FIRST_REST));
    assert!(endpoint.outlier.begun(&endpoint.policy, endpoint.now));
    assert!(!endpoint.outlier.allows(endpoint.now), "the trial has begun");
    endpoint.end(Verdict::Refused, true);
    endpoint.end(Verdict::Refused, false);
    assert!(is_about(endpoint.await_trial(), FIRST_REST * 2), "its refusal counts once");
}

#[test]
fn failures_in_a_row_eject_for_doubling_times() {
    let mut endpoint = Endpoint::new(OutlierPolicy::default());
    for _ in 0..4 {
        assert_eq!(endpoint.call(Verdict::Failed), EjectionChange::None);
    }
    endpoint.call(Verdict::Threw);
    for _ in 0..4 {
        assert_eq!(endpoint.call(Verdict::Failed), EjectionChange::None, "an answer came between");
    }
    assert_eq!(endpoint.call(Verdict::Failed), EjectionChange::Out);
    assert_eq!(endpoint.outlier.ejection().unwrap().reason, EjectReason::Failures);
    for n in 0..8 {
        // What was in flight says nothing new, however it ends.
        assert_eq!(endpoint.end(Verdict::Failed, false), EjectionChange::None);
        assert_eq!(endpoint.end(Verdict::Answered, false), EjectionChange::None);
        let expected = (SECOND * 2_u32.pow(n)).min(endpoint.policy.max_time);
        assert!(is_about(endpoint.await_trial(), expected));
        assert_eq!(endpoint.call(Verdict::Failed), EjectionChange::Out);
        assert_eq!(endpoint.outlier.ejection().unwrap().reason, EjectReason::Trial);
    }
}

#[test]
fn after_its_trial_an_endpoint_grows_and_one_failure_is_enough() {
    let mut endpoint = Endpoint::new(OutlierPolicy::default());
    for _ in 0..5 {
        endpoint.call(Verdict::Failed);
    }
    endpoint.await_trial();
    assert_eq!(endpoint.call(Verdict::Answered), EjectionChange::Back);
    let weight = |endpoint: &Endpoint, after: Duration| {
        let now = endpoint.now + after;
        endpoint.outlier.ramp(now).map_or(100, |ramp| ramp.weight_at(now, 100))
    };
    assert_eq!(weight(&endpoint, Duration::ZERO), 10);
    assert_eq!(weight(&endpoint, RAMP * 2 / 5), 50);
    assert_eq!(weight(&endpoint, RAMP), 100);
    endpoint.now += SECOND;
    assert_eq!(endpoint.call(Verdict::Failed), EjectionChange::Out);
    assert!(is_about(endpoint.await_trial(), SECOND * 2));
    endpoint.call(Verdict::Answered);
    endpoint.now += 60 * SECOND;
    for _ in 0..5 {
        endpoint.call(Verdict::Failed);
    }
    assert!(is_about(endpoint.await_trial(), SECOND), "it has worked for long");
}

#[test]
fn the_share_of_failures_counts_within_the_window() {
    let mut endpoint = Endpoint::new(OutlierPolicy::default());
    for n in 1..20 {
        let verdict = if n % 2 == 0 { Verdict::Answered } else { Verdict::Failed };
        assert_eq!(endpoint.call(verdict), EjectionChange::None, "too few calls to judge");
    }
    endpoint.now += 11 * SECOND;
    assert_eq!(endpoint.call(Verdict::Failed), EjectionChange::None, "all of that is out of date");
    let mut change = EjectionChange::None;
    for n in 0..30 {
        change = endpoint.call(if n % 2 == 0 { Verdict::Answered } else { Verdict::Failed });
        if change != EjectionChange::None {
            break;
        }
    }
    assert_eq!(change, EjectionChange::Out);
    assert_eq!(endpoint.outlier.ejection().unwrap().reason, EjectReason::ErrorRate);
}

#[test]
fn exceptions_are_answers_unless_configured() {
    for exceptions in [false, true] {
        let mut endpoint = Endpoint::new(OutlierPolicy { exceptions, ..OutlierPolicy::default() });
        for _ in 0..100 {
            endpoint.call(Verdict::Threw);
        }
        assert_eq!(endpoint.outlier.is_out(), exceptions);
    }
}

#[test]
fn a_full_endpoint_that_works_stays_and_one_that_does_not_goes() {
    let mut endpoint = Endpoint::new(OutlierPolicy::default());
    for _ in 0..1000 {
        endpoint.now += MS;
        assert_eq!(endpoint.call(Verdict::Full), EjectionChange::None);
        assert_eq!(endpoint.call(Verdict::Full), EjectionChange::None);
        assert_eq!(endpoint.call(Verdict::Answered), EjectionChange::None);
    }
    endpoint.now += 2 * SECOND;
    let n = (0..100).take_while(|_| endpoint.call(Verdict::Full) == EjectionChange::None).count();
    assert_eq!(n, 4, "it has answered none for seconds");
}

#[test]
fn silence_ends_with_the_first_answer() {
    let policy = OutlierPolicy::default();
    let is_silent =
        |in_flight, silent, usual| Outlier::is_silent(&policy, in_flight, silent, usual);
    assert!(is_silent(3, 100 * MS, 10 * MS));
    assert!(!is_silent(2, 100 * MS, 10 * MS), "each of two may take long");
    assert!(!is_silent(9, 100 * MS, 60 * MS), "calls take that long");
    let mut endpoint = Endpoint::new(policy);
    endpoint.outlier.silenced(&policy, endpoint.now, rng);
    assert_eq!(endpoint.end(Verdict::Failed, false), EjectionChange::None);
    assert_eq!(endpoint.end(Verdict::Answered, false), EjectionChange::Back);
    assert_eq!(endpoint.outlier.ramp(endpoint.now).map(|_| ()), None, "it was a pause");
    // Trials that are not answered come at growing intervals.
    endpoint.outlier.silenced(&policy, endpoint.now, rng);
    let first = endpoint.await_trial();
    for _ in 0..3 {
        endpoint.outlier.begun(&policy, endpoint.now);
        endpoint.await_trial();
    }
    endpoint.outlier.begun(&policy, endpoint.now);
    assert!(first * 4 < endpoint.await_trial());
}

#[test]
fn never_all_may_be_out() {
    let policy = OutlierPolicy::default();
    let all = OutlierPolicy { max_percent: 100, ..policy };
    for (n, half, most) in [(0, 0, 0), (1, 0, 0), (2, 1, 1), (3, 2, 2), (4, 2, 3), (5, 3, 4)] {
        assert_eq!((policy.max_ejected(n), all.max_ejected(n)), (half, most), "of {n}");
    }
    assert_eq!(OutlierPolicy { max_percent: 0, ..policy }.max_ejected(100), 0);
}
