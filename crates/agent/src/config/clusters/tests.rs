//! `[defaults]` and `[[cluster]]`: limits, what comes from where, and what contradicts.

use std::time::Duration;

use super::covers;
use crate::config::parse;
use crate::config::tests::{GOOD, assert_errors_behind_good, errors};

#[test]
fn holding_is_limited_and_can_be_switched_off() {
    let hold = |keys: &str| {
        let text = format!(
            "[[registry]]\nkind = 'etcd'\n[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n[defaults]\n{keys}"
        );
        parse(&text, "agent.toml").map(|config| config.clusters.policy("a.B").hold)
    };
    let off = hold("hold_ms = 0\nhold_percent = 99").unwrap();
    assert!(off.time.is_zero() && off.percent == 99);
    for wrong in ["hold_ms = 3600001", "hold_ms = -1", "hold_percent = 100"] {
        assert!(hold(wrong).unwrap_err().to_string().contains("is out of range"), "{wrong}");
    }
}

#[test]
fn ejection_is_checked_and_can_be_switched_off() {
    let base =
        "[[registry]]\nkind = 'etcd'\n[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";
    let read = |keys: &str| parse(&format!("{base}{keys}"), "a.toml");
    let outlier =
        |keys: &str, interface| read(keys).map(|config| config.clusters.policy(interface).outlier);
    let said = "[defaults]\neject_failures = 7\neject_error_percent = 30\neject_min_calls = 9\n\
                eject_window_ms = 2000\neject_silence_ms = 250\neject_ms = 300\neject_max_ms = 4000\n\
                eject_max_percent = 20\neject_exceptions = true\n\
                [[cluster]]\ninterface = 'a.B'\neject_failures = 0\neject_silence_ms = 0\n";
    let all = balance::OutlierPolicy {
        failures: 7,
        error_percent: 30,
        min_calls: 9,
        window: Duration::from_millis(2000),
        silence: Duration::from_millis(250),
        time: Duration::from_millis(300),
        max_time: Duration::from_millis(4000),
        max_percent: 20,
        exceptions: true,
    };
    assert_eq!(outlier(said, "b.B").unwrap(), all);
    let narrower = balance::OutlierPolicy { failures: 0, silence: Duration::ZERO, ..all };
    assert_eq!(outlier(said, "a.B").unwrap(), narrower, "the rest comes from the defaults");
    assert_eq!(outlier("", "a.B").unwrap(), crate::config::defaults::OUTLIER);
    for wrong in [
        "eject_failures = 100001",
        "eject_error_percent = 101",
        "eject_min_calls = 0",
        "eject_window_ms = 0",
        "eject_silence_ms = -1",
        "eject_ms = 0",
        "eject_max_ms = 3600001",
        "eject_max_percent = 101",
    ] {
        let error = read(&format!("[defaults]\n{wrong}\n")).unwrap_err().to_string();
        assert!(error.contains("is out of range"), "{wrong}: {error}");
    }
    let crossed = read("[defaults]\neject_ms = 5000\neject_max_ms = 4000\n").unwrap_err();
    assert!(
        crossed.to_string().contains(
            "defaults.eject_ms: eject_ms, 5000 ms, is longer than eject_max_ms, 4000 ms; lower \
             eject_ms, or raise eject_max_ms"
        ),
        "{crossed}"
    );
    let error = read("[defaults]\neject_exceptions = 1\n").unwrap_err().to_string();
    assert!(error.contains("eject_exceptions"), "{error}");
}

#[test]
fn timeouts_that_contradict() {
    assert_errors_behind_good(
        "[defaults]\ntimeout_ms = 70_000\nconnect_timeout_ms = 0\n",
        &[
            "a.toml:7: defaults.timeout_ms: 70000 ms is longer than max_timeout_ms, 60000 ms; \
             write at most 60000, or raise max_timeout_ms",
            "a.toml:8: defaults.connect_timeout_ms: 0 is out of range; write a whole number from 1 \
             to 3600000",
        ],
    );
    assert_errors_behind_good(
        "[defaults]\ntimeout_ms = 10_000\n[[cluster]]\ninterface = 'a'\nmax_timeout_ms = 5_000\n",
        &[
            "a.toml:8: cluster.timeout_ms: 10000 ms is longer than max_timeout_ms, 5000 ms; write at \
           most 5000, or raise max_timeout_ms",
        ],
    );
}

#[test]
fn rules_that_never_match() {
    let rule = |interface| format!("[[cluster]]\ninterface = '{interface}'\n");
    let both = |first, second| format!("{}{}", rule(first), rule(second));
    assert_errors_behind_good(
        &both("a.*", "a.b.*"),
        &["a.toml:9: cluster.interface: \"a.b.*\" never applies: line 7 matches the same \
             services, and the first match wins; put the narrower pattern first, or remove one"],
    );
    assert_errors_behind_good(&both("a.b.*", "a.*"), &[]);
    assert_errors_behind_good(&both("a.B", "a.B*"), &[]);
    assert_eq!(errors(&format!("{GOOD}{}", both("a.B", "a.B"))).len(), 1);
    for bad in ["a.*.b", "a..*", "a b"] {
        assert_eq!(errors(&format!("{GOOD}{}", rule(bad))).len(), 1, "{bad}");
    }
}

#[test]
fn a_pattern_covers_what_begins_like_it() {
    for (wide, narrow, is_covered) in [
        ("*", "a.B", true),
        ("*", "*", true),
        ("a.*", "a.b.C", true),
        ("a.*", "a.b.*", true),
        ("a.*", "a.*", true),
        ("a.b.*", "a.*", false),
        ("a.*", "ab.C", false),
        ("a.B", "a.B", true),
        ("a.B", "a.B*", false),
        ("a.B*", "a.B", true),
    ] {
        assert_eq!(covers(wide, narrow), is_covered, "{wide} {narrow}");
    }
}

/// An error of a call names the section that set its timeout.
#[test]
fn the_section_that_set_a_timeout_is_remembered() {
    let text = format!(
        "{GOOD}[defaults]\ntimeout_ms = 900\n[[cluster]]\ninterface = 'a.B'\ntimeout_ms = 5\n\
         [[cluster]]\ninterface = 'a.C'\nmax_timeout_ms = 1950\n"
    );
    let clusters = parse(&text, "a.toml").unwrap().clusters;
    let sections = |interface| {
        let policy = clusters.policy(interface);
        (policy.timeout_section.to_string(), policy.max_timeout_section.to_string())
    };
    let pair = |timeout: &str, max: &str| (timeout.to_owned(), max.to_owned());
    assert_eq!(sections("x.Y"), pair("[defaults]", "[defaults]"));
    assert_eq!(sections("a.B"), pair("[[cluster]] a.B", "[defaults]"));
    assert_eq!(sections("a.C"), pair("[defaults]", "[[cluster]] a.C"));
    assert_eq!(clusters.policy("a.C").timeout, Some(Duration::from_millis(900)));
}

/// A longest timeout that a cluster lowers below an inherited one is that cluster's mistake.
#[test]
fn equal_limits_are_no_contradiction() {
    assert_errors_behind_good("[defaults]\ntimeout_ms = 60_000\nconnect_timeout_ms = 60_000", &[]);
    assert_errors_behind_good("[defaults]\neject_ms = 4000\neject_max_ms = 4000", &[]);
    let keys = "[defaults]\nmax_timeout_ms = 999";
    let errors = errors(&format!("{GOOD}{keys}"));
    assert!(errors[0].contains("defaults.connect_timeout_ms: 1000 ms is longer"), "{errors:?}");
}
