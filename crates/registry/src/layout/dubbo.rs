//! Dubbo's interface-level layout: `/{root}/{interface}/{category}/{url}`.
//!
//! All that counts is in the name, a percent-encoded URL; no value is read. We read and write two
//! categories: `providers`, which is Dubbo's, and `agents`, where no Java consumer looks. Dubbo's
//! others (`consumers`, `routers`, `configurators`) are left out: consumers can be many.

use dubbo_proto::DubboUrl;
use dubbo_proto::url::{decode_key, encode_key};

use crate::address;
use crate::directory::Directory;
use crate::endpoint::{AGENTS, PROVIDERS, Registration};
use crate::error::RegistryError;
use crate::listing::Leftover;

use super::{BadEntry, Placed, Read, Value};

/// The protocol of the URL by which Dubbo says that there is no provider.
const EMPTY: &str = "empty";

pub(super) fn folders(root: &str, interface: &str) -> Vec<String> {
    let folder = |category| folder(root, interface, category);
    [AGENTS, PROVIDERS].map(folder).into()
}

fn folder(root: &str, interface: &str, category: &str) -> String {
    format!("{root}/{}/{category}", encode_key(interface))
}

pub(super) fn note(path: &str, directory: &mut Directory) {
    let mut parts = path.split('/');
    let (Some(interface), Some(category)) = (parts.next(), parts.next()) else { return };
    let Ok(interface) = decode_key(interface) else { return };
    if ![PROVIDERS, AGENTS].contains(&category) {
        return;
    }
    let name = parts.next().unwrap_or_default();
    let url = decode_key(name).ok().and_then(|text| text.parse::<DubboUrl>().ok());
    let variant = url.map(|url| (url.version().into(), url.group().into()));
    directory.add(&interface, variant);
}

pub(super) fn read(name: &str) -> Read {
    let url: DubboUrl = decode_key(name)?.parse()?;
    // Agents have no category of their own in Dubbo's sense: what they offer is a provider.
    if url.protocol == EMPTY || ![PROVIDERS, AGENTS].contains(&url.category()) {
        return Ok(None);
    }
    if url.host.is_empty() || url.port == 0 {
        return Err(BadEntry::NoHost);
    }
    let (version, group) = (url.version().to_owned(), url.group().to_owned());
    Ok(Some(match address::offer(url) {
        Ok(listing) => listing.into(),
        Err(unused) => Leftover { version, group, unused }.into(),
    }))
}

pub(super) fn place(root: &str, registration: &Registration) -> Result<Placed, RegistryError> {
    let endpoint = &registration.endpoint;
    let url = address::url(registration);
    let text = url.to_string();
    if text.parse() != Ok(url) {
        return Err(RegistryError::BadParameter { address: endpoint.key().to_string() });
    }
    let folder = folder(root, &registration.service.interface, endpoint.protocol.category());
    let path = format!("{folder}/{}", encode_key(&text));
    Ok(Placed { path, value: Value::SessionId })
}
