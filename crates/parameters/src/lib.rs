//! The parameters of URLs, endpoints and instances: texts by name. No limit is known here; whoever
//! reads parameters from outside limits their number and length.
//!
//! A long list of endpoints has tens of parameters for each, which are most of its memory. A
//! map of strings takes an allocation for each text, and room for entries that it may get. Here,
//! all names and values are in one allocation, which copies share.
//!
//! Invariants:
//! - Names are sorted by their bytes, and each is there once.
//! - Parameters never change. Whoever wants other ones makes them anew.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Bytes of an offset in the table.
const OFFSET_LEN: usize = size_of::<u32>();

/// Names with their values, in the order of names. A copy costs nothing: it is the same memory.
///
/// First comes a table of offsets: where each text begins, counted from the start of the table, as
/// a `u32` in little-endian order. Then come the texts: a name, its value, the next name, and so
/// on. A text ends where the next one begins. The first one begins after the table, and so tells
/// how long that is.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Parameters(Arc<[u8]>);

impl Parameters {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n_texts() / 2
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let (mut first, mut end) = (0, self.len());
        while first < end {
            let middle = first.midpoint(end);
            match self.bytes(2 * middle).cmp(name.as_bytes()) {
                std::cmp::Ordering::Less => first = middle + 1,
                std::cmp::Ordering::Greater => end = middle,
                std::cmp::Ordering::Equal => return Some(self.text(2 * middle + 1)),
            }
        }
        None
    }

    /// Whether there is a value of a name; it may be empty.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All names with their values, in the order of names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        (0..self.len()).map(|at| (self.text(2 * at), self.text(2 * at + 1)))
    }

    /// The same, and `value` as the value of `name`.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        self.iter().chain([(name, value)]).collect()
    }

    /// The same, but for the value of `name`.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        match self.contains(name) {
            true => self.iter().filter(|(other, _)| *other != name).collect(),
            false => self.clone(),
        }
    }

    /// A map of the same, for those who change much of it.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Whether both are the same memory.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn n_texts(&self) -> usize {
        self.offset(0).unwrap_or_default() / OFFSET_LEN
    }

    /// What the table says at a place; beyond its end that is anything.
    fn offset(&self, at: usize) -> Option<usize> {
        let offset = self.0.get(at * OFFSET_LEN..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(*offset)).ok()
    }

    fn bytes(&self, at: usize) -> &[u8] {
        let end = if at + 1 < self.n_texts() { self.offset(at + 1) } else { Some(self.0.len()) };
        let text = self.offset(at).zip(end).and_then(|(start, end)| self.0.get(start..end));
        debug_assert!(text.is_some(), "text {at} is not there");
        text.unwrap_or_default()
    }

    fn text(&self, at: usize) -> &str {
        let text = str::from_utf8(self.bytes(at));
        debug_assert!(text.is_ok(), "text {at} is cut");
        text.unwrap_or_default()
    }
}

/// Of several values of one name, the last one holds.
///
/// # Panics
/// If all texts together are longer than 4 GiB.
impl<N: AsRef<str>, V: AsRef<str>> FromIterator<(N, V)> for Parameters {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(N, V)> = pairs.into_iter().collect();
        // Pairs of one name keep their order.
        pairs.sort_by(|one, other| one.0.as_ref().cmp(other.0.as_ref()));
        pairs.dedup_by(|next, kept| {
            let is_same = next.0.as_ref() == kept.0.as_ref();
            if is_same {
                std::mem::swap(next, kept);
            }
            is_same
        });
        let texts = || pairs.iter().flat_map(|(name, value)| [name.as_ref(), value.as_ref()]);
        let table_len = 2 * pairs.len() * OFFSET_LEN;
        let len = table_len + texts().map(str::len).sum::<usize>();
        let mut packed = Vec::with_capacity(len);
        let mut offset = table_len;
        for text in texts() {
            let start = u32::try_from(offset).expect("parameters of less than 4 GiB");
            packed.extend_from_slice(&start.to_le_bytes());
            offset += text.len();
        }
        texts().for_each(|text| packed.extend_from_slice(text.as_bytes()));
        Self(packed.into())
    }
}

impl<N: AsRef<str>, V: AsRef<str>, const LEN: usize> From<[(N, V); LEN]> for Parameters {
    fn from(pairs: [(N, V); LEN]) -> Self {
        pairs.into_iter().collect()
    }
}

impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// As a map.
impl Serialize for Parameters {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

#[cfg(test)]
mod tests;
