//! YAML as a small tree: enough for rules, within limits.
//!
//! Plain words mean what they mean to Dubbo's parser, which reads YAML 1.1: `yes` is true.
//! Of two entries of one mapping with the same key the last one counts.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle};

use super::error::{RuleError, RuleProblem};

/// The longest rule, in bytes. Rules of hundreds of addresses have some ten thousand.
const MAX_LEN: usize = 256 * 1024;
/// Lists and mappings inside each other; rules need 6.
const MAX_DEPTH: usize = 16;
/// Values of one rule.
const MAX_NODES: usize = 16_384;

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
    /// The key whose value comes next.
    key: Option<String>,
}

/// Reads one document.
pub(super) fn parse(text: &str) -> Result<YamlNode, RuleError> {
    let start = Marker::new(0, 1, 0);
    if MAX_LEN < text.len() {
        return Err(error(&start, RuleProblem::TooLong { len: text.len(), max: MAX_LEN }));
    }
    let mut open: Vec<OpenNode> = Vec::new();
    let mut root: Option<YamlNode> = None;
    let mut n_nodes = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event
            .map_err(|cause| error(cause.marker(), RuleProblem::Yaml(cause.info().to_owned())))?;
        let at = &span.start;
        let value = match event {
            Event::Alias(_) => return Err(error(at, RuleProblem::Alias)),
            Event::DocumentStart(_) if root.is_some() => {
                let problem = "a second document begins here".to_owned();
                return Err(error(at, RuleProblem::Yaml(problem)));
            }
            Event::Scalar(text, style, _, _) => scalar(&text, style),
            Event::SequenceStart(..) => Value::List(Vec::new()),
            Event::MappingStart(..) => Value::Map(Vec::new()),
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(done) = open.pop() {
                    put(&mut open, &mut root, done.node)?;
                }
                continue;
            }
            _ => continue,
        };
        n_nodes += 1;
        if MAX_NODES < n_nodes {
            return Err(error(at, RuleProblem::TooMany { max: MAX_NODES }));
        }
        let node = YamlNode { line: at.line(), column: at.col() + 1, value };
        match node.value {
            Value::List(_) | Value::Map(_) if open.len() == MAX_DEPTH => {
                return Err(node.error(RuleProblem::TooDeep { max: MAX_DEPTH }));
            }
            Value::List(_) | Value::Map(_) => open.push(OpenNode { node, key: None }),
            _ => put(&mut open, &mut root, node)?,
        }
    }
    Ok(root.unwrap_or(YamlNode { line: 1, column: 1, value: Value::Null }))
}

/// Puts a finished value where it belongs.
fn put(
    open: &mut [OpenNode],
    root: &mut Option<YamlNode>,
    node: YamlNode,
) -> Result<(), RuleError> {
    let Some(OpenNode { node: parent, key }) = open.last_mut() else {
        *root = Some(node);
        return Ok(());
    };
    match (&mut parent.value, key.take()) {
        (Value::List(items), _) => items.push(node),
        (Value::Map(entries), Some(key)) => entries.push((key, node)),
        (Value::Map(_), None) => {
            let Some(text) = node.plain() else {
                return Err(node.error(RuleProblem::Yaml("a key has to be a word".to_owned())));
            };
            *key = Some(text);
        }
        _ => {}
    }
    Ok(())
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
