//! A call as a caller describes it, whatever protocol it came by, on its way to its route.

use std::rc::Rc;
use std::time::{Duration, Instant};

use dubbo_proto::ServiceKey;
use tracing::debug;

use crate::args::ArgumentList;
use crate::call::{Outcome, Reply};
use crate::error::{CallError, Code};
use crate::resolve::{self, refusal};
use crate::route::{Parameters, Route, RouteName};
use crate::upstream;
use crate::worker::Worker;

/// The attachment by which a caller says that it waits for no reply, as Dubbo for Java has it.
pub const ONE_WAY: (&str, &str) = ("return", "false");

/// One call, not yet checked.
pub struct Invocation<'a> {
    /// What is called.
    pub name: RouteName<'a>,
    /// With which arguments.
    pub args: ArgumentList<'a>,
    /// How long the caller wants to wait; the service's own timeout if it does not say.
    pub timeout: Option<Duration>,
    /// Attachments of this call.
    pub attachments: Vec<(&'a str, &'a str)>,
}

/// Makes a call, which came at `started`, to a service of the registry with the index `registry`.
///
/// # Errors
/// Whatever the table in [`crate::error`] lists.
pub async fn invoke(
    worker: &Worker,
    registry: usize,
    invocation: &Invocation<'_>,
    started: Instant,
) -> Outcome {
    let outcome = match find_route(worker, registry, invocation, started).await {
        Ok(route) => make(worker, registry, invocation, route, started).await,
        Err(error) => {
            let RouteName { interface, version, group, .. } = invocation.name;
            let service = ServiceKey::new(interface, version, group).ok();
            if let Some(cluster) = service.and_then(|key| worker.known_cluster(registry, key)) {
                cluster.count_without_endpoint(started, error.code);
            }
            Err(error)
        }
    };
    if let Err(error) = &outcome {
        told(&invocation.name, started, error);
    }
    outcome
}

#[cold]
fn told(name: &RouteName<'_>, started: Instant, error: &CallError) {
    let RouteName { interface, version, group, method, .. } = *name;
    let took_ms = started.elapsed().as_millis();
    debug!(interface, version, group, method, took_ms, %error, "call failed");
}

/// The route of a call; nothing of it has been sent.
async fn find_route(
    worker: &Worker,
    registry: usize,
    invocation: &Invocation<'_>,
    started: Instant,
) -> Result<Rc<Route>, CallError> {
    if worker.is_draining() {
        return Err(CallError::new(Code::Draining, "this agent is shutting down"));
    }
    let args = &invocation.args;
    let route = match worker.routes.find(registry, &invocation.name, args.len()) {
        Some(route) => route,
        None => resolve::prepare(worker, registry, invocation, started).await?,
    };
    match route.plan.overloads.is_empty() {
        true => Ok(route),
        false => resolve::choose(worker, registry, invocation, &route),
    }
}

async fn make(
    worker: &Worker,
    registry: usize,
    invocation: &Invocation<'_>,
    route: Rc<Route>,
    started: Instant,
) -> Outcome {
    if !route.plan.is_guess {
        let outcome = send(&route, invocation, started).await;
        return match outcome {
            Err(error) if error.is_unreadable() => {
                Err(refusal::explain(worker, registry, invocation, (&route, started), error).await)
            }
            outcome => outcome,
        };
    }
    if !route.plan.is_refused.get() {
        let outcome = send(&route, invocation, started).await;
        let Err(error) = outcome else { return outcome };
        // Nothing was begun: the provider knows no such method, or not with these types, or the arguments
        // do not fit the types, which the provider may take a wider view of.
        let is_refused = matches!(error.code, Code::MethodNotFound | Code::ProviderRejected);
        if !is_refused && error.code != Code::BadArguments {
            return Err(error);
        }
        let generic = resolve::generic_instead(worker, registry, invocation, &route)?;
        let second = send(&generic, invocation, started).await;
        if second.is_ok() && is_refused {
            debug!(service = %route.cluster.service, method = &*route.method, %error,
                "the provider refuses the types of its definition; generic calls from now on");
            route.plan.is_refused.set(true);
        }
        return second.map_err(|second| both(&route, &error, second));
    }
    let generic = resolve::generic_instead(worker, registry, invocation, &route)
        .inspect_err(|error| route.cluster.count_without_endpoint(started, error.code))?;
    send(&generic, invocation, started).await
}

/// Makes the call of a route, its arguments written as the route wants them.
async fn send(route: &Rc<Route>, invocation: &Invocation<'_>, started: Instant) -> Outcome {
    let is_json_text = route.answers_json_text();
    if !route.parameters.is_generic() && route.plan.result.is_none() {
        return send_written(route, invocation, started).await;
    }
    let outcome = if is_json_text {
        let texts = invocation.args.quoted();
        send_args(route, &ArgumentList::of_texts(&texts), invocation, started).await
    } else {
        send_written(route, invocation, started).await
    };
    outcome.map(|reply| Reply { route: Some(Rc::clone(route)), ..reply })
}

/// Makes the call of a route, with the last arguments in an array if the method wants them so.
async fn send_written(route: &Rc<Route>, invocation: &Invocation<'_>, started: Instant) -> Outcome {
    let is_element = || match &route.parameters {
        Parameters::Given(types) | Parameters::Named(types, _) => {
            invocation.args.ends_in_element(types)
        }
        Parameters::Unknown | Parameters::Asked(_) => false,
    };
    let may_pack = || (route.plan.may_pack && is_element()).then_some(1);
    if let Some(n_packed) = route.plan.n_packed.or_else(may_pack) {
        let texts = invocation.args.packed(n_packed);
        return send_args(route, &ArgumentList::of_texts(&texts), invocation, started).await;
    }
    send_args(route, &invocation.args, invocation, started).await
}

async fn send_args(
    route: &Rc<Route>,
    args: &ArgumentList<'_>,
    invocation: &Invocation<'_>,
    started: Instant,
) -> Outcome {
    let deadline = started + route.cluster.timeout(invocation.timeout);
    let attachments = &invocation.attachments;
    let one_way = attachments.contains(&ONE_WAY);
    let (path, now) = (None, started);
    let request = upstream::Request { route, args, attachments, path, now, deadline, one_way };
    route.cluster.call(request).await
}

/// The failure of a call that was tried by its definition, and then as a generic call.
fn both(route: &Route, first: &CallError, second: CallError) -> CallError {
    let origin = route.plan.schema.as_ref().map_or(String::new(), |it| it.origin.to_string());
    if first.code == Code::BadArguments {
        let message = format!(
            "{}, by {origin}; a generic call fails, too: {}",
            first.summary(),
            second.summary()
        );
        return CallError { message: message.into(), endpoint: second.endpoint, ..first.clone() };
    }
    let message = format!(
        "{}; before, with the types that {origin} tells: {}",
        second.summary(),
        first.summary()
    );
    CallError { message: message.into(), provider_status: None, ..second }
}
