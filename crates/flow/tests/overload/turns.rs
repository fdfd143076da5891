//! Links take turns where there are more of them than credits: agents with callers that always
//! have calls, and an agent whose workers lend an app's capacity to their links.

use std::collections::VecDeque;

use std::time::{Duration, Instant};

use flow::capacity::{Capacity, Report};
use flow::lender::{DEAL_INTERVAL, Lender, OwnDemand};
use flow::limit::{LimitPolicy, Sample};
use flow::purse::{Coin, Purse};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::MS;

const STEP: Duration = Duration::from_millis(5);
/// Each link has so many callers that make one call after the other.
const N_CALLERS: usize = 2;
/// A call waits for so long, or for as long as a call takes, before it is shed.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
struct TurnsPlan {
    capacity: u32,
    n_links: usize,
    n_workers: usize,
    work: Duration,
    /// How long a caller whose call was shed does nothing.
    pause: Duration,
}

enum Caller {
    Idle {
        until: Instant,
    },
    /// At the gate, without a credit.
    AtGate {
        since: Instant,
    },
    AtLink {
        since: Instant,
    },
    Runs {
        until: Instant,
        coin: Option<Coin>,
    },
}

struct TurnsLink {
    purse: Purse,
    worker: usize,
    callers: [Caller; N_CALLERS],
    n_served: u64,
    served_at: Instant,
    longest_gap: Duration,
}

#[derive(Default)]
struct TurnsWorker {
    lender: Option<Lender>,
    limit: u32,
    own_in_flight: u32,
    /// Callers that wait at the gate: the link and which one.
    line: VecDeque<(usize, usize)>,
}

struct TurnsSimulation {
    plan: TurnsPlan,
    rng: StdRng,
    now: Instant,
    capacity: Capacity,
    workers: Vec<TurnsWorker>,
    links: Vec<TurnsLink>,
}

impl TurnsWorker {
    fn own(&self) -> OwnDemand {
        let n_waiting = u32::try_from(self.line.len()).unwrap();
        OwnDemand { in_flight: self.own_in_flight, demand: self.own_in_flight + n_waiting }
    }

    fn own_limit(&self) -> u32 {
        self.lender.as_ref().map_or(self.limit, Lender::own_limit)
    }
}

impl TurnsSimulation {
    fn new(plan: TurnsPlan, seed: u64) -> Self {
        let now = Instant::now();
        let capacity = Capacity::new(LimitPolicy::known(plan.capacity), plan.n_workers, now);
        let link = |n| TurnsLink {
            purse: Purse::new(now),
            worker: n % plan.n_workers,
            callers: [(); N_CALLERS].map(|()| Caller::Idle { until: now }),
            n_served: 0,
            served_at: now,
            longest_gap: Duration::ZERO,
        };
        let links = (0..plan.n_links).map(link).collect();
        let workers = (0..plan.n_workers).map(|_| TurnsWorker::default()).collect();
        Self { plan, rng: StdRng::seed_from_u64(seed), now, capacity, workers, links }
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now += STEP;
            (0..self.links.len()).for_each(|link| self.end_calls(link));
            let is_report = self.now.duration_since(end - time).as_millis().is_multiple_of(20);
            (0..self.workers.len()).filter(|_| is_report).for_each(|worker| self.report(worker));
            for worker in 0..self.workers.len() {
                self.workers[worker].limit = self.capacity.allowance(worker).limit;
                let (limit, now) = (self.workers[worker].limit, self.now);
                if let Some(lender) = &mut self.workers[worker].lender {
                    lender.set_capacity(limit, now);
                }
                self.hear(worker);
                self.admit(worker);
            }
            (0..self.links.len()).for_each(|link| self.make_calls(link));
            (0..self.workers.len()).for_each(|worker| self.hear(worker));
            let runs = |caller: &&Caller| matches!(caller, Caller::Runs { .. });
            let n = self.links.iter().flat_map(|it| &it.callers).filter(runs).count();
            assert!(n <= self.plan.capacity as usize, "over capacity: {n}, {:?}", self.plan);
        }
    }

    fn end_calls(&mut self, index: usize) {
        let (link, now) = (&mut self.links[index], self.now);
        let worker = &mut self.workers[link.worker];
        for caller in &mut link.callers {
            let Caller::Runs { until, coin } = caller else { continue };
            if now < *until {
                continue;
            }
            match coin.take() {
                Some(coin) => {
                    link.purse.ended(coin, now, true);
                    let lender = worker.lender.as_mut().expect("it lent a credit");
                    lender.ended(now, index as u64);
                }
                None => worker.own_in_flight -= 1,
            }
            *caller = Caller::Idle { until: now };
            link.n_served += 1;
            link.longest_gap = link.longest_gap.max(now - link.served_at);
            link.served_at = now;
        }
        let own = worker.own();
        if let Some(lender) = &mut worker.lender {
            lender.set_own(now, own);
        }
    }

    fn report(&mut self, worker: usize) {
        let (now, it) = (self.now, &mut self.workers[worker]);
        let own = it.own();
        let (mut demand, mut in_flight) = (own.demand, own.in_flight);
        if let Some(lender) = &mut it.lender {
            lender.look(now, own);
            let lent = self.links.iter().filter(|link| link.worker == worker);
            let lent = lent.flat_map(|link| &link.callers);
            let lent = lent.filter(|it| matches!(it, Caller::Runs { coin: Some(_), .. })).count();
            demand += lender.n_waiting() + u32::try_from(lent).unwrap();
            in_flight = lender.n_held();
        }
        let sample = Sample { max_in_flight: in_flight, ..Sample::default() };
        let report = Report { demand, in_flight, n_ended: 0, sample };
        self.capacity.report(now, worker, &report);
    }

    fn hear(&mut self, worker: usize) {
        let Some(lender) = &mut self.workers[worker].lender else { return };
        while let Some(told) = lender.poll_told() {
            let purse = &mut self.links[usize::try_from(told.link).unwrap()].purse;
            purse.set_credits(Some(told.credits));
        }
    }

    /// The gate lets in those who wait there.
    fn admit(&mut self, worker: usize) {
        while let Some((link, caller)) = self.workers[worker].line.front().copied() {
            let patience = PATIENCE.max(self.plan.work);
            let Caller::AtGate { since } = self.links[link].callers[caller] else {
                panic!("it does not wait");
            };
            let it = &mut self.workers[worker];
            if patience < self.now - since {
                it.line.pop_front();
                let until = self.now + self.plan.pause;
                self.links[link].callers[caller] = Caller::Idle { until };
            } else if it.own_in_flight < it.own_limit() {
                it.line.pop_front();
                it.own_in_flight += 1;
                self.begin(link, caller, None);
            } else {
                break;
            }
        }
    }

    fn begin(&mut self, link: usize, caller: usize, coin: Option<Coin>) {
        let time = self.plan.work.mul_f64(self.rng.random_range(0.8..1.2));
        self.links[link].callers[caller] = Caller::Runs { until: self.now + time, coin };
    }

    fn make_calls(&mut self, index: usize) {
        let (now, number) = (self.now, index as u64);
        let worker = self.links[index].worker;
        for caller in 0..N_CALLERS {
            let link = &mut self.links[index];
            match link.callers[caller] {
                Caller::Idle { until } if until <= now && link.purse.is_lent() => {
                    link.callers[caller] = Caller::AtLink { since: now };
                }
                Caller::Idle { until } if until <= now => {
                    link.callers[caller] = Caller::AtGate { since: now };
                    self.workers[worker].line.push_back((index, caller));
                    self.admit(worker);
                    if matches!(self.links[index].callers[caller], Caller::AtGate { .. }) {
                        self.lend(worker, number);
                    }
                }
                Caller::AtLink { since } if PATIENCE.max(self.plan.work) < now - since => {
                    link.callers[caller] = Caller::Idle { until: now + self.plan.pause };
                }
                _ => {}
            }
            let link = &mut self.links[index];
            if !matches!(link.callers[caller], Caller::AtLink { .. }) {
                continue;
            }
            if let Some(coin) = link.purse.begin(now) {
                let lender = self.workers[worker].lender.as_mut().expect("it lent a credit");
                assert!(lender.begin(number), "a credit is good for a call");
                self.begin(index, caller, Some(coin));
            }
        }
        let link = &mut self.links[index];
        let waits = |caller: &&Caller| matches!(caller, Caller::AtLink { .. });
        link.purse.want(u32::try_from(link.callers.iter().filter(waits).count()).unwrap());
        if let (Some(demand), Some(lender)) =
            (link.purse.poll_demand(now), &mut self.workers[worker].lender)
        {
            lender.demand(now, number, demand);
        }
    }

    /// Calls of that link find no room at the gate.
    fn lend(&mut self, worker: usize, link: u64) {
        let (it, now) = (&mut self.workers[worker], self.now);
        let own = it.own();
        let lender = it.lender.get_or_insert_with(|| Lender::new(it.limit, own, now));
        if !lender.has(link) {
            lender.join(now, link, 0);
            lender.deal(now, own);
            self.hear(worker);
        }
    }
}

/// Each link gets its turn, and none waits for much longer than the others.
#[test]
fn every_link_has_its_turn() {
    let plan = |capacity, n_links, n_workers, work: u32, pause: u32| TurnsPlan {
        capacity,
        n_links,
        n_workers,
        work: work * MS,
        pause: pause * MS,
    };
    let mut failed = Vec::new();
    for plan in [
        plan(1, 12, 1, 50, 20),
        plan(5, 60, 1, 50, 20),
        plan(20, 60, 1, 500, 20),
        plan(20, 60, 1, 500, 300),
        plan(20, 200, 1, 5, 20),
        plan(20, 200, 1, 100, 20),
        plan(2, 12, 1, 500, 20),
        plan(3, 12, 1, 250, 300),
        plan(5, 12, 2, 500, 300),
        plan(5, 30, 2, 50, 300),
        plan(7, 200, 2, 20, 20),
        plan(20, 30, 2, 100, 300),
        plan(20, 30, 2, 500, 300),
        plan(8, 13, 2, 200, 20),
    ] {
        // Credits change hands when they are dealt, or later.
        let turn = plan.work.max(DEAL_INTERVAL);
        let turn = turn.mul_f64(plan.n_links as f64 / f64::from(plan.capacity));
        for seed in 0..2 {
            let mut turns = TurnsSimulation::new(plan, seed);
            turns.run(3 * turn + 3000 * MS);
            for link in &mut turns.links {
                (link.n_served, link.longest_gap) = (0, Duration::ZERO);
            }
            let time = 12 * turn + 6000 * MS;
            turns.run(time);
            let served = || turns.links.iter().map(|link| link.n_served);
            let (least, most, sum) =
                (served().min().unwrap(), served().max().unwrap(), served().sum::<u64>());
            let all = time.div_duration_f64(plan.work.max(STEP)) * f64::from(plan.capacity);
            let now = turns.now;
            let gaps = turns.links.iter().map(|link| link.longest_gap.max(now - link.served_at));
            let gap = gaps.max().unwrap();
            println!(
                "{plan:?}: served {least} to {most}, used {:.2}, gap {gap:?}, turn {turn:?}",
                sum as f64 / all
            );
            let gap_max = 4 * turn + 4 * plan.pause + 500 * MS;
            if gap_max < gap || 4 * least < most {
                failed.push(format!("{plan:?}: {least} to {most}, {gap:?} of {gap_max:?}"));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
