use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::test_start;

const POLICY: BreakerPolicy = BreakerPolicy {
    failures: 3,
    error_percent: 50,
    min_calls: 10,
    window: Duration::from_secs(10),
    time: Duration::from_secs(1),
    max_time: Duration::from_secs(4),
    probes: 2,
};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn call(breaker: &mut Breaker, now: Instant, end: BreakerEnd) -> Option<BreakerChange> {
    let pass = breaker.begin(now, &POLICY);
    breaker.end(pass, now, &POLICY, end)
}

fn times(n: usize, breaker: &mut Breaker, now: Instant, end: BreakerEnd) {
    for _ in 0..n {
        let _ = call(breaker, now, end);
    }
}

#[test]
fn failures_in_a_row_open_it_and_good_probes_close_it() {
    let (mut breaker, now) = (Breaker::default(), test_start());
    for end in
        [BreakerEnd::Bad, BreakerEnd::Bad, BreakerEnd::Good, BreakerEnd::Bad, BreakerEnd::Bad]
    {
        assert_eq!(call(&mut breaker, now, end), None);
    }
    assert_eq!(call(&mut breaker, now, BreakerEnd::Bad), Some(BreakerChange::Opened(ms(1000))));
    assert!(!breaker.lets_pass(now + ms(999), &POLICY));
    let later = now + ms(1000);
    assert_eq!((breaker.lets_pass(later, &POLICY), breaker.name(later)), (true, "half-open"));
    assert_eq!(call(&mut breaker, later, BreakerEnd::Good), None);
    assert_eq!(call(&mut breaker, later, BreakerEnd::Good), Some(BreakerChange::Closed));
    assert!(!breaker.is_broken());
}

#[test]
fn the_error_rate_counts_only_with_enough_calls_of_late() {
    let (mut breaker, now) = (Breaker::default(), test_start());
    // Six of nine fail, never three in a row.
    for n in 0..9 {
        let end = if n % 3 == 0 { BreakerEnd::Good } else { BreakerEnd::Bad };
        assert_eq!(call(&mut breaker, now, end), None);
    }
    let mut aged = breaker.clone();
    assert!(call(&mut breaker, now, BreakerEnd::Bad).is_some(), "the tenth call is judged");
    let late = now + POLICY.window;
    let _ = call(&mut aged, late, BreakerEnd::Good);
    assert_eq!(call(&mut aged, late, BreakerEnd::Bad), None, "the others are forgotten");
}

#[test]
fn each_opening_is_longer_up_to_the_longest() {
    let (mut breaker, mut now) = (Breaker::default(), test_start());
    times(3, &mut breaker, now, BreakerEnd::Bad);
    for expected in [2000, 4000, 4000, 4000] {
        now = breaker.open_until().unwrap();
        let opened = call(&mut breaker, now, BreakerEnd::Bad);
        assert_eq!(opened, Some(BreakerChange::Opened(ms(expected))));
    }
    now = breaker.open_until().unwrap();
    times(2, &mut breaker, now, BreakerEnd::Good);
    // Broken again at once, it goes on where it was; after a clean window it begins anew.
    let mut soon = breaker.clone();
    times(2, &mut soon, now, BreakerEnd::Bad);
    assert_eq!(call(&mut soon, now, BreakerEnd::Bad), Some(BreakerChange::Opened(ms(4000))));
    let later = now + POLICY.window;
    times(2, &mut breaker, later, BreakerEnd::Bad);
    assert_eq!(call(&mut breaker, later, BreakerEnd::Bad), Some(BreakerChange::Opened(ms(1000))));
}

#[test]
fn calls_from_before_say_nothing_and_lost_probes_come_back() {
    let (mut breaker, now) = (Breaker::default(), test_start());
    let old = breaker.begin(now, &POLICY);
    times(3, &mut breaker, now, BreakerEnd::Bad);
    let later = breaker.open_until().unwrap();
    let probes = [0, 1].map(|_| breaker.begin(later, &POLICY));
    assert!(!breaker.lets_pass(later, &POLICY), "no third one");
    assert_eq!(breaker.end(old, later, &POLICY, BreakerEnd::Bad), None);
    // One that is let through although it may not pass does not count.
    let forced = breaker.begin(later, &POLICY);
    assert_eq!(breaker.end(forced, later, &POLICY, BreakerEnd::Bad), None);
    assert!(!breaker.lets_pass(later, &POLICY));
    for probe in probes {
        assert_eq!(breaker.end(probe, later, &POLICY, BreakerEnd::Unknown), None);
    }
    assert!(breaker.lets_pass(later, &POLICY));
}

proptest! {
    /// Whatever happens: never too many probes, never open for too long, and never opened without
    /// a failure.
    #[test]
    fn invariants(steps in vec((0..4_u8, 0..1500_u64, 0..8_usize), 0..400)) {
        let (mut breaker, mut now) = (Breaker::default(), test_start());
        let mut under_way: Vec<BreakerPass> = Vec::new();
        for (step, gap, which) in steps {
            now += ms(gap);
            if step == 0 || under_way.is_empty() {
                if breaker.lets_pass(now, &POLICY) {
                    under_way.push(breaker.begin(now, &POLICY));
                }
            } else {
                let pass = under_way.swap_remove(which % under_way.len());
                let end = [BreakerEnd::Good, BreakerEnd::Bad, BreakerEnd::Unknown];
                let end = end[usize::from(step) - 1];
                let change = breaker.end(pass, now, &POLICY, end);
                match change {
                    Some(BreakerChange::Opened(time)) => {
                        prop_assert!(end == BreakerEnd::Bad && time <= POLICY.max_time);
                    }
                    Some(BreakerChange::Closed) => prop_assert_eq!(end, BreakerEnd::Good),
                    None => {}
                }
            }
            if let Some(until) = breaker.open_until() {
                prop_assert!(until <= now + POLICY.max_time);
            }
            let n_probes = under_way.iter().filter(|it| it.is_probe && it.phase == breaker.phase);
            prop_assert!(n_probes.count() <= POLICY.probes as usize);
            let again = breaker.lets_pass(now + POLICY.max_time, &POLICY);
            let is_probed = matches!(breaker.state, BreakerState::HalfOpen { .. });
            prop_assert!(again || is_probed, "it would stay shut for ever");
        }
    }
}
