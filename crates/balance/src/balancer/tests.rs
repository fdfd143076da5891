//! Shares, counts and simulated clusters. Random numbers are seeded, time is an argument.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use proptest::collection::vec;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::{WarmUp, test_start};

const MS: Duration = Duration::from_millis(1);

fn rng() -> StdRng {
    StdRng::seed_from_u64(11)
}

fn specs(weights: &[u32]) -> Vec<EndpointSpec<usize>> {
    let spec = |(key, weight): (usize, &u32)| EndpointSpec { key, weight: *weight, warm_up: None };
    weights.iter().enumerate().map(spec).collect()
}

fn balancer(policy: Policy, weights: &[u32], now: Instant) -> Balancer<usize> {
    let mut balancer = Balancer::new(policy);
    balancer.update(now, specs(weights));
    balancer
}

fn picks(balancer: &Balancer<usize>) -> Vec<u64> {
    let mut all: Vec<_> = balancer.stats().map(|stats| (*stats.key, stats.picks)).collect();
    all.sort_unstable();
    all.into_iter().map(|(_, picks)| picks).collect()
}

/// A cluster under a closed loop of `callers`; endpoint `i` works on `threads[i]` calls at once,
/// the rest wait in its queue, each call takes `work[i]`.
struct Cluster {
    work: Vec<Duration>,
    threads: Vec<usize>,
    callers: usize,
}

struct BalancedRun {
    done: Vec<u64>,
    max_in_flight: Vec<u32>,
}

impl Cluster {
    fn run(&self, balancer: &mut Balancer<usize>, calls: usize, seed: u64) -> BalancedRun {
        let mut rng = StdRng::seed_from_u64(seed);
        let start = test_start();
        // Per endpoint, when each of its threads is free again.
        let mut free_at: Vec<BinaryHeap<Reverse<Instant>>> =
            self.threads.iter().map(|n| (0..*n).map(|_| Reverse(start)).collect()).collect();
        let mut ends = BinaryHeap::new();
        let mut tickets = HashMap::new();
        let mut outcome =
            BalancedRun { done: vec![0; self.work.len()], max_in_flight: vec![0; self.work.len()] };
        let mut now = start;
        for id in 0..calls {
            if self.callers <= tickets.len() {
                let Reverse((end, ended, begun, key)) = ends.pop().unwrap();
                now = end;
                balancer.finish(
                    tickets.remove(&ended).unwrap(),
                    now,
                    end - begun,
                    Verdict::Answered,
                    self::rng,
                );
                outcome.done[key] += 1;
            }
            let slot = balancer.pick(now, &mut rng, |_| true).unwrap();
            let key = *balancer.key(slot).unwrap();
            tickets.insert(id, balancer.begin(slot));
            let in_flight = balancer.stats_of(slot).unwrap().in_flight;
            outcome.max_in_flight[key] = outcome.max_in_flight[key].max(in_flight);
            let Reverse(free) = free_at[key].pop().unwrap();
            let end = free.max(now) + self.work[key];
            free_at[key].push(Reverse(end));
            ends.push(Reverse((end, id, now, key)));
        }
        for ticket in tickets.into_values() {
            balancer.abandon(ticket);
        }
        assert_eq!(balancer.stats().map(|stats| stats.in_flight).sum::<u32>(), 0);
        outcome
    }
}

#[test]
fn nothing_to_choose_from() {
    let now = test_start();
    let mut rng = StdRng::seed_from_u64(1);
    for policy in Policy::ALL {
        let mut empty = Balancer::<usize>::new(policy);
        assert_eq!(empty.pick(now, &mut rng, |_| true), None);
        let mut idle = balancer(policy, &[0, 0], now);
        assert_eq!(idle.pick(now, &mut rng, |_| true), None, "{policy}: weight 0 is no traffic");
        let mut hidden = balancer(policy, &[1, 1], now);
        assert_eq!(hidden.pick(now, &mut rng, |_| false), None);
        let slot = hidden.pick(now, &mut rng, |key| *key == 1).unwrap();
        assert_eq!(hidden.key(slot), Some(&1), "{policy}: the only available one");
    }
}

/// Among many endpoints the only available one is found, by every policy.
#[test]
fn finds_the_needle() {
    let now = test_start();
    let mut rng = StdRng::seed_from_u64(2);
    for policy in Policy::ALL {
        let mut balancer = balancer(policy, &[100; 1000], now);
        for needle in [0, 500, 999] {
            let slot = balancer.pick(now, &mut rng, |key| *key == needle).unwrap();
            assert_eq!(balancer.key(slot), Some(&needle), "{policy}");
        }
    }
}

#[test]
fn workers_do_not_begin_with_the_same_endpoint() {
    let now = test_start();
    let mut firsts = [0; 4];
    for seed in 0..400 {
        let mut balancer = balancer(Policy::RoundRobin, &[1; 4], now);
        let slot = balancer.pick(now, &mut StdRng::seed_from_u64(seed), |_| true).unwrap();
        firsts[slot.index()] += 1;
    }
    assert!(firsts.iter().all(|n| (60..140).contains(n)), "{firsts:?}");
}

/// The contest's cluster: three providers of which the first is half as large.
#[test]
fn three_providers_share_by_capacity() {
    let cluster = Cluster { work: vec![50 * MS; 3], threads: vec![112, 200, 200], callers: 512 };
    for policy in [Policy::LeastInFlight, Policy::RoundRobin] {
        let mut balancer = balancer(policy, &[112, 200, 200], test_start());
        let outcome = cluster.run(&mut balancer, 100_000, 3);
        for (max, threads) in outcome.max_in_flight.iter().zip(&cluster.threads) {
            let over = i64::from(*max) - i64::try_from(*threads).unwrap();
            assert!(over <= 2, "{policy}: {:?}", outcome.max_in_flight);
        }
    }
}

/// A weight is a share of the calls, also while hardly any are in flight.
#[test]
fn weights_are_shares_at_any_load() {
    for (weights, callers) in [
        (&[50, 100][..], 1),
        (&[50, 100], 2),
        (&[50, 100], 7),
        (&[1, 100], 1),
        (&[1, 100], 2),
        (&[1, 100], 10),
        (&[1, 10, 100, 100], 3),
        (&[200, 100, 100], 500),
    ] {
        for policy in [Policy::Adaptive, Policy::LeastInFlight] {
            let (work, threads) = (vec![10 * MS; weights.len()], vec![1000; weights.len()]);
            let cluster = Cluster { work, threads, callers };
            let mut balancer = balancer(policy, weights, test_start());
            let done = cluster.run(&mut balancer, 20_000, 8).done;
            let (sum, all) = (weights.iter().sum::<u32>(), done.iter().sum::<u64>());
            for (weight, done) in weights.iter().zip(&done) {
                let share = *done as f64 / all as f64;
                let wanted = f64::from(*weight) / f64::from(sum);
                // Two calls in flight cannot be shared out by thirds.
                let is_near = (share - wanted).abs() <= wanted * 0.26;
                assert!(is_near, "{policy} {weights:?} {callers}: {share}, not {wanted}");
            }
        }
    }
}

/// Where weights differ, an endpoint that has become slow is left alone all the same.
#[test]
fn a_slow_endpoint_gets_few_calls_whatever_its_weight() {
    for callers in [1, 30] {
        let cluster =
            Cluster { work: vec![100 * MS, 10 * MS, 10 * MS], threads: vec![1000; 3], callers };
        let mut balancer = balancer(Policy::Adaptive, &[100, 100, 50], test_start());
        let done = cluster.run(&mut balancer, 20_000, 9).done;
        assert!(done[0] * 4 < done[1] && 0 < done[0], "{callers}: {done:?}");
    }
}

/// Equal weights, but the first provider has half the threads: its queue shows in its latency.
#[test]
fn power_of_two_finds_the_small_provider() {
    let cluster = Cluster { work: vec![50 * MS; 3], threads: vec![100, 200, 200], callers: 512 };
    let mut balancer = balancer(Policy::PowerOfTwo, &[100; 3], test_start());
    let outcome = cluster.run(&mut balancer, 200_000, 4);
    let small = outcome.done[0] as f64 / outcome.done.iter().sum::<u64>() as f64;
    assert!((0.15..0.25).contains(&small), "share {small}, {:?}", outcome.done);
}

#[test]
fn power_of_two_sends_less_to_a_slow_endpoint() {
    let cluster =
        Cluster { work: vec![100 * MS, 10 * MS, 10 * MS], threads: vec![1000; 3], callers: 30 };
    let mut balancer = balancer(Policy::PowerOfTwo, &[100; 3], test_start());
    let done = cluster.run(&mut balancer, 50_000, 5).done;
    assert!(done[0] * 8 < done[1] && 0 < done[0], "{done:?}");
    assert!(done[1].abs_diff(done[2]) * 10 < done[1], "{done:?}");
}

/// Not one call comes back from the endpoint that hangs: few may go there, and only a few more as
/// time passes.
#[test]
fn power_of_two_leaves_a_hanging_endpoint() {
    let work = vec![Duration::from_secs(3600), 10 * MS, 10 * MS];
    let cluster = Cluster { work, threads: vec![1000; 3], callers: 100 };
    let mut balancer = balancer(Policy::PowerOfTwo, &[100; 3], test_start());
    let outcome = cluster.run(&mut balancer, 100_000, 6);
    assert!(outcome.max_in_flight[0] <= 40, "{:?}", outcome.max_in_flight);
}

/// A slow endpoint that has been idle is tried again, with one call at a time.
#[test]
fn power_of_two_explores_one_call_at_a_time() {
    let start = test_start();
    let mut rng = StdRng::seed_from_u64(7);
    let mut balancer = balancer(Policy::PowerOfTwo, &[100; 2], start);
    let (slow, fast) = (balancer.slot(&0).unwrap(), balancer.slot(&1).unwrap());
    let ticket = balancer.begin(slow);
    balancer.finish(ticket, start, Duration::from_secs(1), Verdict::Answered, self::rng);
    let ticket = balancer.begin(fast);
    balancer.finish(ticket, start, 10 * MS, Verdict::Answered, self::rng);
    assert_eq!(balancer.pick(start, &mut rng, |_| true), Some(fast));

    let later = start + Duration::from_secs(60);
    let ticket = balancer.begin(fast);
    balancer.finish(ticket, later, 10 * MS, Verdict::Answered, self::rng);
    assert_eq!(balancer.pick(later, &mut rng, |_| true), Some(slow), "forgiven");
    let _hanging = balancer.begin(slow);
    assert_eq!(balancer.pick(later, &mut rng, |_| true), Some(fast), "until it answers");
}

#[test]
fn power_of_two_follows_weights_under_load() {
    let cluster = Cluster { work: vec![10 * MS; 3], threads: vec![1000; 3], callers: 300 };
    let mut balancer = balancer(Policy::PowerOfTwo, &[100, 200, 300], test_start());
    let done = cluster.run(&mut balancer, 100_000, 8).done;
    for (i, share) in [1.0 / 6.0, 2.0 / 6.0, 3.0 / 6.0].into_iter().enumerate() {
        assert!((done[i] as f64 / 100_000.0 - share).abs() < 0.05, "{done:?}");
    }
}

#[test]
fn warming_endpoint_gets_its_growing_share() {
    let start = test_start();
    let mut rng = StdRng::seed_from_u64(9);
    let mut balancer = Balancer::new(Policy::RoundRobin);
    let warm_up = WarmUp::new(start, Duration::ZERO, Duration::from_secs(100));
    let cold = EndpointSpec { key: 0_usize, weight: 100, warm_up };
    balancer.update(start, [cold, EndpointSpec { key: 1, weight: 100, warm_up: None }]);
    let mut share = |seconds| {
        let now = start + Duration::from_secs(seconds);
        let one = |_| balancer.pick(now, &mut rng, |_| true).unwrap().index();
        (0..1000).map(one).filter(|index| *index == 0).count()
    };
    assert!((5..=15).contains(&share(0)));
    assert!((300..=366).contains(&share(50)));
    assert!((490..=510).contains(&share(100)));
}

#[test]
fn a_ticket_outlives_its_endpoint() {
    let now = test_start();
    let mut balancer = balancer(Policy::RoundRobin, &[1, 1], now);
    let slot = balancer.slot(&0).unwrap();
    let (first, second) = (balancer.begin(slot), balancer.begin(slot));
    let only_second = || specs(&[1, 1]).into_iter().skip(1);
    balancer.update(now, only_second());
    assert!(balancer.stats_of(slot).is_some_and(|stats| stats.leaving && stats.in_flight == 2));
    assert_eq!(balancer.slot(&0), None);
    balancer.finish(first, now, MS, Verdict::Answered, self::rng);
    // It comes back before its last call has ended: same slot, same count.
    balancer.update(now, specs(&[1, 1]));
    assert!(balancer.stats_of(slot).is_some_and(|stats| !stats.leaving && stats.in_flight == 1));
    balancer.update(now, only_second());
    balancer.finish(second, now, MS, Verdict::Answered, self::rng);
    assert_eq!((balancer.stats_of(slot), balancer.stats().count()), (None, 1));

    // Another endpoint takes the place; what still carries the old slot does not touch it.
    balancer.update(now, [EndpointSpec { key: 7, weight: 1, warm_up: None }]);
    let stale = balancer.begin(slot);
    balancer.finish(stale, now, MS, Verdict::Answered, self::rng);
    assert!(balancer.stats().all(|stats| stats.picks == 0 && stats.latency.is_none()));
}

#[test]
fn the_first_of_two_equal_keys_counts() {
    let now = test_start();
    let mut balancer = Balancer::new(Policy::Random);
    let spec = |weight| EndpointSpec { key: 1, weight, warm_up: None };
    for _ in 0..2 {
        balancer.update(now, [spec(5), spec(9)]);
        let weights: Vec<_> = balancer.stats().map(|stats| stats.weight).collect();
        assert_eq!((weights, balancer.len()), (vec![5], 1));
    }
}

proptest! {
    /// Over a cycle each endpoint gets exactly its weight, and over any part of one at most one
    /// call more or less than its share for equal weights.
    #[test]
    fn round_robin_is_exact(weights in vec(0..20_u32, 1..12), seed: u64) {
        let (now, sum) = (test_start(), weights.iter().sum::<u32>());
        let mut rng = StdRng::seed_from_u64(seed);
        let mut balancer = balancer(Policy::RoundRobin, &weights, now);
        for cycle in 1..=3 {
            for _ in 0..sum {
                let slot = balancer.pick(now, &mut rng, |_| true).unwrap();
                let _never_finished = balancer.begin(slot);
            }
            let expected: Vec<_> = weights.iter().map(|w| u64::from(*w) * cycle).collect();
            prop_assert_eq!(picks(&balancer), expected);
        }
    }

    #[test]
    fn random_follows_weights(weights in vec(1..10_u32, 2..6), seed: u64) {
        let (now, n_calls) = (test_start(), 20_000_u32);
        let mut rng = StdRng::seed_from_u64(seed);
        let mut balancer = balancer(Policy::Random, &weights, now);
        for _ in 0..n_calls {
            let slot = balancer.pick(now, &mut rng, |_| true).unwrap();
            let _never_finished = balancer.begin(slot);
        }
        let sum = f64::from(weights.iter().sum::<u32>());
        for (weight, n) in weights.iter().zip(picks(&balancer)) {
            prop_assert!((n as f64 / f64::from(n_calls) - f64::from(*weight) / sum).abs() < 0.03);
        }
    }

    /// With equal weights no endpoint ever has more than its share of the calls in flight, rounded
    /// up, and calls one after the other go round evenly.
    #[test]
    fn least_in_flight_is_even(n in 1..9_usize, calls in 1..200_usize, seed: u64) {
        let now = test_start();
        let mut rng = StdRng::seed_from_u64(seed);
        let mut balancer = balancer(Policy::LeastInFlight, &vec![100; n], now);
        for call in 1..=calls {
            let slot = balancer.pick(now, &mut rng, |_| true).unwrap();
            let _in_flight = balancer.begin(slot);
            let max = balancer.stats().map(|stats| stats.in_flight as usize).max().unwrap();
            prop_assert!(max <= call.div_ceil(n));
        }
        let mut idle = self::balancer(Policy::LeastInFlight, &vec![100; n], now);
        for _ in 0..calls {
            let slot = idle.pick(now, &mut rng, |_| true).unwrap();
            let ticket = idle.begin(slot);
            idle.finish(ticket, now, MS, Verdict::Answered, self::rng);
        }
        let picks = picks(&idle);
        prop_assert!(picks.iter().max().unwrap() - picks.iter().min().unwrap() <= 1);
    }

    /// Whatever comes, goes and comes back: each endpoint's count is that of its tickets, a pick
    /// is a listed endpoint with weight, and in the end nothing is left behind.
    #[test]
    fn counts_survive_any_history(
        steps in vec((0..4_u8, vec(0..3_u32, 0..8), any::<prop::sample::Index>()), 1..120),
        policy in prop::sample::select(Policy::ALL.to_vec()),
        seed: u64,
    ) {
        let now = test_start();
        let mut rng = StdRng::seed_from_u64(seed);
        let mut balancer = Balancer::new(policy);
        let mut tickets: Vec<(usize, Ticket)> = Vec::new();
        let mut weights = Vec::new();
        for (what, update, which) in steps {
            match what {
                0 => {
                    weights = update;
                    balancer.update(now, specs(&weights));
                }
                1 | 2 => if let Some(slot) = balancer.pick(now, &mut rng, |_| true) {
                    let key = *balancer.key(slot).unwrap();
                    prop_assert!(0 < weights[key]);
                    tickets.push((key, balancer.begin(slot)));
                } else {
                    prop_assert_eq!(weights.iter().sum::<u32>(), 0);
                },
                _ => if !tickets.is_empty() {
                    let (_, ticket) = tickets.swap_remove(which.index(tickets.len()));
                    balancer.finish(ticket, now, MS, Verdict::Answered, self::rng);
                },
            }
            for stats in balancer.stats() {
                let expected = tickets.iter().filter(|(key, _)| key == stats.key).count();
                prop_assert_eq!(stats.in_flight as usize, expected);
                prop_assert_eq!(stats.leaving, weights.len() <= *stats.key);
            }
        }
        for (_, ticket) in tickets {
            balancer.abandon(ticket);
        }
        prop_assert_eq!(balancer.stats().count(), weights.len());
    }
}

/// The endpoint that refuses answers fastest. Whatever the policy, it is asked a few times, and
/// not again and again.
#[test]
fn who_refuses_is_not_asked_again_at_once() {
    for policy in Policy::ALL {
        let (start, mut rng) = (test_start(), StdRng::seed_from_u64(7));
        let mut balancer = balancer(policy, &[1, 1, 1], start);
        let mut n_refused = 0;
        // 12 seconds, a call each millisecond.
        for ms in 0..12_000 {
            let now = start + ms * MS;
            let slot = balancer.pick(now, &mut rng, |_| true).unwrap();
            let ticket = balancer.begin(slot);
            if *balancer.key(slot).unwrap() == 0 {
                n_refused += 1;
                balancer.finish(ticket, now, Duration::ZERO, Verdict::Refused, self::rng);
            } else {
                balancer.finish(ticket, now, MS, Verdict::Answered, self::rng);
            }
        }
        assert!((2..=12).contains(&n_refused), "{policy}: {n_refused} calls were refused");
    }
}

#[test]
fn who_refuses_is_asked_where_nobody_else_is_left_and_used_when_it_answers() {
    for policy in Policy::ALL {
        let (now, mut rng) = (test_start(), StdRng::seed_from_u64(7));
        let mut balancer = balancer(policy, &[1, 1], now);
        for key in [0, 1] {
            let slot = balancer.pick(now, &mut rng, |it| *it == key).unwrap();
            let ticket = balancer.begin(slot);
            balancer.finish(ticket, now, MS, Verdict::Refused, self::rng);
            assert!(balancer.stats_of(slot).unwrap().ejection.is_some());
        }
        let slot = balancer.pick(now, &mut rng, |_| true).expect("all rest, so all may be asked");
        let ticket = balancer.begin(slot);
        balancer.finish(ticket, now, MS, Verdict::Answered, self::rng);
        for _ in 0..10 {
            assert_eq!(balancer.pick(now, &mut rng, |_| true), Some(slot), "{policy}");
        }
        // An endpoint that goes takes its rest along.
        balancer.update(now, specs(&[1, 1]).into_iter().take(1));
        balancer.update(now, specs(&[1, 1]));
        assert_eq!(balancer.n_out, balancer.stats().filter(|it| it.ejection.is_some()).count());
    }
}

fn affinity(balancer: &Balancer<usize>) -> Affinity {
    let addresses: Vec<(String, Slot)> =
        balancer.stats().map(|stats| (format!("10.0.0.{}:1", stats.key), stats.slot)).collect();
    Affinity::new(160, addresses.iter().map(|(address, slot)| (&**address, *slot)))
}

proptest! {
    /// A key leads to the same endpoint as long as that takes calls, and whoever takes one gets
    /// it.
    #[test]
    fn a_key_is_led_to_one_endpoint_or_past_those_that_take_none(
        weights in vec(0..3_u32, 1..12), point: u32, out in vec(any::<bool>(), 12),
    ) {
        let now = test_start();
        let mut balancer = balancer(Policy::ConsistentHash, &weights, now);
        let affinity = affinity(&balancer);
        let mut pick = |available: &dyn Fn(&usize) -> bool| {
            let slot = balancer.pick_at(now, &mut rng(), &affinity, point, available);
            slot.and_then(|slot| balancer.key(slot).copied())
        };
        let first = pick(&|_| true);
        prop_assert_eq!(first, pick(&|_| true));
        prop_assert_eq!(first.is_some(), weights.iter().any(|weight| *weight != 0));
        let next = pick(&|key| !out[*key]);
        let is_any = weights.iter().zip(&out).any(|(weight, out)| *weight != 0 && !out);
        prop_assert_eq!(next.is_some(), is_any);
        prop_assert!(next.is_none_or(|key| weights[key] != 0 && !out[key]));
        prop_assert!(first.is_none_or(|key| out[key] || next == Some(key)));
    }
}

#[test]
fn a_key_goes_past_an_ejected_endpoint_and_comes_back() {
    let mut now = test_start();
    let mut balancer = balancer(Policy::ConsistentHash, &[1, 1, 1], now);
    let (affinity, mut rng) = (affinity(&balancer), rng());
    let mut call = |balancer: &mut Balancer<usize>, verdict| {
        now += 20 * MS;
        let slot = balancer.pick_at(now, &mut rng, &affinity, 7, |_| true).unwrap();
        let (key, ticket) = (*balancer.key(slot).unwrap(), balancer.begin(slot));
        balancer.finish(ticket, now, MS, verdict, || StdRng::seed_from_u64(1));
        key
    };
    let first = call(&mut balancer, Verdict::Answered);
    for _ in 0..5 {
        assert_eq!(call(&mut balancer, Verdict::Failed), first);
    }
    let other = call(&mut balancer, Verdict::Answered);
    assert_ne!(other, first, "it is ejected");
    let back = (0..1000).find(|_| call(&mut balancer, Verdict::Answered) == first);
    assert!(back.is_some(), "its trial comes, and it is back");
}

/// Whoever turns ejection off wants the endpoints back, and not half a minute later.
#[test]
fn what_is_out_for_a_reason_that_is_turned_off_takes_calls_at_once() {
    let usual = OutlierPolicy { time: 1000 * MS, ..OutlierPolicy::default() };
    for (policy, is_back) in [
        (OutlierPolicy { max_percent: 0, ..usual }, true),
        (OutlierPolicy { failures: 0, ..usual }, true),
        (OutlierPolicy { error_percent: 0, ..usual }, false),
        (OutlierPolicy { failures: 9, ..usual }, false),
    ] {
        let mut now = test_start();
        let (mut balancer, mut rng) = (balancer(Policy::RoundRobin, &[1, 1], now), rng());
        balancer.set_outlier(usual);
        for _ in 0..20 {
            now += 20 * MS;
            let slot = balancer.pick(now, &mut rng, |_| true).unwrap();
            let is_bad = balancer.key(slot) == Some(&0);
            let verdict = if is_bad { Verdict::Failed } else { Verdict::Answered };
            let ticket = balancer.begin(slot);
            balancer.finish(ticket, now, MS, verdict, || StdRng::seed_from_u64(1));
        }
        assert!(balancer.has_ejected());
        while balancer.poll_change().is_some() {}
        balancer.set_outlier(policy);
        assert_eq!(balancer.has_ejected(), !is_back, "{policy:?}");
        let back = is_back.then_some(Changed { key: 0, ejection: None });
        assert_eq!(balancer.poll_change(), back, "it is shown");
    }
}
