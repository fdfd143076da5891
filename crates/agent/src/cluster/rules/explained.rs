//! What rules do to a call that nobody makes.

use std::rc::Rc;

use flow::rules::{Chances, Selection, Step, UrlView, WeightedDraw};
use parameters::Parameters;
use registry::Endpoint;

use super::super::splits;
use super::{ConfiguredChange, Member, RuleState, Rules, allowed_of, joined};
use crate::cluster::Allowed;
use crate::config::Split;
use crate::facts::CallFacts;

/// Endpoints times draws that are gone through: an answer must not hold up the worker's own calls.
const MAX_LOOKS: usize = 20_000;
/// Fewest and most draws that are gone through.
const MIN_DRAWS: usize = 2;
const MAX_DRAWS: usize = 256;

/// What rules do to a call.
pub(in crate::cluster) struct Explained {
    /// What they leave of the endpoints, whatever is drawn, and for how many of a hundred calls.
    pub(in crate::cluster) ways: Vec<(f64, Option<Rc<Allowed>>)>,
    pub(in crate::cluster) members: Vec<ExplainedMember>,
    /// What each part of each rule does, for one draw.
    pub(in crate::cluster) steps: Vec<Step>,
    /// The destinations of that draw.
    pub(in crate::cluster) draws: Vec<WeightedDraw>,
    /// The names of all configurators, in their order.
    pub(in crate::cluster) configurators: Vec<String>,
    /// Documents of the registry that cannot be read.
    pub(in crate::cluster) unreadable: Vec<String>,
}

/// What they do to an endpoint.
pub(in crate::cluster) struct ExplainedMember {
    pub(in crate::cluster) member: Member,
    /// With what configurators make of it, and without its warm-up.
    pub(in crate::cluster) full_weight: u32,
    pub(in crate::cluster) removed_by: Option<String>,
    /// By a configurator; then no rule sees it.
    pub(in crate::cluster) is_switched_off: bool,
    /// To how many of a hundred calls the rules leave it.
    pub(in crate::cluster) kept_percent: f64,
}

impl Rules {
    /// What the rules do to calls like this one.
    pub(in crate::cluster) fn explain(&self, call: &dyn CallFacts) -> Explained {
        let state = self.state.borrow();
        let (service, all_splits) = (&self.service, &*state.routing.splits);
        let views = state.views(&service.interface);
        let parts = splits::all_of_call(all_splits, call, service);
        let is_looked_at = self.has_to_look_at(call);
        let of_part = |split: Option<&Split>| match is_looked_at {
            false => Chances::sure(Selection::all(views.len())),
            true => state.chances(call, split, &service.interface, &views),
        };
        let mut by_split = Vec::new();
        for (percent, split) in parts {
            by_split.push((percent, split, of_part(split)));
        }
        let mut point = rand::random_range(0.0..100.0);
        let one = by_split.iter().find(|(percent, ..)| {
            point -= percent;
            point < 0.0
        });
        let mut steps = splits::steps(all_splits, call, service, one.and_then(|it| it.1));
        let drawn = one.and_then(|(_, _, chances)| chances.draw(&mut rand::rng())).cloned();
        let chances = Chances::join(by_split.into_iter().map(|(percent, _, it)| (percent, it)));
        let members = state.endpoints.iter().enumerate().map(|(index, placed)| ExplainedMember {
            member: placed.member.clone(),
            full_weight: placed.endpoint.weight,
            removed_by: chances.removal(index).map(|it| it.to_string()),
            is_switched_off: false,
            kept_percent: chances.kept_percent(index),
        });
        let switched_off = state.switched_off.iter().map(|placed| ExplainedMember {
            member: placed.member.clone(),
            full_weight: placed.endpoint.weight,
            removed_by: None,
            is_switched_off: true,
            kept_percent: 0.0,
        });
        let allowed =
            |selection: &Selection| is_looked_at.then(|| Rc::new(allowed_of(&state, selection)));
        let ways = chances.all().iter().map(|way| (way.percent, allowed(&way.selection)));
        let draws = drawn.as_ref().map(|drawn| drawn.draws.clone()).unwrap_or_default();
        steps.extend(drawn.into_iter().flat_map(|drawn| drawn.selection.steps));
        Explained {
            ways: ways.collect(),
            members: members.chain(switched_off).collect(),
            steps,
            draws,
            configurators: state.configurators.iter().map(|it| it.name().to_string()).collect(),
            unreadable: state.registry.unreadable.clone(),
        }
    }

    /// What configurators change at an endpoint that the registry shows like this.
    pub(in crate::cluster) fn changes(&self, endpoint: &Endpoint) -> Vec<ConfiguredChange> {
        self.state.borrow().changes(endpoint, &self.service.interface)
    }

    /// The configurator that switches an endpoint off.
    pub(in crate::cluster) fn switched_off_by(&self, endpoint: &Endpoint) -> Option<String> {
        let mut params: Parameters = endpoint.params.clone();
        let mut by = None;
        for ConfiguredChange { configurator, params: changed } in self.changes(endpoint) {
            let was_off = endpoint.with_params(params.clone()).is_disabled();
            params = joined(&params, &changed);
            let is_off = endpoint.with_params(params.clone()).is_disabled();
            by = match (was_off, is_off) {
                (_, false) => None,
                (false, true) => Some(configurator.to_string()),
                (true, true) => by,
            };
        }
        by
    }
}

impl RuleState {
    /// What rules can make of a call that this split takes.
    fn chances(
        &self,
        call: &dyn CallFacts,
        split: Option<&Split>,
        interface: &str,
        views: &[UrlView<'_>],
    ) -> Chances {
        let max = (MAX_LOOKS / views.len().max(1)).clamp(MIN_DRAWS, MAX_DRAWS);
        let chances_of = |split: Option<&Split>| {
            let mut chances =
                self.with_view(call, split, interface, |view| self.set.chances(view, views, max));
            chances.each(|selection| self.apply_subsets(split, views, selection));
            chances
        };
        let chances = chances_of(split);
        let is_weightless = chances.all().iter().all(|it| self.is_weightless(&it.selection));
        let step = split.and_then(splits::without_weight).filter(|_| is_weightless);
        let Some(step) = step else { return chances };
        let mut others = chances_of(None);
        if !others.all().iter().any(|it| self.takes_calls(&it.selection)) {
            return chances;
        }
        others.each(|selection| selection.steps.insert(0, step.clone()));
        others
    }
}
