//! What would become of a call that nobody makes.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use balance::{Balancer, EndpointStats};

use super::describe::EndpointState;
use super::{Allowed, Cluster, Member, Standing};
use crate::facts::CallFacts;
use crate::inspect::snapshot::{ExplainedEndpoint, ExplanationSnapshot, StepSnapshot};

/// Calls that are imagined to see who gets which share.
const N_PICKS: usize = 200;
/// Endpoints times imagined calls: an answer must not hold up the worker's own calls.
const MAX_LOOKS: usize = 200_000;

impl Cluster {
    /// What would become of a call: which rules do something to it, what keeps it from each
    /// endpoint, and who would get which share of such calls. Nothing of it is counted.
    pub fn explain(&self, now: Instant, call: &dyn CallFacts, method: &str) -> ExplanationSnapshot {
        let explained = self.rules.explain(call);
        let policy = self.policy.borrow();
        let max_in_flight = policy.max_in_flight;
        let balancer = self.balancer.borrow();
        let listed_by = self.listed_by();
        let mut endpoints = BTreeMap::new();
        for one in &explained.members {
            let stats = balancer.stats().find(|stats| stats.key == &one.member);
            let mut endpoint = self.explain_endpoint(&one.member, stats.as_ref());
            if endpoint.weight != 0 && endpoint.weight < one.full_weight {
                let why = format!("warming up: its weight will be {}", one.full_weight);
                endpoint.why.push(why);
            }
            if stats.is_some_and(|stats| max_in_flight <= stats.in_flight) {
                endpoint.why.push(format!("at its limit: max_in_flight is {max_in_flight}"));
            }
            for (of, state) in self.circuits.broken(&one.member, now) {
                endpoint.why.push(format!("circuit of method {of}: {state}"));
            }
            endpoint.removed_by.clone_from(&one.removed_by);
            let registry = listed_by.get(&one.member.0.endpoint.key());
            endpoint.listed_by = registry.map(ToString::to_string);
            endpoints.insert(one.member.0.upstream.address().to_string(), endpoint);
        }
        let allowed = self.narrowed(explained.allowed.map(Rc::new), method);
        self.look_at_circuits(allowed.as_deref(), now);
        let point = self.preference.point(call);
        let shares = self.shares(now, balancer.clone(), allowed.as_deref(), point);
        for (member, share) in shares {
            if let Some(endpoint) = endpoints.get_mut(&**member.0.upstream.address()) {
                endpoint.share_percent = share;
            }
        }
        let step = |step: &flow::rules::Step| StepSnapshot {
            rule: format!("{}, {}", step.rule, step.clause),
            effect: step.effect.name().to_owned(),
            why: step.effect.to_string(),
        };
        ExplanationSnapshot {
            service: self.service_name.to_string(),
            registry: self.registry_name.to_string(),
            method: method.to_owned(),
            balance: policy.balance.name().to_owned(),
            workers: 1,
            method_policy: self.method_words(method),
            rules: explained.steps.iter().map(step).collect(),
            unreadable: explained.unreadable,
            endpoints,
        }
    }

    fn explain_endpoint(
        &self,
        member: &Member,
        stats: Option<&EndpointStats<'_, Member>>,
    ) -> ExplainedEndpoint {
        let state = EndpointState {
            leaving: stats.is_none_or(|stats| stats.leaving),
            standing: self.standing(member),
            ejection: stats.and_then(|stats| stats.ejection).map(|ejection| ejection.reason),
            weight: stats.map_or(0, |stats| stats.weight),
        };
        let (standing, why) = state.explain(|| member.0.upstream.trouble(&self.service_name));
        ExplainedEndpoint {
            standing: BTreeMap::from([(standing.to_owned(), 1)]),
            why: why.into_iter().collect(),
            weight: state.weight,
            ..ExplainedEndpoint::default()
        }
    }

    /// Who would get how many percent of calls that come at once. `balancer` is a copy.
    fn shares(
        &self,
        now: Instant,
        mut balancer: Balancer<Member>,
        allowed: Option<&Allowed>,
        point: Option<u32>,
    ) -> Vec<(Member, f64)> {
        let n_picks = (MAX_LOOKS / balancer.len().max(1)).clamp(1, N_PICKS);
        let mut picked: Vec<(Member, usize)> = Vec::new();
        for _ in 0..n_picks {
            let standing = |member: &Member| self.standing_for(member, now, allowed);
            let is_ready = |member: &Member| standing(member) == Standing::Ready;
            let slot = self.preference.pick(&mut balancer, now, point, is_ready);
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
