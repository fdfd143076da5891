//! Where services are in etcd's flat space of keys, and what keys and values mean. Pure.

use dubbo_proto::url::{decode_key, encode_key};
use dubbo_proto::{DubboUrl, ServiceKey};

use crate::address;
use crate::config::Layout;
use crate::directory::Directory;
use crate::endpoint::{Endpoint, Protocol, Registration};
use crate::error::RegistryError;
use crate::listing::{Leftover, Listing};

const PROVIDERS: &str = "providers";
const AGENTS: &str = "agents";

/// The protocol of the URL by which Dubbo says that there is no provider.
const EMPTY: &str = "empty";

/// The checked layout.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    /// With a slash in front, without one at its end.
    root: String,
    is_contest: bool,
}

/// What a key is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Entry {
    /// An endpoint.
    Listing(Listing),
    /// Something that cannot be used.
    Leftover(Leftover),
}

/// What is written under a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Value {
    /// The contest's weight, as text.
    Weight(u32),
    /// The number of the lease that the key hangs on, as text. Dubbo's Java providers do the same.
    LeaseId,
}

/// Why a key or its value is of no use.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum BadKey {
    #[error("not UTF-8")]
    NotText,
    #[error("expected {{host}}:{{port}} behind the interface")]
    NoAddress,
    #[error("the weight {found:?} is not a number")]
    BadWeight { found: String },
    #[error("{0}")]
    BadUrl(#[from] dubbo_proto::ProtoError),
    #[error("the URL has no host or no port")]
    NoHost,
}

impl Keys {
    pub(super) fn new(layout: &Layout) -> Result<Self, RegistryError> {
        let (root, is_contest) = match layout {
            Layout::Contest { root } => (root, true),
            Layout::Dubbo { root } => (root, false),
        };
        let is_segment = |segment: &str| !segment.is_empty() && !segment.contains(char::is_control);
        if !root.split('/').all(is_segment) {
            return Err(RegistryError::BadRoot { found: root.clone() });
        }
        Ok(Self { root: format!("/{root}"), is_contest })
    }

    /// A key below which nothing is: reading it shows whether etcd answers.
    pub(super) fn probe_key(&self) -> &str {
        &self.root
    }

    /// The prefixes to read and watch for a service. Each ends with a slash, so that `IFoo` does not
    /// match `IFoo2`. Dubbo's other categories are left out: consumers can be many.
    pub(super) fn prefixes(&self, interface: &str) -> Vec<String> {
        let interface = encode_key(interface);
        if self.is_contest {
            return vec![format!("{}/{interface}/", self.root)];
        }
        [AGENTS, PROVIDERS]
            .iter()
            .map(|category| format!("{}/{interface}/{category}/", self.root))
            .collect()
    }

    /// The prefix of all services.
    pub(super) fn all(&self) -> String {
        format!("{}/", self.root)
    }

    /// Notes which service a key is about, if it offers one. What cannot be read stands for any
    /// version and group, so that its subscriber is told what is wrong with it.
    pub(super) fn note(&self, key: &[u8], directory: &mut Directory) {
        let path = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(&self.root));
        let Some(path) = path.and_then(|path| path.strip_prefix('/')) else { return };
        let mut parts = path.split('/');
        let (Some(interface), Some(second)) = (parts.next(), parts.next()) else { return };
        let Ok(interface) = decode_key(interface) else { return };
        if self.is_contest {
            return directory.add(&interface, None);
        }
        if ![PROVIDERS, AGENTS].contains(&second) {
            return;
        }
        let name = parts.next().unwrap_or_default();
        let url = decode_key(name).ok().and_then(|text| text.parse::<DubboUrl>().ok());
        let variant = url.map(|url| (url.version().into(), url.group().into()));
        directory.add(&interface, variant);
    }

    /// Reads one key. `Ok(None)` is a good key that is not about an endpoint.
    pub(super) fn read(
        &self,
        wanted: &ServiceKey,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Entry>, BadKey> {
        let key = std::str::from_utf8(key).map_err(|_| BadKey::NotText)?;
        let name = key.rsplit('/').next().unwrap_or_default();
        if name.is_empty() {
            return Ok(None);
        }
        if !self.is_contest {
            return read_dubbo(name);
        }
        read_contest(wanted, name, value).map(|listing| Some(Entry::Listing(listing)))
    }

    /// The key and value of a registration.
    pub(super) fn write(
        &self,
        registration: &Registration,
    ) -> Result<(String, Value), RegistryError> {
        let endpoint = &registration.endpoint;
        let interface = encode_key(&registration.service.interface);
        let address = || endpoint.key().to_string();
        if self.is_contest {
            if endpoint.protocol != Protocol::Link {
                return Err(RegistryError::NoDubboInLayout { address: address() });
            }
            let key = format!("{}/{interface}/{}", self.root, endpoint.address());
            return Ok((key, Value::Weight(endpoint.weight)));
        }
        let category = match endpoint.protocol {
            Protocol::Link => AGENTS,
            Protocol::Dubbo => PROVIDERS,
        };
        let url = address::url(registration);
        let text = url.to_string();
        if text.parse() != Ok(url) {
            return Err(RegistryError::BadParameter { address: address() });
        }
        let key = format!("{}/{interface}/{category}/{}", self.root, encode_key(&text));
        Ok((key, Value::LeaseId))
    }
}

impl Value {
    pub(super) fn text(self, lease_id: i64) -> String {
        match self {
            Self::Weight(weight) => weight.to_string(),
            Self::LeaseId => lease_id.to_string(),
        }
    }
}

/// The layout knows neither version nor group: whoever asks gets what is there.
fn read_contest(wanted: &ServiceKey, name: &str, value: &[u8]) -> Result<Listing, BadKey> {
    let (host, port) = wire::address::split(name).map_err(|_| BadKey::NoAddress)?;
    let text = String::from_utf8_lossy(value);
    let weight = text.trim().parse();
    let weight =
        weight.map_err(|_| BadKey::BadWeight { found: text.chars().take(20).collect() })?;
    let mut endpoint = Endpoint::new(Protocol::Link, host, port);
    endpoint.weight = weight;
    let (version, group) = (wanted.version.clone(), wanted.group.clone());
    Ok(Listing { version, group, endpoint, stands_for: None })
}

fn read_dubbo(name: &str) -> Result<Option<Entry>, BadKey> {
    let url: DubboUrl = decode_key(name)?.parse()?;
    // Agents have no category of their own in Dubbo's sense: what they offer is a provider.
    if url.protocol == EMPTY || ![PROVIDERS, AGENTS].contains(&url.category()) {
        return Ok(None);
    }
    if url.host.is_empty() || url.port == 0 {
        return Err(BadKey::NoHost);
    }
    let (version, group) = (url.version().to_owned(), url.group().to_owned());
    Ok(Some(match address::offer(url) {
        Ok(listing) => Entry::Listing(listing),
        Err(unused) => Entry::Leftover(Leftover { version, group, unused }),
    }))
}

#[cfg(test)]
mod tests;
