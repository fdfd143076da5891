//! How many calls an app can take at once, found out by how it answers.
//!
//! The limit falls as the latency of answers rises above its floor (a gradient), and at once when
//! the app's thread pool rejects calls. It grows only while it is used up, and latency says
//! nothing while not even half of it is used. The floor is the least mean latency of a sliding
//! window: a mean, since fast and slow methods of an app are no sign of a queue. There is no phase
//! that refuses calls to measure it: once in a span of the window the limit gives up its allowance
//! for a queue, grows back, and so sees the app without a queue.
//!
//! Answers may be late for a reason that has nothing to do with how many calls there are, such as
//! a busy machine. So latency does not lower the limit below what the app has proven lately to
//! need: its best throughput times its least latency (Little's law). Without that, calls would be
//! refused that the app can take, whoever has no patience would ask at once again, and the machine
//! would become busier.
//!
//! An app of which nothing is known yet may have a small pool, and many callers. So the limit
//! begins low, and opens: it doubles every few milliseconds while more calls wait than it lets in,
//! until the app rejects one. A rejection comes back much sooner than an answer.
//!
//! What the app rejects tells how much it had then. A limit above that falls there at once,
//! however often, as long as the app rejects most calls. Where it has rejected a few, the limit
//! falls to a little below what the app takes otherwise, and stays there for a while: each try to
//! get more costs calls.
//!
//! An app may also reject a call for a reason of that call, such as the quota of one caller. It
//! says nothing of the pool if the app has much less to do than it has just been seen to take. It
//! has to reject many calls then, before the limit falls. If the pool is full after all, these
//! calls are what it costs to find that out; it takes milliseconds where callers are many.
//!
//! Others may have filled the pool, and go again. A limit that fell far is opened again once a
//! call is answered and none is rejected. Each time that this was too early, it waits longer, and
//! one that is only measured aims lower.
//!
//! A known capacity is a limit, too. Only rejections lower it: others may use the app as well.
//!
//! Invariants:
//! - The limit stays between `min` and `max`.
//! - A limit that is not used up does not grow.

use std::time::{Duration, Instant};

use self::carried::Lately;
use crate::throughput::BestThroughput;
use crate::windowed_min::WindowedMin;

mod carried;

/// Within which bounds a limit is looked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LimitPolicy {
    /// The least limit, at least 1.
    pub min: u32,
    /// The greatest limit.
    pub max: u32,
    /// The limit to begin with.
    pub initial: u32,
    /// It doubles up to this as fast as calls come, until the app shows that it can take less.
    pub opens_to: u32,
    /// Latency alone does not lower the limit below this; `None` if latency says nothing.
    pub latency_min: Option<u32>,
    /// How long the least latency is remembered.
    pub floor_window: Duration,
    /// An answer that comes so much later than the fastest ones shows no queue yet.
    pub slack: Duration,
    /// The limit grows fast, by half in each sample, until it falls for the first time.
    pub is_eager: bool,
}

const FLOOR_WINDOW: Duration = Duration::from_secs(20);

impl LimitPolicy {
    /// For an app that is known to take `capacity` calls at once.
    #[must_use]
    pub fn known(capacity: u32) -> Self {
        let (max, initial, opens_to) = (capacity, capacity, capacity);
        Self { min: 1, max, initial, opens_to, latency_min: None, ..Self::default() }
    }

    /// For a provider that we call without an agent before it, and of which nothing is known. It
    /// opens to a little more than Dubbo's usual 200 threads. What answers within milliseconds is
    /// never held up.
    #[must_use]
    pub fn direct() -> Self {
        let slack = Duration::from_millis(20);
        Self { opens_to: 256, slack, is_eager: true, ..Self::default() }
    }
}

impl Default for LimitPolicy {
    /// For an app of which nothing is known. It opens far: an app that queues and can take less
    /// says so within a few samples, and one that can take more loses nothing.
    fn default() -> Self {
        Self {
            min: 1,
            max: 65_536,
            initial: 64,
            opens_to: 1024,
            latency_min: Some(16),
            floor_window: FLOOR_WINDOW,
            slack: Duration::ZERO,
            is_eager: false,
        }
    }
}

/// What was seen of an app for a while: about two round trips, or a tenth of a second.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sample {
    /// Calls that were answered.
    pub n_answers: u32,
    /// The latencies of these, together.
    pub latency_sum: Duration,
    /// Calls that the app's thread pool rejected.
    pub n_rejected: u32,
    /// The most calls that were in flight at a time.
    pub max_in_flight: u32,
    /// The fewest that were in flight as one was sent that was rejected, without that one.
    pub in_flight_rejected: u32,
}

impl Sample {
    /// Counts a call that was answered after `latency`.
    pub fn answered(&mut self, latency: Duration) {
        self.n_answers = self.n_answers.saturating_add(1);
        self.latency_sum = self.latency_sum.saturating_add(latency);
    }

    /// Counts a call that the app's thread pool rejected. It had `in_flight` others of ours as the
    /// call was sent.
    pub fn rejected(&mut self, in_flight: u32) {
        self.in_flight_rejected = match self.n_rejected {
            0 => in_flight,
            _ => self.in_flight_rejected.min(in_flight),
        };
        self.n_rejected = self.n_rejected.saturating_add(1);
    }

    /// What the app had of ours when it rejected calls, or at most.
    pub(crate) fn in_flight(&self) -> u32 {
        if self.n_rejected == 0 { self.max_in_flight } else { self.in_flight_rejected }
    }

    /// Adds what another worker saw of the same app at the same time.
    pub fn add(&mut self, other: &Self) {
        self.in_flight_rejected = self.in_flight().saturating_add(other.in_flight());
        self.n_answers = self.n_answers.saturating_add(other.n_answers);
        self.latency_sum = self.latency_sum.saturating_add(other.latency_sum);
        self.n_rejected = self.n_rejected.saturating_add(other.n_rejected);
        self.max_in_flight = self.max_in_flight.saturating_add(other.max_in_flight);
    }

    /// Adds what the same worker saw later.
    pub fn add_later(&mut self, later: &Self) {
        let max_in_flight = self.max_in_flight.max(later.max_in_flight);
        let in_flight_rejected = match (self.n_rejected, later.n_rejected) {
            (_, 0) => self.in_flight_rejected,
            (0, _) => later.in_flight_rejected,
            _ => self.in_flight_rejected.min(later.in_flight_rejected),
        };
        self.add(later);
        self.max_in_flight = max_in_flight;
        self.in_flight_rejected = in_flight_rejected;
    }

    pub(crate) fn mean_latency(&self) -> Option<Duration> {
        self.latency_sum.checked_div(self.n_answers)
    }
}

/// So many calls, in the app or rejected, make a load. Fewer never show that most are rejected.
const LEAST_LOAD: u32 = 4;
/// Of what the app had when it rejected calls, so much is left.
const AFTER_REJECTION: f64 = 0.9;
/// It does not get more than so much of that again
const HELD_AFTER_REJECTION: f64 = 0.95;
/// for so long. Each try to get more may cost calls.
const HOLD_TIME: Duration = Duration::from_secs(1);
/// A limit that was opened again too early waits so long before the next time, at first
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// and at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A limit that opens doubles after so long. A rejection comes back by then.
const OPENING_STEP: Duration = Duration::from_millis(10);
/// A lower limit shows after about as long as a call takes, within these bounds.
const SETTLING: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];
/// Rejections and answers are counted for about as long as a call takes, within these bounds.
const COUNTING: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// So many times the floor is not a queue yet.
const TOLERANCE: f64 = 1.2;
/// What a limit grows by in a sample that has not fallen yet.
const EAGER_GROWTH: f64 = 1.5;
/// One sample never takes more than half of the limit.
const LEAST_GRADIENT: f64 = 0.5;

/// The limit of one app.
#[derive(Clone, Debug)]
pub struct Limiter {
    policy: LimitPolicy,
    limit: f64,
    floor: WindowedMin,
    best: BestThroughput,
    /// What it took and rejected, once it was called. Many endpoints are not.
    lately: Option<Box<Lately>>,
    /// Since the app rejected calls, no more is proven than this. It grows as a limit does.
    proven_max: f64,
    /// What calls took of late.
    usual: Duration,
    /// It has not fallen yet, and may grow fast.
    is_eager: bool,
    growth: Growth,
    /// What it had before it fell far. Few fall.
    reopening: Option<Box<Reopening>>,
}

/// How a limit may grow.
#[derive(Clone, Copy, Debug)]
enum Growth {
    /// It doubles. More calls wait than it lets in since then.
    Opens { wanted_since: Option<Instant> },
    /// Not beyond this until then: the app rejected calls.
    Held { below: f64, until: Instant },
    /// A little in each sample.
    Usual,
}

/// How a limit that fell far comes back.
#[derive(Clone, Copy, Debug)]
struct Reopening {
    to: f64,
    /// What the app has carried before: more is not tried twice where the limit is measured.
    carried: f64,
    /// The app had not rejected anything before, and the limit was free to open further.
    was_opening: bool,
    /// Not before this.
    from: Instant,
    /// The next one waits so long if this one comes too early.
    pause: Duration,
}

impl Limiter {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(policy: LimitPolicy, now: Instant) -> Self {
        let floor = WindowedMin::new(policy.floor_window, now);
        let best = BestThroughput::new(policy.floor_window, now);
        let (limit, is_eager) = (f64::from(policy.initial), policy.is_eager);
        let growth = match policy.initial < policy.opens_to {
            true => Growth::Opens { wanted_since: None },
            false => Growth::Usual,
        };
        let mut limiter = Self {
            policy,
            limit,
            floor,
            best,
            lately: None,
            proven_max: f64::INFINITY,
            usual: SETTLING[0],
            is_eager,
            growth,
            reopening: None,
        };
        limiter.set(f64::from(policy.initial));
        limiter
    }

    /// How many calls may be in flight.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to max")]
    pub fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// Whether somebody has said how many calls the app takes. It is measured otherwise.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.policy.latency_min.is_none()
    }

    /// Whether the limit doubles every few milliseconds while calls wait.
    #[must_use]
    pub fn is_opening(&self) -> bool {
        matches!(self.growth, Growth::Opens { .. })
    }

    /// So many calls are in the app or wait. Returns whether the limit has grown by that.
    pub fn open(&mut self, now: Instant, wanted: u32) -> bool {
        let Growth::Opens { wanted_since } = &mut self.growth else { return false };
        if f64::from(wanted) <= self.limit {
            *wanted_since = None;
            return false;
        }
        let since = *wanted_since.get_or_insert(now);
        if now.saturating_duration_since(since) < OPENING_STEP {
            return false;
        }
        *wanted_since = Some(now);
        let (before, again) = (self.limit, self.reopening.as_deref());
        let to = again.map_or_else(|| f64::from(self.policy.opens_to), |again| again.to);
        let goes_on = again.is_some_and(|again| again.was_opening);
        self.set((self.limit * 2.0).min(to));
        if to <= self.limit && !goes_on {
            (self.growth, self.reopening) = (Growth::Usual, None);
        }
        before < self.limit
    }

    /// Learns from what was seen since the last time.
    pub fn take_in(&mut self, now: Instant, sample: &Sample) {
        self.best.take_in(now, sample.n_answers);
        self.usual = sample.mean_latency().unwrap_or(self.usual);
        let window = self.policy.floor_window;
        let lately = self.lately.get_or_insert_with(|| Box::new(Lately::new(window, now)));
        let counting = self.usual.clamp(COUNTING[0], COUNTING[1]);
        lately.take_in(now, sample, counting);
        if 0 < sample.n_rejected {
            return self.take_in_rejections(now, sample);
        }
        self.reopen(now, sample);
        let is_used_up = self.is_used_up(sample);
        let allowance = self.limit.sqrt();
        let (Some(mean), Some(latency_min)) = (sample.mean_latency(), self.policy.latency_min)
        else {
            if is_used_up {
                self.set(self.limit + allowance);
            }
            return;
        };
        let is_new_span = self.floor.take_in(now, mean);
        if self.is_opening() {
            // How late answers are says nothing of the pool, and each call that waits costs time.
            return;
        }
        let floor = self.floor.least().unwrap_or(mean).as_secs_f64();
        let gradient = match mean.as_secs_f64() {
            0.0 => 1.0,
            mean_s => ((TOLERANCE * floor + self.policy.slack.as_secs_f64()) / mean_s)
                .clamp(LEAST_GRADIENT, 1.0),
        };
        self.is_eager &= 1.0 <= gradient || !is_used_up;
        if self.is_eager && is_used_up {
            return self.set(self.limit * EAGER_GROWTH);
        }
        if is_used_up {
            self.proven_max += allowance;
        }
        let next = (self.limit * gradient + allowance).max(self.proven());
        let next = match is_used_up {
            true if is_new_span => self.limit.min(next) / TOLERANCE - 1.5 * allowance,
            true => next,
            false if f64::from(sample.max_in_flight) * 2.0 < self.limit => return,
            false => self.limit.min(next),
        };
        let next = next.max(f64::from(latency_min).min(self.limit));
        self.set(match self.growth {
            // It rejects calls rather than have them wait.
            Growth::Held { below, until } if now < until => {
                next.clamp(self.limit, below.max(self.limit))
            }
            _ => next,
        });
    }

    /// How many calls it has shown that it can have, lately or ever.
    fn most_shown(&self) -> f64 {
        self.carried().max(self.proven())
    }

    fn take_in_rejections(&mut self, now: Instant, sample: &Sample) {
        self.is_eager = false;
        let in_flight = f64::from(sample.in_flight());
        let (n_answers, n_rejected, is_settled) = self.lately.as_ref().map_or_else(
            || (sample.n_answers, sample.n_rejected, true),
            |it| (it.n_answers, it.n_rejected, it.settles_until <= now),
        );
        let carried = self.most_shown();
        let says_little = in_flight < carried / 2.0;
        // A few threads of a large pool may be late.
        let margin = carried / if says_little { 2.0 } else { 4.0 };
        let rejects_most = LEAST_LOAD <= n_rejected.saturating_add(sample.in_flight())
            && f64::from(n_answers).max(margin) < f64::from(n_rejected);
        if !rejects_most && (says_little || sample.in_flight() == 0) {
            return;
        }
        let reopening = self.reopening_after_rejection(now);
        if self.is_opening() {
            self.growth = Growth::Usual;
        }
        if is_settled || rejects_most && in_flight < self.limit {
            self.fall(now, sample, rejects_most);
        }
        self.reopening = (2.0 * self.limit < reopening.to).then(|| Box::new(reopening));
    }

    /// What the limit may open to again, now that the app has rejected calls.
    fn reopening_after_rejection(&self, now: Instant) -> Reopening {
        let Some(again) = self.reopening.as_deref().copied() else {
            let carried = self.most_shown();
            // A limit that is measured may be more than the app has ever had.
            let to = match self.is_known() {
                true => self.limit,
                false => self.limit.min(carried.max(self.policy.initial.into())),
            };
            let was_opening = self.is_opening();
            return Reopening { to, carried, was_opening, from: now, pause: FIRST_PAUSE };
        };
        if !self.is_opening() {
            return again;
        }
        let Reopening { to, carried, pause, .. } = again;
        let to = if self.is_known() { to } else { (to / 2.0).min(carried) };
        let (from, pause) = (now + pause, (2 * pause).min(LONGEST_PAUSE));
        Reopening { to, carried, was_opening: false, from, pause }
    }

    /// The app has rejected nothing lately. To be called between samples, too: a limit that fell
    /// far is not to wait until enough is answered for the next one.
    pub fn reopen(&mut self, now: Instant, sample: &Sample) {
        let Some(again) = self.reopening.as_deref_mut() else { return };
        if now < again.from || sample.n_answers == 0 || 0 < sample.n_rejected {
            return;
        }
        let was_opening = again.was_opening;
        if again.to <= self.limit || matches!(self.growth, Growth::Opens { .. }) {
            // It has had its time.
            self.growth = match was_opening {
                true => Growth::Opens { wanted_since: None },
                false => Growth::Usual,
            };
            self.proven_max = self.proven_max.max(self.limit);
            self.reopening = None;
            return;
        }
        self.growth = Growth::Opens { wanted_since: None };
        again.from = now + HOLD_TIME;
    }

    /// The app rejected calls. Threads that have just answered may not be back yet, above all on
    /// a busy machine. So a few rejections do not show that the app can take less than it has
    /// proven to take. Once it rejects most calls, they do.
    fn fall(&mut self, now: Instant, sample: &Sample, rejects_most: bool) {
        let (in_flight, most) = (f64::from(sample.in_flight()), f64::from(sample.max_in_flight));
        let carried = match self.is_used_up(sample) {
            true => self.carried(),
            // Callers want less by now.
            false => self.carried().min(most),
        };
        let shown = match rejects_most {
            true => in_flight,
            false => in_flight.max(self.proven()).max(carried),
        };
        // What most calls ran into may be far below what the app can take, so it is tried at once.
        self.growth = match rejects_most {
            true => Growth::Usual,
            false => Growth::Held { below: shown * HELD_AFTER_REJECTION, until: now + HOLD_TIME },
        };
        let settling = self.usual.clamp(SETTLING[0], SETTLING[1]);
        if let Some(lately) = &mut self.lately {
            lately.fell(now, settling, rejects_most);
        }
        self.proven_max = shown * AFTER_REJECTION;
        self.set(self.limit.min(self.proven_max));
    }

    fn is_used_up(&self, sample: &Sample) -> bool {
        self.limit <= f64::from(sample.max_in_flight) + 1.0
    }

    /// How many calls the app had at a time lately and did not reject.
    fn carried(&self) -> f64 {
        self.lately.as_ref().map_or(0.0, |it| it.carried.most())
    }

    /// How many calls the app has worked on at a time lately, by Little's law.
    fn proven(&self) -> f64 {
        let floor = self.floor.least().unwrap_or_default();
        (self.best.per_second().unwrap_or(0.0) * floor.as_secs_f64()).min(self.proven_max)
    }

    fn set(&mut self, limit: f64) {
        let min = f64::from(self.policy.min.max(1));
        self.limit = limit.clamp(min, f64::from(self.policy.max).max(min));
    }
}

#[cfg(test)]
mod tests;
