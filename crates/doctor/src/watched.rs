//! How a socket's figures changed while it was watched.

use std::time::Duration;

use crate::figures::Figures;

/// A socket over some time: its figures at moments, oldest first.
#[derive(Clone, Debug, Default)]
pub struct WatchedSocket {
    samples: Vec<(Duration, Figures)>,
}

/// What happened between two looks at a socket.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// The figures at its beginning.
    pub before: Figures,
    /// Those at its end.
    pub after: Figures,
    /// How long it was.
    pub time: Duration,
}

impl WatchedSocket {
    /// Adds a look at the socket, `at` after watching began.
    pub fn add(&mut self, at: Duration, figures: Figures) {
        self.samples.push((at, figures));
    }

    /// How often it was looked at.
    #[must_use]
    pub fn n_looks(&self) -> usize {
        self.samples.len()
    }

    /// All that was seen, oldest first.
    pub fn looks(&self) -> impl Iterator<Item = &Figures> {
        self.samples.iter().map(|(_, figures)| figures)
    }

    /// What happened from look to look.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> {
        self.samples.windows(2).filter_map(|pair| match pair {
            [before, after] => Some(interval(before, after)),
            _ => None,
        })
    }

    /// From the first look to the last. `None` if there was one at most.
    #[must_use]
    pub fn whole(&self) -> Option<Interval> {
        match self.samples.as_slice() {
            [first, .., last] => Some(interval(first, last)),
            _ => None,
        }
    }
}

fn interval(before: &(Duration, Figures), after: &(Duration, Figures)) -> Interval {
    Interval { before: before.1, after: after.1, time: after.0.saturating_sub(before.0) }
}

impl Interval {
    /// By how much a sum has grown.
    #[must_use]
    pub fn growth(&self, sum: impl Fn(&Figures) -> Option<u64>) -> Option<u64> {
        Some(sum(&self.after)?.saturating_sub(sum(&self.before)?))
    }

    /// The share of the time that a clock of microseconds ran, 0 to 1.
    #[must_use]
    pub fn share(&self, clock: impl Fn(&Figures) -> Option<u64>) -> Option<f64> {
        let ran = Duration::from_micros(self.growth(clock)?);
        // The kernel's clock ticks in milliseconds, and may be ahead of ours.
        (!self.time.is_zero()).then(|| ran.div_duration_f64(self.time).min(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(us: u64) -> Figures {
        Figures { busy_us: Some(us), ..Figures::default() }
    }

    #[test]
    fn clocks_and_sums_are_compared_from_look_to_look() {
        let mut watched = WatchedSocket::default();
        assert!(watched.whole().is_none());
        watched.add(Duration::ZERO, busy(1_000_000));
        assert!(watched.whole().is_none());
        watched.add(Duration::from_secs(1), busy(1_250_000));
        watched.add(Duration::from_secs(2), busy(2_300_000));
        let shares: Vec<_> =
            watched.intervals().filter_map(|it| it.share(|figures| figures.busy_us)).collect();
        assert_eq!(shares, [0.25, 1.0]);
        let whole = watched.whole().unwrap();
        assert_eq!(whole.growth(|figures| figures.busy_us), Some(1_300_000));
        assert_eq!((whole.time, watched.n_looks()), (Duration::from_secs(2), 3));
    }

    #[test]
    fn what_was_not_said_is_unknown() {
        let mut watched = WatchedSocket::default();
        watched.add(Duration::ZERO, Figures::default());
        watched.add(Duration::from_secs(1), busy(5));
        let whole = watched.whole().unwrap();
        assert_eq!(whole.share(|figures| figures.busy_us), None);
        assert_eq!(whole.growth(|figures| figures.retransmits), None);
    }

    #[test]
    fn no_time_has_no_shares() {
        let mut watched = WatchedSocket::default();
        watched.add(Duration::ZERO, busy(1));
        watched.add(Duration::ZERO, busy(5));
        assert_eq!(watched.whole().unwrap().share(|figures| figures.busy_us), None);
    }
}
