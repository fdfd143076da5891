//! Parameters that Dubbo's consumers go by, or its providers, and that change nothing here.

/// An agent's own configuration says these things, or nothing does.
const WITHOUT_EFFECT: [&str; 20] = [
    "accesslog",
    "actives",
    "async",
    "cache",
    "callbacks",
    "connections",
    "executes",
    "filter",
    "forks",
    "lazy",
    "loadbalance",
    "local",
    "mock",
    "retries",
    "router",
    "sent",
    "sticky",
    "stub",
    "threadpool",
    "validation",
];
/// What stands before a provider's own default, as Dubbo 2 writes it.
const DEFAULT: &str = "default";
const NOTHING: &str = "has no effect in an agent";
const UNREADABLE: &str = "cannot be read, so Dubbo's default counts";

/// Why a parameter that is set to this value changes nothing here, as far as that is known: rules
/// may look at any other one.
#[must_use]
pub fn why_without_effect(name: &str, value: &str) -> Option<&'static str> {
    let (of, own) = name.rsplit_once('.').unwrap_or((DEFAULT, name));
    let is_number = |least: i64| value.parse().is_ok_and(|number: i64| least <= number);
    match own {
        _ if WITHOUT_EFFECT.contains(&own) => Some(NOTHING),
        // Of a single method only the timeout counts.
        "weight" | "warmup" | "payload" if of != DEFAULT => Some(NOTHING),
        "weight" | "warmup" | "payload" if !is_number(i64::MIN) => Some(UNREADABLE),
        "timeout" if !is_number(1) => Some(UNREADABLE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_which_parameters_change_nothing() {
        for (name, value, why) in [
            ("mock", "force:return 5", Some(NOTHING)),
            ("find.retries", "0", Some(NOTHING)),
            ("default.loadbalance", "random", Some(NOTHING)),
            ("find.weight", "5", Some(NOTHING)),
            ("weight", "abc", Some(UNREADABLE)),
            ("timeout", "-5", Some(UNREADABLE)),
            ("find.timeout", "x", Some(UNREADABLE)),
            ("payload", "64M", Some(UNREADABLE)),
            ("payload", "67108864", None),
            ("weight", "-5", None),
            ("default.weight", "5", None),
            ("timeout", "100", None),
            ("find.timeout", "100", None),
            ("dubbo.tag", "gray", None),
            ("region", "north", None),
        ] {
            assert_eq!(why_without_effect(name, value), why, "{name}={value}");
        }
    }
}
