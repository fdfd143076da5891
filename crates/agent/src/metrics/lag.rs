//! How late a worker's event loop comes to what is due: long work in one turn makes all others
//! wait.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The longest of so many spans is shown.
const N_SPANS: usize = 10;
const SPAN: Duration = Duration::from_secs(1);

/// What one worker notes; others read the longest of the last ten seconds.
#[derive(Debug)]
pub struct LagMeter {
    shown_us: Arc<AtomicU64>,
    begun: Cell<Instant>,
    spans_us: Cell<[u64; N_SPANS]>,
}

impl LagMeter {
    pub(super) fn new(shown_us: Arc<AtomicU64>, now: Instant) -> Self {
        Self { shown_us, begun: Cell::new(now), spans_us: Cell::default() }
    }

    /// Something that was due was begun so much later, at `now`.
    pub fn note(&self, now: Instant, lag: Duration) {
        let mut spans = self.spans_us.get();
        let n_over = now.saturating_duration_since(self.begun.get()).as_secs() / SPAN.as_secs();
        if n_over != 0 {
            let n = usize::try_from(n_over).map_or(N_SPANS, |n| n.min(N_SPANS));
            spans.rotate_right(n);
            spans[..n].fill(0);
            self.begun.set(now);
        }
        let us = u64::try_from(lag.as_micros()).unwrap_or(u64::MAX);
        spans[0] = spans[0].max(us);
        self.spans_us.set(spans);
        self.shown_us.store(spans.into_iter().max().unwrap_or_default(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_ten_seconds_is_shown() {
        let (shown, start) = (Arc::new(AtomicU64::new(0)), Instant::now());
        let meter = LagMeter::new(Arc::clone(&shown), start);
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
}
