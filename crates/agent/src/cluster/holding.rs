//! The list of a cluster's endpoints as the registry shows it, and those that are held beside it.
//!
//! [`balance::Holder`] decides; here it is told what the connections show, and what it decides is
//! shown in metrics and in the log.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use balance::{EndpointSpec, Evidence, Holder};
use registry::{Endpoint, NotUsed, Unused};
use tracing::{info, warn};

use super::{Member, Standing};
use crate::config::ClusterPolicy;
use crate::metrics::{HeldEndpoint, Hub};

/// A provider that leaves in order takes its name off the registry before it says goodbye: an
/// agent 2 s before, as callers take their time to hear of it. Nothing is said aloud that is over
/// within this time.
const ALOUD_AFTER: Duration = Duration::from_secs(3);

/// The parameter by which an agent names the app that it stands in for.
const FOR: &str = "for";

/// The endpoints of one service, listed and held.
pub(super) struct Holding {
    service: Box<str>,
    registry: Box<str>,
    hub: Hub,
    listed: Vec<EndpointSpec<Member>>,
    /// What else is registered.
    unused: Arc<[Unused]>,
    holder: Holder<Member>,
    /// One for each endpoint that is held.
    shown: Vec<HeldEndpoint>,
}

impl Holding {
    pub(super) fn new(service: &str, registry: &str, policy: &ClusterPolicy, hub: Hub) -> Self {
        let (listed, unused, shown) = Default::default();
        let (service, registry) = (service.into(), registry.into());
        Self { service, registry, hub, listed, unused, holder: Holder::new(policy.hold), shown }
    }

    pub(super) fn set_policy(&mut self, policy: &ClusterPolicy) {
        self.holder.set_policy(policy.hold);
    }

    /// Those that the registry listed last, in the order of their keys.
    pub(super) fn listed(&self) -> &[EndpointSpec<Member>] {
        &self.listed
    }

    /// Endpoints that are not listed, but whose connections are kept.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Member> {
        self.holder.kept()
    }

    /// Takes over a new list of the registry. Returns all endpoints to use.
    pub(super) fn update(
        &mut self,
        now: Instant,
        specs: Vec<EndpointSpec<Member>>,
        unused: &Arc<[Unused]>,
    ) -> Vec<EndpointSpec<Member>> {
        self.unused = Arc::clone(unused);
        let mut gone = std::mem::replace(&mut self.listed, specs);
        let stays: HashSet<_> = self.listed.iter().map(|spec| spec.key.id()).collect();
        // What an operator has taken off a list is off, whether it answers or not.
        gone.retain(|spec| !stays.contains(&spec.key.id()) && !spec.key.0.endpoint.is_written);
        // Nothing has to be looked for in a list of thousands that has only grown.
        if !gone.is_empty() || !self.holder.is_empty() {
            let list = List::of(self.listed.iter().map(|spec| &spec.key.0.endpoint), unused);
            self.holder.listed(|member| list.has(&member.0.endpoint));
            self.holder
                .vanished(now, gone.into_iter().filter(|spec| !list.has(&spec.key.0.endpoint)));
        }
        self.decide(now);
        self.all()
    }

    /// Looks again at what is kept. Returns all endpoints to use if that has changed.
    pub(super) fn check(&mut self, now: Instant) -> Option<Vec<EndpointSpec<Member>>> {
        if self.holder.is_empty() {
            return None;
        }
        self.decide(now).then(|| self.all())
    }

    /// Endpoints that are used although they are not listed.
    pub(super) fn held(&self) -> impl Iterator<Item = &Member> {
        self.holder.held().map(|spec| &spec.key)
    }

    /// What is registered and cannot be used.
    pub(super) fn unused_list(&self) -> &[Unused] {
        &self.unused
    }

    /// Keeps an endpoint no longer that has shown that it does not serve. Returns all endpoints to
    /// use if it was one of them.
    pub(super) fn stop(
        &mut self,
        now: Instant,
        gone: &Member,
    ) -> Option<Vec<EndpointSpec<Member>>> {
        if self.holder.is_empty() {
            return None;
        }
        self.holder.listed(|member| member == gone);
        self.decide(now).then(|| self.all())
    }

    fn all(&self) -> Vec<EndpointSpec<Member>> {
        self.listed.iter().chain(self.holder.held()).cloned().collect()
    }

    fn decide(&mut self, now: Instant) -> bool {
        let alive = |spec: &&EndpointSpec<Member>| spec.key.0.standing() == Standing::Ready;
        let n_alive = match self.holder.is_empty() {
            true => 0,
            false => self.listed.iter().filter(alive).count(),
        };
        let has_changed = self.holder.decide(now, n_alive, |member| member.evidence(now));
        if has_changed {
            self.show();
        }
        self.announce(now);
        has_changed
    }

    fn show(&mut self) {
        let held = self.holder.held().map(|spec| spec.key.0.upstream.address());
        // The new ones first, so that one that stays is not shown as having gone.
        let shown = held.map(|address| self.hub.held(&self.service, address)).collect();
        self.shown = shown;
        if self.shown.is_empty() && self.hub.end_hold(&self.service) {
            info!(service = %self.service, "no endpoint is held any more");
        }
    }

    fn announce(&self, now: Instant) {
        let Some(since) = self.holder.holding_since() else { return };
        let is_early = now.saturating_duration_since(since) < ALOUD_AFTER;
        if is_early || !self.hub.begin_hold(&self.service) {
            return;
        }
        let endpoints: Vec<&str> =
            self.holder.held().map(|spec| &**spec.key.0.upstream.address()).collect();
        warn!(
            service = %self.service,
            registry = %self.registry,
            held = endpoints.join(", "),
            listed = self.listed.len(),
            "endpoints have vanished from the registry but still answer; they stay in use for at \
             most hold_ms"
        );
    }
}

impl Member {
    fn evidence(&self, now: Instant) -> Evidence {
        self.0.upstream.evidence(&self.0.service_name, now)
    }
}

/// The addresses of a list, and those of the apps that its agents stand in for.
struct List<'a>(HashSet<Address<'a>>);

/// A host and a port; of an address that is neither, the whole text.
type Address<'a> = (&'a str, u16);

impl<'a> List<'a> {
    fn of(endpoints: impl Iterator<Item = &'a Endpoint>, unused: &'a [Unused]) -> Self {
        let listed = endpoints.flat_map(addresses);
        // Somebody has switched these off: that is no mistake of the registry.
        let off = unused.iter().filter(|it| it.reason == NotUsed::Disabled);
        Self(listed.chain(off.filter_map(|it| it.address.as_deref().map(address))).collect())
    }

    /// Whether an endpoint is listed, or another one goes the same way in its place: it was
    /// registered again with other parameters, or an agent came between, or went.
    fn has(&self, endpoint: &Endpoint) -> bool {
        addresses(endpoint).any(|address| self.0.contains(&address))
    }
}

/// An endpoint's own address, and that of the app that it stands in for.
fn addresses(endpoint: &Endpoint) -> impl Iterator<Item = Address<'_>> {
    let own = (&*endpoint.host, endpoint.port);
    [Some(own), endpoint.params.get(FOR).map(address)].into_iter().flatten()
}

fn address(text: &str) -> Address<'_> {
    wire::address::split(text).unwrap_or((text, 0))
}

#[cfg(test)]
mod tests {
    use registry::Protocol;

    use super::*;

    fn endpoint(protocol: Protocol, port: u16, app: Option<&str>) -> Endpoint {
        let mut endpoint = Endpoint::new(protocol, "10.0.0.1", port);
        endpoint.params = app.map(|app| (FOR, app)).into_iter().collect();
        endpoint
    }

    fn unused(address: &str, reason: NotUsed) -> Unused {
        Unused { what: address.to_owned(), address: Some(address.to_owned()), reason }
    }

    /// An agent in front of a provider, or a provider whose agent went, is the same endpoint.
    #[test]
    fn another_way_to_the_same_app_replaces_an_endpoint() {
        let provider = endpoint(Protocol::Dubbo, 1, None);
        let agent = endpoint(Protocol::Link, 2, Some("10.0.0.1:1"));
        let stranger = endpoint(Protocol::Link, 3, Some("10.0.0.1:4"));
        for (listed, others) in [(&provider, [&provider, &agent]), (&agent, [&agent, &provider])] {
            let list = List::of([listed].into_iter(), &[]);
            assert!(others.into_iter().all(|other| list.has(other)), "{listed:?}");
            assert!(!list.has(&stranger), "{listed:?}");
        }
    }

    /// To hold an endpoint that its operator has switched off would undo what the operator did.
    #[test]
    fn an_endpoint_that_was_switched_off_is_not_missing() {
        let provider = endpoint(Protocol::Dubbo, 1, None);
        let is_missing = |reason| {
            let unused = [unused("10.0.0.1:1", reason)];
            !List::of([].into_iter(), &unused).has(&provider)
        };
        assert!(!is_missing(NotUsed::Disabled));
        assert!(is_missing(NotUsed::Protocol));
    }
}
