//! Where lists, maps and objects stand in the JSON text, so that references can name them.
//!
//! A place is a parent and one step. The names of steps stay in the text that is being written, of
//! which nothing is taken back but what was written last, so that a place costs no allocation.

use std::ops::Range;

use java_json::json;

/// One step down.
#[derive(Clone, Debug)]
enum PathStep {
    Root,
    Index(usize),
    /// Where the member's name stands in the output, in its quotes.
    Key(Range<usize>),
}

#[derive(Clone, Debug)]
struct WrittenValue {
    parent: usize,
    step: PathStep,
}

/// The places of what was written so far.
#[derive(Debug)]
pub(super) struct Paths {
    places: Vec<WrittenValue>,
    /// By the number of the list, map or object in the message: its place.
    by_ref: Vec<Option<usize>>,
    /// The places that are being written, the innermost last.
    open: Vec<usize>,
    step: PathStep,
}

impl Default for Paths {
    fn default() -> Self {
        Self { places: Vec::new(), by_ref: Vec::new(), open: Vec::new(), step: PathStep::Root }
    }
}

impl Paths {
    /// The next value is the element with this index.
    pub(super) fn at_index(&mut self, index: usize) {
        self.step = PathStep::Index(index);
    }

    /// The next value is the member whose name stands there in the output.
    pub(super) fn at_key(&mut self, key: Range<usize>) {
        self.step = PathStep::Key(key);
    }

    /// Begins the list, map or object with this number.
    pub(super) fn enter(&mut self, index: Option<usize>) {
        let place = self.places.len();
        let parent = self.open.last().copied().unwrap_or_default();
        self.places.push(WrittenValue { parent, step: self.step.clone() });
        self.open.push(place);
        let Some(index) = index else { return };
        if self.by_ref.len() <= index {
            self.by_ref.resize(index + 1, None);
        }
        if let Some(slot) = self.by_ref.get_mut(index) {
            // What is repeated stands at the first place still.
            slot.get_or_insert(place);
        }
    }

    pub(super) fn leave(&mut self) {
        self.open.pop();
    }

    /// Appends `{"$ref":"$.a.b[0]"}` for the value with this number. Nothing if it has no place.
    pub(super) fn write_ref(&self, index: usize, out: &mut Vec<u8>) -> bool {
        let Some(mut place) = self.by_ref.get(index).copied().flatten() else {
            return false;
        };
        let mut steps = Vec::new();
        while let Some(WrittenValue { parent, step }) = self.places.get(place) {
            if matches!(step, PathStep::Root) {
                break;
            }
            steps.push(step);
            place = *parent;
        }
        let mut path = vec![b'$'];
        for step in steps.into_iter().rev() {
            match step {
                PathStep::Root => {}
                PathStep::Index(index) => path.extend_from_slice(format!("[{index}]").as_bytes()),
                PathStep::Key(range) => {
                    write_step(out.get(range.clone()).unwrap_or_default(), &mut path);
                }
            }
        }
        out.extend_from_slice(b"{\"$ref\":");
        json::write_string(out, &String::from_utf8_lossy(&path));
        out.push(b'}');
        true
    }
}

/// `.name` for what looks like a name in a program, and `["name"]` for the rest.
fn write_step(quoted: &[u8], path: &mut Vec<u8>) {
    let name = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'$';
    if !name.is_empty() && name.iter().all(is_word) {
        path.push(b'.');
        path.extend_from_slice(name);
    } else {
        path.push(b'[');
        path.extend_from_slice(quoted);
        path.push(b']');
    }
}
