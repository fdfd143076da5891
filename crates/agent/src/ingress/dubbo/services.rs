//! From what a request says of its service to the ones who can answer it.
//!
//! A consumer has one connection for all services of an address, and mostly calls a few of them:
//! those are remembered here and found by comparing texts; or, when all but the arguments of a
//! request is what it was in one before, by comparing bytes, which costs a tenth.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dubbo_proto::application::METADATA_SERVICE;
use dubbo_proto::{BodyLimits, Likeness, ProtoError, Routing, Serialization, ServiceKey};

use super::{DubboListener, Offers};
use crate::backend::Backend;
use crate::call::WholeBody;
use crate::error::{CallError, Code};
use crate::expected_len::ExpectedLen;
use crate::routes::ClusterRoute;
use crate::stages::{self, StageClock};
use crate::worker::Worker;

/// Services that a session remembers. More than one program uses at a time.
const MAX_KNOWN: usize = 16;

/// Likenesses that a session remembers. Each is compared with every request until one fits.
const MAX_SEEN: usize = 8;
/// After so many requests in a row that looked like none before, only one in as many is
/// remembered: such requests bring attachments of their own, and remembering costs more than
/// reading.
const MANY_MISSES: u32 = 64;

/// The number of requests in a row that looked like none before, with one more, and whether that
/// one is remembered.
const fn one_more_miss(n_misses: u32) -> (u32, bool) {
    let n_misses = n_misses + 1;
    let is_last = n_misses == 2 * MANY_MISSES;
    (if is_last { MANY_MISSES } else { n_misses }, n_misses <= MANY_MISSES || is_last)
}

/// Who answers the calls of a service.
#[derive(Clone)]
pub(super) enum ServiceTarget {
    /// The endpoints of a cluster.
    Route(Rc<ClusterRoute>),
    /// The app behind an export of ours.
    Export(ExportedApp),
    /// This agent, for what it has registered at application level.
    Metadata,
}

/// The app behind an export.
#[derive(Clone)]
pub(super) struct ExportedApp {
    pub(super) backend: Rc<Backend>,
    /// The longest deadline of its calls.
    pub(super) max_timeout: Duration,
}

/// The services behind one listener, as one session has asked for them.
pub(super) struct Services {
    worker: Rc<Worker>,
    listener: Arc<DubboListener>,
    known: RefCell<Vec<KnownService>>,
    seen: RefCell<Vec<RememberedRequest>>,
    /// Requests since one looked like one before.
    n_misses: Cell<u32>,
}

/// What is found of a request: who answers it, and what is known of its method.
pub(super) struct RequestTarget {
    pub(super) service: ServiceTarget,
    /// How long its caller waits, if it says so.
    pub(super) timeout: Option<Duration>,
    /// Of the method; or of its service, for requests that look like none before.
    pub(super) reply_len: Rc<ExpectedLen>,
    /// Whether it may insist on a tag: known of requests that look like one before.
    pub(super) may_force_tag: Option<bool>,
}

/// Says which service a timed call is of. The names that callers make up are all one.
#[cold]
pub(super) fn name_clock(clock: &StageClock, found: Option<&RequestTarget>) {
    match found.map(|found| &found.service) {
        Some(ServiceTarget::Route(route)) => clock.name(&route.own.service),
        Some(ServiceTarget::Export(export)) => clock.name(&export.backend.service.to_string()),
        Some(ServiceTarget::Metadata) | None => clock.name(stages::OTHER),
    }
}

/// What a request looked like, and what it said.
struct RememberedRequest {
    likeness: Likeness,
    service: ServiceTarget,
    timeout: Option<Duration>,
    reply_len: Rc<ExpectedLen>,
    may_force_tag: bool,
    /// As in [`KnownService`].
    epoch: u32,
}

struct KnownService {
    interface: Box<str>,
    version: Box<str>,
    group: Box<str>,
    service: ServiceTarget,
    reply_len: Rc<ExpectedLen>,
    /// Of the rules that `service` was found by.
    epoch: u32,
}

impl KnownService {
    #[inline]
    fn is(&self, interface: &str, version: &str, group: &str) -> bool {
        *self.interface == *interface && *self.version == *version && *self.group == *group
    }
}

impl ServiceTarget {
    /// Whether what was found at `found`, by the rules of then, still holds. A cluster that was
    /// forgotten hears nothing of its registry any more.
    #[inline]
    fn is_current(&self, found: u32, epoch: u32) -> bool {
        match self {
            Self::Route(route) => !route.cluster.is_forgotten(),
            Self::Export(_) | Self::Metadata => found == epoch,
        }
    }
}

impl Services {
    pub(super) fn new(worker: Rc<Worker>, listener: Arc<DubboListener>) -> Self {
        let (known, seen, n_misses) = Default::default();
        Self { worker, listener, known, seen, n_misses }
    }

    /// Who looks services up.
    pub(super) fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// The service that a request is for, and what is known of its calls.
    ///
    /// # Errors
    /// [`Code::BadRequest`] if that cannot be read, and whatever the look-up says.
    #[inline]
    pub(super) fn of_request(
        &self,
        serialization: Serialization,
        body: &Bytes,
    ) -> Result<RequestTarget, CallError> {
        let limits = BodyLimits::default();
        if let Some(found) = self.find_like(serialization, body, &limits) {
            return Ok(found);
        }
        match Routing::read_likeness(serialization, body, &limits) {
            Ok((routing, likeness)) => {
                let (service, reply_len) = self.find(&routing)?;
                let timeout = routing.timeout;
                let found = RequestTarget { service, timeout, reply_len, may_force_tag: None };
                self.remember(likeness, &found, WholeBody { serialization, body });
                Ok(found)
            }
            Err(error) => {
                let service = self.unreadable(&error)?;
                let (timeout, may_force_tag) = (None, None);
                Ok(RequestTarget { service, timeout, reply_len: Rc::default(), may_force_tag })
            }
        }
    }

    /// The registry in which called services are looked up, if this listener is for such calls.
    pub(super) fn registry(&self) -> Option<usize> {
        match &self.listener.offers {
            Offers::Exports => None,
            Offers::Registry { registry, .. } => Some(*registry),
        }
    }

    /// Another app may offer a service from now on, or none.
    pub(super) fn forget(&self, service: &ServiceKey) {
        let is_of = |known: &ServiceTarget| match known {
            ServiceTarget::Route(_) | ServiceTarget::Metadata => false,
            ServiceTarget::Export(export) => export.backend.service == *service,
        };
        self.known.borrow_mut().retain(|known| !is_of(&known.service));
        self.seen.borrow_mut().retain(|seen| !is_of(&seen.service));
    }

    #[inline]
    fn find_like(
        &self,
        serialization: Serialization,
        body: &Bytes,
        limits: &BodyLimits,
    ) -> Option<RequestTarget> {
        let mut seen = self.seen.borrow_mut();
        let at = seen.iter().position(|seen| seen.likeness.is_of(serialization, body, limits))?;
        let RememberedRequest { service, timeout, epoch, reply_len, may_force_tag, .. } = &seen[at];
        if !service.is_current(*epoch, self.worker.rules_epoch()) {
            seen.remove(at);
            return None;
        }
        let (service, reply_len) = (service.clone(), Rc::clone(reply_len));
        let (timeout, may_force_tag) = (*timeout, Some(*may_force_tag));
        let found = RequestTarget { service, timeout, reply_len, may_force_tag };
        self.n_misses.set(0);
        if at != 0 {
            // Found at once the next time.
            seen.swap(0, at);
        }
        Some(found)
    }

    /// Remembers what was found for a request. Those that look like it have the same attachments.
    fn remember(&self, likeness: Option<Likeness>, found: &RequestTarget, whole: WholeBody<'_>) {
        let (n_misses, is_remembered) = one_more_miss(self.n_misses.get());
        self.n_misses.set(n_misses);
        let (Some(likeness), true) = (likeness, is_remembered) else { return };
        let mut seen = self.seen.borrow_mut();
        seen.truncate(MAX_SEEN - 1);
        seen.insert(
            0,
            RememberedRequest {
                likeness,
                service: found.service.clone(),
                timeout: found.timeout,
                reply_len: Rc::default(),
                may_force_tag: whole.may_force_tag(),
                epoch: self.worker.rules_epoch(),
            },
        );
    }

    #[inline]
    fn find(&self, routing: &Routing<'_>) -> Result<(ServiceTarget, Rc<ExpectedLen>), CallError> {
        let interface = match &self.listener.offers {
            // Who exports a service goes by what its app goes by.
            Offers::Exports => &routing.path,
            Offers::Registry { .. } if routing.interface.is_empty() => &routing.path,
            Offers::Registry { .. } => &routing.interface,
        };
        let (version, group) = (routing.version(), &*routing.group);
        let mut known = self.known.borrow_mut();
        let at = known.iter().position(|known| known.is(interface, version, group));
        if let Some(at) = at {
            if known[at].service.is_current(known[at].epoch, self.worker.rules_epoch()) {
                // Found at once the next time.
                known.swap(0, at);
                return Ok((known[0].service.clone(), Rc::clone(&known[0].reply_len)));
            }
            known.remove(at);
        }
        let key = ServiceKey::new(interface, version, group)
            .map_err(|error| CallError::new(Code::BadRequest, error.to_string()))?;
        let service = self.look_up(&key)?;
        known.truncate(MAX_KNOWN - 1);
        let [interface, version, group] = [interface, version, group].map(Box::from);
        let epoch = self.worker.rules_epoch();
        let found = (service.clone(), Rc::default());
        let reply_len = Rc::clone(&found.1);
        known.insert(0, KnownService { interface, version, group, service, reply_len, epoch });
        Ok(found)
    }

    #[cold]
    fn look_up(&self, key: &ServiceKey) -> Result<ServiceTarget, CallError> {
        match &self.listener.offers {
            Offers::Exports => match self.worker.backend(key) {
                Some((backend, max_timeout)) => {
                    Ok(ServiceTarget::Export(ExportedApp { backend, max_timeout }))
                }
                None if key.interface == METADATA_SERVICE => Ok(ServiceTarget::Metadata),
                None => Err(CallError::new(
                    Code::ServiceNotFound,
                    format!("this agent does not offer {key}"),
                )),
            },
            Offers::Registry { registry, .. } => {
                self.route(*registry, key).map(ServiceTarget::Route)
            }
        }
    }

    fn route(&self, registry: usize, key: &ServiceKey) -> Result<Rc<ClusterRoute>, CallError> {
        let outbound = &self.worker.outbound;
        let route = outbound.whole_route(registry, key);
        route.inspect_err(|error| {
            outbound.count_without_route(registry, key, Instant::now(), error.code);
        })
    }

    #[cold]
    fn unreadable(&self, error: &ProtoError) -> Result<ServiceTarget, CallError> {
        if let Offers::Registry { registry, default_service: Some(key) } = &self.listener.offers {
            return self.route(*registry, key).map(ServiceTarget::Route);
        }
        let advice = match (error, &self.listener.offers) {
            (ProtoError::UnsupportedSerialization { .. }, Offers::Registry { .. }) => {
                "; the service of this request is unknown; name one in default_service of the \
                 listener"
            }
            _ => "",
        };
        let message = format!("Fail to decode request due to: {error}{advice}");
        Err(CallError::new(Code::BadRequest, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that never look alike cost little; those that do again are soon found again.
    #[test]
    fn after_many_misses_few_requests_are_remembered() {
        let mut n_misses = 0;
        let mut remembered = Vec::new();
        for n in 1..=4 * MANY_MISSES {
            let (now, is_remembered) = one_more_miss(n_misses);
            n_misses = now;
            if MANY_MISSES < n && is_remembered {
                remembered.push(n);
            }
            assert!(is_remembered || MANY_MISSES < n, "request {n}");
            assert!(n_misses < 2 * MANY_MISSES);
        }
        assert_eq!(remembered, [2 * MANY_MISSES, 3 * MANY_MISSES, 4 * MANY_MISSES]);
    }
}
