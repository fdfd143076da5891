//! Connections that were accepted and are not served yet.
//!
//! To begin a session costs tens of microseconds, and its first call more. Where thousands connect
//! at once, the calls of those who are served already must not wait for all of them. So sessions
//! begin at a pace at which the event loop still comes round soon. Addresses take turns, so that
//! who connects from another one does not wait for the crowd. Half of those of one address are
//! those who came last. Where nobody calls from elsewhere, the pace is faster as long as they use
//! no more than half of the loop's time.

use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::by_origin::{ByOrigin, Origin};

/// So many sessions begin at once. As many more begin as have ended meanwhile, and others by and
/// by.
const MAX_AT_ONCE: u32 = 32;
/// Between two others, at first.
const INTERVAL: Duration = Duration::from_micros(500);
/// The same in a loop that has long been quick, and in a busy one: the other programs of the
/// machine have a core, too.
const INTERVALS: RangeInclusive<Duration> = Duration::from_micros(250)..=Duration::from_millis(1);
/// The same for those who may hurry.
const HURRIED: RangeInclusive<Duration> = Duration::from_micros(25)..=Duration::from_micros(250);
/// A loop is busy if it takes longer until everybody who is ready has had a turn.
const BUSY: Duration = Duration::from_millis(1);
/// Between two looks at the loop. Timers are kept to a millisecond: it is one to two.
const PAUSE: Duration = Duration::from_millis(1);
/// A quick loop has the interval shrink by one part of so many with each look.
const SHRINK_PARTS: u32 = 16;
/// The same for those who may hurry.
const SHRINK_PARTS_HURRIED: u32 = 2;

/// What waits for its turn.
#[derive(Debug)]
pub(super) struct Arrivals<T> {
    waiting: RefCell<ByOrigin<T>>,
    added: Notify,
    /// Sessions that have ended and were not told to the pace.
    n_ended: Cell<u32>,
}

impl<T> Arrivals<T> {
    pub(super) fn new() -> Self {
        Self { waiting: RefCell::default(), added: Notify::new(), n_ended: Cell::new(0) }
    }

    /// Adds one. The queue is bounded by the listeners' limits of connections.
    pub(super) fn push(&self, origin: Origin, arrival: T) {
        self.waiting.borrow_mut().push(origin, arrival);
        self.added.notify_one();
    }

    /// A session that was begun has ended.
    pub(super) fn note_end(&self) {
        self.n_ended.set(self.n_ended.get().saturating_add(1));
    }

    /// Begins what arrives, for ever, but for those from where others still wait with their first
    /// calls. `may_hurry` says for whom the pace is faster.
    pub(super) async fn begin_each(
        &self,
        begin: impl Fn(T),
        must_wait: impl Fn(Origin) -> bool,
        may_hurry: impl Fn(Origin) -> bool,
    ) {
        let mut pace = ArrivalPace::new(Instant::now());
        let mut look_at = Instant::now();
        loop {
            if self.waiting.borrow().is_empty() {
                self.added.notified().await;
            }
            let now = Instant::now();
            pace.go_on(now, self.n_ended.take());
            while pace.may_begin() {
                let next = self.waiting.borrow_mut().pop_unless(&must_wait);
                let Some(next) = next else { break };
                begin(next);
                pace.note_begin();
            }
            if self.waiting.borrow().is_empty() {
                continue;
            }
            if look_at <= now {
                // The sockets are looked at, and everybody who is ready has a turn.
                let _ = tokio::task::spawn_local(async {}).await;
                let may_all_hurry = self.waiting.borrow().all(&may_hurry);
                pace.note_look(now.elapsed(), may_all_hurry);
                look_at = Instant::now() + PAUSE;
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = self.added.notified() => {}
            }
        }
    }
}

/// How many sessions may begin, and when: a token bucket, which follows how busy the loop is.
#[derive(Debug)]
struct ArrivalPace {
    n_allowed: u32,
    interval: Duration,
    /// Until when `n_allowed` has grown.
    since: Instant,
}

impl ArrivalPace {
    fn new(now: Instant) -> Self {
        Self { n_allowed: MAX_AT_ONCE, interval: INTERVAL, since: now }
    }

    fn may_begin(&self) -> bool {
        0 < self.n_allowed
    }

    fn note_begin(&mut self) {
        self.n_allowed = self.n_allowed.saturating_sub(1);
    }

    /// Time has passed, and sessions have ended.
    fn go_on(&mut self, now: Instant, n_ended: u32) {
        let time = now.saturating_duration_since(self.since);
        let n = u32::try_from(time.as_nanos() / self.interval.as_nanos()).unwrap_or(u32::MAX);
        let n_allowed = self.n_allowed.saturating_add(n_ended).saturating_add(n);
        self.since = if n_allowed < MAX_AT_ONCE { self.since + self.interval * n } else { now };
        self.n_allowed = n_allowed.min(MAX_AT_ONCE);
    }

    /// So long it took until everybody who was ready had had a turn.
    fn note_look(&mut self, time: Duration, may_hurry: bool) {
        let (bounds, shrink_parts) = match may_hurry {
            true => (HURRIED, SHRINK_PARTS_HURRIED),
            false => (INTERVALS, SHRINK_PARTS),
        };
        let interval = match time < BUSY {
            true => self.interval - self.interval / shrink_parts,
            false => self.interval * 2,
        };
        self.interval = interval.clamp(*bounds.start(), *bounds.end());
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn here() -> Origin {
        IpAddr::from(Ipv4Addr::LOCALHOST).into()
    }

    #[tokio::test]
    async fn a_crowd_begins_from_both_ends_and_others_run_between() {
        let (arrivals, tasks) = (Arrivals::new(), tokio::task::LocalSet::new());
        (0..100).for_each(|nth| arrivals.push(here(), nth));
        let (begun, n_turns) = (RefCell::new(Vec::new()), Cell::new(0));
        let others = async {
            while begun.borrow().len() < 100 {
                n_turns.set(n_turns.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        let start = Instant::now();
        let begin = |nth| begun.borrow_mut().push(nth);
        let begin = arrivals.begin_each(begin, |_| false, |origin| origin != here());
        tasks
            .run_until(async {
                tokio::select! {
                    biased;
                    () = begin => {}
                    () = others => {}
                }
            })
            .await;
        let mut begun = begun.take();
        assert_eq!(begun[..4], [0, 99, 1, 98]);
        begun.sort_unstable();
        assert_eq!(begun, (0..100).collect::<Vec<_>>());
        assert!(5 < n_turns.get(), "{n_turns:?}");
        // The others of the machine have their time.
        assert!(*INTERVALS.start() * (100 - MAX_AT_ONCE) <= start.elapsed());
    }

    #[tokio::test]
    async fn the_pace_is_faster_for_who_may_hurry() {
        let (arrivals, tasks) = (Arrivals::new(), tokio::task::LocalSet::new());
        (0..1000).for_each(|_| arrivals.push(here(), ()));
        let (n_begun, n_asked) = (Cell::new(0), Cell::new(0));
        let begin = |()| n_begun.set(n_begun.get() + 1);
        let may_hurry = |_| {
            n_asked.set(n_asked.get() + 1);
            true
        };
        let all = async {
            while n_begun.get() < 1000 {
                tokio::task::yield_now().await;
            }
        };
        tasks
            .run_until(async {
                tokio::select! {
                    () = arrivals.begin_each(begin, |_| false, may_hurry) => {}
                    () = all => {}
                }
            })
            .await;
        assert_ne!(n_asked.get(), 0);
    }

    /// How many begin at `now`.
    fn n_begun(pace: &mut ArrivalPace, now: Instant, n_ended: u32) -> u32 {
        pace.go_on(now, n_ended);
        let mut n = 0;
        while pace.may_begin() {
            pace.note_begin();
            n += 1;
        }
        n
    }

    #[test]
    fn some_begin_at_once_and_others_by_and_by() {
        let start = Instant::now();
        let mut pace = ArrivalPace::new(start);
        assert_eq!(n_begun(&mut pace, start, 0), MAX_AT_ONCE);
        assert_eq!(n_begun(&mut pace, start, 0), 0);
        // Nothing of the time is lost, however often somebody looks.
        let looks = (1..=100).map(|nth| start + INTERVAL * nth / 10);
        let n: u32 = looks.map(|now| n_begun(&mut pace, now, 0)).sum();
        assert_eq!(n, 10);
        // Those who end leave their place to others.
        assert_eq!(n_begun(&mut pace, start + INTERVAL * 10, 7), 7);
        // What nobody used is not saved up.
        assert_eq!(n_begun(&mut pace, start + INTERVAL * 1000, u32::MAX), MAX_AT_ONCE);
        assert_eq!(n_begun(&mut pace, start + INTERVAL * 1000, 0), 0);
    }

    #[test]
    fn fewer_begin_in_a_busy_loop_and_more_in_a_quick_one() {
        let mut pace = ArrivalPace::new(Instant::now());
        pace.note_look(BUSY, false);
        assert_eq!(pace.interval, INTERVAL * 2);
        for (may_hurry, bounds) in [(false, INTERVALS), (true, HURRIED)] {
            (0..100).for_each(|_| pace.note_look(BUSY * 100, may_hurry));
            assert_eq!(pace.interval, *bounds.end());
            pace.note_look(BUSY / 2, may_hurry);
            assert!(pace.interval < *bounds.end(), "{pace:?}");
            (0..100).for_each(|_| pace.note_look(Duration::ZERO, may_hurry));
            assert_eq!(pace.interval, *bounds.start());
        }
    }

    #[tokio::test]
    async fn none_begin_from_where_others_have_to_go_on_first() {
        let elsewhere: Origin = IpAddr::from([127, 0, 0, 2]).into();
        let (arrivals, tasks) = (Arrivals::new(), tokio::task::LocalSet::new());
        for origin in [here(), elsewhere, here(), elsewhere] {
            arrivals.push(origin, origin);
        }
        let (begun, may_begin) = (RefCell::new(Vec::new()), Cell::new(false));
        let until = async |n| {
            while begun.borrow().len() < n {
                tokio::task::yield_now().await;
            }
        };
        let begin = |origin| begun.borrow_mut().push(origin);
        tasks
            .run_until(async {
                let must_wait = |from| from == here() && !may_begin.get();
                tokio::select! {
                    () = arrivals.begin_each(begin, must_wait, |_| false) => {}
                    () = async {
                        until(2).await;
                        assert_eq!(*begun.borrow(), [elsewhere, elsewhere]);
                        may_begin.set(true);
                        until(4).await;
                    } => {}
                }
            })
            .await;
    }

    #[tokio::test]
    async fn who_comes_later_is_served_too() {
        let arrivals = Arrivals::new();
        let n_begun = Cell::new(0);
        let others = async {
            for n in 1..=3 {
                arrivals.push(here(), ());
                while n_begun.get() < n {
                    tokio::task::yield_now().await;
                }
            }
        };
        let begin = |()| n_begun.set(n_begun.get() + 1);
        tokio::select! {
            () = arrivals.begin_each(begin, |_| false, |_| false) => {}
            () = others => {}
        }
        assert_eq!(n_begun.get(), 3);
    }
}
