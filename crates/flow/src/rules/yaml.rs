//! YAML as a small tree: enough for rules, within limits.
//!
//! Plain words mean what they mean to Dubbo's parser, which reads YAML 1.1: `yes` is true.
//! Of two entries of one mapping with the same key the last one counts. An alias (`*name`) is what
//! its anchor has, and counts in full for all limits. `<<` merges mappings: their entries come
//! before those of the mapping itself.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::error::{RuleError, RuleProblem};

/// The longest rule, in bytes. Rules of hundreds of addresses have some ten thousand.
const MAX_LEN: usize = 256 * 1024;
/// Lists and mappings inside each other; rules need 6.
const MAX_DEPTH: usize = 16;
/// Values of one rule, with those that aliases repeat.
const MAX_NODES: usize = 16_384;
/// Bytes of all that aliases repeat.
const MAX_REPEATED_LEN: usize = MAX_LEN;

/// A value, and where it begins.
#[derive(Clone, Debug)]
pub(super) struct YamlNode {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// As it was written.
    Number(String),
    Text(String),
    List(Vec<YamlNode>),
    Map(Vec<(String, YamlNode)>),
}

/// A list or mapping whose end is still to come.
struct OpenNode {
    node: YamlNode,
    /// The number of its anchor, which is above 0.
    anchor: usize,
    /// The key whose value comes next.
    key: Option<YamlKey>,
    /// What `<<` merges into it, in its order.
    merged: Vec<YamlNode>,
}

enum YamlKey {
    /// `<<` without quotes.
    Merge,
    Word(String),
}

/// What has an anchor, and how much that is.
struct Anchored {
    node: YamlNode,
    size: NodeSize,
}

/// How much a value is with all that is in it.
#[derive(Clone, Copy, Default)]
struct NodeSize {
    n_nodes: usize,
    len: usize,
    depth: usize,
}

impl NodeSize {
    /// Something is in it.
    fn add(&mut self, part: Self) {
        self.n_nodes += part.n_nodes;
        self.len += part.len;
        self.depth = self.depth.max(part.depth);
    }
}

/// Reads one document.
pub(super) fn parse(text: &str) -> Result<YamlNode, RuleError> {
    let start = Marker::new(0, 1, 0);
    if MAX_LEN < text.len() {
        return Err(error(&start, RuleProblem::TooLong { len: text.len(), max: MAX_LEN }));
    }
    let mut tree = YamlTree::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event
            .map_err(|cause| error(cause.marker(), RuleProblem::Yaml(cause.info().to_owned())))?;
        tree.handle_event(event, &span.start)?;
    }
    Ok(tree.root.unwrap_or(YamlNode { line: 1, column: 1, value: Value::Null }))
}

/// A tree that is being read.
#[derive(Default)]
struct YamlTree {
    open: Vec<OpenNode>,
    root: Option<YamlNode>,
    n_nodes: usize,
    /// Bytes that aliases have repeated.
    repeated_len: usize,
    anchors: HashMap<usize, Anchored>,
}

impl YamlTree {
    fn handle_event(&mut self, event: Event<'_>, at: &Marker) -> Result<(), RuleError> {
        let (value, anchor) = match event {
            Event::Alias(anchor) => return self.repeat(anchor, at),
            Event::DocumentStart(_) if self.root.is_some() => {
                let problem = "a second document begins here".to_owned();
                return Err(error(at, RuleProblem::Yaml(problem)));
            }
            Event::Scalar(text, ScalarStyle::Plain, _, _) if text == "<<" && self.is_at_key() => {
                self.count(1, at)?;
                if let Some(parent) = self.open.last_mut() {
                    parent.key = Some(YamlKey::Merge);
                }
                return Ok(());
            }
            Event::Scalar(text, style, anchor, _) => (scalar(&text, style), anchor),
            Event::SequenceStart(anchor, _) => (Value::List(Vec::new()), anchor),
            Event::MappingStart(anchor, _) => (Value::Map(Vec::new()), anchor),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(done) = self.open.pop() else { return Ok(()) };
                let anchor = done.anchor;
                return self.put(done.with_merged()?, anchor);
            }
            _ => return Ok(()),
        };
        self.count(1, at)?;
        let node = YamlNode { line: at.line(), column: at.col() + 1, value };
        if matches!(node.value, Value::List(_) | Value::Map(_)) {
            if self.open.len() == MAX_DEPTH {
                return Err(node.error(RuleProblem::TooDeep { max: MAX_DEPTH }));
            }
            self.open.push(OpenNode { node, anchor, key: None, merged: Vec::new() });
            return Ok(());
        }
        self.put(node, anchor)
    }

    /// Whether a key of a mapping comes next.
    fn is_at_key(&self) -> bool {
        let is_at_key = |it: &OpenNode| it.node.is_map() && it.key.is_none();
        self.open.last().is_some_and(is_at_key)
    }

    fn count(&mut self, n_nodes: usize, at: &Marker) -> Result<(), RuleError> {
        self.n_nodes = self.n_nodes.saturating_add(n_nodes);
        match MAX_NODES < self.n_nodes {
            true => Err(error(at, RuleProblem::TooMany { max: MAX_NODES })),
            false => Ok(()),
        }
    }

    /// Puts what has an anchor where its alias is.
    fn repeat(&mut self, anchor: usize, at: &Marker) -> Result<(), RuleError> {
        let Some(Anchored { node, size }) = self.anchors.get(&anchor) else {
            return Err(error(at, RuleProblem::AliasOfItself));
        };
        let (size, node) = (*size, node.clone());
        self.count(size.n_nodes, at)?;
        self.repeated_len = self.repeated_len.saturating_add(size.len);
        if MAX_REPEATED_LEN < self.repeated_len {
            return Err(error(at, RuleProblem::Repeated { max: MAX_REPEATED_LEN }));
        }
        if MAX_DEPTH < self.open.len() + size.depth {
            return Err(error(at, RuleProblem::TooDeep { max: MAX_DEPTH }));
        }
        // What is wrong with it is wrong here, too; its writer knows where the anchor is.
        self.put(YamlNode { line: at.line(), column: at.col() + 1, value: node.value }, 0)
    }

    /// Puts a finished value where it belongs.
    fn put(&mut self, node: YamlNode, anchor: usize) -> Result<(), RuleError> {
        if anchor != 0 {
            let anchored = Anchored { node: node.clone(), size: node.size() };
            self.anchors.insert(anchor, anchored);
        }
        let Some(OpenNode { node: parent, key, merged, .. }) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut parent.value, key.take()) {
            (Value::List(items), _) => items.push(node),
            (Value::Map(entries), Some(YamlKey::Word(key))) => entries.push((key, node)),
            (Value::Map(_), Some(YamlKey::Merge)) => merged.push(node),
            (Value::Map(_), None) => {
                let Some(text) = node.plain() else {
                    return Err(node.error(RuleProblem::Yaml("a key has to be a word".to_owned())));
                };
                *key = Some(YamlKey::Word(text));
            }
            _ => {}
        }
        Ok(())
    }
}

impl OpenNode {
    /// The value with what is merged into it: of two mappings with the same key the first one
    /// counts, and the value itself counts more than both.
    fn with_merged(self) -> Result<YamlNode, RuleError> {
        let Self { mut node, merged, .. } = self;
        let Value::Map(own) = &mut node.value else { return Ok(node) };
        let mut all = Vec::new();
        // What is read last counts.
        for source in merged.into_iter().rev() {
            let wrong = source.error(RuleProblem::Yaml(
                "`<<` merges a mapping, or a list of mappings".to_owned(),
            ));
            let maps = match source.value {
                Value::List(items) => items,
                _ => vec![source],
            };
            for map in maps.into_iter().rev() {
                let Value::Map(entries) = map.value else { return Err(wrong) };
                all.extend(entries);
            }
        }
        if !all.is_empty() {
            all.append(own);
            *own = all;
        }
        Ok(node)
    }
}

fn error(at: &Marker, problem: RuleProblem) -> RuleError {
    RuleError { line: at.line(), column: at.col() + 1, problem }
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        _ if is_number(text) => Value::Number(text.to_owned()),
        _ => Value::Text(text.to_owned()),
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.bytes().any(|byte| byte.is_ascii_digit())
        && text.replace('_', "").parse::<f64>().is_ok()
}

impl YamlNode {
    /// The entry of a mapping, unless it is null or missing.
    pub(super) fn get(&self, key: &str) -> Option<&YamlNode> {
        let Value::Map(entries) = &self.value else { return None };
        let (_, node) = entries.iter().rev().find(|(name, _)| name == key)?;
        (!matches!(node.value, Value::Null)).then_some(node)
    }

    /// A value that is not a list or a mapping, as Java's `String.valueOf` shows it.
    pub(super) fn plain(&self) -> Option<String> {
        match &self.value {
            Value::Null => Some("null".to_owned()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Number(text) | Value::Text(text) => Some(text.clone()),
            Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The items of a list; `None` for anything else.
    pub(super) fn items(&self) -> Option<&[YamlNode]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The entries of a mapping; none of anything else.
    pub(super) fn entries(&self) -> std::slice::Iter<'_, (String, YamlNode)> {
        match &self.value {
            Value::Map(entries) => entries.iter(),
            _ => [].iter(),
        }
    }

    fn size(&self) -> NodeSize {
        let mut size = NodeSize { n_nodes: 1, ..NodeSize::default() };
        match &self.value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(text) | Value::Text(text) => size.len = text.len(),
            Value::List(items) => items.iter().for_each(|item| size.add(item.size())),
            Value::Map(entries) => {
                for (key, value) in entries {
                    // A key is a value, too.
                    size.add(NodeSize { n_nodes: 1, len: key.len(), depth: 0 });
                    size.add(value.size());
                }
            }
        }
        size.depth += usize::from(matches!(self.value, Value::List(_) | Value::Map(_)));
        size
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    /// The text at `key`; `None` if it is missing.
    pub(super) fn text(&self, key: &'static str) -> Result<Option<&str>, RuleError> {
        match self.get(key).map(|node| (node, &node.value)) {
            None => Ok(None),
            Some((_, Value::Text(text))) => Ok(Some(text)),
            Some((node, _)) => Err(node.error(RuleProblem::WrongType { key, expected: "a text" })),
        }
    }

    /// The entry at `key` by the rule of Java's `Boolean.parseBoolean`.
    pub(super) fn flag(&self, key: &str, otherwise: bool) -> bool {
        self.get(key).map_or(otherwise, |node| {
            node.plain().is_some_and(|text| text.eq_ignore_ascii_case("true"))
        })
    }

    pub(super) fn error(&self, problem: RuleProblem) -> RuleError {
        RuleError { line: self.line, column: self.column, problem }
    }
}
