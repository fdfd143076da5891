use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::address::parse_listing;
use crate::listing::resolve;

fn part(status: Freshness, urls: &[&str]) -> RegistryPart {
    let endpoints: Arc<[_]> = urls.iter().map(|url| parse_listing(url).unwrap().endpoint).collect();
    let snapshot = Snapshot { status, endpoints, ..Snapshot::default() };
    let terms = Terms { name: "main".into(), share: None, zone: None };
    RegistryPart { terms, snapshot, is_given_up: false }
}

fn given_up() -> RegistryPart {
    RegistryPart { is_given_up: true, ..part(Freshness::Pending, &[]) }
}

fn wanted(version: &str, group: &str) -> ServiceKey {
    ServiceKey::new("a.B", version, group).unwrap()
}

/// The addresses with their weights, and whether the list is up to date.
fn shown(
    wanted: &ServiceKey,
    mode: SeveralMode,
    parts: &[RegistryPart],
) -> Option<(Vec<String>, bool)> {
    let known = combine(wanted, mode, parts)?;
    let listings: Vec<_> = known
        .items
        .iter()
        .filter_map(|item| match &item.read {
            Ok(Some(Entry::Listing(listing))) => Some(&**listing),
            _ => None,
        })
        .collect();
    let endpoints = resolve(wanted, listings);
    let shown = |it: &Endpoint| format!("{} {}", it.key(), it.weight);
    Some((endpoints.iter().map(shown).collect(), known.status == Freshness::Current))
}

fn addresses(mode: SeveralMode, parts: &[RegistryPart]) -> Option<(Vec<String>, bool)> {
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

fn named(name: &str, share: Option<u32>, urls: &[String]) -> RegistryPart {
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let terms = Terms { name: name.into(), share, zone: None };
    RegistryPart { terms, ..part(Freshness::Current, &urls) }
}

fn endpoints(mode: SeveralMode, parts: &[RegistryPart]) -> Vec<Endpoint> {
    let known = combine(&wanted("", ""), mode, parts).expect("all have spoken");
    let entries = known.items.into_iter().map(|item| item.read.unwrap().unwrap());
    let listed = entries.map(|entry| match entry {
        Entry::Listing(listing) => listing.endpoint.clone(),
        other => panic!("{other:?}"),
    });
    listed.collect()
}

#[test]
fn a_zone_of_a_registry_is_that_of_endpoints_that_say_none() {
    let urls = [NEW.to_owned(), "dubbo://h3:1/a.B?zone=own".to_owned()];
    let mut part = named("east", None, &urls);
    part.terms.zone = Some("z".to_owned());
    let found = endpoints(SeveralMode::Merged, &[part]);
    let shown: Vec<_> = found
        .iter()
        .map(|it| (it.registry.as_deref().unwrap(), it.params.get("zone").unwrap()))
        .collect();
    assert_eq!(shown, [("east", "z"), ("east", "own")]);
}

/// The share belongs to the registry that lists the agent, and the agent takes its app's weight.
#[test]
fn an_agent_is_of_the_registry_that_lists_it() {
    let app = named("old", Some(1), &[OLD.to_owned()]);
    let agent = named("new", Some(3), &["link://a1:2/a.B?for=h1:1".to_owned(), NEW.to_owned()]);
    let found = endpoints(SeveralMode::Merged, &[app, agent]);
    let shown: Vec<_> = found.iter().map(|it| (it.registry.as_deref(), it.weight)).collect();
    // One registry is left, and so nothing is dealt.
    assert_eq!(shown, [(Some("new"), 7), (Some("new"), 100)]);
}

/// The share of a registry, and the ports and weights of its endpoints.
type Offers = (u32, Vec<(u16, u32)>);

fn registries(weight: std::ops::Range<u32>) -> impl Strategy<Value = Vec<Offers>> {
    let endpoints = vec((1..30u16, prop_oneof![9 => weight, 1 => Just(0)]), 0..8);
    vec((1..=100u32, endpoints), 1..4)
}

fn parts(registries: &[Offers], is_shared: bool) -> Vec<RegistryPart> {
    let part = |(n, (share, endpoints)): (usize, &Offers)| {
        let mut endpoints = endpoints.clone();
        endpoints.sort_unstable();
        endpoints.dedup_by_key(|(port, _)| *port);
        let url = |(port, weight): &(u16, u32)| format!("dubbo://h:{port}/a.B?weight={weight}");
        let urls: Vec<String> = endpoints.iter().map(url).collect();
        named(&format!("r{n}"), is_shared.then_some(*share), &urls)
    };
    registries.iter().enumerate().map(part).collect()
}

/// The first registry that lists a port, and its weight there.
fn first(parts: &[RegistryPart], port: u16) -> (&str, u32) {
    let of = |part: &RegistryPart| {
        let endpoint = part.snapshot.endpoints.iter().find(|it| it.port == port)?;
        Some(endpoint.weight)
    };
    let found = parts.iter().find_map(|part| Some((&*part.terms.name, of(part)?)));
    found.expect("somebody lists it")
}

proptest! {
    /// Nobody is lost, listed twice, or of another registry than the first; whoever had a weight
    /// keeps one, whoever had none has none, and who had more than another of the registry has no
    /// less.
    #[test]
    fn merging_loses_nothing_whatever_the_weights(
        registries in registries(1..u32::MAX / 2),
        is_shared: bool,
    ) {
        let parts = parts(&registries, is_shared);
        let found = endpoints(SeveralMode::Merged, &parts);
        let ports: Vec<u16> = found.iter().map(|it| it.port).collect();
        let mut expected: Vec<u16> =
            parts.iter().flat_map(|it| it.snapshot.endpoints.iter().map(|it| it.port)).collect();
        expected.sort_unstable();
        expected.dedup();
        prop_assert_eq!(ports, expected);
        for endpoint in &found {
            let (registry, weight) = first(&parts, endpoint.port);
            prop_assert_eq!(endpoint.registry.as_deref(), Some(registry));
            prop_assert_eq!(endpoint.weight == 0, weight == 0);
            if !is_shared {
                prop_assert_eq!(endpoint.weight, weight);
            }
            let of_same = found.iter().filter(|it| it.registry == endpoint.registry);
            for other in of_same.filter(|it| weight < first(&parts, it.port).1) {
                prop_assert!(endpoint.weight <= other.weight);
            }
        }
    }

    /// Each registry that has somebody gets its share, whatever its endpoints say.
    #[test]
    fn calls_are_shared_as_the_operator_says(registries in registries(50..200)) {
        let parts = parts(&registries, true);
        let found = endpoints(SeveralMode::Merged, &parts);
        let total = |name: &str| -> f64 {
            let of = found.iter().filter(|it| it.registry.as_deref() == Some(name));
            of.map(|it| f64::from(it.weight)).sum()
        };
        let serving: Vec<&RegistryPart> =
            parts.iter().filter(|it| 0.0 < total(&it.terms.name)).collect();
        let shares: f64 = serving.iter().map(|it| f64::from(it.terms.share.unwrap())).sum();
        let weights: f64 = serving.iter().map(|it| total(&it.terms.name)).sum();
        for part in serving {
            let wanted = f64::from(part.terms.share.unwrap()) / shares;
            let dealt = total(&part.terms.name) / weights;
            prop_assert!((wanted - dealt).abs() <= 0.01, "{wanted} {dealt} {found:?}");
        }
    }

    /// One registry at a time, the first that has anybody.
    #[test]
    fn failing_over_uses_the_first_that_has_anybody(registries in registries(1..200)) {
        let parts = parts(&registries, false);
        let found = endpoints(SeveralMode::Failover, &parts);
        let first = parts.iter().find(|part| !part.snapshot.endpoints.is_empty());
        let expected = first.map_or(0, |part| part.snapshot.endpoints.len());
        prop_assert_eq!(found.len(), expected);
        let name = first.map(|part| Arc::clone(&part.terms.name));
        prop_assert!(found.iter().all(|it| it.registry == name));
    }
}

/// Who asks hears why no registry tells the list, and that nobody knows it.
#[test]
fn refusals_are_told_when_nothing_else_is() {
    let refused = |is_given_up| {
        let unused = Unused {
            what: "the list".to_owned(),
            address: None,
            reason: NotUsed::Unreadable("NoAuth".to_owned()),
        };
        let mut part = RegistryPart { is_given_up, ..part(Freshness::Pending, &[]) };
        part.snapshot.unused = [unused].into();
        part
    };
    for mode in [SeveralMode::Merged, SeveralMode::Failover] {
        let combine = |parts: &[RegistryPart]| combine(&wanted("", ""), mode, parts);
        assert_eq!(combine(&[refused(true), refused(false)]), None, "the second may still tell");
        let known = combine(&[refused(true), given_up()]).unwrap();
        assert_eq!(known.status, Freshness::Pending);
        let [Item { read: Ok(Some(Entry::Leftover(leftover))), .. }] = &known.items[..] else {
            panic!("{known:?}");
        };
        assert_eq!(leftover.unused.to_string(), "the list in registry \"main\" (NoAuth)");
        // One that tells its list is enough for it to be used.
        let known = combine(&[refused(true), part(Freshness::Current, &[NEW])]).unwrap();
        assert_eq!((known.status, known.items.len()), (Freshness::Stale, 2));
    }
}
