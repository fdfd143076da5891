//! Service discovery: who offers a service, and telling others that we do.
//!
//! - [`Registry::open`] opens a registry of one of three kinds, as [`RegistryConfig`] says:
//!   [`memory`](MemoryHub) inside one process, a watched [`mod@file`], or [`etcd`].
//! - [`Registry::subscribe`] gives the [`Endpoint`]s of a service as a [`Snapshot`] that is kept up
//!   to date. While the registry is away the last one known stays, marked as stale.
//! - [`Registry::register`] offers a service until the [`Registered`] is withdrawn or dropped.
//! - [`Registry::definition`] tells what a service looks like; see [`definitions`].
//! - [`Registry::presence`] tells whether a service is there at all, at the cost of no watch.
//! - [`Registry::status`] says how the registry itself does.
//!
//! Everything here is off the hot path: it runs on the runtime where the registry was opened, and
//! callers pick up immutable snapshots from a watch channel.
//!
//! This crate does not choose endpoints, open connections to them or know what a call is.
//! Begin to read at `registry.rs`; [`listing`] has the rules by which endpoints match and replace
//! each other.

mod address;
mod config;
pub mod definitions;
mod directory;
mod endpoint;
mod error;
pub mod etcd;
pub mod file;
pub mod listing;
mod memory;
mod registry;

pub use config::{EtcdConfig, EtcdTls, Layout, RegistryConfig};
pub use definitions::{Definition, DefinitionSources, DefinitionWatch, Lookup, Origin};
pub use directory::Presence;
pub use endpoint::{
    DEFAULT_WEIGHT, Endpoint, EndpointKey, Freshness, MAX_UNUSED, NotUsed, Protocol, Registration,
    Snapshot, Unused, WarmUp,
};
pub use error::RegistryError;
pub use memory::MemoryHub;
pub use registry::{Activity, Registered, Registry, RegistryStatus, Subscription};
