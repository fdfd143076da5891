//! How long bytes wait to be written: the measure by which a client opens further connections.
//!
//! A queue that empties now and then is one that a burst made; one whose shortest wait over an
//! interval is still long is standing, and will not go away by itself. The rule is that of CoDel
//! (RFC 8289), with another use: not to drop, but to add a connection.

use std::time::{Duration, Instant};

/// A queue whose shortest wait in an interval is above this is standing.
const TARGET: Duration = Duration::from_millis(2);
/// Over which the shortest wait is taken.
const INTERVAL: Duration = Duration::from_millis(100);

/// The waits of one connection's output.
#[derive(Debug, Default)]
pub(crate) struct Queueing {
    now: Option<Instant>,
    /// When the oldest byte that waits came.
    oldest: Option<Instant>,
    interval_start: Option<Instant>,
    shortest: Option<Duration>,
    is_standing: bool,
}

impl Queueing {
    /// What time it is, roughly: the driver's last look at the clock.
    pub(crate) fn now(&self) -> Instant {
        self.now.unwrap_or_else(Instant::now)
    }

    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = Some(now);
    }

    /// Bytes begin to wait.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant) {
        self.oldest.get_or_insert(now);
    }

    /// All bytes are written. Whether an interval has ended, in which the queue was standing.
    pub(crate) fn end(&mut self, now: Instant) -> bool {
        self.now = Some(now);
        let Some(oldest) = self.oldest.take() else {
            return false;
        };
        let wait = now.saturating_duration_since(oldest);
        self.shortest = Some(self.shortest.map_or(wait, |shortest| shortest.min(wait)));
        let start = *self.interval_start.get_or_insert(now);
        if now.saturating_duration_since(start) < INTERVAL {
            return false;
        }
        self.is_standing = self.shortest.is_some_and(|shortest| TARGET < shortest);
        self.interval_start = Some(now);
        self.shortest = None;
        self.is_standing
    }

    /// Whether bytes have waited too long through all of the last interval, or are stuck.
    pub(crate) fn is_standing(&self, now: Instant) -> bool {
        self.is_standing || self.is_stuck(now)
    }

    /// Whether bytes have waited for more than an interval now.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        self.oldest.is_some_and(|oldest| INTERVAL <= now.saturating_duration_since(oldest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn a_burst_is_not_a_standing_queue() {
        let (mut queueing, start) = (Queueing::default(), Instant::now());
        for n in 0..50 {
            queueing.begin(after(start, n * 10));
            // Every fourth wait is short.
            let wait = if n % 4 == 0 { 1 } else { 9 };
            queueing.end(after(start, n * 10 + wait));
            assert!(!queueing.is_standing(after(start, n * 10 + wait)));
        }
    }

    #[test]
    fn a_queue_that_never_empties_soon_is_standing_until_it_does() {
        let (mut queueing, start) = (Queueing::default(), Instant::now());
        for n in 0..30 {
            queueing.begin(after(start, n * 10));
            queueing.end(after(start, n * 10 + 5));
        }
        assert!(queueing.is_standing(after(start, 300)));
        for n in 30..60 {
            queueing.begin(after(start, n * 10));
            queueing.end(after(start, n * 10 + 1));
        }
        assert!(!queueing.is_standing(after(start, 600)));
    }

    #[test]
    fn bytes_that_are_stuck_count_before_they_are_written() {
        let (mut queueing, start) = (Queueing::default(), Instant::now());
        queueing.begin(start);
        assert!(!queueing.is_standing(after(start, 50)));
        assert!(queueing.is_standing(after(start, 150)));
    }
}
