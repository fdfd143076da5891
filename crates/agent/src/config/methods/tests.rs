use super::*;
use crate::config::{Config, parse};

const BASE: &str =
    "[[registry]]\nkind = 'etcd'\n[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";

fn read(keys: &str) -> Result<Config, String> {
    parse(&format!("{BASE}{keys}"), "agent.toml").map_err(|error| error.to_string())
}

#[test]
fn the_first_section_that_fits_counts_and_clusters_start_from_the_defaults() {
    let config = read(
        "[[defaults.method]]\nrate_limit = 100\n[[cluster]]\ninterface = 'a.B'\n\
         [[cluster.method]]\nnames = ['find*', 'get']\ncaller_rate_limit = 5\n\
         caller_rate_burst = 7\ncaller = 'header:X-User'\n[[cluster]]\ninterface = 'a.C'\n",
    )
    .unwrap();
    let methods = |interface: &str| config.clusters.policy(interface).methods.clone();
    let [of_defaults] = &*methods("a.C") else { panic!("one section") };
    let rate = |per_second, burst| Some(Rate { per_second, burst });
    assert_eq!(of_defaults.limits, RateLimits { total: rate(100, 100), per_caller: None });
    assert!(of_defaults.is_for("anything"));
    let [own] = &*methods("a.B") else { panic!("its own section alone") };
    assert_eq!(own.limits, RateLimits { total: None, per_caller: rate(5, 7) });
    assert_eq!(own.caller, CallerKey::Header("x-user".to_owned()));
    assert_eq!(
        ["find", "findAll", "get", "getAll"].map(|it| own.is_for(it)),
        [true, true, true, false]
    );
    assert_eq!(methods("a.D").len(), 1);
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    for (keys, said) in [
        ("names = ['a']", "does nothing"),
        ("rate_limit = 0", "rate_limit: 0 is out of range"),
        ("rate_burst = 5", "rate_burst: is set, but rate_limit is not"),
        ("rate_limit = 5\ncaller = 'address'", "there is no caller_rate_limit"),
        ("caller_rate_limit = 5\ncaller = 'who'", "\"who\" is not known"),
        ("caller_rate_limit = 5\ncaller = 'header:a b'", "not the name of a header"),
        ("cluster = 'failfats'", "did you mean \"failfast\"?"),
        ("cluster = 'forking'", "not idempotent"),
        ("cluster = 'failfast'\nforks = 2", "belongs to cluster = \"forking\""),
        ("cluster = 'failback'\nfailback_ms = 10", "no call would be made again"),
        ("mock = 'throw a..B'", "is not the name of a class"),
        ("mock = 'return {a'", "is not JSON"),
        ("mock = 'maybe'", "\"maybe\" is not known"),
        ("fault_delay_percent = 5", "fault_delay_ms is not"),
        ("fault_abort_percent = 101", "out of range"),
        ("fault_abort_percent = 5\nfault_abort_code = 'bad_request'", "is not known"),
        ("breaker_failures = 5", "breaker is not true"),
        ("breaker = true\nbreaker_failures = 0\nbreaker_error_percent = 0", "never opens"),
        ("breaker = true\nbreaker_open_ms = 60000", "longer than breaker_max_open_ms"),
        ("breaker = true\nbreaker_probes = 0", "breaker_probes: 0 is out of range"),
        ("rate_limit = 5\nnames = []", "names"),
        ("rate_limit = 5\nnames = ['a', '*port']", "names: \"*port\" matches no method"),
        ("rate_limit = 5\nnames = ['a*b']", "names: \"a*b\" matches no method"),
        ("rate_limit = 5\nnames = ['a**']", "names: \"a**\" matches no method"),
        ("rate_limit = 5\nrate_limits = 5", "did you mean \"rate_limit\"?"),
        ("rate_limit = 5\n[[defaults.method]]\nnames = ['a']\nrate_limit = 1", "never applies"),
    ] {
        let error = read(&format!("[[defaults.method]]\n{keys}\n")).unwrap_err();
        assert!(error.contains("defaults.method") && error.contains(said), "{keys}: {error}");
    }
}

#[test]
fn one_call_is_no_calls() {
    let words = |n: u32| {
        let config = read(&format!("[[defaults.method]]\nrate_limit = {n}\n")).unwrap();
        config.clusters.default.methods[0].words().concat()
    };
    assert_eq!(words(1), "rate_limit: 1 call a second, 1 at once");
    assert_eq!(words(2), "rate_limit: 2 calls a second, 2 at once");
}

/// What is wrong is said once, and nothing of what would follow from it.
#[test]
fn a_mistake_is_told_alone() {
    for keys in [
        "rate_limit = 0",
        "rate_limit = 0\nrate_burst = 5",
        "rate_burst = 5",
        "rate_limt = 5",
        "caller_rate_limit = 0\ncaller = 'address'",
        "mirror_percent = 0\nmirror_tag = 'a'",
        "fault_delay_ms = 'a'\nfault_delay_percent = 5",
        "fault_abort_percent = 0\nfault_abort_code = 'internal'",
        "mock = 'maybe'",
    ] {
        let error = read(&format!("[[defaults.method]]\n{keys}\n")).unwrap_err();
        assert_eq!(error.lines().count(), 1, "{keys}: {error}");
    }
}

#[test]
fn a_wider_section_may_follow_a_narrower_one() {
    let keys = "names = ['find']\nrate_limit = 5\n[[defaults.method]]\nnames = ['find*']\n";
    assert!(read(&format!("[[defaults.method]]\n{keys}rate_limit = 5\n")).is_ok());
}

#[test]
fn mocks_are_read_as_dubbo_has_them() {
    for (text, always, answer) in [
        ("return null", false, "return null"),
        ("return", false, "return null"),
        ("fail:return {\"a\": 1}", false, "return {\"a\": 1}"),
        ("fail: return {`a`: 1}", false, "return {\"a\": 1}"),
        ("force: return \"x\"", true, "return \"x\""),
        ("force:return closed", true, "return \"closed\""),
        ("force:return '7'", true, "return \"7\""),
        ("return 'it's'", false, "return \"it's\""),
        ("return true", false, "return true"),
        ("force:return empty", true, "return empty"),
        ("throw", false, "throw"),
        ("force:throw com.acme.Oops", true, "throw com.acme.Oops"),
        ("fail:throw  com.acme.Outer$Oops ", false, "throw com.acme.Outer$Oops"),
    ] {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        let config = read(&format!("[[defaults.method]]\nmock = \"{text}\"\n")).unwrap();
        let mock = config.clusters.default.methods[0].mock.clone().unwrap();
        assert_eq!((mock.always, &*mock.answer.to_string()), (always, answer), "{text}");
    }
}

#[test]
fn modes_are_read_and_faults_are_warned_of() {
    let config = read(
        "[defaults]\nidempotent = ['find*']\n[[defaults.method]]\nnames = ['findAll']\n\
         cluster = 'hedging'\n[[defaults.method]]\nnames = ['find*']\ncluster = 'forking'\n\
         forks = 3\n[[defaults.method]]\nfault_abort_percent = 7\n",
    )
    .unwrap();
    let methods = &config.clusters.default.methods;
    assert_eq!(methods[0].mode, CallMode::Hedging(HedgeDelay::Percentile(95)));
    assert_eq!(methods[1].mode, CallMode::Forking(3));
    assert!(methods[2].words()[0].starts_with("FAULTS ARE INJECTED: 7 % fail"));
    assert!(config.warnings.iter().any(|it| it.to_string().contains("injects faults")));
}

/// What an agent exports is called as its callers' agents say.
#[test]
fn rules_without_callers_are_warned_of() {
    let rules = "[defaults]\nmax_reply_bytes = 5000\nidempotent = ['get*']\n\
                 [[defaults.method]]\nrate_limit = 5\n";
    let exports = "[link]\nlisten = '127.0.0.1:0'\n[[export]]\n\
                   interface = 'a.B'\napp = 'dubbo://127.0.0.1:1'\n";
    let warned = |base: &str| {
        let warnings = parse(&format!("{base}{rules}"), "agent.toml").unwrap().warnings;
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let warnings = warned(&format!("[[registry]]\nkind = 'etcd'\n{exports}"));
    let [of_methods, of_routing] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(of_methods.starts_with("agent.toml:11:"), "{of_methods}");
    assert!(of_methods.contains("defaults.method: has no effect"), "{of_methods}");
    assert!(of_routing.contains("defaults.idempotent: has no effect"), "{of_routing}");
    assert_eq!(warned(&format!("{BASE}{exports}")), [""; 0]);
}
