//! One app's capacity, for all workers of a process.
//!
//! Each worker has a [`crate::gate::Gate`], and may have as many calls in the app as this says. It
//! reports now and then while it has calls, asks when its gate is full, and says when it has none.
//! What the workers have seen of the app goes into the [`Limiter`]; what that finds is dealt out
//! by the [`Allocator`]. A single worker has all of it.
//!
//! If an app takes fewer than two calls for each worker, its room goes round: each call that ends
//! makes room for the next one, whichever worker has that.
//!
//! Invariant: what the workers may use, with what they have not returned yet, is at most the
//! capacity. When the capacity falls, what is held beyond it is taken back first.

use std::time::{Duration, Instant};

use self::round::RoundTurns;
use crate::credit::Allocator;
use crate::lender::OwnDemand;
use crate::limit::{LimitPolicy, Limiter, Sample};
use crate::line::LinePolicy;

mod round;

/// How often a worker that has calls reports, and how often capacity is dealt anew at most.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(20);

/// Room goes round if there is less of it for each worker.
const FEW_FOR_EACH: usize = 2;

/// A sample is as long as this, unless the app answers too little.
const SAMPLE_TIME: Duration = Duration::from_millis(100);
/// A shorter sample has so many answers at least.
const SAMPLE_ANSWERS: u32 = 10;
/// No sample is longer. After as long a silence, a new one begins.
const MAX_SAMPLE_TIME: Duration = Duration::from_secs(2);

/// What a worker's gate may let in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Calls that may be in the app.
    pub limit: u32,
    /// Calls that may be there once the worker has got what it can get.
    pub reach: f64,
    /// How those wait that find no room.
    pub line: LinePolicy,
    /// It may be lent. Not while workers have room in turns, for a call or a few, nor while the
    /// limit opens: it would be out of date before it was used.
    pub may_be_lent: bool,
}

/// What a worker tells of its gate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// The most calls that were in the app or waited at a time since the last report.
    pub demand: u32,
    /// Calls that are in the app.
    pub in_flight: u32,
    /// Calls that have ended since the worker was last heard of.
    pub n_ended: u32,
    /// What was seen of the app since the last report.
    pub sample: Sample,
}

/// The capacity of one app, and which worker may use how much of it.
#[derive(Debug)]
pub struct Capacity {
    limiter: Limiter,
    allocator: Allocator<usize>,
    workers: Vec<WorkerShare>,
    /// What calls of any worker took when one was last answered.
    usual: Duration,
    sample_since: Instant,
    reported_at: Instant,
    dealt_at: Instant,
    /// How often a worker was given room that goes round.
    n_turns: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct WorkerShare {
    limit: u32,
    demand: u32,
    /// Calls that it had in the app when it was last heard of, or when the app rejected one.
    in_flight: u32,
    /// It has last reported rejections. Of its calls more may be rejected.
    was_rejected: bool,
    /// What it has reported since the sample began.
    sample: Sample,
    has_reported: bool,
    /// Its limit has changed since it was told.
    is_changed: bool,
    turns: RoundTurns,
}

impl Capacity {
    /// A capacity that `n_workers` share.
    #[must_use]
    pub fn new(policy: LimitPolicy, n_workers: usize, now: Instant) -> Self {
        let limiter = Limiter::new(policy, now);
        let mut allocator = Allocator::new(limiter.limit());
        (0..n_workers).for_each(|worker| allocator.join(worker));
        let workers = vec![WorkerShare::default(); n_workers];
        let (sample_since, reported_at, dealt_at) = (now, now, now);
        let (usual, n_turns) = (Duration::ZERO, 0);
        Self { limiter, allocator, workers, usual, sample_since, reported_at, dealt_at, n_turns }
    }

    /// What a call usually takes; zero until one was answered.
    #[must_use]
    pub fn usual(&self) -> Duration {
        self.usual
    }

    /// How many calls the app can take.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.limiter.limit()
    }

    /// Calls that the workers may have in the app, with those that they have not returned yet.
    #[must_use]
    pub fn n_held(&self) -> u32 {
        if self.workers.len() <= 1 { self.capacity() } else { self.allocator.n_held() }
    }

    /// Another policy: the app has registered itself with another number of threads.
    pub fn set_policy(&mut self, policy: LimitPolicy, now: Instant) {
        self.limiter = Limiter::new(policy, now);
        self.allocator.set_capacity(self.limiter.limit());
        self.deal(now);
    }

    /// What the worker may use.
    #[must_use]
    pub fn allowance(&self, worker: usize) -> Allowance {
        let capacity = self.capacity();
        let may_be_lent = !self.goes_round() && !self.limiter.is_opening();
        let line = match self.limiter.is_known() {
            true => LinePolicy::default(),
            false => LinePolicy::PATIENT,
        };
        if self.workers.len() <= 1 {
            return Allowance { limit: capacity, reach: capacity.into(), line, may_be_lent };
        }
        let Some(it) = self.workers.get(worker) else {
            return Allowance { limit: 0, reach: 0.0, line, may_be_lent };
        };
        let n_others =
            self.workers.iter().filter(|it| 0 < it.demand).count() - usize::from(0 < it.demand);
        #[expect(clippy::cast_precision_loss, reason = "a few workers")]
        let share = f64::from(capacity) / (n_others + 1) as f64;
        let free = capacity.saturating_sub(self.allocator.n_held());
        let reach = share.max(f64::from(it.limit.saturating_add(free)));
        Allowance { limit: it.limit, reach, line, may_be_lent }
    }

    /// A worker has these calls. It gets what is free, up to its share, at once.
    pub fn ask(&mut self, now: Instant, worker: usize, OwnDemand { in_flight, demand }: OwnDemand) {
        let Some(it) = self.workers.get_mut(worker) else { return };
        it.demand = it.demand.max(demand);
        it.note_in_flight(in_flight);
        if self.goes_round() {
            return self.pass_on(now);
        }
        let Some(before) = self.workers.get(worker).map(|it| it.limit) else { return };
        self.open(now);
        self.allocator.demand(worker, demand);
        self.take_changes();
        // The shares are those of long ago if nobody has reported since.
        if self.may_deal(now) && self.workers.get(worker).is_some_and(|it| it.limit == before) {
            self.deal(now);
        }
    }

    /// What a worker tells every [`REPORT_INTERVAL`].
    pub fn report(&mut self, now: Instant, worker: usize, report: &Report) {
        let Some(it) = self.workers.get_mut(worker) else { return };
        if MAX_SAMPLE_TIME < now.saturating_duration_since(self.reported_at) {
            self.sample_since = now;
        }
        self.reported_at = now;
        (it.demand, it.has_reported) = (report.demand, true);
        it.was_rejected = 0 < report.sample.n_rejected;
        it.in_flight = report.in_flight.min(report.sample.in_flight());
        it.sample.add_later(&report.sample);
        self.usual = report.sample.mean_latency().unwrap_or(self.usual);
        self.look_at_samples(now);
        self.open(now);
        self.allocator.returned(worker, report.in_flight);
        if self.goes_round() {
            let Report { demand, in_flight, n_ended, .. } = *report;
            return self.hand_on(now, worker, OwnDemand { in_flight, demand }, n_ended);
        }
        self.allocator.demand(worker, report.demand);
        if self.may_deal(now) {
            self.deal(now);
        }
        self.take_changes();
    }

    /// A worker has these calls, and returns what it may no longer use. So many calls have ended
    /// since it was last heard of.
    pub fn returned(&mut self, now: Instant, worker: usize, own: OwnDemand, n_ended: u32) {
        self.allocator.returned(worker, own.in_flight);
        if let Some(it) = self.workers.get_mut(worker) {
            it.note_in_flight(own.in_flight);
        }
        if self.goes_round() {
            self.hand_on(now, worker, own, n_ended);
        }
        self.take_changes();
    }

    /// A worker has no call, and needs nothing until it asks.
    pub fn idle(&mut self, now: Instant, worker: usize, sample: &Sample) {
        if self.workers.len() <= 1 {
            return self.report(now, worker, &Report { sample: *sample, ..Report::default() });
        }
        if let Some(it) = self.workers.get_mut(worker) {
            it.sample.add_later(sample);
            self.usual = sample.mean_latency().unwrap_or(self.usual);
            (it.demand, it.in_flight, it.limit, it.has_reported) = (0, 0, 0, true);
            self.allocator.lost(worker);
            self.allocator.join(worker);
            self.take_changes();
        }
        if self.goes_round() {
            self.pass_on(now);
        }
    }

    /// The next worker whose limit has changed. Ask until there is none, after each step.
    pub fn poll_changed(&mut self) -> Option<usize> {
        let worker = self.workers.iter().position(|it| it.is_changed)?;
        self.workers[worker].is_changed = false;
        Some(worker)
    }

    /// Whether there is so little room that workers have it in turns.
    fn goes_round(&self) -> bool {
        let n = self.workers.len();
        1 < n && (self.capacity() as usize) < n * FEW_FOR_EACH
    }

    fn may_deal(&self, now: Instant) -> bool {
        REPORT_INTERVAL <= now.saturating_duration_since(self.dealt_at)
    }

    fn deal(&mut self, now: Instant) {
        self.dealt_at = now;
        if self.goes_round() {
            return self.pass_on(now);
        }
        // The deal forgets the demands; those who report later are still there.
        for (worker, it) in self.workers.iter().enumerate() {
            self.allocator.demand(worker, it.demand);
        }
        self.allocator.deal();
        self.take_changes();
    }

    fn take_changes(&mut self) {
        while let Some(change) = self.allocator.poll_change() {
            if let Some(it) = self.workers.get_mut(change.holder) {
                it.limit = change.credits;
                it.is_changed = true;
            }
        }
    }

    /// More calls wait than are let in while nothing is known of the app.
    fn open(&mut self, now: Instant) {
        let wanted = self.workers.iter().fold(0, |sum: u32, it| sum.saturating_add(it.demand));
        if self.limiter.open(now, wanted) {
            self.allocator.set_capacity(self.limiter.limit());
            self.deal(now);
        }
    }

    fn look_at_samples(&mut self, now: Instant) {
        let mut sample = Sample::default();
        self.workers.iter().for_each(|it| sample.add(&it.seen()));
        let time = now.saturating_duration_since(self.sample_since);
        let is_due = 0 < sample.n_rejected
            || MAX_SAMPLE_TIME <= time
            || SAMPLE_TIME <= time && SAMPLE_ANSWERS <= sample.n_answers;
        if !is_due {
            self.limiter.reopen(now, &sample);
            return;
        }
        self.sample_since = now;
        for it in &mut self.workers {
            (it.sample, it.has_reported) = (Sample::default(), false);
        }
        let before = self.capacity();
        self.limiter.take_in(now, &sample);
        let capacity = self.capacity();
        self.allocator.set_capacity(capacity);
        if capacity < before {
            self.deal(now);
        }
    }
}

impl WorkerShare {
    fn note_in_flight(&mut self, n: u32) {
        self.in_flight = if self.was_rejected { n.min(self.in_flight) } else { n };
    }

    /// What it has seen since the sample began. If it has not reported, it has what it had, or
    /// what it may have by now.
    fn seen(&self) -> Sample {
        let max_in_flight = match (self.has_reported, self.was_rejected) {
            (true, _) => self.sample.max_in_flight,
            (false, true) => self.in_flight,
            (false, false) => self.in_flight.max(self.demand.min(self.limit)),
        };
        Sample { max_in_flight, ..self.sample }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_start;

    /// Nobody reports in between: a call that has ended makes room at once for another worker's.
    #[test]
    fn room_that_goes_round_changes_hands_as_calls_end() {
        let (start, ms) = (test_start(), Duration::from_millis(1));
        let own = |in_flight, demand| OwnDemand { in_flight, demand };
        for (n_workers, capacity) in [(2, 1), (4, 2), (3, 5)] {
            let mut all = Capacity::new(LimitPolicy::known(capacity), n_workers, start);
            let limit = |all: &Capacity, worker| all.allowance(worker).limit;
            all.ask(start + ms, 0, own(0, capacity));
            assert_eq!(limit(&all, 0), capacity, "it is alone");
            all.ask(start + 2 * ms, 1, own(0, 1));
            assert_eq!(limit(&all, 1), 0, "all of it is in use");
            all.returned(start + 3 * ms, 0, own(capacity - 1, capacity + 5), 1);
            assert_eq!(limit(&all, 1), 1, "{n_workers} workers, {capacity} calls");
            // It has no more calls, and the first one has.
            all.returned(start + 3 * ms, 1, own(0, 0), 1);
            assert_eq!((limit(&all, 0), limit(&all, 1)), (capacity, 0));
            // Who has none keeps nothing, and the next one finds it.
            all.returned(start + 3 * ms, 0, own(0, 0), 1);
            all.ask(start + 3 * ms, 1, own(0, capacity));
            assert_eq!((limit(&all, 0), limit(&all, 1)), (0, capacity));
        }
        // Where there is enough, workers keep what they have until it is dealt anew.
        let mut all = Capacity::new(LimitPolicy::known(20), 2, start);
        all.ask(start, 0, own(0, 20));
        all.ask(start + ms, 1, own(0, 1));
        all.returned(start + 2 * ms, 0, own(19, 25), 1);
        assert_eq!(all.allowance(1).limit, 0);
    }

    /// One of its calls is slow. The others have their turns, but not all of them.
    #[test]
    fn a_worker_with_a_slow_call_has_its_turns_where_room_goes_round() {
        let (start, ms) = (test_start(), Duration::from_millis(1));
        let own = |in_flight, demand| OwnDemand { in_flight, demand };
        let mut all = Capacity::new(LimitPolicy::known(2), 2, start);
        all.ask(start, 0, own(0, 1));
        all.ask(start, 1, own(0, 3));
        all.ask(start, 0, own(1, 3));
        let limits = |all: &Capacity| [0, 1].map(|worker| all.allowance(worker).limit);
        assert_eq!(limits(&all), [1, 1]);
        for (after, worker, in_flight, expected, why) in [
            (10, 1, 0, [2, 0], "the first one was given room least recently"),
            (30, 0, 1, [1, 1], "its turn beyond its share is over"),
            (40, 1, 0, [1, 1], "it pauses for as long as that took"),
            (60, 1, 0, [2, 0], "it has its turn again"),
            (10_000, 0, 1, [1, 1], "that took long"),
            (14_990, 1, 0, [1, 1], "it pauses for the longest time"),
            (15_010, 1, 0, [2, 0], "and no longer"),
        ] {
            all.returned(start + after * ms, worker, own(in_flight, in_flight + 2), 1);
            assert_eq!(limits(&all), expected, "{why}");
        }
    }

    /// Where room goes round, what is used up never exceeds a capacity that falls.
    #[test]
    fn room_that_goes_round_falls_with_the_capacity() {
        let start = test_start();
        let own = |in_flight, demand| OwnDemand { in_flight, demand };
        let mut all = Capacity::new(LimitPolicy::known(6), 4, start);
        (0..4).for_each(|worker| all.ask(start, worker, own(0, 5)));
        all.set_policy(LimitPolicy::known(2), start);
        let limits = |all: &Capacity| (0..4).map(|n| all.allowance(n).limit).sum::<u32>();
        assert_eq!((limits(&all), all.n_held()), (2, 6));
        (0..4).for_each(|worker| all.returned(start, worker, own(0, 5), 1));
        assert_eq!((limits(&all), all.n_held()), (2, 2));
    }
}
