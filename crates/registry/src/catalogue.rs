//! All that is registered, read once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::time::timeout;

use crate::application::{ApplicationLevel, ApplicationSearch, Unasked, Unlisted};
use crate::by_variant::OrderedEntry;
use crate::endpoint::{Endpoint, Level, NotUsed, Unused};
use crate::layout::Entry;
use crate::listing::{ANY, Listing};
use crate::store::{Item, Known, News, Store, StoreError};

/// How long the list of interfaces may take, and the entries of each of them.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Interfaces that are read at the same time.
const MAX_AT_ONCE: usize = 32;

/// A list that has a gap is read again this often.
const MAX_TRIES: usize = 3;

/// As much of a name that cannot be read as is shown.
const MAX_SHOWN_LEN: usize = 200;

/// All that is registered.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Catalogue {
    /// By interface, group and version.
    pub services: Vec<ListedService>,
    /// Applications that should have said which interfaces they offer, and have not: what they
    /// offer may be missing.
    pub unasked: Vec<Unasked>,
}

/// A service of one version and group, with all that is registered for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListedService {
    /// Interface, version and group.
    pub service: ServiceKey,
    /// In the order of the registry. An agent is listed beside its app.
    pub endpoints: Vec<ListedEndpoint>,
    /// What else is registered. What cannot be read is listed under no version and no group.
    pub unused: Vec<Unused>,
}

/// One registered endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListedEndpoint {
    /// As it was registered.
    pub endpoint: Endpoint,
    /// The `host:port` of its app, if this is an agent.
    pub stands_for: Option<String>,
    /// Where it was found, in order.
    pub levels: Vec<Level>,
}

pub(crate) async fn read(
    store: &dyn Store,
    level: Option<&ApplicationLevel>,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Catalogue, String> {
    let interfaces = timeout(READ_TIMEOUT, store.interfaces()).await;
    let interfaces = interfaces.map_err(|_| late(store))?;
    let mut interfaces = interfaces.map_err(|away| away.0)?;
    interfaces.extend(level.into_iter().flat_map(ApplicationLevel::provided).cloned());
    let unlisted = match level {
        Some(level) => level.unlisted().await.map_err(|away| away.0)?,
        None => Unlisted::default(),
    };
    interfaces.extend(unlisted.interfaces.iter().cloned());
    interfaces.retain(|name| is_wanted(name));
    interfaces.sort_unstable();
    interfaces.dedup();
    let reading = stream::iter(interfaces);
    let reading = reading.map(|interface: String| services_of(store, level, interface));
    let services = reading.buffered(MAX_AT_ONCE).try_collect::<Vec<_>>().await?;
    Ok(Catalogue { services: services.concat(), unasked: unlisted.unasked })
}

/// The services of one interface, from both levels.
async fn services_of(
    store: &dyn Store,
    level: Option<&ApplicationLevel>,
    interface: String,
) -> Result<Vec<ListedService>, String> {
    // What is no interface, such as `metadata` in ZooKeeper, has no entries either.
    let Ok(wanted) = ServiceKey::new(&interface, ANY, ANY) else { return Ok(Vec::new()) };
    // Both levels are read at the same time.
    let finding = level.map(|level| level.find(&wanted.interface));
    let items = timeout(READ_TIMEOUT, items(store, &wanted)).await;
    let mut items = items.map_err(|_| late(store))??;
    if let Some(finding) = finding {
        items.extend(found(finding).await);
    }
    Ok(sorted(&interface, items))
}

fn late(store: &dyn Store) -> String {
    let said = store.status().borrow().trouble().map(str::to_owned);
    said.unwrap_or_else(|| format!("no answer within {READ_TIMEOUT:?}"))
}

/// The entries of one interface.
async fn items(store: &dyn Store, wanted: &ServiceKey) -> Result<Vec<Item>, String> {
    let mut watch = store.watch(wanted);
    if let Some(known) = watch.known() {
        return Ok(known.items);
    }
    let mut reason = String::new();
    for _ in 0..MAX_TRIES {
        if !watch.ready().await {
            break;
        }
        match watch.next().await {
            Ok(News::Whole { items, .. } | News::Known(Known { items, .. })) => return Ok(items),
            // It begins with a whole list.
            Ok(News::Changes(_)) => {}
            Err(StoreError::Failed(error)) => reason = error,
            Err(StoreError::Away | StoreError::Gap | StoreError::SessionLost) => {}
        }
    }
    Err(if reason.is_empty() { late(store) } else { reason })
}

/// What is found of an interface at application level.
async fn found(finding: Arc<ApplicationSearch>) -> Vec<Item> {
    let mut found = finding.found();
    // What takes too long is said to be missing.
    let _ = timeout(READ_TIMEOUT, found.wait_for(|found| found.is_settled)).await;
    let entries = found.borrow().entries.clone();
    let item = |it: &OrderedEntry| Item { key: Vec::new(), read: Ok(Some(it.entry.clone())) };
    entries.all().map(item).collect()
}

/// Entries by version and group.
fn sorted(interface: &str, items: Vec<Item>) -> Vec<ListedService> {
    let mut services = BTreeMap::<(String, String), ListedService>::new();
    for Item { key, read } in items {
        let (version, group) = match &read {
            // What is of any version and group is listed under none.
            Ok(Some(Entry::Listing(listing))) if listing.is_of_all => ("", ""),
            Ok(Some(Entry::Listing(listing))) => (&*listing.version, &*listing.group),
            // What else may be meant is listed itself.
            Ok(Some(Entry::Leftover(leftover))) if leftover.unused.is_hint() => continue,
            Ok(Some(Entry::Leftover(leftover))) if leftover.version == ANY => ("", ""),
            Ok(Some(Entry::Leftover(leftover))) => (&*leftover.version, &*leftover.group),
            Ok(Some(Entry::Named { .. }) | None) => continue,
            Err(_) => ("", ""),
        };
        let Ok(service) = ServiceKey::new(interface, version, group) else { continue };
        let place = (service.group.clone(), service.version.clone());
        let new = || ListedService { service, endpoints: Vec::new(), unused: Vec::new() };
        let listed = services.entry(place).or_insert_with(new);
        match read {
            Ok(Some(Entry::Listing(listing))) => add(&listing, &mut listed.endpoints),
            Ok(Some(Entry::Leftover(leftover))) => listed.unused.push(leftover.unused.clone()),
            Ok(Some(Entry::Named { .. }) | None) => {}
            Err(error) => {
                let what = String::from_utf8_lossy(&key).chars().take(MAX_SHOWN_LEN).collect();
                let reason = NotUsed::Unreadable(error.to_string());
                listed.unused.push(Unused { what, address: None, reason });
            }
        }
    }
    services.into_values().collect()
}

/// Adds an endpoint; one that is listed at another level already is there once.
fn add(listing: &Listing, endpoints: &mut Vec<ListedEndpoint>) {
    let Listing { endpoint, stands_for, level, .. } = listing.clone();
    let is_same = |it: &&mut ListedEndpoint| {
        it.endpoint.key() == endpoint.key()
            && it.stands_for == stands_for
            && !it.levels.contains(&level)
    };
    match endpoints.iter_mut().find(is_same) {
        Some(known) => known.levels.push(level),
        None => endpoints.push(ListedEndpoint { endpoint, stands_for, levels: vec![level] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::parse_listing;

    #[test]
    fn what_is_of_all_versions_is_listed_by_its_interface_alone() {
        let listing = parse_listing("link://h:1/a.B").unwrap();
        let (version, group) = (ANY.to_owned(), ANY.to_owned());
        let of_all = Listing { version, group, is_of_all: true, ..listing };
        let item = Item { key: Vec::new(), read: Ok(Some(of_all.into())) };
        let services = sorted("a.B", vec![item]);
        let names: Vec<_> = services.iter().map(|it| it.service.to_string()).collect();
        assert_eq!(names, ["a.B"]);
    }
}
