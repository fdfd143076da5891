//! How late a worker's event loop comes to what is due: long work in one turn makes all others
//! wait.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Of so many spans, the longest lag is shown, and the one of most of them.
const N_SPANS: usize = 10;
const SPAN: Duration = Duration::from_secs(1);

/// What others read of a worker's last ten seconds, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Lag {
    /// The longest.
    pub(super) worst_us: AtomicU64,
    /// In most of the seconds it was at least this long once. One hiccup does not raise it.
    pub(super) usual_us: AtomicU64,
}

/// What one worker notes.
#[derive(Debug)]
pub struct LagMeter {
    shown: Arc<Lag>,
    begun: Cell<Instant>,
    n_begun: Cell<usize>,
    spans_us: Cell<[u64; N_SPANS]>,
}

impl LagMeter {
    pub(super) fn new(shown: Arc<Lag>, now: Instant) -> Self {
        Self { shown, begun: Cell::new(now), n_begun: Cell::new(1), spans_us: Cell::default() }
    }

    /// Something that was due was begun so much later, at `now`.
    pub fn note(&self, now: Instant, lag: Duration) {
        let us = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
        let mut spans = self.spans_us.get();
        let n_over = now.saturating_duration_since(self.begun.get()).as_secs() / SPAN.as_secs();
        if n_over != 0 {
            let n = usize::try_from(n_over).map_or(N_SPANS, |n| n.min(N_SPANS));
            spans.rotate_right(n);
            // Nothing was noted in those between because this comes so late.
            spans[..n].fill(us);
            self.begun.set(now);
            self.n_begun.set(N_SPANS.min(self.n_begun.get() + n));
        }
        spans[0] = spans[0].max(us);
        self.spans_us.set(spans);
        let begun = &mut spans[..self.n_begun.get()];
        begun.sort_unstable();
        self.shown.worst_us.store(begun[begun.len() - 1], Relaxed);
        self.shown.usual_us.store(begun[(begun.len() - 1) / 2], Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_ten_seconds_is_shown() {
        let (lag, start) = (Arc::new(Lag::default()), Instant::now());
        let shown = &lag.worst_us;
        let meter = LagMeter::new(Arc::clone(&lag), start);
        let at = |ms| start + Duration::from_millis(ms);
        meter.note(at(100), Duration::from_micros(300));
        meter.note(at(200), Duration::from_micros(70_000));
        meter.note(at(300), Duration::from_micros(100));
        assert_eq!(shown.load(Relaxed), 70_000);
        for second in 1..10 {
            meter.note(at(second * 1000 + 500), Duration::from_micros(200));
            assert_eq!(shown.load(Relaxed), 70_000, "{second}");
        }
        meter.note(at(11_000), Duration::from_micros(250));
        assert_eq!(shown.load(Relaxed), 250);
        meter.note(at(60_000), Duration::from_micros(10));
        assert_eq!(shown.load(Relaxed), 10);
    }

    #[test]
    fn what_is_usual_is_told_from_a_hiccup() {
        let usual_us = |notes: &[(u64, u64)]| {
            let (lag, start) = (Arc::new(Lag::default()), Instant::now());
            let meter = LagMeter::new(Arc::clone(&lag), start);
            for (at_ms, lag_ms) in notes {
                meter.note(start + Duration::from_millis(*at_ms), Duration::from_millis(*lag_ms));
            }
            lag.usual_us.load(Relaxed) / 1_000
        };
        let each = |lag_ms: fn(u64) -> u64| -> Vec<(u64, u64)> {
            (0..10).map(|second| (1_000 * second + 100, lag_ms(second))).collect()
        };
        assert_eq!(usual_us(&each(|second| if second == 4 { 900 } else { 1 })), 1);
        assert_eq!(usual_us(&each(|second| if second < 6 { 40 } else { 1 })), 40);
        assert_eq!(usual_us(&each(|second| if second < 5 { 40 } else { 1 })), 1);
        // A worker that has just begun, and one hiccup of it.
        assert_eq!(usual_us(&[(100, 40)]), 40);
        assert_eq!(usual_us(&[(100, 40), (1_200, 1)]), 1);
        // Turns of some seconds each are late in all of them.
        assert_eq!(usual_us(&[(3_000, 2_900), (6_000, 2_900), (9_000, 2_900)]), 2_900);
    }
}
