//! What several registries list of one service, as one list. Pure.
//!
//! Invariants:
//! - Nothing is shown before every registry that counts has said what it has, or is given up.
//! - A registry that says nothing takes nothing away from what the others list.
//! - An address is listed once, as the first registry that counts has it.

use dubbo_proto::ServiceKey;

use crate::config::SeveralMode;
use crate::endpoint::{Endpoint, Freshness, Level, Snapshot};
use crate::layout::Entry;
use crate::listing::{Leftover, Listing};
use crate::store::{Item, Known};

/// What one registry says of a service.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) snapshot: Snapshot,
    /// Whether nobody waits any longer for its first list.
    pub(super) is_given_up: bool,
}

impl Part {
    fn is_silent(&self) -> bool {
        self.snapshot.status == Freshness::Pending
    }
}

/// The entries that count, of registries in the order of their preference. `None` as long as that
/// cannot be said.
pub(super) fn combine(wanted: &ServiceKey, mode: SeveralMode, parts: &[Part]) -> Option<Known> {
    let asked = match mode {
        SeveralMode::Merged => parts,
        SeveralMode::Failover => {
            let first = parts.iter().position(|part| !part.snapshot.endpoints.is_empty());
            first.map_or(parts, |first| &parts[..=first])
        }
    };
    let is_awaited = |part: &Part| part.is_silent() && !part.is_given_up;
    if asked.iter().any(is_awaited) || asked.iter().all(Part::is_silent) {
        return None;
    }
    let is_current = asked.iter().all(|part| part.snapshot.status == Freshness::Current);
    // Of two with one address the last one counts, and the first registry has to.
    let entries = asked.iter().rev().flat_map(|part| entries(wanted, &part.snapshot));
    let item =
        |(n, entry): (usize, _)| Item { key: n.to_be_bytes().to_vec(), read: Ok(Some(entry)) };
    Some(Known { items: entries.enumerate().map(item).collect(), is_current })
}

fn entries<'a>(
    wanted: &'a ServiceKey,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = Entry> + use<'a> {
    let listings = snapshot.endpoints.iter().map(|endpoint| {
        let (version, group) = offered(wanted, endpoint);
        let stands_for = endpoint.params.get("for").cloned();
        let endpoint = endpoint.clone();
        Entry::Listing(Listing { version, group, endpoint, stands_for, level: Level::Interface })
    });
    let leftovers = snapshot.unused.iter().map(|unused| {
        let ServiceKey { version, group, .. } = wanted.clone();
        Entry::Leftover(Leftover { version, group, unused: unused.clone() })
    });
    listings.chain(leftovers)
}

/// The version and group under which an endpoint was found: it matches what is wanted, or it would
/// not be here.
fn offered(wanted: &ServiceKey, endpoint: &Endpoint) -> (String, String) {
    let said = |name: &str| endpoint.params.get(name).cloned().unwrap_or_default();
    let is_one = |wanted: &str| wanted != "*" && !wanted.contains(',');
    let of = |wanted: &str, name: &str| match is_one(wanted) {
        true => wanted.to_owned(),
        false => said(name),
    };
    (of(&wanted.version, "version"), of(&wanted.group, "group"))
}

#[cfg(test)]
mod tests;
