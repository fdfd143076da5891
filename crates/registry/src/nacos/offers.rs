//! What instances offer. Pure.

use std::sync::Arc;

use dubbo_proto::application::Instance as ApplicationInstance;
use dubbo_proto::url::is_host;
use dubbo_proto::{DubboUrl, ServiceKey};
use nacos_proto::{BadHost, Host, Instance, MAX_METADATA_LEN, ServiceInfo, ServiceName};
use parameters::Parameters;

use crate::address;
use crate::endpoint::{DEFAULT_WEIGHT, NotUsed, PROVIDERS, Registration, Unused};
use crate::error::RegistryError;
use crate::layout::{BadEntry, Entry, Placed, Value};
use crate::listing::Leftover;
use crate::store::{EntryKey, Item};

use super::names;

/// The protocol of an instance that says none.
const DUBBO: &str = "dubbo";

/// What Nacos calls the cluster of instances that say none.
const DEFAULT_CLUSTER: &str = "DEFAULT";

/// Parameters that consumers of ours or of Dubbo can do without, the longest and least useful
/// first. They are left out, one after the other, where metadata would be too long.
const DISPENSABLE: [&str; 12] = [
    "methods",
    "bean.name",
    "background",
    "executor-management-mode",
    "file-cache",
    "service-name-mapping",
    "qos.enable",
    "qos.port",
    "deprecated",
    "generic",
    "anyhost",
    "pid",
];

/// The entries of an interface. An instance that is not well is used only if none is. A service
/// without instances is an entry, too.
pub(super) fn entries(
    lists: &[(ServiceName, Arc<ServiceInfo>)],
    clusters: &[String],
) -> Vec<Item<Entry>> {
    let any_healthy = any_healthy(lists, clusters);
    let of_list = |(name, info): &(ServiceName, Arc<ServiceInfo>)| {
        let entry = |host: &Host| match host {
            Ok(instance) if !is_in(instance, clusters) => None,
            Ok(instance) => {
                let read = entry(name, instance, any_healthy).map(Some);
                Some(Item { key: key(name, instance), read })
            }
            Err(bad) => Some(bad_item(name, bad)),
        };
        let hosts = info.hosts.iter().filter_map(entry);
        let name = info.hosts.is_empty().then(|| named(name)).flatten();
        hosts.chain(name).collect::<Vec<_>>()
    };
    lists.iter().flat_map(of_list).collect()
}

/// That there is a service of this name.
fn named(name: &ServiceName) -> Option<Item> {
    let parts = names::parts(&name.name)?;
    let (version, group) = (parts.version.to_owned(), parts.group.to_owned());
    let key = name.name.clone().into_bytes();
    Some(Item { key, read: Ok(Some(Entry::Named { version, group })) })
}

/// The instances of an application.
pub(super) fn instances(
    lists: &[(ServiceName, Arc<ServiceInfo>)],
    clusters: &[String],
) -> Vec<Item<Arc<ApplicationInstance>>> {
    let any_healthy = any_healthy(lists, clusters);
    let of_list = |(name, info): &(ServiceName, Arc<ServiceInfo>)| {
        let item = |host: &Host| match host {
            Ok(instance) if !is_in(instance, clusters) => None,
            Ok(instance) => {
                let is_well = instance.enabled && (instance.healthy || !any_healthy);
                let read = ApplicationInstance {
                    application: name.name.clone(),
                    host: instance.ip.clone(),
                    port: instance.port,
                    is_enabled: is_well,
                    metadata: instance.metadata.clone(),
                };
                let checked = checked(instance).and_then(|()| Ok(read.check()?));
                let read = checked.map(|()| is_well.then(|| Arc::new(read)));
                Some(Item { key: key(name, instance), read })
            }
            Err(bad) => Some(bad_item(name, bad)),
        };
        info.hosts.iter().filter_map(item).collect::<Vec<_>>()
    };
    lists.iter().flat_map(of_list).collect()
}

fn any_healthy(lists: &[(ServiceName, Arc<ServiceInfo>)], clusters: &[String]) -> bool {
    let hosts = lists.iter().flat_map(|(_, info)| &info.hosts);
    let mut used = hosts.flatten().filter(|instance| is_in(instance, clusters));
    used.any(|instance| instance.healthy && instance.enabled)
}

fn is_in(instance: &Instance, clusters: &[String]) -> bool {
    let cluster = instance.cluster_name.as_deref().unwrap_or(DEFAULT_CLUSTER);
    clusters.is_empty() || clusters.iter().any(|wanted| wanted == cluster)
}

/// Entries of agents come before those of providers, as in other stores.
fn key(name: &ServiceName, instance: &Instance) -> EntryKey {
    let cluster = instance.cluster_name.as_deref().unwrap_or(DEFAULT_CLUSTER);
    let address = wire::address::join(&instance.ip, instance.port);
    format!("{}/{cluster}/{address}", name.name).into_bytes()
}

fn bad_item<E>(name: &ServiceName, bad: &BadHost) -> Item<E> {
    let key = format!("{}/{}", name.name, bad.name).into_bytes();
    Item { key, read: Err(BadEntry::BadHost { reason: bad.reason.clone() }) }
}

fn checked(instance: &Instance) -> Result<(), BadEntry> {
    match instance.ip.is_empty() || instance.port == 0 || !is_host(&instance.ip) {
        true => Err(BadEntry::NoHost),
        false => Ok(()),
    }
}

/// What an instance offers. Source: `NacosRegistry.buildURL`.
fn entry(name: &ServiceName, instance: &Instance, any_healthy: bool) -> Result<Entry, BadEntry> {
    checked(instance)?;
    let parts = names::parts(&name.name);
    let mut params = instance.metadata.clone();
    if let Some(parts) = parts {
        // What a name of the full form says holds; an old one does not say which it leaves out.
        if name.name.matches(':').count() == 3 {
            for (param, value) in [("version", parts.version), ("group", parts.group)] {
                params = set(params, param, value);
            }
        }
    }
    let path = params.get("path").unwrap_or_else(|| parts.map_or("", |parts| parts.interface));
    let path = path.to_owned();
    let protocol = params.get("protocol").unwrap_or(DUBBO).to_owned();
    if protocol != DUBBO || params.contains("for") {
        // An agent has no path of its own.
        params = set(params, "path", "");
    }
    let url = DubboUrl {
        protocol,
        host: instance.ip.clone(),
        port: instance.port,
        path,
        params,
        ..DubboUrl::default()
    };
    let (version, group) = (url.version().to_owned(), url.group().to_owned());
    let unused = |reason| {
        let address = wire::address::join(&instance.ip, instance.port);
        let what = format!("{}://{address}", url.protocol);
        let unused = Unused { what, address: Some(address), reason };
        Leftover { version: version.clone(), group: group.clone(), unused }.into()
    };
    if !instance.enabled {
        return Ok(unused(NotUsed::Disabled));
    }
    if !instance.healthy && any_healthy {
        return Ok(unused(NotUsed::Unhealthy));
    }
    Ok(match address::offer(url.clone()) {
        Ok(mut listing) => {
            listing.endpoint.weight = weighted(listing.endpoint.weight, instance);
            listing.into()
        }
        Err(unused) => Leftover { version, group, unused }.into(),
    })
}

/// Sets a parameter, or removes it if its value is empty. What is so already stays shared: the
/// parameters are much of what a long list takes.
fn set(params: Parameters, name: &str, value: &str) -> Parameters {
    match value {
        value if params.get(name).unwrap_or_default() == value => params,
        "" => params.without(name),
        value => params.with(name, value),
    }
}

/// The weight that the provider says, times that of Nacos, which is 1 unless an operator changed
/// it. What is more than nothing stays so.
fn weighted(weight: u32, instance: &Instance) -> u32 {
    let product = f64::from(weight) * instance.bounded_weight();
    match product {
        product if product <= 0.0 => 0,
        #[allow(clippy::cast_possible_truncation, reason = "a cast from a float saturates")]
        #[allow(clippy::cast_sign_loss, reason = "it is above zero")]
        product => (product.round() as u32).max(1),
    }
}

/// Where a registration goes, and what is written there.
///
/// # Errors
/// If its metadata are longer than Nacos takes.
pub(super) fn place(
    registration: &Registration,
    group: &str,
    cluster: &str,
) -> Result<Placed, RegistryError> {
    let url = address::url(registration);
    let category = registration.endpoint.protocol.category();
    let service: &ServiceKey = &registration.service;
    let mut instance = Instance::new(&url.host, url.port);
    instance.cluster_name = Some(cluster.to_owned());
    if registration.endpoint.weight != DEFAULT_WEIGHT {
        instance.weight = f64::from(registration.endpoint.weight) / f64::from(DEFAULT_WEIGHT);
    }
    // It would count twice.
    let params = url.params.iter().filter(|(name, _)| *name != "weight");
    let own = [("category", PROVIDERS), ("protocol", &url.protocol), ("path", &url.path)];
    instance.metadata = params.chain(own).collect();
    fit(&mut instance).map_err(|found| {
        let (address, max) = (registration.endpoint.key().to_string(), MAX_METADATA_LEN);
        RegistryError::LongMetadata { address, found, max }
    })?;
    Ok(placed(group, &names::name(category, service), instance))
}

/// Leaves out what can be until the metadata are short enough; else says how long they are.
pub(super) fn fit(instance: &mut Instance) -> Result<(), usize> {
    instance.metadata = instance.metadata.without("methods");
    for name in DISPENSABLE {
        if instance.metadata_len() <= MAX_METADATA_LEN {
            break;
        }
        instance.metadata = instance.metadata.without(name);
    }
    match instance.metadata_len() {
        len if len <= MAX_METADATA_LEN => Ok(()),
        len => Err(len),
    }
}

/// An instance of a service, as it is kept: the text has all that is in the path.
pub(super) fn placed(group: &str, service: &str, mut instance: Instance) -> Placed {
    let address = wire::address::join(&instance.ip, instance.port);
    let path = format!("{group}@@{service}/{address}");
    instance.service_name = Some(format!("{group}@@{service}"));
    let text = serde_json::to_string(&instance).unwrap_or_default();
    Placed { path, value: Value::Text(text.into()) }
}

/// The service and the instance of what was [`placed`].
pub(super) fn unplaced(text: &str) -> Option<(ServiceName, Instance)> {
    let mut instance: Instance = serde_json::from_str(text).ok()?;
    // Java's client does not send it, and some servers take it for the name without its group.
    let service = instance.service_name.take()?;
    let (group, name) = service.split_once("@@")?;
    Some((ServiceName { group: group.to_owned(), name: name.to_owned() }, instance))
}

#[cfg(test)]
mod tests;
