//! Copies of calls, whose answers nobody waits for.
//!
//! Invariants:
//! - A copy never delays, fails or changes the call that it is made of: it is a task of its own,
//!   goes by no rule for methods, and takes no other call's place in a line.
//! - A copy is never copied again, here or by another agent: an attachment marks it.
//! - A copy is offered to one endpoint only. Copies are as many as their limit says, and hold
//!   `MAX_LEN` bytes of the agent's memory at most for each section and worker; further ones are
//!   dropped. Each is counted when it begins, or is dropped, and when it has ended.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use dubbo_proto::{BodyLimits, Request, Serialization, ServiceKey};
use flow::rules::{FORCE_TAG, TAG};
use flow::split::is_drawn;
use tracing::debug;

use crate::call::{Call, Payload, Times, WholeBody};
use crate::cluster::{Cluster, CopyPlace, MethodRule};
use crate::config::MirrorPolicy;
use crate::error::{CallError, Code};
use crate::invocation::{CallOrigin, Invocation, THIS_AGENT};
use crate::metrics::MethodEvent;
use crate::outbound::Outbound;
use crate::priority;
use crate::route::{Generic, RouteName};

/// The attachment that marks a copy.
pub const MARK: (&str, &str) = ("dubmesh.mirror", "true");
/// Bytes of the copies of one section, on one worker.
pub(crate) const MAX_LEN: usize = 8 << 20;

/// Copies a call in JSON, if its turn has come.
pub(super) fn of_json(
    outbound: &Rc<Outbound>,
    registry: usize,
    invocation: &Invocation<'_>,
    rule: &Rc<MethodRule>,
    cluster: &Rc<Cluster>,
) {
    let Some(policy) = rule.mirror() else { return };
    let is_copy = invocation.attachments.iter().any(|(name, _)| *name == MARK.0);
    if is_copy || !is_drawn(policy.percent, &mut rand::rng()) {
        return;
    }
    let attached = invocation.attachments.iter().map(|(name, value)| name.len() + value.len());
    let len = invocation.args.len_in_bytes() + attached.sum::<usize>();
    let Some(place) = cluster.place_for_copy(rule, len, MAX_LEN) else { return };
    let key = policy.to.of(&cluster.service);
    let RouteName { method, types, generic, .. } = invocation.name;
    let name = OwnedName { key, method: method.into(), types: types.map(Into::into), generic };
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut attachments: Vec<(String, String)> = invocation.attachments.iter().map(own).collect();
    let marks = marks(policy);
    attachments.retain(|(name, _)| marks.iter().all(|(other, _)| other != name));
    attachments.extend(marks.into_iter().map(|it| own(&it)));
    let args = invocation.args.owned();
    let (outbound, timeout) = (Rc::clone(outbound), policy.timeout.or(invocation.timeout));
    drop(tokio::task::spawn_local(async move {
        let attachments = attachments.iter().map(|(name, value)| (&**name, &**value)).collect();
        let OwnedName { key, method, types, generic } = &name;
        let invocation = Invocation {
            name: RouteName {
                interface: &key.interface,
                version: &key.version,
                group: &key.group,
                method,
                types: types.as_deref(),
                generic: *generic,
            },
            args: args.list(),
            timeout,
            timeout_key: "mirror_timeout_ms",
            clock: None,
            attachments,
            origin: CallOrigin::default(),
            is_copy: true,
            not_at: None,
        };
        let outcome =
            Box::pin(super::invoke(&outbound, registry, &invocation, Instant::now())).await;
        ended(&place, outcome.err().as_ref());
    }));
}

/// Copies a whole Dubbo request, if its turn has come.
#[cold]
pub fn of_whole(
    outbound: &Rc<Outbound>,
    registry: usize,
    call: &Call<'_, (), WholeBody<'_>>,
    rule: &Rc<MethodRule>,
    cluster: &Rc<Cluster>,
) {
    let Some(policy) = rule.mirror() else { return };
    if !is_drawn(policy.percent, &mut rand::rng()) {
        return;
    }
    let WholeBody { serialization, body } = call.payload;
    let Ok(request) = Request::decode(serialization, body.clone(), &BodyLimits::default()) else {
        return;
    };
    if request.attachment(MARK.0).is_some() {
        return;
    }
    let Some(place) = cluster.place_for_copy(rule, body.len(), MAX_LEN) else { return };
    let key = policy.to.of(&cluster.service);
    let mut more = marks(policy);
    more.extend([("version", &*key.version), ("group", &key.group)]);
    let changed = request.changed(&key.version, &more);
    let Ok(body) = changed.inspect_err(|error| debug!(%error, "a call cannot be copied")) else {
        return ended(&place, Some(&CallError::new(Code::Internal, "it cannot be copied")));
    };
    let method = request.method().into();
    let (one_way, timeout) = (call.one_way, policy.timeout);
    let outbound = Rc::clone(outbound);
    drop(tokio::task::spawn_local(async move {
        let of = WholeCopy { method, serialization, body, one_way, timeout };
        let outcome = of.send(&outbound, registry, &key).await;
        ended(&place, outcome.err().as_ref());
    }));
}

/// What a copy of a request is sent by.
struct WholeCopy {
    method: Box<str>,
    serialization: Serialization,
    body: Bytes,
    one_way: bool,
    timeout: Option<Duration>,
}

impl WholeCopy {
    async fn send(
        &self,
        outbound: &Outbound,
        registry: usize,
        key: &ServiceKey,
    ) -> Result<(), CallError> {
        let route = outbound.whole_route(registry, key)?;
        let now = Instant::now();
        let times =
            Times { now, deadline: now + route.cluster.timeout(&self.method, self.timeout) };
        let whole = WholeBody { serialization: self.serialization, body: &self.body };
        let (payload, one_way) = (Payload::Whole(whole), self.one_way);
        let method = &route.route;
        let (clock, headers) = (None, None);
        let call = Call {
            method,
            payload,
            attachments: &[],
            times,
            one_way,
            clock,
            headers,
            not_at: None,
        };
        route.cluster.call_once(&call, THIS_AGENT).await.map(drop)
    }
}

/// The names of a copy.
struct OwnedName {
    key: ServiceKey,
    method: Box<str>,
    types: Option<Box<str>>,
    generic: Option<Generic>,
}

/// The attachments that a copy has, besides those of its call. It waits behind all others.
fn marks(policy: &MirrorPolicy) -> Vec<(&str, &str)> {
    let mut marks = vec![MARK, (priority::ATTACHMENT, "low")];
    if let Some(tag) = &policy.tag {
        // Copies must not go to the endpoints of the calls themselves.
        marks.extend([(TAG, &**tag), (FORCE_TAG, "true")]);
    }
    marks
}

fn ended(place: &CopyPlace, error: Option<&CallError>) {
    if let Some(error) = error {
        debug!(%error, "the copy of a call failed");
    }
    place.count(match error {
        None => MethodEvent::MirrorAnswered,
        Some(_) => MethodEvent::MirrorFailed,
    });
}
