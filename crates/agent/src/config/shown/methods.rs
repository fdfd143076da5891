//! What holds for some methods, as operators may see it.

use flow::rate_limit::RateLimits;
use serde_json::{Value, json};

use crate::config::MethodPolicy;

pub(super) fn method(policy: &MethodPolicy) -> Value {
    let MethodPolicy { names, limits, caller } = policy;
    let RateLimits { total, per_caller } = limits;
    json!({
        "names": names,
        "rate_limit": total.map(|rate| rate.per_second),
        "rate_burst": total.map(|rate| rate.burst),
        "caller_rate_limit": per_caller.map(|rate| rate.per_second),
        "caller_rate_burst": per_caller.map(|rate| rate.burst),
        "caller": caller.to_string(),
    })
}
