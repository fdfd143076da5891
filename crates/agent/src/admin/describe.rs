//! `/describe`: what the agent's registries know of a service, whether it is called or not.

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use futures_util::future::join_all;
use registry::Registry;
use tokio::sync::Semaphore;

use super::NamedRegistry;
use crate::description::{self, Description};
use crate::inspect::MAX_LIMIT;
use crate::inspect::snapshot::Page;

/// How long each step of a look may take.
const PATIENCE: Duration = Duration::from_secs(4);
/// Looks at the same time: each watches the service in every registry, whatever its name.
const MAX_LOOKS: usize = 2;

/// Looks for services, a few at a time.
#[derive(Clone, Debug)]
pub struct Describer {
    registries: Arc<[NamedRegistry]>,
    seats: Arc<Semaphore>,
}

/// Why there is no answer.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum DescribeRefusal {
    /// The query is wrong.
    Query(String),
    /// Others are looking.
    Busy(String),
}

impl Describer {
    /// One that looks in these registries.
    #[must_use]
    pub fn new(registries: Arc<[NamedRegistry]>) -> Self {
        Self { registries, seats: Arc::new(Semaphore::new(MAX_LOOKS)) }
    }

    /// Describes the service that the query of a URL names, once for each registry that knows it;
    /// if none does, once for each.
    pub(super) async fn answer(&self, query: &str) -> Result<Page<Description>, DescribeRefusal> {
        let service = service_of(query).map_err(DescribeRefusal::Query)?;
        let Ok(_seat) = self.seats.try_acquire() else {
            let message = format!("{MAX_LOOKS} services are being looked for; ask again");
            return Err(DescribeRefusal::Busy(message));
        };
        let registries = self.registries.iter();
        let looks: Vec<_> = registries.map(|it| look(&it.registry, &it.name, &service)).collect();
        let mut items = join_all(looks).await;
        if items.iter().any(Description::is_known) {
            items.retain(Description::is_known);
        }
        // Of each, so that all are cut.
        let cut = items.iter_mut().filter_map(|item| item.cut(MAX_LIMIT).then_some(()));
        let truncated = 0 < cut.count();
        Ok(Page { total: items.len(), truncated, silent_workers: Vec::new(), items })
    }
}

async fn look(registry: &Registry, name: &str, service: &ServiceKey) -> Description {
    description::look(registry, name, service, PATIENCE).await.describe(service, name)
}

fn service_of(query: &str) -> Result<ServiceKey, String> {
    const FORM: &str = "write /describe?service=GROUP/INTERFACE:VERSION, where group and version \
                        may be missing, or * for any";
    let mut service = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "service" => service = Some(value.into_owned()),
            _ => return Err(format!("unknown parameter; {FORM}")),
        }
    }
    let service = service.ok_or(FORM)?;
    service.parse().map_err(|error| format!("service: {error}; {FORM}"))
}

#[cfg(test)]
mod tests {
    use registry::{MemoryHub, Registration, RegistryConfig};

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn no_more_endpoints_are_shown_than_on_other_pages() {
        let hub = MemoryHub::new();
        let registry = Registry::open(RegistryConfig::Memory(hub)).unwrap();
        let mut registered = Vec::new();
        for port in 1..=u16::try_from(MAX_LIMIT).unwrap() + 3 {
            let endpoint = registry::Endpoint::new(registry::Protocol::Dubbo, "h", port);
            let service = "a.B".parse().unwrap();
            let registration =
                Registration { service, endpoint, methods: Vec::new(), app_address: None };
            registered.push(registry.register(&registration).unwrap());
        }
        let describer = Describer::new(Arc::from([NamedRegistry {
            name: "main".to_owned(),
            kind: "memory",
            registry,
        }]));
        let page = describer.answer("service=a.B").await.unwrap();
        let [description] = &page.items[..] else { panic!("{page:?}") };
        assert_eq!((description.endpoints.len(), description.endpoints_left_out), (MAX_LIMIT, 3));
        assert!(page.truncated);
    }

    #[tokio::test]
    async fn a_few_look_at_the_same_time() {
        let describer = Describer::new(Arc::from([]));
        let found = describer.answer("service=g/a.B:1.0").await.unwrap();
        assert_eq!(found.total, 0, "there is no registry");
        let seats = describer.seats.clone().try_acquire_many_owned(2).unwrap();
        let refused = describer.answer("service=a.B").await.unwrap_err();
        assert!(matches!(refused, DescribeRefusal::Busy(_)), "{refused:?}");
        drop(seats);
        assert!(describer.answer("service=a.B").await.is_ok());
    }
}
