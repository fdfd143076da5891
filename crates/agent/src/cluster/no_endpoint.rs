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
        if let Some(reason) = allowed.and_then(Allowed::nobody) {
            let service = &self.service;
            let message = format!(
                "routing rules leave no endpoint of {service} for this call ({reason}); see \
                 dubmesh explain"
            );
            return CallError::new(Code::NoEndpoint, message);
        }
        let (service, registry) = (&self.service, &self.registry_name);
        let balancer = self.balancer.borrow();
        if let Some(error) = self.all_switched_off(&balancer) {
            return error;
        }
        let mut down = balancer.stats().filter(|stats| !stats.leaving);
        let troubles = down.by_ref().take(MAX_TOLD);
        let told: Vec<String> =
            troubles.map(|stats| self.trouble(stats.key, stats.weight)).collect();
        if !told.is_empty() {
            let list = told.join(", ");
            let more = match down.count() {
                0 => String::new(),
                n => format!(", and {n} more"),
            };
            let message = format!("no endpoint of {service} can be reached; down: {list}{more}");
            return CallError::new(Code::NoEndpoint, message);
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

impl Cluster {
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
    fn trouble(&self, member: &Member, weight: u32) -> String {
        match weight {
            0 => {
                let mut why = vec![NO_WEIGHT.to_owned()];
                self.say_who_switched_off(member, weight, &mut why);
                format!("{} ({})", member.0.upstream.address(), why.join("; "))
            }
            _ => member.0.trouble(),
        }
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
