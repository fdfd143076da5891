//! The keys of `[[...method]]` that say what becomes of a call: its mode, a mock, and faults.

use flow::fault::FaultPolicy;

use super::{CallMode, FailbackPolicy, FaultSettings, HedgeDelay};
use crate::config::defaults;
use crate::config::section::Section;
use crate::error::{Code, FaultOrigin};

/// Keys that belong to one mode.
const OF_MODES: [(&str, &str); 5] = [
    ("forks", "forking"),
    ("hedge_after_ms", "hedging"),
    ("hedge_percentile", "hedging"),
    ("failback_delay_ms", "failback"),
    ("failback_ms", "failback"),
];

pub(super) fn mode(section: &mut Section<'_>) -> CallMode {
    let names = ["failover", "failfast", "failsafe", "failback", "forking", "broadcast", "hedging"];
    let name = section.choice("cluster", &names.map(|name| (name, name))).unwrap_or("failover");
    let longest = defaults::LONGEST;
    let forks = section.number("forks", 2..=defaults::MOST_FORKS, defaults::FORKS);
    let hedge_after = section.optional_ms("hedge_after_ms", longest);
    let percentile = section.optional_number("hedge_percentile", 1..=99);
    let base = defaults::FAILBACK;
    let failback = FailbackPolicy {
        delay: section.ms("failback_delay_ms", longest, base.delay),
        time: section.ms("failback_ms", longest, base.time),
    };
    for (key, of) in OF_MODES {
        if section.has(key) && name != of {
            let problem = format!("belongs to cluster = \"{of}\"");
            section.wrong(key, problem, "set cluster to that, or remove this key");
        }
    }
    if failback.time < failback.delay {
        let problem = "is longer than failback_ms, so that no call would be made again";
        section.wrong("failback_delay_ms", problem, "lower it, or raise failback_ms");
    }
    if hedge_after.is_some() && percentile.is_some() {
        let problem = "is set, but so is hedge_after_ms";
        section.wrong("hedge_percentile", problem, "remove one of them");
    }
    match name {
        "failfast" => CallMode::Failfast,
        "failsafe" => CallMode::Failsafe,
        "failback" => CallMode::Failback(failback),
        "forking" => CallMode::Forking(forks),
        "broadcast" => CallMode::Broadcast,
        "hedging" => CallMode::Hedging(match hedge_after {
            Some(delay) => HedgeDelay::Fixed(delay),
            None => HedgeDelay::Percentile(percentile.unwrap_or(defaults::HEDGE_PERCENTILE)),
        }),
        _ => CallMode::Failover,
    }
}

pub(super) fn fault(section: &mut Section<'_>) -> Option<FaultSettings> {
    let delay = section.optional_ms("fault_delay_ms", defaults::LONGEST);
    let delay_percent = section.optional_number("fault_delay_percent", 1..=100);
    let abort_percent = section.optional_number("fault_abort_percent", 1..=100);
    let codes = Code::ALL.into_iter().filter(|code| code.row().fault != FaultOrigin::Downstream);
    let codes: Vec<(&str, Code)> = codes.map(|code| (code.row().name, code)).collect();
    let code = section.choice("fault_abort_code", &codes);
    if delay_percent.is_some() && !section.has("fault_delay_ms") {
        let problem = "is set, but fault_delay_ms is not";
        section.wrong("fault_delay_percent", problem, "add fault_delay_ms, or remove this key");
    }
    if code.is_some() && !section.has("fault_abort_percent") {
        let problem = "is set, but fault_abort_percent is not";
        section.wrong("fault_abort_code", problem, "add fault_abort_percent, or remove this key");
    }
    if delay.is_none() && abort_percent.is_none() {
        return None;
    }
    let key = if delay.is_some() { "fault_delay_ms" } else { "fault_abort_percent" };
    section.warn(key, "injects faults into calls", "remove it unless you are testing callers");
    let policy = FaultPolicy {
        delay: delay.unwrap_or_default(),
        delay_percent: if delay.is_some() { delay_percent.unwrap_or(100) } else { 0 },
        abort_percent: abort_percent.unwrap_or(0),
    };
    Some(FaultSettings { policy, code: code.unwrap_or(Code::FaultInjected) })
}
