//! The routes of calls whose types are known, and that go as the maps of a generic call.
//!
//! Which calls these are, [`crate::map_form`] says.

use std::rc::Rc;

use hessian::JavaType;

use crate::error::CallError;
use crate::invocation::Invocation;
use crate::map_form::MapForm;
use crate::outbound::Outbound;
use crate::route::{Generic, ParameterTypes, Plan, RouteName};
use crate::routes::{ClusterRoute, NewRoute};

/// The route of a call with types as a generic call.
///
/// # Errors
/// As [`RouteTable::insert`](crate::routes::RouteTable::insert).
pub(crate) fn route(
    outbound: &Outbound,
    registry: usize,
    invocation: &Invocation<'_>,
    route: &ClusterRoute,
    types: &[JavaType],
    form: MapForm,
) -> Result<Rc<ClusterRoute>, CallError> {
    let generic = form.generic;
    let Plan { n_packed, may_pack, is_guess, .. } = route.plan;
    let names: Vec<String> = types.iter().map(JavaType::to_string).collect();
    let n_in_array = n_packed.map_or(String::new(), |n| n.to_string());
    // No caller can write such types, so that this is never taken for another call.
    let key = format!("{}\n{n_in_array}{{", names.join(","));
    let n_args = invocation.args.len();
    let name = RouteName { types: Some(&key), generic: Some(generic), ..invocation.name };
    if let Some(known) = outbound.routes.find(registry, &name, n_args) {
        return Ok(known);
    }
    let (schema, instances) = (route.plan.schema.clone(), route.plan.instances.clone());
    let by_types = route.plan.unknown.are_of_known_types();
    let result = route.plan.result.clone().filter(|_| generic == Generic::Raw);
    let plan = Plan {
        schema,
        result,
        instances,
        n_packed,
        may_pack,
        is_guess,
        by_types,
        ..Plan::generic(generic)
    };
    let (parameters, cluster) = (ParameterTypes::Named(types.to_vec(), generic), &route.cluster);
    outbound.routes.insert(
        registry,
        &name,
        n_args,
        NewRoute { cluster: Rc::clone(cluster), parameters, plan },
    )
}
