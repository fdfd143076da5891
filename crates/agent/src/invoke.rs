//! A call as a caller describes it, whatever protocol it came by, on its way to its route.

use std::time::{Duration, Instant};

use crate::args::{ArgumentList, parse_types};
use crate::call::Outcome;
use crate::error::{CallError, Code};
use crate::route::{Parameters, RouteName};
use crate::upstream;
use crate::worker::Worker;

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
    if worker.is_draining() {
        return Err(CallError::new(Code::Draining, "this agent is shutting down"));
    }
    let name = &invocation.name;
    let route = match worker.routes.find(registry, name) {
        Some(route) => route,
        None => {
            let (service, parameters) = check(name)?;
            let cluster = worker.cluster(registry, service)?;
            worker.routes.insert(registry, name, cluster, parameters)?
        }
    };
    let deadline = started + route.cluster.timeout(invocation.timeout);
    let request = upstream::Request {
        route: &route,
        args: &invocation.args,
        attachments: &invocation.attachments,
        now: started,
        deadline,
    };
    route.cluster.call(request).await
}

/// What a caller has named, checked once per route.
fn check(name: &RouteName<'_>) -> Result<(dubbo_proto::ServiceKey, Parameters), CallError> {
    let bad_request =
        |error: dubbo_proto::ProtoError| CallError::new(Code::BadRequest, error.to_string());
    let service = dubbo_proto::ServiceKey::new(name.interface, name.version, name.group)
        .map_err(bad_request)?;
    dubbo_proto::validate_method(name.method).map_err(bad_request)?;
    let parameters = match name.types {
        Some(types) => Parameters::Given(parse_types(types)?),
        None => Parameters::Unknown,
    };
    Ok((service, parameters))
}
