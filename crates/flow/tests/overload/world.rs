//! Consumers, agents with their workers, and apps; and what happens to them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use flow::capacity::{Capacity, REPORT_INTERVAL, Report};
use flow::gate::{Arrival, Gate, Left, Pass, Shed};
use flow::lender::OwnDemand;
use flow::limit::{LimitPolicy, Sample};
use flow::line::LinePolicy;
use flow::queue::{CallerId, Priority, WaitKey};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The agents look at what has expired with this precision.
const PRECISION: Duration = Duration::from_millis(1);
/// Callers that make one call after the other begin within this time.
const START_TIME: Duration = Duration::from_millis(10);
/// They come back within this time after a call was shed.
const SHED_PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub(crate) struct OverloadPlan {
    pub(crate) providers: Vec<Provider>,
    pub(crate) consumers: Vec<SimConsumer>,
    /// When each begins, and how long it lasts.
    pub(crate) faults: Vec<(Duration, Fault, Duration)>,
    /// For how long calls come.
    pub(crate) time: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) threads: u32,
    pub(crate) work: Duration,
    /// How many calls wait in the app before it rejects more.
    pub(crate) queue: usize,
    /// It takes so long until a rejection is known.
    pub(crate) rejects_after: Duration,
    pub(crate) policy: LimitPolicy,
    /// The policy knows how many threads there are.
    pub(crate) is_known: bool,
    pub(crate) n_workers: usize,
    pub(crate) max_waiting: usize,
}

impl Provider {
    pub(crate) fn per_s(&self) -> f64 {
        f64::from(self.threads) / self.work.as_secs_f64()
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SimConsumer {
    /// Calls that it makes in a second; `None` if it makes the next one when one has ended.
    pub(crate) per_s: Option<f64>,
    pub(crate) timeout: Duration,
    /// The worker that has its calls; `None` if each may have them.
    pub(crate) worker: Option<usize>,
    /// What its calls take, each one of these; what others take if there are none.
    pub(crate) works: Vec<Duration>,
    /// It makes calls between these times after the start; `None` if it always does.
    pub(crate) active: Option<Range<Duration>>,
    /// The app rejects all its calls, however little it has to do.
    pub(crate) is_refused: bool,
}

impl SimConsumer {
    fn begins(&self) -> Duration {
        self.active.as_ref().map_or(Duration::ZERO, |active| active.start)
    }

    fn ends(&self) -> Duration {
        self.active.as_ref().map_or(Duration::MAX, |active| active.end)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Slow { provider: usize, times: u32 },
    Crash { provider: usize },
    Partition { consumer: usize },
}

/// How often each thing happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutcomeCounts {
    /// Answered by their deadlines.
    pub(crate) answered: u64,
    pub(crate) waited: u64,
    pub(crate) shed: u64,
    pub(crate) displaced: u64,
    pub(crate) cancelled: u64,
    pub(crate) rejected: u64,
    /// Nobody was there, or it was too late.
    pub(crate) lost: u64,
}

impl OutcomeCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.waited += other.waited;
        self.shed += other.shed;
        self.displaced += other.displaced;
        self.cancelled += other.cancelled;
        self.rejected += other.rejected;
        self.lost += other.lost;
    }
}

struct SimCall {
    consumer: usize,
    provider: usize,
    worker: usize,
    deadline: Instant,
    key: Option<WaitKey>,
    pass: Option<Pass>,
    is_over: bool,
}

struct SimWorker {
    gate: Gate<u64>,
    ticks: bool,
    /// Its waiting calls are let in. One of them may end at once and make room for the next.
    polls: bool,
    /// When its gate is looked at for what has expired.
    looks_at: Option<Instant>,
}

struct App {
    plan: Provider,
    capacity: Capacity,
    workers: Vec<SimWorker>,
    /// Calls in the app, and those that wait there.
    running: Vec<u64>,
    queue: VecDeque<u64>,
    /// Calls that it rejects, and nobody knows that yet.
    n_rejecting: usize,
    slow: u32,
    is_up: bool,
    life: u32,
}

enum WorldEvent {
    Call(usize),
    Done { call: u64, life: u32 },
    Rejected { call: u64 },
    Tick { provider: usize, worker: usize },
    Look { provider: usize, worker: usize },
    Begin(Fault, Duration),
    End(Fault),
}

pub(crate) struct World {
    plan: OverloadPlan,
    rng: StdRng,
    start: Instant,
    now: Instant,
    apps: Vec<App>,
    cut_off: Vec<u32>,
    calls: HashMap<u64, SimCall>,
    n_calls: u64,
    events: BTreeMap<(Instant, u64), WorldEvent>,
    n_planned: u64,
    pub(crate) tally: OutcomeCounts,
    by_consumer: Vec<(u64, u64)>,
}

impl World {
    pub(crate) fn new(plan: OverloadPlan, seed: u64) -> Self {
        let now = Instant::now();
        let apps = plan.providers.iter().map(|plan| App::new(plan.clone(), now)).collect();
        let mut world = Self {
            rng: StdRng::seed_from_u64(seed),
            start: now,
            now,
            apps,
            cut_off: vec![0; plan.consumers.len()],
            calls: HashMap::new(),
            n_calls: 0,
            events: BTreeMap::new(),
            n_planned: 0,
            tally: OutcomeCounts::default(),
            by_consumer: vec![(0, 0); plan.consumers.len()],
            plan,
        };
        for consumer in 0..world.plan.consumers.len() {
            world.plan_call(consumer, world.plan.consumers[consumer].begins());
        }
        for consumer in 0..world.plan.consumers.len() {
            world.plan_next(consumer, START_TIME, world.plan.consumers[consumer].begins());
        }
        for (after, fault, time) in world.plan.faults.clone() {
            world.plan_event(after, WorldEvent::Begin(fault, time));
        }
        world
    }

    pub(crate) fn run(mut self) -> Self {
        while let Some(((now, _), event)) = self.events.pop_first() {
            self.now = now;
            self.handle(&event);
            self.apps.iter().for_each(App::check);
        }
        for app in &mut self.apps {
            assert!(app.running.is_empty() && app.queue.is_empty());
            for (index, worker) in app.workers.iter_mut().enumerate() {
                let stats = worker.gate.stats();
                assert_eq!((stats.in_flight, stats.n_waiting, worker.ticks), (0, 0, false));
                app.capacity.idle(self.now, index, &Sample::default());
            }
            if 1 < app.workers.len() {
                assert_eq!(app.capacity.n_held(), 0);
            }
        }
        assert!(self.calls.is_empty());
        self
    }

    /// Of what each consumer has asked for, what was answered.
    pub(crate) fn shares_answered(&self) -> impl Iterator<Item = f64> {
        self.by_consumer.iter().map(|(asked, answered)| *answered as f64 / *asked as f64)
    }

    /// How many calls of each consumer were answered.
    pub(crate) fn answered(&self) -> impl Iterator<Item = u64> {
        self.by_consumer.iter().map(|(_, answered)| *answered)
    }

    fn plan_event(&mut self, after: Duration, event: WorldEvent) {
        self.n_planned += 1;
        self.events.insert((self.now + after, self.n_planned), event);
    }

    /// Who makes one call after the other makes the next within that time, not before `after`.
    fn plan_next(&mut self, consumer: usize, within: Duration, after: Duration) {
        if self.plan.consumers[consumer].per_s.is_none() {
            let after = after + within.mul_f64(self.rng.random());
            self.plan_call_after(consumer, after);
        }
    }

    fn plan_call(&mut self, consumer: usize, begins: Duration) {
        let Some(per_s) = self.plan.consumers[consumer].per_s else { return };
        let mean = 1.0 / per_s;
        let after = Duration::from_secs_f64(-mean * (1.0 - self.rng.random::<f64>()).ln());
        self.plan_call_after(consumer, begins + after);
    }

    fn plan_call_after(&mut self, consumer: usize, after: Duration) {
        let ends = self.plan.time.min(self.plan.consumers[consumer].ends());
        if self.now + after < self.start + ends {
            self.plan_event(after, WorldEvent::Call(consumer));
        }
    }

    fn handle(&mut self, event: &WorldEvent) {
        match *event {
            WorldEvent::Call(consumer) => {
                self.plan_call(consumer, Duration::ZERO);
                self.call(consumer);
            }
            WorldEvent::Done { call, life } => self.done(call, life),
            WorldEvent::Rejected { call } => {
                let provider = self.calls[&call].provider;
                self.apps[provider].n_rejecting -= 1;
                self.tally.rejected += 1;
                self.left(call, Left::Rejected);
            }
            WorldEvent::Tick { provider, worker } => self.tick(provider, worker),
            WorldEvent::Look { provider, worker } => {
                self.apps[provider].workers[worker].looks_at = None;
                self.poll(provider, worker);
            }
            WorldEvent::Begin(fault, time) => {
                self.plan_event(time, WorldEvent::End(fault));
                self.begin(fault);
            }
            WorldEvent::End(fault) => match fault {
                Fault::Slow { provider, .. } => self.apps[provider].slow = 1,
                Fault::Crash { provider } => self.apps[provider].is_up = true,
                Fault::Partition { consumer } => self.cut_off[consumer] -= 1,
            },
        }
    }

    fn begin(&mut self, fault: Fault) {
        match fault {
            Fault::Slow { provider, times } => self.apps[provider].slow = times,
            Fault::Crash { provider } => {
                let app = &mut self.apps[provider];
                app.is_up = false;
                app.life += 1;
                let gone: Vec<u64> = app.running.drain(..).chain(app.queue.drain(..)).collect();
                gone.into_iter().for_each(|call| self.left(call, Left::Unknown));
            }
            Fault::Partition { consumer } => {
                self.cut_off[consumer] += 1;
                let of_it = self.calls.iter().filter(|(_, call)| call.consumer == consumer);
                let mut of_it: Vec<u64> = of_it.map(|(id, _)| *id).collect();
                of_it.sort_unstable();
                of_it.into_iter().for_each(|call| self.cancel(call));
            }
        }
    }

    /// The caller is gone: what waits is dropped, what is in the app goes on.
    fn cancel(&mut self, id: u64) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        self.tally.cancelled += 1;
        call.is_over = true;
        let (provider, worker, key) = (call.provider, call.worker, call.key.take());
        if let Some(key) = key {
            let gate = &mut self.apps[provider].workers[worker].gate;
            assert_eq!(gate.cancel(key), Some(id));
            self.calls.remove(&id);
            self.poll(provider, worker);
        }
    }

    fn call(&mut self, consumer: usize) {
        self.by_consumer[consumer].0 += 1;
        let provider = self.rng.random_range(0..self.apps.len());
        if 0 < self.cut_off[consumer] || !self.apps[provider].is_up {
            self.tally.lost += 1;
            return;
        }
        let any = self.rng.random_range(0..self.apps[provider].workers.len());
        let worker = self.plan.consumers[consumer].worker.unwrap_or(any);
        let deadline = self.now + self.plan.consumers[consumer].timeout;
        let id = self.n_calls;
        self.n_calls += 1;
        let (key, pass, is_over) = (None, None, false);
        self.calls.insert(id, SimCall { consumer, provider, worker, deadline, key, pass, is_over });
        self.start_ticks(provider, worker);
        let app = &mut self.apps[provider];
        let entered = app.enter(self.now, worker);
        self.tell(provider, worker);
        match entered {
            Some(pass) => self.send_in(id, pass),
            None => self.wait(id, consumer, deadline),
        }
        self.poll(provider, worker);
    }

    fn wait(&mut self, id: u64, consumer: usize, deadline: Instant) {
        let (provider, worker) = (self.calls[&id].provider, self.calls[&id].worker);
        let gate = &mut self.apps[provider].workers[worker].gate;
        let priority = [Priority::High, Priority::Normal, Priority::Low][consumer % 3];
        let priority = if self.plan.faults.is_empty() { Priority::Normal } else { priority };
        let arrival = Arrival { caller: CallerId::known(consumer as u64), priority, deadline };
        match gate.wait(self.now, arrival, id) {
            Ok(key) => {
                self.tally.waited += 1;
                self.calls.get_mut(&id).expect("it was just made").key = Some(key);
            }
            Err((_, id)) => {
                self.tally.shed += 1;
                self.calls.remove(&id);
                self.plan_next(consumer, SHED_PAUSE, Duration::ZERO);
            }
        }
    }

    /// What a worker does after each step that may have let somebody in.
    fn poll(&mut self, provider: usize, worker: usize) {
        if std::mem::replace(&mut self.apps[provider].workers[worker].polls, true) {
            return;
        }
        loop {
            let gate = &mut self.apps[provider].workers[worker].gate;
            if let Some((id, shed)) = gate.poll_shed(self.now) {
                self.shed(id, shed);
                continue;
            }
            let Some((id, pass)) = gate.poll_admitted(self.now) else { break };
            let call = self.calls.get_mut(&id).expect("it waits");
            assert!(self.now <= call.deadline, "it began too late");
            call.key = None;
            self.send_in(id, pass);
        }
        let it = &mut self.apps[provider].workers[worker];
        it.polls = false;
        let Some(until) = it.gate.poll_timeout() else { return };
        let at = until.max(self.now) + PRECISION;
        if it.looks_at.is_none_or(|looks_at| at < looks_at) {
            it.looks_at = Some(at);
            self.plan_event(at - self.now, WorldEvent::Look { provider, worker });
        }
    }

    fn shed(&mut self, id: u64, shed: Shed) {
        let call = self.calls.remove(&id).expect("it waits");
        assert!(self.now <= call.deadline + PRECISION, "it waited for too long");
        self.tally.shed += 1;
        self.tally.displaced += u64::from(shed == Shed::Full);
        self.plan_next(call.consumer, SHED_PAUSE, Duration::ZERO);
    }

    fn send_in(&mut self, id: u64, pass: Pass) {
        let call = self.calls.get_mut(&id).expect("it begins");
        call.pass = Some(pass);
        let (provider, is_refused) = (call.provider, self.plan.consumers[call.consumer].is_refused);
        let app = &mut self.apps[provider];
        if !app.is_up {
            return self.left(id, Left::Unknown);
        }
        if is_refused {
            return self.reject(id, provider);
        }
        if app.running.len() < app.plan.threads as usize {
            return self.work(id);
        }
        assert!(!app.plan.is_known, "the app got more than its capacity");
        if app.plan.queue <= app.queue.len() {
            return self.reject(id, provider);
        }
        app.queue.push_back(id);
    }

    fn reject(&mut self, call: u64, provider: usize) {
        let app = &mut self.apps[provider];
        app.n_rejecting += 1;
        let after = app.plan.rejects_after;
        self.plan_event(after, WorldEvent::Rejected { call });
    }

    fn work(&mut self, id: u64) {
        let SimCall { provider, consumer, .. } = self.calls[&id];
        let app = &mut self.apps[provider];
        app.running.push(id);
        let works = &self.plan.consumers[consumer].works;
        let work = match works.len() {
            0 => app.plan.work,
            n => works[self.rng.random_range(0..n)],
        };
        let times = f64::from(app.slow) * self.rng.random_range(0.8..1.2);
        let (time, life) = (work.mul_f64(times), app.life);
        self.plan_event(time, WorldEvent::Done { call: id, life });
    }

    fn done(&mut self, id: u64, life: u32) {
        let Some(call) = self.calls.get(&id) else { return };
        let provider = call.provider;
        let latency = call.pass.as_ref().expect("it was let in").age(self.now);
        let app = &mut self.apps[provider];
        if app.life != life {
            return;
        }
        app.running.retain(|it| *it != id);
        let next = app.queue.pop_front();
        if let Some(next) = next {
            self.work(next);
        }
        self.left(id, Left::Answered(latency));
    }

    /// A call has left the app, in whatever way.
    fn left(&mut self, id: u64, left: Left) {
        let call = self.calls.remove(&id).expect("it was in the app");
        let (provider, worker) = (call.provider, call.worker);
        let pass = call.pass.expect("it was let in");
        match left {
            Left::Answered(_) if !call.is_over && self.now <= call.deadline => {
                self.tally.answered += 1;
                self.by_consumer[call.consumer].1 += 1;
            }
            Left::Rejected => {}
            _ => self.tally.lost += 1,
        }
        self.plan_next(call.consumer, PRECISION, Duration::ZERO);
        let app = &mut self.apps[provider];
        app.leave(worker, pass, self.now, left);
        if left == Left::Rejected {
            app.tick(self.now, worker);
        }
        self.tell(provider, worker);
        self.poll(provider, worker);
    }

    fn start_ticks(&mut self, provider: usize, worker: usize) {
        if !std::mem::replace(&mut self.apps[provider].workers[worker].ticks, true) {
            self.plan_event(REPORT_INTERVAL, WorldEvent::Tick { provider, worker });
        }
    }

    fn tick(&mut self, provider: usize, worker: usize) {
        let app = &mut self.apps[provider];
        if app.tick(self.now, worker) {
            self.plan_event(REPORT_INTERVAL, WorldEvent::Tick { provider, worker });
        }
        self.tell(provider, worker);
        self.poll(provider, worker);
    }

    /// The workers whose limit has changed are woken.
    fn tell(&mut self, provider: usize, own: usize) {
        while let Some(worker) = self.apps[provider].capacity.poll_changed() {
            self.apps[provider].update(self.now, worker);
            if worker != own {
                self.poll(provider, worker);
            }
        }
    }
}

impl App {
    fn new(plan: Provider, now: Instant) -> Self {
        let policy = LinePolicy { max_waiting: plan.max_waiting, ..LinePolicy::default() };
        let capacity = Capacity::new(plan.policy, plan.n_workers, now);
        let workers = (0..plan.n_workers).map(|worker| {
            let mut gate = Gate::new(policy, 0, now);
            let allowance = capacity.allowance(worker);
            gate.set_limit(allowance.limit, allowance.reach);
            SimWorker { gate, ticks: false, polls: false, looks_at: None }
        });
        let workers = workers.collect();
        let (running, queue, n_rejecting, slow, is_up, life) =
            (Vec::new(), VecDeque::new(), 0, 1, true, 0);
        Self { plan, capacity, workers, running, queue, n_rejecting, slow, is_up, life }
    }

    fn update(&mut self, now: Instant, worker: usize) {
        self.look_again(worker);
        let stats = self.workers[worker].gate.stats();
        if stats.in_flight <= stats.limit {
            self.give_back(now, worker);
        }
    }

    fn look_again(&mut self, worker: usize) {
        let allowance = self.capacity.allowance(worker);
        self.workers[worker].gate.set_limit(allowance.limit, allowance.reach);
    }

    fn give_back(&mut self, now: Instant, worker: usize) {
        let stats = self.workers[worker].gate.stats();
        let demand = stats.in_flight + u32::try_from(stats.n_waiting).unwrap();
        let own = OwnDemand { in_flight: stats.in_flight, demand };
        let n_ended = self.workers[worker].gate.take_n_left();
        self.capacity.returned(now, worker, own, n_ended);
        self.look_again(worker);
    }

    fn enter(&mut self, now: Instant, worker: usize) -> Option<Pass> {
        let gate = &mut self.workers[worker].gate;
        if let Some(pass) = gate.enter(now) {
            return Some(pass);
        }
        let stats = gate.stats();
        let demand = stats.in_flight + u32::try_from(stats.n_waiting).unwrap() + 1;
        self.capacity.ask(now, worker, OwnDemand { in_flight: stats.in_flight, demand });
        self.look_again(worker);
        self.workers[worker].gate.enter(now)
    }

    fn leave(&mut self, worker: usize, pass: Pass, now: Instant, left: Left) {
        let gate = &mut self.workers[worker].gate;
        let was_full = gate.is_full();
        gate.leave(pass, now, left);
        if was_full {
            self.give_back(now, worker);
        }
    }

    /// Returns whether the worker has anything to do yet.
    fn tick(&mut self, now: Instant, worker: usize) -> bool {
        let gate = &mut self.workers[worker].gate;
        let (demand, sample) = (gate.take_demand(), gate.take_sample(now));
        if demand == 0 {
            self.capacity.idle(now, worker, &sample);
            self.workers[worker].ticks = false;
        } else {
            let (in_flight, n_ended) = (gate.stats().in_flight, gate.take_n_left());
            self.capacity.report(now, worker, &Report { demand, in_flight, n_ended, sample });
        }
        self.update(now, worker);
        demand != 0
    }

    fn check(&self) {
        let in_flight: u32 = self.workers.iter().map(|it| it.gate.stats().in_flight).sum();
        assert_eq!(in_flight as usize, self.running.len() + self.queue.len() + self.n_rejecting);
        if self.plan.is_known {
            assert!(in_flight <= self.plan.threads, "over capacity");
            assert!(self.capacity.n_held() <= self.plan.threads, "more was dealt than there is");
        }
    }
}
