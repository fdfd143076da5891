//! Limits of calls a second, which all workers share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use flow::rate_limit::{OverRate, RateLimiter, RateLimits};

/// One limit. A call that is limited takes its lock for some hundred instructions.
#[derive(Debug)]
pub struct SharedLimiter(Mutex<RateLimiter>);

impl SharedLimiter {
    /// Whether a call of `caller` may pass at `now`.
    ///
    /// # Errors
    /// The limit that it would exceed.
    pub fn take(&self, now: Instant, caller: &str) -> Result<(), OverRate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take(now, caller)
    }
}

/// The limits that some worker goes by, by their names.
#[derive(Debug, Default)]
pub(super) struct Limiters(Mutex<HashMap<String, Weak<SharedLimiter>>>);

impl Limiters {
    /// The limiter of that name, which goes by these limits from now on.
    pub(super) fn of(&self, name: &str, now: Instant, limits: RateLimits) -> Arc<SharedLimiter> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(name).and_then(Weak::upgrade) {
            known.0.lock().unwrap_or_else(PoisonError::into_inner).set_limits(now, limits);
            return known;
        }
        all.retain(|_, limiter| 0 < limiter.strong_count());
        let limiter = Arc::new(SharedLimiter(RateLimiter::new(limits).into()));
        all.insert(name.to_owned(), Arc::downgrade(&limiter));
        limiter
    }
}

#[cfg(test)]
mod tests {
    use flow::rate_limit::Rate;

    use super::*;

    #[test]
    fn workers_share_a_limit_and_keep_it_over_a_change() {
        let (all, now) = (Limiters::default(), Instant::now());
        let limits = |per_second, burst| RateLimits {
            total: Some(Rate { per_second, burst }),
            per_caller: None,
        };
        let first = all.of("a.B *", now, limits(1, 2));
        let second = all.of("a.B *", now, limits(1, 2));
        assert!(first.take(now, "").is_ok() && second.take(now, "").is_ok());
        assert!(first.take(now, "").is_err());
        let changed = all.of("a.B *", now, limits(1, 1));
        assert!(changed.take(now, "").is_err(), "what was taken stays taken");
        assert!(all.of("a.C *", now, limits(1, 1)).take(now, "").is_ok());
        drop((first, second, changed));
        assert!(all.of("a.B *", now, limits(1, 1)).take(now, "").is_ok(), "nobody kept it");
    }
}
