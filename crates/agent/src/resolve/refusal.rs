//! What Dubbo 3 means when it says only that it cannot read a request: that it has no such method,
//! or not with these types, or that it cannot read the arguments.
//!
//! What the provider's registration lists tells the first. For the rest the provider is asked, by
//! a generic call with the same types and another number of arguments: it looks for the method,
//! and then refuses to call it (`GenericFilter` of 3.0 to 3.3). Whoever exports a `GenericService`
//! would take that for a call; their registration lists no methods but `*`, and they are not
//! asked.

use std::rc::Rc;
use std::time::Instant;

use super::{check_registered, registered, signature};
use crate::args::ArgumentList;
use crate::call::{Call, Outcome, Times};
use crate::cluster::Cluster;
use crate::error::{CallError, Code, clip};
use crate::invocation::Invocation;
use crate::outbound::Outbound;
use crate::reply::json_of;
use crate::route::{Generic, ParameterTypes, Plan, RouteName};
use crate::routes::{ClusterRoute, NewRoute};

/// What Dubbo answers when the types fit, and their number is not that of the arguments.
const OTHER_NUMBER: &str = "args.length != types.length";
/// What it adds where it does not even know the class of a parameter.
const UNKNOWN_CLASS: &str = "ClassNotFoundException";

/// A call that a provider refused.
#[derive(Clone, Copy)]
pub(crate) struct RefusedCall<'a> {
    /// What was called.
    pub(crate) route: &'a ClusterRoute,
    /// When the call came.
    pub(crate) started: Instant,
}

/// The error to report instead of `error`, with which a provider refused `call`;
/// `error` itself if nothing better is known.
pub(crate) async fn explain(
    outbound: &Outbound,
    registry: usize,
    invocation: &Invocation<'_>,
    call: RefusedCall<'_>,
    error: CallError,
) -> CallError {
    let route = call.route;
    let (method, ParameterTypes::Given(types)) = (&*route.method, &route.parameters) else {
        return error;
    };
    let (status, place) = (error.provider_status, error.endpoint.clone());
    let told = |code, message: String| CallError {
        endpoint: place.clone(),
        provider_status: status,
        ..CallError::new(code, message)
    };
    if let Err(unknown) = check_registered(&route.cluster, method, None) {
        return told(unknown.code, unknown.message.into());
    }
    if !is_listed(&route.cluster, method) {
        return error;
    }
    let Some(answer) = ask(outbound, registry, invocation, call).await else {
        return error;
    };
    // Another provider may be of another mind.
    if answer.endpoint != error.endpoint {
        return error;
    }
    let what = signature(method, types);
    let what = clip(&what);
    match answer.code {
        Code::BadArguments if answer.message.contains(OTHER_NUMBER) => told(
            Code::BadArguments,
            format!("the provider has {what}, but cannot read the arguments; see its log"),
        ),
        Code::MethodNotFound => not_with_these(&told, what),
        Code::BadArguments if answer.message.contains(UNKNOWN_CLASS) => not_with_these(&told, what),
        Code::ServiceNotFound => answer,
        _ => error,
    }
}

fn not_with_these(told: &impl Fn(Code, String) -> CallError, what: &str) -> CallError {
    let message = format!("the provider has a method of this name, but no {what}");
    told(Code::MethodNotFound, message)
}

/// Whether each provider lists this method by its name.
fn is_listed(cluster: &Cluster, method: &str) -> bool {
    let endpoints = cluster.endpoints();
    endpoints.iter().all(|endpoint| {
        registered(std::slice::from_ref(endpoint)).is_some_and(|known| known.contains(&method))
    })
}

/// What a provider says of the types of a method.
pub(crate) struct TypesAnswer {
    /// Whether it has a method with these types.
    pub(crate) knows_types: bool,
    /// Which provider says so.
    pub(crate) endpoint: Box<str>,
}

/// Asks a provider whether it has a method with the types of a refused call: it may have been
/// unable to read the arguments. Nothing if it cannot be asked, or says neither.
pub(crate) async fn ask_for_types(
    outbound: &Outbound,
    registry: usize,
    invocation: &Invocation<'_>,
    call: RefusedCall<'_>,
) -> Option<TypesAnswer> {
    if !is_listed(&call.route.cluster, &call.route.method) {
        return None;
    }
    let answer = ask(outbound, registry, invocation, call).await?;
    let knows_types = match answer.code {
        Code::MethodNotFound => false,
        Code::BadArguments if answer.message.contains(UNKNOWN_CLASS) => false,
        Code::BadArguments if answer.message.contains(OTHER_NUMBER) => true,
        _ => return None,
    };
    Some(TypesAnswer { knows_types, endpoint: answer.endpoint? })
}

/// Asks whether there is a method with these types, without calling it.
async fn ask(
    outbound: &Outbound,
    registry: usize,
    invocation: &Invocation<'_>,
    call: RefusedCall<'_>,
) -> Option<CallError> {
    let RefusedCall { route, started } = call;
    let (ParameterTypes::Given(types) | ParameterTypes::Named(types, _)) = &route.parameters else {
        return None;
    };
    // One argument where the types are none, and none where they are some.
    let values: Vec<&[u8]> = if types.is_empty() { vec![b"null"] } else { Vec::new() };
    let args = ArgumentList::of_values(values);
    let descriptor: String = types.iter().map(hessian::JavaType::to_descriptor).collect();
    // No caller can write such types, so that this is never taken for a call.
    let key = format!("{descriptor}\n?");
    let generic = Generic::Map;
    let name = RouteName { types: Some(&key), generic: Some(generic), ..invocation.name };
    let asked = match outbound.routes.find(registry, &name, args.len()) {
        Some(known) => known,
        None => {
            let parameters = ParameterTypes::Asked(types.clone());
            let (cluster, plan) = (Rc::clone(&route.cluster), Plan::generic(generic));
            outbound
                .routes
                .insert(registry, &name, args.len(), NewRoute { cluster, parameters, plan })
                .ok()?
        }
    };
    let deadline = started + route.cluster.timeout(invocation.name.method, invocation.timeout);
    let times = Times { now: Instant::now(), deadline };
    // Asking is nothing that can be done one-way.
    let call = Call { one_way: false, ..invocation.call(&asked.route, &args, times) };
    let outcome: Outcome = route.cluster.call(&call, invocation.origin.caller).await;
    match outcome {
        // An answer that is too long to be looked at is none that says why.
        Ok(reply) => json_of(&reply).err().filter(|error| error.code != Code::ReplyTooLarge),
        Err(error) => Some(error),
    }
}
