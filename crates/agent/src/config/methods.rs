//! `[[cluster.method]]` and `[[defaults.method]]`: what holds for some methods of a service.

use std::fmt;
use std::sync::Arc;

use flow::rate_limit::{Rate, RateLimits};

use super::defaults;
use super::section::Section;

/// Where sections inside of a section are, for messages.
pub(super) const OF_DEFAULTS: &str = "defaults.method";
pub(super) const OF_CLUSTER: &str = "cluster.method";
/// What names a section has that says nothing of them.
const ALL: &str = "*";

/// What holds for some methods of a service. The first that fits a method counts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MethodPolicy {
    /// Methods: names, or beginnings and `*`.
    pub names: Vec<String>,
    /// How many calls a second are let through.
    pub limits: RateLimits,
    /// Whose calls count as one caller's.
    pub caller: CallerKey,
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
            format!("{key}: {} calls a second{whose}, {} at once", rate.per_second, rate.burst)
        };
        let caller = format!(" of each caller ({})", self.caller);
        let total = total.map(|it| rate("rate_limit", it, ""));
        let per_caller = per_caller.map(|it| rate("caller_rate_limit", it, &caller));
        total.into_iter().chain(per_caller).collect()
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
        let policy = method(&mut section);
        let is_covered = |name: &String| {
            let known = policies.iter().flat_map(|it| &it.names);
            known.into_iter().any(|wide| fits(wide, name.strip_suffix('*').unwrap_or(name)))
        };
        if policy.names.iter().all(is_covered) {
            let problem = "never applies: a section before it is for the same methods, and the \
                           first match wins";
            section.wrong("names", problem, "put the narrower names first, or remove one section");
        }
        section.finish();
        policies.push(Arc::new(policy));
    }
    policies.into()
}

fn method(section: &mut Section<'_>) -> MethodPolicy {
    let names = section.texts("names").unwrap_or_else(|| vec![ALL]);
    let limits = RateLimits {
        total: rate(section, "rate_limit", "rate_burst"),
        per_caller: rate(section, "caller_rate_limit", "caller_rate_burst"),
    };
    let caller = section.text("caller").and_then(|text| caller(section, text));
    if caller.is_some() && limits.per_caller.is_none() {
        let problem = "says who a caller is, but there is no caller_rate_limit";
        section.wrong("caller", problem, "add caller_rate_limit, or remove this key");
    }
    let policy = MethodPolicy {
        names: names.into_iter().map(str::to_owned).collect(),
        limits,
        caller: caller.unwrap_or_default(),
    };
    if policy.words().is_empty() {
        let problem = "does nothing: it has none of the keys that say what holds for its methods";
        section.wrong_at(&section.head().clone(), problem, "add one, or remove the section");
    }
    policy
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
            Err(_) => section.wrong("caller", format!("\"{name}\" is no name of a header"), remedy),
        },
        _ => section.wrong("caller", format!("\"{text}\" is not known"), remedy),
    }
    None
}

#[cfg(test)]
mod tests;
