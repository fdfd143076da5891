//! The gate before an app: lets calls in, makes them wait, or sheds them.
//!
//! A worker's gate lets in as many calls as the worker may have in the app. That is the whole
//! capacity of the app ([`crate::limit`]), or the worker's share of it ([`crate::credit`]).
//!
//! A call that finds no room waits, unless it is clear already that it would wait too long. It may
//! wait for a short burst to pass. Once calls have waited for the length of a burst without a
//! break, the queue only keeps the app busy, and whoever would wait longer is shed at once.
//!
//! Invariants:
//! - No call is let in while as many as the limit, or more, are in the app.
//! - No call is let in after its deadline, or when not even the fastest answer seen lately would
//!   come by then.
//! - Each call that waits is let in, shed or cancelled, once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::floor::Floor;
use crate::limit::Sample;
use crate::queue::{Entry, Key, Priority, Pushed, Queue};

/// How calls wait at a gate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GatePolicy {
    /// The most calls that wait.
    pub max_waiting: usize,
    /// How long calls may wait in a burst: this, or as long as a call takes if that is longer.
    pub burst: Duration,
    /// How long calls may wait after that: this, or half as long as a call takes if that is longer.
    /// The first one of a caller may wait twice as long.
    pub target: Duration,
}

impl Default for GatePolicy {
    fn default() -> Self {
        Self {
            max_waiting: 4096,
            burst: Duration::from_millis(100),
            target: Duration::from_millis(5),
        }
    }
}

/// A call that is to wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// Who calls, by any number that is one caller's alone.
    pub caller: u64,
    /// The call's class.
    pub priority: Priority,
    /// When the caller gives up.
    pub deadline: Instant,
}

/// Leave to have one call in the app. Give it back to [`Gate::leave`], or the call counts for ever.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a pass that is not given back takes up room in the app for ever"]
pub struct Pass {
    began: Instant,
}

/// What is known of how a call left the app.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Left {
    /// It was answered.
    Answered,
    /// The app's thread pool was full.
    Rejected,
    /// Its caller gave it up. It would have taken longer than this.
    Unanswered,
    /// It tells nothing about the app.
    Unknown,
}

/// Why a call was shed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shed {
    /// It cannot be answered by its deadline.
    Late,
    /// It would have to wait too long behind others.
    Busy,
    /// The queue is full.
    Full,
}

/// How a gate stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GateStats {
    /// How many calls may be in the app.
    pub limit: u32,
    /// How many are.
    pub in_flight: u32,
    /// How many wait.
    pub n_waiting: usize,
}

/// One worker's gate before an app, and the calls that wait there.
#[derive(Debug)]
pub struct Gate<T> {
    policy: GatePolicy,
    limit: u32,
    /// How many calls may be in the app when this gate has got what it can get.
    reach: f64,
    in_flight: u32,
    /// What a call usually takes, in nanoseconds; zero until one was answered.
    usual_ns: u64,
    floor: Floor,
    /// The answers since the last look at them.
    answers: Answers,
    sample: Sample,
    max_demand: u32,
    queue: Queue<T>,
    /// Since when calls have waited without a break.
    standing_since: Option<Instant>,
    displaced: VecDeque<T>,
}

/// Answers that were only counted yet: most calls need no more.
#[derive(Debug, Default)]
struct Answers {
    n: u32,
    sum_ns: u64,
    /// Of the fastest one.
    least_ns: u64,
}

/// How long the fastest answer is remembered.
const FLOOR_WINDOW: Duration = Duration::from_secs(10);
/// A gate that may let nothing in yet counts as one that may let in so much.
const LEAST_REACH: f64 = 0.01;
/// One answer counts for so much of the usual time.
const SMOOTHING: u64 = 16;

/// A time of 500 years is long enough.
#[inline]
fn nanoseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into())
}

impl<T> Gate<T> {
    /// A gate that lets `limit` calls in at a time.
    #[must_use]
    pub fn new(policy: GatePolicy, limit: u32, now: Instant) -> Self {
        Self {
            policy,
            limit,
            reach: f64::from(limit),
            in_flight: 0,
            usual_ns: 0,
            floor: Floor::new(FLOOR_WINDOW, now),
            answers: Answers::default(),
            sample: Sample::default(),
            max_demand: 0,
            queue: Queue::new(policy.max_waiting),
            standing_since: None,
            displaced: VecDeque::new(),
        }
    }

    /// Lets so many calls in from now on. If more are in the app already, they stay.
    /// `reach` is what it may be soon if calls wait: its share of the capacity, and what is free of
    /// it. It is less than 1 if there are more gates than capacity.
    pub fn set_limit(&mut self, limit: u32, reach: f64) {
        self.limit = limit;
        self.reach = reach.max(f64::from(limit));
    }

    /// How the gate stands.
    #[must_use]
    pub fn stats(&self) -> GateStats {
        let Self { limit, in_flight, .. } = *self;
        GateStats { limit, in_flight, n_waiting: self.queue.len() }
    }

    /// What a call usually takes in the app; zero until one was answered.
    #[must_use]
    pub fn usual(&self) -> Duration {
        Duration::from_nanos(self.usual_ns)
    }

    /// Whether calls wait.
    #[inline]
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether as many calls are in the app as may be.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.limit <= self.in_flight
    }

    /// What was seen of the app since the last time.
    pub fn take_sample(&mut self, now: Instant) -> Sample {
        self.look_at_answers(now);
        let next = Sample { max_in_flight: self.in_flight, ..Sample::default() };
        std::mem::replace(&mut self.sample, next)
    }

    /// The most calls that were in the app or waited at a time, since the last time.
    pub fn take_demand(&mut self) -> u32 {
        let now = self.demand();
        std::mem::replace(&mut self.max_demand, now).max(now)
    }

    /// Lets a call in at once, if there is room and nobody waits.
    #[inline]
    pub fn enter(&mut self, now: Instant) -> Option<Pass> {
        if self.limit <= self.in_flight || !self.queue.is_empty() {
            return None;
        }
        Some(self.pass(now))
    }

    /// Lets a call wait that [`Gate::enter`] did not let in.
    ///
    /// # Errors
    /// Why it is shed instead.
    pub fn wait(&mut self, now: Instant, arrival: Arrival, item: T) -> Result<Key, (Shed, T)> {
        self.max_demand = self.max_demand.max(self.demand().saturating_add(1));
        self.look_at_answers(now);
        let Arrival { caller, priority, deadline } = arrival;
        let needed = self.floor.least().unwrap_or_default();
        let Some(until) = deadline.checked_sub(needed).filter(|until| now <= *until) else {
            return Err((Shed::Late, item));
        };
        let entry = Entry { caller, priority, deadline, until };
        let patience = self.patience(now, self.queue.has_others_of(&entry));
        let wait = self.expected_wait(self.queue.n_ahead(&entry, self.n_within(patience)));
        if until.saturating_duration_since(now) < wait {
            return Err((Shed::Late, item));
        }
        if patience < wait {
            return Err((Shed::Busy, item));
        }
        match self.queue.push(entry, item) {
            Pushed::Refused(item) => Err((Shed::Full, item)),
            Pushed::Waits(key) => {
                self.standing_since.get_or_insert(now);
                Ok(key)
            }
            Pushed::Displaces(key, gone) => {
                self.displaced.push_back(gone.item);
                Ok(key)
            }
        }
    }

    /// Gives a pass back: the call is no longer in the app.
    #[inline]
    pub fn leave(&mut self, Pass { began }: Pass, now: Instant, left: Left) {
        debug_assert!(0 < self.in_flight, "a pass was given back twice");
        self.in_flight = self.in_flight.saturating_sub(1);
        match left {
            Left::Answered => {
                let latency_ns = nanoseconds(now.saturating_duration_since(began)).max(1);
                let Answers { n, sum_ns, least_ns } = &mut self.answers;
                *least_ns = if *n == 0 { latency_ns } else { latency_ns.min(*least_ns) };
                *sum_ns = sum_ns.saturating_add(latency_ns);
                *n = n.saturating_add(1);
                self.usual_ns = match self.usual_ns {
                    0 => latency_ns,
                    usual_ns => usual_ns - usual_ns / SMOOTHING + latency_ns / SMOOTHING,
                };
            }
            Left::Rejected => {
                self.sample.rejected();
                // Or calls would run into the full pool until somebody has looked at the sample.
                self.limit = self.limit.min(self.in_flight);
            }
            Left::Unanswered => {
                let latency = now.saturating_duration_since(began);
                if self.usual() < latency {
                    self.sample.answered(latency);
                }
            }
            Left::Unknown => {}
        }
    }

    /// The next call that waited and is let in. Ask until there is none, after each step that made
    /// room.
    pub fn poll_admitted(&mut self, now: Instant) -> Option<(T, Pass)> {
        let is_late = self.queue.next_expiry().is_some_and(|until| until < now);
        // Those are shed first.
        if self.limit <= self.in_flight || is_late {
            return None;
        }
        let item = self.queue.pop()?;
        self.look_at_queue();
        Some((item, self.pass(now)))
    }

    /// The next call that waited and is shed. Ask until there is none, before
    /// [`Gate::poll_admitted`].
    pub fn poll_shed(&mut self, now: Instant) -> Option<(T, Shed)> {
        if let Some(item) = self.displaced.pop_front() {
            return Some((item, Shed::Full));
        }
        let item = self.queue.pop_expired(now)?;
        self.look_at_queue();
        Some((item, Shed::Late))
    }

    /// After this instant [`Gate::poll_shed`] has something.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.queue.next_expiry()
    }

    /// Takes a call out whose caller has gone away; `None` if it no longer waits.
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let item = self.queue.cancel(key);
        self.look_at_queue();
        item
    }

    /// When it is worth trying again: the time that a further call would have to wait.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        self.expected_wait(self.queue.len())
    }

    fn look_at_answers(&mut self, now: Instant) {
        let Answers { n, sum_ns, least_ns } = std::mem::take(&mut self.answers);
        if n == 0 {
            return;
        }
        self.floor.take_in(now, Duration::from_nanos(least_ns));
        let seen =
            Sample { n_answers: n, latency_sum: Duration::from_nanos(sum_ns), ..Sample::default() };
        self.sample.add(&seen);
    }

    fn demand(&self) -> u32 {
        self.in_flight.saturating_add(u32::try_from(self.queue.len()).unwrap_or(u32::MAX))
    }

    fn pass(&mut self, now: Instant) -> Pass {
        self.in_flight += 1;
        self.sample.max_in_flight = self.sample.max_in_flight.max(self.in_flight);
        self.max_demand = self.max_demand.max(self.in_flight);
        Pass { began: now }
    }

    fn look_at_queue(&mut self) {
        if self.queue.is_empty() {
            self.standing_since = None;
        }
    }

    /// How long a call may wait now. In a standing queue, a caller of whom nothing waits gets twice
    /// the time of those who keep it standing.
    fn patience(&self, now: Instant, has_others: bool) -> Duration {
        let burst = self.policy.burst.max(self.usual());
        let patience = match self.standing_since {
            Some(since) if burst < now.saturating_duration_since(since) => {
                let target = self.policy.target.max(self.usual() / 2);
                if has_others { target } else { target * 2 }
            }
            _ => burst,
        };
        // What goes round among several gates is here for a part of the time only.
        patience.div_f64(self.reach.clamp(LEAST_REACH, 1.0))
    }

    /// How long a call waits with so many before it: within the usual time, as many calls end as
    /// may be in the app.
    fn expected_wait(&self, n_ahead: usize) -> Duration {
        let turns = u32::try_from(n_ahead).unwrap_or(u32::MAX).saturating_add(1);
        self.usual().saturating_mul(turns).div_f64(self.reach.max(LEAST_REACH))
    }

    /// How many calls may be before one that waits no longer than `wait`, and one more.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    fn n_within(&self, wait: Duration) -> usize {
        if self.usual_ns == 0 {
            return 0;
        }
        (wait.as_secs_f64() / self.usual().as_secs_f64() * self.reach.max(LEAST_REACH)) as usize + 1
    }
}

#[cfg(test)]
mod tests;
