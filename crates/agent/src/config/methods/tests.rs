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
        ("caller_rate_limit = 5\ncaller = 'header:a b'", "no name of a header"),
        ("breaker_failures = 5", "breaker is not true"),
        ("breaker = true\nbreaker_failures = 0\nbreaker_error_percent = 0", "never opens"),
        ("breaker = true\nbreaker_open_ms = 60000", "longer than breaker_max_open_ms"),
        ("breaker = true\nbreaker_probes = 0", "breaker_probes: 0 is out of range"),
        ("rate_limit = 5\nnames = []", "names"),
        ("rate_limit = 5\nrate_limits = 5", "did you mean \"rate_limit\"?"),
        ("rate_limit = 5\n[[defaults.method]]\nnames = ['a']\nrate_limit = 1", "never applies"),
    ] {
        let error = read(&format!("[[defaults.method]]\n{keys}\n")).unwrap_err();
        assert!(error.contains("defaults.method") && error.contains(said), "{keys}: {error}");
    }
}
