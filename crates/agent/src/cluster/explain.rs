//! What would become of a call that nobody makes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::time::Instant;

use balance::{Balancer, EndpointStats};
use flow::rules::{Clause, WeightedDestination, WeightedDraw, why_without_effect};
use parameters::Parameters;
use registry::{Endpoint, EndpointKey};

use super::describe::{EndpointState, NO_WEIGHT};
use super::rules::ConfiguredChange;
use super::{Allowed, Cluster, Member, Standing};
use crate::facts::CallFacts;
use crate::inspect::snapshot::{
    DestinationSnapshot, ExplainedEndpoint, ExplanationSnapshot, StepSnapshot,
};

/// Calls that are imagined to see who gets which share.
const N_PICKS: usize = 200;
/// Endpoints times imagined calls: an answer must not hold up the worker's own calls.
const MAX_LOOKS: usize = 200_000;

impl Cluster {
    /// What would become of a call: which rules do something to it, what keeps it from each
    /// endpoint, and who would get which share of such calls. Nothing of it is counted.
    pub fn explain(&self, now: Instant, call: &dyn CallFacts, method: &str) -> ExplanationSnapshot {
        self.tell_rules_of_ejected();
        let explained = self.rules.explain(call);
        let policy = self.policy.borrow();
        let balancer = self.balancer.borrow();
        let (listed_by, changes) = (self.listed_by(), self.changes());
        let by_member: HashMap<_, _> =
            balancer.stats().map(|stats| (Rc::as_ptr(&stats.key.0), stats)).collect();
        let mut endpoints = BTreeMap::new();
        for one in &explained.members {
            let stats = by_member.get(&Rc::as_ptr(&one.member.0));
            let mut endpoint = self.explain_endpoint(&one.member, stats, now, method);
            if endpoint.weight != 0 && endpoint.weight < one.full_weight {
                let why = format!("warming up: its weight will be {}", one.full_weight);
                endpoint.why.push(why);
            }
            endpoint.why.extend(stats.and_then(|stats| self.why_full(stats, now)));
            endpoint.removed_by = match one.is_switched_off {
                true => self.switched_off_by(&one.member),
                false => one.removed_by.clone(),
            };
            endpoint.allowed_percent = one.kept_percent;
            let key = one.member.0.endpoint.key();
            endpoint.listed_by = listed_by.get(&key).map(ToString::to_string);
            endpoint.configured = changes.get(&key).into_iter().flatten().map(words).collect();
            endpoints.insert(one.member.0.upstream.address().to_string(), endpoint);
        }
        let n_ways = explained.ways.len();
        for (percent, allowed) in explained.ways {
            let allowed = self.narrowed(allowed, method);
            self.look_at_circuits(allowed.as_deref(), now);
            let point = self.preference.point(call);
            let shares = self.shares(now, &balancer, n_ways, allowed.as_deref(), point);
            for (member, share) in shares {
                if let Some(endpoint) = endpoints.get_mut(&**member.0.upstream.address()) {
                    endpoint.share_percent += share * percent / 100.0;
                }
            }
        }
        let mut rules = configured(&explained.configurators, &changes, explained.members.len());
        rules.extend(explained.steps.iter().map(|step| step_snapshot(step, &explained.draws)));
        ExplanationSnapshot {
            service: self.service_name.to_string(),
            registry: self.registry_name.to_string(),
            method: method.to_owned(),
            balance: policy.balance.name().to_owned(),
            workers: 1,
            method_policy: self.method_words(method),
            rules,
            unreadable: explained.unreadable,
            endpoints,
        }
    }

    /// What configurators change at endpoints, as the registry shows them.
    fn changes(&self) -> HashMap<EndpointKey, Vec<ConfiguredChange>> {
        let listed = self.listed.borrow();
        let of = |endpoint| Some(self.rules.changes(endpoint)).filter(|it| !it.is_empty());
        listed.endpoints.iter().filter_map(|one| Some((one.key(), of(one)?))).collect()
    }

    fn explain_endpoint(
        &self,
        member: &Member,
        stats: Option<&EndpointStats<'_, Member>>,
        now: Instant,
        method: &str,
    ) -> ExplainedEndpoint {
        let state = EndpointState {
            leaving: stats.is_none_or(|stats| stats.leaving),
            standing: self.standing(member),
            ejection: stats.and_then(|stats| stats.ejection).map(|ejection| ejection.reason),
            weight: stats.map_or(0, |stats| stats.weight),
        };
        let (standing, why) = state.explain(|| member.0.upstream.trouble(&member.0.service_name));
        let mut why: Vec<String> = why.into_iter().collect();
        why.extend(self.why_paused(member));
        self.say_who_switched_off(member, state.weight, &mut why);
        for (of, state) in self.broken(member, now).iter().filter(|(of, _)| **of == *method) {
            why.push(format!("circuit of method {of}: {state}"));
        }
        ExplainedEndpoint {
            standing: BTreeMap::from([(standing.to_owned(), 1)]),
            why,
            weight: state.weight,
            ..ExplainedEndpoint::default()
        }
    }

    /// Names the configurator, instead of a weight that nobody has set.
    pub(super) fn say_who_switched_off(&self, member: &Member, weight: u32, why: &mut Vec<String>) {
        if weight == 0
            && let Some(configurator) = self.switched_off_by(member)
        {
            why.retain(|why| why != NO_WEIGHT);
            why.push(format!("switched off by {configurator}"));
        }
    }

    /// The configurator that switches an endpoint off, if one does.
    pub(super) fn switched_off_by(&self, member: &Member) -> Option<String> {
        let (listed, key) = (self.listed.borrow(), member.0.endpoint.key());
        let at = listed.endpoints.binary_search_by_key(&key, Endpoint::key).ok()?;
        self.rules.switched_off_by(listed.endpoints.get(at)?)
    }

    /// Who would get how many percent of calls that come at once, if those who are not full now
    /// had room for all of them: how soon calls end, and who else is waiting, would be guessed.
    /// `balancer` is copied. It is asked in `n_ways`.
    fn shares(
        &self,
        now: Instant,
        balancer: &Balancer<Member>,
        n_ways: usize,
        allowed: Option<&Allowed>,
        point: Option<u32>,
    ) -> Vec<(Member, f64)> {
        let max = self.policy.borrow().max_in_flight;
        let at_limit = balancer.stats().filter(|stats| max <= stats.in_flight);
        let at_limit: HashSet<_> = at_limit.map(|stats| stats.key.id()).collect();
        let mut balancer = balancer.clone();
        let n_picks = (MAX_LOOKS / balancer.len().max(1) / n_ways.max(1)).clamp(1, N_PICKS);
        let mut picked: Vec<(Member, usize)> = Vec::new();
        for _ in 0..n_picks {
            let standing = |member: &Member| self.standing_for(member, now, allowed);
            let is_ready = |member: &Member| {
                standing(member) == Standing::Ready && !at_limit.contains(&member.id())
            };
            let slot = self.pick(&mut balancer, now, point, is_ready);
            let Some(slot) = slot else { break };
            let Some(member) = balancer.key(slot).cloned() else { break };
            let _counts_in_the_copy = balancer.begin(slot);
            match picked.iter_mut().find(|(known, _)| *known == member) {
                Some((_, n)) => *n += 1,
                None => picked.push((member, 1)),
            }
        }
        let percent = |n: usize| n as f64 * 100.0 / n_picks as f64;
        picked.into_iter().map(|(member, n)| (member, percent(n))).collect()
    }
}

/// What a change does, in words.
fn words(change: &ConfiguredChange) -> String {
    let ConfiguredChange { configurator, params } = change;
    format!("{configurator} sets {}", list(params))
}

fn pair((name, value): (&str, &str)) -> String {
    match why_without_effect(name, value) {
        Some(why) => format!("{name}={value} ({name} {why})"),
        None => format!("{name}={value}"),
    }
}

fn list(params: &Parameters) -> String {
    let pairs: Vec<String> = params.iter().map(pair).collect();
    pairs.join(", ")
}

/// What each configurator does.
fn configured(
    names: &[String],
    changes: &HashMap<EndpointKey, Vec<ConfiguredChange>>,
    n_endpoints: usize,
) -> Vec<StepSnapshot> {
    let step = |name: &String| {
        let own = changes.values().flatten().filter(|change| *change.configurator == **name);
        let mut all: Vec<String> = own.map(|change| list(&change.params)).collect();
        let n_changed = all.len();
        all.sort_unstable();
        all.dedup();
        let (effect, why) = match &*all {
            [] => ("ignored", "changes no endpoint".to_owned()),
            [same] => ("configured", format!("sets {same} at {n_changed} of {n_endpoints}")),
            _ => (
                "configured",
                format!("changes {n_changed} of {n_endpoints}, with different values"),
            ),
        };
        StepSnapshot { rule: name.clone(), effect: effect.to_owned(), why, destinations: vec![] }
    };
    names.iter().map(step).collect()
}

fn step_snapshot(step: &flow::rules::Step, draws: &[WeightedDraw]) -> StepSnapshot {
    let drawn = match &step.clause {
        Clause::Destination { condition, .. } => {
            draws.iter().find(|draw| draw.rule == step.rule && draw.condition == *condition)
        }
        _ => None,
    };
    let destination =
        |draw: &WeightedDraw, index: usize, it: &WeightedDestination| DestinationSnapshot {
            to: it.to.to_string(),
            share_percent: it.percent,
            is_drawn: draw.drawn == Some(index),
        };
    let destinations = drawn.into_iter().flat_map(|draw| {
        let all = draw.destinations.iter().enumerate();
        all.map(|(index, it)| destination(draw, index, it))
    });
    StepSnapshot {
        rule: format!("{}, {}", step.rule, step.clause),
        effect: step.effect.name().to_owned(),
        why: step.effect.to_string(),
        destinations: destinations.collect(),
    }
}
