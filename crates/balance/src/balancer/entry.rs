//! What a balancer remembers about one endpoint.

use std::time::{Duration, Instant};

use crate::endpoint::{EndpointStats, Slot};
use crate::latency::PeakEwma;
use crate::outlier::Outlier;
use crate::score::{ONE, Score};
use crate::warm_up::WarmUp;

#[derive(Clone, Debug)]
pub(super) struct ReusableEntry<K> {
    pub(super) generation: u32,
    pub(super) entry: Option<EndpointEntry<K>>,
}

#[derive(Clone, Debug)]
pub(super) struct EndpointEntry<K> {
    pub(super) key: K,
    pub(super) full_weight: u32,
    pub(super) warm_up: Option<WarmUp>,
    pub(super) weight: u32,
    pub(super) in_flight: u32,
    pub(super) picks: u64,
    pub(super) ewma: PeakEwma,
    /// When a call last finished, or when the first of those in flight began.
    pub(super) progress_at: Option<Instant>,
    /// Smooth round robin's credit of this endpoint.
    pub(super) current: i64,
    pub(super) epoch: u64,
    pub(super) leaving: bool,
    pub(super) outlier: Outlier,
    pub(super) score: Score,
}

impl<K> EndpointEntry<K> {
    pub(super) fn stats(&self, slot: Slot) -> EndpointStats<'_, K> {
        EndpointStats {
            key: &self.key,
            slot,
            weight: self.weight,
            in_flight: self.in_flight,
            latency: self.score.mean(),
            factor: self.score.factor(),
            picks: self.picks,
            leaving: self.leaving,
            ejection: self.outlier.ejection().copied(),
        }
    }

    /// The calls that count as in flight here.
    #[inline]
    pub(super) fn calls(&self, now: Instant) -> u32 {
        self.in_flight.saturating_add(self.score.n_ghosts(now))
    }

    /// The queue that one more call would stand in.
    #[inline]
    pub(super) fn queue(&self, now: Instant) -> CallsPerWeight {
        let calls = u64::from(self.calls(now).saturating_add(1)) * u64::from(ONE);
        CallsPerWeight { calls, weight: self.weight.max(1) }
    }

    /// The same, longer at an endpoint that is slow or fails.
    #[inline]
    pub(super) fn slowed_queue(&self, now: Instant) -> CallsPerWeight {
        let calls = u64::from(self.calls(now).saturating_add(1));
        CallsPerWeight { calls: calls * u64::from(self.score.factor()), weight: self.weight.max(1) }
    }

    pub(super) fn silent(&self, now: Instant) -> Duration {
        self.progress_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }

    /// Expected latency by this endpoint's own measurements, `None` if its first calls still run.
    pub(super) fn known_cost_s(&self, now: Instant) -> Option<f64> {
        if self.in_flight == 0 {
            return Some(self.ewma.idle_cost_s(now));
        }
        self.ewma.busy_cost_s(self.silent(now))
    }

    /// As `known_cost_s`; an endpoint whose first calls still run is taken for as fast as the
    /// other one, and no faster than it has been silent: enough to explore it, without a stampede.
    pub(super) fn cost_s(&self, now: Instant, other: Option<f64>) -> f64 {
        self.known_cost_s(now).unwrap_or_else(|| {
            let silent_s = self.silent(now).as_secs_f64();
            other.map_or(1.0, |other| other.max(silent_s))
        })
    }
}

/// `calls / weight`, compared without division.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallsPerWeight {
    /// In 16ths; below 2^41.
    calls: u64,
    weight: u32,
}

impl CallsPerWeight {
    /// The calls that one more would wait for, in 16ths: 0 at an idle endpoint that is as fast as
    /// others.
    pub(super) fn before(self) -> u64 {
        self.calls.saturating_sub(u64::from(ONE))
    }

    pub(super) fn weight(self) -> u32 {
        self.weight
    }
}

impl Ord for CallsPerWeight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let left = self.calls.saturating_mul(u64::from(other.weight));
        left.cmp(&other.calls.saturating_mul(u64::from(self.weight)))
    }
}

impl PartialOrd for CallsPerWeight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for CallsPerWeight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for CallsPerWeight {}
