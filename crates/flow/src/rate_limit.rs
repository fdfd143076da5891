//! How many calls a second are let through: all of some kind together, and those of each caller.
//!
//! A bucket holds as many tokens as calls may come at once, and fills at a steady rate. A call
//! takes a token, or is refused and told when there will be one.
//!
//! Invariants:
//! - In any stretch of time no more calls pass than the burst and what the rate adds in that time.
//! - A call that one bucket refuses takes no token from the other.
//! - At most [`MAX_CALLERS`] callers have a bucket of their own. While the table is full of
//!   callers that are busy, all others share one bucket with the rate of one caller.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Callers with a bucket of their own. More applications seldom call one service, and the table
/// takes less than a megabyte.
pub const MAX_CALLERS: usize = 4096;

/// Longest name of a caller that is kept, in bytes. Of a longer one this beginning counts.
pub const MAX_CALLER_LEN: usize = 128;

/// A full table is looked through for callers that have gone quiet at most once in this time, so
/// that made-up names cost no look through the table each.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// How many calls may come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    /// Calls a second in the long run; 0 counts as 1.
    pub per_second: u32,
    /// Calls at once after a time without any; 0 counts as 1.
    pub burst: u32,
}

/// What is limited.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RateLimits {
    /// All calls together.
    pub total: Option<Rate>,
    /// The calls of each caller.
    pub per_caller: Option<Rate>,
}

/// Why a call is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OverRate {
    /// Whether its caller has made too many calls, or all callers together.
    pub is_of_caller: bool,
    /// The rate that is exceeded.
    pub rate: Rate,
    /// When the next call of this kind would pass, if none comes before it.
    pub wait: Duration,
}

/// The buckets of one limit.
#[derive(Clone, Debug, Default)]
pub struct RateLimiter {
    limits: RateLimits,
    total: Bucket,
    callers: HashMap<Box<str>, Bucket>,
    /// Shared by callers that the table has no room for.
    others: Bucket,
    swept: Option<Instant>,
}

/// A bucket, by the moment at which it is full; `None` if it is.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket(Option<Instant>);

impl Rate {
    /// The time in which one token comes.
    fn interval(self) -> Duration {
        Duration::from_secs(1) / self.per_second.max(1)
    }

    /// The time in which an empty bucket fills.
    fn fill_time(self) -> Duration {
        self.interval() * self.burst.max(1)
    }
}

impl Bucket {
    /// What the bucket is after one more call, or how long that has to wait.
    fn next(self, now: Instant, rate: Rate) -> Result<Self, Duration> {
        let full_at = self.0.map_or(now, |at| at.max(now));
        let after = full_at + rate.interval();
        match (after - now).checked_sub(rate.fill_time()) {
            None | Some(Duration::ZERO) => Ok(Self(Some(after))),
            Some(wait) => Err(wait),
        }
    }

    /// The bucket, no emptier than one of this rate can be.
    fn within(self, now: Instant, rate: Rate) -> Self {
        Self(self.0.map(|at| at.min(now + rate.fill_time())))
    }

    fn is_full(self, now: Instant) -> bool {
        self.0.is_none_or(|at| at <= now)
    }
}

impl RateLimiter {
    /// With full buckets.
    #[must_use]
    pub fn new(limits: RateLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Other rates count from `now` on. What was taken stays taken, up to the new burst.
    pub fn set_limits(&mut self, now: Instant, limits: RateLimits) {
        if self.limits == limits {
            return;
        }
        self.limits = limits;
        let RateLimits { total, per_caller } = limits;
        self.total = total.map_or_else(Bucket::default, |rate| self.total.within(now, rate));
        match per_caller {
            Some(rate) => {
                let buckets = self.callers.values_mut().chain([&mut self.others]);
                buckets.for_each(|bucket| *bucket = bucket.within(now, rate));
            }
            None => (self.callers, self.others) = Default::default(),
        }
    }

    /// What is limited.
    #[must_use]
    pub const fn limits(&self) -> RateLimits {
        self.limits
    }

    /// How many callers have a bucket of their own.
    #[must_use]
    pub fn n_callers(&self) -> usize {
        self.callers.len()
    }

    /// Whether a call of `caller` may pass at `now`; its tokens are taken then.
    ///
    /// # Errors
    /// The limit that it would exceed.
    pub fn take(&mut self, now: Instant, caller: &str) -> Result<(), OverRate> {
        let RateLimits { total, per_caller } = self.limits;
        let over = |is_of_caller, rate| move |wait| OverRate { is_of_caller, rate, wait };
        let all = match total {
            Some(rate) => self.total.next(now, rate).map_err(over(false, rate))?,
            None => self.total,
        };
        if let Some(rate) = per_caller {
            let bucket = self.bucket(now, caller);
            *bucket = bucket.next(now, rate).map_err(over(true, rate))?;
        }
        self.total = all;
        Ok(())
    }

    /// The bucket of a caller.
    fn bucket(&mut self, now: Instant, caller: &str) -> &mut Bucket {
        let end = caller.floor_char_boundary(MAX_CALLER_LEN);
        let caller = caller.get(..end).unwrap_or_default();
        if !self.callers.contains_key(caller) {
            if MAX_CALLERS <= self.callers.len() {
                self.sweep(now);
            }
            if MAX_CALLERS <= self.callers.len() {
                return &mut self.others;
            }
        }
        self.callers.entry(caller.into()).or_default()
    }

    /// Forgets callers whose buckets are full: a new one would be the same.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|at| now.saturating_duration_since(at) < SWEEP_EVERY) {
            return;
        }
        self.swept = Some(now);
        self.callers.retain(|_, bucket| !bucket.is_full(now));
    }
}

#[cfg(test)]
mod tests;
