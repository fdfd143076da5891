//! A call on its way to one endpoint.
//!
//! Invariant: what the balancer counts as in flight is given back however the call ends.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use balance::Ticket;
use dubbo_proto::{Serialization, Status};
use flow::{AttemptEnd, Standing};

use super::circuits::CircuitPass;
use super::splits::CallDraw;
use super::{Cluster, Member, ejections};
use crate::call::{Outcome, ProviderReply, RoutedCall};
use crate::error::{CallError, Code};
use crate::gate::Admitted;
use crate::timeout::CallTimeout;
use crate::upstream::{AnyUpstream, CallForm, Credit, SentCall, check_share};

/// A call on its way to one endpoint.
pub struct Attempt {
    pub(super) cluster: Rc<Cluster>,
    pub(super) member: Member,
    pub(super) ticket: Option<Ticket>,
    /// Leave to have the call there, if the endpoint takes a limited number.
    pub(super) leave: Option<Leave>,
    /// Leave of the breaker of its method.
    pub(super) circuit: Option<CircuitPass>,
    pub(super) started: Instant,
    /// What was drawn for the call, if it was begun at once.
    pub(super) draw: CallDraw,
    /// The service's calls at the endpoint when it began.
    pub(super) occupancy: Occupancy,
    /// The endpoint has left the registry, and has shown that the registry is right.
    pub(super) has_left: Cell<bool>,
}

/// How many calls of a service one worker has at an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Occupancy {
    /// Beside the one that asks.
    pub(super) n_others: u32,
    /// `max_in_flight` of its cluster.
    pub(super) max: u32,
}

impl Occupancy {
    pub(super) fn is_full(self) -> bool {
        self.max <= self.n_others
    }
}

/// Leave to have a call at an endpoint. Dropped, the call was given up.
pub(super) enum Leave {
    /// Of our own gate before it.
    Pass(Admitted),
    /// Of the provider's agent.
    Credit(Credit),
}

impl Leave {
    fn failed(self, now: Instant, error: &CallError) {
        match self {
            Self::Pass(pass) => pass.failed(now, error),
            Self::Credit(credit) => credit.ended(now, Some(error)),
        }
    }

    /// The endpoint has seen nothing of the call.
    fn unused(self, now: Instant) {
        match self {
            Self::Pass(pass) => pass.unused(now),
            Self::Credit(unused) => drop(unused),
        }
    }
}

impl Attempt {
    /// The endpoint's upstream.
    pub fn upstream(&self) -> &AnyUpstream {
        &self.member.0.upstream
    }

    /// Whether its service may have one more call in flight at the endpoint.
    ///
    /// # Errors
    /// [`Code::Overloaded`]: nothing may be sent.
    #[inline]
    pub fn check_limit(&self) -> Result<(), CallError> {
        if self.occupancy.is_full() { Err(self.over_limit()) } else { Ok(()) }
    }

    #[cold]
    fn over_limit(&self) -> CallError {
        let message = format!(
            "{} calls of {} are in flight there, which is the limit (max_in_flight)",
            self.occupancy.n_others, self.cluster.service_name
        );
        CallError::new(Code::Overloaded, message).at(self.upstream().address())
    }

    /// Whether a caller's connection that has `own` calls in flight may have one more there, as
    /// [`check_share`] says.
    ///
    /// # Errors
    /// As [`check_share`].
    #[inline]
    pub fn check_share(&self, own: usize) -> Result<(), CallError> {
        let Occupancy { n_others, max } = self.occupancy;
        check_share(own, n_others as usize, max as usize)
            .map_err(|error| error.at(self.upstream().address()))
    }

    /// Sends the call, if that can be done at once, as [`AnyUpstream::begin`] says.
    ///
    /// # Errors
    /// Why it was not sent.
    #[inline]
    pub fn begin(
        &self,
        call: &RoutedCall<'_>,
        form: CallForm<'_>,
    ) -> Result<Option<SentCall>, CallError> {
        self.check_limit()?;
        self.upstream().begin(call, form, self.credit())
    }

    /// Makes the call, and waits for its outcome.
    pub async fn call(&self, call: &RoutedCall<'_>, form: CallForm<'_>) -> Outcome {
        self.check_limit()?;
        self.upstream().call(call, form, self.credit()).await
    }

    /// The credit of the provider's agent that it has.
    #[inline]
    pub fn credit(&self) -> Option<&Credit> {
        match &self.leave {
            Some(Leave::Credit(credit)) => Some(credit),
            Some(Leave::Pass(_)) | None => None,
        }
    }

    /// What a Dubbo consumer is told whose call got no answer within `took`. It does without the
    /// configuration's own timeouts: a consumer always brings one.
    #[cold]
    pub fn overdue(&self, took: Duration) -> String {
        let policy = self.cluster.policy.borrow();
        let limit = CallTimeout::new(&policy, Some(took), None);
        limit.overdue(Some(self.upstream().address()), "the consumer's timeout")
    }

    /// The call has ended, at `now`, with a reply. Returns how long it took.
    #[inline]
    pub fn replied(self, now: Instant, reply: &mut ProviderReply) -> Duration {
        if reply.is_unheard {
            self.sent_one_way();
            return Duration::ZERO;
        }
        if let Some(app) = reply.came.and_then(|came| came.app) {
            self.app_took(now, app);
        }
        let body = (reply.serialization, &*reply.body);
        self.answered(now, body, &mut reply.failure)
    }

    /// The endpoint's agent says that its app took so long for the call, whose reply came at
    /// `now`.
    #[cold]
    pub fn app_took(&self, now: Instant, app: Duration) {
        let latency = now.saturating_duration_since(self.started);
        self.cluster.stats(&self.member).app_took(app, latency);
    }

    /// The call has ended, at `now`, with this body of an answer of status OK. It counts as that
    /// failure by its first bytes, or as another one if there is reason to look at the others.
    /// Returns how long it took.
    #[inline]
    pub fn answered(
        mut self,
        now: Instant,
        body: (Serialization, &[u8]),
        failure: &mut Option<Code>,
    ) -> Duration {
        let latency = now.saturating_duration_since(self.started);
        let Some(ticket) = self.ticket.take() else { return latency };
        if self.member.0.distrust.is_on() {
            self.member.0.distrust.look_at(body, failure);
        }
        match self.leave.take() {
            Some(Leave::Pass(pass)) => pass.answered_after(now, latency),
            Some(Leave::Credit(credit)) => credit.ended(now, None),
            None => {}
        }
        self.cluster.stats(&self.member).finished(latency, failure.map(|code| code as u8));
        self.give_back(ticket, ejections::of_reply(*failure), now, latency);
        latency
    }

    /// What the caller is told instead of this failure, if it shows that an endpoint that the
    /// registry no longer lists has ended as well. From now on, no call goes there.
    #[cold]
    pub fn left(&self, now: Instant, error: &CallError) -> Option<CallError> {
        let Cluster { service, registry_name, .. } = &*self.cluster;
        let address = self.upstream().address();
        if !is_about_the_endpoint(error) || !self.cluster.stop_holding(&self.member, now) {
            return None;
        }
        self.has_left.set(true);
        let message = format!(
            "{address} has left registry {registry_name:?} and does not offer {service} any more: \
             {}",
            error.message
        );
        let is_unbegun = error.retry().is_unbegun();
        is_unbegun.then(|| CallError::new(Code::NoEndpoint, message).at(address))
    }

    /// The call has failed, at `now`.
    pub fn failed(mut self, now: Instant, error: &CallError) {
        self.left(now, error);
        let Some(ticket) = self.ticket.take() else { return };
        let latency = now.saturating_duration_since(self.started);
        match self.leave.take() {
            Some(leave) if is_unsent(error) => leave.unused(now),
            Some(leave) => leave.failed(now, error),
            None => {}
        }
        self.cluster.stats(&self.member).finished(latency, Some(error.code as u8));
        let ending = match self.is_refusal(error) {
            // It has ended in order, and may come back at any time.
            _ if self.has_left.get() => AttemptEnd::Unheard,
            true => AttemptEnd::Refused,
            false => ejections::of_error(error),
        };
        self.give_back(ticket, ending, now, latency);
    }

    /// Whether the endpoint is there and would refuse the next call as well: the app behind it has
    /// gone, or offers the service no more. A connection that is down is not a reason to rest:
    /// nothing is offered to it anyway, and it is to be used as soon as it is up again.
    fn is_refusal(&self, error: &CallError) -> bool {
        matches!(error.code, Code::Unreachable | Code::ServiceNotFound)
            && matches!(self.cluster.standing(&self.member), Standing::Ready | Standing::Full)
    }

    fn give_back(&mut self, ticket: Ticket, ending: AttemptEnd, now: Instant, latency: Duration) {
        if let Some(circuit) = self.circuit.take() {
            circuit.end(&self.cluster, &self.member, now, ending, latency);
        }
        let mut balancer = self.cluster.balancer.borrow_mut();
        ending.give_back(&mut balancer, ticket, now, latency, rand::rng);
    }

    /// The endpoint has seen nothing of the call.
    pub fn unused(mut self, now: Instant) {
        if let Some(leave) = self.leave.take() {
            leave.unused(now);
        }
    }

    /// The call was sent, and nobody will hear how it ends.
    pub fn sent_one_way(mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        if let Some(Leave::Pass(pass)) = self.leave.take() {
            pass.sent_one_way(self.started);
        }
        self.cluster.stats(&self.member).sent_one_way();
        self.give_back(ticket, AttemptEnd::Unheard, self.started, Duration::ZERO);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let latency = self.started.elapsed();
            self.cluster.stats(&self.member).finished(latency, Some(Code::Cancelled as u8));
            self.give_back(ticket, AttemptEnd::Unheard, self.started, latency);
        }
    }
}

/// Whether the time of a call was up before anything of it was sent: no endpoint had part in that.
pub(super) fn is_unsent(error: &CallError) -> bool {
    error.code == Code::Timeout && error.endpoint.is_none()
}

/// Whether a call failed because its endpoint cannot serve any: it has no app, or not this
/// service. A Dubbo provider, or an agent in one's place, says so by its status SERVER_ERROR.
fn is_about_the_endpoint(error: &CallError) -> bool {
    matches!(error.code, Code::Unreachable | Code::ServiceNotFound)
        || error.provider_status == Some(Status::ServerError)
}
