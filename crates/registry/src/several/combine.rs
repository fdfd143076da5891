//! What several registries list of one service, as one list. Pure.
//!
//! Invariants:
//! - Nothing is shown before every registry that counts has said what it has, or is given up.
//! - A registry that says nothing takes nothing away from what the others list.
//! - An address is listed once, as the first registry that counts has it, and says which one it
//!   is.
//! - Shares change weights, and nothing else: an endpoint without weight stays so, and none loses
//!   all of its weight.

use std::collections::HashMap;
use std::sync::Arc;

use dubbo_proto::ServiceKey;

use crate::config::SeveralMode;
use crate::endpoint::{Endpoint, Freshness, Level, NotUsed, Snapshot, Unused};
use crate::layout::Entry;
use crate::listing::{Leftover, Listing, listed_variant, resolve};
use crate::store::{Item, Known};

/// The parameter of endpoints that says where they are.
const ZONE: &str = "zone";

/// The greatest weight after shares were dealt: the smallest ones are still exact to a percent if
/// they are a thousandth of it.
const TOP_WEIGHT: f64 = 100_000.0;

/// What the operator says of one registry.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) name: Arc<str>,
    /// How many calls its endpoints get together, in proportion to those of the others. `None`: as
    /// their weights say.
    pub(super) share: Option<u32>,
    /// Where its endpoints are that do not say it.
    pub(super) zone: Option<String>,
}

/// What one registry says of a service.
#[derive(Clone, Debug)]
pub(super) struct RegistryPart {
    pub(super) terms: Terms,
    pub(super) snapshot: Snapshot,
    /// Whether nobody waits any longer for its first list.
    pub(super) is_given_up: bool,
}

impl RegistryPart {
    fn is_silent(&self) -> bool {
        self.snapshot.status == Freshness::Pending
    }

    fn endpoints(&self) -> impl Iterator<Item = Endpoint> {
        let Terms { name, zone, .. } = &self.terms;
        self.snapshot.endpoints.iter().cloned().map(move |mut endpoint| {
            endpoint.registry = Some(Arc::clone(name));
            if let Some(zone) = zone.as_ref().filter(|_| !endpoint.params.contains(ZONE)) {
                endpoint.params = endpoint.params.with(ZONE, zone);
            }
            endpoint
        })
    }

    /// What cannot be used. What cannot even be read is shown with the registry where it is.
    fn unused(&self) -> impl Iterator<Item = Unused> {
        let name = &self.terms.name;
        self.snapshot.unused.iter().cloned().map(move |mut unused| {
            if matches!(unused.reason, NotUsed::Unreadable(_)) {
                unused.what += &format!(" in registry {name:?}");
            }
            unused
        })
    }
}

/// The entries that count, of registries in the order of their preference. `None` as long as that
/// cannot be said. If all of them refuse to tell, that is all that is known.
pub(super) fn combine(
    wanted: &ServiceKey,
    mode: SeveralMode,
    parts: &[RegistryPart],
) -> Option<Known> {
    let asked = match mode {
        SeveralMode::Merged => parts,
        SeveralMode::Failover => {
            let first = parts.iter().position(|part| !part.snapshot.endpoints.is_empty());
            first.map_or(parts, |first| &parts[..=first])
        }
    };
    let is_awaited = |part: &RegistryPart| part.is_silent() && !part.is_given_up;
    let nothing_is_said = asked.iter().all(RegistryPart::is_silent);
    let no_reason = || asked.iter().all(|part| part.snapshot.unused.is_empty());
    if asked.iter().any(is_awaited) || nothing_is_said && no_reason() {
        return None;
    }
    let is_current = asked.iter().all(|part| part.snapshot.status == Freshness::Current);
    let status = match (nothing_is_said, is_current) {
        (true, _) => Freshness::Pending,
        (false, true) => Freshness::Current,
        (false, false) => Freshness::Stale,
    };
    // Of two with one address the last one counts, and the first registry has to.
    let all = asked.iter().rev().flat_map(RegistryPart::endpoints);
    let all: Vec<Listing> = all.map(|endpoint| listing(wanted, endpoint)).collect();
    let mut endpoints = resolve(wanted, &all).to_vec();
    deal(&mut endpoints, asked);
    let listings = endpoints.into_iter().map(|it| Entry::from(listing(wanted, it)));
    let leftovers = asked.iter().flat_map(RegistryPart::unused).map(|unused| {
        let ServiceKey { version, group, .. } = wanted.clone();
        Entry::from(Leftover { version, group, unused })
    });
    let item =
        |(n, entry): (usize, _)| Item { key: n.to_be_bytes().to_vec(), read: Ok(Some(entry)) };
    let items = listings.chain(leftovers).enumerate().map(item).collect();
    Some(Known { items, status })
}

/// Gives the endpoints of each registry their share of the weight. What is in one registry alone
/// keeps its weights.
fn deal(endpoints: &mut [Endpoint], parts: &[RegistryPart]) {
    let shares: HashMap<&str, u32> =
        parts.iter().filter_map(|it| Some((&*it.terms.name, it.terms.share?))).collect();
    let mut totals = HashMap::<&str, f64>::new();
    for endpoint in endpoints.iter().filter(|endpoint| 0 < endpoint.weight) {
        let Some(registry) = &endpoint.registry else { continue };
        *totals.entry(registry).or_default() += f64::from(endpoint.weight);
    }
    if shares.is_empty() || totals.len() < 2 {
        return;
    }
    let dealt = |endpoint: &Endpoint| {
        let registry = endpoint.registry.as_deref()?;
        let (share, total) = (shares.get(registry)?, totals.get(registry)?);
        Some(f64::from(endpoint.weight) * f64::from(*share) / total)
    };
    let dealt: Vec<Option<f64>> = endpoints.iter().map(dealt).collect();
    let top = dealt.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
    for (endpoint, dealt) in endpoints.iter_mut().zip(dealt) {
        if let Some(dealt) = dealt.filter(|_| 0 < endpoint.weight) {
            endpoint.weight = weight(dealt / top);
        }
    }
}

/// The weight of a part of the top weight, which is above 0 and at most 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
fn weight(part: f64) -> u32 {
    (part * TOP_WEIGHT).round().clamp(1.0, TOP_WEIGHT) as u32
}

/// The endpoint as it was found: it matches what is wanted, or it would not be here.
fn listing(wanted: &ServiceKey, endpoint: Endpoint) -> Listing {
    let variant = listed_variant(wanted, &endpoint);
    let ServiceKey { version, group, .. } = variant.unwrap_or_else(|| wanted.clone());
    let stands_for = endpoint.params.get("for").map(str::to_owned);
    Listing { version, group, is_of_all: false, endpoint, stands_for, level: Level::Interface }
}

#[cfg(test)]
mod tests;
