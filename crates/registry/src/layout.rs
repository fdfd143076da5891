//! How services are named in stores whose entries have paths, such as etcd. Pure.
//!
//! A *folder* holds the entries of one service that are of one sort. An entry has a *name* in its
//! folder, and a value. Stores list, watch and write folders; what names and values mean is known
//! here alone. Each layout has a module:
//!
//! - [`dubbo`]: Dubbo's interface-level layout, with its categories.
//! - [`contest`]: addresses of agents, with their weights.
//!
//! Applications have a layout of their own beside it: [`applications`] has its paths.

use std::sync::Arc;

use dubbo_proto::ServiceKey;

use crate::directory::Directory;
use crate::endpoint::Registration;
use crate::error::RegistryError;
use crate::listing::{ANY, Leftover, Listing, is_match};

pub(crate) mod applications;
mod contest;
mod dubbo;

/// How keys are named in etcd. `root` is the first segment, without slashes around it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Layout {
    /// `/{root}/{interface}/{host}:{port}` = weight. All endpoints are links; version and group
    /// do not count.
    Contest {
        /// `dubbomesh` unless something else is wanted.
        root: String,
    },
    /// `/{root}/{interface}/providers/{url}` as Dubbo itself registers, and
    /// `/{root}/{interface}/agents/{url}` for agents.
    Dubbo {
        /// `dubbo` unless the estate uses another group.
        root: String,
    },
}

impl Layout {
    /// The contest's layout at its usual place.
    #[must_use]
    pub fn contest() -> Self {
        Self::Contest { root: "dubbomesh".into() }
    }

    /// Dubbo's layout at its usual place.
    #[must_use]
    pub fn dubbo() -> Self {
        Self::Dubbo { root: "dubbo".into() }
    }
}

/// The checked layout of a store, at its root.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    /// With a slash in front, without one at its end.
    root: String,
    is_contest: bool,
}

/// What an entry of a store is about. A clone shares it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Entry {
    /// An endpoint.
    Listing(Arc<Listing>),
    /// Something that cannot be used.
    Leftover(Arc<Leftover>),
    /// Another version and group of the interface, of which no more was read.
    Named { version: String, group: String },
}

impl Entry {
    /// The group and version in which it is offered.
    pub(crate) fn variant(&self) -> (&str, &str) {
        match self {
            Self::Listing(listing) => (&listing.group, &listing.version),
            Self::Leftover(leftover) => (&leftover.group, &leftover.version),
            Self::Named { version, group } => (group, version),
        }
    }

    /// The version and group in which it is offered, if that is not what is wanted.
    pub(crate) fn other_variant(&self, wanted: &ServiceKey) -> Option<(&str, &str)> {
        let (group, version) = self.variant();
        // What cannot be used of all versions and groups is of no other one.
        let is_of_all = match self {
            Self::Listing(listing) => listing.is_of_all,
            Self::Leftover(_) => version == ANY || group == ANY,
            Self::Named { .. } => false,
        };
        (!is_of_all && !is_match(wanted, version, group)).then_some((version, group))
    }
}

impl From<Listing> for Entry {
    fn from(listing: Listing) -> Self {
        Self::Listing(Arc::new(listing))
    }
}

impl From<Leftover> for Entry {
    fn from(leftover: Leftover) -> Self {
        Self::Leftover(Arc::new(leftover))
    }
}

/// Where a registration is written, and what.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Placed {
    /// Its full path.
    pub(crate) path: String,
    /// What is written there.
    pub(crate) value: Value,
}

/// What is written under a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Value {
    /// The contest's weight, as text.
    Weight(u32),
    /// The number of the lease or session that the entry belongs to, as text. Dubbo's Java
    /// providers do the same in etcd.
    SessionId,
    /// This text.
    Text(Arc<str>),
    /// A name in a list, which stays when its owner goes: names separated by commas.
    Member(Arc<str>),
    /// This text, which stays when its owner goes.
    Document(Arc<str>),
}

/// Why an entry is of no use.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum BadEntry {
    #[error("not UTF-8")]
    NotText,
    #[error("an entry is directly below its folder, without a slash in its name or at its end")]
    NotDirectlyBelow,
    #[error("expected {{host}}:{{port}} after the interface")]
    NoAddress,
    #[error("the weight {found:?} is not a number")]
    BadWeight { found: String },
    #[error("{0}")]
    BadUrl(#[from] dubbo_proto::ProtoError),
    #[error("the URL has no host or no port")]
    NoHost,
    #[error("not an instance: {reason}")]
    BadHost { reason: String },
    #[error("it cannot be read: {reason}")]
    Refused { reason: String },
    #[error("not an instance of an application: {0}")]
    BadInstance(#[from] dubbo_proto::application::ApplicationError),
}

/// What reading an entry gave. `Ok(None)` is a good entry that is not about an endpoint.
pub(crate) type Read = Result<Option<Entry>, BadEntry>;

impl Paths {
    pub(crate) fn new(layout: &Layout) -> Result<Self, RegistryError> {
        let (root, is_contest) = match layout {
            Layout::Contest { root } => (root, true),
            Layout::Dubbo { root } => (root, false),
        };
        check_root(root)?;
        Ok(Self { root: format!("/{root}"), is_contest })
    }

    /// The folder above all services. Nothing is written under its own path.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// The folders with the entries of a service, without a slash at the end.
    pub(crate) fn folders(&self, interface: &str) -> Vec<String> {
        match self.is_contest {
            true => vec![contest::folder(&self.root, interface)],
            false => dubbo::folders(&self.root, interface),
        }
    }

    /// The path of a document of Dubbo's configuration, in its group `dubbo`. Source:
    /// `TreePathDynamicConfiguration`, and `EtcdDynamicConfiguration` of Dubbo 2.7.
    pub(crate) fn rule(&self, name: &str) -> Option<String> {
        (!self.is_contest).then(|| format!("{}/config/dubbo/{name}", self.root))
    }

    /// Notes which service a path is about, if it offers one. What cannot be read stands for any
    /// version and group, so that its subscriber learns what is wrong with it.
    pub(crate) fn note(&self, path: &[u8], directory: &mut Directory) {
        let path = std::str::from_utf8(path).ok().and_then(|path| path.strip_prefix(&self.root));
        let Some(path) = path.and_then(|path| path.strip_prefix('/')) else { return };
        match self.is_contest {
            true => contest::note(path, directory),
            false => dubbo::note(path, directory),
        }
    }

    /// Reads one entry, which is directly below its folder; which one does not matter.
    pub(crate) fn read(&self, path: &[u8], value: &[u8]) -> Read {
        let path = std::str::from_utf8(path).map_err(|_| BadEntry::NotText)?;
        let below = path.strip_prefix(&self.root).unwrap_or(path).trim_start_matches('/');
        // Below the interface, and its category.
        let n_folders = if self.is_contest { 1 } else { 2 };
        let name = below.splitn(n_folders + 1, '/').nth(n_folders).unwrap_or_default();
        if name.is_empty() {
            return Ok(None);
        }
        if name.contains('/') {
            return Err(BadEntry::NotDirectlyBelow);
        }
        match self.is_contest {
            true => contest::read(name, value),
            false => dubbo::read(name),
        }
    }

    /// Where a registration goes.
    ///
    /// # Errors
    /// When the layout cannot hold it.
    pub(crate) fn place(&self, registration: &Registration) -> Result<Placed, RegistryError> {
        match self.is_contest {
            true => contest::place(&self.root, registration),
            false => dubbo::place(&self.root, registration),
        }
    }
}

fn check_root(root: &str) -> Result<(), RegistryError> {
    let is_segment = |segment: &str| !segment.is_empty() && !segment.contains(char::is_control);
    match root.split('/').all(is_segment) {
        true => Ok(()),
        false => Err(RegistryError::BadRoot { found: root.to_owned() }),
    }
}

impl Value {
    /// Whether it belongs to nobody, and so stays when its owner goes.
    pub(crate) fn stays(&self) -> bool {
        matches!(self, Self::Member(_) | Self::Document(_))
    }

    /// The text of an entry that goes with its owner.
    pub(crate) fn text(&self, session_id: i64) -> String {
        match self {
            Self::Weight(weight) => weight.to_string(),
            Self::SessionId => session_id.to_string(),
            Self::Text(text) | Self::Member(text) | Self::Document(text) => {
                text.as_ref().to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests;
