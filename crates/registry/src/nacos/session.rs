//! The instances of this process in Nacos, which go with their connection.
//!
//! A server keeps one instance for each connection and service, unless several are registered at
//! once: what is added to a service is registered together with what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use nacos_proto::{Ask, ConfigKey, Instance, ServiceName};
use tokio::task::AbortHandle;

use crate::layout::{Placed, Value};
use crate::store::{StoreError, StoreSession, Wait};

use super::connection::{Live, NacosError, SharedConnection};
use super::offers::unplaced;
use super::rule::{self, MAPPING};

pub(super) struct NacosSession {
    naming: SharedConnection,
    documents: SharedConnection,
    live: Option<Arc<Live>>,
    /// The connection that our instances belong to.
    owner: Option<Arc<Live>>,
    /// By service, and by the path of each instance.
    registered: BTreeMap<ServiceName, BTreeMap<String, Instance>>,
    missed: Missed,
    keep_every: Duration,
    /// End with this.
    connectors: [AbortHandle; 2],
}

impl NacosSession {
    pub(super) fn new(
        naming: &SharedConnection,
        documents: &SharedConnection,
        keep_every: Duration,
        connectors: [AbortHandle; 2],
    ) -> Self {
        let (live, owner, registered, missed) = Default::default();
        let (naming, documents) = (naming.clone(), documents.clone());
        Self { naming, documents, live, owner, registered, missed, keep_every, connectors }
    }

    /// The connection, if it is still the one with our instances.
    fn live(&mut self) -> Result<Arc<Live>, StoreError> {
        let live = self.live.clone().ok_or(StoreError::Away)?;
        match self.owner.replace(Arc::clone(&live)) {
            Some(owner) if !Arc::ptr_eq(&owner, &live) => {
                self.registered.clear();
                self.missed.now.clear();
                Err(StoreError::SessionLost)
            }
            _ => Ok(live),
        }
    }

    /// Those of our instances that nobody has any more.
    async fn missing(&self, live: &Live, held: &[Placed]) -> Result<Vec<Placed>, NacosError> {
        let mut missing = Vec::new();
        // `None` of a list that is too long to say who is missing.
        let mut known = BTreeMap::<ServiceName, Option<BTreeSet<(String, u16)>>>::new();
        for placed in held {
            let Value::Text(text) = &placed.value else { continue };
            let Some((service, instance)) = unplaced(text) else { continue };
            if !known.contains_key(&service) {
                let ask = Ask::Query(service.clone());
                let info = live.ask(&ask).await?.service_info().map_err(Live::bad(ask.words()))?;
                let info = info.unwrap_or_default();
                let hosts = info.hosts.into_iter().flatten();
                let there = hosts.map(|instance| (instance.ip, instance.port)).collect();
                known.insert(service.clone(), (info.n_cut == 0).then_some(there));
            }
            let there = known.get(&service).and_then(Option::as_ref);
            if there.is_some_and(|there| !there.contains(&(instance.ip, instance.port))) {
                missing.push(placed.clone());
            }
        }
        Ok(missing)
    }

    async fn write(
        &mut self,
        live: &Live,
        path: &str,
        service: ServiceName,
        instance: Instance,
    ) -> Result<(), NacosError> {
        let known = self.registered.get(&service);
        let mut wanted = known.cloned().unwrap_or_default();
        wanted.insert(path.to_owned(), instance);
        live.ask(&register(&service, &wanted)).await?;
        self.registered.insert(service, wanted);
        Ok(())
    }

    async fn delete(
        &mut self,
        live: &Live,
        path: &str,
        service: ServiceName,
    ) -> Result<(), NacosError> {
        let Some(known) = self.registered.get(&service) else { return Ok(()) };
        let mut wanted = known.clone();
        let Some(instance) = wanted.remove(path) else { return Ok(()) };
        match wanted.is_empty() {
            true => {
                live.ask(&Ask::Deregister(service.clone(), Box::new(instance))).await?;
                self.registered.remove(&service);
            }
            false => {
                live.ask(&register(&service, &wanted)).await?;
                self.registered.insert(service, wanted);
            }
        }
        Ok(())
    }
}

/// Which of our instances nobody had when it was looked.
#[derive(Default)]
struct Missed {
    now: BTreeSet<String>,
    /// Those for which the connection was given up already. One that no connection helps is no
    /// reason to give up another.
    given_up: BTreeSet<String>,
}

impl Missed {
    /// Notes the paths of those that are missing now. True if one was missing before and was
    /// written since, in vain. Nacos up to 2.1 says that all is well to a connection that it does
    /// not know any more, and writes nothing: a new one is worth a try. Source:
    /// `EphemeralClientOperationServiceImpl.registerInstance`.
    fn stays_missing(&mut self, paths: impl Iterator<Item = String>) -> bool {
        let before = std::mem::replace(&mut self.now, paths.collect());
        self.given_up.retain(|path| self.now.contains(path));
        let again = self.now.intersection(&before).filter(|path| !self.given_up.contains(*path));
        let again: Vec<_> = again.cloned().collect();
        let is_any = !again.is_empty();
        self.given_up.extend(again);
        is_any
    }
}

/// Registers these instances of a service, and no other ones. Servers before 2.1 know one instance
/// alone.
fn register(service: &ServiceName, wanted: &BTreeMap<String, Instance>) -> Ask {
    let mut instances: Vec<_> = wanted.values().cloned().collect();
    match (instances.len(), instances.pop()) {
        (1, Some(instance)) => Ask::Register(service.clone(), Box::new(instance)),
        (_, last) => {
            instances.extend(last);
            Ask::RegisterAll(service.clone(), instances)
        }
    }
}

impl StoreSession for NacosSession {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(async {
            self.live = self.naming.live().await;
            self.live.is_some()
        })
    }

    fn lost(&mut self) -> Wait<'_, ()> {
        Box::pin(async {
            if let Some(live) = &self.live {
                self.naming.lost(live).await;
            }
        })
    }

    fn keep_interval(&self) -> Duration {
        self.keep_every
    }

    fn keep<'a>(&'a mut self, held: &'a [Placed]) -> Wait<'a, Result<Vec<Placed>, StoreError>> {
        Box::pin(async {
            let live = self.live()?;
            let naming = self.naming.clone();
            let missing = naming.while_live(&live, self.missing(&live, held)).await?;
            if self.missed.stays_missing(missing.iter().map(|placed| placed.path.clone())) {
                live.give_up();
                return Err(StoreError::Away);
            }
            Ok(missing)
        })
    }

    fn put<'a>(&'a mut self, entry: &'a Placed) -> Wait<'a, Result<(), StoreError>> {
        Box::pin(async {
            let live = self.live()?;
            // Instances need not wait for documents.
            let away = || StoreError::Failed("Nacos' documents are away".to_owned());
            let failed = |error: NacosError| StoreError::Failed(error.to_string());
            match &entry.value {
                Value::Member(name) => {
                    let key = ConfigKey { group: MAPPING.into(), data_id: entry.path.clone() };
                    let documents = self.documents.current().ok_or_else(away)?;
                    rule::join(&documents, &key, name).await.map_err(failed)
                }
                Value::Document(text) => {
                    let documents = self.documents.current().ok_or_else(away)?;
                    rule::write(&documents, &entry.path, text).await.map_err(failed)
                }
                Value::Text(text) => {
                    let Some((service, instance)) = unplaced(text) else {
                        return Err(StoreError::Failed(format!("{} is no instance", entry.path)));
                    };
                    let naming = self.naming.clone();
                    let write = self.write(&live, &entry.path, service, instance);
                    Ok(naming.while_live(&live, write).await?)
                }
                // Nothing of ours is placed like this.
                Value::Weight(_) | Value::SessionId => Ok(()),
            }
        })
    }

    fn remove<'a>(&'a mut self, entry: &'a Placed) -> Wait<'a, Result<(), StoreError>> {
        Box::pin(async {
            let live = self.live()?;
            // Other instances of the application may need a mapping, or metadata: they stay.
            let Value::Text(text) = &entry.value else { return Ok(()) };
            let Some((service, _)) = unplaced(text) else { return Ok(()) };
            let naming = self.naming.clone();
            let delete = self.delete(&live, &entry.path, service);
            Ok(naming.while_live(&live, delete).await?)
        })
    }

    fn close(&mut self) -> Wait<'_, ()> {
        Box::pin(async {
            let Some(live) = self.naming.current() else { return };
            if !self.owner.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, &live)) {
                return;
            }
            // What is left ends with the connection, too, but not at once for those who look.
            for (service, instances) in std::mem::take(&mut self.registered) {
                let Some(instance) = instances.into_values().next() else { continue };
                let ask = Ask::Deregister(service, Box::new(instance));
                if let Err(error) = live.ask(&ask).await {
                    tracing::debug!(%error, "registrations end with their connection");
                    return;
                }
            }
        })
    }

    fn report(&mut self, error: &str) -> bool {
        self.naming.report(error)
    }
}

impl Drop for NacosSession {
    fn drop(&mut self) {
        self.connectors.iter().for_each(AbortHandle::abort);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_given_up_once_for_what_stays_missing() {
        let mut missed = Missed::default();
        let mut look = |paths: &[&str]| missed.stays_missing(paths.iter().map(ToString::to_string));
        assert!(!look(&["a"]), "it is written again");
        assert!(!look(&["b"]), "another one");
        assert!(!look(&[]));
        assert!(!look(&["a", "b"]));
        assert!(look(&["a", "b"]), "both were written again, in vain");
        assert!(!look(&["a", "b"]) && !look(&["a", "b"]), "a new connection did not help");
        assert!(!look(&["b"]), "one was there");
        assert!(!look(&["a", "b"]));
        assert!(look(&["a", "b"]));
    }
}
