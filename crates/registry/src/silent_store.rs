//! A store for tests that says nothing, unless the test says it.

use std::time::Duration;

use dubbo_proto::ServiceKey;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::definitions::{Away, Definitions};
use crate::directory::Presence;
use crate::endpoint::Registration;
use crate::error::RegistryError;
use crate::registry::Registry;
use crate::status::{RegistryStatus, StatusSender, note};
use crate::store::{DocumentNews, News, RuleWatch, Store, StoreError, Wait, Watch, Withdraw};

/// What the store says.
#[derive(Clone, Debug)]
pub(crate) struct SilentStore {
    pub(crate) status: StatusSender,
    /// Every document with rules.
    pub(crate) rule: watch::Sender<Option<String>>,
}

impl SilentStore {
    /// A registry over a store that is connected.
    pub(crate) fn open() -> (Self, Registry) {
        let status = watch::Sender::new(RegistryStatus::new(true));
        let store = Self { status, rule: watch::Sender::default() };
        let definitions = Definitions::new(crate::DefinitionSources::default());
        let registry =
            Registry::over(Box::new(store.clone()), Handle::current(), definitions, None);
        (store, registry)
    }

    pub(crate) fn go_away(&self) {
        note(&self.status, false, Some("refused".to_owned()));
    }
}

impl Store for SilentStore {
    fn status(&self) -> watch::Receiver<RegistryStatus> {
        self.status.subscribe()
    }

    fn watch(&self, _: &ServiceKey) -> Box<dyn Watch> {
        Box::new(Silent)
    }

    fn register(
        &self,
        _: &Registration,
    ) -> Result<(watch::Receiver<bool>, Withdraw), RegistryError> {
        Err(RegistryError::Fixed)
    }

    fn presence(&self, _: &ServiceKey) -> Presence {
        Presence::Unknown
    }

    /// Nobody gives up in the time of a test, unless there is a reason.
    fn rules_patience(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn rule(&self, _: &str) -> Option<Box<dyn RuleWatch>> {
        Some(Box::new(SilentRule(self.rule.subscribe())))
    }

    fn interfaces(&self) -> Wait<'_, Result<Vec<String>, Away>> {
        Box::pin(std::future::pending())
    }
}

struct Silent;

impl Watch for Silent {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(std::future::ready(true))
    }

    fn next(&mut self) -> Wait<'_, Result<News, StoreError>> {
        Box::pin(std::future::pending())
    }

    fn report(&mut self, _: &str) -> bool {
        false
    }
}

struct SilentRule(watch::Receiver<Option<String>>);

impl RuleWatch for SilentRule {
    fn ready(&mut self) -> Wait<'_, bool> {
        Box::pin(std::future::ready(true))
    }

    fn next(&mut self) -> Wait<'_, Result<DocumentNews, StoreError>> {
        Box::pin(async {
            self.0.changed().await.map_err(|_| StoreError::Away)?;
            Ok(DocumentNews::Changed(self.0.borrow_and_update().clone()))
        })
    }
}
