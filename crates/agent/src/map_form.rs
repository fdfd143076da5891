//! What becomes of objects of which nobody knows the fields, in calls whose types are known.
//!
//! By hessian2, a provider of Dubbo 2 that cannot read a field (a double, where its class has a
//! `BigDecimal`) calls the method with null in place of the whole argument. So these objects go as
//! the maps of a generic call, of which the provider makes what its classes say.
//!
//! fastjson does so without that, but knows only the classes of parameters. It gets maps for
//! subclasses, and for the elements of collections. fastjson2 makes dates, enums, UUIDs and
//! records of what stands there, which Dubbo does not. It gets maps only for what it misreads:
//! numbers with a fraction, which it drops where it does not expect one, and keys of maps, which
//! it leaves to be texts.
//!
//! Since 3.2.0, Dubbo makes of maps what type variables stand for: a definition tells of a field
//! of type `T` that it is an `Object`, and such a field gets a map from any reader of objects.
//! What a `List` holds that is a parameter, all versions know.
//!
//! Since 2.7.4, Dubbo can answer such a call with the result itself (`generic=raw.return`, see
//! `GenericFilter`), so that it is the same as that of other calls. Before, objects in the result
//! are maps, too.

use dubbo_proto::{Serialization, ValueCodec};
use java_json::unknown::{Reasons, Unreadable};
use registry::Endpoint;

use crate::route::Generic;
use crate::route::constants::ConstantRule;

/// The parameter by which an agent tells what kind of app it offers.
pub(crate) const APP: &str = "dubmesh.app";
/// An HTTP app: it gets JSON as it is, whatever its fields are.
pub(crate) const HTTP_APP: &str = "http";
/// A Dubbo provider of any version.
pub(crate) const DUBBO_APP: &str = "dubbo";

/// The first release of Dubbo that can return the result itself.
const RETURNS_ITSELF: [u32; 3] = [2, 7, 4];
/// The first release whose `PojoUtils` puts in the arguments for type variables.
const KNOWS_VARIABLES: [u32; 3] = [3, 2, 0];
/// The first release that refuses an argument that it cannot read by hessian2.
const REFUSES_UNREADABLE: [u32; 3] = [3, 0, 0];

/// What a call that can be written as objects is written as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MapForm {
    /// As this generic call,
    pub(crate) generic: Generic,
    /// if it has one of these.
    pub(crate) reasons: Reasons,
    /// Which texts are constants of enums in the calls that are not written so.
    pub(crate) constants: ConstantRule,
}

impl MapForm {
    /// Which texts are written as constants of enums, if this is the form of the endpoints.
    #[inline]
    pub(crate) fn constants_of(form: Option<Self>) -> ConstantRule {
        form.map_or(ConstantRule::Certain, |form| form.constants)
    }
}

/// The form that all endpoints can take; nothing if they read objects anyway. Those that list no
/// serialization are called by `otherwise`.
pub(crate) fn form_for<'a>(
    endpoints: &(impl Iterator<Item = &'a Endpoint> + Clone),
    otherwise: Serialization,
) -> Option<MapForm> {
    let is_any = endpoints.clone().next().is_some();
    let is_http = |endpoint: &Endpoint| endpoint.params.get(APP) == Some(HTTP_APP);
    if is_any && endpoints.clone().all(is_http) {
        return None;
    }
    let values = |endpoint: &'a Endpoint| {
        let mut listed = endpoint.serializations.iter();
        listed.find_map(|it| it.values()).or_else(|| otherwise.values())
    };
    let all = |convert: fn(&dyn ValueCodec) -> bool| {
        is_any
            && endpoints
                .clone()
                .all(|endpoint| is_http(endpoint) || values(endpoint).is_some_and(convert))
    };
    let unreadable = match all(|values| values.converts_texts()) {
        true if all(|values| values.converts_numbers()) => Unreadable::Elements,
        true => Unreadable::Misread,
        false => Unreadable::Fields,
    };
    let are_since = |first: [u32; 3]| {
        endpoints.clone().all(|endpoint| match endpoint.params.get(APP) {
            Some(app) => app == HTTP_APP,
            None => endpoint.params.get("release").is_some_and(|release| is_since(release, first)),
        })
    };
    let refuses_texts = |endpoint| {
        is_http(endpoint) || values(endpoint).is_some_and(|values| !values.converts_texts())
    };
    let constants = match are_since(RETURNS_ITSELF) {
        _ if are_since(REFUSES_UNREADABLE) && endpoints.clone().all(refuses_texts) => {
            ConstantRule::Listed
        }
        true => ConstantRule::Proved,
        false => ConstantRule::Capitals,
    };
    let generic = if are_since(RETURNS_ITSELF) { Generic::Raw } else { Generic::Map };
    let knows_variables = is_any && are_since(KNOWS_VARIABLES);
    // Where maps come back, an answer would be another.
    let knows_elements = is_any && generic == Generic::Raw;
    let reasons = Reasons { unreadable, knows_variables, knows_elements };
    Some(MapForm { generic, reasons, constants })
}

fn is_since(release: &str, first: [u32; 3]) -> bool {
    let number = |part: &str| {
        let digits = part.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().unwrap_or(0)
    };
    let parts: Vec<u32> = release.splitn(4, '.').take(3).map(number).collect();
    first.as_slice() <= parts.as_slice()
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
            let endpoints: Vec<Endpoint> = params.iter().map(endpoint).collect();
            let form = form_for(&endpoints.iter(), Serialization::Hessian2)?;
            assert_eq!(form.reasons.unreadable, Unreadable::Fields);
            let knows_variables = params.iter().all(|&(_, value)| value == "3.3.6");
            assert_eq!(form.reasons.knows_variables, knows_variables, "{params:?}");
            Some(form.generic)
        };
        for (params, expected) in [
            (&[("release", "2.7.23"), ("release", "3.3.6")][..], Some(Generic::Raw)),
            (&[("release", "3.3.6")], Some(Generic::Raw)),
            (&[("release", "3.1.11")], Some(Generic::Raw)),
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
        let constants = |release: &str, serialization| {
            let mut endpoint = Endpoint::new(Protocol::Dubbo, "10.0.0.1", 20880);
            endpoint.params = endpoint.params.with("release", release);
            endpoint.serializations = vec![serialization];
            let http = Endpoint::new(Protocol::Link, "10.0.0.2", 20990);
            let http = Endpoint { params: http.params.with(APP, HTTP_APP), ..http };
            let endpoints = [endpoint, http];
            MapForm::constants_of(form_for(&endpoints.iter(), Serialization::Hessian2))
        };
        for (release, serialization, expected) in [
            ("2.7.23", Serialization::Hessian2, ConstantRule::Proved),
            ("3.0.0", Serialization::Hessian2, ConstantRule::Listed),
            ("3.3.6", Serialization::Fastjson2, ConstantRule::Proved),
            ("3.3.6", Serialization::Fastjson, ConstantRule::Proved),
            ("2.7.3", Serialization::Hessian2, ConstantRule::Capitals),
            ("", Serialization::Fastjson2, ConstantRule::Capitals),
        ] {
            assert_eq!(constants(release, serialization), expected, "{release}");
        }
        assert_eq!(MapForm::constants_of(None), ConstantRule::Certain);
        let mut fastjson2 = Endpoint::new(Protocol::Dubbo, "10.0.0.1", 20880);
        fastjson2.serializations = vec![Serialization::Fastjson2, Serialization::Hessian2];
        let unreadable = |endpoints: &[Endpoint]| {
            form_for(&endpoints.iter(), Serialization::Fastjson).map(|form| form.reasons.unreadable)
        };
        assert_eq!(unreadable(&[fastjson2.clone()]), Some(Unreadable::Misread));
        let fastjson = Endpoint::new(Protocol::Dubbo, "10.0.0.2", 20880);
        let form = unreadable(std::slice::from_ref(&fastjson));
        assert_eq!(form, Some(Unreadable::Elements));
        assert_eq!(unreadable(&[fastjson2.clone(), fastjson]), Some(Unreadable::Misread));
        let mut hessian2 = Endpoint::new(Protocol::Dubbo, "10.0.0.3", 20880);
        hessian2.serializations = vec![Serialization::Hessian2];
        assert_eq!(unreadable(&[fastjson2, hessian2]), Some(Unreadable::Fields));
    }
}
