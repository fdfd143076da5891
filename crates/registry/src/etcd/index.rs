//! The services that etcd holds, read and watched as a whole while somebody asks for names that
//! may be made up.
//!
//! A watch for each such name would cost etcd as much as callers like. This one costs a range of
//! keys and one watch, whatever they ask for. It begins with the first question, and ends when
//! there was none for a while.

use std::sync::Arc;

use dubbo_proto::ServiceKey;
use etcd_client::{EventType, GetOptions, WatchFilterType, WatchOptions};
use tokio::runtime::Handle;
use tokio::sync::watch;
use wire::Backoff;

use crate::definitions::Away;
use crate::directory::{Directory, Presence};
use crate::layout::Paths;
use crate::on_demand::{self, LastAsked, OnDemand, Progress};

use super::connection::{EtcdError, Live, SharedConnection};
use super::stream::{MAX_MESSAGE_LEN, Range};

/// Keys of one answer; those of Java providers have about a kilobyte.
const PAGE_LEN: i64 = 4000;

/// Keys that are read at most: a registry of more is not asked for its services.
const MAX_KEYS: usize = 500_000;

/// A handle on the task.
#[derive(Debug)]
pub(super) struct EtcdIndex {
    paths: Paths,
    /// The folder of mappings, if there are any.
    mappings: Option<String>,
    connection: SharedConnection,
    state: watch::Sender<KnownServices>,
    task: OnDemand,
}

#[derive(Debug, Default)]
struct KnownServices {
    progress: Progress,
    directory: Directory,
}

impl EtcdIndex {
    pub(super) fn new(
        paths: Paths,
        mappings: Option<String>,
        connection: SharedConnection,
    ) -> Self {
        let (state, task) = Default::default();
        Self { paths, mappings, connection, state, task }
    }

    /// What is known of a service now.
    pub(super) fn presence(&self, wanted: &ServiceKey, runtime: &Handle) -> Presence {
        self.keep_running(runtime);
        let state = self.state.borrow();
        match state.progress {
            Progress::Reading => Presence::Asking,
            _ if state.directory.is_full() => Presence::Unknown,
            _ if state.directory.offers(wanted) => Presence::Offered,
            Progress::Current => Presence::Absent,
            Progress::Stale => Presence::Unknown,
        }
    }

    /// Waits until [`presence`](Self::presence) need not say that it is asking.
    pub(super) async fn settled(&self) {
        let mut state = self.state.subscribe();
        let _ends_with_the_registry =
            state.wait_for(|state| state.progress != Progress::Reading).await;
    }

    /// The interfaces that etcd has.
    pub(super) async fn interfaces(&self, runtime: &Handle) -> Result<Vec<String>, Away> {
        self.keep_running(runtime);
        self.settled().await;
        let state = self.state.borrow();
        match state.progress {
            _ if state.directory.is_full() => Err(Away("it has too many services".to_owned())),
            Progress::Current => Ok(state.directory.interfaces()),
            Progress::Reading | Progress::Stale => Err(self.connection.lent.away()),
        }
    }

    fn keep_running(&self, runtime: &Handle) {
        self.task.keep_running(runtime, |asked| {
            let _ = self.state.send_replace(KnownServices::default());
            let reader = IndexReader {
                paths: self.paths.clone(),
                mappings: self.mappings.as_ref().map(|folder| format!("{folder}/")),
                connection: self.connection.clone(),
                state: self.state.clone(),
                asked: Arc::clone(&asked),
            };
            on_demand::run(reader, self.connection.lent.clone(), asked)
        });
    }
}

struct IndexReader {
    paths: Paths,
    /// What the keys of mappings begin with.
    mappings: Option<String>,
    connection: SharedConnection,
    state: watch::Sender<KnownServices>,
    asked: Arc<LastAsked>,
}

impl on_demand::Reader<Live> for IndexReader {
    type Error = EtcdError;

    fn set_stale(&self) {
        let stale = Progress::Stale;
        self.state.send_if_modified(|state| std::mem::replace(&mut state.progress, stale) != stale);
    }

    async fn read_and_watch(
        &self,
        live: &Arc<Live>,
        backoff: &mut Backoff,
    ) -> Result<(), EtcdError> {
        let revision = self.read(live).await?;
        backoff.reset();
        let options = WatchOptions::new().with_prefix().with_start_revision(revision + 1);
        let options = options.with_filters([WatchFilterType::NoDelete]).with_fragment();
        let keys = [Some(self.prefix()), self.other_prefix().map(str::to_owned)];
        let range = |key| Range { key, options: options.clone() };
        let mut open = live.watches().open(keys.into_iter().flatten().map(range).collect()).await?;
        loop {
            let message = tokio::select! {
                message = open.message() => message?,
                () = self.asked.idle() => return Ok(()),
            };
            let puts = message.events().iter().filter(|it| it.event_type() == EventType::Put);
            self.state.send_modify(|state| {
                for kv in puts.filter_map(|event| event.kv()) {
                    self.note(kv.key(), &mut state.directory);
                }
            });
        }
    }
}

impl IndexReader {
    /// What all keys begin with.
    fn prefix(&self) -> String {
        format!("{}/", self.paths.root())
    }

    /// That of mappings, if they are elsewhere.
    fn other_prefix(&self) -> Option<&str> {
        self.mappings.as_deref().filter(|mappings| !mappings.starts_with(&self.prefix()))
    }

    fn note(&self, key: &[u8], directory: &mut Directory) {
        let mapping = self.mappings.as_deref().map(str::as_bytes);
        match mapping.and_then(|mappings| std::str::from_utf8(key.strip_prefix(mappings)?).ok()) {
            // Only the applications know which versions and groups.
            Some(interface) => directory.add(interface, None),
            None => self.paths.note(key, directory),
        }
    }

    /// Reads all keys at one revision, and returns it.
    async fn read(&self, live: &Live) -> Result<i64, EtcdError> {
        let (mut revision, mut directory) = (0, Directory::default());
        for prefix in [Some(&*self.prefix()), self.other_prefix()].into_iter().flatten() {
            revision = self.read_below(live, prefix, revision, &mut directory).await?;
        }
        self.state.send_replace(KnownServices { progress: Progress::Current, directory });
        Ok(revision)
    }

    /// Reads the keys that begin with `prefix`, at `revision` unless that is 0.
    async fn read_below(
        &self,
        live: &Live,
        prefix: &str,
        mut revision: i64,
        directory: &mut Directory,
    ) -> Result<i64, EtcdError> {
        let mut client = live.kv_client().max_decoding_message_size(MAX_MESSAGE_LEN);
        let (mut from, mut n_keys) = (prefix.as_bytes().to_vec(), 0);
        let end = end_of_prefix(&from);
        loop {
            let options = GetOptions::new()
                .with_range(end.clone())
                .with_keys_only()
                .with_limit(PAGE_LEN)
                .with_revision(revision);
            let get = client.get(from, Some(options));
            let answer = self.connection.request("reading the list of services", get).await?;
            revision = answer.header().map_or(revision, |header| match revision {
                0 => header.revision(),
                revision => revision,
            });
            for kv in answer.kvs() {
                self.note(kv.key(), directory);
            }
            n_keys += answer.kvs().len();
            if MAX_KEYS < n_keys {
                *directory = Directory::full();
            }
            match answer.kvs().last().filter(|_| answer.more() && !directory.is_full()) {
                Some(last) => from = [last.key(), &[0]].concat(),
                None => break,
            }
        }
        Ok(revision)
    }
}

/// The first key after all that begin with `prefix`, which ends with a slash.
fn end_of_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}
