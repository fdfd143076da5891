use proptest::prelude::*;

use super::*;

const WINDOW: Duration = Duration::from_millis(100);

/// For apps of a few threads.
fn small() -> LimitPolicy {
    LimitPolicy { initial: 20, opens_to: 20, latency_min: Some(1), ..LimitPolicy::default() }
}

/// For apps that have had many calls.
fn open() -> LimitPolicy {
    LimitPolicy { initial: 1000, ..LimitPolicy::default() }
}

/// An app of so many threads that takes `work` for a call, under all the load that it lets in.
fn loaded(limiter: &mut Limiter, now: Instant, threads: u32, work: Duration) {
    let in_flight = limiter.limit();
    let latency = work.mul_f64(f64::from(in_flight.max(threads)) / f64::from(threads));
    limiter.take_in(now, &sample(in_flight, latency));
}

/// What is seen in a window of calls that take so long, so many of them in flight at any time.
fn sample(in_flight: u32, latency: Duration) -> Sample {
    let mut sample = Sample { max_in_flight: in_flight, ..Sample::default() };
    let n = u128::from(in_flight) * WINDOW.as_nanos() / latency.as_nanos();
    (0..n).for_each(|_| sample.answered(latency));
    sample
}

/// Ten minutes of overload: the limit neither drifts away nor starves the app.
#[test]
fn finds_the_number_of_threads_and_stays_there() {
    for threads in [4, 20, 200] {
        let start = crate::test_start();
        let mut limiter = Limiter::new(small(), start);
        let (mut sum, mut greatest) = (0, 0);
        for step in 0..6000 {
            loaded(&mut limiter, start + WINDOW * step, threads, Duration::from_millis(50));
            if 600 <= step {
                sum += limiter.limit().min(threads);
                greatest = greatest.max(limiter.limit());
            }
        }
        let used = f64::from(sum) / f64::from(5400 * threads);
        assert!(0.93 < used, "{threads} threads are used to {used}");
        assert!(greatest <= threads * 2, "{threads} threads, limit of {greatest}");
    }
}

#[test]
fn follows_an_app_that_slows_down_for_good() {
    let start = crate::test_start();
    let mut limiter = Limiter::new(small(), start);
    for step in 0..1200 {
        let work = if step < 600 { 10 } else { 100 };
        loaded(&mut limiter, start + WINDOW * step, 20, Duration::from_millis(work));
    }
    assert!((15..=40).contains(&limiter.limit()), "{}", limiter.limit());
}

#[test]
fn a_rejection_lowers_the_limit_at_once_and_idleness_never_raises_it() {
    let start = crate::test_start();
    let mut limiter = Limiter::new(LimitPolicy { initial: 100, ..LimitPolicy::default() }, start);
    let mut sample = Sample { max_in_flight: 60, ..Sample::default() };
    sample.rejected(52);
    sample.rejected(50);
    limiter.take_in(start, &sample);
    assert_eq!(limiter.limit(), 45);
    // Calls that were sent before may still be rejected.
    limiter.take_in(start + Duration::from_millis(10), &sample);
    assert_eq!(limiter.limit(), 45);
    let mut sample = Sample { max_in_flight: 3, ..Sample::default() };
    sample.answered(Duration::from_millis(1));
    for step in 0..100 {
        limiter.take_in(start + WINDOW * step, &sample);
    }
    assert_eq!(limiter.limit(), 45);
}

/// A known capacity has no floor below it, but rejections count, and it comes back.
#[test]
fn only_rejections_lower_a_known_capacity() {
    let start = crate::test_start();
    let mut limiter = Limiter::new(LimitPolicy::known(200), start);
    for step in 0..100 {
        loaded(&mut limiter, start + WINDOW * step, 20, Duration::from_millis(50));
    }
    assert_eq!(limiter.limit(), 200);
    let mut sample = Sample { max_in_flight: 100, ..Sample::default() };
    sample.rejected(100);
    limiter.take_in(start + WINDOW * 100, &sample);
    assert_eq!(limiter.limit(), 90);
    for step in 101..121 {
        loaded(&mut limiter, start + WINDOW * step, 20, Duration::from_millis(50));
    }
    assert_eq!(limiter.limit(), 200);
}

/// An app that nobody loads may have fast and slow methods, and stays as it is.
#[test]
fn latency_says_nothing_about_an_app_that_is_hardly_used() {
    let start = crate::test_start();
    let mut limiter = Limiter::new(open(), start);
    for step in 0..100 {
        let mut sample = Sample { max_in_flight: 400, ..Sample::default() };
        sample.answered(Duration::from_millis(if step % 10 == 0 { 1 } else { 500 }));
        limiter.take_in(start + WINDOW * step, &sample);
    }
    assert_eq!(limiter.limit(), 1000);
}

/// All calls become late, as on a machine that others keep busy, and the app rejects some at
/// first. It can take as many calls as before.
#[test]
fn a_busy_machine_refuses_no_calls_that_the_app_can_take() {
    let start = crate::test_start();
    let mut limiter = Limiter::new(open(), start);
    let mut least = u32::MAX;
    for step in 0..900 {
        let is_busy = (100..700).contains(&step);
        let latency = Duration::from_millis(if is_busy { 110 } else { 50 });
        let in_flight = limiter.limit().min(170);
        let mut sample = sample(in_flight, latency);
        if (100..102).contains(&step) {
            sample.rejected(200);
        }
        limiter.take_in(start + WINDOW * step, &sample);
        least = least.min(limiter.limit());
    }
    // Once in a span it looks how the app is without a queue.
    assert!(110 < least, "{least}");
    assert!(160 < limiter.limit(), "{}", limiter.limit());
}

/// Threads that have answered are not back yet on a busy machine. A pool that became smaller shows
/// that by most calls.
#[test]
fn a_few_rejections_below_what_was_proven_count_little_and_many_count() {
    for (n_rejected, least, most) in [(1, 150, 180), (400, 80, 92)] {
        let start = crate::test_start();
        let mut limiter = Limiter::new(open(), start);
        let at = |n: u32| start + WINDOW * n;
        (0..50).for_each(|n| limiter.take_in(at(n), &sample(190, Duration::from_millis(50))));
        for n in 50..52 {
            let mut sample = sample(190, Duration::from_millis(50));
            (0..n_rejected).for_each(|_| sample.rejected(100));
            limiter.take_in(at(n), &sample);
        }
        let limit = limiter.limit();
        assert!((least..=most).contains(&limit), "{n_rejected} rejected: {limit}");
    }
}

/// Rejections that come while the limit settles show a small pool, if they are most of what is
/// seen, and were sent within the new limit.
#[test]
fn a_limit_falls_again_at_once_while_most_is_rejected() {
    let start = crate::test_start();
    let mut limiter = Limiter::new(LimitPolicy::default(), start);
    let mut after = |ms: u64, in_flight: u32| {
        let mut sample = Sample { max_in_flight: in_flight + 1, ..Sample::default() };
        sample.rejected(in_flight);
        limiter.take_in(start + Duration::from_millis(ms), &sample);
        limiter.limit()
    };
    assert_eq!(after(0, 50), 45);
    assert_eq!(after(1, 46), 45, "it was sent before");
    assert_eq!(after(2, 20), 18);
    assert_eq!(after(3, 6), 5);
}

/// In the same time, a few late threads of a large pool say nothing.
#[test]
fn a_limit_that_settles_does_not_fall_by_a_few_rejections() {
    let start = crate::test_start();
    let mut limiter = Limiter::new(open(), start);
    let at = |n: u32| start + WINDOW * n;
    (0..50).for_each(|n| limiter.take_in(at(n), &sample(190, Duration::from_millis(50))));
    for n in 0..20 {
        let mut sample = Sample { max_in_flight: 190, ..Sample::default() };
        sample.rejected(110);
        limiter.take_in(at(50) + Duration::from_millis(1) * n, &sample);
        assert!(165 < limiter.limit(), "{n}: {}", limiter.limit());
    }
}

/// Others fill the pool for three seconds, and go. What the app could take before, it gets again
/// at once, and not by a few calls more in each sample.
#[test]
fn a_limit_that_fell_because_of_others_comes_back_when_they_have_gone() {
    let (work, step) = (Duration::from_millis(300), Duration::from_millis(20));
    for policy in [LimitPolicy::known(50), LimitPolicy::default(), LimitPolicy::direct()] {
        let start = crate::test_start();
        let mut limiter = Limiter::new(policy, start);
        let mut n_rejected = 0;
        // What is seen in 20 ms, of 18 calls that callers always have.
        for n in 0..500_u32 {
            let (now, is_full) = (start + step * n, (150..300).contains(&n));
            let in_flight = limiter.limit().min(18);
            let mut sample = Sample { max_in_flight: in_flight, ..Sample::default() };
            if is_full {
                // One in some calls finds a thread that has just ended something.
                if n % 20 == 0 {
                    sample.answered(work);
                } else {
                    sample.rejected(0);
                }
                n_rejected += sample.n_rejected;
            } else if n % 15 == 0 {
                (0..in_flight).for_each(|_| sample.answered(work));
            }
            limiter.take_in(now, &sample);
            limiter.open(now, 20);
            if 300 + 50 <= n {
                assert!(18 <= limiter.limit(), "{n}: {}, {policy:?}", limiter.limit());
            }
        }
        assert!(n_rejected <= 150);
    }
}

/// An app that has just taken 30 calls at a time rejects one or a few, with nothing else to do.
/// That says nothing of its pool.
#[test]
fn a_few_rejections_of_an_app_that_has_little_to_do_change_nothing() {
    for policy in [LimitPolicy::known(200), LimitPolicy::default(), LimitPolicy::direct()] {
        for n_rejected in [1, 2, 5, 10] {
            let start = crate::test_start();
            let mut limiter = Limiter::new(policy, start);
            let at = |n: u32| start + WINDOW * n;
            (0..20).for_each(|n| limiter.take_in(at(n), &sample(30, Duration::from_millis(50))));
            let (limit, is_opening) = (limiter.limit(), limiter.is_opening());
            for n in 0..n_rejected {
                let mut sample = Sample { max_in_flight: 1, ..Sample::default() };
                sample.rejected(n % 3);
                limiter.take_in(at(20) + Duration::from_millis(1) * n, &sample);
            }
            assert_eq!((limiter.limit(), limiter.is_opening()), (limit, is_opening));
        }
    }
}

/// The first call of all, and a caller that makes one call at a time.
#[test]
fn calls_one_at_a_time_fill_no_pool() {
    for policy in [LimitPolicy::known(200), LimitPolicy::default(), LimitPolicy::direct()] {
        let start = crate::test_start();
        let mut limiter = Limiter::new(policy, start);
        for n in 0..20 {
            let mut sample = Sample { max_in_flight: 1, ..Sample::default() };
            sample.rejected(0);
            limiter.take_in(start + WINDOW * n, &sample);
            assert_eq!(limiter.limit(), policy.initial);
        }
    }
}

/// Others fill a pool that has just taken 100 calls at a time, and leave nothing or a few threads.
/// That takes no more rejections than it took calls.
#[test]
fn a_pool_that_others_have_filled_is_found_within_milliseconds() {
    for policy in [LimitPolicy::known(200), open(), LimitPolicy::direct()] {
        for n_left in [0, 10, 40, 60] {
            let start = crate::test_start();
            let mut limiter = Limiter::new(policy, start);
            let at = |n: u32| start + WINDOW * n;
            (0..20).for_each(|n| limiter.take_in(at(n), &sample(100, Duration::from_millis(50))));
            let found_after = (0..100).find(|n| {
                let mut sample = Sample { max_in_flight: n_left + 1, ..Sample::default() };
                sample.rejected(n_left);
                limiter.take_in(at(20) + Duration::from_millis(1) * *n, &sample);
                limiter.limit() <= n_left.max(1)
            });
            let most = if n_left < 50 { 55 } else { 30 };
            assert!(found_after.is_some_and(|n| n < most), "{n_left}: {found_after:?}, {policy:?}");
        }
    }
}

/// A limit that fell to nothing for a wrong reason is back within a second, under a load of fast
/// and slow calls: it opens by one answer, and how late answers are says nothing by then.
#[test]
fn a_limit_that_fell_for_nothing_comes_back_under_a_mixed_load() {
    for policy in [LimitPolicy::known(200), LimitPolicy::default(), LimitPolicy::direct()] {
        let start = crate::test_start();
        let mut limiter = Limiter::new(policy, start);
        let ms = |n: u32| start + Duration::from_millis(1) * n;
        for n in 0..50 {
            let mut sample = Sample { max_in_flight: 1, ..Sample::default() };
            sample.rejected(0);
            limiter.take_in(ms(n), &sample);
        }
        assert_eq!(limiter.limit(), 1);
        for n in 3..50 {
            let in_flight = limiter.limit().min(30);
            let mut sample = Sample { max_in_flight: in_flight, ..Sample::default() };
            let latency = Duration::from_millis(if n % 4 == 0 { 300 } else { 5 });
            (0..in_flight).for_each(|_| sample.answered(latency));
            limiter.take_in(ms(n * 20), &sample);
            limiter.open(ms(n * 20), 30);
            assert!(n < 25 || 30 <= limiter.limit(), "{n}: {}, {policy:?}", limiter.limit());
        }
        (50..200).for_each(|n| {
            limiter.take_in(ms(n * 20), &sample(30, Duration::from_millis(5 + u64::from(n))));
        });
        assert!(30 <= limiter.limit(), "{}", limiter.limit());
    }
}

/// A small pool is not opened again and again.
#[test]
fn what_a_limit_never_had_it_does_not_open_to() {
    let start = crate::test_start();
    let mut limiter = Limiter::new(LimitPolicy::default(), start);
    let mut greatest = 0;
    for n in 0..500_u32 {
        let now = start + Duration::from_millis(20) * n;
        let in_flight = limiter.limit();
        let mut sample = Sample { max_in_flight: in_flight, ..Sample::default() };
        (0..in_flight.min(6)).for_each(|_| sample.answered(Duration::from_millis(20)));
        (6..in_flight).for_each(|_| sample.rejected(6));
        limiter.take_in(now, &sample);
        limiter.open(now, 512);
        if 20 < n {
            greatest = greatest.max(limiter.limit());
        }
    }
    assert!(greatest <= 9, "{greatest}");
}

#[test]
fn after_rejections_a_limit_stays_below_for_a_while() {
    let start = crate::test_start();
    let mut limiter = Limiter::new(LimitPolicy { initial: 100, ..small() }, start);
    let mut rejects = sample(101, Duration::from_millis(50));
    rejects.rejected(100);
    limiter.take_in(start, &rejects);
    let mut limits = (1..=20).map(|n| {
        let in_flight = limiter.limit();
        limiter.take_in(start + WINDOW * n, &sample(in_flight, Duration::from_millis(50)));
        limiter.limit()
    });
    assert!(limits.by_ref().take(9).all(|limit| limit == 95));
    assert!(limits.all(|limit| 100 < limit), "it tries again");
}

/// More calls wait than are let in: each step lets in twice as many, until the app shows that it
/// can take less.
#[test]
fn a_limit_opens_fast_while_calls_wait() {
    let start = crate::test_start();
    let at = |n: u32| start + OPENING_STEP * n;
    for (policy, last) in [(LimitPolicy::default(), 1024), (LimitPolicy::direct(), 256)] {
        let mut limiter = Limiter::new(policy, start);
        assert!(!limiter.open(start, 64) && !limiter.open(at(1), 300), "it is just full");
        let limits = (2..9).map(|n| {
            limiter.open(at(n), 3000);
            limiter.limit()
        });
        assert_eq!(limits.max(), Some(last));
        assert!(!limiter.is_opening());
        let mut limiter = Limiter::new(policy, start);
        assert!(!limiter.open(start, 300) && limiter.open(at(1), 300));
        let mut rejects = Sample { max_in_flight: 80, ..Sample::default() };
        rejects.rejected(80);
        limiter.take_in(at(1), &rejects);
        assert!(!limiter.open(at(2), 300));
        assert_eq!(limiter.limit(), 72);
    }
    assert!(!Limiter::new(LimitPolicy::known(20), start).is_opening());
}

/// On a busy machine all answers are late, and a pool is no smaller for that.
#[test]
fn late_answers_do_not_stop_a_limit_that_opens() {
    let start = crate::test_start();
    for policy in [LimitPolicy::default(), LimitPolicy::direct()] {
        let mut limiter = Limiter::new(policy, start);
        limiter.take_in(start, &sample(64, Duration::from_millis(1)));
        for step in 1..20 {
            limiter.take_in(start + WINDOW * step, &sample(64, Duration::from_millis(500)));
        }
        assert_eq!((limiter.limit(), limiter.is_opening()), (64, true));
        let at = start + WINDOW * 20;
        assert!(!limiter.open(at, 65) && limiter.open(at + OPENING_STEP, 65));
        assert_eq!(limiter.limit(), 128);
    }
}

proptest! {
    #[test]
    fn stays_within_its_bounds(
        samples in prop::collection::vec((0..500u32, 0..2000u64, 0..3u32, 0..900u32), 0..200),
        min in 0..50u32,
        max in 0..500u32,
    ) {
        let start = crate::test_start();
        let policy = LimitPolicy { min, max, ..LimitPolicy::default() };
        let mut limiter = Limiter::new(policy, start);
        for (step, (n, ms, n_rejected, max_in_flight)) in (0..).zip(samples) {
            let mut sample = Sample { max_in_flight, ..Sample::default() };
            (0..n_rejected).for_each(|_| sample.rejected(max_in_flight / 2));
            (0..n.min(5)).for_each(|_| sample.answered(Duration::from_millis(ms)));
            limiter.take_in(start + WINDOW * step, &sample);
            let least = min.max(1);
            prop_assert!((least..=max.max(least)).contains(&limiter.limit()));
        }
    }
}

/// A provider of which nothing is known gets more calls fast while it answers fast.
#[test]
fn a_direct_limit_grows_fast_until_it_falls() {
    let start = crate::test_start();
    let at = |n: u32| start + Duration::from_millis(100) * n;
    let policy = LimitPolicy { initial: 256, ..LimitPolicy::direct() };
    let mut limiter = Limiter::new(policy, start);
    let sample = |limit: u32, ms: u64| Sample {
        n_answers: 100,
        latency_sum: Duration::from_millis(ms) * 100,
        max_in_flight: limit,
        ..Sample::default()
    };
    assert_eq!(limiter.limit(), 256);
    limiter.take_in(at(1), &sample(256, 50));
    assert_eq!(limiter.limit(), 384);
    // Not yet 20 ms and a fifth over the fastest.
    limiter.take_in(at(2), &sample(384, 79));
    assert_eq!(limiter.limit(), 576);
    limiter.take_in(at(3), &sample(576, 300));
    let fallen = limiter.limit();
    assert!(fallen < 330, "{fallen}");
    limiter.take_in(at(4), &sample(fallen, 50));
    assert!(limiter.limit() < fallen + 20, "it no longer grows by half");
}

/// What answers within milliseconds is not held up, however much its latency varies.
#[test]
fn a_fast_service_is_never_limited_by_its_latency() {
    let start = crate::test_start();
    let mut limiter = Limiter::new(LimitPolicy::direct(), start);
    for n in 1..100 {
        let (limit, ms) = (limiter.limit(), if n % 2 == 0 { 1 } else { 20 });
        let latency_sum = Duration::from_millis(ms) * 100;
        let sample = Sample {
            n_answers: 100,
            latency_sum,
            max_in_flight: limit / 4 * 3,
            ..Sample::default()
        };
        limiter.take_in(start + Duration::from_millis(100) * n, &sample);
        assert_eq!(limiter.limit(), limit);
    }
}

#[test]
fn what_workers_had_when_calls_were_rejected_adds_up() {
    let seen = |max_in_flight, rejected: &[u32]| {
        let mut sample = Sample { max_in_flight, ..Sample::default() };
        rejected.iter().for_each(|in_flight| sample.rejected(*in_flight));
        sample
    };
    let mut both = Sample::default();
    both.add(&seen(90, &[80, 70]));
    both.add(&seen(40, &[]));
    assert_eq!((both.n_rejected, both.in_flight(), both.max_in_flight), (2, 110, 130));
    let mut one = seen(90, &[]);
    one.add_later(&seen(60, &[50]));
    one.add_later(&seen(100, &[]));
    assert_eq!((one.n_rejected, one.in_flight(), one.max_in_flight), (1, 50, 100));
}
