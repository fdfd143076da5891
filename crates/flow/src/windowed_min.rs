//! The least of the durations seen lately.

use std::time::{Duration, Instant};

const N_SPANS: usize = 8;

/// Of a span in which nothing was seen.
const NONE: u64 = u64::MAX;

/// A minimum over a sliding window. It never stands still: what is old is forgotten span by span.
#[derive(Clone, Debug)]
pub(crate) struct WindowedMin {
    span: Duration,
    /// The least of each span in nanoseconds, the latest last. There may be one of these for each
    /// of thousands of endpoints.
    least: [u64; N_SPANS],
    span_ends: Instant,
}

impl WindowedMin {
    /// A minimum over the last `window`.
    pub(crate) fn new(window: Duration, now: Instant) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "8 fits")]
        let span = (window / N_SPANS as u32).max(Duration::from_millis(1));
        Self { span, least: [NONE; N_SPANS], span_ends: now + span }
    }

    /// Takes one duration in. Returns whether a span has ended since the last.
    pub(crate) fn take_in(&mut self, now: Instant, duration: Duration) -> bool {
        let mut is_new = false;
        for _ in 0..N_SPANS {
            if now < self.span_ends {
                break;
            }
            self.least.rotate_left(1);
            self.least[N_SPANS - 1] = NONE;
            self.span_ends += self.span;
            is_new = true;
        }
        if self.span_ends <= now {
            // It was silent for longer than the window.
            self.span_ends = now + self.span;
        }
        let least = &mut self.least[N_SPANS - 1];
        // A time of 500 years is long enough.
        *least = u64::try_from(duration.as_nanos()).unwrap_or(NONE - 1).min(*least);
        is_new
    }

    /// The minimum, if anything was seen lately.
    pub(crate) fn least(&self) -> Option<Duration> {
        let least = self.least.iter().min().copied().filter(|least| *least != NONE)?;
        Some(Duration::from_nanos(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_downwards_at_once_and_upwards_after_the_window() {
        let (start, ms) = (crate::test_start(), Duration::from_millis);
        let mut floor = WindowedMin::new(ms(800), start);
        assert_eq!(floor.least(), None);
        floor.take_in(start, ms(50));
        assert!(!floor.take_in(start, ms(40)));
        assert!(floor.take_in(start + ms(700), ms(90)));
        assert_eq!(floor.least(), Some(ms(40)));
        floor.take_in(start + ms(800), ms(90));
        assert_eq!(floor.least(), Some(ms(90)));
        floor.take_in(start + ms(60_000), ms(95));
        assert_eq!(floor.least(), Some(ms(95)));
    }
}
