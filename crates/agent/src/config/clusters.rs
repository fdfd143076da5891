//! `[defaults]` and `[[cluster]]`: how upstream services are called.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use balance::{HoldPolicy, OutlierPolicy};
use dubbo_proto::{Serialization, validate_interface};
use flow::queue::Priority;
use wire::SocketOptions;

use super::defaults;
use super::error::{KeyPlace, Problems};
use super::heartbeat::heartbeat;
use super::methods::{OF_CLUSTER, OF_DEFAULTS, check_repeated, methods};
use super::routing::{KEYS as ROUTING_KEYS, default_routing, routing};
use super::section::Section;
use super::socket::connecting;
use super::tls::upstream_tls;
use super::{AppCapacity, ClusterPolicy, ClusterRule, ClusterRules, ConnectionLimit};

/// The section that all policies start from.
const DEFAULTS: &str = "[defaults]";

/// Reads `[defaults]` and the `[[cluster]]` sections, which start from the defaults.
pub(super) fn clusters(
    mut defaults: Section<'_>,
    clusters: Vec<Section<'_>>,
    folder: &Path,
    problems: &Problems<'_>,
) -> ClusterRules {
    let base = ClusterPolicy { routing: default_routing().into(), ..ClusterPolicy::default() };
    let mut default = policy(&mut defaults, DEFAULTS, &base);
    default.routing = routing(&mut defaults, "defaults.split", folder, &base.routing);
    default.tls = upstream_tls(defaults.table_as("tls", "defaults.tls"), folder);
    default.socket = connecting(defaults.table_as("socket", "defaults.socket"), &base.socket);
    default.methods = methods(&mut defaults, OF_DEFAULTS, &base.methods);
    check_repeated(&defaults, &default.methods, &default.routing.idempotent);
    defaults.finish();
    let mut rules: Vec<ClusterRule> = Vec::with_capacity(clusters.len());
    let mut places: Vec<KeyPlace> = Vec::with_capacity(clusters.len());
    for mut section in clusters {
        let interface = pattern(&mut section);
        let name = format!("[[cluster]] {}", interface.as_deref().unwrap_or_default());
        let mut policy = policy(&mut section, &name, &default);
        let socket = section.table_as("socket", "cluster.socket");
        policy.socket = connecting(socket, &default.socket);
        let tls = upstream_tls(section.table_as("tls", "cluster.tls"), folder);
        policy.tls = tls.or_else(|| default.tls.clone());
        policy.routing = routing(&mut section, "cluster.split", folder, &default.routing);
        policy.methods = methods(&mut section, OF_CLUSTER, &default.methods);
        check_repeated(&section, &policy.methods, &policy.routing.idempotent);
        let place = section.place("interface");
        section.finish();
        let Some(interface) = interface else {
            continue;
        };
        if let Some(index) = rules.iter().position(|rule| covers(&rule.interface, &interface)) {
            let line = problems.line(&places[index]);
            let problem = format!(
                "\"{interface}\" never applies: line {line} matches the same services, and the \
                 first match wins"
            );
            problems.add(&place, problem, "put the narrower pattern first, or remove one");
        }
        rules.push(ClusterRule { interface, policy });
        places.push(place);
    }
    ClusterRules { default, rules }
}

/// Warns of rules for callers in an agent that has none: whatever calls what it exports passes
/// them by.
pub(super) fn without_callers(section: &Section<'_>) {
    for key in
        ["method", "balance", "endpoint_capacity", "max_attempts"].iter().chain(&ROUTING_KEYS)
    {
        if section.has(key) {
            let problem = "has no effect: this agent has no [[ingress]], and calls of its exports \
                           do not use it";
            let remedy = "write it in the configuration of the callers' agents, or remove it here";
            section.warn(key, problem, remedy);
        }
    }
}

/// What holds where the file has neither `[defaults]` nor a matching `[[cluster]]`.
impl Default for ClusterPolicy {
    fn default() -> Self {
        Self {
            balance: defaults::BALANCE,
            timeout: None,
            timeout_section: DEFAULTS.into(),
            max_timeout: defaults::MAX_TIMEOUT,
            max_timeout_section: DEFAULTS.into(),
            connect_timeout: defaults::CONNECT_TIMEOUT,
            heartbeat: None,
            serialization: defaults::SERIALIZATION,
            max_attempts: defaults::MAX_ATTEMPTS,
            max_in_flight: defaults::MAX_IN_FLIGHT,
            endpoint_capacity: Some(AppCapacity::default()),
            max_reply_len: defaults::BODY_LEN,
            long_len: defaults::LONG_LEN,
            connections: defaults::CONNECTIONS,
            tells_time_left: true,
            priority: Priority::Normal,
            socket: SocketOptions::default(),
            hold: defaults::HOLD,
            outlier: defaults::OUTLIER,
            routing: Arc::default(),
            methods: Arc::default(),
            tls: None,
        }
    }
}

fn policy(section: &mut Section<'_>, name: &str, base: &ClusterPolicy) -> ClusterPolicy {
    let says = |key, base: &Arc<str>| if section.has(key) { name.into() } else { Arc::clone(base) };
    let timeout_section = says("timeout_ms", &base.timeout_section);
    let max_timeout_section = says("max_timeout_ms", &base.max_timeout_section);
    let policies = balance::Policy::ALL.map(|policy| (policy.name(), policy));
    let policy = ClusterPolicy {
        balance: section.choice("balance", &policies).unwrap_or(base.balance),
        timeout: section.optional_ms("timeout_ms", defaults::LONGEST).or(base.timeout),
        timeout_section,
        max_timeout_section,
        max_timeout: section.ms("max_timeout_ms", defaults::LONGEST, base.max_timeout),
        connect_timeout: section.ms("connect_timeout_ms", defaults::LONGEST, base.connect_timeout),
        heartbeat: heartbeat(section).or(base.heartbeat),
        serialization: section
            .choice("serialization", &Serialization::CONFIG_NAMES)
            .unwrap_or(base.serialization),
        max_attempts: section.number(
            "max_attempts",
            1..=defaults::MOST_ATTEMPTS,
            base.max_attempts,
        ),
        max_in_flight: section.number(
            "max_in_flight",
            1..=defaults::MAX_LINK_WINDOW,
            base.max_in_flight,
        ),
        endpoint_capacity: endpoint_capacity(section).unwrap_or(base.endpoint_capacity),
        max_reply_len: section.number(
            "max_reply_bytes",
            1..=defaults::MAX_BODY_LEN,
            base.max_reply_len,
        ),
        long_len: match section.number("long_bytes", 0..=defaults::MAX_BODY_LEN, base.long_len) {
            0 => usize::MAX,
            len => len,
        },
        connections: connections(section).unwrap_or(base.connections),
        tells_time_left: section.flag("tell_time_left", base.tells_time_left),
        priority: section.choice("priority", &Priority::NAMES).unwrap_or(base.priority),
        socket: base.socket,
        hold: HoldPolicy {
            time: section.ms_or_none("hold_ms", defaults::LONGEST, base.hold.time),
            percent: section.number(
                "hold_percent",
                0..=defaults::MAX_HOLD_PERCENT,
                base.hold.percent,
            ),
        },
        outlier: outlier(section, &base.outlier),
        routing: Arc::clone(&base.routing),
        methods: Arc::clone(&base.methods),
        tls: base.tls.clone(),
    };
    let max_ms = policy.max_timeout.as_millis();
    for (key, value) in
        [("timeout_ms", policy.timeout), ("connect_timeout_ms", Some(policy.connect_timeout))]
    {
        // A contradiction that comes with the defaults is reported there.
        let is_ours = section.has(key) || section.has("max_timeout_ms");
        if let Some(value) = value
            && is_ours
            && value > policy.max_timeout
        {
            let problem =
                format!("{} ms is longer than max_timeout_ms, {max_ms} ms", value.as_millis());
            section.wrong(key, problem, format!("write at most {max_ms}, or raise max_timeout_ms"));
        }
    }
    policy
}

/// `None` if the section does not say.
fn connections(section: &mut Section<'_>) -> Option<ConnectionLimit> {
    let n = section.number_or_word("connections", 1..=defaults::MOST_CONNECTIONS, "auto")?;
    Some(n.and_then(NonZeroUsize::new).map_or(defaults::CONNECTIONS, ConnectionLimit::Fixed))
}

/// `None` if the section does not say.
fn endpoint_capacity(section: &mut Section<'_>) -> Option<Option<AppCapacity>> {
    let most = defaults::MAX_CAPACITY;
    Some(match section.number_or_word("endpoint_capacity", 0..=most, "auto")? {
        Some(0) => None,
        Some(capacity) => Some(AppCapacity::Known(capacity)),
        None => Some(AppCapacity::Adaptive),
    })
}

/// The keys that begin with `eject_`.
fn outlier(section: &mut Section<'_>, base: &OutlierPolicy) -> OutlierPolicy {
    let (longest, most) = (defaults::LONGEST, defaults::MOST_FAILURES);
    let policy = OutlierPolicy {
        failures: section.number("eject_failures", 0..=most, base.failures),
        error_percent: section.number("eject_error_percent", 0..=100, base.error_percent),
        min_calls: section.number("eject_min_calls", 1..=most, base.min_calls),
        window: section.ms("eject_window_ms", longest, base.window),
        silence: section.ms_or_none("eject_silence_ms", longest, base.silence),
        time: section.ms("eject_ms", longest, base.time),
        max_time: section.ms("eject_max_ms", longest, base.max_time),
        max_percent: section.number("eject_max_percent", 0..=100, base.max_percent),
        exceptions: section.flag("eject_exceptions", base.exceptions),
    };
    if policy.max_time < policy.time && (section.has("eject_ms") || section.has("eject_max_ms")) {
        let (ms, max_ms) = (policy.time.as_millis(), policy.max_time.as_millis());
        let key = if section.has("eject_ms") { "eject_ms" } else { "eject_max_ms" };
        let problem = format!("eject_ms, {ms} ms, is longer than eject_max_ms, {max_ms} ms");
        section.wrong(key, problem, "lower eject_ms, or raise eject_max_ms");
    }
    policy
}

/// An interface name, or the beginning of some and a `*`.
fn pattern(section: &mut Section<'_>) -> Option<String> {
    const REMEDY: &str = "write an interface such as \"com.acme.Orders\", or \"com.acme.*\"";
    let text = section.required_text("interface", REMEDY)?;
    let prefix = text.strip_suffix('*');
    let is_good = match prefix {
        Some(prefix) => {
            prefix.is_empty()
                || validate_interface(prefix.strip_suffix('.').unwrap_or(prefix)).is_ok()
        }
        None => validate_interface(text).is_ok(),
    };
    if !is_good {
        section.wrong("interface", format!("\"{text}\" is not an interface name"), REMEDY);
    }
    Some(text.to_owned())
}

/// Checks names of methods, or beginnings of some and a `*`: with a `*` elsewhere they would match
/// no method.
pub(super) fn check_names(section: &Section<'_>, key: &str, names: &[&str]) {
    let is_odd = |name: &&&str| name.strip_suffix('*').unwrap_or(name).contains('*');
    if let Some(name) = names.iter().find(is_odd) {
        let problem = format!("\"{name}\" matches no method: a * means something only at the end");
        section.wrong(key, problem, "write a name, or the beginning of some and a *");
    }
}

/// Whether every name that `narrow` matches is matched by `wide` too.
pub(super) fn covers(wide: &str, narrow: &str) -> bool {
    match wide.strip_suffix('*') {
        Some(prefix) => narrow.strip_suffix('*').unwrap_or(narrow).starts_with(prefix),
        None => wide == narrow,
    }
}

#[cfg(test)]
mod tests;
