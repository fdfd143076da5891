//! How the application level of a registry is configured.

use std::collections::BTreeMap;

use dubbo_proto::application::Storage;

use crate::endpoint::RegisterMode;

/// Where the application level of a registry is, and which levels we register at.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ApplicationConfig {
    /// The first part of the paths of instances, which is `services` with Dubbo's own defaults.
    pub instances_root: String,
    /// The first part of the paths of mappings and metadata, as of Dubbo's metadata report.
    pub metadata_root: String,
    /// The applications that offer an interface, for those that have no mapping.
    pub provided_by: BTreeMap<String, Vec<String>>,
    /// Where Dubbo's own consumers are to find us.
    pub register: RegisterMode,
    /// Where consumers find our metadata. We tell them to who asks in either case.
    pub metadata: Storage,
}

impl Default for ApplicationConfig {
    fn default() -> Self {
        Self {
            instances_root: "services".to_owned(),
            metadata_root: "dubbo".to_owned(),
            provided_by: BTreeMap::new(),
            register: RegisterMode::default(),
            metadata: Storage::default(),
        }
    }
}
