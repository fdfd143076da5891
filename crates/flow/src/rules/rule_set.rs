//! The rules of one service, in the order in which Dubbo applies them.

use std::collections::BTreeSet;

use rand::Rng;

use super::chances::{ByChance, Chances, Chooser};
use super::condition_rule::ConditionRule;
use super::parties::{CallView, UrlView};
use super::selection::Selection;
use super::tag_rule::TagRule;
use super::{FORCE_TAG, TAG};

/// The rules that hold for calls of one service.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// The tag rule of the provider's application.
    pub tags: Option<TagRule>,
    /// The conditions: of the service, then of the provider's application, then of the caller's.
    pub conditions: Vec<ConditionRule>,
}

/// What of a call decides where it may go, besides its method and its caller: two calls with the
/// same of this have the same endpoints.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Inputs {
    /// Attachments by name.
    pub attachments: BTreeSet<String>,
    /// Arguments by index.
    pub arguments: BTreeSet<usize>,
    /// Whether chance decides, too.
    pub is_drawn: bool,
}

impl RuleSet {
    /// Whether there is no rule. Endpoints may still have tags of their own.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tags.is_none() && self.conditions.is_empty()
    }

    /// What the rules look at in a call.
    #[must_use]
    pub fn inputs(&self) -> Inputs {
        let mut inputs = Inputs::default();
        inputs.attachments.extend([TAG, FORCE_TAG].map(str::to_owned));
        self.conditions.iter().for_each(|rule| rule.note(&mut inputs));
        inputs
    }

    /// The endpoints that a call may go to. `rng` is asked for where destinations have weights.
    pub fn select<R: Rng + ?Sized>(
        &self,
        call: &CallView<'_>,
        endpoints: &[UrlView<'_>],
        rng: &mut R,
    ) -> Selection {
        self.select_by(call, endpoints, &mut ByChance(rng))
    }

    /// The endpoints that calls like this one may go to, whatever is drawn for them. At most `max`
    /// draws are gone through: conditions multiply them.
    #[must_use]
    pub fn chances(&self, call: &CallView<'_>, endpoints: &[UrlView<'_>], max: usize) -> Chances {
        Chances::new(max, |chooser| self.select_by(call, endpoints, chooser))
    }

    fn select_by(
        &self,
        call: &CallView<'_>,
        endpoints: &[UrlView<'_>],
        chooser: &mut dyn Chooser,
    ) -> Selection {
        let mut selection = Selection::all(endpoints.len());
        match &self.tags {
            Some(tags) => tags.apply(call, endpoints, &mut selection),
            None => TagRule::apply_own(call, endpoints, &mut selection),
        }
        for rule in &self.conditions {
            rule.apply_by(call, endpoints, chooser, &mut selection);
        }
        selection
    }
}
