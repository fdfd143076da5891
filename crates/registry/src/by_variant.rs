//! The entries of one interface by version and group: who wants one of these finds it without a
//! look at all others. Pure.
//!
//! Invariants:
//! - A clone shares the entries.
//! - What is chosen comes in the order in which the entries were given.

use std::collections::BTreeSet;
use std::sync::Arc;

use dubbo_proto::ServiceKey;

use crate::layout::Entry;
use crate::listing::{ANY, is_match};
use crate::missing::{MAX_OTHERS, is_told};

/// The entries of one interface.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ByVariant(Arc<[OrderedEntry]>);

/// An entry, and its place among all that were given.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct OrderedEntry {
    pub(crate) place: usize,
    pub(crate) entry: Entry,
}

impl FromIterator<Entry> for ByVariant {
    fn from_iter<I: IntoIterator<Item = Entry>>(entries: I) -> Self {
        let ordered = entries.into_iter().enumerate();
        Self::sorted(ordered.map(|(place, entry)| OrderedEntry { place, entry }).collect())
    }
}

impl ByVariant {
    fn sorted(mut entries: Vec<OrderedEntry>) -> Self {
        entries.sort_by(|one, other| one.entry.variant().cmp(&other.entry.variant()));
        Self(entries.into())
    }

    /// The same with one more entry, the last one.
    pub(crate) fn with(&self, entry: Entry) -> Self {
        let last = OrderedEntry { place: self.0.len(), entry };
        Self::sorted(self.0.iter().cloned().chain([last]).collect())
    }

    /// All entries, by version and group.
    pub(crate) fn all(&self) -> impl Iterator<Item = &OrderedEntry> {
        self.0.iter()
    }

    /// What a subscriber of `wanted` may use, or is told of.
    pub(crate) fn of(&self, wanted: &ServiceKey) -> Vec<&OrderedEntry> {
        let mut chosen: Vec<_> = match wanted.version == ANY || wanted.group == ANY {
            true => self.all().filter(|it| it.is_for(wanted)).collect(),
            false => {
                let listed = wanted.group.split(',').map(str::trim);
                let groups: BTreeSet<&str> = listed.chain([&*wanted.group]).collect();
                let variants = groups.into_iter().map(|group| (group, &*wanted.version));
                let of_all = self.run((ANY, ANY)).iter().filter(|it| it.is_for(wanted));
                variants.flat_map(|variant| self.run(variant)).chain(of_all).collect()
            }
        };
        chosen.sort_unstable_by_key(|it| it.place);
        chosen
    }

    /// An entry of each of the first other versions and groups, at most [`MAX_OTHERS`].
    pub(crate) fn others(&self, wanted: &ServiceKey) -> Vec<&OrderedEntry> {
        let (mut others, mut rest) = (Vec::new(), &*self.0);
        while let Some(first) = rest.first() {
            if others.len() == MAX_OTHERS {
                break;
            }
            if first.entry.other_variant(wanted).is_some_and(is_told) {
                others.push(first);
            }
            let variant = first.entry.variant();
            rest = &rest[rest.partition_point(|it| it.entry.variant() <= variant)..];
        }
        others
    }

    /// The entries of a group and version.
    fn run(&self, variant: (&str, &str)) -> &[OrderedEntry] {
        let start = self.0.partition_point(|it| it.entry.variant() < variant);
        let end = self.0.partition_point(|it| it.entry.variant() <= variant);
        &self.0[start..end]
    }
}

impl OrderedEntry {
    fn is_for(&self, wanted: &ServiceKey) -> bool {
        match &self.entry {
            Entry::Leftover(leftover) => leftover.is_for(wanted),
            Entry::Listing(listing) => listing.matches(wanted),
            Entry::Named { version, group } => is_match(wanted, version, group),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::parse_listing;
    use crate::endpoint::{NotUsed, Unused};
    use crate::listing::{Leftover, Listing};

    fn entry(port: u16, params: &str) -> Entry {
        parse_listing(&format!("dubbo://h:{port}/a.B?{params}")).unwrap().into()
    }

    fn key(version: &str, group: &str) -> ServiceKey {
        ServiceKey::new("a.B", version, group).unwrap()
    }

    fn entries() -> ByVariant {
        let unused = Unused { what: String::new(), address: None, reason: NotUsed::NoMapping };
        let any = Leftover { version: ANY.to_owned(), group: ANY.to_owned(), unused };
        let listed = [
            (9, "version=2"),
            (8, "group=g"),
            (7, ""),
            (6, "version=2"),
            (5, "group=a"),
            (4, "version=*&group=*"),
        ];
        let listed = listed.into_iter().map(|(port, params)| entry(port, params));
        listed.chain([any.into()]).collect()
    }

    /// The same as if all were looked at, and in the same order.
    #[test]
    fn what_is_chosen_is_what_matches() {
        let entries = entries();
        for (version, group) in
            [("", ""), ("2", ""), ("3", ""), ("*", ""), ("", "*"), ("*", "*"), ("", "g,a,g")]
        {
            let wanted = key(version, group);
            let mut matching: Vec<_> = entries.all().filter(|it| it.is_for(&wanted)).collect();
            matching.sort_by_key(|it| it.place);
            assert_eq!(entries.of(&wanted), matching, "{wanted}");
            assert!(!matching.is_empty(), "{wanted} is told what all are told");
        }
        assert_eq!(entries.of(&key("2", "")).len(), 3);
    }

    /// A registry that knows neither version nor group has what it lists for everybody, which is
    /// not what a provider of `*` is.
    #[test]
    fn what_is_of_all_is_chosen_for_all() {
        let Entry::Listing(listing) = entry(1, "version=*&group=*") else { panic!("a listing") };
        let of_all = Listing { is_of_all: true, ..Listing::clone(&listing) };
        let entries: ByVariant = [of_all.into()].into_iter().collect();
        for (version, group) in [("", ""), ("2", ""), ("2", "g"), ("*", "*"), ("", "a,b")] {
            let wanted = key(version, group);
            assert_eq!(entries.of(&wanted).len(), 1, "{wanted}");
            assert!(entries.others(&wanted).is_empty(), "{wanted}");
        }
    }

    #[test]
    fn a_few_others_are_told_each_once() {
        let told = |entries: &ByVariant, version| {
            let key = key(version, "");
            let others = entries.others(&key).into_iter();
            let told = others.map(|it| it.entry.other_variant(&key).unwrap());
            told.map(|(version, group)| format!("{group}/{version}")).collect::<Vec<_>>()
        };
        assert_eq!(told(&entries(), "3"), ["/", "/2", "*/*", "a/", "g/"]);
        assert_eq!(told(&entries(), "2"), ["/", "*/*", "a/", "g/"]);
        let many: ByVariant = (10..99).map(|n| entry(n, &format!("version={n}"))).collect();
        assert_eq!(told(&many, "10"), ["/11", "/12", "/13", "/14", "/15"]);
    }
}
