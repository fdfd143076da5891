//! Condition rules: `method=find* => region=$region`, and their weighted form of version 3.1.
//!
//! A document has many conditions, which are applied one after the other. One that matches no
//! endpoint does nothing, unless the rule says `force: true`. A condition with nothing after `=>`
//! bans its callers whatever `force` says.

use std::sync::Arc;

use rand::Rng;

use super::chances::{ByChance, Chooser, DrawnOf};
use super::condition::Condition;
use super::error::{RuleError, RuleProblem};
use super::header::Header;
use super::parties::{CallView, UrlView};
use super::rule_set::Inputs;
use super::selection::{Clause, Effect, Selection};
use super::yaml::{self, YamlNode};

/// Share of a destination that says nothing about it, or 0, or less.
const DEFAULT_WEIGHT: u32 = 100;
/// Destinations of one condition.
const MAX_DESTINATIONS: usize = 64;

/// A condition rule, parsed.
#[derive(Clone, Debug)]
pub struct ConditionRule {
    name: Arc<str>,
    header: Header,
    branches: Vec<Branch>,
}

/// One condition of a rule.
#[derive(Clone, Debug)]
struct Branch {
    when: Condition,
    then: Then,
}

#[derive(Clone, Debug)]
enum Then {
    /// Its callers get no endpoint.
    Ban,
    Endpoints(Condition),
    /// One of these is drawn, by weight, among those that have any endpoint.
    Weighted(Vec<Destination>),
}

#[derive(Clone, Debug)]
struct Destination {
    to: Condition,
    /// How it is written.
    text: Arc<str>,
    weight: u32,
}

impl ConditionRule {
    /// Reads a rule. `name` is what it is called when it is explained, such as its key.
    ///
    /// # Errors
    /// [`RuleError`] if Dubbo would leave the rule out, or if it is over a limit.
    pub fn parse(name: &str, text: &str) -> Result<Self, RuleError> {
        let document = yaml::parse(text)?;
        let header = Header::read(&document)?;
        let version = header.version.as_deref().unwrap_or_default().to_ascii_lowercase();
        let conditions = document.get("conditions").and_then(YamlNode::items);
        let is_weighted = version.starts_with("v3.1");
        let items = match conditions {
            Some([]) if is_weighted => Err(RuleProblem::Emptied { key: "conditions" }),
            None | Some([]) => Err(RuleProblem::Missing { key: "conditions" }),
            Some(items) => Ok(items),
        };
        let items = items.map_err(|problem| document.error(problem))?;
        if !is_weighted && "v3.1" < version.as_str() {
            return Err(document.error(RuleProblem::Version(version)));
        }
        let branches: Result<_, _> = match is_weighted {
            true => items.iter().map(weighted).collect(),
            // Dubbo does not read the conditions of a rule that is off.
            false if !header.is_on => Ok(Vec::new()),
            false => items.iter().map(branch).collect(),
        };
        Ok(Self { name: name.into(), header, branches: branches? })
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Notes what it looks at in a call.
    pub(super) fn note(&self, inputs: &mut Inputs) {
        for branch in self.branches.iter().filter(|_| self.header.is_on) {
            branch.when.note(inputs);
            inputs.is_drawn |= matches!(&branch.then, Then::Weighted(all) if 1 < all.len());
        }
    }

    /// Removes the endpoints that a call must not go to.
    pub fn apply<R: Rng + ?Sized>(
        &self,
        call: &CallView<'_>,
        endpoints: &[UrlView<'_>],
        rng: &mut R,
        selection: &mut Selection,
    ) {
        self.apply_by(call, endpoints, &mut ByChance(rng), selection);
    }

    /// The same, where `chooser` draws.
    pub(super) fn apply_by(
        &self,
        call: &CallView<'_>,
        endpoints: &[UrlView<'_>],
        chooser: &mut dyn Chooser,
        selection: &mut Selection,
    ) {
        if !self.header.is_on {
            return selection.note(&self.name, Clause::Condition(0), Effect::Off);
        }
        for (index, branch) in self.branches.iter().enumerate() {
            if selection.is_empty() {
                return;
            }
            let clause = Clause::Condition(index);
            if !branch.when.is_call(call) {
                selection.note(&self.name, clause, Effect::OtherCalls);
                continue;
            }
            match &branch.then {
                Then::Ban => {
                    selection.retain(&self.name, &clause, |_| false);
                    selection.note(&self.name, clause, Effect::Banned);
                }
                Then::Endpoints(to) => {
                    // What has no key matches nobody, other than in weighted destinations.
                    let is_meant = |endpoint: &UrlView<'_>| {
                        !to.is_empty() && to.is_endpoint(endpoint, call.consumer)
                    };
                    self.keep(selection, endpoints, clause, is_meant);
                }
                Then::Weighted(destinations) => {
                    let branch = WeightedBranch { condition: index, destinations };
                    self.draw(selection, endpoints, call, &branch, chooser);
                }
            }
        }
    }

    fn keep(
        &self,
        selection: &mut Selection,
        endpoints: &[UrlView<'_>],
        clause: Clause,
        is_meant: impl Fn(&UrlView<'_>) -> bool,
    ) {
        let is_kept = |index: usize| endpoints.get(index).is_some_and(&is_meant);
        let n_kept = selection.kept().filter(|index| is_kept(*index)).count();
        let effect = match (n_kept, self.header.force) {
            (0, false) => Effect::Ignored,
            (0, true) => Effect::Nobody,
            _ => Effect::Kept(n_kept),
        };
        if effect != Effect::Ignored {
            selection.retain(&self.name, &clause, is_kept);
        }
        selection.note(&self.name, clause, effect);
    }

    fn draw(
        &self,
        selection: &mut Selection,
        endpoints: &[UrlView<'_>],
        call: &CallView<'_>,
        branch: &WeightedBranch<'_>,
        chooser: &mut dyn Chooser,
    ) {
        let WeightedBranch { condition, destinations } = *branch;
        let weights = |may_be_down: bool| {
            let has_any = |to: &Condition| {
                let kept = selection.kept().filter_map(|index| endpoints.get(index));
                let mut usable = kept.filter(|endpoint| may_be_down || !endpoint.is_down);
                usable.any(|endpoint| to.is_endpoint(endpoint, call.consumer))
            };
            let weight = |one: &Destination| u64::from(one.weight) * u64::from(has_any(&one.to));
            destinations.iter().map(weight).collect::<Vec<u64>>()
        };
        let of_up = weights(false);
        let is_any_up = of_up.iter().any(|weight| 0 < *weight);
        let weights = if is_any_up { of_up } else { weights(true) };
        let text = |index: usize| {
            destinations.get(index).map_or_else(Arc::default, |one: &Destination| one.text.clone())
        };
        let drawn = chooser.choose(DrawnOf {
            rule: &self.name,
            condition,
            texts: &text,
            weights: &weights,
        });
        let drawn = drawn.and_then(|index| Some((index, destinations.get(index)?)));
        let clause = Clause::Destination { condition, destination: drawn.map(|(index, _)| index) };
        let is_meant = |endpoint: &UrlView<'_>| {
            drawn.is_some_and(|(_, one)| one.to.is_endpoint(endpoint, call.consumer))
        };
        self.keep(selection, endpoints, clause, is_meant);
    }
}

/// The destinations of a condition, of which weights choose one.
struct WeightedBranch<'a> {
    /// The condition's place in its rule, from 0.
    condition: usize,
    destinations: &'a [Destination],
}

/// A condition up to version 3.0: a text.
fn branch(node: &YamlNode) -> Result<Branch, RuleError> {
    let wrong = RuleProblem::WrongType { key: "conditions", expected: "a list of texts" };
    let text = node.plain().ok_or_else(|| node.error(wrong))?;
    if text.trim().is_empty() {
        return Err(node.error(RuleProblem::EmptyCondition));
    }
    let text = text.replace("consumer.", "").replace("provider.", "");
    let (when, then) = text.split_once("=>").unwrap_or(("", &text));
    let then = then.trim();
    Ok(Branch {
        when: condition(node, when, "true")?,
        then: match then {
            "" | "false" => Then::Ban,
            _ => Then::Endpoints(condition(node, then, "")?),
        },
    })
}

/// A condition of version 3.1: `{from: {match: ..}, to: [{match: .., weight: ..}]}`.
fn weighted(node: &YamlNode) -> Result<Branch, RuleError> {
    let wrong = |key, expected| RuleProblem::WrongType { key, expected };
    if !node.is_map() {
        return Err(node.error(wrong("conditions", "a list of {from, to}")));
    }
    let from = match node.get("from") {
        None => String::new(),
        Some(from) if from.is_map() => matched(from),
        Some(from) => return Err(from.error(wrong("from", "{match}"))),
    };
    let to = match node.get("to") {
        None => &[],
        Some(to) => to.items().ok_or_else(|| to.error(wrong("to", "a list of {match, weight}")))?,
    };
    if MAX_DESTINATIONS < to.len() {
        return Err(node.error(RuleProblem::TooMany { max: MAX_DESTINATIONS }));
    }
    let destinations: Result<Vec<_>, _> = to.iter().map(destination).collect();
    let destinations = destinations?;
    Ok(Branch {
        when: condition(node, &from, "true")?,
        then: if destinations.is_empty() { Then::Ban } else { Then::Weighted(destinations) },
    })
}

fn destination(node: &YamlNode) -> Result<Destination, RuleError> {
    if !node.is_map() {
        let wrong = RuleProblem::WrongType { key: "to", expected: "a list of {match, weight}" };
        return Err(node.error(wrong));
    }
    let weight = match node.get("weight") {
        None => DEFAULT_WEIGHT,
        Some(weight) => {
            let text = weight.plain().unwrap_or_default();
            match text.parse::<i32>().map(u32::try_from) {
                Ok(Ok(positive)) if 0 < positive => positive,
                // As in Dubbo's `ConditionSubSet`.
                Ok(_) => DEFAULT_WEIGHT,
                Err(_) => return Err(weight.error(RuleProblem::Number { key: "weight", text })),
            }
        }
    };
    let text = matched(node);
    Ok(Destination { to: condition(node, &text, "false")?, text: text.trim().into(), weight })
}

fn matched(node: &YamlNode) -> String {
    node.get("match").and_then(YamlNode::plain).unwrap_or_default()
}

/// A condition; `word` is a word that says as much as no condition at all.
fn condition(node: &YamlNode, text: &str, word: &str) -> Result<Condition, RuleError> {
    let text = text.trim();
    if text == word {
        return Ok(Condition::default());
    }
    Condition::parse(text).map_err(|problem| node.error(problem))
}
