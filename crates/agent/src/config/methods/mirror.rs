//! The keys of `[[...method]]` that begin with `mirror_`: calls that are copied.

use std::time::Duration;

use crate::config::defaults;
use crate::config::section::Section;
use crate::config::splits::OtherService;

/// Keys that mean nothing without `mirror_percent`.
const KEYS: [&str; 5] =
    ["mirror_version", "mirror_group", "mirror_tag", "mirror_timeout_ms", "mirror_max_in_flight"];
/// Copies in flight on one worker, unless the configuration says otherwise.
const MAX_IN_FLIGHT: u32 = 64;

/// Which calls are copied, and where the copies go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MirrorPolicy {
    /// So many of a hundred calls.
    pub percent: u32,
    /// The service that gets the copies.
    pub to: OtherService,
    /// The tag that they have.
    pub tag: Option<String>,
    /// How long one may take; `None` goes by the service that gets it.
    pub timeout: Option<Duration>,
    /// Copies in flight on one worker; further ones are dropped.
    pub max_in_flight: u32,
}

impl MirrorPolicy {
    pub(super) fn words(&self) -> String {
        let Self { percent, to, tag, .. } = self;
        let tag = tag.as_ref().map_or(String::new(), |tag| format!(", tag {tag}"));
        format!("mirror: {percent}% of the calls are copied to {to}{tag}")
    }
}

pub(super) fn mirror(section: &mut Section<'_>) -> Option<MirrorPolicy> {
    let percent = section.optional_number("mirror_percent", 1..=100);
    let to = OtherService::read(section, "mirror_version", "mirror_group");
    let tag = section.text("mirror_tag").map(str::to_owned);
    let timeout = section.optional_ms("mirror_timeout_ms", defaults::LONGEST);
    let most = defaults::MAX_LINK_WINDOW;
    let max_in_flight = section.number("mirror_max_in_flight", 1..=most, MAX_IN_FLIGHT);
    if let Some(key) = KEYS.into_iter().find(|key| section.has(key))
        && !section.has("mirror_percent")
    {
        let problem = "is set, but mirror_percent is not";
        section.wrong(key, problem, "add mirror_percent, or remove this key");
    }
    let percent = percent?;
    if to.is_none() && tag.is_none() {
        let problem = "would copy calls to the endpoints that get them anyway";
        section.wrong("mirror_percent", problem, "add mirror_version, mirror_group or mirror_tag");
    }
    Some(MirrorPolicy { percent, to: to.unwrap_or_default(), tag, timeout, max_in_flight })
}
