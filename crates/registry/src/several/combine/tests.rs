use std::sync::Arc;

use super::*;
use crate::address::parse_listing;
use crate::listing::resolve;

fn part(status: Freshness, urls: &[&str]) -> Part {
    let endpoints: Arc<[_]> = urls.iter().map(|url| parse_listing(url).unwrap().endpoint).collect();
    let snapshot = Snapshot { status, endpoints, ..Snapshot::default() };
    Part { snapshot, is_given_up: false }
}

fn given_up() -> Part {
    Part { is_given_up: true, ..part(Freshness::Pending, &[]) }
}

fn wanted(version: &str, group: &str) -> ServiceKey {
    ServiceKey::new("a.B", version, group).unwrap()
}

/// The addresses with their weights, and whether the list is up to date.
fn shown(wanted: &ServiceKey, mode: SeveralMode, parts: &[Part]) -> Option<(Vec<String>, bool)> {
    let known = combine(wanted, mode, parts)?;
    let listings: Vec<_> = known
        .items
        .iter()
        .filter_map(|item| match &item.read {
            Ok(Some(Entry::Listing(listing))) => Some(listing),
            _ => None,
        })
        .collect();
    let endpoints = resolve(wanted, listings);
    let shown = |it: &Endpoint| format!("{} {}", it.key(), it.weight);
    Some((endpoints.iter().map(shown).collect(), known.is_current))
}

fn addresses(mode: SeveralMode, parts: &[Part]) -> Option<(Vec<String>, bool)> {
    shown(&wanted("", ""), mode, parts)
}

fn list(addresses: &[&str], is_current: bool) -> Option<(Vec<String>, bool)> {
    Some((addresses.iter().map(|it| (*it).to_owned()).collect(), is_current))
}

const OLD: &str = "dubbo://h1:1/a.B?weight=7";
const SAME: &str = "dubbo://h1:1/a.B?weight=9";
const NEW: &str = "dubbo://h2:1/a.B";

#[test]
fn merges_and_lists_an_address_once_as_the_first_has_it() {
    let current = |urls: &[&str]| part(Freshness::Current, urls);
    let merged = addresses(SeveralMode::Merged, &[current(&[OLD]), current(&[SAME, NEW])]);
    assert_eq!(merged, list(&["dubbo://h1:1 7", "dubbo://h2:1 100"], true));
    // It leaves the first registry, and stays in use as the second has it.
    let moved = addresses(SeveralMode::Merged, &[current(&[]), current(&[SAME, NEW])]);
    assert_eq!(moved, list(&["dubbo://h1:1 9", "dubbo://h2:1 100"], true));
}

#[test]
fn fails_over_in_order() {
    let current = |urls: &[&str]| part(Freshness::Current, urls);
    let mode = SeveralMode::Failover;
    let first = addresses(mode, &[current(&[OLD]), current(&[NEW])]);
    assert_eq!(first, list(&["dubbo://h1:1 7"], true));
    // The second need not have said anything.
    let first = addresses(mode, &[current(&[OLD]), part(Freshness::Pending, &[])]);
    assert_eq!(first, list(&["dubbo://h1:1 7"], true));
    let second = addresses(mode, &[current(&[]), current(&[NEW])]);
    assert_eq!(second, list(&["dubbo://h2:1 100"], true));
    // What is known of a registry that is away still counts.
    let stale = addresses(mode, &[part(Freshness::Stale, &[OLD]), current(&[NEW])]);
    assert_eq!(stale, list(&["dubbo://h1:1 7"], false));
    // One that has never said anything may have what is wanted.
    let unsure = addresses(mode, &[given_up(), current(&[NEW])]);
    assert_eq!(unsure, list(&["dubbo://h2:1 100"], false));
    let none = addresses(mode, &[current(&[]), current(&[])]);
    assert_eq!(none, list(&[], true));
}

#[test]
fn nothing_shows_before_all_that_count_have_spoken() {
    let current = |urls: &[&str]| part(Freshness::Current, urls);
    let silent = || part(Freshness::Pending, &[]);
    for mode in [SeveralMode::Merged, SeveralMode::Failover] {
        assert_eq!(addresses(mode, &[silent(), current(&[NEW])]), None);
        assert_eq!(addresses(mode, &[current(&[]), silent()]), None);
        assert_eq!(addresses(mode, &[given_up(), given_up()]), None);
        let rest = addresses(mode, &[current(&[]), given_up()]);
        assert_eq!(rest, list(&[], false));
    }
    assert_eq!(addresses(SeveralMode::Merged, &[current(&[OLD]), silent()]), None);
    let late = addresses(SeveralMode::Merged, &[current(&[OLD]), given_up()]);
    assert_eq!(late, list(&["dubbo://h1:1 7"], false));
}

/// Its app may be in the old registry alone.
#[test]
fn an_agent_replaces_its_app_in_another_registry() {
    let app = part(Freshness::Current, &[OLD]);
    let agent = part(Freshness::Current, &["link://a1:2/a.B?for=h1:1"]);
    let merged = addresses(SeveralMode::Merged, &[app, agent]);
    assert_eq!(merged, list(&["link://a1:2 7"], true));
}

#[test]
fn versions_and_groups_are_those_of_the_endpoint() {
    let parts = [part(Freshness::Current, &["dubbo://h1:1/a.B?version=2.0&group=b"])];
    for (version, group) in [("2.0", "b"), ("*", "*"), ("2.0", "a,b")] {
        let wanted = wanted(version, group);
        let found = shown(&wanted, SeveralMode::Merged, &parts);
        assert_eq!(found, list(&["dubbo://h1:1 100"], true), "{version} {group}");
    }
}
