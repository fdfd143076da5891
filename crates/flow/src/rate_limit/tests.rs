use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::test_start;

fn total(per_second: u32, burst: u32) -> RateLimits {
    RateLimits { total: Some(Rate { per_second, burst }), per_caller: None }
}

fn per_caller(per_second: u32, burst: u32) -> RateLimits {
    RateLimits { total: None, per_caller: Some(Rate { per_second, burst }) }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

proptest! {
    /// Whenever calls come, no stretch of time has more than the burst and what the rate adds.
    #[test]
    fn no_stretch_of_time_has_too_many(
        per_second in 1..2000_u32,
        burst in 1..50_u32,
        gaps_us in vec(0..20_000_u64, 1..300),
    ) {
        let mut limiter = RateLimiter::new(total(per_second, burst));
        let mut now = test_start();
        let mut passed: Vec<Instant> = Vec::new();
        for gap in gaps_us {
            now += Duration::from_micros(gap);
            match limiter.take(now, "a") {
                Ok(()) => passed.push(now),
                Err(over) => {
                    // What it is told is true: a moment earlier is refused, that moment is not.
                    let mut later = limiter.clone();
                    prop_assert!(later.take(now + over.wait - Duration::from_nanos(1), "a").is_err());
                    prop_assert!(later.take(now + over.wait, "a").is_ok());
                }
            }
        }
        for (first, from) in passed.iter().enumerate() {
            for (last, to) in passed.iter().enumerate().skip(first) {
                let most = f64::from(burst) + (*to - *from).as_secs_f64() * f64::from(per_second);
                let n = (last - first + 1) as f64;
                prop_assert!(n <= most + 1e-3, "{n} in {:?}", *to - *from);
            }
        }
    }
}

#[test]
fn a_burst_passes_and_then_the_rate() {
    let mut limiter = RateLimiter::new(total(10, 3));
    let now = test_start();
    assert_eq!((0..5).filter(|_| limiter.take(now, "a").is_ok()).count(), 3);
    assert_eq!(limiter.take(now, "b").unwrap_err().wait, ms(100));
    assert!(limiter.take(now + ms(99), "a").is_err());
    assert!(limiter.take(now + ms(100), "a").is_ok());
    // A quiet hour saves up no more than the burst.
    let later = now + Duration::from_secs(3600);
    assert_eq!((0..9).filter(|_| limiter.take(later, "a").is_ok()).count(), 3);
}

#[test]
fn callers_have_buckets_of_their_own() {
    let mut limiter = RateLimiter::new(per_caller(1, 2));
    let now = test_start();
    for caller in ["a", "b"] {
        assert!(limiter.take(now, caller).is_ok() && limiter.take(now, caller).is_ok());
        let over = limiter.take(now, caller).unwrap_err();
        assert!(over.is_of_caller && over.wait == Duration::from_secs(1));
    }
}

/// A greedy caller that is refused leaves the common bucket to the others.
#[test]
fn a_refused_call_takes_nothing() {
    let rate = |per_second, burst| Some(Rate { per_second, burst });
    let limits = RateLimits { total: rate(1, 5), per_caller: rate(1, 1) };
    let mut limiter = RateLimiter::new(limits);
    let now = test_start();
    assert_eq!((0..100).filter(|_| limiter.take(now, "greedy").is_ok()).count(), 1);
    let others = ["a", "b", "c", "d", "e"].map(|caller| limiter.take(now, caller));
    assert_eq!(others.iter().filter(|outcome| outcome.is_ok()).count(), 4);
    assert!(!others[4].unwrap_err().is_of_caller);
    // And whom the common bucket refuses keeps its own token.
    assert!(limiter.take(now + Duration::from_secs(1), "e").is_ok());
}

#[test]
fn made_up_callers_do_not_fill_the_memory() {
    let mut limiter = RateLimiter::new(per_caller(1, 1));
    let now = test_start();
    let passed = (0..3 * MAX_CALLERS).filter(|n| limiter.take(now, &n.to_string()).is_ok());
    assert_eq!(passed.count(), MAX_CALLERS + 1, "the rest share one bucket");
    assert_eq!(limiter.n_callers(), MAX_CALLERS);
    // Callers that have gone quiet make room.
    let later = now + Duration::from_secs(1);
    assert!(limiter.take(later, "new").is_ok());
    assert_eq!(limiter.n_callers(), 1);
    assert!(limiter.take(later, &"x".repeat(1 << 20)).is_ok());
    assert!(limiter.callers.keys().all(|name| name.len() <= MAX_CALLER_LEN));
}

#[test]
fn other_rates_count_at_once() {
    let mut limiter = RateLimiter::new(total(1, 1000));
    let now = test_start();
    assert_eq!((0..2000).filter(|_| limiter.take(now, "a").is_ok()).count(), 1000);
    // What was taken of the large burst is not owed for a quarter of an hour.
    limiter.set_limits(now, total(10, 2));
    assert!(limiter.take(now, "a").is_err());
    assert!(limiter.take(now + ms(100), "a").is_ok());
    limiter.set_limits(now, RateLimits::default());
    assert!((0..1000).all(|_| limiter.take(now, "a").is_ok()));
}
