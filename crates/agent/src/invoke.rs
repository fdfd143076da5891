//! How a call that is named in JSON is made: it finds its route, and is written again where the
//! provider refuses its form.

pub mod mirror;
mod refusable;

use std::rc::Rc;
use std::time::Instant;

use dubbo_proto::ServiceKey;
use flow::Rewrites;
use hessian::JavaType;
use tracing::debug;

use self::refusable::RefusableCall;
use crate::args::ArgumentList;
use crate::call::{Outcome, ProviderReply, Times};
use crate::cluster::Cluster;
use crate::error::{CallError, Code, SEE_REGISTRIES};
use crate::invocation::Invocation;
use crate::map_form::MapForm;
use crate::outbound::Outbound;
use crate::resolve;
use crate::resolve::by_maps;
use crate::route::{Generic, ParameterTypes, RouteName, TypesVerdict};
use crate::route::{constants, records};
use crate::routes::ClusterRoute;

/// So often one call may be sent in another form: without the types of an outdated definition, and
/// then once for each class whose objects the provider cannot make of maps.
const MAX_REWRITES: usize = 1 + records::MAX_RECORDS;

/// Makes a call, which came at `started`, to a service of the registry with the index `registry`.
///
/// # Errors
/// Whatever the table in [`crate::error`] lists.
pub async fn invoke(
    outbound: &Rc<Outbound>,
    registry: usize,
    invocation: &Invocation<'_>,
    started: Instant,
) -> Outcome {
    let mut look_up_ms = 0;
    let mut begin = CallBegin { came: started, now: started };
    let route = match known_route(outbound, registry, invocation).transpose() {
        Some(route) => route,
        None => {
            // Once per route, and its future is much larger than that of a call.
            let route = Box::pin(new_route(outbound, registry, invocation, started)).await;
            begin.now = Instant::now();
            let took = begin.now.saturating_duration_since(started);
            look_up_ms = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
            route
        }
    };
    let mut outcome = match route {
        Ok(route) if route.cluster.is_diverted() && !invocation.is_copy => {
            Box::pin(divert(outbound, registry, invocation, route, begin)).await
        }
        Ok(route) => make(outbound, registry, invocation, route, begin).await,
        Err(error) => {
            let RouteName { interface, version, group, .. } = invocation.name;
            if let Ok(service) = ServiceKey::new(interface, version, group) {
                outbound.count_without_route(registry, &service, started, error.code);
            }
            Err(error)
        }
    };
    if let Err(error) = &mut outcome {
        blame_look_up(error, look_up_ms, started);
        told(&invocation.name, started, error);
    }
    outcome
}

/// When a call came, and when it goes on: what it waited for its route is not an endpoint's doing.
#[derive(Clone, Copy)]
struct CallBegin {
    came: Instant,
    now: Instant,
}

/// Says so if the time of a late call was gone for the most part before it was sent: its endpoint
/// is not to blame.
#[cold]
fn blame_look_up(error: &mut CallError, look_up_ms: u32, started: Instant) {
    let is_late = error.code == Code::Timeout && error.provider_status.is_none();
    let took_ms = started.elapsed().as_millis();
    if is_late
        && error.endpoint.is_some()
        && 0 < look_up_ms
        && took_ms <= 2 * u128::from(look_up_ms)
    {
        error.message = format!(
            "{}; {look_up_ms} ms of this passed before the call was sent, while the agent waited \
             for the registry's answer about the service{SEE_REGISTRIES}",
            error.message
        )
        .into();
    }
}

/// What a caller gets whose answer from `reply`'s endpoint cannot be read: the answer of another
/// endpoint, if the call may be carried out twice and fails over, or what stands for a failure of
/// its method. `None` if there is nothing else.
#[cold]
pub async fn instead_of_unreadable(
    outbound: &Rc<Outbound>,
    registry: usize,
    invocation: &mut Invocation<'_>,
    reply: &ProviderReply,
    error: &CallError,
) -> Option<ProviderReply> {
    if !error.is_broken_reply {
        return None;
    }
    let (now, deadline) = (Instant::now(), reply.deadline?);
    let route = find_route(outbound, registry, invocation, now).await.ok()?;
    distrust(outbound, registry, &route.cluster, reply);
    let may_be_made = invocation.not_at.is_none() && now < deadline;
    if may_be_made && route.cluster.goes_elsewhere(error, invocation.name.method) {
        invocation.not_at = Some(Rc::clone(&reply.endpoint));
        invocation.timeout = Some(deadline - now);
        return invoke(outbound, registry, invocation, now).await.ok();
    }
    let deadline = now + route.cluster.timeout(invocation.name.method, invocation.timeout);
    let call = invocation.call(&route.route, &invocation.args, Times { now, deadline });
    let rule = route.cluster.method_rule(&call)?;
    let answer = route.cluster.replaced(&rule, &call, error.clone()).ok()?;
    Some(ProviderReply { route: Some(Rc::clone(&route.route)), ..answer })
}

/// Has the next replies of an endpoint read whole whose reply could not be read.
#[cold]
fn distrust(outbound: &Outbound, registry: usize, cluster: &Cluster, reply: &ProviderReply) {
    if cluster.distrust(reply) || !cluster.is_diverted() {
        return;
    }
    let others = cluster.detours().into_iter();
    let mut others = others.filter_map(|key| outbound.known_cluster(registry, key));
    let _ = others.any(|other| other.distrust(reply));
}

#[cold]
fn told(name: &RouteName<'_>, started: Instant, error: &CallError) {
    let RouteName { interface, version, group, method, .. } = *name;
    let took_ms = started.elapsed().as_millis();
    debug!(interface, version, group, method, took_ms, %error, "call failed");
}

/// The route of a call; nothing of it has been sent.
async fn find_route(
    outbound: &Outbound,
    registry: usize,
    invocation: &Invocation<'_>,
    started: Instant,
) -> Result<Rc<ClusterRoute>, CallError> {
    match known_route(outbound, registry, invocation)? {
        Some(route) => Ok(route),
        None => new_route(outbound, registry, invocation, started).await,
    }
}

/// The route of a call, if such a call was made before.
#[inline]
fn known_route(
    outbound: &Outbound,
    registry: usize,
    invocation: &Invocation<'_>,
) -> Result<Option<Rc<ClusterRoute>>, CallError> {
    if outbound.is_stopped() {
        return Err(CallError::new(Code::Draining, "this agent is shutting down"));
    }
    let known = outbound.routes.find(registry, &invocation.name, invocation.args.len());
    known.map(|route| fitting_route(outbound, registry, invocation, route)).transpose()
}

#[cold]
async fn new_route(
    outbound: &Outbound,
    registry: usize,
    invocation: &Invocation<'_>,
    started: Instant,
) -> Result<Rc<ClusterRoute>, CallError> {
    let route = resolve::prepare(outbound, registry, invocation, started).await?;
    fitting_route(outbound, registry, invocation, route)
}

/// The route for the arguments of a call, of those that its name has.
fn fitting_route(
    outbound: &Outbound,
    registry: usize,
    invocation: &Invocation<'_>,
    route: Rc<ClusterRoute>,
) -> Result<Rc<ClusterRoute>, CallError> {
    let route = match route.plan.overloads.is_empty() {
        true => route,
        false => resolve::choose(outbound, registry, invocation, &route)?,
    };
    let ParameterTypes::Given(types) = &route.parameters else { return Ok(route) };
    if route.plan.schema.is_some() {
        route.plan.constants.set_rule(MapForm::constants_of(route.cluster.map_form()));
    }
    match map_form(&route, invocation, types) {
        Some(form) => by_maps::route(outbound, registry, invocation, &route, types, form),
        None => Ok(route),
    }
}

/// The generic call as which a call with types is made, if its arguments have objects of which
/// nobody knows the fields.
fn map_form(
    route: &ClusterRoute,
    invocation: &Invocation<'_>,
    types: &[JavaType],
) -> Option<MapForm> {
    if !invocation.args.may_have_unknown_fields(&route.plan) {
        return None;
    }
    let form = route.cluster.map_form()?;
    let packed = packed(route, invocation);
    let list = packed.as_ref().map(|texts| ArgumentList::of_texts(texts));
    let args = list.as_ref().unwrap_or(&invocation.args);
    args.have_unreadable(types, &route.plan, form.reasons).then_some(form)
}

/// Makes a call of which a copy may be made, or which may go to another version or group.
#[cold]
async fn divert(
    outbound: &Rc<Outbound>,
    registry: usize,
    invocation: &Invocation<'_>,
    route: Rc<ClusterRoute>,
    begin: CallBegin,
) -> Outcome {
    let CallBegin { came, now } = begin;
    let deadline = came + route.cluster.timeout(invocation.name.method, invocation.timeout);
    let detour = {
        let call = invocation.call(&route.route, &invocation.args, Times { now, deadline });
        if let Some(rule) = route.cluster.method_rule(&call) {
            mirror::of_json(outbound, registry, invocation, &rule, &route.cluster);
        }
        route.cluster.detour(&call)
    };
    let Some(key) = detour else {
        return make(outbound, registry, invocation, route, begin).await;
    };
    let ServiceKey { interface, version, group } = &key;
    let invocation = &Invocation {
        name: RouteName { interface, version, group, ..invocation.name },
        args: invocation.args.shared(),
        timeout: invocation.timeout,
        timeout_key: invocation.timeout_key,
        attachments: invocation.attachments.clone(),
        origin: invocation.origin,
        clock: invocation.clock.clone(),
        is_copy: false,
        not_at: invocation.not_at.clone(),
    };
    let route = find_route(outbound, registry, invocation, came).await?;
    // It may have waited for the other service's route.
    let begin = CallBegin { now: Instant::now(), came };
    make(outbound, registry, invocation, route, begin).await
}

async fn make(
    outbound: &Outbound,
    registry: usize,
    invocation: &Invocation<'_>,
    route: Rc<ClusterRoute>,
    CallBegin { came, now }: CallBegin,
) -> Outcome {
    let deadline = came + route.cluster.timeout(invocation.name.method, invocation.timeout);
    let times = Times { now, deadline };
    let refusable = RefusableCall { outbound, registry, invocation, route: &route, times };
    let outcome = match is_plain(&route, invocation) {
        true => {
            let args = &invocation.args;
            let outcome = match check_told_types(&route, args, came) {
                Ok(()) => send_args(&route, args, invocation, times).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(reply) => Ok(with_route(&route, reply)),
                Err(error) => Box::pin(refusable.after(error)).await,
            }
        }
        // Their future is larger than that of others.
        false => Box::pin(refusable.make()).await,
    };
    if !invocation.is_copy {
        route.count_end(came, &outcome);
    }
    outcome
}

/// Whether the arguments of a call are sent just as they are, with types that nobody has found
/// fault with, or without any.
#[inline]
fn is_plain(route: &ClusterRoute, invocation: &Invocation<'_>) -> bool {
    let is_trusted =
        !route.plan.is_guess || route.plan.judgement.get().verdict() == TypesVerdict::None;
    is_trusted && !route.answers_json_text() && n_packed(route, invocation).is_none()
}

/// Makes the call of a route, and once more as [`send_anew`] says.
async fn send_till_read(
    route: &Rc<ClusterRoute>,
    invocation: &Invocation<'_>,
    times: Times,
    rewrites: &mut Rewrites,
) -> Outcome {
    let outcome = send(route, invocation, times).await;
    send_anew(route, invocation, times, rewrites, outcome).await
}

/// Makes a call once more that had this outcome, as long as the provider refuses a generic one
/// because it cannot make an object of a class that the arguments name.
async fn send_anew(
    route: &Rc<ClusterRoute>,
    invocation: &Invocation<'_>,
    times: Times,
    rewrites: &mut Rewrites,
    mut outcome: Outcome,
) -> Outcome {
    if !route.parameters.is_generic() {
        return outcome;
    }
    while let Err(error) = &outcome
        && let Some(class) = records::named_in(error)
        && is_told(route, invocation, class)
        && rewrites.allow(Instant::now(), error.retry())
        && route.plan.records.learn(class)
    {
        let second = send(route, invocation, Times { now: Instant::now(), ..times }).await;
        if let Err(second) = &second
            && matches!(second.code, Code::BadArguments | Code::ProviderRejected)
            && records::named_in(second).is_none()
        {
            // It cannot make an object of the class from an object either.
            route.plan.records.forget(class);
            break;
        }
        outcome = second;
    }
    outcome.map_err(|error| {
        let error = records::advise(error, |class| is_told(route, invocation, class));
        constants::advise(error, &route.plan)
    })
}

/// Whether the caller tells of a class: in the arguments, or by the types of the parameters.
fn is_told(route: &ClusterRoute, invocation: &Invocation<'_>, class: &str) -> bool {
    let is_declared = match &route.parameters {
        ParameterTypes::Named(types, Generic::Map | Generic::Raw) => {
            types.iter().any(|ty| ty.find_class(&|one| one.name() == class).is_some())
        }
        _ => false,
    };
    is_declared || invocation.args.mentions(class)
}

/// Makes the call of a route, its arguments written as the route wants them.
async fn send(route: &Rc<ClusterRoute>, invocation: &Invocation<'_>, times: Times) -> Outcome {
    let packed = packed(route, invocation);
    let list = packed.as_ref().map(|texts| ArgumentList::of_texts(texts));
    let args = list.as_ref().unwrap_or(&invocation.args);
    check_told_types(route, args, times.now)?;
    let texts = route.answers_json_text().then(|| args.quoted());
    let list = texts.as_ref().map(|texts| ArgumentList::of_texts(texts));
    let outcome = send_args(route, list.as_ref().unwrap_or(args), invocation, times).await;
    outcome.map(|reply| with_route(route, reply))
}

/// Checks what is sent without its type, although that is known: Java would make it fit.
#[inline]
fn check_told_types(
    route: &ClusterRoute,
    args: &ArgumentList<'_>,
    now: Instant,
) -> Result<(), CallError> {
    if !route.parameters.is_generic() {
        return Ok(());
    }
    let types = match &route.parameters {
        ParameterTypes::Named(types, _) => types,
        _ => &route.plan.told,
    };
    let plan = &route.plan;
    let is_sent = |index| route.parameters.at(index).is_some();
    let mut checked = match types.is_empty() && plan.schema.is_none() {
        true => Ok(()),
        false => args.check_scalars(types, plan, plan.by_types, is_sent),
    };
    if route.answers_json_text() {
        checked = checked.and_then(|()| args.check_gson_numbers(types, plan));
    }
    checked.inspect_err(|error| route.cluster.count_without_endpoint(now, error.code))
}

/// The reply, with its route if that tells how to read it.
#[inline]
fn with_route(route: &ClusterRoute, mut reply: ProviderReply) -> ProviderReply {
    if route.parameters.is_generic() || route.plan.result.is_some() {
        reply.route = Some(Rc::clone(&route.route));
    }
    reply
}

/// The arguments with the last ones in an array, if the method wants them so.
fn packed(route: &ClusterRoute, invocation: &Invocation<'_>) -> Option<Vec<Vec<u8>>> {
    Some(invocation.args.packed(n_packed(route, invocation)?))
}

/// How many of the last arguments go into an array, if the method wants them so.
fn n_packed(route: &ClusterRoute, invocation: &Invocation<'_>) -> Option<usize> {
    let is_element = || match &route.parameters {
        ParameterTypes::Given(types) | ParameterTypes::Named(types, _) => {
            invocation.args.ends_in_element(types)
        }
        ParameterTypes::Unknown | ParameterTypes::Asked(_) => false,
    };
    let may_pack = || (route.plan.may_pack && is_element()).then_some(1);
    route.plan.n_packed.or_else(may_pack)
}

async fn send_args(
    route: &Rc<ClusterRoute>,
    args: &ArgumentList<'_>,
    invocation: &Invocation<'_>,
    times: Times,
) -> Outcome {
    route.count_call();
    let (call, caller) = (invocation.call(&route.route, args, times), invocation.origin.caller);
    let one_way = call.one_way;
    let mut outcome = match route.cluster.method_rule(&call) {
        _ if invocation.is_copy => Box::pin(route.cluster.call_once(&call, caller)).await,
        None => {
            let attempts = route.cluster.attempts_of(&call);
            route.cluster.call_with(attempts, &call, caller).await
        }
        Some(rule) => {
            route.cluster.check_rate(&rule, times.now, &call, invocation.origin)?;
            // Such calls are few, and their future is larger than that of others.
            Box::pin(route.cluster.call_ruled(&rule, &call, caller)).await
        }
    };
    if let Ok(reply) = &mut outcome {
        reply.deadline = Some(times.deadline);
    }
    outcome.map_err(|error| match error.is_overdue(times.deadline) {
        true => {
            let limit = route.cluster.limit(invocation.name.method, invocation.timeout);
            limit.explain(error, invocation.timeout_key, one_way)
        }
        false => error,
    })
}

#[cfg(test)]
mod tests;
