//! What is shown of endpoints that are ejected, in metrics and in the log, and why an attempt's
//! end counts for or against its endpoint.
//!
//! [`balance::Balancer`] decides; each worker by the calls that it makes itself.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Instant;

use balance::{Balancer, Changed, Ejection, EndpointStats};
use flow::AttemptEnd;
use tracing::{info, warn};

use super::attempt::is_unsent;
use super::{Cluster, Member};
use crate::error::{CallError, Code};
use crate::metrics::{EjectedEndpoint, Hub};

/// What the log says of an endpoint that gets no calls any more.
const EJECTED: &str = "endpoint ejected";
/// And of one that gets some again.
const BACK: &str = "ejected endpoint takes calls again";

/// An endpoint that takes no calls now, for people to read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EjectedInfo {
    /// Its address.
    pub address: Box<str>,
    /// Why, since when, and when it is tried again. The reason's text is a sentence's end.
    pub ejection: Ejection,
}

/// The ejected endpoints of one cluster, as one worker shows them.
pub(super) struct ClusterEjections {
    service: Box<str>,
    hub: Hub,
    shown: HashMap<Box<str>, EjectedEndpoint>,
}

impl ClusterEjections {
    pub(super) fn new(service: &str, hub: Hub) -> Self {
        Self { service: service.into(), hub, shown: HashMap::new() }
    }

    /// Shows what has changed since the last time.
    pub(super) fn show(&mut self, now: Instant, balancer: &mut Balancer<Member>) {
        while let Some(Changed { key, ejection }) = balancer.poll_change() {
            let address = key.0.upstream.address();
            match ejection {
                Some(ejection) => self.out(now, address, &ejection),
                None => self.back(address),
            }
        }
        // Endpoints that left their registry while they were ejected do not come back.
        if !self.shown.is_empty() {
            let out: HashSet<&str> = balancer
                .stats()
                .filter(|stats| stats.ejection.is_some())
                .map(|stats| &**stats.key.0.upstream.address())
                .collect();
            self.shown.retain(|address, _| out.contains(&**address));
        }
    }

    fn out(&mut self, now: Instant, address: &str, ejection: &Ejection) {
        let reason = ejection.reason;
        self.hub.count_ejection(&self.service, reason);
        let shown = self
            .shown
            .entry(address.into())
            .or_insert_with(|| self.hub.ejected(&self.service, address));
        if shown.is_to_be_told() {
            let time = ejection.until.saturating_duration_since(now);
            warn!(
                service = %self.service,
                endpoint = address,
                reason = reason.name(),
                retry_in_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
                "{EJECTED}: {reason}; it gets no calls until it answers a trial call"
            );
        }
    }

    fn back(&mut self, address: &str) {
        let Some(shown) = self.shown.remove(address) else { return };
        if shown.was_told() {
            info!(service = %self.service, endpoint = address, "{BACK}");
        }
    }
}

impl Cluster {
    /// Tells the rules which endpoints are ejected, and not due for a trial: a destination of
    /// which all are is not drawn. One that is due has to be, or it would never come back.
    pub(super) fn tell_rules_of_ejected(&self) {
        let (balancer, now) = (self.balancer.borrow(), Instant::now());
        if !balancer.has_ejected() {
            return self.rules.set_ejected(HashSet::new());
        }
        let is_out = |stats: &EndpointStats<'_, Member>| {
            stats.ejection.is_some_and(|it| now < it.until || 0 < stats.in_flight)
        };
        let out = balancer.stats().filter(is_out).map(|stats| Rc::as_ptr(&stats.key.0));
        self.rules.set_ejected(out.collect());
    }
}

/// How an attempt ended that was answered with status OK, and whose reply counts as this failure.
#[inline]
pub(super) fn of_reply(failure: Option<Code>) -> AttemptEnd {
    match failure {
        None => AttemptEnd::Answered,
        Some(Code::Exception) => AttemptEnd::Threw,
        Some(_) => AttemptEnd::Failed,
    }
}

/// How an attempt ended that failed, unless the endpoint has refused it. What a caller can bring
/// about by what he asks for never counts against an endpoint.
pub(super) fn of_error(error: &CallError) -> AttemptEnd {
    match error.code {
        _ if is_unsent(error) => AttemptEnd::Unheard,
        Code::Exception => AttemptEnd::Threw,
        Code::Timeout => AttemptEnd::TimedOut,
        Code::ThreadPoolExhausted | Code::Overloaded => AttemptEnd::Full,
        Code::NoEndpoint
        | Code::Unreachable
        | Code::Refused
        | Code::ConnectionBroken
        | Code::BadReply
        | Code::ProviderError
        | Code::ServiceNotFound => AttemptEnd::Failed,
        Code::BadRequest
        | Code::NoRoute
        | Code::CrossSite
        | Code::MethodNotAllowed
        | Code::UnsupportedMediaType
        | Code::NotImplemented
        | Code::HeadTooLarge
        | Code::RequestTimeout
        | Code::BodyTooLarge
        | Code::BadArguments
        | Code::AmbiguousMethod
        | Code::MethodNotFound
        | Code::Draining
        | Code::RegistryUnavailable
        | Code::RateLimited
        | Code::CircuitOpen
        | Code::FaultInjected
        | Code::ReplyTooLarge
        | Code::ProviderRejected
        | Code::Cancelled
        | Code::Internal => AttemptEnd::Unheard,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_log_says_is_documented() {
        let document = include_str!("../../../../docs/balancing.md");
        for text in [EJECTED, BACK] {
            assert!(document.contains(&format!("`{text}`")), "docs/balancing.md lacks {text}");
        }
    }

    #[test]
    fn a_call_whose_time_was_up_before_it_was_sent_says_nothing_of_its_endpoint() {
        let unsent = CallError::new(Code::Timeout, "it waited for others");
        assert_eq!(of_error(&unsent), AttemptEnd::Unheard);
        assert_eq!(of_error(&unsent.at("h:1")), AttemptEnd::TimedOut);
    }
}
