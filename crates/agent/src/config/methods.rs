//! `[[cluster.method]]` and `[[defaults.method]]`: what holds for some methods of a service.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use flow::breaker::BreakerPolicy;
use flow::fault::FaultPolicy;
use flow::rate_limit::{Rate, RateLimits};

use super::clusters::{check_names, covers};
use super::defaults;
use super::section::Section;
use crate::error::Code;

mod mirror;
mod mock;
mod mode;

pub use self::mirror::MirrorPolicy;
pub use self::mock::{Mock, MockAnswer};

/// Where sections inside of a section are, for messages.
pub(super) const OF_DEFAULTS: &str = "defaults.method";
pub(super) const OF_CLUSTER: &str = "cluster.method";
/// What names a section has that says nothing of them.
const ALL: &str = "*";
/// The keys that mean nothing without `breaker`.
const BREAKER_KEYS: [&str; 10] = [
    "breaker_failures",
    "breaker_error_percent",
    "breaker_min_calls",
    "breaker_window_ms",
    "breaker_open_ms",
    "breaker_max_open_ms",
    "breaker_probes",
    "breaker_min_timeout_ms",
    "breaker_exceptions",
    "breaker_may_empty",
];

/// What holds for some methods of a service. The first that fits a method counts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MethodPolicy {
    /// Methods: names, or beginnings and `*`.
    pub names: Vec<String>,
    /// How many calls a second are let through.
    pub limits: RateLimits,
    /// Whose calls count as one caller's.
    pub caller: CallerKey,
    /// When its calls are kept from an endpoint.
    pub breaker: Option<BreakerSettings>,
    /// How its calls are spread over endpoints.
    pub mode: CallMode,
    /// An answer of ours.
    pub mock: Option<Mock>,
    /// Faults that are injected.
    pub fault: Option<FaultSettings>,
    /// Calls that are copied.
    pub mirror: Option<MirrorPolicy>,
}

/// How the calls of a method are spread over endpoints.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum CallMode {
    /// To one after the other, as far as that is safe.
    #[default]
    Failover,
    /// To one, and no other.
    Failfast,
    /// As `Failover`; a failure is answered null.
    Failsafe,
    /// The same, and the call is made again later.
    Failback(FailbackPolicy),
    /// To so many at once; the first success counts.
    Forking(u32),
    /// To all; one failure is a failure.
    Broadcast,
    /// To one, and to another when that is slow.
    Hedging(HedgeDelay),
}

/// When calls that failed are made again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FailbackPolicy {
    /// The wait before each try.
    pub delay: Duration,
    /// How long it is tried.
    pub time: Duration,
}

/// When a second endpoint is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HedgeDelay {
    /// After this time.
    Fixed(Duration),
    /// After the time in which so many percent of the calls are answered.
    Percentile(u32),
}

/// Faults that are injected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FaultSettings {
    /// Which, into how many calls.
    pub policy: FaultPolicy,
    /// What a failure is called.
    pub code: Code,
}

/// When the calls of a method are kept from an endpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BreakerSettings {
    /// When a breaker opens, and for how long.
    pub policy: BreakerPolicy,
    /// A call that timed out sooner does not count: its caller has chosen so.
    pub min_timeout: Duration,
    /// Whether exceptions of the service count as failures.
    pub exceptions: bool,
    /// Whether no endpoint may be left; otherwise all are called while all are broken.
    pub may_empty: bool,
}

/// What tells callers apart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum CallerKey {
    /// The address that a call comes from.
    #[default]
    Address,
    /// The application that a Dubbo consumer names in its attachments.
    Application,
    /// An attachment.
    Attachment(String),
    /// A header of HTTP.
    Header(String),
}

impl MethodPolicy {
    /// Whether it is for a method.
    #[must_use]
    pub fn is_for(&self, method: &str) -> bool {
        self.names.iter().any(|name| fits(name, method))
    }

    /// What it does, for those who look at a service.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let RateLimits { total, per_caller } = self.limits;
        let rate = |key: &str, rate: Rate, whose: &str| {
            let calls = calls(rate.per_second);
            format!("{key}: {calls} a second{whose}, {} at once", rate.burst)
        };
        let caller = format!(" of each caller ({})", self.caller);
        let total = total.map(|it| rate("rate_limit", it, ""));
        let per_caller = per_caller.map(|it| rate("caller_rate_limit", it, &caller));
        let breaker = self.breaker.map(|it| it.words());
        let mock = self.mock.as_ref().map(|mock| {
            let when = if mock.always { "instead of each call" } else { "instead of each failure" };
            format!("mock {when}: {}", crate::error::clip(&mock.answer.to_string()))
        });
        let fault = self.fault.map(FaultSettings::words);
        let mode = (self.mode != CallMode::Failover).then(|| self.mode.words());
        let rest = total.into_iter().chain(per_caller).chain(breaker);
        let mirror = self.mirror.as_ref().map(MirrorPolicy::words);
        let all = fault.into_iter().chain(mode).chain(mock).chain(mirror);
        all.chain(rest).collect()
    }
}

impl CallMode {
    /// Its name in the configuration, as Dubbo has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failover => "failover",
            Self::Failfast => "failfast",
            Self::Failsafe => "failsafe",
            Self::Failback(_) => "failback",
            Self::Forking(_) => "forking",
            Self::Broadcast => "broadcast",
            Self::Hedging(_) => "hedging",
        }
    }

    /// The mode of that name, as a provider registers it; `None` for `failover`, and for what only
    /// consumers of Dubbo know.
    #[must_use]
    pub fn registered(name: &str) -> Option<Self> {
        match name {
            "failfast" => Some(Self::Failfast),
            "failsafe" => Some(Self::Failsafe),
            "failback" => Some(Self::Failback(defaults::FAILBACK)),
            "forking" => Some(Self::Forking(defaults::FORKS)),
            "broadcast" => Some(Self::Broadcast),
            _ => None,
        }
    }

    /// Whether several endpoints may carry a call out.
    #[must_use]
    pub const fn may_repeat(self) -> bool {
        matches!(self, Self::Forking(_) | Self::Hedging(_))
    }

    fn words(self) -> String {
        let more = match self {
            Self::Forking(n) => format!(" to {n}"),
            Self::Failback(it) => {
                format!(", again every {} ms for {} ms", it.delay.as_millis(), it.time.as_millis())
            }
            Self::Hedging(HedgeDelay::Fixed(delay)) => format!(" after {} ms", delay.as_millis()),
            Self::Hedging(HedgeDelay::Percentile(percent)) => format!(" after p{percent}"),
            _ => String::new(),
        };
        format!("cluster: {}{more}", self.name())
    }
}

impl FaultSettings {
    fn words(self) -> String {
        let FaultPolicy { delay, delay_percent, abort_percent } = self.policy;
        let delay = (delay_percent != 0)
            .then(|| format!("{delay_percent} % are held up for {} ms", delay.as_millis()));
        let abort = (abort_percent != 0)
            .then(|| format!("{abort_percent} % fail with {}", self.code.row().name));
        let all: Vec<String> = delay.into_iter().chain(abort).collect();
        format!("FAULTS ARE INJECTED: {}", all.join(", "))
    }
}

impl BreakerSettings {
    fn words(&self) -> String {
        let BreakerPolicy { failures, error_percent, min_calls, window, .. } = self.policy;
        let streak = (failures != 0).then(|| format!("{failures} failures in a row"));
        let share = (error_percent != 0).then(|| {
            let seconds = window.as_secs_f64();
            format!("{error_percent} % of at least {min_calls} calls in {seconds} s")
        });
        let when: Vec<String> = streak.into_iter().chain(share).collect();
        let empty = if self.may_empty { "; may leave no endpoint" } else { "" };
        format!("breaker: opens after {}{empty}", when.join(", or after failures of "))
    }
}

impl fmt::Display for CallerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address => f.write_str("address"),
            Self::Application => f.write_str("application"),
            Self::Attachment(name) => write!(f, "attachment:{name}"),
            Self::Header(name) => write!(f, "header:{name}"),
        }
    }
}

/// Whether a name is meant by a pattern: a name, or a beginning and `*`.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

/// Checks that calls which several endpoints may carry out are declared to be harmless.
pub(super) fn check_repeated(
    section: &Section<'_>,
    methods: &[Arc<MethodPolicy>],
    idempotent: &[String],
) {
    if !section.has("method") && !section.has("idempotent") {
        return;
    }
    let repeated = methods.iter().filter(|it| it.mode.may_repeat());
    for (policy, name) in repeated.flat_map(|it| it.names.iter().map(move |name| (it, name))) {
        if !idempotent.iter().any(|wide| covers(wide, name)) {
            let mode = policy.mode.name();
            let problem = format!(
                "with cluster = \"{mode}\" several providers may carry out a call of \"{name}\", \
                 which is not idempotent"
            );
            section.wrong("method", problem, "add its names to idempotent, if that is true");
        }
    }
}

impl MethodPolicy {
    /// What holds for methods of which the configuration says nothing, if providers register a
    /// mode.
    #[must_use]
    pub fn registered(mode: CallMode) -> Self {
        Self { names: vec![ALL.to_owned()], mode, ..Self::default() }
    }
}

/// Reads the sections `[[...method]]` of a section; `base` counts where it has none.
pub(super) fn methods(
    section: &mut Section<'_>,
    name: &'static str,
    base: &Arc<[Arc<MethodPolicy>]>,
) -> Arc<[Arc<MethodPolicy>]> {
    if !section.has("method") {
        // Known from now on, so that a misspelt key is not taken for it.
        let _ = section.tables_as("method", name);
        return Arc::clone(base);
    }
    let mut policies: Vec<Arc<MethodPolicy>> = Vec::new();
    for mut section in section.tables_as("method", name) {
        let problems = section.problems();
        let n_before = problems.count();
        let policy = method(&mut section);
        let is_covered = |name: &String| {
            let known = policies.iter().flat_map(|it| &it.names);
            known.into_iter().any(|wide| covers(wide, name))
        };
        if policy.names.iter().all(is_covered) {
            let problem = "never applies: a section before it is for the same methods, and the \
                           first match wins";
            section.wrong("names", problem, "put the narrower names first, or remove one section");
        }
        let (head, has_mode) = (section.head().clone(), section.has("cluster"));
        section.finish();
        // A rule that is wrong, or has another name, is one all the same.
        let is_good = problems.count() == n_before;
        if policy.words().is_empty() && !has_mode && is_good {
            let problem = "does nothing: it sets no rule for its methods";
            problems.add(&head, problem, "add one, or remove the section");
        }
        policies.push(Arc::new(policy));
    }
    policies.into()
}

fn method(section: &mut Section<'_>) -> MethodPolicy {
    let names = section.texts("names").unwrap_or_else(|| vec![ALL]);
    check_names(section, "names", &names);
    let limits = RateLimits {
        total: rate(section, "rate_limit", "rate_burst"),
        per_caller: rate(section, "caller_rate_limit", "caller_rate_burst"),
    };
    let caller = section.text("caller").and_then(|text| caller(section, text));
    if caller.is_some() && !section.has("caller_rate_limit") {
        let problem = "says who a caller is, but there is no caller_rate_limit";
        section.wrong("caller", problem, "add caller_rate_limit, or remove this key");
    }
    MethodPolicy {
        names: names.into_iter().map(str::to_owned).collect(),
        limits,
        caller: caller.unwrap_or_default(),
        breaker: breaker(section),
        mode: mode::mode(section),
        mock: mock::mock(section),
        fault: mode::fault(section),
        mirror: mirror::mirror(section),
    }
}

/// The keys that begin with `breaker`.
fn breaker(section: &mut Section<'_>) -> Option<BreakerSettings> {
    let base = defaults::BREAKER;
    let is_on = section.flag("breaker", false);
    let (longest, most) = (defaults::LONGEST, defaults::MOST_FAILURES);
    let policy = BreakerPolicy {
        failures: section.number("breaker_failures", 0..=most, base.policy.failures),
        error_percent: section.number("breaker_error_percent", 0..=100, base.policy.error_percent),
        min_calls: section.number("breaker_min_calls", 1..=most, base.policy.min_calls),
        window: section.ms("breaker_window_ms", longest, base.policy.window),
        time: section.ms("breaker_open_ms", longest, base.policy.time),
        max_time: section.ms("breaker_max_open_ms", longest, base.policy.max_time),
        probes: section.number("breaker_probes", 1..=defaults::MOST_PROBES, base.policy.probes),
    };
    let settings = BreakerSettings {
        policy,
        min_timeout: section.ms_or_none("breaker_min_timeout_ms", longest, base.min_timeout),
        exceptions: section.flag("breaker_exceptions", base.exceptions),
        may_empty: section.flag("breaker_may_empty", base.may_empty),
    };
    if let Some(key) = BREAKER_KEYS.into_iter().find(|key| !is_on && section.has(key)) {
        section.wrong(key, "is set, but breaker is not true", "add breaker = true");
    }
    if is_on && policy.failures == 0 && policy.error_percent == 0 {
        let problem = "never opens: breaker_failures and breaker_error_percent are 0";
        section.wrong("breaker", problem, "raise one of them, or remove this key");
    }
    if policy.max_time < policy.time {
        let (ms, max_ms) = (policy.time.as_millis(), policy.max_time.as_millis());
        let problem = format!("{ms} ms is longer than breaker_max_open_ms, {max_ms} ms");
        section.wrong("breaker_open_ms", problem, "lower it, or raise breaker_max_open_ms");
    }
    is_on.then_some(settings)
}

/// So many calls, in words.
pub(crate) fn calls(n: u32) -> String {
    format!("{n} {}", if n == 1 { "call" } else { "calls" })
}

fn rate(section: &mut Section<'_>, key: &'static str, burst_key: &'static str) -> Option<Rate> {
    let per_second = section.optional_number(key, 1..=defaults::MOST_CALLS_PER_SECOND);
    let burst = section.optional_number(burst_key, 1..=defaults::MOST_CALLS_PER_SECOND);
    if burst.is_some() && !section.has(key) {
        let problem = format!("is set, but {key} is not");
        section.wrong(burst_key, problem, format!("add {key}, or remove this key"));
    }
    let per_second = per_second?;
    Some(Rate { per_second, burst: burst.unwrap_or(per_second) })
}

fn caller(section: &Section<'_>, text: &str) -> Option<CallerKey> {
    let remedy = "write \"address\", \"application\", \"attachment:NAME\" or \"header:NAME\"";
    match (text, text.split_once(':')) {
        ("address", _) => return Some(CallerKey::Address),
        ("application", _) => return Some(CallerKey::Application),
        (_, Some(("attachment", name))) if !name.is_empty() => {
            return Some(CallerKey::Attachment(name.to_owned()));
        }
        (_, Some(("header", name))) => match http::HeaderName::from_bytes(name.as_bytes()) {
            Ok(name) => return Some(CallerKey::Header(name.as_str().to_owned())),
            Err(_) => {
                section.wrong("caller", format!("\"{name}\" is not the name of a header"), remedy);
            }
        },
        _ => section.wrong("caller", format!("\"{text}\" is not known"), remedy),
    }
    None
}

#[cfg(test)]
mod tests;
