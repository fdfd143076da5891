//! The keys of a map that is written with the classes of objects, so that it can be sent in again.
//!
//! In JSON keys are texts, and a member `class` names a class. A map whose keys are no texts, or
//! that has an entry named `class`, is written into an object that says of which types its keys
//! are: `{"class":"java.util.HashMap<java.lang.Integer, java.lang.Object>","value":{"1":"a"}}`.

use crate::builtin::Builtin;
use crate::json;

/// What was seen of a map's keys so far.
#[derive(Debug, Default)]
pub struct Keys {
    /// The class of all of them.
    class: Option<Box<str>>,
    /// Whether they are of several classes, or of one whose values have no text.
    are_mixed: bool,
    /// Whether one is the text `class`, and its value a text.
    has_class: bool,
    /// Whether that names the class of an object, which the map stands for.
    are_fields: bool,
}

impl Keys {
    /// Of a map that stands for an object if it has an entry `class`, or for itself all the same.
    #[must_use]
    pub fn new(are_fields: bool) -> Self {
        Self { are_fields, ..Self::default() }
    }

    /// Takes in an entry, which is `text` in JSON. `class` is that of its key; nothing if no text
    /// stands for the key.
    pub fn add(&mut self, class: Option<&str>, text: &[u8]) {
        self.has_class |= !self.are_fields && text.starts_with(b"\"class\":\"");
        match (class, &self.class) {
            (Some(class), Some(known)) => self.are_mixed |= *class != **known,
            (Some(class), None) => self.class = Some(class.into()),
            (None, _) => self.are_mixed = true,
        }
    }

    /// Puts the entries of a map of class `ty`, which stand behind `entries` and before the brace
    /// at the end of `out`, into an object that names the class of its keys, if it has to be
    /// named. The map begins at `start`.
    pub fn tell(&self, ty: Option<&str>, out: &mut Vec<u8>, start: usize, entries: usize) {
        let is_plain = self.class.as_deref() == Some("java.lang.String") && !self.has_class;
        let map = ty.unwrap_or("java.util.HashMap");
        let Some(key) = self.class.as_deref().filter(|_| !self.are_mixed && !is_plain) else {
            return;
        };
        if Builtin::of_declared(map) != Some(Builtin::Map) {
            return;
        }
        let mut head = b"{\"class\":".to_vec();
        json::write_string(&mut head, &format!("{map}<{key}, java.lang.Object>"));
        head.extend_from_slice(b",\"value\":{");
        // The name of the map's class stood before, and a comma after it.
        let first = entries + usize::from(out.get(entries) == Some(&b','));
        out.splice(start..first, head);
        out.push(b'}');
    }
}
