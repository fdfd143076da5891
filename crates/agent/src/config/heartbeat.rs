//! `heartbeat_ms`: after how much silence a peer is asked for a sign of life. It means the same in
//! every section, and only its default differs.

use std::time::Duration;

use super::defaults;
use super::section::Section;

/// What the section says; `None` if it says nothing.
pub(super) fn heartbeat(section: &mut Section<'_>) -> Option<Duration> {
    section.optional_ms_from("heartbeat_ms", defaults::LEAST_HEARTBEAT..=defaults::LONGEST)
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
        for number in ["-1", "0", "99", "3600001"] {
            let text = format!("[defaults]\nheartbeat_ms = {number}\n");
            let problem = format!(
                "a.toml:7: defaults.heartbeat_ms: {number} is out of range; write a whole number \
                 from 100 to 3600000"
            );
            assert_errors_behind_good(&text, &[&problem]);
        }
    }
}
