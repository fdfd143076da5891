//! Services whose endpoints are told by the configuration, and change only with it.

use dubbo_proto::ServiceKey;
use tokio::sync::watch;

use crate::definitions::Away;
use crate::directory::Presence;
use crate::endpoint::{Registration, StaticService};
use crate::error::RegistryError;
use crate::file::parse_endpoint;
use crate::status::RegistryStatus;
use crate::store::{Store, Wait, Watch, Withdraw};
use crate::table::{Table, TableWatch};

/// A list that changes only when it is told anew.
#[derive(Debug)]
pub(crate) struct FixedRegistry {
    table: watch::Sender<Table>,
    status: watch::Sender<RegistryStatus>,
}

impl FixedRegistry {
    pub(crate) fn open(services: &[StaticService]) -> Result<Self, RegistryError> {
        Ok(Self {
            table: watch::Sender::new(table(services)?),
            status: watch::Sender::new(RegistryStatus::new(true)),
        })
    }
}

/// The list as a table, in its order.
fn table(services: &[StaticService]) -> Result<Table, RegistryError> {
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
    Ok(Table::written(rows, leftovers))
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

    fn replace_list(&self, new: &[StaticService]) -> Result<bool, RegistryError> {
        self.table.send_replace(table(new)?);
        Ok(true)
    }

    fn presence(&self, wanted: &ServiceKey) -> Presence {
        self.table.borrow().presence(wanted)
    }

    fn interfaces(&self) -> Wait<'_, Result<Vec<String>, Away>> {
        Box::pin(std::future::ready(self.table.borrow().interfaces()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::News;

    fn list(endpoints: &[&str]) -> Vec<StaticService> {
        let endpoints = endpoints.iter().map(|&text| text.to_owned()).collect();
        vec![StaticService { service: "a.B".parse().unwrap(), endpoints }]
    }

    #[tokio::test]
    async fn a_list_told_anew_reaches_its_watches() {
        let registry = FixedRegistry::open(&list(&["dubbo://10.0.0.1:1"])).unwrap();
        let mut watch = registry.watch(&"a.B".parse().unwrap());
        assert_eq!(watch.known().unwrap().items.len(), 1);
        let two = list(&["dubbo://10.0.0.2:1", "dubbo://10.0.0.3:1"]);
        assert!(registry.replace_list(&two).unwrap());
        let Ok(News::Whole { items, history_lost: false, .. }) = watch.next().await else {
            panic!("no whole list");
        };
        assert_eq!(items.len(), 2);
        // What is wrong changes nothing.
        assert!(registry.replace_list(&list(&["nonsense"])).is_err());
        assert_eq!(registry.presence(&"a.B".parse().unwrap()), Presence::Offered);
        assert!(registry.replace_list(&[]).unwrap());
        assert_eq!(registry.presence(&"a.B".parse().unwrap()), Presence::Absent);
    }
}
