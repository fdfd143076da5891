//! The names of the applications that offer an interface: one text, names separated by commas.

use std::collections::BTreeSet;

use super::is_application;

/// The most applications of one interface.
pub const MAX_APPLICATIONS: usize = 64;

/// The applications in the text, in their order, each once. What is no name is left out, and so
/// is what comes after [`MAX_APPLICATIONS`].
#[must_use]
pub fn applications(text: &str) -> BTreeSet<String> {
    let names = text.split(',').map(str::trim).filter(|name| is_application(name));
    names.take(MAX_APPLICATIONS).map(str::to_owned).collect()
}

/// The text with one application more; `None` if it is there already.
#[must_use]
pub fn add_application(text: &str, name: &str) -> Option<String> {
    if text.split(',').any(|known| known.trim() == name) {
        return None;
    }
    Some(if text.trim().is_empty() { name.to_owned() } else { format!("{text},{name}") })
}
