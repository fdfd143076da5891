//! How much memory connections may take: `memory_bytes` of `[agent]`.

use std::iter::once;

use super::Config;
use super::defaults;
use super::error::{KeyPlace, Problems};
use super::section::Section;

/// What the file says, if it does.
pub(super) fn configured(agent: &mut Section<'_>) -> Option<usize> {
    agent.optional_number("memory_bytes", defaults::MIN_MEMORY_LEN..=defaults::MAX_MEMORY_LEN)
}

/// The budget: `configured`, or else a part of the machine's memory. The longest message of
/// `config` must fit into it.
pub(super) fn check(
    configured: Option<usize>,
    place: &KeyPlace,
    config: &Config,
    problems: &Problems<'_>,
) -> usize {
    let (key, longest) = longest_body(config);
    let needed = longest.saturating_mul(defaults::BODY_TIMES);
    let Some(memory_len) = configured else {
        return by_default(wire::memory_of_machine(), needed);
    };
    if memory_len < needed {
        let problem = format!(
            "{memory_len} is too small for {key} = {longest}: one connection may use at most half \
             of it"
        );
        problems.add(place, problem, format!("write at least {needed}, or lower {key}"));
    }
    memory_len
}

/// A part of the memory, and no more than an agent is meant to take, unless its longest body needs
/// more.
fn by_default(memory: Option<u64>, needed: usize) -> usize {
    let memory = memory.map_or(usize::MAX as u64, |memory| memory);
    let part = |of: u64| usize::try_from(memory / of).unwrap_or(usize::MAX);
    let wanted = part(defaults::MEMORY_PART).min(defaults::MEMORY_LEN);
    wanted.max(needed.min(part(2))).max(defaults::MIN_MEMORY_LEN)
}

/// The longest message that one connection may bring, and the key that says so.
fn longest_body(config: &Config) -> (&'static str, usize) {
    let http = config.http.iter().map(|http| ("ingress.max_body_bytes", http.max_body_len));
    let dubbo =
        config.dubbo.iter().map(|dubbo| ("ingress.max_body_bytes", dubbo.limits.max_body_len));
    let exports = config.dubbo_exports.iter();
    let exports = exports.map(|dubbo| ("dubbo.max_body_bytes", dubbo.limits.max_body_len));
    let link = config.link.iter().map(|link| ("link.max_body_bytes", link.max_body_len));
    let rules = config.clusters.rules.iter();
    let rules = rules.map(|rule| ("cluster.max_reply_bytes", rule.policy.max_reply_len));
    let replies = once(("defaults.max_reply_bytes", config.clusters.default.max_reply_len));
    let all = http.chain(dubbo).chain(exports).chain(link).chain(rules).chain(replies);
    all.max_by_key(|(_, len)| *len).unwrap_or(("max_body_bytes", 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn the_default_is_a_part_of_the_memory() {
        for (memory_mib, needed_mib, expected_mib) in [
            (24_000, 16, 80),
            (256, 16, 64),
            (128, 16, 32),
            (32, 16, 16),
            (24, 16, 12),
            (1, 16, 1),
            (24_000, 2048, 2048),
            (1024, 2048, 512),
        ] {
            let memory = Some(memory_mib << 20);
            let found = by_default(memory, needed_mib * MIB);
            assert_eq!(found, expected_mib * MIB, "of {memory_mib} MiB");
        }
        assert_eq!(by_default(None, 16 * MIB), 80 * MIB);
    }
}
