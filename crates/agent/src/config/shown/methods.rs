//! What holds for some methods, as operators may see it.

use flow::breaker::BreakerPolicy;
use flow::rate_limit::RateLimits;
use serde_json::{Value, json};

use super::ms;
use crate::config::{BreakerSettings, MethodPolicy};

pub(super) fn method(policy: &MethodPolicy) -> Value {
    let MethodPolicy { names, limits, caller, breaker } = policy;
    let RateLimits { total, per_caller } = limits;
    let mut shown = json!({
        "names": names,
        "rate_limit": total.map(|rate| rate.per_second),
        "rate_burst": total.map(|rate| rate.burst),
        "caller_rate_limit": per_caller.map(|rate| rate.per_second),
        "caller_rate_burst": per_caller.map(|rate| rate.burst),
        "caller": caller.to_string(),
        "breaker": breaker.is_some(),
    });
    if let Some(settings) = breaker {
        breaker_shown(settings, &mut shown);
    }
    shown
}

fn breaker_shown(settings: &BreakerSettings, shown: &mut Value) {
    let BreakerSettings { policy, min_timeout, exceptions, may_empty } = settings;
    let BreakerPolicy { failures, error_percent, min_calls, window, time, max_time, probes } =
        policy;
    shown["breaker_failures"] = (*failures).into();
    shown["breaker_error_percent"] = (*error_percent).into();
    shown["breaker_min_calls"] = (*min_calls).into();
    shown["breaker_window_ms"] = ms(*window).into();
    shown["breaker_open_ms"] = ms(*time).into();
    shown["breaker_max_open_ms"] = ms(*max_time).into();
    shown["breaker_probes"] = (*probes).into();
    shown["breaker_min_timeout_ms"] = ms(*min_timeout).into();
    shown["breaker_exceptions"] = (*exceptions).into();
    shown["breaker_may_empty"] = (*may_empty).into();
}
