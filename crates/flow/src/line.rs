//! Calls that wait for room: in a bounded queue, and only as long as that makes sense.
//!
//! A call that finds no room waits, unless it is clear already that it would wait too long. It may
//! wait for a short burst to pass. Once calls have waited for the length of a burst without a
//! break, the queue only keeps the app busy, and whoever would wait longer is shed at once.
//!
//! Invariants:
//! - No call is let go on after its deadline, or when not even the fastest answer seen lately
//!   would come by then, once the pace is sure.
//! - Each call that waits is let go on, shed or cancelled, once.
//! - Those who wait are judged again only when calls take twice as long as was known, and no more
//!   often than every [`JUDGING_INTERVAL`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::queue::{CallerId, Priority, Pushed, Queue, QueuedCall, WaitKey};

/// How calls wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LinePolicy {
    /// The most calls that wait.
    pub max_waiting: usize,
    /// How long calls may wait in a burst: this, or as long as a call takes if that is longer.
    pub burst: Duration,
    /// How long calls may wait after that: this, or half as long as a call takes if that is
    /// longer. The first one of a caller may wait half as long again.
    pub target: Duration,
}

impl LinePolicy {
    /// For callers of an app whose capacity is measured. It may be able to take more calls, so
    /// they have time to find that out.
    pub const PATIENT: Self = Self {
        max_waiting: 4096,
        burst: Duration::from_secs(1),
        target: Duration::from_millis(250),
    };
}

impl Default for LinePolicy {
    /// For calls that wait for an app whose capacity is known.
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
    /// Who calls.
    pub caller: CallerId,
    /// The call's class.
    pub priority: Priority,
    /// When the caller gives up.
    pub deadline: Instant,
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

/// How fast those go on who wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// What a call usually takes; zero if nobody knows.
    pub usual: Duration,
    /// What the fastest one took of late; zero if nobody knows.
    pub least: Duration,
    /// How many calls may be under way at a time. Less than 1 if room is there for a part of the
    /// time only.
    pub reach: f64,
    /// Calls were answered that began after the first answer. The first ones may have been slow
    /// because the app or the connection had just started.
    pub is_sure: bool,
}

impl Pace {
    /// The pace of two places that both take calls of the same line.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let least = match (self.least, other.least) {
            (Duration::ZERO, least) | (least, Duration::ZERO) => least,
            (own, other) => own.min(other),
        };
        let reach = self.reach + other.reach;
        let usual = match (self.usual, other.usual) {
            (Duration::ZERO, usual) | (usual, Duration::ZERO) => usual,
            // So many calls end in a second at both together.
            (own, its) => {
                let rate = self.reach / own.as_secs_f64() + other.reach / its.as_secs_f64();
                Duration::try_from_secs_f64(reach / rate).unwrap_or(own)
            }
        };
        let is_sure = self.is_sure_or_unknown() && other.is_sure_or_unknown();
        Self { usual, least, reach, is_sure: is_sure && !usual.is_zero() }
    }

    fn is_sure_or_unknown(&self) -> bool {
        self.is_sure || self.usual.is_zero()
    }

    /// Whether calls take much longer by this pace than by `before`.
    fn is_much_slower_than(&self, before: &Self) -> bool {
        2 * before.usual < self.usual || 2 * before.least < self.least
    }

    /// Until when a call may be begun, so that it may be answered by its deadline, or its caller
    /// hear in time that it was not begun.
    fn last_begin(&self, now: Instant, deadline: Instant) -> Option<Instant> {
        let telling = TELLING_TIME.min(deadline.saturating_duration_since(now) / 4);
        deadline.checked_sub(self.least.max(telling))
    }
}

/// How much is known of the time that calls take.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Certainty {
    /// Nobody has answered.
    #[default]
    Unknown,
    /// The first answer came then, and all others since were to calls that had begun before.
    FirstAnswer(Instant),
    /// Others were answered.
    Sure,
}

impl Certainty {
    /// A call was answered `latency` after it began.
    #[inline]
    pub(crate) fn note(&mut self, began: Instant, latency: Duration) {
        match *self {
            Self::Unknown => *self = Self::FirstAnswer(began + latency),
            Self::FirstAnswer(at) if at <= began => *self = Self::Sure,
            Self::FirstAnswer(_) | Self::Sure => {}
        }
    }

    #[inline]
    pub(crate) fn is_sure(self) -> bool {
        self == Self::Sure
    }
}

/// So many callers with several calls waiting are counted.
const MOST_TURNS: usize = 64;

/// Where there is no room yet counts as so much room.
const LEAST_REACH: f64 = 0.01;

/// A call is shed so long before its deadline at least: its caller is to hear that nobody has
/// begun it, before the caller gives it up and cannot know.
const TELLING_TIME: Duration = Duration::from_millis(10);

/// Those who wait are judged again no more often than this.
pub const JUDGING_INTERVAL: Duration = Duration::from_millis(20);

/// Calls that wait for room.
#[derive(Debug)]
pub struct WaitingLine<T> {
    policy: LinePolicy,
    queue: Queue<T>,
    /// Since when calls have waited without a break.
    standing_since: Option<Instant>,
    /// How those who wait were judged. Most gates never have anybody wait.
    judged: Option<Box<Judged>>,
    /// Those who are to be told that they are shed.
    gone: VecDeque<(T, Shed)>,
}

/// How those who wait were judged.
#[derive(Debug)]
struct Judged {
    by: Pace,
    /// When they were judged again.
    at: Option<Instant>,
}

impl<T> WaitingLine<T> {
    /// Nobody waits yet.
    #[must_use]
    pub fn new(policy: LinePolicy) -> Self {
        let queue = Queue::new(policy.max_waiting);
        let (standing_since, judged, gone) = Default::default();
        Self { policy, queue, standing_since, judged, gone }
    }

    /// How many calls wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no call waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Calls wait by `policy` from now on; how many may wait stays as it is.
    pub fn set_policy(&mut self, policy: LinePolicy) {
        self.policy = policy;
    }

    /// Lets a call wait.
    ///
    /// # Errors
    /// Why it is shed instead.
    pub fn wait(
        &mut self,
        now: Instant,
        pace: &Pace,
        arrival: Arrival,
        item: T,
    ) -> Result<WaitKey, (Shed, T)> {
        let Arrival { caller, priority, deadline } = arrival;
        let Some(until) = pace.last_begin(now, deadline).filter(|until| now <= *until) else {
            return Err((Shed::Late, item));
        };
        if self.queue.is_empty() {
            self.judged.get_or_insert_with(|| Box::new(Judged { by: *pace, at: None })).by = *pace;
        }
        let entry = QueuedCall { caller, priority, deadline, until };
        let has_others = self.queue.has_others_of(&entry);
        let patience = self.patience(now, pace, has_others);
        let n_allowed = match has_others {
            true => 0,
            false => self.queue.n_with_several(priority, MOST_TURNS).max(1),
        };
        let n_ahead = self.queue.n_ahead(&entry, n_within(pace, patience).max(n_allowed + 1));
        let wait = expected_wait(pace, n_ahead);
        // When room that goes round comes back is a guess. One slow call would spoil it for ever
        // if nobody called any more because of it. So the first in line finds out.
        let is_guess = n_ahead == 0 && pace.reach < 1.0;
        if !is_guess && until.saturating_duration_since(now) < wait {
            return Err((Shed::Late, item));
        }
        // Whoever has several calls waiting leaves a turn to one who has none, however long that
        // takes, and so does a single call of somebody else: otherwise a few callers who always
        // ask would keep all others out of an app with few threads.
        if patience < wait && n_allowed < n_ahead {
            return Err((Shed::Busy, item));
        }
        match self.queue.push(entry, item) {
            Pushed::Refused(item) => Err((Shed::Full, item)),
            Pushed::Waits(key) => {
                self.standing_since.get_or_insert(now);
                Ok(key)
            }
            Pushed::Displaces(key, gone) => {
                self.gone.push_back((gone.item, Shed::Full));
                Ok(key)
            }
        }
    }

    /// The call whose turn it is, for which there is room now.
    pub fn poll_next(&mut self, now: Instant, pace: &Pace) -> Option<T> {
        // Those that are too late are shed first.
        let is_expired = self.queue.next_expiry().is_some_and(|until| until < now);
        if is_expired || self.is_next_late(now, pace) {
            return None;
        }
        let item = self.queue.pop()?;
        self.look_at_queue();
        Some(item)
    }

    /// The next call that is shed. Ask until there is none, before each
    /// [`WaitingLine::poll_next`].
    pub fn poll_shed(&mut self, now: Instant, pace: &Pace) -> Option<(T, Shed)> {
        self.judge_again(now, pace);
        if let Some(gone) = self.gone.pop_front() {
            return Some(gone);
        }
        let late = self.queue.pop_expired(now);
        let late = late.or_else(|| match self.is_next_late(now, pace) {
            true => self.queue.drop_next(),
            false => None,
        });
        let item = late?;
        self.look_at_queue();
        Some((item, Shed::Late))
    }

    /// Whether not even the fastest answer would come in time for the call whose turn it is.
    fn is_next_late(&self, now: Instant, pace: &Pace) -> bool {
        let late = |deadline: Instant| deadline < now + pace.least;
        pace.is_sure && self.queue.next_deadline().is_some_and(late)
    }

    /// Calls take much longer than was known when those who wait came. Who cannot be answered in
    /// time hears that now, and may go elsewhere.
    fn judge_again(&mut self, now: Instant, pace: &Pace) {
        let Some(judged) = &mut self.judged else { return };
        if !pace.is_sure || self.queue.is_empty() {
            return;
        }
        if !pace.is_much_slower_than(&judged.by) {
            if judged.by.is_much_slower_than(pace) {
                judged.by = *pace;
            }
            return;
        }
        if judged.at.is_some_and(|at| now < at + JUDGING_INTERVAL) {
            return;
        }
        **judged = Judged { by: *pace, at: Some(now) };
        // The usual time may still be that of slow first answers, and room that goes round may be
        // here for longer than it was lately.
        let each = pace.usual.min(2 * pace.least).div_f64(pace.reach.max(1.0));
        let mut n_ahead = 0;
        for (key, deadline) in self.queue.in_order() {
            let until = pace.last_begin(now, deadline);
            match until.filter(|until| now + each.saturating_mul(n_ahead) <= *until) {
                Some(until) => {
                    self.queue.set_until(key, until);
                    n_ahead += 1;
                }
                None => {
                    let late = self.queue.cancel(key);
                    self.gone.extend(late.map(|item| (item, Shed::Late)));
                }
            }
        }
        self.look_at_queue();
    }

    /// After this instant [`WaitingLine::poll_shed`] has something, if the pace stays.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.queue.next_expiry()
    }

    /// Takes a call out whose caller has gone away; `None` if it no longer waits.
    pub fn cancel(&mut self, key: WaitKey) -> Option<T> {
        let item = self.queue.cancel(key);
        self.look_at_queue();
        item
    }

    /// When it is worth trying again: the time that a further call would have to wait.
    #[must_use]
    pub fn retry_after(&self, pace: &Pace) -> Duration {
        expected_wait(pace, self.queue.len())
    }

    fn look_at_queue(&mut self) {
        if self.queue.is_empty() {
            self.standing_since = None;
        }
    }

    /// How long a call may wait now. In a standing queue, a caller of whom nothing waits gets
    /// half as much time again as those who keep it standing. With the time that its work takes,
    /// that is less than twice as long as without others, and leaves something to what is not
    /// foreseen.
    fn patience(&self, now: Instant, pace: &Pace, has_others: bool) -> Duration {
        let burst = self.policy.burst.max(pace.usual);
        let patience = match self.standing_since {
            Some(since) if burst < now.saturating_duration_since(since) => {
                let target = self.policy.target.max(pace.usual / 2);
                if has_others { target } else { target * 3 / 2 }
            }
            _ => burst,
        };
        // What goes round among several gates is here for a part of the time only.
        patience.div_f64(pace.reach.clamp(LEAST_REACH, 1.0))
    }
}

/// How long a call waits with so many before it: within the usual time, as many calls end as may
/// be under way.
fn expected_wait(pace: &Pace, n_ahead: usize) -> Duration {
    let turns = u32::try_from(n_ahead).unwrap_or(u32::MAX).saturating_add(1);
    pace.usual.saturating_mul(turns).div_f64(pace.reach.max(LEAST_REACH))
}

/// How many calls may be before one that waits no longer than `wait`, and one more.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn n_within(pace: &Pace, wait: Duration) -> usize {
    if pace.usual.is_zero() {
        return 0;
    }
    (wait.as_secs_f64() / pace.usual.as_secs_f64() * pace.reach.max(LEAST_REACH)) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first call of a worker was slow, and then others had the only room for a moment.
    #[test]
    fn the_first_in_line_for_room_that_goes_round_waits_for_it() {
        let ms = Duration::from_millis;
        let pace = Pace { usual: ms(500), least: ms(500), reach: 0.5, is_sure: true };
        let start = crate::test_start();
        let deadline = start + ms(1000);
        let arrival = Arrival { caller: CallerId::known(1), priority: Priority::Normal, deadline };
        let mut line = WaitingLine::new(LinePolicy::default());
        assert!(line.wait(start, &pace, arrival, 0).is_ok());
        assert_eq!(line.wait(start, &pace, arrival, 1), Err((Shed::Late, 1)));
        assert_eq!(line.poll_next(start, &pace), Some(0));
        let own = Pace { reach: 1.0, least: ms(300), ..pace };
        let soon = Arrival { deadline: start + ms(700), ..arrival };
        assert_eq!(line.wait(start, &own, soon, 2), Err((Shed::Late, 2)), "its own room is taken");
    }

    /// An app of a single thread, and callers who always have calls waiting: one who calls now and
    /// then still gets its turn behind one call of each. It would not if they were as modest.
    #[test]
    fn who_has_none_waiting_gets_a_turn_from_those_who_have_several() {
        let ms = Duration::from_millis;
        let pace = Pace { usual: ms(50), least: ms(50), reach: 1.0, is_sure: true };
        let start = crate::test_start();
        let arrival = |caller| Arrival {
            caller: CallerId::known(caller),
            priority: Priority::Normal,
            deadline: start + Duration::from_secs(9),
        };
        for (n_each, is_let) in [(2, true), (1, false)] {
            let mut line = WaitingLine::new(LinePolicy::default());
            // A burst, in which calls may wait for long.
            let patient = Pace { usual: ms(5), ..pace };
            for caller in 0..3 {
                for _ in 0..n_each {
                    line.wait(start, &patient, arrival(caller), caller).unwrap();
                }
            }
            let later = start + Duration::from_secs(1);
            let waits = line.wait(later, &pace, arrival(9), 9);
            assert_eq!(waits.is_ok(), is_let, "{n_each} of each");
            assert_eq!(line.wait(later, &pace, arrival(0), 0), Err((Shed::Busy, 0)));
            let order: Vec<u64> =
                std::iter::from_fn(|| line.poll_next(later, &pace)).take(5).collect();
            assert_eq!(order.contains(&9), is_let, "{order:?}");
        }
    }

    #[test]
    fn the_pace_of_two_places_is_what_both_do_together() {
        let ms = Duration::from_millis;
        let fast = Pace { usual: ms(50), least: ms(40), reach: 20.0, is_sure: true };
        let slow = Pace { usual: ms(150), least: ms(140), ..fast };
        let both = fast.with(slow);
        // 400 and 133 calls a second.
        assert_eq!((both.usual.as_millis(), both.least, both.reach), (75, ms(40), 40.0));
        let unknown = Pace { reach: 5.0, ..Pace::default() };
        assert_eq!(unknown.with(fast), Pace { reach: 25.0, ..fast });
        assert_eq!(fast.with(unknown), Pace { reach: 25.0, ..fast });
    }

    const MS: Duration = Duration::from_millis(1);

    fn arrivals(line: &mut WaitingLine<u32>, n: u32, now: Instant, pace: &Pace, deadline: Instant) {
        for caller in 0..n {
            let caller_id = CallerId::known(caller.into());
            let arrival = Arrival { caller: caller_id, priority: Priority::Normal, deadline };
            line.wait(now, pace, arrival, caller).expect("nobody knows that it is too late");
        }
    }

    fn drain_shed(line: &mut WaitingLine<u32>, now: Instant, pace: &Pace) -> Vec<u32> {
        let shed = std::iter::from_fn(|| line.poll_shed(now, pace));
        shed.map(|(item, why)| (why == Shed::Late).then_some(item).unwrap()).collect()
    }

    /// Who came while nobody knew how long calls take hears at once that it will not be answered
    /// in time.
    #[test]
    fn those_who_wait_are_judged_again_once_the_pace_is_sure() {
        let start = crate::test_start();
        let unknown = Pace { reach: 3.0, ..Pace::default() };
        let mut line = WaitingLine::new(LinePolicy::default());
        arrivals(&mut line, 27, start, &unknown, start + 1000 * MS);
        let now = start + 200 * MS;
        let first = Pace { usual: 200 * MS, least: 200 * MS, ..unknown };
        assert!(drain_shed(&mut line, now, &first).is_empty(), "the app may have just started");
        let sure = Pace { is_sure: true, ..first };
        // Three begin now, three in 200 ms, and three in 400 ms.
        assert_eq!(drain_shed(&mut line, now, &sure), (9..27).collect::<Vec<u32>>());
        assert_eq!(line.poll_timeout(), Some(start + 800 * MS));
        let slower = Pace { usual: 300 * MS, least: 250 * MS, ..sure };
        assert!(drain_shed(&mut line, now, &slower).is_empty(), "that is not much slower");
        let much_slower = Pace { usual: 500 * MS, least: 390 * MS, ..sure };
        assert!(drain_shed(&mut line, now + 19 * MS, &much_slower).is_empty(), "it was just now");
        assert_eq!(drain_shed(&mut line, now + 20 * MS, &much_slower), (3..9).collect::<Vec<_>>());
        assert_eq!(line.len(), 3);
    }

    #[test]
    fn nobody_goes_on_for_whom_even_the_fastest_answer_would_come_too_late() {
        let start = crate::test_start();
        let pace = Pace { usual: 30 * MS, least: 30 * MS, reach: 1.0, is_sure: true };
        let mut line = WaitingLine::new(LinePolicy::default());
        arrivals(&mut line, 2, start, &pace, start + 100 * MS);
        // Not so much slower that everybody is judged again.
        let slower = Pace { usual: 50 * MS, least: 50 * MS, ..pace };
        assert_eq!(line.poll_next(start + 50 * MS, &slower), Some(0));
        let now = start + 51 * MS;
        assert_eq!(line.poll_next(now, &slower), None);
        assert_eq!(line.poll_shed(now, &slower), Some((1, Shed::Late)));
    }

    /// Its caller would give it up, and could not know that nobody has begun it.
    #[test]
    fn who_waits_hears_a_moment_before_its_deadline_that_it_was_not_begun() {
        let start = crate::test_start();
        let mut line = WaitingLine::new(LinePolicy::default());
        let unknown = Pace { reach: 1.0, ..Pace::default() };
        arrivals(&mut line, 1, start, &unknown, start + 500 * MS);
        assert_eq!(line.poll_timeout(), Some(start + 490 * MS));
        arrivals(&mut line, 1, start, &unknown, start + 4 * MS);
        assert_eq!(line.poll_timeout(), Some(start + 3 * MS), "a short time is not all taken");
    }
}
