//! More calls than apps can take, under a clock of its own: several consumers' agents call several
//! apps, each behind an agent of several workers. Apps slow down, crash and come back; consumers'
//! agents are cut off.
//!
//! Each seed is one run and always the same one. A failing seed is printed; `SIM_SEED=n` runs it
//! alone, `SIM_SEEDS=n` runs so many (without it 100, and one for what credits cost).
//!
//! What must hold:
//! - An app whose capacity is known never gets more calls than that.
//! - A call that waits is let in or shed by its deadline, and ends once.
//! - When all is over, nothing counts as in flight, and no worker holds any capacity.
//! - Whoever asks for little gets it, however much another one asks for.
//! - An app that queues without a limit of its own stays useful at twice its capacity.

#![expect(
    clippy::disallowed_methods,
    reason = "the simulated clock needs an instant to begin with"
)]

mod links;
mod turns;
mod world;

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use flow::limit::LimitPolicy;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use self::world::{Fault, OutcomeCounts, OverloadPlan, Provider, SimConsumer, World};

const MS: Duration = Duration::from_millis(1);

#[test]
fn no_app_gets_too_much_and_no_call_is_forgotten() {
    let (first, n_seeds) = seeds(100);
    let mut total = OutcomeCounts::default();
    for seed in first..first + n_seeds {
        let world = replayable(seed, || World::new(any_plan(seed), seed).run());
        total.add(&world.tally);
    }
    println!("{n_seeds} seeds from {first}: {total:?}");
    if 50 <= n_seeds {
        let OutcomeCounts { answered, waited, shed, displaced, cancelled, rejected, lost } = total;
        for n in [answered, waited, shed, displaced, cancelled, rejected, lost] {
            assert!(0 < n, "something has never happened: {total:?}");
        }
    }
}

/// The first seed, and how many there are.
fn seeds(n_default: u64) -> (u64, u64) {
    let number = |name| std::env::var(name).ok().and_then(|s: String| s.parse::<u64>().ok());
    match number("SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("SIM_SEEDS").unwrap_or(n_default)),
    }
}

/// Does something that may fail, and says with which seed it did.
fn replayable<T>(seed: u64, run: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        eprintln!("failed with SIM_SEED={seed}");
        std::panic::resume_unwind(panic)
    })
}

fn any_plan(seed: u64) -> OverloadPlan {
    let mut rng = StdRng::seed_from_u64(!seed);
    let providers: Vec<Provider> =
        (0..rng.random_range(1..=3)).map(|_| any_provider(&mut rng)).collect();
    let per_s: f64 = providers.iter().map(Provider::per_s).sum();
    let n_consumers = rng.random_range(1..=8);
    let load = rng.random_range(0.3..3.0) / f64::from(n_consumers);
    let consumers = (0..n_consumers).map(|_| SimConsumer {
        per_s: Some(per_s * load * rng.random_range(0.2..2.0)),
        timeout: rng.random_range(20..1500) * MS,
        ..SimConsumer::default()
    });
    let consumers = consumers.collect();
    let n_faults = rng.random_range(0..6);
    let faults = (0..n_faults).map(|_| {
        let provider = rng.random_range(0..providers.len());
        let fault = match rng.random_range(0..3) {
            0 => Fault::Slow { provider, times: rng.random_range(2..10) },
            1 => Fault::Crash { provider },
            _ => Fault::Partition { consumer: rng.random_range(0..n_consumers as usize) },
        };
        (rng.random_range(0..3000) * MS, fault, rng.random_range(100..1000) * MS)
    });
    let faults = faults.collect();
    OverloadPlan { providers, consumers, faults, time: 4000 * MS }
}

fn any_provider(rng: &mut StdRng) -> Provider {
    let threads = [1, 2, 5, 20, 50][rng.random_range(0..5)];
    let is_known = rng.random_bool(0.6);
    Provider {
        threads,
        work: rng.random_range(2..100) * MS,
        queue: if rng.random_bool(0.5) { 0 } else { usize::MAX },
        rejects_after: MS,
        policy: if is_known { LimitPolicy::known(threads) } else { LimitPolicy::default() },
        is_known,
        n_workers: rng.random_range(1..=8),
        max_waiting: [3, 50, 4096][rng.random_range(0..3)],
    }
}

/// An app of 20 threads that take 50 ms for a call: 400 calls a second.
fn provider(policy: LimitPolicy, is_known: bool, n_workers: usize) -> Provider {
    let (threads, work, queue, max_waiting) = (20, 50 * MS, usize::MAX, 4096);
    let rejects_after = MS;
    Provider { threads, work, queue, rejects_after, policy, is_known, n_workers, max_waiting }
}

fn consumers(n: u32, per_s: f64) -> Vec<SimConsumer> {
    let consumer = SimConsumer { per_s: Some(per_s), timeout: 1000 * MS, ..SimConsumer::default() };
    vec![consumer; n as usize]
}

fn run(provider: Provider, consumers: Vec<SimConsumer>, seconds: u32) -> World {
    let plan = OverloadPlan {
        providers: vec![provider],
        consumers,
        faults: Vec::new(),
        time: seconds * 1000 * MS,
    };
    World::new(plan, 1).run()
}

/// What overload leaves of an app: all of its capacity, whether that is known or found out.
#[test]
fn an_app_that_queues_stays_useful_at_twice_its_capacity() {
    let known = LimitPolicy::known(20);
    for (policy, is_known, n_workers, least) in [
        (known, true, 1, 0.97),
        (known, true, 4, 0.95),
        (LimitPolicy::default(), false, 1, 0.9),
        (LimitPolicy::default(), false, 4, 0.9),
    ] {
        let world = run(provider(policy, is_known, n_workers), consumers(10, 80.0), 60);
        let share = world.tally.answered as f64 / (60.0 * 400.0);
        println!(
            "known {is_known}, {n_workers} workers: goodput {share:.3} of the capacity, {:?}",
            world.tally
        );
        assert!(least < share, "{share} of the capacity, {:?}", world.tally);
    }
}

#[test]
fn one_that_asks_for_everything_does_not_starve_the_others() {
    for n_workers in [1, 4] {
        let mut callers = consumers(10, 20.0);
        callers[0].per_s = Some(2000.0);
        let world = run(provider(LimitPolicy::known(20), true, n_workers), callers, 20);
        let shares: Vec<f64> = world.shares_answered().collect();
        println!("{n_workers} workers: answered {shares:.2?}");
        assert!(shares[1..].iter().all(|share| 0.8 < *share), "{shares:.2?}");
    }
}

/// More workers than the app has threads: each gets its turn, and little time is lost by that.
#[test]
fn capacity_goes_round_where_there_are_more_workers() {
    let few = Provider { threads: 2, ..provider(LimitPolicy::known(2), true, 8) };
    let world = run(few, consumers(16, 5.0), 60);
    let share = world.tally.answered as f64 / (60.0 * 40.0);
    let shares: Vec<f64> = world.shares_answered().collect();
    println!("goodput {share:.3} of the capacity, answered {shares:.2?}");
    assert!(0.9 < share, "{share}, {:?}", world.tally);
    assert!(shares.iter().all(|share| 0.2 < *share), "{shares:.2?}");
}

/// Many callers at once come to an app that rejects what it has no thread for, and of which
/// nothing is known. It gets few calls too many, and soon as many as it can take.
#[test]
fn an_app_that_rejects_is_found_out_fast() {
    let (app, direct) = (LimitPolicy::default(), LimitPolicy::direct());
    for (policy, threads, n_callers, rejects_after, most_rejected, least) in [
        (app, 6, 64, 1, 100, 0.8),
        (app, 6, 512, 1, 150, 0.75),
        (direct, 6, 512, 10, 150, 0.75),
        (app, 200, 512, 1, 250, 0.9),
        (direct, 200, 512, 1, 250, 0.9),
        // As in a cold start of three such providers.
        (app, 200, 170, 1, 0, 0.97),
        (app, 2000, 512, 1, 0, 0.95),
        (direct, 2000, 512, 1, 0, 0.95),
    ] {
        for (n_workers, seed) in [(1, 1), (2, 1), (2, 2), (2, 3)] {
            let provider = Provider {
                threads,
                queue: 0,
                rejects_after: rejects_after * MS,
                ..provider(policy, false, n_workers)
            };
            let caller = SimConsumer { timeout: 1000 * MS, ..SimConsumer::default() };
            let plan = OverloadPlan {
                providers: vec![provider],
                consumers: vec![caller; n_callers],
                faults: Vec::new(),
                time: 3000 * MS,
            };
            let OutcomeCounts { answered, rejected, .. } = World::new(plan, seed).run().tally;
            let share = answered as f64 / (60.0 * f64::from(threads).min(n_callers as f64));
            println!(
                "{threads} threads, {n_callers} callers, {n_workers} workers, seed {seed}: \
                 goodput {share:.3}, {rejected} rejected"
            );
            assert!(least < share && rejected <= most_rejected, "{share}, {rejected}");
        }
    }
}

/// An app with room for all rejects the calls of one caller, such as one whose quota is used up:
/// one, or some at once, while it has little to do, or now and then all the time. Others hardly
/// notice: methods that take 0 to 20 ms, and one that takes 300.
#[test]
fn what_is_rejected_for_its_own_sake_shuts_nobody_out() {
    let caller = SimConsumer {
        timeout: 3000 * MS,
        works: [1, 1, 2, 5, 10, 15, 20, 300].map(|ms| ms * MS).to_vec(),
        ..SimConsumer::default()
    };
    let refused = |per_s, active: Range<u32>| SimConsumer {
        per_s: Some(per_s),
        is_refused: true,
        active: Some(active.start * MS..active.end * MS),
        ..caller.clone()
    };
    // Who is there when they come, and what others are to get in the second after that, of what
    // they get without those calls.
    let cases = [
        ("one", refused(20.0, 1900..2000), true, 0.85),
        ("one", refused(20.0, 1900..2000), false, 0.85),
        ("some at once", refused(1500.0, 1980..1990), true, 0.6),
        ("some at once", refused(1500.0, 1980..1990), false, 0.6),
        // They show a full pool, and that has to be found wrong.
        ("many", refused(500.0, 1700..1990), true, 0.35),
        ("all the time", refused(20.0, 0..3000), true, 0.5),
    ];
    for policy in [LimitPolicy::known(200), LimitPolicy::default(), LimitPolicy::direct()] {
        for (what, refused, is_warm, least) in &cases {
            let goodput = |refused: Option<&SimConsumer>, n_workers, seed| {
                let active = |active: Range<u32>| {
                    let active = Some(active.start * MS..active.end * MS);
                    vec![SimConsumer { active, ..caller.clone() }; 30]
                };
                let mut consumers = active(2000..3000);
                consumers.extend(refused.cloned());
                if *is_warm {
                    consumers.extend(active(0..1500));
                }
                let threads = 200;
                let provider = Provider { threads, ..provider(policy, false, n_workers) };
                let (providers, faults, time) = (vec![provider], Vec::new(), 3000 * MS);
                let plan = OverloadPlan { providers, consumers, faults, time };
                World::new(plan, seed).run().answered().take(30).sum::<u64>() as f64
            };
            for (n_workers, seed) in [(1, 0), (1, 1), (1, 2), (2, 3), (2, 4), (2, 5)] {
                let share =
                    goodput(Some(refused), n_workers, seed) / goodput(None, n_workers, seed);
                println!("{what}, warm {is_warm}, {n_workers} workers, seed {seed}: {share:.2}");
                assert!(*least < share, "{what}, warm {is_warm}: {share} with {policy:?}");
            }
        }
    }
}

/// Room goes round among the workers, and calls of the first one are slow. Its other callers get
/// their turns, and it does not get all.
#[test]
fn slow_calls_of_a_worker_starve_nobody_where_room_goes_round() {
    for (threads, n_workers, n_slow, least_slow_worker, least_other) in [
        (2, 2, 1, 150, 250),
        (3, 2, 1, 300, 500),
        (3, 4, 1, 180, 230),
        (2, 8, 1, 50, 60),
        // All that the first worker does is slow.
        (2, 2, 9, 0, 180),
    ] {
        let provider = Provider {
            threads,
            work: 20 * MS,
            ..provider(LimitPolicy::known(threads), true, n_workers)
        };
        let caller = |worker| SimConsumer {
            timeout: 6000 * MS,
            worker: Some(worker),
            ..SimConsumer::default()
        };
        let slow = SimConsumer { works: vec![4000 * MS], timeout: 60_000 * MS, ..caller(0) };
        let mut callers = vec![slow; n_slow];
        (0..2 * n_workers).for_each(|n| callers.push(caller(n % n_workers)));
        let world = run(provider, callers, 20);
        let answered: Vec<u64> = world.answered().collect();
        println!("{threads} threads, {n_workers} workers: answered {answered:?}");
        for (n, answered) in answered[n_slow..].iter().enumerate() {
            let least = if n % n_workers == 0 { least_slow_worker } else { least_other };
            assert!(least <= *answered, "caller {n} of {n_workers} workers: {answered}");
        }
    }
}
