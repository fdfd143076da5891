//! The registry inside one process: a hub that hands registrations to subscriptions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dubbo_proto::ServiceKey;
use tokio::sync::watch;

use crate::address;
use crate::definitions::Away;
use crate::directory::Presence;
use crate::endpoint::{Freshness, Registration};
use crate::error::RegistryError;
use crate::status::{RegistryStatus, StatusSender};
use crate::store::{DocumentNews, RuleWatch, Store, StoreError, Wait, Watch, Withdraw};
use crate::table::{Row, Table, TableWatch};

/// Everything that is registered in one process. Clones share it.
#[derive(Clone, Debug)]
pub struct MemoryHub {
    table: watch::Sender<Table>,
    rules: watch::Sender<BTreeMap<String, String>>,
    next_id: Arc<AtomicU64>,
}

impl Default for MemoryHub {
    fn default() -> Self {
        let table = Table::new(Freshness::Current, Vec::new(), Vec::new());
        Self {
            table: watch::Sender::new(table),
            rules: watch::Sender::default(),
            next_id: Arc::default(),
        }
    }
}

impl MemoryHub {
    /// A hub without services.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The URLs of all that is registered now.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.table.borrow().rows().iter().map(|row| row.url.clone()).collect()
    }

    /// Puts a document with rules into the hub's configuration; `None` removes it.
    pub fn set_rule(&self, name: &str, text: Option<&str>) {
        self.rules.send_modify(|rules| match text {
            Some(text) => drop(rules.insert(name.to_owned(), text.to_owned())),
            None => drop(rules.remove(name)),
        });
    }

    /// Returns the number under which `remove` finds it.
    fn insert(&self, registration: &Registration) -> u64 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let interface = registration.service.interface.clone();
        // Through the form of a URL, so that what is said and what is not is the same everywhere.
        let url = address::url(registration);
        let text = url.to_string();
        if let Some(listing) = address::listing(url) {
            let row = Row { id, interface, listing: listing.into(), url: text };
            self.table.send_modify(|table| table.push(row));
        }
        id
    }

    fn remove(&self, id: u64) {
        self.table.send_modify(|table| table.remove(id));
    }
}

/// A hub as a store.
#[derive(Debug)]
pub(crate) struct MemoryRegistry {
    hub: MemoryHub,
    status: StatusSender,
}

impl MemoryRegistry {
    pub(crate) fn open(hub: MemoryHub) -> Self {
        Self { hub, status: watch::Sender::new(RegistryStatus::new(true)) }
    }
}

impl Store for MemoryRegistry {
    fn status(&self) -> watch::Receiver<RegistryStatus> {
        self.status.subscribe()
    }

    fn watch(&self, wanted: &ServiceKey) -> Box<dyn Watch> {
        Box::new(TableWatch::new(self.hub.table.subscribe(), wanted))
    }

    fn register(
        &self,
        registration: &Registration,
    ) -> Result<(watch::Receiver<bool>, Withdraw), RegistryError> {
        let (id, hub) = (self.hub.insert(registration), self.hub.clone());
        let withdraw: Withdraw = Box::new(move |done| {
            hub.remove(id);
            let _ = done.send(());
        });
        Ok((watch::channel(true).1, withdraw))
    }

    fn presence(&self, wanted: &ServiceKey) -> Presence {
        self.hub.table.borrow().presence(wanted)
    }

    fn rule(&self, name: &str) -> Option<Box<dyn RuleWatch>> {
        let rules = self.hub.rules.subscribe();
        Some(Box::new(MemoryRule { rules, name: name.to_owned() }))
    }

    fn interfaces(&self) -> Wait<'_, Result<Vec<String>, Away>> {
        Box::pin(std::future::ready(self.hub.table.borrow().interfaces()))
    }
}

struct MemoryRule {
    rules: watch::Receiver<BTreeMap<String, String>>,
    name: String,
}

impl RuleWatch for MemoryRule {
    fn known(&mut self) -> Option<Option<String>> {
        Some(self.rules.borrow_and_update().get(&self.name).cloned())
    }

    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(std::future::ready(self.rules.has_changed().is_ok()))
    }

    fn next(&mut self) -> Wait<'_, Result<DocumentNews, StoreError>> {
        Box::pin(async {
            self.rules.changed().await.map_err(|_| StoreError::Away)?;
            Ok(DocumentNews::Changed(self.rules.borrow_and_update().get(&self.name).cloned()))
        })
    }
}
