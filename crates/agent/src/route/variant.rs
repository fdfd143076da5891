//! A route as it is called with one version and group of its service: how links are told of it,
//! and the constant parts of a request to a Dubbo provider.
//!
//! A route has one of what its callers name. If they leave version or group open, it has others
//! for what its endpoints are listed with.

use std::cell::OnceCell;
use std::rc::Rc;

use dubbo_proto::{RequestHead, RequestTemplate, Serialization, ServiceKey};
use link_proto::RouteDef;

use super::{GENERIC_DESCRIPTOR, GENERIC_METHOD, ParameterTypes, Plan, WHOLE, descriptors};
use crate::error::{CallError, Code};

/// A route for one version and group.
pub struct RouteVariant {
    /// The service as text.
    pub service: Rc<str>,
    /// How links are told of it.
    pub def: RouteDef,
    version: Box<str>,
    templates: [OnceCell<RequestTemplate>; Serialization::WRITTEN.len()],
}

impl RouteVariant {
    /// That of a method of `service`.
    pub(super) fn new(
        service: &ServiceKey,
        method: &str,
        parameters: &ParameterTypes,
        plan: &Plan,
    ) -> Self {
        let def = match method {
            WHOLE => RouteDef {
                service: service.to_string(),
                method: WHOLE.to_owned(),
                ..RouteDef::default()
            },
            _ => definition(service, method, parameters, plan),
        };
        Self {
            service: def.service.as_str().into(),
            def,
            version: service.version.as_str().into(),
            templates: Default::default(),
        }
    }

    /// Whether it is that of a service, by its key as text.
    #[inline]
    pub fn is_of(&self, service: &Rc<str>) -> bool {
        Rc::ptr_eq(&self.service, service) || self.service == *service
    }

    /// The constant parts of a request to a Dubbo provider.
    ///
    /// # Errors
    /// [`Code::BadRequest`] if the method's name or types are invalid,
    /// [`Code::NoEndpoint`] if we do not write the provider's serialization.
    pub fn template(&self, serialization: Serialization) -> Result<&RequestTemplate, CallError> {
        let place = serialization.index().and_then(|index| self.templates.get(index));
        let place = place.ok_or_else(|| unsupported(serialization))?;
        if let Some(template) = place.get() {
            return Ok(template);
        }
        let template = self.make_template(serialization, &self.def)?;
        Ok(place.get_or_init(|| template))
    }

    /// The same for a provider whose URL has another path than the interface. It is made for each
    /// call, since few have.
    ///
    /// # Errors
    /// As [`RouteVariant::template`].
    pub fn template_for_path(
        &self,
        serialization: Serialization,
        path: &str,
    ) -> Result<RequestTemplate, CallError> {
        if !serialization.is_supported() {
            return Err(unsupported(serialization));
        }
        let mut def = self.def.clone();
        for (_, value) in def.attachments.iter_mut().filter(|(name, _)| name == "path") {
            path.clone_into(value);
        }
        self.make_template(serialization, &def)
    }

    fn make_template(
        &self,
        serialization: Serialization,
        def: &RouteDef,
    ) -> Result<RequestTemplate, CallError> {
        template(serialization, &self.version, def)
            .map_err(|error| CallError::new(Code::BadRequest, error.to_string()))
    }
}

/// How links are told of a method.
fn definition(
    service: &ServiceKey,
    method: &str,
    parameters: &ParameterTypes,
    plan: &Plan,
) -> RouteDef {
    let (wire_method, descriptor) = match parameters {
        ParameterTypes::Given(types) => (method, descriptors(types)),
        _ => (GENERIC_METHOD, GENERIC_DESCRIPTOR.to_owned()),
    };
    let mut attachments: Vec<(String, String)> = service_attachments(service)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    if parameters.is_generic() {
        attachments.push(("generic".to_owned(), plan.generic.name().to_owned()));
    }
    RouteDef {
        service: service.to_string(),
        method: wire_method.to_owned(),
        descriptor,
        attachments,
    }
}

/// How requests tell a provider which service they are for.
fn service_attachments(service: &ServiceKey) -> impl Iterator<Item = (&'static str, &str)> {
    let ServiceKey { interface, version, group, .. } = service;
    [("path", interface), ("interface", interface), ("version", version), ("group", group)]
        .into_iter()
        .map(|(name, value)| (name, value.as_str()))
        .filter(|(_, value)| !value.is_empty())
}

/// The same definition, which tells a provider the service even if its attachments do not.
pub(crate) fn with_service(def: &RouteDef, service: &ServiceKey) -> RouteDef {
    let is_missing = |name: &str| def.attachments.iter().all(|(known, _)| known != name);
    let missing = service_attachments(service).filter(|(name, _)| is_missing(name));
    let missing = missing.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let attachments = missing.chain(def.attachments.iter().cloned()).collect();
    RouteDef { attachments, ..def.clone() }
}

/// The constant parts of a request, from the definition of its route.
///
/// # Errors
/// What is wrong with the definition.
pub fn template(
    serialization: Serialization,
    version: &str,
    def: &RouteDef,
) -> Result<RequestTemplate, dubbo_proto::ProtoError> {
    let attachment = |name| def.attachments.iter().find(|(key, _)| key == name);
    // As Dubbo's own `DubboCodec` does since 2.7: its provider looks for the method by what is
    // written here, and for the service by the attachment `path`, which may differ.
    let interface = attachment("interface").or_else(|| attachment("path"));
    let path = interface.map_or("", |(_, path)| path);
    let head = RequestHead { path, version, method: &def.method, descriptor: &def.descriptor };
    let attachments: Vec<(&str, &str)> =
        def.attachments.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    RequestTemplate::new(serialization, &head, &attachments)
}

/// The refusal of a provider that wants what we do not write.
pub fn unsupported(serialization: Serialization) -> CallError {
    let known = Serialization::NAMED.map(Serialization::name).join(", ");
    let text =
        format!("the provider wants serialization {serialization}; this agent writes {known}");
    CallError::new(Code::NoEndpoint, text)
}
