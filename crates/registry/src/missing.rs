//! Why nobody offers a service, as far as its registry can tell. Pure.
//!
//! What was found out on the way stands in the list of what is not used: as *hints* if it matters
//! only while there is no endpoint. An operator reads there which step of the search failed.

use std::collections::BTreeSet;

use dubbo_proto::ServiceKey;

use crate::endpoint::{MAX_UNUSED, NotUsed, Unused};

/// Other versions and groups that are told: more would tell nobody more.
pub(crate) const MAX_OTHERS: usize = 5;

/// Longer versions and groups are nobody's: they would make messages as long as a registry likes.
const MAX_VARIANT_LEN: usize = 200;

/// As many of the endpoints that are not used as a message names.
const MAX_SHOWN: usize = 5;

/// Whether a version and group is told.
pub(crate) fn is_told((version, group): (&str, &str)) -> bool {
    version.len() + group.len() <= MAX_VARIANT_LEN
}

/// What is offered of the interface of `wanted` in other versions and groups.
pub(crate) fn others<'a>(
    wanted: &ServiceKey,
    variants: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<Unused> {
    let mut different = BTreeSet::new();
    for (version, group) in variants.filter(|variant| is_told(*variant)) {
        different.insert((group, version));
        if MAX_OTHERS < different.len() {
            // Whatever the order of the entries: the first ones stay.
            different.pop_last();
        }
    }
    let key = |(group, version)| ServiceKey::new(&wanted.interface, version, group).ok();
    let other = |key: ServiceKey| Unused {
        what: key.to_string(),
        address: None,
        reason: NotUsed::OtherVariant,
    };
    different.into_iter().filter_map(key).map(other).collect()
}

/// The list of what is not used, with hints if there is no endpoint, and without them otherwise.
/// `variants` are other versions and groups.
pub(crate) fn complete<'a>(
    wanted: &ServiceKey,
    has_endpoints: bool,
    variants: impl Iterator<Item = (&'a str, &'a str)>,
    unused: Vec<Unused>,
) -> Vec<Unused> {
    let (hints, mut rest): (Vec<_>, Vec<_>) = unused.into_iter().partition(Unused::is_hint);
    if has_endpoints {
        return rest;
    }
    let mut hints: Vec<_> = hints.into_iter().chain(others(wanted, variants)).collect();
    hints.sort();
    hints.dedup();
    if !rest.is_empty() || hints.iter().any(|it| it.reason == NotUsed::OtherVariant) {
        // It is there without applications.
        hints.retain(|it| it.reason != NotUsed::NoMapping);
    }
    hints.append(&mut rest);
    hints.truncate(MAX_UNUSED);
    hints
}

/// Says that nobody offers a service in a registry, and which step of the search failed.
/// `unused` is what its [`Snapshot`](crate::Snapshot) has.
#[must_use]
pub fn why_nobody(service: &ServiceKey, registry: &str, unused: &[Unused]) -> String {
    let is = |reason: NotUsed| unused.iter().filter(move |it| it.reason == reason);
    let others: Vec<&str> = is(NotUsed::OtherVariant).map(|it| it.what.as_str()).collect();
    let n_reasons = unused.iter().filter(is_there).count();
    if others.len() < n_reasons {
        let text = unused_text(unused);
        return format!(
            "registry {registry:?} lists no endpoint of {service} that can be used{text}"
        );
    }
    let nobody = format!("nobody offers {service} in registry {registry:?}");
    if !others.is_empty() {
        let list = others.join(", ");
        return format!(
            "{nobody}, but its interface is there with another version or group: did you mean \
             {list}?"
        );
    }
    let similar: Vec<&str> = is(NotUsed::SimilarName).map(|it| it.what.as_str()).collect();
    if !similar.is_empty() {
        let list = similar.join(", ");
        return format!("{nobody}: nothing is registered for its interface; did you mean {list}?");
    }
    let is_unmapped = is(NotUsed::NoMapping).next().is_some();
    let mapping = if is_unmapped { ", and no application is mapped to it" } else { "" };
    format!(
        "{nobody}: nothing is registered for its interface{mapping}; check the name, and that a \
         provider runs and registers there (dubmesh list shows what is registered)"
    )
}

/// The endpoints that are not used, as the end of a message; empty if there is none.
#[must_use]
pub fn unused_text(unused: &[Unused]) -> String {
    let shown: Vec<_> =
        unused.iter().filter(is_there).take(MAX_SHOWN).map(Unused::to_string).collect();
    match unused.iter().filter(is_there).count() {
        0 => String::new(),
        n if n <= MAX_SHOWN => format!("; not used: {}", shown.join(", ")),
        n => format!("; not used: {} and {} more", shown.join(", "), n - MAX_SHOWN),
    }
}

/// Whether it says what is there of the service and not used, and not what there is instead.
fn is_there(it: &&Unused) -> bool {
    !matches!(it.reason, NotUsed::NoMapping | NotUsed::SimilarName)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::parse_listing;
    use crate::layout::Entry;

    fn key(text: &str) -> ServiceKey {
        text.parse().unwrap()
    }

    fn unused(what: &str, reason: NotUsed) -> Unused {
        Unused { what: what.to_owned(), address: None, reason }
    }

    fn no_mapping() -> Unused {
        unused("a.B", NotUsed::NoMapping)
    }

    fn entry(params: &str) -> Entry {
        parse_listing(&format!("dubbo://h:1/a.B?{params}")).unwrap().into()
    }

    fn shown(
        wanted: &str,
        has_endpoints: bool,
        entries: &[Entry],
        more: Vec<Unused>,
    ) -> Vec<String> {
        let wanted = key(wanted);
        let others = entries.iter().filter_map(|entry| entry.other_variant(&wanted));
        let all = complete(&wanted, has_endpoints, others, more);
        all.into_iter().map(|it| it.what).collect()
    }

    #[test]
    fn other_versions_and_groups_are_told_once_and_only_where_nothing_is_found() {
        let entries = [entry("version=2"), entry("version=2"), entry("group=g"), entry("")];
        assert_eq!(shown("a.B:1", false, &entries, Vec::new()), ["a.B", "a.B:2", "g/a.B"]);
        assert_eq!(shown("a.B:1", true, &entries, Vec::new()), [""; 0]);
        // Those that the registries of several have told already.
        let told = vec![unused("a.B:2", NotUsed::OtherVariant), no_mapping()];
        assert_eq!(shown("a.B:1", false, &entries[..1], told.clone()), ["a.B:2"]);
        assert_eq!(shown("a.B:1", true, &[], told), [""; 0]);
        assert_eq!(shown("a.B", false, &[], vec![no_mapping()]), ["a.B"]);
    }

    /// A provider may be registered with the group or version `*`, which matches no caller without
    /// one.
    #[test]
    fn a_provider_of_any_group_is_told_as_it_is_registered() {
        let any = [entry("group=*"), entry("version=*")];
        assert_eq!(shown("a.B", false, &any, Vec::new()), ["*/a.B", "a.B:*"]);
    }

    #[test]
    fn many_versions_are_a_few_and_the_first() {
        let entries: Vec<_> = (10..99).rev().map(|n| entry(&format!("version={n}"))).collect();
        let expected: Vec<_> = (10..10 + MAX_OTHERS).map(|n| format!("a.B:{n}")).collect();
        assert_eq!(shown("a.B:1", false, &entries, Vec::new()), expected);
        let long = [entry(&format!("version={}", "9".repeat(MAX_VARIANT_LEN + 1)))];
        assert_eq!(shown("a.B:1", false, &long, Vec::new()), [""; 0]);
    }

    /// The endpoints of a service may leave that no application was ever mapped to.
    #[test]
    fn a_missing_mapping_is_nothing_that_is_not_used() {
        assert_eq!(unused_text(&[no_mapping()]), "");
        let all = [no_mapping(), unused("h:1", NotUsed::Disabled)];
        assert_eq!(unused_text(&all), "; not used: h:1 (disabled)");
    }

    #[test]
    fn the_message_names_the_step_that_failed() {
        let text = |unused: &[Unused]| why_nobody(&key("a.B:1"), "main", unused);
        let nothing = text(&[]);
        assert!(nothing.starts_with("nobody offers a.B:1 in registry \"main\": nothing is"));
        assert!(!nothing.contains("application"), "{nothing}");
        let unmapped = text(&[no_mapping()]);
        assert!(unmapped.contains("and no application is mapped to it"), "{unmapped}");
        let others = text(&[unused("a.B:2", NotUsed::OtherVariant)]);
        assert!(others.ends_with("did you mean a.B:2?"), "{others}");
        for (reason, expected) in [
            (NotUsed::Protocol, "protocol tri is not supported"),
            (NotUsed::Disabled, "disabled"),
            (NotUsed::NoInstance, "no instance of it"),
            (NotUsed::NoRevision, "no revision"),
            (NotUsed::NoService, "do not offer it"),
            (NotUsed::NoMetadata("gone".to_owned()), "unknown: gone"),
        ] {
            let text = text(&[unused("tri://h:1", reason)]);
            assert!(text.contains("lists no endpoint of a.B:1 that can be used"), "{text}");
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn messages_name_a_few_of_the_unused() {
        let all: Vec<Unused> =
            (0..=MAX_SHOWN).map(|n| unused(&format!("h:{n}"), NotUsed::Disabled)).collect();
        assert_eq!(unused_text(&[]), "");
        let text = unused_text(&all[..MAX_SHOWN]);
        assert!(text.starts_with("; not used: h:0") && text.contains("h:4"), "{text}");
        assert!(!text.contains("more"), "{text}");
        let text = unused_text(&all);
        assert!(text.ends_with(" and 1 more") && !text.contains("h:5"), "{text}");
    }
}
