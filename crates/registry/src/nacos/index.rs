//! The services that Nacos holds, for names that may be made up.
//!
//! A subscription for each such name would cost Nacos as much as callers like. The names of all
//! services are listed instead, every few seconds while somebody asks. Whether an application
//! offers an interface is asked for each interface that is not among them.

use std::sync::Arc;
use std::time::Duration;

use dubbo_proto::ServiceKey;
use nacos_proto::{Ask, ConfigKey};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use wire::Backoff;

use crate::definitions::Away;
use crate::directory::{Directory, Presence};
use crate::lookups::Lookups;
use crate::on_demand::{self, LastAsked, OnDemand, Progress};

use super::connection::{Live, NacosError, SharedConnection};
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
#[derive(Debug)]
pub(super) struct NacosIndex {
    group: String,
    naming: SharedConnection,
    documents: SharedConnection,
    state: watch::Sender<KnownServices>,
    /// Somebody waits for a mapping.
    wanted: Arc<Notify>,
    task: OnDemand,
}

#[derive(Debug, Default)]
struct KnownServices {
    progress: Progress,
    directory: Directory,
    /// Whether some application offers an interface.
    lookups: Lookups<bool>,
}

impl KnownServices {
    fn presence(&self, wanted: &ServiceKey, now: Instant) -> Presence {
        if self.progress == Progress::Reading {
            return Presence::Asking;
        }
        if self.directory.is_full() {
            return Presence::Unknown;
        }
        if self.directory.offers(wanted) {
            return Presence::Offered;
        }
        // Only the applications know which versions and groups.
        let interface = wanted.interface.as_str();
        self.lookups.presence(interface, now, self.progress, |is_mapped| *is_mapped)
    }
}

impl NacosIndex {
    pub(super) fn new(group: &str, naming: SharedConnection, documents: SharedConnection) -> Self {
        let (state, wanted, task) = Default::default();
        Self { group: group.to_owned(), naming, documents, state, wanted, task }
    }

    /// What is known of a service now.
    pub(super) fn presence(&self, wanted: &ServiceKey, runtime: &Handle) -> Presence {
        self.keep_running(runtime);
        let (presence, is_read) = {
            let state = self.state.borrow();
            (state.presence(wanted, Instant::now()), state.progress != Progress::Reading)
        };
        if presence == Presence::Asking && is_read {
            let interface = wanted.interface.as_str();
            self.state.send_if_modified(|state| state.lookups.ask(interface));
            self.wanted.notify_one();
        }
        presence
    }

    /// Waits until [`presence`](Self::presence) need not say that it is asking.
    pub(super) async fn settled(&self) {
        let mut state = self.state.subscribe();
        let is_settled = |state: &KnownServices| state.lookups.is_settled(state.progress);
        let _ends_with_the_registry = state.wait_for(is_settled).await;
    }

    /// The interfaces that are registered at interface level: Nacos does not list documents, and
    /// so not the mappings either.
    pub(super) async fn interfaces(&self, runtime: &Handle) -> Result<Vec<String>, Away> {
        self.keep_running(runtime);
        self.settled().await;
        let state = self.state.borrow();
        match state.progress {
            _ if state.directory.is_full() => Err(Away("it has too many services".to_owned())),
            Progress::Current => Ok(state.directory.interfaces()),
            Progress::Reading | Progress::Stale => Err(self.naming.away()),
        }
    }

    fn keep_running(&self, runtime: &Handle) {
        self.task.keep_running(runtime, |asked| {
            let _ = self.state.send_replace(KnownServices::default());
            let reader = IndexReader {
                group: self.group.clone(),
                documents: self.documents.clone(),
                state: self.state.clone(),
                wanted: Arc::clone(&self.wanted),
                asked: Arc::clone(&asked),
            };
            on_demand::run(reader, self.naming.clone(), asked)
        });
    }
}

struct IndexReader {
    group: String,
    documents: SharedConnection,
    state: watch::Sender<KnownServices>,
    wanted: Arc<Notify>,
    asked: Arc<LastAsked>,
}

impl on_demand::Reader<Live> for IndexReader {
    type Error = NacosError;

    fn set_stale(&self) {
        self.state.send_if_modified(|state| {
            let KnownServices { progress, lookups, .. } = state;
            lookups.set_stale(progress)
        });
    }

    async fn read_and_watch(
        &self,
        live: &Arc<Live>,
        backoff: &mut Backoff,
    ) -> Result<(), NacosError> {
        loop {
            let mut directory = Directory::default();
            for name in list_names(live, &self.group).await? {
                names::note(&name, &mut directory);
            }
            self.state.send_modify(|state| {
                (state.progress, state.directory) = (Progress::Current, directory);
            });
            backoff.reset();
            let read_again_at = Instant::now() + READ_EVERY;
            loop {
                tokio::select! {
                    () = tokio::time::sleep_until(read_again_at) => break,
                    () = self.wanted.notified() => self.look().await,
                    () = self.asked.idle() => return Ok(()),
                }
            }
        }
    }
}

impl IndexReader {
    /// Reads the mappings that somebody waits for. One that cannot be read counts as there: its
    /// subscriber learns why.
    async fn look(&self) {
        loop {
            let next = self.state.borrow().lookups.next();
            let Some(interface) = next else { return };
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
            let at = Instant::now();
            self.state.send_modify(|state| state.lookups.answer(interface, at, is_mapped));
        }
    }
}
