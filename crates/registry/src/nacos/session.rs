//! The instances of this process in Nacos, which go with their connection.
//!
//! A server keeps one instance for each connection and service, unless several are registered at
//! once: what is added to a service is registered together with what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nacos_proto::{Ask, ConfigKey, Instance, ServiceName};

use crate::layout::{Placed, Value};
use crate::lent::SessionKeeper;

use super::connection::{Live, SharedConnection};
use super::error::NacosError;
use super::offers::unplaced;
use super::rule::{self, MAPPING};

pub(super) struct NacosSession {
    documents: SharedConnection,
    /// By service, and by the path of each instance.
    registered: BTreeMap<ServiceName, BTreeMap<String, Instance>>,
    missed: Missed,
    keep_every: Duration,
}

impl NacosSession {
    pub(super) fn new(documents: &SharedConnection, keep_every: Duration) -> Self {
        let (registered, missed) = Default::default();
        Self { documents: documents.clone(), registered, missed, keep_every }
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

    /// Writes a document, or adds to one. Instances need not wait for that.
    async fn write_document(&self, entry: &Placed) -> Result<(), NacosError> {
        let Some(documents) = self.documents.current() else {
            return Err(NacosError::Unwritten("Nacos' documents are away".to_owned()));
        };
        let written = match &entry.value {
            Value::Member(name) => {
                let key = ConfigKey { group: MAPPING.into(), data_id: entry.path.clone() };
                rule::join(&documents, &key, name).await
            }
            Value::Document(text) => rule::write(&documents, &entry.path, text).await,
            Value::Weight(_) | Value::SessionId | Value::Text(_) => Ok(()),
        };
        written.map_err(|error| NacosError::Unwritten(error.to_string()))
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

impl SessionKeeper for NacosSession {
    type Live = Live;
    type Error = NacosError;

    fn goes_on(old: &Live, new: &Live) -> bool {
        std::ptr::eq(old, new)
    }

    fn handle_end(&mut self) {
        self.registered.clear();
        self.missed.now.clear();
    }

    fn keep_interval(&self, _: Option<&Live>) -> Duration {
        self.keep_every
    }

    async fn keep(&mut self, live: &Live, held: &[Placed]) -> Result<Vec<Placed>, NacosError> {
        let missing = self.missing(live, held).await?;
        if self.missed.stays_missing(missing.iter().map(|placed| placed.path.clone())) {
            live.give_up();
            return Err(NacosError::Lost);
        }
        Ok(missing)
    }

    async fn put(&mut self, live: &Live, entry: &Placed) -> Result<(), NacosError> {
        match &entry.value {
            Value::Member(_) | Value::Document(_) => self.write_document(entry).await,
            Value::Text(text) => match unplaced(text) {
                Some((service, instance)) => self.write(live, &entry.path, service, instance).await,
                None => Err(NacosError::Unwritten(format!("{} is no instance", entry.path))),
            },
            // Nothing of ours is placed like this.
            Value::Weight(_) | Value::SessionId => Ok(()),
        }
    }

    async fn remove(&mut self, live: &Live, entry: &Placed) -> Result<(), NacosError> {
        // Other instances of the application may need a mapping, or metadata: they stay.
        let Value::Text(text) = &entry.value else { return Ok(()) };
        let Some((service, _)) = unplaced(text) else { return Ok(()) };
        self.delete(live, &entry.path, service).await
    }

    /// What is left ends with the connection, too, but not at once for those who look.
    async fn close(&mut self, live: &Live) -> Result<(), NacosError> {
        for (service, instances) in std::mem::take(&mut self.registered) {
            let Some(instance) = instances.into_values().next() else { continue };
            live.ask(&Ask::Deregister(service, Box::new(instance))).await?;
        }
        Ok(())
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
