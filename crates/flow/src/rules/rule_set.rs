//! The rules of one service, in the order in which Dubbo applies them.

use rand::Rng;

use super::condition_rule::ConditionRule;
use super::parties::{CallView, UrlView};
use super::selection::Selection;
use super::tag_rule::TagRule;

/// The rules that hold for calls of one service.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// The tag rule of the provider's application.
    pub tags: Option<TagRule>,
    /// The conditions: of the service, then of the provider's application, then of the caller's.
    pub conditions: Vec<ConditionRule>,
}

impl RuleSet {
    /// The endpoints that a call may go to. `rng` is asked for where destinations have weights.
    pub fn select<R: Rng + ?Sized>(
        &self,
        call: &CallView<'_>,
        endpoints: &[UrlView<'_>],
        rng: &mut R,
    ) -> Selection {
        let mut selection = Selection::all(endpoints.len());
        match &self.tags {
            Some(tags) => tags.apply(call, endpoints, &mut selection),
            None => TagRule::apply_own(call, endpoints, &mut selection),
        }
        for rule in &self.conditions {
            rule.apply(call, endpoints, rng, &mut selection);
        }
        selection
    }
}
