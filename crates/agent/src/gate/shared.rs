//! What all workers share of the gate before one app: its capacity, and who may use how much.
//!
//! A lock holds it. Workers take it when they report, when a gate is full, and when they have to
//! return something, and never while they wait for anything.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flow::capacity::{Allowance, Capacity, Report};
use flow::lender::OwnDemand;
use flow::limit::LimitPolicy;
use tokio::sync::Notify;

use crate::config::AppCapacity;

/// Who says how many calls an app can take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CapacitySource {
    /// The configuration.
    Configured,
    /// The app itself, where it is registered.
    Registered,
    /// Nobody: it is found out.
    Found,
}

/// Where a gate is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Before {
    /// Before the app of an export.
    App,
    /// Before an endpoint that is called without an agent there.
    Endpoint,
}

impl CapacitySource {
    /// For machines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Registered => "registered",
            Self::Found => "found",
        }
    }

    /// For people.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Registered => "the threads that it has registered",
            Self::Found => "measured by its answers",
        }
    }
}

/// How the gates before an app stand, of all workers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GateFigures {
    /// Where the app is.
    pub app: String,
    /// How many calls it can take at once.
    pub capacity: u32,
    /// Who says so.
    pub source: CapacitySource,
    /// Calls in the app. It may be a few milliseconds old.
    pub in_flight: u64,
    /// Calls that wait at the gates. It may be a few milliseconds old.
    pub waiting: u64,
    /// Calls that were shed so far.
    pub shed: u64,
}

/// One app's capacity, and its gates.
#[derive(Debug)]
pub struct SharedGate {
    app: String,
    told: Mutex<CapacityInputs>,
    /// Whether the capacity is found out. Every call at a full gate looks at it, without the lock.
    is_measured: AtomicBool,
    capacity: Mutex<Capacity>,
    workers: Box<[OfWorker]>,
}

/// What others say of the capacity.
#[derive(Clone, Copy, Debug)]
struct CapacityInputs {
    before: Before,
    configured: AppCapacity,
    /// The threads that the app has registered.
    registered: Option<u32>,
}

impl CapacityInputs {
    fn policy(self) -> LimitPolicy {
        match (self.configured, self.registered) {
            (AppCapacity::Known(n), _) | (AppCapacity::Registered, Some(n)) => {
                LimitPolicy::known(n)
            }
            _ if self.before == Before::Endpoint => LimitPolicy::direct(),
            _ => LimitPolicy::default(),
        }
    }

    fn source(&self) -> CapacitySource {
        match self {
            Self { configured: AppCapacity::Known(_), .. } => CapacitySource::Configured,
            Self { configured: AppCapacity::Registered, registered: Some(_), .. } => {
                CapacitySource::Registered
            }
            _ => CapacitySource::Found,
        }
    }
}

#[derive(Debug, Default)]
struct OfWorker {
    wake: Notify,
    in_flight: AtomicU32,
    waiting: AtomicU32,
    shed: AtomicU64,
}

impl SharedGate {
    /// The gate before the app at that address.
    #[must_use]
    pub fn new(app: String, configured: AppCapacity, n_workers: usize) -> Self {
        Self::start(Before::App, app, configured, n_workers)
    }

    /// The gate before an endpoint that is called without an agent there.
    #[must_use]
    pub fn direct(address: String, configured: AppCapacity, n_workers: usize) -> Self {
        Self::start(Before::Endpoint, address, configured, n_workers)
    }

    fn start(before: Before, app: String, configured: AppCapacity, n_workers: usize) -> Self {
        let told = CapacityInputs { before, configured, registered: None };
        let capacity = Mutex::new(Capacity::new(told.policy(), n_workers, Instant::now()));
        let workers = (0..n_workers).map(|_| OfWorker::default()).collect();
        let is_measured = AtomicBool::new(told.source() == CapacitySource::Found);
        Self { app, told: Mutex::new(told), is_measured, capacity, workers }
    }

    /// Where the app is.
    #[must_use]
    pub fn app(&self) -> &str {
        &self.app
    }

    /// The configuration says this from now on.
    pub fn configure(&self, capacity: AppCapacity) {
        self.hear(|told| told.configured = capacity);
    }

    /// The app has registered itself with so many threads. Says whether that makes a difference.
    pub fn set_registered(&self, threads: u32) -> bool {
        self.hear(|told| told.registered = Some(threads.max(1)))
    }

    fn hear(&self, tell: impl FnOnce(&mut CapacityInputs)) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.policy();
        tell(&mut told);
        self.is_measured.store(told.source() == CapacitySource::Found, Relaxed);
        let policy = told.policy();
        if policy == before {
            return false;
        }
        let mut capacity = self.lock();
        capacity.set_policy(policy, Instant::now());
        self.wake_all(&mut capacity, None);
        true
    }

    /// How many calls the app can take.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.lock().capacity()
    }

    /// Who says so.
    #[must_use]
    pub fn source(&self) -> CapacitySource {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).source()
    }

    /// Whether the agent finds it out. Costs a look at a flag.
    #[inline]
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.is_measured.load(Relaxed)
    }

    /// How the gates stand.
    #[must_use]
    pub fn figures(&self) -> GateFigures {
        let source = self.source();
        // What one worker returns and another one takes meanwhile would count twice.
        let capacity = self.lock();
        let sum = |of: fn(&OfWorker) -> u64| self.workers.iter().map(of).sum();
        GateFigures {
            app: self.app.clone(),
            capacity: capacity.capacity(),
            source,
            in_flight: sum(|it| it.in_flight.load(Relaxed).into()),
            waiting: sum(|it| it.waiting.load(Relaxed).into()),
            shed: sum(|it| it.shed.load(Relaxed)),
        }
    }

    /// What a call usually takes, whichever worker made it; zero if nobody knows.
    pub(super) fn usual(&self) -> Duration {
        self.lock().usual()
    }

    pub(super) fn allowance(&self, worker: usize) -> Allowance {
        self.lock().allowance(worker)
    }

    /// Whether several workers share the capacity.
    #[inline]
    pub(super) fn is_dealt(&self) -> bool {
        1 < self.workers.len()
    }

    /// A worker's gate is full. `None` if it has all that there is.
    pub(super) fn ask(
        &self,
        now: Instant,
        worker: usize,
        own: impl FnOnce() -> OwnDemand,
    ) -> Option<Allowance> {
        if !self.is_dealt() {
            return None;
        }
        let mut capacity = self.lock();
        capacity.ask(now, worker, own());
        self.wake_all(&mut capacity, Some(worker));
        Some(capacity.allowance(worker))
    }

    pub(super) fn report(
        &self,
        now: Instant,
        worker: usize,
        report: &Report,
        n_waiting: usize,
    ) -> Allowance {
        let mut capacity = self.lock();
        match report.demand {
            0 => capacity.idle(now, worker, &report.sample),
            _ => capacity.report(now, worker, report),
        }
        self.wake_all(&mut capacity, Some(worker));
        if let Some(it) = self.workers.get(worker) {
            it.in_flight.store(report.in_flight, Relaxed);
            it.waiting.store(u32::try_from(n_waiting).unwrap_or(u32::MAX), Relaxed);
        }
        capacity.allowance(worker)
    }

    /// A worker has these calls, and so many have ended. `None` if that makes no difference to
    /// anybody.
    pub(super) fn returned(
        &self,
        now: Instant,
        worker: usize,
        own: OwnDemand,
        n_ended: u32,
    ) -> Option<Allowance> {
        if !self.is_dealt() {
            return None;
        }
        let mut capacity = self.lock();
        capacity.returned(now, worker, own, n_ended);
        self.wake_all(&mut capacity, Some(worker));
        if let Some(it) = self.workers.get(worker) {
            it.in_flight.store(own.in_flight, Relaxed);
        }
        Some(capacity.allowance(worker))
    }

    pub(super) fn count_shed(&self, worker: usize) {
        if let Some(it) = self.workers.get(worker) {
            it.shed.fetch_add(1, Relaxed);
        }
    }

    /// Has the worker's task look at its gate.
    pub(super) fn wake(&self, worker: usize) {
        if let Some(it) = self.workers.get(worker) {
            it.wake.notify_one();
        }
    }

    pub(super) async fn woken(&self, worker: usize) {
        match self.workers.get(worker) {
            Some(it) => it.wake.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Wakes those whose limits have changed, but for one who knows.
    fn wake_all(&self, capacity: &mut Capacity, but: Option<usize>) {
        while let Some(worker) = capacity.poll_changed() {
            if Some(worker) != but {
                self.wake(worker);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Capacity> {
        self.capacity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn who_says_the_capacity_is_shown_and_counts() {
        let gate = SharedGate::new("h:1".to_owned(), AppCapacity::Registered, 2);
        assert_eq!(gate.source(), CapacitySource::Found);
        assert!(gate.is_measured());
        assert!(gate.set_registered(7), "it was not known");
        assert_eq!((gate.source(), gate.capacity()), (CapacitySource::Registered, 7));
        assert!(!gate.is_measured());
        assert!(!gate.set_registered(7), "it is what was known");
        gate.configure(AppCapacity::Known(3));
        assert_eq!((gate.source(), gate.capacity()), (CapacitySource::Configured, 3));
        assert!(!gate.is_measured());
        assert!(!gate.set_registered(9), "the configuration counts");
        gate.configure(AppCapacity::Registered);
        assert_eq!((gate.source(), gate.capacity()), (CapacitySource::Registered, 9));
        assert!(!gate.is_measured());
        // An app with no thread at all would never be called.
        assert!(gate.set_registered(0));
        assert_eq!(gate.capacity(), 1);
    }

    fn is_woken(gate: &SharedGate, worker: usize) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        matches!(pin!(gate.woken(worker)).poll(&mut context), Poll::Ready(()))
    }

    /// A worker that waits for room has to hear of each change that somebody else brings about.
    #[test]
    fn workers_hear_of_another_capacity() {
        let gate = SharedGate::new("h:1".to_owned(), AppCapacity::Known(2), 2);
        for worker in 0..2 {
            gate.ask(Instant::now(), worker, || OwnDemand { in_flight: 0, demand: 10 });
        }
        let _of_each_other = (is_woken(&gate, 0), is_woken(&gate, 1));
        assert!(!is_woken(&gate, 0) && !is_woken(&gate, 1));
        gate.configure(AppCapacity::Known(20));
        assert!(is_woken(&gate, 0) && is_woken(&gate, 1));
        assert!(!is_woken(&gate, 2), "there is none");
    }

    #[test]
    fn figures_are_of_all_workers() {
        let gate = SharedGate::new("h:1".to_owned(), AppCapacity::Known(8), 2);
        for (worker, in_flight) in [(0, 1), (1, 2)] {
            let report = Report { in_flight, ..Report::default() };
            gate.report(Instant::now(), worker, &report, 5);
            gate.count_shed(worker);
        }
        gate.count_shed(2);
        let figures = gate.figures();
        assert_eq!((figures.in_flight, figures.waiting, figures.shed), (3, 10, 2));
    }

    /// Room that changes hands between two reports is in use once.
    #[test]
    fn what_a_worker_returns_is_not_in_flight() {
        let (gate, now) =
            (SharedGate::new("h:1".to_owned(), AppCapacity::Known(2), 2), Instant::now());
        let report = |n| Report { demand: 3, in_flight: n, ..Report::default() };
        gate.report(now, 0, &report(2), 1);
        gate.returned(now, 0, OwnDemand { in_flight: 1, demand: 3 }, 1);
        gate.report(now, 1, &report(1), 1);
        assert_eq!(gate.figures().in_flight, 2);
    }
}
