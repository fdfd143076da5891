//! References in JSON: `{"$ref":"$.orders[0]"}` names an array or object that began before.
//!
//! Only where they were asked for: to everybody else that is an object like any other.

use std::borrow::Cow;
use std::collections::HashMap;

use super::{JsonKind, JsonReader, TranscodeError, Writer};

/// One step down from an array or object.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Step<'a> {
    Index(u32),
    Key(Cow<'a, str>),
}

/// The arrays and objects that were begun so far, by their paths.
#[derive(Debug)]
pub struct Places<'a> {
    /// A place by its parent and the step from there.
    children: HashMap<(usize, Step<'a>), usize>,
    /// The number in the message, by place.
    numbers: Vec<u32>,
    /// The places that are being written, the innermost last.
    open: Vec<usize>,
    step: Step<'a>,
}

impl Default for Places<'_> {
    fn default() -> Self {
        let (children, numbers, open) = (HashMap::new(), Vec::new(), Vec::new());
        Self { children, numbers, open, step: Step::Index(0) }
    }
}

impl<'a> Places<'a> {
    /// The next value is the element with this index.
    pub fn at_index(&mut self, index: usize) {
        self.step = Step::Index(u32::try_from(index).unwrap_or(u32::MAX));
    }

    /// The next value is the member of this name.
    pub fn at_key(&mut self, key: Cow<'a, str>) {
        self.step = Step::Key(key);
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
fn step(path: &str) -> Option<(Step<'static>, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let len = rest.find(['.', '[']).unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(len)?;
        return (!name.is_empty()).then(|| (Step::Key(Cow::Owned(name.to_owned())), after));
    }
    let rest = path.strip_prefix('[')?;
    if rest.starts_with('"') {
        let mut reader = JsonReader::new(rest.as_bytes(), crate::Limits::default());
        let name = reader.read_string().ok()?.into_owned();
        let after = rest.get(reader.position()..)?.strip_prefix(']')?;
        return Some((Step::Key(Cow::Owned(name)), after));
    }
    let (index, after) = rest.split_once(']')?;
    Some((Step::Index(index.parse().ok()?), after))
}

impl Writer<'_, '_, '_, '_, '_> {
    /// Begins an array or object, whose number in the message is the next.
    pub(super) fn enter(&mut self) {
        if let Some(places) = &mut self.places {
            places.enter(self.enc.ref_count());
        }
    }

    pub(super) fn leave(&mut self) {
        if let Some(places) = &mut self.places {
            places.leave();
        }
    }

    /// Whether an object with the member `$ref` comes next.
    pub(super) fn is_ref(&mut self) -> Result<bool, TranscodeError> {
        if self.json.peek()? != JsonKind::Object {
            return Ok(false);
        }
        let mut ahead = self.json.scan();
        let mut object = ahead.begin_object()?;
        let first = ahead.next_raw_key(&mut object)?;
        Ok(first.is_some_and(|(key, _)| key == "$ref") && ahead.peek()? == JsonKind::String)
    }

    /// Writes what the object with the member `$ref` names.
    pub(super) fn reference(&mut self) -> Result<(), TranscodeError> {
        let offset = self.json.position();
        let mut object = self.json.begin_object()?;
        self.json.next_key(&mut object)?;
        let path = self.json.read_string()?;
        let is_alone = self.json.next_key(&mut object)?.is_none();
        let number =
            self.places.as_ref().filter(|_| is_alone).and_then(|places| places.find(&path));
        let expected = "a reference to an array or object that began before";
        self.enc.reference(number.ok_or_else(|| self.wrong_value(offset, expected))?);
        Ok(())
    }
}
