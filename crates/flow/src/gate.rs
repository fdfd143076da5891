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
//! - No call is let in while as many are in the app as it can take, or more, whoever made them.
//! - Nor is a call without a credit while as many of those are there as may be.
//! - No call that has waited is let in after its deadline, or when not even the fastest answer
//!   seen lately would come by then, once the pace is sure.
//! - Each call that waits is let in, shed or cancelled, once.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use crate::lender::OwnDemand;
use crate::limit::Sample;
pub use crate::line::{Arrival, Pace, Shed};
use crate::line::{Certainty, LinePolicy, WaitingLine};
use crate::queue::WaitKey;
use crate::repeats::{RepeatBudget, Repeats};
use crate::windowed_min::WindowedMin;

/// Leave to have one call in the app. Give it back to [`Gate::leave`], or the call counts for
/// ever.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a pass that is not given back takes up room in the app for ever"]
pub struct Pass {
    began: Instant,
    /// How many others were in the app then.
    n_others: u32,
    /// The link by whose credit the call was let in.
    lent_to: Option<NonZeroU64>,
    /// How many lendings had ended then.
    n_lendings: u32,
}

impl Pass {
    /// How long the call has been in the app.
    #[inline]
    #[must_use]
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}

/// What is known of how a call left the app.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Left {
    /// It was answered, after so long in the app.
    Answered(Duration),
    /// The app's thread pool was full.
    Rejected,
    /// Its caller gave it up. It would have taken longer than this.
    Unanswered,
    /// It tells nothing about the app.
    Unknown,
}

/// How a gate stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GateStats {
    /// How many calls may be in the app that have no credit.
    pub limit: u32,
    /// How many calls are in the app.
    pub in_flight: u32,
    /// How many of them have no credit.
    pub n_own: u32,
    /// How many wait.
    pub n_waiting: usize,
}

/// One worker's gate before an app, and the calls that wait there.
#[derive(Debug)]
pub struct Gate<T> {
    /// How many calls may be in the app.
    capacity: u32,
    /// How many of them may have no credit.
    limit: u32,
    /// How many calls may be in the app when this gate has got what it can get.
    reach: f64,
    /// Calls in the app without credits.
    in_flight: u32,
    /// Calls in the app by credits.
    n_lent: u32,
    /// How many lendings have ended. Passes of those before are like those without a credit.
    n_lendings: u32,
    /// What a call usually takes, in nanoseconds; zero until one was answered.
    usual_ns: u64,
    certainty: Certainty,
    floor: WindowedMin,
    /// The answers since the last look at them.
    answers: Answers,
    sample: Sample,
    /// The most calls that were in the app at a time in the sample before.
    max_before: u32,
    repeats: RepeatBudget,
    max_demand: u32,
    /// Calls that have left the app since somebody asked.
    n_left: u32,
    line: WaitingLine<T>,
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
    pub fn new(policy: LinePolicy, limit: u32, now: Instant) -> Self {
        Self {
            capacity: limit,
            limit,
            reach: f64::from(limit),
            in_flight: 0,
            n_lent: 0,
            n_lendings: 0,
            usual_ns: 0,
            certainty: Certainty::default(),
            floor: WindowedMin::new(FLOOR_WINDOW, now),
            answers: Answers::default(),
            sample: Sample::default(),
            max_before: 0,
            repeats: RepeatBudget::new(),
            max_demand: 0,
            n_left: 0,
            line: WaitingLine::new(policy),
        }
    }

    /// Lets so many calls in from now on. If more are in the app already, they stay.
    /// `reach` is what it may be soon if calls wait: its share of the capacity, and what is free
    /// of it. It is less than 1 if there are more gates than capacity.
    pub fn set_limit(&mut self, limit: u32, reach: f64) {
        self.capacity = limit;
        self.limit = limit;
        self.reach = reach.max(f64::from(limit));
    }

    /// Lets only so many of them in without a credit, until [`Gate::set_limit`]. Those who wait
    /// may hope for one place even if they have none now.
    pub fn set_own_limit(&mut self, limit: u32) {
        self.limit = limit;
        self.reach = limit.max(1).into();
    }

    /// Nothing is lent any more. Calls that came by credits count like all others from now on.
    pub fn end_lending(&mut self) {
        self.in_flight += std::mem::take(&mut self.n_lent);
        self.n_lendings = self.n_lendings.wrapping_add(1);
    }

    /// The link by whose credit a call was let in, if that is still lent.
    #[inline]
    #[must_use]
    pub fn lent_to(&self, pass: &Pass) -> Option<NonZeroU64> {
        pass.lent_to.filter(|_| pass.n_lendings == self.n_lendings)
    }

    /// Calls wait by `policy` from now on; how many may wait stays as it is.
    pub fn set_line_policy(&mut self, policy: LinePolicy) {
        self.line.set_policy(policy);
    }

    /// How the gate stands.
    #[must_use]
    pub fn stats(&self) -> GateStats {
        let Self { limit, in_flight: n_own, n_lent, .. } = *self;
        GateStats { limit, in_flight: n_own + n_lent, n_own, n_waiting: self.line.len() }
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
        !self.line.is_empty()
    }

    /// Whether a call without a credit would find no room.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.limit <= self.in_flight || self.is_app_full()
    }

    /// Whether as many calls are in the app as may be, with and without credits.
    #[inline]
    #[must_use]
    pub fn is_app_full(&self) -> bool {
        self.capacity <= self.n_in_app()
    }

    /// Whether as many calls are in the app as may be, or were lately: a thread may be late to be
    /// back in its pool, and no other one may be free.
    #[inline]
    #[must_use]
    pub fn may_be_rejected(&self) -> bool {
        self.capacity <= self.sample.max_in_flight.max(self.max_before)
    }

    /// When the app is to be offered a call again that its pool has rejected, although it had
    /// fewer calls than it can take; `None` if the rejection counts. The call keeps its pass.
    pub fn repeat_at(
        &mut self,
        now: Instant,
        deadline: Instant,
        repeats: &mut Repeats,
    ) -> Option<Instant> {
        self.look_at_answers(now);
        repeats.next(now, deadline, &mut self.repeats)
    }

    /// What was seen of the app since the last time.
    pub fn take_sample(&mut self, now: Instant) -> Sample {
        self.look_at_answers(now);
        self.max_before = self.sample.max_in_flight;
        let next = Sample { max_in_flight: self.in_flight + self.n_lent, ..Sample::default() };
        std::mem::replace(&mut self.sample, next)
    }

    /// The most calls that were in the app or waited at a time, since the last time.
    pub fn take_demand(&mut self) -> u32 {
        let now = self.demand();
        std::mem::replace(&mut self.max_demand, now).max(now)
    }

    /// How many calls have left the app since the last time.
    pub fn take_n_left(&mut self) -> u32 {
        std::mem::take(&mut self.n_left)
    }

    /// Calls that have no credit and are in the app or wait.
    #[must_use]
    pub fn own(&self) -> OwnDemand {
        OwnDemand { in_flight: self.in_flight, demand: self.own_demand() }
    }

    /// Lets a call in at once, if there is room and nobody waits.
    #[inline]
    pub fn enter(&mut self, now: Instant) -> Option<Pass> {
        if self.is_full() || !self.line.is_empty() {
            return None;
        }
        Some(self.pass(now))
    }

    /// Lets a call in by a credit of that link, if `has_credit` says that it has one. Without room
    /// in the app a credit is of no use: it was lent before the capacity fell.
    pub fn enter_lent(
        &mut self,
        now: Instant,
        link: NonZeroU64,
        has_credit: impl FnOnce() -> bool,
    ) -> Option<Pass> {
        if self.is_app_full() || !has_credit() {
            return None;
        }
        let pass = Pass { lent_to: Some(link), ..self.new_pass(now) };
        self.n_lent += 1;
        self.note_in_flight();
        Some(pass)
    }

    /// Lets a call wait that [`Gate::enter`] did not let in.
    ///
    /// # Errors
    /// Why it is shed instead.
    pub fn wait(&mut self, now: Instant, arrival: Arrival, item: T) -> Result<WaitKey, (Shed, T)> {
        self.max_demand = self.max_demand.max(self.demand().saturating_add(1));
        self.look_at_answers(now);
        let pace = self.pace();
        self.line.wait(now, &pace, arrival, item)
    }

    /// How fast calls go through the app.
    #[must_use]
    pub fn pace(&self) -> Pace {
        let Answers { n, least_ns, .. } = self.answers;
        // Those that were only counted yet are as good as others.
        let counted = (0 < n).then(|| Duration::from_nanos(least_ns));
        let least = self.floor.least().into_iter().chain(counted).min().unwrap_or_default();
        let is_sure = self.certainty.is_sure();
        Pace { usual: self.usual(), least, reach: self.reach, is_sure }
    }

    /// So many calls wait elsewhere for room in the app.
    pub fn want(&mut self, n_waiting: u32) {
        self.max_demand = self.max_demand.max(self.demand().saturating_add(n_waiting));
    }

    /// A call was answered after so long in the app. It counts as there until its pass comes back
    /// with [`Left::Unknown`].
    pub fn answered(&mut self, pass: &Pass, latency: Duration) {
        self.note_answer(pass.began, latency);
    }

    #[inline]
    fn note_answer(&mut self, began: Instant, latency: Duration) {
        let latency_ns = nanoseconds(latency).max(1);
        self.certainty.note(began, latency);
        let Answers { n, sum_ns, least_ns } = &mut self.answers;
        *least_ns = if *n == 0 { latency_ns } else { latency_ns.min(*least_ns) };
        *sum_ns = sum_ns.saturating_add(latency_ns);
        *n = n.saturating_add(1);
        self.usual_ns = match self.usual_ns {
            0 => latency_ns,
            usual_ns => usual_ns - usual_ns / SMOOTHING + latency_ns / SMOOTHING,
        };
    }

    /// Gives a pass back: the call is no longer in the app.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "a pass is given back once")]
    pub fn leave(&mut self, pass: Pass, now: Instant, left: Left) {
        let is_lent = self.lent_to(&pass).is_some();
        let Pass { began, n_others, .. } = pass;
        let n = if is_lent { &mut self.n_lent } else { &mut self.in_flight };
        debug_assert!(0 < *n, "a pass was given back twice");
        *n = n.saturating_sub(1);
        self.n_left = self.n_left.saturating_add(1);
        match left {
            Left::Answered(latency) => self.note_answer(began, latency),
            Left::Rejected => {
                // What there is now says less: answers that came before this one may have been
                // read together with it.
                self.sample.rejected(n_others);
                // Or calls would run into the full pool until somebody has looked at the sample.
                // One call may always find out whether it is still full.
                self.limit = self.limit.min(self.in_flight.max(1));
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
        if self.is_full() {
            return None;
        }
        let item = self.line.poll_next(now, &self.pace())?;
        Some((item, self.pass(now)))
    }

    /// The next call that waited and is shed. Ask until there is none, before each
    /// [`Gate::poll_admitted`].
    pub fn poll_shed(&mut self, now: Instant) -> Option<(T, Shed)> {
        self.line.poll_shed(now, &self.pace())
    }

    /// After this instant [`Gate::poll_shed`] has something, if the pace stays.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.line.poll_timeout()
    }

    /// Takes a call out whose caller has gone away; `None` if it no longer waits.
    pub fn cancel(&mut self, key: WaitKey) -> Option<T> {
        self.line.cancel(key)
    }

    /// When it is worth trying again: the time that a further call would have to wait.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        self.line.retry_after(&self.pace())
    }

    fn look_at_answers(&mut self, now: Instant) {
        let Answers { n, sum_ns, least_ns } = std::mem::take(&mut self.answers);
        if n == 0 {
            return;
        }
        self.repeats.answered(n);
        self.floor.take_in(now, Duration::from_nanos(least_ns));
        let seen =
            Sample { n_answers: n, latency_sum: Duration::from_nanos(sum_ns), ..Sample::default() };
        self.sample.add(&seen);
    }

    fn demand(&self) -> u32 {
        self.own_demand().saturating_add(self.n_lent)
    }

    fn own_demand(&self) -> u32 {
        self.in_flight.saturating_add(u32::try_from(self.line.len()).unwrap_or(u32::MAX))
    }

    #[inline]
    fn pass(&mut self, now: Instant) -> Pass {
        let pass = self.new_pass(now);
        self.in_flight += 1;
        self.note_in_flight();
        pass
    }

    #[inline]
    fn new_pass(&self, now: Instant) -> Pass {
        let (n_others, n_lendings) = (self.n_in_app(), self.n_lendings);
        Pass { began: now, n_others, lent_to: None, n_lendings }
    }

    #[inline]
    fn n_in_app(&self) -> u32 {
        self.in_flight + self.n_lent
    }

    #[inline]
    fn note_in_flight(&mut self) {
        let in_flight = self.n_in_app();
        self.sample.max_in_flight = self.sample.max_in_flight.max(in_flight);
        self.max_demand = self.max_demand.max(in_flight);
    }
}

#[cfg(test)]
mod tests;
