//! References: `$.orders[2].buyer`, the path of a value from the first one of the message.
//!
//! Java never writes the number of a value, only its path. At the first reference the message is
//! walked through once, and the place of every list, map and object is noted under its path.

use std::borrow::Cow;
use std::collections::HashMap;

use hessian::json;
use hessian::transcode::RefStyle;

use super::{Hint, Writer};
use crate::Decoder;
use crate::error::{JsonbError, Rule};
use crate::tag;

/// The value that holds the reference.
const PARENT: &str = "..";
/// The path of the reference before this one, once more.
const AGAIN: &str = "#-1";

/// A list, map or object, by its number in the order of the message.
type Node = usize;

/// Where references lead.
pub(super) struct References {
    /// Where each list, map and object begins, and what step leads there from which other.
    starts: Vec<(usize, Option<(Node, Step)>)>,
    children: HashMap<(Node, Step), Node>,
    /// Where each reference stands, in order, and its path.
    paths: Vec<(usize, Box<str>, Option<Node>)>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Step {
    Index(usize),
    Name(Box<str>),
}

impl Writer<'_, '_, '_> {
    /// The value that a reference names, once more.
    pub(super) fn reference(&mut self) -> Result<(), JsonbError> {
        let offset = self.dec.position();
        let broken = JsonbError::Broken { offset, rule: Rule::Reference };
        if self.references.is_none() {
            self.references = Some(References::of(self.dec)?);
        }
        let references = self.references.as_ref();
        let target = references.and_then(|references| references.target(offset));
        self.dec.skip_value()?;
        match target {
            None => Err(broken),
            Some((_, path)) if self.opts.refs == RefStyle::Path => {
                self.out.extend_from_slice(b"{\"$ref\":");
                json::write_string(self.out, &path);
                self.out.push(b'}');
                Ok(())
            }
            Some((start, _)) if self.open.contains(&start) => Err(JsonbError::Cycle { offset }),
            Some((start, _)) => {
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
    fn of(decoder: &Decoder<'_>) -> Result<Self, JsonbError> {
        let mut references =
            Self { starts: Vec::new(), children: HashMap::new(), paths: Vec::new() };
        references.walk(&mut decoder.restarted(), None)?;
        Ok(references)
    }

    /// Notes what is in the next value, which is this step of that one.
    fn walk(
        &mut self,
        decoder: &mut Decoder<'_>,
        place: Option<(Node, Step)>,
    ) -> Result<(), JsonbError> {
        let start = decoder.position();
        while decoder.peek()? == tag::TYPED {
            decoder.take()?;
            decoder.read_type()?;
        }
        match decoder.peek()? {
            tag::REFERENCE => {
                decoder.take()?;
                let path = decoder.read_text()?.to_str();
                let path = match (&*path, self.paths.last()) {
                    (AGAIN, Some((_, last, _))) => last.clone(),
                    _ => path.into(),
                };
                self.paths.push((start, path, place.map(|(parent, _)| parent)));
            }
            tag::OBJECT => {
                let node = self.add(start, place);
                decoder.enter()?;
                decoder.take()?;
                while !decoder.object_ends()? {
                    let name = key(decoder)?;
                    self.walk(decoder, Some((node, Step::Name(name.into()))))?;
                }
                decoder.leave();
            }
            tag::ARRAY_0..=tag::ARRAY => {
                let node = self.add(start, place);
                decoder.enter()?;
                for index in 0..decoder.array()? {
                    self.walk(decoder, Some((node, Step::Index(index))))?;
                }
                decoder.leave();
            }
            _ => decoder.skip_value()?,
        }
        Ok(())
    }

    fn add(&mut self, start: usize, place: Option<(Node, Step)>) -> Node {
        let node = self.starts.len();
        self.starts.push((start, place.clone()));
        if let Some(place) = place {
            self.children.insert(place, node);
        }
        node
    }

    /// Where the value begins that the reference at `offset` names, and its path.
    fn target(&self, offset: usize) -> Option<(usize, String)> {
        let index = self.paths.binary_search_by_key(&offset, |(at, ..)| *at).ok()?;
        let (_, path, parent) = self.paths.get(index)?;
        let mut node = 0;
        if &**path == PARENT {
            node = (*parent)?;
        } else {
            let mut rest = path.strip_prefix('$')?;
            while !rest.is_empty() {
                let (step, after) = step(rest)?;
                node = *self.children.get(&(node, step))?;
                rest = after;
            }
        }
        let (start, _) = self.starts.get(node)?;
        Some((*start, self.path(node)))
    }

    /// The path of a value as JSON callers write it: `$.a[0]["odd name"]`.
    fn path(&self, mut node: Node) -> String {
        let mut steps = Vec::new();
        while let Some((_, Some((parent, step)))) = self.starts.get(node) {
            steps.push(step);
            node = *parent;
        }
        let mut path = "$".to_owned();
        for step in steps.into_iter().rev() {
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
            match step {
                Step::Index(index) => path.push_str(&format!("[{index}]")),
                Step::Name(name) if !name.is_empty() && name.chars().all(is_word) => {
                    path.push('.');
                    path.push_str(name);
                }
                Step::Name(name) => {
                    let mut quoted = Vec::new();
                    json::write_string(&mut quoted, name);
                    path.push_str(&format!("[{}]", String::from_utf8_lossy(&quoted)));
                }
            }
        }
        path
    }
}

/// The name that a map's key has in paths.
fn key<'a>(decoder: &mut Decoder<'a>) -> Result<Cow<'a, str>, JsonbError> {
    let found = decoder.peek()?;
    if tag::is_text(found) || found == tag::SYMBOL {
        return Ok(decoder.read_text()?.to_str());
    }
    if tag::is_int(found) || (tag::INT_16..=tag::LONG_NUM_LAST).contains(&found) {
        return Ok(Cow::Owned(decoder.long()?.to_string()));
    }
    decoder.skip_value()?;
    Ok(Cow::Borrowed(""))
}

/// The first step of a path, and the rest: `[2]`, or `.name` with backslashes before signs.
fn step(path: &str) -> Option<(Step, &str)> {
    if let Some(rest) = path.strip_prefix('[') {
        let (index, rest) = rest.split_once(']')?;
        return Some((Step::Index(index.parse().ok()?), rest));
    }
    let rest = path.strip_prefix('.')?;
    let mut name = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '.' | '[' => return Some((Step::Name(name.into()), rest.get(at..)?)),
            '\\' => name.push(chars.next()?.1),
            c => name.push(c),
        }
    }
    Some((Step::Name(name.into()), ""))
}
