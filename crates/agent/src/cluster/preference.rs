//! Whom a cluster prefers among the endpoints that may take a call: those that the call's key
//! leads to, and those of the own zone.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

use balance::{Affinity, Balancer, Policy, Ring, Slot};

use super::Member;
use crate::config::{ClusterPolicy, HashKey, RoutingPolicy};
use crate::facts::CallFacts;

/// The parameter of endpoints that says where they are.
pub(super) const ZONE: &str = "zone";

/// What a cluster goes by.
pub(super) struct Preference {
    /// Whether anything has to be looked at at all.
    is_active: Cell<bool>,
    state: RefCell<AffinityState>,
}

struct AffinityState {
    routing: Arc<RoutingPolicy>,
    /// By keys.
    affinity: Option<Affinity>,
}

/// Dubbo puts no brackets around an IPv6 address that has none in the provider's URL. Source:
/// `URL.getAddress`.
fn address_on_ring(host: &str, port: u16) -> String {
    format!("{host}:{port}")
}

impl Preference {
    pub(super) fn new(policy: &ClusterPolicy) -> Self {
        let state = AffinityState { routing: Arc::clone(&policy.routing), affinity: None };
        Self { is_active: Cell::new(policy.routing.zone.is_some()), state: RefCell::new(state) }
    }

    /// Takes the policy and the endpoints of now.
    pub(super) fn update(&self, policy: &ClusterPolicy, balancer: &Balancer<Member>) {
        let mut state = self.state.borrow_mut();
        state.routing = Arc::clone(&policy.routing);
        state.affinity = (policy.balance == Policy::ConsistentHash).then(|| {
            let staying = balancer.stats().filter(|stats| !stats.leaving);
            let mut all: Vec<(String, Slot)> = staying
                .map(|stats| {
                    let (host, port) = stats.key.0.endpoint.provider();
                    (address_on_ring(host, port), stats.slot)
                })
                .collect();
            // Every worker and agent has the same ring.
            all.sort_by(|a, b| a.0.cmp(&b.0));
            let nodes = policy.routing.hash.nodes;
            Affinity::new(nodes, all.iter().map(|(address, slot)| (&**address, *slot)))
        });
        self.is_active.set(state.affinity.is_some() || state.routing.zone.is_some());
    }

    /// The point of a call on the ring, if it has a key.
    #[inline]
    pub(super) fn point(&self, call: &dyn CallFacts) -> Option<u32> {
        if !self.is_active.get() {
            return None;
        }
        let state = self.state.borrow();
        state.affinity.as_ref()?;
        let key = match &state.routing.hash.key {
            HashKey::Attachment(name) => call.attachment(name)?,
            HashKey::Arguments(indexes) => {
                indexes.iter().filter_map(|index| call.argument(*index)).collect::<String>().into()
            }
        };
        let key: Cow<'_, str> = key;
        Some(Ring::point(&key))
    }

    /// Chooses an endpoint that is `usable` for a call with this point.
    #[inline]
    pub(super) fn pick(
        &self,
        balancer: &mut Balancer<Member>,
        now: Instant,
        point: Option<u32>,
        usable: impl Fn(&Member) -> bool,
    ) -> Option<Slot> {
        if !self.is_active.get() {
            return balancer.pick(now, &mut rand::rng(), usable);
        }
        self.prefer(balancer, now, point, &usable)
    }

    #[cold]
    fn prefer(
        &self,
        balancer: &mut Balancer<Member>,
        now: Instant,
        point: Option<u32>,
        usable: &dyn Fn(&Member) -> bool,
    ) -> Option<Slot> {
        let state = self.state.borrow();
        let pick = |balancer: &mut Balancer<Member>, usable: &dyn Fn(&Member) -> bool| match (
            &state.affinity,
            point,
        ) {
            (Some(affinity), Some(point)) => {
                balancer.pick_at(now, &mut rand::rng(), affinity, point, usable)
            }
            _ => balancer.pick(now, &mut rand::rng(), usable),
        };
        let near = state.routing.zone.as_deref().and_then(|zone| {
            let is_near =
                |member: &Member| member.0.endpoint.params.get(ZONE).is_some_and(|it| it == zone);
            pick(balancer, &|member| is_near(member) && usable(member))
        });
        match near {
            // One that is ejected takes calls only if nobody else does, in whatever zone.
            Some(slot) if !balancer.is_last_choice(slot, now) => near,
            _ => pick(balancer, usable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the two endpoints below Dubbo 3.3.6 picked.
    const PICKED: [(&str, u32); 5] = [("k1", 1), ("k2", 1), ("k8", 0), ("k9", 0), ("k11", 0)];

    #[test]
    fn addresses_of_ipv6_are_where_dubbo_has_them() {
        let all = [("2001:db8:0:0:0:0:0:1", 20880), ("10.0.0.1", 20880)];
        let all = all.map(|(host, port)| address_on_ring(host, port));
        let ring = Ring::new(balance::DEFAULT_NODES, all.iter().map(String::as_str));
        let picked = PICKED.map(|(key, _)| ring.pick(Ring::point(key), |_| true));
        assert_eq!(picked, PICKED.map(|(_, index)| Some(index)));
    }
}
