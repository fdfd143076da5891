//! Services whose endpoints are told once, and never change.

use dubbo_proto::ServiceKey;
use tokio::sync::watch;

use crate::config::StaticService;
use crate::definitions::Away;
use crate::directory::Presence;
use crate::endpoint::{Freshness, Registration};
use crate::error::RegistryError;
use crate::file::parse_endpoint;
use crate::status::RegistryStatus;
use crate::store::{Store, Wait, Watch, Withdraw};
use crate::table::{Table, TableWatch};

/// A list that does not change.
#[derive(Debug)]
pub(crate) struct FixedRegistry {
    table: watch::Sender<Table>,
    status: watch::Sender<RegistryStatus>,
}

impl FixedRegistry {
    pub(crate) fn open(services: &[StaticService]) -> Result<Self, RegistryError> {
        let (mut rows, mut leftovers) = (Vec::new(), Vec::new());
        for StaticService { service, endpoints } in services {
            for text in endpoints {
                let parsed = parse_endpoint(service, text);
                let parsed = parsed.map_err(|reason| RegistryError::BadEndpoint { reason })?;
                match parsed {
                    Ok(row) => rows.push(row),
                    Err(leftover) => leftovers.push((service.interface.clone(), leftover)),
                }
            }
        }
        Ok(Self {
            table: watch::Sender::new(Table::new(Freshness::Current, rows, leftovers)),
            status: watch::Sender::new(RegistryStatus::new(true)),
        })
    }
}

impl Store for FixedRegistry {
    fn status(&self) -> watch::Receiver<RegistryStatus> {
        self.status.subscribe()
    }

    fn watch(&self, wanted: &ServiceKey) -> Box<dyn Watch> {
        Box::new(TableWatch::new(self.table.subscribe(), wanted))
    }

    fn register(
        &self,
        _registration: &Registration,
    ) -> Result<(watch::Receiver<bool>, Withdraw), RegistryError> {
        Err(RegistryError::Fixed)
    }

    fn presence(&self, wanted: &ServiceKey) -> Presence {
        self.table.borrow().presence(wanted)
    }

    fn interfaces(&self) -> Wait<'_, Result<Vec<String>, Away>> {
        Box::pin(std::future::ready(self.table.borrow().interfaces()))
    }
}
