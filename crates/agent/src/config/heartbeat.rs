//! `heartbeat_ms`: after how much silence a peer is asked for a sign of life. It means the same in
//! every section, and only its default differs.

use std::time::Duration;

use super::defaults;
use super::section::Section;

/// What the section says; `None` if it says nothing.
pub(super) fn heartbeat(section: &mut Section<'_>) -> Option<Duration> {
    let time = section.optional_ms("heartbeat_ms", defaults::LONGEST)?;
    if time < defaults::LEAST_HEARTBEAT {
        let remedy = format!("write at least {}", defaults::LEAST_HEARTBEAT.as_millis());
        section.wrong("heartbeat_ms", format!("{} ms is too short", time.as_millis()), remedy);
    }
    Some(time)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::parse;
    use super::super::tests::{GOOD, assert_errors_behind_good};

    #[test]
    fn clusters_take_it_from_the_defaults() {
        let text = format!(
            "{GOOD}[defaults]\nheartbeat_ms = 2000\n[[cluster]]\ninterface = \"a.B\"\n\
             heartbeat_ms = 3000\n[[cluster]]\ninterface = \"a.C\"\n"
        );
        let config = parse(&text, "a.toml").unwrap();
        let of = |name| config.clusters.policy(name).heartbeat;
        assert_eq!(of("a.B"), Some(Duration::from_secs(3)));
        assert_eq!(of("a.C"), Some(Duration::from_secs(2)));
        // Each protocol has its own.
        assert_eq!(parse(GOOD, "a.toml").unwrap().clusters.default.heartbeat, None);
    }

    #[test]
    fn one_that_good_peers_miss_is_refused() {
        let text = "[defaults]\nheartbeat_ms = 99\n";
        let problem = "a.toml:7: defaults.heartbeat_ms: 99 ms is too short; write at least 100";
        assert_errors_behind_good(text, &[problem]);
    }
}
