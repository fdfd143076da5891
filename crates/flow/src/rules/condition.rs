//! Conditions such as `method = find* & region != beijing,shanghai`.
//!
//! The grammar is what Dubbo's `ConditionStateRouter` accepts, which is more than it documents.

use std::borrow::Cow;

use super::error::RuleProblem;
use super::parties::{CallView, UrlView};
use super::pattern::{Pattern, PatternSide};
use super::rule_set::Inputs;

/// What Dubbo compares with where a call has no such argument, or a key cannot be read.
const NOT_FOUND: &str = "dubbo_internal_not_found_argument_condition_value";

/// All of these have to match.
#[derive(Clone, Debug, Default)]
pub(super) struct Condition {
    matchers: Vec<Matcher>,
}

/// One key, and what its value has to be and must not be.
#[derive(Clone, Debug)]
struct Matcher {
    name: String,
    key: MatchKey,
    matches: Vec<Pattern>,
    mismatches: Vec<Pattern>,
}

#[derive(Clone, Debug)]
enum MatchKey {
    Param,
    /// `attachments[name]`; `None` if there is no such thing in the key.
    Attachment(Option<String>),
    /// `arguments[index]`.
    Argument(Option<usize>),
}

/// Where further values of a list go.
#[derive(Clone, Copy)]
struct Values {
    matcher: usize,
    are_mismatches: bool,
}

impl Condition {
    /// Whether it has no key at all.
    pub(super) fn is_empty(&self) -> bool {
        self.matchers.is_empty()
    }

    /// Notes what it looks at in a call.
    pub(super) fn note(&self, inputs: &mut Inputs) {
        for matcher in &self.matchers {
            match &matcher.key {
                MatchKey::Attachment(Some(name)) => drop(inputs.attachments.insert(name.clone())),
                MatchKey::Argument(Some(index)) => drop(inputs.arguments.insert(*index)),
                MatchKey::Param | MatchKey::Attachment(None) | MatchKey::Argument(None) => {}
            }
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, RuleProblem> {
        // Keys may come twice. The last matcher of a key counts; lists go on where they began.
        let mut all: Vec<Matcher> = Vec::new();
        let mut current: Option<usize> = None;
        let mut values: Option<Values> = None;
        for (separator, content) in Tokens(text) {
            match separator {
                "" | "&" => {
                    let known = all.iter().rposition(|matcher| matcher.name == content);
                    current = known.filter(|_| separator == "&").or_else(|| {
                        all.push(Matcher::new(content));
                        Some(all.len() - 1)
                    });
                    continue;
                }
                "=" | "!=" => {
                    let are_mismatches = separator == "!=";
                    values = current.map(|matcher| Values { matcher, are_mismatches });
                }
                "," => {}
                _ => values = None,
            }
            let target = values.and_then(|values| Some((values, all.get_mut(values.matcher)?)));
            let Some((Values { are_mismatches, .. }, matcher)) = target else {
                return Err(RuleProblem::Condition {
                    separator: separator.to_owned(),
                    content: content.to_owned(),
                    condition: text.to_owned(),
                });
            };
            let list = if are_mismatches { &mut matcher.mismatches } else { &mut matcher.matches };
            list.push(Pattern::new(content));
        }
        let is_last = |index: usize| {
            let later = all.get(index + 1..).unwrap_or_default();
            all.get(index).is_some_and(|own| later.iter().all(|other| other.name != own.name))
        };
        let keep: Vec<bool> = (0..all.len()).map(is_last).collect();
        let mut keep = keep.into_iter();
        all.retain(|_| keep.next().unwrap_or_default());
        Ok(Self { matchers: all })
    }

    /// Whether a call is meant.
    pub(super) fn is_call(&self, call: &CallView<'_>) -> bool {
        self.matchers.iter().all(|matcher| {
            let value = match &matcher.key {
                MatchKey::Param if matches!(matcher.name.as_str(), "method" | "methods") => {
                    Some(call.method.into())
                }
                MatchKey::Param => call.consumer.value(&matcher.name),
                MatchKey::Attachment(Some(name)) => (call.attachment)(name),
                MatchKey::Argument(Some(index)) => {
                    Some((call.argument)(*index).unwrap_or(NOT_FOUND.into()))
                }
                MatchKey::Attachment(None) | MatchKey::Argument(None) => Some(NOT_FOUND.into()),
            };
            matcher.is_match(value, PatternSide::When)
        })
    }

    /// Whether an endpoint is meant, for this caller.
    pub(super) fn is_endpoint(&self, endpoint: &UrlView<'_>, caller: UrlView<'_>) -> bool {
        self.matchers.iter().all(|matcher| {
            let value = match &matcher.key {
                MatchKey::Param => endpoint.value(&matcher.name),
                // Endpoints have neither attachments nor arguments.
                MatchKey::Attachment(_) | MatchKey::Argument(_) => Some(NOT_FOUND.into()),
            };
            matcher.is_match(value, PatternSide::Then(caller))
        })
    }
}

impl Matcher {
    fn new(name: &str) -> Self {
        let key = match name {
            _ if name.starts_with("attachments") => MatchKey::Attachment(attachment(name)),
            _ if name.starts_with("arguments") => MatchKey::Argument(argument(name)),
            _ => MatchKey::Param,
        };
        Self { name: name.to_owned(), key, matches: Vec::new(), mismatches: Vec::new() }
    }

    /// A key without a value never matches, not even with `!=`.
    fn is_match(&self, value: Option<Cow<'_, str>>, side: PatternSide<'_>) -> bool {
        let Some(value) = value else { return false };
        let is_any = |patterns: &[Pattern]| patterns.iter().any(|one| one.is_match(&value, side));
        if is_any(&self.mismatches) {
            return false;
        }
        match self.matches.is_empty() {
            true => !self.mismatches.is_empty(),
            false => is_any(&self.matches),
        }
    }
}

/// The name in `attachments[name]`. Dubbo cuts the key at the first dot, so a name with a dot is
/// never found.
fn attachment(key: &str) -> Option<String> {
    let (_, rest) = key.split('.').next()?.split_once("attachments[")?;
    let (name, _) = rest.rsplit_once(']')?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// The index in `arguments[index]`.
fn argument(key: &str) -> Option<usize> {
    let (_, rest) = key.split('.').next()?.split_once("arguments[")?;
    let (index, _) = rest.split_once(']')?;
    index.bytes().all(|byte| byte.is_ascii_digit()).then(|| index.parse().ok())?
}

/// Pairs of separators and what follows them; what cannot be read is skipped, as Java's
/// `Matcher.find` does.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let is_separator = |c: char| matches!(c, '&' | '!' | '=' | ',');
        let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\x0b' | '\x0c' | '\r');
        loop {
            let text = self.0;
            let rest = text.trim_start_matches(is_separator);
            let separator = &text[..text.len() - rest.len()];
            let content = rest.trim_start_matches(is_space);
            let end = content.find(|c| is_separator(c) || is_space(c)).unwrap_or(content.len());
            let (content, rest) = content.split_at(end);
            if !content.is_empty() {
                self.0 = rest;
                return Some((separator, content));
            }
            let mut chars = text.chars();
            chars.next()?;
            self.0 = chars.as_str();
        }
    }
}
