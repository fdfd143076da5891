//! Calls whose types are known, with objects of which nobody knows the fields.
//!
//! By hessian2, a provider of Dubbo 2 that cannot read a field (a double, where its class has a
//! `BigDecimal`) calls the method with null in place of the whole argument. So these objects go as
//! the maps of a generic call, of which the provider makes what its classes say. fastjson does so
//! without that, but knows only the classes of parameters: it gets maps for subclasses, and for the
//! elements of collections. fastjson2 makes dates and enums of texts itself, and gets maps only for numbers
//! with a fraction, which it drops where it does not expect one. Since 2.7.4, Dubbo can answer such a call with the result itself
//! (`generic=raw.return`, see `GenericFilter`), so that it is the same as that of other calls.
//! Before, objects in the result are maps, too.

use std::rc::Rc;

use dubbo_proto::{Serialization, ValueCodec};
use hessian::JavaType;
use java_json::unknown::Unreadable;
use registry::Endpoint;

use crate::error::CallError;
use crate::invocation::Invocation;
use crate::outbound::Outbound;
use crate::route::{Generic, Parameters, Plan, RouteName, UnknownFields};
use crate::routes::ClusterRoute;

/// The parameter by which an agent tells what kind of app it offers.
pub(crate) const APP: &str = "dubmesh.app";
/// An HTTP app: it gets JSON as it is, whatever its fields are.
pub(crate) const HTTP_APP: &str = "http";
/// A Dubbo provider of any version.
pub(crate) const DUBBO_APP: &str = "dubbo";

/// The first release of Dubbo that can return the result itself.
const RETURNS_ITSELF: [u32; 3] = [2, 7, 4];

/// What a call that can be written as objects is written as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MapForm {
    /// As this generic call,
    generic: Generic,
    /// if it has that.
    pub(crate) unreadable: Unreadable,
}

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
    let Plan { n_packed, may_pack, .. } = route.plan;
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
    let by_types = route.plan.unknown != UnknownFields::Declared;
    let result = route.plan.result.clone().filter(|_| generic == Generic::Raw);
    let plan =
        Plan { schema, result, instances, n_packed, may_pack, by_types, ..Plan::generic(generic) };
    let (parameters, cluster) = (Parameters::Named(types.to_vec(), generic), &route.cluster);
    outbound.routes.insert(registry, &name, n_args, Rc::clone(cluster), parameters, plan)
}

/// The form that all endpoints can take; nothing if they read objects anyway. Those that list no
/// serialization are called by `otherwise`.
pub(crate) fn form_for(endpoints: &[Endpoint], otherwise: Serialization) -> Option<MapForm> {
    let is_http = |endpoint: &Endpoint| endpoint.params.get(APP) == Some(HTTP_APP);
    if !endpoints.is_empty() && endpoints.iter().all(is_http) {
        return None;
    }
    let all = |convert: fn(&dyn ValueCodec) -> bool| {
        !endpoints.is_empty()
            && endpoints.iter().all(|endpoint| {
                let listed = endpoint.serializations.iter();
                let values = listed.filter_map(|it| it.values()).next().or(otherwise.values());
                is_http(endpoint) || values.is_some_and(convert)
            })
    };
    let unreadable = match all(|values| values.converts_texts()) {
        true if all(|values| values.converts_numbers()) => Unreadable::Elements,
        true => Unreadable::Fractions,
        false => Unreadable::Fields,
    };
    let returns_itself = |endpoint: &Endpoint| match endpoint.params.get(APP) {
        Some(app) => app == HTTP_APP,
        None => endpoint.params.get("release").is_some_and(returns_itself),
    };
    let is_raw = endpoints.iter().all(returns_itself);
    Some(MapForm { generic: if is_raw { Generic::Raw } else { Generic::Map }, unreadable })
}

fn returns_itself(release: &str) -> bool {
    let number = |part: &str| {
        let digits = part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().unwrap_or(0)
    };
    let parts: Vec<u32> = release.splitn(4, '.').take(3).map(number).collect();
    RETURNS_ITSELF.as_slice() <= parts.as_slice()
}

#[cfg(test)]
mod tests {
    use registry::Protocol;

    use super::*;

    #[test]
    fn the_oldest_endpoint_decides() {
        let form = |params: &[(&str, &str)]| {
            let endpoint = |&(name, value): &(&str, &str)| {
                let mut endpoint = Endpoint::new(Protocol::Dubbo, "10.0.0.1", 20880);
                endpoint.params = endpoint.params.with(name, value);
                endpoint
            };
            let form = form_for(
                &params.iter().map(endpoint).collect::<Vec<_>>(),
                Serialization::Hessian2,
            )?;
            assert_eq!(form.unreadable, Unreadable::Fields);
            Some(form.generic)
        };
        for (params, expected) in [
            (&[("release", "2.7.23"), ("release", "3.3.6")][..], Some(Generic::Raw)),
            (&[("release", "2.7.4.1"), ("dubmesh.app", "http")], Some(Generic::Raw)),
            (&[("release", "3.0.0.preview")], Some(Generic::Raw)),
            (&[("release", "2.7.23"), ("release", "2.7.3")], Some(Generic::Map)),
            (&[("release", "2.6.12")], Some(Generic::Map)),
            (&[("release", "new")], Some(Generic::Map)),
            (&[("release", "3.3.6"), ("timeout", "5")], Some(Generic::Map)),
            (&[("release", "3.3.6"), ("dubmesh.app", "dubbo")], Some(Generic::Map)),
            (&[("dubmesh.app", "http")], None),
        ] {
            assert_eq!(form(params), expected, "{params:?}");
        }
        let mut fastjson2 = Endpoint::new(Protocol::Dubbo, "10.0.0.1", 20880);
        fastjson2.serializations = vec![Serialization::Fastjson2, Serialization::Hessian2];
        let unreadable = |endpoints: &[Endpoint]| {
            form_for(endpoints, Serialization::Fastjson).map(|form| form.unreadable)
        };
        assert_eq!(unreadable(&[fastjson2.clone()]), Some(Unreadable::Fractions));
        let fastjson = Endpoint::new(Protocol::Dubbo, "10.0.0.2", 20880);
        let form = unreadable(std::slice::from_ref(&fastjson));
        assert_eq!(form, Some(Unreadable::Elements));
        assert_eq!(unreadable(&[fastjson2.clone(), fastjson]), Some(Unreadable::Fractions));
        let mut hessian2 = Endpoint::new(Protocol::Dubbo, "10.0.0.3", 20880);
        hessian2.serializations = vec![Serialization::Hessian2];
        assert_eq!(unreadable(&[fastjson2, hessian2]), Some(Unreadable::Fields));
    }
}
