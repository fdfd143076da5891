//! What holds for some methods, as operators may see it.

use flow::breaker::BreakerPolicy;
use flow::fault::FaultPolicy;
use flow::rate_limit::RateLimits;
use serde_json::{Value, json};

use super::ms;
use crate::config::{
    BreakerSettings, CallMode, FailbackPolicy, FaultSettings, HedgeDelay, MethodPolicy,
    MirrorPolicy,
};

pub(super) fn method(policy: &MethodPolicy) -> Value {
    let MethodPolicy { names, limits, caller, breaker, mode, mock, fault, mirror } = policy;
    let RateLimits { total, per_caller } = limits;
    let mut shown = json!({
        "names": names,
        "rate_limit": total.map(|rate| rate.per_second),
        "rate_burst": total.map(|rate| rate.burst),
        "caller_rate_limit": per_caller.map(|rate| rate.per_second),
        "caller_rate_burst": per_caller.map(|rate| rate.burst),
        "caller": caller.to_string(),
        "breaker": breaker.is_some(),
        "cluster": mode.name(),
        "mock": mock.as_ref().map(|mock| {
            let when = if mock.always { "force" } else { "fail" };
            format!("{when}:{}", mock.answer)
        }),
    });
    match *mode {
        CallMode::Forking(n) => shown["forks"] = n.into(),
        CallMode::Hedging(HedgeDelay::Fixed(delay)) => shown["hedge_after_ms"] = ms(delay).into(),
        CallMode::Hedging(HedgeDelay::Percentile(it)) => shown["hedge_percentile"] = it.into(),
        CallMode::Failback(FailbackPolicy { delay, time }) => {
            shown["failback_delay_ms"] = ms(delay).into();
            shown["failback_ms"] = ms(time).into();
        }
        CallMode::Failover | CallMode::Failfast | CallMode::Failsafe | CallMode::Broadcast => {}
    }
    if let Some(FaultSettings { policy, code }) = fault {
        let FaultPolicy { delay, delay_percent, abort_percent } = policy;
        shown["fault_delay_ms"] = ms(*delay).into();
        shown["fault_delay_percent"] = (*delay_percent).into();
        shown["fault_abort_percent"] = (*abort_percent).into();
        shown["fault_abort_code"] = code.row().name.into();
    }
    if let Some(mirror) = mirror {
        let MirrorPolicy { percent, to, tag, timeout, max_in_flight } = mirror;
        shown["mirror_percent"] = (*percent).into();
        shown["mirror_version"] = to.version.clone().into();
        shown["mirror_group"] = to.group.clone().into();
        shown["mirror_tag"] = tag.clone().into();
        shown["mirror_timeout_ms"] = timeout.map(ms).into();
        shown["mirror_max_in_flight"] = (*max_in_flight).into();
    }
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
