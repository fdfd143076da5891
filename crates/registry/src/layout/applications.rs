//! Where the application level is: `/{instances}/{application}/{host}:{port}`,
//! `/{metadata}/mapping/{interface}` and `/{metadata}/metadata/{application}/{revision}`.
//!
//! Sources: `ZookeeperServiceDiscovery`, `EtcdServiceDiscovery` and `ZookeeperMetadataReport`;
//! dubbo-go leaves the second `metadata` out.

use std::sync::Arc;

use dubbo_proto::ServiceKey;
use dubbo_proto::application::{Instance, Metadata};

use crate::application_config::ApplicationConfig;
use crate::error::RegistryError;

use super::{Placed, Value, check_root};

/// The checked layout, at its roots.
#[derive(Clone, Debug)]
pub(crate) struct ApplicationPaths {
    /// With a slash in front, without one at its end.
    instances: String,
    metadata: String,
}

impl ApplicationPaths {
    /// `chroot` comes before all paths; it is empty, or has a slash in front.
    ///
    /// # Errors
    /// When a root is none.
    pub(crate) fn new(chroot: &str, config: &ApplicationConfig) -> Result<Self, RegistryError> {
        let root = |root: &str| {
            check_root(root)?;
            Ok(format!("{chroot}/{root}"))
        };
        let (instances, metadata) = (root(&config.instances_root)?, root(&config.metadata_root)?);
        Ok(Self { instances, metadata })
    }

    /// The folder of an application's instances.
    pub(crate) fn folder(&self, application: &str) -> String {
        format!("{}/{application}", self.instances)
    }

    /// The folder of all mappings.
    pub(crate) fn mappings(&self) -> String {
        format!("{}/mapping", self.metadata)
    }

    pub(crate) fn mapping(&self, interface: &str) -> String {
        format!("{}/mapping/{interface}", self.metadata)
    }

    /// Where a revision may be, in the order in which it is looked for.
    pub(crate) fn reports(&self, application: &str, revision: &str) -> [String; 2] {
        let metadata = &self.metadata;
        let path = |middle| format!("{metadata}{middle}/{application}/{revision}");
        [path("/metadata"), path("")]
    }

    pub(crate) fn place_mapping(&self, interface: &str, application: &str) -> Placed {
        Placed { path: self.mapping(interface), value: Value::Member(application.into()) }
    }

    pub(crate) fn place_report(&self, metadata: &Metadata) -> Placed {
        let [path, _] = self.reports(&metadata.application, &metadata.revision);
        Placed { path, value: Value::Document(metadata.to_json().into()) }
    }

    /// Source: `BaseServiceMetadataIdentifier`, whose paths leave out what is empty.
    pub(crate) fn place_definition(
        &self,
        service: &ServiceKey,
        application: &str,
        text: Arc<str>,
    ) -> Placed {
        let ServiceKey { interface, version, group } = service;
        let parts = [interface, version, group, "provider", application];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let path = format!("{}/metadata/{}", self.metadata, parts.join("/"));
        Placed { path, value: Value::Document(text) }
    }

    pub(crate) fn place_instance(&self, instance: &Instance, record: String) -> Placed {
        let path = format!("{}/{}", self.folder(&instance.application), instance.id());
        Placed { path, value: Value::Text(record.into()) }
    }
}
