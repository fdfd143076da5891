//! Three endpoints of 20 threads and 50 ms a call, under an open loop of calls with deadlines of
//! one second, as one worker sees them. One of the three is slow, fails, throws, hangs or joins.
//!
//! Everything is seeded: `SIM_SEED=7` replays one run. `cargo test -- --nocapture` shows the
//! figures.

#![expect(clippy::disallowed_methods, reason = "a simulation needs some instant to count from")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use balance::{Balancer, EndpointSpec, OutlierPolicy, Policy, Ticket, Verdict};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// What the first endpoint does; the others work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum FirstEndpoint {
    Works,
    /// It takes three times as long as the others.
    Slow,
    /// It fails at once.
    Fails,
    /// It fails at once, every third time.
    FailsSometimes,
    /// It throws an exception at once.
    Throws,
    /// It answers nothing any more after two seconds.
    Hangs,
    /// It fails at once for three seconds, then works.
    Recovers,
}

struct Run {
    policy: Policy,
    first: FirstEndpoint,
    calls_per_second: u32,
    /// Of each endpoint.
    n_threads: usize,
    outlier: OutlierPolicy,
}

#[derive(Debug, Default)]
struct Figures {
    latencies: Vec<Duration>,
    n_failed: usize,
    /// Failures of calls that came after the first second.
    n_failed_later: usize,
    n_threw: usize,
    /// Calls that went to the first endpoint.
    n_first: usize,
    n_first_in_last_second: usize,
    n: usize,
}

impl Figures {
    fn quantile(&self, percent: usize) -> Duration {
        let mut all = self.latencies.clone();
        all.sort_unstable();
        all[(all.len() * percent / 100).min(all.len() - 1)]
    }

    fn share_first(&self) -> f64 {
        self.n_first as f64 / self.n as f64
    }
}

/// A call under way.
struct Flight {
    ticket: Ticket,
    began: Instant,
    verdict: Verdict,
}

impl Run {
    fn new(policy: Policy, first: FirstEndpoint, calls_per_second: u32) -> Self {
        let outlier = OutlierPolicy::default();
        Self { policy, first, calls_per_second, n_threads: 20, outlier }
    }

    /// How long a call takes at endpoint `key`, without waiting, and how it ends.
    fn fate(&self, key: usize, since_start: Duration, rng: &mut StdRng) -> (Duration, Verdict) {
        let work = (50 * MS).mul_f64(rng.random_range(0.9..1.1));
        if key != 0 {
            return (work, Verdict::Answered);
        }
        match self.first {
            FirstEndpoint::Slow => (work * 3, Verdict::Answered),
            FirstEndpoint::Fails => (MS, Verdict::Failed),
            FirstEndpoint::FailsSometimes if rng.random_ratio(1, 3) => (MS, Verdict::Failed),
            FirstEndpoint::Throws => (MS, Verdict::Threw),
            FirstEndpoint::Hangs if 2 * SECOND <= since_start => (3600 * SECOND, Verdict::Answered),
            FirstEndpoint::Recovers if since_start < 3 * SECOND => (MS, Verdict::Failed),
            _ => (work, Verdict::Answered),
        }
    }

    /// Ten seconds.
    fn play(&self, seed: u64) -> Figures {
        let mut rng = StdRng::seed_from_u64(seed);
        let start = Instant::now();
        let mut balancer = Balancer::new(self.policy);
        balancer.set_outlier(self.outlier);
        let spec = |key| EndpointSpec { key, weight: 100, warm_up: None };
        balancer.update(start, (0..3_usize).map(spec));
        let mut free_at: Vec<BinaryHeap<Reverse<Instant>>> =
            vec![(0..self.n_threads).map(|_| Reverse(start)).collect(); 3];
        let (mut ends, mut flights) = (BinaryHeap::new(), HashMap::new());
        let mut figures = Figures::default();
        let (mut now, mut id) = (start, 0_u64);
        let gap = SECOND / self.calls_per_second;
        while now < start + 10 * SECOND {
            now += gap.mul_f64(rng.random_range(0.0..2.0));
            while let Some(Reverse((at, id))) =
                ends.peek().copied().filter(|end: &Reverse<(Instant, u64)>| end.0.0 <= now)
            {
                ends.pop();
                let Flight { ticket, began, verdict } = flights.remove(&id).unwrap();
                let seed = rng.random();
                let is_later = start + SECOND <= began;
                balancer.finish(ticket, at, at - began, verdict, || StdRng::seed_from_u64(seed));
                match verdict {
                    Verdict::Answered => figures.latencies.push(at - began),
                    Verdict::Threw => figures.n_threw += 1,
                    _ => {
                        figures.n_failed += 1;
                        figures.n_failed_later += usize::from(is_later);
                    }
                }
            }
            let slot = balancer.pick(now, &mut rng, |_| true).expect("there is always one");
            let key = *balancer.key(slot).unwrap();
            let ticket = balancer.begin(slot);
            let (work, mut verdict) = self.fate(key, now - start, &mut rng);
            let Reverse(free) = free_at[key].pop().unwrap();
            let mut end = free.max(now) + work;
            free_at[key].push(Reverse(end));
            if now + SECOND < end {
                (end, verdict) = (now + SECOND, Verdict::TimedOut);
            }
            figures.n += 1;
            if key == 0 {
                figures.n_first += 1;
                figures.n_first_in_last_second += usize::from(start + 9 * SECOND <= now);
            }
            ends.push(Reverse((end, id)));
            flights.insert(id, Flight { ticket, began: now, verdict });
            id += 1;
        }
        let in_flight: u32 = balancer.stats().map(|stats| stats.in_flight).sum();
        assert_eq!(in_flight as usize, flights.len(), "calls in flight are those not given back");
        figures
    }
}

/// Plays a run with some seeds and checks the figures of each.
fn check(run: &Run, check: impl Fn(&Figures) -> bool) {
    let one =
        std::env::var("SIM_SEED").ok().map(|seed| seed.parse().expect("SIM_SEED is a number"));
    for seed in one.map_or(0..3, |seed| seed..seed + 1) {
        let figures = run.play(seed);
        println!(
            "{:<18} {:<15} seed {seed}: {:>5} calls, p50 {:>3} ms, p90 {:>3} ms, p99 {:>3} ms, failed {:>4} (later \
             {:>4}), threw {:>4}, to the first {:>4.1}% (last second {})",
            run.policy.name(),
            format!("{:?}", run.first),
            figures.n,
            figures.quantile(50).as_millis(),
            figures.quantile(90).as_millis(),
            figures.quantile(99).as_millis(),
            figures.n_failed,
            figures.n_failed_later,
            figures.n_threw,
            figures.share_first() * 100.0,
            figures.n_first_in_last_second,
        );
        assert!(check(&figures), "{:?} with {}, SIM_SEED={seed}", run.first, run.policy);
    }
}

#[test]
fn nobody_is_ejected_who_works() {
    for policy in Policy::ALL {
        // At the highest of these rates 97 % of the threads are busy.
        for rate in [60, 600, 1160] {
            let run = Run::new(policy, FirstEndpoint::Works, rate);
            check(&run, |it| it.n_failed == 0 && (0.2..0.47).contains(&it.share_first()));
        }
    }
}

/// Half the load of three that are as fast; two and a third stay.
#[test]
fn a_slow_one_gets_less() {
    let run = Run::new(Policy::Adaptive, FirstEndpoint::Slow, 600);
    check(&run, |it| it.quantile(90) <= 60 * MS && 0 < it.n_first_in_last_second);
    let run = Run::new(Policy::PowerOfTwo, FirstEndpoint::Slow, 600);
    check(&run, |it| it.quantile(90) <= 60 * MS);
}

#[test]
fn one_that_fails_at_once_attracts_nobody() {
    for policy in Policy::ALL {
        let run = Run { n_threads: 50, ..Run::new(policy, FirstEndpoint::Fails, 1000) };
        check(&run, |it| it.n_failed <= 12 && it.n_failed_later * 100 <= it.n);
    }
}

/// Without any ejection, too, it gets about its share and no more.
#[test]
fn fast_failures_are_not_fast_answers() {
    for policy in [Policy::Adaptive, Policy::LeastInFlight, Policy::PowerOfTwo] {
        let outlier = OutlierPolicy { max_percent: 0, ..OutlierPolicy::default() };
        check(&Run { outlier, ..Run::new(policy, FirstEndpoint::Fails, 600) }, |it| {
            it.share_first() <= 0.36
        });
        check(&Run::new(policy, FirstEndpoint::Throws, 600), |it| it.share_first() <= 0.37);
    }
}

#[test]
fn one_that_fails_sometimes_gets_less() {
    let outlier = OutlierPolicy { max_percent: 0, ..OutlierPolicy::default() };
    let run = Run { outlier, ..Run::new(Policy::Adaptive, FirstEndpoint::FailsSometimes, 600) };
    check(&run, |it| it.share_first() <= 0.28);
}

/// What was in flight is lost: 17 calls at a time. No more than that many again are sent there.
#[test]
fn a_hung_one_is_found_out() {
    for policy in [Policy::Adaptive, Policy::LeastInFlight, Policy::RoundRobin] {
        let run = Run { n_threads: 200, ..Run::new(policy, FirstEndpoint::Hangs, 1000) };
        check(&run, |it| it.n_failed <= 60);
    }
}

#[test]
fn one_that_works_again_is_used_again() {
    for policy in Policy::ALL {
        let run = Run::new(policy, FirstEndpoint::Recovers, 600);
        check(&run, |it| 30 <= it.n_first_in_last_second && it.n_failed <= 12);
    }
}

/// The cost of a pick does not grow with the number of endpoints.
#[test]
fn of_thousands_of_endpoints_the_default_looks_at_a_few() {
    let (now, mut rng) = (Instant::now(), StdRng::seed_from_u64(3));
    let mut balancer = Balancer::new(Policy::default());
    let spec = |key| EndpointSpec { key, weight: 100, warm_up: None };
    balancer.update(now, (0..5000_usize).map(spec));
    let n_looks = std::cell::Cell::new(0);
    for _ in 0..10_000 {
        let look = |_: &usize| {
            n_looks.set(n_looks.get() + 1);
            true
        };
        let slot = balancer.pick(now, &mut rng, look).unwrap();
        let _never_finished = balancer.begin(slot);
    }
    assert_eq!(n_looks.get(), 40_000);
    let most = balancer.stats().map(|stats| stats.in_flight).max().unwrap();
    assert!(most <= 4, "{most} calls at one, where the mean is 2");
}
