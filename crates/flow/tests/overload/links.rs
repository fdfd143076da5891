//! What credits cost in a mesh: many consumers' agents, each with a link to every provider's
//! agent, which deals its app's capacity to them.

use std::time::{Duration, Instant};

use flow::lender::{DEAL_INTERVAL, Lender, OwnDemand};
use flow::purse::Purse;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const CAPACITY: u32 = 200;

/// What was seen of a mesh.
#[derive(Debug)]
#[expect(dead_code, reason = "all of it is printed")]
struct Cost {
    /// CREDIT and DEMAND frames a second and link while demand stays as it is.
    frames_per_s_and_link: f64,
    /// The same for a provider's agent.
    frames_per_s_and_provider: f64,
    /// After demand has changed, until less than a fiftieth of what is wanted lies idle elsewhere.
    converged_after: Duration,
    /// Of the capacity, what lies idle while somebody wants it.
    idle: f64,
    /// The longest that a link that wants something was without a credit.
    longest_without: Duration,
}

/// Demand that moves: each consumer uses a part of the providers, and after a while others.
struct ShiftingDemand {
    rng: StdRng,
    now: Instant,
    providers: Vec<Lender>,
    /// The other ends of the links: by provider and consumer.
    purses: Vec<Vec<Purse>>,
    demands: Vec<Vec<u32>>,
    without: Vec<Vec<u32>>,
    longest_without: u32,
    n_frames: u64,
}

impl ShiftingDemand {
    fn new(n_consumers: u32, n_providers: usize, seed: u64) -> Self {
        let now = Instant::now();
        let lender = |_| {
            let mut lender = Lender::new(CAPACITY, OwnDemand::default(), now);
            (0..n_consumers).for_each(|consumer| lender.join(now, consumer.into(), 0));
            lender
        };
        let providers = (0..n_providers).map(lender).collect();
        let purses = |_| (0..n_consumers).map(|_| Purse::new(now)).collect();
        let purses = (0..n_providers).map(purses).collect();
        let none = vec![vec![0; n_consumers as usize]; n_providers];
        let (demands, without) = (none.clone(), none);
        let rng = StdRng::seed_from_u64(seed);
        Self { rng, now, providers, purses, demands, without, longest_without: 0, n_frames: 0 }
    }

    /// Every consumer wants something of a part of the providers.
    fn change_demands(&mut self, part: f64, most: u32) {
        for demand in self.demands.iter_mut().flatten() {
            *demand = 0;
            if self.rng.random_bool(part) {
                *demand = self.rng.random_range(1..=most);
            }
        }
        self.without.iter_mut().flatten().for_each(|n| *n = 0);
    }

    /// One interval. Returns what lies idle while it is wanted, of all capacity.
    fn step(&mut self) -> f64 {
        self.now += DEAL_INTERVAL;
        let (now, mut idle) = (self.now, 0);
        for (index, provider) in self.providers.iter_mut().enumerate() {
            let (demands, purses) = (&self.demands[index], &mut self.purses[index]);
            for ((link, demand), purse) in (0..).zip(demands).zip(&mut *purses) {
                purse.want(*demand);
                if let Some(demand) = purse.poll_demand(now) {
                    self.n_frames += 1;
                    provider.demand(now, link, demand);
                }
            }
            provider.look(now, OwnDemand::default());
            // What is to be returned is free by then: calls are shorter than the interval.
            while let Some(told) = provider.poll_told() {
                self.n_frames += 1;
                let purse = &mut purses[usize::try_from(told.link).unwrap()];
                purse.set_credits(Some(told.credits));
                if let Some(demand) = purse.poll_demand(now) {
                    self.n_frames += 1;
                    provider.demand(now, told.link, demand);
                }
            }
            let held: u32 = purses.iter().filter_map(Purse::credits).sum();
            assert!(held <= CAPACITY && provider.n_held() <= CAPACITY);
            let (mut used, mut wanted) = (0, 0);
            for ((purse, demand), without) in
                purses.iter().zip(demands).zip(&mut self.without[index])
            {
                let held = purse.credits().unwrap_or(0);
                used += held.min(*demand);
                wanted += demand;
                *without = if *demand == 0 || 0 < held { 0 } else { *without + 1 };
                self.longest_without = self.longest_without.max(*without);
            }
            idle += wanted.min(CAPACITY) - used;
        }
        f64::from(idle) / (f64::from(CAPACITY) * self.providers.len() as f64)
    }
}

fn cost(n_consumers: u32, n_providers: usize, seed: u64, part: f64, most: u32) -> Cost {
    let mut demand = ShiftingDemand::new(n_consumers, n_providers, seed);
    demand.change_demands(part, most);
    (0..20).for_each(|_| {
        demand.step();
    });
    demand.change_demands(part, most);
    let n_deals = (1..100).find(|_| demand.step() < 0.02).expect("it converges");
    let (before, n_steps) = (demand.n_frames, 30);
    let idle = (0..n_steps).map(|_| demand.step()).sum::<f64>() / f64::from(n_steps);
    let seconds = (DEAL_INTERVAL * n_steps).as_secs_f64();
    let per_s = (demand.n_frames - before) as f64 / seconds;
    Cost {
        frames_per_s_and_link: per_s / (f64::from(n_consumers) * n_providers as f64),
        frames_per_s_and_provider: per_s / n_providers as f64,
        converged_after: DEAL_INTERVAL * n_deals,
        idle,
        longest_without: DEAL_INTERVAL * demand.longest_without,
    }
}

/// Prints and checks what credits cost: with half of the capacity wanted, with twice of it, and
/// with each consumer wanting each provider, so that credits go round. Each seed is one mesh.
fn costs(n_consumers: u32, n_providers: usize) {
    let (first, n_seeds) = super::seeds(1);
    for seed in first..first + n_seeds {
        super::replayable(seed, || costs_of(n_consumers, n_providers, seed));
    }
}

fn costs_of(n_consumers: u32, n_providers: usize, seed: u64) {
    let each = f64::from(CAPACITY) / f64::from(n_consumers);
    for part in [each / 4.0, each, 1.0] {
        let (part, most) = (part.min(1.0), 3);
        let load = part * 2.0 / each;
        let cost = cost(n_consumers, n_providers, seed, part, most);
        println!(
            "SIM_SEED={seed}: {n_consumers} consumers, {n_providers} providers, load {load:.1}: \
             {cost:.3?}"
        );
        assert!(cost.idle < 0.02, "{cost:?}");
        assert!(cost.converged_after <= Duration::from_secs(1), "{cost:?}");
        assert!(cost.frames_per_s_and_link <= 10.0, "{cost:?}");
        assert!(cost.longest_without <= Duration::from_secs(2), "{cost:?}");
    }
}

#[test]
fn credits_of_an_estate_cost_little() {
    costs(300, 10);
}

/// Providers share nothing, so more of them show nothing new. All 300 of them:
/// `SIM_PROVIDERS=300 cargo test --release -p flow --test overload large -- --nocapture`
#[test]
fn credits_of_a_large_estate_cost_little() {
    let n_providers = std::env::var("SIM_PROVIDERS").ok().and_then(|n| n.parse().ok());
    costs(1000, n_providers.unwrap_or(4));
}
