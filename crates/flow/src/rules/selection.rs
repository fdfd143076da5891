//! What rules make of a call's endpoints, and why.

use std::fmt;
use std::sync::Arc;

/// Which endpoints a call may go to, and what each rule did.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    removals: Vec<Option<Removal>>,
    /// What the rules did, in their order.
    pub steps: Vec<Step>,
}

/// What removed an endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Removal {
    /// The rule's name.
    pub rule: Arc<str>,
    /// What of it.
    pub clause: Clause,
}

/// A part of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Clause {
    /// The condition at this index, counted from 0.
    Condition(usize),
    /// The weighted destination at `destination`, of the condition at `condition`, was drawn, or
    /// `None`: no destination has this endpoint.
    Destination {
        /// Counted from 0.
        condition: usize,
        /// Counted from 0.
        destination: Option<usize>,
    },
    /// The call wants endpoints of this tag.
    Tag(String),
    /// So many of a hundred of the calls that a split is for.
    Share(u32),
    /// The subset of a split, which its calls go to.
    Subset,
    /// The subsets of splits, where no other calls go.
    Subsets,
    /// The call has no tag, and goes to no endpoint that has one; or there is none of the call's
    /// tag, and endpoints without a tag stand in.
    Untagged,
}

/// What a part of a rule did.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Step {
    /// The rule's name.
    pub rule: Arc<str>,
    /// What of it.
    pub clause: Clause,
    /// What came of it.
    pub effect: Effect,
}

/// What came of a part of a rule.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// The rule is switched off.
    Off,
    /// The call is not meant.
    OtherCalls,
    /// Chance, or a value of the call, has left the call to others.
    NotDrawn,
    /// Splits before it have all of a hundred calls.
    NoneLeft,
    /// It takes the call.
    Drawn,
    /// It has taken its share of these calls, before the others were looked at.
    Detour,
    /// It kept this many endpoints.
    Kept(usize),
    /// It matches no endpoint, and does nothing because it is not forced.
    Ignored,
    /// Its endpoints all have weight 0, and it does nothing because it is not forced.
    Weightless,
    /// It matches no endpoint, and is forced: none is left.
    Nobody,
    /// These callers are to get none.
    Banned,
}

impl Step {
    /// Whether it has left any endpoint.
    #[must_use]
    pub const fn leaves_any(&self) -> bool {
        !matches!(self.effect, Effect::Nobody | Effect::Banned)
    }
}

impl Effect {
    /// In one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::OtherCalls => "other-calls",
            Self::NotDrawn => "not-drawn",
            Self::NoneLeft => "none-left",
            Self::Drawn => "drawn",
            Self::Detour => "detour",
            Self::Kept(_) => "kept",
            Self::Ignored => "ignored",
            Self::Weightless => "weightless",
            Self::Nobody => "nobody",
            Self::Banned => "banned",
        }
    }
}

/// The rule's name, and what of it.
impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.rule, self.clause)
    }
}

/// What of which rule did what.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {}", self.rule, self.clause, self.effect)
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition(index) => write!(f, "condition {}", index + 1),
            Self::Destination { condition, destination: Some(drawn) } => {
                write!(f, "condition {}, destination {} was drawn", condition + 1, drawn + 1)
            }
            Self::Destination { condition, destination: None } => {
                write!(f, "condition {}", condition + 1)
            }
            Self::Tag(tag) => write!(f, "tag {tag}"),
            Self::Share(percent) => write!(f, "{percent}% of its calls"),
            Self::Subset => f.write_str("its subset"),
            Self::Subsets => f.write_str("endpoints outside of the subsets"),
            Self::Untagged => f.write_str("endpoints without a tag"),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("is switched off"),
            Self::OtherCalls => f.write_str("does not apply to this call"),
            Self::NotDrawn => f.write_str("leaves this call to others"),
            Self::NoneLeft => f.write_str("none is left by the splits before it"),
            Self::Drawn => f.write_str("takes this call"),
            Self::Detour => f.write_str("these calls go there; what follows applies to the others"),
            Self::Kept(n) => write!(f, "keeps {n}"),
            Self::Ignored => f.write_str("matches no endpoint: ignored, because it is not forced"),
            Self::Weightless => {
                f.write_str("has only endpoints of weight 0: ignored, because it is not forced")
            }
            Self::Nobody => f.write_str("matches no endpoint: none is left"),
            Self::Banned => f.write_str("bans this caller"),
        }
    }
}

impl Selection {
    /// All of this many endpoints.
    #[must_use]
    pub fn all(n_endpoints: usize) -> Self {
        Self { removals: vec![None; n_endpoints], steps: Vec::new() }
    }

    /// Whether the endpoint at `index` is kept.
    #[must_use]
    pub fn is_kept(&self, index: usize) -> bool {
        self.removals.get(index).is_some_and(Option::is_none)
    }

    /// What removed the endpoint at `index`.
    #[must_use]
    pub fn removal(&self, index: usize) -> Option<&Removal> {
        self.removals.get(index)?.as_ref()
    }

    /// What has removed endpoints, each once.
    #[must_use]
    pub fn removals(&self) -> Vec<&Removal> {
        let mut all: Vec<&Removal> = Vec::new();
        for removal in self.removals.iter().flatten() {
            if !all.contains(&removal) {
                all.push(removal);
            }
        }
        all
    }

    /// The indexes of the endpoints that are kept.
    pub fn kept(&self) -> impl Iterator<Item = usize> + '_ {
        self.removals
            .iter()
            .enumerate()
            .filter_map(|(index, removal)| removal.is_none().then_some(index))
    }

    /// Whether no endpoint is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.removals.iter().all(Option::is_some)
    }

    /// Removes the endpoints that `keep` refuses.
    pub(super) fn retain(
        &mut self,
        rule: &Arc<str>,
        clause: &Clause,
        mut keep: impl FnMut(usize) -> bool,
    ) {
        for (index, removal) in self.removals.iter_mut().enumerate() {
            if removal.is_none() && !keep(index) {
                *removal = Some(Removal { rule: Arc::clone(rule), clause: clause.clone() });
            }
        }
    }

    pub(super) fn note(&mut self, rule: &Arc<str>, clause: Clause, effect: Effect) {
        self.steps.push(Step { rule: Arc::clone(rule), clause, effect });
    }
}
