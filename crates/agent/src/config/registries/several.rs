//! `kind = "several"`: registries as one.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use registry::{RegistryConfig, SeveralConfig, SeveralMode};

use super::{RegistryDraft, RegistryKind};
use crate::config::error::{KeyPlace, Problems};
use crate::config::section::{Section, closest};

pub(super) const KEYS: [&str; 4] = ["of", "mode", "shares", "zones"];

/// A share of less than a thousandth is better said by leaving the registry out.
const SHARES: RangeInclusive<u32> = 1..=1000;

pub(in crate::config) const MODES: [(&str, SeveralMode); 2] =
    [("merged", SeveralMode::Merged), ("failover", SeveralMode::Failover)];

const REMEDY: &str = "write the names of two or more other [[registry]] sections, such as \
                      of = [\"new\", \"old\"]";

pub(super) fn config(section: &mut Section<'_>) -> Option<SeveralConfig> {
    let mode = section.choice("mode", &MODES).unwrap_or_default();
    let names = section.texts("of");
    if names.is_none() && !section.has("of") {
        section.wrong("of", "is missing", REMEDY);
    }
    let names: Vec<String> = names?.into_iter().map(str::to_owned).collect();
    let twice = names.iter().enumerate().find(|(n, name)| names[..*n].contains(name));
    if let Some((_, name)) = twice {
        section.wrong("of", format!("names \"{name}\" twice"), REMEDY);
    } else if names.len() < 2 {
        section.wrong("of", "names only one registry", REMEDY);
    }
    let mut shares = BTreeMap::new();
    for (place, name, share) in section.numbers("shares", SHARES) {
        check_name(section, &place, name, &names);
        shares.insert(name.to_owned(), share);
    }
    if !shares.is_empty() && mode == SeveralMode::Failover {
        let problem = "has no effect with mode = \"failover\": one registry counts at a time";
        section.wrong("shares", problem, "remove it, or write mode = \"merged\"");
    }
    let mut zones = BTreeMap::new();
    for (place, name, zone) in section.pairs("zones") {
        check_name(section, &place, name, &names);
        zones.insert(name.to_owned(), zone.to_owned());
    }
    Some(SeveralConfig { of: names, mode, shares, zones })
}

fn check_name(section: &Section<'_>, place: &KeyPlace, name: &str, of: &[String]) {
    if of.iter().any(|it| it == name) {
        return;
    }
    let known: Vec<&str> = of.iter().map(String::as_str).collect();
    let remedy = closest(name, &known)
        .map_or("use the names in of".to_owned(), |known| format!("did you mean \"{known}\"?"));
    section.wrong_at(place, "is not one of the registries in of", remedy);
}

/// Looks up the registries that others are made of.
pub(super) fn find_members(drafts: &mut [RegistryDraft], problems: &Problems<'_>) {
    let names: Vec<String> = drafts.iter().map(|draft| draft.name.clone()).collect();
    let kinds: Vec<Option<RegistryKind>> = drafts.iter().map(|draft| draft.kind).collect();
    for draft in drafts {
        let Some(RegistryConfig::Several(config)) = draft.entry.as_ref().map(|it| &it.config)
        else {
            continue;
        };
        for name in &config.of {
            let found = names.iter().position(|known| known == name);
            let problem = match found.and_then(|index| kinds.get(index)) {
                Some(Some(RegistryKind::Several)) => {
                    Some((format!("\"{name}\" is made of others itself"), REMEDY.to_owned()))
                }
                Some(_) => None,
                None => {
                    let known: Vec<&str> = names.iter().map(String::as_str).collect();
                    let remedy = closest(name, &known)
                        .map_or(REMEDY.to_owned(), |known| format!("did you mean \"{known}\"?"));
                    Some((format!("there is no registry \"{name}\""), remedy))
                }
            };
            match problem {
                Some((problem, remedy)) => {
                    problems.add(&draft.of_place, problem, remedy);
                }
                None => draft.members.extend(found),
            }
        }
    }
}
