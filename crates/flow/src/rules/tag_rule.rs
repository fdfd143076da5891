//! Tag rules: endpoints belong to tags, and a call goes to the endpoints of its tag.
//!
//! The tag of a call is its attachment `dubbo.tag`, or else the parameter of that name of its
//! caller. Endpoints get tags by a rule, or by their own parameter `dubbo.tag`.

use std::borrow::Cow;
use std::sync::Arc;

use super::address;
use super::error::{RuleError, RuleProblem};
use super::header::Header;
use super::parties::{CallView, UrlView};
use super::selection::{Clause, Effect, Selection};
use super::yaml::{self, YamlNode};
use super::{FORCE_TAG, TAG};

/// What endpoints' own tags are called where they decide.
const OWN_TAGS: &str = "dubbo.tag of endpoints";

/// A tag rule, parsed.
#[derive(Clone, Debug)]
pub struct TagRule {
    name: Arc<str>,
    header: Header,
    tags: Vec<Tag>,
}

#[derive(Clone, Debug)]
struct Tag {
    name: String,
    members: Members,
}

/// Which endpoints have a tag.
#[derive(Clone, Debug)]
enum Members {
    Addresses(Vec<String>),
    /// All of these parameters match (version 3.0).
    Params(Vec<Param>),
}

/// A parameter, and what it has to be.
#[derive(Clone, Debug)]
pub(super) struct Param {
    key: String,
    test: Test,
}

/// What a text has to be; the first of these that is set decides.
#[derive(Clone, Debug, Default)]
pub(super) struct Test {
    exact: Option<String>,
    prefix: Option<String>,
    wildcard: Option<String>,
    empty: bool,
    noempty: bool,
}

impl TagRule {
    /// Reads a rule. `name` is what it is called when it is explained, such as its key.
    ///
    /// # Errors
    /// [`RuleError`] if Dubbo would leave the rule out, or if it is over a limit.
    pub fn parse(name: &str, text: &str) -> Result<Self, RuleError> {
        let document = yaml::parse(text)?;
        let header = Header::read(&document)?;
        let wrong = RuleProblem::WrongType { key: "tags", expected: "a list of {name, addresses}" };
        let items = match document.get("tags") {
            None => &[],
            Some(tags) => tags.items().ok_or_else(|| tags.error(wrong))?,
        };
        if items.is_empty() {
            return Err(document.error(RuleProblem::Emptied { key: "tags" }));
        }
        let has_match = header.version.as_deref().is_some_and(|text| text.starts_with("v3.0"));
        let mut tags = Vec::new();
        for item in items {
            tags.extend(tag(item, has_match, header.is_on)?);
        }
        Ok(Self { name: name.into(), header, tags })
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Removes the endpoints that a call must not go to.
    pub fn apply(&self, call: &CallView<'_>, endpoints: &[UrlView<'_>], selection: &mut Selection) {
        if selection.is_empty() {
            return;
        }
        if !self.header.is_on {
            selection.note(&self.name, Clause::Untagged, Effect::Off);
            return Self::apply_own(call, endpoints, selection);
        }
        let groups = self.groups(endpoints);
        let is_in = |tags: &[&Tag], index: usize| {
            endpoints.get(index).is_some_and(|one| tags.iter().any(|tag| tag.has(one, endpoints)))
        };
        let is_untagged = |index: usize| {
            let endpoint = endpoints.get(index);
            endpoint.is_some_and(|one| own_tag(one).is_empty()) && !is_in(&groups, index)
        };
        let wanted = wanted(call);
        if wanted.is_empty() {
            return keep(selection, &self.name, Clause::Untagged, is_untagged);
        }
        let clause = Clause::Tag(wanted.clone().into_owned());
        let is_forced = is_forced(call);
        let group = group(&groups, &wanted, is_forced);
        // Two groups of the same name: Dubbo keeps the last one.
        let is_wanted = |index: usize| match group {
            Some(tag) => is_in(&[tag], index),
            None => endpoints.get(index).is_some_and(|one| own_tag(one) == wanted),
        };
        let is_final = is_forced || (group.is_some() && self.header.force);
        if is_final || selection.kept().any(is_wanted) {
            return keep(selection, &self.name, clause, is_wanted);
        }
        selection.note(&self.name, clause, Effect::Ignored);
        keep(selection, &self.name, Clause::Untagged, is_untagged);
    }

    /// Removes endpoints by their own tags, where no rule says anything.
    pub fn apply_own(call: &CallView<'_>, endpoints: &[UrlView<'_>], selection: &mut Selection) {
        let wanted = wanted(call);
        let has = |index: usize, tag: &str| {
            endpoints.get(index).is_some_and(|endpoint| own_tag(endpoint) == tag)
        };
        let is_concerned = !wanted.is_empty() || !selection.kept().all(|index| has(index, ""));
        if selection.is_empty() || !is_concerned {
            return;
        }
        let name: Arc<str> = OWN_TAGS.into();
        let is_there = selection.kept().any(|index| has(index, &wanted));
        if wanted.is_empty() || is_there || is_forced(call) {
            let clause = match wanted.is_empty() {
                true => Clause::Untagged,
                false => Clause::Tag(wanted.clone().into_owned()),
            };
            return keep(selection, &name, clause, |index| has(index, &wanted));
        }
        selection.note(&name, Clause::Tag(wanted.into_owned()), Effect::Ignored);
        keep(selection, &name, Clause::Untagged, |index| has(index, ""));
    }

    /// The tags that have endpoints; of two with one name the last.
    fn groups(&self, endpoints: &[UrlView<'_>]) -> Vec<&Tag> {
        let by_addresses = |tag: &&Tag| matches!(tag.members, Members::Addresses(_));
        let (first, second): (Vec<&Tag>, Vec<&Tag>) = self.tags.iter().partition(by_addresses);
        let filled = second.into_iter().filter(|tag| endpoints.iter().any(|one| tag.is_of(one)));
        let mut groups: Vec<&Tag> = Vec::new();
        for tag in first.into_iter().chain(filled) {
            groups.retain(|known| known.name != tag.name);
            groups.push(tag);
        }
        groups
    }
}

impl Tag {
    fn is_of(&self, endpoint: &UrlView<'_>) -> bool {
        match &self.members {
            Members::Addresses(addresses) => {
                addresses.iter().any(|one| address::is_match(one, endpoint.host, endpoint.port))
            }
            Members::Params(params) => params.iter().all(|param| param.is_match(endpoint)),
        }
    }

    /// As Dubbo, which turns parameters into addresses: an endpoint at the address of another one
    /// has its tags.
    fn has(&self, endpoint: &UrlView<'_>, endpoints: &[UrlView<'_>]) -> bool {
        let is_same = |other: &UrlView<'_>| {
            (other.host, other.port) == (endpoint.host, endpoint.port) && self.is_of(other)
        };
        match self.members {
            Members::Addresses(_) => self.is_of(endpoint),
            Members::Params(_) => self.is_of(endpoint) || endpoints.iter().any(is_same),
        }
    }
}

impl Param {
    pub(super) fn is_match(&self, endpoint: &UrlView<'_>) -> bool {
        self.test.is_match(endpoint.param(&self.key))
    }
}

impl Test {
    pub(super) fn is_match(&self, value: Option<&str>) -> bool {
        match (self, value) {
            (Self { exact: Some(exact), .. }, Some(value)) => value == exact,
            (Self { prefix: Some(prefix), .. }, Some(value)) => value.starts_with(prefix.as_str()),
            (Self { wildcard: Some(text), .. }, Some(value)) => text == "*" || text == value,
            (Self { empty: true, .. }, value) => value.is_none_or(str::is_empty),
            (Self { noempty: true, .. }, value) => value.is_some_and(|value| !value.is_empty()),
            _ => false,
        }
    }
}

fn keep(
    selection: &mut Selection,
    name: &Arc<str>,
    clause: Clause,
    is_kept: impl Fn(usize) -> bool,
) {
    let n_kept = selection.kept().filter(|index| is_kept(*index)).count();
    selection.retain(name, &clause, is_kept);
    let effect = if n_kept == 0 { Effect::Nobody } else { Effect::Kept(n_kept) };
    selection.note(name, clause, effect);
}

/// The group of a tag. Where the call does not insist, `a|b|c` also means `a|b`, and then `a`.
fn group<'a>(groups: &[&'a Tag], wanted: &str, is_forced: bool) -> Option<&'a Tag> {
    let find = |name: &str| groups.iter().find(|tag| tag.name == name).copied();
    if is_forced || !wanted.contains('|') {
        return find(wanted);
    }
    let levels: Vec<&str> = wanted.split('|').filter(|level| !level.is_empty()).collect();
    (1..=levels.len()).rev().find_map(|n| find(&levels.get(..n)?.join("|")))
}

fn wanted<'a>(call: &CallView<'a>) -> Cow<'a, str> {
    let own = (call.attachment)(TAG).filter(|tag| !tag.is_empty());
    own.unwrap_or_else(|| call.consumer.param(TAG).unwrap_or_default().into())
}

fn is_forced(call: &CallView<'_>) -> bool {
    let own = (call.attachment)(FORCE_TAG);
    let text = own.or_else(|| call.consumer.param(FORCE_TAG).map(Cow::Borrowed));
    text.is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

fn own_tag<'a>(endpoint: &UrlView<'a>) -> &'a str {
    endpoint.param(TAG).unwrap_or_default()
}

/// A tag; `None` if no endpoint can have it.
fn tag(node: &YamlNode, has_match: bool, is_on: bool) -> Result<Option<Tag>, RuleError> {
    let wrong = |key, expected| RuleProblem::WrongType { key, expected };
    if !node.is_map() {
        return Err(node.error(wrong("tags", "a list of {name, addresses}")));
    }
    let name = node.text("name")?.unwrap_or_default().to_owned();
    let listed = node.get("addresses").and_then(YamlNode::items).unwrap_or_default();
    let addresses: Vec<String> = listed.iter().filter_map(YamlNode::plain).collect();
    let params = match node.get("match").filter(|_| has_match) {
        None => None,
        Some(list) => {
            let expected = wrong("match", "a list of {key, value}");
            let items = list.items().ok_or_else(|| list.error(expected))?;
            Some(items.iter().map(param).collect::<Result<Vec<_>, _>>()?)
        }
    };
    let members = match (addresses.is_empty(), params) {
        (false, _) => Members::Addresses(addresses),
        (true, Some(params)) => Members::Params(params),
        (true, None) if has_match && is_on => return Err(node.error(RuleProblem::EmptyTag(name))),
        (true, None) => return Ok(None),
    };
    Ok(Some(Tag { name, members }))
}

pub(super) fn param(node: &YamlNode) -> Result<Param, RuleError> {
    let key = node.text("key")?.unwrap_or_default().to_owned();
    let test = node.get("value").map(test).transpose()?.unwrap_or_default();
    Ok(Param { key, test })
}

pub(super) fn test(node: &YamlNode) -> Result<Test, RuleError> {
    if let Some(regex) = node.get("regex") {
        return Err(regex.error(RuleProblem::Regex));
    }
    let text = |key| node.get(key).and_then(YamlNode::plain);
    Ok(Test {
        exact: text("exact"),
        prefix: text("prefix"),
        wildcard: text("wildcard"),
        empty: text("empty").is_some(),
        noempty: text("noempty").is_some(),
    })
}
