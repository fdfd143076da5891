//! The names of the applications that offer an interface: one text, names separated by commas.

use std::collections::BTreeSet;

use super::is_application;

/// The most applications of one interface.
pub const MAX_APPLICATIONS: usize = 64;

/// The applications in the text, each once: the first [`MAX_APPLICATIONS`] in the order of their
/// names. What is no name is left out.
#[must_use]
pub fn applications(text: &str) -> BTreeSet<String> {
    applications_in_turn(text, None, |_| false).names
}

/// The applications of a text that have their turn, where there are too many.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ApplicationsInTurn {
    /// Their names, at most [`MAX_APPLICATIONS`].
    pub names: BTreeSet<String>,
    /// Whether the text has more.
    pub is_cut: bool,
    /// The one after which the next turn begins.
    pub last: Option<String>,
    /// Whether each name had its turn since they began in front.
    pub is_round_over: bool,
}

/// The applications in the text that are in use, and as many others as there is room for: those
/// that follow `after` in the order of names, and then those in front. A list that grows without
/// end takes none away that is in use, and hides none for ever.
#[must_use]
pub fn applications_in_turn(
    text: &str,
    after: Option<&str>,
    is_used: impl Fn(&str) -> bool,
) -> ApplicationsInTurn {
    let (mut used, mut ahead, mut in_front) =
        (FirstNames::default(), FirstNames::default(), FirstNames::default());
    for name in text.split(',').map(str::trim).filter(|name| is_application(name)) {
        let first = match after {
            _ if is_used(name) => &mut used,
            Some(after) if name <= after => &mut in_front,
            _ => &mut ahead,
        };
        first.add(name);
    }
    let mut names = used.names;
    let (n_ahead, n_in_front) = (ahead.names.len(), in_front.names.len());
    let room = MAX_APPLICATIONS - names.len();
    let is_round_over = room == 0 || (n_ahead <= room && !ahead.is_cut);
    let is_cut = used.is_cut || ahead.is_cut || in_front.is_cut || room < n_ahead + n_in_front;
    let others: Vec<_> = ahead.names.into_iter().chain(in_front.names).take(room).collect();
    let last = others.last().map(|name| (*name).to_owned());
    names.extend(others);
    let names = names.into_iter().map(str::to_owned).collect();
    ApplicationsInTurn { names, is_cut, last, is_round_over }
}

/// The first names of many.
#[derive(Default)]
struct FirstNames<'a> {
    names: BTreeSet<&'a str>,
    is_cut: bool,
}

impl<'a> FirstNames<'a> {
    fn add(&mut self, name: &'a str) {
        self.names.insert(name);
        if MAX_APPLICATIONS < self.names.len() {
            self.names.pop_last();
            self.is_cut = true;
        }
    }
}

/// The text with one application more; `None` if it is there already.
#[must_use]
pub fn add_application(text: &str, name: &str) -> Option<String> {
    if text.split(',').any(|known| known.trim() == name) {
        return None;
    }
    Some(if text.trim().is_empty() { name.to_owned() } else { format!("{text},{name}") })
}
