//! Which method a caller means who has not told the types of its parameters.
//!
//! The types come, in this order, from the request; from the service's definition, where the
//! estate has one (see [`registry::definitions`]); and otherwise from the provider itself, by a
//! generic call. A method that the provider's registration does not list is refused before
//! anything is sent. All of this is done once per route: a route that was resolved is not looked
//! at again until the service's definition changes.
//!
//! A definition may be out of date. When the provider refuses a call that was made by it, nothing
//! was begun, and the call is made once more as a generic one, for which only the provider's own
//! classes count. So is a call with an array, object or scalar where the definition tells of
//! another of these. But a value that contradicts a scalar type (`1.5` for an int), or stands
//! inside of an argument and cannot be of its type, is refused here: in a generic call Java would
//! make another value of it. See [`crate::invoke`].
//!
//! Objects of which nobody knows the fields go as maps: see `by_maps`.
//!
//! `refusal` finds out what a provider means that does not say why it refuses.

pub(crate) mod by_maps;
pub(crate) mod refusal;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dubbo_proto::ServiceDefinition;
use dubbo_proto::definition::MethodDefinition;
use hessian::generics::Instances;
use hessian::transcode::builtin::Builtin;
use hessian::{ClassType, JavaType};
use java_json::unknown::{has_builder, has_enum_map, has_object, has_optional};
use registry::{Definition, DefinitionOrigin, Endpoint};

use crate::args::fits::Fit;
use crate::args::{ArgumentList, parse_types, understood};
use crate::cluster::Cluster;
use crate::config::closest;
use crate::error::{CallError, Code};
use crate::invocation::Invocation;
use crate::outbound::Outbound;
use crate::route::{Candidate, Generic, ParameterTypes, Plan, RouteName, UnknownFields, is_scalar};
use crate::routes::{ClusterRoute, NewRoute};

/// How long the first call of a service waits for its definition, unless it has less time itself.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a call waits at most to hear whether its service exists.
const FIND_TIMEOUT: Duration = Duration::from_secs(1);
/// How many methods or signatures a message lists.
const MAX_LISTED: usize = 100;
/// What to send for the types to be known.
pub(crate) const TELL_TYPES: &str = "choose one by its parameter types (header \
                                     x-dubbo-parameter-types, such as java.lang.String,int)";

/// The route of a call that has none yet.
///
/// # Errors
/// What is wrong with the call, or that no method fits it.
pub async fn prepare(
    outbound: &Outbound,
    registry: usize,
    invocation: &Invocation<'_>,
    started: Instant,
) -> Result<Rc<ClusterRoute>, CallError> {
    let name = &invocation.name;
    let bad_request =
        |error: dubbo_proto::ProtoError| CallError::new(Code::BadRequest, error.to_string());
    let service = dubbo_proto::ServiceKey::new(name.interface, name.version, name.group)
        .map_err(bad_request)?;
    dubbo_proto::validate_method(name.method).map_err(bad_request)?;
    let types = name.types.map(parse_types).transpose()?;
    let limit = started + invocation.timeout.unwrap_or(FIND_TIMEOUT).min(FIND_TIMEOUT);
    let cluster = outbound.cluster_by(registry, service, limit).await?;
    let deadline = started + cluster.timeout(invocation.name.method, invocation.timeout);
    let (parameters, plan) = match (types, name.generic) {
        (Some(types), Some(generic)) => {
            let schema = match types.iter().any(may_have_fields) {
                true => definition(outbound, registry, &cluster, deadline).await?,
                false => None,
            };
            // What is not understood is left to the provider.
            let instances = understood(&types, schema.as_deref()).unwrap_or_default();
            let by_types = are_all_known(&types, schema.as_deref(), &instances);
            let plan = Plan { schema, instances, by_types, ..Plan::generic(generic) };
            (ParameterTypes::Named(types, generic), plan)
        }
        (None, Some(generic)) => {
            let schema = definition(outbound, registry, &cluster, deadline).await?;
            let told = told(schema.as_deref(), name.method, invocation.args.len());
            let by_types = are_all_known(&told, schema.as_deref(), &Instances::default());
            (ParameterTypes::Unknown, Plan { schema, told, by_types, ..Plan::generic(generic) })
        }
        (Some(types), None) => {
            let schema = match types.iter().any(may_have_fields) {
                true => definition(outbound, registry, &cluster, deadline).await?,
                false => None,
            };
            let result = schema.as_ref().and_then(|schema| result_of(schema, name.method, &types));
            let instances = understood(&types, schema.as_deref())?;
            let service = schema.as_deref().map(|schema| &schema.service);
            let unknown = unknown_fields(&types, service, &instances);
            let plan = Plan { schema, result, instances, unknown, ..Plan::default() };
            (ParameterTypes::Given(types), plan)
        }
        (None, None) => {
            let schema = definition(outbound, registry, &cluster, deadline).await?;
            untyped(&cluster, invocation, schema)?
        }
    };
    outbound.routes.insert(
        registry,
        name,
        invocation.args.len(),
        NewRoute { cluster, parameters, plan },
    )
}

/// The types of the only method of that name, if it takes so many arguments. The provider finds no
/// other by its name.
fn told(schema: Option<&Definition>, method: &str, n_args: usize) -> Vec<JavaType> {
    let mut overloads = schema.iter().flat_map(|schema| schema.service.overloads(method));
    match (overloads.next(), overloads.next()) {
        (Some(only), None) if only.parameters.len() == n_args => only.parameters.clone(),
        _ => Vec::new(),
    }
}

/// The type of a method's result, as its definition tells.
fn result_of(schema: &Definition, method: &str, types: &[JavaType]) -> Option<JavaType> {
    let descriptor =
        |types: &[JavaType]| types.iter().map(JavaType::to_descriptor).collect::<String>();
    let wanted = descriptor(types);
    let is_same = |overload: &&MethodDefinition| descriptor(&overload.parameters) == wanted;
    schema.service.overloads(method).find(is_same)?.result.clone()
}

/// The service's definition, if it has one. A service that nobody offers is not waited for.
async fn definition(
    outbound: &Outbound,
    registry: usize,
    cluster: &Rc<Cluster>,
    deadline: Instant,
) -> Result<Option<Arc<Definition>>, CallError> {
    cluster.wait_for_endpoints(deadline).await?;
    if cluster.endpoints().is_empty() {
        return Ok(None);
    }
    let Some(known) = outbound.registry(registry) else { return Ok(None) };
    let left = deadline.saturating_duration_since(Instant::now()) / 2;
    Ok(outbound.definitions.get(known, cluster, left.min(PATIENCE)).await)
}

/// Whether values of the type may be objects whose fields a definition tells, or have some within:
/// what is declared as `Object`, or holds anything, has those that name their class.
fn may_have_fields(ty: &JavaType) -> bool {
    match ty {
        JavaType::Array(element) => may_have_fields(element),
        JavaType::Class(class) => match class.builtin() {
            None | Some(Builtin::Any) => true,
            _ => holds_anything(ty) || class.args().iter().any(may_have_fields),
        },
        _ => false,
    }
}

/// Finds the method by its name and its number of arguments.
fn untyped(
    cluster: &Cluster,
    invocation: &Invocation<'_>,
    schema: Option<Arc<Definition>>,
) -> Result<(ParameterTypes, Plan), CallError> {
    let (method, n_args) = (invocation.name.method, invocation.args.len());
    let overloads: Vec<&MethodDefinition> =
        schema.iter().flat_map(|definition| definition.service.overloads(method)).collect();
    if overloads.is_empty() {
        check_registered(cluster, method, schema.as_deref())?;
        // Without arguments there is one method at most, whose types are known. If it is refused,
        // a generic call says whether there is one with parameters.
        return Ok(match n_args {
            0 => (ParameterTypes::Given(Vec::new()), Plan { is_guess: true, ..Plan::default() }),
            // The arguments may name classes that the definition has.
            _ => (ParameterTypes::Unknown, Plan { schema, ..Plan::default() }),
        });
    }
    let mut candidates: Vec<Candidate> = overloads
        .iter()
        .filter(|overload| overload.parameters.len() == n_args)
        .map(|overload| Candidate::new(overload, None))
        .collect();
    // Of a single method the last argument alone says whether it is packed: see `may_pack`.
    if candidates.is_empty() || 1 < overloads.len() {
        candidates.extend(overloads.iter().filter_map(|overload| packed(overload, n_args)));
    }
    match <[Candidate; 1]>::try_from(candidates) {
        Ok([candidate]) => Ok(resolved(&candidate, schema)),
        Err(candidates) if candidates.is_empty() => {
            let origin = schema.as_ref().map_or(String::new(), |schema| schema.origin.to_string());
            Err(wrong_number(method, n_args, &overloads, &origin))
        }
        Err(overloads) => {
            Ok((ParameterTypes::Unknown, Plan { schema, overloads, ..Plan::default() }))
        }
    }
}

/// How a method is called that was found by a definition. Objects of a class whose fields nobody
/// knows are for the provider to make, as are the elements of lists and maps where nobody tells
/// their types, or a `List<Order>` would hold maps: see `by_maps`.
fn resolved(method: &Candidate, schema: Option<Arc<Definition>>) -> (ParameterTypes, Plan) {
    let (types, n_packed) = (method.types.clone(), method.n_packed);
    let service = schema.as_deref().map(|schema| &schema.service);
    let is_erased = schema
        .as_ref()
        .is_some_and(|schema| matches!(schema.origin, DefinitionOrigin::Provider(_)));
    let unknown = match unknown_fields(&types, service, &Instances::default()) {
        _ if is_erased && types.iter().any(holds_anything) => UnknownFields::Erased,
        unknown => unknown,
    };
    let may_pack = n_packed.is_none() && matches!(types.last(), Some(JavaType::Array(_)));
    let (result, is_guess) = (method.result.clone(), true);
    let plan = Plan { schema, result, n_packed, may_pack, is_guess, unknown, ..Plan::default() };
    (ParameterTypes::Given(types), plan)
}

/// Whether a generic call can be written by these types, so that Java changes no value.
fn are_all_known(types: &[JavaType], schema: Option<&Definition>, instances: &Instances) -> bool {
    let service = schema.map(|schema| &schema.service);
    !types.is_empty() && unknown_fields(types, service, instances) != UnknownFields::Declared
}

/// Which arguments of these types may have objects of which nobody knows the fields.
fn unknown_fields(
    types: &[JavaType],
    service: Option<&ServiceDefinition>,
    instances: &Instances,
) -> UnknownFields {
    let is_known = |class: &ClassType| {
        service.is_some_and(|service| service.knows(class))
            || instances.fields(class.key()).is_some()
    };
    let may_be_unreadable =
        |ty: &JavaType| has_optional(ty) || has_object(ty) || has_builder(ty) || has_enum_map(ty);
    match () {
        () if !types.iter().all(|ty| are_known(ty, &is_known)) => UnknownFields::Declared,
        () if types.iter().any(has_builder) => UnknownFields::IfFound,
        () if types.iter().all(is_scalar) => UnknownFields::Never,
        () if types.iter().any(|ty| has_optional(ty) || has_enum_map(ty) || holds_anything(ty)) => {
            UnknownFields::IfFound
        }
        // Some readers do not know what they mean.
        () if types.iter().any(has_type_arguments) => UnknownFields::IfFound,
        () if service.is_some_and(|it| it.has_field(&may_be_unreadable)) => UnknownFields::IfFound,
        () => UnknownFields::IfNamed,
    }
}

/// Whether all classes in a type are known.
fn are_known(ty: &JavaType, is_known: &impl Fn(&ClassType) -> bool) -> bool {
    match ty {
        JavaType::Array(element) => are_known(element, is_known),
        JavaType::Class(class) => {
            (class.builtin().is_some() || is_known(class))
                && class.args().iter().all(|arg| are_known(arg, is_known))
        }
        _ => true,
    }
}

/// Whether the type is, or has within, a class of the estate with type arguments.
fn has_type_arguments(ty: &JavaType) -> bool {
    ty.find_class(&|class| class.builtin().is_none() && !class.args().is_empty()).is_some()
}

/// Whether the type is, or has within, a list or map of which it does not say what it holds.
fn holds_anything(ty: &JavaType) -> bool {
    match ty {
        JavaType::Array(element) => holds_anything(element),
        JavaType::Class(class) => match class.builtin() {
            Some(Builtin::List | Builtin::Map | Builtin::EnumSet | Builtin::Optional) => {
                class.args().is_empty() || class.args().iter().any(holds_anything)
            }
            _ => false,
        },
        _ => false,
    }
}

/// A method whose last parameter is an array, and takes the last arguments as its elements:
/// `String...` is nothing else in a definition.
fn packed(overload: &MethodDefinition, n_args: usize) -> Option<Candidate> {
    let (last, front) = overload.parameters.split_last()?;
    let is_variable = matches!(last, JavaType::Array(_)) && front.len() <= n_args;
    is_variable.then(|| Candidate::new(overload, Some(n_args - front.len())))
}

/// What is written as the method has it comes before what has to be packed, as in Java.
type Grade = (bool, Fit);

/// The route of a call to an overloaded method: the one of the candidate that its arguments fit.
///
/// # Errors
/// [`Code::AmbiguousMethod`] with the candidates if several do, [`Code::BadArguments`] if none
/// does.
pub fn choose(
    outbound: &Outbound,
    registry: usize,
    invocation: &Invocation<'_>,
    route: &ClusterRoute,
) -> Result<Rc<ClusterRoute>, CallError> {
    let schema = route.plan.schema.as_deref();
    let mut best: (Grade, Vec<&Candidate>) = (Grade::default(), Vec::new());
    for candidate in &route.plan.overloads {
        let fit = fit(candidate, &invocation.args, schema);
        let grade = (candidate.n_packed.is_none(), fit);
        if fit == Fit::None || grade < best.0 {
            continue;
        }
        if best.0 < grade {
            best = (grade, Vec::new());
        }
        best.1.push(candidate);
    }
    let method = invocation.name.method;
    let best = best.1;
    let chosen = match best.as_slice() {
        [chosen] => chosen,
        [] => {
            let list = list(route.plan.overloads.iter().map(|one| signature(method, &one.types)));
            let message =
                format!("no method {method} takes these arguments; the candidates are {list}");
            return Err(CallError::new(Code::BadArguments, message));
        }
        several => {
            let list = list(several.iter().map(|one| signature(method, &one.types)));
            let message =
                format!("several methods {method} take these arguments: {list}; {TELL_TYPES}");
            return Err(CallError::new(Code::AmbiguousMethod, message));
        }
    };
    let descriptor: String = chosen.types.iter().map(JavaType::to_descriptor).collect();
    // What is packed differs by the number of arguments; the name keeps it apart.
    let key = match chosen.n_packed {
        Some(n_packed) => format!("{descriptor}\n{n_packed}"),
        None => format!("{descriptor}\n"),
    };
    let name = RouteName { types: Some(&key), ..invocation.name };
    let n_args = invocation.args.len();
    if let Some(known) = outbound.routes.find(registry, &name, n_args) {
        return Ok(known);
    }
    let (parameters, plan) = resolved(chosen, route.plan.schema.clone());
    outbound.routes.insert(
        registry,
        &name,
        n_args,
        NewRoute { cluster: Rc::clone(&route.cluster), parameters, plan },
    )
}

/// How well all arguments fit: as the worst of them does.
fn fit(candidate: &Candidate, args: &ArgumentList<'_>, schema: Option<&Definition>) -> Fit {
    let service = schema.map(|schema| &schema.service);
    let last = candidate.types.len().saturating_sub(1);
    let of = |index: usize| match (candidate.n_packed, candidate.types.get(index.min(last))) {
        (Some(_), Some(JavaType::Array(element))) if last <= index => {
            args.fits(index, element, service)
        }
        (_, Some(ty)) => args.fits(index, ty, service),
        (_, None) => Fit::None,
    };
    (0..args.len()).map(of).min().unwrap_or(Fit::Natural)
}

/// The generic call instead of the one that a definition told of, for a provider that refused
/// that.
///
/// # Errors
/// [`Code::Overloaded`] if every route of the table has calls in flight.
pub fn generic_instead(
    outbound: &Outbound,
    registry: usize,
    invocation: &Invocation<'_>,
    route: &ClusterRoute,
) -> Result<Rc<ClusterRoute>, CallError> {
    if let Some(known) = outbound.registry(registry) {
        outbound.definitions.suspect(known, &route.cluster);
    }
    // Of several methods the provider would not know which, but of one it knows the types best.
    let service = route.plan.schema.as_ref().map(|schema| &schema.service);
    let n_overloads =
        service.map_or(0, |service| service.overloads(invocation.name.method).count());
    let (generic, n_args) = (Generic::Map, invocation.args.len());
    let (parameters, types) = match &route.parameters {
        ParameterTypes::Given(types) | ParameterTypes::Named(types, _) if 1 < n_overloads => {
            let descriptor: String = types.iter().map(JavaType::to_descriptor).collect();
            (ParameterTypes::Named(types.clone(), generic), descriptor)
        }
        // Unlike a generic call that the caller asks for, it is not checked by types that may be
        // wrong.
        _ => (ParameterTypes::Unknown, format!("\n{n_args}")),
    };
    let name = RouteName { types: Some(&types), generic: Some(generic), ..invocation.name };
    if let Some(known) = outbound.routes.find(registry, &name, n_args) {
        return Ok(known);
    }
    let n_packed = route.plan.n_packed.filter(|_| 1 < n_overloads);
    let plan = Plan { n_packed, may_pack: route.plan.may_pack, ..Plan::generic(generic) };
    outbound.routes.insert(
        registry,
        &name,
        n_args,
        NewRoute { cluster: Rc::clone(&route.cluster), parameters, plan },
    )
}

/// The methods that the providers list in their registrations; `None` unless all of them list
/// some.
fn registered(endpoints: &[Endpoint]) -> Option<Vec<&str>> {
    let mut known: Vec<&str> = Vec::new();
    for endpoint in endpoints {
        let methods = endpoint.params.get("methods").filter(|list| !list.is_empty())?;
        known.extend(methods.split(',').map(str::trim));
    }
    (!endpoints.is_empty()).then_some(known)
}

/// Refuses a method that no provider lists, if all of them list their methods.
fn check_registered(
    cluster: &Cluster,
    method: &str,
    definition: Option<&Definition>,
) -> Result<(), CallError> {
    let endpoints = cluster.endpoints();
    let Some(mut known) = registered(&endpoints) else { return Ok(()) };
    if known.contains(&"*") || known.contains(&method) || method.starts_with('$') {
        return Ok(());
    }
    known.extend(definition.iter().flat_map(|it| it.service.methods.iter().map(|one| &*one.name)));
    known.sort_unstable();
    known.dedup();
    let hint =
        closest(method, &known).map_or(String::new(), |name| format!("did you mean {name}? "));
    let service = &cluster.service;
    let list = list(known.iter().map(ToString::to_string));
    let message = format!("{service} has no method {method}; {hint}it has {list}");
    Err(CallError::new(Code::MethodNotFound, message))
}

fn wrong_number(
    method: &str,
    n_args: usize,
    overloads: &[&MethodDefinition],
    origin: &str,
) -> CallError {
    let list = list(overloads.iter().map(ToString::to_string));
    let hint = match n_args {
        0 => "",
        _ => "; if the only argument is a list, write [[...]]",
    };
    let message =
        format!("{method} does not take {n_args} arguments; it is {list} (from {origin}){hint}");
    CallError::new(Code::BadArguments, message)
}

fn signature(method: &str, types: &[JavaType]) -> String {
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    format!("{method}({})", types.join(", "))
}

fn list(items: impl ExactSizeIterator<Item = String>) -> String {
    let n_more = items.len().saturating_sub(MAX_LISTED);
    let shown: Vec<String> = items.take(MAX_LISTED).collect();
    let more = if n_more == 0 { String::new() } else { format!(" and {n_more} more") };
    shown.join(", ") + &more
}

#[cfg(test)]
mod tests;
