//! The contest's layout: `/{root}/{interface}/{host}:{port}` = weight. All endpoints are links.
//!
//! It knows neither version nor group: whoever asks gets what is there.

use dubbo_proto::url::{decode_key, encode_key};

use crate::directory::Directory;
use crate::endpoint::{Endpoint, Level, Protocol, Registration};
use crate::error::RegistryError;
use crate::listing::{ANY, Listing};

use super::{BadEntry, Placed, Read, Value};

pub(super) fn folder(root: &str, interface: &str) -> String {
    format!("{root}/{}", encode_key(interface))
}

pub(super) fn note(path: &str, directory: &mut Directory) {
    let Some((interface, _address)) = path.split_once('/') else { return };
    if let Ok(interface) = decode_key(interface) {
        directory.add(&interface, None);
    }
}

pub(super) fn read(name: &str, value: &[u8]) -> Read {
    let (host, port) = wire::address::split(name).map_err(|_| BadEntry::NoAddress)?;
    let text = String::from_utf8_lossy(value);
    let weight = text.trim().parse();
    let weight =
        weight.map_err(|_| BadEntry::BadWeight { found: text.chars().take(20).collect() })?;
    let mut endpoint = Endpoint::new(Protocol::Link, host, port);
    endpoint.weight = weight;
    let (version, group, is_of_all) = (ANY.to_owned(), ANY.to_owned(), true);
    let (stands_for, level) = (None, Level::Interface);
    let listing = Listing { version, group, is_of_all, endpoint, stands_for, level };
    Ok(Some(listing.into()))
}

pub(super) fn place(root: &str, registration: &Registration) -> Result<Placed, RegistryError> {
    let endpoint = &registration.endpoint;
    if endpoint.protocol != Protocol::Link {
        return Err(RegistryError::NoDubboInLayout { address: endpoint.key().to_string() });
    }
    let folder = folder(root, &registration.service.interface);
    let path = format!("{folder}/{}", endpoint.address());
    Ok(Placed { path, value: Value::Weight(endpoint.weight) })
}
