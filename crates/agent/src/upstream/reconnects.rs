//! When a worker tries to reach its endpoints, and how often those that are down.
//!
//! A registry may list thousands that nobody can reach: half of an estate behind a partition, or
//! what a store has kept of providers that are gone. Their attempts begin one after the other, so
//! that calls to others go on meanwhile. Each of them waits on its own for its next attempt, and
//! longer where so many do that all attempts together would take a worker's time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Semaphore, SemaphorePermit};

/// What all endpoints together may cost that have been down for a while: at most this many
/// attempts a second, 4% of a core.
const MAX_PER_SECOND: u32 = 500;
/// As many attempts begin at once: 10 ms of a core.
const BURST: u32 = 256;
/// Of those beyond, one begins in so much time: at most a sixth of a core.
const STEP: Duration = Duration::from_micros(250);
/// Attempts under way. Each holds a socket, and most of those that are never answered hold it for
/// the whole timeout.
const MAX_UNDER_WAY: usize = 2048;

/// Counts the endpoints of a worker that are down, and has all of them take turns. A clone is
/// another handle to the same.
#[derive(Clone, Default)]
pub struct Reconnects(Rc<ReconnectTurns>);

#[derive(Default)]
struct ReconnectTurns {
    n_down: Cell<u32>,
    /// Of endpoints that nobody has reached yet. Others do not wait for them.
    unknown: AttemptTurns,
    /// Of endpoints that have been there before.
    known: AttemptTurns,
}

/// An endpoint that is down, until this is dropped.
pub(super) struct Down(Reconnects);

/// Leave to make an attempt, which is under way until this is dropped.
pub(super) struct AttemptPermit<'t> {
    _under_way: Option<SemaphorePermit<'t>>,
}

/// Attempts in the order in which they were wanted.
struct AttemptTurns {
    room: Semaphore,
    pace: Mutex<ReconnectPace>,
}

/// When attempts may begin. Pure.
#[derive(Default)]
struct ReconnectPace {
    /// When the last attempt would have begun, had none come before its time.
    last: Option<Instant>,
}

impl Reconnects {
    /// One more endpoint is down.
    pub(super) fn down(&self) -> Down {
        let n_down = &self.0.n_down;
        n_down.set(n_down.get().saturating_add(1));
        Down(self.clone())
    }

    /// The longest wait of one of them before its next attempt, where it is `usual` for few.
    pub(super) fn longest_wait(&self, usual: Duration) -> Duration {
        usual.max(Duration::from_secs(1) / MAX_PER_SECOND * self.0.n_down.get())
    }

    /// Waits until an attempt may begin; who no longer waits has no turn. `is_known` says whether
    /// the endpoint has been there before.
    pub(super) async fn turn(&self, is_known: bool) -> AttemptPermit<'_> {
        let ReconnectTurns { known, unknown, .. } = &*self.0;
        let turns = if is_known { known } else { unknown };
        let _under_way = turns.room.acquire().await.ok();
        let mut pace = turns.pace.lock().await;
        if let Some(due) = pace.due(Instant::now()) {
            tokio::time::sleep_until(due.into()).await;
        }
        pace.begin(Instant::now());
        AttemptPermit { _under_way }
    }
}

impl AttemptPermit<'_> {
    /// The turn of somebody who goes before all others.
    pub(super) fn first() -> Self {
        Self { _under_way: None }
    }
}

impl Default for AttemptTurns {
    fn default() -> Self {
        Self { room: Semaphore::new(MAX_UNDER_WAY), pace: Mutex::default() }
    }
}

impl ReconnectPace {
    /// When the next attempt may begin, if not `now`.
    fn due(&self, now: Instant) -> Option<Instant> {
        let due = (self.last? + STEP).checked_sub(STEP * (BURST - 1))?;
        (now < due).then_some(due)
    }

    /// An attempt begins.
    fn begin(&mut self, now: Instant) {
        self.last = Some(self.last.map_or(now, |last| now.max(last + STEP)));
    }
}

impl Drop for Down {
    fn drop(&mut self) {
        let n_down = &self.0.0.n_down;
        n_down.set(n_down.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn endpoints_wait_longer_only_where_thousands_are_down() {
        let (reconnects, usual) = (Reconnects::default(), Duration::from_secs(2));
        let mut down: Vec<Down> = (0..1000).map(|_| reconnects.down()).collect();
        assert_eq!(reconnects.longest_wait(usual), usual);
        down.extend((0..4000).map(|_| reconnects.down()));
        assert_eq!(reconnects.longest_wait(usual), Duration::from_secs(10));
        down.truncate(1);
        assert_eq!(reconnects.longest_wait(usual), usual);
    }

    /// How many attempts begin within `time` if there are always some to begin and somebody looks
    /// every millisecond.
    fn n_begun(pace: &mut ReconnectPace, start: Instant, time: Duration) -> u32 {
        let mut n_begun = 0;
        for ms in 0..=u64::try_from(time.as_millis()).unwrap() {
            let now = start + Duration::from_millis(ms);
            while pace.due(now).is_none() {
                pace.begin(now);
                n_begun += 1;
            }
        }
        n_begun
    }

    #[test]
    fn some_begin_at_once_and_the_others_one_after_the_other() {
        let (mut pace, start) = (ReconnectPace::default(), Instant::now());
        assert_eq!(n_begun(&mut pace, start, Duration::ZERO), BURST);
        assert_eq!(pace.due(start), Some(start + STEP));
        let second = Duration::from_secs(1);
        assert_eq!(n_begun(&mut pace, start, second), 4000);
        // What nobody wanted does not come on top.
        assert_eq!(n_begun(&mut pace, start + 60 * second, Duration::ZERO), BURST);
    }

    /// Black holes hold their sockets for the whole timeout; no more of them than that.
    #[tokio::test]
    async fn attempts_under_way_are_bounded() {
        let reconnects = Reconnects::default();
        let mut under_way = Vec::new();
        for _ in 0..MAX_UNDER_WAY {
            under_way.push(reconnects.turn(false).await);
        }
        let mut next = Box::pin(reconnects.turn(false));
        assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(reconnects.0.unknown.room.available_permits(), 0);
        drop(reconnects.turn(true).await);
        under_way.pop();
        drop(next.await);
    }

    /// Nobody waits for endpoints that are listed no longer.
    #[tokio::test]
    async fn turns_are_only_of_those_who_wait() {
        let reconnects = Reconnects::default();
        for _ in 0..BURST {
            drop(reconnects.turn(false).await);
        }
        let mut waiting: Vec<_> = (0..10_000).map(|_| Box::pin(reconnects.turn(false))).collect();
        let mut context = Context::from_waker(Waker::noop());
        for turn in &mut waiting {
            drop(turn.as_mut().poll(&mut context));
        }
        drop(waiting);
        drop(reconnects.turn(true).await);
        drop(reconnects.turn(false).await);
        let pace = reconnects.0.unknown.pace.try_lock().unwrap();
        let now = Instant::now();
        assert!(pace.due(now).is_none_or(|due| due <= now + STEP), "{:?}", pace.due(now));
    }
}
