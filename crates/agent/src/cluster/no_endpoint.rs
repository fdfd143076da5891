//! Why nobody can take a call, in words.

use std::collections::BTreeSet;
use std::time::Instant;

use balance::Balancer;
use registry::{Freshness, unused_text, why_nobody};

use super::describe::NO_WEIGHT;
use super::{Allowed, Cluster, Member, MemberState};
use crate::error::{CallError, Code, SEE_REGISTRIES};

/// Endpoints whose troubles a caller is told: there may be thousands.
const MAX_TOLD: usize = 10;

impl Cluster {
    pub(super) fn registry_silent(&self) -> CallError {
        let (name, service) = (&self.registry_name, &self.service);
        let holding = self.holding.borrow();
        let message = match holding.unused_list() {
            [] => format!("registry {name:?} has not answered yet{SEE_REGISTRIES}"),
            unused => {
                let list = unused_text(unused);
                format!("registry {name:?} has not said yet who offers {service}{list}")
            }
        };
        CallError::new(Code::RegistryUnavailable, message)
    }

    /// The failure of a call that nobody can take at `now`.
    pub(super) fn no_endpoint_at(&self, now: Instant, allowed: Option<&Allowed>) -> CallError {
        let circuits = allowed.and_then(Allowed::circuits);
        match circuits.and_then(|circuits| Some((circuits, circuits.wait(now)?))) {
            Some((circuits, wait)) => self.circuit_open(circuits, wait),
            None => self.no_endpoint(allowed),
        }
    }

    pub(super) fn no_endpoint(&self, allowed: Option<&Allowed>) -> CallError {
        let balancer = self.balancer.borrow();
        if let Some(error) = self.all_switched_off(&balancer) {
            return error;
        }
        let (service, registry) = (&self.service, &self.registry_name);
        if let Some(reason) = allowed.and_then(Allowed::nobody) {
            let OutOfReach { out_of_use, .. } = self.out_of_reach(&balancer, allowed);
            let reasons = [Some(reason.to_owned()), out_of_use.say("out of use")];
            let reasons: Vec<String> = reasons.into_iter().flatten().collect();
            let message = format!(
                "routing rules leave no endpoint of {service} for this call ({}); see dubmesh \
                 explain",
                reasons.join("; ")
            );
            return CallError::new(Code::NoEndpoint, message);
        }
        if balancer.stats().any(|stats| !stats.leaving) {
            return CallError::new(Code::NoEndpoint, self.unreachable(&balancer, allowed));
        }
        let holding = self.holding.borrow();
        let unused = holding.unused_list();
        match (self.had_endpoints.get(), self.status.get()) {
            (false, Freshness::Current) => {
                CallError::new(Code::ServiceNotFound, why_nobody(service, registry, unused))
            }
            (_, Freshness::Current) => CallError::new(
                Code::NoEndpoint,
                format!(
                    "every endpoint of {service} has left registry {registry:?}{}",
                    unused_text(unused)
                ),
            ),
            _ => {
                let message = match unused {
                    [] => format!(
                        "registry {registry:?} cannot be reached, and no endpoint of {service} is \
                         known"
                    ),
                    _ => format!(
                        "registry {registry:?} does not say who offers {service}, and no endpoint \
                         is known{}",
                        unused_text(unused)
                    ),
                };
                CallError::new(Code::RegistryUnavailable, message)
            }
        }
    }
}

/// Which endpoints a call cannot reach, and why.
#[derive(Default)]
struct OutOfReach {
    down: ToldSome,
    /// Without weight.
    out_of_use: ToldSome,
    /// How many others rules removed.
    n_removed: usize,
}

impl Cluster {
    /// What keeps a call from each endpoint, in words.
    fn unreachable(&self, balancer: &Balancer<Member>, allowed: Option<&Allowed>) -> String {
        let OutOfReach { down, out_of_use, n_removed } = self.out_of_reach(balancer, allowed);
        let removals = allowed.map(Allowed::removed_by).unwrap_or_default();
        let by: Vec<String> = removals.iter().take(MAX_TOLD).map(ToString::to_string).collect();
        let removed = format!("removed by routing rules: {n_removed} ({})", by.join("; "));
        // The longest list comes last.
        let parts =
            [(n_removed != 0).then_some(removed), out_of_use.say("out of use"), down.say("down")];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("no endpoint of {} can be reached; {}", self.service, parts.join("; "))
    }

    fn out_of_reach(&self, balancer: &Balancer<Member>, allowed: Option<&Allowed>) -> OutOfReach {
        let mut found = OutOfReach::default();
        for stats in balancer.stats().filter(|stats| !stats.leaving) {
            let member = stats.key;
            if stats.weight == 0 {
                found.out_of_use.add(|| self.why_without_weight(member));
            } else if allowed.is_some_and(|allowed| !allowed.has(member)) {
                found.n_removed += 1;
            } else {
                found.down.add(|| member.0.trouble());
            }
        }
        found
    }

    /// The failure of calls whose endpoints all have no weight.
    fn all_switched_off(&self, balancer: &Balancer<Member>) -> Option<CallError> {
        let mut all = balancer.stats().filter(|stats| !stats.leaving).peekable();
        all.peek()?;
        if !all.all(|stats| stats.weight == 0) {
            return None;
        }
        let mut all = balancer.stats().filter(|stats| !stats.leaving).map(|stats| stats.key);
        let by: BTreeSet<String> =
            all.by_ref().take(MAX_TOLD).filter_map(|one| self.switched_off_by(one)).collect();
        let service = &self.service;
        let message = match by.is_empty() {
            true => format!(
                "every endpoint of {service} is registered with weight 0 or as disabled, so none \
                 gets calls"
            ),
            false => {
                let by: Vec<String> = by.into_iter().collect();
                format!(
                    "every endpoint of {service} is switched off by configurators ({}); see \
                     dubmesh explain",
                    by.join(", ")
                )
            }
        };
        Some(CallError::new(Code::NoEndpoint, message))
    }

    /// An endpoint's address, and why it gets no calls.
    fn why_without_weight(&self, member: &Member) -> String {
        let mut why = vec![NO_WEIGHT.to_owned()];
        self.say_who_switched_off(member, 0, &mut why);
        format!("{} ({})", member.0.upstream.address(), why.join("; "))
    }
}

/// Some of the endpoints, and how many more there are.
#[derive(Default)]
struct ToldSome {
    told: Vec<String>,
    n_more: usize,
}

impl ToldSome {
    fn add(&mut self, endpoint: impl FnOnce() -> String) {
        match self.told.len() < MAX_TOLD {
            true => self.told.push(endpoint()),
            false => self.n_more += 1,
        }
    }

    fn say(&self, what: &str) -> Option<String> {
        let more = match self.n_more {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        (!self.told.is_empty()).then(|| format!("{what}: {}{more}", self.told.join(", ")))
    }
}

impl MemberState {
    /// The address, and what is wrong with it.
    pub(super) fn trouble(&self) -> String {
        let address = self.upstream.address();
        match self.upstream.trouble(&self.service_name) {
            Some(error) => format!("{address} ({})", error.message),
            None => address.to_string(),
        }
    }
}
