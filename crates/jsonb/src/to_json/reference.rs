//! References: `$.orders[2].buyer`, the path of a value from the first one of the message.
//!
//! Java never writes the number of a value, only its path. At the first reference the message is
//! walked through once, and the place of every list, map and object is noted under its path.
//!
//! fastjson2 2.0.56 cannot write every key into a path: it writes `??` for some characters beyond
//! U+FFFF, and U+FFFD twice for a NUL. Java finds nothing there, and reads null. Here such a step
//! means the key that it fits, if it is the only one.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use java_json::RefStyle;
use java_json::json;

use super::{Hint, JsonbToJson};
use crate::Decoder;
use crate::error::{JsonbError, Rule};
use crate::{names, tag};

/// The value that holds the reference.
const PARENT: &str = "..";
/// The path of the reference before this one, once more.
const AGAIN: &str = "#-1";

/// The names that are noted may take so many times what the message takes: two bytes stand for a
/// name that was there before.
const MAX_TIMES: usize = 16;
/// Or as much as this.
const ALWAYS_LEN: usize = 1 << 20;
/// So many keys of a message are compared with steps that have lost characters; a path with more
/// of them leads nowhere.
const MAX_COMPARED: usize = 1 << 20;

/// A list, map or object, by its number in the order of the message.
type Node = usize;

/// Where references lead.
#[derive(Default)]
pub(super) struct References {
    /// Each list, map and object, and the other values that references may name.
    places: Vec<FoundValue>,
    children: HashMap<(Node, PathStep), Node>,
    /// Where each reference stands, in order.
    references: Vec<Reference>,
    /// Their paths, each once for all references that repeat it, and where it leads once all is
    /// known.
    paths: Vec<(Box<str>, Option<Node>)>,
    /// Steps to values that are no list, map or object, and have places all the same.
    to_leaves: HashSet<PathStep>,
    /// How much room for names is left. A name that stands in the message once may be meant any
    /// number of times.
    room: usize,
    /// How many keys were compared with steps that have lost characters.
    n_compared: usize,
}

/// A reference.
struct Reference {
    offset: usize,
    /// The number of its path.
    path: usize,
    /// The value that it is in.
    parent: Option<Node>,
}

/// Where a value begins, and what step leads there from which other.
struct FoundValue {
    start: usize,
    from: Option<(Node, PathStep)>,
    is_leaf: bool,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum PathStep {
    Index(usize),
    Name(Rc<str>),
}

impl JsonbToJson<'_, '_, '_> {
    /// The value that a reference names, once more.
    pub(super) fn reference(&mut self) -> Result<(), JsonbError> {
        let offset = self.dec.position();
        let broken = JsonbError::Broken { offset, rule: Rule::Reference };
        if self.references.is_none() {
            self.references = Some(References::of(self.dec, self.opts.max_out_len)?);
        }
        let references = self.references.as_ref();
        let target = references.and_then(|known| Some((known, known.target(offset)?)));
        let place = target.and_then(|(known, node)| known.places.get(node));
        self.dec.skip_value()?;
        match place {
            None => Err(broken),
            // What is no array or object in JSON is repeated.
            Some(place) if self.opts.refs == RefStyle::Path && !place.is_leaf => {
                let path = target.map(|(known, node)| known.path(node)).unwrap_or_default();
                self.out.extend_from_slice(b"{\"$ref\":");
                json::write_string(self.out, &path);
                self.out.push(b'}');
                Ok(())
            }
            Some(FoundValue { start, .. }) if self.open.contains(start) => {
                Err(JsonbError::Cycle { offset })
            }
            Some(&FoundValue { start, .. }) => {
                let back = self.dec.jump(start);
                self.dec.enter()?;
                self.value(Hint::Nothing)?;
                self.dec.leave();
                self.dec.jump(back);
                Ok(())
            }
        }
    }
}

impl References {
    /// The names that are noted take no more than a text of `max_len` bytes, which would hold them
    /// all, and no more than so many times what the message has; or they take what it has.
    fn of(decoder: &Decoder<'_>, max_len: usize) -> Result<Self, JsonbError> {
        let mut decoder = decoder.restarted();
        let len = decoder.rest().len();
        let by_symbols = len.saturating_mul(MAX_TIMES).max(ALWAYS_LEN);
        let room = max_len.min(by_symbols).max(len);
        let mut references = Self { room, ..Self::default() };
        references.walk(&mut decoder, None, room)?;
        references.follow();
        // fastjson2 refers to enums with bodies and a few other classes that are texts or numbers
        // in JSONB. There are so many of these that only those are noted which a reference may
        // mean.
        let to_leaves = references.steps_to_leaves();
        if to_leaves.is_empty() {
            return Ok(references);
        }
        let mut references = Self { to_leaves, room, ..Self::default() };
        references.walk(&mut decoder.restarted(), None, room)?;
        references.follow();
        Ok(references)
    }

    /// Finds where the paths lead.
    fn follow(&mut self) {
        let mut paths = std::mem::take(&mut self.paths);
        for (path, node) in &mut paths {
            *node = self.node(path);
        }
        self.paths = paths;
    }

    /// The last steps of the references that lead to no list, map or object.
    fn steps_to_leaves(&self) -> HashSet<PathStep> {
        let mut steps = HashSet::new();
        for (path, node) in &self.paths {
            if node.is_none() {
                let mut rest = path.strip_prefix('$').unwrap_or_default();
                let mut last = None;
                while let Some((found, after)) = step(rest) {
                    (last, rest) = (Some(found), after);
                }
                steps.extend(last);
            }
        }
        steps
    }

    /// Notes what is in the next value, which is this step of that one.
    fn walk(
        &mut self,
        decoder: &mut Decoder<'_>,
        from: Option<(Node, PathStep)>,
        max: usize,
    ) -> Result<(), JsonbError> {
        let start = decoder.position();
        let mut is_leaf = false;
        while decoder.peek()? == tag::TYPED {
            decoder.take()?;
            is_leaf |= is_leaf_in_json(&names::full(&decoder.read_type()?.to_str()));
        }
        match decoder.peek()? {
            tag::REFERENCE => {
                decoder.take()?;
                let path = self.name(decoder, max)?;
                if &*path != AGAIN || self.paths.is_empty() {
                    self.paths.push((path.into(), None));
                }
                let path = self.paths.len() - 1;
                let parent = from.map(|(parent, _)| parent);
                self.references.push(Reference { offset: start, path, parent });
            }
            tag::OBJECT => {
                let node = self.add(start, from, is_leaf);
                decoder.enter()?;
                decoder.take()?;
                while !decoder.object_ends()? {
                    let name = self.key(decoder, max)?;
                    self.walk(decoder, Some((node, PathStep::Name(name.into()))), max)?;
                }
                decoder.leave();
            }
            tag::ARRAY_0..=tag::ARRAY => {
                let node = self.add(start, from, false);
                decoder.enter()?;
                for index in 0..decoder.array()? {
                    self.walk(decoder, Some((node, PathStep::Index(index))), max)?;
                }
                decoder.leave();
            }
            _ => {
                decoder.skip_value()?;
                if from.as_ref().is_some_and(|(_, step)| self.to_leaves.contains(step)) {
                    self.add(start, from, true);
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, start: usize, from: Option<(Node, PathStep)>, is_leaf: bool) -> Node {
        let node = self.places.len();
        self.places.push(FoundValue { start, from: from.clone(), is_leaf });
        if let Some(from) = from {
            self.children.insert(from, node);
        }
        node
    }

    /// The name that a map's key has in paths.
    fn key<'a>(
        &mut self,
        decoder: &mut Decoder<'a>,
        max: usize,
    ) -> Result<Cow<'a, str>, JsonbError> {
        let found = decoder.peek()?;
        if tag::is_text(found) || found == tag::SYMBOL {
            return self.name(decoder, max);
        }
        if tag::is_int(found) || (tag::INT_16..=tag::LONG_NUM_LAST).contains(&found) {
            return Ok(Cow::Owned(decoder.long()?.to_string()));
        }
        decoder.skip_value()?;
        Ok(Cow::Borrowed(""))
    }

    fn name<'a>(
        &mut self,
        decoder: &mut Decoder<'a>,
        max: usize,
    ) -> Result<Cow<'a, str>, JsonbError> {
        let offset = decoder.position();
        let text = decoder.read_text()?;
        let left = self.room.checked_sub(text.n_bytes());
        self.room = left.ok_or(JsonbError::OutputLen { offset, max })?;
        Ok(text.to_str())
    }

    /// The value that the reference at `offset` names.
    fn target(&self, offset: usize) -> Option<Node> {
        let by_offset = |reference: &Reference| reference.offset;
        let index = self.references.binary_search_by_key(&offset, by_offset).ok()?;
        let reference = self.references.get(index)?;
        let (path, node) = self.paths.get(reference.path)?;
        if &**path == PARENT { reference.parent } else { *node }
    }

    /// What a path from the first value names.
    fn node(&mut self, path: &str) -> Option<Node> {
        let (mut node, mut rest) = (0, path.strip_prefix('$')?);
        while !rest.is_empty() {
            let (step, after) = step(rest)?;
            let written = rest.strip_suffix(after)?.strip_prefix('.').unwrap_or_default();
            let has_lost = written.contains(['?', char::REPLACEMENT_CHARACTER]);
            let fitting = if has_lost { self.fitting(node, written)? } else { None };
            node = match fitting {
                Some(child) => child,
                None => *self.children.get(&(node, step))?,
            };
            rest = after;
        }
        Some(node)
    }

    /// The value in `parent` whose key may have been written like this in a path, if there is one.
    /// Nothing at all if there are several, or nobody can look.
    #[cold]
    fn fitting(&mut self, parent: Node, written: &str) -> Option<Option<Node>> {
        self.n_compared = self.n_compared.saturating_add(self.children.len());
        if MAX_COMPARED < self.n_compared {
            return None;
        }
        let is_fitting = |(from, step): &(Node, PathStep)| match step {
            PathStep::Name(key) => *from == parent && may_be_written(key, written),
            PathStep::Index(_) => false,
        };
        let mut fitting = self.children.iter().filter(|(place, _)| is_fitting(place));
        let first = fitting.next().map(|(_, child)| *child);
        fitting.next().is_none().then_some(first)
    }

    /// The path of a value as JSON callers write it: `$.a[0]["odd name"]`.
    fn path(&self, mut node: Node) -> String {
        let mut steps = Vec::new();
        while let Some(FoundValue { from: Some((parent, step)), .. }) = self.places.get(node) {
            steps.push(step);
            node = *parent;
        }
        let mut path = "$".to_owned();
        for step in steps.into_iter().rev() {
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
            match step {
                PathStep::Index(index) => path.push_str(&format!("[{index}]")),
                PathStep::Name(name) if !name.is_empty() && name.chars().all(is_word) => {
                    path.push('.');
                    path.push_str(name);
                }
                PathStep::Name(name) => {
                    let mut quoted = Vec::new();
                    json::write_string(&mut quoted, name);
                    path.push_str(&format!("[{}]", String::from_utf8_lossy(&quoted)));
                }
            }
        }
        path
    }
}

/// Whether objects of a class are texts or numbers in JSON.
fn is_leaf_in_json(class: &str) -> bool {
    matches!(
        class,
        "java.time.Year"
            | "java.time.YearMonth"
            | "java.time.MonthDay"
            | "java.lang.StackTraceElement"
    )
}

/// Whether fastjson2 may have written a key like this in a path: signs with a backslash before
/// them, and some characters lost.
fn may_be_written(key: &str, written: &str) -> bool {
    let mut rest = written;
    key.chars().all(|c| {
        let mut escaped = rest.chars();
        let is_same = match escaped.next() {
            Some('\\') => escaped.next() == Some(c),
            // With a backslash it is itself.
            Some('?') => false,
            first => first == Some(c),
        };
        let lost = match c {
            '\0' => "\u{fffd}\u{fffd}",
            // Half of a character.
            char::REPLACEMENT_CHARACTER => "?",
            '\u{10000}'.. => "??",
            _ => "",
        };
        let after = match is_same {
            true => Some(escaped.as_str()),
            false => rest.strip_prefix(lost).filter(|_| !lost.is_empty()),
        };
        rest = after.unwrap_or(rest);
        after.is_some()
    }) && rest.is_empty()
}

/// The first step of a path, and the rest: `[2]`, or `.name` with backslashes before signs.
fn step(path: &str) -> Option<(PathStep, &str)> {
    if let Some(rest) = path.strip_prefix('[') {
        let (index, rest) = rest.split_once(']')?;
        return Some((PathStep::Index(index.parse().ok()?), rest));
    }
    let rest = path.strip_prefix('.')?;
    let mut name = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => return Some((PathStep::Name(name.into()), rest.get(at..)?)),
            '\\' => name.push(chars.next()?.1),
            c => name.push(c),
        }
    }
    Some((PathStep::Name(name.into()), ""))
}
