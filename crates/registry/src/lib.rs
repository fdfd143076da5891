//! Service discovery: who offers a service, and telling others that we do.
//!
//! - [`Registry::open`] opens a registry of one of seven kinds, as [`RegistryConfig`] says:
//!   [`memory`](MemoryHub) inside one process, a watched [`mod@file`], a list that never changes,
//!   [`etcd`], [`zookeeper`], [`nacos`] or [`kubernetes`].
//! - [`several()`] makes one registry of several.
//! - [`Registry::subscribe`] gives the [`Endpoint`]s of a service as a [`Snapshot`] that is kept
//!   up to date. While the registry is away the last one known stays, marked as stale.
//! - [`Registry::register`] offers a service until the [`Registered`] is withdrawn or dropped.
//! - [`Registry::definition`] says what a service looks like; see [`definitions`].
//! - [`Registry::rule`] gives a document with rules of the registry's configuration.
//! - [`Registry::presence`] says whether a service is there at all, at the cost of no watch.
//! - [`Registry::catalogue`] lists all that is registered.
//! - [`Registry::status`] says how the registry itself does.
//!
//! Everything here is off the hot path: it runs on the runtime where the registry was opened, and
//! callers pick up immutable snapshots from a watch channel.
//!
//! This crate does not choose endpoints, open connections to them or know what a call is.
//! Begin to read at `registry.rs`. `store.rs` has what a store has to do, `stores.rs` the list of
//! stores; `layout.rs` what is written in them; `entry_list.rs` the lists that subscriptions
//! share; `kept.rs` and `registrar.rs` what is common to all when a store goes away;
//! `application.rs` discovery at application level; `lent.rs` and `index.rs` what stores with a
//! connection have in common. [`listing`] has the rules by which endpoints match and replace
//! each other.

mod address;
mod application;
mod application_config;
mod by_variant;
mod catalogue;
mod config;
pub mod definitions;
mod directory;
mod endpoint;
mod entry_list;
mod error;
pub mod etcd;
pub mod file;
mod fixed;
mod follow;
mod grpc_words;
mod index;
mod kept;
pub mod kubernetes;
mod layout;
mod lent;
mod list_counts;
pub mod listing;
mod lookups;
mod memory;
mod missing;
pub mod nacos;
mod on_demand;
mod patience;
mod refusals;
mod registrar;
mod registry;
mod registry_secret;
mod registry_tls;
mod remembered;
mod repeated;
mod rules;
mod several;
#[cfg(test)]
mod silent_store;
mod similar;
mod status;
mod store;
mod stores;
mod table;
mod view;
pub mod zookeeper;

pub use application::Unasked;
pub use application_config::ApplicationConfig;
pub use catalogue::{Catalogue, ListedEndpoint, ListedService};
pub use config::{
    DEFAULT_SHARE, EtcdConfig, KubernetesConfig, KubernetesService, NacosConfig, RegistryConfig,
    RegistryTls, SeveralConfig, SeveralMode, ZooKeeperAcl, ZooKeeperConfig,
};
pub use definitions::{Definition, DefinitionOrigin, DefinitionSources, DefinitionWatch, Lookup};
pub use directory::Presence;
pub use endpoint::{
    DEFAULT_WEIGHT, Endpoint, EndpointKey, Freshness, Level, MAX_UNUSED, NotUsed, Protocol,
    RegisterMode, Registration, Snapshot, StaticService, Unused, WarmUp, written,
};
pub use error::RegistryError;
pub use layout::Layout;
pub use memory::MemoryHub;
pub use missing::{unused_text, why_nobody};
pub use registry::{Registered, Registry, RegistryActivity, RuleSubscription, Subscription};
pub use registry_secret::RegistrySecret;
pub use rules::RuleDocument;
pub use several::several;
pub use similar::is_similar;
pub use status::RegistryStatus;
