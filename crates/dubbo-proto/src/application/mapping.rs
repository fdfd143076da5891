//! The names of the applications that offer an interface: one text, names separated by commas.

use std::collections::BTreeSet;

use super::is_application;

/// The most applications of one interface.
pub const MAX_APPLICATIONS: usize = 64;

/// The applications in the text, each once. What is no name is left out, and so is what comes
/// after [`MAX_APPLICATIONS`].
#[must_use]
pub fn applications(text: &str) -> BTreeSet<String> {
    applications_beside(text, |_| Rank::Other).names
}

/// Some applications of a text.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SomeApplications {
    /// Their names.
    pub names: BTreeSet<String>,
    /// Whether there are more.
    pub is_cut: bool,
}

/// Which applications come before others where there are too many.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rank {
    /// It is in use.
    Used,
    /// Nothing is known of it.
    Other,
    /// It was looked for, and had nothing.
    Empty,
}

/// The same, by their rank: a list that grows without end takes none away that is in use.
#[must_use]
pub fn applications_beside(text: &str, rank: impl Fn(&str) -> Rank) -> SomeApplications {
    let mut some = SomeApplications::default();
    for wanted in [Rank::Used, Rank::Other, Rank::Empty] {
        let names = text.split(',').map(str::trim).filter(|name| is_application(name));
        for name in names.filter(|name| rank(name) == wanted) {
            if MAX_APPLICATIONS <= some.names.len() {
                some.is_cut |= !some.names.contains(name);
                continue;
            }
            if !some.names.contains(name) {
                some.names.insert(name.to_owned());
            }
        }
    }
    some
}

/// The text with one application more; `None` if it is there already.
#[must_use]
pub fn add_application(text: &str, name: &str) -> Option<String> {
    if text.split(',').any(|known| known.trim() == name) {
        return None;
    }
    Some(if text.trim().is_empty() { name.to_owned() } else { format!("{text},{name}") })
}
