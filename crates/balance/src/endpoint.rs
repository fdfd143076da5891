//! What a balancer is told about an endpoint, and what it tells about one.

use std::time::{Duration, Instant};

use crate::outlier::Ejection;

/// One endpoint as the registry describes it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EndpointSpec<K> {
    /// What makes the endpoint the same one in the next update; its statistics stay with it.
    pub key: K,
    /// Share of the traffic relative to the others; 0 means no traffic at all.
    pub weight: u32,
    /// Set while the endpoint has not been up long enough for its full weight.
    pub warm_up: Option<WarmUp>,
}

/// A freshly started endpoint whose weight grows linearly until it is warm.
///
/// The rule is Dubbo's (`AbstractLoadBalance`): `uptime / (period / weight)`, at least 1 and at most
/// the weight. An endpoint that seems to come from the future (its clock is ahead) has weight 1.
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

/// Names one endpoint of one balancer for as long as the endpoint stays.
///
/// A slot of an endpoint that has gone is recognised as such, even when its place is taken by another.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Slot {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Slot {
    /// A small number, unique among the endpoints of the moment: fit to index a table beside the balancer.
    #[must_use]
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// One call in flight. Give it back to [`Balancer::finish`](crate::Balancer::finish) or
/// [`Balancer::abandon`](crate::Balancer::abandon), or the call counts as in flight for ever.
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a ticket that is not given back counts as a call in flight for ever"]
pub struct Ticket {
    pub(crate) slot: Slot,
    /// The endpoint was ejected when the call began: a trial, or nobody else was left.
    pub(crate) began_out: bool,
}

impl Ticket {
    /// The endpoint that the call went to.
    #[must_use]
    pub fn slot(&self) -> Slot {
        self.slot
    }
}

/// A reading of one endpoint's statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointStats<'a, K> {
    /// The endpoint.
    pub key: &'a K,
    /// Its place.
    pub slot: Slot,
    /// Weight in effect, with the warm-up applied; 0 for an endpoint that takes no calls.
    pub weight: u32,
    /// Calls begun and not yet finished.
    pub in_flight: u32,
    /// Mean latency of answers; `None` before the first.
    pub latency: Option<Duration>,
    /// How many times a call in flight here counts, in 16ths: more than 16 for an endpoint that is
    /// slower than usual, or fails.
    pub factor: u32,
    /// Calls begun so far.
    pub picks: u64,
    /// The endpoint is no longer listed and waits for its last calls to finish.
    pub leaving: bool,
    /// The endpoint is ejected and gets no calls but trials.
    pub ejection: Option<Ejection>,
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
