//! References in JSON: `{"$ref":"$.orders[0]"}` names an array or object that began before.
//!
//! Only where they were asked for: to everybody else that is an object like any other.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::json::{JsonError, JsonKind, JsonReader};

/// Whether the value that comes next is an object that has the form of a reference. The reader
/// stays.
///
/// # Errors
/// [`JsonError`] if nothing comes.
pub fn is_ref(json: &JsonReader<'_>) -> Result<bool, JsonError> {
    let mut ahead = json.scan();
    if ahead.peek()? != JsonKind::Object {
        return Ok(false);
    }
    let mut object = ahead.begin_object()?;
    let first = ahead.next_raw_key(&mut object)?;
    Ok(first.is_some_and(|(key, _)| key == "$ref") && ahead.peek()? == JsonKind::String)
}

/// One step down from an array or object.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum PathStep<'a> {
    Index(u32),
    Key(Cow<'a, str>),
}

/// The arrays and objects that were begun so far, by their paths.
#[derive(Debug)]
pub struct ReferencePaths<'a> {
    /// A place by its parent and the step from there.
    children: HashMap<(usize, PathStep<'a>), usize>,
    /// The number in the message, by place.
    numbers: Vec<u32>,
    /// The places that are being written, the innermost last.
    open: Vec<usize>,
    step: PathStep<'a>,
}

impl Default for ReferencePaths<'_> {
    fn default() -> Self {
        let (children, numbers, open) = (HashMap::new(), Vec::new(), Vec::new());
        Self { children, numbers, open, step: PathStep::Index(0) }
    }
}

impl<'a> ReferencePaths<'a> {
    /// The next value is the element with this index.
    pub fn at_index(&mut self, index: usize) {
        self.step = PathStep::Index(u32::try_from(index).unwrap_or(u32::MAX));
    }

    /// The next value is the member of this name.
    pub fn at_key(&mut self, key: Cow<'a, str>) {
        self.step = PathStep::Key(key);
    }

    /// Begins the list, map or object with this number.
    pub fn enter(&mut self, number: u32) {
        let place = self.numbers.len();
        self.numbers.push(number);
        if let Some(&parent) = self.open.last() {
            self.children.insert((parent, self.step.clone()), place);
        }
        self.open.push(place);
    }

    /// Ends the one that was begun last.
    pub fn leave(&mut self) {
        self.open.pop();
    }

    /// The number of what stands at the end of `path`.
    pub fn find(&self, path: &str) -> Option<u32> {
        let mut place = 0;
        let mut rest = path.strip_prefix('$')?;
        while !rest.is_empty() {
            let (step, after) = step(rest)?;
            place = *self.children.get(&(place, step))?;
            rest = after;
        }
        self.numbers.get(place).copied()
    }
}

/// The first step of a path, and what follows: `.name`, `[0]`, `["name"]`.
fn step(path: &str) -> Option<(PathStep<'static>, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let len = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(len)?;
        return (!name.is_empty()).then(|| (PathStep::Key(Cow::Owned(name.to_owned())), after));
    }
    let rest = path.strip_prefix('[')?;
    if rest.starts_with('"') {
        let mut reader = JsonReader::new(rest.as_bytes(), crate::Limits::default());
        let name = reader.read_string().ok()?.into_owned();
        let after = rest.get(reader.position()..)?.strip_prefix(']')?;
        return Some((PathStep::Key(Cow::Owned(name)), after));
    }
    let (index, after) = rest.split_once(']')?;
    Some((PathStep::Index(index.parse().ok()?), after))
}
