//! One attempt of a call: how it is written for its endpoint, and sent there.
//!
//! Most are sent at once, and then nothing waits but their outcome. What is needed for the others
//! is in futures of its own.

use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use dubbo_proto::Serialization;
use flow::Rewrites;
use flow::queue::Priority;
use tracing::info;

use super::{Attempt, Cluster};
use crate::call::{Call, Outcome, Payload, RoutedCall, Times, UNTOLD, WholeBody};
use crate::error::CallError;
use crate::priority;
use crate::route::RouteVariant;
use crate::upstream::{CallForm, SentCall, note_outcome};

/// How a call is written for one endpoint.
struct EndpointForm<'a> {
    serialization: Serialization,
    path: Option<&'a str>,
    payload_limit: usize,
    /// With which version and group, if that is not as its caller named it; and a whole request
    /// that names them.
    variant: Option<Rc<RouteVariant>>,
    body: Option<Bytes>,
    /// Its attachments, if the endpoint wants others beside its own.
    attachments: Option<Vec<(&'a str, &'a str)>>,
}

impl EndpointForm<'_> {
    /// The call as it goes on `now` to the endpoint.
    #[inline]
    fn call<'a>(&'a self, call: &RoutedCall<'a>, now: Instant) -> RoutedCall<'a> {
        let attachments = self.attachments.as_deref().unwrap_or(call.attachments);
        let payload = match (&self.body, call.payload) {
            (Some(body), Payload::Whole(whole)) => Payload::Whole(WholeBody { body, ..whole }),
            (_, payload) => payload,
        };
        Call { attachments, payload, times: Times { now, ..call.times }, ..*call }
    }

    #[inline]
    fn form<'f>(&'f self, call: &RoutedCall<'f>) -> CallForm<'f> {
        let variant = self.variant.as_deref().unwrap_or(&call.method.own);
        let EndpointForm { serialization, path, payload_limit, .. } = *self;
        CallForm { variant, serialization, path, payload_limit }
    }
}

impl Cluster {
    /// Makes one attempt of a call.
    pub(super) async fn send(
        &self,
        attempt: &Attempt,
        call: &RoutedCall<'_>,
        now: Instant,
    ) -> Outcome {
        let (used, outcome) = match self.begin_at(attempt, call, now)? {
            Some(sent) => {
                let used = sent.used();
                let outcome = sent.await;
                note_outcome(call, &outcome);
                (used, outcome)
            }
            // Such calls are few, and their future is larger than that of others.
            None => Box::pin(self.send_later(attempt, call, now)).await,
        };
        let refused_serializations = &attempt.member.0.refused_serializations;
        let other = used.and_then(|used| refused_serializations.take_in(used, &outcome));
        match (used, other) {
            (Some(used), Some(other)) => {
                Box::pin(self.send_written_anew(attempt, call, used, other, outcome)).await
            }
            _ => outcome,
        }
    }

    /// Sends a call to its endpoint, if that can be done at once.
    #[inline]
    fn begin_at(
        &self,
        attempt: &Attempt,
        call: &RoutedCall<'_>,
        now: Instant,
    ) -> Result<Option<SentCall>, CallError> {
        let form = self.form_for(attempt, call)?;
        attempt.begin(&form.call(call, now), form.form(call))
    }

    /// Makes one attempt of a call that could not be sent at once. Also how its arguments were
    /// written, where the outcome shows whether the endpoint can read that.
    async fn send_later(
        &self,
        attempt: &Attempt,
        call: &RoutedCall<'_>,
        now: Instant,
    ) -> (Option<Serialization>, Outcome) {
        let form = match self.form_for(attempt, call) {
            Ok(form) => form,
            Err(error) => return (None, Err(error)),
        };
        let outcome = attempt.call(&form.call(call, now), form.form(call)).await;
        let is_read = matches!(call.payload, Payload::Json(_)) && !call.one_way;
        (is_read.then_some(form.serialization), outcome)
    }

    /// Makes an attempt again in another serialization, if the endpoint has seen nothing but one
    /// that it does not take.
    async fn send_written_anew(
        &self,
        attempt: &Attempt,
        call: &RoutedCall<'_>,
        used: Serialization,
        other: Serialization,
        outcome: Outcome,
    ) -> Outcome {
        let (now, deadline) = (Instant::now(), call.times.deadline);
        let is_allowed = |error: &CallError| Rewrites::new(deadline, 1).allow(now, error.retry());
        if !outcome.as_ref().is_err_and(is_allowed) {
            return outcome;
        }
        let form = self.form_for(attempt, call)?;
        let written = CallForm { serialization: other, ..form.form(call) };
        let outcome = attempt.call(&form.call(call, now), written).await;
        let member = &attempt.member.0;
        if member.refused_serializations.take_in_again(used, other, &outcome) {
            let endpoint = member.upstream.address();
            info!(%endpoint, %used, instead = %other, "serialization refused");
        }
        outcome
    }

    /// How a call is written for its endpoint.
    #[inline]
    fn form_for<'a>(
        &'a self,
        attempt: &'a Attempt,
        call: &RoutedCall<'a>,
    ) -> Result<EndpointForm<'a>, CallError> {
        let member = &attempt.member.0;
        let (variant, payload_limit) = (member.variant(call.method), member.payload_limit);
        if let Payload::Whole(whole) = call.payload {
            let (serialization, body) = (whole.serialization, member.whole_for(whole)?);
            return Ok(EndpointForm {
                serialization,
                path: None,
                payload_limit,
                variant,
                body,
                attachments: None,
            });
        }
        let policy = self.policy.borrow();
        // The provider's agent does not know it otherwise.
        let class = (policy.priority != Priority::Normal)
            .then(|| (priority::ATTACHMENT, policy.priority.name()));
        let untold = (!policy.tells_time_left).then_some(UNTOLD);
        let has_own = !member.attachments.is_empty() || class.is_some() || untold.is_some();
        let attachments = match !has_own {
            true => None,
            false => {
                // What the caller attaches counts more than what the registry shows.
                let own = member.attachments.iter().map(|(name, value)| (*name, value.as_str()));
                Some(
                    own.chain(class)
                        .chain(untold)
                        .chain(call.attachments.iter().copied())
                        .collect(),
                )
            }
        };
        let serialization = member.serialization(policy.serialization);
        let path = member.path(&self.service.interface);
        Ok(EndpointForm { serialization, path, payload_limit, variant, body: None, attachments })
    }
}
