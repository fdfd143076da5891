//! The names of the applications that offer an interface: one text, names separated by commas.

use std::collections::BTreeSet;

use super::is_application;

/// The most applications of one interface.
pub const MAX_APPLICATIONS: usize = 64;

/// The applications in the text, each once. What is no name is left out, and so is what comes
/// after [`MAX_APPLICATIONS`].
#[must_use]
pub fn applications(text: &str) -> BTreeSet<String> {
    applications_beside(text, |_| false).names
}

/// Some applications of a text.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SomeApplications {
    /// Their names.
    pub names: BTreeSet<String>,
    /// Whether there are more.
    pub is_cut: bool,
}

/// The same, where those that `is_known` come before others: a list that grows without end takes
/// none away that is in use.
#[must_use]
pub fn applications_beside(text: &str, is_known: impl Fn(&str) -> bool) -> SomeApplications {
    let mut some = SomeApplications::default();
    for is_wanted in [true, false] {
        let names = text.split(',').map(str::trim).filter(|name| is_application(name));
        for name in names.filter(|name| is_known(name) == is_wanted) {
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
