//! The services that Nacos holds.
//!
//! The names of all services are listed every few seconds while somebody asks. Whether an
//! application offers an interface is asked for each interface that is not among them.

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use nacos_proto::{Ask, ConfigKey};
use tokio::time::Instant;
use wire::Backoff;

use crate::directory::{Directory, Presence};
use crate::index::{IndexReader, IndexTask, ServiceIndex, ServiceList};
use crate::on_demand::Progress;

use super::connection::{Live, SharedConnection};
use super::error::NacosError;
use super::names;
use super::rule::MAPPING;

/// Names in each page of the list of services.
const PAGE_LEN: u32 = 1000;

/// The most pages: a registry of more services is not asked for its services.
const MAX_PAGES: u32 = 100;

/// How often the list is read while somebody asks.
const READ_EVERY: Duration = Duration::from_secs(2);

/// The names of all services in a group.
pub(super) async fn list_names(live: &Live, group: &str) -> Result<Vec<String>, NacosError> {
    let mut all = Vec::new();
    for page in 1..=MAX_PAGES {
        let ask = Ask::List { group: group.to_owned(), page, page_len: PAGE_LEN };
        let names = live.ask(&ask).await?.service_names().map_err(Live::bad(ask.words()))?;
        let n_new = names.names.len();
        all.extend(names.names);
        if n_new == 0 || names.n_all <= all.len() {
            break;
        }
    }
    Ok(all)
}

/// A handle on the task.
pub(super) type NacosIndex = ServiceIndex<NacosReader, Live>;

/// The services of all names. It is looked up whether an application offers another interface.
#[derive(Default)]
pub(super) struct NacosServices(Directory);

impl ServiceList for NacosServices {
    /// Whether some application offers it. Only the applications know which versions and groups.
    type Answer = bool;

    fn is_full(&self) -> bool {
        self.0.is_full()
    }

    fn presence(&self, wanted: &ServiceKey, _: Progress) -> Option<Presence> {
        self.0.offers(wanted).then_some(Presence::Offered)
    }

    fn offers(is_mapped: &bool, _: &ServiceKey) -> bool {
        *is_mapped
    }

    /// Those that are registered at interface level: Nacos does not list documents, and so not the
    /// mappings either.
    fn interfaces(&self) -> Vec<String> {
        self.0.interfaces()
    }
}

/// Reads names and mappings.
#[derive(Clone)]
pub(super) struct NacosReader {
    pub(super) group: String,
    pub(super) documents: SharedConnection,
}

impl IndexReader<Live> for NacosReader {
    type List = NacosServices;
    type Error = NacosError;

    async fn read_and_watch(
        &self,
        live: &Arc<Live>,
        index: &IndexTask<NacosServices>,
        backoff: &mut Backoff,
    ) -> Result<(), NacosError> {
        loop {
            let mut directory = Directory::default();
            for name in list_names(live, &self.group).await? {
                names::note(&name, &mut directory);
            }
            index.take(NacosServices(directory));
            backoff.reset();
            let read_again_at = Instant::now() + READ_EVERY;
            loop {
                tokio::select! {
                    () = tokio::time::sleep_until(read_again_at) => break,
                    () = index.wanted() => self.look(index).await,
                    () = index.idle() => return Ok(()),
                }
            }
        }
    }
}

impl NacosReader {
    /// Reads the mappings that somebody waits for. One that cannot be read counts as there: its
    /// subscriber learns why.
    async fn look(&self, index: &IndexTask<NacosServices>) {
        while let Some(interface) = index.next() {
            let is_mapped = match self.documents.live_within_timeout().await {
                Some(live) => {
                    let key =
                        ConfigKey { group: MAPPING.to_owned(), data_id: interface.to_string() };
                    match live.try_ask(&Ask::Document(key)).await {
                        Ok(Err(refusal)) => !refusal.is_not_found(),
                        Ok(Ok(_)) | Err(_) => true,
                    }
                }
                None => true,
            };
            index.answer(interface, is_mapped);
        }
    }
}
