//! What all instances of one revision offer.

use std::collections::BTreeMap;

use java_json::{JavaType, Schema};
use md5::{Digest, Md5};
use parameters::Parameters;
use serde_json::{Map, Value, json};

use super::instance::ENDPOINTS;
use super::{ApplicationError, Instance, object, port, text, texts, wrong};
use crate::{DubboUrl, ServiceKey};

/// The longest metadata: some two thousand services with ten methods each.
pub const MAX_METADATA_LEN: usize = 4 << 20;

/// Their class in Java.
pub const METADATA_CLASS: &str = "org.apache.dubbo.metadata.MetadataInfo";
const SERVICE_CLASS: &str = "org.apache.dubbo.metadata.MetadataInfo$ServiceInfo";

/// The services of a revision.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Metadata {
    /// The application's name.
    pub application: String,
    /// Which metadata these are; empty if they do not tell.
    pub revision: String,
    /// One for each service and protocol.
    pub services: Vec<OfferedService>,
}

/// One service by one protocol.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OfferedService {
    /// Interface, version and group.
    pub service: ServiceKey,
    /// Such as `dubbo` or `tri`.
    pub protocol: String,
    /// 0 if the instance knows the port.
    pub port: u16,
    /// As a rule the interface, with a context path before it if there is one.
    pub path: String,
    /// By Dubbo's names.
    pub params: Parameters,
}

impl Metadata {
    /// Reads what is in a metadata report, or what an instance has answered, as JSON. Services
    /// that cannot be read are left out.
    ///
    /// # Errors
    /// [`ApplicationError`] with what is wrong with it.
    pub fn parse(document: &[u8]) -> Result<Self, ApplicationError> {
        let root = object(document, MAX_METADATA_LEN)?;
        let services = root.get("services").and_then(Value::as_object);
        let services = services.ok_or(wrong("the map of services"))?;
        let services = services.values().filter_map(OfferedService::read).collect();
        let (application, revision) = (text(&root, "app"), text(&root, "revision"));
        Ok(Self { application: application.to_owned(), revision: revision.to_owned(), services })
    }

    /// Metadata with the revision that follows from them.
    #[must_use]
    pub fn new(application: &str, services: Vec<OfferedService>) -> Self {
        let application = application.to_owned();
        let mut metadata = Self { application, revision: String::new(), services };
        let digest = Md5::digest(metadata.to_json());
        metadata.revision = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        metadata
    }

    /// The URL by which an instance of this revision offers one of its services.
    #[must_use]
    pub fn url(&self, service: &OfferedService, instance: &Instance) -> DubboUrl {
        service.url(instance, self.port(service, instance))
    }

    /// The port at which an instance offers a service. Metadata may be those of another instance:
    /// revisions of dubbo-go do not cover the port. They are if none of their ports is the one
    /// that the instance has by this protocol.
    fn port(&self, service: &OfferedService, instance: &Instance) -> u16 {
        let own = instance.port_of(&service.protocol);
        if service.port == 0 {
            return own.unwrap_or(instance.port);
        }
        let is_known = |own: &u16| {
            let mut services = self.services.iter();
            services.any(|other| other.port == *own && other.protocol == service.protocol)
        };
        own.filter(|own| !is_known(own)).unwrap_or(service.port)
    }

    /// As they are in a metadata report.
    #[must_use]
    pub fn to_json(&self) -> String {
        let services = self.services.iter();
        let services = services.map(|service| (service.match_key(), service.to_json()));
        let services: Map<String, Value> = services.collect();
        json!({ "app": self.application, "revision": self.revision, "services": services })
            .to_string()
    }
}

/// Whether an instance says by this name where its metadata and ports are. Dubbo's consumers show
/// these at endpoints as well, but rules do not ask for them, and they may be long. Others count
/// as they do in Dubbo, such as `dubbo.tag`.
fn is_technical(name: &str) -> bool {
    name.starts_with("dubbo.metadata") || name == ENDPOINTS
}

impl OfferedService {
    fn read(value: &Value) -> Option<Self> {
        let (version, group) = (text(value, "version"), text(value, "group"));
        let service = ServiceKey::new(text(value, "name"), version, group).ok()?;
        let protocol = text(value, "protocol");
        let path = match text(value, "path") {
            "" => &service.interface,
            path => path,
        };
        Some(Self {
            protocol: if protocol.is_empty() { "dubbo" } else { protocol }.to_owned(),
            // Dubbo writes -1 where there is none.
            port: value.get("port").and_then(port).unwrap_or_default(),
            path: path.to_owned(),
            params: texts(value.get("params")),
            service,
        })
    }

    /// The URL by which an instance offers it at `port`. What the service says goes before what
    /// the instance says.
    fn url(&self, instance: &Instance, port: u16) -> DubboUrl {
        let of_instance = instance.metadata.iter().filter(|(name, _)| !is_technical(name));
        let mut params: BTreeMap<_, _> = of_instance.chain(self.params.iter()).collect();
        let ServiceKey { interface, version, group } = &self.service;
        let application = &instance.application;
        for (name, value) in [
            ("interface", interface),
            ("version", version),
            ("group", group),
            ("application", application),
        ] {
            match value.is_empty() {
                true => params.remove(name),
                false => params.insert(name, value),
            };
        }
        DubboUrl {
            protocol: self.protocol.clone(),
            host: instance.host.clone(),
            port,
            path: self.path.clone(),
            params: params.into_iter().collect(),
            ..DubboUrl::default()
        }
    }

    /// `group/interface:version:protocol`.
    fn match_key(&self) -> String {
        format!("{}:{}", self.service, self.protocol)
    }

    fn to_json(&self) -> Value {
        let ServiceKey { interface, version, group } = &self.service;
        let or_null = |text: &str| if text.is_empty() { Value::Null } else { json!(text) };
        json!({
            "name": interface, "group": or_null(group), "version": or_null(version),
            "protocol": self.protocol, "port": self.port, "path": self.path,
            "params": self.params,
        })
    }
}

/// The types of the fields of metadata, by which their JSON becomes objects.
#[derive(Debug)]
pub struct MetadataClasses {
    services: JavaType,
    params: JavaType,
    text: JavaType,
    int: JavaType,
}

impl Default for MetadataClasses {
    fn default() -> Self {
        let text = JavaType::class("java.lang.String");
        let map = |of| JavaType::class_of("java.util.Map", vec![text.clone(), of]);
        Self {
            services: map(JavaType::class(SERVICE_CLASS)),
            params: map(text.clone()),
            int: JavaType::Int,
            text,
        }
    }
}

impl Schema for MetadataClasses {
    fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
        match (class, field) {
            (METADATA_CLASS, "services") => Some(&self.services),
            (SERVICE_CLASS, "params") => Some(&self.params),
            (SERVICE_CLASS, "port") => Some(&self.int),
            (METADATA_CLASS | SERVICE_CLASS, _) => Some(&self.text),
            _ => None,
        }
    }
}
