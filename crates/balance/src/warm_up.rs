//! How the weight of a freshly started endpoint grows.

use std::time::{Duration, Instant};

/// A freshly started endpoint whose weight grows linearly until it is warm.
///
/// The rule is Dubbo's (`AbstractLoadBalance`): `uptime / (period / weight)`, at least 1 and at
/// most the weight. An endpoint whose start lies in the future (its clock is ahead) has weight 1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WarmUp {
    warm_at: Instant,
    period: Duration,
}

impl WarmUp {
    /// An endpoint that has been up for `uptime` at `now`; `None` if it is warm already.
    #[must_use]
    pub fn new(now: Instant, uptime: Duration, period: Duration) -> Option<Self> {
        let left = period.checked_sub(uptime).filter(|left| !left.is_zero())?;
        Some(Self { warm_at: now.checked_add(left)?, period })
    }

    /// The weight at `now` of an endpoint whose full weight is `weight`.
    #[must_use]
    pub fn weight_at(&self, now: Instant, weight: u32) -> u32 {
        let left = self.warm_at.saturating_duration_since(now);
        if left.is_zero() || weight == 0 {
            return weight;
        }
        let uptime = self.period.saturating_sub(left);
        let grown = u128::from(weight) * uptime.as_nanos() / self.period.as_nanos().max(1);
        u32::try_from(grown).unwrap_or(weight).clamp(1, weight)
    }

    /// Whether the full weight counts at `now`.
    #[must_use]
    pub fn is_warm(&self, now: Instant) -> bool {
        self.warm_at <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is Dubbo's `calculateWarmupWeight` with weight 100 and a warm-up of 10 minutes.
    #[test]
    fn grows_as_dubbo_does() {
        let start = crate::test_start();
        let warm_up = WarmUp::new(start, Duration::ZERO, Duration::from_secs(600)).unwrap();
        for (uptime_s, weight) in
            [(0, 1), (3, 1), (12, 2), (60, 10), (300, 50), (599, 99), (600, 100)]
        {
            let now = start + Duration::from_secs(uptime_s);
            assert_eq!(warm_up.weight_at(now, 100), weight, "after {uptime_s} s");
        }
        assert_eq!(warm_up.weight_at(start, 0), 0);
        assert!(warm_up.is_warm(start + Duration::from_secs(600)));
        assert_eq!(WarmUp::new(start, Duration::from_secs(600), Duration::from_secs(600)), None);
    }
}
