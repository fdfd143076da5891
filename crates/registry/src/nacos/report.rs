//! Dubbo's metadata report: the service definitions that providers put into Nacos.
//!
//! A document is named `{interface}:{version}:{group}:provider:{application}`. Nacos lists no
//! documents by gRPC: versions and groups come from the names of services, and applications from
//! their instances and from the mapping. Source: `NacosMetadataReport`.

use std::collections::BTreeSet;
use std::sync::Arc;

use dubbo_proto::application::applications;
use nacos_proto::{Ask, ConfigKey, ServiceInfo, ServiceName};
use tokio::time::timeout;

use crate::definitions::{Away, DefinitionOrigin, Document, ReadAllowance, Unread};
use crate::endpoint::PROVIDERS;

use super::connection::{Live, SharedConnection};
use super::error::NacosError;
use super::index::list_names;
use super::names;
use super::rule::{self, MAPPING};

/// The most documents of one interface: its variants, and the applications that offer them.
const MAX_DOCUMENTS: usize = 64;

/// The documents of an interface, the newest first. `definitions` is their group.
pub(super) async fn read(
    naming: &SharedConnection,
    documents: &SharedConnection,
    group: &str,
    definitions: &str,
    interface: &str,
) -> Result<Vec<Document>, Away> {
    let naming = naming.live_within_timeout().await.ok_or_else(|| naming.away())?;
    let read = async |documents: Arc<Live>| {
        let ids = ids(&naming, &documents, group, interface).await?;
        let (mut found, mut allowance) = (Vec::new(), ReadAllowance::default());
        for data_id in ids {
            let key = ConfigKey { group: definitions.to_owned(), data_id };
            let origin = DefinitionOrigin::Report(format!("{}/{}", key.group, key.data_id));
            let read = match rule::read(&documents, &key).await {
                Ok(read) => read,
                // It is too long, or may not be read. The others have nothing to do with it.
                Err(error @ (NacosError::Refused { .. } | NacosError::TooLong { .. })) => {
                    let text = Err(Unread::Refused(error.to_string()));
                    found.push((0, Document { origin, text }));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(document) = read else { continue };
            let text = allowance.take(document.content.len());
            let text = text.map(|()| document.content.into_bytes());
            found.push((document.last_modified, Document { origin, text }));
        }
        found.sort_by_key(|(last_modified, _)| std::cmp::Reverse(*last_modified));
        Ok(found.into_iter().map(|(_, document)| document).collect())
    };
    documents.ask_once(read).await
}

/// The names that documents of an interface may have.
async fn ids(
    naming: &Live,
    documents: &Live,
    group: &str,
    interface: &str,
) -> Result<BTreeSet<String>, NacosError> {
    let mut variants = BTreeSet::from([(String::new(), String::new())]);
    let mapping = ConfigKey { group: MAPPING.to_owned(), data_id: interface.to_owned() };
    let mapping = rule::read(documents, &mapping).await?;
    let mut named = applications(mapping.as_ref().map_or("", |it| &it.content));
    let mut n_variants = 0;
    for name in list_names(naming, group).await? {
        let Some(parts) = names::parts(&name) else { continue };
        if parts.category != PROVIDERS || parts.interface != interface {
            continue;
        }
        n_variants += 1;
        if MAX_DOCUMENTS < n_variants {
            break;
        }
        variants.insert((parts.version.to_owned(), parts.group.to_owned()));
        let info = instances(naming, ServiceName { group: group.to_owned(), name }).await?;
        for instance in info.hosts.iter().flatten() {
            let application = instance.metadata.get("application");
            // Thousands of instances are of the same one.
            named.extend(application.filter(|it| !named.contains(*it)).map(str::to_owned));
        }
    }
    let mut ids = BTreeSet::new();
    for (version, group) in &variants {
        for application in &named {
            if ids.len() < MAX_DOCUMENTS {
                ids.insert(format!("{interface}:{version}:{group}:provider:{application}"));
            }
        }
    }
    Ok(ids)
}

/// The instances of a service. A list that somebody follows is at hand or on its way: it may be
/// long, and is not asked for a second time.
async fn instances(naming: &Live, name: ServiceName) -> Result<Arc<ServiceInfo>, NacosError> {
    if let Some(mut lists) = naming.hub.lists(&name) {
        // There is none if who follows it gives up.
        let first = timeout(naming.request_timeout(), lists.wait_for(Option::is_some)).await;
        let info = first.ok().and_then(Result::ok).and_then(|list| list.clone());
        if let Some(info) = info {
            return Ok(info);
        }
    }
    let ask = Ask::Query(name);
    let info = naming.ask(&ask).await?.service_info().map_err(Live::bad(ask.words()))?;
    Ok(Arc::new(info.unwrap_or_default()))
}
