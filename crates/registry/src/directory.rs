//! Which services a registry holds at all, for telling names that somebody made up from those that
//! exist. Pure.
//!
//! Invariants:
//! - What [`Directory::offers`] denies is in no entry; what it grants may have gone since.
//! - It holds at most [`MAX_ENTRIES`] entries; one that is full denies nothing.

use std::collections::HashMap;

use dubbo_proto::ServiceKey;

use crate::listing::is_match;

/// More services than any estate has; with names of 100 bytes they take some 20 MB.
const MAX_ENTRIES: usize = 100_000;

/// Versions and groups of one interface that are told apart; beyond, any is taken for offered.
const MAX_VARIANTS: usize = 64;

/// Whether a service is in a registry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Presence {
    /// Somebody offers it, or did a moment ago.
    Offered,
    /// Nobody offers it.
    Absent,
    /// The registry is being asked; see [`Registry::settled`](crate::Registry::settled).
    Asking,
    /// The registry cannot tell: it is away, refuses to list its services, or holds too many.
    Unknown,
}

/// A version and a group of an interface. `None` stands for any.
pub(crate) type VariantKey = Option<(Box<str>, Box<str>)>;

/// The services that a registry holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Directory {
    variants: HashMap<Box<str>, Vec<VariantKey>>,
    n_entries: usize,
    is_full: bool,
}

impl Directory {
    /// The interfaces, in any order.
    pub(crate) fn interfaces(&self) -> Vec<String> {
        self.variants.keys().map(|name| name.as_ref().to_owned()).collect()
    }

    /// Takes note of an offer.
    pub(crate) fn add(&mut self, interface: &str, variant: VariantKey) {
        if self.is_full {
            return;
        }
        let known = match self.variants.get_mut(interface) {
            Some(known) => known,
            None => self.variants.entry(interface.into()).or_default(),
        };
        if known.contains(&None) || known.contains(&variant) {
            return;
        }
        if known.len() == MAX_VARIANTS || variant.is_none() {
            self.n_entries -= known.len();
            *known = vec![None];
        } else {
            known.push(variant);
        }
        self.n_entries += 1;
        if MAX_ENTRIES < self.n_entries {
            *self = Self::full();
        }
    }

    /// Whether a subscriber of `wanted` may find something.
    pub(crate) fn offers(&self, wanted: &ServiceKey) -> bool {
        let fits = |variant: &VariantKey| match variant {
            Some((version, group)) => is_match(wanted, version, group),
            None => true,
        };
        self.is_full || self.variants.get(&*wanted.interface).is_some_and(|it| it.iter().any(fits))
    }

    /// One that denies nothing.
    pub(crate) fn full() -> Self {
        Self { is_full: true, ..Self::default() }
    }

    /// Whether it denies nothing, because there is too much to know.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> ServiceKey {
        text.parse().unwrap()
    }

    fn variant(version: &str, group: &str) -> VariantKey {
        Some((version.into(), group.into()))
    }

    #[test]
    fn tells_what_is_there_from_what_is_not() {
        let mut directory = Directory::default();
        directory.add("a.B", variant("1.0", "g"));
        directory.add("a.B", variant("1.0", "g"));
        directory.add("a.C", None);
        for (wanted, expected) in [
            ("g/a.B:1.0", true),
            ("*/a.B:*", true),
            ("x,g/a.B:1.0", true),
            ("a.B:1.0", false),
            ("g/a.B:2.0", false),
            ("a.B2", false),
            ("any/a.C:7", true),
        ] {
            assert_eq!(directory.offers(&key(wanted)), expected, "{wanted}");
        }
        assert_eq!(directory.n_entries, 2);
    }

    #[test]
    fn is_bounded() {
        let mut directory = Directory::default();
        for n in 0..MAX_VARIANTS {
            directory.add("a.B", variant(&n.to_string(), ""));
        }
        assert!(!directory.offers(&key("a.B:x")));
        directory.add("a.B", variant("one more", ""));
        assert!(directory.offers(&key("a.B:x")), "too many to tell apart");
        assert_eq!((directory.n_entries, directory.variants["a.B"].len()), (1, 1));
        for n in 0..MAX_ENTRIES {
            directory.add(&format!("n.S{n}"), variant("", ""));
        }
        assert!(directory.is_full() && directory.offers(&key("never.Heard")));
        assert!(directory.variants.is_empty(), "it takes no memory any more");
    }
}
